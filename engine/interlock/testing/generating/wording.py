"""A way as the text of a scenario file, for a person to read.

Belongs here: what of a way a file says, and how YAML is written. Never: names of files, a run.

Imported by:  testing.generating.generate
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from interlock.core.fold import lookup
from interlock.core.types import Type
from interlock.core.units import parse_duration, write_duration
from interlock.language.expression import Expression
from interlock.language.spec import MachineSpec
from interlock.machine.saying import type_at
from interlock.run.result import Result
from interlock.testing.generating.moves import Node
from interlock.testing.generating.targets import Target

WIDEST = 100
FACTS = 4
"""Facts that are expected, at most."""
_PLAIN = re.compile(
    r"[A-Za-z_][\w./-]*(?: [\w./-]+)*[.!?]?"
    r"|\d+(?:\.\d+)?(?:%|ms|s|m|h|d)|(?:\.\.?/)+[\w./-]+"
)
_NOT_TEXT = re.compile(r"true|false|null|none|~", re.IGNORECASE)


def keys_of(way: Sequence[Node], machine: str) -> dict[str, Any]:
    """Everything that a scenario says of a way, but for what is expected."""
    start = way[0].start
    said = [answer for node in way for answer in node.said]
    tools: dict[str, list[Any]] = {}
    for answer in said:
        if answer.kind == "result":
            tools.setdefault(answer.tool, []).append(answer.value)
    given: dict[str, Any] = {
        "machine": machine, "task": start.task or None, "limits": dict(start.limits),
        "vars": dict(start.vars),
        "replies": [_reply(a.value) for a in said if a.kind == "reply"],
        "tools": tools, "events": list(_events(way)),
    }  # fmt: skip
    found = {name: value for name, value in given.items() if value}
    if start.tasks is not None:
        found["tasks"] = list(start.tasks)
    return found


def _reply(said: Any) -> Any:
    """A reply as short as it can be written: a text, durations with their unit."""
    if not isinstance(said, Mapping):
        return said
    reply = dict(cast("Mapping[str, Any]", said))
    if set(reply) == {"text"}:
        return reply["text"]
    if "delay" in reply:
        reply["delay"] = _duration(reply["delay"])
    return reply


def _events(way: Sequence[Node]) -> Iterator[dict[str, Any]]:
    for node in way:
        if (event := node.event) is not None:
            data = {"data": dict(event.data)} if event.data else {}
            at = {"at": event.at} if event.at else {}
            yield {"after": event.after, **at, event.kind: event.word, **data}


def _duration(seconds: float) -> Any:
    written = write_duration(seconds)
    return written if parse_duration(written) == seconds else seconds


# what is expected ---------------------------------------------------------------------------


def expected(result: Result, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a scenario expects of a run that came to this."""
    found: dict[str, Any] = {}
    if result.reason is not None:
        found["reason"] = str(result.reason)
    found |= {"kind": result.kind, "path": list(result.path)}
    return found | ({"facts": dict(facts)} if facts else {})


def facts_that_matter(
    spec: MachineSpec, targets: Iterable[Target], result: Result
) -> dict[str, Any]:
    """What the guards of these targets read, as it is at the end."""
    guards = {edge.id: edge.when for edge in spec.edges()} | {r.id: r.when for r in spec.rules}
    of = {e.id: spec.states[e.source].of for e in spec.edges() if e.role == "case"}
    found: dict[str, Any] = {}
    for target in targets:
        for guard in (guards.get(target.name), of.get(target.name)):
            if isinstance(guard, Expression):
                found |= _read_by(spec, guard, result)
    return dict(list(found.items())[:FACTS])


def _read_by(spec: MachineSpec, guard: Expression, result: Result) -> Iterator[tuple[str, Any]]:
    for name in sorted(guard.reads):
        root = name.partition(".")[0]
        if root in ("limits", "last") or name in ("run.id", "run.started_at", "run.task"):
            continue
        try:
            value = lookup(result.facts, name)
        except AttributeError:
            continue
        type = type_at(spec.roots, name)
        if _says_something(value) and (type is None or type.kind not in _UNEVEN):
            yield name, _of_type(value, type)


_UNEVEN = frozenset({"fraction", "float"})
"""Their last digits say nothing."""


def _says_something(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= 40 and "\n" not in value
    return isinstance(value, (bool, int, float)) and (
        not isinstance(value, float) or math.isfinite(value)
    )


def _of_type(value: Any, type: Type | None) -> Any:
    if type is not None and type.kind == "duration":
        return _duration(float(value))
    return value


# YAML ---------------------------------------------------------------------------------------


def written(keys: Mapping[str, Any], comment: Sequence[str]) -> str:
    """The file, ending with a newline. `comment`: sentences that stand at its top."""
    lines = [line for said in comment for line in _comment(said)]
    for name, value in keys.items():
        lines += _key(name, value, "")
    return "\n".join(lines) + "\n"


def _comment(said: str) -> Iterator[str]:
    clean = "".join(c if c.isprintable() else " " for c in said)
    yield from textwrap.wrap(clean, WIDEST, initial_indent="# ", subsequent_indent="#   ")


def _key(name: str, value: Any, indent: str) -> Iterator[str]:
    line = f"{indent}{_scalar(name)}: {flow(value)}"
    if name in _BLOCKS or (len(line) > WIDEST and isinstance(value, dict)):
        yield f"{indent}{name}:"
        if isinstance(value, dict):
            for key, part in cast("dict[str, Any]", value).items():
                yield from _key(str(key), part, f"{indent}  ")
        else:
            yield from (f"{indent}  - {flow(part)}" for part in value)
    elif len(line) > WIDEST and isinstance(value, list):
        yield from _list(f"{indent}{_scalar(name)}: ", cast("list[Any]", value), indent)
    else:
        yield line


_BLOCKS = frozenset({"replies", "events", "expect"})


def _list(head: str, items: list[Any], indent: str) -> Iterator[str]:
    """A long list on several lines, still in brackets."""
    line = f"{head}["
    for number, item in enumerate(items):
        part = flow(item) + ("," if number < len(items) - 1 else "]")
        if len(line) + len(part) > WIDEST - 1 and not line.endswith("["):
            yield line.rstrip()
            line = f"{indent}  "
        line += f"{part} "
    yield line.rstrip()


def flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, Any]", value).items()
        return "{" + ", ".join(f"{_scalar(str(k))}: {flow(v)}" for k, v in pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(flow(v) for v in cast("Sequence[Any]", value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and not _NOT_TEXT.fullmatch(value):
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in quoted)
