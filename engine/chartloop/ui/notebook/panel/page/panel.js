// The panel: shows what the kernel says, and sends orders. It decides nothing.
//
// Belongs here: which trait of the model is shown where, and which order a button sends. Never: what a
// row or a form looks like (`view/page_parts`).

const PATIENCE = 4000; // ms without a word from the kernel, after which the person is told
const KEYS = { s: "step", r: "run", p: "pause", b: "back", c: "cancel" };
const DRIVES = ["step", "run", "back", "to", "set"];
const SURE = 4000; // how long a second press is waited for
const UNHEARD = [
  "No answer from the kernel yet.",
  "It may be busy with a cell, and answers later then. If it was restarted, run this cell again.",
];

class Panel {
  constructor(model, el) {
    this.model = model;
    this.sent = 0;
    this.said = {};
    this.pending = false;
    this.allFacts = false;
    this.sheet = new Sheet((state) => this.choose(state));
    this.build(el);
    this.shows = {
      board: () => this.showBoard(),
      sheet: () => this.sheet.show(model.get("sheet") ?? {}),
      paint: () => this.showPaint(),
      why: () => this.showWhy(),
      busy: () => this.showBusy(),
      fault: () => this.showFault(),
      heard: () => this.answered(),
    };
    for (const [name, show] of Object.entries(this.shows)) {
      model.on(`change:${name}`, show);
      if (name !== "heard") show();
    }
    this.theme = new MutationObserver(() => this.showTheme());
    for (const element of [document.documentElement, document.body]) {
      this.theme.observe(element, { attributes: true, attributeFilter: ["class", "data-jp-theme-light"] });
    }
    this.showTheme();
    this.order({ do: "show" });
  }

  close() {
    clearTimeout(this.timer);
    this.theme.disconnect();
    this.sheet.close();
    for (const [name, show] of Object.entries(this.shows)) this.model.off(`change:${name}`, show);
  }

  /** What the kernel says, with every text made readable. */
  told(name) {
    const said = this.model.get(name) ?? {};
    if (this.said[name]?.said !== said) this.said[name] = { said, told: JSON.parse(JSON.stringify(said), readably) };
    return this.said[name].told;
  }

  get board() {
    return this.told("board");
  }

  get newest() {
    return this.board.records?.at(-1)?.seq ?? 0;
  }

  // what is on the page --------------------------------------------------------------------------

  build(el) {
    this.buttons = {
      step: this.button("step", "Step", "Do the action at hand", () => this.order({ do: "step" })),
      run: this.button("run", "Run", "Go on to the end, or to a question", () => this.order({ do: "run" })),
      pause: this.button("pause", "Pause", "Rest before the next action", () => this.order({ do: "pause" })),
      back: this.button("back", "Back", "Take the newest record back", () => this.back()),
      cancel: this.button("cancel", "Cancel", "Stop the run before its next action, for good", () => this.cancel()),
      to: this.button("to", "Run to", "Go on to this state, or until this guard holds", () => this.runTo()),
      set: this.button("set", "Set", "Change this limit or variable, on the record", () => this.set()),
    };
    this.buttons.step.classList.add("cl-main");
    this.root = h(
      "section",
      {
        className: "cl-panel",
        attrs: { "data-lm-suppress-shortcuts": "true" },
        on: { keydown: (event) => this.key(event) },
      },
      this.buildHead(),
      this.buildBar(),
      (this.fault = h("div", { className: "cl-fault", hidden: true, attrs: { role: "alert" } })),
      (this.asks = h("div", { className: "cl-asks", hidden: true })),
      (this.ending = h("div", { className: "cl-ending", hidden: true })),
      h(
        "div",
        { className: "cl-columns" },
        h("div", { className: "cl-left" }, this.sheet.root),
        h("div", { className: "cl-right" }, this.buildDecision(), this.buildFacts()),
      ),
      this.buildRecords(),
    );
    el.replaceChildren(this.root);
  }

  buildHead() {
    this.title = text("span", "", "cl-title");
    this.state = text("span", "", "cl-state");
    this.status = text("span", "", "cl-status");
    this.spent = text("span", "", "cl-muted");
    this.run = text("span", "", "cl-muted cl-run");
    return h("header", {}, this.title, this.state, this.status, this.spent, this.run);
  }

  buildBar() {
    const { step, run, pause, back, cancel, to, set } = this.buttons;
    const plain = { type: "text", spellcheck: false, autocomplete: "off" };
    const enter = (name) => (event) => {
      if (event.key !== "Enter") return; // else it would only close the list of states
      event.preventDefault();
      this.press(name);
    };
    this.goals = h("datalist", { id: `cl-${Math.random().toString(36).slice(2)}` });
    this.goal = h("input", {
      ...plain,
      placeholder: "state or guard",
      attrs: { list: this.goals.id, "aria-label": "Run to this state or guard", size: "16" },
      on: { keydown: enter("to") },
    });
    this.names = h("select", {
      attrs: { "aria-label": "Limit or variable" },
      on: { change: () => this.showEdited() },
    });
    this.value = h("input", {
      ...plain,
      attrs: { "aria-label": "Its new value", size: "8" },
      on: { keydown: enter("set") },
    });
    this.busy = h("div", { className: "cl-busy", attrs: { role: "status", "aria-live": "polite" } });
    return h(
      "div",
      { className: "cl-bar", attrs: { role: "toolbar", "aria-label": "Drive the run" } },
      h("div", { className: "cl-group" }, step, run, pause, back, cancel),
      group(() => this.press("to"), to, this.goal, this.goals),
      (this.edit = group(() => this.press("set"), set, this.names, this.value)),
      this.busy,
    );
  }

  buildDecision() {
    this.about = text("span", "", "cl-about");
    this.why = h("tbody");
    this.led = text("div", "", "cl-led");
    const table = h("table", {}, columns("", "rule or edge", "values", "left", "leads to"), this.why);
    this.whyBox = scrolled("cl-why", "Decision", table, this.led);
    return part("Decision", this.about, this.whyBox);
  }

  buildFacts() {
    this.facts = h("tbody");
    this.filter = h("input", {
      type: "search",
      placeholder: "Filter facts",
      attrs: { "aria-label": "Filter facts" },
      on: { input: () => this.showFacts() },
    });
    const all = () => {
      this.allFacts = !this.allFacts;
      this.showFacts();
    };
    this.more = h("button", { type: "button", className: "cl-link", on: { click: all } });
    const table = h("table", {}, columns("fact", "value"), this.facts);
    const above = h("span", { className: "cl-about" }, this.filter, this.more);
    return part("Facts", above, scrolled("cl-facts", "Facts", table));
  }

  buildRecords() {
    this.records = h("tbody");
    const table = h("table", {}, columns("#", ...RECORD), this.records);
    this.recordsBox = scrolled("cl-records", "Records", table);
    return part("Records", text("span", "choose one to see its decision", "cl-about"), this.recordsBox);
  }

  button(name, label, about, does) {
    const key = Object.keys(KEYS).find((one) => KEYS[one] === name);
    const made = h("button", { type: "button", textContent: label, on: { click: () => this.press(name) } });
    if (key) made.setAttribute("aria-keyshortcuts", key);
    return Object.assign(made, { does, about: key ? `${about} (${key})` : about });
  }

  // orders ---------------------------------------------------------------------------------------

  /** A button that cannot be pressed keeps the focus, and says why. */
  press(name) {
    const button = this.buttons[name];
    if (button.getAttribute("aria-disabled") === "true") this.say(button.title);
    else button.does();
  }

  key(event) {
    const name = KEYS[event.key];
    const typing = event.target.closest("input, select, textarea");
    if (!name || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.press(name);
  }

  order(asked) {
    this.askCancel(false);
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
    this.say(...UNHEARD);
  }

  back() {
    this.order({ do: "back", records: this.newest - this.kept() });
  }

  /** The record that a step back leaves as the newest one: the chosen one, or the one before. */
  kept() {
    const chosen = this.told("why")?.seq ?? this.newest;
    return chosen < this.newest ? chosen : this.newest - 1;
  }

  /** Asks once more: a run that was cancelled goes on by Back only. */
  cancel() {
    const { cancel } = this.buttons;
    const sure = cancel.classList.contains("cl-sure");
    this.askCancel(!sure);
    if (sure) this.order({ do: "cancel" });
  }

  askCancel(asks) {
    const { cancel } = this.buttons;
    clearTimeout(this.asking);
    cancel.classList.toggle("cl-sure", asks);
    cancel.textContent = asks ? "Really cancel?" : "Cancel";
    if (asks) this.asking = setTimeout(() => this.askCancel(false), SURE);
  }

  runTo() {
    const until = this.goal.value.trim();
    if (until) return this.order({ do: "run", until });
    this.say("Say where to: a state, or a guard such as run.steps >= 3.");
    this.goal.focus();
  }

  set() {
    this.order({ do: "set", name: this.names.value, value: this.value.value });
  }

  /** A box of the picture is a state to run to. */
  choose(state) {
    if (this.board.states?.includes(state)) this.goal.value = state;
  }

  // showing --------------------------------------------------------------------------------------

  showTheme() {
    const dark = isDark();
    this.root.style.colorScheme = dark ? "dark" : "light";
    this.sheet.turn(dark);
  }

  showBoard() {
    const { machine, title, at: state, phase, spent, run } = this.board;
    this.root.setAttribute("aria-label", `Run of ${machine ?? "a machine"}`);
    this.sheet.frame.setAttribute("aria-label", `Flowchart of ${title}, now at ${state}`);
    this.title.textContent = title ?? "…";
    this.state.textContent = state ?? "";
    showPhase(this.status, phase);
    this.spent.textContent = spent ?? "";
    this.run.textContent = run ? `run ${run}` : "";
    this.showGoals();
    this.showEditable();
    this.showAsks();
    this.showEnding();
    this.showFacts();
    this.showRecords();
    this.showButtons();
  }

  showButtons() {
    const driven = (this.model.get("busy") ?? "") !== "";
    const cannot = { ...this.board.cannot, to: this.board.cannot?.run };
    if (driven) for (const name of DRIVES) cannot[name] = "The run is being driven: pause it first";
    else cannot.pause = "The run is not being driven";
    for (const [name, button] of Object.entries(this.buttons)) {
      const why = cannot[name] || (this.pending ? "The kernel has not answered yet" : "");
      button.setAttribute("aria-disabled", String(why !== ""));
      button.title = why || button.about;
    }
    const kept = this.kept();
    this.buttons.back.textContent = kept < this.newest - 1 ? `Back to ${kept}` : "Back";
    for (const button of this.asks.querySelectorAll("button")) {
      const isUnread = this.board.rest > 0 && button !== this.opens;
      button.setAttribute("aria-disabled", String(driven || this.pending || isUnread));
      button.title = isUnread ? "Read all of it first" : "";
    }
  }

  showGoals() {
    this.goals.replaceChildren(...(this.board.states ?? []).map((name) => h("option", { value: name })));
  }

  /** What somebody types stays, unless a value has changed. */
  showEditable() {
    const editable = this.board.editable ?? [];
    const now = JSON.stringify(editable);
    if (this.edited === now) return;
    this.edited = now;
    const chosen = this.names.value;
    const option = ({ name, type }) => h("option", { value: name, textContent: name, title: type });
    this.names.replaceChildren(...editable.map(option));
    if (chosen) this.names.value = chosen;
    this.edit.hidden = editable.length === 0;
    this.showEdited();
  }

  showEdited() {
    const found = (this.board.editable ?? []).find(({ name }) => name === this.names.value);
    this.value.value = found?.value ?? "";
    this.value.title = found ? `${found.name}: ${found.type}` : "";
  }

  /** Built anew only for another question: what somebody types stays. */
  showAsks() {
    const { run, question, about = "", rest = 0, shown = "", wait = "", calls = [], answers = [], records = [] } = this.board;
    const asked = JSON.stringify([run, question, about, rest, wait, calls, answers, records.length]);
    if (asked === this.asked) return;
    this.asked = asked;
    this.asks.hidden = answers.length === 0;
    this.forms = answerForms({ answers, calls, rest }, (event, data) => this.order({ do: "answer", event, data, wait, shown }));
    const named = text("p", wait && `wait ${wait}`, "cl-muted");
    const open = { click: () => this.order({ do: "show", whole: true }) };
    this.opens = h("button", { type: "button", textContent: `Show the ${rest} characters that follow, and then answer`, on: open });
    this.asks.replaceChildren(...askedParts({ text: question, about, calls }), ...(rest ? [this.opens] : []), named, this.forms.root);
  }

  showEnding() {
    const { ended, phase, output, explanation } = this.board;
    this.ending.hidden = !ended;
    this.ending.dataset.colour = PHASES[phase]?.colour ?? "";
    this.ending.replaceChildren(output ? text("p", output, "cl-output") : "", text("p", explanation ?? ""));
  }

  showFacts() {
    const facts = this.board.facts ?? [];
    const wanted = this.filter.value.trim().toLowerCase();
    const first = ({ changed, read }) => changed || read;
    const fits = (fact) => (wanted ? fact.name.toLowerCase().includes(wanted) : this.allFacts || first(fact));
    this.facts.replaceChildren(...facts.filter(fits).map(factRow));
    const hidden = facts.length - facts.filter(first).length;
    this.more.hidden = hidden === 0 || wanted !== "";
    this.more.textContent = this.allFacts ? "fewer" : `${hidden} more`;
    this.more.setAttribute("aria-expanded", String(this.allFacts));
  }

  showPaint() {
    this.sheet.paint(this.model.get("paint") ?? {});
    this.sheet.follow(this.board.state);
  }

  showWhy() {
    const why = this.told("why");
    const rows = decisionRows(why);
    this.about.textContent = why ? `record ${why.seq}: ${why.title}` : "nothing is decided yet";
    this.whyBox.hidden = !why;
    this.why.parentElement.hidden = rows.length === 0;
    this.why.replaceChildren(...rows);
    this.led.replaceChildren(...(why?.led ?? []).map(ledLine));
    this.markRecord();
    this.showButtons();
  }

  showRecords() {
    const { run, records = [], left_out: older } = this.board;
    const now = `${run} ${records.length} ${this.newest}`;
    if (this.records.dataset.known === now) return;
    this.records.dataset.known = now;
    const rows = records.map((record) => recordRow(record, (seq) => this.order({ do: "why", seq })));
    this.records.replaceChildren(...(older ? [olderRecords(older)] : []), ...rows);
    this.markRecord();
    this.recordsBox.scrollTop = this.recordsBox.scrollHeight;
  }

  markRecord() {
    const seq = String(this.told("why")?.seq ?? "");
    for (const row of this.records.children) row.classList.toggle("cl-chosen", row.dataset.seq === seq);
  }

  showBusy() {
    const busy = this.model.get("busy") ?? "";
    this.busy.textContent = busy ? `${busy}…` : "";
    this.root.classList.toggle("cl-driven", busy !== "");
    this.showButtons();
  }

  showFault() {
    const fault = this.model.get("fault");
    const isPlaced = fault && this.model.get("order")?.do === "answer" && this.forms?.refuse(readable(fault.message));
    if (fault && !isPlaced) this.say(fault.message, fault.hint);
    else this.fault.hidden = true;
  }

  say(message, hint = "") {
    const close = h("button", {
      type: "button",
      className: "cl-link",
      textContent: "Close",
      on: { click: () => (this.fault.hidden = true) },
    });
    const parts = [text("span", message, "cl-message"), text("span", hint, "cl-hint"), close];
    this.fault.replaceChildren(...parts);
    this.fault.hidden = false;
  }
}

export default {
  render({ model, el }) {
    const panel = new Panel(model, el);
    return () => panel.close();
  },
};
