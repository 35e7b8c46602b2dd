"""The changes that a run can still meet from its position.

A run that has ended meets none. A change of words does not count, nor one that matters only at the
start of a run (initial tasks, initial values).

Belongs here: selecting from the changes between two files. Never: finding them (`versions.diff`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from chartloop.analysis.checker.check_context import parts_of, reads_of
from chartloop.analysis.versions.diff.change import Change
from chartloop.analysis.versions.diff.diff import say, where
from chartloop.analysis.versions.migration.verdict import Ahead
from chartloop.core.digraph import reachable
from chartloop.core.errors import NOWHERE
from chartloop.language.spec import Rule
from chartloop.machine.build import Chart

ON_ERROR = "on_error"
"""The id of the edge for failures that nothing else handles."""


class Reach:
    """The part of a machine that a run can still reach from some of its states."""

    def __init__(self, chart: Chart, begin: Collection[str]) -> None:
        spec = self.spec = chart.spec
        starts = [*begin, *map(chart.route, spec.reasons)]
        starts += [spec.on_error.target] if spec.on_error is not None else []
        everywhere = [r.to for r in spec.rules if not r.at and not r.before]

        def onward(name: str) -> Iterator[str]:
            led = [r.to for r in spec.rules if name in r.at or name in r.before]
            targets = [edge.target for edge in spec.states[name].edges]
            yield from (to for to in (*targets, *led, *everywhere) if to in spec.states)

        self.states = frozenset(reachable((n for n in starts if n in spec.states), onward))

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
        spec = self.spec
        states = [state for name, state in spec.states.items() if name in self.states]
        here = (spec.output, states, [rule for rule in spec.rules if self.covers(rule)])
        return frozenset(fact for part, _ in parts_of(here) for fact in reads_of(spec, part))

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


def ahead(
    changes: tuple[Change, ...], before: Reach, after: Reach, *,
    given: Collection[str], files: tuple[str, str],
) -> tuple[Ahead, ...]:  # fmt: skip
    """Return the changes that a run can meet. `given` are limits that it was started with."""
    # a new name for a state does not affect a run
    real = (c for c in changes if not c.only_words and c.kind != "renamed")
    met = (change for change in real if _meets(change, before, after, given))
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
