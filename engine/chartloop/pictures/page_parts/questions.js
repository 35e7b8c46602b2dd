// A question: what is asked, and the forms that answer it. An approval is decided call by call.
//
// Belongs here: what a person reads and fills in. Never: sending it, or which question there is.

const EXAMPLES = { duration: "30m", fraction: "95%", list: '["a", "b"]', map: '{"a": 1}' };
const LONG = new Set(["str", "any", "list", "map"]);
const MOST_ROWS = 12;
const KEYBOARDS = { int: "numeric", float: "decimal" };
const UNSIGNED = "`by` is empty: say who answers";
const SAID = { str: null, bool: null, enum: null, int: "a whole number", float: "a number" }; // types that people need not know
const PLAIN = { string: "str", integer: "int", number: "float" }; // types of a JSON schema

/** What is asked and below it what it is about, in their lines. Calls stand in cards of their own: the
 *  lines that name them end the text. */
function askedParts({ text: asked, about, calls = [] }) {
  const lines = (asked || "It waits for an answer").split("\n");
  const own = calls.length + calls.filter((call) => call.edited_by !== undefined).length;
  const [head, ...more] = own ? lines.slice(0, -own) : lines;
  const under = own ? more.map((line) => text("p", line, "cl-muted")) : [text("div", more.join("\n").trim(), "cl-decided")];
  const all = [text("p", head, "cl-question"), ...under, text("div", about, "cl-decided")];
  return all.filter((part) => part.textContent);
}

/** What answers a question: a form for each event, or one in which each call is decided. `send(event, data)` gets
 *  the data as typed. `root` holds the forms; `refuse(message)` puts a refusal where its cause was typed. `signer`
 *  says once who answers (`name`, `refuse(message)`); without it each form has a field `by`. */
function answerForms({ answers, calls = [], rest = 0 }, send, signer = null) {
  if (calls.length) return new Decisions(answers, calls, send, signer);
  // while the calls of a long question are not shown, their decisions are no field to type into
  const asks = ({ name, type }) => !(rest && name === "calls" && type.startsWith("map[any]"));
  const form = (answer) => answerForm({ ...answer, fields: answer.fields.filter(asks) }, (data) => send(answer.event, data), signer);
  const refuse = (message) => Boolean(signer && message.includes("`by`") && signer.refuse(message));
  const signs = answers.some(({ fields }) => fields.some(({ name }) => name === "by"));
  return { root: h("div", { className: "cl-answers" }, signs ? signer?.root : null, ...answers.map(form)), refuse };
}

/** The button of an answer: green with a tick if it lets something happen, red with a cross if it holds it back. */
function answerButton({ event, tone = "" }, type, label = event, on = {}) {
  return h("button", { type, className: tone ? `cl-tone cl-${tone}` : "", on }, text("span", label, "cl-event"));
}

/** The form of one event, with a field for each of its data. `send` gets them as they were typed. */
function answerForm({ event, fields: all, target, next, tone }, send, signer) {
  const signs = signer !== null && all.some(({ name }) => name === "by");
  const fields = signs ? all.filter(({ name }) => name !== "by") : all;
  const inputs = fields.map((field) => [field.name, Object.assign(fieldInput(field), { name: field.name })]);
  const typed = ([name, input]) => [name, input.type === "checkbox" ? input.checked : input.value];
  const button = answerButton({ event, tone }, "submit");
  const submit = (asked) => {
    asked.preventDefault();
    if (!isOn(button)) return;
    if (signs && !signer.name) return signer.refuse(UNSIGNED);
    send({ ...Object.fromEntries(inputs.map(typed)), ...(signs ? { by: signer.name } : {}) });
  };
  const labels = inputs.map(([name, input], place) => {
    const { kind, type } = fields[place];
    return h("label", {}, `${name} `, input, kind in SAID ? SAID[kind] && text("span", ` ${SAID[kind]}`, "cl-muted") : text("span", ` ${type}`, "cl-muted"));
  });
  return h("form", { className: "cl-answer", on: { submit } }, button, ...labels, nextWords(next || target));
}

/** What happens next, beside its answer. */
const nextWords = (next) => (next ? text("span", `→ ${next}`, "cl-muted cl-next") : null);

function fieldInput({ name, kind, values, optional }) {
  if (name === "by") return h("input", { type: "text", autocomplete: "off" });
  if (kind === "bool") return h("input", { type: "checkbox" });
  if (kind === "enum") {
    const options = optional ? ["", ...values] : values;
    return h("select", {}, ...options.map((value) => h("option", { value, textContent: value })));
  }
  const placeholder = EXAMPLES[kind] ?? "";
  if (LONG.has(kind)) return textBox(placeholder);
  const attrs = { inputmode: KEYBOARDS[kind] ?? "text" };
  return h("input", { type: "text", placeholder, attrs });
}

/** A field that keeps every line that is pasted. Enter sends, Shift-Enter begins a new line. */
function textBox(placeholder) {
  const grow = ({ target }) => {
    target.rows = Math.min(MOST_ROWS, target.value.split("\n").length);
  };
  const key = (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault(); // a notebook has plans of its own for Shift-Enter
    const { target } = event;
    if (!event.shiftKey) return target.form.requestSubmit();
    target.setRangeText("\n", target.selectionStart, target.selectionEnd, "end");
    grow(event);
  };
  const title = "Enter sends, Shift-Enter begins a new line";
  return h("textarea", { rows: 1, placeholder, title, on: { input: grow, keydown: key } });
}

// calls of an approval ----------------------------------------------------------------------------

/** The calls of a question, each with its choices, and what holds for all of them. Pressing `accept` or `deny`
 *  decides on all alike, until something is chosen for a call: then the event follows from what was chosen. */
class Decisions {
  constructor(answers, calls, send, signer = null) {
    Object.assign(this, { answers, send, signer });
    const all = calls.length > 1 ? " all" : "";
    this.calls = calls.map((call, place) => new HeldCall(call, all ? `${place + 1}. ${call.name}` : call.name, all !== "", () => this.show()));
    const taken = new Map(answers.flatMap(({ fields }) => fields).map((field) => [field.name, field]));
    this.by = labelled("by", h("input", { type: "text", name: "by", autocomplete: "off" }), "who decides");
    this.note = labelled("note", Object.assign(textBox(""), { name: "note" }), "for the model, if denied");
    this.remember = labelled("remember", h("input", { type: "checkbox", name: "remember" }), "accept equal calls of this run as well");
    this.signs = taken.has("by");
    this.by.root.hidden = !this.signs || signer !== null;
    this.canRemember = taken.has("remember");
    const press = (event, label) => {
      const click = (pressed) => isOn(pressed.currentTarget) && this.answer(event);
      const { tone = { accept: "yes", deny: "no" }[event], next } = answers.find((answer) => answer.event === event) ?? {};
      return h("span", { className: "cl-way" }, answerButton({ event, tone }, "button", `${label}${all}`, { click }), nextWords(next));
    };
    this.alike = h("span", { className: "cl-ways" }, press("accept", "accept"), press("deny", "deny"));
    this.button = h("button", { type: "submit", className: "cl-main" });
    const undo = h("button", { type: "button", className: "cl-link", textContent: "Undo the choices", on: { click: () => this.undo() } });
    this.again = text("span", "Nothing is decided yet: all calls are then shown again, as they were changed.", "cl-muted");
    this.chosen = h("span", { className: "cl-choices" }, this.button, undo, this.again);
    const submit = (asked) => {
      asked.preventDefault();
      if (!this.chosen.hidden && isOn(this.button)) this.decide();
    };
    const common = h("div", { className: "cl-answer" }, this.signs ? signer?.root : null, this.by.root, this.note.root, this.remember.root, this.alike, this.chosen);
    this.root = h("form", { className: "cl-calls", on: { submit } }, ...this.calls.map((call) => call.root), common);
    this.show();
  }

  get event() {
    const words = this.calls.map((call) => call.word);
    if (words.includes("edit")) return "edit";
    return words.includes("accept") || words.includes("result") ? "accept" : "deny";
  }

  show() {
    const some = this.calls.some((call) => call.word);
    this.alike.hidden = this.note.root.hidden = some;
    this.chosen.hidden = !some;
    const edits = this.event === "edit";
    this.again.hidden = !edits;
    this.remember.root.hidden = !this.canRemember || edits;
    this.button.textContent = edits ? "Ask again with the changes" : "Send the decisions";
  }

  undo() {
    for (const call of this.calls) call.choose("");
    this.show();
    this.alike.querySelector("button").focus();
  }

  /** What was chosen for each call; changes alone, where there are any: all calls are then shown again. */
  decide() {
    const { event } = this;
    const open = this.calls.find((call) => !call.word);
    if (event !== "edit" && open) return open.refuse("accept or deny this call as well");
    const told = this.calls.filter((call) => event !== "edit" || call.word === "edit");
    this.answer(event, told.map((call) => `${JSON.stringify(call.key)}:${call.decision()}`));
  }

  answer(event, decisions = null) {
    this.refuse("");
    if (this.signs && this.signer && !this.signer.name) return this.signer.refuse(UNSIGNED);
    const names = this.answers.find((answer) => answer.event === event).fields.map(({ name }) => name);
    const values = { by: this.signer ? this.signer.name : this.by.input.value, note: this.note.input.value, remember: this.remember.input.checked };
    const data = Object.fromEntries(names.filter((name) => name in values).map((name) => [name, values[name]]));
    if (decisions) data.calls = `{${decisions.join(",")}}`;
    this.send(event, data);
  }

  /** Whether a refusal has a place here: at the call and the argument that it names, or at a field. */
  refuse(message) {
    for (const place of [this.by, ...this.calls]) place.refuse("");
    const call = this.calls.find(({ key }) => message.includes(`\`${readable(key)}\``));
    if (!call && this.signer && message.includes("`by`")) return this.signer.refuse(message);
    const place = call ?? (message.includes("`by`") ? this.by : null);
    place?.refuse(message);
    return place !== null;
  }
}

/** One call: its arguments, and what a person may choose for it. */
class HeldCall {
  constructor(call, title, several, changed) {
    Object.assign(this, { key: call.key, word: "" });
    const { properties = {}, required = [] } = call.schema ?? {};
    const given = new Map(call.shown.map(([name, value]) => [name ? JSON.parse(name) : "", value]));
    const names = [...new Set([...given.keys(), ...Object.keys(properties)])].filter(Boolean);
    this.fields = names.map((name) => argumentField(name, properties[name], given.get(name), { required: required.includes(name), filled: call.defaults?.includes(`/${name}`) }));
    this.note = labelled("note", textBox(""), "for the model");
    this.result = labelled("answer", textBox(""), "what the model reads; nothing is executed");
    const words = { ...(several ? { accept: "accept", deny: "deny" } : {}), ...(call.schema ? { edit: "change", result: "answer in the tool's place" } : {}) };
    const group = `cl-${Math.random().toString(36).slice(2)}`;
    this.radios = Object.entries(words).map(([value, label]) => {
      const on = { change: () => (this.choose(value), changed()) };
      return { value, label, input: h("input", { type: "radio", name: group, value, on }) };
    });
    this.parts = { deny: this.note.root, result: this.result.root, edit: h("div", { className: "cl-changes" }, ...this.fields.map(({ root }) => root)) };
    this.fault = text("p", "", "cl-refused");
    this.fault.setAttribute("role", "alert");
    const raw = call.shown.map(([name, value]) => ({ name: name.slice(1, -1), text: value }));
    const by = call.edited_by === undefined ? null : text("span", `changed by ${call.edited_by || "a person"}`, "cl-changed");
    this.root = h(
      "fieldset", { className: "cl-call" },
      h("legend", {}, title, " ", by),
      h("dl", {}, ...(call.rows ?? raw).flatMap(argumentRow)),
      h("div", { className: "cl-choices" }, ...this.radios.map(({ label, input }) => h("label", {}, input, ` ${label}`))),
      ...Object.values(this.parts), this.fault,
    );
    this.choose("");
  }

  choose(word) {
    this.word = word;
    for (const { value, input } of this.radios) input.checked = value === word;
    for (const [name, part] of Object.entries(this.parts)) part.hidden = name !== word;
  }

  /** As JSON. */
  decision() {
    if (this.word === "edit") return `{"arguments":{${this.fields.map(({ json }) => json()).filter(Boolean).join(",")}}}`;
    if (this.word === "result") return JSON.stringify({ result: this.result.input.value });
    const note = this.word === "deny" && this.note.input.value;
    return JSON.stringify(note ? { decision: "deny", note } : this.word);
  }

  refuse(message) {
    const [, told = ""] = message.split("do not fit its tool: ");
    const about = this.fields.find(({ name }) => [":", ".", "["].some((sign) => told.startsWith(readable(name) + sign)));
    for (const field of this.fields) field.refuse(field === about ? told : "");
    this.fault.textContent = about ? "" : message;
    if (message && !about) this.radios[0]?.input.focus();
  }
}

/** An argument: its name and its value. A long one has a box of its own, which scrolls and moves no other row. */
function argumentRow({ name, text: value, money = false, note = "", long = "" }) {
  const said = note ? text("span", ` (${note})`, "cl-note") : null;
  const attrs = { role: "region", "aria-label": `${name}, ${long}` };
  const parts = long ? [text("span", long, "cl-muted"), said, h("div", { className: "cl-block", textContent: value, tabIndex: 0, attrs })] : [value, said];
  return [text("dt", name), h("dd", { className: money ? "cl-money" : "" }, ...parts)];
}

/** A field for an argument, by its schema. `given` is its value as JSON; one that is not touched is sent as it was,
 *  or left out once more. */
function argumentField(name, schema = {}, given, { required, filled }) {
  const isText = schema.type === "string" && !schema.enum && (given === undefined || given.startsWith('"'));
  const shown = isText ? readable(JSON.parse(given ?? '""')) : (given ?? "");
  const values = schema.enum?.map((value) => JSON.stringify(value)) ?? (schema.type === "boolean" ? ["true", "false"] : null);
  const kind = values ? "enum" : isText ? "str" : (PLAIN[schema.type] ?? "any");
  const some = values && shown && !values.includes(shown) ? [shown, ...values] : values;
  const input = fieldInput({ kind, values: some, optional: !required || !given });
  input.value = shown;
  if (input.rows) input.rows = Math.min(MOST_ROWS, shown.split("\n").length);
  const json = () => {
    const { value } = input;
    if (value === shown) return filled ? undefined : given;
    if (isText) return JSON.stringify(value);
    return value.trim() === "" ? undefined : isJson(value) ? value : JSON.stringify(value);
  };
  const field = labelled(readable(name), input, kind === "str" ? "" : (schema.type ?? "JSON"));
  return { ...field, name, json: () => (json() === undefined ? "" : `${JSON.stringify(name)}:${json()}`) };
}

/** A field with its name, what it is for, and a place for why it is refused. */
function labelled(name, input, about) {
  const fault = text("span", "", "cl-refused");
  fault.setAttribute("role", "alert");
  const refuse = (message) => {
    fault.textContent = message;
    input.setAttribute("aria-invalid", String(message !== ""));
    if (message) input.focus();
  };
  return { input, refuse, root: h("label", {}, text("span", `${name} `), input, about ? text("span", ` ${about}`, "cl-muted") : null, fault) };
}

const isOn = (button) => button.getAttribute("aria-disabled") !== "true";

function isJson(typed) {
  try {
    JSON.parse(typed);
    return true;
  } catch {
    return false;
  }
}
