"""What of a file could not be read: later checks do not speak of it. One mistake, one finding.

Filled while a file is read, looked at by `checker`. Places are dotted, as `Finding.at` is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from chartloop.language.yaml.reading import MAX_FINDINGS

TOO_MANY = f"over {MAX_FINDINGS} mistakes: reading ends here"

_NAMES = re.compile(r"[A-Za-z_]\w{0,63}(?:\.[A-Za-z_]\w{0,63})*", re.ASCII)
_WAYS = frozenset({"next", "then", "else", "cases", "on", "expired", "failed", "all", "to"})
_HARMLESS = frozenset({"label", "ask", "about", "role", "shape", "with", "save", "set", "allow"})
"""Keys of a state that have no part in where a run goes."""


@dataclass
class Unread:
    """The parts of one machine, and of its children, that could not be read."""

    places: set[str] = field(default_factory=set[str])
    """``states.x``, ``rules.0``: nothing more is said about what is there."""
    ways: set[str] = field(default_factory=set[str])
    """Where an edge stands whose target is not known: it may lead anywhere."""
    words: set[str] = field(default_factory=set[str])
    """Names in texts that could not be read: they count as used, states as reached."""

    def add(self, path: tuple[str | int, ...], lost: Iterable[str] = ()) -> None:
        """Note a fault at a path of the document; `lost` are texts that went with it."""
        depth = 0
        while path[depth : depth + 1] == ("machines",) and len(path) > depth + 2:
            depth += 2
        here = path[depth:]
        for text in lost:
            self.words.update(names_in(text))
        if len(here) < 2 or here[0] not in ("states", "rules", "limits"):
            return
        if here[0] == "states" and len(here) > 2 and here[2] in _HARMLESS:
            return
        self.places.add(".".join(str(part) for part in path[: depth + 2]))

    def lose_way(self, path: tuple[str | int, ...]) -> None:
        """Note that what is at a path leads no one knows where."""
        whole = len(path) > 1 and path[-2] in ("states", "rules")
        if whole or _WAYS & set(path):
            self.ways.add(".".join(str(part) for part in path))

    def union(self, other: Unread) -> Unread:
        """Both together."""
        return Unread(self.places | other.places, self.ways | other.ways, self.words | other.words)

    def inside(self, base: str) -> Unread:
        """The same for the child machine at `base`, ``machines.x``, in its own words."""
        start = base + "."
        found = [
            {p.removeprefix(start) for p in s if p.startswith(start)} for s in self._dotted_names
        ]
        return Unread(found[0], found[1], self.words)

    def outside(self) -> Unread:
        """The same without child machines."""
        found = [{p for p in s if not p.startswith("machines.")} for s in self._dotted_names]
        return Unread(found[0], found[1], self.words)

    @property
    def _dotted_names(self) -> tuple[set[str], set[str]]:
        return self.places, self.ways


def names_in(text: str) -> set[str]:
    """The dotted names in a text, whatever else it is: ``limits.steps``."""
    return set(_NAMES.findall(text[:10_000]))
