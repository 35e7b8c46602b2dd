// The fleet: what waits for workers, who they are and what each holds, schedules, limits, parked runs, versions.
//
// Belongs here: the tables and their orders. Never: what is true of a fleet (the server's `fleet_view`).

import { runs as countRuns, confirm, named } from "./batch.js";
import { get, post, query, runPath } from "./api.js";
import { now } from "./clock.js";
import { PHASES, h, part, scrolled, showPhase, text, ticked } from "./parts.js";
import { Refresh } from "./refresh.js";
import { count, moment, money, span } from "./words.js";

const PACE = 2_000; // ms between two questions
const LOOK = 5; // s after which it asks although nothing was heard: a worker that ends says nothing
const ENDS = { yes: "✓ yes", no: "✗ no", unknown: "? not known" };
const LONGEST = 12; // signs of a version that are shown
const SOME = 10_000; // runs above which the journal does not count
const SHORT = 8; // rows of a table that does not scroll by itself
const VOLATILE = new Set(["at", "lease_left_seconds", "until"]);

export function openFleet(main, { app }) {
  return new Fleet(main, app);
}

class Fleet {
  constructor(main, app) {
    this.app = app;
    this.known = new Map(); // what each section shows, as JSON
    this.chosen = new Set(); // parked runs that are ticked
    app.title("Fleet");
    this.figures = h("p", { className: "figures", attrs: { "aria-label": "The queue" } });
    this.troubles = h("ul", { className: "troubles", hidden: true, attrs: { "aria-label": "What needs somebody" } });
    this.sections = h("div", { className: "sections" });
    this.body = h("div", { className: "page fleet" }, h("div", { className: "title" }, text("h1", "Fleet"), this.figures), this.troubles, this.sections);
    main.append(this.body);
    this.refresh = new Refresh((signal) => this.load(signal), { failed: (e) => app.fail(e), pace: PACE });
    this.refresh.want();
  }

  close() {
    this.refresh.close();
  }

  hear(name) {
    if (name !== "text" && name !== "reasoning") this.refresh.want();
  }

  again() {
    this.refresh.want();
  }

  tick() {
    this.seconds = (this.seconds ?? 0) + 1;
    if (this.seconds % LOOK === 0 && !document.hidden) this.refresh.want();
    for (const one of this.body.querySelectorAll("[data-since]")) one.textContent = span(Math.max(0, now() - one.dataset.since));
    for (const one of this.body.querySelectorAll("[data-until]")) {
      const rest = one.dataset.until - now();
      one.textContent = rest > 0 ? span(rest) : `${span(-rest)} late`;
      one.classList.toggle("late", rest <= 0);
    }
  }

  async load(signal) {
    const found = await get("/fleet", signal);
    this.found = found;
    this.showFigures(found);
    this.draw("troubles", this.troubles, found.troubles, () => found.troubles.map((line) => ticked(line, "li")));
    this.troubles.hidden = !found.troubles.length;
    for (const [name, title, about, rows] of this.parts(found)) {
      let section = this.sections.querySelector(`[data-part=${name}]`);
      if (!section) {
        section = part(title, text("span", about, "cl-about"), h("div", { className: "inside" }));
        section.dataset.part = name;
        this.sections.append(section);
      }
      section.hidden = !rows;
      if (rows) this.draw(name, section.querySelector(".inside"), [found[name], found.in_doubt, found.more[name]], rows);
    }
    this.tick();
    this.app.arrived();
  }

  /** What stands there is left alone while it is the same; else the focus stays on what it was on. */
  draw(name, place, data, make) {
    const json = JSON.stringify(data, (key, value) => (VOLATILE.has(key) ? undefined : value));
    if (this.known.get(name) === json) {
      for (const { id, until } of name === "workers" ? data[0] : []) place.querySelector(`[data-worker="${CSS.escape(id)}"]`)?.setAttribute("data-until", until);
      return;
    }
    this.known.set(name, json);
    const open = new Set([...place.querySelectorAll("details[open]")].map(({ dataset }) => dataset.key));
    const held = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    place.replaceChildren(...make().filter(Boolean));
    for (const one of place.querySelectorAll("details")) one.open = open.has(one.dataset.key);
    if (held) place.querySelector(`[data-key="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
  }

  showFigures({ due, oldest_due_seconds: oldest, held, resting, parked_runs: parked, workers, sees_workers: sees }) {
    const living = workers.filter(({ alive }) => alive).length;
    const all = [
      [some(due), oldest === null ? "due" : `due, the oldest for ${span(oldest)}`],
      [count(held), "held by workers"],
      [some(resting), "resting"],
      [count(parked), "parked"],
      ...(sees ? [[count(living), living === 1 ? "worker" : "workers"]] : []),
    ];
    this.figures.replaceChildren(...all.map(([figure, words]) => h("span", {}, text("strong", figure), ` ${words}`)));
  }

  /** Each section: its name in the view, its heading, a word about it, and what makes its rows; null hides it. */
  parts(found) {
    const { sees_workers: sees } = found;
    return [
      ["workers", "Workers", "what each holds, and whether it may end: one at a time", sees ? () => this.workers(found) : null],
      ["parked", "Parked runs", "no worker claims them until somebody takes them up", found.parked.length ? () => this.parked(found) : null],
      ["queue", "Queue", "due, in the order in which it is claimed", () => this.queue(found)],
      ["versions", "Versions", "of machines that have runs which have not ended", () => this.versions(found)],
      ["schedules", "Schedules", "start runs at given times", () => this.schedules(found)],
      ["limits", "Limits", "of all runs together", () => this.limits(found)],
    ];
  }

  // the sections -----------------------------------------------------------------------------------

  workers({ workers, more }) {
    const rows = workers.map((one) => {
      const ends = text("strong", ENDS[one.may_end]);
      ends.className = `ends ends-${one.may_end}`;
      const why = { no: "no other worker can drive", unknown: "others have not met" }[one.may_end];
      const needs = one.needed_for.map(({ machine, hash, runs }) => h("div", { className: "cl-muted" }, `${why}: ${countRuns(runs)} of ${machine} `, version(hash)));
      const hidden = why && !needs.length ? text("div", `${why} some runs of tenants`, "cl-muted") : null;
      const lives = h("span", { attrs: { "data-until": one.until, "data-worker": one.id } });
      const held = one.runs.map(({ run, since, priority }) => h("li", {}, runLink(run), " for ", age(since), priority === 5 ? "" : ` · priority ${priority}`));
      const rest = one.holds - one.runs.length;
      const list = h("details", { attrs: { "data-key": one.id } }, text("summary", `${one.holds} of ${one.room}`), h("ul", { className: "named" }, ...held, rest > 0 ? text("li", `and ${count(rest)} more`) : null));
      return row(
        head(text("strong", one.id), text("div", `${one.program} on ${one.host}`, "cl-muted")),
        cell("holds", one.holds ? list : text("span", `0 of ${one.room}`)), cell("longest", one.runs.length ? age(one.runs[0].since) : "–"),
        cell("lease left", lives), cell("may it end?", h("span", {}, ends, ...needs, hidden)), one.lacks.length ? cell("cannot drive", h("span", {}, ...one.lacks.map((line) => ticked(line, "div")))) : h("td"),
      );
    });
    return [table(["worker", "holds", "longest", "lease left", "may it end?", "cannot drive some, because"], rows, "No worker is there: `chartloop worker` drives the runs."), left(more.workers)];
  }

  parked({ parked, more }) {
    this.chosen = new Set([...this.chosen].filter((run) => parked.some((one) => one.run === run)));
    const rows = parked.map(({ run, since, why }) => {
      const choose = ({ target }) => {
        if (target.checked) this.chosen.add(run);
        else this.chosen.delete(run);
        this.showChosen();
      };
      const box = h("input", { type: "checkbox", checked: this.chosen.has(run), attrs: { "aria-label": `Tick run ${run}`, "data-key": run }, on: { change: choose } });
      return row(h("td", { className: "pick" }, box), head(runLink(run)), cell("since", since ? h("span", {}, age(since), " ago") : "–"), cell("why", why));
    });
    const all = () => {
      const every = this.chosen.size < parked.length;
      this.chosen = new Set(every ? parked.map(({ run }) => run) : []);
      for (const box of this.body.querySelectorAll("[data-part=parked] td.pick input")) box.checked = every;
      this.showChosen();
    };
    this.resume = button("", "resume", () => this.takeUp());
    this.cancel = button("", "cancel", () => this.cancelTicked());
    const bar = h("div", { className: "batch", attrs: { role: "toolbar", "aria-label": "Parked runs" } }, this.resume, this.cancel, button("Tick all", "tick", all));
    this.showChosen();
    return [bar, table(["", "run", "since", "why"], rows), left(more.parked)];
  }

  get ticked() {
    return this.found.parked.filter(({ run }) => this.chosen.has(run)).map((one) => ({ ...one, about: one.why }));
  }

  showChosen() {
    const ticks = this.chosen.size;
    this.resume.textContent = ticks ? `Take up ${count(ticks)}…` : `Take up all ${count(this.found.parked_runs)}…`;
    this.cancel.textContent = ticks ? `Cancel ${count(ticks)}…` : "Cancel…";
    this.cancel.title = ticks ? "" : "Tick runs";
    this.cancel.setAttribute("aria-disabled", String(!ticks));
  }

  get list() {
    return { app: this.app, untick: () => { this.chosen.clear(); this.known.clear(); this.refresh.want(); } };
  }

  /** The ticked runs, or all: those that are not shown come up as the first ones are taken up. */
  takeUp() {
    const ready = this.chosen.size ? this.ticked : this.found.parked.map((one) => ({ ...one, about: one.why }));
    const whole = this.chosen.size || this.found.parked_runs;
    const rows = [...ready, ...Array(whole - ready.length).fill({ run: "", about: "" })];
    const sent = new Set(ready.map(({ run }) => run));
    let more = null;
    const send = async ({ run }) => {
      if (run) return post(`${runPath(run)}/resume`);
      more ??= get("/fleet").then(({ parked }) => parked.filter((one) => !sent.has(one.run)));
      const found = await more;
      const next = found.shift();
      if (!found.length) more = null;
      if (!next) return null;
      sent.add(next.run);
      return post(`${runPath(next.run)}/resume`);
    };
    const words = `Take up ${countRuns(whole)}? They are due again. What ended their workers may end the next one.`;
    confirm(this.list, "Take up runs", [text("p", words), named(ready, whole)], `Take up ${countRuns(whole)}`, rows, send);
  }

  cancelTicked() {
    const rows = this.ticked;
    if (!rows.length) return this.app.fail(new Error("Tick the runs to cancel."));
    const words = `Cancel ${countRuns(rows.length)}? Each stops before its next action, for good.`;
    return confirm(this.list, "Cancel runs", [text("p", words), named(rows)], `Cancel ${countRuns(rows.length)}`, rows, ({ run }) => post(`${runPath(run)}/cancel`));
  }

  queue({ queue, more }) {
    const rows = queue.map(({ priority, machine, hash, runs, due, lacks }) =>
      row(cell("priority", priority), head(machineName(machine, hash)), cell("runs", text("strong", count(runs))), cell("oldest", age(due)), h("td", {}, lacks ? h("span", { className: "refused" }, "no worker can drive it: ", ticked(lacks)) : null)));
    return [table(["priority", "machine", "runs", "oldest", ""], rows, "No run waits for a worker."), left(more.queue)];
  }

  versions({ versions, more, sees_workers: sees, all_counted: whole }) {
    const rows = versions.map(({ machine, hash, runs, phases, workers, served }) => {
      const chips = Object.entries(phases).map(([name, number]) => {
        const chip = h("a", { className: "cl-status", href: `/runs${query({ machine, phase: PHASES[name] ? name : "" })}` });
        const word = showPhase(chip, name);
        chip.textContent = `${word} ${count(number)}`;
        return h("span", {}, chip, " ");
      });
      const drivers = workers.length ? text("span", workers.join(", ")) : text("strong", "no worker is known that can", "refused");
      return row(head(machineName(machine, hash)), cell("runs", text("strong", count(runs))), cell("how they stand", h("span", { className: "chips" }, ...chips)), sees ? cell("who can drive them", drivers) : null, cell("its file", served ? "as served now" : "not in the folders of this server"));
    });
    const heads = ["machine", "runs", "how they stand", ...(sees ? ["who can drive them"] : []), "its file"];
    return [table(heads, rows, "Every run has ended: no version is needed."), whole ? null : text("p", "There are more runs than are counted: those begun longest ago are.", "cl-muted"), left(more.versions)];
  }

  schedules({ schedules, more }) {
    const rows = schedules.map((one) => {
      const when = one.cron ? h("span", {}, text("code", one.cron), one.timezone === "UTC" ? " UTC" : ` ${one.timezone}`) : `every ${span(one.every)}`;
      const next = h("span", one.paused ? { className: "cl-status" } : { title: moment(one.next), attrs: { "data-until": one.next } });
      if (one.paused) showPhase(next, "paused");
      const phase = h("span", { className: "cl-status" });
      if (one.phase) showPhase(phase, one.phase);
      const last = one.last ? h("span", { title: moment(one.last) }, age(one.last), " ago ", one.run ? runLink(one.run) : "", " ", one.phase ? phase : "") : "never";
      const said = one.lacks || one.note;
      const send = (order) => () => post(`/schedules/${encodeURIComponent(one.name)}/${order}`);
      const turn = one.paused
        ? button("Resume", `resume-${one.name}`, () => this.send(send("resume"), `${one.name} goes on`))
        : button("Pause", `pause-${one.name}`, () => this.send(send("pause"), `${one.name} is paused`));
      const gone = button("Remove…", `remove-${one.name}`, () => this.ask(`Remove ${one.name}`, "It starts no more runs; those that it started stay.", send("remove")));
      for (const [made, verb] of [[turn, turn.textContent], [gone, "Remove"]]) made.setAttribute("aria-label", `${verb} ${one.name}`);
      return row(head(text("strong", one.name), text("div", one.machine, "cl-muted")), cell("when", when), cell("next in", next), cell("last", last), said ? cell("to know", ticked(said)) : h("td"), h("td", { className: "orders" }, turn, gone));
    });
    const going = schedules.filter(({ paused }) => !paused);
    const pause = async () => {
      for (const { name } of going) await post(`/schedules/${encodeURIComponent(name)}/pause`);
    };
    const words = "They start no runs until they are resumed, and what they miss is not made up for.";
    const all = going.length > 1 ? h("div", { className: "batch" }, button(`Pause all ${going.length}…`, "pause-all", () => this.ask(`Pause ${going.length} schedules`, words, pause))) : null;
    return [all, table(["schedule", "when", "next in", "last", "to know", ""], rows, "There are no schedules: `chartloop schedule add` adds one."), left(more.schedules)];
  }

  limits({ limits, in_doubt: doubts, more, sees_workers: sees }) {
    const rows = limits.map((one) => {
      const said = (amount) => (one.what === "cost" ? money(amount) : count(Math.round(amount)));
      const { scope, what, per } = one;
      const share = one.most ? Math.min(1, (one.used + one.held) / one.most) : 1;
      const bar = h("span", { className: "cl-share", attrs: { "aria-hidden": "true" } }, h("span"));
      bar.firstChild.style.width = `${Math.round(share * 100)}%`;
      bar.dataset.level = share >= 1 ? "full" : share >= 0.8 ? "high" : "low";
      const resets = one.resets ? h("span", { title: moment(one.resets), attrs: { "data-until": one.resets } }) : per === "minute" ? "all the time" : "never";
      const change = button("Change…", `change-${scope}${what}${per}`, () => this.askLimit(one));
      const gone = button("Remove…", `rm-${scope}${what}${per}`, () => this.ask(`Remove ${scope}: ${what} ${times(per)}`, "Nothing bounds this any more, and what was counted is forgotten.", () => post("/limits", { scope, what, per })));
      for (const [made, verb] of [[change, "Change"], [gone, "Remove"]]) made.setAttribute("aria-label", `${verb} ${scope}: ${what} ${times(per)}`);
      return row(
        head(text("strong", scope), text("div", `${what} ${times(per)}`, "cl-muted")), cell("used", h("span", {}, said(one.used), bar)), cell("in doubt", one.in_doubt ? said(one.in_doubt) : "–"), cell("reserved", said(one.held)),
        cell("left", text("strong", said(one.left), one.left ? "" : "refused")), cell("most", said(one.most)), cell("resets in", resets), h("td", { className: "orders" }, ...(sees ? [change, gone] : [])),
      );
    });
    const lines = doubts.map(({ run_id: run, key, amounts }) => {
      const worst = Object.entries(amounts).map(([what, amount]) => (what === "cost" ? money(amount) : `${count(amount)} ${what}`));
      const settle = sees ? button("Settle…", `settle-${key}`, () => this.askDoubt(run, key)) : null;
      settle?.setAttribute("aria-label", `Settle the call ${key}`);
      return h("li", {}, "a call of ", runLink(run), ` is in doubt and counts whole, ${worst.join(", ")} `, settle);
    });
    const set = sees ? h("div", { className: "batch" }, button("Set a limit…", "set-limit", () => this.askLimit(null))) : null;
    return [set, table(["limit", "used", "in doubt", "reserved", "left", "most", "resets in", ""], rows, "Nothing is limited."), doubts.length ? h("ul", { className: "doubts" }, ...lines) : null, left(more.limits)];
  }

  // orders -----------------------------------------------------------------------------------------

  async send(order, said) {
    try {
      await order();
      this.app.hush();
      this.app.speak(said);
    } catch (error) {
      this.app.fail(error);
    }
    this.refresh.want();
  }

  /** Says what an order does, and sends it when it is agreed to. */
  ask(label, words, order, fields = null) {
    const press = async (event) => {
      event.preventDefault();
      sent.disabled = true;
      await this.send(order, `${label}: done`);
      document.getElementById("dialog").close();
    };
    const sent = h("button", { type: "submit", className: "cl-main", textContent: label });
    this.app.dialog(label, h("form", { on: { submit: press } }, ticked(words, "p"), fields, sent));
  }

  askLimit(known) {
    const options = (words) => words.map((value) => h("option", { value, textContent: value }));
    const fields = {
      scope: h("input", { value: known?.scope ?? "fleet", disabled: Boolean(known) }),
      what: h("select", { disabled: Boolean(known) }, ...options(["cost", "tokens", "requests"])),
      per: h("select", { disabled: Boolean(known) }, ...options(["day", "all", "minute"])),
      most: h("input", { type: "number", min: "0", step: "any", required: true, value: known?.most ?? "" }),
    };
    if (known) [fields.what.value, fields.per.value] = [known.what, known.per];
    const value = (name) => fields[name].value.trim();
    const send = () => post("/limits", { scope: value("scope"), what: value("what"), per: value("per"), most: Number(value("most")) });
    const words = "It is for `fleet`, which is all runs, or for `tenant:NAME`, `agent:NAME`, `session:NAME` or `model:NAME`. Workers know it after a second, and what was counted stays.";
    this.ask(known ? "Change the limit" : "Set a limit", words, send, form(fields, { scope: "for", what: "what", per: "per", most: "the most" }));
  }

  askDoubt(run, call) {
    const fields = { cost: h("input", { type: "number", min: "0", step: "any", value: "0" }), tokens: h("input", { type: "number", min: "0", step: "1", value: "0" }) };
    const send = () => post("/limits/settle", { run, call, cost: Number(fields.cost.value), tokens: Number(fields.tokens.value) });
    this.ask("Settle the call", "What it used, as the provider's bill has it: 0 if it was never made.", send, form(fields, { cost: "cost in USD", tokens: "tokens" }));
  }
}

const some = (number) => (number > SOME ? `${count(SOME)}+` : count(number));
const times = (per) => (per === "all" ? "in all" : `per ${per}`);
const age = (since) => h("span", { attrs: { "data-since": since } });
const runLink = (run) => h("a", { href: runPath(run), textContent: run });
const version = (hash) => h("code", { textContent: hash.slice(0, LONGEST), title: hash });
const machineName = (machine, hash) => h("span", {}, text("strong", machine), " ", version(hash));
const left = (more) => (more ? text("p", `and ${count(more)} more`, "cl-muted") : null);
const cell = (label, inside) => h("td", { attrs: { "data-label": label } }, inside);
const head = (...inside) => h("th", { attrs: { scope: "row" } }, ...inside);
const row = (...cells) => h("tr", {}, ...cells);
const button = (words, key, click) => h("button", { type: "button", textContent: words, attrs: { "data-key": key }, on: { click } });

function form(fields, names) {
  return h("p", { className: "fields" }, ...Object.entries(fields).map(([name, field]) => h("label", {}, `${names[name]} `, Object.assign(field, { name }))));
}

function table(heads, rows, empty = "") {
  if (!rows.length) return h("p", { className: "cl-muted" }, ticked(empty));
  const top = h("thead", {}, h("tr", {}, ...heads.map((name) => (name ? h("th", { textContent: name, attrs: { scope: "col" } }) : h("td")))));
  const made = h("table", { className: "cards" }, top, h("tbody", {}, ...rows));
  return rows.length > SHORT ? scrolled("long", heads.find(Boolean), made) : h("div", { className: "cl-scroll" }, made);
}
