"""What an arrow to or from a group (`subgraph`) means: where the group starts, and where it ends.

Belongs here: the boxes with which a group starts and ends, and the arrows that one link at a group
stands for. Never: charts of states (`read`).

A group starts with the boxes that no arrow within it leads to, and ends with those that no arrow
within it leaves. Where arrows go round, the box that is first in the text starts, and the one
that is last ends. A group within a group counts as its boxes. A group without boxes is a box.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from chartloop.interchange.mermaid.diagram import MOST_LINKS, Diagram, Link, Refused

_MOST_WORK = 1_000_000
"""Boxes and links that are looked at, each once for every group that it is in."""

Ways = Mapping[str, Sequence[str]]


class Groups:
    """The groups of a flowchart that links lead to or come from. `Refused`: they are too large."""

    def __init__(self, diagram: Diagram, links: Sequence[Link]) -> None:
        self._owners = diagram.owners
        self._links = links
        self._begins: dict[str, list[str]] = {}
        self._ends: dict[str, list[str]] = {}
        self._work = 0
        filled = self._nonempty_groups(diagram)
        joined = {end for link in links for end in (link.source, link.target)}
        self._joined = {name: list(self._around(name)) for name in filled & joined}
        boxes = [name for name in diagram.vertices if name not in filled]
        within = self._by_group((box,) for box in boxes)
        inner = self._by_group((link.source, link.target) for link in links)
        for name in sorted(self._joined, key=lambda name: -len(self._joined[name])):
            here = [boxes[n] for n in within[name]]
            self._look_into(name, here, [links[n] for n in inner[name]])

    def __contains__(self, name: str) -> bool:
        return name in self._begins

    def begins(self, name: str) -> list[str]:
        """The boxes with which a group starts, at least one; of a box, itself."""
        return self._begins.get(name, [name])

    def ends(self, name: str) -> list[str]:
        """The boxes with which a group ends, at least one; of a box, itself."""
        return self._ends.get(name, [name])

    def arrows(self) -> Iterator[tuple[Link, str, str]]:
        """Each link, with the two boxes of every arrow that it stands for. `Refused`: too many."""
        for number, (link, source, target) in enumerate(self._meant(self._links)):
            if number >= MOST_LINKS:
                raise Refused(f"the chart has more than {MOST_LINKS:,} arrows")
            yield link, source, target

    def _meant(self, links: Iterable[Link]) -> Iterator[tuple[Link, str, str]]:
        for link in links:
            for source in self.ends(link.source):
                for target in self.begins(link.target):
                    yield link, source, target

    # groups ---------------------------------------------------------------------------------

    def _around(self, name: str) -> Iterator[str]:
        """The groups that something is in, the innermost first."""
        while (owner := self._owners.get(name)) is not None:
            self._spend()
            yield owner
            name = owner

    def _nonempty_groups(self, diagram: Diagram) -> set[str]:
        """The groups with a box in them, however deep."""
        found: set[str] = set()
        for name in diagram.vertices:
            for group in () if name in diagram.groups else self._around(name):
                if group in found:
                    break
                found.add(group)
        return found

    def _by_group(self, things: Iterable[tuple[str, ...]]) -> Mapping[str, list[int]]:
        """The things, by their number, all parts of which are within a group that is joined."""
        found: dict[str, list[int]] = defaultdict(list)
        for number, parts in enumerate(things):
            first, *others = ({*self._around(part)} for part in parts)
            for group in first.intersection(*others) & self._joined.keys():
                found[group].append(number)
        return found

    def _look_into(self, name: str, boxes: Sequence[str], links: Sequence[Link]) -> None:
        ahead: dict[str, list[str]] = defaultdict(list)
        behind: dict[str, list[str]] = defaultdict(list)
        for _, source, target in self._meant(links):
            self._spend()
            ahead[source].append(target)
            behind[target].append(source)
        self._begins[name] = roots(boxes, ahead)
        self._ends[name] = roots(boxes[::-1], behind)[::-1]

    def _spend(self) -> None:
        self._work += 1
        if self._work > _MOST_WORK:
            raise Refused("the groups with arrows are too many, too deep or too large together")


def roots(boxes: Sequence[str], ahead: Ways) -> list[str]:
    """The fewest boxes from which all of them are reached, in their order.

    Of boxes that reach one another it is the first one. What is left last by a walk in depth is
    reached by nothing that was left before it.
    """
    seen: set[str] = set()
    left = [reached for box in boxes for reached in _postorder(box, ahead, seen)]
    seen.clear()
    found = {box for box in reversed(left) if _postorder(box, ahead, seen)}
    return [box for box in boxes if box in found]


def _postorder(first: str, ahead: Ways, seen: set[str]) -> list[str]:
    """What is reached from a box and was not seen before, each behind what it leads to."""
    if first in seen:
        return []
    left: list[str] = []
    seen.add(first)
    waiting = [(first, iter(ahead.get(first, ())))]
    while waiting:
        box, ways = waiting[-1]
        for way in ways:
            if way not in seen:
                seen.add(way)
                waiting.append((way, iter(ahead.get(way, ()))))
                break
        else:
            waiting.pop()
            left.append(box)
    return left
