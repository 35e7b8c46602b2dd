// What a run came to, as such: a text with its line breaks, data as JSON; to copy, and to keep as a file.
//
// Belongs here: the output's part of a page. Never: when a run has one.

import { get } from "./api.js";
import { markdown } from "./markdown.js";
import { h, text } from "./parts.js";
import { count } from "./words.js";

const SHORT = 2_000; // characters that are shown unfolded
const SAID = 2_000; // ms for which a button says that it is done
const KINDS = { json: ["application/json", "json"], markdown: ["text/markdown", "md"], text: ["text/plain", "txt"] };
// what a text has that is written in Markdown: a heading, a list, a fence, a table, emphasis, a link
const MARKS = /^ {0,3}#{1,6} |^ {0,3}(?:[-*+]|\d+\.) |^ {0,3}(?:```|~~~)|^\|.*\|$|\*\*\S|\]\(\S/m;

/** `content` may be only the beginning: `rest` characters follow, and are loaded when they are wanted. */
export function output({ content, kind, open, rest, path, name, failed }) {
  const is = kind === "text" && MARKS.test(content) ? "markdown" : kind;
  const whole = async () => {
    if (!rest) return content;
    const { output: found } = await get(`${path}/result`);
    return typeof found === "string" ? found : JSON.stringify(found, null, 2);
  };
  const button = (label, done, work) => {
    const made = h("button", { type: "button", textContent: label });
    made.addEventListener("click", async () => {
      try {
        await work(await whole());
        made.textContent = done;
        setTimeout(() => (made.textContent = label), SAID);
      } catch (error) {
        failed(error);
      }
    });
    return made;
  };
  const [type, ending] = KINDS[is];
  const bar = h(
    "div", { className: "cl-bar output-bar" },
    button("Copy", "Copied", copy),
    button(`Download .${ending}`, "Downloaded", (all) => download(`${name}.${ending}`, type, all)),
    rest ? text("span", `${count(rest)} characters more are in what you copy or download`, "cl-muted") : null,
  );
  const raw = h("pre", { textContent: content, tabIndex: 0 });
  const read = is === "markdown" ? h("div", { className: "output-read" }, markdown(content)) : null;
  raw.hidden = read !== null;
  if (read) {
    const turn = h("button", { type: "button", textContent: "As written", attrs: { "aria-pressed": "false" } });
    turn.addEventListener("click", () => {
      [raw.hidden, read.hidden] = [!raw.hidden, !read.hidden];
      turn.setAttribute("aria-pressed", String(read.hidden));
    });
    bar.append(turn);
  }
  const parts = [text("summary", "Output"), bar, read, raw];
  return h("details", { className: "output", open: open && content.length <= SHORT }, ...parts.filter(Boolean));
}

async function copy(all) {
  if (navigator.clipboard) return navigator.clipboard.writeText(all);
  // a page that came over plain HTTP from another computer has no clipboard
  const field = h("textarea", { value: all, className: "unseen" });
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("The browser does not let a page copy: select the text, and copy it yourself.");
}

function download(name, type, all) {
  const href = URL.createObjectURL(new Blob([all], { type: `${type};charset=utf-8` }));
  h("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}
