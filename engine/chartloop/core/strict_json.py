"""JSON from outside, read strictly: what no order may hold has a place and a reason.

Belongs here: numbers without a bound, texts that cannot be stored everywhere, names given twice.
Never: what an order means, HTTP.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

LARGEST = 10**15
"""The most that a limit of a caller may be, in whatever unit."""
WHOLE = 2**63 - 1
"""The largest whole number in other values but a tool's arguments, with either sign: 64 bits."""
FINITE = math.nextafter(math.inf, 0)
_UNFIT = re.compile("[\0\ud800-\udfff]")
_ODD = re.compile(r"\\u(?:0000|[dD][89a-fA-F])|\d{19}|[eE]\+?\d{3}")
"""A text without a match holds none of these, so its value need not be walked."""


def pointer(*path: object) -> str:
    """A JSON pointer, RFC 6901."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


class Unfit(NamedTuple):
    """A value that no order may hold."""

    at: str
    """A JSON pointer."""
    why: str
    is_number: bool = False


class UnfitError(ValueError):
    """A text holds a value that no order may hold."""

    def __init__(self, unfit: Unfit, *, constant: bool) -> None:
        self.unfit, self.constant = unfit, constant
        """Whether it has `NaN` or `Infinity`, which is not JSON."""
        super().__init__(f"{unfit.at}: {unfit.why}" if unfit.at else unfit.why)


class _Twice(dict[str, Any]):
    """An object that names a field twice."""


def read_strictly(text: str) -> Any:
    """The value of a JSON text. Raises `UnfitError`, or another `ValueError` if it is not JSON."""
    odd = list[object]()

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            odd.append(found := _Twice(found))
        return found

    def whole(digits: str) -> int | float:
        return int(digits) if len(digits) <= 309 else math.inf  # Python reads no more than 4,300

    def constant(word: str) -> float:
        odd.append(word)
        return math.nan

    long = _ODD.search(text)  # else the walk, which takes longest, finds nothing
    value = json.loads(
        text, object_pairs_hook=made, parse_int=whole if long else None, parse_constant=constant
    )
    if long or odd:
        for unfit in unfits(value):
            raise UnfitError(unfit, constant=any(isinstance(one, str) for one in odd))
    return value


def unfits(value: Any, at: str = "") -> Iterator[Unfit]:
    """What no order may hold in a value, each with its place below `at`."""
    stack: list[tuple[str, Any]] = [(at, value)]
    while stack:
        at, one = stack.pop()
        if isinstance(one, str):
            if found := _UNFIT.search(one):
                what = "NUL" if found[0] == "\0" else "half a character"
                yield Unfit(at, f"a text holds {what}")
        elif isinstance(one, Mapping):
            if isinstance(one, _Twice):
                yield Unfit(at, "a name is given twice in an object")
            for name, below in cast("Mapping[object, Any]", one).items():
                if _UNFIT.search(str(name)):
                    yield Unfit(at, "a name holds NUL or half a character")
                stack.append((at + pointer(name), below))
        elif isinstance(one, (list, tuple)):
            stack += [(at + pointer(n), below) for n, below in enumerate(cast("list[Any]", one))]
        elif type(one) in (int, float):
            of_tool = "/arguments/" in at  # as a model wrote it: an account may be a number
            if not abs(one) <= (WHOLE if type(one) is int and not of_tool else FINITE):
                why = f"a number is finite, and a whole one at most {WHOLE:,}"
                yield Unfit(at, why, is_number=True)
