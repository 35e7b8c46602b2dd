"""The charts of a document: finding them, choosing one, reading it.

Belongs here: Markdown's fences and headings, as far as they locate charts. Never: the grammar of a
chart (`interchange.mermaid`), machines.

Source:       CommonMark 0.31, sections 4.2, 4.3 and 4.5 (headings, fenced code)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chartloop.core.errors import Finding, SetupError, SpecError
from chartloop.core.reports import Part, Report
from chartloop.core.text_table import Line
from chartloop.core.units import say_count
from chartloop.interchange.mermaid.read import Note, Reading
from chartloop.interchange.quote_labels import Quoted, read_and_quote
from chartloop.interchange.state_diagram import read_state_diagram

LARGEST = 4_000_000
"""The most bytes of a document."""

_CHARTS = frozenset({".mmd", ".mermaid"})
_FENCE = re.compile(r"(?P<before>(?:[ \t]|>[ \t]?)*)(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)")
_MERMAID = re.compile(r"[ \t]*(?:\{[ \t]*\.?|\.)?mermaid\b", re.IGNORECASE)
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]+(?P<text>[^\n]*?)[ \t]*#*[ \t]*")
_UNDERLINE = re.compile(r"[ ]{0,3}(?:=+|-+)[ \t]*")
_CHART = re.compile(
    r"(?:[ \t]*---[ \t]*\n(?:(?![ \t]*---)[^\n]*\n)*[ \t]*---[ \t]*\n)?"
    r"(?:\s*+%%\{(?:(?!\}%%).)*+\}%%|\s*+%%[^\n]*\n)*\s*+(?:graph|flowchart|(?P<states>stateDiagram))",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Found:
    """One chart of a document."""

    text: str
    number: int
    """Its place among the charts of the document, from 1."""
    line: int
    """The line of the document on which it starts."""
    column: int = 0
    """Its indentation in the document."""
    heading: str = ""
    """The nearest heading above it."""
    title: str = ""
    """The first heading of the document, if it is above."""
    file: str = ""

    @property
    def kind(self) -> str:
        """`flowchart` or `state diagram`."""
        chart = _CHART.match(self.text)
        return "state diagram" if chart is not None and chart["states"] else "flowchart"

    @property
    def last_line(self) -> int:
        """The line of the document on which it ends."""
        return self.line + self.text.rstrip("\n").count("\n")

    def __str__(self) -> str:
        under = f', under "{self.heading}"' if self.heading else ""
        return f"{self.number}: lines {self.line} to {self.last_line}{under}"


@dataclass(frozen=True, slots=True)
class Read(Report):
    """A flowchart after reading. All line numbers are those of the document."""

    found: Found
    reading: Reading
    quoted: tuple[Quoted, ...] = ()
    """The lines that were read with quotes around a label."""

    def parts(self) -> Iterator[Part]:
        """The lines that were read with quotes, before and after."""
        for quoted in self.quoted:
            yield Line(f"note: {quoted}", "yellow")
            yield Line(f"  - {quoted.before.strip()}")
            yield Line(f"  + {quoted.after.strip()}")


def read_document(path: str | Path) -> str:
    """The text of a document. Raises `SetupError` if it cannot be read or is not UTF-8."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}"
        raise SetupError(message, hint="name a Markdown file or a .mmd file") from None
    if len(data) > LARGEST:
        raise SetupError(f"{path} is larger than {LARGEST:,} bytes", hint="split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{path} is not UTF-8: byte {error.start} is 0x{data[error.start]:02X}"
        raise SetupError(message, hint="save it as UTF-8") from None


def flowcharts(text: str, *, file: str = "") -> tuple[Found, ...]:
    """Find the flowcharts and state diagrams of a document, in order.

    A `.mmd` file is one chart, and so is a text that starts as one. In any other document charts
    are in fences marked `mermaid`, at any depth of indentation or quotation; Mermaid diagrams of
    other kinds are skipped.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if Path(file).suffix.lower() in _CHARTS or _CHART.match("\n".join(lines)):
        return (Found("\n".join(lines), 1, 1, file=file),)
    found = [one for one in _fenced_charts(lines) if _CHART.match(one.text)]
    return tuple(replace(one, number=n, file=file) for n, one in enumerate(found, start=1))


def _fenced_charts(lines: Sequence[str]) -> Iterator[Found]:
    """The content of all fences marked `mermaid`."""
    title, heading, number = "", "", 0
    while number < len(lines):
        opening = _FENCE.fullmatch(lines[number])
        if opening is None or (opening["fence"][0] == "`" and "`" in opening["info"]):
            heading = _heading(lines, number) or heading
            title = title or heading
            number += 1
            continue
        inside: list[str] = []
        first = number + 1
        number = first
        while number < len(lines) and not _closes(lines[number], opening["fence"]):
            # without the prefix of its fence: blanks and quotation marks
            line, same = lines[number], 0
            while same < min(len(opening["before"]), len(line)) and line[same] in " \t>":
                same += 1
            inside.append(line[same:])
            number += 1
        number += 1
        if _MERMAID.match(opening["info"]):
            column = len(opening["before"])
            yield Found("\n".join(inside), 0, first + 1, column, heading, title)


def _closes(line: str, fence: str) -> bool:
    bare = line.lstrip("> \t").rstrip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def _heading(lines: Sequence[str], number: int) -> str:
    line = lines[number]
    if found := _HEADING.fullmatch(line):
        return found["text"]
    underlined = number + 1 < len(lines) and _UNDERLINE.fullmatch(lines[number + 1])
    return line.strip() if line.strip() and underlined and not line.startswith("    ") else ""


def choose_chart(found: Sequence[Found], wanted: str = "", *, file: str = "") -> Found:
    """Choose a chart: the only one, or the one with this number or heading.

    Raises `SetupError` if none or several match; the hint lists them.
    """
    name = file or "the text"
    if not found:
        hint = (
            "write a flowchart in a ```mermaid fence that starts with `flowchart TD`, or a state"
            " diagram with `stateDiagram-v2`"
        )
        raise SetupError(f"{name} has no Mermaid flowchart", hint=hint)
    listed = "; ".join(str(one) for one in found[:10])
    if not wanted:
        if len(found) == 1:
            return found[0]
        message = f"{name} has {say_count(len(found), 'chart')}: which one do you want?"
        raise SetupError(message, hint=f"say --chart N, or a part of its heading: {listed}")
    if wanted.isdecimal() and 0 < int(wanted) <= len(found):
        return found[int(wanted) - 1]
    matches = [one for one in found if wanted.casefold() in one.heading.casefold()]
    exact = [one for one in matches if wanted.casefold() == one.heading.casefold()]
    for candidates in (exact, matches):
        if len(candidates) == 1:
            return candidates[0]
    many = "more than one chart" if matches else "no chart"
    raise SetupError(f"{name} has {many} `{wanted}`", hint=f"there are: {listed}")


def read(found: Found) -> Read:
    """Read a chart of a document.

    Labels of a flowchart that Mermaid refuses without quotes are read with them, and listed.
    Raises `SpecError` with the place in the document if the chart cannot be read.
    """
    quoted: tuple[Quoted, ...] = ()
    try:
        if found.kind == "state diagram":
            reading = read_state_diagram(found.text, file=found.file)
        else:
            reading, quoted = read_and_quote(found.text, file=found.file)
    except SpecError as refused:
        raise SpecError([_move_finding(finding, found) for finding in refused.findings]) from None
    down = found.line - 1
    reading = reading._replace(
        notes=tuple(Note(n.text, tuple(line + down for line in n.lines)) for n in reading.notes),
        lines={name: line + down for name, line in reading.lines.items()},
        arrow_lines=tuple(line + down for line in reading.arrow_lines),
    )
    return Read(found, reading, tuple(one._replace(line=one.line + down) for one in quoted))


def _move_finding(finding: Finding, found: Found) -> Finding:
    place = finding.place
    moved = replace(
        place, line=place.line + found.line - 1, column=place.column + found.column,
        text=" " * found.column + place.text,
    )  # fmt: skip
    return replace(finding, place=moved)
