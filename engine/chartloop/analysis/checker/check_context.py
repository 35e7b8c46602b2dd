"""The machine under check: its live transitions as graphs, and its findings so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple, cast

from chartloop.analysis.checker.effects import Effects
from chartloop.analysis.proofs.guards.domains import World
from chartloop.analysis.proofs.guards.prover import Prover
from chartloop.core.codes import finding
from chartloop.core.digraph import Digraph
from chartloop.core.errors import Finding, Place
from chartloop.core.facts import Facts
from chartloop.core.specs import ActionSpec, Supply
from chartloop.language.expression import Expression
from chartloop.language.expression.runtime import GUARD_ERRORS, no_oracle
from chartloop.language.file.unreadable import Unread
from chartloop.language.intervals.evaluate import Known, judge, surely
from chartloop.language.intervals.interval import of_plain
from chartloop.language.label import Label
from chartloop.language.spec import Assign, MachineSpec, Save, StateSpec, path_in_file
from chartloop.language.template.template import Template
from chartloop.language.yaml.document import dotted_path
from chartloop.language.yaml.reading import MAX_FINDINGS, Path
from chartloop.machine.abstract.counters import Counting
from chartloop.machine.abstract.signals import OUTSIDE, raised_by_states
from chartloop.machine.build import Chart
from chartloop.machine.regions import GuardedTransition, Holds, RuleHolds

_ELSEWHERE = frozenset({"registry", "document", "roots", "machines", "define", "action"})
"""The fields of a spec without expressions or texts of the machine."""
_PLAIN = (str, int, float, type(None))
"""The types without parts, which most values of a spec have."""


class Embedding(NamedTuple):
    """How a parent runs a machine as its child."""

    starts: frozenset[str] = frozenset()
    """The states at which the parent starts it, instead of its own start."""
    shared: frozenset[Supply] = frozenset()
    """The data that the parent shares with it."""
    given: frozenset[str] = frozenset()
    """The variables, limits and memory blocks that the parent gives it: ``vars.x``."""


ALONE = Embedding()
"""The machine is not a child."""


class CheckContext:
    """A chart, its graphs, and the findings so far."""

    def __init__(
        self, chart: Chart, unread: Unread, *, embedding: Embedding = ALONE, broken: bool = False
    ) -> None:
        self.chart = chart
        self.broken = broken
        """Whether a part of the file could not be read."""
        self.alone = embedding is ALONE
        """Whether it is the machine of the file, not a child."""
        self.starts, self.shared, self.given = embedding
        for name in chart.spec.inputs or ():  # a caller is to give them
            self.given |= {name if name.startswith("memory.") else f"vars.{name}"}
        self.starts |= {*chart.spec.entries[1:]}
        self.spec = chart.spec
        self.unread = unread
        self.findings: list[Finding] = []
        self.order = {name: n for n, name in enumerate(self.spec.states)}
        """The number of each state in file order."""
        moves = [t for t in chart.step.transitions() if t.is_edge]
        self.rules = [t for t in chart.step.transitions("check") if t.kind == "rule" and t.dest]
        own = [t for t in moves if t.kind != "retry"]
        self.own = self._graph(own)
        """The states and the file's own edges, without retries, which are bounded."""
        self.before = self._graph(t for t in own if not t.stop).subgraph(
            name for name, state in self.spec.states.items() if not state.stop
        )
        """The part of `own` in which no reason to stop has been raised."""
        self.behind = self._graph(t for t in own if not self._off_behind_a_stop(t))
        """The part of `own` that applies in an epilogue, where a failure acts like a success."""
        self.stopping = {t.dest for t in own if t.stop and t.dest}
        """The targets of edges that raise a reason, including `on_error`."""
        self.paths = self._graph([*moves, *self.rules])
        """All edges, with the exits of rules."""
        route, error = chart.route, self.spec.on_error
        self.opened: set[str | None] = {self.spec.start, *(t.dest for t in self.rules)}
        """The states that a run can enter without an edge: by rules, signals or unread parts."""
        self.opened |= {route(reason) for reason in (*OUTSIDE, *raised_by_states(self.spec))}
        self.opened |= ({error.target} if error is not None else set()) | unread.words | self.starts
        self.reached = self.paths.onward(*(n for n in self.spec.states if n in self.opened))
        """The reachable states."""

    def _graph(self, transitions: Iterable[GuardedTransition]) -> Digraph[str]:
        states = self.spec.states
        edges = ((t.source, t.dest or "") for t in transitions)
        return Digraph(states, (edge for edge in edges if edge[1] in states))

    def _off_behind_a_stop(self, t: GuardedTransition) -> bool:
        """Whether an edge is off in the epilogue. Source: docs/language.md."""
        late = t.kind == "expired" and t.source in self.chart.acting
        return late or t.diverts

    @cached_property
    def successors(self) -> Digraph[str]:
        """The states and every transition between them."""
        return taken(self.chart, {})

    @cached_property
    def own_code(self) -> bool:
        """Whether it runs custom actions, which may read, raise or change anything."""
        actions = (s.action for s in self.spec.states.values())
        return any(action is not None and not action.is_builtin for action in actions)

    @cached_property
    def signals_stop(self) -> bool:
        """Whether a stop rule that holds always stops the run: nothing can defer signals."""
        may_defer = any(state.traits.continues for state in self.spec.states.values())
        return not self.own_code and not may_defer

    @cached_property
    def effects(self) -> Effects:
        """The facts that each state may change."""
        return Effects(self.chart)

    @cached_property
    def counting(self) -> Counting:
        """Its counters, with the variables as the file sets them."""
        return Counting(self.spec)

    # proofs ---------------------------------------------------------------------------------

    @cached_property
    def prover(self) -> Prover:
        """The prover for guards of this machine, at any values of its limits."""
        acting = [s for s in self.spec.states.values() if s.action and s.name in self.reached]
        words = {
            "last.action": frozenset({"", *(s.action.name for s in acting if s.action)}),
            "last.state": frozenset({"", *(s.name for s in acting)}),
        }
        return Prover(World(words))

    @cached_property
    def as_written(self) -> World:
        """The world of the prover with the limits of the file."""
        limits = {
            f"limits.{name}": limit.value
            for name, limit in self.spec.limits.items()
            if limit.value is not None and f"limits.{name}" not in self.given
        }
        return World(self.prover.world.words, limits)

    @cached_property
    def parts(self) -> list[tuple[object, str]]:
        """Its expressions, templates and labels, each with the variable that it is assigned to."""
        return list(parts_of(self.spec))

    @cached_property
    def fixed(self) -> Mapping[str, object]:
        """The values that nothing in the file changes, by name: limits, variables, their parts."""
        fixed = (one for one in self.counting.fixed.items() if one[0] not in self.given)
        return {**self.as_written.limits, **dict(p for one in fixed for p in _parts_in(*one))}

    def constant(self, part: object) -> tuple[Any, ...]:
        """The value of a part in every run, in a tuple; empty if it has none, or it may differ."""
        try:
            return value_of(part, self.fixed)
        except GUARD_ERRORS:
            return ()

    def has_key(self, key: str) -> bool:
        """Whether the file has a key, if only an empty one: `tasks: []` leaves them to callers."""
        document = self.spec.document
        return document is not None and document.has((*self.spec.base, key))

    # findings -------------------------------------------------------------------------------

    def has_finding_at(self, path: Path) -> bool:
        """Whether there is a finding at exactly this place."""
        full = self.full(path)
        return any(f.at == full for f in self.findings)

    def is_accepted(self, code: str, path: Path) -> bool:
        """Whether the file's `ignore` accepts a finding of this code at this place."""
        return self.spec.accepts(finding(code, "", at=self.full(path)))

    def full(self, path: Path) -> str:
        """The path within the whole file, as in `Finding.at`."""
        return dotted_path(self.spec.base + path_in_file(self.spec.made, path))

    def say(
        self, code: str, path: Path, message: str, *, hint: str = "", key: bool = False,
        of: str = "", at: str = "", place: Place | None = None,
    ) -> None:  # fmt: skip
        """Add a finding at a path of the file, or at the part `of` its text.

        Findings about a state, rule or limit that could not be read in full are dropped.
        """
        if len(self.findings) < MAX_FINDINGS and dotted_path(path[:2]) not in self.unread.places:
            place = place or self.spec.place(path, key=key, of=of)
            self.findings.append(finding(code, message, place, hint=hint, at=at or self.full(path)))

    def part(self, path: Path, offset: int, width: int) -> Place | None:
        """The place of a part of a text of the file."""
        spec = self.spec
        if spec.document is None:
            return None
        return spec.document.part(spec.base + path_in_file(spec.made, path), offset, width)

    def say_behind(self, code: str, path: Path, message: str, first: Path) -> None:
        """Add a finding that an edge is never taken, with the line of the edge that hides it."""
        count = len(self.findings)
        self.say(code, path, message, hint="move it up, or remove it")
        if first and len(self.findings) > count:
            related = ("asked first", self.spec.place(first))
            self.findings[-1] = replace(self.findings[-1], related=related)

    def say_of(self, code: str, state: StateSpec, message: str, *, hint: str = "") -> None:
        """Add a finding about a state, at its name."""
        self.say(code, ("states", state.name), message, hint=hint, key=True)

    def whole(self, names: Iterable[str]) -> bool:
        """Whether all of these states were read in full."""
        return not any(f"states.{name}" in self.unread.places for name in names)

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Return states in file order."""
        return sorted(set(names), key=self.order.__getitem__)

    def describe_loop(self, names: Iterable[str]) -> str:
        """Return a loop in words: ``a → b → a``."""
        states = self.in_order(names)
        return " → ".join([*states[:8], *(["…"] if len(states) > 8 else []), states[0]])


def _parts_in(name: str, value: object) -> Iterator[tuple[str, object]]:
    yield name, value
    for key, part in keyed(value).items():
        yield from _parts_in(f"{name}.{key}", part)


def taken(chart: Chart, known: Mapping[str, object]) -> Digraph[str]:
    """The states, and the transitions that may be taken while facts have known values."""
    verdicts: dict[Expression, bool | None] = {}
    graph: Digraph[str] = Digraph(chart.spec.states)
    decided: set[str] = set()
    """The states of which an earlier edge always holds."""
    for t in chart.step.transitions():
        read = (
            [g.expression for g in t.guards if isinstance(g, (Holds, RuleHolds))] if known else []
        )
        for guard in read:
            if guard not in verdicts:
                verdicts[guard] = surely(judge(guard.root, ranges_of(known)))
        passed = t.kind == "advance" and t.source in decided
        never = passed or any(verdicts[guard] is False for guard in read)
        if t.dest is not None and t.dest in graph and not never:
            graph.add_edge(t.source, t.dest)
        if (
            known
            and t.kind == "advance"
            and len(read) == len(t.guards)
            and all(map(verdicts.get, read))
        ):
            decided.add(t.source)
    return graph


def guards_of(spec: MachineSpec) -> Iterator[tuple[Path, Expression]]:
    """Yield every guard of a machine with its place: rules, edges, decisions."""
    for rule in spec.rules:
        yield (*rule.path, "when"), rule.when
    for state in spec.states.values():
        if state.of is not None:
            yield ("states", state.name, "of"), state.of
        yield from ((e.guard_path, e.when) for e in state.edges if e.when is not None)


def value_of(part: object, known: Mapping[str, Any]) -> tuple[Any, ...]:
    """The value of a part in a tuple; empty if it reads more than these limits and variables.

    Raises one of `GUARD_ERRORS` if it has none.
    """
    if named := keyed(part):
        values = value_of([*named.values()], known)
        return tuple(dict(zip(named, each, strict=True)) for each in values)
    if isinstance(part, (list, tuple)):
        items = [value_of(one, known) for one in cast("list[object]", part)]
        return () if () in items else ([value for (value,) in items],)
    if not isinstance(part, (Expression, Template)):
        return (part,)
    if not part.reads <= known.keys() or getattr(part, "opaque", ()):
        return ()
    parts: dict[str, dict[str, Any]] = {"limits": {}, "vars": {}, "memory": {}}
    for path, value in known.items():
        root, _, name = path.partition(".")
        parts.get(root, {})[name] = value
    facts = Facts(limits=parts["limits"], vars=parts["vars"], memory=parts["memory"])
    if isinstance(part, Template):
        return (part.render(facts.to_mapping()),)
    return (part.fn(facts, no_oracle),)


def listed(value: object) -> list[Any]:
    """The items of a list; another value is the only one."""
    return [*cast("list[Any]", value)] if isinstance(value, (list, tuple)) else [value]


def keyed(value: object) -> Mapping[str, Any]:
    """The parts of a mapping; another value has none."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def ranges_of(known: Mapping[str, object]) -> Known:
    """Return a lookup of facts with known values."""
    return lambda fact: of_plain(known[fact.path]) if fact.path in known else None


def outputs_of(spec: MachineSpec) -> Iterator[tuple[Path, Expression]]:
    """Yield the expressions of `output`, with their places."""
    if isinstance(spec.output, Mapping):
        yield from ((("output", name), part) for name, part in spec.output.items())
    elif spec.output is not None:
        yield ("output",), spec.output


def parts_of(value: object, above: str = "") -> Iterator[tuple[object, str]]:
    """Yield every expression, template and label, with the variable that it is assigned to."""
    if isinstance(value, _PLAIN):
        return
    if isinstance(value, (Expression, Template, Label)):
        yield value, above
    elif isinstance(value, ActionSpec):
        return
    elif isinstance(value, (Assign, Save)):
        inner = value.value if isinstance(value, Assign) else value.template
        yield from parts_of(inner, value.target)
    elif names := _own_fields(type(value)):
        for name in names:
            yield from parts_of(getattr(value, name), above)
    elif isinstance(value, Mapping):
        for inner in cast("Mapping[str, Any]", value).values():
            yield from parts_of(inner, above)
    elif isinstance(value, (list, tuple)):
        for inner in cast("list[Any]", value):
            yield from parts_of(inner, above)


@cache
def _own_fields(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that may hold expressions or texts of the machine."""
    if not is_dataclass(kind):
        return ()
    return tuple(field.name for field in fields(kind) if field.name not in _ELSEWHERE)


def reads_of(spec: MachineSpec, part: object) -> frozenset[str]:
    """Return the facts that a part reads, including those of definitions that it names."""
    reads: frozenset[str] = getattr(part, "reads", frozenset[str]())
    definitions = reads & spec.define.keys()
    return reads.union(*(spec.define[name].reads for name in definitions))
