"""Progress on stderr of long studies and of many runs, erased at the end. Only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

from chartloop.cli import console, costs
from chartloop.core.units import say_count, say_duration

if TYPE_CHECKING:
    from collections.abc import Callable

UPDATES = 50
"""The most repaints of a bar."""
SHORTEST = 20
"""The fewest items for which a bar is shown."""


CELLS = 20
"""The cells of a bar, where there is room for it."""
SURE_OF = 3
"""The fewest runs that are done before a time is estimated from them."""


class BatchProgress(NamedTuple):
    """How far many runs are."""

    done: int
    total: int
    running: int
    failed: int
    """Of those done, how many an error ended or prevented."""
    tokens: int
    cost: float | None
    """In USD; None if a price is not known."""
    elapsed: float
    """Seconds since the first was begun."""

    @property
    def time_left(self) -> float | None:
        """Whole seconds until all are done, if the others take as long; None while too few are.

        From two minutes on, whole minutes.
        """
        if self.done < SURE_OF or self.done >= self.total or self.elapsed <= 0:
            return None
        left = self.elapsed / self.done * (self.total - self.done)
        return round(left / 60) * 60 if left >= 120 else max(1, round(left))

    def line(self, columns: int) -> str:
        """One line of at most so many columns: what matters least is left out first."""
        full = self.done * CELLS // max(1, self.total)
        bar = "█" * full + "░" * (CELLS - full)
        left = self.time_left
        parts = {
            "done": f"{self.done:,} of {self.total:,}",
            "running": f"{self.running} running",
            "failed": f"{self.failed} failed",
            "left": "" if left is None else f"about {say_duration(left)} left",
            "cost": "cost not known" if self.cost is None else costs.say_cost(self.cost),
            "tokens": say_count(self.tokens, "token"),
        }
        shown = {name: text for name, text in parts.items() if text}
        for name in ("", "tokens", "running", "cost", "left", "failed"):
            shown.pop(name, None)
            text = " · ".join(shown.values())
            for whole in (f"{bar} {text}", text):
                if len(whole) <= columns:
                    return whole
        return text[:columns]


@contextmanager
def progress_bar(what: str, length: int) -> Generator[Callable[[], object]]:
    """Yield a function to call once for each item. Shows nothing if stderr is not a terminal."""
    if length < SHORTEST or not console.is_terminal(sys.stderr):
        yield lambda: None
        return
    bar = click.progressbar(
        length=length, label=what, file=console.behind(sys.stderr), width=30, show_pos=True,
        show_percent=False, update_min_steps=max(1, length // UPDATES),
    )  # fmt: skip
    with bar as moving:
        yield partial(moving.update, 1)
    # erase the bar: the result takes its place
    console.repaint("", up=1)
