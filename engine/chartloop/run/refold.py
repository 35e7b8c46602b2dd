"""Refold: the records of a run, decided again one after another, with no effects.

A journal holds inputs and where they led. Positions, reasons and the guards that were evaluated are
computed again, by the machine that the run was started with or by another. Replay, explanations,
views of the past, forks and studies all walk the records of a run with this one function.

    records ─▶ with the names of this machine ─▶ evolve ─▶ record, before, after, decision

It decides recorded inputs only: a what-if, which asks about others, calls `evolve` itself. The
caller says what a difference means.

Source: docs/design.md, "A step"; a law of the design: refolding every prefix of a run gives the
positions that the live run had.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.core.values import Value
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision, moved
from chartloop.machine.evolve import Oracle, evolve
from chartloop.run.renaming import Names, as_now


class Refolded(Value, frozen=True, gc=False):
    """One record, decided again."""

    record: Record
    """The record, with the names of the machine that decides it again."""
    before: Position
    after: Position
    decision: Decision
    rest: int = 0
    """The number of the refolded record that brought the run to where it then stands, which is the
    id of a wait; 0 if none did."""
    error: Exception | None = None
    """Why the record cannot be decided; then `after` is `before`, and the decision is empty."""

    @property
    def difference(self) -> str:
        """How the new decision differs from the recorded one; empty if they are the same."""
        if self.error is not None:
            return str(self.error) or type(self.error).__name__
        record, decision = self.record, self.decision
        for what, recorded, now in (
            ("state", record.state, self.before.state),
            ("taken", record.taken, decision.taken),
            ("next", record.next, self.after.state),
            ("status", record.status, self.after.status),
            ("signals", record.signals.reasons, decision.signals.reasons),
        ):
            if recorded != now:
                return f"{what} was {say_field(recorded)}, now it is {say_field(now)}"
        return ""


def refold(
    chart: Chart, records: Iterable[Record], position: Position, *,
    names: Names | None = None, trace_from: int | None = None,
    oracle: Callable[[Record], Oracle] | None = None,
    catch: tuple[type[Exception], ...] = (),
) -> Iterator[Refolded]:  # fmt: skip
    """Decide records again, one after another, from the position before the first of them.

    A whole run is refolded from `chart.position(run_id)`. `names` maps the states and edges of the
    records to those of this machine; by default its file's `renamed`. Decisions are traced from
    record `trace_from`, and none by default. `oracle` returns the registered Python guards of a
    record; by default their recorded results count.

    The walk ends after a record that cannot be decided if its exception is in `catch`; any other is
    raised.
    """
    states, edges = Names(chart.spec.renamed) if names is None else names
    rest = 0
    for recorded in records:
        record = as_now(recorded, states, edges) if states or edges else recorded
        trace = trace_from is not None and record.seq >= trace_from
        ask = None if oracle is None else oracle(record)
        try:
            after, decision = evolve(chart, position, record.input, oracle=ask, trace=trace)
        except catch as error:
            nowhere = Decision(position.state, record.input)
            yield Refolded(record, position, position, nowhere, rest, error)
            return
        if moved(decision):
            rest = record.seq
        yield Refolded(record, position, after, decision, rest)
        position = after


def refold_last(chart: Chart, records: Iterable[Record], run_id: str) -> Refolded:
    """The last of a run's first records, which already have the names of this machine."""
    steps = refold(chart, records, chart.position(run_id), names=Names())
    return deque(steps, maxlen=1).pop()


def say_field(value: object) -> str:
    """A field of a record in words."""
    if isinstance(value, tuple):
        return ", ".join(str(v) for v in value) or "nothing"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(value)
