"""A progress bar on stderr for long studies, erased at the end. Only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from chartloop.cli import console

if TYPE_CHECKING:
    from collections.abc import Callable

UPDATES = 50
"""The most repaints of a bar."""
SHORTEST = 20
"""The fewest items for which a bar is shown."""


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
