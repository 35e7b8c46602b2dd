"""Data from outside, made safe for every journal, provider and machine.

Tools, models and an application's own actions may return anything: lone surrogates, NaN, objects
that contain themselves. Here it becomes JSON data and valid UTF-8 text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

from chartloop.core.reasons import StopReason, StopSignal

LONGEST = 256_000
"""The most characters of one text for the model and the record; the rest is cut."""

EXACT = 2**53
"""The largest number up to which every whole number is one of JSON's floating-point numbers."""
_SIMPLE = (str, bool, int, type(None))


def sound_text(text: str) -> str:
    """The text with each lone surrogate, which no encoding can represent, as U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def cut_text(text: str) -> str:
    """The first `LONGEST` characters of a text; a cut text ends with its full length."""
    text = str(text)
    if len(text) <= LONGEST:
        return sound_text(text)
    return f"{sound_text(text[:LONGEST])}\n… (cut: the whole has {len(text):,} characters)"


def text_for_model(value: object) -> str:
    """A value as a model reads it: text unchanged, other data as JSON."""
    if value is None:
        return "done"
    if isinstance(value, str):
        return cut_text(value)
    try:
        return cut_text(json.dumps(value, ensure_ascii=False, default=_as_data))
    except (TypeError, ValueError, RecursionError):
        return cut_text(_safe_repr(value))


def sound_data(value: Any) -> Any:
    """An independent copy of a value as JSON data; its text if it is not JSON, or too large."""
    if type(value) is str:
        return cut_text(value)
    if isinstance(value, _SIMPLE) and not isinstance(value, str):
        return value if not isinstance(value, int) or abs(value) < 1 << 1024 else _safe_repr(value)
    try:
        text = json.dumps(value, ensure_ascii=False, default=_as_data, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return cut_text(_safe_repr(value))
    return json.loads(sound_text(text)) if len(text) <= LONGEST else cut_text(text)


def is_sound(value: object) -> bool:
    """Whether a value is JSON data as it is. Tuples count, since journals write them as lists."""
    if value is None or isinstance(value, (bool, int)):
        return True
    try:
        _encode(value).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def sound_signal(signal: StopSignal) -> StopSignal:
    """The signal with texts and context that every record can hold."""
    context = {text_for_model(name): sound_data(value) for name, value in signal.context.items()}
    reason = cast(object, signal.reason)  # an action may give any
    name = cut_text(cast(str, reason)) or "unknown"
    return replace(
        signal, message=cut_text(signal.message), context=context, source=cut_text(signal.source),
        reason=reason if isinstance(reason, StopReason) and reason == name else StopReason(name),
    )  # fmt: skip


_AROUND = re.compile(
    r"\s*\ufeff?\s*(?:<think(?:ing)?>.*?</think(?:ing)?>\s*)?"
    r"(?:(?P<fence>`{3,}|~{3,})[ \t]*[\w+-]*[ \t]*\r?\n(?P<body>.*)(?P=fence)\s*\Z)?",
    re.DOTALL,
)


def bare_json(text: str) -> str:
    """A model's JSON without what may enclose it whole.

    That is a byte order mark, a block of thinking before it, and one fence around the rest. A text
    before or after the JSON stays, and so does a fence inside it.
    """
    around = _AROUND.match(text)
    assert around is not None  # every part is optional
    body: str | None = around["body"]
    return text[around.end() :] if body is None else body


def read_json(text: str) -> Any:
    """Parse a model's JSON. `ValueError` if it is invalid, too deep, or has NaN or infinity.

    What may enclose it is removed: see `bare_json`.
    """
    try:
        return DECODER.decode(bare_json(text).strip())
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _finite(text: str) -> float:
    number = float(text)
    if number.is_integer() and abs(number) <= EXACT:
        return int(number)  # JSON Schema calls 10.0 and 1e1 integers, and so do variables
    if math.isfinite(number):
        return number
    raise ValueError(f"`{text[:40]}` is not a number")


DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
"""Reads standard JSON, without `NaN` and infinities."""


def _as_data(value: Any) -> Any:
    for method in ("model_dump", "to_mapping", "_asdict", "isoformat"):
        if callable(made := getattr(value, method, None)):
            return made()
    if isinstance(value, (set, frozenset)):
        return list(cast(Collection[object], value))
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    return _safe_repr(value)


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  a `repr` may raise anything
        return f"<{type(value).__name__}>"
