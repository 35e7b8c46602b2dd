"""Pairs corresponding states, edges, rules and tasks of two machines.

States are paired by name, then by `renamed` in the file, then by label and neighbourhood: the rest
is aligned as charts are (`pictures.compare.align`), and two states are a rename only if at least
half of their aspects are equal. Entries of lists are paired by their aspects, from all of them to
the fewest. The pairs are the same in both directions.

Belongs here: pairs. Never: the differences within a pair (`compare`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from chartloop.analysis.versions.diff.machine_parts import (
    SAME,
    Part,
    Renaming,
    edge_part,
    rule_part,
    state_part,
    task_parts,
)
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.pictures.compare.align import align
from chartloop.pictures.compare.cost import Graph, Node

T = TypeVar("T")
Key = Callable[[T], Hashable]


@dataclass(frozen=True)
class Pairs:
    """The pairs: names and ids of the first machine, mapped to those of the second."""

    states: Mapping[str, str]
    edges: Mapping[str, str]
    rules: Mapping[str, str]


@dataclass(frozen=True)
class Matched:
    """The paired entries of two lists, and the entries of only one."""

    both: list[tuple[Part, Part]]
    gone: list[Part]
    new: list[Part]

    def is_reordered(self, order: Sequence[Part], other: Sequence[Part]) -> bool:
        """Whether the paired entries are in another order."""
        place = {id(part): n for n, part in enumerate(order)}
        there = {id(part): n for n, part in enumerate(other)}
        places = [there[id(b)] for _, b in sorted(self.both, key=lambda pair: place[id(pair[0])])]
        return places != sorted(places)


def match(ours: Sequence[Part], theirs: Sequence[Part], keys: Sequence[Key[Part]]) -> Matched:
    """Pair entries of two lists that share a key: the finest key first, then by order."""
    left, right = list(ours), list(theirs)
    both: list[tuple[Part, Part]] = []
    for key in keys:
        waiting: dict[Hashable, list[Part]] = {}
        for part in right:
            waiting.setdefault(key(part), []).append(part)
        taken: set[int] = set()
        for part in left:
            if like := waiting.get(key(part)):
                partner = like.pop(0)
                both.append((part, partner))
                taken |= {id(part), id(partner)}
        left = [part for part in left if id(part) not in taken]
        right = [part for part in right if id(part) not in taken]
    return Matched(both, left, right)


# states -------------------------------------------------------------------------------------


def states_of(a: MachineSpec, b: MachineSpec) -> dict[str, str]:
    """Map each state of `a` that `b` still has to its name there."""
    names = {name: name for name in a.states if name in b.states}
    for old, new in _declared_renames(a, b):
        if old in a.states and new in b.states and old not in names and new not in names.values():
            names[old] = new
    removed = [name for name in a.states if name not in names]
    taken = set(names.values())
    added = [name for name in b.states if name not in taken]
    if removed and added:
        names |= _similar_states(a, b, names)
    return names


def _declared_renames(a: MachineSpec, b: MachineSpec) -> Iterator[tuple[str, str]]:
    """Yield the renames that either file declares, in the direction of this comparison."""
    yield from b.renamed.items()
    yield from ((old, new) for new, old in a.renamed.items())


def _similar_states(a: MachineSpec, b: MachineSpec, known: Mapping[str, str]) -> dict[str, str]:
    """Pair differently named states by neighbourhood, if half of their aspects are equal."""
    if _rank(b) < _rank(a):  # aligning is not symmetric, but comparing must be
        back = _similar_states(b, a, {new: old for old, new in known.items()})
        return {old: new for new, old in back.items()}
    names_a, names_b = list(a.states), list(b.states)
    anchors = set(known.values())
    graphs = (
        _graph(a, known.get),
        _graph(b, lambda name: name if name in anchors else None),
    )
    pairs = align(*graphs)
    taken: dict[str, str] = {}
    for u, v in enumerate(pairs):
        if v is None or names_a[u] in known or names_b[v] in anchors:
            continue
        if _half_the_same(a.states[names_a[u]], b.states[names_b[v]]):
            taken[names_a[u]] = names_b[v]
    return taken


def _rank(spec: MachineSpec) -> str:
    return repr([(s.name, s.job, _word(s)) for s in spec.states.values()])


def _graph(spec: MachineSpec, anchor: Callable[[str], str | None]) -> Graph:
    """The states as a graph, in which known ones are labelled by their name."""
    place = {name: n for n, name in enumerate(spec.states)}
    nodes = [
        Node(f"\0{known}", "", "") if (known := anchor(name)) else Node(_word(state), state.job, "")
        for name, state in spec.states.items()
    ]
    edges = (
        (place[e.source], place[e.target], _on(e.role, e.case, e.trigger))
        for e in spec.edges()
        if e.source in place and e.target in place
    )
    return Graph.of(nodes, edges)


def _on(role: str, case: str, trigger: str) -> str:
    return f"{role} {case or trigger}"


def _word(state: StateSpec) -> str:
    """The text by which people recognise a state: its label, or its action."""
    text = state.ask or state.label
    if text is not None:
        return " ".join(text.text.split())
    return f"{state.action.name if state.action else state.job} {state.stop}".strip()


_TRIVIAL = frozenset({"job", "end", "label", "ask"})


def _half_the_same(one: StateSpec, other: StateSpec) -> bool:
    """Whether two states are the same one renamed, rather than one in place of another."""
    if one.job != other.job:
        return False
    a, b = state_part(one).aspects, state_part(other).aspects
    words = [(state.ask or state.label) for state in (one, other)]
    if all(words) and _word(one) == _word(other):
        return True
    telling = {name for name in (*a, *b) if name not in _TRIVIAL}
    equal = [n for n in telling if n in a and n in b and a[n].value == b[n].value]
    return bool(equal) and 2 * len(equal) >= len(telling)


# lists --------------------------------------------------------------------------------------


def _all(part: Part) -> Hashable:
    return tuple(sorted((name, aspect.value) for name, aspect in part.aspects.items()))


def _says(*aspects: str) -> Key[Part]:
    return lambda part: part.says(*aspects)


def _label_key(part: Part) -> Hashable:
    """The label; an edge without one matches no other."""
    return part.says("label")[0] or id(part)


def _anything(_: Part) -> Hashable:
    return None


def rules_of(
    a: MachineSpec, b: MachineSpec, names: Renaming
) -> tuple[list[Part], list[Part], Matched]:
    """Return the rules of both machines, and their pairs."""
    ours = [rule_part(rule, n, names) for n, rule in enumerate(a.rules)]
    theirs = [rule_part(rule, n) for n, rule in enumerate(b.rules)]
    does = ("stop", "signal", "to")
    keys = (_all, _says("when", *does), _says(*does, "at", "before"), _says(*does), _says("when"))
    return ours, theirs, match(ours, theirs, keys)


def edges_of(
    ours: StateSpec, theirs: StateSpec, names: Renaming
) -> Iterator[tuple[list[Part], list[Part], Matched]]:
    """Yield the edges of a state by role and trigger, and their pairs."""
    groups: dict[str, tuple[list[Part], list[Part]]] = {}
    for side, (state, known) in enumerate(((ours, names), (theirs, SAME))):
        for edge in state.edges:
            group = groups.setdefault(_on(edge.role, edge.case, edge.trigger), ([], []))
            group[side].append(edge_part(edge, known))
    keys = [
        _all,
        _says("to", "when"),
        _says("when", "label"),
        _says("when"),
        _says("to"),
        _label_key,
    ]
    for one, other in groups.values():
        fork = bool(one and one[0].id.partition(".")[2].startswith("all."))
        lone = [_anything] if len(one) == len(other) == 1 else []
        yield one, other, match(one, other, [_all] if fork else [*keys, *lone])


def tasks_of(a: MachineSpec, b: MachineSpec) -> tuple[list[Part], list[Part], Matched]:
    """Return the tasks of both files, and their pairs."""
    ours, theirs = task_parts(a), task_parts(b)
    return ours, theirs, match(ours, theirs, (_all, _says("text"), _says("id")))
