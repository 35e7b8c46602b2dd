// Machines: the list, and a page for each with its picture, its findings and the worst that a run can cost.
//
// Belongs here: machines. Never: a run, but for links to runs.

import { get, getText, machinePath, post, query, runPath } from "./api.js";
import { PHASES, columns, h, isDark, part, showPhase, text, ticked } from "./parts.js";
import { RunPicture } from "./run_picture.js";
import { ago, count } from "./words.js";

const NEWEST = 8; // runs that a machine's page lists
const COUNTED = 100; // runs that are counted by how they stand

export function openMachines(main, { app }) {
  app.title("Machines");
  const body = h("tbody");
  const table = h("table", { className: "machines" }, columns("machine", "title", "findings", "runs", "failed last"), body);
  main.append(h("div", { className: "page" }, h("div", { className: "title" }, text("h1", "Machines")), h("div", { className: "cl-scroll" }, table)));
  load();
  async function load() {
    try {
      const { machines } = await get("/machines");
      body.replaceChildren(...machines.map(row));
      app.arrived();
    } catch (error) {
      app.fail(error);
    }
  }
  return {};
}

function row({ name, machine, title, errors, warnings, runs }) {
  const known = machine ?? name;
  const number = runs.count ? h("a", { href: `/runs${query({ machine: known })}`, textContent: `${count(runs.count)}${runs.more ? "+" : ""}`, title: "Its runs" }) : "none";
  const failed = runs.failed ? h("a", { href: runPath(runs.failed.run), textContent: ago(runs.failed.at), title: runs.failed.run }) : text("span", "–", "cl-muted");
  return h(
    "tr", {}, h("th", { attrs: { scope: "row" } }, h("a", { href: machinePath(name), textContent: name })), text("td", title),
    h("td", {}, badge(errors, "error", "error"), badge(warnings, "warning", "warning"), errors + warnings ? "" : "none"), h("td", {}, number), h("td", {}, failed),
  );
}

const badge = (number, name, level) => (number ? h("span", { className: "level", textContent: `${number} ${name}${number > 1 ? "s" : ""}` , title: level }) : "");

export function openMachine(main, { name, app }) {
  return new Machine(main, name, app);
}

class Machine {
  constructor(main, name, app) {
    Object.assign(this, { app, path: machinePath(name), name, look: "plain" });
    app.title(`Machine ${name}`);
    this.picture = new RunPicture();
    this.title = text("h1", name);
    this.links = h("p", { className: "about" });
    this.said = text("p", "", "task");
    this.begin = h("div");
    this.right = h("div", { className: "cl-right" });
    this.looks = h("div", { className: "looks", hidden: true, attrs: { role: "group", "aria-label": "Picture" } }, ...this.buildLooks());
    main.append(
      h("div", { className: "page machine" }, h("div", { className: "title" }, this.title), this.links, this.said, this.begin,
        h("div", { className: "cl-columns" }, h("div", { className: "cl-left" }, this.looks, this.picture.root), this.right)),
    );
    this.load();
  }

  close() {
    this.picture.close();
  }

  theme() {
    this.draw();
  }

  key({ key }) {
    if (key === "z") this.picture.spread();
    else if (key === "h" && !this.looks.hidden) this.show(this.look === "heat" ? "plain" : "heat");
    else return false;
    return true;
  }

  buildLooks() {
    const looks = [["plain", "Flowchart", "The machine as its file says it (h)"], ["heat", "Where runs went", "How often its newest runs took each way; what none took is red (h)"]];
    return looks.map(([look, textContent, title]) => {
      const attrs = { "aria-pressed": String(look === this.look), "aria-keyshortcuts": "h" };
      const made = h("button", { type: "button", textContent, title, attrs, on: { click: () => this.show(look) } });
      made.dataset.look = look;
      return made;
    });
  }

  show(look) {
    this.look = look;
    for (const button of this.looks.children) button.setAttribute("aria-pressed", String(button.dataset.look === look));
    this.draw();
  }

  async draw() {
    try {
      const [theme, { look }] = [isDark() ? "dark" : "light", this];
      const svg = await getText(`${this.path}/picture${query({ theme, look })}`);
      if (look !== this.look) return;
      const about = look === "heat" ? `Where the runs of ${this.title.textContent} went` : `Flowchart of ${this.title.textContent}`;
      this.picture.still(svg, about);
    } catch (error) {
      this.app.fail(error);
    }
  }

  /** Each part by itself: what cannot be had, of a file with errors say, keeps nothing else away. */
  async load() {
    const parts = ["", "/findings", "/bound", "/coverage", "/changes"].map((what) => this.get(this.path + what, what !== ""));
    const machine = await parts[0];
    if (!machine) return;
    const known = machine.machine ?? machine.name;
    const runs = this.get(`/runs${query({ machine: known, limit: COUNTED })}`, true);
    this.title.textContent = machine.title;
    this.said.textContent = machine.about ?? "";
    this.links.replaceChildren(text("span", known, "cl-code"), machine.model ? ` · model ${modelWords(machine.model)}` : "");
    if (machine.machine) this.begin.replaceChildren(this.startForm(machine));
    const found = await Promise.all([...parts.slice(1), runs]);
    const [findings, bound, coverage, changes, newest] = found;
    this.looks.hidden = !coverage?.runs;
    this.right.replaceChildren(
      ...[runPart(newest, known), toolPart(machine), instructionPart(machine), findingPart(findings), boundPart(bound), coveragePart(coverage), changePart(changes), filePart(machine)].filter(Boolean),
    );
    if (machine.machine) await this.draw();
  }

  get(path, quiet) {
    return get(path).catch((error) => (quiet ? null : this.app.fail(error)));
  }

  startForm({ name }) {
    const task = h("textarea", { rows: 2, placeholder: "What shall it do?", attrs: { "aria-label": "Task" } });
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
      send(() => post("/runs", { machine: name, task: task.value, drive }));
    };
    const start = h("button", { type: "submit", className: "cl-main", textContent: "Start" });
    const paused = h("button", { type: "button", textContent: "Start, and wait", title: "Start it, and do nothing yet", on: { click: begin("none") } });
    return h("details", { className: "begin" }, text("summary", "Start a run"), h("form", { className: "start", on: { submit: begin("run") } }, task, start, paused));
  }
}

const modelWords = (model) => model.name ?? Object.values(model).find((value) => typeof value === "string") ?? "of the caller";

/** Its newest runs, and how all that are known stand. */
function runPart(found, machine) {
  if (!found) return null;
  const all = h("a", { href: `/runs${query({ machine })}`, textContent: found.next ? `all, more than ${COUNTED}` : `all ${count(found.runs.length)}` });
  if (!found.runs.length) return part("Runs", "", text("p", "It has no runs yet.", "cl-muted"));
  const counts = {};
  for (const { phase } of found.runs) counts[phase] = (counts[phase] ?? 0) + 1;
  const told = Object.values(PHASES).filter(({ name }) => counts[name]).flatMap(({ name, sign, word }, at) => [
    at ? " · " : "", h("a", { href: `/runs${query({ machine, phase: name })}`, textContent: `${sign} ${word}: ${count(counts[name])}` }),
  ]);
  const link = (row) => h("a", { href: runPath(row.run), textContent: row.task || row.run, title: row.run });
  const failed = found.runs.find(({ phase }) => phase === "failed");
  const last = failed ? h("p", {}, "The last that failed: ", link(failed), `, ${ago(failed.updated)}: ${failed.message || failed.reason || failed.state}`) : null;
  const rows = found.runs.slice(0, NEWEST).map((row) => {
    const phase = text("span", "", "cl-status");
    showPhase(phase, row.phase);
    return h("tr", {}, h("th", { attrs: { scope: "row" } }, link(row)), h("td", {}, phase), text("td", row.message || row.state), text("td", ago(row.updated), "cl-muted"));
  });
  const table = h("table", { className: "words" }, columns("newest", "phase", "ended with, or at", "changed"), h("tbody", {}, ...rows));
  return part("Runs", h("span", { className: "cl-about" }, all), h("p", { className: "cl-muted" }, ...told), ...[last].filter(Boolean), h("div", { className: "cl-scroll" }, table));
}

const EFFECTS = { pure: "changes nothing", local: "changes this run only", paid: "acts outside, or costs" };

function toolPart({ tools = [] }) {
  if (!tools.length) return null;
  const marks = ({ effect, data, approved, runs, server }) =>
    [EFFECTS[effect] ?? effect, approved && "is approved first", runs && `runs ${runs}`, server && `of the server ${server}`, ...Object.entries(data).map(([key, word]) => `${key}: ${word}`)].filter(Boolean).join(" · ");
  const rows = tools.map((tool) => h("tr", {}, h("th", { textContent: tool.name, attrs: { scope: "row" } }), text("td", tool.about), text("td", marks(tool), "cl-muted")));
  return part("Tools", text("span", "what the model may call", "cl-about"), h("div", { className: "cl-scroll" }, h("table", { className: "words" }, columns("", "about", "effect and data"), h("tbody", {}, ...rows))));
}

function instructionPart({ instructions }) {
  return instructions ? part("Instructions", "", h("pre", { textContent: instructions, attrs: { tabindex: "0" } })) : null;
}

function findingPart(found) {
  if (!found) return null;
  const line = (one) =>
    h("li", { className: one.severity ?? one.level ?? "" }, text("strong", `${one.code ?? ""} `), ticked(one.message ?? one.text ?? ""), one.line ? text("span", ` line ${one.line}`, "cl-muted") : "", one.hint ? ticked(one.hint, "p") : "");
  const list = (all) => (all.length ? h("ul", { className: "findings" }, ...all.map(line)) : null);
  const wrong = list(found.findings) ?? text("p", "Nothing is wrong with it.", "cl-muted");
  const noted = found.notes.length ? [text("p", "To know:", "cl-muted"), list(found.notes)] : [];
  return part("Findings", "", wrong, ...noted);
}

function boundPart(bound) {
  if (!bound) return null;
  const rows = Object.entries(bound.bounds ?? {}).map(([what, { text: value, by = [], why = "" }]) => h("tr", {}, h("th", { textContent: what.replace("_", " "), attrs: { scope: "row" } }), text("td", value), why ? ticked(why, "td") : text("td", by.join(", "), "cl-code")));
  const table = h("table", { className: "words" }, columns("", "at worst", "because"), h("tbody", {}, ...rows));
  return part("Bound", text("span", "the worst that a run can do", "cl-about"), h("div", { className: "cl-scroll" }, table));
}

function coveragePart(found) {
  if (!found) return null;
  const rows = (found.rows ?? []).map(({ kind, seen, all, words }) => h("tr", {}, h("th", { textContent: kind, attrs: { scope: "row" } }), text("td", `${seen} of ${all}`), h("td", {}, ...words.map((one) => text("div", one, "cl-code")))));
  const table = h("table", { className: "words" }, columns("", "seen", "never"), h("tbody", {}, ...rows));
  return part("Coverage", text("span", `by the newest ${found.runs} runs`, "cl-about"), found.runs ? h("div", { className: "cl-scroll" }, table) : text("p", "It has no runs yet.", "cl-muted"));
}

function changePart(found) {
  if (!found) return null;
  if (!found.since) return part("Changes", "", text("p", "No run was started with an earlier version of the file.", "cl-muted"));
  const since = h("span", { className: "cl-about" }, "since the run ", h("a", { href: runPath(found.since), textContent: found.since }));
  return part("Changes", since, h("ul", { className: "findings" }, ...found.changes.map((change) => ticked(change, "li"))));
}

function filePart({ text: file }) {
  return h("details", {}, text("summary", "File"), h("pre", { textContent: file, attrs: { tabindex: "0" } }));
}
