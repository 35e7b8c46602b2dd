"""A drawing of one state of a run in characters, with notes on the edges that leave it.

Belongs here: the notes. Never: the drawing itself (`pictures.text.neighborhood`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from chartloop.machine.guard_text import say_value, type_of
from chartloop.pictures.text.neighborhood import Note, neighbourhood

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.core.facts import Facts
    from chartloop.core.types import Type
    from chartloop.language.expression import Expression
    from chartloop.machine.explain import Explanation
    from chartloop.pictures.flowchart import Flowchart
    from chartloop.pictures.text.draw import Drawing

DrawAt = Callable[[int], "Drawing"]
"""Makes a drawing for a number of columns."""


def state_now(run: Run, chart: Flowchart) -> DrawAt | None:
    """The current state of a run, with the values that the guards of its edges read now.

    None if the chart has no box for it, as for the engine's own ends.
    """
    guards = {
        edge.id: edge.when
        for edge in run.machine.spec.edges()
        if edge.source == run.state and edge.when is not None
    }
    roots = run.machine.spec.roots
    values = {edge: _values_now(guard, run.facts, roots) for edge, guard in guards.items()}
    notes = {edge: Note(text=f"now {value}") for edge, value in values.items() if value}
    return _drawing(run, run.state, chart, notes)


def state_as_left(run: Run, state: str, chart: Flowchart) -> DrawAt | None:
    """A state, with the outcome of each guard in the newest decision there."""
    left = {edge.id for edge in run.machine.spec.edges() if edge.source == state}
    decided = (r.seq for r in reversed(run.records) if left.intersection(r.taken))
    newest = next(decided, None)
    notes = {} if newest is None else _outcome_notes(run.why(newest), state)
    return _drawing(run, state, chart, notes)


def _drawing(run: Run, state: str, chart: Flowchart, notes: Mapping[str, Note]) -> DrawAt | None:
    if state not in {box.id for box in chart.boxes}:
        return None
    own = run.machine.spec.states.get(state)
    inside = [f"does {own.action.name}"] if own is not None and own.action is not None else []
    return lambda width: neighbourhood(chart, state, width=width, notes=notes, inside=inside)


def _outcome_notes(explanation: Explanation, state: str) -> dict[str, Note]:
    rows = (row for row in explanation.rows if row.kind == "edge" and row.state == state)
    return {
        row.id: Note(
            row.mark,
            ", ".join(f"{a.left} against {a.right}" if a.right else a.left for a in row.atoms),
        )
        for row in rows
    }


def _values_now(guard: Expression, facts: Facts, roots: Mapping[str, Type]) -> str:
    """The values that a guard compares now: ``0 against 3``. Empty if there are none."""
    values: list[str] = []
    for reading in guard.readings(facts):
        if reading.error or reading.right is None:
            continue
        type = type_of(reading, guard, roots)
        values.append(f"{say_value(reading.left, type)} against {say_value(reading.right, type)}")
    return ", ".join(values)
