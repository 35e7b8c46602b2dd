"""Where a run stands, in words: what comes next, and what will be decided after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from chartloop.cli import console
from chartloop.cli.outcome_text import ending
from chartloop.cli.table import Line, Row, table_lines
from chartloop.language.expression import Expression
from chartloop.language.template.template import Template
from chartloop.machine.budget_use import budgets

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.language.spec import Given, StateSpec
    from chartloop.machine.regions import GuardedTransition

BARS = 4
"""Budgets that are shown: the fullest."""


def standing(run: Run, width: int | None = None) -> list[Line]:
    """The state, what its action will be, and what would be decided after it."""
    return [*standing_head(run), *table_lines(standing_rows(run), width=width, indent="  ")]


def standing_head(run: Run) -> list[Line]:
    """Where the run is; of one that has ended, how."""
    if run.ended:
        return [Line(console.plain(s.text), s.colour) for s in ending(run.result)]
    return [Line(f"step {run.facts.run.steps + 1}  at {run.state}, {run.status}", "bold")]


def standing_rows(run: Run, *, ways: bool = True) -> list[Row]:
    """What comes next: the action or the question, the ways on if `ways`, the budgets."""
    state = run.machine.spec.states.get(run.state)
    if run.ended:
        return []
    if run.status == "idle":
        return [Row(("does", "start: enters the first state"))]
    if events := run.result.events:
        return [Row(cells) for cells in _asked(run, events, state)]
    if state is None or state.action is None:
        return [Row(("does", "nothing: `do` goes on"))]
    paused = [("paused", "`do` goes on")] if run.status == "paused" else []
    then = _ways(run) if ways else ()
    return [*(Row(cells) for cells in (*paused, *_action(state), *then)), *_rules(run)]


def _asked(run: Run, events: tuple[str, ...], state: StateSpec | None) -> list[tuple[str, str]]:
    edges = {e.trigger: e for e in state.edges_of("on")} if state is not None else {}
    result = run.result
    rows = [("asks", result.question or ""), ("wait", result.wait or "")]
    for event in events:
        edge = edges.get(event)
        given = "".join(f" {n}={str(t).upper()}" for n, t in edge.data) if edge else ""
        to = f"  → {edge.target}" if edge else ""
        rows.append(("answer", f"answer {event}{given}{to}"))
    return rows


def _action(state: StateSpec) -> Iterator[tuple[str, str]]:
    action = state.action
    assert action is not None
    yield "does", f"{action.name}: {action.about}" if action.about else action.name
    for name, given in state.args.items():
        yield "with", f"{name}: {_shortened(_written(given))}"


def _written(given: Given) -> str:
    """A field of `with` as the file writes it."""
    value: Any = given.value
    if isinstance(value, (Expression, Template)):
        return value.text
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        return ", ".join(f"{n}: {getattr(v, 'text', v)}" for n, v in parts.items())
    return str(value)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:159] + "…"


def _ways(run: Run) -> Iterator[tuple[str, str]]:
    """The edges that will be tried after the action, in order."""
    event = run.machine.chart.event("advance")
    found: list[GuardedTransition] = list(event.at(run.state)) if event is not None else []
    for number, way in enumerate(found):
        guard = " and ".join(g.__name__ for g in way.guards) or "otherwise"
        said = guard if len(found) > 1 else ""
        yield (
            "then" if number == 0 else "",
            f"{f'{said}  ' if said else ''}→ {way.dest or '(back)'}",
        )


def _rules(run: Run) -> Iterator[Row]:
    chart = run.machine.chart
    covering = chart.rules_at(run.state)
    if covering is None:
        return
    yield Row(("rules", f"{len(covering.numbers)} looked at first"))
    found = budgets(chart, run.facts)
    fullest = sorted(found, key=lambda b: b.share, reverse=True)[:BARS]
    for budget in (b for b in found if b in fullest):
        colour = "" if budget.colour == "green" else budget.colour
        said = f"{budget.bar}  {budget.fact}  {budget.said}"
        yield Row(("", said), colour, hang=len(budget.bar) + 2)
