"""The machine under check: its live transitions as graphs, and where findings go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from chartloop.core.codes import finding
from chartloop.core.errors import Finding, Place
from chartloop.core.specs import Supply
from chartloop.language.expression import Expression
from chartloop.language.file.unreadable import Unread
from chartloop.language.spec import MachineSpec, StateSpec, path_in_file
from chartloop.language.yaml.document import dotted_path
from chartloop.language.yaml.reading import MAX_FINDINGS, Path
from chartloop.machine.abstract.signals import OUTSIDE, raised_by_states
from chartloop.machine.build import Chart
from chartloop.machine.regions import GuardedTransition
from chartloop.proofs.digraph import Digraph
from chartloop.proofs.guards.domains import World
from chartloop.proofs.guards.prover import Prover, Solver


class Begun(NamedTuple):
    """How a parent starts a machine, beside how its own file says."""

    starts: frozenset[str] = frozenset()
    """States at which it starts it instead of at its start."""
    brought: frozenset[Supply] = frozenset()
    """The data that it shares with it."""


ALONE = Begun()
"""No parent starts it."""


class CheckContext:
    """A chart, the graphs of its ways, and the findings so far."""

    def __init__(
        self, chart: Chart, unread: Unread, *, begun: Begun = ALONE,
        solver: Solver | None = None, broken: bool = False,
    ) -> None:  # fmt: skip
        self.chart = chart
        self.broken = broken
        """A part of the file could not be read."""
        self.starts, self.brought = begun
        self._solver = solver
        self.spec = chart.spec
        self.unread = unread
        self.findings: list[Finding] = []
        self.order = {name: n for n, name in enumerate(self.spec.states)}
        """Where each state is in the file."""
        moves = [t for t in chart.step.transitions() if t.is_edge]
        self.rules = [t for t in chart.step.transitions("check") if t.kind == "rule" and t.dest]
        own = [t for t in moves if t.kind != "retry"]
        self.own = self._graph(own)
        """States and the file's own edges, without retries, which are counted."""
        self.before = self._before(own)
        """The same as far as no reason to stop has been raised."""
        self.behind = self._graph(t for t in own if not self._off_behind_a_stop(t))
        """The same in an epilogue: a failed action continues there as after a success."""
        self.stopping = {t.dest for t in own if t.stop and t.dest}
        """Where edges lead that raise a reason, `on_error` too."""
        self.ways = self._graph([*moves, *self.rules])
        """The same with the rules' exits."""
        self.reached = self._reachable()
        """The states that a run can come to."""

    def _graph(self, found: Iterable[GuardedTransition]) -> Digraph[str]:
        states = self.spec.states
        ways = ((t.source, t.dest or "") for t in found)
        return Digraph(states, (way for way in ways if way[1] in states))

    def _before(self, own: Iterable[GuardedTransition]) -> Digraph[str]:
        graph = self._graph(t for t in own if not t.stop)
        return graph.subgraph(n for n, s in self.spec.states.items() if not s.stop)

    def _off_behind_a_stop(self, t: GuardedTransition) -> bool:
        """Source: design "language", section 2, the epilogue."""
        late = t.kind == "expired" and t.source in self.chart.acting
        return late or t.diverts

    def _reachable(self) -> set[str]:
        """The reachable states: from the start, by rules and signals, by what was not read."""
        spec, route = self.spec, self.chart.route
        starts: set[str | None] = {spec.start, *(t.dest for t in self.rules)}
        starts |= {route(reason) for reason in (*OUTSIDE, *raised_by_states(spec))}
        if spec.on_error is not None:
            starts.add(spec.on_error.target)
        starts |= self.unread.words | self.starts
        self.opened = starts
        """States that are come to without any edge that leads to them."""
        seen: set[str] = set()
        for start in spec.states.keys() & starts:
            seen |= self.ways.onward(start)
        return seen

    @cached_property
    def successors(self) -> Mapping[str, set[str]]:
        """The states to which a run may continue from each, in whatever way."""
        out: dict[str, set[str]] = {}
        for t in self.chart.step.transitions():
            if t.dest is not None and t.dest in self.spec.states:
                out.setdefault(t.source, set()).add(t.dest)
        return out

    @cached_property
    def own_code(self) -> bool:
        """Whether code of an application runs in it that can see, raise or change what it likes."""
        actions = (s.action for s in self.spec.states.values())
        return any(action is not None and not action.is_builtin for action in actions)

    @cached_property
    def signals_stop(self) -> bool:
        """Whether a stop rule that holds always stops the run: nothing puts signals off."""
        puts_off = any(state.traits.continues for state in self.spec.states.values())
        return not self.own_code and not puts_off

    # proofs ---------------------------------------------------------------------------------

    @cached_property
    def prover(self) -> Prover:
        """Answers what guards can do in this machine, whatever its limits are set to."""
        acting = [s for s in self.spec.states.values() if s.action and s.name in self.reached]
        words = {
            "last.action": frozenset({"", *(s.action.name for s in acting if s.action)}),
            "last.state": frozenset({"", *(s.name for s in acting)}),
        }
        return Prover(World(words), self._solver)

    @cached_property
    def as_written(self) -> World:
        """The same world with the limits as the file sets them."""
        limits = {
            f"limits.{name}": limit.value
            for name, limit in self.spec.limits.items()
            if limit.value is not None
        }
        return World(self.prover.world.words, limits)

    def has_key(self, key: str) -> bool:
        """Whether the file has a key, even an empty one: `tasks: []` leaves them to the caller."""
        document = self.spec.document
        return document is not None and document.has((*self.spec.base, key))

    # findings -------------------------------------------------------------------------------

    def has_finding_at(self, path: Path) -> bool:
        """Whether a finding already has exactly this place."""
        full = self.full(path)
        return any(f.at == full for f in self.findings)

    def is_accepted(self, code: str, path: Path) -> bool:
        """Whether the file's `ignore` accepts a finding of this code at this place."""
        return self.spec.accepts(finding(code, "", at=self.full(path)))

    def full(self, path: Path) -> str:
        """A place in the words of the whole file: what `Finding.at` holds."""
        return dotted_path(self.spec.base + path_in_file(self.spec.made, path))

    def say(
        self, code: str, path: Path, message: str, *, hint: str = "", key: bool = False,
        of: str = "", at: str = "", place: Place | None = None,
    ) -> None:  # fmt: skip
        """Note a finding at a path of the file, or at a part `of` its text.

        Nothing is said about a state, rule or limit that could not be read whole.
        """
        if len(self.findings) < MAX_FINDINGS and dotted_path(path[:2]) not in self.unread.places:
            place = place or self.spec.place(path, key=key, of=of)
            self.findings.append(finding(code, message, place, hint=hint, at=at or self.full(path)))

    def say_behind(self, code: str, path: Path, message: str, first: Path) -> None:
        """Note that an edge is never taken; show the line of the one evaluated first."""
        noted = len(self.findings)
        self.say(code, path, message, hint="move it up, or remove it")
        if first and len(self.findings) > noted:
            related = ("asked first", self.spec.place(first))
            self.findings[-1] = replace(self.findings[-1], related=related)

    def say_of(self, code: str, state: StateSpec, message: str, *, hint: str = "") -> None:
        """Note a finding about a state, at its name."""
        self.say(code, ("states", state.name), message, hint=hint, key=True)

    def whole(self, names: Iterable[str]) -> bool:
        """Whether all of these states were read whole."""
        return not any(f"states.{name}" in self.unread.places for name in names)

    def in_order(self, names: Iterable[str]) -> list[str]:
        """States in the order of the file."""
        return sorted(set(names), key=self.order.__getitem__)

    def circle(self, names: Iterable[str]) -> str:
        """States that go round, in words."""
        found = self.in_order(names)
        return " → ".join([*found[:8], *(["…"] if len(found) > 8 else []), found[0]])


def loops(graph: Digraph[str]) -> list[list[str]]:
    """The parts of a graph that go round."""
    found: list[list[str]] = []
    for component in graph.components():
        names: list[str] = sorted(component)
        if len(names) > 1 or graph.has_edge(names[0], names[0]):
            found.append(names)
    return found


def in_order_of_ways(context: CheckContext) -> list[list[str]]:
    """All states in parts that go round, each behind those that lead to it without an action."""
    states = context.spec.states
    graph = context.own.without(edge for edge in context.own.edges if states[edge[1]].rests)
    return [sorted(part) for part in graph.components()][::-1]


def guards_of(spec: MachineSpec) -> Iterator[tuple[Path, Expression]]:
    """Every guard of a machine, and where it is: rules, edges, decisions."""
    for number, rule in enumerate(spec.rules):
        yield ("rules", int(rule.id.partition(".")[2] or number), "when"), rule.when
    for state in spec.states.values():
        if state.of is not None:
            yield ("states", state.name, "of"), state.of
        for edge in state.edges:
            if edge.when is not None:
                asked = edge.role == "then"
                path = ("states", state.name, "when") if asked else (*edge.path, "when")
                yield path, edge.when
