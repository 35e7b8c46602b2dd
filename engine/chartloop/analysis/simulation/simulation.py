"""What came of a simulation: shares, and figures against their bound.

Plain data, JSON one way; nothing here simulates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from chartloop.analysis.simulation import simulation_plots as plots
from chartloop.analysis.simulation.assumptions import Assumption
from chartloop.analysis.simulation.figure_names import NAMES, say
from chartloop.analysis.simulation.limits import Suggestion
from chartloop.analysis.simulation.play import UNFINISHED
from chartloop.analysis.simulation.sample import Sample
from chartloop.analysis.simulation.statistics import Share, Spread, share, spread
from chartloop.core.html_table import Cell, bundle, details_element, line, table
from chartloop.core.text_table import Line, Row, lay_out, text_of
from chartloop.core.units import say_count
from chartloop.proofs.bound import Bound
from chartloop.run.dataframe import frame

FIGURES = ("actions", "requests", "tool_calls", "tokens", "usd", "elapsed", "waiting")
"""What is counted of each run, in the order in which it is shown."""
BOUNDED = frozenset({"actions", "requests", "tool_calls", "tokens", "usd", "waiting"})
"""Those that a bound has a figure for, under the same name."""
CELLS = 24
"""Of the bar of a share."""
_EXCEEDED = 5
"""Runs past the bound that are listed."""
_COLOURS = {"natural": "green", "limit": "yellow", "error": "red", "human": "cyan"}
_TINY = 1e-9
"""Relative: sums in another order differ so much."""


@dataclass(frozen=True, repr=False, eq=False)
class Simulation:
    """The results of thousands of runs, on a simulated clock and in an assumed world.

    `reasons` are the shares of stop reasons, `spread("tokens")` how a quantity is spread. It
    shows itself; `str()` is its table.
    """

    machine: str
    hash: str
    sample: Sample
    seed: int
    bound: Bound
    assumptions: tuple[Assumption, ...] = ()
    learnt: str = ""
    """From how many runs its world was learnt, in words; empty for one that was not."""
    thin: Mapping[str, int] = field(default_factory=dict[str, int])
    """States of a learnt world with few samples, and how many."""
    suggestions: tuple[Suggestion, ...] = ()
    at_most: float | None = None
    unplayed: tuple[str, ...] = ()
    """States that run child machines. These are not played: they spend what the world says, and
    neither their own limits nor the tokens, calls and cost that are left hold them back."""

    @property
    def runs(self) -> int:
        """How many runs were simulated."""
        return len(self.sample.runs)

    @property
    def steps(self) -> int:
        """How many steps these took together."""
        return self.sample.steps

    @cached_property
    def reasons(self) -> dict[str, Share]:
        """How often each stop reason came, the most frequent first."""
        found = Counter(run.reason for run in self.sample.runs)
        return {reason: share(count, self.runs) for reason, count in found.most_common()}

    @property
    def unfinished_runs(self) -> int:
        """Runs that were left after their `longest` step."""
        found = self.reasons.get(UNFINISHED)
        return 0 if found is None else found.count

    @cached_property
    def kinds(self) -> dict[str, Share]:
        """The same by kind: `natural`, `human`, `limit`, `error`, `waiting`, `unfinished`."""
        found = Counter(run.kind for run in self.sample.runs)
        return {kind: share(count, self.runs) for kind, count in found.most_common()}

    @cached_property
    def figures(self) -> dict[str, Spread]:
        """How each quantity is spread over the runs; without `usd` where no price is known."""
        out: dict[str, Spread] = {}
        for name in FIGURES:
            if (found := spread(self._values(name))) is not None:
                out[name] = found
        return out

    def spread(self, name: str) -> Spread:
        """How one quantity is spread. `KeyError` for one that no one knows."""
        return self.figures[name]

    @cached_property
    def paths(self) -> dict[str, int]:
        """How often each edge and rule was taken, in all runs together."""
        return {id: n for id, n in Counter(self.sample.taken).most_common() if n}

    @cached_property
    def bound_violations(self) -> tuple[str, ...]:
        """Runs that went past the proven bound. There are none, or bound or world are wrong.

        A world is, where it lets a child that is not played spend more than it could.
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
        """The proven bound of a quantity; None where there is none."""
        figure = self.bound.figures.get(name) if name in BOUNDED else None
        return None if figure is None else figure.value

    # as data ------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """A mapping for each run; `frame` gives them as pandas."""
        out: list[dict[str, Any]] = []
        for run in self.sample.runs:
            row = run._asdict()
            del row["most"]
            out.append(row)
        return out

    def frame(self) -> Any:
        """A pandas frame with a row for each run, its number as index."""
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
            "assumptions": [{"said": a.said, "states": list(a.states)} for a in self.assumptions],
        }  # fmt: skip

    # as plots -----------------------------------------------------------------------------------

    def plot(self, path: str | Path | None = None) -> Any:
        """Why runs stop, and how their calls, cost and time are spread: a figure, or files.

        Without a path a figure of matplotlib, which a notebook shows. A ``.svg`` or ``.png`` is
        written with all plots on one page; any other path is a folder, in which each gets a file
        of its own. Needs the extra `plots`. Gives the figure, or the files that were written.
        """
        kinds = {run.reason: run.kind for run in self.sample.runs}
        drawn = plots.Drawn(
            f"{self.machine}, {say_count(self.runs, 'simulated run')}, seed {self.seed}",
            [(reason, kinds[reason], s.count) for reason, s in self.reasons.items()],
            {name: self._values(name) for name in self.figures},
            {name: self.most(name) for name in self.figures},
        )  # fmt: skip
        return plots.figure(drawn) if path is None else plots.save(drawn, Path(path))

    def _values(self, name: str) -> list[float]:
        """A quantity of every run of which it is known."""
        found = (getattr(run, name) for run in self.sample.runs)
        return [value for value in found if value is not None]

    # as text ------------------------------------------------------------------------------------

    def head(self) -> str:
        """The simulation in a line."""
        return f"{self.machine}, {self.runs:,} simulated runs, seed {self.seed}"

    def unplayed_said(self) -> str:
        """Which children are not played, and what that means, in a line; empty where all are."""
        if not self.unplayed:
            return ""
        return (
            f"not played: the child machines of {', '.join(self.unplayed)}; each spends, takes and "
            "returns what the world says, and no limit cuts it short but the time that is left"
        )

    def lines(self, width: int = 100) -> list[Line]:
        """Reasons, figures, suggestions and assumptions as tables, each line with its colour."""
        return [*_lines(self, width)]

    def __str__(self) -> str:
        return text_of(self.lines())

    def __repr__(self) -> str:
        top = next(iter(self.reasons), "nothing")
        return f"<Simulation of {self.machine}: {self.runs:,} runs, mostly {top}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What a notebook shows: reasons, figures against their bound, what was assumed."""
        reasons = [
            (Cell(n, "code"), f"{s.value:.2%}", Cell(f"{s.low:.2%} to {s.high:.2%}", "dim"))
            for n, s in self.reasons.items()
        ]
        figures = [
            (
                NAMES[n], *(say(n, v) for v in (s.mean, s.median, s.p95, s.most)),
                "" if (most := self.most(n)) is None else say(n, most),
            )
            for n, s in self.figures.items()
        ]  # fmt: skip
        parts = [
            line(self.head()),
            table(reasons, head=("reason", "share", "95% confidence"), right=(1,)),
            table(
                figures, head=("", "mean", "median", "p95", "max", "proven bound"),
                right=(1, 2, 3, 4, 5),
            ),
        ]  # fmt: skip
        parts += [line(said)] if (said := self.unplayed_said()) else []
        if self.suggestions:
            rows = [
                (s.limit, s.text(s.now), s.text(s.suggested), s.because) for s in self.suggestions
            ]
            parts.append(table(rows, head=("limit", "now", "enough", ""), right=(1, 2)))
        said = [(a.said, ", ".join(a.states)) for a in self.assumptions]
        if said:
            parts.append(details_element(f"{len(said)} assumptions", table(said)))
        return bundle("".join(parts), str(self))


def _share(found: Share) -> dict[str, Any]:
    return {"count": found.count, "share": found.value, "low": found.low, "high": found.high}


# as tables ----------------------------------------------------------------------------------


def _lines(found: Simulation, width: int) -> Iterator[Line]:
    yield Line(found.head(), "bold")
    if found.learnt:
        yield Line(found.learnt)
    yield Line("")
    kinds = {run.reason: run.kind for run in found.sample.runs}
    reasons = [
        Row(
            (reason, bar(s.value), f"{s.value:.2%}", f"{s.low:.2%} to {s.high:.2%}"),
            _COLOURS.get(kinds[reason], ""),
        )
        for reason, s in found.reasons.items()
    ]
    head = Row(("stops with", "", "share", "95% confidence"), "dim")
    yield from lay_out([head, *reasons] if reasons else [], width=width, right={2})
    yield Line("")
    figures = [
        Row((
            NAMES[n], *(say(n, v) for v in (s.mean, s.median, s.p95, s.most)),
            "" if (most := found.most(n)) is None else say(n, most),
        ))
        for n, s in found.figures.items()
    ]  # fmt: skip
    head = Row(("", "mean", "median", "p95", "max", "proven bound"), "dim")
    yield from lay_out([head, *figures] if figures else [], width=width, right={1, 2, 3, 4, 5})
    yield Line("")
    yield from _exceeded_lines(found)
    if unplayed := found.unplayed_said():
        yield Line(unplayed, "yellow")
    if found.suggestions:
        yield Line("")
        yield from _suggestion_lines(found.suggestions, width)
    yield Line("")
    yield Line("in a world where")
    yield from (Line(f"  {one}") for one in found.assumptions)
    for name, count in found.thin.items():
        yield Line(f"  {name}: learnt from {count} samples only", "yellow")


def _exceeded_lines(found: Simulation) -> Iterator[Line]:
    """Runs that went past the bound: the first of them, and what that means."""
    shown = found.bound_violations[:_EXCEEDED]
    yield from (Line(f"past the bound: {one}", "red") for one in shown)
    if more := len(found.bound_violations) - len(shown):
        yield Line(f"and {more:,} more", "red")
    if shown:
        yield Line(
            "the world gives what the bound takes for impossible: `chartloop bound` lists that"
        )


def _suggestion_lines(suggestions: tuple[Suggestion, ...], width: int) -> Iterator[Line]:
    asked = max((s.stops.of for s in suggestions if s.stops is not None), default=0)
    yield Line("what would be enough, in this world", "bold")
    each = f"for each limit: of up to {asked:,} runs that end by themselves when it is off"
    yield Line(each, "dim")
    rows = [
        Row((s.limit, s.text(s.now), *_suggestion_cells(s)), "dim" if s.suggested is None else "")
        for s in suggestions
    ]
    head = Row(("limit", "now", "enough", "would stop", "saves a run", "proves"), "dim")
    yield from lay_out([head, *rows], width=width, right={1, 2, 3}, spare=(5, 4))


def _suggestion_cells(suggestion: Suggestion) -> tuple[str, str, str, str]:
    """The limit that is enough, what it stops, what it saves on average and proves lower."""
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
    """A share as a bar of `CELLS` cells; what happened at all shows at least one eighth."""
    eighths = max(round(share * CELLS * 8), 1 if share > 0 else 0)
    whole, rest = divmod(eighths, 8)
    return f"{'█' * whole}{'▏▎▍▌▋▊▉'[rest - 1] if rest else ''}"
