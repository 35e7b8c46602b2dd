"""The search for runs that show the targets.

Nodes are followed by the length of their path, so that the first that shows a target is the
nearest. A target needs a whole run: from each node that shows it, the shortest continuation to a
rest is searched, and the shortest whole run is kept. After a part of the work, new nodes and nodes
near to a missing target come first (`priority`).

Belongs here: order and bounds. Never: the successors of a node (`moves`), files.
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

from chartloop.scenarios.generator.equivalence import Equivalence, Key, Novelty
from chartloop.scenarios.generator.hints import hints_of
from chartloop.scenarios.generator.moves import Moves, Node
from chartloop.scenarios.generator.priority import Frontier, OpenNode
from chartloop.scenarios.generator.search_targets import Target
from chartloop.scenarios.generator.starts import Start, pairs, starts

WORK = 20_000
"""Default budget of one search, in moves."""
_FINISHING = 300
"""Budget for the shortest continuation from one node."""
_PLAINLY = 40
"""Maximum number of records of the plain continuation from one node."""
_STUBBORN = 16
"""How many different answers stubborn runs repeat, one each."""
_LONG = 80
"""Maximum number of records of a stubborn run."""
_SHORTENING = 0.25
"""The share of the work that is spent on shorter runs, once all is found or given up."""
_PATIENCE = 2
"""How many records the search goes on before it finishes the runs that showed a target."""
_ARRIVALS = 40
"""Maximum number of kept nodes that show the same target."""
_NEAREST = 0.3
"""The share of the work that is done by length alone."""
OnProgress = Callable[["Progress"], None]


class Progress(NamedTuple):
    """The progress of a search: work done of all, targets found of all."""

    tried: int
    work: int
    found: int
    wanted: int
    phase: str = ""
    """The progress of the work after the search; empty during it."""


class Candidate(NamedTuple):
    """A whole run, given by its last node."""

    end: Node

    @property
    def cost(self) -> tuple[int, int]:
        """Its length, then its oddness."""
        return self.end.cost

    @property
    def targets_shown(self) -> frozenset[Target]:
        """All targets that it shows."""
        return frozenset(target for node in self.end.lineage() for target in node.shown)


@dataclass
class Search:
    """One search; `candidates` holds its results."""

    moves: Moves
    wanted: frozenset[Target]
    work: int = WORK
    on_progress: OnProgress = lambda _: None
    candidates: dict[Target, Candidate] = field(default_factory=dict[Target, Candidate])
    arrivals: dict[Target, dict[Key, Node]] = field(default_factory=dict[Target, dict[Key, Node]])
    """The nodes that showed a target, whether or not their runs were finished."""
    stopped: bool = False
    """Whether it was stopped before its work was done."""

    def __post_init__(self) -> None:
        spec = self.moves.chart.spec
        self._hints = hints_of(spec, self.moves.chart.position("").facts)
        self._equivalence = Equivalence(spec, self._hints)
        self._novelty = Novelty()
        self._new: dict[Key, int] = {}
        self._best: dict[Key, tuple[int, int]] = {}
        self._on: set[Node] = set()
        """The nodes whose shortest continuation was searched.

        Equivalent nodes each need their own, because they have shown different targets.
        """
        self._open: list[tuple[tuple[int, int], int, Node, Key]] = []
        self._number = count()
        self._frontier: Frontier | None = None
        self._missing = dict.fromkeys(sorted(self.wanted))
        """The targets without a whole run, in a deterministic order."""
        self._level = math.inf
        """All nodes of paths shorter than this were followed."""
        self._on_plainly: set[Node] = set()
        """The nodes that were continued plainly."""
        self._over: Event | None = None

    async def run(self) -> None:
        """Search until the shortest run of each target is found, or the work is done."""
        self._over = Event()
        try:
            single = starts(self.moves.chart.spec, self._hints)
            # Follow the plainest run, and those that are cancelled at once.
            node = await self.moves.begin(Start())
            if node is not None:
                self._take(node)
                await self._plainly(node)
                async for behind in self.moves.behind(node):
                    if behind.cancels:
                        self._take(behind)
                        await self._plainly(behind)
            await self._begin(single)
            await self._follow(int(self.work * _NEAREST))
            await self._finish_all()
            if self._missing:
                await self._stubborn_runs()
                await self._begin(pairs(single[1:]))
                await self._aim()
                await self._finish_all()
            await self._shorten()
        finally:
            self._over.set()

    async def stop(self) -> None:
        """Wait for the end of a cancelled search, and finish runs that showed a target."""
        self.stopped = True
        if self._over is not None:
            await self._over.wait()
        await self._finish_all(plainly=True)

    @property
    def ended(self) -> bool:
        """Whether no node was left to follow."""
        done = self._frontier is None or self._frontier.ended
        return not self.stopped and not self._open and done

    def is_shortest(self, candidate: Candidate) -> bool:
        """Whether no shorter run shows the same target, as far as the search distinguishes runs."""
        return not self.stopped and candidate.end.length <= self._level + 1

    @property
    def _out_of_work(self) -> bool:
        return self.moves.tried >= self.work

    async def _stubborn_runs(self) -> None:
        """Follow long runs in which every answer is the same, such as the same failure."""
        for number in range(1, _STUBBORN):
            node = await self.moves.begin(Start())
            for _ in range(_LONG):
                if node is None or node.position.ended or self._out_of_work:
                    break
                self._take(node)
                node = await self.moves.repeat(node, number)
            if node is not None:
                self._take(node)

    async def _begin(self, candidates: Iterable[Start]) -> None:
        for start in candidates:
            if self._out_of_work:
                return
            node = await self.moves.begin(start)
            if node is not None:
                self._take(node)

    async def _follow(self, work: int) -> None:
        """Follow nodes by the length of their path."""
        level = 0
        while self._open and self.moves.tried < work:
            _, _, node, key = heapq.heappop(self._open)
            if self._best[key] < node.cost:
                continue
            if node.length > level:
                level = node.length
                await self._finish_all(before=level - _PATIENCE)
            # Settled is what no open node can lead to by a shorter path.
            if not self._missing and all(
                candidate.end.length <= node.length + 1 for candidate in self.candidates.values()
            ):
                heapq.heappush(self._open, (node.cost, next(self._number), node, key))
                break
            await self._expand(node)
        self._level = self._open[0][2].length if self._open else math.inf

    async def _aim(self) -> None:
        """Follow nodes that are new, or near to a missing target."""
        await self._finish_all(plainly=True)
        nodes = (OpenNode(node, key, self._new[key]) for _, _, node, key in self._open)
        frontier = self._frontier = Frontier(self.moves.chart, [*self._missing], nodes)
        self._open, missing = [], len(self._missing)
        while self._missing and not self._out_of_work and (one := frontier.pop()) is not None:
            if self._best[one.key] >= one.node.cost:
                await self._expand(one.node)
                await self._finish_all(plainly=True)
            if len(self._missing) < missing:
                missing = len(self._missing)
                frontier.aim([*self._missing])

    async def _expand(self, node: Node) -> None:
        """Follow a node: take all its successors."""
        await checkpoint()  # lets Ctrl-C cancel the search
        async for behind in self.moves.behind(node):
            self._take(behind)
        self.report()

    def report(self, phase: str = "") -> None:
        """Report the progress."""
        found, wanted = len(self.candidates), len(self.wanted)
        self.on_progress(Progress(self.moves.tried, self.work, found, wanted, phase))

    # nodes ----------------------------------------------------------------------------------

    def _take(self, node: Node) -> None:
        """Note the targets of a new node, and open it unless an equivalent one is known."""
        key = self._equivalence.key(node)
        for target in sorted(node.shown & self.wanted):
            arrivals = self.arrivals.setdefault(target, {})
            known = arrivals.get(key)
            if (known is None and len(arrivals) < _ARRIVALS) or (known and node.cost < known.cost):
                arrivals[key] = node
        if node.rests:
            self._keep_best(node)
        best = self._best.get(key)
        if best is not None and best <= node.cost:
            return
        if best is None:
            self._new[key] = self._novelty.of(key)
        self._best[key] = node.cost
        if node.position.ended:
            return
        if self._frontier is not None:
            self._frontier.push(OpenNode(node, key, self._new[key]))
        else:
            heapq.heappush(self._open, (node.cost, next(self._number), node, key))

    def _keep_best(self, end: Node) -> None:
        """Keep a whole run for each target that no cheaper run shows."""
        candidate = Candidate(end)
        for target in sorted(candidate.targets_shown & self.wanted):
            known = self.candidates.get(target)
            if known is None or end.cost < known.cost:
                self.candidates[target] = candidate
                self._missing.pop(target, None)

    # whole runs -----------------------------------------------------------------------------

    async def _finish_all(self, before: int | None = None, *, plainly: bool = False) -> None:
        """Finish a run for each missing target; with `before`, from nodes shorter than that."""
        for target in [target for target in self._missing if target in self.arrivals]:
            for node in _nearest(self.arrivals[target]):
                if target in self.candidates or self.moves.tried >= self.work + self.work // 4:
                    break
                if plainly and node not in self._on_plainly:
                    self._on_plainly.add(node)
                    await self._plainly(node)
                elif not plainly and (before is None or node.length < before):
                    await self._finish(node)

    async def _shorten(self) -> None:
        """Finish each run to a target that could still be the shortest."""
        until = self.moves.tried + int(self.work * _SHORTENING)
        for target, arrivals in list(self.arrivals.items()):
            for node in _nearest(arrivals):
                known = self.candidates.get(target)
                if known is not None and known.end.length <= node.length + 1:
                    break
                if self.moves.tried >= until:
                    return
                await self._finish(node)

    async def _finish(self, node: Node) -> None:
        """Search the shortest continuation from a node to a rest, once."""
        if node in self._on:
            return
        self._on.add(node)
        plain = await self._plainly(node)
        await self._shortest(node, None if plain is None else plain.length)

    async def _plainly(self, node: Node) -> Node | None:
        """Continue a node by the plainest moves; the resting node, or None if none is reached."""
        at = node
        for _ in range(_PLAINLY):
            if at.rests:
                self._keep_best(at)
                return at
            behind = await self.moves.first(at)
            if behind is None:
                return None
            self._take(behind)
            at = behind
        return None

    async def _shortest(self, node: Node, below: int | None) -> None:
        """Search the shortest continuation of a node; with `below`, only if it is shorter."""
        waiting: list[tuple[tuple[int, int], int, Node]] = [(node.cost, 0, node)]
        seen: dict[Key, tuple[int, int]] = {}
        number, until = count(1), min(self.moves.tried + _FINISHING, self.work + self.work // 4)
        while waiting and self.moves.tried < until:
            _, _, at = heapq.heappop(waiting)
            if at.rests:
                self._keep_best(at)
                return
            if below is not None and at.length + 1 >= below:
                return
            async for behind in self.moves.behind(at):
                self._take(behind)
                key = self._equivalence.key(behind)
                if key not in seen or behind.cost < seen[key] or behind.rests:
                    seen[key] = behind.cost
                    heapq.heappush(waiting, (behind.cost, next(number), behind))


def _nearest(arrivals: Mapping[Key, Node]) -> list[Node]:
    return sorted(arrivals.values(), key=lambda node: node.cost)
