// Small curves: what a run has spent, step by step, against its limit.
//
// Belongs here: lines and words in an SVG that is built element by element. Never: where numbers come from.

import { h, text } from "./parts.js";

const SPACE = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [320, 84];

function s(tag, attrs, ...children) {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attrs)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** `points`: [step, value]. `limit` may be undefined; `chosen` is a step or null. */
export function curve({ name, points, limit, chosen, say }) {
  const newest = points.at(-1);
  const top = Math.max(limit ?? 0, ...points.map(([, value]) => value)) || 1;
  const [first, last] = [points[0]?.[0] ?? 0, newest?.[0] ?? 1];
  const x = (step) => 2 + ((step - first) / Math.max(1, last - first)) * (WIDTH - 4);
  const y = (value) => HEIGHT - 2 - (value / top) * (HEIGHT - 10);
  const steps = points.map(([step, value], i) => `${i ? `H${x(step)}V` : `M${x(step)} `}${y(value)}`).join("");
  const used = newest ? newest[1] : 0;
  const level = limit === undefined ? "" : used >= limit ? "reached" : used >= 0.8 * limit ? "near" : "ok";
  const against = limit === undefined ? "no limit" : `of ${say(limit)}, ${Math.round((used / limit) * 100)} %`;
  const at = points.findLast(([step]) => chosen !== null && step <= chosen);
  const picture = s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${name}: ${say(used)} ${against}`, class: "curve", "data-level": level },
    s("path", { d: `${steps}V${HEIGHT}H${x(first)}Z`, class: "area" }),
    s("path", { d: steps, class: "line" }),
  );
  if (limit !== undefined) picture.append(s("path", { d: `M0 ${y(limit)}H${WIDTH}`, class: "limit" }));
  if (at) picture.append(s("path", { d: `M${x(at[0])} 0V${HEIGHT}`, class: "chosen" }));
  return h("figure", {}, h("figcaption", {}, text("span", name, "cl-muted"), text("strong", ` ${say(used)} `), text("span", against, "cl-muted")), picture);
}
