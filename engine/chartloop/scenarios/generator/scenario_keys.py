"""A path of the search as the keys of a scenario, for people to read.

Belongs here: the content of a scenario. Never: YAML (`scenarios.text`), names of files, a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from chartloop.core.fold import lookup
from chartloop.core.types import Type
from chartloop.core.units import parse_duration, write_duration
from chartloop.language.expression import Expression
from chartloop.language.spec import MachineSpec
from chartloop.machine.guard_text import type_at
from chartloop.run.result import Result
from chartloop.scenarios.generator.moves import Node
from chartloop.scenarios.generator.search_targets import Target

FACTS = 4
"""Maximum number of expected facts."""


def keys_of(nodes: Sequence[Node], machine: str) -> dict[str, Any]:
    """The keys of a scenario for a path, without `expect`."""
    start = nodes[0].start
    answers = [answer for node in nodes for answer in node.answers]
    tools: dict[str, list[Any]] = {}
    for answer in answers:
        if answer.kind == "result":
            tools.setdefault(answer.tool, []).append(answer.value)
    keys: dict[str, Any] = {
        "machine": machine, "task": start.task,
        "tasks": None if start.tasks is None else [*start.tasks],
        "limits": dict(start.limits), "vars": dict(start.vars), "fleet": dict(start.fleet),
        "replies": [_reply(a.value) for a in answers if a.kind == "reply"],
        "tools": tools, "events": list(_events(nodes)),
    }  # fmt: skip
    # an empty list of tasks replaces those of the file
    return {name: v for name, v in keys.items() if v or (name == "tasks" and v is not None)}


def without_each(keys: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parts of a scenario's start that may be unnecessary: task, each limit, each variable."""
    if "task" in keys:
        yield "task", ""
    for group in ("limits", "vars", "fleet"):
        yield from ((group, name) for name in keys.get(group, ()))


def without(keys: Mapping[str, Any], group: str, name: str) -> dict[str, Any]:
    """The keys of a scenario without one such part."""
    left = {n: v for n, v in keys.get(group, {}).items() if n != name} if name else {}
    return {key: left if key == group else v for key, v in keys.items() if key != group or left}


def _reply(option: Any) -> Any:
    """A reply in its shortest form: as a text if possible, durations with their unit."""
    if not isinstance(option, Mapping):
        return option
    reply = dict(cast("Mapping[str, Any]", option))
    if set(reply) == {"text"}:
        return reply["text"]
    if "delay" in reply:
        reply["delay"] = _duration(reply["delay"])
    return reply


def _events(nodes: Sequence[Node]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        if (event := node.event) is not None:
            data = {"data": dict(event.data)} if event.data else {}
            at = {"at": event.at} if event.at else {}
            yield {"after": event.after, **at, event.kind: event.word, **data}


def _duration(seconds: float) -> Any:
    written = write_duration(seconds)
    return written if parse_duration(written) == seconds else seconds


# expectations -------------------------------------------------------------------------------


def expect_result(result: Result, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The `expect` of a scenario with this result."""
    expect: dict[str, Any] = {}
    if result.reason is not None:
        expect["reason"] = str(result.reason)
    expect |= {"kind": result.kind, "path": list(result.path)}
    return expect | ({"facts": dict(facts)} if facts else {})


def facts_that_matter(
    spec: MachineSpec, targets: Iterable[Target], result: Result
) -> dict[str, Any]:
    """The facts that the guards of these targets read, with their final values."""
    guards = {edge.id: edge.when for edge in spec.edges()} | {r.id: r.when for r in spec.rules}
    of = {e.id: spec.states[e.source].of for e in spec.edges() if e.role == "case"}
    facts: dict[str, Any] = {}
    for target in targets:
        for guard in (guards.get(target.name), of.get(target.name)):
            if isinstance(guard, Expression):
                facts |= _read_by(spec, guard, result)
    return dict(list(facts.items())[:FACTS])


def _read_by(spec: MachineSpec, guard: Expression, result: Result) -> Iterator[tuple[str, Any]]:
    for name in sorted(guard.reads):
        root = name.partition(".")[0]
        if root in ("limits", "last", "fleet") or name in ("run.id", "run.started_at", "run.task"):
            continue
        try:
            value = lookup(result.facts, name)
        except AttributeError:
            continue
        type = type_at(spec.roots, name)
        if _is_worth_expecting(value) and (type is None or type.kind not in _UNEVEN):
            yield name, _of_type(value, type)


_UNEVEN = frozenset({"fraction", "float"})
"""Types whose last digits are meaningless."""


def _is_worth_expecting(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= 40 and "\n" not in value
    return isinstance(value, (bool, int, float)) and (
        not isinstance(value, float) or math.isfinite(value)
    )


def _of_type(value: Any, type: Type | None) -> Any:
    if type is not None and type.kind == "duration":
        return _duration(float(value))
    return value
