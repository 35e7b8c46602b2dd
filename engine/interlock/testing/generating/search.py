"""The search: which node is followed next, and when it is enough.

Nodes are followed by the length of their way, so that the first that shows a target is the nearest.
A target needs a whole run: from each node that shows it the shortest way on to where the run rests
is looked for, and the shortest whole is kept. When a part of the work is spent, nodes come first
in which something holds that never held there before, and of those the ones whose state is near to
what is still missing.

Belongs here: order and bounds. Never: what may happen at a node (`moves`), files.

Imported by:  testing.generating.generate
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from anyio.lowlevel import checkpoint

from interlock.machine.build import Chart
from interlock.machine.graph import graph
from interlock.testing.generating.alike import Alike, Key, Novelty
from interlock.testing.generating.hints import hints_of
from interlock.testing.generating.moves import Moves, Node
from interlock.testing.generating.starts import Start, pairs, starts
from interlock.testing.generating.targets import Target

WORK = 20_000
"""Moves that one search makes, at most."""
_FINISHING = 300
"""Work that is spent on the shortest way on from one node, at most."""
_PLAINLY = 40
"""Records of the plain way on from one node, at most."""
_STUBBORN = 16
"""Answers that a stubborn run may stick to."""
_LONG = 80
"""Records of a stubborn run, at most."""
_SHORTENING = 0.25
"""The share of the work that is spent on shorter runs, once all is found or given up."""
_PATIENCE = 2
"""Records that the search itself has for a whole run, before one is made of what was shown."""
_ARRIVALS = 40
"""Nodes that show the same target and are kept."""
_NEARER = 5
"""How many records it is worth to be one arrow nearer to what is missing."""
_FAR = 50
"""How far a state is from what is missing, when no arrow leads there."""
_NEAREST = 0.3
"""The share of the work that is done by length alone."""
Told = Callable[["Progress"], None]


class Progress(NamedTuple):
    """How far a search is."""

    tried: int
    work: int
    found: int
    wanted: int


class Way(NamedTuple):
    """A whole run that shows something."""

    end: Node

    @property
    def cost(self) -> tuple[int, int]:
        """Records, then how plain it is."""
        return self.end.cost

    @property
    def shown(self) -> frozenset[Target]:
        """Everything that it shows."""
        return frozenset(target for node in self.end.way() for target in node.shown)


@dataclass
class Search:
    """One search. `ways` holds what it has found."""

    moves: Moves
    wanted: frozenset[Target]
    work: int = WORK
    told: Told = lambda _: None
    ways: dict[Target, Way] = field(default_factory=dict[Target, Way])
    arrivals: dict[Target, dict[Key, Node]] = field(default_factory=dict[Target, dict[Key, Node]])
    """The nodes that showed a target, whether their runs were gone on with or not."""

    def __post_init__(self) -> None:
        spec = self.moves.chart.spec
        self._hints = hints_of(spec, self.moves.chart.position("").facts)
        self._alike = Alike(spec, self._hints)
        self._novelty = Novelty()
        self._new: dict[Key, int] = {}
        self._best: dict[Key, tuple[int, int]] = {}
        self._on: dict[Key, tuple[int, int]] = {}
        self._open: list[tuple[tuple[float, ...], int, Node, Key]] = []
        self._number = count()
        self._near: Mapping[str, int] | None = None
        self._aimed = self.wanted
        self._exact = True

    async def run(self) -> None:
        """Until everything is found by its shortest way, or the work is done."""
        single = starts(self.moves.chart.spec, self._hints)
        await self._plain_runs()
        await self._begin(single)
        await self._follow(int(self.work * _NEAREST))
        await self._finish_all()
        if self._missing:
            self._exact = False
            await self._stubborn_runs()
            await self._begin(pairs(single[1:]))
            self._aim()
            await self._follow(self.work)
            await self._finish_all()
        await self._shorten()

    @property
    def ended(self) -> bool:
        """Whether nothing was left to follow."""
        return not self._open

    def is_shortest(self, way: Way) -> bool:
        """Whether no shorter run shows what this one is for, as far as runs are told apart."""
        level = self._open[0][2].length if self._open else way.end.length
        return self._exact and way.end.length <= level + 1

    @property
    def _spent(self) -> bool:
        return self.moves.tried >= self.work

    @property
    def _missing(self) -> frozenset[Target]:
        return self.wanted - self.ways.keys()

    async def _plain_runs(self) -> None:
        """The run to which nothing odd happens, and the one that is cancelled at once."""
        node = await self.moves.begin(Start())
        if node is not None:
            self._take(node)
            await self._plainly(node)
            async for behind in self.moves.behind(node):
                if behind.cancels:
                    self._take(behind)
                    await self._plainly(behind)

    async def _stubborn_runs(self) -> None:
        """Long runs to which the same happens all the time: the same failure, say."""
        for number in range(1, _STUBBORN):
            node = await self.moves.begin(Start())
            for _ in range(_LONG):
                if node is None or node.position.ended or self._spent:
                    break
                self._take(node)
                node = await self.moves.alike(node, number)
            if node is not None:
                self._take(node)

    async def _begin(self, given: Iterable[Start]) -> None:
        for start in given:
            if self._spent:
                return
            node = await self.moves.begin(start)
            if node is not None:
                self._take(node)

    async def _follow(self, work: int) -> None:
        level = 0
        while self._open and self.moves.tried < work:
            _, _, node, key = heapq.heappop(self._open)
            if self._best[key] < node.cost:
                continue
            if node.length > level:
                level = node.length
                await self._finish_all(before=level - _PATIENCE)
            if self._settled(node):
                return
            await checkpoint()  # a Ctrl-C is heard
            if self._near is not None and self._missing != self._aimed:
                heapq.heappush(self._open, (self._order(node, key), next(self._number), node, key))
                self._aim()
                continue
            async for behind in self.moves.behind(node):
                self._take(behind)
            self.told(Progress(self.moves.tried, self.work, len(self.ways), len(self.wanted)))

    def _settled(self, node: Node) -> bool:
        """Whether all is found, and no node that is left could lead to it by a shorter way."""
        if self._missing:
            return False
        if self._near is not None:
            return True
        return all(way.end.length <= node.length + 1 for way in self.ways.values())

    # what a node shows ----------------------------------------------------------------------

    def _take(self, node: Node) -> None:
        """A new node: note what it shows, and follow it later unless one like it is known."""
        key = self._alike.key(node)
        for target in node.shown & self.wanted:
            arrivals = self.arrivals.setdefault(target, {})
            known = arrivals.get(key)
            if (known is None and len(arrivals) < _ARRIVALS) or (known and node.cost < known.cost):
                arrivals[key] = node
        if node.wait_over:
            self._whole(node)
        best = self._best.get(key)
        if best is not None and best <= node.cost:
            return
        if best is None:
            self._new[key] = self._novelty.of(key)
        self._best[key] = node.cost
        if not node.position.ended:
            heapq.heappush(self._open, (self._order(node, key), next(self._number), node, key))

    def _order(self, node: Node, key: Key) -> tuple[float, ...]:
        if self._near is None:
            return node.cost
        away = self._near.get(node.position.state, _FAR)
        return (self._new[key], _NEARER * away + node.length, *node.cost)

    def _whole(self, end: Node) -> None:
        """A run that rests: the best so far for what it shows?"""
        open_ = {t for t in self.wanted if t not in self.ways or end.cost < self.ways[t].cost}
        for target in Way(end).shown & open_ if open_ else ():
            self.ways[target] = Way(end)

    # whole runs -----------------------------------------------------------------------------

    async def _finish_all(self, before: int | None = None) -> None:
        """A whole run for each target that has none; with `before`, if it was shown so early."""
        for target, arrivals in list(self.arrivals.items()):
            for key, node in _nearest(arrivals):
                if target in self.ways or self.moves.tried >= self.work + self.work // 4:
                    break
                if before is None or node.length < before:
                    await self._finish(key, node)

    async def _shorten(self) -> None:
        """Each way of showing a target is gone on with that could still be the shortest."""
        until = self.moves.tried + int(self.work * _SHORTENING)
        for target, arrivals in list(self.arrivals.items()):
            for key, node in _nearest(arrivals):
                known = self.ways.get(target)
                if known is not None and known.end.length <= node.length + 1:
                    break
                if self.moves.tried >= until:
                    self._exact = False
                    return
                await self._finish(key, node)

    async def _finish(self, key: Key, node: Node) -> None:
        """The shortest way on from a node to where its run rests, once for all nodes alike."""
        if (known := self._on.get(key)) is not None and known <= node.cost:
            return
        self._on[key] = node.cost
        plain = await self._plainly(node)
        await self._shortest(node, None if plain is None else plain.length)

    async def _plainly(self, node: Node) -> Node | None:
        """On by what is plain, as far as that leads to an end."""
        at = node
        for _ in range(_PLAINLY):
            if at.wait_over:
                self._whole(at)
                return at
            behind = await self.moves.first(at)
            if behind is None:
                return None
            self._take(behind)
            at = behind
        return None

    async def _shortest(self, node: Node, below: int | None) -> None:
        """On by what is shortest, as long as it is shorter than what is known."""
        waiting: list[tuple[tuple[int, int], int, Node]] = [(node.cost, 0, node)]
        seen: dict[Key, tuple[int, int]] = {}
        number, until = count(1), min(self.moves.tried + _FINISHING, self.work + self.work // 4)
        while waiting and self.moves.tried < until:
            _, _, at = heapq.heappop(waiting)
            if at.wait_over:
                self._whole(at)
                return
            if below is not None and at.length + 1 >= below:
                return
            async for behind in self.moves.behind(at):
                self._take(behind)
                key = self._alike.key(behind)
                if key not in seen or behind.cost < seen[key] or behind.wait_over:
                    seen[key] = behind.cost
                    heapq.heappush(waiting, (behind.cost, next(number), behind))

    # aiming ---------------------------------------------------------------------------------

    def _aim(self) -> None:
        """From here on, nodes come first that are near to what is missing."""
        self._aimed = self._missing
        self._near = distances(self.moves.chart, self._aimed)
        self._open = [(self._order(node, key), n, node, key) for _, n, node, key in self._open]
        heapq.heapify(self._open)


def _nearest(arrivals: Mapping[Key, Node]) -> list[tuple[Key, Node]]:
    return sorted(arrivals.items(), key=lambda item: item[1].cost)


def distances(chart: Chart, missing: Iterable[Target]) -> dict[str, int]:
    """How many arrows each state is away from the nearest of the states that are missing."""
    before: dict[str, set[str]] = {}
    drawn: Any = graph(chart, engine=True)
    for source, dest in drawn.edges():
        before.setdefault(str(dest), set()).add(str(source))
    found = {state: 0 for target in missing for state in _sources(chart, target)}
    layer = list(found)
    while layer:
        behind = [source for state in layer for source in before.get(state, ())]
        layer = [source for source in dict.fromkeys(behind) if source not in found]
        away = max(found.values()) + 1
        found.update(dict.fromkeys(layer, away))
    return found


def _sources(chart: Chart, target: Target) -> Iterable[str]:
    """The states at which a target can be shown."""
    if target.kind == "reason":
        return [n for n, state in chart.spec.states.items() if state.stop == target.name]
    moves = (t for t in chart.step.transitions() if t.origin == target.name)
    return {move.source for move in moves}
