"""Validation of the names that a file declares: states, limits, variables, events.

It follows the validation of the shape. An invalid name is reported but kept, so that it does not
become an unknown name as well.

Source: design "language", section 1 (`machine`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from chartloop.language.file.base import LONGEST_NAME, NAME
from chartloop.language.yaml.document import short
from chartloop.language.yaml.reading import Path

RESERVED_STATES = frozenset({"return", "next"})
"""The state names that `next: return` and `failed: next` reserve."""

_NAME = re.compile(NAME.removeprefix("^").removesuffix("$"))
_NAMED = ("states", "limits", "vars", "memory", "define", "reasons", "machines", "output")


class BadName(NamedTuple):
    """An invalid name, with a hint that may suggest a valid one."""

    path: Path
    message: str
    hint: str


def bad_names(machine: Mapping[str, Any], base: Path = ()) -> Iterator[BadName]:
    """The invalid names of a machine and its inline children, in validated plain data."""
    for key in _NAMED:
        yield from _among(machine, (*base, key))
    for name, state in _inside(machine, "states").items():
        path = (*base, "states", name, "on")
        yield from _among(state, path)
        for event, edge in _inside(state, "on").items():
            yield from _among(edge, (*path, event, "data"))
    for name, child in _inside(machine, "machines").items():
        yield from bad_names(child, (*base, "machines", name))


def bad_name(path: Path, name: str, *, reserved: bool = False) -> BadName | None:
    """The error in one name; None if there is none."""
    if reserved:
        return BadName(path, f"`{name}` is a word of the language", "take another name")
    if _NAME.fullmatch(name) and len(name) <= LONGEST_NAME:
        return None
    hint = "a small letter, then small letters, digits and underscores"
    better = re.sub(r"[^a-z0-9]+", "_", name[:LONGEST_NAME].lower()).strip("_")
    if _NAME.fullmatch(better):
        hint += f": `{better}`"
    return BadName(path, f"`{short(name)}` is not a name", hint)


def _among(holder: Any, path: Path) -> Iterator[BadName]:
    key = path[-1]
    for name in _inside(holder, str(key)):
        reserved = key == "states" and name in RESERVED_STATES
        if problem := bad_name((*path, name), name, reserved=reserved):
            yield problem


def _inside(holder: Any, key: str) -> dict[str, Any]:
    """A mapping under a key; empty when there is none."""
    found = cast(dict[str, Any], holder).get(key) if isinstance(holder, dict) else None
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}
