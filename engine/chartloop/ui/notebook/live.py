"""The live picture of a run: one display, repainted after every record.

Belongs here: when to repaint, and the MIME bundle for a notebook. Never: the picture itself
(`pictures.live`), publishing an output (`screen`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from chartloop.api import Run
from chartloop.api.drawn import DrawOptions
from chartloop.pictures.live.bundle import live_bundle
from chartloop.pictures.live.live_picture import LivePicture
from chartloop.pictures.live.progress import Standing
from chartloop.pictures.picture import Picture
from chartloop.run.events import Event, Recorded, Rewound
from chartloop.run.progress import standing_of, status_of
from chartloop.ui.notebook.screen import Screen, screen, when_cells_end

INTERVAL = 0.1
"""The fewest seconds between two repaints of a driven run. The last state is always painted."""


def live(run: Run, *, height: float | None = None, **options: Unpack[DrawOptions]) -> Live:
    """Show a picture that follows the run: one display, which every later step updates in place.

        live(run)
        run.step()

    It shows the current state, the path so far with the count of each edge, and how the run ended,
    however the run is driven. With `height` it is at most so many pixels high: of a larger picture
    it shows the part where the run is, so that it fits beside the cell that steps.

    A second call shows the same picture in its cell, too; height and drawing options are those of
    the first call, see `Machine.draw`. Outside a notebook, `print` shows it.
    """
    listeners = (getattr(callback, "__self__", None) for callback in run.listeners)
    picture = next((one for one in listeners if isinstance(one, Live)), None)
    if picture is None:
        region = options.get("region", "state")
        drawn = screen()
        picture = Live(run, lambda: run.draw(**options), region=region, on=drawn, height=height)
    return picture.show()


class Live:
    """The live picture of a run: `live(run)` opens it, and every later step updates it.

    Outside a notebook `print(live)` shows the picture in characters, and `save` writes it.
    """

    def __init__(
        self,
        run: Run,
        draw: Callable[[], Picture],
        *,
        region: str = "state",
        on: Screen | None = None,
        height: float | None = None,
    ) -> None:
        self._run = run
        self._height = height
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

    # the picture ----------------------------------------------------------------------------

    @property
    def picture(self) -> LivePicture:
        """The picture without the run's colours."""
        return self._picture

    @property
    def standing(self) -> Standing:
        """The current state and path of the run."""
        return self._standing_of(self._run.session)

    def svg(self) -> str:
        """The picture as it is now. Errors: see `pictures.dot.engine.render`."""
        return self._picture.svg(self.standing)

    def save(self, path: str | Path) -> Path:
        """Write the picture as it is now: `.svg`, `.png` or `.txt`; returns the path."""
        return self._picture.save(path, self.standing)

    def __str__(self) -> str:
        return self._picture.text(self.standing)

    def __repr__(self) -> str:
        where = "" if self._screen is not None else "; `print` shows it outside a notebook"
        return f"<Live picture of run {self._run.id}: {self.standing.caption}{where}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The view for a notebook: the picture as it is now, with text as the fallback."""
        standing = self.standing
        return live_bundle(self._picture, standing, height=self._height)

    def _ipython_display_(self) -> None:
        """Show it under the current cell, at most once: each copy would be updated."""
        if self._screen is None:
            raise NotImplementedError  # IPython takes the bundle then
        self._screen.show(self._repr_mimebundle_())

    # following the run ------------------------------------------------------------------------

    def show(self) -> Live:
        """Show it under the current cell, if there is one."""
        if self._screen is not None:
            self._screen.show(self._repr_mimebundle_())
        return self

    def close(self) -> None:
        """Stop following the run. The last picture stays."""
        self._stop()
        self._stale = False

    def flush(self) -> None:
        """Do the repaint that was postponed by `INTERVAL`, if there is one."""
        if self._stale:
            self._paint()

    def _hear(self, event: Event) -> None:
        if isinstance(event, Rewound):  # the position changed without a record
            self._redraw = True
            self._paint()
        if not isinstance(event, Recorded):
            return
        self._redraw = self._redraw or event.record.kind == "edit"  # a label may name a limit
        at_rest = event.position.status not in ("running", "debugging")
        if at_rest or time.monotonic() - self._painted >= INTERVAL:
            self._paint()
        else:
            self._stale = True
            if self._screen is not None and self._timer is None:
                self._timer = threading.Timer(INTERVAL, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def _paint(self) -> None:
        with self._lock:  # called from the run's thread and from the timer's
            self._painted, self._stale, self._timer = time.monotonic(), False, None
            if self._redraw:
                self._redraw = False
                chart = self._draw().chart
                if chart != self._picture.chart:
                    self._picture = LivePicture(chart, prefix=self._picture.prefix)
            if self._screen is not None:
                self._screen.update(self._repr_mimebundle_())
