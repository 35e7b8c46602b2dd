"""Notes on a sound machine: where failures go, what ends by itself, what only people change.

Unlike a finding, a note has neither code nor place, and needs no action.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chartloop.analysis.checker.unused import parameters
from chartloop.analysis.checker.waits import endless_waits
from chartloop.core.errors import Note
from chartloop.core.units import say_duration, say_some
from chartloop.language.spec import StateSpec
from chartloop.machine.build import Chart

MOST_NAMED = 6
"""The most names that a note lists."""


def notes_of(chart: Chart) -> tuple[Note, ...]:
    """Return the notes on a machine, without those on its children."""
    return (_failures(chart), *_deadlines(chart), *_waits(chart), *_parameters(chart))


def _failures(chart: Chart) -> Note:
    """The note on where failed actions go."""
    spec, acting = chart.spec, sorted(chart.acting)
    handled = tuple(n for n in acting if n in chart.handled)
    rest = "stop the run with `error`"
    if spec.on_error is not None:
        rest = f"go to {spec.on_error.target}"
    if not handled:
        return Note("failures", f"failed actions {rest}")
    if len(handled) == len(acting):
        return Note("failures", "failures of all actions are handled by the file", handled)
    where = f"failures at {', '.join(handled)} are handled by the file, others {rest}"
    return Note("failures", where, handled)


def _deadlines(chart: Chart) -> Iterator[Note]:
    """The deadlines that actions have by default."""
    states: dict[tuple[str, float], list[StateSpec]] = {}
    for state in chart.spec.states.values():
        usual = None if state.action is None else state.action.within
        if state.action is not None and usual is not None and state.within == usual:
            states.setdefault((state.action.name, usual), []).append(state)
    for (action, within), found in states.items():
        names, after = tuple(state.name for state in found), say_duration(within)
        message = f"{_some(names)}: `{action}` is stopped after {after}, unless `within` differs"
        yield Note("deadlines", message, names)


def _waits(chart: Chart) -> Iterator[Note]:
    names = tuple(state.name for state in endless_waits(chart.spec))
    if names:
        yield Note("waits", f"{_some(names)}: waits for an answer without a deadline", names)


def _parameters(chart: Chart) -> Iterator[Note]:
    names = tuple(f"vars.{name}" for name in parameters(chart.spec))
    if names:
        message = f"{_some(names)}: nothing in the file changes it, a caller may give it"
        yield Note("parameters", message, names)


def _some(names: Sequence[str]) -> str:
    return say_some([f"`{name}`" for name in names], MOST_NAMED)
