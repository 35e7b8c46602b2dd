"""Values from a command line, parsed by their declared types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from chartloop.cli.error_report import MisuseError
from chartloop.core.approvals import DENY, arguments_given
from chartloop.core.errors import AnswerError, nearest
from chartloop.core.types import BOOL, STR, Type
from chartloop.language.json_schema.typed import type_of_schema
from chartloop.language.values import read_value

Pairs = Iterable[tuple[str, str]]


def values_of(types: Mapping[str, Type], pairs: Pairs) -> dict[str, Any]:
    """Parse values by name. A name without a type keeps its text, which the checker reports."""
    return {name: read_value(types[name], text) if name in types else text for name, text in pairs}


def answer_data(
    event: str, types: Mapping[str, Type], pairs: Pairs, *,
    calls: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:  # fmt: skip
    """The data of an answer, from fields by name. Raises `AnswerError`.

    `calls` are those of the question. ``1=deny`` decides on the first of them, by its number or
    its key; ``1.result=TEXT`` and ``1.arguments.usd=40`` give a part of the decision. `deny` is for
    all calls: ``1.note=TEXT`` alone leaves none open.
    """
    fields: dict[str, Any] = {}
    for name, text in pairs:
        if (call := _call_named(name, calls)) is not None:
            _decide(fields.setdefault("calls", {}), *call, text)
            continue
        if types and name not in types:
            raise AnswerError(f"`{event}` has no field `{name}`", hint=nearest(name, types))
        fields[name] = read_value(types[name], text) if name in types else text
    if event == DENY and "calls" in fields:
        fields["calls"] = {call["key"]: DENY for call in calls} | fields["calls"]
    return fields


def _call_named(
    name: str, calls: Sequence[Mapping[str, Any]]
) -> tuple[Mapping[str, Any], str] | None:
    """The call that a field decides on, and the part of the decision; None for another field."""
    numbers = [(str(number), call) for number, call in enumerate(calls, 1)]
    for alias, call in (*numbers, *((call["key"], call) for call in calls)):  # a key may be "2"
        if name == alias or name.startswith(f"{alias}."):
            return call, name[len(alias) + 1 :]
    return None


def _decide(decisions: dict[str, Any], call: Mapping[str, Any], part: str, text: str) -> None:
    key, (root, _, argument) = call["key"], part.partition(".")
    given = decisions.get(key)
    if not part:
        decisions[key] = {**given, "decision": text} if isinstance(given, dict) else text
        return
    decision = cast("dict[str, Any]", given) if isinstance(given, dict) else dict[str, Any]()
    decisions[key] = decision if given in (None, decision) else {"decision": given, **decision}
    decision = decisions[key]
    if not argument:
        decision[root] = read_value(BOOL if root == "remember" else STR, text)
        return
    if root not in decision:
        decision[root] = arguments_given(call)
    schema: Mapping[str, Any] = call.get("schema", {}).get("properties", {})
    decision[root][argument] = read_value(type_of_schema(schema.get(argument, {})), text)


def figures_of(pairs: Pairs) -> dict[str, float]:
    """Parse figures by name. Raises `MisuseError` for a value that is not a number."""
    return {name: read_number(name, text) for name, text in pairs}


def read_number(name: str, text: str) -> float:
    """Parse a finite number, as an int if it is whole: ``50_000``, ``0.5``."""
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        raise MisuseError(f"`{name}={text}` is not a number", hint=f"write `{name}=30`") from None
    if not math.isfinite(value):
        raise MisuseError(f"`{name}={text}` is not a finite number", hint=f"write `{name}=30`")
    return int(value) if value == int(value) else value
