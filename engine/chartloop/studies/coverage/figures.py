"""Items with their counts, and the share of items that were seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chartloop.studies.coverage.targets import KINDS, Item, Kind

PLURAL: Mapping[Kind, str] = {
    "state": "states", "edge": "edges", "rule": "rules", "atom": "atoms", "guard": "guards",
    "reason": "reasons", "child": "children",
}  # fmt: skip


class Covered(NamedTuple):
    """An item, and how often runs have shown it."""

    item: Item
    times: int = 0
    unreachable: str = ""
    """Why no run can show it, as proven by the checker; such an item is not counted."""

    def __add__(self, other: Covered) -> Covered:  # type: ignore[override]
        times = self.times + other.times
        return Covered(self.item, times, "" if times else self.unreachable or other.unreachable)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without empty fields."""
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
        """The count and the reason, as columns of a frame."""
        return {"times": self.times, "unreachable": self.unreachable}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Covered:
        """Read what `to_dict` wrote. `KeyError`, `TypeError` or `ValueError` for other data."""
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
    """How many items were seen, of all that can be reached."""

    seen: int
    all: int

    @property
    def percent(self) -> float:
        """Rounded down to a tenth, so that only all items give 100; 100 if there are none."""
        return int(1_000 * self.seen / self.all) / 10 if self.all else 100.0

    def __str__(self) -> str:
        return f"{self.seen}/{self.all}"


def figure_of(covered: Iterable[Covered]) -> Figure:
    """Count the items seen and those that can be reached."""
    counted = [c for c in covered if not c.unreachable]
    return Figure(sum(1 for c in counted if c.times), len(counted))
