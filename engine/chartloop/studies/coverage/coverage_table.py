"""The table of a coverage: figures, then the items not seen, with their places and guards.

Belongs here: rows and cells, in text and in HTML. Never: colours of a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from chartloop.core.html_table import Cell, Tone, bundle, details_element, table
from chartloop.core.html_table import line as paragraph
from chartloop.core.text_table import Line, Row, lay_out
from chartloop.core.units import say_count
from chartloop.studies.coverage.figures import PLURAL, Covered, Figure
from chartloop.studies.coverage.targets import KINDS, Kind

WIDEST = 110
"""Columns of a printed table."""
WORDS: Mapping[Kind, str] = {
    **PLURAL, "atom": "guard atoms, each way", "guard": "Python guards, not seen inside",
}  # fmt: skip
_ROLES: Mapping[str, str] = {
    "on": "events", "expired": "timeouts", "retry": "retries", "all": "branches",
    "failed": "failures", "error": "failures not handled", "return": "ways back",
    "detour": "detours",
}  # fmt: skip
"""The roles of edges and rules that get a line of their own, with its heading."""


class CoverageFigures(Protocol):
    """The parts of a coverage that the table reads."""

    @property
    def machine(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def runs(self) -> int: ...
    @property
    def records(self) -> int: ...
    @property
    def figures(self) -> Mapping[Kind, Figure]: ...
    @property
    def missing(self) -> Sequence[Covered]: ...
    @property
    def unreachable(self) -> Sequence[Covered]: ...
    @property
    def beside(self) -> Mapping[str, int]: ...
    @property
    def skipped_runs(self) -> Sequence[str]: ...
    @property
    def open_question(self) -> str: ...

    def roles(self, kind: Kind) -> Mapping[str, Figure]:
        """Figures by role."""
        ...


def head_of(coverage: CoverageFigures) -> str:
    """The heading of a machine: ``team (machines/team.yaml): 14 runs, 96 records``."""
    runs, records = say_count(coverage.runs, "run"), say_count(coverage.records, "record")
    where = f" ({coverage.file})" if coverage.file else ""
    return f"{coverage.machine}{where}: {runs}, {records}"


def figure_rows(coverage: CoverageFigures) -> Iterator[Row]:
    """Rows of kind, seen of all, and percentage; green, yellow or red by what is missing."""
    for kind, figure in coverage.figures.items():
        yield Row((WORDS[kind], str(figure), f"{figure.percent:g} %"), _colour(figure))
        for role, part in coverage.roles(kind).items() if kind in ("edge", "rule") else ():
            if role in _ROLES:
                yield Row((f"  {_ROLES[role]}", str(part), f"{part.percent:g} %"), "dim")


def _colour(figure: Figure) -> str:
    return "green" if figure.seen == figure.all else "yellow" if figure.percent >= 80 else "red"


def missing_rows(covered: Iterable[Covered]) -> Iterator[Row]:
    """A row for each item not seen: kind, place, id, and its guard or reason."""
    for one in covered:
        item = one.item
        yield Row(
            (item.kind, _place(one), item.id, _describe_item(one)), "dim" if one.unreachable else ""
        )


def _place(one: Covered) -> str:
    """``machine.yaml:12``; of an absolute path only the name: the heading has the path."""
    place = one.item.place
    return place.rpartition("/")[2] if place.startswith("/") else place


def _describe_item(one: Covered) -> str:
    """What the file says of the item, or why no run can reach it."""
    item = one.item
    match item.kind:
        case "rule":
            does = f"{item.role}: {item.reason}" if item.reason else ""
            to = "" if does and "-" in item.to else item.to  # an end that the engine adds
            text = f"{item.text} → {', '.join(part for part in (does, to) if part)}"
        case "edge":
            text = f"{item.text} → {item.to}".lstrip() if item.to else item.text
        case "atom" | "guard":
            text = f"never {str(item.way).lower()}: {item.text}"
        case "reason":
            text = f"raised by {item.text}"
        case "child":
            text = f"runs {item.to}"
        case _:
            text = item.text
    if one.unreachable:
        return f"{item.text}: {one.unreachable}" if item.way is not None else one.unreachable
    return text


def beside_line(coverage: CoverageFigures) -> str:
    """The reasons that are not in the file: from outside, or added by the engine."""
    counts = coverage.beside.items()
    reasons = [f"{k.partition(':')[2]} ×{n}" for k, n in counts if k[:7] == "reason:"]
    return f"also stopped for {', '.join(reasons)}" if reasons else ""


def lines_of(coverage: CoverageFigures, width: int = WIDEST) -> list[Line]:
    """The full table of one machine: its figures, and the items not seen."""
    return [
        Line(head_of(coverage), "bold"),
        *lay_out([*figure_rows(coverage)], width=width, right={1, 2}),
        *missing_lines(coverage, width),
    ]


def _sections(coverage: CoverageFigures) -> tuple[tuple[str, Sequence[Covered]], ...]:
    return ("not seen", coverage.missing), ("cannot be reached", coverage.unreachable)


def missing_lines(coverage: CoverageFigures, width: int = WIDEST) -> list[Line]:
    """The items not seen, the unreachable ones, and notes; the first line is empty."""
    lines: list[Line] = []
    for title, items in _sections(coverage):
        if items:
            lines += [Line(""), Line(title)]
            lines += lay_out([*missing_rows(items)], width=width, indent="  ")
    for note in (beside_line(coverage), coverage.open_question, *coverage.skipped_runs):
        if note:
            lines += [Line(""), Line(note, "dim")]
    return lines


def summary(coverages: Sequence[CoverageFigures], width: int = WIDEST) -> list[Line]:
    """A line for each machine: for each kind the items seen of all, and the percentage."""
    kinds: list[Kind] = [k for k in KINDS if any(k in one.figures for one in coverages)]
    head = Row(("machine", "runs", *(PLURAL[kind] for kind in kinds)), "dim")
    rows = [
        Row((one.machine, f"{one.runs:,}", *(_cell(one, kind) for kind in kinds)), _worst(one))
        for one in coverages
    ]
    return lay_out([head, *rows], width=width, right=range(1, len(kinds) + 2))


def coverage_lines(coverages: Sequence[CoverageFigures], width: int = WIDEST) -> list[Line]:
    """The full table of one machine; for several a summary, then the items that each lacks."""
    if not coverages:
        return [Line("no machine was run", "dim")]
    if len(coverages) == 1:
        return lines_of(coverages[0], width)
    lines = summary(coverages, width)
    for one in coverages:
        if one.missing or one.unreachable or one.skipped_runs or one.open_question:
            details = missing_lines(one, width)
            lines += [Line(""), Line(head_of(one), "bold"), *details[1:]]
    return lines


def _cell(coverage: CoverageFigures, kind: Kind) -> str:
    figure = coverage.figures.get(kind)
    return "" if figure is None else f"{figure} {figure.percent:g} %"


def _worst(coverage: CoverageFigures) -> str:
    """The colour of the edges' figure, to which a threshold applies by default."""
    return _colour(coverage.figures["edge"]) if "edge" in coverage.figures else ""


_TONES: Mapping[str, Tone] = {"green": "good", "yellow": "warn", "red": "bad", "dim": "dim"}


def bundle_of(coverage: CoverageFigures) -> dict[str, str]:
    """The notebook view, as HTML and text."""
    rows = [tuple(Cell(c, _TONES[row.colour]) for c in row.cells) for row in figure_rows(coverage)]
    html = paragraph(head_of(coverage), "strong") + table(rows, head=("", "seen", ""), right={1, 2})
    for title, items in _sections(coverage):
        if items:
            listing = table(
                [
                    (Cell(kind, "dim"), Cell(place, "dim"), Cell(id, "code"), Cell(text, "code"))
                    for kind, place, id, text in (row.cells for row in missing_rows(items))
                ],
                head=("", "where", "what", ""),
            )
            html += details_element(f"{title}: {len(items)}", listing)
    notes = (coverage.open_question, *coverage.skipped_runs)
    html += "".join(paragraph(note, "warn") for note in notes if note)
    return bundle(html, str(coverage))
