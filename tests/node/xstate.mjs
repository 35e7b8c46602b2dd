// Reads configurations of XState and says what XState makes of them, a line of JSON for each line:
// {config, events: [{type, guards: [names that hold]}]} -> {states, path, done} or {error}.
// `done` are the actions that were done, for each event.
import { createInterface } from "node:readline";
import { createActor, createMachine } from "xstate";

const AFTER = "xstate.after.";

function ways(node) {
  const found = {};
  const add = (event, transitions) => {
    found[event.startsWith(AFTER) ? "expired" : event] = transitions.map((one) => [
      one.target[0].key,
      one.guard?.type ?? "",
      one.meta.edge,
    ]);
  };
  for (const [event, transitions] of node.transitions) add(event, transitions);
  if (node.always?.length) add("", node.always);
  return found;
}

function leaves(node, above = {}) {
  const own = { ...above, ...ways(node) };
  const inner = Object.values(node.states);
  if (inner.length === 0) {
    const type = node.type;
    return { [node.key]: { final: type === "final", ways: own, description: node.config.description } };
  }
  return Object.assign({}, ...inner.map((one) => leaves(one, own)));
}

function at(snapshot) {
  return snapshot._nodes.filter((node) => !Object.keys(node.states).length).map((node) => node.key);
}

function eventHere(snapshot, type) {
  if (type !== "expired") return type;
  const timed = snapshot._nodes.flatMap((node) => [...node.transitions.keys()]);
  return timed.find((name) => name.startsWith(AFTER)) ?? type;
}

// The names of all actions in a configuration.
function actionNames(config) {
  const found = new Set();
  JSON.stringify(config, (key, value) => {
    const listed = (key === "entry" || key === "actions") && Array.isArray(value);
    if (listed) for (const one of value) found.add(one.type); // a state may have the name, too
    return value;
  });
  return [...found];
}

function answer({ config, events }) {
  let holding = new Set(events[0]?.guards ?? []);
  const names = Object.keys(config.meta.chartloop.guards);
  const guards = Object.fromEntries(names.map((name) => [name, () => holding.has(name)]));
  const done = [[]];
  const note = (name) => [name, () => done.at(-1).push(name)];
  const actions = Object.fromEntries(actionNames(config).map(note));
  const machine = createMachine(config).provide({ guards, actions });
  const never = { setTimeout: () => 0, clearTimeout: () => {} };
  const actor = createActor(machine, { clock: never });
  let failed;
  actor.subscribe({ error: (error) => (failed = error) });
  actor.start();
  const path = [at(actor.getSnapshot())];
  for (const event of events.slice(1)) {
    holding = new Set(event.guards);
    done.push([]);
    actor.send({ type: eventHere(actor.getSnapshot(), event.type) });
    path.push(at(actor.getSnapshot()));
  }
  if (failed) throw failed;
  return { states: leaves(machine.root), path, done };
}

for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    said = answer(JSON.parse(line));
  } catch (error) {
    said = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
