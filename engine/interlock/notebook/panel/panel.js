// The page of a panel. It shows what the kernel says and sends orders; it decides nothing.
//
// Belongs here: elements, and which trait of the model each of them shows. Never: a request to
// anybody, a library, markup made of text. Every text is put in as text; only the picture comes as
// markup, and is stripped of all that could act.

const PATIENCE = 4000; // ms without a word from the kernel, after which the person is told
const ACTIVE = "script, foreignObject, iframe, object, embed, use, animate, set, image";
const KEYS = { s: "step", r: "run", p: "pause", b: "back" };

/** An element with properties, attributes (in `aria`, `data` and `attrs`) and children. */
function h(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  const { attrs = {}, on = {}, ...rest } = properties;
  Object.assign(made, rest);
  for (const [name, value] of Object.entries(attrs)) made.setAttribute(name, value);
  for (const [name, heard] of Object.entries(on)) made.addEventListener(name, heard);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** The picture, with nothing in it that could run, load or lead anywhere. */
function parsed(svg) {
  const read = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  if (read.nodeName !== "svg") return null;
  read.querySelectorAll(ACTIVE).forEach((part) => part.remove());
  for (const part of [read, ...read.querySelectorAll("*")]) {
    for (const { name, value } of [...part.attributes]) {
      const leads = /(^|:)href$/i.test(name) && !value.startsWith("#");
      if (/^on/i.test(name) || leads) part.removeAttribute(name);
    }
  }
  return document.importNode(read, true);
}

/** Whether the page around the panel is dark: as JupyterLab and marimo say it, else the system. */
function isDark() {
  const { body, documentElement: root } = document;
  if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false";
  if ([root, body].some((part) => part.classList.contains("dark"))) return true;
  if ([root, body].some((part) => part.classList.contains("light"))) return false;
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

class Panel {
  constructor(model, el) {
    this.model = model;
    this.sent = 0;
    this.pending = false;
    this.allFacts = false;
    this.zoom = 0; // 0: as wide as there is room
    this.build(el);
    this.heard = {
      board: () => this.showBoard(),
      sheet: () => this.showSheet(),
      paint: () => this.showPaint(),
      why: () => this.showWhy(),
      busy: () => this.showBusy(),
      fault: () => this.showFault(),
      heard: () => this.answered(),
    };
    for (const [name, show] of Object.entries(this.heard)) {
      model.on(`change:${name}`, show);
      if (name !== "heard") show();
    }
    this.watch = new MutationObserver(() => this.showTheme());
    for (const part of [document.documentElement, document.body]) {
      this.watch.observe(part, { attributes: true, attributeFilter: ["class", "data-jp-theme-light"] });
    }
    this.showTheme();
    this.order({ do: "show" });
  }

  close() {
    clearTimeout(this.timer);
    this.watch.disconnect();
    for (const [name, show] of Object.entries(this.heard)) this.model.off(`change:${name}`, show);
  }

  // what is on the page ------------------------------------------------------------------------

  build(el) {
    this.title = h("span", { className: "il-title" });
    this.state = h("span", { className: "il-state" });
    this.status = h("span", { className: "il-status" });
    this.spent = h("span", { className: "il-muted" });
    this.run = h("span", { className: "il-muted il-run" });
    this.buttons = {
      step: this.button("Step", "Do the action at hand", () => this.order({ do: "step" }), "s"),
      run: this.button("Run", "Go on to the end, or to a question", () => this.order({ do: "run" }), "r"),
      pause: this.button("Pause", "Rest before the next action", () => this.order({ do: "pause" }), "p"),
      back: this.button("Back", "Take the newest record back", () => this.back(), "b"),
      to: this.button("Run to", "Go on until this state is entered, or this guard holds", () => this.runTo()),
      set: this.button("Set", "Change this limit or variable: it is put on the record", () => this.set()),
    };
    this.buttons.step.classList.add("il-main");
    this.goals = h("datalist", { id: `il-goals-${Math.random().toString(36).slice(2)}` });
    this.goal = h("input", {
      type: "text", placeholder: "state or guard", spellcheck: false, autocomplete: "off",
      attrs: { list: this.goals.id, "aria-label": "Run to this state or guard", size: "16" },
      on: { keydown: (event) => { if (event.key === "Enter") { event.preventDefault(); this.press("to"); } } },
    });
    this.names = h("select", { attrs: { "aria-label": "Limit or variable" }, on: { change: () => this.showEdited() } });
    this.value = h("input", { type: "text", spellcheck: false, attrs: { "aria-label": "Its new value", size: "8" } });
    const group = (submit, ...parts) => h("form", { className: "il-group", on: { submit: (event) => { event.preventDefault(); submit(); } } }, ...parts);
    this.buttons.to.type = this.buttons.set.type = "submit";
    this.busy = h("div", { className: "il-busy", attrs: { role: "status", "aria-live": "polite" } });
    this.fault = h("div", { className: "il-fault", hidden: true, attrs: { role: "alert" } });
    this.asks = h("div", { className: "il-asks", hidden: true });
    this.ending = h("div", { className: "il-ending", hidden: true });
    this.picture = h("div", { className: "il-picture", attrs: { role: "img", tabindex: "0" }, on: { click: (event) => this.choose(event) } });
    const zoom = (text, title, by) => h("button", { type: "button", textContent: text, title, attrs: { "aria-label": title }, on: { click: () => this.resize(by) } });
    this.zooms = h("div", { className: "il-zooms" }, zoom("−", "Smaller picture", 0.8), zoom("Fit", "Picture as wide as there is room", 0), zoom("+", "Larger picture", 1.25));
    this.facts = h("tbody");
    this.filter = h("input", { type: "search", placeholder: "Filter facts", attrs: { "aria-label": "Filter facts" }, on: { input: () => this.showFacts() } });
    this.more = h("button", { type: "button", className: "il-link", on: { click: () => { this.allFacts = !this.allFacts; this.showFacts(); } } });
    this.whyHead = h("span", { className: "il-about" });
    this.why = h("tbody");
    this.led = h("div", { className: "il-led" });
    this.records = h("tbody");
    this.recordsBox = h("div", { className: "il-scroll il-records", attrs: { tabindex: "0", "aria-label": "Records" } },
      h("table", {}, this.columns("#", "kind", "at", "did", "came", "took", "then", "because"), this.records));
    const part = (name, about, ...inside) => h("section", { className: "il-part" }, h("h3", {}, name, " ", about), ...inside);
    this.root = h("section", { className: "il-panel", attrs: { "data-lm-suppress-shortcuts": "true" }, on: { keydown: (event) => this.key(event) } },
      h("header", {}, this.title, this.state, this.status, this.spent, this.run),
      h("div", { className: "il-bar", attrs: { role: "toolbar", "aria-label": "Drive the run" } },
        h("div", { className: "il-group" }, this.buttons.step, this.buttons.run, this.buttons.pause, this.buttons.back),
        group(() => this.press("to"), this.buttons.to, this.goal, this.goals),
        group(() => this.press("set"), this.buttons.set, this.names, this.value), this.busy),
      this.fault, this.asks, this.ending,
      h("div", { className: "il-columns" },
        h("div", { className: "il-left" }, h("div", { className: "il-frame" }, this.picture, this.zooms)),
        h("div", { className: "il-right" },
          part("Decision", this.whyHead, h("div", { className: "il-scroll il-why" }, h("table", {}, this.columns("", "rule or edge", "values", "left", "leads to"), this.why), this.led)),
          part("Facts", h("span", { className: "il-about" }, this.filter, this.more), h("div", { className: "il-scroll il-facts", attrs: { tabindex: "0", "aria-label": "Facts" } }, h("table", {}, this.columns("fact", "value"), this.facts))),
        )),
      part("Records", h("span", { className: "il-about" }, "choose one to see its decision"), this.recordsBox),
    );
    el.replaceChildren(this.root);
  }

  columns(...names) {
    return h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { textContent: name, attrs: { scope: "col" } }))));
  }

  button(text, title, does, key) {
    const made = h("button", { type: "button", textContent: text });
    made.about = key ? `${title} (${key})` : title;
    made.does = does;
    if (key) made.setAttribute("aria-keyshortcuts", key);
    made.addEventListener("click", (event) => {
      if (made.type === "button") this.press(Object.keys(this.buttons).find((name) => this.buttons[name] === made));
      else if (made.getAttribute("aria-disabled") === "true") { event.preventDefault(); this.press("to"); }
    });
    return made;
  }

  /** A button that cannot be pressed keeps the focus, and says why. */
  press(name) {
    const button = this.buttons[name];
    if (button.getAttribute("aria-disabled") !== "true") button.does();
    else this.say(button.title);
  }

  key(event) {
    const typing = event.target.closest("input, select, textarea");
    const name = KEYS[event.key];
    if (!name || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.press(name);
  }

  // orders -------------------------------------------------------------------------------------

  order(asked) {
    this.sent = Math.max(Date.now(), this.sent + 1);
    this.pending = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.unheard(), PATIENCE);
    this.model.set("order", { ...asked, id: this.sent });
    this.model.save_changes();
    this.showButtons();
  }

  answered() {
    if (this.model.get("heard") !== this.sent) return;
    clearTimeout(this.timer);
    this.pending = false;
    this.showFault();
    this.showButtons();
  }

  unheard() {
    this.pending = false;
    this.showButtons();
    this.say("No answer from the kernel yet.", "It may be busy with a cell, and then it answers later. If it was restarted, run this panel's cell again.");
  }

  back() {
    const { records } = this.model.get("board");
    const newest = records.at(-1).seq;
    this.order({ do: "back", records: newest - this.kept() });
  }

  /** The record that a step back leaves as the newest one. */
  kept() {
    const newest = this.model.get("board").records?.at(-1)?.seq ?? 0;
    const chosen = this.model.get("why")?.seq ?? newest;
    return chosen < newest ? chosen : newest - 1;
  }

  runTo() {
    const until = this.goal.value.trim();
    if (until) this.order({ do: "run", until });
    else { this.say("Say where to: a state, or a guard such as run.steps >= 3."); this.goal.focus(); }
  }

  set() {
    this.edited = "";
    this.order({ do: "set", name: this.names.value, value: this.value.value });
  }

  choose(event) {
    const node = event.target.closest?.("g.node");
    const name = node && (this.model.get("sheet").boxes ?? {})[node.id];
    if (name && this.model.get("board").states.includes(name)) this.goal.value = name;
  }

  // showing ------------------------------------------------------------------------------------

  showTheme() {
    this.root.style.colorScheme = isDark() ? "dark" : "light";
  }

  showBoard() {
    const board = this.model.get("board");
    this.root.setAttribute("aria-label", `Run of ${board.machine ?? "a machine"}`);
    this.title.textContent = board.title ?? "…";
    this.state.textContent = board.state ?? "";
    this.status.textContent = board.status ?? "";
    this.status.dataset.status = board.ended ? board.kind : board.status ?? "";
    this.spent.textContent = board.spent ?? "";
    this.run.textContent = board.run ? `run ${board.run}` : "";
    this.picture.setAttribute("aria-label", `Flowchart of ${board.title}, now at ${board.state}`);
    this.showButtons();
    this.showGoals(board);
    this.showEditable(board);
    this.showAsks(board);
    this.showEnding(board);
    this.showFacts();
    this.showRecords(board);
  }

  showButtons() {
    const board = this.model.get("board");
    const driven = this.model.get("busy") !== "";
    const cannot = { ...(board.cannot ?? {}) };
    cannot.to = cannot.run;
    if (!driven) cannot.pause = "The run is not being driven";
    else for (const name of ["step", "run", "back", "to", "set"]) cannot[name] = "The run is being driven: pause it first";
    if (this.pending) for (const name of Object.keys(this.buttons)) cannot[name] ??= "The kernel has not answered yet";
    for (const [name, button] of Object.entries(this.buttons)) {
      button.setAttribute("aria-disabled", String(Boolean(cannot[name])));
      button.title = cannot[name] ?? button.about;
    }
    const newest = board.records?.at(-1)?.seq ?? 0;
    const kept = this.kept();
    this.buttons.back.textContent = kept < newest - 1 ? `Back to ${kept}` : "Back";
    this.asks.querySelectorAll("button").forEach((button) => button.setAttribute("aria-disabled", String(driven || this.pending)));
  }

  showGoals(board) {
    this.goals.replaceChildren(...(board.states ?? []).map((name) => h("option", { value: name })));
  }

  showEditable(board) {
    const editable = board.editable ?? [];
    const chosen = this.names.value;
    const known = [...this.names.options].map((option) => option.value).join();
    if (known !== editable.map((one) => one.name).join()) {
      this.names.replaceChildren(...editable.map((one) => h("option", { value: one.name, textContent: one.name, title: one.type })));
      if (chosen) this.names.value = chosen;
    }
    this.buttons.set.parentElement.hidden = editable.length === 0;
    const now = JSON.stringify(editable);
    if (this.edited !== now) { this.edited = now; this.showEdited(); }
  }

  showEdited() {
    const found = (this.model.get("board").editable ?? []).find((one) => one.name === this.names.value);
    this.value.value = found?.value ?? "";
    this.value.title = found ? `${found.name}: ${found.type}` : "";
  }

  /** Built anew only for another question: what somebody types stays. */
  showAsks(board) {
    const asked = JSON.stringify([board.run, board.question, board.answers, board.records?.length]);
    if (asked === this.asked) return;
    this.asked = asked;
    const answers = board.answers ?? [];
    this.asks.hidden = answers.length === 0;
    this.asks.replaceChildren(h("p", { className: "il-question", textContent: board.question ?? "" }), ...answers.map((one) => this.answer(one)));
  }

  answer({ event, fields }) {
    const inputs = fields.map((field) => [field.name, this.input(field)]);
    const labels = inputs.map(([name, input], place) => h("label", {}, `${name} `, input, fields[place].kind === "str" ? null : h("span", { className: "il-muted", textContent: ` ${fields[place].type}` })));
    const submit = (asked) => {
      asked.preventDefault();
      if (button.getAttribute("aria-disabled") === "true") return;
      const data = Object.fromEntries(inputs.map(([name, input]) => [name, input.type === "checkbox" ? input.checked : input.value]));
      this.order({ do: "answer", event, data });
    };
    const button = h("button", { type: "submit", textContent: event });
    return h("form", { className: "il-answer", on: { submit } }, button, ...labels);
  }

  input({ name, kind, values, optional }) {
    if (kind === "bool") return h("input", { type: "checkbox" });
    if (kind === "enum") {
      const none = optional ? [h("option", { value: "", textContent: "" })] : [];
      return h("select", {}, ...none, ...values.map((value) => h("option", { value, textContent: value })));
    }
    const modes = { int: "numeric", float: "decimal" };
    const examples = { duration: "30m", fraction: "95%", list: '["a", "b"]', map: '{"a": 1}' };
    return h("input", { type: "text", required: false, placeholder: examples[kind] ?? "", attrs: { inputmode: modes[kind] ?? "text", "data-field": name } });
  }

  showEnding(board) {
    this.ending.hidden = !board.ended;
    this.ending.dataset.kind = board.kind ?? "";
    const output = board.output ? h("p", { className: "il-output", textContent: board.output }) : null;
    this.ending.replaceChildren(...[output, h("p", { textContent: board.said ?? "" })].filter(Boolean));
  }

  showFacts() {
    const facts = this.model.get("board").facts ?? [];
    const wanted = this.filter.value.trim().toLowerCase();
    const shown = facts.filter((fact) => (wanted ? fact.name.toLowerCase().includes(wanted) : this.allFacts || fact.changed || fact.read));
    this.facts.replaceChildren(...shown.map((fact) => this.fact(fact)));
    const hidden = facts.length - facts.filter((fact) => fact.changed || fact.read).length;
    this.more.hidden = hidden === 0 || wanted !== "";
    this.more.textContent = this.allFacts ? "fewer" : `${hidden} more`;
    this.more.setAttribute("aria-expanded", String(this.allFacts));
  }

  fact({ name, value, changed, was, about }) {
    const mark = changed ? h("span", { className: "il-mark", textContent: "●", title: "changed by the newest record", attrs: { "aria-label": "changed" } }) : null;
    const before = changed ? h("span", { className: "il-was" }, h("span", { textContent: was }), " → ") : null;
    return h("tr", { className: changed ? "il-changed" : "", title: about },
      h("th", { attrs: { scope: "row" } }, mark, name), h("td", {}, before, h("span", { textContent: value })));
  }

  showWhy() {
    const why = this.model.get("why");
    this.whyHead.textContent = why ? `record ${why.seq}: ${why.title}` : "nothing is decided yet";
    const rows = (why?.groups ?? []).flatMap((group) => [
      h("tr", { className: "il-head" }, h("th", { textContent: group.name, colSpan: 5, attrs: { scope: "rowgroup" } })), ...group.rows.map((row) => this.row(row)),
    ]);
    this.why.parentElement.hidden = rows.length === 0;
    this.why.replaceChildren(...rows);
    this.led.replaceChildren(...(why?.led ?? []).map(({ what, said }) => h("p", {}, h("span", { className: "il-muted", textContent: `${what} ` }), said)));
    this.showButtons();
    this.markRecord();
  }

  row(row) {
    const bar = typeof row.share === "number" && row.left ? this.bar(row.share) : null;
    const kind = row.taken ? "il-taken" : row.looked ? "" : "il-unseen";
    return h("tr", { className: `${kind} ${row.atom ? "il-atom" : ""}` },
      h("td", { textContent: row.mark, className: "il-sign" }), h("td", { className: "il-code", textContent: row.text }), h("td", { textContent: row.values }),
      h("td", { className: "il-left-over" }, row.left, bar), h("td", { textContent: row.to }));
  }

  bar(share) {
    const made = h("span", { className: "il-share", attrs: { "aria-hidden": "true" } }, h("span"));
    made.firstChild.style.width = `${Math.round(share * 100)}%`;
    made.dataset.level = share >= 1 ? "full" : share >= 0.8 ? "high" : "low";
    return made;
  }

  showRecords(board) {
    const records = board.records ?? [];
    const cut = board.left_out ? [h("tr", {}, h("td", { colSpan: 8, className: "il-muted", textContent: `${board.left_out} older records are not shown` }))] : [];
    const known = this.records.dataset.known;
    const now = `${board.run} ${records.length} ${records.at(-1)?.seq}`;
    if (known === now) return;
    this.records.dataset.known = now;
    this.records.replaceChildren(...cut, ...records.map((record) => this.record(record)));
    this.markRecord();
    this.recordsBox.scrollTop = this.recordsBox.scrollHeight;
  }

  record(record) {
    const choose = h("button", { type: "button", className: "il-link", textContent: record.seq, attrs: { "aria-label": `Decision of record ${record.seq}` }, on: { click: () => this.order({ do: "why", seq: record.seq }) } });
    const texts = ["kind", "at", "did", "came", "took", "then", "because"].map((name) => h("td", { textContent: record[name] ?? "", className: `il-${name}` }));
    const made = h("tr", { className: record.failed ? "il-failed" : "" }, h("td", {}, choose), ...texts);
    made.dataset.seq = record.seq;
    return made;
  }

  markRecord() {
    const seq = String(this.model.get("why")?.seq ?? "");
    this.records.querySelectorAll("tr").forEach((row) => row.classList.toggle("il-chosen", row.dataset.seq === seq));
  }

  showBusy() {
    const busy = this.model.get("busy");
    this.busy.textContent = busy ? `${busy}…` : "";
    this.root.classList.toggle("il-driven", busy !== "");
    this.showButtons();
  }

  showFault() {
    const fault = this.model.get("fault");
    if (fault) this.say(fault.message, fault.hint);
    else { this.fault.hidden = true; this.fault.replaceChildren(); }
  }

  say(message, hint = "") {
    const close = h("button", { type: "button", className: "il-link", textContent: "Close", on: { click: () => { this.fault.hidden = true; } } });
    this.fault.replaceChildren(h("span", { className: "il-message", textContent: message }), hint ? h("span", { className: "il-hint", textContent: hint }) : "", close);
    this.fault.hidden = false;
  }

  // the picture --------------------------------------------------------------------------------

  showSheet() {
    const { picture = "", outline = "" } = this.model.get("sheet");
    this.svg = picture ? parsed(picture) : null;
    this.picture.replaceChildren(this.svg ?? h("pre", { textContent: outline }));
    this.zooms.hidden = !this.svg;
    if (this.svg) {
      const [, , width, height] = (this.svg.getAttribute("viewBox") ?? "0 0 600 600").split(/\s+/).map(Number);
      this.size = { width: (width * 4) / 3, height: (height * 4) / 3 };
      this.resize(0);
    }
    this.showPaint();
  }

  /** 0 fits the picture to its place, or to half its size where it would be too small to read. */
  resize(by) {
    const room = this.picture.clientWidth - 2;
    const fit = Math.max(Math.min(1, room / this.size.width), 0.5);
    this.zoom = by ? Math.min(3, Math.max(0.2, (this.zoom || fit) * by)) : 0;
    const wide = this.size.width * (this.zoom || fit);
    this.svg.setAttribute("width", room > 0 || this.zoom ? wide : "100%");
    this.svg.removeAttribute("height");
    this.follow();
  }

  showPaint() {
    const { style = "", texts = {} } = this.model.get("paint");
    if (!this.svg) return;
    const sheet = this.svg.querySelector("style");
    if (sheet) sheet.textContent = style;
    this.svg.querySelectorAll('[id$="-said"]').forEach((place) => { place.textContent = texts[place.id] ?? ""; });
    this.follow();
  }

  /** Bring the box that the run is in into view, inside the picture's own frame. */
  follow() {
    const { boxes = {} } = this.model.get("sheet");
    const { state } = this.model.get("board");
    const id = Object.keys(boxes).find((one) => boxes[one] === state);
    const node = id && this.svg?.querySelector(`#${CSS.escape(id)}`);
    if (!node || !this.picture.clientHeight) return;
    const frame = this.picture.getBoundingClientRect();
    const box = node.getBoundingClientRect();
    if (box.top < frame.top || box.bottom > frame.bottom) this.picture.scrollTop += box.top - frame.top - (frame.height - box.height) / 2;
    if (box.left < frame.left || box.right > frame.right) this.picture.scrollLeft += box.left - frame.left - (frame.width - box.width) / 2;
  }
}

export default {
  render({ model, el }) {
    const panel = new Panel(model, el);
    const sized = new ResizeObserver(() => { if (panel.svg && !panel.zoom) panel.resize(0); });
    sized.observe(panel.picture);
    return () => { sized.disconnect(); panel.close(); };
  },
};
