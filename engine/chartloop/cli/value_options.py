"""Values from a command line, parsed by their declared types."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from chartloop.cli.error_report import MisuseError
from chartloop.core.errors import AnswerError, nearest
from chartloop.core.types import Type
from chartloop.language.values import read_value

Pairs = Iterable[tuple[str, str]]


def values_of(types: Mapping[str, Type], pairs: Pairs) -> dict[str, Any]:
    """Parse values by name. A name without a type keeps its text, which the checker reports."""
    return {name: read_value(types[name], text) if name in types else text for name, text in pairs}


def answer_data(
    event: str, types: Mapping[str, Type], pairs: Pairs, data: str | None
) -> dict[str, Any]:
    """The data of an answer, from JSON and fields by name. Raises `AnswerError`."""
    fields: dict[str, Any] = {}
    if data is not None:
        try:
            parsed: Any = json.loads(data)
        except (ValueError, RecursionError) as error:
            hint = """write a JSON object: '{"note": "use 3"}'"""
            raise AnswerError(f"--data is not JSON: {error}", hint=hint) from None
        if not isinstance(parsed, dict):
            raise AnswerError("--data is not a JSON object", hint="""write '{"note": "use 3"}'""")
        fields |= parsed
    for name, text in pairs:
        if types and name not in types:
            raise AnswerError(f"`{event}` has no field `{name}`", hint=nearest(name, types))
        fields[name] = read_value(types[name], text) if name in types else text
    return fields


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
