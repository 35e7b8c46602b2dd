"""The exact answer where there is one: the absorbing Markov chain of a machine in a world.

Its states are positions, told apart by what decides (`simulation.deciding`); its transitions are
what `evolve` makes of every outcome of the world, each with its probability. From it follow the
probability of every stop reason and the expected calls, tokens, cost and time, without chance: a
simulation has to agree with it.

There is none where an amount that decides is drawn from infinitely many values, and none is made
beyond `MOST` transitions; then it is said why. Positions that a run reaches with less than
`LEAST` are left out, and counted.

Imported by: api
Source: J. G. Kemeny, J. L. Snell, "Finite Markov Chains" (1960), chapter III.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from chartloop.core.position import Position
from chartloop.core.records import Input
from chartloop.language.expression import Oracle
from chartloop.machine.decision import Decision
from chartloop.machine.evolve import evolve
from chartloop.simulation.amounts import Amount
from chartloop.simulation.deciding import deciding, reads_time
from chartloop.simulation.play import Player, summary
from chartloop.simulation.solving import Step, expected_visits

MOST = 150_000
"""Transitions; some seconds."""
LEAST = 1e-9
"""Positions that are reached with less probability are left out."""
LEFT_OUT = "left out"
QUANTITIES = ("actions", "llm_calls", "tool_calls", "tokens", "usd", "elapsed", "waiting")


Sums = defaultdict[str, float]


def sums() -> Sums:
    """Sums by name, all 0."""
    return defaultdict(float)


class Exact(NamedTuple):
    """What the chain says; where there is none, `why`."""

    reasons: Mapping[str, float] = {}
    """The probability of each stop reason."""
    expected: Mapping[str, float] = {}
    """By quantity, as in `Simulated`."""
    visits: Mapping[str, float] = {}
    """Expected entries of each state."""
    positions: int = 0
    transitions: int = 0
    left_out: float = 0.0
    """The probability of the runs that were left out."""
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        if self.why:
            return {"why": self.why}
        return {
            "reasons": dict(self.reasons), "expected": dict(self.expected),
            "visits": dict(self.visits), "positions": self.positions,
            "transitions": self.transitions, "left_out": self.left_out,
        }  # fmt: skip


class _TooLarge(Exception):
    """The chain has more transitions than anybody waits for."""


@dataclass
class _Chain:
    """The chain as far as it was explored. Ends are numbered from -1 downwards."""

    steps: list[list[Step]] = field(default_factory=list[list[Step]])
    gains: list[Sums] = field(default_factory=list[Sums])
    """Of each position: what its next input uses, expected."""
    entries: list[Sums] = field(default_factory=list[Sums])
    """Of each position: the states that its next input enters, expected."""
    ends: dict[str, int] = field(default_factory=dict[str, int])
    transitions: int = 0

    def end(self, reason: str) -> int:
        """The number of an end."""
        return self.ends.setdefault(reason, -1 - len(self.ends))


def exact(player: Player, *, most: int = MOST) -> Exact:
    """The chain of what the player plays, solved."""
    if why := _infinite(player):
        return Exact(why=why)
    explorer = _Explorer(player, most)
    try:
        explorer.explore()
    except _TooLarge:
        said = f"the chain has more than {most:,} transitions"
        return Exact(why=f"{said}: fewer limits, or figures that vary less, make it smaller")
    chain = explorer.chain
    found = expected_visits(chain.steps, explorer.first)
    if isinstance(found, str):
        return Exact(why=found)
    visits, absorbed = found
    expected, entered = sums(), explorer.entered
    for times, gains, entries in zip(visits, chain.gains, chain.entries, strict=True):
        for name, value in gains.items():
            expected[name] += times * value
        for name, value in entries.items():
            entered[name] += times * value
    reasons = {reason: absorbed.get(number, 0.0) for reason, number in chain.ends.items()}
    left_out = reasons.pop(LEFT_OUT, 0.0)
    ordered = sorted(reasons.items(), key=lambda item: -item[1])
    figures = {q: expected[q] for q in QUANTITIES if q != "usd" or "usd" in expected}
    return Exact(
        dict(ordered), figures, dict(entered), len(chain.steps), chain.transitions, left_out
    )


def _infinite(player: Player) -> str:
    """Why there is no finite chain, or nothing."""
    time = reads_time(player.chart.spec)
    for name, happens in player.outcomes.told.items():
        for word in ("prompt_tokens", "completion_tokens", "adds", "tool_calls", "calls"):
            amount: Amount | None = getattr(happens, word)
            if amount is not None and not amount.finite:
                return f"`{word}` of `{name}` has infinitely many values"
        for word in ("duration", "delay"):
            amount = getattr(happens, word)
            if time and amount is not None and not amount.finite:
                return f"`{word}` of `{name}` has infinitely many values, and time decides"
    return ""


class _More(Exception):
    """A Python guard was asked of which no answer has been chosen yet."""


class _Explorer:
    """Goes through everything that can happen, each position once."""

    def __init__(self, player: Player, most: int) -> None:
        self.player = player
        self.most = most
        self.chain = _Chain()
        grows = any(h.grows for h in player.outcomes.told.values())
        self._key = deciding(player.chart, grows=grows)
        self._known: dict[Hashable, int] = {}
        self._waiting: list[tuple[int, Position]] = []
        self._mass: list[float] = []
        self.first: dict[int, float] = {}
        self.entered = sums()

    def explore(self) -> None:
        """From the start to all ends."""
        for p, position, decision in self._decided(self.player.idle, self.player.begun):
            for name in decision.path:
                self.entered[name] += p
            number = self._number(position, p)
            self.first[number] = self.first.get(number, 0.0) + p
        while self._waiting:  # breadth first: the shortest ways, which are the likely ones
            layer, self._waiting = self._waiting, []
            for number, position in layer:
                self._expand(number, position)

    def _number(self, position: Position, mass: float) -> int:
        if position.ended:
            return self.chain.end(summary(0, position, 0, ()).reason)
        key = self._key(position)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.chain.steps)
            self.chain.steps.append([])
            self.chain.gains.append(sums())
            self.chain.entries.append(sums())
            self._mass.append(0.0)
            self._waiting.append((number, position))
        self._mass[number] += mass
        return number

    def _expand(self, number: int, position: Position) -> None:
        chain, mass = self.chain, self._mass[number]
        if mass < LEAST:
            chain.steps[number].append((chain.end(LEFT_OUT), 1.0))
            return
        to: dict[int, float] = {}
        gains, entries = chain.gains[number], chain.entries[number]
        for share, input in self._inputs(position):
            if input is None:
                end = chain.end("waiting")
                to[end] = to.get(end, 0.0) + share
                continue
            for p, after, decision in self._decided(position, input):
                chain.transitions += 1
                if chain.transitions > self.most:
                    raise _TooLarge
                p *= share
                _gain(gains, p, position, input, after)
                for name in decision.path:
                    entries[name] += p
                target = self._number(after, mass * p)
                to[target] = to.get(target, 0.0) + p
        chain.steps[number] += to.items()

    def _inputs(self, position: Position) -> Iterator[tuple[float, Input | None]]:
        player, now = self.player, position.facts.marks.now
        if position.status == "paused":
            if position.state in player.chart.waiting:
                wait = player.outcomes.waits[position.state]
                left = math.inf if position.wake_at is None else position.wake_at - now
                for event, data, share in wait.answers:
                    # of answers that decide nothing but whether they come in time: their means
                    for delay, p in wait.delay.split(left):
                        yield share * p, player.answered(position, event, data, delay)
            else:
                due = position.wake_at
                yield 1.0, None if due is None else Input("resume", at=max(now, due))
            return
        for case in player.outcomes.at(position).all:
            amounts = (case.first, case.second, case.duration)
            for (a, p), (b, q), (seconds, r) in product(*map(values_of, amounts)):
                made = case.make(position, a, b)
                yield case.weight * p * q * r, player.finished(position, made, seconds)

    def _decided(
        self, position: Position, input: Input
    ) -> Iterator[tuple[float, Position, Decision]]:
        """What `evolve` makes of an input: one thing for each way that Python guards answer."""
        guards, chart = self.player.world.guards, self.player.chart
        pending: list[tuple[tuple[bool, ...], float]] = [((), 1.0)]
        while pending:
            given, p = pending.pop()
            asked: list[str] = []
            try:
                after, decision = evolve(chart, position, input, oracle=_said(given, asked))
            except _More:
                often = guards[asked[-1]]
                pending += [((*given, False), p * (1 - often)), ((*given, True), p * often)]
            else:
                if p > 0:
                    yield p, after, decision


def _said(given: tuple[bool, ...], asked: list[str]) -> Oracle:
    def answer(name: str, _: tuple[Any, ...]) -> bool:
        asked.append(name)
        if len(asked) > len(given):
            raise _More
        return given[len(asked) - 1]

    return answer


def values_of(amount: Amount) -> list[tuple[float, float]]:
    """The values of an amount with their shares; the mean of one that decides nothing."""
    if amount.finite:
        return [*zip(amount.values, amount.weights, strict=True)]
    return [(amount.mean, 1.0)]


def _gain(gains: Sums, p: float, before: Position, input: Input, after: Position) -> None:
    """What an input uses: the difference that it makes in the facts."""
    old, new = before.facts, after.facts
    asked = 0 if input.outcome is None else input.outcome.unanswered
    used: dict[str, float] = {
        "actions": new.run.steps - old.run.steps,
        "llm_calls": new.usage.llm_calls - old.usage.llm_calls + asked,
        "tool_calls": new.usage.tool_calls - old.usage.tool_calls,
        "tokens": new.usage.total_tokens - old.usage.total_tokens,
        "elapsed": new.run.elapsed - old.run.elapsed,
        "waiting": new.run.idle - old.run.idle,
    }
    if new.usage.cost is not None:
        used["usd"] = new.usage.cost - (old.usage.cost or 0.0)
    for name, value in used.items():
        gains[name] += p * value
