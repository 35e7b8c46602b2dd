"""Cancellation from outside: in this process, by a file, or by a signal of the system.

All of it is cooperative: a run checks for a request before it starts and before each action, and
ends in its own way, with a report if it has one. A running action is not interrupted.
`chartloop cancel RUN` and `Run.cancel` do the same from another process, over the journal.

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
    """The runs that a request is for: those that match all given names; without names, all."""

    agent: str = ""
    run: str = ""
    session: str = ""

    def covers(self, run: RunFacts) -> bool:
        """Whether the request is for a run."""
        theirs = (run.agent, run.id, run.session)
        return all(not mine or mine == other for mine, other in zip(self, theirs, strict=True))


class Cancellation:
    """Cancellation by any thread of this process: pass it to runs as `cancel=`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scopes: frozenset[Scope] = frozenset()

    def request(self, *, agent: str = "", run: str = "", session: str = "") -> None:
        """Request a stop of all runs that share this object, or of one agent, run or session."""
        with self._lock:
            self._scopes |= {Scope(agent, run, session)}

    def reset(self) -> None:
        """Clear all requests, for the next run."""
        with self._lock:
            self._scopes = frozenset()

    def is_requested(self, run: RunFacts | None = None) -> bool:
        """Whether this run should stop; without one, whether anything was requested."""
        scopes = self._scopes
        return bool(scopes) if run is None else any(scope.covers(run) for scope in scopes)


class FileCancellation:
    """Cancellation by a file: runs stop once it exists.

    An empty file stops every run. Otherwise each line is a JSON object with any of `agent`, `run`
    and `session`. An invalid file stops every run, because its author wanted something to stop.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def is_requested(self, run: RunFacts | None = None) -> bool:
        """Whether this run should stop; without one, whether the file exists."""
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
    """Cancellation by a signal of the system, by default SIGTERM.

    A context manager for the main thread. Inside it, the signal is a request, and the process
    continues until its runs have stopped; afterwards the previous handler is restored.
    """

    def __init__(self, *signals: signal.Signals) -> None:
        super().__init__()
        self._signals = signals or (signal.SIGTERM,)
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> SignalCancellation:
        self._before = {number: signal.signal(number, self._handle) for number in self._signals}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._scopes |= {Scope()}  # no lock: the interrupted thread may hold it
