"""A picture of a run that follows the run: one display, painted anew after every record.

Belongs here: when to paint and what a notebook is given. Never: the picture itself (`view.live`),
how an output is reached (`screen`).

The picture goes out as an image with its SVG inside, in HTML: so it is shown in a notebook that is
not trusted too, where JupyterLab draws no SVG, and no two pictures can disturb each other. A PNG
would have to be laid out and drawn anew: half a second for 45 states, where this takes 1 ms.

Source: design "traps" (pictures and notebooks)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from chartloop.core.errors import ChartloopError
from chartloop.core.html_table import image
from chartloop.notebook.screen import Screen, when_cells_end
from chartloop.run.events import Event, Recorded
from chartloop.run.progress import standing_of, status_of
from chartloop.run.session import Session
from chartloop.view.flowchart import one_line
from chartloop.view.live.picture import LivePicture
from chartloop.view.live.progress import Standing
from chartloop.view.picture import Picture

EVERY = 0.1
"""Seconds between two repaints of a run that does not rest: its last state is always painted."""


class Watched(Protocol):
    """What is asked of a run."""

    @property
    def id(self) -> str: ...
    @property
    def session(self) -> Session: ...
    def listen(self, callback: Callable[[Event], None]) -> Callable[[], None]: ...


class Live:
    """The live picture of a run: `run.live()` opens it, and every later step updates it.

    Outside a notebook `print(live)` shows the picture in characters, and `save` writes it.
    """

    def __init__(
        self,
        run: Watched,
        draw: Callable[[], Picture],
        *,
        region: str = "state",
        on: Screen | None = None,
    ) -> None:
        self._run = run
        self._draw = draw
        self._standing_of = status_of if region == "status" else standing_of
        self._picture = LivePicture(draw().chart)
        self._lock = threading.Lock()
        self._painted = 0.0
        self._timer: threading.Timer | None = None
        self._stale = False
        self._redraw = False
        self._screen = on
        if self._screen is not None:
            when_cells_end(self)
        self._stop = run.listen(self._hear)

    # what it shows --------------------------------------------------------------------------

    @property
    def picture(self) -> LivePicture:
        """The picture that is painted."""
        return self._picture

    @property
    def standing(self) -> Standing:
        """Where the run stands now."""
        return self._standing_of(self._run.session)

    def svg(self) -> str:
        """The picture as it is now. Errors: see `view.dot.engine.render`."""
        return self._picture.svg(self.standing)

    def save(self, path: str | Path) -> Path:
        """Write the picture as it is now: `.svg`, `.png` or `.txt`; returns the path."""
        return self._picture.save(path, self.standing)

    def __str__(self) -> str:
        return self._picture.text(self.standing)

    def __repr__(self) -> str:
        where = "" if self._screen is not None else "; `print` shows it outside a notebook"
        return f"<Live picture of run {self._run.id}: {self.standing.said}{where}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What a notebook shows: the picture as it is now, and text for where it cannot."""
        standing = self.standing
        return live_bundle(self._picture, standing)

    def _ipython_display_(self) -> None:
        """Show it under this cell, if it is not there: what is shown twice is updated twice."""
        if self._screen is None:
            raise NotImplementedError  # IPython takes the bundle then
        self._screen.show(self._repr_mimebundle_())

    # following the run ------------------------------------------------------------------------

    def show(self) -> Live:
        """Show it under the cell that is being run, where there is one."""
        if self._screen is not None:
            self._screen.show(self._repr_mimebundle_())
        return self

    def close(self) -> None:
        """Follow the run no longer. What was painted last stays."""
        self._stop()
        self._stale = False

    def moved(self) -> None:
        """The run is somewhere else without a record of it: it was taken back."""
        self._redraw = True
        self._paint()

    def flush(self) -> None:
        """Paint what was left out because it came too soon."""
        if self._stale:
            self._paint()

    def _hear(self, event: Event) -> None:
        if not isinstance(event, Recorded):
            return
        self._redraw = self._redraw or event.record.kind == "edit"  # a label may name a limit
        rests = event.position.status not in ("running", "debugging")
        if rests or time.monotonic() - self._painted >= EVERY:
            self._paint()
        else:
            self._paint_later()

    def _paint_later(self) -> None:
        self._stale = True
        if self._screen is not None and self._timer is None:
            self._timer = threading.Timer(EVERY, self.flush)
            self._timer.daemon = True
            self._timer.start()

    def _paint(self) -> None:
        with self._lock:  # the run and the timer may be on two threads
            self._painted, self._stale, self._timer = time.monotonic(), False, None
            if self._redraw:
                self._redraw = False
                chart = self._draw().chart
                if chart != self._picture.chart:
                    self._picture = LivePicture(chart, prefix=self._picture.prefix)
            if self._screen is not None:
                self._screen.update(self._repr_mimebundle_())


def live_bundle(picture: LivePicture, standing: Standing) -> dict[str, Any]:
    """A painted picture for a notebook; text with what is missing where it cannot be drawn."""
    text = picture.text(standing)
    try:
        svg = picture.svg(standing, "auto")
    except ChartloopError as error:  # no Graphviz, or a chart that it cannot lay out in time
        return {"text/plain": text if picture.engine == "mermaid" else f"{text}\n{error}\n"}
    return {"text/html": on_page(svg, described(picture, standing)), "text/plain": text}


_THEMES = (
    ("dark", '[data-jp-theme-light="false"] .cl-live,.vscode-dark .cl-live,.dark .cl-live'),
    ("light", '[data-jp-theme-light="true"] .cl-live,.vscode-light .cl-live,.light .cl-live'),
)
"""How notebooks name the themes that they are in: of JupyterLab, VS Code and marimo."""
_FOLLOW = "".join(f"{where}{{color-scheme:{theme}}}" for theme, where in _THEMES)


def on_page(svg: str, alt: str) -> str:
    """An adaptive SVG as an image that goes by the theme of the notebook.

    Where the style is taken out, as of a notebook that is not trusted, it goes by the system's.
    """
    return f'<div class="cl-live"><style>{_FOLLOW}</style>{image(svg, alt)}</div>'


def described(picture: LivePicture, standing: Standing) -> str:
    """A picture in words, for who does not see it: the machine, how it stands, the way it took."""
    title = one_line(picture.chart.title) or "a machine"
    entered = [state for state, times in standing.visits.items() if times]
    way = f"; it went through {', '.join(entered[:_NAMED])}" if entered else ""
    more = f" and {len(entered) - _NAMED} more" if len(entered) > _NAMED else ""
    return f"Flowchart of {title}: {standing.said}{way}{more}"


_NAMED = 12
"""States that a description names."""
