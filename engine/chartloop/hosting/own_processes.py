"""Runs that have lapsed, each in a process of its own.

A run lapses when the process ends that has claimed it (`run.schedule`). It may have ended the
process, so a worker does not drive it beside others. It starts its own command once more, with its
own name for the new process in the environment variable `APART`. That process claims one lapsed run
and drives it until it rests, ends, or has gone on for a while. If it dies, its run is to blame, and
no other is touched.

Belongs here: starting, watching and ending these processes, and what one does. Never: claims.
"""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence

APART = "CHARTLOOP_APART"
"""The variable with the name, in claims, of a process that drives one run."""
AT_ONCE = 2
"""How many processes a worker starts at the same time: each takes as much memory as itself."""
FINISHED, NOTHING = 4, 5
"""Exit codes: the run has finished its order; nothing was there to claim. 0: it was handed back."""
PAUSE = 10.0
"""Seconds until the next process after one that could not start, or found nothing."""
CLAIMS = 3.0
"""Seconds in which a new process is taken to have claimed none of the runs that wait."""
_log = logging.getLogger(__name__)


class OwnProcesses:
    """The processes that a worker has started."""

    def __init__(
        self, command: Sequence[str], name: str, ended: Callable[[bool], None], *, quiet: bool
    ) -> None:
        self.command = command
        """What starts one; empty if this program cannot be started again."""
        self._name = name
        self._ended = ended
        """Called when one has ended, with whether its run finished an order."""
        self._quiet = quiet
        """Whether stdout is not theirs: they print to stderr."""
        self._lock = threading.Lock()
        self._stops = threading.Event()
        self._threads: dict[threading.Thread, float] = {}
        """One for each process, with when it began."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._silent: dict[str, int] = {}
        """How often in a row one that had been listed was not listed any more."""

    def start(self, waiting: int) -> None:
        """Start some for the runs that are `waiting`, unless there are enough."""
        with self._lock:
            now = time.monotonic()
            new = sum(now - begun < CLAIMS for begun in self._threads.values())
            room = 0 if self._stops.is_set() else AT_ONCE - len(self._threads)
            for _ in range(min(waiting - new, room)):
                thread = threading.Thread(target=self._watch, name="chartloop-apart", daemon=True)
                self._threads[thread] = now
                thread.start()

    def _watch(self) -> None:
        """Start a process and wait for its end."""
        id, code = f"{self._name}-{secrets.token_hex(2)}", NOTHING
        try:
            process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=2 if self._quiet else None,
                env={**os.environ, APART: id}, start_new_session=True,
            )  # fmt: skip
            self._processes[id] = process
            if self._stops.is_set():
                process.terminate()
            code = process.wait()
        except OSError as error:
            _log.warning("no process could be started for a run that lapsed: %s", error)
        if code < 0 and not self._stops.is_set():
            _log.warning("process %s was ended by signal %d, with its run", id, -code)
        if code > 0 and code != FINISHED:
            self._stops.wait(PAUSE)
        with self._lock:
            self._processes.pop(id, None)
            del self._threads[threading.current_thread()]
        self._ended(code == FINISHED)

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self._processes)

    def end_silent(self, listed: Collection[str]) -> None:
        """Kill those that were `listed` in the journal as alive and are not any more.

        Others have their runs by now, and a process that hangs would keep its place for ever. One
        that just ends is gone at the second look.
        """
        for id, process in [*self._processes.items()]:
            if id in listed:
                self._silent[id] = 0
            elif id in self._silent:
                self._silent[id] += 1
                if self._silent[id] > 1:
                    process.kill()

    def stop(self) -> None:
        """Let them hand their runs back."""
        self._stops.set()
        for process in [*self._processes.values()]:
            process.terminate()

    def close(self, end: float) -> None:
        """Wait for them until a moment of the monotonic clock, and kill those that are left."""
        for thread in [*self._threads]:
            thread.join(max(0.1, end - time.monotonic()))
        for process in [*self._processes.values()]:
            process.kill()
            process.wait()


def own_command() -> tuple[str, ...]:
    """The command line with which Python was started."""
    return (sys.executable, *sys.orig_argv[1:])
