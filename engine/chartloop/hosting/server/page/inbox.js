// The inbox: every question that waits, to be answered here.
//
// Belongs here: the list. Never: the form of a question (`answers.js`).

import { Question, fieldsOf } from "./answers.js";
import { get, isLive, machinePath, runPath } from "./api.js";
import { h, text } from "./parts.js";
import { Refresh } from "./refresh.js";
import { ago } from "./words.js";

const GONE = 4000; // ms for which an answered question is still to be seen

export function openInbox(main, { app }) {
  return new Inbox(main, app);
}

class Inbox {
  constructor(main, app) {
    this.app = app;
    this.cards = new Map(); // by run and wait
    this.list = h("div", { className: "inbox" });
    this.empty = h("p", { className: "empty", hidden: true }, "Nothing waits for you. A question shows up here by itself.");
    this.more = h("p", { className: "cl-muted", hidden: true }, "There are more: they come up as you answer these.");
    app.title("Inbox");
    main.append(h("div", { className: "page" }, h("div", { className: "title" }, text("h1", "Inbox")), this.list, this.empty, this.more));
    this.refresh = new Refresh((signal) => this.load(signal), { failed: (e) => app.fail(e), pace: 500 });
    this.refresh.want();
  }

  close() {
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
    for (const { question } of this.cards.values()) question.link();
  }

  tick() {
    for (const { question, since, row } of this.cards.values()) {
      question.tick();
      since.textContent = `asked ${ago(row.updated)}`;
    }
  }

  async load(signal) {
    const { runs, next } = await get("/runs?waiting=true&limit=100", signal);
    const asked = runs.filter(({ question }) => question);
    // What expires first stands first; what has no deadline stands last.
    asked.sort((a, b) => (a.question.due ?? Infinity) - (b.question.due ?? Infinity) || a.updated - b.updated);
    const keys = new Set(asked.map(keyOf));
    for (const [key, card] of this.cards) if (!keys.has(key)) this.leave(key, card);
    const fresh = asked.filter((row) => !this.cards.has(keyOf(row)));
    const calls = await Promise.all(fresh.map((row) => this.callsOf(row, signal)));
    fresh.forEach((row, place) => calls[place] && this.add(row, calls[place]));
    this.app.title(asked.length ? `(${asked.length}) Inbox` : "Inbox");
    this.empty.hidden = this.list.children.length > 0;
    this.more.hidden = !next;
    this.tick();
  }

  /** The calls of a question with all that a person reads and may change; null if it asks something else by now. */
  async callsOf({ run, question }, signal) {
    if (!question.calls?.length) return [];
    try {
      const whole = await get(`${runPath(run)}/question`, signal);
      return whole.wait === question.wait ? whole.calls : null;
    } catch (error) {
      if (error.status === 409) return null;
      throw error;
    }
  }

  add(row, calls) {
    const { question: asked, run } = row;
    const answers = Object.entries(asked.answers).map(([event, types]) => ({ event, fields: fieldsOf(types) }));
    const sent = (event) => {
      this.app.hush();
      this.app.speak(`Answered ${event}`);
      this.refresh.want();
    };
    const failed = (error) => {
      this.app.fail(error);
      this.refresh.want();
    };
    const question = new Question({ run, wait: asked.wait, text: asked.text, about: asked.about, rest: asked.rest, due: asked.due, calls, answers }, { sent, failed, app: this.app });
    const since = text("span", "", "cl-muted");
    const about = h(
      "p", { className: "about" },
      h("a", { href: runPath(run), textContent: run }), " of ", h("a", { href: machinePath(row.machine), textContent: row.machine }), ` at ${asked.state}, `, since,
    );
    const element = h("article", { className: "card", attrs: { "aria-label": `Question of run ${run}`, tabindex: "-1" } }, about, question.root);
    this.list.append(element);
    this.cards.set(keyOf(row), { row, question, since, element });
    this.app.speak(`Run ${run} asks: ${asked.text}`);
  }

  /** It is seen for a moment more: what was answered, and that it was. */
  leave(key, { question, element }) {
    this.cards.delete(key);
    if (!question.busy) question.block("It was answered elsewhere, or its time is over.");
    element.classList.add("leaving");
    setTimeout(() => {
      const next = element.nextElementSibling ?? element.previousElementSibling;
      if (element.contains(document.activeElement)) (next ?? this.app.main).focus();
      element.remove();
      this.empty.hidden = this.list.children.length > 0;
    }, GONE);
  }
}

const keyOf = ({ run, question }) => `${run} ${question.wait}`;
