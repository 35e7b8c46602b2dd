"""Mermaid's state diagrams as charts: the lines that have a meaning in a machine.

Every statement is one row of a table here: how it is written and what is kept of it. A line that
fits no row is refused with its place; nothing is left out without a note.

Belongs here: the lines of `stateDiagram-v2`. Never: what nested states mean (`nested`).

Source:       mermaid 12.3, `stateDiagram.jison` and `stateDb.ts`
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from chartloop.interchange.mermaid.read import WAYS, Reading, says
from chartloop.interchange.mermaid.source import Source
from chartloop.interchange.nested import DEEPEST, Kind, Nested, NestedError, Part, Way

HEADER = re.compile(r"[ \t]*stateDiagram(?:-v2)?[ \t]*")

_ID = r"[^\s:{}<>\[\]\"*-][^\s:{}<>\[\]\"]*?"
_END = rf"(?:\[\*\]|{_ID})"
_CLASS = r"(?::::[\w-]+)?"
_TEXT = r"[ \t]*(?::(?P<text>[^\n]*))?"
_OPENS = r"[ \t]*(?P<opens>\{)?"

PAGE = "docs/documents.md lists what is taken"


def read_state_diagram(text: str, *, file: str = "") -> Reading:
    """The chart of a state diagram. Raises `SpecError` at the first line that is not taken."""
    reader = _Reader(Source(text, file, code="CL420"))
    try:
        return reader.read()
    except NestedError as refused:
        reader.source.fail(refused.at, str(refused), refused.hint)


class _Reader:
    """Reads one line after the other; `within` are the states that are open."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.nested = Nested()
        self.at = 0
        self.line = 1
        self.within: list[tuple[str, int]] = [("", 0)]
        self.note: tuple[str, list[str], int] | None = None
        """The state, text and offset of a note of several lines."""
        front = source.front.get("title")
        self.nested.title = "" if front is None else str(front)
        if source.front.keys() - {"title"}:
            self.leave_out("of the front matter only the title is kept")

    def read(self) -> Reading:
        """Read every line."""
        headed = False
        offset = 0
        for line in self.source.text.split("\n"):
            self.at = offset + len(line) - len(line.lstrip())
            self.line = self.source.line(self.at)
            offset += len(line) + 1
            text = line.strip()
            if self.note is not None:
                self._continue_note(text)
            elif not text or text.startswith("%%"):
                continue
            elif not headed:
                headed = HEADER.fullmatch(text) is not None or self.refuse(
                    "this is not a state diagram", "the first line is `stateDiagram-v2`"
                )
            else:
                self._statement(text)
        self.at = max(self.at - 1, 0)
        if self.note is not None:
            self.at = self.note[2]
            self.refuse("the note is never closed", "end it with `end note`")
        if len(self.within) > 1:
            name, self.at = self.within[-1]
            self.refuse(f"`{name}` is never closed", "close it with `}` on a line of its own")
        self._end_ways()
        return self.nested.reading()

    def _statement(self, text: str) -> None:
        for pattern, name, cure in _REFUSED:
            if pattern.match(text):
                self.refuse(f"{name} is not taken", cure)
        for pattern, take in _TAKEN:
            if match := pattern.fullmatch(text):
                if ":::" in text and take is not _Reader.annotate:
                    self.leave_out("a class (`:::`) is left out")
                take(self, match)
                return
        self.refuse(f"`{says(text)[:60]}` is not a line that is taken", PAGE)

    def refuse(self, message: str, cure: str) -> NoReturn:
        """Raise `SpecError` at the line."""
        self.source.fail(self.at, message, cure)

    def leave_out(self, what: str) -> None:
        """Note something that a machine does not hold."""
        self.nested.notes[what].append(self.line)

    def part(self, name: str, kind: Kind = "state") -> Part:
        """The state of a name. It is in the innermost state in which it is mentioned."""
        inside = self.within[-1][0]
        part = self.nested.parts.setdefault(name, Part(name, self.line, inside, kind))
        if not self.nested.is_in(part.within, inside) and not self.nested.is_in(inside, name):
            if not self.nested.is_in(inside, part.within):
                self.refuse(
                    f"`{name}` is in `{part.within}` and in `{inside}`",
                    f"write the arrow outside both: from `{inside}`, or to it",
                )
            part.within = inside
        return part

    def _pseudo(self, kind: Kind) -> str:
        """The id of the `[*]` with which a run, or the inside of a state, starts or ends."""
        inside = self.within[-1][0]
        name = f"{inside}[*] {kind}"
        self.part(name, kind).label = f"{inside} {kind}" if inside else kind.title()
        return name

    # statements -----------------------------------------------------------------------------

    def arrow(self, match: re.Match[str]) -> None:
        """`A --> B: text`. An inner `[*]` is where the state around it starts."""
        label = says(match["text"] or "")
        inside = self.within[-1][0]
        if match["source"] == "[*]" and inside:
            around = self.nested.parts[inside]
            if around.first or match["target"] == "[*]":
                self.refuse(f"`{inside}` starts twice", "draw one arrow from `[*]`")
            around.first = self.part(match["target"]).id
            if label:
                self.leave_out(f"the text `{label}` of a start is left out")
            return
        source = (
            self._pseudo("start") if match["source"] == "[*]" else self.part(match["source"]).id
        )
        target = self._pseudo("end") if match["target"] == "[*]" else self.part(match["target"]).id
        self.nested.ways.append(Way(source, target, label, self.line, self.at))

    def _end_ways(self) -> None:
        """An arrow without a text waits until the inside of its state has ended."""
        ended = {p.within for p in self.nested.parts.values() if p.kind == "end" and p.within}
        self.nested.ways = [
            way._replace(done=not way.label and way.source in ended) for way in self.nested.ways
        ]

    def describe(self, match: re.Match[str]) -> None:
        """`A: text`, once or more; each adds a line."""
        part = self.part(match["name"])
        part.label = "\n".join(filter(None, (part.label, says(match["text"]))))

    def declare(self, match: re.Match[str]) -> None:
        """`A`, `state A`, `state "text" as A`, `state A <<choice>>`, each with `{` or without."""
        found = match.groupdict()
        part = self.part(match["name"])
        if found.get("text"):
            part.label = says(match["text"])
        if found.get("kind"):
            part.kind = "choice"
        if found.get("opens"):
            if len(self.within) > DEEPEST:
                self.refuse(f"states are nested more than {DEEPEST} deep", "flatten them")
            part.line = self.line
            self.within.append((part.id, self.at))

    def close(self, match: re.Match[str]) -> None:
        """`}`."""
        if len(self.within) == 1:
            self.refuse("`}` closes no state", "remove it")
        name, at = self.within.pop()
        if not any(part.within == name for part in self.nested.parts.values()):
            self.at = at
            self.refuse(f"`{name}` has no states inside", "leave out the braces")

    def annotate(self, match: re.Match[str]) -> None:
        """`note right of A: text`, or the first line of a note of several."""
        name = self.part(match["name"]).id
        if match["text"] is not None:
            self.leave_out(f"note on `{name}`: {says(match['text'])}")
        else:
            self.note = (name, [], self.at)

    def _continue_note(self, text: str) -> None:
        assert self.note is not None
        name, lines, _ = self.note
        if text == "end note":
            self.leave_out(f"note on `{name}`: {says(' '.join(lines))}")
            self.note = None
        else:
            lines.append(text)

    def direct(self, match: re.Match[str]) -> None:
        """`direction LR`."""
        if len(self.within) == 1:
            self.nested.direction = WAYS[match["way"]]
        else:
            self.leave_out("the direction within a state is left out")

    def entitle(self, match: re.Match[str]) -> None:
        """`accTitle: text`."""
        self.nested.title = self.nested.title or says(match["text"])

    def style(self, match: re.Match[str]) -> None:
        """`classDef`, `class`, `style`, `hide empty description`, `scale`, `accDescr`."""
        self.leave_out(f"`{match['word']}` is left out")


_TAKEN: tuple[tuple[re.Pattern[str], Callable[[_Reader, re.Match[str]], None]], ...] = tuple(
    (re.compile(pattern), take)
    for pattern, take in (
        (
            rf"(?P<source>{_END}){_CLASS}[ \t]*-->[ \t]*(?P<target>{_END}){_CLASS}{_TEXT}",
            _Reader.arrow,
        ),
        (
            rf"note[ \t]+(?:left|right)[ \t]+of[ \t]+(?P<name>{_ID}){_TEXT}",
            _Reader.annotate,
        ),
        (r"direction[ \t]+(?P<way>TB|TD|BT|RL|LR)", _Reader.direct),
        (r"accTitle[ \t]*:[ \t]*(?P<text>[^\n]*)", _Reader.entitle),
        (
            r"(?P<word>classDef|class|style|hide empty description|scale|accDescr)\b[^\n]*",
            _Reader.style,
        ),
        (
            rf'state[ \t]+"(?P<text>[^"]*)"[ \t]+as[ \t]+(?P<name>{_ID}){_CLASS}{_OPENS}',
            _Reader.declare,
        ),
        (
            rf"state[ \t]+(?P<name>{_ID})[ \t]*(?P<kind><<choice>>|\[\[choice\]\])",
            _Reader.declare,
        ),
        (rf"state[ \t]+(?P<name>{_ID}){_CLASS}{_OPENS}", _Reader.declare),
        (r"\}", _Reader.close),
        (rf"(?P<name>{_ID})[ \t]*:(?!::)(?P<text>[^\n]+)", _Reader.describe),
        (rf"(?P<name>{_ID}){_CLASS}", _Reader.declare),
    )
)
"""The statements, with what is made of them."""

_REFUSED = tuple(
    (re.compile(pattern), name, cure)
    for pattern, name, cure in (
        (
            r"state\b[^\n]*(?:<<fork>>|\[\[fork\]\])", "a fork",
            "a machine is in one state: `run_machines` runs several machines at once",
        ),
        (
            r"state\b[^\n]*(?:<<join>>|\[\[join\]\])", "a join",
            "a machine is in one state: `run_machines` runs several machines at once",
        ),
        (
            r"--[ \t]*$", "a state with several parts at once (`--`)",
            "a machine is in one state: `run_machines` runs several machines at once",
        ),
        (r"state\b[^\n]*<<(?!choice>>)", "this kind of state", PAGE),
        (r"note[ \t]+\"", "a note that belongs to no state", "write `note right of STATE: text`"),
        (r"click\b", "a click", "remove it: a picture of a machine links to nothing"),
    )
)  # fmt: skip
"""The statements of Mermaid that have no meaning in a machine, with the way there is."""
