// Reads SCXML and says what SCION makes of it, a line of JSON for each line:
// {document, events: [{type, guards: [names that hold]}]} -> {states, path} or {error}.
import { createInterface } from "node:readline";
import scxml from "@scion-scxml/scxml";

const GUARD = /(?:_event\.data|holding)\.(\w+)\W*$/m;

function ways(state) {
  const found = {};
  for (const one of state.transitions ?? []) {
    const event = one.events?.[0] ?? "";
    (found[event] ??= []).push([one.targets[0].id, GUARD.exec(String(one.cond ?? ""))?.[1] ?? ""]);
  }
  return found;
}

function leaves(state, above = {}) {
  const own = { ...above, ...ways(state) };
  const inner = (state.states ?? []).filter((one) => one.id && one.$type !== "initial");
  if (inner.length === 0) return { [state.id]: { final: state.$type === "final", ways: own } };
  return Object.assign({}, ...inner.map((one) => leaves(one, own)));
}

async function answer({ document, events }) {
  const model = await new Promise((done, fail) =>
    scxml.documentStringToModel("a.scxml", document, (error, made) =>
      error ? fail(error) : done(made),
    ),
  );
  const prepared = await new Promise((done, fail) =>
    model.prepare((error, made) => (error ? fail(error) : done(made)), {}),
  );
  const chart = new scxml.core.Statechart(prepared);
  chart.start();
  const path = [chart.getConfiguration()];
  for (const event of events) {
    const data = Object.fromEntries(event.guards.map((name) => [name, true]));
    chart.gen({ name: event.type, data });
    path.push(chart.getConfiguration());
  }
  return { states: leaves(chart._model), path };
}

for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    said = await answer(JSON.parse(line));
  } catch (error) {
    said = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
