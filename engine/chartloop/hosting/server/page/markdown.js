// Markdown as elements: headings, paragraphs, lists, bold, italic, code, fences, tables, quotes, links.
//
// Belongs here: which text becomes which element. Never: markup made of text, an image, a style, a request.
// Every text is put in as text, so HTML in it is read, not run. What is not understood stays as it was
// written. Work grows with the length of the text only: nesting is bounded, and so are the elements.

import { h, text } from "./parts.js";

const DEPTH = 8; // quotes and lists within each other; what is deeper is text
const LONGEST = 100_000; // characters that are looked at; what follows is shown as it is
const ELEMENTS = 4_000; // of one text; what follows is shown as it is
const OPEN = 16; // marks of emphasis that wait for their end

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])([ \t]+|$)(.*)$/;
const LINK = /!?\[([^[\]\n]{0,300})\]\(\s*<?([^\s()<>]{1,1000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,200})?)>?(?:[ \t]+"[^"\n]{0,300}")?\s*\)/y;
const ADDRESS = /https?:\/\/[^\s<>"'`|]{1,1000}/y;
const WEB = /^https?:$/;
const WORD = /[\p{L}\p{N}]/u;

/** A text as elements. */
export function markdown(source) {
  const shown = source.length > LONGEST ? source.slice(0, LONGEST) : source;
  const root = h("div", { className: "md" });
  const work = { left: ELEMENTS };
  const rest = blocks(root, shown.split("\n"), 0, work);
  const later = [...rest, ...(source.length > LONGEST ? [source.slice(LONGEST)] : [])];
  if (later.length) root.append(text("pre", later.join("\n")));
  return root;
}

function add(parent, tag, work, properties = {}) {
  work.left -= 1;
  const made = h(tag, properties);
  parent.append(made);
  return made;
}

/** Puts the blocks of some lines into an element; gives the lines for which there was no room. */
function blocks(parent, lines, depth, work) {
  let at = 0;
  while (at < lines.length) {
    if (work.left <= 0) return lines.slice(at);
    const line = lines[at];
    if (!line.trim()) at += 1;
    else if (FENCE.test(line)) at = fence(parent, lines, at, work);
    else if (HEADING.test(line)) {
      const [, marks, words] = HEADING.exec(line);
      inline(add(parent, `h${Math.min(6, marks.length + 2)}`, work), words.replace(/[ \t]+#+[ \t]*$/, ""), work);
      at += 1;
    } else if (RULE.test(line)) {
      add(parent, "hr", work);
      at += 1;
    } else if (QUOTE.test(line) && depth < DEPTH) {
      let end = at;
      while (end < lines.length && QUOTE.test(lines[end])) end += 1;
      nested(add(parent, "blockquote", work), lines.slice(at, end).map((one) => one.replace(QUOTE, "")), depth, work);
      at = end;
    } else if (ITEM.test(line) && depth < DEPTH) at = list(parent, lines, at, depth, work);
    else if (isTable(lines, at)) at = table(parent, lines, at, work);
    else {
      let end = at + 1;
      while (end < lines.length && lines[end].trim() && !begins(lines[end], depth)) end += 1;
      inline(add(parent, "p", work), lines.slice(at, end).join("\n"), work);
      at = end;
    }
  }
  return [];
}

function nested(parent, lines, depth, work) {
  const rest = blocks(parent, lines, depth + 1, work);
  if (rest.length) parent.append(text("pre", rest.join("\n")));
}

/** Whether a line ends the paragraph before it. */
function begins(line, depth) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || (depth < DEPTH && (QUOTE.test(line) || /^ {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]/.test(line)));
}

function fence(parent, lines, at, work) {
  const [, marks, language] = FENCE.exec(lines[at]);
  let end = at + 1;
  const closes = (line) => {
    const found = FENCE.exec(line);
    return found && found[1][0] === marks[0] && found[1].length >= marks.length && !found[2].trim();
  };
  while (end < lines.length && !closes(lines[end])) end += 1;
  const box = add(parent, "div", work, { className: "md-code" });
  if (language.trim()) box.append(text("span", language.trim(), "md-language"));
  const code = h("pre", { attrs: { tabindex: "0" } }, text("code", lines.slice(at + 1, end).join("\n")));
  work.left -= 2;
  box.append(code);
  return end + 1;
}

function list(parent, lines, at, depth, work) {
  const [, , first] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(first);
  const made = add(parent, ordered ? "ol" : "ul", work);
  if (ordered && Number.parseInt(first, 10) !== 1) made.start = Number.parseInt(first, 10);
  while (at < lines.length) {
    const found = ITEM.exec(lines[at]);
    if (!found || /\d/.test(found[2]) !== ordered || RULE.test(lines[at])) break;
    const [, indent, mark, gap, words] = found;
    const inner = indent.length + mark.length + Math.min(gap.length || 1, 4);
    const own = [words];
    let end = at + 1;
    for (; end < lines.length; end += 1) {
      const line = lines[end];
      const deep = line.length - line.trimStart().length;
      if (!line.trim()) {
        const next = lines[end + 1] ?? "";
        if (!next.trim() || next.length - next.trimStart().length < inner) break;
        own.push("");
      } else if (deep >= Math.min(inner, 2) && deep > indent.length) own.push(line.slice(Math.min(deep, inner)));
      else if (begins(line, depth) || ITEM.test(line) || !own.at(-1).trim()) break;
      else own.push(line);
    }
    const item = add(made, "li", work);
    nested(item, own, depth, work);
    at = end;
    while (at < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1] ?? "")) at += 1;
    if (work.left <= 0) break;
  }
  return at;
}

const cells = (line) => line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|").map((cell) => cell.trim());

function isTable(lines, at) {
  const rule = lines[at + 1];
  if (!rule || !lines[at].includes("|") || !rule.includes("-") || rule.length > 2_000) return false;
  const marks = cells(rule);
  return marks.length === cells(lines[at]).length && marks.every((cell) => /^:?-+:?$/.test(cell));
}

function table(parent, lines, at, work) {
  const box = add(parent, "div", work, { className: "md-table" });
  const made = add(box, "table", work);
  const row = (where, tag, line) => {
    const tr = add(where, "tr", work);
    for (const words of cells(line)) inline(add(tr, tag, work), words, work);
  };
  row(add(made, "thead", work), "th", lines[at]);
  const body = add(made, "tbody", work);
  let end = at + 2;
  for (; end < lines.length && lines[end].includes("|") && work.left > 0; end += 1) row(body, "td", lines[end]);
  return end;
}

// within a line ----------------------------------------------------------------------------------------

/** Puts a text with emphasis, code and links into an element. */
function inline(parent, source, work) {
  const stack = [{ mark: "", into: parent, from: 0 }]; // the innermost is the last
  let plain = "";
  const flush = () => {
    if (plain) stack.at(-1).into.append(plain);
    plain = "";
  };
  const unended = new Set(); // lengths of backticks that nothing ends any more
  let at = 0;
  while (at < source.length) {
    const sign = source[at];
    if (work.left <= 0) {
      plain += source.slice(at);
      break;
    }
    if (sign === "\\" && /[\\`*_{}[\]()#+\-.!|<>~]/.test(source[at + 1] ?? "")) {
      plain += source[at + 1];
      at += 2;
    } else if (sign === "`") {
      const marks = run(source, at);
      const end = unended.has(marks.length) ? -1 : ending(source, at + marks.length, marks);
      if (end < 0) {
        unended.add(marks.length);
        plain += marks;
        at += marks.length;
      } else {
        flush();
        const inner = source.slice(at + marks.length, end).replace(/\n/g, " ");
        add(stack.at(-1).into, "code", work, { textContent: /^ .*[^ ].* $/.test(inner) ? inner.slice(1, -1) : inner });
        at = end + marks.length;
      }
    } else if (sign === "*" || sign === "_") {
      const marks = run(source, at);
      flush();
      plain += emphasis(stack, source, at, marks, work);
      at += marks.length;
    } else if (sign === "[" || (sign === "!" && source[at + 1] === "[")) {
      LINK.lastIndex = at;
      const found = LINK.exec(source);
      const made = found && link(found[2], found[1] || found[2], work);
      if (made) {
        flush();
        stack.at(-1).into.append(...made);
        at += found[0].length;
      } else {
        plain += sign;
        at += 1;
      }
    } else if (sign === "h" && source.startsWith("http", at) && !WORD.test(source[at - 1] ?? "")) {
      ADDRESS.lastIndex = at;
      const found = ADDRESS.exec(source)?.[0].replace(/[.,;:!?)\]*_]+$/, "");
      const made = found && link(found, found, work);
      if (made) {
        flush();
        stack.at(-1).into.append(...made);
        at += found.length;
      } else {
        plain += sign;
        at += 1;
      }
    } else {
      plain += sign;
      at += 1;
    }
  }
  flush();
  while (stack.length > 1) unwrap(stack.pop());
}

/** The same sign as often as it stands there. */
function run(source, at) {
  let end = at + 1;
  while (source[end] === source[at]) end += 1;
  return source.slice(at, end);
}

/** Where as many backticks stand again, and no more; -1 if nowhere. */
function ending(source, from, marks) {
  for (let at = source.indexOf(marks, from); at >= 0; ) {
    const found = run(source, at);
    if (found.length === marks.length) return at;
    at = source.indexOf(marks, at + found.length);
  }
  return -1;
}

/** Begins or ends emphasis; gives what of the marks is text. */
function emphasis(stack, source, at, marks, work) {
  const [before, after] = [source[at - 1] ?? " ", source[at + marks.length] ?? " "];
  const joined = marks[0] === "_" && WORD.test(before) && WORD.test(after);
  let left = joined || marks.length > 3 ? "" : marks;
  if (!left) return marks;
  if (!/\s/.test(before)) {
    const place = stack.findLastIndex(({ mark }, index) => index > 0 && left.startsWith(mark) && mark[0] === left[0]);
    if (place > 0) {
      while (stack.length - 1 > place) unwrap(stack.pop());
      left = left.slice(stack.pop().mark.length);
      return left && !/\s/.test(before) && stack.length > 1 ? emphasis(stack, source, at + marks.length - left.length, left, work) : left;
    }
  }
  if (/\s/.test(after) || stack.length > OPEN) return left;
  for (const mark of left.length === 3 ? [left.slice(0, 2), left[0]] : [left]) {
    const into = add(stack.at(-1).into, mark.length === 2 ? "strong" : "em", work);
    stack.push({ mark, into });
  }
  return "";
}

/** Emphasis that nothing ended: its marks are text again. */
function unwrap({ mark, into }) {
  into.replaceWith(mark, ...into.childNodes);
}

/** A link that shows where it leads; null unless it leads to a page of the web. */
function link(address, words, work) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (!WEB.test(url.protocol)) return null;
  work.left -= 2;
  const made = h("a", { textContent: words, href: url.href, target: "_blank", rel: "noopener noreferrer" });
  return words === address ? [made] : [made, text("span", ` (${url.host})`, "md-host")];
}
