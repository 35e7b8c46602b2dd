"""The widget of a panel: the door to anywidget.

Belongs here: the state shared by kernel and page. Never: its content, a thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from chartloop.api import Run
from chartloop.pictures import page_parts
from chartloop.ui.notebook.panel.controller import Controller
from chartloop.ui.notebook.panel.panel_picture import still
from chartloop.ui.notebook.screen import when_cells_end
from chartloop.ui.view_model.run_view import Json

_PAGE = Path(__file__).parent / "page"
_SCRIPT = f"{page_parts.SCRIPT}\n{(_PAGE / 'panel.js').read_text('utf-8')}"
"""One module, so that there is no build and no request."""
_SEPARATE = ("paint", "why", "busy", "fault", "heard")
"""Parts with their own traits, since they change independently."""
_SHEET = ("picture", "boxes", "outline")


class Panel(anywidget.AnyWidget):
    """A run in a notebook: its picture and facts, with buttons. Made by `panel(run)`.

    `close()` removes it from the page; the run stays as it is.
    """

    _esm = _SCRIPT
    _css = page_parts.STYLE

    board = traitlets.Dict().tag(sync=True)
    sheet = traitlets.Dict().tag(sync=True)
    paint = traitlets.Dict().tag(sync=True)
    why = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    busy = traitlets.Unicode().tag(sync=True)
    fault = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)
    heard = traitlets.Int().tag(sync=True)
    order = traitlets.Any(None).tag(sync=True)

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.controller = Controller(run, self._show)
        self.observe(self._take_order, names="order")
        when_cells_end(self.controller)

    def _take_order(self, change: Any) -> None:
        if change["new"] is not None:
            self.controller.take(change["new"])

    def _show(self, changed: Json) -> None:
        rest = dict(changed)
        with self.hold_sync():
            for name in _SEPARATE:
                if name in rest:
                    setattr(self, name, rest.pop(name))
            sheet = {name: rest.pop(name) for name in _SHEET if name in rest}
            if sheet:
                self.sheet = sheet
            if rest:
                self.board = {**self.board, **rest}

    def close(self) -> None:
        """Remove it from the page and stop listening to the run."""
        self.controller.close()
        super().close()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget, with a picture for notebooks that are read without a kernel."""
        widget: Any = super()
        data, metadata = widget._repr_mimebundle_(**options)
        return {**data, **still(self.controller.run)}, metadata

    def __repr__(self) -> str:
        return f"<Panel of run {self.controller.run.id}>"
