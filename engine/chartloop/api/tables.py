"""The records and facts of a run as tables and as pandas frames.

Belongs here: the record list and the facts that `Run` returns, with their notebook views. Never:
single records, which have their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar, SupportsIndex, overload

from msgspec.structs import astuple

from chartloop.core.facts import Facts, ToolCall
from chartloop.core.records import Record
from chartloop.core.reports import Part, Report
from chartloop.core.text_table import Cell
from chartloop.core.visible import printable
from chartloop.machine.build import Chart
from chartloop.run.dataframe import frame
from chartloop.run.record_text import RecordRow, because, call_lines, record_table


class Records(Report, list[Record]):
    """The records of a run: a list that is displayed as a table; `frame` returns it for pandas."""

    def __init__(self, records: Iterable[Record], chart: Chart) -> None:
        super().__init__(records)
        self._chart = chart

    @overload
    def __getitem__(self, index: SupportsIndex) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Records: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Record | Records:
        if isinstance(index, slice):
            return Records(super().__getitem__(index), self._chart)
        return super().__getitem__(index)

    def __reduce__(self) -> tuple[Any, ...]:
        return (list, (list(self),))  # the chart is not pickled with the records

    def rows(self) -> list[dict[str, Any]]:
        """Plain data, a mapping for each record; times in seconds, `at` in UTC."""
        return [self._row(record) for record in self]

    def frame(self) -> Any:
        """A pandas frame with a row for each record, `seq` as its index; see `rows`."""
        return frame(self.rows(), "seq")

    def _row(self, record: Record) -> dict[str, Any]:
        given, outcome = record.input, record.outcome
        said = RecordRow.of(self._chart, record)
        spent = outcome.spent if outcome is not None else None
        return {
            "seq": said.seq, "kind": said.kind, "state": said.state, "action": said.action,
            "outcome": said.outcome, "ok": None if outcome is None else not said.failed,
            "seconds": max(0.0, given.at - given.started) if outcome is not None else None,
            "tokens": spent.prompt_tokens + spent.completion_tokens if spent is not None else 0,
            "cost": spent.cost if spent is not None else None,
            "path": " → ".join(said.path), "next": record.next,
            "status": record.status, "because": said.because,
            "signals": ", ".join(str(s.reason) for s in record.signals),
            "at": datetime.fromtimestamp(given.at, UTC),
        }  # fmt: skip

    WIDEST: ClassVar[int] = 120

    def parts(self) -> Iterator[Part]:
        """A row for each record, like `chartloop show`."""
        rows = (RecordRow.of(self._chart, record) for record in self)
        yield record_table(rows, printable, ends=2)

    def __str__(self) -> str:
        return repr(self)


class KnownRecord(Record, frozen=True, gc=False):
    """A record that a step returned: its notebook view has guards, labels and calls.

    Equal to the plain record. Pickled and stored as that.
    """

    chart: Chart | None = None
    asked: tuple[ToolCall, ...] = ()
    """The calls of the newest reply before it."""

    @classmethod
    def of(cls, record: Record, chart: Chart, asked: tuple[ToolCall, ...]) -> KnownRecord:
        """The record with what its view needs besides."""
        return cls(*astuple(record), chart=chart, asked=asked)

    def card(self) -> dict[str, str]:
        """What a notebook shows of it, by name."""
        card, chart = super().card(), self.chart
        if chart is None:
            return card
        calls = call_lines(self, self.asked)
        return {
            **card, "at": Cell(_named(chart, self.state), "code"),
            "calls": Cell("\n".join(calls), "code") if calls else card["calls"],
            "taken": Cell(because(chart, self), "code"),
            "next": Cell(_named(chart, self.next), "code"),
        }  # fmt: skip

    def __eq__(self, other: object) -> bool:
        """Whether the records are equal; plain ones may be equal too."""
        size = len(Record.__struct_fields__)
        return isinstance(other, Record) and astuple(self)[:size] == astuple(other)[:size]

    __hash__ = Record.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        size = len(Record.__struct_fields__)
        return Record(*astuple(self)[:size]).__reduce__()


def _named(chart: Chart, state: str) -> str:
    known = chart.spec.states.get(state)
    label = (
        " ".join(known.label.text.split()) if known is not None and known.label is not None else ""
    )
    return f"{state}: {label}" if label and label != state else state


class KnownFacts(Facts, frozen=True, gc=False):
    """The current facts of a run; `frame` returns them for pandas."""

    def __eq__(self, other: object) -> bool:
        """Whether the facts are equal; plain `Facts` may be equal too."""
        return isinstance(other, Facts) and self.to_tuple() == other.to_tuple()

    __hash__ = Facts.__hash__

    def frame(self) -> Any:
        """A pandas frame with a row for each fact: its name and its value."""
        return frame([{"fact": name, "value": value} for name, value in self.items()], "fact")
