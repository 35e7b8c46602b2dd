"""Replay: recorded inputs through `evolve` again, with no effects.

Returns the position before any record, the decision of a record, and the differences between the
recorded decisions and those of this machine. Records from before a state was renamed are read under
its new name.

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
from chartloop.machine.decision import Decision
from chartloop.machine.evolve import evolve
from chartloop.run.chain import Checked
from chartloop.run.renaming import Names, as_now


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
    """Fold the records and compare each decision with what was recorded.

    `names` maps the states and edges of the records to those of this machine; by default its
    file's `renamed`.
    """
    names = Names(chart.spec.renamed) if names is None else names
    position, count, all_records = chart.position(run_id), 0, list(records)
    for recorded in all_records:
        record = as_now(recorded, *names)
        try:
            after, decision = evolve(chart, position, record.input)
        except (StatusError, KeyError) as error:
            return Replay(position, count, _at(record, str(error)), len(all_records))
        if what := difference(record, position, after, decision):
            return Replay(position, count, _at(record, what), len(all_records))
        position, count = after, count + 1
    return Replay(position, count, of=count)


def _at(record: Record, what: str) -> tuple[Difference]:
    return (Difference(record.seq, record.state, what),)


def difference(record: Record, before: Position, after: Position, decision: Decision) -> str:
    """The difference between the recorded and the new decision; empty if there is none."""
    for what, recorded, now in (
        ("state", record.state, before.state),
        ("taken", record.taken, decision.taken),
        ("next", record.next, after.state),
        ("status", record.status, after.status),
        ("signals", record.signals.reasons, decision.signals.reasons),
    ):
        if recorded != now:
            return f"{what} was {say_field(recorded)}, now it is {say_field(now)}"
    return ""


def say_field(value: object) -> str:
    """A field of a record in words."""
    if isinstance(value, tuple):
        return ", ".join(str(v) for v in value) or "nothing"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(value)


class Moment(NamedTuple):
    """The position of a run just before a record is decided."""

    seq: int
    """The number of that record."""
    position: Position
    rest: int = 0
    """The number of the record that brought it there: the id of a wait."""

    def after(self, chart: Chart, record: Record) -> Moment:
        """The moment after a record, which is decided again."""
        return self.then(record, *evolve(chart, self.position, record.input))

    def then(self, record: Record, position: Position, decision: Decision) -> Moment:
        """The moment after a record with a known decision."""
        moved = decision.path or record.kind == "blocked"
        return Moment(record.seq + 1, position, record.seq if moved else self.rest)


def moment_before(chart: Chart, records: Iterable[Record], seq: int, run_id: str = "") -> Moment:
    """The moment just before record `seq` was decided."""
    moment = Moment(0, chart.position(run_id))
    for record in records:
        if record.seq >= seq:
            break
        moment = moment.after(chart, record)
    return moment


def position_before(
    chart: Chart, records: Iterable[Record], seq: int, run_id: str = ""
) -> Position:
    """The position just before record `seq` was decided."""
    return moment_before(chart, records, seq, run_id).position


def no_record_error(seq: int, last: int | None) -> UnknownRunError:
    """The error for a record that a run does not have; `last` is its newest."""
    hint = "the run has no records" if last is None else f"records are numbered 0 to {last}"
    return UnknownRunError(f"there is no record {seq}", hint=hint)
