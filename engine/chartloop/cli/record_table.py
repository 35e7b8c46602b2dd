"""What was recorded, as tables: a run's records, and one decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chartloop.cli import console
from chartloop.cli.table import Line, Row, styled, table_lines
from chartloop.run.record_text import action_of, because, duration_of, outcome_of, path_of

if TYPE_CHECKING:
    from chartloop.core.records import Record
    from chartloop.machine.build import Chart
    from chartloop.machine.explain import Explanation


def lines_of(found: Explanation) -> list[str]:
    """The table of a decision and where it led, as wide as the terminal, in its colours."""
    return [
        console.style(console.plain(line.text), line.colour)
        for line in found.lines(console.width())
    ]


def records_table(chart: Chart, records: list[Record]) -> list[str]:
    """A line for each record: what happened, and where it led; in colours."""
    return styled(records_lines(chart, records))


def records_lines(
    chart: Chart, records: list[Record], width: int | None = None, *, brief: bool = False
) -> list[Line]:
    """A line for each record, under a head, each with its colour.

    `brief` leaves the reasons out, and of a long path what is between its ends.
    """
    rows = [
        Row(
            (
                str(r.seq), r.kind, "" if r.kind == "start" else r.state, action_of(chart, r),
                outcome_of(r), duration_of(r), _path(chart, r, brief=brief),
                "" if brief else because(chart, r),
            ),
            "red" if r.failures else "",
        )
        for r in records
    ]  # fmt: skip
    head = ("#", "kind", "at", "did", "came", "took", "then", "" if brief else "because")
    return table_lines(rows, head, width=width, right={0, 5}, spare=(5, 3, 1))


def _path(chart: Chart, record: Record, *, brief: bool) -> str:
    path = path_of(chart, record)
    return " → ".join((path[0], "…", path[-1]) if brief and len(path) > 3 else path)
