"""Replay: whether a machine still makes the decisions that a run recorded.

The result is the first record that this machine decides otherwise, and how. Records from before a
state was renamed are read under its new name.

Source: docs/design.md, "A step"; docs/language.md, "The file" (`renamed`); a law of the design:
replay of every prefix of a run equals the live run at that point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from chartloop.core.errors import StatusError, UnknownRunError
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.core.reports import Part, Report
from chartloop.core.text_table import Line
from chartloop.core.units import say_count
from chartloop.machine.build import Chart
from chartloop.run.chain import Checked
from chartloop.run.refold import refold
from chartloop.run.renaming import Names


class Difference(NamedTuple):
    """A record that this machine decides differently."""

    seq: int
    state: str
    what: str

    def __str__(self) -> str:
        return f"record {self.seq} at {self.state}: {self.what}"


@dataclass(frozen=True, repr=False)
class Replay(Report):
    """The result of a replay. It ends at the first record that differs."""

    position: Position
    records: int
    """The number of records decided as recorded."""
    differences: tuple[Difference, ...] = ()
    of: int = 0
    """The total number of records."""
    chain: Checked | None = None
    """Whether the records are as they were written; None if the journal keeps no hash chain."""

    @property
    def same(self) -> bool:
        """Whether every record was decided as it was recorded."""
        return not self.differences

    def parts(self) -> Iterator[Part]:
        """How many records were decided as recorded, and how the first other differs.

        And whether they are as they were written.
        """
        if self.same:
            was = "decided as it was" if self.records == 1 else "all decided as they were"
            yield Line(f"{say_count(self.records, 'record')}, {was} recorded")
        else:
            count = say_count(self.of, "record")
            yield Line(f"{self.records} of {count} decided as recorded, then:")
            yield from (Line(f"  {difference}") for difference in self.differences)
        if self.chain is not None:
            yield self.chain.line()

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `chartloop replay --format json` adds the run and the machine."""
        differences = [difference._asdict() for difference in self.differences]
        found = {"records": self.records, "same": self.same, "differences": differences}
        return found if self.chain is None else {**found, "chain": self.chain._asdict()}

    def __repr__(self) -> str:
        first = self.differences[0] if self.differences else "all as they were recorded"
        return f"<Replay of {self.records} records: {first}>"


def replay(
    chart: Chart, records: Iterable[Record], run_id: str = "", *, names: Names | None = None
) -> Replay:
    """Refold the records and compare each decision with what was recorded.

    `names` maps the states and edges of the records to those of this machine; by default its
    file's `renamed`.
    """
    position, count, all_records = chart.position(run_id), 0, list(records)
    steps = refold(chart, all_records, position, names=names, catch=(StatusError, KeyError))
    for step in steps:
        if what := step.difference:
            differs = Difference(step.record.seq, step.record.state, what)
            return Replay(step.before, count, (differs,), len(all_records))
        position, count = step.after, count + 1
    return Replay(position, count, of=count)


def no_record_error(seq: int, last: int | None) -> UnknownRunError:
    """The error for a record that a run does not have; `last` is its newest."""
    hint = "the run has no records" if last is None else f"records are numbered 0 to {last}"
    return UnknownRunError(f"there is no record {seq}", hint=hint)
