"""Thresholds: the value of a counter from which a guard is decided, whatever the other facts are.

``run.steps >= limits.steps`` is true from 20 steps on if the limit is 20; so is
``run.steps >= 20 or vars.flag``. ``run.visits.plan < limits.rounds`` is false from the limit on.
A threshold is found by judging the guard for all values of the counter above a number: once
decided, the guard stays decided, because a counter never falls.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from chartloop.language.expression import Expression
from chartloop.language.expression.tree import (
    Arith,
    Compare,
    Const,
    Fact,
    Logic,
    Negative,
    Node,
    Not,
    facts_of,
    walk,
)
from chartloop.language.intervals.evaluate import Known, judge, surely
from chartloop.language.intervals.interval import ABSENT, INF, Other, Range, Value, of_plain

MOST = 2**53
"""The highest threshold; a counter that must exceed it bounds nothing."""
MOST_UNFOLDED = 9
"""The most nodes of a guard that is judged directly; a longer one is folded first."""
REAL = frozenset({"usage.cost", "run.elapsed", "run.working"})
"""The counters that are not whole numbers."""


class Turns(NamedTuple):
    """For each counter, the value from which a guard is always true, or always false."""

    true: Mapping[str, float]
    false: Mapping[str, float]


class Now(NamedTuple):
    """The facts that are known at a place."""

    continued: bool | None = False
    """Whether a continuation is in force."""
    ok: bool | None = None
    """Whether the last action succeeded."""
    signalled: bool = True
    """Whether the signals of this moment have been raised; False for rules, which come first."""


class Below(NamedTuple):
    """An assumption: a counter has not reached a value."""

    counter: str
    value: float

    @property
    def highest(self) -> float:
        """The highest value that the counter may have."""
        return math.nextafter(self.value, -INF) if self.counter in REAL else self.value - 1


USUAL = Now()
ANY = Now(continued=None)
"""At places before and while a continuation is in force: what it defers may stop the run later."""
_SIGNALS = {"signals.count", "signals.top", "signals.reasons"}
_FROM_NOW = {"signals.continued", "last.ok", "last.error"} | _SIGNALS


class World:
    """The facts that are known in advance: limits, constants, and counters, which only grow."""

    def __init__(
        self, limits: Mapping[str, Any], counters: frozenset[str], fixed: Mapping[str, Any],
        lowered: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.limits = {f"limits.{name}": _limit_value(name, limits, lowered) for name in limits}
        self.limits |= {name: of_plain(value) for name, value in fixed.items()}
        self.values = tuple(v for v in limits.values() if isinstance(v, (int, float)))
        self.counters = counters
        self.lowered = lowered
        """The limits whose value is a maximum: a child gets what its parent has left."""
        self.raised: Mapping[str, tuple[float, ...]] = {}
        """For each counter, the values from which `signal` rules raise signals."""
        self._turns: dict[tuple[str, Now, Below | None], Turns] = {}
        self._verdicts: dict[tuple[str, Now], bool | None] = {}

    def known_facts(
        self, now: Now = USUAL, *, counter: str = "", low: float = 0, below: Below | None = None
    ) -> Known:
        """Return a lookup of known facts: one counter at least `low`, another `below` a value."""
        signalled = self.raised.get(counter, ()) if now.signalled else ()
        raised = sum(low >= at for at in signalled)

        def of(fact: Fact) -> Value | None:
            path = fact.path
            if path == counter:
                return Range(low, INF)
            if below is not None and path == below.counter:
                return Range(0, below.highest)
            if path == "signals.count" and raised:
                return Range(raised, INF)
            if path == "signals.continued" and now.continued is not None:
                return of_plain(now.continued)
            if path == "last.ok" and now.ok is not None:
                return of_plain(now.ok)
            if path == "last.error" and now.ok is not None:
                return ABSENT if now.ok else Other()
            return self.limits.get(path)

        return of

    def forget(self) -> None:
        """Drop the verdicts from before `raised` was set."""
        self._turns.clear()
        self._verdicts.clear()

    def verdict(self, guard: Expression, now: Now = USUAL) -> bool | None:
        """True if a guard always holds here, False if it never does, None if that depends."""
        key = (guard.text, now if guard.reads & _FROM_NOW else USUAL)
        if key not in self._verdicts:
            self._verdicts[key] = surely(judge(guard.root, self.known_facts(now)))
        return self._verdicts[key]

    def turns(self, guard: Expression, now: Now = USUAL, *, below: Below | None = None) -> Turns:
        """The thresholds of a guard, while one counter is `below` a value."""
        key = (guard.text, now if guard.reads & _FROM_NOW else USUAL, below)
        if key not in self._turns:
            counters = set(self.counters & guard.reads) - ({below.counter} if below else set())
            if now.signalled and guard.reads & _SIGNALS:
                counters |= self.raised.keys()
            true: dict[str, float] = {}
            false: dict[str, float] = {}
            for counter in sorted(counters):
                most = self.known_facts(now, counter=counter, low=MOST, below=below)
                if (verdict := surely(judge(guard.root, most))) is not None:
                    thresholds = true if verdict else false
                    thresholds[counter] = self._least(guard, counter, now, below)
            self._turns[key] = Turns(true, false)
        return self._turns[key]

    def _least(self, guard: Expression, counter: str, now: Now, below: Below | None) -> float:
        """The least value from which the guard is decided."""
        root, folded = guard.root, dict[str, Value]()
        if sum(1 for _ in walk(root)) > MOST_UNFOLDED:
            root = _fold_constant_parts(
                root, {counter, "signals.count"}, self.known_facts(now, below=below), folded
            )

        def is_decided(low: float) -> bool:
            known = self.known_facts(now, counter=counter, low=low, below=below)
            return surely(judge(root, lambda f: folded.get(f.path) or known(f))) is not None

        literals = [n.value for n in walk(guard.root) if isinstance(n, Const)]
        likely = [v for v in (*self.values, *literals) if isinstance(v, (int, float))]
        if counter in REAL:
            candidates = sorted(float(v) for v in likely if v >= 0)
            for value in candidates:
                if is_decided(value):
                    return value
            high = 1.0
            while not is_decided(high):
                high *= 2
            low = 0.0
            while high - low > 1e-9 * max(1.0, high):
                middle = (low + high) / 2
                low, high = (low, middle) if is_decided(middle) else (middle, high)
            return high
        whole = {int(v) + more for v in likely if 0 <= v < MOST for more in (0, 1)}
        return _least_whole(is_decided, sorted(whole))


def _limit_value(name: str, limits: Mapping[str, Any], lowered: frozenset[str]) -> Value:
    """The values that a limit may have; any value for one that is off and may be lowered."""
    value = of_plain(limits[name])
    if name not in lowered or not isinstance(value, Range):
        return value
    return Range(high=value.high) if value.some else Range(none=True)


def _fold_constant_parts(
    node: Node, free: Collection[str], known: Known, folded: dict[str, Value]
) -> Node:
    """Replace each part of a tree that reads no `free` fact by a fact, with its value in `folded`.

    A long guard is judged for many values of a counter, which is mostly in one of its parts.
    """
    if isinstance(node, (Const, Fact)):
        return node

    def of(part: Node) -> Node:
        return _fold_constant_parts(part, free, known, folded)

    if facts_of(node).keys().isdisjoint(free):
        name = f"part {len(folded)}"
        folded[name] = judge(node, known)
        return Fact(node.type, node.text, name, ())
    match node:
        case Logic(parts=parts):
            return node._replace(parts=tuple(map(of, parts)))
        case Not(part=part) | Negative(part=part):
            return node._replace(part=of(part))
        case Arith(left=left, right=right):
            return node._replace(left=of(left), right=of(right))
        case Compare(first=first, links=links):
            right = tuple(link._replace(right=of(link.right)) for link in links)
            return node._replace(first=of(first), links=right)
        case _:
            return node


def _least_whole(is_decided: Callable[[int], bool], likely: Sequence[int]) -> int:
    """The least number from which a guard is decided; `likely` has the numbers that it names."""
    if is_decided(0):
        return 0
    known = bisect_left(likely, True, key=is_decided)
    low = likely[known - 1] if known else 0
    if known < len(likely):
        high = likely[known]
        low = high - 1 if not is_decided(high - 1) else low
    else:
        high = 2 * low or 1
        while not is_decided(high):
            low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_decided(middle) else (middle, high)
    return high
