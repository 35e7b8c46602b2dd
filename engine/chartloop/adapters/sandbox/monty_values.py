"""The output of the sandbox, cut to size: the printed text and the last value.

A value from the worker consists of Python objects that may share parts, so a few bytes may expand
to more than the host can hold. So nothing here calls `repr` or `json` on a container; every walk
has a bound.

Belongs here: values. Never: Monty itself.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, cast

PRINTED = 65_536
"""The most bytes kept of stdout, and of stderr."""
VALUE = 65_536
"""The most characters and elements kept of a value."""
DEEPEST = 50
"""The most levels kept of a value."""


class Printed:
    """The printed text of the code, up to `PRINTED` bytes of each stream."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._room = dict.fromkeys(self._texts, PRINTED)

    def write(self, stream: str, text: str) -> None:
        """Add a piece of text."""
        room = self._room[stream]
        if room < 0:
            return
        data = text[: room + 1].encode("utf-8", "replace")
        self._texts[stream].append(data[:room].decode("utf-8", "ignore"))
        self._room[stream] = room - len(data)

    def text(self, stream: str) -> str:
        """The kept text, with a note if some was cut off."""
        text = "".join(self._texts[stream])
        if self._room[stream] >= 0:
            return text
        return f"{text}\n… cut here: at most {PRINTED:,} bytes are kept\n"


class _TooMuch(Exception):
    """The value is too large."""


def as_json(value: Any) -> Any:
    """A value of the sandbox as JSON data, or as cut text if it is not JSON or too large.

    A tuple is a list in JSON; a mapping with keys that are not a text, NaN and the like are not
    JSON.
    """
    if isinstance(value, str):
        return value if len(value) <= VALUE else value[:VALUE] + "…"
    try:
        return _Copier().copy(value, 0)
    except (_TooMuch, TypeError):
        return text_of(value)


class _Copier:
    """Copies JSON data up to the size limit."""

    def __init__(self) -> None:
        self._room = VALUE

    def copy(self, value: Any, depth: int) -> Any:
        """The value as plain data. Raises `TypeError` if it is not JSON."""
        self._room -= 1 + (len(value) if isinstance(value, str) else 0)
        if self._room < 0 or depth > DEEPEST:
            raise _TooMuch
        if isinstance(value, (list, tuple)):
            return [self.copy(v, depth + 1) for v in cast("Iterable[Any]", value)]
        if isinstance(value, dict):
            items = cast("dict[Any, Any]", value).items()
            return {self._key(k): self.copy(v, depth + 1) for k, v in items}
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int) and value.bit_length() <= 1_024:
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value
        raise TypeError(type(value).__name__)

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            raise TypeError(type(key).__name__)
        self._room -= len(key)
        return key


_SAFE = (
    bool, float, complex, type(None), type(...), type, decimal.Decimal, PurePath,
    dt.date, dt.time, dt.timedelta, dt.tzinfo,
)  # fmt: skip
"""The types whose `repr` is safe to call, because its length is bounded."""


def text_of(value: Any) -> str:
    """The cut text of a value, in bounded time and memory."""
    writer = _Writer()
    try:
        writer.write(value, 0)
    except _TooMuch:
        writer.parts.append("…")
    return "".join(writer.parts)


class _Writer:
    """Writes a value like `repr`, up to the size limit."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._room = VALUE

    def write(self, value: Any, depth: int) -> None:
        """Add the text of a value."""
        if depth > DEEPEST:
            self._put("…")
        elif isinstance(value, dict):
            self._items("{", cast("dict[Any, Any]", value).items(), "}", depth)
        elif brackets := next((b for t, b in _BRACKETS.items() if isinstance(value, t)), None):
            self._items(brackets[0], ((v,) for v in value), brackets[1], depth)
        elif isinstance(value, BaseException):
            self._items(f"{type(value).__name__}(", ((v,) for v in value.args), ")", depth)
        elif isinstance(getattr(value, "attributes", None), dict):  # its own object class
            self._items(f"<{value.name} object ", value.attributes.items(), ">", depth)
        else:
            self._put(_leaf(value))

    def _items(self, start: str, items: Iterable[tuple[Any, ...]], end: str, depth: int) -> None:
        self._put(start)
        for number, item in enumerate(items):
            if number:
                self._put(", ")
            self.write(item[0], depth + 1)
            if len(item) > 1:
                self._put(": ")
                self.write(item[1], depth + 1)
        self._put(end)

    def _put(self, text: str) -> None:
        self.parts.append(text[: max(self._room, 0)])
        self._room -= len(text)
        if self._room < 0:
            raise _TooMuch


_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


def _leaf(value: Any) -> str:
    if isinstance(value, (str, bytes)):
        return repr(value[:VALUE])
    if isinstance(value, int) and value.bit_length() > 10_000:  # too many digits for Python
        return f"<an int of {value.bit_length():,} bits>"
    if isinstance(value, (int, *_SAFE)):
        return repr(value)
    name = getattr(value, "name", None)  # of the stand-ins for functions and modules
    return f"<{name if isinstance(name, str) else type(value).__name__}>"
