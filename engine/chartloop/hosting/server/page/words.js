// Numbers and times as people read them.
//
// Belongs here: words made of values. Never: an element.

import { now } from "./clock.js";

const UNITS = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];

/** Two units at most: `1 h 5 min`, `42 s`. */
export function span(seconds) {
  if (seconds < 1) return seconds > 0.0005 ? `${Math.round(seconds * 1000)} ms` : "0 s";
  let rest = Math.floor(seconds);
  const words = [];
  for (const [size, name] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || words.length) words.push(count ? `${count} ${name}` : "");
    if (words.length === 2) break;
  }
  return words.filter(Boolean).join(" ");
}

export function ago(at) {
  const seconds = Math.max(0, now() - at);
  return seconds < 2 ? "now" : `${span(seconds).split(" ").slice(0, 2).join(" ")} ago`;
}

export const left = (due) => (due <= now() ? "no time left" : `${span(due - now())} left`);
export const count = (number) => (number ?? 0).toLocaleString("en");
/** Why no worker takes up a parked run, by when processes died with it. */
export const parkedWords = (died) => (died.length ? `its process died ${count(died.length)} times, the last ${moment(died.at(-1))}` : "it rests since it was imported");
export const moment = (at) => new Date(at * 1000).toLocaleString();

export function money(usd) {
  if (usd === null || usd === undefined) return "–";
  if (usd === 0) return "$0";
  return `$${usd < 0.01 ? usd.toPrecision(2) : usd.toFixed(usd < 1 ? 3 : 2).replace(/(\.\d\d)0$/, "$1")}`;
}

/** Markdown in a line of a list, without its marks. */
export const unmarked = (words) => words.replace(/(\*\*|__|`+|^#+ |^> )/gm, "").replace(/\|[-| :]*\|/g, " ").replace(/\s+/g, " ").trim();

/** A question in a list: what is asked, and what it is about, each in a line. A call to approve is what is asked. */
export function asks({ text: asked, about, calls = [] }, task = "") {
  const [line, ...more] = asked.split("\n");
  // the last lines of the text name the calls, in JSON whose hidden characters are already shown: a text that could
  // read as another argument keeps its quotes
  const called = more.slice(-calls.length).map((call) => call.replace(/"([^"\\,:]*)"/g, "$1").replace(/[{}]/g, "").trim());
  const most = Math.max(60, 200 / calls.length); // of each call: one does not push away the next
  const cut = (call) => (call.length > most ? `${call.slice(0, most)}…` : call);
  if (calls.length) return [called.map(cut).join(", ").slice(0, 400), task || line];
  return [line || "It waits for an answer", unmarked((about || more.join(" ") || task).slice(0, 200))];
}
