"""`chartloop`, in a process that ends or stops where a test wants it.

    python victim.py worker --journal ...

A file `arm/PLACE` in the working directory holds the number of a signal. The first process of a
fleet that comes to the place takes the file away and sends the signal to itself: `kill -9` exactly
there, with no sleeping and no guessing. What the processes write is noted in `trace`, after its
commit: a line may be missing there, but none is of something that was not committed.

It stands where every write of both databases passes: before its transaction, within it, after it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chartloop.adapters.journal.rows import Rows
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.adapters.journal.writes import (
    Acquire,
    Append,
    ClaimRuns,
    HandBack,
    Keep,
    SettleRequest,
    Sweep,
)
from chartloop.run import lease, lease_holder

if ttl := float(os.environ.get("VICTIM_TTL", "0")):
    # `hosting.workers`, which the command line imports later, takes it from `lease`
    lease.TTL = lease_holder.TTL = ttl
if seconds := float(os.environ.get("VICTIM_CLOCK", "0")):
    host = time.time
    time.time = lambda: host() + seconds

ARMED = Path("arm")


def come(place: str) -> None:
    """Send this process the signal that waits at a place, if one does."""
    armed = ARMED / place
    try:
        number = int(armed.read_text() or signal.SIGKILL)
        armed.unlink()
    except (FileNotFoundError, ValueError):
        return
    note("signal", place, number)
    os.kill(os.getpid(), number)
    time.sleep(0.01)  # SIGSTOP stops the other threads a moment later


def note(*what: Any) -> None:
    """Add a line to the trace."""
    line = json.dumps([*what, os.getpid(), time.monotonic()]) + "\n"
    file = os.open("trace", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(file, line.encode())
    os.close(file)


def kinds(call: Any, value: Any) -> Iterator[str]:
    """What a write is for a test. `value` is None before it is done."""
    match call:
        case ClaimRuns() if value is not None and value.runs:
            yield "claim"
        case Acquire():
            yield "acquire"
        case Append(lines=lines, consumed=consumed):
            if any(line.type == "intent" for line in lines):
                yield "intent"
            if consumed:
                yield "answer"
            elif any('"expired"' in str(line.data)[:200] for line in lines):
                yield "expired"
            elif lines[0].record and len(lines) == 1:
                yield "record"
        case HandBack():
            yield "hand_back"
        case SettleRequest():
            yield "settle"
        case Sweep() if value:
            yield "sweep"
        case _:
            pass


def trace(call: Any, value: Any) -> None:
    """Note what was committed."""
    match call:
        case ClaimRuns():
            for run in value.runs:
                note("claimed", run.request.run_id)
        case Acquire():
            note("acquired", call.run_id, value[0].epoch)
        case Append():
            note("wrote", call.run_id, call.head, call.epoch, len(call.lines))
        case HandBack():
            note("handed", call.run.request.run_id)
        case SettleRequest() if value:
            note("handed", call.key.removeprefix("start-"))
        case Keep() if call.ttl:
            note("kept", call.worker.id)
        case _:
            pass


def watch_transactions(journal: Any) -> None:
    """Stand around the transactions of a journal."""
    perform, attempt = journal.perform, journal.attempt

    def before(calls: Sequence[Any]) -> None:
        for call in calls:
            for kind in kinds(call, None):
                come(f"before-{kind}")

    def after(calls: Sequence[Any], outcomes: Sequence[Any]) -> None:
        done = [
            (call, one.value) for call, one in zip(calls, outcomes, strict=True) if not one.error
        ]
        for call, value in done:  # all of them: the signal comes after the whole transaction
            trace(call, value)
        for call, value in done:
            for kind in kinds(call, value):
                come(f"after-{kind}")

    def watched(self: Any, calls: Sequence[Any]) -> Any:
        before(calls)
        outcomes = perform(self, calls)
        after(calls, outcomes)
        return outcomes

    def attempted(self: Any, call: Any) -> Any:
        before((call,))
        done = attempt(self, call)
        if done is not None:
            after((call,), (done,))
        return done

    journal.perform, journal.attempt = watched, attempted


def watch_rows() -> None:
    """Stand inside of the transactions of all journals."""
    perform = Rows.perform

    def watched(self: Rows, write: Any) -> Any:
        value = perform(self, write)
        for kind in kinds(write, value if value is not None else ()):
            come(f"within-{kind}")
        return value

    Rows.perform = watched


if __name__ == "__main__":
    watch_rows()
    watch_transactions(SqliteJournal)
    if any(word.startswith("postgresql") for word in sys.argv):
        from chartloop.adapters.journal.postgres import PostgresJournal

        watch_transactions(PostgresJournal)
    from chartloop.cli import main

    main()
