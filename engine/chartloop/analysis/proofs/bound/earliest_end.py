"""The earliest end: whether a stop rule stops every run before it can reach an end of the file.

For each counter that a stop rule limits, this is the least amount that a run has counted when it
takes a route. A route is closed once the counter has reached its gate. A guard may also need a
counter to have got somewhere first: a loop that has taken every item, a queue that is empty. Then
the route is taken no earlier than the steps that count so far.

Every amount is a lower bound, so an end that is out of reach here is out of reach in every run with
these limits, variables and tasks. Each counter is judged alone, so others may be as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from chartloop.analysis.proofs.bound.budgets import Number, exact, reached_before
from chartloop.analysis.proofs.bound.costs import STEPS
from chartloop.analysis.proofs.bound.problem import Proof
from chartloop.language.expression import Expression
from chartloop.language.expression.tree import Const, Fact, Node, walk
from chartloop.language.intervals.evaluate import judge, surely
from chartloop.language.intervals.interval import INF, NO, Other, Range, Value, of_plain
from chartloop.language.spec import Edge, MachineSpec, Rule
from chartloop.machine.abstract.counters import Counting, all_sets
from chartloop.machine.abstract.thresholds import REAL, World

QUEUE = "queue.size"
"""Stands for the attempts at tasks: each takes at most one task off the queue."""


class OutOfReach(NamedTuple):
    """The rule that stops every run, and the least that a run would count before an end."""

    rule: Rule
    counter: str
    at: float
    least: float
    begun: bool = True
    """Whether a run comes to its first action at all."""


class Progress(NamedTuple):
    """A counter that guards may wait for, and the steps that add to it."""

    first: float
    """Its highest value before any of these steps."""
    steps: Mapping[int, float]
    """The most that each adds."""


def ends_out_of_reach(proof: Proof) -> OutOfReach | None:
    """The rule that keeps every run from the ends of the file, if there is one."""
    return _Search(proof).out_of_reach()


def is_worth_a_proof(spec: MachineSpec, counting: Counting) -> bool:
    """Whether a stop rule may hold that early: not before a path as long as any that is likely."""
    limits = {name: limit.value for name, limit in spec.limits.items()}
    world = World(limits, counting.counters, counting.fixed)
    rules = (rule for rule in spec.rules if rule.kind == "stop")
    first = min((at for r in rules for at in world.turns(r.when).true.values()), default=INF)
    guards = [e.when for e in spec.edges() if e.when is not None and not REAL & e.when.reads]
    numbers = [n for guard in guards for n in _numbers(guard.root, limits)]
    times = max([*numbers, len(spec.tasks or ())], default=0)
    timed = any(state.traits.waits for state in spec.states.values())
    return first <= 2 * len(spec.states) * (1 + times) or (
        timed and "run.elapsed" in world.counters
    )


class _Search:
    """The ends of one machine, and what its routes need."""

    def __init__(self, proof: Proof) -> None:
        self._proof = proof
        self._budgets = proof.plain(STEPS)
        self._steps = self._budgets.steps
        places = proof.routes.places
        self._ends = [
            n for n, step in enumerate(self._steps)
            if places[step.route.dest].stopping and places[step.route.dest].state
            and not places[step.route.source].stopping
        ]  # fmt: skip
        self._edges = {edge.id: edge for edge in proof.chart.spec.edges()}
        self._going_on = {
            n for n, step in enumerate(self._steps) if not places[step.route.dest].stopping
        } | {*self._ends}
        """The steps that do not lead to a stop from elsewhere."""

    def out_of_reach(self) -> OutOfReach | None:
        limited: dict[str, tuple[float, Rule]] = {}
        places = self._proof.routes.places
        for rule in self._proof.chart.spec.rules:
            if rule.kind == "stop":
                for counter, at in self._proof.world.turns(rule.when).true.items():
                    if counter != "usage.cost" and at < limited.get(counter, (INF, rule))[0]:
                        limited[counter] = (at, rule)
        for counter, (at, rule) in sorted(limited.items(), key=lambda pair: pair[1][0]):
            if self._least(counter, {}, gated=False) is None:
                if at <= self._at_start(counter):
                    begun = any(s.route.kind == "start" and not places[s.route.dest].stopping
                                for s in self._steps)  # fmt: skip
                    return OutOfReach(rule, counter, at, 0, begun)
                continue
            needed = dict(self._needed(counter))
            least = self._least(counter, needed, gated=False)
            if least is not None and at <= least:
                if self._least(counter, needed, gated=True) is None:
                    return OutOfReach(rule, counter, at, float(least))
        return None

    def _at_start(self, counter: str) -> float:
        """The value of a counter when rules are evaluated first: the start is entered before."""
        counting, spec = self._proof.counting, self._proof.chart.spec
        entered = [
            counting.of_entry(spec.states[name]).get(counter, 0)
            for name in self._proof.routes.entries if name in spec.states
        ]  # fmt: skip
        return counting.first.get(counter, 0) + max(entered, default=0)

    def _least(self, counter: str, needed: Mapping[int, Number], *, gated: bool) -> Number | None:
        """The least amount with which a run reaches an end; `needed` is that of single steps."""
        counted = self._budgets.step_counts(counter)
        gates = [s.route.gates.get(counter, INF) if gated else INF for s in self._steps]
        counting = [n for n in self._going_on if counted[n]]
        # before it is counted again, a run leaves the place where it was counted last
        left = {self._steps[n].route.dest for n in counting}
        exits = [gates[n] for n in self._going_on if self._steps[n].route.source in left]
        past = (min(gates[n], max(exits, default=INF)) + self._after(counter, n) for n in counting)
        most = max(past, default=INF)  # all that is counted is counted below a gate

        def at(n: int, amount: Number) -> Number | None:
            amount = max(amount, needed.get(n, 0))
            return amount if amount < min(gates[n], most) else None

        first = exact(self._proof.counting.first.get(counter, 0))
        return self._budgets.least_between(counter, [(0, first)], self._ends, at)

    def _needed(self, counter: str) -> Iterator[tuple[int, Number]]:
        """Yield each step whose guard waits for something, with the least amount it takes."""
        first = exact(self._proof.counting.first.get(counter, 0))
        apart: dict[str, tuple[Number | None, Number | None]] = {}
        for n, (name, value) in self._waiting:
            progress = self._progress[name]
            times = math.ceil((value - progress.first) / max(progress.steps.values(), default=1))
            if times > 0 and progress.steps:
                if name not in apart:
                    after = [(self._steps[m].route.dest, self._after(counter, m))
                             for m in progress.steps]  # fmt: skip
                    apart[name] = (
                        self._budgets.least_between(counter, [(0, first)], progress.steps),
                        self._budgets.least_between(counter, after, progress.steps),
                    )
                begun, each = apart[name]
                yield n, (begun or 0) + (times - 1) * (each or 0)

    def _after(self, counter: str, n: int) -> Number:
        return self._budgets.step_counts(counter)[n] - self._budgets.before(counter)[n]

    # what guards wait for -----------------------------------------------------------------------

    @cached_property
    def _progress(self) -> dict[str, Progress]:
        """The counters that guards may wait for, by name."""
        proof, spec = self._proof, self._proof.chart.spec
        out: dict[str, Progress] = {}
        for counter in sorted(proof.counting.counters - REAL):
            adds = dict[int, float]()
            for n in self._going_on:
                route, uses = self._steps[n].route, self._steps[n].uses
                adds[n] = route.after.get(counter, 0) + uses.ends.get(counter, (0, 0))[1]
            first = proof.counting.first.get(counter, 0)
            out[counter] = Progress(first, {n: a for n, a in adds.items() if a > 0})
        for again in proof.counting.again:
            adds = {
                n: again.edges[origin]
                for n in self._going_on if (origin := self._steps[n].route.origin) in again.edges
            }  # fmt: skip
            out[again.variable] = Progress(max(again.first, *again.resets.values()), adds)
        shares = any("share" in s.args for s in spec.states.values())
        if isinstance(spec.tasks, tuple) and not shares:
            working = {n for n, s in spec.states.items() if s.traits.asks == "task"}
            adds = {n: 1.0 for n in self._going_on if self._steps[n].route.state in working}
            out[QUEUE] = Progress(0, adds)
        return out

    @cached_property
    def _waiting(self) -> list[tuple[int, tuple[str, float]]]:
        """The steps whose guards wait for a counter, each with the value that they wait for."""
        by_edge: dict[str, list[tuple[str, float]]] = {}
        out: list[tuple[int, tuple[str, float]]] = []
        for n, step in enumerate(self._steps):
            edge = self._edges.get(step.route.origin)
            if edge is not None:
                if edge.id not in by_edge:
                    by_edge[edge.id] = list(self._waits_for(edge))
                out += [(n, wait) for wait in by_edge[edge.id]]
        return out

    def _waits_for(self, edge: Edge) -> Iterator[tuple[str, float]]:
        """Yield the values that counters must have reached for an edge to be taken."""
        state = self._proof.chart.spec.states.get(edge.source)
        if state is None or edge.role in ("failed", "expired", "case"):
            return
        for other in state.edges:
            if other.trigger != edge.trigger or other.role in ("failed", "expired", "case"):
                continue
            if other.when is not None:
                for name in sorted(self._progress.keys() & other.when.reads):
                    value = self._least_value(name, other.when, edge.source, other is edge)
                    if value > 0:
                        yield name, value
            if other is edge:
                return

    def _least_value(self, name: str, guard: Expression, state: str, holds: bool) -> float:
        """The least value of a counter with which a guard may hold, or may not; 0 for any."""
        usual, routes = self._proof.world.known_facts(), self._proof.routes
        # the lists that have one length whenever a run is at the state
        lists = {
            path: Other(size=size)
            for path, (size, setters) in self._lists.items()
            if all(routes.places[n].state != state for n in reached_before(routes, setters))
        }
        tasks = self._proof.chart.spec.tasks
        count = len(tasks) if isinstance(tasks, tuple) else 0

        def refuted(value: float) -> bool:
            """Whether it cannot be so while the counter is below the value."""

            def known(fact: Fact) -> Value | None:
                if fact.path == QUEUE and name == QUEUE:
                    return Range(max(0, count - value + 1), INF)
                return Range(-INF, value - 1) if fact.path == name else (
                    lists.get(fact.path) or usual(fact)
                )  # fmt: skip

            return surely(judge(guard.root, known)) is (not holds)

        given = [v for v in _numbers(guard.root, self._proof.limits) if 0 <= v < 10**6]
        given += [one.size for one in lists.values() if one.size is not None]
        likely = {math.floor(v) + more for v in (*given, count) for more in (0, 1)}
        return max((v for v in likely if refuted(v)), default=0)

    @cached_property
    def _lists(self) -> dict[str, tuple[int, frozenset[str]]]:
        """The lists that only `set` of states writes, and always with as many items."""
        spec, sizes, setters = self._proof.chart.spec, dict[str, set[int | None]](), {}
        everywhere: dict[str, set[str]] = setters
        for state in spec.states.values():
            for one in state.set:
                found: Value = NO
                if isinstance(one.value, Expression):
                    found = judge(one.value.root, self._proof.world.known_facts())
                else:
                    found = of_plain(one.value)
                size = found.size if isinstance(found, Other) and not one.append else None
                sizes.setdefault(one.target, set()).add(size)
                everywhere.setdefault(one.target, set()).add(state.name)
        writes = [one for state in spec.states.values() for one in state.set]
        others = {one.target for one in all_sets(spec) if not any(one is w for w in writes)}
        for state in spec.states.values():
            others |= {save.target for save in state.save} | set(state.args)
            if state.action is not None and state.action.writes_any_variable:
                return {}
        return {
            path: (size, frozenset(everywhere[path]))
            for path, found_ in sizes.items()
            if path not in others and len(found_) == 1 and (size := next(iter(found_))) is not None
        }


def _numbers(root: Node, limits: Mapping[str, object]) -> Iterator[float]:
    """Yield the numbers that a guard compares with."""
    for node in walk(root):
        value = node.value if isinstance(node, Const) else None
        if isinstance(node, Fact):
            value = limits.get(node.path.removeprefix("limits."))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield value
