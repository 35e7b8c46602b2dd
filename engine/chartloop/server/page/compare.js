// Two runs side by side: how each stands, and where they begin to differ.
//
// Belongs here: what is beside what. Never: an order to a run.

import { get, isLive, query, runPath } from "./api.js";
import { columns, h, text, ticked } from "./parts.js";
import { Refresh } from "./refresh.js";
import { RunPicture } from "./run_picture.js";
import { count, money } from "./words.js";

export function openCompare(main, { given, app }) {
  return new Compare(main, [given.get("a") ?? "", given.get("b") ?? ""], app);
}

class Compare {
  constructor(main, ids, app) {
    Object.assign(this, { app, ids });
    app.title("Compare");
    this.sides = ids.map((id) => new Side(id));
    this.body = h("tbody");
    this.about = text("p", "", "cl-muted");
    const swap = h("button", { type: "button", textContent: "Swap", on: { click: () => app.go(`/compare${query({ a: ids[1], b: ids[0] })}`) } });
    const heads = columns("#", ids[0], ids[1]);
    const table = h("div", { className: "cl-scroll" }, h("table", { className: "compared" }, heads, this.body));
    main.append(
      h("div", { className: "page" }, h("div", { className: "title" }, text("h1", "Two runs"), swap), this.about,
        h("div", { className: "sides" }, ...this.sides.map(({ root }) => root)), text("h2", "Step by step"), table),
    );
    this.refresh = new Refresh((signal) => this.load(signal), { failed: (e) => app.fail(e), pace: 700 });
    this.refresh.want();
  }

  close() {
    this.refresh.close();
    this.sides.forEach((side) => side.picture.close());
  }

  hear(name, data) {
    if (this.ids.includes(data.run) && !isLive(name)) this.refresh.want();
  }

  again() {
    this.refresh.want();
  }

  theme() {
    this.sides.forEach(({ picture }) => picture.turn(matchMedia("(prefers-color-scheme: dark)").matches));
    this.refresh.want();
  }

  async load(signal) {
    const [a, b] = await Promise.all(this.sides.map((side) => side.load(signal)));
    const shift = Math.max(a[0]?.seq ?? 0, b[0]?.seq ?? 0);
    const pairs = new Map();
    a.forEach((record) => pairs.set(record.seq, [record, null]));
    b.forEach((record) => pairs.set(record.seq, [pairs.get(record.seq)?.[0] ?? null, record]));
    const shown = [...pairs].filter(([seq]) => seq >= shift).sort(([x], [y]) => x - y);
    const first = shown.find(([, [x, y]]) => words(x) !== words(y))?.[0];
    this.about.textContent = first === undefined ? "They went the same way." : `They went the same way up to step ${first - 1}; step ${first} is the first that differs.`;
    const cell = (id, record) => h("td", {}, record ? h("a", { href: `${runPath(id)}?step=${record.seq}`, textContent: words(record) }) : "");
    this.body.replaceChildren(
      ...shown.map(([seq, [x, y]]) => {
        const kind = words(x) === words(y) ? "" : seq === first ? "differs first" : x && y ? "differs" : "";
        return h("tr", { className: kind }, h("th", { textContent: seq, attrs: { scope: "row" } }), cell(this.ids[0], x), cell(this.ids[1], y));
      }),
    );
    await Promise.all(this.sides.map((side) => side.paint(signal)));
  }
}

const words = (record) => (record ? [record.at || "start", record.did, record.came === "ok" ? "" : record.came, record.then && `→ ${record.then}`].filter(Boolean).join(" ") : "");

class Side {
  constructor(id) {
    this.id = id;
    this.picture = new RunPicture();
    this.facts = h("tbody");
    this.about = h("div", { className: "said" });
    this.root = h(
      "section", { className: "side", attrs: { "aria-label": `Run ${id}` } },
      h("h2", {}, h("a", { href: runPath(id), textContent: id })), this.about,
      h("table", {}, this.facts), this.picture.root,
    );
  }

  /** A layout takes longer than everything else. */
  async paint(signal) {
    this.picture.put(await get(`${runPath(this.id)}/painting${query({ layout: this.picture.layout })}`, signal));
  }

  /** Gives the records. */
  async load(signal) {
    const path = runPath(this.id);
    const [view, spent] = await Promise.all([get(path, signal), get(`${path}/spending`, signal)]);
    const [, elapsed, tokens, cost] = spent.points.at(-1) ?? [0, 0, 0, null];
    const said = view.ended ? view.said : `${view.status} at \`${view.state}\``;
    this.about.replaceChildren(...said.split("\n").map((line) => ticked(line, "p")));
    const rows = [["machine", view.machine], ["steps", count(view.step - 1)], ["tokens", count(tokens)], ["cost", money(cost)], ["time", `${elapsed.toFixed(1)} s`]];
    this.facts.replaceChildren(...rows.map(([name, value]) => h("tr", {}, h("th", { textContent: name, attrs: { scope: "row" } }), text("td", value))));
    return view.records;
  }
}
