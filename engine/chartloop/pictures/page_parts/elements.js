// Elements of the page: made of data, and knowing nothing of a model.
//
// Belongs here: tables, as elements. Never: an order, a request to anybody, a library, markup
// made of text. Every text is put in as text.
//
// The files of this folder are put after each other, and are one module then: see `__init__.py`.

const RECORD = ["kind", "state", "action", "outcome", "duration", "path", "because"];

/** An element with its properties, attributes (`attrs`), listeners (`on`) and children. */
function h(tag, properties = {}, ...children) {
  const { attrs = {}, on = {}, ...rest } = properties;
  const made = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(attrs)) made.setAttribute(name, value);
  for (const [name, heard] of Object.entries(on)) made.addEventListener(name, heard);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Controls, marks that turn the direction of writing, and format characters that are not seen, but for
// those that join letters and emoji: with them a text reads differently from what it says.
const STEERING = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** A text in which nothing is turned round or hidden: such characters as JSON escapes them. */
const readable = (content) =>
  content.replace(/\r\n?/g, "\n").replace(STEERING, (found) =>
    [...Array(found.length).keys()].map((place) => `\\u${found.charCodeAt(place).toString(16).padStart(4, "0")}`).join(""),
  );

/** For `JSON.parse`: every text of some data made readable. */
const readably = (_, value) => (typeof value === "string" ? readable(value) : value);

const text = (tag, content, className = "") => h(tag, { textContent: content, className });

/** A line with its names in backticks as code. */
function ticked(line, tag = "span") {
  return h(tag, {}, ...line.split("`").map((words, place) => (place % 2 ? text("code", words) : words)));
}

/** Shows how a run stands: the word of its phase, with the sign and the colour of it. */
function showPhase(chip, name) {
  const { word = name ?? "", sign = "", colour = "grey", about = "" } = PHASES[name] ?? {};
  chip.textContent = word;
  chip.title = about;
  Object.assign(chip.dataset, { phase: name ?? "", sign, colour });
  return word;
}

function columns(...names) {
  const heads = names.map((name) => (name ? h("th", { textContent: name, attrs: { scope: "col" } }) : h("td")));
  return h("thead", {}, h("tr", {}, ...heads));
}

/** A part of a page, below its title. */
function part(name, about, ...inside) {
  return h("section", { className: "cl-part" }, h("h3", { attrs: { "aria-level": "2" } }, name, " ", about), ...inside);
}

/** A part that is scrolled by keys too. */
function scrolled(className, name, ...inside) {
  const attrs = { tabindex: "0", role: "region", "aria-label": name };
  return h("div", { className: `cl-scroll ${className}`, attrs }, ...inside);
}

function group(submit, ...inside) {
  const asked = (event) => {
    event.preventDefault();
    submit();
  };
  return h("form", { className: "cl-group", on: { submit: asked } }, ...inside);
}

// facts, decisions, records ----------------------------------------------------------------------

function factRow({ name, value, changed, was, about }) {
  const title = "changed by the newest record";
  const mark = h("span", { className: "cl-mark", textContent: "●", title, attrs: { "aria-label": title } });
  const before = changed ? h("span", { className: "cl-was" }, text("span", was), " → ") : null;
  const head = h("th", { attrs: { scope: "row" } }, changed ? mark : null, name);
  const row = { className: changed ? "cl-changed" : "", title: about };
  return h("tr", row, head, h("td", {}, before, text("span", value)));
}

function decisionRows(why) {
  return (why?.groups ?? []).flatMap(({ name, rows }) => {
    const head = h("th", { textContent: name, colSpan: 5, attrs: { scope: "rowgroup" } });
    return [h("tr", { className: "cl-head" }, head), ...rows.map(decisionRow)];
  });
}

function decisionRow({ mark, text: guard, values, left, share, to, taken, looked, atom, colour }) {
  const kind = taken ? "cl-taken" : looked ? "" : "cl-unseen";
  const bar = typeof share === "number" && left ? shareBar(share) : null;
  return h(
    "tr",
    { className: `${kind} ${atom ? "cl-atom" : ""}`, attrs: colour ? { "data-colour": colour } : {} },
    text("td", mark, "cl-sign"),
    text("td", guard, "cl-code"),
    text("td", values, "cl-values"),
    h("td", { className: "cl-left-over" }, left, bar),
    text("td", to),
  );
}

/** How much of a budget is used: green, amber from 80 % on, red once it is spent. */
function shareBar(share) {
  const made = h("span", { className: "cl-share", attrs: { "aria-hidden": "true" } }, h("span"));
  made.firstChild.style.width = `${Math.round(share * 100)}%`;
  made.dataset.level = share >= 1 ? "full" : share >= 0.8 ? "high" : "low";
  return made;
}

function ledLine({ what, text: consequence }) {
  return h("p", {}, text("span", `${what} `, "cl-muted"), consequence);
}

function recordRow(record, choose) {
  const button = h("button", {
    type: "button",
    className: "cl-link",
    textContent: record.seq,
    attrs: { "aria-label": `Decision of record ${record.seq}` },
    on: { click: () => choose(record.seq) },
  });
  const cells = RECORD.map((name) => text("td", record[name] ?? "", `cl-col-${name}`));
  const made = h("tr", { className: record.failed ? "cl-failed" : "" }, h("td", {}, button), ...cells);
  made.dataset.seq = record.seq;
  return made;
}

function olderRecords(count) {
  const note = `${count} older records are not shown`;
  return h("tr", {}, h("td", { colSpan: RECORD.length + 1, className: "cl-muted", textContent: note }));
}

// the page around -------------------------------------------------------------------------------

/** Whether the page around is dark: as JupyterLab and marimo say it, else the system. */
function isDark() {
  const { body, documentElement: root } = document;
  if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false";
  if ([root, body].some((element) => element.classList.contains("dark"))) return true;
  if ([root, body].some((element) => element.classList.contains("light"))) return false;
  return matchMedia("(prefers-color-scheme: dark)").matches;
}
