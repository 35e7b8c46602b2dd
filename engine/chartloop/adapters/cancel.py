"""Requests from outside that a run stop: in this process, by a file, by a signal of the system.

All are cooperative: a run looks at them before it starts and before each action, and ends by
its own way out, with a report if it has one. What an action is doing is not interrupted.
From another process, over the journal, `chartloop cancel RUN` and `Run.cancel` do the same.

Source: 002 "Cooperative Cancellation".
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, cast

from chartloop.core.facts import RunFacts


class Scope(NamedTuple):
    """Which runs are meant: those that have all that is named. Nothing named: every run."""

    agent: str = ""
    run: str = ""
    session: str = ""

    def covers(self, run: RunFacts) -> bool:
        """Whether a run is meant."""
        theirs = (run.agent, run.id, run.session)
        return all(not mine or mine == other for mine, other in zip(self, theirs, strict=True))


class Cancellation:
    """A request made in this process, by any thread: give it to runs as `cancel=`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scopes: frozenset[Scope] = frozenset()

    def request(self, *, agent: str = "", run: str = "", session: str = "") -> None:
        """Ask that runs stop: all that share this object, or those of one agent, run, session."""
        with self._lock:
            self._scopes |= {Scope(agent, run, session)}

    def reset(self) -> None:
        """Forget every request, for the next run."""
        with self._lock:
            self._scopes = frozenset()

    def is_requested(self, run: RunFacts | None = None) -> bool:
        """Whether this run should stop; without one, whether anything was requested."""
        scopes = self._scopes
        return bool(scopes) if run is None else any(scope.covers(run) for scope in scopes)


class FileCancellation:
    """Runs stop once a file is there.

    An empty file means every run. Else it holds one JSON object a line, with any of `agent`,
    `run` and `session`. A file that cannot be read that way means every run: whoever wrote it
    wanted something to stop.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def is_requested(self, run: RunFacts | None = None) -> bool:
        """Whether this run should stop; without one, whether the file is there."""
        try:
            text = self.path.read_text("utf-8", "replace")
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return run is None or any(scope.covers(run) for scope in _scopes(text))


def _scopes(text: str) -> Iterable[Scope]:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return [Scope()]
    try:
        return [Scope(**cast("dict[str, Any]", json.loads(line))) for line in lines]
    except (TypeError, ValueError, RecursionError):
        return [Scope()]


class SignalCancellation(Cancellation):
    """Runs stop once the process is sent a signal, by default SIGTERM.

    Used as a context manager in the main thread: inside it the signal is a request, and the
    process continues until its runs have stopped; afterwards the signal means what it did before.
    """

    def __init__(self, *signals: signal.Signals) -> None:
        super().__init__()
        self._signals = signals or (signal.SIGTERM,)
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> SignalCancellation:
        self._before = {number: signal.signal(number, self._caught) for number in self._signals}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _caught(self, number: int, frame: FrameType | None) -> None:
        self._scopes |= {Scope()}  # no lock: the thread that was interrupted may hold it
