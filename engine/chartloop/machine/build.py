"""Spec to chart: two live machines, and the tables that `evolve` looks things up in.

A chart is closed once built and shared by all runs and threads: `ClosedChartError` for whoever
changes it. An addition to the file makes a new chart and a new hash. Rules are read off the
live transitions of `check`, which are what pictures show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from chartloop.core.facts import (
    Facts,
    LastFacts,
    QueueFacts,
    RunFacts,
    UsageFacts,
)
from chartloop.core.position import Position, ReturnPoint
from chartloop.core.specs import ToolSpec
from chartloop.core.types import BOOL, DURATION, Type
from chartloop.language.dump import canonical
from chartloop.language.expression import Bound, Expression, Scope, fuse, parse
from chartloop.language.spec import HIGHEST, RETURN, Assign, MachineSpec, Rule, StateSpec
from chartloop.language.template.template import Template
from chartloop.machine.regions import GuardedTransition, LeanEvent, Node, Region, RuleHolds
from chartloop.machine.transition_table import (
    ENGINE_ENDS,
    Way,
    return_points,
    route,
    ways,
)

MOST_MOVES = 100_000
"""The most moves of one decision where passing states count: a list is gone through without an
action, and its length is known when it runs."""


class Entry(NamedTuple):
    """What happens on entering a state, besides counting the visit."""

    status: str
    set: tuple[Assign, ...]
    stop: str
    message: Template | None


class Rules(NamedTuple):
    """The rules that cover one moment; their guards are compiled into one function."""

    numbers: tuple[int, ...]
    all: Callable[[Facts, Any], tuple[Any, ...]]


class LiveRule(NamedTuple):
    """A rule as the live machine has it: what it says, and what its condition asks."""

    rule: Rule
    guard: Expression


class Warn(NamedTuple):
    """A share of a budget at which the result warns."""

    id: str
    guard: Expression
    fact: str
    bound: str


class Chart:
    """The compiled machine. `step` and `status` are live; everything else is read only."""

    region: type[Region] = Region
    """What the live machines are made of; the differential test makes them of both kinds."""

    def __init__(self, spec: MachineSpec, lifecycle: MachineSpec | None = None) -> None:
        self.spec = spec
        self.name = spec.name
        self.handled = handled_states(spec)
        self.step = _region(self.region, "state", spec, ways(spec, self.handled))
        self.status = self.step
        self.lifecycle = lifecycle
        self._children: dict[str, Chart] = {}
        if lifecycle is not None:
            self.status = _region(self.region, "status", lifecycle, ways(lifecycle, frozenset()))
        states = spec.states
        self.resting = frozenset(n for n, s in states.items() if s.rests) | set(ENGINE_ENDS)
        self.acting = frozenset(n for n, s in states.items() if s.action is not None)
        self.waiting = frozenset(n for n, s in states.items() if s.job == "wait")
        self.ends: Mapping[str, str] = {
            **ENGINE_ENDS, **{n: s.end for n, s in states.items() if s.end is not None},
        }  # fmt: skip
        self.entry = {
            n: Entry(s.status, s.set, s.stop, s.message)
            for n, s in states.items()
            if s.status or s.set or s.stop
        }
        passed: dict[str, frozenset[str]] = {}
        self.joins = {n: join_of(spec, s, passed) for n, s in states.items() if s.all}
        self.diverting = frozenset(
            t.source for t in self.step.transitions("advance") if t.kind in ("failed", "error")
        )
        """The states whose failures take another way than their successes."""
        passing = (e for e in spec.edges() if not spec.states[e.source].rests)
        self.bound = MOST_MOVES if any(e.set for e in passing) else len(self.step.nodes) + 1
        """More moves than this without an action is an error that the checker rules out."""
        self.by_origin: dict[str, GuardedTransition] = {}
        for t in self.step.transitions():
            self.by_origin.setdefault(t.origin, t)
        self.rules = _live_rules(self.step)
        """The rules, by their number in the file."""
        self._tools: dict[str, tuple[ToolSpec, ...]] = {}
        self._offered: dict[str, tuple[Mapping[str, Any], ...]] = {}
        self._fused: dict[tuple[int, ...], Rules] = {}
        self._rules = {n: self._covering(n) for n in states}
        self.before: dict[str, tuple[int, ...]] = {}
        for number, live in self.rules.items():
            for name in live.rule.before:
                self.before[name] = (*self.before.get(name, ()), number)
        self.warns = _warns(spec)
        self.rule_warns = tuple(
            (n, r.rule.id) for n, r in self.rules.items() if r.rule.id in self.warns
        )
        self.detours = {r.id: r.to for r, _ in self.rules.values() if r.kind == "detour"}
        """Where each detour leads, by the id of its rule."""
        self.time_left = _time_left(spec)
        """What each time limit leaves, in seconds: it also bounds a long action."""
        self.stops_in = _stops_in(spec)
        """What those leave of which a rule alone stops the run: no wait goes past them."""

    @cached_property
    def text(self) -> str:
        """The machine's canonical text."""
        return canonical(self.spec)

    # children -------------------------------------------------------------------------------

    def answer_fields(self, state: str, event: str) -> dict[str, Type]:
        """The fields of an answer to a wait, with their types."""
        node = self.spec.states.get(state)
        edges = node.edges_of("on") if node is not None else ()
        return next((dict(edge.data) for edge in edges if edge.trigger == event), dict[str, Type]())

    def child(self, name: str) -> Chart:
        """The chart of a child machine, by the name that this one has for it. `KeyError`."""
        found = self._children.get(name)
        if found is None:
            found = self._children[name] = self.beside(self.spec.machines[name])
        return found

    def beside(self, spec: MachineSpec) -> Chart:
        """The chart of another machine, whose runs have the same statuses."""
        return Chart(spec, self.lifecycle)

    # rules ----------------------------------------------------------------------------------

    def rules_at(self, state: str) -> Rules | None:
        """The rules that are evaluated after the action of a state; `before` rules apart."""
        return self._rules.get(state)

    def _covering(self, state: str) -> Rules | None:
        """What the live `check` asks at a state, in the file's order."""
        event = self.event("check")
        here = event.at(state) if event is not None else ()
        numbers = tuple(sorted(
            g.number for t in here if t.rule is not None and not t.rule.before
            for g in t.guards if isinstance(g, RuleHolds)
        ))  # fmt: skip
        if numbers and numbers not in self._fused:
            self._fused[numbers] = Rules(numbers, fuse([self.rules[n].guard for n in numbers]))
        return self._fused.get(numbers)

    # tools ----------------------------------------------------------------------------------

    def tools_at(self, state: str) -> tuple[ToolSpec, ...]:
        """The tools that a state may use, in the file's order."""
        found = self._tools.get(state)
        if found is None:
            found = self._tools[state] = self.spec.tools_at(self.spec.states[state])
        return found

    def offered_at(self, state: str) -> tuple[Mapping[str, Any], ...]:
        """The same as chat APIs take them: shared by all calls, not to be written into."""
        found = self._offered.get(state)
        if found is None:
            made = tuple([tool.for_model() for tool in self.tools_at(state)])
            found = self._offered[state] = made
        return found

    @cached_property
    def memory_tools(self) -> frozenset[str]:
        """The names of the tools that edit memory blocks."""
        return frozenset(n for n, t in self.spec.registry.tools.items() if t.memory)

    @cached_property
    def returnable(self) -> Mapping[str, bool]:
        """For each detour by id: whether it may come back to where it interrupted the run."""
        return {id: self._comes_back(to) for id, to in self.detours.items()}

    def _comes_back(self, start: str) -> bool:
        seen, pending = {start}, [start]
        while pending:
            for edge in self.spec.states[pending.pop()].edges:
                if edge.target == RETURN:
                    return True
                if edge.target not in seen:
                    seen.add(edge.target)
                    pending.append(edge.target)
        return False

    @cached_property
    def main(self) -> frozenset[str]:
        """The states that are reached without a detour."""
        seen, pending = {self.spec.start}, [self.spec.start]
        if self.spec.on_error is not None:
            pending.append(self.spec.on_error.target)
        while pending:
            for edge in self.spec.states[pending.pop()].edges:
                if edge.target != RETURN and edge.target not in seen:
                    seen.add(edge.target)
                    pending.append(edge.target)
        return frozenset(seen)

    @cached_property
    def interruptible(self) -> Mapping[ReturnPoint, str]:
        """Where a run is going at each point at which a detour may interrupt it."""
        out: dict[ReturnPoint, str] = {}
        for rule in self.spec.rules:
            if rule.kind == "detour":
                out |= dict(return_points(self.spec, rule))
        return out

    def route(self, reason: str) -> str:
        """Where a stop for this reason goes when nothing else is said."""
        return route(self.spec, reason)

    # events ---------------------------------------------------------------------------------

    def event(self, name: str) -> LeanEvent | None:
        """A trigger of the step machine, or None."""
        return self.step.triggers.get(name)

    def events_at(self, state: str) -> tuple[str, ...]:
        """The events that a wait takes, in the file's order."""
        spec = self.spec.states.get(state)
        return tuple(dict.fromkeys(e.trigger for e in spec.edges_of("on"))) if spec else ()

    def position(self, run_id: str) -> Position:
        """Where a new run is, before `start`."""
        spec = self.spec
        facts = Facts(
            run=RunFacts(id=run_id, machine=spec.name, visits=dict.fromkeys(self.step.nodes, 0)),
            usage=UsageFacts(
                calls=dict.fromkeys(spec.tools or spec.registry.tools, 0),
                context_window=int(spec.model.get("context_window") or 0),
            ),
            last=LastFacts(),
            queue=QueueFacts(),
            memory={n: b.value for n, b in spec.memory.items()},
            limits={n: x.value for n, x in spec.limits.items()},
            vars={n: v.value for n, v in spec.vars.items()},
        )
        return Position(spec.start, facts=facts)


def _live_rules(step: Region) -> dict[int, LiveRule]:
    """The rules that are on the live `check`, each once."""
    found = {
        g.number: LiveRule(t.rule, g.expression)
        for t in step.transitions("check") if t.rule is not None
        for g in t.guards if isinstance(g, RuleHolds)
    }  # fmt: skip
    return dict(sorted(found.items()))


def _region(make: type[Region], attribute: str, spec: MachineSpec, table: list[Way]) -> Region:
    nodes = [Node(n, spec=s, final=s.job == "end") for n, s in spec.states.items()]
    if attribute == "state":
        nodes += [Node(n, final=True) for n in ENGINE_ENDS]
    region = make(attribute, nodes, spec.start)
    for way in table:
        if way.dest is not None and way.dest in ENGINE_ENDS and attribute != "state":
            continue
        region.add(
            way.trigger, way.source, way.dest, conditions=list(way.guards), origin=way.origin,
            kind=way.kind, by=way.by, edge=way.edge, rule=way.rule,
        )  # fmt: skip
    region.close()
    return region


def handled_states(spec: MachineSpec) -> frozenset[str]:
    """The states whose failures the file deals with itself. Source: "language", section 2."""
    return frozenset(
        n for n, s in spec.states.items() if s.action is not None and _handles(spec, s)
    )


def _handles(spec: MachineSpec, state: StateSpec) -> bool:
    if state.failed_next or any(state.edges_of("failed")):
        return True
    seen, pending = {state.name}, [state]
    while pending:
        here = pending.pop()
        for edge in here.edges:
            reads = edge.when.reads if edge.when is not None else frozenset[str]()
            if here.of is not None:
                reads |= here.of.reads
            if any(is_about_errors(r) for r in reads):
                return True
            after = spec.states.get(edge.target)
            if after is not None and after.name not in seen and not after.rests:
                seen.add(after.name)
                pending.append(after)
    return False


def is_about_errors(fact: str) -> bool:
    """Whether a fact says that, or how, an action failed."""
    return fact.startswith(("last.error", "errors.")) or fact == "last.ok"


def join_of(
    spec: MachineSpec, fork: StateSpec, passed: dict[str, frozenset[str]] | None = None
) -> str | None:
    """The nearest state that no branch can go round once stops are left out; None: there is none.

    `passed` is what has been found out for other forks of the machine: it is shared and added to.
    """
    names = [b for b in fork.all if b in spec.states]
    if not names:
        return None
    known = {} if passed is None else passed
    first, *others = (_must_pass(spec, name, known) for name in names)
    common = first.intersection(*others)
    # every way passes all of them, and in one order: the first on any way is the nearest
    at, seen = names[0], set[str]()
    while common and at and at not in common and at not in seen:
        seen.add(at)
        at = next(iter(_onward(spec, at)), "")
    return at if at in common else None


def _must_pass(spec: MachineSpec, start: str, must: dict[str, frozenset[str]]) -> frozenset[str]:
    """The states that every way from `start` passes, up to where a branch ends.

    A branch ends at an action or a wait; a stop leaves it and does not count.
    """
    seen = {start, *must}
    stack = [] if start in must else [(start, iter(_onward(spec, start)))]
    while stack:
        name, onward = stack[-1]
        for to in onward:
            if to not in seen:
                seen.add(to)
                stack.append((to, iter(_onward(spec, to))))
                break
        else:  # children first: branches have no loops, which the checker sees to
            stack.pop()
            behind = [must[t] for t in _onward(spec, name) if t in must]
            shared = behind[0].intersection(*behind[1:]) if behind else frozenset[str]()
            must[name] = shared | {name}
    return must[start]


def _onward(spec: MachineSpec, name: str) -> list[str]:
    state = spec.states[name]
    if state.rests or _stops(state):
        return []
    targets = dict.fromkeys(e.target for e in state.edges if e.target in spec.states)
    return [t for t in targets if not _stops(spec.states[t])]


def _stops(state: StateSpec) -> bool:
    return bool(state.stop) or state.job == "end"


def _warns(spec: MachineSpec) -> dict[str, Warn]:
    """The `warn_at`s as their own guards, by the id of their rule or decision."""
    out: dict[str, Warn] = {}
    scope = Scope(spec.roots, guards=spec.registry.guards)
    marked = [(r.id, r.when, r.warn_at) for r in spec.rules]
    marked += [
        (n, next((e.when for e in s.edges_of("then")), None), s.warn_at)
        for n, s in spec.states.items()
    ]
    for id, guard, share in marked:
        if share is None or guard is None or not guard.bounds:
            continue
        bound = guard.bounds[0]
        part = share.text if isinstance(share, Expression) else repr(share)
        text = f"{bound.fact} >= ({bound.bound_text}) * ({part})"
        limits = [r for r in guard.reads if r.startswith("limits.") and _may_be_off(spec, r)]
        text = " and ".join([*(f"{r} is not None" for r in sorted(limits)), text])
        out[id] = Warn(id, parse(text, scope, want=BOOL), bound.fact, bound.bound_text)
    return out


def _time_left(spec: MachineSpec) -> tuple[Expression, ...]:
    guards = [r.when for r in spec.rules] + [e.when for e in spec.edges() if e.when is not None]
    facts = ("run.elapsed", "run.working")
    return _left_by(spec, [b for g in guards for b in g.bounds if b.fact in facts])


def _stops_in(spec: MachineSpec) -> tuple[Expression, ...]:
    """Of `run.elapsed` alone: the clock of `run.working` stands still while a run waits."""
    rules = [r for r in spec.rules if r.stop and not (r.at or r.before)]
    bounds = [b for r in rules for b in r.when.bounds if b.text == r.when.text]
    return _left_by(spec, [b for b in bounds if b.fact == "run.elapsed"])


def _left_by(spec: MachineSpec, bounds: Sequence[Bound]) -> tuple[Expression, ...]:
    scope = Scope(spec.roots, guards=spec.registry.guards)
    out: dict[str, Expression] = {}
    for bound in bounds:
        text = f"({bound.bound_text}) - {bound.fact}"
        off = [
            f"limits.{n}"
            for n, x in spec.limits.items()
            if x.type.nullable and f"limits.{n}" in bound.bound_text
        ]
        if off:  # a limit that is off leaves a hundred years
            text = (
                f'{text} if {" and ".join(f"{n} is not None" for n in off)} else duration("36500d")'
            )
        out.setdefault(text, parse(text, scope, want=DURATION))
    return tuple(out.values())


def _may_be_off(spec: MachineSpec, read: str) -> bool:
    limit = spec.limits.get(read.removeprefix("limits."))
    return limit is not None and limit.type.nullable


__all__ = [
    "HIGHEST",
    "Chart",
    "Entry",
    "LiveRule",
    "Rules",
    "Warn",
    "handled_states",
    "join_of",
]
