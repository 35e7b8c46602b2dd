// A question as a card: who asks, what is asked, who answers, and its deadline. The inbox, the page of a run and
// the page of a link show the same one.
//
// Belongs here: asking and sending the answer. Never: which questions there are.

import { get, post, runPath } from "./api.js";
import { now } from "./clock.js";
import { forTab } from "./keep.js";
import { answerForms, askedParts, h, text } from "./parts.js";
import { ago, count, left } from "./words.js";

const BY = "chartloop-by"; // who answers in this tab

/** Where a question is opened and answered: at its run. */
const doorOf = ({ run, wait, then }) => ({
  whole: () => get(`${runPath(run)}/question`),
  answer: (body) => post(`${runPath(run)}/answer`, { ...body, wait, then }),
});

/** Who answers, said once in a tab: "You answer as eve · change". The name of a token cannot be changed. */
class Signer {
  constructor(who) {
    this.input = h("input", { type: "text", name: "by", autocomplete: "name", maxLength: 200, attrs: { "aria-label": "Your name: who answers" }, on: { keydown: (event) => this.key(event) } });
    this.fault = text("span", "", "cl-refused");
    this.fault.setAttribute("role", "alert");
    this.known = text("strong", "");
    this.change = h("button", { type: "button", className: "cl-link", textContent: "change", on: { click: () => this.ask() } });
    this.said = h("span", {}, "You answer as ", this.known, " ", this.change);
    this.asked = h("label", {}, "You answer as ", this.input);
    this.root = h("p", { className: "signer" }, this.said, this.asked, this.fault);
    this.show(forTab.get(BY));
    who.then(({ name, fixed }) => name && this.show(name, fixed ?? "the name of your token"));
  }

  get name() {
    return this.asked.hidden ? this.known.textContent : this.input.value.trim();
  }

  show(name, fixed = "") {
    this.input.value = this.known.textContent = name;
    this.said.hidden = !name;
    this.asked.hidden = Boolean(name);
    this.change.hidden = fixed !== "";
    this.said.title = fixed;
  }

  ask() {
    this.said.hidden = true;
    this.asked.hidden = false;
    this.input.select();
    this.input.focus();
  }

  /** Enter keeps the name; it answers nothing. */
  key(event) {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (!this.name) return this.refuse("`by` is empty: say who answers");
    this.keep();
    this.change.focus();
  }

  keep() {
    this.refuse("");
    if (!this.name || this.asked.hidden) return;
    forTab.set(BY, this.name);
    this.show(this.name);
  }

  refuse(message) {
    this.fault.textContent = message;
    this.input.setAttribute("aria-invalid", String(message !== ""));
    if (message && !this.change.hidden) this.ask();
    return true;
  }
}

/** `asked`: run, wait, text, about, rest, due (or null), calls, answers: [{event, fields, next, tone}], and who asks:
 *  title, task, since. `sent(event)` once it is taken. While more of it is to be read than is shown, and while the
 *  server is away, it takes no answer. */
export class Question {
  constructor(asked, { sent, failed, app, door = doorOf(asked), shown = "" }) {
    Object.assign(this, { asked, app, sent, failed, door, shown, unopened: asked.rest > 0, busy: false });
    this.due = text("span", "", "due");
    this.due.setAttribute("role", "timer");
    this.since = text("span", "", "cl-muted");
    this.note = h("p", { className: "sent", hidden: true, attrs: { role: "status" } });
    this.forms = h("div", {});
    this.body = h("div", {});
    const open = { click: () => this.open() };
    this.more = h("button", { type: "button", hidden: !this.unopened, textContent: `Show the ${count(asked.rest)} characters that follow, and then answer`, on: open });
    this.signer = new Signer(app.who);
    const who = asked.title ? h("span", { className: "asker" }, text("strong", asked.title), " asks") : null;
    const task = asked.task ? text("p", asked.task, "cl-muted asked-task") : null;
    const head = h("p", { className: "asked-by" }, who, this.since, this.due);
    this.links = asked.run ? new LinkMaker(asked, app) : null;
    this.root = h("div", { className: "question" }, head, task, this.body, this.more, this.forms, this.note, this.links?.root);
    this.read(asked);
    this.tick();
    this.link();
  }

  read(asked) {
    this.body.replaceChildren(...askedParts(asked));
    this.made = answerForms({ ...asked, answers: this.asked.answers }, (event, data) => this.answer(event, data), this.signer);
    this.forms.replaceChildren(this.made.root);
  }

  async open() {
    if (this.app.isAway) return;
    try {
      const whole = await this.door.whole();
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

  answer(event, data) {
    this.signer.keep();
    this.send(event, () => this.door.answer({ event, data, typed: true, shown: this.shown }));
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

  /** By keys: the focus goes to the answer that lets it happen, or to the one that holds it back; Enter sends it. */
  point(tone) {
    const button = [...this.root.querySelectorAll(`.cl-${tone}`)].find((one) => one.checkVisibility());
    button?.focus();
    return Boolean(button);
  }

  /** Once a second: how long it may still be answered. */
  tick() {
    const { due, since } = this.asked;
    this.since.textContent = since ? `asked ${ago(since)}` : "";
    if (!due) {
      this.due.textContent = "no deadline";
      return;
    }
    const rest = due - now();
    this.due.textContent = left(due);
    this.due.dataset.level = rest <= 0 ? "over" : rest < 60 ? "near" : "far";
    if (rest <= 0 && !this.busy) this.block("Its time is over: the run goes on without an answer.");
  }
}

/** A link that lets one person answer this question, to be sent by mail or chat. */
class LinkMaker {
  constructor({ run, wait }, app) {
    this.path = `${runPath(run)}/question/link`;
    this.wait = wait;
    this.to = h("input", { type: "text", autocomplete: "off", maxLength: 200, placeholder: "a name or an address", attrs: { "aria-label": "For whom the link is" } });
    this.made = h("input", { type: "text", readOnly: true, attrs: { "aria-label": "The link" }, on: { focus: ({ target }) => target.select() } });
    this.note = h("p", { className: "cl-muted", attrs: { role: "status" } }, "Who has the link answers this question once, under this name, without a token.");
    const form = h("form", { className: "cl-answer", on: { submit: (event) => this.make(event) } }, h("label", {}, "for ", this.to), h("button", { type: "submit", textContent: "Copy a link" }));
    this.kept = h("label", { hidden: true }, "The link ", this.made);
    this.root = h("details", { className: "asklink", hidden: true }, text("summary", "Copy a link to this question"), form, this.kept, this.note);
    app.who.then(({ scope }) => { this.root.hidden = scope !== "edit"; });
  }

  async make(event) {
    event.preventDefault();
    if (!this.to.value.trim()) return this.tell("Say for whom it is: the answer is recorded under this name.", this.to);
    try {
      const { url, to } = await post(this.path, { to: this.to.value, wait: this.wait });
      this.made.value = url;
      this.kept.hidden = false;
      const copied = await navigator.clipboard?.writeText(url).then(() => true, () => false);
      this.tell(copied ? `Copied. Send it to ${to} only: it answers as ${to}, once.` : `Copy it from here, for ${to} only: it answers as ${to}, once.`, copied ? null : this.made);
    } catch (error) {
      this.tell(`${error.message}. ${error.hint ?? ""}`);
    }
  }

  tell(words, focus) {
    this.note.textContent = words;
    focus?.focus();
  }
}
