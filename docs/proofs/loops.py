"""What every library is asked to build and run: three loops, and a model that is never done."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

LOOPS = {
    "exitless": "An exitless loop: think, act, think again. No way leads out.",
    "always": "An exit that is always taken: its condition is `steps >= 0`.",
    "model_decides": 'An exit that only the model decides: its condition is `"DONE" in reply`.',
}
MOST = 2_000
"""Calls after which our model has had enough, so that this ends."""

LIMIT = 20
"""The limit that a loop is built with a second time: turns, steps, whatever the library counts."""


class EnoughError(Exception):
    """The model was asked as often as we let it be."""


class Model:
    """A model that never says that it is done."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.asked = 0

    def ask(self) -> str:
        """Its reply."""
        if self.asked >= self.most:
            raise EnoughError
        self.asked += 1
        return "not yet"


class Build(Protocol):
    """Builds a loop; what it raises is what it says before a run. Gives what runs it."""

    def __call__(self, loop: str, model: Model, *, limited: bool) -> Callable[[], object]:
        """`limited`: with the library's own limit."""
        ...


class Library(NamedTuple):
    """A library, and how it builds and runs a loop."""

    name: str
    package: str
    """What `pip` calls it."""
    limit: str
    """How its own limit is set to `LIMIT`; empty where it has none."""
    build: Build
    says: Callable[..., list[str]] | None = None
    """What it says before a run, where that is more than what building it raises."""
    most: int = MOST
    """Calls after which we stop it: more than it allows by itself."""


def first_line(error: BaseException) -> str:
    """An error in one line: its kind, and the first line of what it says."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def root_of(error: BaseException) -> BaseException:
    """What an error comes from."""
    while True:
        inner = getattr(error, "exceptions", None)
        below = inner[0] if inner else error.__cause__
        if below is None:
            return error
        error = below
