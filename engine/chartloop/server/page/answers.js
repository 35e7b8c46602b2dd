// A question with its forms and its deadline, in the inbox and on the page of its run.
//
// Belongs here: asking and sending the answer. Never: which questions there are.

import { post, runPath } from "./api.js";
import { answerForm, h, text } from "./parts.js";
import { left } from "./words.js";

/** Fields as a list of runs has them, by name and type: `{note: "str"}`. */
export function fieldsOf(types) {
  return Object.entries(types).map(([name, type]) => {
    const plain = type.replace(/ \| None$/, "");
    return { name, type, kind: plain.replace(/\[.*$/, ""), values: [], optional: plain !== type };
  });
}

/** `asked`: run, wait, text, due (or null), answers: [{event, fields, target}]. `sent(event)` once it is taken. */
export class Question {
  constructor(asked, { sent, failed }) {
    this.asked = asked;
    this.due = text("span", "", "due");
    this.due.setAttribute("role", "timer");
    this.note = h("p", { className: "sent", hidden: true, attrs: { role: "status" } });
    const forms = asked.answers.map((answer) => this.form(answer, sent, failed));
    this.root = h(
      "div",
      { className: "question" },
      h("p", { className: "cl-question" }, asked.text || "It waits for an answer"),
      this.due,
      ...forms,
      this.note,
    );
    this.tick();
  }

  form(answer, sent, failed) {
    const made = answerForm(answer, async (data) => {
      if (this.busy) return;
      this.block(`Sending ${answer.event}…`);
      try {
        const { run, wait } = this.asked;
        await post(`${runPath(run)}/answer`, { event: answer.event, data, wait, typed: true });
        this.block(`Answered: ${answer.event}`);
        sent(answer.event);
      } catch (error) {
        this.free();
        failed(error);
      }
    });
    if (answer.target) made.append(text("span", `→ ${answer.target}`, "cl-muted"));
    return made;
  }

  block(message) {
    this.busy = true;
    this.note.textContent = message;
    this.note.hidden = false;
    for (const button of this.root.querySelectorAll("button")) button.setAttribute("aria-disabled", "true");
  }

  free() {
    this.busy = false;
    this.note.hidden = true;
    for (const button of this.root.querySelectorAll("button")) button.removeAttribute("aria-disabled");
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
