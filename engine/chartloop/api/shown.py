"""What a run shows: its picture as it stands, and the one that goes on with it.

Belongs here: the faces of `Run` that draw. Never: driving it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar, Unpack, get_args

from chartloop.api.drawing import DrawOptions
from chartloop.core.errors import refuse_unknown
from chartloop.notebook.live import Live, live_bundle
from chartloop.notebook.screen import screen
from chartloop.run.events import Event
from chartloop.run.progress import meters_of, standing_of, status_of
from chartloop.run.session import Session
from chartloop.view.live.picture import LivePicture
from chartloop.view.of_machine import OfMachine
from chartloop.view.picture import Picture
from chartloop.view.report.picture import Look, RunPicture

M = TypeVar("M", bound=OfMachine)


class Shown(ABC, Generic[M]):
    """The faces of `Run` that draw."""

    machine: M
    session: Session
    _live: Live | None = None
    _painter: LivePicture | None = None

    @property
    def id(self) -> str:
        """The run's id."""
        return self.session.run_id

    @abstractmethod
    def listen(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """See `Run.listen`."""

    def draw(
        self, *, look: Look = "plain", **shown: Unpack[DrawOptions]
    ) -> Picture:  # fmt: skip
        """The machine's picture with this run's limits, and what `look` adds.

        What is shown, and how, is said as for `Machine.draw`: ``direction="lr"``.

        `plain` adds nothing. `live` shows where the run is and the way that it took, with counts.
        `report` also shows what every decision and rule reads now, against its bound.
        """
        refuse_unknown("look", look, get_args(Look))
        session = self.session
        picture = self.machine.draw(**shown, facts=session.position.facts)
        if look == "plain":
            return picture
        if shown.get("region") == "status":
            return RunPicture(picture.chart, status_of(session))
        meters = meters_of(session) if look == "report" else None
        return RunPicture(picture.chart, standing_of(session), meters=meters)

    def live(self, **shown: Unpack[DrawOptions]) -> Live:
        """A picture that follows the run: one display, which every later step updates in place.

        It shows the state that the run is in, the way that it took and how often, and at the end
        how it ended, however the run is driven. Asked for again it is shown in that cell, too.
        What it draws is said at first; see `Machine.draw`. Outside a notebook `print` shows it.
        """
        if self._live is None:
            draw = lambda: self.draw(**shown)  # noqa: E731
            self._live = Live(self, draw, region=shown.get("region", "state"), on=screen())
        return self._live.show()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """What a notebook shows: the picture of the run as it stands."""
        chart = self.draw().chart
        if self._painter is None or self._painter.chart != chart:
            self._painter = LivePicture(chart)
        standing = standing_of(self.session)
        bundle = live_bundle(self._painter, standing)
        if "text/html" in bundle:
            return bundle | {"image/svg+xml": self._painter.svg(standing), "text/plain": repr(self)}
        return bundle
