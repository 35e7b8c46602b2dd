"""The widget that shows a panel: the only door to anywidget.

Belongs here: what is kept in step between the kernel and the page. Never: what is in it, a thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from chartloop.api import Run
from chartloop.notebook.panel.controller import Controller
from chartloop.notebook.panel.panel_picture import still
from chartloop.notebook.screen import when_cells_end
from chartloop.view import page_parts
from chartloop.view_model.run_view import Json

_PAGE = Path(__file__).parent / "page"
_SCRIPT = f"{page_parts.SCRIPT}\n{(_PAGE / 'panel.js').read_text('utf-8')}"
"""One module: there is no build, and nothing that a page would have to ask for."""
_ALONE = ("paint", "why", "busy", "fault", "heard")
"""Parts with their own traits, since they change by themselves."""
_SHEET = ("picture", "boxes", "outline")


class Panel(anywidget.AnyWidget):
    """A run in a notebook: its picture and facts, with buttons. Made by `panel(run)`.

    `close()` takes it off the page; the run stays as it is.
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
            for name in _ALONE:
                if name in rest:
                    setattr(self, name, rest.pop(name))
            sheet = {name: rest.pop(name) for name in _SHEET if name in rest}
            if sheet:
                self.sheet = sheet
            if rest:
                self.board = {**self.board, **rest}

    def close(self) -> None:
        """Take it off the page, and hear no more of the run."""
        self.controller.close()
        super().close()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """The widget, and next to it a picture for where a notebook is read without a kernel."""
        widget: Any = super()
        data, metadata = widget._repr_mimebundle_(**options)
        return {**data, **still(self.controller.run)}, metadata

    def __repr__(self) -> str:
        return f"<Panel of run {self.controller.run.id}>"
