"""`chartloop`, in a process that ends or stops where a test wants it.

    python victim.py worker --journal ...
    python victim.py order start monday '{"machine": "errand"}' JOURNAL

A file `arm/PLACE` in the working directory holds the number of a signal. The first process of a
fleet that comes to the place takes the file away and sends the signal to itself: `kill -9` exactly
there, with no sleeping and no guessing. A process that drives one run alone looks for
`arm/apart:PLACE`. One that gives an order with a key (`VICTIM_KEY`) looks for `arm/KEY:PLACE`, and
first lets others run into what it holds there. What the processes write is noted in `trace`, after
its commit: a line may be missing there, but none is of something that was not committed.

It stands where every write of both databases passes: before its transaction, within it, after it.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chartloop.adapters.journal.opening import journal_of
from chartloop.adapters.journal.rows import Rows
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.adapters.journal.writes import (
    Acquire,
    Append,
    ClaimRuns,
    Create,
    CreateWhole,
    HandBack,
    Keep,
    PlaceRequest,
    SettleRequest,
    Sweep,
)
from chartloop.hosting import begin
from chartloop.hosting.callers import Caller
from chartloop.hosting.machines import Machines
from chartloop.hosting.runs import Runs
from chartloop.hosting.settings import Settings
from chartloop.run import lease, lease_holder

if ttl := float(os.environ.get("VICTIM_TTL", "0")):
    # `hosting.workers`, which the command line imports later, takes it from `lease`
    lease.TTL = lease_holder.TTL = ttl
if seconds := float(os.environ.get("VICTIM_CLOCK", "0")):
    host = time.time
    time.time = lambda: host() + seconds

if claim := float(os.environ.get("VICTIM_CLAIM", "0")):
    begin.CLAIM = claim

ARMED = Path("arm")
KEY = os.environ.get("VICTIM_KEY", "")
"""The key of the order that this process gives; empty for a worker."""
APART = "CHARTLOOP_APART" in os.environ
"""Whether this process drives one run alone."""
RIVALS = 2
"""The processes with the same key that a dying one waits for."""


def come(place: str) -> None:
    """Send this process the signal that waits at a place, if one does."""
    armed = ARMED / (f"{KEY}:{place}" if KEY else f"apart:{place}" if APART else place)
    try:
        number = int(armed.read_text() or signal.SIGKILL)
        armed.unlink()
    except (FileNotFoundError, ValueError):
        return
    if KEY:
        wait_for_rivals()
    note("signal", place, number)
    os.kill(os.getpid(), number)
    time.sleep(0.01)  # SIGSTOP stops the other threads a moment later


def wait_for_rivals() -> None:
    """Wait until the others with the key of this process are at it, and a moment longer."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        lines = map(json.loads, Path("trace").read_text("utf-8").splitlines())
        if len({line[-2] for line in lines if line[:2] == ["orders", KEY]}) > RIVALS:
            break
        time.sleep(0.02)
    time.sleep(0.2)


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
        case Append():
            yield from append_kinds(call)
        case HandBack():
            yield "hand_back"
        case SettleRequest(before=before):
            yield "settle" if before is None else "outcome"
        case Sweep() if value:
            yield "sweep"
        case Create() | CreateWhole():
            yield "row"
        case PlaceRequest(request=request):
            yield "order" if request.is_open else "key"
        case _:
            pass


def append_kinds(call: Append) -> Iterator[str]:
    """The kinds of an append, by its events."""
    lines = call.lines
    if any(line.type == "intent" for line in lines):
        yield "intent"
    if call.consumed:
        yield "answer"
    elif any('"expired"' in str(line.data)[:200] for line in lines):
        yield "expired"
    elif lines[0].record == 0:
        yield "begin"
    elif lines[0].record and len(lines) == 1:
        yield "record"
    if any(line.type == "in_doubt" for line in lines):
        yield "doubt"
    if any(line.record and '"in_doubt":true' in str(line.data) for line in lines):
        yield "unknown"


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
        case SettleRequest() if value and call.before is None:
            note("handed", call.key.removeprefix("start-"))
        case Keep() if call.ttl:
            note("kept", call.worker.id)
        case _:
            pass


def watch_transactions(journal: Any) -> None:
    """Stand around the transactions of a journal."""
    perform, attempt = journal.perform, journal.attempt

    noted = list[str]()

    def before(calls: Sequence[Any]) -> None:
        if KEY and not noted and any(isinstance(call, PlaceRequest) for call in calls):
            noted.append(KEY)
            note("orders", KEY)
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


def order(kind: str, key: str, body: str, where: str) -> None:
    """Start a run or try one again as a server does; print its id, the receipt, if it is new."""
    sys.path.append(".")
    pay = importlib.import_module("pay")
    journal = journal_of(where)
    settings = Settings(machines=(Path(),), journal=journal, tools=[pay.pay, pay.transfer])
    runs, given = Runs(settings, journal, Machines(settings, journal)), json.loads(body)
    if kind == "start":
        receipt, new = runs.start(given, Caller(key=key))
        told = [receipt["run"], receipt, new]
    else:
        receipt = runs.retry(given.pop("run"), given, Caller(key=key))
        told = [receipt["made"], receipt, False]
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    watch_rows()
    watch_transactions(SqliteJournal)
    if any(word.startswith("postgresql") for word in sys.argv):
        from chartloop.adapters.journal.postgres import PostgresJournal

        watch_transactions(PostgresJournal)
    try:
        if sys.argv[1] == "order":
            order(*sys.argv[2:])
        else:
            from chartloop.cli import main

            main()
    finally:
        if KEY:
            note("answered", KEY)
