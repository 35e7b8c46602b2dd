"""The candidate starts of a run: the file's own values first, then others from the hints.

Limits are lowered so that a run stops at them soon, and raised if a guard depends on that. Each
further start differs from the file's in one value, the last ones in several limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from chartloop.core.facts import EMPTY, FleetFacts
from chartloop.core.types import Type
from chartloop.language.spec import MachineSpec
from chartloop.scenarios.generator.hints import Hints, expressions

TASK = "Do it."
_FEW = 3
"""The highest value to which a limit on counts is lowered."""
_MINUTE = 60.0
PAIRS = 300
"""Maximum number of starts that differ in two values."""


class Start(NamedTuple):
    """The start of a run, as a scenario writes it."""

    task: str = TASK
    limits: Mapping[str, Any] = EMPTY
    vars: Mapping[str, Any] = EMPTY
    tasks: tuple[Any, ...] | None = None
    fleet: Mapping[str, Any] = EMPTY

    @property
    def oddness(self) -> int:
        """In how many values it differs from the default start."""
        other = self.task != TASK or self.tasks is not None
        return len(self.limits) + len(self.vars) + len(self.fleet) + other

    def with_(self, other: Start) -> Start:
        """A start with the differences of both."""
        return Start(
            other.task if other.task != TASK else self.task,
            {**self.limits, **other.limits}, {**self.vars, **other.vars},
            self.tasks if other.tasks is None else other.tasks,
            {**self.fleet, **other.fleet},
        )  # fmt: skip


def starts(spec: MachineSpec, hints: Hints) -> list[Start]:
    """The file's own start, and those that differ in one value or in all limits of a type."""
    read = frozenset(name for e in expressions(spec) for name in e.reads)
    single = [*_tasks(spec), *_limits(spec, read), *_vars(spec, read, hints), *_fleet(hints)]
    out = [Start(), *single]
    for kind, value in (("int", 1), ("fraction", "1%"), ("fraction", "100%")):
        limits = {
            name: value
            for name, limit in spec.limits.items()
            if f"limits.{name}" in read and limit.type.kind == kind
        }
        out += [Start(limits=limits)] if len(limits) > 1 else []
    return out


def pairs(single: list[Start]) -> list[Start]:
    """Starts that differ in two values, thinned out to at most `PAIRS`."""
    both = (
        a.with_(b)
        for a, b in combinations(single, 2)
        if not any(
            one.keys() & other.keys()
            for one, other in ((a.limits, b.limits), (a.vars, b.vars), (a.fleet, b.fleet))
        )
    )
    candidates = [start for start in both if start.oddness == 2]
    step = max(1, len(candidates) // PAIRS)
    return candidates[::step][:PAIRS]


def _tasks(spec: MachineSpec) -> Iterator[Start]:
    yield Start(task="")
    actions = (state.action for state in spec.states.values())
    if not any(
        action is not None and (action.needs == "tasks" or action.supplies == frozenset({"tasks"}))
        for action in actions
    ):
        return
    yield Start(task="", tasks=())
    yield Start(task="", tasks=("first",))
    yield Start(tasks=("first", "second"))
    for tool in (spec.tools or tuple(spec.registry.own_tools))[:1]:
        if tool in spec.registry.tools:
            yield Start(tasks=({"text": "first", "by": {"tool": tool}},))
    for machine in list(spec.machines)[:1]:
        yield Start(tasks=({"text": "first", "by": {"machine": machine}},))


def _limits(spec: MachineSpec, read: frozenset[str]) -> Iterator[Start]:
    for name, limit in spec.limits.items():
        if f"limits.{name}" in read:
            yield from (Start(limits={name: v}) for v in _other_limits(limit.type, limit.value))


def _other_limits(type: Type, value: Any) -> Iterator[Any]:
    match type.kind:
        case "int":
            lowest = 0 if value == 1 else 1
            yield from (n for n in range(lowest, _FEW + 1) if value is None or n < value)
        case "fraction":
            yield from (f"{n}%" for n in (1, 100) if value != n / 100)
        case "float":
            yield from (n for n in (0.0, 1.0) if value != n)
        case "duration":
            if value is None or value > _MINUTE:
                yield "1m"
        case _:
            return


def _vars(spec: MachineSpec, read: frozenset[str], hints: Hints) -> Iterator[Start]:
    for name, var in spec.vars.items():
        path = f"vars.{name}"
        if path not in read:
            continue
        for value in _other_values(var.type, var.value, path, hints):
            yield Start(vars={name: value})


def _fleet(hints: Hints) -> Iterator[Start]:
    """What limits across runs may leave: nothing, and amounts around those of the guards."""
    for name in FleetFacts.defaults():
        numbers = hints.numbers.get(f"fleet.{name}", ())
        for value in sorted({0, *numbers, *(n + 1 for n in numbers)}) if numbers else ():
            yield Start(fleet={name: int(value) if name == "tokens_left" else value})


def _other_values(type: Type, value: Any, path: str, hints: Hints) -> Iterator[Any]:
    match type.kind:
        case "bool":
            yield not value
        case "str" | "enum":
            words = (*hints.words.get(path, ()), "other")
            yield from (word for word in words if word != value)
        case "int" | "float":
            near = [n + d for n in hints.numbers.get(path, ()) for d in (0, 1, -1)]
            whole = type.kind == "int"
            others = {int(n) if whole else float(n) for n in near} - {value}
            lowest = sorted(others)[:3]
            parts = (int(n) if whole else float(n) for n in hints.parts.get(path, ()))
            yield from dict.fromkeys([*lowest, *(n for n in parts if n != value)])
        case "list":
            if type.of is not None and type.of.kind == "str":
                yield [] if value else ["one"]
        case _:
            return
