"""What was recorded, as tables: a run's records, and one decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chartloop.cli import console
from chartloop.cli.styled_table import style_lines
from chartloop.view_model.build import record_view
from chartloop.view_model.text import record_lines

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


def records_table(chart: Chart, records: Sequence[Record]) -> list[str]:
    """A line for each record: what happened, and where it led; in colours."""
    views = [record_view(chart, record) for record in records]
    return style_lines(record_lines(views, console.width()))
