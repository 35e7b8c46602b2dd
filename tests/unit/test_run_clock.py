"""The clock of a run is its journal's: taken over when it is acquired, monotonic from then on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import chartloop
from chartloop import load
from chartloop.adapters.clock import SystemClock
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import Driven
from chartloop.run.journal import Journal, MemoryJournal
from chartloop.run.lease import Driver
from chartloop.run.processes import Process
from chartloop.run.sync import by_hand
from chartloop.testing import HostClock

FAR = Driver("far", "chartloop run", Process("another-box", 7, "elsewhere", "1"))
HOUR = 3600.0
RESTS = """
chartloop: 1
machine: rests
model: {name: scripted}
states:
  rest: {do: back_off, with: {base: 1s}, next: done}
  done: {stop: completed}
"""
OPEN: dict[str, Callable[[Path, HostClock], Journal]] = {
    "memory": lambda _, host: MemoryJournal(now=host),
    "sqlite": lambda folder, host: SqliteJournal(folder / "j.db", now=host),
}


@pytest.fixture
def host() -> HostClock:
    return HostClock()


@pytest.fixture(params=OPEN)
def journal(request: pytest.FixtureRequest, tmp_path: Path, host: HostClock) -> Iterator[Journal]:
    made = OPEN[request.param](tmp_path, host)
    yield made
    by_hand(made.close())


class Jumping(SystemClock):
    """The clock of a run whose host is set while the run waits for the first time."""

    def __init__(self, jump: Callable[[], object]) -> None:
        super().__init__()
        self._jump: Callable[[], object] | None = jump

    async def sleep(self, seconds: float) -> None:
        if self._jump is not None:
            self._jump()
            self._jump = None
        await super().sleep(seconds)


@pytest.mark.parametrize("jump", [HOUR, -HOUR], ids=["on", "back"])
def test_a_host_that_is_set_moves_neither_a_wait_nor_a_lease(
    tmp_path: Path, host: HostClock, jump: float
) -> None:
    path = tmp_path / "j.db"
    journal, other = SqliteJournal(path, now=host), SqliteJournal(path, now=host)
    refused: list[str] = []

    def set_host() -> None:
        host.jump(jump)
        before = by_hand(other.lease("r"))
        end = time.monotonic() + 30
        while by_hand(other.lease("r")) == before and time.monotonic() < end:
            time.sleep(0.01)  # until the lease was renewed, by the clock that was set
        with pytest.raises(Driven) as no:
            by_hand(other.acquire("r", FAR))
        refused.append(no.value.run_id)

    clock = Jumping(set_host)
    run = load(RESTS).start("", journal=journal, run_id="r", clock=clock)
    run.session.holder.ttl = 0.6
    began = time.monotonic()
    asyncio.run(asyncio.wait_for(run.arun(), 60))
    took = time.monotonic() - began
    assert run.result.reason == "completed"
    assert refused == ["r"]
    assert took >= 1
    times = [record.input.at for record in run.records]
    assert times == sorted(times)
    assert times[-1] - times[0] <= took + 1  # by the host it took an hour
    for each in (journal, other):
        by_hand(each.close())


@pytest.mark.parametrize("ahead", [2 * HOUR, -2 * HOUR], ids=["ahead", "behind"])
def test_times_are_the_journals(journal: Journal, host: HostClock, ahead: float) -> None:
    host.jump(ahead)
    began = host()
    run = load(RESTS).start("", journal=journal, run_id="r")
    run.advance()
    run.advance()
    row = by_hand(journal.row("r"))
    assert row is not None
    times = [row.created, *(t for r in run.records for t in (r.input.started, r.input.at))]
    assert all(began - 1 <= at <= host() + 1 for at in times)
    assert row.wake_at is not None
    assert began <= row.wake_at <= host() + 2
    opened = load(RESTS).open("r", journal=journal)
    assert began - 1 <= opened.session.ports.clock.now() <= host() + 1


def test_a_run_that_rested_goes_by_the_clock_that_was_set_meanwhile(
    journal: Journal, host: HostClock
) -> None:
    long = load(RESTS.replace("1s", "30m"))
    run = long.start("", journal=journal, run_id="r")
    run.advance()
    run.advance()
    host.jump(HOUR)  # else it would wait for half an hour
    again = long.open("r", journal=journal)
    assert again.run().reason == "completed"


READERS = {"adapters/clock.py", "testing/clock.py", "testing/chat_wire.py", "cli/run_factory.py"}
"""Who may ask this computer for the time: clocks, and what makes a simulated one."""
BESIDE = {"adapters/model/waits.py", "cli/commands/upgrade.py", "adapters/journal/sqlite.py"}
"""A date of a provider's header; a judgement about files, which no journal's clock goes with; when
a file was last written, which is this computer's time."""


def test_no_other_time_is_compared_with_this_computers() -> None:
    engine = Path(chartloop.__file__).parent
    found = {
        path.relative_to(engine).as_posix()
        for path in engine.rglob("*.py")
        if "time.time()" in path.read_text("utf-8")
    }
    assert found == READERS | BESIDE
