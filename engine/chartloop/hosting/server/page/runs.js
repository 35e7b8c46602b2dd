// The list of runs: filters, order and period in the link, new runs as they come, older ones by the page,
// and what is done to several of them.
//
// Belongs here: rows, filters, what happened when. Never: a run by itself, how a run stands (`PHASES`).

import { cancelRuns, resumeRuns, retryRuns } from "./batch.js";
import { get, isLive, post, query, runPath } from "./api.js";
import { now } from "./clock.js";
import { PHASES, h, showPhase, text } from "./parts.js";
import { Refresh } from "./refresh.js";
import { ago, asks, count, left, moment, money, parkedWords, span, unmarked } from "./words.js";

const PAGE = 50;
const LARGEST = 500; // runs that the server gives at once
const SPARE = 200; // runs more than were asked for, before the oldest leave a list that stays open
const TEXTS = ["reason", "agent", "session"];
const FILTERS = ["search", "machine", "phase", "period", "since", "until", "waiting", "sort", "ascending", ...TEXTS];
const PERIODS = { "": "any time", today: "today", "24h": "the last 24 hours", "7d": "the last 7 days", between: "from … to" };
const HEADS = [["", ""], ["task", ""], ["phase", ""], ["ended with, or asks", ""], ["machine", ""], ["started", "started"], ["took", "duration"], ["steps", "steps"], ["tokens", "tokens"], ["cost", "cost"]];
const NUMBERS = new Set(["took", "steps", "tokens", "cost"]);
const CHOOSING = "the newest hundred at most are done at once";
const MOST = 100;

export function openRuns(main, { given, app, left }) {
  return new Runs(main, given, app, left ?? {});
}

/** The seconds at which a period begins and ends; null for no bound. */
function bounds({ period, since, until }) {
  if (period === "today") return [new Date(new Date().setHours(0, 0, 0, 0)) / 1000, null];
  if (period === "24h") return [Math.floor(now()) - 86_400, null];
  if (period === "7d") return [Math.floor(now()) - 7 * 86_400, null];
  return [since ? Number(since) : null, until ? Number(until) : null];
}

class Runs {
  constructor(main, given, app, left) {
    this.app = app;
    this.left = left; // how many rows were shown, and the run that was opened, if the list is come back to
    this.rows = new Map(); // by id: what is known and its row
    this.next = null;
    this.asked = Math.max(PAGE, left.rows ?? 0); // how many runs are to be seen
    this.chosen = new Set();
    this.at = null; // the row that the keys are at
    this.filters = Object.fromEntries(FILTERS.map((name) => [name, given.get(name) ?? ""]));
    if (this.filters.since || this.filters.until) this.filters.period = "between";
    app.title("Runs");
    main.append(this.build());
    this.refresh = new Refresh((signal) => this.load(signal), { failed: (e) => app.fail(e), pace: 500 });
    this.counts = new Refresh((signal) => this.loadCounts(signal), { failed: (e) => app.fail(e), pace: 5_000 });
    this.again();
    this.loadMachines();
  }

  place() {
    const [opened] = [...this.rows].find(([, { element }]) => element.contains(document.activeElement)) ?? [];
    return { rows: this.rows.size, opened };
  }

  close() {
    this.refresh.close();
    this.counts.close();
    clearTimeout(this.typing);
  }

  hear(name) {
    if (!isLive(name)) this.again();
  }

  again() {
    this.refresh.want();
    this.counts.want();
  }

  tick() {
    for (const { row, cells } of this.rows.values()) {
      cells.begun.textContent = ago(row.created);
      cells.took.textContent = span(Math.max(0, (isLiving(row) ? now() : row.updated) - row.created));
      if (row.question?.due) cells.due.textContent = left(row.question.due);
    }
  }

  // building ---------------------------------------------------------------------------------------

  build() {
    this.body = h("tbody");
    this.empty = h("p", { className: "empty", hidden: true }, "No run is like this.");
    this.more = h("button", { type: "button", textContent: "More runs", hidden: true, on: { click: () => this.older() } });
    this.compare = h("button", { type: "button", on: { click: () => this.openCompare() } });
    this.cancel = h("button", { type: "button", on: { click: () => cancelRuns(this) } });
    this.retry = h("button", { type: "button", on: { click: () => retryRuns(this) } });
    this.resume = h("button", { type: "button", on: { click: () => resumeRuns(this) } });
    this.bar = h("div", { className: "when-bar", attrs: { role: "group", "aria-label": "Runs by the time of their start" } });
    const table = h("table", { className: "runs" }, this.buildHeads(), this.body);
    this.showChosen();
    const batch = h("div", { className: "batch", attrs: { role: "toolbar", "aria-label": "The ticked runs" } }, this.compare, this.cancel, this.retry, this.resume);
    const title = h("div", { className: "title" }, text("h1", "Runs"), batch);
    return h("div", { className: "page" }, title, this.buildStart(), this.buildFilters(), this.bar, h("div", { className: "cl-scroll" }, table), this.empty, this.more);
  }

  buildHeads() {
    this.all = h("input", { type: "checkbox", attrs: { "aria-label": "Tick every run that is shown" }, on: { change: () => this.tickAll() } });
    this.sorts = new Map();
    const heads = HEADS.map(([name, sort]) => {
      const attrs = { scope: "col" };
      const className = NUMBERS.has(name) ? "number" : "";
      if (!name) return h("td", { className: "pick" }, this.all);
      if (!sort) return h("th", { textContent: name, attrs });
      const made = h("button", { type: "button", textContent: name, on: { click: () => this.sort(sort) } });
      const head = h("th", { className, attrs }, made);
      this.sorts.set(sort, { head, made, name });
      return head;
    });
    this.showSort();
    return h("thead", {}, h("tr", {}, ...heads));
  }

  showSort() {
    const by = this.filters.sort || "started";
    const up = this.filters.ascending === "true";
    for (const [sort, { head, made, name }] of this.sorts) {
      const here = sort === by;
      head.setAttribute("aria-sort", here ? (up ? "ascending" : "descending") : "none");
      made.textContent = here ? `${name} ${up ? "▴" : "▾"}` : name;
      made.title = here ? "Turn the order round" : `Sort by ${sort === "started" ? "the start" : `the ${sort}`}, the most first`;
    }
  }

  sort(by) {
    const same = (this.filters.sort || "started") === by;
    this.filters.ascending = same && this.filters.ascending !== "true" ? "true" : "";
    this.filters.sort = by === "started" ? "" : by;
    this.showSort();
    this.filter();
  }

  buildFilters() {
    const change = () => this.read();
    const choice = (name, label, options) => h("label", {}, `${label} `, h("select", { name, on: { change } }, ...options));
    const option = (value, label = value) => h("option", { value, textContent: label });
    const { filters } = this;
    const search = h("input", { type: "search", name: "search", value: filters.search, placeholder: "words of a task, or an id", attrs: { "aria-label": "Search", "aria-keyshortcuts": "/", maxlength: "200" }, on: { input: () => this.later(), change } });
    this.search = search;
    this.machines = choice("machine", "machine", [option("", "any")]);
    const phases = choice("phase", "phase", [option("", "any"), ...Object.values(PHASES).map(({ name, sign, word }) => option(name, `${sign} ${word}`))]);
    const periods = choice("period", "started", Object.entries(PERIODS).map(([value, label]) => option(value, label)));
    const time = (name, label) => h("input", { type: "datetime-local", name, value: localTime(filters[name]), attrs: { "aria-label": label }, on: { change } });
    this.between = h("span", { className: "between" }, time("since", "From"), " – ", time("until", "To"));
    const waits = h("input", { type: "checkbox", name: "waiting", checked: filters.waiting === "true", on: { change } });
    const texts = TEXTS.map((name) => h("label", {}, `${name} `, h("input", { type: "search", name, value: filters[name], attrs: { size: "10" }, on: { change } })));
    const rare = h("details", { className: "rare", open: Boolean(filters.waiting) || TEXTS.some((name) => filters[name]) }, text("summary", "More filters"), h("span", {}, ...texts, h("label", {}, waits, " waits for an answer")));
    const submit = (event) => {
      event.preventDefault();
      this.read();
    };
    this.form = h("form", { className: "filters", attrs: { role: "search", "aria-label": "Filter runs" }, on: { submit } }, search, phases, this.machines, periods, this.between, rare);
    phases.querySelector("select").value = filters.phase;
    periods.querySelector("select").value = filters.period;
    this.between.hidden = filters.period !== "between";
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

  // filters ----------------------------------------------------------------------------------------

  later() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.read(), 300);
  }

  /** Reads the form. */
  read() {
    clearTimeout(this.typing);
    const times = new Set(["since", "until"]);
    for (const field of this.form.elements) {
      if (!field.name) continue;
      if (times.has(field.name)) this.filters[field.name] = field.value ? String(new Date(field.value) / 1000) : "";
      else this.filters[field.name] = field.type === "checkbox" ? (field.checked ? "true" : "") : field.value.trim();
    }
    if (this.filters.period !== "between") this.filters.since = this.filters.until = "";
    this.between.hidden = this.filters.period !== "between";
    this.filter();
  }

  /** Only what began in a span of the bar. */
  narrow(since, until) {
    Object.assign(this.filters, { period: "between", since: String(since), until: String(until) });
    this.form.elements.period.value = "between";
    for (const name of ["since", "until"]) this.form.elements[name].value = localTime(this.filters[name]);
    this.between.hidden = false;
    this.filter();
  }

  /** Only the runs of a phase, or all of them again. */
  press(phase) {
    const field = this.form.elements.phase;
    field.value = field.value === phase ? "" : phase;
    this.read();
  }

  filter() {
    const wanted = JSON.stringify(this.filters);
    if (wanted === this.filtered) return; // a field that was left as it was: the rows stay for who presses one
    this.filtered = wanted;
    const { period, ...rest } = this.filters;
    this.app.relink(`/runs${query({ ...rest, period: period === "between" ? "" : period })}`);
    this.rows.clear();
    this.body.replaceChildren();
    this.next = this.at = null;
    this.asked = PAGE;
    this.chosen.clear();
    this.showChosen();
    this.again();
  }

  /** What the server is asked for. */
  get wanted() {
    const { period, since, until, ...rest } = this.filters;
    const [from, to] = bounds(this.filters);
    return { ...rest, since: from, until: to };
  }

  // loading ----------------------------------------------------------------------------------------

  async load(signal) {
    const filters = JSON.stringify(this.filters);
    const anew = this.rows.size === 0 || this.rows.size > this.asked + SPARE;
    if (anew) this.asked = Math.min(LARGEST, this.asked);
    const page = await get(`/runs${query({ ...this.wanted, limit: anew ? this.asked : PAGE })}`, signal);
    if (filters !== JSON.stringify(this.filters)) return this.refresh.want();
    const sorted = Boolean(this.filters.sort) || this.filters.ascending === "true"; // then rows change places
    const oldest = page.runs.at(-1);
    const seen = new Set(page.runs.map(({ run }) => run));
    for (const [id, { row, element }] of this.rows) {
      if (seen.has(id) || (!anew && page.next && (sorted || (oldest && row.created < oldest.created)))) continue;
      element.remove(); // it is not like the filters any more, or one of too many
      this.rows.delete(id);
      this.chosen.delete(id);
    }
    let before = null;
    for (const row of page.runs) {
      const element = this.show(row);
      const place = before ? before.nextSibling : this.body.firstChild;
      if (element !== place && !(element.isConnected && element.previousSibling === before)) this.body.insertBefore(element, place);
      before = element;
    }
    if (anew || this.next === null) this.next = page.next;
    this.showRest();
    this.app.arrived();
    const { opened } = this.left;
    this.left = {};
    if (this.rows.has(opened)) this.go(this.rows.get(opened).element);
  }

  async older() {
    try {
      const page = await get(`/runs${query({ ...this.wanted, limit: PAGE, after: this.next })}`);
      page.runs.forEach((row) => this.body.append(this.show(row)));
      this.next = page.next;
      this.asked = this.rows.size;
      this.showRest();
    } catch (error) {
      this.app.fail(error);
    }
  }

  showRest() {
    this.more.hidden = !this.next;
    this.empty.hidden = this.rows.size > 0;
    this.showChosen();
    this.tick();
  }

  /** How many runs began when, and how they stand: one request, whatever their number. */
  async loadCounts(signal) {
    const [from, to] = bounds(this.filters);
    const { machine, phase, search } = this.filters;
    const found = await get(`/counts${query({ since: from ?? Math.floor(now()) - 86_400, until: to, machine, phase, search })}`, signal);
    const whole = (runs) => Object.values(runs).reduce((sum, one) => sum + one, 0);
    const most = Math.max(1, ...found.spans.map(({ runs }) => whole(runs)));
    const by = new Map(found.spans.map(({ at, runs }) => [Math.round((at - found.since) / found.width), runs]));
    const number = Math.max(1, Math.ceil((found.until - found.since) / found.width));
    const bars = [...Array(Math.min(number, 400)).keys()].map((place) => {
      const runs = by.get(place) ?? {};
      const at = found.since + place * found.width;
      const of = Object.entries(runs).map(([name, one]) => `${count(one)} ${PHASES[name]?.word ?? name}`);
      const about = `${moment(at)}: ${of.join(", ") || "no run"}`;
      const parts = Object.values(PHASES).filter(({ name }) => runs[name]).map(({ name, colour }) => {
        const made = h("span");
        made.dataset.colour = colour;
        made.style.flexGrow = runs[name];
        return made;
      });
      const full = h("span", { className: "full" }, ...parts);
      full.style.height = `${Math.round((100 * whole(runs)) / most)}%`;
      return h("button", { type: "button", title: about, disabled: of.length === 0, attrs: { "aria-label": about, "data-key": at }, on: { click: () => this.narrow(at, at + found.width) } }, full);
    });
    const total = found.spans.reduce((sum, { runs }) => sum + whole(runs), 0);
    const legend = Object.keys(PHASES).flatMap((name) => {
      const of = found.spans.reduce((sum, { runs }) => sum + (runs[name] ?? 0), 0);
      if (!of) return [];
      const made = h("button", { type: "button", className: "cl-status", attrs: { "aria-pressed": String(name === phase), "data-key": name }, on: { click: () => this.press(name) } });
      const word = showPhase(made, name);
      made.textContent = `${word} ${count(of)}`;
      return [made];
    });
    const each = found.width === 3_600 ? "by the hour" : found.width === 86_400 ? "by the day" : `by ${span(found.width)}`;
    const period = { today: "today", "7d": "in the last 7 days", between: "in this period" }[from === null ? "" : this.filters.period] ?? "in the last 24 hours";
    const words = `${count(total)} began ${period}, ${each}`;
    const held = this.bar.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    this.bar.replaceChildren(h("div", { className: "spans" }, ...bars), h("p", { className: "legend" }, text("span", words, "cl-muted"), ...legend));
    if (held) [...this.bar.querySelectorAll("button")].find(({ dataset }) => dataset.key === held)?.focus({ preventScroll: true });
  }

  // rows -------------------------------------------------------------------------------------------

  /** The row of a run: the same element for as long as the run is shown, so that the focus stays. */
  show(row) {
    const known = this.rows.get(row.run);
    if (known && JSON.stringify(known.row) === JSON.stringify(row)) return known.element;
    const cells = known?.cells ?? this.cells(row.run);
    cells.link.textContent = row.task || row.run;
    cells.link.title = row.task;
    cells.id.textContent = row.task ? row.run : "";
    cells.machine.textContent = row.machine;
    showPhase(cells.phase, row.phase);
    if (row.driver) cells.phase.title = `driven by ${row.driver}`;
    cells.state.textContent = row.phase === "done" ? "" : row.at;
    const ended = row.message || (row.reason === "completed" ? "" : row.reason);
    cells.reason.textContent = row.phase === "parked" ? parkedWords(row.parked) : row.question ? asks(row.question).join("\n") : row.moved_to || row.phase === "continued" ? `→ ${row.moved_to || row.successor}` : unmarked(ended ?? "");
    cells.due.textContent = "";
    cells.begun.title = moment(row.created);
    cells.took.title = `last record ${moment(row.updated)}`;
    cells.steps.textContent = count(row.steps);
    cells.tokens.textContent = row.tokens === null || row.tokens === undefined ? "" : count(row.tokens);
    cells.cost.textContent = row.cost === null || row.cost === undefined ? "" : money(row.cost);
    const element = known?.element ?? this.row(row.run, cells);
    if (known) element.classList.add("fresh");
    this.rows.set(row.run, { row, element, cells });
    return element;
  }

  cells(id) {
    const made = Object.fromEntries(["machine", "begun"].map((name) => [name, text("td", "", name)]));
    for (const name of NUMBERS) made[name] = text("td", "", `${name} number`);
    for (const name of ["phase", "state", "reason", "due", "id"]) made[name] = text("span", "");
    made.phase.className = "cl-status";
    made.state.className = "cl-muted";
    made.due.className = "due";
    made.id.className = "id cl-muted";
    made.link = h("a", { href: runPath(id) });
    const choose = (event) => {
      if (event.target.checked) this.chosen.add(id);
      else this.chosen.delete(id);
      this.showChosen();
    };
    made.box = h("input", { type: "checkbox", attrs: { "aria-label": `Tick run ${id}` }, on: { change: choose } });
    return made;
  }

  row(id, { box, link, id: small, machine, phase, state, reason, due, begun, took, steps, tokens, cost }) {
    return h(
      "tr", { on: { animationend: (event) => event.currentTarget.classList.remove("fresh") } },
      h("td", { className: "pick" }, box), h("th", { className: "task", attrs: { scope: "row" } }, link, small),
      h("td", { className: "stands" }, phase, state), h("td", { className: "reason" }, reason, due), machine, begun, took, steps, tokens, cost,
    );
  }

  // what is ticked ---------------------------------------------------------------------------------

  tickAll() {
    for (const [id, { cells }] of this.rows) {
      cells.box.checked = this.all.checked;
      if (this.all.checked) this.chosen.add(id);
      else this.chosen.delete(id);
    }
    this.showChosen();
  }

  /** The ticked runs as they are now, of which something can be done. */
  ticked(fits) {
    const known = [...this.chosen].map((id) => this.rows.get(id)?.row).filter((row) => row && fits(row));
    return known.slice(0, MOST);
  }

  untick() {
    for (const id of this.chosen) if (this.rows.has(id)) this.rows.get(id).cells.box.checked = false;
    this.chosen.clear();
    this.showChosen();
    this.again();
  }

  showChosen() {
    const say = (button, words, ready, why) => {
      button.textContent = words;
      button.title = ready ? "" : why;
      button.setAttribute("aria-disabled", String(!ready));
    };
    const two = this.chosen.size === 2;
    say(this.compare, two ? "Compare these two" : "Compare two: tick them", two, "Tick two runs");
    const living = this.ticked(isLiving).length;
    const ended = this.ticked(canRetry).length;
    say(this.cancel, living ? `Cancel ${count(living)}…` : "Cancel…", living > 0, `Tick runs that have not ended: ${CHOOSING}`);
    const parked = this.ticked(isParked).length;
    say(this.resume, `Resume ${count(parked)}…`, true, "");
    this.resume.hidden = !parked;
    say(this.retry, ended ? `Try ${count(ended)} again…` : "Try again…", ended > 0, `Tick runs that failed, gave up or reached a limit: ${CHOOSING}`);
    this.all.checked = this.rows.size > 0 && this.chosen.size === this.rows.size;
    this.all.indeterminate = this.chosen.size > 0 && !this.all.checked;
  }

  openCompare() {
    const [a, b] = this.chosen;
    if (this.chosen.size === 2) this.app.go(`/compare${query({ a, b })}`);
  }

  // keys -------------------------------------------------------------------------------------------

  key({ key, target }) {
    const rows = [...this.body.children];
    const here = rows.indexOf(this.at);
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[key];
    if (step) this.go(rows[here < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, here + step))]);
    else if (key === "/") this.search.focus();
    else if (key === "x" && here >= 0) this.at.querySelector("input").click();
    else if (key === "Enter" && here >= 0 && !target.closest("a, button, summary")) this.at.querySelector("a").click();
    else return false;
    return true;
  }

  go(row) {
    if (!row) return;
    this.at = row;
    row.querySelector("a").focus();
    row.scrollIntoView({ block: "nearest" });
  }
}

export const isLiving = ({ phase }) => PHASES[phase]?.over === false;
export const isParked = ({ phase }) => phase === "parked";
export const canRetry = ({ phase }) => PHASES[phase]?.retried === true;

/** Epoch seconds as a field of local time has them. */
function localTime(seconds) {
  if (!seconds) return "";
  const at = new Date(Number(seconds) * 1000);
  return new Date(at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
