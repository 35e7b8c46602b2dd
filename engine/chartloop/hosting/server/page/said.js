// What was said, an element for each item: texts, calls with their results, questions, images.
//
// Belongs here: how an item looks. Never: which items are loaded (`conversation.js`).

import { get, query, runPath } from "./api.js";
import { markdown } from "./markdown.js";
import { h, showPhase, text } from "./parts.js";
import { count, moment } from "./words.js";

const IMAGE = /^data:image\/(?:png|jpeg|gif|webp);base64,/;
const PEOPLE = new Set(["task", "answer"]);
const WHO = { task: "Task", message: "To the model", reply: "Model", failure: "Failed", question: "Asks", prompt: "Prompt", memory: "Memory", cut: "Shortened" };

export class Said {
  /** Items of `run` choose their step; `scroll` is the element in which images come into view. */
  constructor({ run, app, choose, scroll = null }) {
    Object.assign(this, { run, app, choose, raw: false });
    this.open = new Set(); // folds that are open: they stay so when their item is shown anew
    const seen = (all) => all.filter((one) => one.isIntersecting).forEach((one) => this.loadImage(one.target));
    this.watch = new IntersectionObserver(seen, { root: scroll, rootMargin: "300px" });
  }

  close() {
    this.watch.disconnect();
  }

  link(run) {
    return `${runPath(run)}?view=conversation`;
  }

  /** An item was pressed: its step is chosen, unless something in it was meant, or a text marked. */
  pressed(event, seq, run) {
    if (run !== this.run || event.target.closest("a, button, summary, pre, label, img") || String(getSelection())) return;
    this.choose(seq);
  }

  line(item, run) {
    const { kind, seq, at, state, who, open, call } = item;
    const failed = kind === "failure" || call?.ok === false;
    // a message that a model was sent has no place in the run
    const step = run === null ? null : h("button", {
      type: "button", className: "cl-link said-step", textContent: `#${seq}`, title: moment(at), attrs: { "aria-label": `Step ${seq}: show it` },
      on: { click: () => (run === this.run ? this.choose(seq) : this.app.go(`${runPath(run)}${query({ step: seq, view: "conversation" })}`)) },
    });
    const name = kind === "answer" ? `${who || "Somebody"} answered ${state}` : kind === "call" ? "" : PEOPLE.has(kind) && who ? who : WHO[kind];
    const beside = kind === "reply" ? [state, who].filter(Boolean).join(", ") : kind === "answer" || kind === "call" ? "" : state;
    const head = name ? h("div", { className: "said-head" }, text("strong", name ?? kind), text("span", beside, "cl-muted"), step) : null;
    const body = { call: () => this.call(item, run, step), child: () => [this.child(item.child, item, run, step)] }[kind]?.() ?? this.words(item, run);
    const made = h("li", { className: `said${failed ? " said-failed" : ""}${open ? " said-open" : ""}`, on: { click: (event) => this.pressed(event, seq, run) } }, head, ...body);
    made.dataset.kind = kind;
    made.dataset.place = item.place;
    return made;
  }

  words(item, run) {
    const { kind, reasoning, parts } = item;
    const about = [];
    if (reasoning) about.push(this.fold(item, run, "reasoning", "Reasoning", this.passage(item, run, "reasoning", reasoning, "pre")));
    const shown = this.passage(item, run, "text", item.text, kind === "reply" ? "markdown" : "p");
    const folded = kind === "prompt" || kind === "memory";
    if (item.text.text) about.push(folded ? this.fold(item, run, "text", item.text.text.slice(0, 80), shown) : shown);
    return [...about, ...parts.map((part) => this.part(part, item, run))];
  }

  call(item, run, step) {
    const { call, open } = item;
    const sign = { true: "✓", false: "✗" }[call.ok] ?? (open ? "…" : "–");
    const first = call.ok === false ? text("span", call.result.text.slice(0, 200), "said-fault") : null;
    const summary = h("summary", {}, text("span", sign, "said-sign"), text("code", call.line), first);
    const result = call.result ? [text("p", "Result", "cl-muted"), this.passage(item, run, "result", call.result, "pre")] : [text("p", open ? "There is no result yet." : "No result was recorded.", "cl-muted")];
    const inside = [text("p", "Arguments", "cl-muted"), this.passage(item, run, "arguments", call.arguments, "pre"), ...result];
    const links = call.children.map((child) => this.childLink(child));
    return [h("div", { className: "said-call" }, this.details(item, run, "call", summary, ...inside), step), ...links, ...call.parts.map((part) => this.part(part, item, run))];
  }

  child(child, item, run, step) {
    const phase = text("span", "", "cl-status");
    showPhase(phase, child.phase);
    const why = child.phase === "done" ? "" : child.reason || child.status;
    const summary = h("summary", {}, text("strong", child.run.split("/").at(-1)), ` ${child.machine} `, phase, " ", text("span", why, "cl-muted"));
    return h("div", { className: "said-call" }, this.details(item, run, "child", summary, this.childLink(child), this.passage(item, run, "output", child.output, "markdown")), step);
  }

  childLink({ run }) {
    return h("p", { className: "said-child" }, "Child run ", h("a", { href: this.link(run), textContent: run }));
  }

  fold(item, run, name, about, ...inside) {
    return this.details(item, run, name, text("summary", about), ...inside);
  }

  details(item, run, name, summary, ...inside) {
    const key = `${run} ${item.place} ${name}`;
    const made = h("details", { open: this.open.has(key) }, summary, ...inside);
    made.addEventListener("toggle", () => (made.open ? this.open.add(key) : this.open.delete(key)));
    return made;
  }

  /** A text, and a button that asks for the rest of it. */
  passage(item, run, name, { text: beginning, rest }, look) {
    const box = h("div", { className: "said-text" });
    const put = (words) => {
      const raw = this.raw || look !== "markdown";
      const made = raw ? text(look === "pre" ? "pre" : "div", words, "said-raw") : markdown(words);
      if (made.localName === "pre") made.tabIndex = 0;
      box.replaceChildren(made);
    };
    put(beginning);
    if (rest && run === null) box.append(text("p", `${count(rest)} characters more are in the conversation`, "cl-muted"));
    else if (rest) {
      const all = h("button", { type: "button", className: "cl-link", textContent: `Show all, ${count(rest)} characters more` });
      all.addEventListener("click", async () => {
        try {
          put(await this.whole(run, item.place, name));
        } catch (error) {
          this.app.fail(error);
        }
      });
      box.append(all);
    }
    return box;
  }

  /** A text to its end, which the server gives in parts. */
  async whole(run, place, name) {
    let words = "";
    for (let start = 0; start !== null; ) {
      const part = await get(`${runPath(run)}/passage${query({ place, name, start })}`);
      words += part.text;
      start = part.next;
    }
    return words;
  }

  part({ kind, about, name }, item, run) {
    const made = h("div", { className: "said-part" }, text("span", about, "cl-muted"));
    if (kind === "image" && name && run !== null) {
      made.classList.add("said-image");
      Object.assign(made, { whole: () => this.whole(run, item.place, name), about });
      this.watch.observe(made);
    }
    return made;
  }

  /** An image of the journal; its data come from this server, and are no address. */
  async loadImage(box) {
    this.watch.unobserve(box);
    try {
      const data = await box.whole();
      if (IMAGE.test(data)) box.replaceChildren(h("img", { src: data, alt: box.about }));
    } catch {
      // what it is stands there already
    }
  }
}
