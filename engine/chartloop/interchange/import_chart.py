"""Import of a document's chart as a machine file that draws it.

Belongs here: the order of the work, and its proof: the file is loaded and its picture compared with
the chart before it is returned. Never: what a box becomes (`skeleton`), YAML (`machine_text`),
files, accepting a finding on behalf of the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chartloop.api import load
from chartloop.api.machine import Machine
from chartloop.core.errors import SetupError
from chartloop.core.reports import Notebook, Part, Report
from chartloop.core.text_table import Line, text_of
from chartloop.core.units import say_count
from chartloop.interchange.documents import Read
from chartloop.interchange.machine_names import as_name, once
from chartloop.interchange.machine_text import Head, write_machine
from chartloop.interchange.mermaid.read import Note
from chartloop.interchange.skeleton import skeleton
from chartloop.language.yaml.reading import MAX_BYTES
from chartloop.pictures.compare.difference import Difference
from chartloop.pictures.flowchart import Direction, Flowchart, one_line

_WHY: Mapping[str, str] = {
    "fill": "a machine colours a state by what it is",
    "label": "a label cannot hold this text as it is",
}
_SAYS_LITTLE = re.compile(
    r"(?:the )?(?:mermaid |flow ?)?(?:chart|diagram|flow|overview|source)s?:?", re.IGNORECASE
)
"""Headings that name no system."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Imported(Report):
    """A machine file made of a flowchart."""

    text: str
    """The file."""
    machine: Machine
    """The machine, even if `unreached` prevents the file from being loaded."""
    read: Read
    deviations: tuple[Difference, ...]
    """Differences between its picture and the chart, declared in the file with reasons."""
    unreached: tuple[str, ...]
    """States that no arrow leads to from the start: `check` reports them (CL304)."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """The parts of the chart that a machine cannot hold."""
        return _notes(self.read)

    def parts(self) -> Iterator[Part]:
        """Labels in quotes, notes, deviations and unreached states.

        None if the file draws the chart as it is.
        """
        yield from self.read.parts()
        yield from (Line(f"note: {note}", "yellow") for note in self.notes)
        yield from (Line(f"drawn otherwise: {one}", "yellow") for one in self.deviations)
        if self.unreached:
            some = ", ".join(f"`{name}`" for name in self.unreached[:5])
            some += ", ..." if self.unreached[5:] else ""
            yield Line(f"error: no arrow leads to {some}", "red")
            yield Line("the file does not load before one does, or they are removed", "red")
        yield Notebook([Line(self.summary)])

    @property
    def summary(self) -> str:
        """The machine, how large it is and how much is left to do: ``flow, 4 states, 2 TODO``."""
        states = say_count(len(self.machine.spec.states), "state")
        return f"{self.machine.name}, {states}, {self.text.count('# TODO'):,} TODO"

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what `chartloop import --format json` prints, but for the file."""
        return {
            "machine": self.machine.name,
            "states": len(self.machine.spec.states),
            "quoted": [quoted._asdict() for quoted in self.read.quoted],
            "not_kept": [note._asdict() for note in self.notes],
            "deviations": [str(difference) for difference in self.deviations],
            "unreached": list(self.unreached),
        }

    def plain_text(self) -> str:
        """The lines and the summary."""
        return text_of([*self.lines(), Line(self.summary)])


def import_chart(read: Read, *, name: str = "", source: str = "") -> Imported:
    """The skeleton of a machine that draws a flowchart.

    It loads and can be stepped at once, unless the chart has boxes that no arrow leads to: then its
    file has errors, until it is fixed, as any file would.
    `name` is the machine's, by default made of the heading or the file; `source` is what the file
    calls the document. SetupError: the chart has no box, or no machine can have the name.
    """
    chart, found = read.reading.chart, read.found
    if not chart.boxes:
        raise SetupError(f"the {found.kind} has no box", hint="a machine needs one state at least")
    if name and not _NAME.fullmatch(name):
        hint = "a small letter, then small letters, digits and underscores: my_agent"
        raise SetupError(f"`{name}` cannot name a machine", hint=hint)
    states = skeleton(chart, read.reading.lines)
    heading = found.title if _SAYS_LITTLE.fullmatch(found.heading) else found.heading
    title = one_line(chart.title) or heading
    machine = name or once(
        as_name(heading or Path(found.file).stem or title), other="machine", taken=()
    )
    where = f"lines {found.line} to {found.last_line}" if found.file else "a flowchart"
    notes = [f"Note: {note}." for note in (*_notes(read), *read.quoted)]
    head = Head(machine, title, source or found.file or "a flowchart", where, (), notes)
    head = head._replace(
        accepting=True, chart="flowchart" if found.kind == "flowchart" else "chart"
    )
    _refuse_too_large(write_machine(states, head), chart)
    loaded = load(write_machine(states, head))
    drawn = loaded.draw(rules="none").chart
    deviations = read.reading.unlike(drawn)
    if deviations:
        declared = [(str(d), _why(d, drawn)) for d in deviations]
        head = head._replace(deviations=declared)
        loaded = load(write_machine(states, head))
    text = write_machine(states, head._replace(accepting=False))
    return Imported(text, loaded, read, deviations, states.unreached)


def _notes(read: Read) -> tuple[Note, ...]:
    chart, notes = read.reading.chart, read.reading.notes
    return notes if chart.direction == "tb" else (_direction(chart.direction), *notes)


def _direction(direction: Direction) -> Note:
    """Which way a picture goes is said by whoever draws it."""
    way = "chartloop draw --direction lr" if direction == "lr" else f'draw(direction="{direction}")'
    return Note(f"a machine has no direction: `{way}` draws it that way", ())


def _refuse_too_large(text: str, chart: Flowchart) -> None:
    if (size := len(text.encode())) > MAX_BYTES:
        raise SetupError(
            f"the flowchart is too large for one machine: {len(chart.boxes):,} boxes, "
            f"a file of {size:,} bytes; {MAX_BYTES:,} are allowed",
            hint="import a part of it, and let machines run one another as children",
        )


def _why(difference: Difference, drawn: Flowchart) -> str:
    if difference.change != "shape":
        return _WHY.get(difference.change, "the language draws it so")
    ends = {arrow.source for arrow in drawn.arrows}
    if difference.after == "pill" and difference.name not in ends:
        return "a machine draws an end as a pill"
    return f"the language has no shape {difference.before}"
