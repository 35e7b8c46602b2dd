// Two runs side by side: how each stands, and where they begin to differ.
//
// Belongs here: what is beside what. Never: an order to a run.

import { get, isLive, query, runPath } from "./api.js";
import { columns, h, text, ticked } from "./parts.js";
import { Refresh } from "./refresh.js";
import { RunPicture } from "./run_picture.js";
import { count, money, span } from "./words.js";

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
    if (!this.ids.every(Boolean)) {
      this.about.textContent = "Tick two runs in the list of runs to compare them.";
      return;
    }
    const [found] = await Promise.all([
      get(`${runPath(this.ids[0])}/compare${query({ other: this.ids[1] })}`, signal), ...this.sides.map((side) => side.load(signal)),
    ]);
    const parting = this.parting(found);
    const marked = parting.some(Boolean) ? " The dashed frame in both pictures is where." : "";
    this.about.textContent = found.next === null ? found.summary + marked : `${found.summary}${marked} The table ends before step ${found.next}.`;
    this.sides.forEach((side, place) => side.put(place ? found.right : found.left));
    const cell = (id, record) => h("td", {}, record ? h("a", { href: `${runPath(id)}?step=${record.seq}`, textContent: words(record) }) : "");
    this.body.replaceChildren(
      ...found.steps.map(({ seq, same, left, right }) => {
        const kind = same ? "" : seq === found.first ? "differs first" : left && right ? "differs" : "";
        return h("tr", { className: kind }, h("th", { textContent: seq, attrs: { scope: "row" } }), cell(this.ids[0], left), cell(this.ids[1], right));
      }),
    );
    await Promise.all(this.sides.map((side, place) => side.paint(parting[place], signal)));
  }

  /** The states in which the two runs first differ; the one behind which a run goes on alone. */
  parting({ first, steps }) {
    const at = steps.find(({ seq }) => seq === first);
    if (!at) return [];
    const { left, right } = at;
    return [(left ?? right).state, (right ?? left).state];
  }
}

const words = (record) => [record.state || "start", record.action, record.outcome === "ok" ? "" : record.outcome, record.path && `→ ${record.path}`].filter(Boolean).join(" ");

class Side {
  constructor(id) {
    this.id = id;
    this.picture = new RunPicture();
    this.facts = h("dl");
    this.about = h("div", { className: "summary" });
    this.root = h(
      "section", { className: "side", attrs: { "aria-label": `Run ${id}` } },
      h("h2", {}, h("a", { href: runPath(id), textContent: id })), this.facts, this.about, this.picture.root,
    );
  }

  /** A layout takes longer than everything else. `parting` is the state where the other run goes on otherwise. */
  async paint(parting, signal) {
    this.picture.put(await get(`${runPath(this.id)}/painting${query({ layout: this.picture.layout })}`, signal));
    this.picture.mark(parting);
  }

  /** Tokens, cost and time, of its newest step. */
  async load(signal) {
    const spent = await get(`${runPath(this.id)}/spending`, signal);
    this.spent = spent.points.at(-1) ?? [0, 0, 0, null];
  }

  put(view) {
    const [, elapsed, tokens, cost] = this.spent;
    this.about.replaceChildren(...view.explanation.split("\n").map((line) => ticked(line, "p")));
    const rows = [["machine", view.machine], ["steps", count(view.step - 1)], ["tokens", count(tokens)], ["cost", money(cost)], ["time", span(elapsed)]];
    this.facts.replaceChildren(...rows.map(([name, value]) => h("div", {}, text("dt", name), text("dd", value))));
  }
}
