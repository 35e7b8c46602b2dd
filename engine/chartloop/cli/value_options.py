"""Values from a command line, read by the type that is declared for them."""

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
    """Names with their values. A name that has no type keeps its text, for the checker to name."""
    return {name: read_value(types[name], text) if name in types else text for name, text in pairs}


def answer_data(
    event: str, types: Mapping[str, Type], pairs: Pairs, data: str | None
) -> dict[str, Any]:
    """The data of an answer: JSON, or fields by name. `AnswerError` for what is neither."""
    given: dict[str, Any] = {}
    if data is not None:
        try:
            read: Any = json.loads(data)
        except (ValueError, RecursionError) as error:
            hint = """write a JSON object: '{"note": "use 3"}'"""
            raise AnswerError(f"--data is not JSON: {error}", hint=hint) from None
        if not isinstance(read, dict):
            raise AnswerError("--data is not a JSON object", hint="""write '{"note": "use 3"}'""")
        given |= read
    for name, text in pairs:
        if types and name not in types:
            raise AnswerError(f"`{event}` has no field `{name}`", hint=nearest(name, types))
        given[name] = read_value(types[name], text) if name in types else text
    return given


def figures_of(pairs: Pairs) -> dict[str, float]:
    """Figures that a run must stay within, by name. `MisuseError` for what is not a number."""
    return {name: read_number(name, text) for name, text in pairs}


def read_number(name: str, text: str) -> float:
    """A number, whole where it is one: ``50_000``, ``0.5``."""
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        raise MisuseError(f"`{name}={text}` is not a number", hint=f"write `{name}=30`") from None
    if not math.isfinite(value):
        raise MisuseError(f"`{name}={text}` is not a figure", hint=f"write `{name}=30`")
    return int(value) if value == int(value) else value
