// The inbox: every question that waits, in lines; one at a time is opened and answered.
//
// Belongs here: the list, its filters and keys. Never: the card of a question (`answers.js`).

import { Question } from "./answers.js";
import { get, isLive, machinePath, query, runPath } from "./api.js";
import { now } from "./clock.js";
import { h, text } from "./parts.js";
import { Refresh } from "./refresh.js";
import { ago, asks, left } from "./words.js";

const GONE = 4000; // ms for which an answered question is still to be seen
const MOST = 200; // questions that are asked for at once
const HOUR = 3600; // s
const URGENT = { "": "any deadline", hour: "within an hour", day: "within a day", some: "with a deadline", none: "without one" };
const DUE = {
  hour: (due) => due && due - now() < HOUR,
  day: (due) => due && due - now() < 24 * HOUR,
  some: (due) => due !== null,
  none: (due) => due === null,
};

export function openInbox(main, { given, app }) {
  return new Inbox(main, app, given);
}

class Inbox {
  constructor(main, app, given) {
    this.app = app;
    this.rows = new Map(); // what is shown, by run and wait
    this.open = null; // the key of the question that is opened
    this.list = h("div", { className: "inbox", attrs: { role: "list", "aria-label": "Questions" } });
    this.empty = h("p", { className: "empty", hidden: true });
    this.more = h("p", { className: "cl-muted", hidden: true }, `More than ${MOST} wait: they come up as you answer these, or by a filter.`);
    this.counted = text("span", "", "cl-muted");
    this.build(given);
    app.title("Inbox");
    main.append(h("div", { className: "page" }, h("div", { className: "title" }, text("h1", "Inbox"), this.counted), this.filters, this.list, this.empty, this.more));
    this.refresh = new Refresh((signal) => this.load(signal), { failed: (e) => app.fail(e), pace: 500 });
    this.refresh.want();
  }

  /** What is asked for stands in the link, so that it can be kept and sent. */
  build(given) {
    const of = (name) => given?.get(name) ?? "";
    const typed = (name, placeholder) => h("input", { type: "search", value: of(name), placeholder, autocomplete: "off", name });
    const options = Object.entries(URGENT).map(([value, label]) => h("option", { value, textContent: label }));
    this.fields = { search: typed("search", "words of the question or a run"), machine: typed("machine", "all"), agent: typed("agent", "all"), due: h("select", { name: "due" }, ...options) };
    this.fields.due.value = of("due") in URGENT ? of("due") : "";
    const names = { search: "Search", machine: "Machine", agent: "Agent", due: "Urgency" };
    const labels = Object.entries(this.fields).map(([name, field]) => h("label", {}, `${names[name]} `, field));
    const submit = (event) => event.preventDefault();
    this.filters = h("form", { className: "filters", attrs: { role: "search" }, on: { submit, input: () => this.filter() } }, ...labels);
  }

  get wanted() {
    return Object.fromEntries(Object.entries(this.fields).map(([name, { value }]) => [name, value.trim()]));
  }

  filter() {
    this.app.relink(`/inbox${query(this.wanted)}`);
    this.refresh.want();
  }

  close() {
    clearTimeout(this.leaving);
    this.refresh.close();
  }

  hear(name) {
    if (!isLive(name)) this.refresh.want();
  }

  again() {
    this.refresh.want();
  }

  /** The server came or went. */
  link() {
    for (const { question } of this.rows.values()) question?.link();
  }

  tick() {
    for (const { question, row, since, due } of this.rows.values()) {
      question?.tick();
      since.textContent = ago(row.updated);
      due.textContent = row.question.due ? left(row.question.due) : "";
      due.dataset.level = row.question.due && row.question.due - now() < 60 ? "near" : "far";
    }
  }

  async load(signal) {
    const { machine, agent, search, due } = this.wanted;
    const filter = JSON.stringify(this.wanted);
    const { runs, next } = await get(`/runs${query({ waiting: true, limit: MOST, machine, agent })}`, signal);
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (row) => {
      const said = [row.question.text, row.question.about, row.run, row.machine, row.agent, row.session, row.task ?? ""].join(" ").toLowerCase();
      return words.every((word) => said.includes(word)) && (DUE[due]?.(row.question.due) ?? true);
    };
    const all = runs.filter(({ question }) => question);
    const asked = all.filter(fits);
    // What expires first stands first; what has no deadline stands last.
    asked.sort((a, b) => (a.question.due ?? Infinity) - (b.question.due ?? Infinity) || a.updated - b.updated);
    const keys = new Set(all.map(keyOf));
    const shown = new Set(asked.map(keyOf));
    for (const [key, one] of this.rows) {
      if (shown.has(key)) continue;
      if (keys.has(key) || filter !== this.known) this.drop(key, one); // it waits still, and is not asked for
      else this.leave(key, one);
    }
    this.known = filter;
    const first = this.rows.size === 0;
    let before = null; // a new one takes its place; those that are shown are not moved
    for (const row of asked.toReversed()) {
      if (!this.rows.has(keyOf(row))) this.add(row, before);
      before = this.rows.get(keyOf(row)).element;
    }
    this.app.title(asked.length ? `(${asked.length}) Inbox` : "Inbox");
    this.counted.textContent = asked.length === all.length ? `${all.length} wait` : `${asked.length} of ${all.length}`;
    this.empty.textContent = all.length ? "Nothing fits these filters." : "Nothing waits for you. A question shows up here by itself.";
    this.empty.hidden = this.list.children.length > 0;
    this.more.hidden = !next;
    this.tick();
    if (first && asked.length && this.open === null) await this.show(keyOf(asked[0]), false);
    if (first) this.app.arrived();
  }

  add(row, before) {
    const { question: asked, run } = row;
    const [what, detail] = asks(asked, row.task);
    const since = text("span", "", "cl-muted since");
    const due = text("span", "", "due");
    const box = h("div", { className: "opened", hidden: true });
    const key = keyOf(row);
    const head = h(
      "button", { type: "button", className: "asks", attrs: { "aria-expanded": "false" }, on: { click: () => this.turn(key) } },
      text("span", what, "what"), text("span", detail, "cl-muted detail"), due, since, text("span", row.machine, "cl-muted of"),
    );
    const from = h("p", { className: "about", hidden: true }, "Run ", h("a", { href: runPath(run), textContent: run }), " of ", h("a", { href: machinePath(row.machine), textContent: row.machine }), row.agent ? `, agent ${row.agent}` : "");
    const element = h("div", { className: "card", attrs: { "aria-label": `Question of run ${run}`, role: "listitem" } }, head, box, from);
    this.list.insertBefore(element, before);
    this.rows.set(key, { row, question: null, since, due, head, box, from, element });
    this.app.speak(`Run ${run} asks: ${what}`);
  }

  turn(key) {
    if (this.open === key) return this.fold();
    return this.show(key);
  }

  fold() {
    const one = this.rows.get(this.open);
    this.open = null;
    if (!one || one.question?.busy) return;
    Object.assign(one, { question: null });
    one.box.replaceChildren();
    one.box.hidden = one.from.hidden = true;
    one.head.setAttribute("aria-expanded", "false");
  }

  /** Opens one question, whole, and folds the one that was open: the page holds one card. */
  async show(key, focus = true) {
    this.fold();
    const one = this.rows.get(key);
    if (!one) return;
    this.open = key;
    try {
      const whole = await get(`${runPath(one.row.run)}/question`);
      if (this.open !== key) return;
      if (whole.wait !== one.row.question.wait) return this.refresh.want();
      one.question = this.card(one.row, whole);
    } catch (error) {
      if (error.status !== 409) this.app.fail(error);
      return this.refresh.want(); // it was answered just now
    }
    one.box.replaceChildren(one.question.root);
    one.box.hidden = one.from.hidden = false;
    one.head.setAttribute("aria-expanded", "true");
    if (focus) {
      one.head.focus();
      one.element.scrollIntoView({ block: "nearest" });
    }
  }

  card({ run, question: { rest, text: begin, about: shown, due, wait } }, whole) {
    const sent = (event) => {
      this.app.hush();
      this.app.speak(`Answered ${event}`);
      this.answered();
      this.refresh.want();
    };
    const failed = (error) => {
      this.app.fail(error);
      this.refresh.want();
    };
    const { calls, forms: answers, title, task, since } = whole;
    const part = rest ? { text: begin, about: shown, calls: [] } : { text: whole.text, about: whole.about, calls };
    return new Question({ run, wait, then: "run", ...part, rest, due, answers, title, task, since }, { sent, failed, app: this.app });
  }

  /** Below an answer: the way to the next question. */
  answered() {
    const { question, element } = this.rows.get(this.open) ?? {};
    const next = this.beside(this.open, 1) ?? this.beside(this.open, -1);
    if (!question || !next) return;
    const button = h("button", { type: "button", className: "cl-main next", textContent: `Next question (${this.rows.size - 1})`, on: { click: () => this.show(next) } });
    element.append(button);
    button.focus();
  }

  get first() {
    return [...this.rows].find(([, { element }]) => element === this.list.querySelector(".card:not(.leaving)"))?.[0] ?? null;
  }

  beside(key, by) {
    const elements = [...this.list.querySelectorAll(".card:not(.leaving)")];
    const at = elements.indexOf(this.rows.get(key)?.element);
    const found = elements[at + by];
    return [...this.rows].find(([, { element }]) => element === found)?.[0] ?? null;
  }

  drop(key, { element }) {
    if (this.open === key) this.open = null;
    this.rows.delete(key);
    element.remove();
  }

  /** It is seen for a moment more: what was answered, and that it was. */
  leave(key, one) {
    const { question, element, head } = one;
    const next = this.beside(key, 1) ?? this.beside(key, -1);
    this.rows.delete(key);
    if (this.open === key) this.open = null;
    if (!question) return element.remove();
    if (!question.busy) question.block("It was answered elsewhere, or its time is over.");
    element.classList.add("leaving");
    head.setAttribute("aria-disabled", "true");
    this.leaving = setTimeout(() => {
      const focused = element.contains(document.activeElement);
      element.remove();
      this.empty.hidden = this.list.children.length > 0;
      if (focused && next && this.rows.has(next)) this.rows.get(next).head.focus();
      else if (focused) this.app.main.focus();
    }, GONE);
  }

  key({ key, target }) {
    const at = [...this.rows].find(([, { element }]) => element.contains(target))?.[0] ?? this.open;
    if (key === "j" || key === "k") {
      const by = key === "j" ? 1 : -1;
      const next = at ? this.beside(at, by) : null;
      const to = next ?? (at ? null : this.first);
      if (to) this.rows.get(to)?.head.focus();
      return true;
    }
    if (key === "Enter" && at && target === this.app.main) return this.show(at), true;
    const tone = { a: "yes", d: "no" }[key];
    const question = this.rows.get(this.open)?.question;
    if (tone && question) return question.point(tone);
    if (key === "Escape" && this.open) return this.fold(), true;
    if (key === "/") return this.fields.search.focus(), true;
    return false;
  }
}

const keyOf = ({ run, question }) => `${run} ${question.wait}`;
