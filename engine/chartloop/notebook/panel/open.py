"""Opens a panel, or says what it needs: light to import, so that `Run` can know of it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from chartloop.core.errors import SetupError
from chartloop.extras import install
from chartloop.view_model.protocols import SteppedRun

if TYPE_CHECKING:
    from chartloop.notebook.panel.widget import Panel


def open_panel(run: SteppedRun) -> Panel:
    """A panel of the run. `SetupError` where the extra `notebook` is not installed."""
    if find_spec("anywidget") is None:
        raise SetupError("the panel of a notebook needs anywidget", hint=install("notebook"))
    from chartloop.notebook.panel.widget import Panel  # noqa: PLC0415 - an extra

    return Panel(run)
