"""Plots on a page or in files, and the kinds of plots. The only import of matplotlib.

Each plot answers one question and is complete: it shows its subject, the number of runs and the
unit. Texts of files are shown literally: no name is parsed as mathematics.

Belongs here: pages, axes, colours, files. Never: the data, or a figure that is not in a table too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from chartloop.core.errors import SetupError
from chartloop.core.units import say_duration, say_elapsed
from chartloop.extras import install
from chartloop.pictures.flowchart import printable

LISTED = 14
"""The most rows of a plot: states, limits, reasons. The title tells how many are left out."""
_LONGEST = 24
"""The most characters of a name next to an axis."""
INK, FAINT, BLUE, AMBER = "#1f2933", "#cbd2d9", "#2f6fb3", "#d97706"
KINDS = {
    "natural": "#2f9e6e", "limit": "#d97706", "error": "#c8403a", "human": "#7a5bb5",
    "waiting": "#8795a1",
}  # fmt: skip
_STYLE = {
    "font.family": "sans-serif", "font.size": 9, "axes.titlesize": 10.5,
    "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.edgecolor": FAINT,
    "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none",
    "svg.hashsalt": "chartloop", "figure.dpi": 110,
}  # fmt: skip


class Plot(NamedTuple):
    """One plot: the name of its file, and the function that draws it onto axes."""

    name: str
    draw: Callable[[Any], None]
    height: float = 2.6
    """Inches."""


def height_of(rows: int) -> float:
    """The height of a plot with this many rows, in inches."""
    return 0.95 + 0.3 * min(LISTED, max(3, rows))


# pages and files ------------------------------------------------------------------------------


def figure(title: str, plots: Sequence[Plot]) -> Any:
    """All plots on one page, as a figure of matplotlib."""
    import_matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415

    rows = -(-len(plots) // 2)
    heights = [max(plot.height for plot in plots[2 * n : 2 * n + 2]) for n in range(rows)]
    with _plot_style():
        made: Any = Figure(figsize=(11.5, sum(heights) + 0.9), layout="constrained")
        made.suptitle(
            printable(title), x=0.01, ha="left", fontsize=13, fontweight="bold", parse_math=False
        )
        made.get_layout_engine().set(h_pad=0.12, w_pad=0.12)
        grid = made.add_gridspec(rows, 2, height_ratios=heights)
        for number, plot in enumerate(plots):
            plot.draw(made.add_subplot(grid[number // 2, number % 2]))
    return made


def save(title: str, plots: Sequence[Plot], path: Path) -> list[Path]:
    """Write plots: one page for a ``.svg`` or ``.png``, else a folder with a file for each."""
    if path.suffix.lower() in (".svg", ".png"):
        return [_save_figure(figure(title, plots), path)]
    if path.suffix:
        raise SetupError(
            f"plots are not written as `{path.suffix}`", hint="name a .svg, a .png or a folder"
        )
    import_matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415

    path.mkdir(parents=True, exist_ok=True)
    out: list[Path] = []
    for plot in plots:
        with _plot_style():
            made: Any = Figure(figsize=(7.2, plot.height + 0.5), layout="constrained")
            plot.draw(made.add_subplot())
        out.append(_save_figure(made, path / f"{plot.name}.svg"))
    return out


def _save_figure(made: Any, path: Path) -> Path:
    form = path.suffix.lower().removeprefix(".")
    metadata = (
        {"Date": None, "Creator": "chartloop"} if form == "svg" else {"Software": "chartloop"}
    )
    with _plot_style():
        made.savefig(path, format=form, metadata=metadata, facecolor="white")
    return path


def import_matplotlib() -> None:
    """Raise `SetupError` if matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401, ICN001, PLC0415  # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise SetupError(
            "plots need matplotlib, which is not installed", hint=install("plots")
        ) from None


def _plot_style() -> AbstractContextManager[None]:
    """A context with the style of all plots."""
    import matplotlib as mpl  # noqa: PLC0415

    drawing: Any = mpl
    return drawing.rc_context(_STYLE)


def _nothing(ax: Any) -> None:
    ax.set_axis_off()
    ax.text(0.5, 0.5, "no runs", ha="center", va="center")


NOTHING = Plot("nothing", _nothing)
"""The plot for no runs."""


# kinds of plots -------------------------------------------------------------------------------


def reasons(
    rows: Sequence[tuple[str, str, int]], share: Callable[[float], str], runs: int, ax: Any
) -> None:
    """Draw why runs stop: a bar with the number of runs for each reason, coloured by kind."""
    shown = rows[:LISTED]
    bars(
        ax, [reason or "not ended" for reason, *_ in shown], [count for *_, count in shown],
        [f"{count:,}  ({share(count / runs)})" for *_, count in shown],
        [KINDS.get(kind, FAINT) for _, kind, _ in shown],
    )  # fmt: skip
    ax.set_title(title_with_count("Why runs stop", len(rows)))
    ax.set_xlabel("runs")
    kinds = list(dict.fromkeys(kind for _, kind, _ in shown))
    if len(kinds) > 1:
        from matplotlib.patches import Patch  # noqa: PLC0415

        patches: list[Any] = [Patch(color=KINDS.get(k, FAINT), label=k) for k in kinds]
        ax.legend(handles=patches, loc="lower right", frameon=False, fontsize=8)


def bars(
    ax: Any, names: Sequence[str], values: Sequence[float], captions: Sequence[str],
    colours: Sequence[str],
) -> None:  # fmt: skip
    """Draw horizontal bars, the first at the top, each with a caption next to it."""
    places = range(len(names))
    ax.barh(places, values, color=colours, height=0.62)
    rows_of(ax, names)
    for place, value, text in zip(places, values, captions, strict=True):
        ax.annotate(
            text, (value, place), xytext=(4, 0), textcoords="offset points", va="center",
            fontsize=8, parse_math=False,
        )  # fmt: skip
    ax.set_xlim(0, (max(values, default=0) or 1) * 1.55)  # room for the captions
    ax.locator_params(axis="x", nbins=5)


def rows_of(ax: Any, names: Sequence[str]) -> None:
    """Set up a row for each name, the first at the top."""
    ax.set_yticks(range(len(names)), [_short(name) for name in names], parse_math=False)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(max(len(names), 3) - 0.4, -0.6)  # the first row at the top
    ax.spines["left"].set_visible(False)


def _short(name: str) -> str:
    text = printable(name)
    half = _LONGEST // 2  # similar names mostly differ at the end, so cut the middle
    return text if len(text) <= _LONGEST else f"{text[: half - 1]}…{text[-half:]}"


def title_with_count(text: str, rows: int) -> str:
    """A title that says when some rows are left out."""
    return text if rows <= LISTED else f"{text} ({LISTED} of {rows})"


def histogram(ax: Any, values: Sequence[float], say: Callable[[float], str]) -> None:
    """Draw the number of runs of each size, with the median and the 95th percentile marked."""
    found = sorted(values)
    p95 = found[max(0, -(-95 * len(found) // 100) - 1)]
    low, high = found[0], found[-1]
    bins: Any = min(24, max(5, round(len(found) ** 0.5)))
    if low == high:
        bins = [low * 0.98, (low or 1) * 1.02]
    ax.hist(found, bins=bins, color=BLUE, alpha=0.85, edgecolor="white", linewidth=0.6)
    top = ax.get_ylim()[1] * 1.3
    ax.set_ylim(0, top)
    for name, value, at in (("median", median(found), 0.98), ("95%", p95, 0.87)):
        ax.axvline(value, color=INK, linewidth=0.9, linestyle=(0, (2, 2)), ymax=at - 0.02)
        beyond = value > sum(ax.get_xlim()) / 2
        ax.annotate(
            f"{name} {say(round(value, 6))}", (value, at), xycoords=("data", "axes fraction"),
            xytext=(-4 if beyond else 4, 0), textcoords="offset points", va="top",
            ha="right" if beyond else "left", fontsize=8,
        )  # fmt: skip
    ax.set_ylabel("runs")
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.locator_params(axis="x", nbins=6)
    if low == high:
        ax.set_xlim(low * 0.5, (low or 1) * 1.5)


def in_time(ax: Any) -> None:
    """Set ticks at round times, with labels for people."""
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
"""The possible distances between two ticks, in seconds."""
