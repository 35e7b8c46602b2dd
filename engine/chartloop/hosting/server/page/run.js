// One run: where it is, what it waits for or why it stopped, what it cost, and each of its steps.
//
// Belongs here: what is loaded when, the chosen step, the orders. Never: what a step looks like (`step.js`).

import { Question } from "./answers.js";
import { Children } from "./children.js";
import { Problem, get, isLive, machinePath, post, query, runPath } from "./api.js";
import { now } from "./clock.js";
import { Conversation } from "./conversation.js";
import { curve } from "./curves.js";
import { PHASES, h, ledLine, part, showPhase, text, ticked } from "./parts.js";
import { output } from "./output.js";
import { Refresh } from "./refresh.js";
import { Repair, wayUp } from "./repair.js";
import { RunPicture } from "./run_picture.js";
import { Step } from "./step.js";
import { Timeline, named } from "./timeline.js";
import { ago, count, money, parkedWords, span } from "./words.js";

const FAR = 600; // steps before the first that is shown, from which on those between are left out
const SURE = 4000; // ms for which a second press is waited for
const KEYS = { s: "step", r: "run", p: "pause", b: "back", c: "cancel", f: "fork" };
const ABOUT = {
  step: "Do the action at hand",
  run: "Go on to the end, or to a question",
  pause: "Rest before the next action",
  resume: "End the pause, and go on",
  fork: "A new run with everything up to the chosen step; this one stays as it is",
  back: "A new run without the newest step, or up to the chosen one",
  cancel: "Stop before the next action, for good",
};
const NAMES = { step: "Step", run: "Run", pause: "Pause", resume: "Resume", fork: "Fork here", back: "Back", cancel: "Cancel", retry: "Try again" };

export function openRun(main, { id, given, app }) {
  return new RunPage(main, id, given, app);
}

class RunPage {
  constructor(main, id, given, app) {
    Object.assign(this, { id, app, path: runPath(id), view: null, asked: "", live: "" });
    this.events = `/events${query({ run: id })}`; // its own, and those of its children
    const step = given.get("step");
    this.chosen = step !== null && /^\d+$/.test(step) ? Number(step) : null; // null: the newest, and follow
    this.picture = new RunPicture((state) => this.timeline.find(state));
    this.timeline = new Timeline({ choose: (seq) => this.choose(seq), older: (before) => this.older(before), newer: (after) => this.newer(after) });
    const show = (seq) => this.open(seq);
    this.family = new Children({ path: this.path, app, choose: show });
    this.repair = new Repair({ path: this.path, app, choose: show, send: (name, body, order) => this.send(name, body, order) });
    this.talk = new Conversation({ run: id, app, choose: (seq) => this.choose(seq, false), sent: (made) => this.written(made) });
    this.step = new Step(this.talk.lines);
    this.shows = given.get("view") === "conversation" ? "conversation" : "picture";
    main.append(this.build());
    app.title(`Run ${id}`);
    this.head = new Refresh((signal) => this.load(signal), { failed: (e) => this.failed(e) });
    this.moment = new Refresh((signal) => this.loadMoment(signal), { failed: (e) => app.fail(e) });
    this.curves = new Refresh((signal) => this.loadCurves(signal), { failed: () => {}, pace: 2_000 });
    this.again();
  }

  close() {
    clearTimeout(this.asking);
    this.head.close();
    this.moment.close();
    this.curves.close();
    this.family.close();
    this.picture.close();
    this.talk.close();
  }

  failed(error) {
    if (error.status === 404) this.root.replaceChildren(text("h1", "No such run"), text("p", error.message));
    this.app.fail(error);
  }

  // what is heard ------------------------------------------------------------------------------------

  hear(name, data) {
    const own = data.run === this.id;
    if (!own && !data.run?.startsWith(`${this.id}/`)) return;
    if (isLive(name)) return own && this.showLive(name, data);
    // notes are made while an action works, and what the next one writes may come before the record of the one before
    const note = name === "intent" || name === "result";
    if (own && !note && !(data.record < this.taking)) this.hideLive();
    this.again();
  }

  again() {
    this.head.want();
    this.curves.want();
    this.moment.want();
    this.talk.want();
  }

  tick() {
    this.question?.tick();
    const view = this.view;
    if (view?.driver) this.driver.textContent = `driven by ${view.driver.name} since ${ago(view.driver.since)}`;
    if (this.begun) this.doing.textContent = `${this.begun.action || "its action"} for ${span(Math.max(0, now() - this.begun.at))}`;
  }

  /** The server came or went. */
  link() {
    this.question?.link();
    this.showButtons();
  }

  theme() {
    this.picture.turn(matchMedia("(prefers-color-scheme: dark)").matches);
    this.moment.want();
  }

  // building -----------------------------------------------------------------------------------------

  build() {
    this.title = text("h1", this.id);
    this.status = text("span", "", "cl-status");
    this.state = text("span", "", "cl-state");
    this.machine = h("a", {});
    this.driver = text("span", "", "cl-muted");
    this.kin = h("span");
    this.task = text("p", "", "task");
    this.banner = h("section", { className: "banner", attrs: { "aria-label": "How it stands" } });
    this.meters = h("dl", { className: "meters" });
    this.writing = h("div", { className: "writing", hidden: true, attrs: { "aria-hidden": "true" } });
    this.doing = text("span", "", "cl-busy");
    this.when = text("p", "", "when");
    this.curveBox = h("div", { className: "curves" });
    this.above = h("div", {});
    this.follow = h("button", { type: "button", className: "follow", hidden: true, on: { click: () => this.choose(null) } });
    const about = h("p", { className: "about" }, text("span", `run ${this.id}`, "cl-code"), " of ", this.machine, " ", this.kin, " ", this.driver);
    this.root = h(
      "div", { className: "page run" },
      this.above,
      h("div", { className: "title" }, this.title, this.status, this.state, this.doing),
      about, this.task, this.banner, h("div", { className: "drive" }, this.buildTabs(), this.buildBar(), this.meters),
      h(
        "div", { className: "cl-columns" },
        h("div", { className: "cl-left" }, this.when, this.picture.root, this.writing, this.family.root, part("Spent", "", this.curveBox)),
        h("div", { className: "cl-right" }, part("Steps", this.follow, this.timeline.root), this.step.root),
        this.talk.root,
      ),
    );
    this.turn(this.shows);
    return this.root;
  }

  buildBar() {
    this.buttons = {};
    for (const name of Object.keys(ABOUT)) {
      const key = Object.keys(KEYS).find((one) => KEYS[one] === name);
      const made = h("button", { type: "button", textContent: NAMES[name], on: { click: () => this.press(name) } });
      if (key) made.setAttribute("aria-keyshortcuts", key);
      this.buttons[name] = made;
    }
    this.buttons.run.classList.add("cl-main");
    const opens = (textContent, title, click) => h("button", { type: "button", textContent, title, attrs: { "aria-haspopup": "dialog" }, on: { click } });
    const more = opens("More…", "Run until, add tasks, change a limit or a variable (m)", () => this.more());
    const compare = opens("Compare…", "Beside another run", () => this.compare());
    return h("div", { className: "cl-bar", attrs: { role: "toolbar", "aria-label": "Drive the run" } }, ...Object.values(this.buttons), more, compare);
  }

  buildTabs() {
    const tab = (name, label) => h("button", { type: "button", textContent: label, attrs: { "aria-keyshortcuts": "v" }, on: { click: () => this.turn(name) } });
    this.tabs = { picture: tab("picture", "Picture"), conversation: tab("conversation", "Conversation") };
    return h("div", { className: "tabs", attrs: { role: "group", "aria-label": "View" } }, ...Object.values(this.tabs));
  }

  /** The picture with the steps, or beside it what was said. */
  turn(shows) {
    this.shows = this.root.dataset.view = shows;
    for (const [name, tab] of Object.entries(this.tabs)) tab.setAttribute("aria-pressed", String(name === shows));
    this.talk.show(shows === "conversation");
    this.relink();
    if (this.chosen !== null) this.talk.reveal(this.chosen);
  }

  relink() {
    this.app.relink(this.path + query({ step: this.chosen, view: this.shows === "picture" ? "" : this.shows }));
  }

  /** Something was written in the conversation: the run goes on, or a new one does. */
  written(made) {
    if (made) this.app.go(`${runPath(made)}?view=conversation`);
    else this.taken("Sent");
  }

  /** The orders that need words: each a form, with the reason where it cannot be given now. */
  more() {
    if (!this.view) return;
    const form = (name, title, about, fields, body) => {
      const why = this.refusal(name);
      const give = (event) => {
        event.preventDefault();
        document.getElementById("dialog").close();
        this.send(name, body());
      };
      const button = h("button", { type: "submit", textContent: title, disabled: why !== "" });
      for (const field of fields) field.disabled = why !== "";
      return h("form", { className: "order", on: { submit: give } }, text("h3", title), text("p", why || about, "cl-muted"), ...fields, button);
    };
    const until = h("input", { type: "text", required: true, attrs: { "aria-label": "Until", list: "places" }, placeholder: "a state, or a guard: usage.cost > 0.10" });
    const places = h("datalist", { id: "places" }, ...this.view.states.map((value) => h("option", { value })));
    const tasks = h("textarea", { rows: 2, required: true, attrs: { "aria-label": "Tasks" }, placeholder: "a task on each line" });
    const known = this.view.editable;
    const name = h("select", { attrs: { "aria-label": "Limit or variable" } }, ...known.map((one) => h("option", { value: one.name, textContent: `${one.name} (${one.type})` })));
    const value = h("input", { type: "text", value: known[0]?.value ?? "", attrs: { "aria-label": "Value" } });
    name.addEventListener("change", () => (value.value = known.find((one) => one.name === name.value).value));
    const lines = () => tasks.value.split("\n").map((line) => line.trim()).filter(Boolean);
    this.app.dialog(
      "More orders",
      form("run", "Run until", "Go on, and rest where a state is entered or a guard holds.", [until, places], () => ({ until: until.value.trim() })),
      form("enqueue", "Add tasks", "They are put at the end of the run's queue.", [tasks], () => ({ tasks: lines() })),
      known.length ? form("set", "Set", "Another value for a limit or a variable, as the file would write it. The word off is for none.", [name, value], () => ({ name: name.value, value: typed(value.value) })) : null,
    );
  }

  compare() {
    const other = h("input", { type: "text", attrs: { "aria-label": "Id of the other run" }, value: this.view?.parent ?? "" });
    const open = (event) => {
      event.preventDefault();
      document.getElementById("dialog").close();
      this.app.go(`/compare${query({ a: this.id, b: other.value.trim() })}`);
    };
    const form = h("form", { on: { submit: open } }, h("label", {}, "The other run's id ", other), " ", h("button", { type: "submit", className: "cl-main", textContent: "Compare" }));
    this.app.dialog("Compare", form);
  }

  // loading ------------------------------------------------------------------------------------------

  async load(signal) {
    const known = this.newest ?? -1; // only the steps behind it are sent
    const view = await get(`${this.path}${query({ known })}`, signal);
    const first = this.view === null;
    this.view = view;
    this.title.textContent = view.title;
    this.machine.textContent = view.machine;
    this.machine.href = machinePath(view.machine);
    const link = (run) => h("a", { href: runPath(run), textContent: run });
    const { parent, follows, followers } = view;
    const from = parent && !this.id.startsWith(`${parent}/`) ? [`· ${follows} `, link(parent), " "] : [];
    const on = followers.flatMap((run, at) => [` · → ${view.became[at]} `, link(run)]);
    this.kin.replaceChildren(...from, ...on);
    this.showStatus(view);
    this.showBanner(view);
    this.showMeters(view);
    this.family.see(view.children);
    this.talk.compose(view);
    this.timeline.labels = view.labels;
    this.timeline.show(view.records, view.left_out);
    this.showChosen();
    this.showButtons();
    if (first) await Promise.all([this.reach(), this.findParents()]);
    if (this.chosen === null && this.step.seq !== this.newest) this.moment.want();
    this.tick();
  }

  /** A link may name a step that is older than those that come at once. */
  async reach() {
    const { chosen, timeline } = this;
    if (chosen === null) return;
    if (chosen < timeline.first - FAR) await this.around(chosen);
    else if (chosen < timeline.first) await this.older(timeline.first, timeline.first - chosen + 20);
    timeline.mark(chosen);
    timeline.reveal(chosen);
  }

  get newest() {
    return this.view?.head ?? null;
  }

  async loadMoment(signal) {
    const { chosen: seq } = this;
    const found = await get(`${this.path}/moment${query({ seq, layout: this.picture.layout })}`, signal);
    if (seq !== this.chosen) return this.moment.want();
    this.picture.put(found.picture);
    if (seq !== null || found.record.seq !== this.step.seq) this.step.show(found);
    this.chosenAt = seq === null ? null : found.steps;
    if (this.spending) this.showCurves();
  }

  async loadCurves(signal) {
    this.spending = await get(`${this.path}/spending`, signal);
    this.showCurves();
  }

  /** The steps around one that is far from the newest. */
  async around(seq) {
    const { records, left_out: rest } = await get(`${this.path}/timeline${query({ before: seq + 100, limit: 200 })}`);
    this.timeline.far(records, rest);
  }

  async newer(after) {
    try {
      const { records } = await get(`${this.path}/timeline${query({ before: after + 201, limit: 200 })}`);
      this.timeline.near(records, this.newest - (records.at(-1)?.seq ?? after));
    } catch (error) {
      this.app.fail(error);
    }
  }

  /** Back to the newest steps. */
  async latest() {
    const { records, left_out: rest } = await get(`${this.path}/timeline${query({ limit: 200 })}`);
    this.timeline.clear();
    this.timeline.show(records, rest);
    this.showChosen();
    this.head.want();
  }

  async older(before, limit = 200) {
    try {
      const { records, left_out: rest } = await get(`${this.path}/timeline${query({ before, limit })}`);
      this.timeline.add(records, rest);
    } catch (error) {
      this.app.fail(error);
    }
  }

  // showing ------------------------------------------------------------------------------------------

  showStatus(view) {
    const waits = view.answers.length > 0;
    this.task.textContent = view.task;
    this.task.tabIndex = this.task.scrollHeight > this.task.clientHeight ? 0 : -1; // scrolled by keys too
    const words = showPhase(this.status, view.phase);
    this.state.replaceChildren(...named(view.at, view.labels));
    this.state.dataset.ended = String(view.ended);
    this.driver.textContent = "";
    if (!view.driver) this.begun = null;
    if (!this.begun) this.doing.textContent = view.ended || waits ? "" : activity(view);
    const { sign = "" } = PHASES[view.phase] ?? {};
    this.app.title(`${sign} ${view.task.split("\n", 1)[0].slice(0, 80) || this.id}`.trim()); // among other tabs
    const heading = `${words} at ${view.labels[view.at] ?? view.at}`;
    if (heading !== this.spoken) this.app.speak(`Run ${this.id}: ${heading}`);
    this.spoken = heading;
  }

  /** The first thing to be read: what it waits for, why it stopped, or what comes next. */
  showBanner(view) {
    const asks = [view.wait, view.question, view.about, view.rest, view.calls, view.answers, view.due];
    // a question is not built anew for anything else: what somebody types stays
    const known = JSON.stringify(view.answers.length ? asks : [view.ended, view.explanation, view.output, view.next, view.errors, view.request]);
    if (known === this.asked) return;
    this.asked = known;
    this.question = null;
    this.banner.dataset.kind = view.ended ? "end" : view.answers.length ? "question" : "next";
    this.banner.dataset.colour = view.ended ? PHASES[view.phase].colour : "";
    if (view.ended) return this.banner.replaceChildren(...this.ending(view));
    if (view.answers.length) {
      const { wait, question, about, rest, due, calls, answers, since } = view;
      this.question = new Question(
        // who steps it by hand goes on doing so
        { run: this.id, wait, then: view.request?.order === "step" ? "take" : "run", text: question, about, rest, due, calls, answers, since },
        { sent: (event) => this.taken(`Answered ${event}`), failed: (error) => this.refused(error), app: this.app },
      );
      return this.banner.replaceChildren(this.question.root);
    }
    this.banner.replaceChildren(...this.coming(view));
  }

  ending(view) {
    const [first, ...rest] = view.explanation.split("\n");
    const came = view.output ? output({ content: view.output, kind: view.output_kind, open: view.kind === "natural", rest: view.output_rest, path: this.path, name: this.id.replaceAll("/", "-"), failed: (error) => this.app.fail(error) }) : null;
    const mends = view.kind === "natural" ? null : this.repair.root;
    if (mends) this.mend(view);
    const said = mends && view.errors.at(-1)?.message; // the error is shown whole below
    const more = rest.filter((line) => !said || !line.includes(said)).map((line) => ticked(line, "p"));
    return [ticked(first, "h2"), ...more, mends, came].filter(Boolean);
  }

  coming({ next, status, request, errors, warnings }) {
    const problem = request?.outcome?.problem ?? request?.outcome?.error;
    const lines = [];
    if (problem) lines.push(h("p", { className: "refused" }, text("strong", "It cannot be driven: "), typeof problem === "string" ? problem : (problem.detail ?? problem.message ?? JSON.stringify(problem))));
    if (next) {
      const what = next.action ? [text("strong", next.action), next.about ? ` ${next.about}` : ""] : ["no action: only its edges are looked at"];
      lines.push(h("p", {}, status === "paused" ? "It rests. Next: " : "Next: ", ...what));
      if (next.edges.length) lines.push(h("p", { className: "cl-muted" }, "then ", next.edges.map(({ words }) => words).join("; ")));
    }
    return [...lines, ...failures({ errors, warnings })];
  }

  /** A run that failed opens at its failure, unless the link names another step. */
  async mend(view) {
    const first = this.chosen === null;
    await this.repair.load(view);
    const { plan } = this.repair;
    if (!plan?.error || !first || this.chosen !== null) return;
    this.step.unfold("Error");
    if (plan.failed !== this.newest) this.open(plan.failed);
  }

  /** The way up from a child. */
  async findParents() {
    if (!this.id.includes("/")) return;
    const place = await get(`${this.path}/place`);
    if (place.above.length) this.above.replaceChildren(wayUp(place, this.view.title));
  }

  showMeters({ limits, spent }) {
    const cost = this.spending?.points.at(-1)?.[3];
    const tiles = limits.map(({ fact, share, text: value, level }) => {
      const bar = h("span", { className: "cl-share", attrs: { "aria-hidden": "true" } }, h("span"));
      bar.firstChild.style.width = `${Math.round(share * 100)}%`;
      bar.dataset.level = { ok: "low", near: "high", reached: "full" }[level];
      return h("div", { className: level }, text("dt", fact), h("dd", {}, value, bar));
    });
    const all = [h("div", {}, text("dt", "spent"), text("dd", spent)), h("div", {}, text("dt", "cost"), text("dd", money(cost))), ...tiles];
    this.meters.replaceChildren(...all);
  }

  showCurves() {
    const { points, limits } = this.spending;
    if (this.view) this.showMeters(this.view);
    const shown = [["tokens", 2, count], ["cost", 3, money]].map(([name, place, say]) => {
      const known = points.filter((point) => point[place] !== null).map((point) => [point[0], point[place]]);
      return known.length > 1 ? curve({ name, points: known, limit: limits[name], chosen: this.chosenAt ?? null, say }) : null;
    });
    const found = shown.filter(Boolean);
    this.curveBox.replaceChildren(...(found.length ? found : [text("p", "nothing yet", "cl-muted")]));
  }

  showChosen() {
    this.timeline.mark(this.chosen ?? this.newest);
    const later = this.chosen === null ? 0 : this.newest - this.chosen;
    this.follow.hidden = this.chosen === null;
    this.follow.textContent = later > 0 ? `${count(later)} newer: follow` : "Follow";
    this.root.classList.toggle("past", later > 0);
    this.when.textContent = later > 0 ? `As it was after step ${this.chosen}, ${count(later)} before the newest` : "";
  }

  showLive(name, data) {
    this.taking = data.step;
    if (name === "started") return this.showBegun(data);
    this.talk.hear(name, data);
    if (name !== "text") return;
    this.live = (this.live + data.text).slice(-2_000);
    this.writing.hidden = false;
    this.writing.replaceChildren(text("strong", `${data.state} writes: `), this.live);
  }

  showBegun({ action, at }) {
    this.begun = { action, at };
    this.live = "";
    this.talk.quiet();
    this.tick();
  }

  hideLive() {
    this.begun = null;
    this.live = "";
    this.writing.hidden = true;
    this.talk.quiet();
  }

  // the chosen step ----------------------------------------------------------------------------------

  choose(seq, reveal = true) {
    this.chosen = seq;
    if (reveal) this.talk.reveal(seq);
    if (seq === null && this.timeline.apart) this.latest().catch((error) => this.app.fail(error));
    this.relink();
    this.showChosen();
    this.showButtons();
    this.moment.want();
  }

  /** A step that may not be loaded yet. */
  async open(seq) {
    this.choose(seq);
    try {
      await this.reach();
      this.showChosen();
    } catch (error) {
      this.app.fail(error);
    }
  }

  /** By keys: `by` steps further, or to the first of all. */
  move(by) {
    if (by === -Infinity) return this.open(0);
    const at = this.timeline.beside(this.chosen ?? this.newest, by);
    if (at === null) return;
    this.choose(at);
    this.timeline.reveal(at);
    this.app.speak(`Step ${at}: ${this.timeline.words(at)}`);
  }

  key({ key, target }) {
    if (target.closest(".cl-picture") && key.startsWith("Arrow")) return false;
    if (this.picture.whole && !"jkgGz".includes(key) && !/^Arrow(Up|Down)$/.test(key)) return false; // no order behind the picture
    const moves = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, g: -Infinity };
    if (key in moves) this.move(moves[key]);
    else if (key === "G" || key === "Escape") this.choose(null);
    else if (key === "v") this.turn(this.shows === "picture" ? "conversation" : "picture");
    else if (key === "z") this.picture.spread();
    else if (key === "m") this.more();
    else if (key === "t") this.repair.ask();
    else if (key === "a") [...this.banner.querySelectorAll("form :is(input, button, textarea, select)")].find((one) => one.checkVisibility())?.focus();
    else if (key in KEYS) this.press(KEYS[key] === "pause" && this.refusal("pause") && !this.refusal("resume") ? "resume" : KEYS[key]);
    else return false;
    return true;
  }

  // orders -------------------------------------------------------------------------------------------

  /** Why an order cannot be given now; empty where it can. */
  refusal(name) {
    const { cannot, driver } = this.view ?? { cannot: {} };
    if (!this.view) return "The run is not loaded yet";
    if (this.sending) return "An order is on its way";
    if (this.app.isAway) return "The server does not answer";
    if (driver && ["step", "run", "back", "set"].includes(name)) return `It is being driven by ${driver.name}: pause it first`;
    if (name === "pause" && !driver && !cannot.pause) return "Nothing drives the run";
    return cannot[name] ?? "";
  }

  showButtons() {
    for (const [name, button] of Object.entries(this.buttons)) {
      const why = this.refusal(name);
      const key = Object.keys(KEYS).find((one) => KEYS[one] === name);
      button.setAttribute("aria-disabled", String(why !== ""));
      button.title = why || `${ABOUT[name]}${key ? ` (${key})` : ""}`;
    }
    this.buttons.pause.hidden = this.refusal("resume") === "";
    this.buttons.resume.hidden = !this.buttons.pause.hidden;
    const at = this.chosen;
    this.buttons.fork.textContent = at === null || at === this.newest ? "Fork" : `Fork at ${at}`;
    this.buttons.back.textContent = at === null || at === this.newest ? "Back" : `Back to ${at}`;
  }

  /** A button that cannot be pressed keeps the focus, and says why. */
  press(name) {
    const why = this.refusal(name);
    if (why) return this.app.fail(new Problem(409, { detail: why }));
    if (name === "cancel" && !this.sure()) return;
    const at = this.chosen ?? this.newest;
    const body = { fork: { at: at === this.newest ? null : at + 1 }, back: { records: Math.max(1, this.newest - at) } }[name];
    this.send(name, body ?? {});
  }

  /** Whether it is pressed a second time: a run that was cancelled does not go on. */
  sure() {
    const { cancel } = this.buttons;
    const sure = cancel.classList.toggle("cl-sure");
    cancel.textContent = sure ? "Really cancel?" : NAMES.cancel;
    clearTimeout(this.asking);
    if (sure) this.asking = setTimeout(() => this.sure(), SURE);
    return !sure;
  }

  async send(name, body, order = () => post(`${this.path}/${name}`, body)) {
    this.sending = true;
    this.showButtons();
    try {
      const done = await order();
      this.sending = false;
      this.taken(`${NAMES[name] ?? name}: taken`);
      if (done.made) this.app.go(runPath(done.made));
    } catch (error) {
      this.sending = false;
      if (error.again) error.message = error.unsent(NAMES[name] ?? name);
      this.refused(error, () => this.send(name, body, error.again));
    }
  }

  taken(words) {
    this.app.hush();
    this.app.speak(words);
    this.again();
    this.showButtons();
  }

  refused(error, resend = null) {
    this.app.fail(error, resend);
    this.again();
    this.showButtons();
  }
}

/** A value as it was typed: JSON where it is that, else a text; `off` is no value. */
function typed(value) {
  const given = value.trim();
  if (given === "off") return null;
  try {
    return JSON.parse(given);
  } catch {
    return given;
  }
}

/** Whether somebody drives it: a run that could go on may also rest. */
function activity({ driver, request, parked }) {
  if (driver) return "working…";
  if (parked) return parkedWords(parked);
  return request?.open ? "waits for a worker…" : "nothing drives it now";
}

function failures({ errors = [], warnings = [] }) {
  const failures = errors.slice(-3).map(({ category, message, state, step }) => h("p", { className: "refused" }, `${category} at ${state}, step ${step}: ${message}`));
  return [...failures, ...warnings.slice(-2).map((warning) => ledLine({ what: "warning", text: warning }))];
}
