"""The records and facts of a run as tables and as pandas frames.

Belongs here: the record list and the facts that `Run` returns, with their notebook views. Never:
single records, which have their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar, SupportsIndex, overload

from chartloop.core.facts import Facts
from chartloop.core.records import Record
from chartloop.core.report import Part, Report, Table
from chartloop.core.text_table import Cell, Row
from chartloop.core.visible import printable
from chartloop.machine.build import Chart
from chartloop.run.dataframe import frame
from chartloop.run.record_text import action_of, because, duration_of, outcome_of, path_of


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
        spent = outcome.spent if outcome is not None else None
        return {
            "seq": record.seq, "kind": record.kind, "state": record.state,
            "action": action_of(self._chart, record), "outcome": outcome_of(record),
            "ok": None if outcome is None else not record.failures,
            "seconds": max(0.0, given.at - given.started) if outcome is not None else None,
            "tokens": spent.prompt_tokens + spent.completion_tokens if spent is not None else 0,
            "cost": spent.cost if spent is not None else None,
            "path": " → ".join(path_of(self._chart, record)), "next": record.next,
            "status": record.status, "because": because(self._chart, record),
            "signals": ", ".join(str(s.reason) for s in record.signals),
            "at": datetime.fromtimestamp(given.at, UTC),
        }  # fmt: skip

    WIDEST: ClassVar[int] = 120

    def parts(self) -> Iterator[Part]:
        """A row for each record, like `chartloop show`."""
        rows: list[Row] = []
        for record in self:
            path = path_of(self._chart, record)  # a long one is shortened in the middle
            states = path if len(path) <= _LISTED else (*path[:2], "…", *path[-2:])
            cells = (
                (str(record.seq), ""), (record.kind, ""), (record.state, "code"),
                (action_of(self._chart, record), "code"),
                (outcome_of(record), "red" if record.failures else ""),
                (duration_of(record), ""), (" → ".join(states), "code"),
                (because(self._chart, record), "dim"),
            )  # fmt: skip
            rows.append(Row(tuple(Cell(printable(text), colour) for text, colour in cells)))
        yield Table(rows, _HEAD, {0, 5}, spare=(5, 3, 1))

    def __str__(self) -> str:
        return repr(self)


_HEAD = ("#", "kind", "state", "action", "outcome", "duration", "path", "because")
_LISTED = 5
"""The most states of a path in the table."""


class KnownFacts(Facts, frozen=True, gc=False):
    """The current facts of a run; `frame` returns them for pandas."""

    def __eq__(self, other: object) -> bool:
        """Whether the facts are equal; plain `Facts` may be equal too."""
        return isinstance(other, Facts) and self.to_tuple() == other.to_tuple()

    __hash__ = Facts.__hash__

    def frame(self) -> Any:
        """A pandas frame with a row for each fact: its name and its value."""
        return frame([{"fact": name, "value": value} for name, value in self.items()], "fact")
