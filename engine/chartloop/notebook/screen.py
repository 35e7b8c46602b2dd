"""Where something can be shown that changes later: the output of a cell in a Jupyter kernel.

Belongs here: the door to IPython. Never: what is shown.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from weakref import WeakSet


class Screen(Protocol):
    """An output that changes."""

    def show(self, bundle: Mapping[str, Any]) -> None:
        """Show it under the cell that is being run, once."""
        ...

    def update(self, bundle: Mapping[str, Any]) -> None:
        """Put something else in its place, wherever it is shown."""
        ...


class KernelScreen:
    """One output that can be shown in several cells and is the same in all of them."""

    def __init__(self) -> None:
        self._id = f"chartloop-{secrets.token_hex(8)}"
        self._cell = -1

    def show(self, bundle: Mapping[str, Any]) -> None:
        """Show it under the cell that is being run, once."""
        cell = _cell()
        if cell != self._cell:
            self._cell = cell
            _publish(bundle, self._id, update=False)

    def update(self, bundle: Mapping[str, Any]) -> None:
        """Put something else in its place, wherever it is shown."""
        _publish(bundle, self._id, update=True)


def screen() -> Screen | None:
    """A screen where there is one: in a Jupyter kernel, of whatever front end."""
    shell = _shell()
    return None if shell is None or getattr(shell, "kernel", None) is None else KernelScreen()


_at_end: WeakSet[Any] = WeakSet()
"""Callbacks for the end of a cell."""
_told: WeakSet[Any] = WeakSet()
"""The shells that tell it."""


def when_cells_end(who: Any) -> None:
    """Call `who.flush()` at the end of every cell, for as long as there is a `who`.

    The output of a notebook that is run as a whole is read until its cell has ended.
    """
    _at_end.add(who)
    shell = _shell()
    if shell is not None and shell not in _told:
        _told.add(shell)
        register: Callable[..., None] = shell.events.register
        register("post_run_cell", _cell_ended)


def _cell_ended(_result: object = None) -> None:
    for who in list(_at_end):
        who.flush()


def _shell() -> Any:
    """The IPython that runs this, if it does. Nothing is imported for it that is not there."""
    known = sys.modules.get("IPython")
    return known.get_ipython() if known is not None else None


def _cell() -> int:
    shell = _shell()
    return -1 if shell is None else int(shell.execution_count)


def _publish(bundle: Mapping[str, Any], id: str, *, update: bool) -> None:
    from IPython import display  # noqa: PLC0415  only in its own kernel

    show: Any = display
    show.publish_display_data(data=dict(bundle), transient={"display_id": id}, update=update)
