"""The counters of a machine, and the amounts that entering a state adds to them.

Counters are the facts that only grow, and each variable to which the file only ever adds a positive
constant: ``set: {vars.rounds: vars.rounds + 1}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from chartloop.core.facts import FACTS
from chartloop.language.expression import Expression
from chartloop.language.expression.tree import Arith, Const, Fact
from chartloop.language.intervals.evaluate import judge
from chartloop.language.intervals.interval import INF, number
from chartloop.language.spec import Assign, MachineSpec, StateSpec
from chartloop.machine.abstract.thresholds import World

SPENT = frozenset(
    name for name, row in FACTS.items() if row.type.grows and name != "run.idle"
)  # fmt: skip
"""The facts that only grow, and whose growth is known for each action."""


class Again(NamedTuple):
    """A variable that edges count up and states reset."""

    variable: str
    first: float
    """The initial value."""
    resets: Mapping[str, float]
    """The states that set it on entry, each with the value."""
    edges: Mapping[str, float]
    """The edges that add to it, each with the amount."""


UNKNOWN = object()
"""The initial value of a variable if it is unknown."""


class Counting:
    """The counters of a machine: their names, initial values, and increments."""

    def __init__(self, spec: MachineSpec, given: Mapping[str, object] | None = None) -> None:
        self.spec = spec
        self.variables = _variables(spec, counting=True)
        values = {**{n: v.value for n, v in spec.vars.items()}, **(given or {})}
        self.fixed: dict[str, object] = {
            f"vars.{n}": values[n]
            for n in sorted(_variables(spec, counting=False))
            if values[n] is not UNKNOWN
        }
        """The values that never change, by name."""
        if "run.task" in values:
            self.fixed["run.task"] = values["run.task"]
        self.first: dict[str, float] = {}
        for name in sorted(self.variables):
            value = values[name]
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                self.first[f"vars.{name}"] = value
        self.again = _counted_again(spec, values)
        self.read = frozenset(_read(spec))
        self.world: World | None = None

    @property
    def counters(self) -> frozenset[str]:
        """The counters that guards of the machine read."""
        own = {f"vars.{n}" for n in self.variables if f"vars.{n}" in self.first}
        visits = {r for r in self.read if r.startswith(("run.visits.", "usage.calls."))}
        return frozenset((SPENT | own | visits) & self.read)

    def of_visit(self, name: str) -> dict[str, float]:
        """The counts that a visit to a state adds."""
        counter = f"run.visits.{name}"
        return {counter: 1.0} if counter in self.read else {}

    def of_entry(self, state: StateSpec) -> dict[str, float]:
        """The counts that entering a state adds."""
        return {**self.of_visit(state.name), **self.of_sets(state.set)}

    def of_sets(self, sets: Iterable[Assign]) -> dict[str, float]:
        """The counts that assignments add."""
        out: dict[str, float] = {}
        for one in sets:
            name = one.target.removeprefix("vars.")
            added = _added_constant(one.value, one.target) if name in self.variables else None
            if added is not None and one.target in self.read:
                out[one.target] = out.get(one.target, 0) + added
        return out

    def continuations(self, state: StateSpec) -> float:
        """The most times that a state may defer a stop in a run."""
        given = state.args.get(state.traits.continues)
        if given is None:
            return 1
        if isinstance(given.value, Expression):
            world = self.world or World({}, frozenset(), {})
            return number(judge(given.value.root, world.known_facts())).high
        return float(given.value) if isinstance(given.value, (int, float)) else INF


def all_sets(spec: MachineSpec) -> list[Assign]:
    """Return every assignment of a machine."""
    sets = [one for state in spec.states.values() for one in state.set]
    sets += [one for edge in spec.edges() for one in edge.set]
    return sets + list(spec.on_error.set if spec.on_error is not None else ())


def _read(spec: MachineSpec) -> Iterable[str]:
    for guard in spec.guards():
        yield from guard.reads
    for state in spec.states.values():
        if state.of is not None:
            yield from state.of.reads


def _variables(spec: MachineSpec, *, counting: bool) -> frozenset[str]:
    """The variables that never change or, if `counting`, to which only constants are added."""
    left = set(spec.vars)
    if counting:
        left = {n for n, v in spec.vars.items() if v.type.kind == "int" and not v.type.nullable}
    sets = all_sets(spec)
    changed = {
        a.target
        for a in sets
        if not counting or _added_constant(a.value, a.target) is None or a.append
    }
    for state in spec.states.values():
        changed |= {s.target for s in state.save} | {n for n in state.args if n.startswith("vars.")}
        restores = state.needs == "checkpoint"  # to values that they had before
        if state.action is not None and state.action.writes_any_variable:
            if counting or not restores:
                return frozenset()
    left -= {name.removeprefix("vars.") for name in changed}
    return frozenset(
        left - (set() if not counting else left - {t.target.removeprefix("vars.") for t in sets})
    )


def _counted_again(spec: MachineSpec, values: Mapping[str, object]) -> tuple[Again, ...]:
    """The variables that states set to a number, and to which only edges add a constant."""
    resets: dict[str, dict[str, float]] = {}
    edges: dict[str, dict[str, float]] = {}
    other = _otherwise_written(spec)
    for state in spec.states.values():
        for one in state.set:
            if type(one.value) is int and not one.append:
                resets.setdefault(one.target, {})[state.name] = one.value
            else:
                other.add(one.target)
    for edge in spec.edges():
        for one in edge.set:
            added = None if one.append else _added_constant(one.value, one.target)
            if added is None:
                other.add(one.target)
            else:
                edges.setdefault(one.target, {})[edge.id] = added
    out: list[Again] = []
    for target in sorted(resets.keys() & edges.keys() - other):
        first = values.get(target.removeprefix("vars."))
        if type(first) is int:
            out.append(Again(target, first, resets[target], edges[target]))
    return tuple(out)


def _otherwise_written(spec: MachineSpec) -> set[str]:
    """The variables that results, arguments, code or `on_error` write."""
    out = {a.target for a in (spec.on_error.set if spec.on_error is not None else ())}
    for state in spec.states.values():
        out |= {s.target for s in state.save} | {n for n in state.args if n.startswith("vars.")}
        if state.action is not None and state.action.writes_any_variable:
            out |= {f"vars.{name}" for name in spec.vars}
    return out


def _added_constant(value: object, target: str) -> float | None:
    """The positive constant that is added to a variable; None for any other assignment."""
    if not isinstance(value, Expression) or not isinstance(value.root, Arith):
        return None
    left, right = value.root.left, value.root.right
    if value.root.op == "+" and isinstance(left, Const):
        left, right = right, left
    if value.root.op != "+" or not isinstance(left, Fact) or not isinstance(right, Const):
        return None
    same = left.path == target and isinstance(right.value, int)
    return float(right.value) if same and right.value > 0 else None
