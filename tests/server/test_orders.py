"""Orders of runs: settled by who drives the run, and by nobody else; a moved run takes none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from chartloop import load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import (
    Driven,
    Fenced,
    JournalCorrupt,
    JournalError,
    JournalLocked,
    SetupError,
)
from chartloop.hosting.callers import Caller
from chartloop.hosting.machines import Machines
from chartloop.hosting.runs import Runs
from chartloop.hosting.settings import Settings
from chartloop.hosting.workers import Workers
from chartloop.run.journal import MemoryJournal, RunRow
from chartloop.run.lease import Driver
from chartloop.run.processes import Process
from chartloop.run.schedule import LAPSES, WorkerRow
from chartloop.run.sync import by_hand
from chartloop.testing import HostClock
from tests.server.conftest import REVIEW, Serve, Served, serving, wait_for

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django

ELSEWHERE = Driver("other", "chartloop serve", Process("another-host", 1, "x", "y"))


# a worker -----------------------------------------------------------------------------------------


WAITS = """\
chartloop: 1
machine: waits
model: {name: scripted}
states:
  wait: {on: {go: done}, within: 30m, expired: done}
  done: {stop: completed}
"""


def test_a_wait_is_over_when_the_journals_clock_says_so(tmp_path: Path) -> None:
    (tmp_path / "waits.yaml").write_text(WAITS)
    host = HostClock()
    journal = MemoryJournal(now=host)
    with serving(Settings(machines=(tmp_path,), journal=journal)) as served:
        run = served.start("waits", drive="run")
        served.until(run, "paused")
        host.jump(3600)
        served.until(run, "completed")


class Failing(Runs):
    """The runs of a server, of which one cannot be driven at the moment."""

    def __init__(self, runs: Runs, happens: Callable[[], None]) -> None:
        super().__init__(runs.settings, runs.journal, runs.machines)
        self.happens = happens

    def to_drive(self, row: RunRow) -> Any:
        run = super().to_drive(row)
        self.happens()
        return run


def hosted(tmp_path: Path, happens: Callable[[MemoryJournal], None]) -> tuple[Workers, Any]:
    """The workers of a server whose run `r` has an open order, and its journal."""
    (tmp_path / "review.yaml").write_text(REVIEW)
    journal = MemoryJournal()
    settings = Settings(machines=(tmp_path,), journal=journal, components={"script": ["First."]})
    runs = Runs(settings, journal, Machines(settings, journal))
    failing = Failing(runs, lambda: happens(journal))
    runs.start({"machine": "review", "task": "x", "run_id": "r", "drive": "run"}, Caller())
    return Workers(failing, _ignore), journal


def _ignore(run_id: str, event: object) -> None:
    """Nobody listens."""


def carry_out(workers: Workers, journal: MemoryJournal) -> Any:
    """Carry the open order out once, and give its outcome."""
    (request,) = by_hand(journal.requests(open_only=True))
    can = {request.needs: True}
    (claimed,) = by_hand(journal.claim(workers.id, 1, can)).runs
    (worker, *_) = workers._workers  # pyright: ignore[reportPrivateUsage]
    asyncio.run(worker._carry_out(claimed))  # pyright: ignore[reportPrivateUsage]
    assert by_hand(journal.backlog()).held == 0
    (after,) = by_hand(journal.requests("r", key=request.key))
    return after.outcome


def raises(error: Exception) -> Callable[[MemoryJournal], None]:
    def happens(journal: MemoryJournal) -> None:
        raise error

    return happens


def taken_over(journal: MemoryJournal) -> None:
    by_hand(journal.acquire("r", ELSEWHERE))


def broken_and_taken_over(journal: MemoryJournal) -> None:
    taken_over(journal)
    raise RuntimeError("a fault of ours, while another server has the run")


PASSING: dict[str, Callable[[MemoryJournal], None]] = {
    "locked": raises(JournalLocked("another process has held it for more than 30 s")),
    "disk-full": raises(JournalError("the disk is full")),
    "too-many-files": raises(OSError(24, "Too many open files")),
    "driven": raises(Driven("another process drives it")),
    "fenced": raises(Fenced("another process has taken it over")),
    "taken-over": taken_over,
    "broken-and-taken-over": broken_and_taken_over,
}


@pytest.mark.parametrize("case", PASSING)
def test_what_passes_and_what_another_server_drives_leaves_the_order_open(
    tmp_path: Path, case: str
) -> None:
    assert carry_out(*hosted(tmp_path, PASSING[case])) is None


STAYING: dict[str, tuple[Exception, str]] = {
    "damaged": (JournalCorrupt("the log of run `r` is damaged"), "CL608"),
    "setup": (SetupError("no key"), "CL607"),
}


@pytest.mark.parametrize("case", STAYING)
def test_what_does_not_pass_is_the_outcome(tmp_path: Path, case: str) -> None:
    error, code = STAYING[case]
    assert carry_out(*hosted(tmp_path, raises(error)))["problem"]["code"] == code


def test_an_order_of_a_run_that_rests_in_between_is_settled_by_who_ends_it(tmp_path: Path) -> None:
    workers, journal = hosted(tmp_path, lambda _: None)
    assert carry_out(workers, journal) is None  # it waits for an answer
    load(REVIEW).open("r", journal=journal, script=["x"]).send("approve")
    load(REVIEW).open("r", journal=journal, script=["x"]).run()
    assert carry_out(workers, journal)["status"] == "completed"


def test_a_parked_run_is_resumed(tmp_path: Path) -> None:
    (tmp_path / "review.yaml").write_text(REVIEW)
    clock = HostClock()
    journal = MemoryJournal(now=clock)
    settings = Settings(machines=(tmp_path,), journal=journal, components={"script": ["First."]})
    runs = Runs(settings, journal, Machines(settings, journal))
    runs.start({"machine": "review", "task": "x", "run_id": "r", "drive": "run"}, Caller())
    (request,) = by_hand(journal.requests(open_only=True))
    for number in range(LAPSES + 1):
        by_hand(journal.keep(WorkerRow("dies"), ttl=30.0))
        can = {request.needs: True}
        assert by_hand(journal.claim("dies", 1, can, alone=number > 0)).runs
        clock.jump(31.0)
        by_hand(journal.sweep())
    assert by_hand(journal.claim("next", 1, {request.needs: True})).runs == []
    runs.message("resume", "r", {}, Caller())
    assert by_hand(journal.claim("next", 1, {request.needs: True}, alone=True)).runs


class Interrupting(MemoryJournal):
    """A journal in which somebody does something just before an operation."""

    operation = ""

    def interrupt(self, operation: str, happens: Callable[[], object]) -> None:
        """Let that happen before the next such operation, from another thread."""
        self.operation, self._happens = operation, happens

    async def _before(self, operation: str) -> None:
        if operation == self.operation:
            self.operation = ""
            await asyncio.to_thread(self._happens)

    async def release(self, run_id: str, driver: Driver) -> None:
        await self._before("release")
        await super().release(run_id, driver)

    async def settle_request(
        self, key: str, outcome: Mapping[str, Any], epoch: int = 0, *, before: Any = None
    ) -> bool:
        await self._before("settle_request")
        return await super().settle_request(key, outcome, epoch, before=before)


LATE: dict[str, tuple[tuple[str, ...], str, dict[str, Any], str]] = {
    "resumed": (("pause", "run"), "resume", {}, "paused at approve"),
    "cancelled": (("pause", "run"), "cancel", {}, "completed at end-completed"),
    "answered": (("step", "step"), "answer", {"event": "approve"}, "completed at done"),
}
"""What was asked of the run before, the message, and where the run is then."""


@pytest.mark.parametrize("operation", ["release", "settle_request"])
@pytest.mark.parametrize("case", LATE)
def test_a_message_that_comes_while_its_run_is_left_is_obeyed(
    tmp_path: Path, case: str, operation: str
) -> None:
    before, message, body, at = LATE[case]
    (tmp_path / "review.yaml").write_text(REVIEW)
    journal = Interrupting()
    settings = Settings(machines=(tmp_path,), journal=journal, components={"script": ["First."]})
    runs = Runs(settings, journal, Machines(settings, journal))
    workers = Workers(runs, _ignore)
    runs.start({"machine": "review", "task": "x", "run_id": "r", "drive": "none"}, Caller())
    for left, kind in zip(range(len(before) - 1, -1, -1), before, strict=True):
        if kind == "pause":
            runs.message("pause", "r", {}, Caller())
            continue
        runs.drive(kind, "r", {}, Caller())
        if not left:
            journal.interrupt(operation, lambda: runs.message(message, "r", body, Caller()))
        carry_out(workers, journal)
    assert journal.operation == "", "nothing came in between"
    if by_hand(journal.requests("r", open_only=True)):
        carry_out(workers, journal)
    row = by_hand(journal.row("r"))
    assert row is not None
    assert f"{row.status} at {row.state}" == at


@pytest.mark.parametrize(("then", "asks"), [("take", False), ("run", True)])
def test_an_answer_says_whether_a_run_that_nobody_drives_goes_on(
    serve: Serve, then: str, asks: bool
) -> None:
    served = serve(["First.", "Second."])
    run = served.start(drive="none")
    for _ in range(2):
        served.post(f"/runs/{run}/step", params={"wait": 20})
    body = {"event": "reject", "data": {"note": "Warmer."}, "then": then}
    served.post(f"/runs/{run}/answer", body)
    seen = wait_for(lambda: served.get(f"/runs/{run}")["state"] == ("approve" if asks else "draft"))
    assert seen
    served.until(run, "paused" if asks else "running")
    found = served.get(f"/runs/{run}")
    assert (found["state"], bool(found["wait"])) == ("approve" if asks else "draft", asks)


# moved runs over HTTP -----------------------------------------------------------------------------

NEW = REVIEW.replace("steps: 50", "steps: 60")
BODIES: dict[str, Any] = {
    "step": {}, "run": {}, "pause": {}, "resume": {}, "cancel": {}, "fork": {},
    "answer": {"event": "approve"}, "enqueue": {"tasks": ["x"]}, "back": {"records": 1},
    "set": {"name": "limits.steps", "value": 99},
}  # fmt: skip


def test_a_moved_run_takes_no_order_and_names_its_successor(served: Served, tmp_path: Path) -> None:
    run = served.start(task="Write.")
    served.until(run, "paused")
    journal = SqliteJournal(tmp_path / "journal.db")
    moved = load(NEW).open(run, journal=journal, changed=True, script=["First."])
    moved.run()
    for name, body in BODIES.items():
        problem = served.post(f"/runs/{run}/{name}", body, 409)
        assert (problem["code"], problem["moved_to"]) == ("CL623", moved.id), name
        assert problem.get("can", []) == [], name
    seen = served.get(f"/runs/{run}")
    assert (seen["status"], seen["question"], seen["ended"]) == ("moved", "", True)
    assert seen["explanation"].startswith(f"The run continues as run `{moved.id}`")
    assert served.get(f"/runs/{run}/result")["moved_to"] == moved.id
    (waits,) = served.get("/runs", params={"waiting": True})["runs"]
    assert waits["run"] == moved.id
    (listed,) = served.get("/runs", params={"status": "moved"})["runs"]
    assert (listed["run"], listed["moved_to"]) == (run, moved.id)
    requests = wait_for(lambda: [r for r in by_hand(journal.requests(run)) if not r.is_open])
    assert requests[0].outcome["moved_to"] == moved.id  # what was ordered before is over
    with served.client.stream("GET", f"/runs/{run}/events") as stream:
        events = [line for line in stream.iter_lines() if line.startswith("event: ")]
    assert events[-2:] == ["event: moved", "event: end"]
    served.post(f"/runs/{moved.id}/answer", {"event": "approve"})
    served.until(moved.id, "completed")
    by_hand(journal.close())
