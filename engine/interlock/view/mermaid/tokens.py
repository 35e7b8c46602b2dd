"""The tokens of a Mermaid flowchart, read where the grammar asks for them.

Belongs here: where a word, a label, a link ends, and what a label says. Never: what they mean
together (`read`). What a sign means depends on where it stands, as in Mermaid's own lexer
with its states: so the grammar asks for one kind of token at a time. Every pattern is linear.

Imports:      core.errors, core.codes, view.flowchart, view.mermaid (tables)
Imported by:  view.mermaid.read
Source:       mermaid 11.17, `flow.jison`
"""

from __future__ import annotations

import html
import re
from typing import NamedTuple, NoReturn

from interlock.core.codes import finding
from interlock.core.errors import Place, SpecError
from interlock.view.flowchart import Shape
from interlock.view.ids import KEYWORDS
from interlock.view.mermaid.write import BRACKETS, NUMBERED

_LARGEST = 1_000_000

_COMMENT = re.compile(r"^[ \t]*%%[^\n]*", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*%%\{", re.MULTILINE)

_BLANK = re.compile(r"[ \t\r]*")
_BLANK_OR_BREAK = re.compile(r"\s*")
_SEPARATORS = re.compile(r"[\s;]*")
_WORD = re.compile(r"(?:\w|[!$%'*+.?\\/]|-(?![->.\s]|$)|=(?![=\s]|$))+")
_PLAIN_TEXT = re.compile(r'[^\[\](){}|"]*')
_STATEMENT = re.compile(r"[^\n;]*")
_LINE = re.compile(r"[^\n]*")
_SHAPES_NOT_READ = re.compile(r"\(\(\(|\[\(|\[/|\[\\|\(-|\[\||@\{")

_LINK = re.compile(
    r"(?P<tail>[xo<]?)(?:--+(?P<solid>[-xo>])|==+(?P<thick>[=xo>])|-?\.+-(?P<dotted>[xo>]?))|~~~+"
)
_LINK_WITH_TEXT = re.compile(r"--|==|-\.")
_LINK_ENDS = {
    "--": re.compile(r"--+(?P<head>[-xo>]?)"),
    "==": re.compile(r"==+(?P<head>[=xo>]?)"),
    "-.": re.compile(r"(?<!\.)\.+-(?P<head>[xo>]?)"),
}

_CODE = re.compile(r"#(\w{1,30});")
_BREAK = re.compile(r"<br\s*/?>|\\n", re.IGNORECASE)


class Label(NamedTuple):
    """What stands between brackets, pipes or the halves of a link."""

    raw: str
    """As written, without its quotes."""

    @property
    def text(self) -> str:
        """What people read: breaks are newlines, codes and entities are their characters."""
        raw = self.raw.strip()
        if len(raw) > 1 and raw[0] == raw[-1] == "`":
            raw = raw[1:-1]
        coded = _CODE.sub(lambda m: f"&{'#' * m[1].isdecimal()}{m[1]};", _BREAK.sub("\n", raw))
        return "\n".join(line.strip() for line in html.unescape(coded).split("\n")).strip("\n")

    def numbered(self) -> tuple[int | None, str]:
        """The order of trial that our own charts write in front, and the text without it."""
        found = NUMBERED.match(self.raw)
        if found is None:
            return None, self.text
        return int(found[1]), Label(self.raw[found.end() :]).text


NO_LABEL = Label("")


class Scanner:
    """A place in a Mermaid text. Each method reads one kind of token there, or says None."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.at = 0
        self._written = text
        if len(text) > _LARGEST:
            self.fail("the chart is larger than 1 MB", "split it")
        self.text = _COMMENT.sub(_spaces, self._without_directives())

    def _without_directives(self) -> str:
        parts: list[str] = []
        done = 0
        while found := _DIRECTIVE.search(self._written, done):
            self.at = found.start()
            end = self._written.find("}%%", self.at) + 3
            if end < 3:
                self.fail("the directive `%%{` is never closed", "end it with `}%%`")
            parts += [self._written[done : self.at], _blanked(self._written[self.at : end])]
            done = end
        self.at = 0
        return "".join(parts) + self._written[done:]

    def fail(self, message: str, hint: str = "", *, width: int = 1) -> NoReturn:
        """Raise SpecError with this place."""
        before = self._written[: self.at]
        start = before.rfind("\n") + 1
        line = self._written[start:].split("\n", 1)[0].rstrip("\r")
        place = Place(self.file, before.count("\n") + 1, len(before) - start + 1, width, line)
        raise SpecError([finding("IL412", message, place, hint=hint)])

    @property
    def ended(self) -> bool:
        """Whether nothing is left."""
        return self.at >= len(self.text)

    def read(self, pattern: re.Pattern[str]) -> str | None:
        """The text that a pattern matches here, past which the place moves; None if it does not."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found.group()

    def sign(self, sign: str) -> bool:
        """Whether this sign stood here."""
        here = self.text.startswith(sign, self.at)
        self.at += len(sign) * here
        return here

    def blanks(self) -> None:
        """Skip spaces within a line."""
        self.read(_BLANK)

    def separators(self) -> None:
        """Skip what stands between two statements."""
        self.read(_SEPARATORS)

    def rest_of_statement(self) -> str:
        """Everything to the end of the line or the next semicolon."""
        return (self.read(_STATEMENT) or "").strip()

    def rest_of_line(self) -> str:
        """Everything to the end of the line."""
        return (self.read(_LINE) or "").strip()

    def keyword(self, *words: str) -> str | None:
        """One of these words, when it stands here whole."""
        found = _WORD.match(self.text, self.at)
        if found is None or found.group() not in words:
            return None
        self.at = found.end()
        return found.group()

    def word(self) -> str:
        """The id of a box."""
        found = _WORD.match(self.text, self.at)
        if found is None:
            self.fail(f"{self._here()} stands where the id of a box is meant")
        if found.group() in KEYWORDS:
            self.fail(
                f"`{found.group()}` is a keyword of Mermaid and cannot be an id",
                f"call it `{found.group()}_` and give it a label",
                width=len(found.group()),
            )
        self.at = found.end()
        return found.group()

    def shape(self) -> tuple[Shape, Label] | None:
        """The brackets of a box with the label in them."""
        if found := _SHAPES_NOT_READ.match(self.text, self.at):
            self.fail(
                f"a box that opens with `{found.group()}` is not read",
                "known: `[ ]`, `( )`, `([ ])`, `{ }`, `(( ))`, `[[ ]]`, `{{ }}`, `> ]`",
                width=len(found.group()),
            )
        for shape, (opening, closing) in BRACKETS.items():
            if self.sign(opening):
                return shape, self.label(opening, closing)
        return None

    def link(self) -> Label | None:
        """An arrow with its label, which may begin on the next line."""
        start = self.at
        self.read(_BLANK_OR_BREAK)
        if found := _LINK.match(self.text, self.at):
            self._only_arrows(found)
            self.at = found.end()
            self.read(_BLANK_OR_BREAK)
            label = self.label("|", "|") if self.sign("|") else NO_LABEL
        elif (opening := self.read(_LINK_WITH_TEXT)) is not None:
            label = self._text_of_link(opening)
        else:
            self.at = start
            return None
        self.read(_BLANK_OR_BREAK)
        return label

    def _only_arrows(self, link: re.Match[str]) -> None:
        head = link["solid"] or link["thick"] or link["dotted"]
        if head != ">" or link["tail"]:
            self.fail(
                f"`{link.group()}` is not an arrow from one box to another",
                "write `-->`",
                width=len(link.group()),
            )

    def _text_of_link(self, opening: str) -> Label:
        end = _LINK_ENDS[opening]
        self.blanks()
        if self.sign('"'):
            label = self._quoted()
            self.blanks()
        else:
            label = Label(self._up_to(end, opening))
        closing = end.match(self.text, self.at)
        if closing is None or closing["head"] != ">":
            self.fail("the link does not end with an arrow", "write `-->`")
        self.at = closing.end()
        return label

    def _up_to(self, end: re.Pattern[str], opening: str) -> str:
        """The text of a link without quotes: it ends with the first sign that could end it."""
        closing = end.search(self.text, self.at)
        if closing is None:
            self.fail(f"the link that begins with `{opening}` never ends", "write `-->`")
        text = self.text[self.at : closing.start()]
        if not text.strip() or (opening != "--" and opening[-1] in text):
            self.fail("Mermaid cannot read the text of this link", "put it in quotes")
        self.at = closing.start()
        if text.endswith(("x", "o", "<")):
            self.fail(
                f"Mermaid takes the `{text[-1]}` before this arrow for a part of it",
                "put a space before the arrow",
            )
        return text

    def label(self, opening: str, closing: str) -> Label:
        """The label up to the closing sign, in quotes or without."""
        start = self.at
        label = self._quoted() if self.sign('"') else Label(self.read(_PLAIN_TEXT) or "")
        if not self.sign(closing):
            self._bad_label(start, opening, closing)
        if not label.raw:
            self.fail("the label is empty, which Mermaid does not read", 'write `" "`')
        return label

    def _quoted(self) -> Label:
        end = self.text.find('"', self.at)
        if end < 0:
            self.at -= 1
            self.fail("the quote is never closed")
        start, self.at = self.at, end + 1
        return Label(self.text[start:end])

    def _bad_label(self, start: int, opening: str, closing: str) -> NoReturn:
        if self.text.startswith('"', start):
            self.fail(f"{self._here()} stands where `{closing}` is meant")
        line = self.text[start:].split("\n", 1)[0]
        meant = line[: line.rfind(closing)] if closing in line else ""
        cure = "put the label in quotes"
        if meant and '"' not in meant:
            cure += f': `{opening}"{meant}"{closing}`'
        self.fail(
            f"{self._here()} stands in a label without quotes, where Mermaid reads it as a sign",
            cure,
        )

    def _here(self) -> str:
        sign = self.text[self.at : self.at + 1]
        return {"": "the end of the text", "\n": "the end of the line"}.get(sign, f"`{sign}`")


def _spaces(comment: re.Match[str]) -> str:
    return _blanked(comment.group())


def _blanked(text: str) -> str:
    """Spaces in place of a text, so that what follows keeps its line and column."""
    return re.sub(r"[^\n]", " ", text)
