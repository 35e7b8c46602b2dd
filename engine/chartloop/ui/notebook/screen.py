"""Updatable outputs of cells in a Jupyter kernel.

Belongs here: the door to IPython. Never: what is shown.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from weakref import WeakSet


class Screen(Protocol):
    """An output that can be updated."""

    def show(self, bundle: Mapping[str, Any]) -> None:
        """Show a bundle under the current cell, once a cell."""
        ...

    def update(self, bundle: Mapping[str, Any]) -> None:
        """Replace the bundle in every cell that shows it."""
        ...


class KernelScreen:
    """One output that several cells may show."""

    def __init__(self) -> None:
        self._id = f"chartloop-{secrets.token_hex(8)}"
        self._cell = -1

    def show(self, bundle: Mapping[str, Any]) -> None:
        """Show a bundle under the current cell, once a cell."""
        cell = _cell()
        if cell != self._cell:
            self._cell = cell
            _publish(bundle, self._id, update=False)

    def update(self, bundle: Mapping[str, Any]) -> None:
        """Replace the bundle in every cell that shows it."""
        _publish(bundle, self._id, update=True)


def screen() -> Screen | None:
    """The output of a Jupyter kernel, whichever its front end; None outside a kernel."""
    shell = _shell()
    return None if shell is None or getattr(shell, "kernel", None) is None else KernelScreen()


_at_end: WeakSet[Any] = WeakSet()
"""The objects to flush at the end of a cell."""
_registered: WeakSet[Any] = WeakSet()
"""The shells in which the callback is registered."""


def when_cells_end(target: Any) -> None:
    """Call `target.flush()` at the end of every cell, until `target` is garbage-collected.

    A front end that runs a whole notebook reads the output of a cell only until the cell ends.
    """
    _at_end.add(target)
    shell = _shell()
    if shell is not None and shell not in _registered:
        _registered.add(shell)
        register: Callable[..., None] = shell.events.register
        register("post_run_cell", _cell_ended)


def _cell_ended(_result: object = None) -> None:
    for target in list(_at_end):
        target.flush()


def _shell() -> Any:
    """The IPython shell that runs this code; None outside one. Does not import IPython."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None


def _cell() -> int:
    shell = _shell()
    return -1 if shell is None else int(shell.execution_count)


def _publish(bundle: Mapping[str, Any], id: str, *, update: bool) -> None:
    from IPython import display  # noqa: PLC0415  imported only inside a kernel

    show: Any = display
    show.publish_display_data(data=dict(bundle), transient={"display_id": id}, update=update)
