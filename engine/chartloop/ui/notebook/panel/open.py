"""Opening a panel, which needs an extra."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from chartloop.api import Run
from chartloop.core.errors import SetupError
from chartloop.extras import install

if TYPE_CHECKING:
    from chartloop.ui.notebook.panel.widget import Panel


def panel(run: Run) -> Panel:
    """Open a panel in a notebook: the run next to its picture, with buttons.

    Raises `SetupError` if the extra `notebook` is not installed.
    """
    if find_spec("anywidget") is None:
        raise SetupError("the panel of a notebook needs anywidget", hint=install("notebook"))
    from chartloop.ui.notebook.panel.widget import Panel  # noqa: PLC0415 - an extra

    return Panel(run)
