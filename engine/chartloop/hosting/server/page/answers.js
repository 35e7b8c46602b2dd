// A question with its forms and its deadline, in the inbox and on the page of its run.
//
// Belongs here: asking and sending the answer. Never: which questions there are.

import { get, post, runPath } from "./api.js";
import { answerForms, askedParts, h, text } from "./parts.js";
import { count, left } from "./words.js";

const BY = "chartloop-by"; // who answered last in this tab

/** Fields as a list of runs has them, by name and type: `{note: "str"}`. */
export function fieldsOf(types) {
  return Object.entries(types).map(([name, type]) => {
    const plain = type.replace(/ \| None$/, "");
    return { name, type, kind: plain.replace(/\[.*$/, ""), values: [], optional: plain !== type };
  });
}

/** `asked`: run, wait, text, about, rest, due (or null), calls, answers: [{event, fields, target}]. `sent(event)` once
 *  it is taken. While more of it is to be read than is shown, and while the server is away, it takes no answer. */
export class Question {
  constructor(asked, { sent, failed, app }) {
    Object.assign(this, { asked, app, sent, failed, shown: "", unopened: asked.rest > 0, busy: false });
    this.due = text("span", "", "due");
    this.due.setAttribute("role", "timer");
    this.note = h("p", { className: "sent", hidden: true, attrs: { role: "status" } });
    this.forms = h("div", {});
    this.body = h("div", {});
    const open = { click: () => this.open() };
    this.more = h("button", { type: "button", hidden: !this.unopened, textContent: `Show the ${count(asked.rest)} characters that follow, and then answer`, on: open });
    this.root = h("div", { className: "question" }, this.body, this.more, this.due, this.forms, this.note);
    this.read(asked);
    this.tick();
    this.link();
  }

  read(asked) {
    this.body.replaceChildren(...askedParts(asked));
    this.made = answerForms({ ...asked, answers: this.asked.answers }, (event, data) => this.answer(event, data));
    this.forms.replaceChildren(this.made.root);
    this.app.who.then(({ name }) => this.sign(name));
  }

  async open() {
    if (this.app.isAway) return;
    try {
      const whole = await get(`${runPath(this.asked.run)}/question`);
      if (whole.wait !== this.asked.wait) return; // it asks something else by now, which comes by itself
      this.read({ ...whole, rest: 0 });
      this.shown = whole.digest;
      this.unopened = false;
      this.more.hidden = true;
      this.link();
    } catch (error) {
      this.failed(error);
    }
  }

  /** Who answers: the name of the token, or who did last in this tab. */
  sign(name) {
    for (const by of this.forms.querySelectorAll("[name=by]")) {
      by.value ||= name || (sessionStorage.getItem(BY) ?? "");
      by.readOnly = Boolean(name);
      if (name) by.title = "The name of your token";
    }
  }

  answer(event, data) {
    const { run, wait } = this.asked;
    if (data.by) sessionStorage.setItem(BY, data.by);
    this.send(event, () => post(`${runPath(run)}/answer`, { event, data, wait, typed: true, shown: this.shown }));
  }

  async send(event, order) {
    if (this.busy || this.unopened || this.app.isAway) return;
    this.block(`Sending ${event}…`);
    try {
      await order();
      this.block(`Answered: ${event}`);
      this.sent(event);
    } catch (error) {
      this.busy = false;
      this.note.hidden = true;
      if (error.again) this.keep(event, error);
      else if (!this.made.refuse(error.message)) this.failed(error);
      this.link();
    }
  }

  /** An answer that was not taken: it says so, and can be sent again as it was. */
  keep(event, error) {
    const again = h("button", { type: "button", className: "cl-main", textContent: `Send ${event} again`, on: { click: () => this.send(event, error.again) } });
    this.note.replaceChildren(text("span", `${error.unsent(event)} `), text("span", `${error.hint} `), again);
    this.note.dataset.kind = "unsent";
    this.note.hidden = false;
    this.app.speak(error.unsent(event));
  }

  block(message) {
    this.busy = true;
    this.note.textContent = message;
    delete this.note.dataset.kind;
    this.note.hidden = false;
    this.link();
  }

  /** Its buttons say whether they can be pressed: as the server comes and goes, and as it is read. */
  link() {
    const { busy, unopened } = this;
    const why = this.app.isAway ? "The server does not answer" : unopened ? "Read all of it first" : "";
    for (const button of this.root.querySelectorAll("button")) {
      const off = button === this.more ? this.app.isAway : busy || why !== "";
      button.setAttribute("aria-disabled", String(off));
      button.title = button === this.more ? "" : why;
    }
  }

  /** Once a second: how long it may still be answered. */
  tick() {
    const { due } = this.asked;
    if (!due) {
      this.due.textContent = "no deadline";
      return;
    }
    const rest = due - Date.now() / 1000;
    this.due.textContent = left(due);
    this.due.dataset.level = rest <= 0 ? "over" : rest < 60 ? "near" : "far";
    if (rest <= 0 && !this.busy) this.block("Its time is over: the run goes on without an answer.");
  }
}
