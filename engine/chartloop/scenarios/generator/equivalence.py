"""When two nodes need not both be followed: they stand alike in all that decides the way on.

Alike are nodes with the same state, the same open signals and detours, the same truth of every
guard, and the same value of every fact that guards read, directly or by what is saved and set.
Amounts that one reply can raise to any size (tokens, cost, time) count only by the guards' truth.
Counts are told apart up to a little beyond the highest number that they are compared with; where
that is large, only by the guards.

This leaves out, never adds: what is found is a real run whatever is thought alike here. A way that
is not found because two nodes were taken for alike is why nothing is called impossible by a search.
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
"""Counts are told apart where they are compared with at most this."""
MOST_GUARDS = 300
"""Of a machine with more, guards are left out whose truth follows from the facts in a key, and
counts are told apart however high they are."""
_TOGETHER = 48
"""Parts of guards that hold and are looked at in pairs, at most."""
_BY_GUARDS = TIMES | TOKENS | {COST, RATIO, "run.started_at", "errors.rate", "run.id"}


_NOTHING: frozenset[Any] = frozenset({False, "", (), '""', "[]", "{}"})
"""What most facts start with. It is left out of a key: a fact has only one of these values."""
_VISITS = "run.visits."


class Key(NamedTuple):
    """What decides the way on from a node. Of a machine of a thousand states it is still short."""

    state: str
    truth: tuple[tuple[int, Hashable], ...]
    """Of each part of each guard that does not simply not hold."""
    values: tuple[tuple[str, Hashable], ...]
    """Of the facts that guards read, where they have one; and what actions have kept."""
    rest: tuple[Hashable, ...]

    def elements(self) -> frozenset[Hashable]:
        """Each single thing of it, in its state."""
        return frozenset((self.state, one) for one in (*self.truth, *self.values))


class Novelty:
    """How new a node is: 0 where one thing was never seen in its state, 1 where two together.

    Source: Lipovetzky and Geffner, "Width and serialization of classical planning problems", 2012.
    """

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()

    def of(self, key: Key) -> int:
        """Say it, and take it for seen."""
        new = {*key.elements(), key.state} - self._seen
        both = {(key.state, pair) for pair in combinations(key.truth[:_TOGETHER], 2)}
        newer = both - self._seen
        self._seen |= new | newer
        return 0 if new else 1 if newer else 2


class Alike:
    """The keys of the nodes of one machine: equal where one of two need not be followed."""

    def __init__(self, spec: MachineSpec, hints: Hints) -> None:
        guards = {guard.text: guard for guard in expressions(spec)}
        read = {name for guard in guards.values() for name in guard.reads}
        names = [n for n in _facts_behind(spec, read) if _tells(n)]
        self._visits = frozenset(n.removeprefix(_VISITS) for n in names if n.startswith(_VISITS))
        self._facts = tuple(sorted(n for n in names if not n.startswith(_VISITS)))
        self._caps = {name: max(found) for name, found in hints.numbers.items() if found}
        many = len(guards) > MOST_GUARDS
        self._exact = math.inf if many else EXACT
        exact = {n for n in names if self._caps.get(n, 0) <= self._exact}
        self._guards = tuple(
            guard for guard in guards.values()
            if not guard.opaque
            and not (many and all(_follows(name, exact) for name in guard.reads))
        )  # fmt: skip
        self._parses = any(
            s.traits.reads_reply or s.calls in ("all", "first") for s in spec.states.values()
        )

    def key(self, node: Node) -> Key:
        """What decides the way on from a node."""
        position = node.position
        facts = position.facts
        rest = (
            position.status, position.stopping, position.returns, position.skip, position.attempt,
            position.blocked_on, position.wake_at is None, position.waited is None, position.soft,
            tuple(str(s.reason) for s in position.signals),
            tuple(str(s.reason) for s in position.suppressed),
            tuple((t.kind, t.attempts, t.cycle) for t in position.queue),
            tuple(_limits(facts)), (facts.last.text, _calls(facts)) if self._parses else (),
            node.expired, min(len(position.messages), 3), tuple(_children(node)),
        )  # fmt: skip
        kept = (("kept", _kept_json(position.kept)),) if position.kept else ()
        values = (*self._values(facts), *kept)
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
            if (found := self._value(name, value)) not in _NOTHING:
                yield name, found

    def _value(self, name: str, value: Any) -> Hashable:
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, (int, float)):
            cap = self._caps.get(name)
            if cap is not None and cap > self._exact:
                return 0  # only by guards
            return min(value, self._exact if cap is None else cap + 1)
        if name == "last.tool_calls":
            return tuple(call.name for call in value)
        return json.dumps(plain(value), sort_keys=True, default=str)


def _follows(name: str, exact: set[str]) -> bool:
    """Whether what a guard says of a fact follows from what a key has anyway."""
    return name in exact or name.startswith("limits.")


def _tells(name: str) -> bool:
    return name not in _BY_GUARDS and not name.startswith("limits.")


def _limits(facts: Facts) -> Iterator[Hashable]:
    yield from (repr(value) for value in facts.limits.values())


def _kept_json(kept: Mapping[str, Any]) -> str:
    """What actions keep, without the sessions of a sandbox, which are bytes."""
    return json.dumps(kept, sort_keys=True, default=_nothing)


def _children(node: Node | None) -> Iterator[Hashable]:
    """What was said to the children that have started: where they are is in no position."""
    while node is not None and node.held:
        yield node.chosen, None if node.event is None else (node.event.word, str(node.event.data))
        node = node.parent


def _nothing(value: object) -> str:
    del value
    return ""


def _calls(facts: Facts) -> tuple[str, ...]:
    return tuple(call.name for call in facts.last.tool_calls)


def _facts_behind(spec: MachineSpec, read: set[str]) -> frozenset[str]:
    """The facts that guards read, and those from which variables get what guards read."""
    flows = [*_flows(spec)]
    found = set(read)
    while True:
        more = {n for target, reads in flows if target in found for n in reads} - found
        if not more:
            return frozenset(found)
        found |= more


def _flows(spec: MachineSpec) -> Iterator[tuple[str, frozenset[str]]]:
    """Which facts flow into which variable."""
    for state in spec.states.values():
        yield from _sets(state.set)
        for edge in state.edges:
            yield from _sets(edge.set)
        given = frozenset(n for arg in state.args.values() for n in _reads(arg.value))
        given = frozenset(n for n in given if n.startswith("vars."))
        for save in state.save:
            own = save.template.reads if save.template is not None else frozenset[str]()
            own = frozenset(n for n in own if n.startswith("vars."))
            yield save.target, own | given
        writes = state.action is not None and any("vars" in c for c in state.action.changes)
        if writes and not state.traits.reads_reply:
            for name in spec.vars:
                yield f"vars.{name}", given


def _sets(sets: tuple[Assign, ...]) -> Iterator[tuple[str, frozenset[str]]]:
    for one in sets:
        reads = one.value.reads if isinstance(one.value, Expression) else frozenset[str]()
        yield one.target, reads | ({one.target} if one.append else frozenset[str]())


def _reads(value: Any) -> Iterator[str]:
    """The facts that a field of `with` reads, however deep."""
    if isinstance(value, Expression | Template):
        yield from value.reads
    elif isinstance(value, Mapping):
        for part in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from _reads(part)
    elif isinstance(value, (list, tuple)):
        for part in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _reads(part)
