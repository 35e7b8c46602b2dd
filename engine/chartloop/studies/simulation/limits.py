"""Suggestions for limits: the least value that rarely stops a run that would end by itself.

For each limit that a guard compares a fact with, runs are simulated with this limit lifted and the
others as they are; those that end naturally give the greatest values of the fact. The suggestion is
the least limit that at most the given share of them would have reached. A second simulation
measures what it saves, and its bound is proven.

A suggestion is valid only in the simulated world.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chartloop.analysis.proofs.bound import Bound
from chartloop.core.fold import lookup
from chartloop.core.format import say_value
from chartloop.core.plain import plain
from chartloop.core.types import ANY, Type
from chartloop.language.expression import Expression
from chartloop.language.spec import MachineSpec
from chartloop.studies.simulation.dependencies import expressions
from chartloop.studies.simulation.sample import Plan, Progress, Sample, sample_runs
from chartloop.studies.simulation.statistics import Share, share, spread

RUNS = 2_000
"""Runs of each simulation; a limit takes three."""
LIFTED = 10**12
"""The value of a lifted limit: not every limit can be switched off."""
FEWEST = 30
"""Below this many natural ends, nothing is suggested."""


class LimitedFact(NamedTuple):
    """A limit and the fact that a guard compares with it."""

    limit: str
    fact: str
    strict: bool
    """Whether the guard compares with `>` instead of `>=`."""


class Suggestion(NamedTuple):
    """A suggested value for one limit, or the reason why there is none."""

    limit: str
    fact: str
    now: Any
    suggested: Any
    """None if there is no suggestion; `because` gives the reason."""
    because: str
    stops: Share | None = None
    """The share of natural ends that it would stop, of those simulated without the limit."""
    saves: Mapping[str, float] = {}
    """The decrease of each quantity's mean, compared with the current limit."""
    bound: Mapping[str, float | None] = {}
    """The proven bound with the suggested limit."""
    before: Mapping[str, float | None] = {}
    """The proven bound with the current limit."""
    type: Type = ANY

    def text(self, value: Any) -> str:
        """Format a value of the limit with its unit."""
        return "" if value is None else say_value(value, self.type)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        stops = None if self.stops is None else self.stops._asdict()
        data = {n: v for n, v in self._asdict().items() if n not in ("stops", "type")}
        return plain(data) | {"stops": stops}

    def __str__(self) -> str:
        return f"limits.{self.limit}: {self.because}"


def suggestions(
    plan: Plan, *, at_most: float, bound: Callable[[Mapping[str, Any]], Bound],
    progress: Progress | None = None, runs: int = RUNS,
) -> tuple[Suggestion, ...]:  # fmt: skip
    """A suggestion for each limit that a guard compares a fact with."""
    spec = plan.machine.chart.spec
    overrides: Mapping[str, Any] = plan.start.get("limits", {})
    values = {name: overrides.get(name, limit.value) for name, limit in spec.limits.items()}
    out: list[Suggestion] = []
    for one in limits_watched(spec):
        now = values[one.limit]
        if now is None:
            out.append(Suggestion(one.limit, one.fact, None, None, "it is off"))
        elif why := _explain_other_use(spec, one.limit):
            type = spec.limits[one.limit].type
            out.append(Suggestion(one.limit, one.fact, now, None, why, type=type))
        else:
            search = _Search(plan, one, now, spec.limits[one.limit].type, runs, progress)
            out.append(search.suggestion(at_most, bound))
    return tuple(out)


def limits_watched(spec: MachineSpec) -> list[LimitedFact]:
    """The limits that guards compare facts with, each as in its first guard."""
    limits: dict[str, LimitedFact] = {}
    for guard in _guards(spec):
        for bound in guard.bounds:
            root, _, name = bound.bound_text.partition(".")
            if root == "limits" and name in spec.limits:
                limits.setdefault(name, LimitedFact(name, bound.fact, bound.strict))
    return list(limits.values())


def _guards(spec: MachineSpec) -> Iterator[Expression]:
    """The guards that may end a run, which those of detours cannot."""
    yield from (rule.when for rule in spec.rules if rule.kind != "detour")
    yield from (edge.when for edge in spec.edges() if edge.when is not None)


def _explain_other_use(spec: MachineSpec, limit: str) -> str:
    """Why a limit cannot be lifted: it is read other than as a bound; empty if it can."""
    for part in expressions(spec):
        if f"limits.{limit}" not in part.reads:
            continue
        bounds = isinstance(part, Expression) and part.bounds
        if not bounds or all(b.bound_text != f"limits.{limit}" for b in bounds):
            return f"`{part.text}` reads it differently"
    return ""


class _Search:
    """The search for one limit's value."""

    def __init__(  # noqa: PLR0917  the inputs of one search
        self,
        plan: Plan,
        one: LimitedFact,
        now: Any,
        type: Type,
        runs: int,
        progress: Progress | None,
    ) -> None:
        self.plan, self.one, self.now, self.type = plan, one, now, type
        self.runs, self.progress = runs, progress

    def suggestion(self, at_most: float, bound: Callable[[Mapping[str, Any]], Bound]) -> Suggestion:
        """Simulate without the limit, then with the suggested value."""
        limit, fact = self.one.limit, self.one.fact
        lifted = self._with(LIFTED)
        reached = sorted(
            run.most[0] for run in lifted.runs if run.kind == "natural" and run.most[0] is not None
        )
        if len(reached) < FEWEST:
            why = f"only {len(reached)} of {self.runs:,} runs without it ended by themselves"
            return Suggestion(limit, fact, self.now, None, why, type=self.type)
        if reached[-1] <= 0:
            why = "no run that ends by itself comes above 0"
            return Suggestion(limit, fact, self.now, None, why, type=self.type)
        value = self.least(reached, at_most)
        suggested, present = self._with(value), self._with(self.now)
        stops = share(sum(1 for most in reached if self._stops(most, value)), len(reached))
        before, after = _figures(bound({})), _figures(bound({limit: value}))
        because, saves = self._because(value, stops), _mean_savings(present, suggested)
        return Suggestion(
            limit, fact, self.now, value, because, stops, saves, after, before, self.type
        )

    def _because(self, value: Any, stops: Share) -> str:
        text = say_value(value, self.type)
        return (
            f"{text} instead of {say_value(self.now, self.type)} stops {stops.value:.2%} of the "
            f"{stops.of:,} runs that end by themselves without it"
        )

    def least(self, reached: Sequence[float], at_most: float) -> float:
        """The least limit that at most the share `at_most` of these values reaches."""
        highest = reached[len(reached) - 1 - math.floor(at_most * len(reached))]
        if self.one.strict:
            return highest
        if isinstance(self.now, int):
            above = math.floor(highest) + 1
            return above if above < 100 else math.ceil(rounded_up(highest))
        return rounded_up(highest)

    def _stops(self, most: float, limit: float) -> bool:
        return most > limit if self.one.strict else most >= limit

    def _with(self, value: Any) -> Sample:
        start = self.plan.start
        limits = {**start.get("limits", {}), self.one.limit: value}
        plan = replace(self.plan, start={**start, "limits": limits})
        fact = self.one.fact
        return sample_runs(plan, self.runs, [(fact, lambda f: lookup(f, fact))], self.progress)


def rounded_up(value: float) -> float:
    """The next greater number of two digits: 0.22 for 0.213, 0.01 for 0, 48 for 47.3."""
    if value <= 0:
        return 0.01
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    up = (math.floor(value / unit + 1e-9) + 1) * unit
    return float(f"{up:.12g}")


def _mean_savings(now: Sample, then: Sample) -> dict[str, float]:
    """The decrease of each mean. With the same seed, runs differ only where the limit decides."""
    out: dict[str, float] = {}
    for name in ("actions", "requests", "tool_calls", "tokens", "usd", "elapsed"):
        before, after = (spread(_values(sample, name)) for sample in (now, then))
        if before is not None and after is not None:
            out[name] = before.mean - after.mean
    return out


def _values(sample: Sample, name: str) -> list[float]:
    return [value for run in sample.runs if (value := getattr(run, name)) is not None]


def _figures(bound: Bound) -> dict[str, float | None]:
    return {name: figure.value for name, figure in bound.figures.items()}
