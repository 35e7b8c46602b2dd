"""Compares two machines by meaning: their specs, aspect by aspect.

Belongs here: from two specs to `Change` records, and the effects of guards on a run. Never: wording
a difference (`change`), showing or drawing it.

Source:      the issue "Pictures", 3
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from chartloop.analysis.versions.diff.align import (
    Matched,
    Pairs,
    edges_of,
    match,
    rules_of,
    states_of,
    tasks_of,
)
from chartloop.analysis.versions.diff.change import GROUPS, Change, Effect, Kind, Side, Way
from chartloop.analysis.versions.diff.guards import Shift
from chartloop.analysis.versions.diff.machine_parts import (
    Aspect,
    Part,
    Renaming,
    approve_parts,
    edge_part,
    machine_part,
    named_parts,
    state_part,
)
from chartloop.core.digraph import reachable
from chartloop.language.expression import Expression
from chartloop.language.spec import MachineSpec, StateSpec


class Comparison(NamedTuple):
    """The changes, and the pairs of corresponding parts."""

    changes: tuple[Change, ...]
    pairs: Pairs
    """The pairs of the machines themselves, without those of their children."""
    drawn: tuple[Change, ...]
    """The changes of the expanded machines, which pictures show and runs meet."""


class _Guard(NamedTuple):
    """A guard that both machines have, with the name of its owner in each."""

    before: str
    after: str
    old: Expression
    new: Expression
    stops: int
    """1 if the run stops where it holds, -1 if it stops where it does not, else 0."""
    deadline: bool = False
    """Whether it is the deadline of an action or wait, not a guard."""


def compare(a: MachineSpec, b: MachineSpec) -> Comparison:
    """Return the changes from the first machine to the second, in order of display."""
    expanded = _Comparator(a, b, ())
    drawn = tuple(sorted(expanded.all_changes(), key=_display_order))
    changes = sorted(_Comparator(a, b, (), authored=True).all_changes(), key=_display_order)
    return Comparison(tuple(changes), expanded.pairs(), drawn)


def _display_order(change: Change) -> tuple[Any, ...]:
    place = change.side.place
    return (change.within, GROUPS.index(change.group), place.line, place.column, str(change))


@dataclass
class _Comparator:
    """A comparison of two machines; each child has its own."""

    a: MachineSpec
    b: MachineSpec
    within: tuple[str, ...]
    authored: bool = False
    """Whether the machines are compared as their files have them."""

    def __post_init__(self) -> None:
        if self.authored:
            self.a, self.b = self.a.authored, self.b.authored
        self.states = states_of(self.a, self.b)
        self.names = Renaming({o: n for o, n in self.states.items() if o != n})
        self.shift = Shift(
            {n: x.value for n, x in self.a.limits.items()},
            {n: x.value for n, x in self.b.limits.items()},
            self.names.text,
        )
        self.edges: dict[str, str] = {}
        self.rules: dict[str, str] = {}
        self.guards: list[_Guard] = []

    def pairs(self) -> Pairs:
        return Pairs(self.states, self.edges, self.rules)

    def all_changes(self) -> Iterator[Change]:
        yield from self._differences(machine_part(self.a, self.names), machine_part(self.b))
        yield from self._states()
        yield from self._error_edge()
        yield from self._rules()
        yield from self._named_changes()
        yield from self._tasks()
        yield from self._children()

    # things ---------------------------------------------------------------------------------

    def _states(self) -> Iterator[Change]:
        back = {new: old for old, new in self.states.items()}
        removed = [state_part(s) for n, s in self.a.states.items() if n not in self.states]
        added = [state_part(s) for n, s in self.b.states.items() if n not in back]
        yield from self._removed_and_added(removed, added)
        for old, now in self.states.items():
            before, after = self.a.states[old], self.b.states[now]
            one, other = state_part(before, self.names), state_part(after)
            if old != now:
                yield self._change("renamed", one, other)
            yield from self._differences(one, other)
            for ours, theirs, matched in edges_of(before, after, self.names):
                yield from self._list_changes(matched)
                self.edges |= {x.id: y.id for x, y in matched.both}
                aspect = "all" if before.all else "next"
                yield from self._order(matched, aspect, ours, theirs, (one, other))

    def _error_edge(self) -> Iterator[Change]:
        ours, theirs = (
            [edge_part(spec.on_error, names)] if spec.on_error else []
            for spec, names in self._both()
        )
        matched = match(ours, theirs, [lambda part: part.what])
        yield from self._list_changes(matched)
        self.edges |= {x.id: y.id for x, y in matched.both}

    def _both(self) -> tuple[tuple[MachineSpec, Renaming], ...]:
        return (self.a, self.names), (self.b, Renaming())

    def _rules(self) -> Iterator[Change]:
        ours, theirs, matched = rules_of(self.a, self.b, self.names)
        yield from self._list_changes(matched)
        self.rules |= {x.id: y.id for x, y in matched.both}
        yield from self._order(matched, "rules", ours, theirs)

    def _named_changes(self) -> Iterator[Change]:
        ours = [*named_parts(self.a, self.names), *approve_parts(self.a, self.names)]
        theirs = [*named_parts(self.b), *approve_parts(self.b)]
        matched = match(ours, theirs, [lambda part: (part.what, part.name)])
        yield from self._list_changes(matched)
        tools = [[p for p in parts if p.what == "tool"] for parts in (ours, theirs)]
        both = Matched([pair for pair in matched.both if pair[0].what == "tool"], [], [])
        yield from self._order(both, "tools", tools[0], tools[1])

    def _tasks(self) -> Iterator[Change]:
        ours, theirs, matched = tasks_of(self.a, self.b)
        yield from self._list_changes(matched)
        yield from self._order(matched, "order", ours, theirs)

    def _children(self) -> Iterator[Change]:
        ours, theirs = (
            [
                Part("child", name, name, ("machines", name), {}, f"{len(child.states)} states")
                for name, child in spec.machines.items()
            ]
            for spec in (self.a, self.b)
        )
        matched = match(ours, theirs, [lambda part: part.name])
        yield from self._removed_and_added(matched.gone, matched.new)
        for name in (one.name for one, _ in matched.both):
            a, b = self.a.machines[name], self.b.machines[name]
            yield from replace(self, a=a, b=b, within=(*self.within, name)).all_changes()

    # records --------------------------------------------------------------------------------

    def _removed_and_added(
        self, removed: Iterable[Part], added: Iterable[Part]
    ) -> Iterator[Change]:
        yield from (self._change("removed", part, None) for part in removed)
        yield from (self._change("added", None, part) for part in added)

    def _list_changes(self, matched: Matched) -> Iterator[Change]:
        """The differences of two lists, apart from their order."""
        yield from self._removed_and_added(matched.gone, matched.new)
        for one, other in matched.both:
            yield from self._differences(one, other)

    def _differences(self, one: Part, other: Part) -> Iterator[Change]:
        """Compare two parts, aspect by aspect."""
        for name in dict.fromkeys((*one.aspects, *other.aspects)):
            head = name.partition(".")[0]
            if head != name and (head in one.aspects) != (head in other.aspects):
                continue  # added or removed as a whole, which is one change
            old, new = one.aspects.get(name), other.aspects.get(name)
            if old is not None and new is not None:
                self._note_guard(name, (one, other), (old, new))
            if old is None or new is None or old.value != new.value:
                yield self._aspect(name, (one, other), (old, new))

    def _aspect(
        self, name: str, parts: tuple[Part, Part], aspects: tuple[Aspect | None, Aspect | None]
    ) -> Change:
        one, (old, new) = parts[0], aspects
        kind: Kind = "removed" if new is None else "added" if old is None else "changed"
        effects: tuple[Effect, ...] = ()
        if old is not None and new is not None:
            if one.what == "edge" and name == "to":
                kind = "retargeted"
            elif one.what == "approve":
                pass  # what it does to consent is said by itself
            elif old.guard is not None and new.guard is not None and old.guard.type.kind == "bool":
                kind, effects = self._guard_change(parts, old.guard, new.guard)
            elif one.what == "limit" and name == "value":
                effects = tuple(self._of_limit(one.name))
            elif one.what == "server" and name.partition(".")[0] in ("sampling", "elicitation"):
                kind = "loosened" if float(new.value) > float(old.value) else "tightened"
        before, after = (
            aspect and self._side(n, part, aspect.text, aspect.path, key=False)
            for n, (part, aspect) in enumerate(zip(parts, aspects, strict=True))
        )
        return Change(kind, one.what, name, before, after, effects, self.within)

    def _change(self, kind: Kind, one: Part | None, other: Part | None) -> Change:
        """The change of a whole part: added, removed or renamed."""
        before, after = (
            part and self._side(n, part, part.text, part.path)
            for n, part in enumerate((one, other))
        )
        known = one or other
        assert known is not None
        return Change(kind, known.what, "", before, after, (), self.within)

    def _order(
        self, matched: Matched, aspect: str, ours: Sequence[Part], theirs: Sequence[Part],
        owner: tuple[Part, Part] | None = None,
    ) -> Iterator[Change]:  # fmt: skip
        """The change of the order of entries, if there is one; without an owner of the machine."""
        if not matched.is_reordered(ours, theirs):
            return
        parts = owner or (machine_part(self.a), machine_part(self.b))
        path = {"rules": ("rules",), "tools": ("tools",), "order": ("tasks",)}.get(aspect)
        before, after = (
            self._side(n, part, _in_order(entries), path or (*part.path, aspect))
            for n, (part, entries) in enumerate(zip(parts, (ours, theirs), strict=True))
        )
        yield Change("moved", parts[0].what, aspect, before, after, (), self.within)

    def _side(self, number: int, part: Part, text: str, path: Any, *, key: bool = True) -> Side:
        place = (self.a, self.b)[number].place(path, key=key)
        return Side(part.name, text, place, part.id)

    # guards ---------------------------------------------------------------------------------

    def _guard_change(
        self, parts: tuple[Part, Part], old: Expression, new: Expression
    ) -> tuple[Kind, tuple[Effect, ...]]:
        moved = self.shift.of(old.root, new.root)
        if not moved:
            return "changed", ()
        way = _way(moved, self._stops(parts)) if parts[0].what != "definition" else None
        kind: Kind = "loosened" if moved > 0 else "tightened"
        return kind, (Effect("", "", way),) if way else ()

    def _note_guard(
        self, name: str, parts: tuple[Part, Part], aspects: tuple[Aspect, Aspect]
    ) -> None:
        """Remember a guard that is the same in both, for the effects of changed limits on it."""
        old, new = aspects[0].guard, aspects[1].guard
        if old and new and aspects[0].value == aspects[1].value and name in ("when", "within"):
            deadline = name == "within"
            stops = 0 if deadline else self._stops(parts)
            self.guards.append(_Guard(parts[0].name, parts[1].name, old, new, stops, deadline))

    def _stops(self, parts: tuple[Part, Part]) -> int:
        """Where the run stops by a guard, if both machines agree: see `_Guard.stops`."""
        one, other = _stops(self.a, parts[0]), _stops(self.b, parts[1])
        return one if one == other else 0

    def _of_limit(self, name: str) -> Iterator[Effect]:
        """The effects of a changed limit on the guards that read it."""
        old, new = self.a.limits[name].value, self.b.limits[name].value
        for guard in self.guards:
            if f"limits.{name}" not in guard.new.reads:
                continue
            if old is None or new is None:
                yield Effect(guard.before, guard.after, "on" if old is None else "off")
                continue
            signs = [e.direction(f"limits.{name}") for e in (guard.old, guard.new)]
            if signs[0] != signs[1] or signs[0] not in ("+", "-"):
                continue
            if not {type(old), type(new)} <= {int, float}:
                continue
            moved = (1 if new > old else -1) * (1 if signs[0] == "+" else -1)
            time: Way = "longer" if moved > 0 else "shorter"
            way = time if guard.deadline else _way(moved, guard.stops)
            yield Effect(guard.before, guard.after, way)


def _way(moved: int, stops: int) -> Way:
    if not stops:
        return "more" if moved > 0 else "fewer"
    return "sooner" if moved * stops > 0 else "later"


def _stops(spec: MachineSpec, part: Part) -> int:
    """1 if a run stops where the guard of a part holds, -1 if where it does not, else 0.

    A guard of a state stops a run only if the run could come back to it otherwise: where both ways
    lead on to an end, it chooses a way.
    """
    if part.what == "rule":
        return 1 if "stop" in part.aspects else 0
    state = spec.states.get(part.id.partition(".")[0])
    if state is None or not _returns(spec, state):
        return 0
    ends = {e.id: bool(e.stop) or _is_stop(spec, e.target) for e in state.edges}
    if part.what == "edge":
        return int(ends.get(part.id, False))
    roles = {e.role: ends[e.id] for e in state.edges}
    return int(roles.get("then", False)) - int(roles.get("else", False))


def _returns(spec: MachineSpec, state: StateSpec) -> bool:
    """Whether a path leads from a state back to it."""

    def onward(name: str) -> list[str]:
        return [edge.target for edge in spec.states[name].edges] if name in spec.states else []

    return state.name in reachable(onward(state.name), onward)


def _is_stop(spec: MachineSpec, name: str) -> bool:
    state = spec.states.get(name)
    return state is not None and bool(state.stop or state.end)


_NAMED = 12
"""The most entries of a list that are named."""


def _in_order(entries: Sequence[Part]) -> str:
    """The names of a list's entries; for edges, their targets."""
    names = [p.aspects["to"].text if p.what == "edge" else p.name for p in entries]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
