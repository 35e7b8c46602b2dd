"""The search: which node is followed next, and when it is enough.

Nodes are followed by the length of their way, so that the first that shows a target is the nearest.
A target needs a whole run: from each node that shows it the shortest way on to where the run rests
is looked for, and the shortest whole is kept. When a part of the work is spent, nodes come first
that are new, or near to what is still missing (`aiming`).

Belongs here: order and bounds. Never: what may happen at a node (`moves`), files.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from anyio import Event
from anyio.lowlevel import checkpoint

from chartloop.scenarios.generator.equivalence import Alike, Key, Novelty
from chartloop.scenarios.generator.hints import hints_of
from chartloop.scenarios.generator.moves import Moves, Node
from chartloop.scenarios.generator.priority import Aiming, Open
from chartloop.scenarios.generator.search_targets import Target
from chartloop.scenarios.generator.starts import Start, pairs, starts

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
_NEAREST = 0.3
"""The share of the work that is done by length alone."""
Told = Callable[["Progress"], None]


class Progress(NamedTuple):
    """How far a search is."""

    tried: int
    work: int
    found: int
    wanted: int
    said: str = ""
    """What is done with what was found, once the search is over."""


class Way(NamedTuple):
    """A whole run that shows something."""

    end: Node

    @property
    def cost(self) -> tuple[int, int]:
        """Records, then how plain it is."""
        return self.end.cost

    @property
    def targets_shown(self) -> frozenset[Target]:
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
    """The nodes that showed a target, whether their runs were continued with or not."""
    stopped: bool = False
    """Someone has stopped it before its work was done."""

    def __post_init__(self) -> None:
        spec = self.moves.chart.spec
        self._hints = hints_of(spec, self.moves.chart.position("").facts)
        self._alike = Alike(spec, self._hints)
        self._novelty = Novelty()
        self._new: dict[Key, int] = {}
        self._best: dict[Key, tuple[int, int]] = {}
        self._on: set[Node] = set()
        """Nodes from which the shortest way on was looked for, and below those that went plainly.

        Each of two that are alike needs its own: what they have shown is not the same.
        """
        self._open: list[tuple[tuple[int, int], int, Node, Key]] = []
        self._number = count()
        self._aiming: Aiming | None = None
        self._missing = dict.fromkeys(sorted(self.wanted))
        """What has no whole run yet, in an order that is the same in each search."""
        self._level = math.inf
        """No node of a way that is shorter than this was left unfollowed."""
        self._on_plainly: set[Node] = set()
        self._over: Event | None = None

    async def run(self) -> None:
        """Until everything is found by its shortest way, or the work is done."""
        self._over = Event()
        try:
            await self._run()
        finally:
            self._over.set()

    async def stop(self) -> None:
        """Wait until a run that was cancelled has let go, and make whole what is nearly so."""
        self.stopped = True
        if self._over is not None:
            await self._over.wait()
        await self._finish_all(plainly=True)

    async def _run(self) -> None:
        single = starts(self.moves.chart.spec, self._hints)
        await self._plain_runs()
        await self._begin(single)
        await self._follow(int(self.work * _NEAREST))
        await self._finish_all()
        if self._missing:
            await self._stubborn_runs()
            await self._begin(pairs(single[1:]))
            await self._aim()
            await self._finish_all()
        await self._shorten()

    @property
    def ended(self) -> bool:
        """Whether nothing was left to follow."""
        return not self.stopped and not self._open and (self._aiming is None or self._aiming.ended)

    def is_shortest(self, way: Way) -> bool:
        """Whether no shorter run shows what this one is for, as far as runs are told apart."""
        return not self.stopped and way.end.length <= self._level + 1

    @property
    def _out_of_work(self) -> bool:
        return self.moves.tried >= self.work

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
                if node is None or node.position.ended or self._out_of_work:
                    break
                self._take(node)
                node = await self.moves.alike(node, number)
            if node is not None:
                self._take(node)

    async def _begin(self, given: Iterable[Start]) -> None:
        for start in given:
            if self._out_of_work:
                return
            node = await self.moves.begin(start)
            if node is not None:
                self._take(node)

    async def _follow(self, work: int) -> None:
        """Nodes by the length of their way."""
        level = 0
        while self._open and self.moves.tried < work:
            _, _, node, key = heapq.heappop(self._open)
            if self._best[key] < node.cost:
                continue
            if node.length > level:
                level = node.length
                await self._finish_all(before=level - _PATIENCE)
            if not self._missing and self._is_settled(node):
                heapq.heappush(self._open, (node.cost, next(self._number), node, key))
                break
            await self._expand(node)
        self._level = self._open[0][2].length if self._open else math.inf

    async def _aim(self) -> None:
        """Nodes that are new, or near to what is missing."""
        await self._finish_all(plainly=True)
        nodes = (Open(node, key, self._new[key]) for _, _, node, key in self._open)
        aiming = self._aiming = Aiming(self.moves.chart, [*self._missing], nodes)
        self._open, missing = [], len(self._missing)
        while self._missing and not self._out_of_work and (one := aiming.pop()) is not None:
            if self._best[one.key] >= one.node.cost:
                await self._expand(one.node)
                await self._finish_all(plainly=True)
            if len(self._missing) < missing:
                missing = len(self._missing)
                aiming.aim([*self._missing])

    async def _expand(self, node: Node) -> None:
        """Follow a node: take everything that is behind it."""
        await checkpoint()  # a Ctrl-C is heard
        async for behind in self.moves.behind(node):
            self._take(behind)
        self.tell()

    def tell(self, said: str = "") -> None:
        """Say how far it is."""
        found, wanted = len(self.ways), len(self.wanted)
        self.told(Progress(self.moves.tried, self.work, found, wanted, said))

    def _is_settled(self, node: Node) -> bool:
        """Whether no open node can lead to a target by a shorter way."""
        return all(way.end.length <= node.length + 1 for way in self.ways.values())

    # what a node shows ----------------------------------------------------------------------

    def _take(self, node: Node) -> None:
        """A new node: note what it shows, and follow it later unless one like it is known."""
        key = self._alike.key(node)
        for target in sorted(node.shown & self.wanted):
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
        if node.position.ended:
            return
        if self._aiming is not None:
            self._aiming.push(Open(node, key, self._new[key]))
        else:
            heapq.heappush(self._open, (node.cost, next(self._number), node, key))

    def _whole(self, end: Node) -> None:
        """A run that rests: the best so far for what it shows?"""
        way = Way(end)
        for target in sorted(way.targets_shown & self.wanted):
            known = self.ways.get(target)
            if known is None or end.cost < known.cost:
                self.ways[target] = way
                self._missing.pop(target, None)

    # whole runs -----------------------------------------------------------------------------

    async def _finish_all(self, before: int | None = None, *, plainly: bool = False) -> None:
        """A whole run for each target that has none; with `before`, if it was shown so early."""
        for target in [target for target in self._missing if target in self.arrivals]:
            for node in _nearest(self.arrivals[target]):
                if target in self.ways or self.moves.tried >= self.work + self.work // 4:
                    break
                if plainly and node not in self._on_plainly:
                    self._on_plainly.add(node)
                    await self._plainly(node)
                elif not plainly and (before is None or node.length < before):
                    await self._finish(node)

    async def _shorten(self) -> None:
        """Each way of showing a target is continued with that could still be the shortest."""
        until = self.moves.tried + int(self.work * _SHORTENING)
        for target, arrivals in list(self.arrivals.items()):
            for node in _nearest(arrivals):
                known = self.ways.get(target)
                if known is not None and known.end.length <= node.length + 1:
                    break
                if self.moves.tried >= until:
                    return
                await self._finish(node)

    async def _finish(self, node: Node) -> None:
        """The shortest way on from a node to where its run rests, once."""
        if node in self._on:
            return
        self._on.add(node)
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


def _nearest(arrivals: Mapping[Key, Node]) -> list[Node]:
    return sorted(arrivals.values(), key=lambda node: node.cost)
