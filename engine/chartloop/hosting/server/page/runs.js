// The list of runs: filters in the link, new runs as they come, older ones by the page.
//
// Belongs here: rows and filters. Never: a run by itself.

import { get, isLive, post, query, runPath } from "./api.js";
import { columns, h, text } from "./parts.js";
import { Refresh } from "./refresh.js";
import { ago, count, left, moment, money, statusWords } from "./words.js";

const PAGE = 50;
const STATUSES = ["idle", "running", "paused", "debugging", "completed", "error", "moved"];
const HEADS = ["", "run", "machine", "status", "at", "asks, or ended with", "steps", "tokens", "cost", "changed"];
const TEXTS = ["reason", "agent", "session"];

export function openRuns(main, { given, app }) {
  return new Runs(main, given, app);
}

class Runs {
  constructor(main, given, app) {
    this.app = app;
    this.rows = new Map(); // by id: what is known and its row
    this.next = null;
    this.chosen = new Set();
    this.filters = Object.fromEntries(["machine", "status", "waiting", ...TEXTS].map((name) => [name, given.get(name) ?? ""]));
    app.title("Runs");
    main.append(this.build());
    this.refresh = new Refresh((signal) => this.load(signal), { failed: (e) => app.fail(e), pace: 500 });
    this.refresh.want();
    this.loadMachines();
  }

  close() {
    this.refresh.close();
  }

  hear(name) {
    if (!isLive(name)) this.refresh.want();
  }

  again() {
    this.refresh.want();
  }

  tick() {
    for (const { row, cells } of this.rows.values()) {
      cells.changed.textContent = ago(row.updated);
      if (row.question?.due) cells.due.textContent = left(row.question.due);
    }
  }

  // building ---------------------------------------------------------------------------------------

  build() {
    this.body = h("tbody");
    this.empty = h("p", { className: "empty", hidden: true }, "No run is like this.");
    this.more = h("button", { type: "button", textContent: "Older runs", hidden: true, on: { click: () => this.older() } });
    this.compare = h("button", { type: "button", on: { click: () => this.openCompare() } });
    this.showCompare();
    const table = h("table", { className: "runs" }, columns(...HEADS), this.body);
    const title = h("div", { className: "title" }, text("h1", "Runs"), this.compare);
    return h("div", { className: "page" }, title, this.buildStart(), this.buildFilters(), h("div", { className: "cl-scroll" }, table), this.empty, this.more);
  }

  buildFilters() {
    const change = () => this.filter();
    const choice = (name, label, options) => {
      const made = h("select", { name, on: { change } }, ...options);
      return h("label", {}, `${label} `, made);
    };
    const option = (value, label = value) => h("option", { value, textContent: label, selected: false });
    this.machines = choice("machine", "machine", [option("", "any")]);
    const statuses = choice("status", "status", [option("", "any"), ...STATUSES.map((one) => option(one, statusWords(one)))]);
    const waits = h("input", { type: "checkbox", name: "waiting", checked: this.filters.waiting === "true", on: { change } });
    const texts = TEXTS.map((name) => {
      const field = h("input", { type: "search", name, value: this.filters[name], attrs: { size: "10" }, on: { change } });
      return h("label", {}, `${name} `, field);
    });
    statuses.querySelector("select").value = this.filters.status;
    const submit = (event) => {
      event.preventDefault();
      this.filter();
    };
    this.form = h(
      "form",
      { className: "filters", attrs: { role: "search", "aria-label": "Filter runs" }, on: { submit } },
      this.machines, statuses, ...texts, h("label", {}, waits, " waits for an answer"),
    );
    return this.form;
  }

  buildStart() {
    this.machine = h("select", { attrs: { "aria-label": "Machine" } });
    this.task = h("textarea", { rows: 2, placeholder: "What shall it do?", attrs: { "aria-label": "Task" } });
    const send = async (order) => {
      try {
        this.app.go(runPath((await order()).run));
      } catch (error) {
        if (error.again) error.message = error.unsent("Start");
        this.app.fail(error, () => send(error.again));
      }
    };
    const begin = (drive) => (event) => {
      event.preventDefault();
      const body = { machine: this.machine.value, task: this.task.value, drive };
      send(() => post("/runs", body));
    };
    const paused = h("button", { type: "button", textContent: "Start, and wait", title: "Start it, and do nothing yet", on: { click: begin("none") } });
    const start = h("button", { type: "submit", className: "cl-main", textContent: "Start" });
    const form = h("form", { className: "start", on: { submit: begin("run") } }, this.machine, this.task, start, paused);
    return h("details", { className: "begin" }, text("summary", "Start a run"), form);
  }

  async loadMachines() {
    try {
      const { machines } = await get("/machines");
      const known = machines.filter(({ machine }) => machine);
      const names = [...new Set([...known.map(({ machine }) => machine), this.filters.machine].filter(Boolean))];
      const select = this.machines.querySelector("select");
      select.append(...names.map((name) => h("option", { value: name, textContent: name })));
      select.value = this.filters.machine;
      this.machine.append(...known.map(({ name, title }) => h("option", { value: name, textContent: `${name}: ${title}` })));
    } catch (error) {
      this.app.fail(error);
    }
  }

  filter() {
    for (const field of this.form.elements) this.filters[field.name] = field.type === "checkbox" ? field.checked && "true" : field.value.trim();
    this.app.relink(`/runs${query(this.filters)}`);
    this.rows.clear();
    this.body.replaceChildren();
    this.next = null;
    this.refresh.want();
  }

  // loading ----------------------------------------------------------------------------------------

  async load(signal) {
    const filters = JSON.stringify(this.filters);
    const page = await get(`/runs${query({ ...this.filters, limit: PAGE })}`, signal);
    if (filters !== JSON.stringify(this.filters)) return this.refresh.want();
    const first = this.rows.size === 0;
    const oldest = page.runs.at(-1);
    const seen = new Set(page.runs.map(({ run }) => run));
    for (const [id, { row, element }] of this.rows) {
      if (seen.has(id) || (oldest && page.next && row.created < oldest.created)) continue;
      element.remove(); // it is not like the filters any more
      this.rows.delete(id);
    }
    let before = null;
    for (const row of page.runs) {
      const element = this.show(row);
      const place = before ? before.nextSibling : this.body.firstChild;
      if (element !== place && !(element.isConnected && element.previousSibling === before)) this.body.insertBefore(element, place);
      before = element;
    }
    if (first || this.next === null) this.next = page.next;
    this.more.hidden = !this.next;
    this.empty.hidden = this.rows.size > 0;
    this.tick();
  }

  async older() {
    try {
      const page = await get(`/runs${query({ ...this.filters, limit: PAGE, after: this.next })}`);
      page.runs.forEach((row) => this.body.append(this.show(row)));
      this.next = page.next;
      this.more.hidden = !this.next;
      this.tick();
    } catch (error) {
      this.app.fail(error);
    }
  }

  /** The row of a run: the same element for as long as the run is shown, so that the focus stays. */
  show(row) {
    const known = this.rows.get(row.run);
    if (known && JSON.stringify(known.row) === JSON.stringify(row)) return known.element;
    const cells = known?.cells ?? this.cells(row.run);
    const waits = Boolean(row.question);
    cells.machine.textContent = row.machine;
    cells.status.textContent = statusWords(row.status, waits, row.driver);
    cells.status.title = row.driver ? `driven by ${row.driver}` : "";
    const rests = row.status === "running" && row.driver === null;
    cells.status.dataset.status = waits ? "waits" : rests ? "idle" : row.status === "completed" && row.reason !== "completed" ? "stopped" : row.status;
    cells.state.textContent = row.state;
    cells.reason.textContent = waits ? row.question.text : row.moved_to ? `continues as ${row.moved_to}` : (row.reason ?? "");
    cells.due.textContent = "";
    cells.steps.textContent = count(row.steps);
    cells.tokens.textContent = row.tokens === null || row.tokens === undefined ? "" : count(row.tokens);
    cells.cost.textContent = row.cost === null || row.cost === undefined ? "" : money(row.cost);
    cells.changed.title = moment(row.updated);
    const element = known?.element ?? this.row(row.run, cells);
    if (known) element.classList.add("fresh");
    this.rows.set(row.run, { row, element, cells });
    return element;
  }

  cells(id) {
    const names = ["machine", "state", "steps", "tokens", "cost", "changed"];
    const made = Object.fromEntries(names.map((name) => [name, text("td", "", name)]));
    made.status = text("span", "", "cl-status");
    made.reason = text("span", "");
    made.due = text("span", "", "due");
    made.link = h("a", { href: runPath(id), textContent: id });
    const choose = (event) => {
      if (event.target.checked) this.chosen.add(id);
      else this.chosen.delete(id);
      this.showCompare();
    };
    made.box = h("input", { type: "checkbox", attrs: { "aria-label": `Compare run ${id}` }, on: { change: choose } });
    return made;
  }

  row(id, { box, link, machine, status, state, reason, due, steps, tokens, cost, changed }) {
    return h(
      "tr", { on: { animationend: (event) => event.currentTarget.classList.remove("fresh") } },
      h("td", { className: "pick" }, box), h("th", { attrs: { scope: "row" } }, link), machine,
      h("td", {}, status), state, h("td", { className: "reason" }, reason, due), steps, tokens, cost, changed,
    );
  }

  showCompare() {
    const ready = this.chosen.size === 2;
    this.compare.textContent = ready ? "Compare these two" : "Compare two: tick them";
    this.compare.setAttribute("aria-disabled", String(!ready));
  }

  openCompare() {
    const [a, b] = this.chosen;
    if (this.chosen.size === 2) this.app.go(`/compare${query({ a, b })}`);
  }
}
