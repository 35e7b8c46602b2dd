"""The unreadable parts of a file, which later checks skip, so that one mistake gives one finding.

Loading fills it and the checker reads it. Paths are dotted, like `Finding.at`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from chartloop.language.file.file import StateShape
from chartloop.language.yaml.reading import MAX_FINDINGS

TOO_MANY = f"over {MAX_FINDINGS} mistakes: reading ends here"

_NAMES = re.compile(r"[A-Za-z_]\w{0,63}(?:\.[A-Za-z_]\w{0,63})*", re.ASCII)
_WAYS = frozenset({"next", "then", "else", "cases", "on", "expired", "failed", "all", "to"})
_HARMLESS = StateShape.words() | {"with", "save", "set", "allow"}
"""The keys of a state that have no influence on the next state."""


@dataclass
class Unread:
    """The unreadable parts of one machine and its children."""

    places: set[str] = field(default_factory=set[str])
    """The paths without further findings: ``states.x``, ``rules.0``."""
    ways: set[str] = field(default_factory=set[str])
    """The paths of edges with an unknown target, which may lead anywhere."""
    words: set[str] = field(default_factory=set[str])
    """The names in unreadable texts: they count as used, and states as reached."""

    def add(self, path: tuple[str | int, ...], lost: Iterable[str] = ()) -> None:
        """Add a fault at a path of the document; `lost` are the texts lost with it."""
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
        """Note that the target of what is at a path is unknown."""
        whole = len(path) > 1 and path[-2] in ("states", "rules")
        if whole or _WAYS & set(path):
            self.ways.add(".".join(str(part) for part in path))

    def union(self, other: Unread) -> Unread:
        """The union with another machine's unreadable parts."""
        return Unread(self.places | other.places, self.ways | other.ways, self.words | other.words)

    def inside(self, base: str) -> Unread:
        """The parts of the child machine at `base`, ``machines.x``, with paths relative to it."""
        start = base + "."
        places, ways = (
            {p.removeprefix(start) for p in s if p.startswith(start)} for s in self._dotted_names
        )
        return Unread(places, ways, self.words)

    def outside(self) -> Unread:
        """The parts outside of child machines."""
        places, ways = ({p for p in s if not p.startswith("machines.")} for s in self._dotted_names)
        return Unread(places, ways, self.words)

    @property
    def _dotted_names(self) -> tuple[set[str], set[str]]:
        return self.places, self.ways


def names_in(text: str) -> set[str]:
    """The dotted names in any text: ``limits.steps``."""
    return set(_NAMES.findall(text[:10_000]))
