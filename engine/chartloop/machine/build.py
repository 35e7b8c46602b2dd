"""Compiles a spec to a chart: two live machines, and lookup tables for `evolve`.

A chart is closed once built, and shared by all runs and threads: changing it raises
`ClosedChartError`. A changed file makes a new chart with a new hash. Rules are read from the live
transitions of `check`, which pictures show too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, cast

from msgspec import Struct

from chartloop.core.digraph import reachable
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
from chartloop.language.label import Label
from chartloop.language.spec import RETURN, Assign, MachineSpec, Rule, StateSpec
from chartloop.language.template.template import Template
from chartloop.machine.regions import GuardedTransition, LeanEvent, Node, Region, RuleHolds
from chartloop.machine.transition_table import (
    ENGINE_ENDS,
    Row,
    return_points,
    route,
    transition_rows,
)

MOST_MOVES = 100_000
"""The most moves of one decision if passing states assign variables: such a loop over a list needs
no action, and the length of the list is known only at run time."""


class Entry(NamedTuple):
    """The effects of entering a state, apart from counting the visit."""

    status: str
    set: tuple[Assign, ...]
    stop: str
    message: Template | None


class Rules(Struct, frozen=True):
    """The rules that apply at one moment, with their guards compiled into one function."""

    numbers: tuple[int, ...]
    all: Callable[[Facts, Any], tuple[Any, ...]]


class LiveRule(NamedTuple):
    """A rule of the live machine, with the guard of its condition."""

    rule: Rule
    guard: Expression


class Warn(NamedTuple):
    """A share of a budget at which the result warns."""

    id: str
    guard: Expression
    fact: str
    bound: str


class Chart:
    """The compiled machine: two live regions that are closed, and tables computed from them.

    `step` is the region of the machine's own states, `status` that of `lifecycle`.
    """

    region: type[Region] = Region
    """The class of the live machines; the differential test replaces it."""

    def __init__(self, spec: MachineSpec, lifecycle: MachineSpec | None = None) -> None:
        self.spec = spec
        self.name = spec.name
        self.handled = handled_states(spec)
        self.step = _region(self.region, "state", spec, transition_rows(spec, self.handled))
        self.status = self.step  # of a chart that is only drawn, without a lifecycle
        self.lifecycle = lifecycle
        self._children: dict[str, Chart] = {}
        if lifecycle is not None:
            rows = transition_rows(lifecycle, frozenset())
            self.status = _region(self.region, "status", lifecycle, rows)
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
        self.diverting = frozenset(t.source for t in self.step.transitions("advance") if t.diverts)
        """The states whose failures take another edge than their successes."""
        passing = (e for e in spec.edges() if not spec.states[e.source].rests)
        self.bound = MOST_MOVES if any(e.set for e in passing) else len(self.step.nodes) + 1
        """The most moves without an action; the checker rules out machines that need more."""
        self.by_origin: dict[str, GuardedTransition] = {}
        for t in self.step.transitions():
            self.by_origin.setdefault(t.origin, t)
        self.event: Callable[[str], LeanEvent | None] = self.step.triggers.get
        """A trigger of the step machine by its name, or None."""
        self.rules = _live_rules(self.step)
        """The rules, by their number in the file."""
        self._tools: dict[str, Mapping[str, ToolSpec]] = {}
        self._offered: dict[str, tuple[Mapping[str, Any], ...]] = {}
        self.warns = _warns(spec)
        self.rule_warns = tuple(
            (n, r.rule.id) for n, r in self.rules.items() if r.rule.id in self.warns
        )
        self._fused: dict[tuple[int, ...], Rules] = {}
        self.rules_at: Callable[[str], Rules | None] = {n: self._covering(n) for n in states}.get
        """The rules evaluated when a decision begins at a state, without `before` rules."""
        self.before: dict[str, tuple[int, ...]] = {}
        for number, live in self.rules.items():
            for name in live.rule.before:
                self.before[name] = (*self.before.get(name, ()), number)
        self.detours = {r.id: r.to for r, _ in self.rules.values() if r.kind == "detour"}
        """The target of each detour, by the id of its rule."""
        self.time_left = _time_left(spec)
        """The seconds left of each time limit, which also bound a long action."""
        self.back_off_caps = _back_off_caps(spec)
        """The same for limits that stop the run for certain: no back-off goes past them."""

    @cached_property
    def text(self) -> str:
        """The machine's canonical text."""
        return canonical(self.spec)

    @cached_property
    def fleet_reads(self) -> tuple[str, ...]:
        """The facts of `fleet` that its expressions and templates name; those of children aside."""
        names = {name for name in _names_in(self.spec) if f"{name}.".startswith("fleet.")}
        return tuple(sorted(names))

    # children -------------------------------------------------------------------------------

    def answer_fields(self, state: str, event: str) -> dict[str, Type]:
        """The fields of an answer to a wait, with their types."""
        node = self.spec.states.get(state)
        edges = node.edges_of("on") if node is not None else ()
        return next((dict(edge.data) for edge in edges if edge.trigger == event), dict[str, Type]())

    def child(self, name: str) -> Chart:
        """The chart of a child machine, by its name in this machine. Raises `KeyError`."""
        chart = self._children.get(name)
        if chart is None:
            chart = self._children[name] = self.beside(self.spec.machines[name])
        return chart

    def beside(self, spec: MachineSpec) -> Chart:
        """Compile another machine with an equal status region."""
        return Chart(spec, self.lifecycle)

    # rules ----------------------------------------------------------------------------------

    def _covering(self, state: str) -> Rules | None:
        """The rules of the live `check` at a state, in file order."""
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

    def tools_at(self, state: str) -> Mapping[str, ToolSpec]:
        """The tools that a state may use by name, in file order."""
        tools = self._tools.get(state)
        if tools is None:
            given = self.spec.tools_at(self.spec.states[state])
            tools = self._tools[state] = {tool.name: tool for tool in given}
        return tools

    def offered_at(self, state: str) -> tuple[Mapping[str, Any], ...]:
        """The same tools in the format of chat APIs. Shared by all calls: do not modify."""
        offered = self._offered.get(state)
        if offered is None:
            blocks = [*self.spec.memory]
            offered = tuple([tool.for_model(blocks) for tool in self.tools_at(state).values()])
            self._offered[state] = offered
        return offered

    @cached_property
    def memory_tools(self) -> frozenset[str]:
        """The names of the tools that edit memory blocks."""
        return frozenset(n for n, t in self.spec.registry.tools.items() if t.memory)

    @cached_property
    def returnable(self) -> Mapping[str, bool]:
        """For each detour, by id: whether it may return to where it interrupted the run."""
        return {id: RETURN in reachable([to], self._onward) for id, to in self.detours.items()}

    def _onward(self, name: str) -> list[str]:
        return [e.target for e in self.spec.states[name].edges] if name != RETURN else []

    @cached_property
    def main(self) -> frozenset[str]:
        """The states that are reachable without a detour."""
        error = self.spec.on_error
        starts = [*self.spec.entries, *([] if error is None else self._onward(error.target))]
        return frozenset(reachable(starts, self._onward)) - {RETURN}

    @cached_property
    def interruptible(self) -> Mapping[ReturnPoint, str]:
        """The destination of the run at each point where a detour may interrupt it."""
        out: dict[ReturnPoint, str] = {}
        for rule in self.spec.rules:
            if rule.kind == "detour":
                out |= dict(return_points(self.spec, rule))
        return out

    def route(self, reason: str) -> str:
        """The state that a stop for this reason leads to if it names no target."""
        return route(self.spec, reason)

    def events_at(self, state: str) -> tuple[str, ...]:
        """The events that a wait accepts, in file order."""
        spec = self.spec.states.get(state)
        return tuple(dict.fromkeys(e.trigger for e in spec.edges_of("on"))) if spec else ()

    def position(self, run_id: str) -> Position:
        """The position of a new run, before `start`."""
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


def _names_in(part: object) -> Iterator[str]:
    """The names of facts that expressions and templates in a part of a spec read."""
    if isinstance(part, (Expression, Label, Template)):
        yield from part.reads
    elif is_dataclass(part):
        own = (f.name for f in fields(part) if f.compare and f.name != "machines")
        yield from chain.from_iterable(_names_in(getattr(part, name)) for name in own)
    elif isinstance(part, Mapping):
        yield from _names_in([*cast("Mapping[str, object]", part).values()])
    elif isinstance(part, (tuple, list)):
        yield from chain.from_iterable(map(_names_in, cast("Sequence[object]", part)))


def _live_rules(step: Region) -> dict[int, LiveRule]:
    """The rules of the live `check`, each once."""
    rules = {
        g.number: LiveRule(t.rule, g.expression)
        for t in step.transitions("check") if t.rule is not None
        for g in t.guards if isinstance(g, RuleHolds)
    }  # fmt: skip
    return dict(sorted(rules.items()))


def _region(make: type[Region], attribute: str, spec: MachineSpec, rows: list[Row]) -> Region:
    nodes = [Node(n, spec=s, final=s.job == "end") for n, s in spec.states.items()]
    if attribute == "state":
        nodes += [Node(n, final=True) for n in ENGINE_ENDS]
    region = make(attribute, nodes, spec.start)
    for row in rows:
        if row.dest is not None and row.dest in ENGINE_ENDS and attribute != "state":
            continue
        region.add(
            row.trigger, row.source, row.dest, conditions=list(row.guards), origin=row.origin,
            kind=row.kind, by=row.by, edge=row.edge, rule=row.rule,
        )  # fmt: skip
    region.close()
    return region


def handled_states(spec: MachineSpec) -> frozenset[str]:
    """The states whose failures the file handles. Source: "language", section 2."""
    return frozenset(
        n for n, s in spec.states.items() if s.action is not None and _handles(spec, s)
    )


def _handles(spec: MachineSpec, state: StateSpec) -> bool:
    if state.failed_next or any(state.edges_of("failed")):
        return True
    states = spec.states

    def onward(name: str) -> Iterator[str]:
        targets = (e.target for e in states[name].edges if e.target in states)
        yield from (target for target in targets if not states[target].rests)

    for here in map(states.__getitem__, reachable([state.name], onward)):
        guards = [edge.when for edge in here.edges] + ([here.of] if here.edges else [])
        if any(is_about_errors(r) for g in guards if g is not None for r in g.reads):
            return True
    return False


def is_about_errors(fact: str) -> bool:
    """Whether a fact is about the failure of an action."""
    return fact.startswith(("last.error", "errors.")) or fact == "last.ok"


def join_of(
    spec: MachineSpec, fork: StateSpec, passed: dict[str, frozenset[str]] | None = None
) -> str | None:
    """The nearest state that every branch passes, stops aside; None if there is none.

    `passed` caches results between the forks of a machine.
    """
    names = [b for b in fork.all if b in spec.states]
    if not names:
        return None
    known = {} if passed is None else passed
    first, *others = (_must_pass(spec, name, known) for name in names)
    common = first.intersection(*others)
    # every path passes all of them in the same order: the first on any path is the nearest
    at, seen = names[0], set[str]()
    while common and at and at not in common and at not in seen:
        seen.add(at)
        at = next(iter(_onward(spec, at)), "")
    return at if at in common else None


def _must_pass(spec: MachineSpec, start: str, must: dict[str, frozenset[str]]) -> frozenset[str]:
    """The states that every path from `start` passes, up to the end of the branch.

    A branch ends at an action or a wait; paths to a stop do not count.
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
        else:  # postorder; the checker ensures that branches have no loops
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
    """The guard of each `warn_at`, by the id of its rule or decision."""
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
    facts = ("run.elapsed", "run.working")
    return _left_by(spec, [b for g in spec.guards() for b in g.bounds if b.fact in facts])


def _back_off_caps(spec: MachineSpec) -> tuple[Expression, ...]:
    """The limits of `run.elapsed` only: the clock of `run.working` stops while a run waits."""
    rules = [r for r in spec.rules if r.stops_for_certain]
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
