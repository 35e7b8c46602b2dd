"""Which state, edge, rule or task of one machine is which of the other.

States by name, then by what the file says under `renamed`, then by label and neighbourhood: what
is left is aligned as charts are (`view.compare.align`), and taken for a rename only where the two
still say half of the same. Lists are aligned by what their entries say, from all of it to the
least. Both ways round the same is found.

Belongs here: pairs. Never: what differs in a pair (`compare`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.versions.diff.machine_parts import (
    Part,
    Renaming,
    edge_part,
    rule_part,
    state_part,
    task_parts,
)
from chartloop.view.compare.align import align
from chartloop.view.compare.cost import Graph, Node

T = TypeVar("T")
Key = Callable[[T], Hashable]


@dataclass(frozen=True)
class Pairs:
    """What was paired: names and ids of the first machine, each with those of the second."""

    states: Mapping[str, str]
    edges: Mapping[str, str]
    rules: Mapping[str, str]


@dataclass(frozen=True)
class Matched:
    """Two lists, laid side by side."""

    both: list[tuple[Part, Part]]
    gone: list[Part]
    new: list[Part]

    def is_reordered(self, order: Sequence[Part], other: Sequence[Part]) -> bool:
        """Whether the parts of both are in another order."""
        place = {id(part): n for n, part in enumerate(order)}
        there = {id(part): n for n, part in enumerate(other)}
        found = [there[id(b)] for _, b in sorted(self.both, key=lambda pair: place[id(pair[0])])]
        return found != sorted(found)


def match(ours: Sequence[Part], theirs: Sequence[Part], keys: Sequence[Key[Part]]) -> Matched:
    """Pair entries of two lists that share a key, the finest key first, equal ones in order."""
    left, right = list(ours), list(theirs)
    both: list[tuple[Part, Part]] = []
    for key in keys:
        waiting: dict[Hashable, list[Part]] = {}
        for part in right:
            waiting.setdefault(key(part), []).append(part)
        taken: set[int] = set()
        for part in left:
            if like := waiting.get(key(part)):
                found = like.pop(0)
                both.append((part, found))
                taken |= {id(part), id(found)}
        left = [part for part in left if id(part) not in taken]
        right = [part for part in right if id(part) not in taken]
    return Matched(both, left, right)


# states -------------------------------------------------------------------------------------


def states_of(a: MachineSpec, b: MachineSpec) -> dict[str, str]:
    """For each state of `a` that `b` still has, its name there."""
    found = {name: name for name in a.states if name in b.states}
    for old, new in _declared_renames(a, b):
        if old in a.states and new in b.states and old not in found and new not in found.values():
            found[old] = new
    gone = [name for name in a.states if name not in found]
    taken = set(found.values())
    new = [name for name in b.states if name not in taken]
    if gone and new:
        found |= _alike(a, b, found)
    return found


def _declared_renames(a: MachineSpec, b: MachineSpec) -> Iterator[tuple[str, str]]:
    """The renames that either file declares, in the direction of this comparison."""
    yield from b.renamed.items()
    yield from ((old, new) for new, old in a.renamed.items())


def _alike(a: MachineSpec, b: MachineSpec, known: Mapping[str, str]) -> dict[str, str]:
    """States with another name that are where a state stood, and say half of the same."""
    if _rank(b) < _rank(a):  # aligning is not symmetric; comparing is
        back = _alike(b, a, {new: old for old, new in known.items()})
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
    """The states as a graph, in which those that are known stand for themselves."""
    place = {name: n for n, name in enumerate(spec.states)}
    nodes = [
        Node(f"\0{found}", "", "") if (found := anchor(name)) else Node(_word(state), state.job, "")
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
    """What makes a state known to people: its label, or what it does."""
    text = state.ask or state.label
    if text is not None:
        return " ".join(text.text.split())
    return f"{state.action.name if state.action else state.job} {state.stop}".strip()


_TRIVIAL = frozenset({"job", "end", "label", "ask"})


def _half_the_same(one: StateSpec, other: StateSpec) -> bool:
    """Whether two states are one that was renamed, rather than one that took another's place."""
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
    """Its label; an edge without one matches no other."""
    return part.says("label")[0] or id(part)


def _anything(_: Part) -> Hashable:
    return None


def rules_of(
    a: MachineSpec, b: MachineSpec, names: Renaming
) -> tuple[list[Part], list[Part], Matched]:
    """The rules of both, and which is which."""
    ours = [rule_part(rule, n, names) for n, rule in enumerate(a.rules)]
    theirs = [rule_part(rule, n) for n, rule in enumerate(b.rules)]
    does = ("stop", "signal", "to")
    keys = (_all, _says("when", *does), _says(*does, "at", "before"), _says(*does), _says("when"))
    return ours, theirs, match(ours, theirs, keys)


def edges_of(
    ours: StateSpec, theirs: StateSpec, names: Renaming
) -> Iterator[tuple[list[Part], list[Part], Matched]]:
    """The edges of a state by what they are taken for, and which is which."""
    found: dict[str, tuple[list[Part], list[Part]]] = {}
    for edge in ours.edges:
        found.setdefault(_on(edge.role, edge.case, edge.trigger), ([], []))[0].append(
            edge_part(edge, names)
        )
    for edge in theirs.edges:
        found.setdefault(_on(edge.role, edge.case, edge.trigger), ([], []))[1].append(
            edge_part(edge)
        )
    keys = [
        _all,
        _says("to", "when"),
        _says("when", "label"),
        _says("when"),
        _says("to"),
        _label_key,
    ]
    for one, other in found.values():
        fork = bool(one and one[0].id.partition(".")[2].startswith("all."))
        lone = [_anything] if len(one) == len(other) == 1 else []
        yield one, other, match(one, other, [_all] if fork else [*keys, *lone])


def tasks_of(a: MachineSpec, b: MachineSpec) -> tuple[list[Part], list[Part], Matched]:
    """The tasks of both files, and which is which."""
    ours, theirs = task_parts(a), task_parts(b)
    return ours, theirs, match(ours, theirs, (_all, _says("text"), _says("id")))
