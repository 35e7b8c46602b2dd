"""The changes that a run can still meet from its position.

A run that has ended meets none. A change of words does not count, nor one that matters only at the
start of a run (initial tasks, initial values).

Belongs here: selecting from the changes between two files. Never: finding them (`versions.diff`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any, cast

from chartloop.analysis.versions.diff.change import Change
from chartloop.analysis.versions.diff.diff import say, where
from chartloop.analysis.versions.migration.verdict import Ahead
from chartloop.core.errors import NOWHERE
from chartloop.language.expression import Expression
from chartloop.language.label import Label
from chartloop.language.spec import MachineSpec, Rule
from chartloop.language.template.template import Template
from chartloop.machine.build import Chart

ON_ERROR = "on_error"
"""The id of the edge for failures that nothing else handles."""


class Reach:
    """The part of a machine that a run can still reach from some of its states."""

    def __init__(self, chart: Chart, begin: Collection[str]) -> None:
        self.spec: MachineSpec = chart.spec
        self.states = _reachable_states(chart, begin)

    @cached_property
    def acts(self) -> bool:
        """Whether any of these states has an action."""
        return any(self.spec.states[name].action is not None for name in self.states)

    @cached_property
    def runs_children(self) -> bool:
        """Whether any of these states runs child machines."""
        return any(self.spec.states[name].traits.runs != "none" for name in self.states)

    @cached_property
    def reads(self) -> frozenset[str]:
        """The facts that are read there, including by rules."""
        reads: set[str] = set(_read(self.spec.output))
        for name in self.states:
            reads |= set(_read(self.spec.states[name]))
        for rule in self.spec.rules:
            if self.covers(rule):
                reads |= set(_read(rule))
        return frozenset(reads)

    def has_edge(self, id: str) -> bool:
        """Whether an edge may be taken there; `on_error` from any state with an action."""
        if id == ON_ERROR:
            return self.acts
        return id.partition(".")[0] in self.states

    def has_rule(self, id: str) -> bool:
        """Whether a rule, by id, is evaluated there."""
        return any(rule.id == id and self.covers(rule) for rule in self.spec.rules)

    def covers(self, rule: Rule) -> bool:
        """Whether a rule is evaluated in one of these states, or before one."""
        named = (*rule.at, *rule.before)
        return not named or not self.states.isdisjoint(named)


def _reachable_states(chart: Chart, begin: Collection[str]) -> frozenset[str]:
    spec, seen = chart.spec, set[str]()
    pending = [*begin, *(chart.route(reason) for reason in spec.reasons)]
    pending += [spec.on_error.target] if spec.on_error is not None else []
    while pending:
        name = pending.pop()
        if name in seen or name not in spec.states:
            continue
        seen.add(name)
        pending += [edge.target for edge in spec.states[name].edges]
        covering = (r for r in spec.rules if name in (*r.at, *r.before) or not (r.at or r.before))
        pending += [rule.to for rule in covering if rule.to]
    return frozenset(seen)


def _read(value: Any) -> Iterator[str]:
    """Yield the facts that the expressions and templates of a part of a file read."""
    if isinstance(value, (Expression, Template, Label)):
        yield from value.reads
    elif isinstance(value, Mapping):
        for one in cast("Mapping[str, Any]", value).values():
            yield from _read(one)
    elif isinstance(value, (tuple, list)):
        for one in cast("tuple[Any, ...]", value):
            yield from _read(one)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            yield from _read(getattr(value, one.name))


def ahead(
    changes: tuple[Change, ...], before: Reach, after: Reach, *,
    given: Collection[str], files: tuple[str, str],
) -> tuple[Ahead, ...]:  # fmt: skip
    """Return the changes that a run can meet. `given` are limits that it was started with."""
    met = (c for c in changes if _affects_runs(c) and _meets(c, before, after, given))
    return tuple(Ahead(say(change), _where(change, files)) for change in met)


def changed_routes(old: Chart, new: Chart, states: Mapping[str, str]) -> Iterator[Ahead]:
    """Yield stops that lead to another end, because a state for them was added or removed.

    `states` maps the old machine's states to their new names. A changed `on_stop` is a change of
    its own.
    """
    names = {**states, "": ""}
    if names.get(old.spec.on_stop or "", old.spec.on_stop) != (new.spec.on_stop or ""):
        return
    moved: dict[tuple[str, str], list[str]] = {}
    for reason in (r for r in old.spec.reasons if r in new.spec.reasons):
        was, now = old.route(reason), new.route(reason)
        if states.get(was, was) != now:
            moved.setdefault((was, now), []).append(f"`{reason}`")
    for (was, now), reasons in moved.items():
        words = f"a stop for {' or '.join(reasons)} leads to `{now}` instead of `{was}`"
        place = new.spec.place(("states", now), key=True) if now in new.spec.states else NOWHERE
        yield Ahead(words, str(place) if place.line else "")


def _affects_runs(change: Change) -> bool:
    """Whether a change affects runs: a new name for a state does not."""
    return not change.only_words and change.kind != "renamed"


def _where(change: Change, files: tuple[str, str]) -> str:
    """The place of a change in both files; only in the new one if the old is from a journal."""
    if "<" not in files[0]:
        return where(change, ("", ""))
    return str(change.after.place) if change.after is not None and change.after.place.line else ""


def _meets(change: Change, before: Reach, after: Reach, given: Collection[str]) -> bool:
    if change.within:
        return before.runs_children or after.runs_children
    sides = ((change.before, before), (change.after, after))
    here = [(side, reach) for side, reach in sides if side is not None]
    match change.what:
        case "state":
            return any(side.id in reach.states for side, reach in here)
        case "edge":
            return any(reach.has_edge(side.id) for side, reach in here)
        case "rule":
            return any(reach.has_rule(side.id) for side, reach in here)
        case "limit":
            name = change.side.name
            return name not in given and any(f"limits.{name}" in r.reads for _, r in here)
        case "variable":
            name = f"vars.{change.side.name}"
            return change.aspect != "value" and any(name in r.reads for _, r in here)
        case "memory":
            return change.aspect != "value"
        case "task":
            return False
        case "child":
            return before.runs_children or after.runs_children
        case "machine":
            return change.aspect not in ("start", "tasks", "order", "machine", "agent")
        case _:
            return True
