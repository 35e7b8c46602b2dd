// One step in full: how it was decided, what it changed, what was sent and what came back.
//
// Belongs here: tables and folded texts of one step. Never: which step is shown.

import { startedHere } from "./children.js";
import { markdown } from "./markdown.js";
import { columns, decisionRows, factRow, h, ledLine, part, scrolled, text } from "./parts.js";
import { moment } from "./words.js";

const LONG = 20_000; // characters of one folded text

export class Step {
  /** `said` shows items of a conversation. */
  constructor(said) {
    this.said = said;
    this.seq = null;
    this.open = new Set(); // which folds are open: they stay open on the next step
    this.root = h("div", { className: "step" });
  }

  /** A fold that is to be open on this step and the next ones. */
  unfold(name) {
    this.open.add(name);
    for (const fold of this.root.querySelectorAll("details")) if (fold.dataset.name === name) fold.open = true;
  }

  show({ record, why, facts, full, prompt, left_out: older, children = [] }) {
    this.seq = record.seq;
    const rows = decisionRows(why);
    const table = h("table", {}, columns("", "rule or edge", "values", "left", "leads to"), h("tbody", {}, ...rows));
    const led = h("div", { className: "cl-led" }, ...(why?.led ?? []).map(ledLine));
    const news = h("table", {}, columns("fact", "value"), h("tbody", {}, ...[...facts].sort((a, b) => b.read - a.read).map(factRow)));
    const title = `step ${record.seq}: ${why?.title ?? record.kind}`;
    const started = children.length ? part("Started here", "", startedHere(children)) : null;
    this.root.replaceChildren(...[
      started,
      part("Decision", text("span", title, "cl-about"), scrolled("cl-why", "Decision", rows.length ? table : null, led)),
      part("Changed", "", facts.length ? scrolled("cl-facts", "Changed facts", news) : text("p", "It changed no fact.", "cl-muted")),
      part("Sent and received", text("span", moment(full.at), "cl-about"), ...this.folds(full, prompt, older)),
    ].filter(Boolean));
  }

  folds(full, prompt, older) {
    const { outcome = {}, data } = full;
    const { reply, error } = outcome;
    const calls = reply?.tool_calls ?? [];
    const asked = reply !== undefined && prompt.length > 0;
    return [
      error ? this.fold("Error", error.category ?? "", text("p", error.message ?? "", "refused"), long(error)) : null,
      asked ? this.fold("Prompt", older ? `the end of it; ${older} older messages are in the conversation` : "", h("ol", { className: "said-list" }, ...prompt.map((item) => this.said.line(item, null)))) : null,
      reply?.reasoning ? this.fold("Reasoning", "", long(thoughts(reply.reasoning))) : null,
      reply?.text ? this.fold("Reply", reply.model ?? "", markdown(reply.text)) : null,
      ...calls.map((call) => this.fold("Tool call", call.name ?? "", long(asData(call.arguments ?? call)))),
      ...results(outcome).map(([name, value]) => this.fold("Tool result", name, long(value))),
      data ? this.fold("Data", full.kind, long(data)) : null,
      this.fold("Record", `as it is stored, number ${this.seq}`, long(full)),
    ].filter(Boolean);
  }

  fold(name, about, ...inside) {
    const made = h("details", { open: this.open.has(name), attrs: { "data-name": name } }, h("summary", {}, name, " ", text("span", about, "cl-muted")), ...inside);
    made.addEventListener("toggle", () => (made.open ? this.open.add(name) : this.open.delete(name)));
    return made;
  }
}

function results(outcome) {
  const found = outcome.tool_results ?? outcome.results ?? outcome.messages ?? [];
  if (!Array.isArray(found)) return Object.entries(found);
  return found.map((one) => [one.name ?? one.tool_call_id ?? one.role ?? "", words(one.content) ?? one.result ?? one]);
}

/** The content of a message: of one in parts its texts, and images and files by their kind. */
function words(content) {
  if (!Array.isArray(content)) return content;
  return content.map((part) => part.text ?? (part.type === "image_url" ? "[image]" : `[${part.type}]`)).join("\n");
}

/** What a person may read of a model's reasoning; of one that its provider hides, that it is there. */
function thoughts(reasoning) {
  const blocks = [...(reasoning.thinking_blocks ?? []), ...(reasoning.provider_specific_fields?.reasoning_details ?? [])];
  const read = blocks.map((block) => block.thinking ?? block.text ?? block.summary).filter((one) => typeof one === "string");
  return reasoning.reasoning_content ?? (read.join("\n") || "The provider hides it.");
}

/** The arguments of a call as data, where the model wrote JSON. */
function asData(written) {
  try {
    return JSON.parse(written);
  } catch {
    return written;
  }
}

/** A text as it is, anything else as JSON; never as markup. */
function long(value) {
  const whole = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const shown = whole.length > LONG ? `${whole.slice(0, LONG)}\n… ${whole.length - LONG} characters more: see the record over the API` : whole;
  return h("pre", { textContent: shown, attrs: { tabindex: "0" } });
}
