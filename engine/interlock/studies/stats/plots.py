"""Plots of figures over many runs. The only door to matplotlib.

Each plot answers one question and is whole by itself: what it shows, of how many runs, in which
unit. Texts of files stand in them as they are: nothing in a name is taken for mathematics.

Belongs here: axes, colours, files. Never: a figure that the tables do not have.

Imported by: studies.stats.result
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from interlock.core.errors import SetupError
from interlock.core.units import say_count, say_duration, say_elapsed, say_number
from interlock.studies.saying import percent, say_usd
from interlock.view.flowchart import printable

if TYPE_CHECKING:
    from interlock.studies.stats.values import Figures, StateLine

LISTED = 14
"""Rows of a plot: states, limits, reasons. The rest is said to be left out."""
_LONGEST = 24
"""Characters of a name beside an axis."""
_SPREAD = 400
"""Single runs that a strip shows; of more it shows so many, evenly chosen."""
_INK, _FAINT, _BLUE, _AMBER = "#1f2933", "#cbd2d9", "#2f6fb3", "#d97706"
_KINDS = {
    "natural": "#2f9e6e", "limit": "#d97706", "error": "#c8403a", "human": "#7a5bb5",
    "waiting": "#8795a1",
}  # fmt: skip
_STYLE = {
    "font.family": "sans-serif", "font.size": 9, "axes.titlesize": 10.5,
    "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK, "text.color": _INK, "xtick.color": _INK, "ytick.color": _INK,
    "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none",
    "svg.hashsalt": "interlock", "figure.dpi": 110,
}  # fmt: skip


def figure(stats: Figures) -> Any:
    """All plots on one page, as a figure of matplotlib."""
    import_matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415

    plots = _plots(stats)
    rows = -(-len(plots) // 2)
    heights = [
        max(_height(stats, name) for name, _ in plots[2 * n : 2 * n + 2]) for n in range(rows)
    ]
    with _styled():
        made: Any = Figure(figsize=(11.5, sum(heights) + 0.9), layout="constrained")
        title = f"{printable(stats.machine)}, {say_count(stats.runs, 'run')}"
        made.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", parse_math=False)
        made.get_layout_engine().set(h_pad=0.12, w_pad=0.12)
        grid = made.add_gridspec(rows, 2, height_ratios=heights)
        for number, (_, draw) in enumerate(plots):
            draw(made.add_subplot(grid[number // 2, number % 2]))
    return made


def save(stats: Figures, path: Path) -> list[Path]:
    """Write them: one page for a ``.svg`` or ``.png``, else a folder with a file for each."""
    if path.suffix.lower() in (".svg", ".png"):
        return [_written(figure(stats), path)]
    if path.suffix:
        raise SetupError(
            f"plots are not written as `{path.suffix}`", hint="name a .svg, a .png or a folder"
        )
    import_matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415

    path.mkdir(parents=True, exist_ok=True)
    out: list[Path] = []
    for name, draw in _plots(stats):
        with _styled():
            made: Any = Figure(figsize=(7.2, _height(stats, name) + 0.5), layout="constrained")
            draw(made.add_subplot())
        out.append(_written(made, path / f"{name}.svg"))
    return out


def _written(made: Any, path: Path) -> Path:

    form = path.suffix.lower().removeprefix(".")
    said = {"Date": None, "Creator": "interlock"} if form == "svg" else {"Software": "interlock"}
    with _styled():
        made.savefig(path, format=form, metadata=said, facecolor="white")
    return path


def import_matplotlib() -> None:
    """`SetupError` where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401, ICN001, PLC0415  # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise SetupError(
            "plots need matplotlib, which is not installed", hint='pip install "interlock[plots]"'
        ) from None


def _styled() -> AbstractContextManager[None]:
    """The look of all plots, for as long as one is drawn."""
    import matplotlib as mpl  # noqa: PLC0415

    drawing: Any = mpl
    return drawing.rc_context(_STYLE)


# which plots ----------------------------------------------------------------------------------


def _plots(stats: Figures) -> list[tuple[str, Callable[[Any], None]]]:
    """The plots that have something to show, by the names of their files."""
    priced = stats.totals["usd"].total > 0
    if not stats.runs:
        return [("nothing", _nothing)]
    found: list[tuple[str, Callable[[Any], None]]] = [("reasons", lambda ax: _reasons(stats, ax))]
    if stats.margins:
        found.append(("margins", lambda ax: _margins(stats, ax)))
    if any(s.actions for s in stats.states):
        found.append(("time", lambda ax: _time(stats, ax)))
        found.append(("cost", lambda ax: _cost(stats, ax, priced=priced)))
    found.append(("durations", lambda ax: _durations(stats, ax)))
    found.append(("costs", lambda ax: _costs(stats, ax, priced=priced)))
    return found


def _height(stats: Figures, name: str) -> float:
    """Inches that a plot needs for its rows."""
    acting = sum(1 for s in stats.states if s.actions)
    rows = {
        "reasons": len(stats.reasons), "margins": 1.25 * len(stats.margins), "time": acting,
        "cost": acting,
    }  # fmt: skip
    return 0.95 + 0.3 * min(LISTED, max(3, rows[name])) if name in rows else 2.6


def _nothing(ax: Any) -> None:
    ax.set_axis_off()
    ax.text(0.5, 0.5, "no runs", ha="center", va="center")


# bars ---------------------------------------------------------------------------------------


def _reasons(stats: Figures, ax: Any) -> None:
    shown = stats.reasons[:LISTED]
    _bars(
        ax, [r.reason or "not ended" for r in shown], [r.runs for r in shown],
        [f"{r.runs:,}  ({percent(r.share)})" for r in shown],
        [_KINDS.get(r.kind, _FAINT) for r in shown],
    )  # fmt: skip
    ax.set_title(_title("Why runs stop", len(stats.reasons)))
    ax.set_xlabel("runs")
    kinds = list(dict.fromkeys(r.kind for r in shown))
    if len(kinds) > 1:
        from matplotlib.patches import Patch  # noqa: PLC0415

        patches: list[Any] = [Patch(color=_KINDS.get(k, _FAINT), label=k) for k in kinds]
        ax.legend(handles=patches, loc="lower right", frameon=False, fontsize=8)


def _time(stats: Figures, ax: Any) -> None:
    shown = _greatest(stats, lambda s: s.time.total)
    _bars(
        ax, [s.state for s in shown], [s.time.total for s in shown],
        [
            _together(say_elapsed(s.time.total), s.actions, say_elapsed(s.time.median))
            for s in shown
        ],
        [_BLUE] * len(shown),
    )  # fmt: skip
    ax.set_title(
        _title("Time in the actions of each state", sum(1 for s in stats.states if s.actions))
    )
    ax.set_xlabel("together; in brackets: actions × median")
    _in_time(ax)


def _cost(stats: Figures, ax: Any, *, priced: bool) -> None:
    def amount(state: StateLine) -> float:
        return state.usd.total if priced else state.tokens.total

    shown = [s for s in _greatest(stats, amount) if amount(s)]
    if priced:
        said = [_together(say_usd(amount(s)), s.usd.n, say_usd(s.usd.median)) for s in shown]
    else:
        said = [
            _together(say_number(amount(s)), s.tokens.n, say_number(s.tokens.median)) for s in shown
        ]
    _bars(ax, [s.state for s in shown], [amount(s) for s in shown], said, [_BLUE] * len(shown))
    rows = sum(1 for s in stats.states if amount(s))
    ax.set_title(_title("Cost of each state" if priced else "Tokens of each state", rows))
    unit = "USD" if priced else "no price is known: tokens"
    ax.set_xlabel(f"{unit} together; in brackets: actions × median")


def _together(total: str, count: int, median: str) -> str:
    return f"{total}  ({count:,} × {median})"


def _greatest(stats: Figures, key: Callable[[StateLine], float]) -> list[StateLine]:
    """The states that took most, of those that acted."""
    return sorted((s for s in stats.states if s.actions), key=key, reverse=True)[:LISTED]


def _bars(
    ax: Any, names: Sequence[str], values: Sequence[float], said: Sequence[str],
    colours: Sequence[str],
) -> None:  # fmt: skip
    """Horizontal bars, the first at the top, each with its value beside it."""
    places = range(len(names))
    ax.barh(places, values, color=colours, height=0.62)
    _rows(ax, names)
    for place, value, text in zip(places, values, said, strict=True):
        ax.annotate(
            text, (value, place), xytext=(4, 0), textcoords="offset points", va="center",
            fontsize=8, parse_math=False,
        )  # fmt: skip
    ax.set_xlim(0, (max(values, default=0) or 1) * 1.55)  # room for what stands beside the bars
    ax.locator_params(axis="x", nbins=5)


def _rows(ax: Any, names: Sequence[str]) -> None:
    ax.set_yticks(range(len(names)), [_short(name) for name in names], parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(max(len(names), 3) - 0.4, -0.6)  # the first row at the top
    ax.spines["left"].set_visible(False)


def _short(name: str) -> str:
    text = printable(name)
    half = _LONGEST // 2  # names that are alike mostly differ at their end
    return text if len(text) <= _LONGEST else f"{text[: half - 1]}…{text[-half:]}"


def _title(text: str, rows: int) -> str:
    return text if rows <= LISTED else f"{text} ({LISTED} of {rows})"


# margins ------------------------------------------------------------------------------------


def _margins(stats: Figures, ax: Any) -> None:
    """The peak of every run against each limit: a dot for a run, a box for the middle half."""
    shown = stats.margins[:LISTED]
    chance = Random(1)  # noqa: S311  dots side by side, the same each time
    for row, margin in enumerate(shown):
        values = _some([min(v, _FAR) for v in margin.peak.values])
        colour = _AMBER if margin.stopped else _BLUE
        heights = [row + chance.uniform(-0.16, 0.16) for _ in values]
        ax.scatter(values, heights, s=9, color=colour, alpha=0.35, linewidths=0, zorder=3)
    boxes: list[Any] = [[min(v, _FAR) for v in m.peak.values] for m in shown]
    line: dict[str, Any] = {"color": _INK, "linewidth": 0.9}
    ax.boxplot(
        boxes, positions=range(len(shown)), orientation="horizontal", widths=0.5, showfliers=False,
        medianprops={**line, "linewidth": 1.6}, boxprops=line, whiskerprops=line, capprops=line,
        zorder=4,
    )  # fmt: skip
    _rows(ax, [_held(m.fact, m.bound) for m in shown])
    most = max((v for values in boxes for v in values), default=1.0)
    ax.set_xlim(-0.03, max(1.32, most + 0.3))
    ax.axvline(1.0, color=_KINDS["error"], linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    for row, margin in enumerate(shown):
        ax.annotate(
            margin.says, (1.0, row), xycoords=("axes fraction", "data"), xytext=(-2, 0),
            textcoords="offset points", ha="right", va="center", fontsize=8, parse_math=False,
        )  # fmt: skip
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0%", "25%", "50%", "75%", "100%"])
    ax.set_title(_title("How near runs come to each limit", len(stats.margins)))
    ax.set_xlabel("most of it that a run used; the box: half of the runs")


_FAR = 1.5
"""A share beyond which dots stand at the edge."""


def _held(fact: str, bound: str) -> str:
    """A name that fits beside an axis: the limit, where it is one; else the fact as well."""
    root, _, name = bound.partition(".")
    return name if root == "limits" else f"{fact} ≥ {bound}"


def _some(values: Sequence[float]) -> Sequence[float]:
    """Few enough to be drawn; the least and the greatest are among them."""
    if len(values) <= _SPREAD:
        return values
    step = (len(values) - 1) / (_SPREAD - 1)
    return [values[round(n * step)] for n in range(_SPREAD)]


# distributions ------------------------------------------------------------------------------


def _durations(stats: Figures, ax: Any) -> None:
    dist = stats.totals["elapsed"]
    _histogram(ax, dist.values, say_elapsed)
    ax.set_title("How long runs take")
    ax.set_xlabel("from start to end, waiting included")
    _in_time(ax)


def _costs(stats: Figures, ax: Any, *, priced: bool) -> None:
    dist = stats.totals["usd" if priced else "tokens"]
    _histogram(ax, dist.values, say_usd if priced else say_number)
    unit = "USD a run" if priced else "tokens a run (no price is known)"
    less = stats.runs - dist.n
    ax.set_title("What runs cost")
    ax.set_xlabel(f"{unit}; {say_count(less, 'run')} without a known price" if less else unit)


def _histogram(ax: Any, values: Sequence[float], say: Callable[[float], str]) -> None:
    """How many runs there are of each size, with the median and the 95 % marked."""
    from interlock.studies.stats.values import Dist  # noqa: PLC0415

    dist = Dist.of(values)
    bins = min(24, max(5, round(dist.n**0.5)))
    ax.hist(values, bins=bins, color=_BLUE, alpha=0.85, edgecolor="white", linewidth=0.6)
    top = ax.get_ylim()[1] * 1.3
    ax.set_ylim(0, top)
    for name, value, at in (("median", dist.median, 0.98), ("95%", dist.p95, 0.87)):
        ax.axvline(value, color=_INK, linewidth=0.9, linestyle=(0, (2, 2)), ymax=at - 0.02)
        beyond = value > sum(ax.get_xlim()) / 2
        ax.annotate(
            f"{name} {say(round(value, 6))}", (value, at), xycoords=("data", "axes fraction"),
            xytext=(-4 if beyond else 4, 0), textcoords="offset points", va="top",
            ha="right" if beyond else "left", fontsize=8,
        )  # fmt: skip
    ax.set_ylabel("runs")
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.locator_params(axis="x", nbins=6)


def _in_time(ax: Any) -> None:
    """Ticks at round times, said as people say them."""
    from matplotlib.ticker import FixedLocator, FuncFormatter  # noqa: PLC0415

    low, high = ax.get_xlim()
    step = next((s for s in _STEPS if (high - low) / s <= 6), _STEPS[-1])
    ticks = [n * step for n in range(int(high / step) + 1)]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FuncFormatter(_round_time))


def _round_time(seconds: float, _at: int) -> str:
    whole = seconds >= 1 and seconds == int(seconds)
    return say_duration(seconds) if whole else say_elapsed(seconds) if seconds else "0"


_STEPS = (
    *(m * 10.0**e for e in range(-3, 1) for m in (1, 2, 5)), 10, 15, 30, 60, 120, 300, 600, 900,
    1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 172_800, 604_800, 2_592_000, 31_536_000,
)  # fmt: skip
"""Seconds between two ticks."""
