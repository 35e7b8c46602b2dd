// Machines: the list, and a page for each with its picture, its findings and the worst that a run can cost.
//
// Belongs here: machines. Never: a run, but for links to runs.

import { get, getText, machinePath, query, runPath } from "./api.js";
import { columns, h, isDark, part, text, ticked } from "./parts.js";
import { RunPicture } from "./run_picture.js";

export function openMachines(main, { app }) {
  app.title("Machines");
  const body = h("tbody");
  const table = h("table", { className: "machines" }, columns("machine", "title", "findings", ""), body);
  main.append(h("div", { className: "page" }, h("div", { className: "title" }, text("h1", "Machines")), h("div", { className: "cl-scroll" }, table)));
  load();
  async function load() {
    try {
      const { machines } = await get("/machines");
      body.replaceChildren(...machines.map(row));
    } catch (error) {
      app.fail(error);
    }
  }
  return {};
}

function row({ name, machine, title, errors, warnings }) {
  const runs = machine ? h("a", { href: `/runs${query({ machine })}`, textContent: "runs" }) : "";
  return h(
    "tr", {}, h("th", { attrs: { scope: "row" } }, h("a", { href: machinePath(name), textContent: name })), text("td", title),
    h("td", {}, badge(errors, "error", "error"), badge(warnings, "warning", "warning"), errors + warnings ? "" : "none"), h("td", {}, runs),
  );
}

const badge = (number, name, level) => (number ? h("span", { className: "level", textContent: `${number} ${name}${number > 1 ? "s" : ""}` , title: level }) : "");

export function openMachine(main, { name, app }) {
  return new Machine(main, name, app);
}

class Machine {
  constructor(main, name, app) {
    Object.assign(this, { app, path: machinePath(name), name });
    app.title(`Machine ${name}`);
    this.picture = new RunPicture();
    this.title = text("h1", name);
    this.links = h("p", { className: "about" });
    this.right = h("div", { className: "cl-right" });
    main.append(
      h("div", { className: "page" }, h("div", { className: "title" }, this.title), this.links,
        h("div", { className: "cl-columns" }, h("div", { className: "cl-left" }, this.picture.root), this.right)),
    );
    this.load();
  }

  close() {
    this.picture.close();
  }

  theme() {
    this.draw();
  }

  async draw() {
    try {
      const theme = isDark() ? "dark" : "light";
      this.picture.still(await getText(`${this.path}/picture${query({ theme })}`), `Flowchart of ${this.title.textContent}`);
    } catch (error) {
      this.app.fail(error);
    }
  }

  /** Each part by itself: what cannot be had, of a file with errors say, keeps nothing else away. */
  async load() {
    const parts = ["", "/findings", "/bound", "/coverage", "/changes"].map((what) => get(this.path + what).catch((error) => (what ? null : this.app.fail(error))));
    const [machine, findings, bound, coverage, changes] = await Promise.all(parts);
    if (!machine) return;
    this.title.textContent = machine.title;
    const known = machine.machine ?? machine.name;
    this.links.replaceChildren(text("span", known, "cl-code"), " ", h("a", { href: `/runs${query({ machine: known })}`, textContent: "its runs" }));
    this.right.replaceChildren(...[findingPart(findings), boundPart(bound), coveragePart(coverage), changePart(changes), filePart(machine)].filter(Boolean));
    if (machine.machine) await this.draw();
  }
}

function findingPart(found) {
  if (!found) return null;
  const line = (one) =>
    h("li", { className: one.severity ?? one.level ?? "" }, text("strong", `${one.code ?? ""} `), ticked(one.message ?? one.text ?? ""), one.line ? text("span", ` line ${one.line}`, "cl-muted") : "", one.hint ? ticked(one.hint, "p") : "");
  const lines = [...found.findings, ...found.notes].map(line);
  return part("Findings", "", lines.length ? h("ul", { className: "findings" }, ...lines) : text("p", "Nothing is wrong with it.", "cl-muted"));
}

function boundPart(bound) {
  if (!bound) return null;
  const rows = Object.entries(bound.bounds ?? {}).map(([what, { text: value, by = [], why = "" }]) => h("tr", {}, h("th", { textContent: what.replace("_", " "), attrs: { scope: "row" } }), text("td", value), why ? ticked(why, "td") : text("td", by.join(", "), "cl-code")));
  const table = h("table", { className: "words" }, columns("", "at worst", "because"), h("tbody", {}, ...rows));
  return part("Bound", text("span", "no run can go past it", "cl-about"), h("div", { className: "cl-scroll" }, table));
}

function coveragePart(found) {
  if (!found) return null;
  const rows = (found.rows ?? []).map(({ kind, seen, all, missing }) => h("tr", {}, h("th", { textContent: kind, attrs: { scope: "row" } }), text("td", `${seen} of ${all}`), text("td", missing.join(", "), "cl-code")));
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
