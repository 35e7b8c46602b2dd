"""The plots of a simulation: why runs stop, and the distributions of their calls, cost and time.

Belongs here: the selection of plots. Never: pages, files and kinds of plots (`pictures.plots`), or
a figure that the tables do not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from chartloop.pictures import plots
from chartloop.pictures.plots import Plot
from chartloop.studies.simulation.figure_names import UNITS, say

_TITLES = {
    "requests": "How many requests runs send", "tool_calls": "How many tool calls runs make",
    "usd": "What runs cost", "tokens": "What runs cost", "elapsed": "How long runs take",
}  # fmt: skip


class PlotData(NamedTuple):
    """The data of the plots."""

    title: str
    reasons: Sequence[tuple[str, str, int]]
    """Reason, its kind and its number of runs, the most frequent first."""
    values: Mapping[str, Sequence[float]]
    """The values of the runs, by quantity as in `Simulated`."""
    most: Mapping[str, float | None]
    """The proven bound of each quantity."""


def figure(data: PlotData) -> Any:
    """Draw all plots on one page, as a matplotlib figure."""
    return plots.figure(data.title, _plots(data))


def save(data: PlotData, path: Path) -> list[Path]:
    """Write one page for a ``.svg`` or ``.png``, else a folder with a file for each plot."""
    return plots.save(data.title, _plots(data), path)


def _plots(data: PlotData) -> list[Plot]:
    """The plots that have data; their names are those of the files."""
    values = data.values
    if not values:
        return [plots.NOTHING]
    runs = sum(count for *_, count in data.reasons)
    draw_why = partial(plots.reasons, data.reasons, _percent, runs)
    calls = "requests" if any(values["requests"]) else "tool_calls"
    cost = "usd" if "usd" in values else "tokens"
    return [
        Plot("reasons", draw_why, plots.height_of(len(data.reasons))),
        *(Plot(n, partial(_spread, data, n)) for n in (calls, cost, "elapsed") if any(values[n])),
    ]


def _percent(share: float) -> str:
    return f"{share:.2%}"


def _spread(data: PlotData, name: str, ax: Any) -> None:
    """A histogram of a quantity over the runs, with its proven bound in the label."""
    whole = name in ("requests", "tool_calls")
    plots.histogram(ax, data.values[name], lambda value: say(name, value), whole=whole)
    ax.set_title(_TITLES[name])
    unit, most = UNITS[name], data.most[name]
    ax.set_xlabel(unit if most is None else f"{unit}; proven bound {say(name, most)}")
    if name == "elapsed":
        plots.in_time(ax)
