// A run that failed: the error whole, what helps, and trying it again from there.
//
// Belongs here: what is shown of a failure, and what is agreed to before a retry. Never: what a retry keeps and
// does again, which the server decides.

import { get, post, runPath } from "./api.js";
import { h, text, ticked } from "./parts.js";

export class Repair {
  /** `choose(seq)` shows a step; `send(order)` gives an order and goes to the run that it makes. */
  constructor({ path, app, choose, send }) {
    Object.assign(this, { path, app, choose, send, plan: null });
    this.root = h("div", { className: "repair" });
  }

  /** For a run that ended in another way than it should: its error, and what can be done. */
  async load({ errors, cure }) {
    this.root.replaceChildren();
    try {
      this.plan = await get(`${this.path}/retry`);
    } catch (error) {
      return this.app.fail(error);
    }
    this.show(this.plan, errors.at(-1), cure);
  }

  show(plan, newest, cure) {
    const error = plan.error ?? (plan.kind === "error" ? newest : null);
    const row = (name, ...inside) => h("div", {}, text("dt", name), h("dd", {}, ...inside));
    const look = h("button", { type: "button", className: "cl-link", textContent: `step ${plan.failed}`, on: { click: () => this.choose(plan.failed) } });
    const tried = plan.attempts > 1 ? `, ${plan.attempts} attempts` : "";
    const facts = error
      ? h("dl", { className: "failure" }, row("what", text("strong", error.message)), row("kind", [error.category, error.kind].filter(Boolean).join(", ")), row("where", plan.label, plan.label === error.state ? "" : text("span", ` ${error.state}`, "cl-code cl-muted"), ", ", look, tried), cure ? row("help", ticked(cure)) : null)
      : null;
    const again = h("button", { type: "button", className: "cl-main", textContent: "Try again from here", attrs: { "aria-keyshortcuts": "t" }, on: { click: () => this.ask() } });
    const cannot = plan.refusal ? h("p", {}, `${plan.refusal}: `, ticked(plan.hint)) : null;
    const act = cannot ?? h("div", { className: "again" }, again, h("ul", {}, ...plan.lines.map((line) => ticked(line, "li"))));
    this.root.replaceChildren(...[facts, act].filter(Boolean));
  }

  get can() {
    return this.plan !== null && !this.plan.refusal;
  }

  /** At once where nothing is paid again and no limit stands in the way; else what it means is read first. */
  ask() {
    const { plan } = this;
    if (!this.can) return;
    if (!plan.needs_confirmation && !plan.limits.length) return this.give({});
    const fields = plan.limits.map((limit) => [limit.name, h("input", { type: "text", required: true, value: String(limit.raised), attrs: { "aria-label": `limits.${limit.name}` } }), limit]);
    const give = (event) => {
      event.preventDefault();
      document.getElementById("dialog").close();
      this.give(Object.fromEntries(fields.map(([name, field]) => [name, valueOf(field.value)])));
    };
    const rows = fields.map(([name, field, { used }]) => h("label", {}, text("span", `limits.${name} `), field, text("span", ` it was ${used}`, "cl-muted")));
    const paid = plan.calls.length ? "These calls are made, and may be paid, a second time:" : "";
    const calls = plan.lines.filter((line) => /^(Again|In all|In doubt)/.test(line));
    this.app.dialog(
      "Try again from here",
      ticked(plan.lines[0], "p"),
      paid ? text("p", paid) : null,
      calls.length ? h("ul", {}, ...calls.map((line) => ticked(line, "li"))) : null,
      h("form", { className: "order", on: { submit: give } }, ...rows, h("button", { type: "submit", className: "cl-main", textContent: plan.needs_confirmation ? "I agree: try again" : "Raise it and try again" })),
    );
  }

  give(limits) {
    const body = { confirm: this.plan.digest, ...(Object.keys(limits).length ? { limits } : {}) };
    this.send("retry", body, () => post(`${this.path}/retry`, body));
  }
}

/** A limit as it was typed: a number where it is one, a duration or share as it stands. */
const valueOf = (typed) => {
  const given = typed.trim();
  return given === "off" ? null : given !== "" && Number.isFinite(Number(given)) ? Number(given) : given;
};

/** The way up from a child run, and its neighbours in the step that started it. */
export function wayUp({ above, number, of, previous, next }, own) {
  const parts = above.flatMap(({ run, title, label, seq }) => [
    h("a", { href: runPath(run), textContent: title, title: `run ${run}` }), " › ",
    h("a", { href: `${runPath(run)}${seq === null ? "" : `?step=${seq}`}`, textContent: label }), " › ",
  ]);
  const beside = (run, words) => (run ? h("a", { href: runPath(run), textContent: words, title: run }) : null);
  const neighbours = of > 1 ? [text("span", ` ${number} of ${of} `, "cl-muted"), beside(previous, "← previous"), " ", beside(next, "next →")] : [];
  return h("nav", { className: "way-up", attrs: { "aria-label": "Where this run belongs" } }, ...parts, text("strong", own), ...neighbours.filter(Boolean));
}
