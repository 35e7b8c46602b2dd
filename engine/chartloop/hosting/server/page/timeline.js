// The steps of a run, a line each, the newest last.
//
// Belongs here: the list and what is chosen in it. Never: what a step did in full (`step.js`).

import { h, text } from "./parts.js";
import { count } from "./words.js";

const MOST = 400; // lines of a run that is followed
const SPARE = 100; // lines more, before some leave at once

/** A state as people know it: its label first, and its id small; its id alone where the file gives no label. */
export function named(state, labels = {}) {
  return labels[state] ? [labels[state], " ", text("small", state, "id")] : [state];
}

export class Timeline {
  /** `choose(seq)` is told the step that was pressed, `older(before)` and `newer(after)` ask for those beside one. */
  constructor({ choose, older, newer }) {
    this.choose = choose;
    this.labels = {}; // of states, by id
    this.apart = false; // it shows steps far from the newest
    this.later = h("button", { type: "button", className: "cl-link", hidden: true, textContent: "newer steps", on: { click: () => newer(this.last) } });
    this.records = new Map(); // by number, in order
    this.more = h("button", { type: "button", className: "cl-link", hidden: true, on: { click: () => older(this.first) } });
    this.list = h("ol", { className: "steps" });
    this.root = h("div", { className: "cl-scroll timeline", attrs: { role: "region", "aria-label": "Steps", tabindex: "0" } }, this.more, this.list, this.later);
  }

  get last() {
    return [...this.records.keys()].at(-1) ?? -1;
  }

  /** Steps far from the newest, in place of those that are shown; those beside them come by the buttons. */
  far(records, leftOut) {
    this.clear();
    this.append(records);
    this.count(leftOut);
    this.apart = true;
    this.later.hidden = false;
  }

  /** Newer steps, behind those that are shown; `rest` is how many are newer still. */
  near(records, rest) {
    this.append(records.filter(({ seq }) => seq > this.last));
    this.apart = rest > 0;
    this.later.hidden = !this.apart;
  }

  clear() {
    this.records.clear();
    this.list.replaceChildren();
    this.apart = false;
    this.later.hidden = true;
  }

  append(records) {
    for (const record of records) this.records.set(record.seq, record);
    this.list.append(...records.map((record) => this.line(record)));
  }

  get first() {
    return this.records.keys().next().value ?? 0;
  }

  /** The newest records; those that are shown stay as they are. */
  show(records, leftOut) {
    if (this.apart) return;
    const bottom = this.root.scrollHeight - this.root.scrollTop - this.root.clientHeight < 40;
    const known = this.records.size > 0;
    if (!known) this.count(leftOut);
    const newest = [...this.records.keys()].at(-1) ?? -1;
    if (known && records.length && records[0].seq > newest + 1) this.gap = true; // more came at once than are sent
    const fresh = records.filter(({ seq }) => !this.records.has(seq));
    if (this.gap) {
      this.gap = false;
      this.clear();
      this.count(leftOut);
    }
    this.append(fresh);
    this.thin(bottom);
    if (bottom || !known) this.root.scrollTop = this.root.scrollHeight;
  }

  /** Who follows a long run has its newest lines: older ones leave, and come again by the button. */
  thin(bottom) {
    const many = this.records.size - MOST;
    if (!bottom || many < SPARE) return;
    for (const seq of [...this.records.keys()].slice(0, many)) this.records.delete(seq);
    for (let left = many; left > 0; left -= 1) this.list.firstChild.remove();
    this.count(this.first);
  }

  /** Older records, before those that are shown. */
  add(records, leftOut) {
    const height = this.root.scrollHeight;
    this.records = new Map([...records.map((record) => [record.seq, record]), ...this.records]);
    this.list.prepend(...records.map((record) => this.line(record)));
    this.count(leftOut);
    this.root.scrollTop += this.root.scrollHeight - height;
  }

  count(leftOut) {
    this.more.hidden = !leftOut;
    this.more.textContent = `${count(leftOut)} older steps`;
  }

  line(record) {
    const { seq, kind, state, action, outcome, duration, path, because, failed } = record;
    const what = action || (kind === "step" || !state ? "" : kind);
    const made = h(
      "li", { className: failed ? "cl-failed" : "" },
      h(
        "button", { type: "button", on: { click: () => this.choose(seq) } },
        text("span", seq, "seq"), h("span", { className: "state" }, ...named(state || "start", this.labels)), text("span", what, "action"),
        text("span", outcome === "ok" ? "" : outcome, "cl-col-outcome"),
        text("span", path ? `→ ${this.way(path)}` : "", "path"), text("span", duration, "duration"),
        because ? text("span", because, "because") : null,
      ),
    );
    made.dataset.seq = seq;
    return made;
  }

  /** A path in labels. */
  way(path) {
    return path.split(" → ").map((state) => this.labels[state] ?? state).join(" → ");
  }

  mark(seq) {
    for (const line of this.list.children) {
      const chosen = line.dataset.seq === String(seq);
      line.classList.toggle("cl-chosen", chosen);
      if (chosen) line.firstChild.setAttribute("aria-current", "step");
      else line.firstChild.removeAttribute("aria-current");
    }
  }

  beside(seq, by) {
    const all = [...this.records.keys()];
    if (!all.length) return null;
    const at = all.indexOf(seq);
    return all[Math.max(0, Math.min(all.length - 1, at + by))];
  }

  /** The newest step that was done in a state. */
  find(state) {
    const found = [...this.records.values()].findLast((record) => record.state === state);
    if (found) this.choose(found.seq);
  }

  words(seq) {
    const { state, action, outcome, path } = this.records.get(seq) ?? {};
    return [this.labels[state] ?? state, action, outcome, path && `to ${this.way(path)}`].filter(Boolean).join(", ");
  }

  reveal(seq) {
    const line = [...this.list.children].find(({ dataset }) => dataset.seq === String(seq));
    if (!line) return;
    const [inner, outer] = [line.getBoundingClientRect(), this.root.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom) this.root.scrollTop += inner.top - outer.top - outer.height / 2;
  }
}
