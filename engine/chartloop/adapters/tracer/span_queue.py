"""Ends spans on a thread of its own.

A span that ends is handed to the exporter by whoever ends it, where a program uses a processor
that exports at once. An exporter that is slow, or hangs, would then hold the run. Here it holds
one daemon thread: what waits is bounded, and what is too much is dropped and said once.

Belongs here: the thread. Never: what a span holds.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic

MOST = 4_096
"""Ended spans that wait at most: the rest are dropped."""
IDLE = 5.0
"""Seconds without a span after which the thread ends; the next span starts another."""
_log = logging.getLogger(__name__)


class SpanQueue:
    """Spans that have ended and were not handed over yet. Safe from any thread."""

    def __init__(self) -> None:
        self.dropped = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self._news = threading.Condition()
        self._busy = False
        self._used = False
        self._process = 0
        """The process that has the thread: not a fork of it."""

    def put(self, end: Callable[[], None]) -> None:
        """Call `end` soon, on the thread."""
        with self._news:
            self._used = True
            if len(self._waiting) >= MOST and self._process == os.getpid():
                self.dropped += 1
            else:
                self._start()
                self._waiting.append(end)
                self._news.notify_all()
                return
        if self.dropped == 1:
            _log.warning("spans are dropped: the exporter is slower than the runs, or hangs")

    def _start(self) -> None:
        if self._process != os.getpid():
            self._waiting.clear()
            self._busy = False
            threading.Thread(target=self._work, name="chartloop-spans", daemon=True).start()
            self._process = os.getpid()

    def finish(self, work: Callable[[], None], within: float) -> bool:
        """Do `work` behind all that waits. False where that takes longer, in seconds.

        A process that has handed nothing over has nothing to finish; one that is being torn down
        may start no thread, and what is left is up to its SDK.
        """
        if not self._used:
            return True
        try:
            self.put(work)
        except RuntimeError:
            return True
        return self.drain(within)

    def drain(self, within: float) -> bool:
        """Wait until all was handed over. False where that takes longer, in seconds."""
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
        """The next job; None if there was none for a while."""
        with self._news:
            self._busy = False
            self._news.notify_all()
            while not self._waiting:
                if not self._news.wait(IDLE) and not self._waiting:
                    self._process = 0
                    return None
            self._busy = True
            return self._waiting.popleft()
