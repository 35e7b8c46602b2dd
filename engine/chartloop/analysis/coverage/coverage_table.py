"""The table of a coverage: figures, then what was not seen, with its place and its guard.

Belongs here: rows and cells, in text and in HTML. Never: colours of a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from chartloop.analysis.coverage.figures import PLURAL, Covered, Figure
from chartloop.analysis.coverage.targets import KINDS, Kind
from chartloop.core.html_table import Cell, Tone, bundle, details_element, table
from chartloop.core.html_table import line as paragraph
from chartloop.core.text_table import Line, Row, lay_out
from chartloop.core.units import say_count

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
"""Roles of edges and rules that have their own line."""


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


def head_of(told: CoverageFigures) -> str:
    """``team (machines/team.yaml): 14 runs, 96 records``."""
    runs, records = say_count(told.runs, "run"), say_count(told.records, "record")
    where = f" ({told.file})" if told.file else ""
    return f"{told.machine}{where}: {runs}, {records}"


def figure_rows(told: CoverageFigures) -> Iterator[Row]:
    """What, how many of how many, percent; green, yellow or red by how much is left."""
    for kind, figure in told.figures.items():
        yield Row((WORDS[kind], str(figure), f"{figure.percent:g} %"), _colour(figure))
        for role, part in told.roles(kind).items() if kind in ("edge", "rule") else ():
            if role in _ROLES:
                yield Row((f"  {_ROLES[role]}", str(part), f"{part.percent:g} %"), "dim")


def _colour(figure: Figure) -> str:
    return "green" if figure.seen == figure.all else "yellow" if figure.percent >= 80 else "red"


def missing_rows(covered: Iterable[Covered]) -> Iterator[Row]:
    """Kind, place, what, guard or reason: a line for each item that was not seen."""
    for one in covered:
        item = one.item
        yield Row(
            (item.kind, _place(one), item.id, _describe_item(one)), "dim" if one.unreachable else ""
        )


def _place(one: Covered) -> str:
    """``machine.yaml:12``; of a file elsewhere its name, the head of the table has its path."""
    place = one.item.place
    return place.rpartition("/")[2] if place.startswith("/") else place


def _describe_item(one: Covered) -> str:
    """What the file says of the item, and why no run can reach it where that is so."""
    item = one.item
    match item.kind:
        case "rule":
            does = f"{item.role}: {item.reason}" if item.reason else ""
            to = "" if does and "-" in item.to else item.to  # an end of the engine's own
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


def beside_line(told: CoverageFigures) -> str:
    """The reasons that came and are none of the file's: from outside, or the engine's own."""
    reasons = [f"{k.partition(':')[2]} ×{n}" for k, n in told.beside.items() if k[:7] == "reason:"]
    return f"also stopped for {', '.join(reasons)}" if reasons else ""


def lines_of(told: CoverageFigures, width: int = WIDEST) -> list[Line]:
    """Everything about one machine: its figures, and what was not seen."""
    return [
        Line(head_of(told), "bold"),
        *lay_out([*figure_rows(told)], width=width, right={1, 2}),
        *missing_lines(told, width),
    ]


def missing_lines(told: CoverageFigures, width: int = WIDEST) -> list[Line]:
    """What was not seen, what cannot be, and what else there is to say."""
    lines: list[Line] = []
    for title, found in (("not seen", told.missing), ("cannot be reached", told.unreachable)):
        if found:
            lines += [Line(""), Line(title)]
            lines += lay_out([*missing_rows(found)], width=width, indent="  ")
    for said in (beside_line(told), told.open_question, *told.skipped_runs):
        if said:
            lines += [Line(""), Line(said, "dim")]
    return lines


def summary(all_told: Sequence[CoverageFigures], width: int = WIDEST) -> list[Line]:
    """A line for each machine: so many of so many of each kind, and the percentage."""
    kinds: list[Kind] = [k for k in KINDS if any(k in told.figures for told in all_told)]
    head = Row(("machine", "runs", *(PLURAL[kind] for kind in kinds)), "dim")
    rows = [
        Row((told.machine, f"{told.runs:,}", *(_cell(told, kind) for kind in kinds)), _worst(told))
        for told in all_told
    ]
    return lay_out([head, *rows], width=width, right=range(1, len(kinds) + 2))


def coverage_lines(all_told: Sequence[CoverageFigures], width: int = WIDEST) -> list[Line]:
    """One machine with all its figures; of several a line for each, and what they lack."""
    if not all_told:
        return [Line("no machine was run", "dim")]
    if len(all_told) == 1:
        return lines_of(all_told[0], width)
    lines = summary(all_told, width)
    for told in all_told:
        if told.missing or told.unreachable or told.skipped_runs or told.open_question:
            said = missing_lines(told, width)
            lines += [Line(""), Line(head_of(told), "bold"), *said[1:]]
    return lines


def _cell(told: CoverageFigures, kind: Kind) -> str:
    figure = told.figures.get(kind)
    return "" if figure is None else f"{figure} {figure.percent:g} %"


def _worst(told: CoverageFigures) -> str:
    """The colour of the edges, which a threshold is about if nothing else is said."""
    return _colour(told.figures["edge"]) if "edge" in told.figures else ""


_TONES: Mapping[str, Tone] = {"green": "good", "yellow": "warn", "red": "bad", "dim": "dim"}


def bundle_of(told: CoverageFigures) -> dict[str, str]:
    """What a notebook shows."""
    rows = [tuple(Cell(c, _TONES[row.colour]) for c in row.cells) for row in figure_rows(told)]
    shown = paragraph(head_of(told), "strong") + table(rows, head=("", "seen", ""), right={1, 2})
    for title, found in (("not seen", told.missing), ("cannot be reached", told.unreachable)):
        if found:
            listed = table(
                [
                    (Cell(kind, "dim"), Cell(place, "dim"), Cell(id, "code"), Cell(said, "code"))
                    for kind, place, id, said in (row.cells for row in missing_rows(found))
                ],
                head=("", "where", "what", ""),
            )
            shown += details_element(f"{title}: {len(found)}", listed)
    shown += "".join(
        paragraph(said, "warn") for said in (told.open_question, *told.skipped_runs) if said
    )
    return bundle(shown, str(told))
