"""The plots of statistics: reasons, margins, time and cost of states, durations and costs of runs.

Belongs here: the content of each plot. Never: pages, files and kinds of plots (`pictures.plots`),
or a figure that the tables do not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from chartloop.core.units import say_count, say_elapsed, say_number
from chartloop.pictures import plots
from chartloop.pictures.plots import AMBER, BLUE, INK, KINDS, LISTED, Plot, title_with_count
from chartloop.studies.format import percent, say_usd

if TYPE_CHECKING:
    from chartloop.studies.stats.figures import Figures, StateLine

_SPREAD = 400
"""Maximum number of dots in a row; of more runs, evenly chosen ones are drawn."""


def figure(stats: Figures) -> Any:
    """Draw all plots on one page, as a matplotlib figure."""
    return plots.figure(_title(stats), _plots(stats))


def save(stats: Figures, path: Path) -> list[Path]:
    """Write one page for a ``.svg`` or ``.png``, else a folder with a file for each plot."""
    return plots.save(_title(stats), _plots(stats), path)


def _title(stats: Figures) -> str:
    return f"{stats.machine}, {say_count(stats.runs, 'run')}"


def _plots(stats: Figures) -> list[Plot]:
    """The plots that have data; their names are those of the files."""
    priced = stats.totals["usd"].total > 0
    if not stats.runs:
        return [plots.NOTHING]
    acting = plots.height_of(sum(1 for s in stats.states if s.actions))
    why = [(r.reason, r.kind, r.runs) for r in stats.reasons]
    draw_why = partial(plots.reasons, why, percent, stats.runs)
    out = [Plot("reasons", draw_why, plots.height_of(len(why)))]
    if stats.margins:
        height = 0.95 + 0.3 * min(LISTED, max(3, 1.25 * len(stats.margins)))
        out.append(Plot("margins", partial(_margins, stats), height))
    if any(s.actions for s in stats.states):
        out.append(Plot("time", partial(_time, stats), acting))
        out.append(Plot("cost", partial(_cost, stats, priced=priced), acting))
    out.append(Plot("durations", partial(_durations, stats)))
    out.append(Plot("costs", partial(_costs, stats, priced=priced)))
    return out


# bars ---------------------------------------------------------------------------------------


def _time(stats: Figures, ax: Any) -> None:
    top = _greatest(stats, lambda s: s.time.total)
    plots.bars(
        ax, [s.state for s in top], [s.time.total for s in top],
        [
            _together(s.time.total, s.actions, say_elapsed)
            for s in top
        ],
        [BLUE] * len(top),
    )  # fmt: skip
    ax.set_title(
        title_with_count(
            "Time in the actions of each state", sum(1 for s in stats.states if s.actions)
        )
    )
    ax.set_xlabel("together; in brackets: actions × mean")
    plots.in_time(ax)


def _cost(stats: Figures, ax: Any, *, priced: bool) -> None:
    def amount(state: StateLine) -> float:
        return state.usd.total if priced else state.tokens.total

    shown = [s for s in _greatest(stats, amount) if amount(s)]
    if priced:
        captions = [_together(amount(s), s.usd.n, say_usd) for s in shown]
    else:
        captions = [
            _together(amount(s), s.tokens.n, lambda n: say_number(round(n, 1))) for s in shown
        ]
    plots.bars(
        ax, [s.state for s in shown], [amount(s) for s in shown], captions, [BLUE] * len(shown)
    )
    rows = sum(1 for s in stats.states if amount(s))
    ax.set_title(title_with_count("Cost of each state" if priced else "Tokens of each state", rows))
    unit = "USD" if priced else "no price is known: tokens"
    ax.set_xlabel(f"{unit} together; in brackets: actions × mean")


def _together(total: float, count: int, say: Callable[[float], str]) -> str:
    """Caption a sum with count × mean: count × median would not give the sum."""
    return f"{say(total)}  ({count:,} × {say(total / max(count, 1))})"


def _greatest(stats: Figures, key: Callable[[StateLine], float]) -> list[StateLine]:
    """The acting states with the greatest values of `key`."""
    return sorted((s for s in stats.states if s.actions), key=key, reverse=True)[:LISTED]


# margins ------------------------------------------------------------------------------------


def _margins(stats: Figures, ax: Any) -> None:
    """Draw each run's peak share of each limit: a dot for a run, a box for the middle half."""
    top = stats.margins[:LISTED]
    few = stats.runs < _FEW
    chance = Random(1)  # noqa: S311  dots side by side, the same each time
    for row, margin in enumerate(top):
        values = _some([min(v, _FAR) for v in margin.peak.values])
        colour = AMBER if margin.stopped else BLUE
        heights = [row + chance.uniform(-0.16, 0.16) for _ in values]
        ax.scatter(
            values, heights, s=22 if few else 9, color=colour, alpha=0.8 if few else 0.35,
            linewidths=0, zorder=3,
        )  # fmt: skip
    boxes: list[Any] = [[min(v, _FAR) for v in m.peak.values] for m in top]
    line: dict[str, Any] = {"color": INK, "linewidth": 0.9}
    if not few:
        ax.boxplot(
            boxes, positions=range(len(top)), orientation="horizontal", widths=0.5,
            showfliers=False, medianprops={**line, "linewidth": 1.6}, boxprops=line,
            whiskerprops=line, capprops=line, zorder=4,
        )  # fmt: skip
    plots.rows_of(ax, [_limit_name(m.fact, m.bound) for m in top])
    most = max((v for values in boxes for v in values), default=1.0)
    ax.set_xlim(-0.03, max(1.32, most + 0.3))
    ax.axvline(1.0, color=KINDS["error"], linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    for row, margin in enumerate(top):
        ax.annotate(
            margin.says, (1.0, row), xycoords=("axes fraction", "data"), xytext=(-2, 0),
            textcoords="offset points", ha="right", va="center", fontsize=8, parse_math=False,
        )  # fmt: skip
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0%", "25%", "50%", "75%", "100%"])
    ax.set_title(title_with_count("How near runs come to each limit", len(stats.margins)))
    what = "a dot: a run" if few else "the box: half of the runs"
    ax.set_xlabel(f"most of it that a run used; {what}")


_FEW = 5
"""Below this many runs, boxes would only hide the dots."""
_FAR = 1.5
"""Greater shares are drawn at the edge."""


def _limit_name(fact: str, bound: str) -> str:
    """A short name for an axis: that of the limit, else the whole comparison."""
    root, _, name = bound.partition(".")
    return name if root == "limits" else f"{fact} ≥ {bound}"


def _some(values: Sequence[float]) -> Sequence[float]:
    """Thin out sorted values to `_SPREAD`, with the least and the greatest."""
    if len(values) <= _SPREAD:
        return values
    step = (len(values) - 1) / (_SPREAD - 1)
    return [values[round(n * step)] for n in range(_SPREAD)]


# distributions ------------------------------------------------------------------------------


def _durations(stats: Figures, ax: Any) -> None:
    dist = stats.totals["elapsed"]
    plots.histogram(ax, dist.values, say_elapsed)
    ax.set_title("How long runs take")
    ax.set_xlabel("from start to end, waiting included")
    plots.in_time(ax)


def _costs(stats: Figures, ax: Any, *, priced: bool) -> None:
    dist = stats.totals["usd" if priced else "tokens"]
    plots.histogram(ax, dist.values, say_usd if priced else say_number)
    unit = "USD a run" if priced else "tokens a run (no price is known)"
    less = stats.runs - dist.n
    ax.set_title("What runs cost")
    ax.set_xlabel(f"{unit}; {say_count(less, 'run')} without a known price" if less else unit)
