"""The text that Mermaid's grammar reads, with a map back to the text as written.

Belongs here: Mermaid's preprocessing (line ends, front matter, directives, comments, codes), in
linear time where Mermaid's own patterns are slower, and places. Never: a token.

Source:       mermaid 12.3: `preprocess.ts`, `frontmatter.ts`, `regexes.ts`, `comments.ts`,
              `encodeEntities` of `utils.ts`, `flowParser.ts`
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NoReturn, cast

from chartloop.core.codes import finding
from chartloop.core.errors import Place, SpecError
from chartloop.language.yaml.reading import read as read_yaml

LARGEST = 1_000_000
"""The most characters of a text."""

BLANKS = " \\t\\n\\v\\f\\r\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
"""The white space of JavaScript, for use inside the square brackets of a pattern."""

STRIPPED = "".join(chr(n) for n in range(0x10000) if re.match(f"[{BLANKS}]", chr(n)))
"""The same characters, for `str.strip`."""

_RETURN = re.compile(r"\r\n?")
_LINE_END = re.compile(r"\r\n?|\n")
_TAG = re.compile(r"<[A-Za-z0-9_]+")
_QUOTED = re.compile(r'="([^"]*)"')
_DIRECTIVE = re.compile(
    rf"%%\{{[{BLANKS}]*+(?:\w++[{BLANKS}]*+:|\w++)[{BLANKS}]*+"
    rf"(?:\w++|(?:(?!\}}%%)[^\u2028\u2029])*+)[{BLANKS}]*+(?:\}}%%)?",
    re.ASCII,
)
_COMMENT = re.compile(r"%%(?!\{)[^\n]+\n?")
_STYLE_CODE = re.compile(rf":[^{BLANKS}#:]*+#")
_CODE = re.compile(r"#(\w+);", re.ASCII)
_AFTER_BRACE = re.compile(rf"\}}([{BLANKS}]+)")


class Traced:
    """A text under edits, with the original offset of each character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._changes: list[tuple[list[int], list[int]]] = []

    def change(self, edits: Iterable[tuple[int, int, str]]) -> None:
        """Replace parts of the text, given in order and without overlap."""
        parts: list[str] = []
        here, before = [0], [0]
        done = length = 0
        for start, end, new in edits:
            parts += (self.text[done:start], new)
            length += start - done
            here += (length, length + len(new))
            before += (start, end)
            length, done = length + len(new), end
        if parts:
            self.text = "".join((*parts, self.text[done:]))
            self._changes.append((here, before))

    def original_offset(self, at: int) -> int:
        """The offset in the original text."""
        for here, before in reversed(self._changes):
            part = bisect_right(here, at) - 1
            inside = at - here[part]
            if (
                part + 1 < len(here)
                and here[part + 1] - here[part] != before[part + 1] - before[part]
            ):
                inside = 0  # in a replaced part: the start of the original part
            at = before[part] + inside
        return at


class Source:
    """A text as written, for errors, and as the grammar reads it."""

    def __init__(self, written: str, file: str, code: str = "CL412") -> None:
        self.file = file
        self.code = code
        """Of the finding if the text cannot be read."""
        self._written = written
        self._text = Traced(written)
        self.front: Mapping[str, Any] = {}
        """The front matter."""
        if len(written) > LARGEST:
            self._fail(0, "the chart is larger than 1 MB", "split it")
        for step in (
            _lines,
            _tags,
            self._front_matter,
            _directives,
            _comments,
            _codes,
            _ending,
            _braces,
        ):
            step(self._text)
        self.text = self._text.text
        if not self.text.strip() and "%%{" in written and "}%%" not in written:
            self._fail(
                written.index("%%{"), "the directive `%%{` is never closed", "end it with `}%%`"
            )

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self._written))]

    def line(self, at: int) -> int:
        """The line of an offset in the text as written, from 1."""
        return bisect_right(self._line_starts, self._text.original_offset(at))

    def sign(self, at: int) -> str:
        """The character as written at an offset; empty after the last one."""
        written = self._text.original_offset(at)
        return self._written[written : written + 1]

    def place(self, at: int, width: int = 1) -> Place:
        """The line and column of an offset in the text as written."""
        return self._place(self._text.original_offset(min(at, len(self._text.text))), width)

    def _place(self, at: int, width: int = 1) -> Place:
        at = min(at, len(self._written))
        line = bisect_right(self._line_starts, at)
        start = self._line_starts[line - 1]
        excerpt = _LINE_END.split(self._written[start : start + 10_000], maxsplit=1)[0]
        return Place(self.file, line, at - start + 1, width, excerpt)

    def fail(self, at: int, message: str, hint: str = "", *, width: int = 1) -> NoReturn:
        """Raise `SpecError` at an offset of the text."""
        raise SpecError([finding(self.code, message, self.place(at, width), hint=hint)])

    def _fail(self, at: int, message: str, hint: str) -> NoReturn:
        """Raise `SpecError` at an offset of the text as written."""
        raise SpecError([finding(self.code, message, self._place(at), hint=hint)])

    def _front_matter(self, text: Traced) -> None:
        front_matter = _front_matter(text.text)
        if front_matter is None:
            return
        body, start, end = front_matter
        document = read_yaml(body)
        errors = [fault for fault in document.findings if fault.is_error]
        if errors:
            place = errors[0].place
            lines = body.split("\n")[: max(place.line - 1, 0)]
            at = start + sum(len(line) + 1 for line in lines) + max(place.column - 1, 0)
            self.fail(at, f"the front matter is not YAML: {errors[0].message}", errors[0].hint)
        data: object = document.data
        if isinstance(data, dict):
            self.front = cast("dict[str, Any]", data)
        text.change([(0, end, "")])


def _lines(text: Traced) -> None:
    text.change((*match.span(), "\n") for match in list(_RETURN.finditer(text.text)))


def _tags(text: Traced) -> None:
    """Put the attributes of HTML tags in single quotes, as Mermaid does."""
    edits: list[tuple[int, int, str]] = []
    at = 0
    while tag := _TAG.search(text.text, at):
        at = text.text.find(">", tag.end()) + 1
        if not at:
            break
        edits += (
            (quoted.start(), quoted.end(), f"='{quoted[1]}'")
            for quoted in _QUOTED.finditer(text.text, tag.end(), at - 1)
        )
    text.change(edits)


def _front_matter(text: str) -> tuple[str, int, int] | None:
    """The front matter with the offsets of its start and of the text after it."""
    first = re.match(rf"(?:(?!\n)[{BLANKS}])*", text)
    indent = first.group() if first else ""
    if not text.startswith("---", len(indent)):
        return None
    opening = re.compile(rf"[{BLANKS}]*").match(text, len(indent) + 3)
    blank = opening.group() if opening else ""
    begins = (
        [opening.start() + n for n, sign in enumerate(blank) if sign == "\n"] if opening else []
    )
    closing = re.compile(rf"\n{re.escape(indent)}---([{BLANKS}]*\n)")
    fences = list(closing.finditer(text, begins[0] + 1)) if begins else []
    if not fences:
        return None
    begin = max(at for at in begins if at < fences[-1].start() or at == begins[0]) + 1
    fence = next(fence for fence in fences if fence.start() >= begin)
    return text[begin : fence.start()], begin, fence.end()


def _directives(text: Traced) -> None:
    text.change((*match.span(), "") for match in list(_DIRECTIVE.finditer(text.text)))


def _comments(text: Traced) -> None:
    """Remove whole-line comments with the blank lines above them."""
    edits: list[tuple[int, int, str]] = []
    done = 0
    while comment := _COMMENT.search(text.text, done):
        start = _first_line_start(text.text, done, comment.start())
        if start is None:
            done = comment.start() + 2
        else:
            edits.append((start, comment.end(), ""))
            done = comment.end()
    text.change(edits)
    text.change([(0, len(text.text) - len(text.text.lstrip(STRIPPED)), "")])


def _first_line_start(text: str, done: int, at: int) -> int | None:
    """The start of the blank lines before `at`; None if its own line has other text before it."""
    blank = done + len(text[done:at].rstrip(STRIPPED))
    if blank == 0 or text[blank - 1] == "\n":
        return blank
    line_end = text.find("\n", blank, at)
    return None if line_end < 0 else line_end + 1


def _codes(text: Traced) -> None:
    """Encode codes such as `#35;` as Mermaid does, so that their `;` ends no statement."""
    for word in ("style", "classDef"):
        # Delete the last `;` of each line of the word that seems to set a hexadecimal colour.
        edits: list[tuple[int, int, str]] = []
        at = text.text.find(word)
        while at >= 0:
            end = text.text.find("\n", at) % (len(text.text) + 1)
            last = text.text.rfind(";", at, end)
            if last > 0 and _STYLE_CODE.search(text.text, at + len(word), last):
                edits.append((last, last + 1, ""))
            at = text.text.find(word, end)
        text.change(edits)
    text.change(
        (*code.span(), f"ﬂ°{'°' if code[1].isdecimal() else ''}{code[1]}¶ß")
        for code in list(_CODE.finditer(text.text))
    )


def _ending(text: Traced) -> None:
    text.change([(len(text.text), len(text.text), "\n")])


def _braces(text: Traced) -> None:
    """Reduce the white space after a `}` at the end of a line to one line end."""
    text.change(
        (blank.start(1), blank.start(1) + blank[1].rfind("\n") + 1, "\n")
        for blank in list(_AFTER_BRACE.finditer(text.text))
        if "\n" in blank[1]
    )
