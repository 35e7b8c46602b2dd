"""The table of a coverage: figures, then the items not seen, with their places and guards.

Belongs here: the parts of its report. Never: how they are drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from chartloop.core.report import Group, Part, Table, text_lines
from chartloop.core.text_table import Cell, Line, Row
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
            (Cell(item.kind, "dim"), Cell(_place(one), "dim"), Cell(item.id, "code"),
             Cell(_describe_item(one), "code")),
            "dim" if one.unreachable else "",
        )  # fmt: skip


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


def _missing(coverage: CoverageFigures) -> Iterator[Part]:
    """The items not seen, the unreachable ones, and notes, each after an empty line."""
    for title, items in (
        ("not seen", coverage.missing),
        ("cannot be reached", coverage.unreachable),
    ):
        if items:
            table = Table([*missing_rows(items)], indent="  ")
            yield from (Line(""), Group(Line(title), [table], f"{title}: {len(items)}"))
    # the reasons that are not in the file: from outside, or added by the engine
    counts = coverage.beside.items()
    reasons = [f"{k.partition(':')[2]} ×{n}" for k, n in counts if k[:7] == "reason:"]
    beside = f"also stopped for {', '.join(reasons)}" if reasons else ""
    for note in filter(None, (beside, coverage.open_question, *coverage.skipped_runs)):
        yield from (Line(""), Line(note, "dim"))


def parts_of(coverages: Sequence[CoverageFigures]) -> Iterator[Part]:
    """The full table of one machine; for several a summary, then the items that each lacks."""
    if not coverages:
        yield Line("no machine was run", "dim")
    elif len(coverages) == 1:
        (one,) = coverages
        yield from (Line(head_of(one), "bold"), Table([*figure_rows(one)], right={1, 2}))
        yield from _missing(one)
    else:
        kinds: list[Kind] = [k for k in KINDS if any(k in one.figures for one in coverages)]
        rows = [
            Row((one.machine, f"{one.runs:,}", *(_cell(one, kind) for kind in kinds)), _worst(one))
            for one in coverages
        ]
        head = ("machine", "runs", *(PLURAL[kind] for kind in kinds))
        yield Table(rows, head, range(1, len(kinds) + 2))
        for one in coverages:
            if one.missing or one.unreachable or one.skipped_runs or one.open_question:
                _, *details = _missing(one)
                yield from (Line(""), Line(head_of(one), "bold"), *details)


def coverage_lines(coverages: Sequence[CoverageFigures], width: int = WIDEST) -> list[Line]:
    """The same as lines, for a terminal."""
    return text_lines(parts_of(coverages), width)


def _cell(coverage: CoverageFigures, kind: Kind) -> str:
    figure = coverage.figures.get(kind)
    return "" if figure is None else f"{figure} {figure.percent:g} %"


def _worst(coverage: CoverageFigures) -> str:
    """The colour of the edges' figure, to which a threshold applies by default."""
    return _colour(coverage.figures["edge"]) if "edge" in coverage.figures else ""
