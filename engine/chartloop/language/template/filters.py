"""The filters of templates: a small table of pure functions, each of them bounded.

    default(x, if_empty)  `x` for a missing value or None; with `true` for any empty value too
    first, last           of a list or a text; None if it is empty
    length                of a list, map or text
    items                 the pairs of a map: `{% for name, value in vars.scores | items %}`
    join(between)         a list as one text
    upper, lower, trim    a text
    replace(old, new)     everywhere in a text
    indent(width, first)  lines moved right, blank ones not; the first only with `true`
    truncate(length)      at most `length` characters; a cut text ends in `…`
    round(digits)         a number; a whole one without `digits`
    percent(decimals)     a fraction as a percentage: `95%`, with one decimal `95.0%`
    int(otherwise)        a whole number of a number or a text
    tojson                compact JSON, non-ASCII letters as they are

The first argument of each is the `Meter` of the rendering: an untrusted template ends with an error
before it exhausts the memory.

Belongs here: filters and their bounds. Never: Jinja2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast

from chartloop.core.errors import nearest
from chartloop.core.types import ANY, COUNT, INT, STR, Type
from chartloop.core.values import Value

MAX_OUTPUT = 1_000_000
"""The most characters of a rendered template, and of any intermediate text."""
MAX_ITEMS = 10_000
"""The most items of a loop."""
MAX_WORK = 20_000_000
"""The budget of one rendering, in processed characters; see `Meter`."""
NODE_COST = 50
"""The cost of one operation, in characters: it takes about as long as 50 of them."""


class Meter:
    """The budget of one rendering. Counted, not timed, so that the result is reproducible."""

    def __init__(self, work: int = MAX_WORK) -> None:
        self.left = work

    def spend(self, work: int) -> None:
        """Subtract a cost. Raises `ValueError` when the budget is spent."""
        self.left -= work
        if self.left < 0:
            raise ValueError("too much to do: shorten the lists or texts")

    def weigh(self, value: Any) -> Any:
        """Charge for a value and return it."""
        self.spend(NODE_COST + size(value))
        return value


def size(value: Any) -> int:
    """The cost of reading a value, in characters."""
    if isinstance(value, (str, list, tuple, Mapping)):
        return len(cast("Sequence[Any]", value))
    return 1


def check_length(length: int) -> None:
    """Raise `ValueError` for a length over `MAX_OUTPUT`."""
    if length > MAX_OUTPUT:
        raise ValueError(f"more than {MAX_OUTPUT:,} characters")


def show(value: Any) -> Any:
    """A value as `{{ }}` prints it: None as nothing, lists and maps as JSON."""
    if value is None:
        return ""
    return write_json(value) if isinstance(value, (list, tuple, Mapping, Value)) else value


def write_json(value: Any) -> str:
    """Compact JSON. Raises `TypeError` for other types, `ValueError` if it is too large."""
    plain = _plain(value, Meter(MAX_OUTPUT))
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _plain(value: Any, room: Meter) -> Any:
    """The value as lists and dicts. `room` limits its size before anything is written."""
    room.spend(size(value))
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(k): _plain(v, room) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, room) for item in cast("Sequence[Any]", value)]
    if isinstance(value, Value):
        return {name: _plain(part, room) for name, part in value.to_mapping().items()}
    raise TypeError(f"a {type(value).__name__} cannot be written as text")


MISSING: Any = object()
"""Returned by `look_up` for no value, because None is one."""


def look_up(value: Any, key: str | int) -> Any:
    """The value at a map key, a list index or a public field of a record, else `MISSING`."""
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value).get(key, MISSING)
    if isinstance(key, str):
        known = value.__struct_fields__ if isinstance(value, Value) else ()
        return getattr(value, key) if key in known else MISSING
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return items[key] if -len(items) <= key < len(items) else MISSING
    return MISSING


def missing(value: Any, key: str | int) -> str:
    """Explain to the author of a template why `look_up` found nothing."""
    if value is None:
        return f"`{key}` is read of None; test it first, or write `| default(...)`"
    if isinstance(value, Mapping):
        known = nearest(str(key), map(str, cast("Mapping[Any, Any]", value)))
        return f"there is no key `{key}`; {known or 'the map is empty'}, or write `| default(...)`"
    if isinstance(key, int) and isinstance(value, (list, tuple)):
        count = len(cast("Sequence[Any]", value))
        return f"index {key} is out of range: the list has {count:,} element{'s' * (count != 1)}"
    return f"there is no `{key}` in a {type(value).__name__}; `| default(...)` takes its place"


def each(meter: Meter, value: Any, cost: int) -> Sequence[Any]:
    """The items of a `for`, charged with `cost` operations each."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple, Mapping)):
        raise TypeError(f"no loop goes over a {type(value).__name__}")
    items = list(cast("Sequence[Any]", value))
    if len(items) > MAX_ITEMS:
        raise ValueError(f"a loop over {len(items):,} items; the bound is {MAX_ITEMS:,}")
    meter.spend(len(items) * cost * NODE_COST)
    return items


def index(_: Meter, value: Any) -> int:
    """Check a computed index: a whole number from 0."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"an index is a whole number, not {_text(value) or 'None'}")
    if value < 0:
        raise ValueError(f"index {value} is out of range: an index counts from 0")
    return value


def _text(value: Any) -> str:
    return str(show(value))


def _default(_: Meter, value: Any, otherwise: Any = "", if_empty: bool = False) -> Any:
    return otherwise if value is None or (if_empty and not value) else value


def _first(_: Meter, value: Any) -> Any:
    return value[0] if value else None


def _last(_: Meter, value: Any) -> Any:
    return value[-1] if value else None


def _length(_: Meter, value: Any) -> int:
    return 0 if value is None else len(value)


def _items(_: Meter, value: Any) -> list[tuple[str, Any]]:
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"`items` takes a map, this is a {type(value).__name__}")
    return list(cast("Mapping[str, Any]", value).items()) if value is not None else []


def _join(meter: Meter, value: Any, between: str = "") -> str:
    parts = [_text(item) for item in each(meter, value, 1)]
    check_length(sum(map(len, parts)) + len(between) * len(parts))
    return between.join(parts)


def _upper(_: Meter, value: Any) -> str:
    return _text(value).upper()


def _lower(_: Meter, value: Any) -> str:
    return _text(value).lower()


def _trim(_: Meter, value: Any) -> str:
    return _text(value).strip()


def _replace(_: Meter, value: Any, old: str, new: str) -> str:
    text = _text(value)
    check_length(len(text) + text.count(old) * max(0, len(new) - len(old)))
    return text.replace(old, new)


def _indent(_: Meter, value: Any, width: int = 4, first: bool = False) -> str:
    text = _text(value)
    if not 0 <= width <= 100:
        raise ValueError("`indent` takes a width from 0 to 100")
    lines = text.split("\n")
    check_length(len(text) + len(lines) * width)
    moved = [
        " " * width + line if line and (number or first) else line
        for number, line in enumerate(lines)
    ]
    return "\n".join(moved)


def _truncate(_: Meter, value: Any, length: int = 255) -> str:
    text = _text(value)
    return text if len(text) <= length else text[: max(0, length - 1)] + "…"


def _round(_: Meter, value: Any, digits: int = 0) -> int | float:
    if not 0 <= digits <= 15:
        raise ValueError("`round` takes from 0 to 15 digits")
    return round(value, digits) if digits else round(value)


def _percent(_: Meter, value: Any, decimals: int = 0) -> str:
    if not isinstance(value, (int, float)):
        raise TypeError(f"`percent` takes a number, this is a {type(value).__name__}")
    if not 0 <= decimals <= 15:
        raise ValueError("`percent` takes from 0 to 15 decimals")
    return f"{value:.{decimals}%}"


def _int(_: Meter, value: Any, otherwise: int = 0) -> int:
    try:
        return int(value[:40] if isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
        return otherwise


def _tojson(_: Meter, value: Any) -> str:
    return write_json(value)


class FilterSpec(NamedTuple):
    """One filter: its function, arguments and result type."""

    call: Callable[..., Any]
    args: tuple[str, ...] = ()
    needed: int = 0
    """The number of required arguments."""
    gives: Type | Literal["same", "element", "pairs"] = STR
    """The `same` type as the input, its `element`, or `pairs` of key and value."""


FILTERS: Mapping[str, FilterSpec] = MappingProxyType(
    {
        "default": FilterSpec(_default, ("otherwise", "if_empty"), gives="same"),
        "first": FilterSpec(_first, gives="element"),
        "last": FilterSpec(_last, gives="element"),
        "length": FilterSpec(_length, gives=COUNT),
        "items": FilterSpec(_items, gives="pairs"),
        "join": FilterSpec(_join, ("between",)),
        "upper": FilterSpec(_upper),
        "lower": FilterSpec(_lower),
        "trim": FilterSpec(_trim),
        "replace": FilterSpec(_replace, ("old", "new"), needed=2),
        "indent": FilterSpec(_indent, ("width", "first")),
        "truncate": FilterSpec(_truncate, ("length",)),
        "round": FilterSpec(_round, ("digits",), gives=ANY),
        "percent": FilterSpec(_percent, ("decimals",)),
        "int": FilterSpec(_int, ("otherwise",), gives=INT),
        "tojson": FilterSpec(_tojson),
    }
)
