// The children of a run: a table, and a bar for each on one axis of time, so that parallel work is seen.
//
// Belongs here: rows, bars, pages of a hundred. Never: which run it is.

import { get, query, runPath } from "./api.js";
import { now } from "./clock.js";
import { columns, h, part, scrolled, text } from "./parts.js";
import { Refresh } from "./refresh.js";
import { count, moment, money, span } from "./words.js";

const SPACE = "http://www.w3.org/2000/svg";
const WIDTH = 1_000; // of a bar's axis, in units of its own
const LEAST = 6; // of a bar, so that a short one is seen

export class Children {
  /** `choose(seq)` shows the step that started one. */
  constructor({ path, app, choose }) {
    Object.assign(this, { path, choose, pages: [""], known: "" });
    this.body = h("tbody", {});
    this.axis = text("span", "", "cl-muted");
    const go = (by) => ({ click: () => this.turn(by) });
    this.newer = h("button", { type: "button", className: "cl-link", textContent: "newer children", hidden: true, on: go(-1) });
    this.older = h("button", { type: "button", className: "cl-link", textContent: "older children", hidden: true, on: go(1) });
    const table = h("table", { className: "children" }, columns("child", "how it stands", "when", "tokens", "cost"), this.body);
    this.root = part("Children", this.axis, scrolled("", "Children", table), this.newer, " ", this.older);
    this.root.hidden = true;
    this.refresh = new Refresh((signal) => this.load(signal), { failed: (error) => app.fail(error), pace: 1_000 });
  }

  close() {
    this.refresh.close();
  }

  /** Loaded when something about the newest of them is new. */
  see(children) {
    this.root.hidden = children.length === 0;
    const known = JSON.stringify(children);
    if (!children.length || known === this.known) return;
    this.known = known;
    this.refresh.want();
  }

  turn(by) {
    if (by > 0) this.pages.push(this.next);
    else this.pages.pop();
    this.refresh.want();
  }

  async load(signal) {
    const { children, next } = await get(`${this.path}/children${query({ after: this.pages.at(-1) || null })}`, signal);
    this.next = next;
    this.older.hidden = !next;
    this.newer.hidden = this.pages.length === 1;
    const rows = children.toReversed(); // the oldest first, as they were begun
    const ends = rows.map((child) => (child.ended ? child.changed : Math.max(now(), child.begun)));
    const [first, last] = [Math.min(...rows.map(({ begun }) => begun)), Math.max(...ends)];
    this.axis.textContent = rows.length ? `${count(rows.length)}${next ? " of more" : ""}, over ${span(last - first)} from ${moment(first)}` : "";
    this.body.replaceChildren(...rows.map((child, place) => this.row(child, { first, last, end: ends[place] })));
  }

  row(child, { first, last, end }) {
    const { run, name, machine, task, label, seq, word, colour, sign, begun, tokens, cost, message } = child;
    const by = { type: "button", className: "cl-link", textContent: label, title: `step ${seq}`, on: { click: () => this.choose(seq) } };
    const phase = text("span", `${sign} ${word}`, "phase");
    phase.dataset.colour = colour;
    const took = span(end - begun);
    const who = h("div", {}, h("a", { href: runPath(run), textContent: name || machine, title: run }), text("span", " by ", "cl-muted"), seq === null ? text("span", label) : h("button", by));
    const said = message ? text("span", message, colour === "red" ? "child-message refused" : "child-message") : null;
    return h(
      "tr", {},
      h("th", { attrs: { scope: "row" } }, who, task ? text("span", task, "child-task") : null, said),
      h("td", {}, phase, text("div", took, "took")),
      h("td", { className: "child-bar" }, bar({ begun, end, first, last, colour, about: `${took}, begun ${span(begun - first)} after the first` })),
      text("td", tokens === null ? "" : count(tokens), "number tokens"), text("td", cost === null ? "" : money(cost), "number"),
    );
  }
}

function bar({ begun, end, first, last, colour, about }) {
  const scale = WIDTH / Math.max(0.001, last - first);
  const x = Math.min((begun - first) * scale, WIDTH - LEAST);
  const made = (tag, attrs) => {
    const element = document.createElementNS(SPACE, tag);
    for (const [name, value] of Object.entries(attrs)) element.setAttribute(name, value);
    return element;
  };
  const svg = made("svg", { viewBox: `0 0 ${WIDTH} 10`, preserveAspectRatio: "none", role: "img", "aria-label": about, class: "span-bar", "data-colour": colour });
  svg.append(made("rect", { x: 0, y: 4, width: WIDTH, height: 2, class: "rail" }), made("rect", { x, y: 0, width: Math.max(LEAST, Math.min((end - begun) * scale, WIDTH - x)), height: 10, class: "spent" }));
  return svg;
}

/** The children that one step started, as links, for the step's own part of the page. */
export function startedHere(children) {
  const line = ({ run, name, machine, sign, word, task }) =>
    h("li", {}, h("a", { href: runPath(run), textContent: name || machine, title: run }), text("span", ` ${sign} ${word} `, "phase"), text("span", task, "cl-muted"));
  return h("ul", { className: "started" }, ...children.map(line));
}
