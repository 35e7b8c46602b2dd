"""Single items with how often runs have shown them, and so many of so many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chartloop.analysis.coverage.targets import KINDS, Item, Kind

PLURAL: Mapping[Kind, str] = {
    "state": "states", "edge": "edges", "rule": "rules", "atom": "atoms", "guard": "guards",
    "reason": "reasons", "child": "children",
}  # fmt: skip


class Covered(NamedTuple):
    """One item, and how often runs have shown it."""

    item: Item
    times: int = 0
    unreachable: str = ""
    """Why no run can show it, where the checker proves that; it is not counted then."""

    def __add__(self, other: Covered) -> Covered:  # type: ignore[override]
        times = self.times + other.times
        return Covered(self.item, times, "" if times else self.unreachable or other.unreachable)

    def to_dict(self) -> dict[str, Any]:
        """Plain data without what is empty."""
        item = self.item
        data: dict[str, Any] = {"kind": item.kind, "id": item.id}
        if item.way is not None:
            data["way"] = item.way
        for name in (*_WORDS, "line"):
            if value := getattr(item, name):
                data[name] = value
        data["times"] = self.times
        if self.unreachable:
            data["unreachable"] = self.unreachable
        return data

    @property
    def counts_dict(self) -> dict[str, Any]:
        """What runs have shown of it."""
        return {"times": self.times, "unreachable": self.unreachable}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Covered:
        """Read back what `to_dict` wrote. Raises what Python does for what is none."""
        kind, id = data["kind"], data["id"]
        if kind not in KINDS or not isinstance(id, str):
            raise ValueError(f"an item of no kind: `{kind}`")
        way = data.get("way")
        words = {name: str(data.get(name, "")) for name in _WORDS}
        line = int(data.get("line", 0))
        item = Item(kind, id, None if way is None else bool(way), **words, line=line)
        times = int(data["times"])
        return cls(item, times, "" if times else str(data.get("unreachable", "")))


_WORDS = ("role", "text", "source", "to", "file", "reason")


class Figure(NamedTuple):
    """So many of so many."""

    seen: int
    all: int

    @property
    def percent(self) -> float:
        """Rounded down to a tenth, so that 100 is all of them; 100 of nothing."""
        return int(1_000 * self.seen / self.all) / 10 if self.all else 100.0

    def __str__(self) -> str:
        return f"{self.seen}/{self.all}"


def figure_of(found: Iterable[Covered]) -> Figure:
    """So many of those that can be reached."""
    counted = [c for c in found if not c.unreachable]
    return Figure(sum(1 for c in counted if c.times), len(counted))
