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
from chartloop.core.errors import Place
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
    changes = drawn
    if any(spec.approve is not None for one in (a, b) for spec in one.family()):
        authored = _Comparator(a, b, (), authored=True).all_changes()
        changes = tuple(sorted(authored, key=_display_order))
    return Comparison(changes, expanded.pairs(), drawn)


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
                if matched.is_reordered(ours, theirs):
                    yield self._order((one, other), "all" if before.all else "next", ours, theirs)

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
        if matched.is_reordered(ours, theirs):
            whole = machine_part(self.a), machine_part(self.b)
            yield self._order(whole, "rules", ours, theirs)

    def _named_changes(self) -> Iterator[Change]:
        ours = [*named_parts(self.a, self.names), *approve_parts(self.a, self.names)]
        theirs = [*named_parts(self.b), *approve_parts(self.b)]
        matched = match(ours, theirs, [lambda part: (part.what, part.name)])
        yield from self._removed_and_added(matched.gone, matched.new)
        for one, other in matched.both:
            yield from self._differences(one, other)
        tools = [[p for p in parts if p.what == "tool"] for parts in (ours, theirs)]
        both = Matched([pair for pair in matched.both if pair[0].what == "tool"], [], [])
        if both.is_reordered(*tools):
            whole = machine_part(self.a), machine_part(self.b)
            yield self._order(whole, "tools", *tools)

    def _tasks(self) -> Iterator[Change]:
        ours, theirs, matched = tasks_of(self.a, self.b)
        yield from self._list_changes(matched)
        if matched.is_reordered(ours, theirs):
            yield self._order((machine_part(self.a), machine_part(self.b)), "order", ours, theirs)

    def _children(self) -> Iterator[Change]:
        def part(name: str, spec: MachineSpec) -> Part:
            message = f"{len(spec.states)} states"
            return Part("child", name, name, ("machines", name), {}, message)

        removed = [part(n, s) for n, s in self.a.machines.items() if n not in self.b.machines]
        added = [part(n, s) for n, s in self.b.machines.items() if n not in self.a.machines]
        yield from self._removed_and_added(removed, added)
        for name in (n for n in self.a.machines if n in self.b.machines):
            inner = replace(
                self, a=self.a.machines[name], b=self.b.machines[name],
                within=(*self.within, name),
            )  # fmt: skip
            yield from inner.all_changes()

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
            if old is not None and new is not None and old.guard and new.guard:
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
        sides = [
            None
            if aspect is None
            else Side(part.name, aspect.text, self._at(n, aspect.path), part.id)
            for n, (part, aspect) in enumerate(zip(parts, aspects, strict=True))
        ]
        return Change(kind, one.what, name, sides[0], sides[1], effects, self.within)

    def _change(self, kind: Kind, one: Part | None, other: Part | None) -> Change:
        """The change of a whole part: added, removed or renamed."""
        sides = [
            None
            if part is None
            else Side(part.name, part.text, self._at(n, part.path, key=True), part.id)
            for n, part in enumerate((one, other))
        ]
        known = one or other
        assert known is not None
        return Change(kind, known.what, "", sides[0], sides[1], (), self.within)

    def _order(
        self, parts: tuple[Part, Part], aspect: str, ours: Sequence[Part], theirs: Sequence[Part]
    ) -> Change:
        """The change of the order of entries."""
        path = {"rules": ("rules",), "tools": ("tools",), "order": ("tasks",)}.get(aspect)
        orders = [_in_order(entries) for entries in (ours, theirs)]
        sides = [
            Side(part.name, text, self._at(n, path or (*part.path, aspect), key=True), part.id)
            for n, (part, text) in enumerate(zip(parts, orders, strict=True))
        ]
        return Change("moved", parts[0].what, aspect, sides[0], sides[1], (), self.within)

    def _at(self, number: int, path: Any, *, key: bool = False) -> Place:
        return (self.a, self.b)[number].place(path, key=key)

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
        if old is None or new is None or aspects[0].value != aspects[1].value:
            return
        if name not in ("when", "within"):
            return
        before, after = (part.name for part in parts)
        deadline = name == "within"
        stops = 0 if deadline else self._stops(parts)
        self.guards.append(_Guard(before, after, old, new, stops, deadline))

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
            if signs[0] != signs[1] or signs[0] not in ("+", "-") or not _are_numbers(old, new):
                continue
            moved = (1 if new > old else -1) * (1 if signs[0] == "+" else -1)
            time: Way = "longer" if moved > 0 else "shorter"
            way = time if guard.deadline else _way(moved, guard.stops)
            yield Effect(guard.before, guard.after, way)


def _are_numbers(old: Any, new: Any) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (old, new))


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
    seen, left = set[str](), [edge.target for edge in state.edges]
    while left:
        if (name := left.pop()) == state.name:
            return True
        if name not in seen and name in spec.states:
            seen.add(name)
            left += [edge.target for edge in spec.states[name].edges]
    return False


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
