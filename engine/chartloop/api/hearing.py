"""Who listens to a run, however it is driven."""

from __future__ import annotations

import logging
from collections.abc import Callable

from chartloop.run.events import Event
from chartloop.run.session import Session

Callback = Callable[[Event], None]
_log = logging.getLogger(__name__)


class Heard:
    """The listeners of one run. They hear of the run; nothing that they do changes it."""

    def __init__(self) -> None:
        self._callbacks: tuple[Callback, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callback) -> None:
        """Call back with each event from now on."""
        self._callbacks = (*self._callbacks, callback)

    def drop(self, callback: Callback) -> None:
        """Call it back no more."""
        self._callbacks = tuple(c for c in self._callbacks if c is not callback)

    def at(self, session: Session) -> None:
        """Hear of this session, unless nobody listens or somebody else does already."""
        if session.listener == self.tell:
            session.listener = None
        if self._callbacks and session.listener is None:
            session.listener = self.tell

    def tell(self, event: Event) -> None:
        """Tell everybody. One who fails is told no more: it must not fail the run."""
        for callback in self._callbacks:
            try:
                callback(event)
            except Exception:  # noqa: BLE001  whatever it is, it is not the run's
                _log.exception("a listener failed and is told no more: %r", callback)
                self.drop(callback)
