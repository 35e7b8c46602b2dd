"""The results of a simulation: shares of reasons, and figures next to their proven bounds.

Plain data with its tables; JSON one way. Nothing here simulates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from chartloop.analysis.proofs.bound import Bound
from chartloop.core.reports import Group, Part, Report, Table
from chartloop.core.text_table import Cell, Line, Row
from chartloop.core.units import say_count
from chartloop.run.dataframe import frame
from chartloop.studies.simulation import simulation_plots as plots
from chartloop.studies.simulation.assumptions import Assumption
from chartloop.studies.simulation.figure_names import NAMES, say
from chartloop.studies.simulation.limits import Suggestion
from chartloop.studies.simulation.play import UNFINISHED
from chartloop.studies.simulation.sample import Sample
from chartloop.studies.simulation.statistics import Share, Spread, share, spread

FIGURES = ("actions", "requests", "tool_calls", "tokens", "usd", "elapsed", "waiting")
"""The figures of each run, in the order of the tables."""
BOUNDED = frozenset({"actions", "requests", "tool_calls", "tokens", "usd", "waiting"})
"""The figures for which a bound has a figure of the same name."""
CELLS = 24
"""Width of the bar of a share, in characters."""
_EXCEEDED = 5
"""How many runs past the bound are listed."""
_COLOURS = {"natural": "green", "limit": "yellow", "error": "red", "human": "cyan"}
_TINY = 1e-9
"""Relative tolerance for sums that were added in another order."""


@dataclass(frozen=True, repr=False, eq=False)
class Simulation(Report):
    """The results of thousands of runs, on a simulated clock and in an assumed world.

    `reasons` are the shares of the stop reasons, `spread("tokens")` is the distribution of a
    quantity. `str()` is its table; a notebook shows it as tables, too.
    """

    machine: str
    hash: str
    sample: Sample
    seed: int
    bound: Bound
    assumptions: tuple[Assumption, ...] = ()
    learnt: str = ""
    """From how many runs the world was learnt, in words; empty if it was not learnt."""
    thin: Mapping[str, int] = field(default_factory=dict[str, int])
    """The states of a learnt world with few samples, each with their number."""
    suggestions: tuple[Suggestion, ...] = ()
    at_most: float | None = None
    unplayed: tuple[str, ...] = ()
    """States that run child machines, which are not simulated: each spends what the world says,
    and neither its own limits nor the remaining tokens, calls and cost cut it short."""

    @property
    def runs(self) -> int:
        """How many runs were simulated."""
        return len(self.sample.runs)

    @property
    def steps(self) -> int:
        """How many steps all runs took together."""
        return self.sample.steps

    @cached_property
    def reasons(self) -> dict[str, Share]:
        """The share of each stop reason, the most frequent first."""
        counts = Counter(run.reason for run in self.sample.runs)
        return {reason: share(count, self.runs) for reason, count in counts.most_common()}

    @property
    def unfinished_runs(self) -> int:
        """How many runs were abandoned after their `longest` step."""
        unfinished = self.reasons.get(UNFINISHED)
        return 0 if unfinished is None else unfinished.count

    @cached_property
    def kinds(self) -> dict[str, Share]:
        """The share of each kind: `natural`, `human`, `limit`, `error`, `waiting`, `unfinished`."""
        counts = Counter(run.kind for run in self.sample.runs)
        return {kind: share(count, self.runs) for kind, count in counts.most_common()}

    @cached_property
    def figures(self) -> dict[str, Spread]:
        """The distribution of each quantity over the runs; `usd` only if prices are known."""
        out: dict[str, Spread] = {}
        for name in FIGURES:
            if (distribution := spread(self._values(name))) is not None:
                out[name] = distribution
        return out

    def spread(self, name: str) -> Spread:
        """The distribution of one quantity. `KeyError` for an unknown name."""
        return self.figures[name]

    @cached_property
    def paths(self) -> dict[str, int]:
        """How often each edge and rule was taken, in all runs together."""
        return {id: n for id, n in Counter(self.sample.taken).most_common() if n}

    @cached_property
    def bound_violations(self) -> tuple[str, ...]:
        """The runs that exceeded the proven bound; any of them shows that bound or world is wrong.

        A world is wrong, for example, if a child spends more in it than its machine could.
        """
        out: list[str] = []
        names = ", ".join(f"`{name}`" for name in self.unplayed)
        but = f"; the children of {names} are not played, and no limit held them" if names else ""
        for name in FIGURES:
            most = self.most(name)
            if most is None:
                continue
            for run in self.sample.runs:
                value = getattr(run, name)
                if value is not None and value > most * (1 + _TINY) + _TINY:
                    text = f"{NAMES[name]} {say(name, value)}, and the bound is {say(name, most)}"
                    out.append(f"run {run.number}: {text}{but}")
        return tuple(out)

    def most(self, name: str) -> float | None:
        """The proven bound of a quantity; None if there is none."""
        figure = self.bound.figures.get(name) if name in BOUNDED else None
        return None if figure is None else figure.value

    # as data ------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """A dict for each run; `frame` has the same as a pandas frame."""
        out: list[dict[str, Any]] = []
        for run in self.sample.runs:
            row = run._asdict()
            del row["most"]
            out.append(row)
        return out

    def frame(self) -> Any:
        """A pandas frame with a row for each run, indexed by its number."""
        return frame(self.rows(), "number")

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what `chartloop simulate --format json` prints."""
        return {
            "machine": self.machine, "hash": self.hash, "runs": self.runs, "seed": self.seed,
            "steps": self.steps, "learnt": self.learnt or None, "thin": dict(self.thin),
            "reasons": {n: _share(s) for n, s in self.reasons.items()},
            "kinds": {n: _share(s) for n, s in self.kinds.items()},
            "figures": {
                n: {**s.to_dict(), "bound": self.most(n)} for n, s in self.figures.items()
            },
            "exceeded": list(self.bound_violations), "unplayed": list(self.unplayed),
            "visits": dict(self.sample.visits), "taken": self.paths,
            "suggestions": [s.to_dict() for s in self.suggestions],
            "assumptions": [{"text": a.text, "states": list(a.states)} for a in self.assumptions],
        }  # fmt: skip

    # as plots -----------------------------------------------------------------------------------

    def plot(self, path: str | Path | None = None) -> Any:
        """Plot why runs stop, and the distributions of their calls, cost and time.

        Without a path, returns a matplotlib figure, which a notebook shows. With one, returns the
        files that it wrote: a ``.svg`` or ``.png`` with all plots on one page; any other path is a
        folder with a file for each plot. Needs the extra `plots`.
        """
        kinds = {run.reason: run.kind for run in self.sample.runs}
        data = plots.PlotData(
            f"{self.machine}, {say_count(self.runs, 'simulated run')}, seed {self.seed}",
            [(reason, kinds[reason], s.count) for reason, s in self.reasons.items()],
            {name: self._values(name) for name in self.figures},
            {name: self.most(name) for name in self.figures},
        )  # fmt: skip
        return plots.figure(data) if path is None else plots.save(data, Path(path))

    def _values(self, name: str) -> list[float]:
        """The values of a quantity, without unknown ones."""
        values = (getattr(run, name) for run in self.sample.runs)
        return [value for value in values if value is not None]

    # as text ------------------------------------------------------------------------------------

    def head(self) -> str:
        """The heading line."""
        return f"{self.machine}, {self.runs:,} simulated runs, seed {self.seed}"

    def unplayed_note(self) -> str:
        """A line on the children that are not simulated; empty if there are none."""
        if not self.unplayed:
            return ""
        return (
            f"not played: the child machines of {', '.join(self.unplayed)}; each spends, takes and "
            "returns what the world says, and no limit cuts it short but the time that is left"
        )

    def parts(self) -> Iterator[Part]:
        """Reasons, figures next to their bounds, suggestions and assumptions."""
        yield Line(self.head(), "bold")
        if self.learnt:
            yield Line(self.learnt)
        yield Line("")
        kinds = {run.reason: run.kind for run in self.sample.runs}
        reasons = [
            Row(
                (Cell(reason, "code"), bar(s.value), f"{s.value:.2%}",
                 f"{s.low:.2%} to {s.high:.2%}"),
                _COLOURS.get(kinds[reason], ""),
            )
            for reason, s in self.reasons.items()
        ]  # fmt: skip
        yield Table(reasons, ("stops with", "", "share", "95% confidence"), {2})
        yield Line("")
        figures = [
            Row((
                NAMES[n], *(say(n, v) for v in (s.mean, s.median, s.p95, s.most)),
                "" if (most := self.most(n)) is None else say(n, most),
            ))
            for n, s in self.figures.items()
        ]  # fmt: skip
        head = ("", "mean", "median", "p95", "max", "proven bound")
        yield from (Table(figures, head, range(1, 6)), Line(""))
        yield from self._exceeded()
        if unplayed := self.unplayed_note():
            yield Line(unplayed, "yellow")
        if self.suggestions:
            natural = max((s.stops.of for s in self.suggestions if s.stops is not None), default=0)
            each = (
                f"for each limit: of up to {natural:,} runs that end by themselves when it is off"
            )
            rows = [
                Row(
                    (s.limit, s.text(s.now), *_suggestion_cells(s)),
                    "dim" if s.suggested is None else "",
                )
                for s in self.suggestions
            ]
            head = ("limit", "now", "enough", "would stop", "saves a run", "proves")
            table = Table(rows, head, {1, 2, 3}, spare=(5, 4))
            yield Line("")
            yield Group("what would be enough, in this world", [Line(each, "dim"), table])
        yield Line("")
        world = [Line(f"  {one}") for one in self.assumptions]
        world += [
            Line(f"  {name}: learnt from {count} samples only", "yellow")
            for name, count in self.thin.items()
        ]
        yield Group(Line("in a world where"), world, folded=f"{len(self.assumptions)} assumptions")

    def _exceeded(self) -> Iterator[Line]:
        """The first runs that exceeded the bound, and how to find the cause."""
        listed = self.bound_violations[:_EXCEEDED]
        yield from (Line(f"past the bound: {one}", "red") for one in listed)
        if more := len(self.bound_violations) - len(listed):
            yield Line(f"and {more:,} more", "red")
        if listed:
            yield Line(
                "the world gives what the bound takes for impossible: `chartloop bound` lists that"
            )

    def __repr__(self) -> str:
        top = next(iter(self.reasons), "nothing")
        return f"<Simulation of {self.machine}: {self.runs:,} runs, mostly {top}>"


def _share(share: Share) -> dict[str, Any]:
    return {"count": share.count, "share": share.value, "low": share.low, "high": share.high}


def _suggestion_cells(suggestion: Suggestion) -> tuple[str, str, str, str]:
    """Cells of the suggested limit, the share that it stops, its mean savings and lower bounds."""
    if suggestion.stops is None:
        return "", "", "", suggestion.because
    saves = [
        f"{'' if v > 0 else '−'}{say(n, abs(v))} {NAMES[n]}"
        for n, v in suggestion.saves.items()
        if n in ("requests", "tokens") and abs(v) >= 0.05
    ]
    proves = [
        f"{NAMES[n].removeprefix('of it ')} ≤ {say(n, value)}"
        for n, value in suggestion.bound.items()
        if value is not None and value != suggestion.before.get(n)
    ]
    stops = f"{suggestion.stops.value:.2%}"
    return suggestion.text(suggestion.suggested), stops, ", ".join(saves), ", ".join(proves)


def bar(share: float) -> str:
    """A share as a bar of `CELLS` cells; any share above 0 shows at least one eighth."""
    eighths = max(round(share * CELLS * 8), 1 if share > 0 else 0)
    whole, rest = divmod(eighths, 8)
    return f"{'█' * whole}{'▏▎▍▌▋▊▉'[rest - 1] if rest else ''}"
