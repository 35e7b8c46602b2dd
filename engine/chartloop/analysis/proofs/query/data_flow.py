"""Where data goes on all paths of a machine: which source can reach which tool.

A forward analysis over the graph of `machine.abstract`: at every place, each part of the run has
the sources that it may be made of. What is not found there cannot happen. A way that shows a flow
follows one piece of data from where it came to where it went.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from chartloop.analysis.proofs.query.data_movements import (
    NO_PROMPT,
    NONE,
    Movement,
    Movements,
    Origins,
    Passed,
    Sent,
    Source,
    expand,
    given_data,
)
from chartloop.analysis.proofs.query.open_tool_calls import Offers
from chartloop.core.cells import Cell, is_carried
from chartloop.language.spec import NEVER
from chartloop.machine.abstract.graph import Routes
from chartloop.machine.abstract.position import FROM_OUTSIDE
from chartloop.machine.abstract.signals import Tools
from chartloop.machine.build import Chart

Wanted = Callable[[Source], bool]
Aim = Callable[[Sent], bool]
NOT_YET, ARRIVED = "", "."
"""In place of a cell: the data has not come yet; it was sent."""
NEXT_RUN = -1
"""In place of a route: a run has ended, and the next one goes on with what it left."""
At = tuple[int, Cell]
"""A place, and the cell that holds the data there."""


class Step(NamedTuple):
    """One step of a piece of data: a route, and the cell that holds it after it."""

    route: int
    """Or `NEXT_RUN`."""
    cell: Cell
    """`ARRIVED` where it was sent."""


class Way(NamedTuple):
    """How data of a source reaches a tool: the routes before it came, and its steps."""

    lead: tuple[int, ...]
    source: Source
    steps: tuple[Step, ...]
    sent: Sent

    @property
    def routes(self) -> tuple[int, ...]:
        """The routes of the whole way."""
        return (*self.lead, *(step.route for step in self.steps if step.route != NEXT_RUN))


class DataFlow:
    """Where the data of one machine goes.

    `cleaned`: states whose actions let pass nothing that they are given; `approved`: tools whose
    calls a person accepts one by one; `label`: the one that is asked for; `inputs`: the origins of
    what a run starts with, by default those that the file declares; `one_run`: what a run leaves to
    the next one is not followed.
    """

    def __init__(
        self, chart: Chart, routes: Routes, children: Mapping[str, Passed], *,
        cleaned: Collection[str] = (), approved: Collection[str] = (), label: str = "",
        inputs: Mapping[Cell, Origins] | None = None, one_run: bool = False,
    ) -> None:  # fmt: skip
        self.chart, self.routes, self.spec = chart, routes, chart.spec
        self.edges = {edge.id for edge in chart.spec.edges()}
        self._moves = Movements(
            chart.spec, children, frozenset(cleaned), frozenset(approved), label
        )
        self._continues = not one_run and chart.spec.continues != NEVER
        self._inputs = given_data(chart.spec) if inputs is None else inputs
        named = (*self.spec.tools, *(t for s in self.spec.states.values() for t in s.allow or ()))
        # a registry that assumes tools lists none of them
        self._offers = Offers(chart.spec, (*self.spec.registry.tools, *named))
        self._out: dict[int, list[int]] = {}
        for number, route in enumerate(routes.routes):
            self._out.setdefault(route.source, []).append(number)
        self._known: dict[tuple[int, Tools, bool], Movement] = {}
        self._open = self._open_calls()
        self.values: dict[int, dict[Cell, Origins]] = {}
        self._fill()

    def _open_calls(self) -> Mapping[int, Tools]:
        """The tools that may have an open call at each place."""
        open_: dict[int, Tools] = {0: self._offers.wanted}
        pending = deque([0])
        while pending:
            place = pending.popleft()
            for number in self._out.get(place, ()):
                route = self.routes.routes[number]
                after = self._offers.after(route, open_[place])
                if not after <= (before := open_.get(route.dest, frozenset())) or (
                    route.dest not in open_
                ):
                    open_[route.dest] = before | after
                    pending.append(route.dest)
        return open_

    def _on(self, number: int) -> Movement:
        route = self.routes.routes[number]
        unprompted = NO_PROMPT in self.values[route.source].get("prompt", NONE)
        key = number, self._open[route.source], unprompted
        if key not in self._known:
            dest = self.routes.places[route.dest]
            self._known[key] = self._moves.on(route, dest, key[1], unprompted=unprompted)
        return self._known[key]

    def _fill(self) -> None:
        """Follow all routes until no place holds anything new."""
        self.values[0] = self._at_start()
        pending = deque([0])
        while pending:
            place = pending.popleft()
            for number in self._out.get(place, ()):
                dest = self.routes.routes[number].dest
                if self._join(dest, self._after(number)):
                    pending.append(dest)
            if self._is_end(place):  # the next run may go on with what this one left
                left = {c: of for c, of in self.values[place].items() if is_carried(c)}
                pending += [0] if self._join(0, left) else []

    def _is_end(self, place: int) -> bool:
        """Whether a run ends here, which another one may continue."""
        return self._continues and place not in self._out

    def _at_start(self) -> dict[Cell, Origins]:
        """What the cells may hold when a run has entered the state at which it begins."""
        begun = [self._moves.at_start(name, self._inputs) for name in self.routes.entries]
        return {cell: frozenset().union(*(one[cell] for one in begun)) for cell in begun[0]}

    def _after(self, number: int) -> Mapping[Cell, Origins]:
        values = self.values[self.routes.routes[number].source]
        into = self._on(number).into
        return {**values, **{cell: expand(of, values) for cell, of in into.items()}}

    def _join(self, place: int, values: Mapping[Cell, Origins]) -> bool:
        new = place not in self.values
        held = self.values.setdefault(place, {})
        for cell, of in values.items():
            joined = held.get(cell, NONE) | of
            new |= joined != held.get(cell, NONE)
            held[cell] = joined
        return new

    # what is asked ----------------------------------------------------------------------------

    def sent(self) -> Iterator[tuple[int, Sent, Origins]]:
        """Everything that is sent: the route, to whom, and of what it may be made."""
        for number, route in enumerate(self.routes.routes):
            if route.source in self.values:
                for one in self._on(number).sent:
                    yield number, one, expand(one.of, self.values[route.source])

    @cached_property
    def passed(self) -> Passed:
        """What comes out of this machine where it is a child."""
        output = self._moves.read_by(self.spec.output) | {"reply", "error", "result", "signals"}
        everything = self.values.values()
        result = frozenset(o for values in everything for c in output for o in values.get(c, NONE))
        shared: dict[str, Origins] = {}
        for values in everything:
            for cell, of in values.items():
                root = cell.partition(".")[0]
                shared[root] = shared.get(root, NONE) | of
        sent = {
            one._replace(of=of, child=one.child or self.chart.name) for _, one, of in self.sent()
        }
        return Passed(result, shared, tuple(sorted(sent, key=str)))

    def way(self, wanted: Wanted, aim: Aim) -> Way | None:
        """The nearest way of data from a wanted source to what is aimed at; None if there is none.

        It walks pairs of a place and the cell that holds the data, `NOT_YET` before it came.
        """
        first = self._at_start()
        came: dict[At, tuple[At, int, Source | None]] = {}
        heap: list[tuple[int, int, At, At, int, Source | None]] = []
        order = count()
        start = (0, NOT_YET)
        heappush(heap, (0, next(order), start, start, -1, None))
        for cell, of in first.items():
            for source in _wanted(of, wanted):
                heappush(heap, (0, next(order), (0, cell), start, -1, source))
        while heap:
            cost, _, at, before, by, source = heappop(heap)
            if at in came:
                continue
            came[at] = before, by, source
            place, cell = at
            if cell == ARRIVED:
                return self._told(at, came, wanted, aim)
            if self._is_end(place) and cell != NOT_YET and is_carried(cell):
                heappush(heap, (cost + 1, next(order), (0, cell), at, NEXT_RUN, None))
            for number in self._out.get(place, ()):
                further, dest = cost + self._cost(number), self.routes.routes[number].dest
                for to, new in self._held(number, cell, wanted, aim):
                    heappush(heap, (further, next(order), (dest, to), at, number, new))
        return None

    def _held(
        self, number: int, cell: Cell, wanted: Wanted, aim: Aim
    ) -> Iterator[tuple[Cell, Source | None]]:
        """The cells that may hold the data after a route, and its source where it comes there."""
        movement = self._on(number)
        if cell == NOT_YET:
            yield NOT_YET, None
            for to, of in movement.into.items():
                yield from ((to, source) for source in _wanted(of, wanted))
            for one in movement.sent:
                if aim(one):
                    yield from ((ARRIVED, source) for source in _wanted(one.of, wanted))
            return
        if any(cell in one.of and aim(one) for one in movement.sent):
            yield ARRIVED, None
        for to in (cell, *(c for c in movement.into if c != cell)):
            if cell in movement.into.get(to, (to,)):
                yield to, None

    def _told(
        self, end: At, came: Mapping[At, tuple[At, int, Source | None]], wanted: Wanted, aim: Aim
    ) -> Way:
        """The way that ended with what was aimed at."""
        at, steps, source = end, list[Step](), None
        while at[1] != NOT_YET:
            at_before, by, new = came[at]
            source = new if new is not None else source
            steps += [Step(by, at[1])] if by != NEXT_RUN or at_before[1] != NOT_YET else []
            at = at_before
        lead: list[int] = []
        while (by := came[at][1]) >= 0:
            lead.append(by)
            at = came[at][0]
        assert source is not None
        steps.reverse()
        held = steps[-2].cell if len(steps) > 1 else ""
        sent = next(
            one for one in self._on(steps[-1].route).sent
            if aim(one) and (held in one.of or any(_wanted(one.of, wanted)))
        )  # fmt: skip
        return Way(tuple(reversed(lead)), source, tuple(steps), sent)

    def _cost(self, number: int) -> int:
        """Routes of an ordinary run are near, those of failures and stops far."""
        route = self.routes.routes[number]
        odd = route.kind in FROM_OUTSIDE or route.kind in ("raised", "stop")
        return 1 + 1_000 * odd + 100 * (route.outcome in ("failed", "late"))


def _wanted(of: Origins, wanted: Wanted) -> list[Source]:
    return sorted((o for o in of if isinstance(o, Source) and wanted(o)), key=str)
