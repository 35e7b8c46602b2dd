"""Explanations of YAML errors for authors of machines.

The parser reports "did not find expected key". The cause is usually one of a few: a guard or label
with a character that YAML reserves, a tab, wrong indentation, a quote or bracket that is not
closed. `explain` finds the cause from the line, and the cure.

Belongs here: one rule per mistake, over plain lines. Never: PyYAML, places, findings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_TEXTS = frozenset(
    "about ask difference label message of output reason system text title user when within".split()
)
"""Keys whose value is an expression or a sentence, and so may need quotes."""

_KEY = re.compile(r"(?:^|(?<=[\s{,\[]))([A-Za-z_][\w.]*)[ ]*:(?=\s|$)")
_NEXT = re.compile(r",\s*[A-Za-z_][\w.]*:\s")
_QUOTED = re.compile(r"""(?<=[\s{\[,(])(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')""")
_WORD = re.compile(r"([A-Za-z_][\w.]*)\s*$")
_LONGEST_KEY = 1024
"""The most characters of a key in YAML."""
_FAR = 200
"""The most lines searched for the start of a mistake."""
_WIDEST = 70
"""The most characters of a text that a hint repeats."""


class Complaint(NamedTuple):
    """The parser's error, in its own words. Lines and columns count from 0."""

    problem: str
    context: str
    line: int
    column: int
    opened: tuple[int, int] | None = None
    """The start of the construct that cannot be read: a quote, a bracket, a mapping."""


class Fault(NamedTuple):
    """The explained error. Lines and columns count from 0."""

    message: str
    hint: str
    line: int
    column: int
    width: int = 1
    code: str = "CL001"
    related: tuple[str, int, int] | None = None
    """A second place with its label: where the bracket was opened."""


class _Entry(NamedTuple):
    """The `key: text` of a line in which a fault lies."""

    key: str
    text: str
    column: int
    """The column of the text."""


def explain(complaint: Complaint, lines: Sequence[str]) -> Fault:
    """The cause and cure of a parser's error; its own words if the mistake is not a known one."""
    scene = _Scene(complaint, lines)
    message = f"{complaint.context}: {complaint.problem}"
    for pattern, rule in _RULES:
        if pattern.search(message) and (fault := rule(scene)) is not None:
            return fault
    return scene.fault(
        f"not YAML: {complaint.problem or complaint.context}",
        "indentation is spaces; text with `: ` or ` #` needs quotes",
    )


def quote_hint(key: str, text: str) -> str:
    """A hint to quote a text, with quotes that do not clash with its own."""
    text = text.strip()
    if len(text) > _WIDEST:
        return f"put the whole text of `{key}` in quotes"
    if '"' not in text and "\\" not in text:
        quoted = f'"{text}"'
    else:
        quoted = "'" + text.replace("'", "''") + "'"
    return f"put the whole text in quotes: `{key}: {quoted}`"


class _Scene:
    """A complaint with the lines around it."""

    def __init__(self, complaint: Complaint, lines: Sequence[str]) -> None:
        self.lines = lines
        self.complaint = complaint
        self.text = self.line(complaint.line)
        self.char = self.text[complaint.column : complaint.column + 1]
        self.opened = complaint.opened or (complaint.line, complaint.column)

    def line(self, number: int) -> str:
        return self.lines[number] if 0 <= number < len(self.lines) else ""

    def fault(self, message: str, hint: str, *, code: str = "CL001") -> Fault:
        """A fault at the place of the complaint."""
        return Fault(message, hint, self.complaint.line, self.complaint.column, code=code)

    def entry(self, line: int, column: int) -> _Entry | None:
        """The last key before a column, with all the text meant as its value."""
        text = self.line(line)
        masked = _mask(text)
        keys = [m for m in _KEY.finditer(masked) if m.end() <= column]
        if not keys:
            return None
        start = keys[-1].end() + len(text[keys[-1].end() :]) - len(text[keys[-1].end() :].lstrip())
        end = len(text)
        if "{" in masked[: keys[-1].start()]:
            following = _NEXT.search(text, start)
            closing = text.rfind("}", start)
            end = following.start() if following else closing if closing > start else end
        return _Entry(keys[-1].group(1), text[start:end].rstrip(), start)

    def needs_quotes(self, line: int, column: int, cause: str) -> Fault | None:
        """A fault for an unquoted value: CL007 for texts and guards, CL001 for other keys."""
        entry = self.entry(line, column)
        if entry is None or not entry.text:
            return None
        what = "guard" if entry.key in ("when", "of") else "text"
        code = "CL007" if entry.key in _TEXTS or "." in entry.key else "CL001"
        return Fault(
            f"the {what} of `{entry.key}` needs quotes: {cause}",
            quote_hint(entry.key, entry.text),
            line,
            entry.column,
            len(entry.text),
            code,
        )


def _mask(line: str) -> str:
    """The line with its quoted texts masked, so that their characters do not match."""
    return _QUOTED.sub(lambda m: "." * len(m.group()), line)


def _tab(scene: _Scene) -> Fault | None:
    line = scene.text
    if "\t" not in line[: len(line) - len(line.lstrip())] + scene.char:
        return None
    column = line.index("\t")
    return Fault("a tab", "indent with spaces, two a level", scene.complaint.line, column)


def _open_quote(scene: _Scene) -> Fault | None:
    line, column = scene.opened
    sign = scene.line(line)[column : column + 1]
    hint = f"add the closing `{sign}`"
    if sign == "'":
        hint += "; inside single quotes an apostrophe is written twice"
    return Fault(f"the quote `{sign}` is never closed", hint, line, column)


def _reserved_start(scene: _Scene) -> Fault | None:
    """A text that starts with a reserved character: `@ ` %`, or `* & | > ?` in some places."""
    line, column = (scene.complaint.line, scene.complaint.column)
    if scene.complaint.context.endswith(("alias", "anchor", "block scalar")):
        line, column = scene.opened
    sign = scene.line(line)[column : column + 1]
    cause = f"text cannot start with `{sign}`"
    if scene.line(line)[column - 1 : column + 1] == "{%":
        column, cause = column - 1, "`{` starts a mapping"
    return scene.needs_quotes(line, column, cause) or Fault(
        cause, "put the text in quotes", line, column
    )


def _escape(scene: _Scene) -> Fault | None:
    column = scene.complaint.column - (scene.char != "\\")
    escape = scene.text[column : column + 2]
    hint = f"use single quotes, or write `\\{escape}`"
    return Fault(f"`{escape}` is not an escape", hint, scene.complaint.line, column, len(escape))


def _no_colon(scene: _Scene) -> Fault | None:
    return _not_a_pair(scene, scene.opened[0])


def _not_a_pair(scene: _Scene, number: int) -> Fault | None:
    """A line without `: ` where a key with a value belongs."""
    line = scene.line(number)
    text = line.strip()
    if not text or _KEY.search(line):
        return None
    hint = "write `key: value`, or indent it under its key"
    if glued := re.match(r"(?:- )?([A-Za-z_][\w.]*):(\S+)", text):
        hint = f"write a space after the colon: `{glued[1]}: {glued[2]}`"
    column = len(line) - len(line.lstrip())
    return Fault("this line is not a key with a value", hint, number, column, len(text))


def _second_colon(scene: _Scene) -> Fault | None:
    """`label: STOP: x`, a line that is too deep, or one before it without a colon."""
    fault = scene.needs_quotes(scene.complaint.line, scene.complaint.column, "`: ` starts a value")
    if fault is not None:
        return fault
    if scene.complaint.column > _LONGEST_KEY:
        return scene.fault(f"a key of over {_LONGEST_KEY:,} characters", "use a shorter one")
    above = scene.complaint.line - 1
    while above > 0 and not scene.line(above).strip():
        above -= 1
    if above >= 0 and (fault := _not_a_pair(scene, above)) is not None:
        return fault
    column = len(scene.text) - len(scene.text.lstrip())
    message = "this line is indented deeper than the one above, which has its value already"
    hint = "give both the same indentation, or leave the value above empty"
    return Fault(message, hint, scene.complaint.line, column, len(scene.text.strip()))


def _in_brackets(scene: _Scene) -> Fault | None:
    """Inside `{...}` or `[...]`, something stands where a comma or the end belongs."""
    line, start = scene.opened
    opening = scene.line(line)[start : start + 1]
    closing = {"{": "}", "[": "]"}.get(opening, "}")
    if line != scene.complaint.line and (fault := _hidden_end(scene, closing)) is not None:
        return fault
    before = scene.text[: scene.complaint.column].rstrip()
    sign = scene.char if scene.char in "[]{}:" else before[-1:]
    fault = scene.needs_quotes(scene.complaint.line, scene.complaint.column, _cause(sign))
    if fault is not None and (fault.code == "CL007" or scene.char != ":"):
        return fault
    message = f"a `,` or `{closing}` is missing"
    column = scene.complaint.column
    if scene.char == ":" and (word := _WORD.search(scene.text[:column])):
        message, column = f"{message} before `{word[1]}`", word.start()
    return Fault(
        message,
        f"the `{opening}` of line {line + 1} is still open here",
        scene.complaint.line,
        column,
        max(1, scene.complaint.column - column),
        related=("opened here", *scene.opened) if line != scene.complaint.line else None,
    )


def _cause(sign: str) -> str:
    if sign in ("'", '"', "]", "}"):
        return f"something follows the closing `{sign}`"
    return f"inside `{{...}}` YAML reads `{sign}` as its own sign"


def _hidden_end(scene: _Scene, closing: str) -> Fault | None:
    """A `#` that hides the end of its line, the closing bracket with it."""
    number = scene.opened[0]
    line = scene.line(number)
    mark = re.search(r"\s#", _mask(line))
    if mark is None or closing not in line[mark.end() :]:
        return None
    column = mark.end() - 1
    entry = scene.entry(number, column)
    code = "CL007" if entry is not None and entry.key in _TEXTS else "CL001"
    message = f"` #` starts a comment, which hides the `{closing}`"
    hint = quote_hint(entry.key, entry.text) if entry else "put the text in quotes"
    return Fault(message, hint, number, column, len(line) - column, code)


def _no_key(scene: _Scene) -> Fault | None:
    """In a block, something stands where the next key belongs."""
    line, column = scene.complaint.line, scene.complaint.column
    if scene.char in ("}", "]"):
        return scene.fault(f"`{scene.char}` closes nothing", "remove it, or open it before")
    before = scene.text[:column].rstrip()
    if before[-1:] in ("'", '"', "}", "]"):
        return _behind_the_end(scene, before[-1])
    if scene.char == "-" and not before:
        hint = "a value is one or the other: indent the list under its own key"
        return scene.fault("a list item among keys", hint)
    if before:
        return None
    message = f"this line is indented by {column}, which fits no line above"
    hint = "give the keys of one mapping the same indentation"
    return Fault(message, hint, line, 0, max(1, column))


def _behind_the_end(scene: _Scene, sign: str) -> Fault | None:
    entry = scene.entry(scene.complaint.line, scene.complaint.column)
    if sign in ("'", '"') and (fault := _quote_above(scene, sign)) is not None:
        return fault
    if entry is not None and sign == "'" and entry.text.endswith("'"):
        message = "a single quote inside single quotes ends the text"
        return scene.fault(message, "write it twice, or put the whole text in double quotes")
    fault = scene.needs_quotes(scene.complaint.line, scene.complaint.column, _cause(sign))
    return fault or scene.fault(_cause(sign), "put the whole text in quotes")


def _quote_above(scene: _Scene, sign: str) -> Fault | None:
    """A quote left open some lines above, which the first quote of this line closes."""
    for number in range(scene.complaint.line - 1, max(-1, scene.complaint.line - _FAR), -1):
        masked = _mask(scene.line(number))
        opened = re.search(rf"(?<=[\s{{\[,]){sign}(?=[^{sign}]*$)", masked)
        if opened and masked[: opened.start()].rstrip()[-1:] in (":", "-", ",", "[", "{"):
            hint = f"add the closing `{sign}`"
            return Fault(f"the quote `{sign}` is not closed here", hint, number, opened.start())
    return None


def _no_item(scene: _Scene) -> Fault | None:
    before = scene.text[: scene.complaint.column].rstrip()
    if before.endswith(("'", '"', "}", "]")):
        return _behind_the_end(scene, before[-1])
    if before:
        return None
    hint = "a value is one or the other: indent it under an item, or give it its own key"
    return scene.fault("a key or an indentation among list items", hint)


def _no_value(scene: _Scene) -> Fault | None:
    if not scene.char:
        hint = "write the value, and close what was opened: `[` with `]`, `{` with `}`"
        return scene.fault("the line ends where a value belongs", hint)
    hint = "remove it; text with such a sign needs quotes"
    return scene.fault(f"`{scene.char}` is where a value belongs", hint)


def _list_on_the_line(scene: _Scene) -> Fault | None:
    hint = "start a list on its own line, or write it as `[a, b]`; text needs quotes"
    return scene.fault("a list cannot start on the line of its key", hint)


def _behind_the_document(scene: _Scene) -> Fault | None:
    hint = "a file is one mapping: check the indentation, and remove `...`"
    return scene.fault("text after the end of the document", hint)


def _tag_handle(scene: _Scene) -> Fault | None:
    hint = "remove the tag; text that starts with `!` needs quotes"
    return scene.fault("a tag", hint, code="CL003")


_RULES: tuple[tuple[re.Pattern[str], Callable[[_Scene], Fault | None]], ...] = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        (r"start any token|tab character", _tab),
        (r"quoted scalar: found unexpected (?:end|document)", _open_quote),
        (r"start any token|alias|anchor|block scalar|keys are not allowed", _reserved_start),
        (r"escape character", _escape),
        (r"expected ':'", _no_colon),
        (r"values are not allowed", _second_colon),
        (r"flow (?:mapping|sequence)", _in_brackets),
        (r"block mapping", _no_key),
        (r"block (?:collection|sequence)", _no_item),
        (r"expected(?: the)? node content", _no_value),
        (r"sequence entries are not allowed", _list_on_the_line),
        (r"<?document start>?", _behind_the_document),
        (r"undefined tag handle", _tag_handle),
    )
)
