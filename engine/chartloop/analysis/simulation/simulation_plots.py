"""The plots of a simulation: why its runs stop, and how their calls, cost and time are spread.

Belongs here: what is drawn. Never: pages, files and kinds of plots (`view.plots`), and a figure
that the tables do not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from chartloop.analysis.simulation.figure_names import UNITS, say
from chartloop.view import plots
from chartloop.view.plots import Plot

_TITLES = {
    "requests": "How many requests runs send", "tool_calls": "How many tool calls runs make",
    "usd": "What runs cost", "tokens": "What runs cost", "elapsed": "How long runs take",
}  # fmt: skip


class Drawn(NamedTuple):
    """What is drawn."""

    title: str
    reasons: Sequence[tuple[str, str, int]]
    """Each with its kind and how many runs stopped for it, the most frequent first."""
    values: Mapping[str, Sequence[float]]
    """By quantity, as in `Simulated`: what each run came to."""
    most: Mapping[str, float | None]
    """The proven bound of each."""


def figure(drawn: Drawn) -> Any:
    """All plots on one page, as a figure of matplotlib."""
    return plots.figure(drawn.title, _plots(drawn))


def save(drawn: Drawn, path: Path) -> list[Path]:
    """Write them: one page for a ``.svg`` or ``.png``, else a folder with a file for each."""
    return plots.save(drawn.title, _plots(drawn), path)


def _plots(drawn: Drawn) -> list[Plot]:
    """The plots that have something to show, by the names of their files."""
    values = drawn.values
    if not values:
        return [plots.NOTHING]
    runs = sum(count for *_, count in drawn.reasons)
    draw_why = partial(plots.reasons, drawn.reasons, _percent, runs)
    calls = "requests" if any(values["requests"]) else "tool_calls"
    cost = "usd" if "usd" in values else "tokens"
    return [
        Plot("reasons", draw_why, plots.height_of(len(drawn.reasons))),
        *(Plot(n, partial(_spread, drawn, n)) for n in (calls, cost, "elapsed") if any(values[n])),
    ]


def _percent(share: float) -> str:
    return f"{share:.2%}"


def _spread(drawn: Drawn, name: str, ax: Any) -> None:
    """How a quantity is spread over the runs, and what it cannot pass."""
    whole = name in ("requests", "tool_calls")
    plots.histogram(ax, drawn.values[name], lambda value: say(name, value), whole=whole)
    ax.set_title(_TITLES[name])
    unit, most = UNITS[name], drawn.most[name]
    ax.set_xlabel(unit if most is None else f"{unit}; proven bound {say(name, most)}")
    if name == "elapsed":
        plots.in_time(ax)
