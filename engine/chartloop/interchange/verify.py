"""Verification of a machine against a document's flowchart and its declared deviations.

Belongs here: differences with their place in the document, and which of them are accepted. Never:
comparing charts (`pictures.compare`), reading documents (`documents`).

Source:       docs/language.md, section 1 (`deviations`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chartloop.api.machine import Machine
from chartloop.core.reports import Part, Report
from chartloop.core.text_table import Line, Span
from chartloop.core.units import say_count
from chartloop.interchange.documents import Found, Read, read
from chartloop.pictures.compare.difference import Difference, match_boxes
from chartloop.pictures.dot.write import as_shown


@dataclass(frozen=True, slots=True)
class Deviation:
    """One difference between a machine's picture and the document's chart."""

    text: str
    """The difference in words, as `deviations` declares it."""
    reason: str = ""
    """Why it is accepted; empty if it is not."""
    line: int | None = None
    """The line in the document; None for a part that only the machine has."""

    def place_in(self, file: str) -> str:
        """The place as a prefix of the text, ``FLOW.md:12: ``; empty without a line."""
        return "" if self.line is None else f"{file}:{self.line}: "


_CROSS = Span("✗", "red")


@dataclass(frozen=True, slots=True)
class Verdict(Report):
    """The result of comparing a machine with a document."""

    read: Read
    machine: str
    undeclared: tuple[Deviation, ...]
    """Differences that the machine does not declare."""
    accepted: tuple[Deviation, ...]
    """Declared differences, with their reasons."""
    stale: tuple[Deviation, ...]
    """Declared differences that do not exist."""

    @property
    def holds(self) -> bool:
        """Whether the machine matches the document's chart apart from declared differences."""
        return not self.undeclared and not self.stale

    def parts(self) -> Iterator[Part]:
        """Each difference with its place in the document, then the summary."""
        file = self.read.found.file
        for one in self.undeclared:
            yield Line.of(_CROSS, f" {one.place_in(file)}{one.text}")
        for one in self.stale:
            yield Line.of(_CROSS, f" {one.text}: declared, and not there")
        for one in self.accepted:
            yield Line(f"· {one.place_in(file)}{one.text}: accepted, {one.reason}", "dim")
        if not self.holds:
            yield Line("")
        yield Line(self.summary, "green" if self.holds else "")

    @property
    def summary(self) -> str:
        """A summary in a line."""
        if self.holds:
            chart = self.read.reading.chart
            number = len(chart.boxes)
            boxes = f"{number:,} {'box' if number == 1 else 'boxes'}"
            but = " but for what it declares" if self.accepted else ""
            same = f"{self.machine} is the {self.read.found.kind} of {self.read.found.file}{but}"
            return f"{same}: {boxes}, {say_count(len(chart.arrows), 'arrow')}"
        wrong = say_count(len(self.undeclared), "difference")
        parts = [f"{wrong} that {self.machine} does not declare"] if self.undeclared else []
        stale = say_count(len(self.stale), "declared difference")
        parts += [f"{stale} not found"] if self.stale else []
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `chartloop verify --format json` prints it."""
        found = self.read.found

        def to_list(deviations: tuple[Deviation, ...]) -> list[dict[str, Any]]:
            return [{"difference": d.text, "reason": d.reason, "line": d.line} for d in deviations]

        return {
            "document": found.file,
            "chart": {
                "number": found.number, "heading": found.heading,
                "first_line": found.line, "last_line": found.last_line,
            },
            "machine": self.machine,
            "holds": self.holds,
            "undeclared": to_list(self.undeclared),
            "accepted": to_list(self.accepted),
            "stale": to_list(self.stale),
            "quoted": [quoted._asdict() for quoted in self.read.quoted],
        }  # fmt: skip


def verify(found: Found, machine: Machine) -> Verdict:
    """Compare a flowchart of a document with the live machine.

    Raises `SpecError` if the chart cannot be read.
    """
    document = read(found)
    chart = document.reading.chart
    drawn = as_shown(machine.draw(rules="none").chart)
    lines = _Lines(document, match_boxes(chart, drawn))
    declared = {d.difference: d.reason for d in machine.spec.deviations}
    left = Counter(d.difference for d in machine.spec.deviations)
    undeclared: list[Deviation] = []
    accepted: list[Deviation] = []
    for difference in document.reading.unlike(drawn):
        text, line = str(difference), lines.of(difference)
        if left[text]:
            left[text] -= 1
            accepted.append(Deviation(text, declared[text], line))
        else:
            undeclared.append(Deviation(text, "", line))
    stale = tuple(Deviation(text, declared[text]) for text in left.elements())
    return Verdict(document, machine.name, tuple(undeclared), tuple(accepted), stale)


class _Lines:
    """The lines of a document to which differences refer."""

    def __init__(self, document: Read, matched: dict[str, str]) -> None:
        self.reading = document.reading
        self.matched = matched
        """The id in the document by the id that differences use."""

    def of(self, difference: Difference) -> int | None:
        """The line; None for what the document does not have."""
        if difference.what == "node":
            return self._box(difference.name)
        source, _, target = difference.name.partition(" → ")
        ends = self.matched.get(source, source), self.matched.get(target, target)
        arrows = self.reading.chart.arrows
        at = [
            line
            for arrow, line in zip(arrows, self.reading.arrow_lines, strict=True)
            if (arrow.source, arrow.target) == ends
            and (difference.change != "label" or " ".join(arrow.label.split()) == difference.before)
        ]
        return at[-1] if at else self._box(source)

    def _box(self, name: str) -> int | None:
        return self.reading.lines.get(self.matched.get(name, name))
