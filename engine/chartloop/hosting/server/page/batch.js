// Several runs at once: cancel them, or try them again, after it was said how many and what it costs.
//
// Belongs here: what is asked before, and what became of each. Never: which runs are ticked (`runs.js`).

import { get, post, runPath } from "./api.js";
import { h, text, ticked } from "./parts.js";
import { canRetry, isLiving, isParked } from "./runs.js";
import { count, money, parkedWords } from "./words.js";

const AT_ONCE = 4; // requests
const SHOWN = 12; // runs that are named in a dialog

export async function cancelRuns(list) {
  const rows = list.ticked(isLiving);
  if (!rows.length) return list.app.fail(new Error("Tick runs that have not ended."));
  const words = `Cancel ${runs(rows.length)}? Each stops before its next action, for good.`;
  confirm(list, "Cancel runs", [text("p", words), named(rows)], `Cancel ${runs(rows.length)}`, rows, (row) => post(`${runPath(row.run)}/cancel`, {}));
}

/** A worker drives each alone until it has a new record: one that ends its process again harms no other. */
export async function resumeRuns(list) {
  const rows = list.ticked(isParked);
  const words = `Resume ${runs(rows.length)}? A worker takes each up, in a process of its own. A call in doubt may be made again, where the file says so.`;
  const about = ({ parked, ...row }) => ({ ...row, about: parkedWords(parked) });
  confirm(list, "Resume parked runs", [text("p", words), named(rows.map(about))], `Resume ${runs(rows.length)}`, rows, (row) => post(`${runPath(row.run)}/resume`, {}));
}

/** The plan of each is read first: which calls would be paid again stands beside the button. */
export async function retryRuns(list) {
  const rows = list.ticked(canRetry);
  if (!rows.length) return list.app.fail(new Error("Tick runs that failed, gave up or reached a limit."));
  const plans = await each(rows, (row) => get(`${runPath(row.run)}/retry`));
  const ready = plans.filter(({ found }) => found && !found.refusal);
  const refused = plans.filter(({ error, found }) => error || found.refusal);
  const paid = ready.reduce((sum, { found }) => sum + found.calls.length, 0);
  const doubts = ready.reduce((sum, { found }) => sum + found.doubts.length, 0);
  const costs = ready.map(({ found }) => found.cost);
  const cost = costs.includes(null) ? "their cost is not known" : `they cost ${money(costs.reduce((sum, one) => sum + one, 0))} before`;
  const lines = [
    text("p", `Try ${runs(ready.length)} again? Each goes on as a new run from before its failure; the old ones stay as they are.`),
    text("p", paid ? `${count(paid)} paid ${paid === 1 ? "call is" : "calls are"} made again; ${cost}.` : "No paid call is made again."),
    doubts ? text("p", `${count(doubts)} ${doubts === 1 ? "call is" : "calls are"} in doubt: nobody knows whether ${doubts === 1 ? "it was" : "they were"} made.`) : null,
    named(ready.map(({ row, found }) => ({ ...row, about: found.lines.join(". ") }))),
    refused.length ? text("p", `${runs(refused.length)} cannot be tried again: ${refused[0].error?.message ?? refused[0].found.refusal}`, "refused") : null,
  ];
  const digests = new Map(ready.map(({ row, found }) => [row.run, found.digest]));
  const send = (row) => post(`${runPath(row.run)}/retry`, { confirm: digests.get(row.run) });
  confirm(list, "Try runs again", lines, `Try ${runs(ready.length)} again`, ready.map(({ row }) => row), send);
}

/** Asks before an order is sent for each row; `list` is told when it was. */
export function confirm(list, title, lines, label, rows, order) {
  const box = document.getElementById("dialog");
  const press = async () => {
    send.disabled = true;
    const done = await each(rows, order);
    const failed = done.filter(({ error }) => error);
    box.close();
    list.untick();
    list.app.speak(`${count(done.length - failed.length)} of ${runs(done.length)}: taken`);
    if (!failed.length) return list.app.hush();
    const { row, error } = failed[0];
    error.message = `${runs(failed.length)} of ${count(done.length)} did not take it. ${row.task || row.run}: ${error.message}`;
    list.app.fail(error);
  };
  const send = h("button", { type: "button", className: "cl-main", textContent: label, disabled: rows.length === 0, on: { click: press } });
  list.app.dialog(title, ...lines, send, " ");
}

export const runs = (number) => `${count(number)} ${number === 1 ? "run" : "runs"}`;

/** The first rows, and how many more there are of the whole. */
export function named(rows, whole = rows.length) {
  const line = (row) => h("li", {}, row.task || row.run, " ", h("span", { className: "cl-muted" }, ticked(row.about ?? row.machine)));
  const more = whole - Math.min(rows.length, SHOWN);
  return h("ul", { className: "named" }, ...rows.slice(0, SHOWN).map(line), more > 0 ? text("li", `and ${count(more)} more`, "cl-muted") : null);
}

/** Does something for each row, a few at a time: its answer or its error. */
async function each(rows, work) {
  const waiting = rows.map((row) => ({ row }));
  const done = [...waiting];
  const worker = async () => {
    for (let one = waiting.shift(); one; one = waiting.shift()) {
      try {
        one.found = await work(one.row);
      } catch (error) {
        one.error = error;
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return done;
}
