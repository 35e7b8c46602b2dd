"""How far a long question has come, on a terminal: a bar on stderr that goes when it is done."""

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

PAINTED = 50
"""How often it is painted, at most."""
FEW = 20
"""Of fewer there is no bar: the answer comes at once."""


@contextmanager
def progress_bar(what: str, length: int) -> Generator[Callable[[], object]]:
    """Gives a function to be called once for each. Nothing is shown where no one looks."""
    if length < FEW or not console.is_terminal(sys.stderr):
        yield lambda: None
        return
    bar = click.progressbar(
        length=length, label=what, file=console.behind(sys.stderr), width=30, show_pos=True,
        show_percent=False, update_min_steps=max(1, length // PAINTED),
    )  # fmt: skip
    with bar as moving:
        yield partial(moving.update, 1)
    # over the bar: the answer takes its place
    console.repaint("", up=1)
