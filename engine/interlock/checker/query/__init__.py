"""Questions about the ways of a machine: which a run can take, and which it never takes.

    asked     what is asked: a small form, read against the names of a machine
    answers   the answer, with a run that shows it

Asked of the graph of `checker.paths`, which has every way that the engine can take: what never
happens there never happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.checker.paths.counting import Counting
from interlock.checker.paths.places import TooLarge
from interlock.checker.paths.routes import Routes
from interlock.checker.paths.turning import World
from interlock.checker.query.answers import OUTSIDE, Answer, answer
from interlock.checker.query.asked import Atom, Query, QueryFault, read
from interlock.machine.build import Chart

__all__ = ["OUTSIDE", "Answer", "Atom", "Query", "QueryFault", "Questions", "read"]


class Questions:
    """A machine that is asked: its graph is made once. `limits`: only for runs with these."""

    def __init__(self, chart: Chart, limits: Mapping[str, Any] | None = None) -> None:
        self.chart = chart
        world = World(limits or {}, frozenset(), {})
        self.unknown = ""
        self.routes: Routes | None = None
        try:
            self.routes = Routes(chart, world, Counting(chart.spec))
        except TooLarge as error:
            self.unknown = str(error)

    def ask(self, text: str, *, cancels: bool = True) -> Answer:
        """The answer. `QueryFault` for what is no query of this machine.

        `cancels`: a stop from outside may come at any moment.
        """
        query = read(text, self.chart)
        if self.routes is None:
            return Answer(query.text, None, self.unknown)
        return answer(query, self.routes, cancels=cancels)
