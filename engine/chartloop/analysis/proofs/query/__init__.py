"""Queries about the paths of a machine: which a run can take, and which it never takes.

    query_text        parses a query against the names of a machine
    query_answer      the answer, with a run as its witness
    each_call         the answer about each call of a tool and the answer that accepted it
    flow_answer       the answer about data: which labels can reach which tools
    data_flow         where data goes on all paths, and a way that shows it
    data_movements    what one route does with data
    events            what happens on each route
    open_tool_calls   the tools that may have an open call at a point of a path

They search the graph of `machine.abstract`, which has every path that the engine can take: what
never happens there never happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from heapq import heappop, heappush
from typing import Any

from chartloop.analysis.proofs.query.data_flow import DataFlow
from chartloop.analysis.proofs.query.data_movements import Origins, Passed, given_cells
from chartloop.analysis.proofs.query.each_call import answer_each
from chartloop.analysis.proofs.query.flow_answer import answer_flow, ways_out
from chartloop.analysis.proofs.query.query_answer import OUTSIDE, Answer, answer
from chartloop.analysis.proofs.query.query_text import Atom, Query, QueryFault, read
from chartloop.core.approvals import ACCEPT
from chartloop.core.cells import Cell
from chartloop.core.specs import LABELS
from chartloop.language.intervals.interval import INF
from chartloop.machine.abstract.counters import Counting
from chartloop.machine.abstract.graph import Routes
from chartloop.machine.abstract.position import TooLarge
from chartloop.machine.abstract.thresholds import World
from chartloop.machine.build import Chart

__all__ = ["EFFORT", "OUTSIDE", "Answer", "Atom", "Query", "QueryFault", "Questions", "read"]


EFFORT = 10_000_000
"""The most events that one search looks at: some seconds."""
STEPS = "run.steps"
_DONE = frozenset({"ok", "failed", "late"})
"""The outcomes of a completed action, which is counted before the next edge is chosen."""


class Questions:
    """Queries of one machine, whose graph is built once. `limits`: only for runs with these.

    `effort`: the most events that a search may look at; an answer that needs more is unknown.
    `starts`: the states besides its own start at which a parent starts it.
    """

    def __init__(
        self, chart: Chart, limits: Mapping[str, Any] | None = None, effort: int = EFFORT,
        starts: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.chart = chart
        self._effort = effort
        counting = Counting(chart.spec)
        counters = counting.counters & {STEPS} if limits else frozenset[str]()
        self.unknown = ""
        self.routes: Routes | None = None
        self._open: frozenset[int] | None = None
        self._flows: dict[tuple[str, str, bool], DataFlow] = {}
        self._passed: dict[str, Passed] = {}
        try:
            self.routes = Routes(chart, World(limits or {}, counters, {}), counting, starts=starts)
            if counters:
                self._open = _open_routes(self.routes)
        except TooLarge as error:
            self.unknown = str(error)

    def ask(self, text: str, *, cancels: bool = True) -> Answer:
        """Answer a query. Raises `QueryFault` if it is not a query of this machine.

        `cancels`: a stop from outside may come at any moment.
        """
        return self.answer(read(text, self.chart), cancels=cancels)

    def answer(self, query: Query, *, cancels: bool = True) -> Answer:
        """Answer a query that was read. See `ask`."""
        if self.routes is None:
            return Answer(query.text, None, self.unknown)
        search = partial(
            answer, routes=self.routes, cancels=cancels, open_=self._open, effort=self._effort
        )
        try:
            if query.form == "no flow":
                label = query.a.name if query.a.sort == "label" else ""
                flow = self.flow(query.unless, label, one_run=query.one_run)
                return answer_flow(query, flow, approved=self._accepted)
            if query.form != "each":
                return search(query)
            below = {n: q.answer(query, cancels=cancels) for n, q in self._children.items()}
            return answer_each(query, self.chart.spec, search, below)
        except TooLarge as error:
            return Answer(query.text, None, str(error))

    def flow(self, cleaned: str = "", label: str = "", *, one_run: bool = False) -> DataFlow:
        """Where data goes. Raises `TooLarge`.

        `cleaned`: a state whose action lets only clean data pass; `label`: the one that is asked
        for, which screens may end; `one_run`: what a run leaves to the next one is not followed.
        """
        key = cleaned, label, one_run
        if key not in self._flows:
            self._flows[key] = self._flow(cleaned, label, None, one_run=one_run)
        return self._flows[key]

    def ways_out(self) -> Mapping[tuple[str, str], str]:
        """How labelled text reaches what may send it out, by label and tool. Raises `TooLarge`."""
        found = {label: ways_out(label, self.flow("", label)) for label in LABELS}
        return {(label, to): way for label, ways in found.items() for to, way in ways.items()}

    def _flow(
        self, cleaned: str, label: str, inputs: Mapping[Cell, Origins] | None, *,
        one_run: bool = False,
    ) -> DataFlow:  # fmt: skip
        if self.routes is None:
            raise TooLarge(self.unknown)
        children = {name: child.passed(label) for name, child in self._children.items()}
        return DataFlow(
            self.chart, self.routes, children, cleaned={cleaned} - {""}, approved=self._approved,
            label=label, inputs=inputs, one_run=one_run,
        )  # fmt: skip

    def passed(self, label: str = "") -> Passed:
        """What comes out of the machine as a child, by the parts of it that its parent fills."""
        if label not in self._passed:
            own = {cell: frozenset({cell}) for cell in given_cells(self.chart.spec)}
            self._passed[label] = self._flow("", label, own, one_run=True).passed
        return self._passed[label]

    @cached_property
    def _approved(self) -> frozenset[str]:
        """The tools each of whose calls a person accepts by itself."""
        approve = self.chart.spec.approve
        tools = () if approve is None else approve.tools
        asked = {t: self.ask(f"each tool:{t} after its own {ACCEPT}", cancels=False) for t in tools}
        return frozenset(tool for tool, found in asked.items() if found)

    @cached_property
    def _accepted(self) -> frozenset[str]:
        """These tools, with those of child machines."""
        return self._approved.union(*(child._accepted for child in self._children.values()))

    @cached_property
    def _children(self) -> Mapping[str, Questions]:
        chart, spec = self.chart, self.chart.spec
        return {
            n: Questions(chart.child(n), effort=self._effort, starts=spec.starts_of(n))
            for n in spec.machines
        }


def _open_routes(routes: Routes) -> frozenset[int]:
    """Return the numbers of the routes that a run may take, judged by its count of actions.

    With given limits, guards over `run.steps` close routes from some number of actions on. One that
    is closed at the least number with which a run can reach it is never taken. Nothing else is
    counted here; several budgets at once are the subject of `proofs.bound`.
    """
    out: dict[int, list[int]] = {}
    for number, route in enumerate(routes.routes):
        out.setdefault(route.source, []).append(number)
    least: dict[int, int] = {}
    reachable: set[int] = set()
    queue = [(0, 0)]
    while queue:
        done, place = heappop(queue)
        if place in least:
            continue
        least[place] = done
        for number in out.get(place, ()):
            route = routes.routes[number]
            state = routes.spec.states.get(route.state)
            acts = state is not None and state.action is not None and route.outcome in _DONE
            after = done + acts
            if after < route.gates.get(STEPS, INF):
                reachable.add(number)
                heappush(queue, (after, route.dest))
    return frozenset(reachable)
