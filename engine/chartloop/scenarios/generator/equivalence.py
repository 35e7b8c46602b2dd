"""The equivalence of nodes: of equivalent nodes, the search follows only one.

Equivalent nodes have the same state, open signals and detours, the same truth of every guard, and
the same value of every fact that guards read, directly or through `save` and `set`. Amounts that
one reply can raise to any size (tokens, cost, time) matter only through the guards. Counts are
distinguished up to one above the highest number that they are compared with; where that is large,
only through the guards.

This may hide runs but never invents one: whatever the search finds is a real run. Because it may
hide runs, a search never proves a target impossible.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from chartloop.core.facts import Facts
from chartloop.core.fold import lookup
from chartloop.core.plain import plain
from chartloop.language.expression import Expression
from chartloop.language.spec import Assign, MachineSpec
from chartloop.language.template.template import Template
from chartloop.scenarios.generator.hints import COST, RATIO, TIMES, TOKENS, Hints, expressions
from chartloop.scenarios.generator.moves import Node

EXACT = 24
"""A count is part of a key if it is compared with at most this."""
MOST_GUARDS = 300
"""In a machine with more guards, those that follow from the facts in a key are left out of it, and
all counts are part of it."""
_TOGETHER = 48
"""How many true parts of guards are looked at in pairs."""
_BY_GUARDS = TIMES | TOKENS | {COST, RATIO, "run.started_at", "errors.rate", "run.id"}


_NOTHING: frozenset[Any] = frozenset({False, "", (), '""', "[]", "{}"})
"""First values of most facts, left out of keys; a fact can have only one of them."""
_VISITS = "run.visits."


class Key(NamedTuple):
    """Everything that decides how a run can continue; short even for a large machine."""

    state: str
    truth: tuple[tuple[int, Hashable], ...]
    """The parts of guards that hold or have no value, by number."""
    values: tuple[tuple[str, Hashable], ...]
    """The facts that guards read, without empty ones, and the values that actions keep."""
    rest: tuple[Hashable, ...]

    def elements(self) -> frozenset[Hashable]:
        """The single elements of the key, each with the state."""
        return frozenset((self.state, one) for one in (*self.truth, *self.values))


class Novelty:
    """The novelty of nodes: 0 if an element is new in its state, 1 if a pair is new, else 2.

    Source: Lipovetzky and Geffner, "Width and serialization of classical planning problems", 2012.
    """

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()

    def of(self, key: Key) -> int:
        """Return the novelty of a key, and remember its elements."""
        new = {*key.elements(), key.state} - self._seen
        pairs = {(key.state, pair) for pair in combinations(key.truth[:_TOGETHER], 2)}
        new_pairs = pairs - self._seen
        self._seen |= new | new_pairs
        return 0 if new else 1 if new_pairs else 2


class Equivalence:
    """The keys of the nodes of one machine; equivalent nodes have equal keys."""

    def __init__(self, spec: MachineSpec, hints: Hints) -> None:
        guards = {guard.text: guard for guard in expressions(spec)}
        read = {name for guard in guards.values() for name in guard.reads}
        names = [
            n
            for n in _facts_behind(spec, read)
            if n not in _BY_GUARDS and not n.startswith("limits.")
        ]
        self._visits = frozenset(n.removeprefix(_VISITS) for n in names if n.startswith(_VISITS))
        self._facts = tuple(sorted(n for n in names if not n.startswith(_VISITS)))
        self._caps = {name: max(numbers) for name, numbers in hints.numbers.items() if numbers}
        many = len(guards) > MOST_GUARDS
        self._exact = math.inf if many else EXACT
        exact = {n for n in names if self._caps.get(n, 0) <= self._exact}
        self._guards = tuple(
            guard for guard in guards.values()
            if not guard.opaque
            and not (many and all(n in exact or n.startswith("limits.") for n in guard.reads))
        )  # fmt: skip
        self._parses = any(
            s.traits.reads_reply or s.calls in ("all", "first") for s in spec.states.values()
        )

    def key(self, node: Node) -> Key:
        """The key of a node."""
        position = node.position
        facts = position.facts
        called = tuple(call.name for call in facts.last.tool_calls)
        rest = (
            position.status, position.stopping, position.returns, position.skip, position.attempt,
            position.blocked_on, position.wake_at is None, position.waited is None, position.soft,
            tuple(str(s.reason) for s in position.signals),
            tuple(str(s.reason) for s in position.suppressed),
            tuple((t.kind, t.attempts, t.cycle) for t in position.queue),
            tuple(_limits(facts)), (facts.last.text, called) if self._parses else (),
            node.expired, min(len(position.messages), 3), tuple(_children(node)),
        )  # fmt: skip
        values = tuple(self._values(facts))
        if position.kept:  # without the sessions of a sandbox, which are bytes
            kept = json.dumps(position.kept, sort_keys=True, default=_nothing)
            values = (*values, ("kept", kept))
        return Key(position.state, tuple(self._truth(facts)), values, rest)

    def _truth(self, facts: Facts) -> Iterator[tuple[int, Hashable]]:
        number = 0
        for guard in self._guards:
            for reading in guard.readings(facts):
                if reading.holds is not False:
                    yield number, reading.holds
                number += 1

    def _values(self, facts: Facts) -> Iterator[tuple[str, Hashable]]:
        for state, times in sorted(facts.run.visits.items()):
            if state in self._visits:
                yield f"{_VISITS}{state}", self._value(f"{_VISITS}{state}", times)
        for name in self._facts:
            try:
                value = lookup(facts, name)
            except AttributeError:
                continue
            if (element := self._value(name, value)) not in _NOTHING:
                yield name, element

    def _value(self, name: str, value: Any) -> Hashable:
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, (int, float)):
            cap = self._caps.get(name)
            if cap is not None and cap > self._exact:
                return 0  # counts only through the guards
            return min(value, self._exact if cap is None else cap + 1)
        if name == "last.tool_calls":
            return tuple(call.name for call in value)
        return json.dumps(plain(value), sort_keys=True, default=str)


def _limits(facts: Facts) -> Iterator[Hashable]:
    yield from (repr(value) for value in facts.limits.values())


def _children(node: Node | None) -> Iterator[Hashable]:
    """The choices and events of started children, whose positions the node does not hold."""
    while node is not None and node.has_children:
        yield node.choices, None if node.event is None else (node.event.word, str(node.event.data))
        node = node.parent


def _nothing(value: object) -> str:
    del value
    return ""


def _facts_behind(spec: MachineSpec, read: set[str]) -> frozenset[str]:
    """The facts that guards read, and those that flow into variables that guards read."""
    flows = [*_flows(spec)]
    facts = set(read)
    while True:
        more = {n for target, reads in flows if target in facts for n in reads} - facts
        if not more:
            return frozenset(facts)
        facts |= more


def _flows(spec: MachineSpec) -> Iterator[tuple[str, frozenset[str]]]:
    """Each assigned variable with the facts that flow into it."""
    for state in spec.states.values():
        yield from _sets(state.set)
        for edge in state.edges:
            yield from _sets(edge.set)
        inputs = frozenset(n for arg in state.args.values() for n in _reads(arg.value))
        inputs = frozenset(n for n in inputs if n.startswith("vars."))
        for save in state.save:
            own = save.template.reads if save.template is not None else frozenset[str]()
            own = frozenset(n for n in own if n.startswith("vars."))
            yield save.target, own | inputs
        writes = state.action is not None and any("vars" in c for c in state.action.changes)
        if writes and not state.traits.reads_reply:
            for name in spec.vars:
                yield f"vars.{name}", inputs


def _sets(sets: tuple[Assign, ...]) -> Iterator[tuple[str, frozenset[str]]]:
    for one in sets:
        reads = one.value.reads if isinstance(one.value, Expression) else frozenset[str]()
        yield one.target, reads | ({one.target} if one.append else frozenset[str]())


def _reads(value: Any) -> Iterator[str]:
    """The facts that a field of `with` reads at any depth."""
    if isinstance(value, Expression | Template):
        yield from value.reads
    elif isinstance(value, Mapping):
        for part in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _reads(part)
    elif isinstance(value, (list, tuple)):
        for part in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _reads(part)
