"""What a run may start with: the file's own values first, then others that guards ask for.

Limits are lowered so that a stop at a limit is short, and raised where a guard turns on that. Each
other start differs from the file's in one thing, the last in several limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from chartloop.core.facts import EMPTY
from chartloop.core.specs import ActionSpec
from chartloop.core.types import Type
from chartloop.language.spec import MachineSpec
from chartloop.scenarios.generator.hints import Hints, expressions

TASK = "Do it."
_FEW = 3
"""The highest number to which a limit on counts is lowered."""
_MINUTE = 60.0
PAIRS = 300
"""Starts that differ in two things, at most."""


class Start(NamedTuple):
    """What a run starts with, as a scenario writes it."""

    task: str = TASK
    limits: Mapping[str, Any] = EMPTY
    vars: Mapping[str, Any] = EMPTY
    tasks: tuple[Any, ...] | None = None

    @property
    def oddness(self) -> int:
        """In how many things it differs from what most runs start with."""
        other = self.task != TASK or self.tasks is not None
        return len(self.limits) + len(self.vars) + other

    def with_(self, other: Start) -> Start:
        """Both differences at once."""
        return Start(
            other.task if other.task != TASK else self.task,
            {**self.limits, **other.limits}, {**self.vars, **other.vars},
            self.tasks if other.tasks is None else other.tasks,
        )  # fmt: skip


def starts(spec: MachineSpec, hints: Hints) -> list[Start]:
    """The file's own start, and each that differs in one thing."""
    read = frozenset(name for e in expressions(spec) for name in e.reads)
    single = [*_tasks(spec), *_limits(spec, read), *_vars(spec, read, hints)]
    found = [Start(), *single]
    for kind, value in (("int", 1), ("fraction", "1%"), ("fraction", "100%")):
        alike = {
            name: value
            for name, limit in spec.limits.items()
            if f"limits.{name}" in read and limit.type.kind == kind
        }
        found += [Start(limits=alike)] if len(alike) > 1 else []
    return found


def pairs(single: list[Start]) -> list[Start]:
    """Starts that differ in two things."""
    both = (a.with_(b) for a, b in combinations(single, 2) if not _clash(a, b))
    found = [start for start in both if start.oddness == 2]
    step = max(1, len(found) // PAIRS)
    return found[::step][:PAIRS]


def _clash(a: Start, b: Start) -> bool:
    return bool(a.limits.keys() & b.limits.keys() or a.vars.keys() & b.vars.keys())


def _tasks(spec: MachineSpec) -> Iterator[Start]:
    yield Start(task="")
    actions = (state.action for state in spec.states.values())
    if not any(action is not None and _is_for_tasks(action) for action in actions):
        return
    yield Start(task="", tasks=())
    yield Start(task="", tasks=("first",))
    yield Start(tasks=("first", "second"))
    for tool in (spec.tools or tuple(spec.registry.own_tools))[:1]:
        if tool in spec.registry.tools:
            yield Start(tasks=({"text": "first", "by": {"tool": tool}},))
    for machine in list(spec.machines)[:1]:
        yield Start(tasks=({"text": "first", "by": {"machine": machine}},))


def _is_for_tasks(action: ActionSpec) -> bool:
    """Whether an action does tasks of the queue, or only adds some."""
    return action.needs == "tasks" or action.supplies == frozenset({"tasks"})


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
            found = {int(n) if whole else float(n) for n in near} - {value}
            tried = sorted(found)[:3]
            parts = (int(n) if whole else float(n) for n in hints.parts.get(path, ()))
            yield from dict.fromkeys([*tried, *(n for n in parts if n != value)])
        case "list":
            if type.of is not None and type.of.kind == "str":
                yield [] if value else ["one"]
        case _:
            return
