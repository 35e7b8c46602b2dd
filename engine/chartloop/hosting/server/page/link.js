// The page of a link: one question, its one answer, and why it takes none any more.
//
// Belongs here: what the holder of a link sees. Never: a run, a machine, a list. Opening it answers nothing.

import { Question } from "./answers.js";
import { get, holdLink, post } from "./api.js";
import { THEME, forBrowser } from "./keep.js";
import { h, text, ticked } from "./parts.js";
import { moment } from "./words.js";

const LOOK = 5000; // ms between two looks whether somebody else has answered

const at = (id) => document.getElementById(id);

class LinkPage {
  constructor() {
    this.isAway = false;
    this.card = null;
    this.main = at("main");
    const theme = forBrowser.get(THEME);
    if (theme === "light" || theme === "dark") document.documentElement.classList.add(theme);
    holdLink(location.hash.slice(1));
    addEventListener("hashchange", () => location.reload());
    setInterval(() => this.card?.tick(), 1000);
    setInterval(() => document.hidden || this.load(), LOOK);
    this.load();
  }

  async load() {
    if (this.done) return;
    let found;
    try {
      found = await get("/answer/question");
    } catch (error) {
      return this.away(error);
    }
    this.isAway = false;
    this.hush();
    this.card?.link();
    if (this.done || this.card?.busy) return;
    const { to, until, over, question } = found;
    this.who = Promise.resolve({ name: to, fixed: "the person this link was made for" });
    if (!question) return this.end(over || "This question is over.");
    if (this.card) return;
    const { wait, text: asked, about, due, calls, forms: answers, title, since, digest } = question;
    const door = { whole: () => get("/answer/question").then((one) => one.question), answer: (body) => post("/answer", body) };
    this.card = new Question(
      { run: "", wait, text: asked, about, rest: 0, due, calls, answers, title, since },
      { sent: (event) => this.sent(event, to), failed: (error) => this.failed(error), app: this, door, shown: digest },
    );
    document.title = `${title} asks`;
    const valid = text("p", `This link is for ${to}. It answers once, and is valid until ${moment(until)}.`, "cl-muted");
    this.main.replaceChildren(h("article", { className: "card" }, this.card.root), valid);
  }

  sent(event, to) {
    this.end(`Thank you: your answer, ${event}, was recorded for ${to}. You can close this page.`, "sent");
  }

  end(words, kind = "over") {
    this.done = true;
    this.card = null;
    document.title = "A question";
    this.speak(words);
    const told = Object.assign(ticked(words, "p"), { className: "over" });
    told.setAttribute("role", "status");
    told.dataset.kind = kind;
    this.main.replaceChildren(told);
    this.main.focus();
  }

  failed(error) {
    if (error.status === 409) return this.end(error.message);
    if (error.status === 401) return this.away(error);
    this.fail(error);
  }

  /** Not valid, or not reached. */
  away(error) {
    if (error.status === 401) return this.end(location.hash ? error.message : "This page needs the whole link, with all that stands behind #.");
    this.isAway = error.status === 0;
    this.card?.link();
    this.fail(error);
  }

  fail(error) {
    at("notice").replaceChildren(text("strong", error.message), text("span", error.hint ?? ""));
    at("notice").hidden = false;
  }

  hush() {
    at("notice").hidden = true;
  }

  speak(words) {
    at("spoken").textContent = words;
  }
}

new LinkPage();
