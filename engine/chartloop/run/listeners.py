"""Listeners: callbacks that receive the events of a run, however it is driven."""

from __future__ import annotations

import logging
from collections.abc import Callable

from chartloop.run.events import Event
from chartloop.run.session import Session

Callback = Callable[[Event], None]
_log = logging.getLogger(__name__)


class Listeners:
    """The listeners of one run. They receive its events; nothing that they do changes it."""

    def __init__(self) -> None:
        self._callbacks: tuple[Callback, ...] = ()

    @property
    def callbacks(self) -> tuple[Callback, ...]:
        """The callbacks, in the order in which they were added."""
        return self._callbacks

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callback) -> None:
        """Call back with each event from now on."""
        self._callbacks = (*self._callbacks, callback)

    def remove(self, callback: Callback) -> None:
        """Stop calling it back."""
        self._callbacks = tuple(c for c in self._callbacks if c is not callback)

    def attach(self, session: Session) -> None:
        """Receive the events of this session, unless another listener is in place."""
        if session.listener == self.notify:
            session.listener = None
        if self._callbacks and session.listener is None:
            session.listener = self.notify

    def notify(self, event: Event) -> None:
        """Pass an event to every callback. One that raises is removed: it must not fail the run."""
        for callback in self._callbacks:
            try:
                callback(event)
            except Exception:  # noqa: BLE001  whatever it is, it is not the run's
                _log.exception("a listener raised and is not called again: %r", callback)
                self.remove(callback)
