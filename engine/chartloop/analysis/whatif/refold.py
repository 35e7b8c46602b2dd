"""A recorded run folded once more as it was: what it stopped for, and what came of it.

A what-if compares decisions with those of the machine and limits of then. A journal does not
hold them: they are made again here, for the runs that need it.

Belongs here: the run as it was. Never: what it would have been.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from chartloop.core.errors import StatusError
from chartloop.core.facts import Facts
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision
from chartloop.machine.evolve import evolve
from chartloop.run.recorded import RecordedRun
from chartloop.run.renaming import as_now
from chartloop.run.replay import difference
from chartloop.run.result import read_output, say_output

Asked = dict[str, list[bool]]
"""What registered guards answered while one record was decided, by what they were asked."""


class NotAsked(Exception):
    """A guard is asked what it was never asked while the record was decided."""


class Again(NamedTuple):
    """A run as it was recorded."""

    failed: int | None
    """The first record that is not decided as it was recorded; None when all are."""
    why: str
    stopped_at: int | None
    """The record that settled why the run stops."""
    winners: dict[int, str]
    """What it was to stop for, by the record that said so: an end may find a higher reason."""
    asked: dict[int, Asked]
    answer: str | None
    """The first line of what came of it."""
    positions: tuple[Position, ...] = ()
    """Where it stood after each record; empty where one is not decided as it was."""

    @property
    def reason(self) -> str:
        """What it stopped for in the end."""
        return next(reversed(self.winners.values()), "")


def again(chart: Chart, run: RecordedRun) -> Again:
    """The run, decided by the machine and the limits that it was started with."""
    position, asked = chart.position(run.run_id), dict[int, Asked]()
    stopped_at, winners, text = None, dict[int, str](), ""
    positions: list[Position] = []
    for recorded in run.records:
        record = as_now(recorded, chart.spec.renamed)
        listening = Listening(record)
        try:
            after, decision = evolve(chart, position, record.input, oracle=listening)
        except (StatusError, KeyError, NotAsked) as error:
            return Again(record.seq, str(error), stopped_at, winners, asked, None)
        if found := difference(record, position, after, decision):
            return Again(record.seq, found, stopped_at, winners, asked, None)
        if listening.heard:
            asked[record.seq] = listening.heard
        if stopped_at is None and stops(after, decision):
            stopped_at = record.seq
        if decision.winner:
            winners[record.seq] = decision.winner
        if record.outcome is not None and record.outcome.reply is not None:
            text = record.outcome.reply.text
        position = after
        positions.append(after)
    answer = _first_line(chart, position.facts, text)
    return Again(None, "", stopped_at, winners, asked, answer, tuple(positions))


def stops(position: Position, decision: Decision) -> bool:
    """Whether the run is over, or on its way out, for a reason that is settled."""
    return position.ended or (position.stopping and bool(decision.winner))


def _first_line(chart: Chart, facts: Facts, text: str) -> str | None:
    output, _ = read_output(chart.spec, facts, text, _never)
    lines = [] if output is None else say_output(output).strip().splitlines()
    return lines[0].strip() if lines else None


def _never(name: str, _args: tuple[Any, ...]) -> bool:
    raise ValueError(f"guard `{name}` is Python code, which is not asked again")


# registered guards --------------------------------------------------------------------------


class Listening:
    """The recorded answers of one record, in their order; hears what was asked for each."""

    __slots__ = ("_left", "heard")

    def __init__(self, record: Record) -> None:
        self._left = list(record.input.opaque)
        self.heard: Asked = {}

    def __call__(self, name: str, args: tuple[Any, ...]) -> bool:
        if not self._left:
            raise NotAsked(f"the record holds no answer of guard `{name}`")
        answer = self._left.pop(0)
        self.heard.setdefault(_question(name, args), []).append(answer)
        return answer


class Remembering:
    """The same answers, found by what is asked and not by the order in which it is."""

    __slots__ = ("_known",)

    def __init__(self, asked: Asked) -> None:
        self._known = {question: list(answers) for question, answers in asked.items()}

    def __call__(self, name: str, args: tuple[Any, ...]) -> bool:
        known = self._known.get(_question(name, args))
        if not known:
            raise NotAsked(f"guard `{name}` would be asked what it was not asked then")
        return known.pop(0) if len(known) > 1 else known[0]


def _question(name: str, args: Iterable[Any]) -> str:
    return f"{name}{tuple(args)!r}"
