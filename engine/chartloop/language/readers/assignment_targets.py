"""The variables that `set` and `save` write, and whether each value is appended.

Source: `docs/language.md`, "States"; `docs/reference/actions.md`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chartloop.core.types import ANY, Type
from chartloop.language.file import file
from chartloop.language.readers.reader import Reader
from chartloop.language.yaml.reading import Path


class Target(NamedTuple):
    """The variable that an entry writes, with the path of the entry's value."""

    path: Path
    name: str
    type: Type
    """The type of the value; with `append`, of the list's elements."""
    append: bool


def read_targets(
    reader: Reader, path: Path, shape: Mapping[str, Any] | None, unknown: str, misfit: str
) -> Iterator[tuple[Target, Any]]:
    """Each target with its value, without the `append` around it.

    `unknown` is the code for an unknown variable, `misfit` for `append` to something other than a
    list; such entries are skipped.
    """
    for name, given in (shape or {}).items():
        at = (*path, name)
        if given is file.LOST or (type := reader.variable(at, name, unknown)) is None:
            continue
        if not isinstance(given, file.Append):
            yield Target(at, name, type, False), given
            continue
        at = (*at, "append")
        if type.kind in ("list", "any"):
            yield Target(at, name, type.of or ANY, True), given.append
        else:
            message = f"`{name}` is {type}, not a list"
            reader.say(misfit, at, message, hint="`append` adds to a list")
