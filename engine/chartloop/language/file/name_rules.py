"""The names that a file declares: states, limits, variables, events."""

from __future__ import annotations

import re
from typing import NamedTuple

from chartloop.language.yaml.document import short
from chartloop.language.yaml.reading import Path

NAME = r"^[a-z][a-z0-9_]*$"
LONGEST_NAME = 64

RESERVED_STATES = frozenset({"return", "next"})
"""The state names that `next: return` and `failed: next` reserve."""

_NAME = re.compile(NAME.removeprefix("^").removesuffix("$"))


class BadName(NamedTuple):
    """An invalid name, with a hint that may suggest a valid one."""

    path: Path
    message: str
    hint: str


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
