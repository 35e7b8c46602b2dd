"""Children: their highest limits, and their bounds with these.

Of each budget that both machines name, a child gets what its parent has left. It can spend no more
than that, plus its overshoot past its own limit; see `machine.child_budget`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from chartloop.analysis.proofs.bound.bound import Figure
from chartloop.analysis.proofs.bound.budgets import Family
from chartloop.analysis.proofs.bound.costs import RESOURCES, UNIT, Child, Handed, Spending
from chartloop.analysis.proofs.bound.linear_program import Number
from chartloop.core.facts import Facts
from chartloop.language.expression import Expression
from chartloop.language.intervals.evaluate import judge
from chartloop.language.intervals.interval import INF, number
from chartloop.language.spec import Given
from chartloop.machine.abstract.counters import UNKNOWN
from chartloop.machine.abstract.thresholds import World
from chartloop.machine.build import Chart
from chartloop.machine.child_budget import OWN, budgets_of


class Proving(Protocol):
    """A machine under proof, as its parent or child sees it."""

    chart: Chart
    limits: dict[str, Any]
    world: World
    spending: Spending

    @property
    def families(self) -> Sequence[Family]:
        """The budgets of the machine."""
        ...

    def past_of(self, family: Family, resource: str) -> Number | None:
        """The most by which a run exceeds a budget."""
        ...

    def once_and_after(self, resource: str) -> tuple[float, float]:
        """The most that one action uses, and everything after a stop."""
        ...


Make = Callable[[Chart, Mapping[str, Any], Mapping[str, Any], str, frozenset[str]], Any]
"""Make a proof from a chart, limits, variables, a start state, and limits that may be lower."""


class Children:
    """The children of one machine under proof. Each is proven once for each set of arguments."""

    figure: Callable[[Any, str], Figure]
    """The function that bounds a resource of a proof; `prove` sets it."""

    def __init__(self, parent: Proving, make: Make) -> None:
        self.parent = parent
        self.make = make
        self.reports: dict[str, dict[str, Any]] = {}
        """The limits and figures of each child, for `Bound.children`."""
        self._known: dict[str, tuple[Any, Child]] = {}

    def child(self, name: str, given: Mapping[str, Given], among: int) -> Child:
        """Bound the child of that name with these fields, one of `among` that run at once."""
        chart = self.parent.chart.child(name)
        limits, vars = self._limits(chart, given, among), _variables(given)
        start = str(given["start"].value) if "start" in given else ""
        key = repr([name, sorted(limits.items(), key=str), sorted(vars.items(), key=str), start])
        if key not in self._known:
            own: Mapping[str, Given] = given["limits"].value if "limits" in given else {}
            computed = {n for n, value in own.items() if isinstance(value.value, Expression)}
            lowered = frozenset(budgets_of(self.parent.chart.spec, chart.spec)) | computed
            proof = self.make(chart, limits, vars, start, lowered)
            self._known[key] = (proof, self._prove(proof, name))
        proof, child = self._known[key]
        return child._replace(handed=self._handed_budgets(proof, chart, limits))

    @property
    def proofs(self) -> list[Any]:
        """The proofs of the children so far."""
        return [proof for proof, _ in self._known.values()]

    def _prove(self, proof: Any, name: str) -> Child:
        most: dict[str, float] = {}
        why: dict[str, str] = {}
        title = name if name not in self.reports else f"{name} ({len(self.reports) + 1})"
        report = self.reports[title] = {
            "limits": {n: v for n, v in proof.limits.items() if not isinstance(v, tuple)}
        }
        for resource in RESOURCES:
            figure = Children.figure(proof, resource)
            report[figure.resource] = figure.text if figure.value is None else figure.value
            if figure.value is not None:
                most[resource] = figure.value
            elif figure.unit:
                most[resource] = figure.units * UNIT + figure.rest
            else:
                most[resource] = INF
                why[resource] = f"in its child `{name}`: {figure.why}"
        for keyword, assumption in proof.spending.assumed.items():
            more = f" (`{name}`)" if "at most" in assumption else ""
            self.parent.spending.assumed.setdefault(f"{name}.{keyword}", assumption + more)
        return Child(most, {}, why)

    def _limits(self, chart: Chart, given: Mapping[str, Given], among: int) -> dict[str, Any]:
        """The highest limits of a child: what it is given, within what its parent has left."""
        own, parent = chart.spec.limits, self.parent
        chosen: Mapping[str, Given] = given["limits"].value if "limits" in given else {}
        out = {name: self._most(value.value) for name, value in chosen.items()}
        for name, facts in budgets_of(parent.chart.spec, chart.spec).items():
            left = parent.limits.get(name)
            if left is None:
                continue
            if not facts & OWN:
                left = left // among if isinstance(left, int) else left / among
            mine = out.get(name, own[name].value)
            out[name] = left if mine is None else min(mine, left)
        return out

    def _most(self, value: Any) -> Any:
        """The highest value that a limit can be set to; None if it is off or unbounded."""
        if not isinstance(value, Expression):
            return value
        high = number(judge(value.root, self.parent.world.known_facts())).high
        return None if high == INF else high

    def _handed_budgets(
        self, proof: Proving, chart: Chart, limits: Mapping[str, Any]
    ) -> dict[str, Handed]:
        """The budgets whose remainder the child gets."""
        out: dict[str, Handed] = {}
        for name, facts in budgets_of(self.parent.chart.spec, chart.spec).items():
            value = self.parent.limits.get(name)
            counter = next(iter(facts)) if len(facts) == 1 else ""
            if value is None or counter not in RESOURCES or facts & OWN:
                continue
            mine = [f for f in proof.families if f == (counter, limits.get(name))]
            past = proof.past_of(mine[0], counter) if mine else None
            if past is not None:
                once, wrap = proof.once_and_after(counter)
                out[counter] = Handed(float(value), float(max(past, 0)), once, wrap)
        return out


def _variables(given: Mapping[str, Given]) -> dict[str, Any]:
    """The initial variables that the file gives a child; without `task` the task is empty."""
    values: Mapping[str, Given] = given["vars"].value if "vars" in given else {}
    out = {name: _constant(value.value) for name, value in values.items()}
    return out if "task" in given or "machine" not in given else {"run.task": "", **out}


def _constant(value: Any) -> Any:
    if not isinstance(value, Expression):
        return value
    return value.value(Facts()) if value.constant else UNKNOWN
