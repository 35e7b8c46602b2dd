"""The arrangement of a chart's boxes in columns, and the arrows that take a lane.

Belongs here: the order of reading. Never: rows, columns, characters.

The longest path through a chart is the spine; it runs down. A short branch, such as a stop with
what only it leads to, is next to the box that it leaves. Every other arrow, each way back included,
takes a lane at the right. Linear in boxes and arrows, apart from common dominators.

Source: Cooper, Harvey, Kennedy 2001, "A simple, fast dominance algorithm"
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from chartloop.pictures.flowchart import Arrow, Box, Flowchart

BESIDE = 6
"""The most boxes of a branch next to the spine."""

Placement = Literal["below", "beside", "lane"]


@dataclass(slots=True)
class Exit:
    """How an arrow leaves its box."""

    arrow: Arrow
    placement: Placement
    beside: Column | None = None
    """The column beside the box, if the arrow leads there."""


@dataclass(slots=True)
class Node:
    """A box in its column, with its exits in the order of the chart."""

    box: Box
    exits: list[Exit] = field(default_factory=list["Exit"])

    @property
    def below(self) -> Exit | None:
        """The exit to the next box of the column."""
        return next((exit_ for exit_ in self.exits if exit_.placement == "below"), None)


Column = list[Node]
"""Boxes, from top to bottom."""


def order_chart(chart: Flowchart, *, depth: int) -> Column:
    """The spine, with up to `depth` columns of branches next to it."""
    return _Order(chart, depth).spine()


def all_nodes(column: Column) -> Iterator[Node]:
    """Every box of a column and of the columns beside it."""
    for node in column:
        yield node
        for exit_ in node.exits:
            yield from all_nodes(exit_.beside) if exit_.beside is not None else ()


class _Order:
    def __init__(self, chart: Flowchart, depth: int) -> None:
        self._depth = depth
        self._boxes = {box.id: box for box in chart.boxes}
        self._leaving: dict[str, list[Arrow]] = {box.id: [] for box in chart.boxes}
        for arrow in chart.arrows:
            self._leaving[arrow.source].append(arrow)
        # Roots in order: starts of runs, unreached boxes, boxes of rules, then all others.
        led_to = {arrow.target for arrow in chart.arrows if arrow.source != arrow.target}
        starts = [box.id for box in chart.boxes if box.entry or box.role == "start"]
        panels = [box.id for box in chart.boxes if box.role == "rules"]
        loose = [box.id for box in chart.boxes if box.id not in led_to]
        loose = [name for name in loose if name not in panels]
        roots = [*starts, *loose, *panels, *(box.id for box in chart.boxes)]
        self._topological = _topological(roots, self._leaving)
        self._rank = {name: n for n, name in enumerate(self._topological)}
        self._ahead = {
            name: [a.target for a in arrows if self._rank[a.target] > self._rank[name]]
            for name, arrows in self._leaving.items()
        }
        self._before: dict[str, list[str]] = {name: [] for name in self._boxes}
        for name, targets in self._ahead.items():
            for target in targets:
                self._before[target].append(name)
        self._height = self._heights()
        self._only_through, self._weight = self._dominator_tree()
        self._placed: set[str] = set()

    def spine(self) -> Column:
        return self._column(self._topological, 0)

    def _column(self, members: list[str], depth: int) -> Column:
        """Arrange a column: each box under one that leads to it, if possible."""
        column: Column = []
        waiting, own = iter(members), frozenset(members)
        after: str | None = None
        while True:
            name = after or next((m for m in waiting if m not in self._placed), None)
            if name is None:
                return column
            self._placed.add(name)
            node = Node(self._boxes[name])
            column.append(node)
            after = self._below(name, own, depth)
            node.exits = [Exit(a, "lane") for a in self._leaving[name]]
            leads = [exit_ for exit_ in node.exits if exit_.arrow.target == after]
            if leads:
                leads[-1].placement = "below"
            self._put_beside(node, after, depth)

    def _below(self, name: str, members: frozenset[str], depth: int) -> str | None:
        """The box ahead that continues the column, or None.

        On the spine, the one with the longest path; beside it, where paths soon leave by a lane,
        the one that dominates most boxes.
        """
        size: Mapping[str, int] = self._weight if depth else self._height
        ahead = [t for t in dict.fromkeys(self._ahead[name]) if t not in self._placed]
        if not ahead:
            return None
        largest = max(size[t] for t in ahead)
        ready = [
            t for t in ahead
            if t in members and all(b in self._placed for b in self._before[t])
            and (size[t] == largest or not self._fits(name, t, depth))
        ]  # fmt: skip
        return max(ready, key=size.__getitem__, default=None)

    def _fits(self, name: str, target: str, depth: int) -> bool:
        """Whether a box can be beside another one, with all boxes that it dominates."""
        only = set(self._before[target]) == {name}
        return only and depth < self._depth and self._weight[target] <= BESIDE

    def _put_beside(self, node: Node, below: str | None, depth: int) -> None:
        for exit_ in node.exits:
            target = exit_.arrow.target
            free = exit_.placement == "lane" and target != below and target not in self._placed
            if free and self._fits(node.box.id, target, depth):
                exit_.placement = "beside"
                # A box and the boxes that it dominates, in order.
                found: list[str] = []
                waiting = [target]
                while waiting:
                    name = waiting.pop()
                    found.append(name)
                    waiting += self._only_through[name]
                exit_.beside = self._column(sorted(found, key=self._rank.__getitem__), depth + 1)

    def _heights(self) -> dict[str, int]:
        """The length of the longest path from each box."""
        height: dict[str, int] = {}
        for name in reversed(self._topological):
            height[name] = 1 + max((height[t] for t in self._ahead[name]), default=0)
        return height

    def _dominator_tree(self) -> tuple[dict[str, list[str]], Counter[str]]:
        """The boxes that each box immediately dominates; and the size of each subtree."""
        above: dict[str, str | None] = {}
        level: dict[str | None, int] = {None: 0}
        below: dict[str, list[str]] = {name: [] for name in self._boxes}
        for name in self._topological:
            before: list[str | None] = [*self._before[name]]
            common = before[0] if before else None
            for other in before[1:]:
                while common != other:
                    if level[common] < level[other]:
                        common, other = other, common
                    common = above[common] if common is not None else None
            above[name], level[name] = common, level[common] + 1
            if common is not None:
                below[common].append(name)
        weight: Counter[str] = Counter()
        for name in reversed(self._topological):
            weight[name] = 1 + sum(weight[child] for child in below[name])
        return below, weight


def _topological(roots: list[str], leaving: dict[str, list[Arrow]]) -> list[str]:
    """All boxes in topological order; an arrow that leads to an earlier box is a way back.

    Among the successors of a box, the target of its first arrow comes first.
    """
    found: list[str] = []
    seen: set[str] = set()
    for root in roots:
        finished: list[str] = []
        waiting: list[tuple[str, list[str]]] = []
        if root not in seen:
            seen.add(root)
            waiting.append((root, [a.target for a in leaving[root]]))
        while waiting:
            name, targets = waiting[-1]
            if not targets:
                finished.append(name)
                waiting.pop()
            elif (target := targets.pop()) not in seen:
                seen.add(target)
                waiting.append((target, [a.target for a in leaving[target]]))
        found += reversed(finished)
    return found
