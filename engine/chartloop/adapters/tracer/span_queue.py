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
_log = logging.getLogger(__name__)


class SpanQueue:
    """Spans that have ended and were not handed over yet. Safe from any thread."""

    def __init__(self) -> None:
        self.dropped = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self._news = threading.Condition()
        self._busy = False
        self._process = 0

    def put(self, end: Callable[[], None]) -> None:
        """Call `end` soon, on the thread."""
        with self._news:
            if self._process != os.getpid():  # the first one, or in a fork of the process
                self._process, self._busy = os.getpid(), False
                self._waiting.clear()
                threading.Thread(target=self._work, name="chartloop-spans", daemon=True).start()
            if len(self._waiting) < MOST:
                self._waiting.append(end)
                self._news.notify_all()
                return
            self.dropped += 1
        if self.dropped == 1:
            _log.warning("spans are dropped: the exporter is slower than the runs, or hangs")

    def finish(self, work: Callable[[], None], within: float) -> bool:
        """Do `work` behind all that waits. False where that takes longer, in seconds.

        A process that has handed nothing over has nothing to finish.
        """
        if self._process != os.getpid():
            return True
        self.put(work)
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
        while True:
            with self._news:
                self._busy = False
                self._news.notify_all()
                while not self._waiting:
                    self._news.wait()
                end, self._busy = self._waiting.popleft(), True
            try:
                end()
            except Exception:
                _log.warning("a span could not be handed over", exc_info=True)
            del end
