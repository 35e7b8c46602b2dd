"""Links to and from groups (`subgraph`): the first and last boxes of each group.

A group starts with the boxes that no arrow inside it leads to, and ends with those that no arrow
inside it leaves. In a cycle, the box that comes first in the text starts, and the one that comes
last ends. A nested group counts as its boxes. A group without boxes is a box.

Belongs here: the boxes with which a group starts and ends, and the arrows that one link at a group
stands for. Never: charts of states (`read`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from chartloop.interchange.mermaid.diagram import MOST_LINKS, Diagram, Link, Refused

_MOST_WORK = 1_000_000
"""The most visits to boxes and links: one for each group that contains them."""

Ways = Mapping[str, Sequence[str]]


class Groups:
    """The groups of a flowchart that have links. Raises `Refused` if they are too large."""

    def __init__(self, diagram: Diagram, links: Sequence[Link]) -> None:
        self._owners = diagram.owners
        self._links = links
        self._begins: dict[str, list[str]] = {}
        self._ends: dict[str, list[str]] = {}
        self._work = 0
        filled: set[str] = set()  # the groups that contain a box, at any depth
        for name in diagram.vertices:
            for group in () if name in diagram.groups else self._around(name):
                if group in filled:
                    break
                filled.add(group)
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
        """The boxes with which a group starts, at least one; for a box, itself."""
        return self._begins.get(name, [name])

    def ends(self, name: str) -> list[str]:
        """The boxes with which a group ends, at least one; for a box, itself."""
        return self._ends.get(name, [name])

    def arrows(self) -> Iterator[tuple[Link, str, str]]:
        """Each link with the two boxes of every arrow that it stands for. Raises `Refused`."""
        for number, (link, source, target) in enumerate(self._expand(self._links)):
            if number >= MOST_LINKS:
                raise Refused(f"the chart has more than {MOST_LINKS:,} arrows")
            yield link, source, target

    def _expand(self, links: Iterable[Link]) -> Iterator[tuple[Link, str, str]]:
        for link in links:
            for source in self.ends(link.source):
                for target in self.begins(link.target):
                    yield link, source, target

    # groups ---------------------------------------------------------------------------------

    def _around(self, name: str) -> Iterator[str]:
        """The groups around a box or group, innermost first."""
        while (owner := self._owners.get(name)) is not None:
            self._spend()
            yield owner
            name = owner

    def _by_group(self, things: Iterable[tuple[str, ...]]) -> Mapping[str, list[int]]:
        """For each group with links, the indices of the things that lie inside it entirely."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, parts in enumerate(things):
            first, *others = ({*self._around(part)} for part in parts)
            for group in first.intersection(*others) & self._joined.keys():
                numbers[group].append(number)
        return numbers

    def _look_into(self, name: str, boxes: Sequence[str], links: Sequence[Link]) -> None:
        ahead: dict[str, list[str]] = defaultdict(list)
        behind: dict[str, list[str]] = defaultdict(list)
        for _, source, target in self._expand(links):
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
    """The fewest boxes from which all boxes are reached, in order.

    Of boxes that reach one another, the first. A box that a walk in reverse postorder has not yet
    seen is reached from no box outside its cycle.
    """
    seen: set[str] = set()
    postorder = [reached for box in boxes for reached in _postorder(box, ahead, seen)]
    seen.clear()
    first = {box for box in reversed(postorder) if _postorder(box, ahead, seen)}
    return [box for box in boxes if box in first]


def _postorder(first: str, ahead: Ways, seen: set[str]) -> list[str]:
    """The unseen boxes reached from a box, each after those that it leads to."""
    if first in seen:
        return []
    finished: list[str] = []
    seen.add(first)
    stack = [(first, iter(ahead.get(first, ())))]
    while stack:
        box, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(ahead.get(target, ()))))
                break
        else:
            stack.pop()
            finished.append(box)
    return finished
