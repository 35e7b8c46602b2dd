"""A queue that ends spans on its own thread.

A processor that exports synchronously exports a span on the thread that ends it, so that a slow or
hanging exporter would block the run. Here it blocks only a daemon thread. The queue is bounded:
further spans are dropped, with one warning.

Belongs here: the thread. Never: the content of spans.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic

MOST = 4_096
"""The most waiting spans; further ones are dropped."""
IDLE = 5.0
"""The seconds without a span after which the thread ends; the next span starts a new one."""
_log = logging.getLogger(__name__)


class SpanQueue:
    """The ended spans that are not yet exported. Thread-safe."""

    def __init__(self) -> None:
        self.dropped = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self._news = threading.Condition()
        self._busy = False
        self._used = False
        self._process = 0
        """The id of the process that owns the thread, to recognise a fork."""

    def put(self, end: Callable[[], None]) -> None:
        """Queue a call of `end` on the thread."""
        with self._news:
            self._used = True
            if len(self._waiting) >= MOST and self._process == os.getpid():
                self.dropped += 1
            else:
                if self._process != os.getpid():  # the first end, or a fork, which has no thread
                    self._waiting.clear()
                    self._busy = False
                    work = threading.Thread(target=self._work, name="chartloop-spans", daemon=True)
                    work.start()
                    self._process = os.getpid()
                self._waiting.append(end)
                self._news.notify_all()
                return
        if self.dropped == 1:
            _log.warning("spans are dropped: the exporter is slower than the runs, or hangs")

    def finish(self, work: Callable[[], None], within: float) -> bool:
        """Do `work` after all waiting spans. False if that takes longer than `within` seconds.

        Nothing is done if no span was queued, or if the interpreter is shutting down and cannot
        start a thread; the SDK exports the rest.
        """
        if not self._used:
            return True
        try:
            self.put(work)
        except RuntimeError:
            return True
        return self.drain(within)

    def drain(self, within: float) -> bool:
        """Wait until the queue is empty. False if that takes longer than `within` seconds."""
        end = monotonic() + within
        with self._news:
            while self._waiting or self._busy:
                if (left := end - monotonic()) <= 0:
                    return False
                self._news.wait(left)
        return True

    def _work(self) -> None:
        while (end := self._next()) is not None:
            try:
                end()
            except BaseException:  # noqa: BLE001  an exporter may raise anything
                _log.warning("a span could not be handed over", exc_info=True)
            del end

    def _next(self) -> Callable[[], None] | None:
        """The next job; None after `IDLE` seconds without one."""
        with self._news:
            self._busy = False
            self._news.notify_all()
            while not self._waiting:
                if not self._news.wait(IDLE) and not self._waiting:
                    self._process = 0
                    return None
            self._busy = True
            return self._waiting.popleft()
