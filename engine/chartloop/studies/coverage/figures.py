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

    def __add__(self, other: Covered) -> Covered:  # type: ignore[override]
        return Covered(self.item, self.times + other.times)

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
        return data

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
        return cls(item, int(data["times"]))


_WORDS = ("role", "text", "source", "to", "file", "reason")


class Figure(NamedTuple):
    """How many items were seen, of all."""

    seen: int
    all: int

    @property
    def percent(self) -> float:
        """Rounded down to a tenth, so that only all items give 100; 100 if there are none."""
        return int(1_000 * self.seen / self.all) / 10 if self.all else 100.0

    def __str__(self) -> str:
        return f"{self.seen}/{self.all}"


def figure_of(covered: Iterable[Covered]) -> Figure:
    """Count the items seen, and all of them."""
    counted = list(covered)
    return Figure(sum(1 for c in counted if c.times), len(counted))
