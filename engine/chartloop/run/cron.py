"""Cron schedules: runs that are started at given times, again and again.

    put ─▶ next ─▶ due ─▶ put: the runs of the tick, their requests, and the following `next`
                          └──────────────── one transaction, if nobody was faster ────────┘

A schedule is a row of the journal with a version. Each change names the version that it has read,
so of two workers one starts the runs of a tick. Ticks are compared with the journal's clock.

Belongs here: the record, the port, that of a journal in memory, and which ticks are started.
Never: calendars (`adapters.cron`), tables, machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any, Literal, Protocol

from chartloop.core.values import Time, Value
from chartloop.run.journal_records import RunRow, WholeRun
from chartloop.run.requests import StoredRequest

Missed = Literal["last", "skip", "all"]
Overlap = Literal["skip", "allow"]
LATE = 60.0
"""Seconds after its time at which a tick that nobody took is missed."""
MOST = 100
"""The largest number of missed ticks that are started later: the newest."""


class CronSchedule(Value, frozen=True):
    """A schedule, as stored."""

    name: str
    machine: str
    machine_hash: str
    """The machine of all its runs; its text is in the journal."""
    starts: tuple[Mapping[str, Any], ...]
    """What each run of a tick is started with, as `Machine.start` takes it."""
    created: Time
    next: Time
    """The next tick; of a paused schedule, the one at which it was paused."""
    cron: str = ""
    """Five fields, in the time zone; empty for an interval."""
    timezone: str = "UTC"
    every: Time = 0.0
    """The seconds between two ticks, counted from `created`; 0 for a cron expression."""
    missed: Missed = "last"
    """Which of the ticks that no worker took in time are started: the last, none, or all."""
    overlap: Overlap = "skip"
    """Whether a tick is started while a run of the tick before has not ended."""
    plugins: Mapping[str, str] = {}
    """The plugins that its runs need."""
    paused: bool = False
    last: Time = 0.0
    """The tick that started runs last; 0 for none."""
    runs: tuple[str, ...] = ()
    """The runs of that tick."""
    note: str = ""
    """Which ticks were the last that started none, and why."""
    version: int = 0
    """Rises with each change. `chartloop schedule add` begins with a number of its own, so that no
    change is made to it that was meant for an earlier schedule of the name."""

    @property
    def tenant(self) -> str:
        """Whose runs it starts; empty for no tenant."""
        return str(self.starts[0].get("tenant") or "") if self.starts else ""

    @property
    def needs(self) -> str:
        """What a worker must have to start its runs."""
        return " ".join((self.machine_hash, *sorted(self.plugins)))


class CronSchedules(Protocol):
    """The journal's operations on cron schedules."""

    async def put_cron(
        self, before: CronSchedule | None, after: CronSchedule | None, *,
        runs: Sequence[WholeRun] = (), requests: Sequence[StoredRequest] = (),
    ) -> bool:  # fmt: skip
        """Put a schedule in the place of another one, and create runs with their requests.

        All of it in one transaction. `before` is None for a new one, which keeps its version, and
        `after` for a removed one.
        False, with nothing written, if there is another version now, or already one of its name.
        Runs that are there already are left as they are, with their requests.
        """
        ...

    async def cron_schedules(self, *, due: bool = False) -> list[CronSchedule]:
        """All schedules by name, or those that are due. Damaged ones are left out."""
        ...


def ticks_to_start(
    schedule: CronSchedule, now: float, ticks_until: Callable[[float], Iterable[float]]
) -> tuple[list[float], float | None]:
    """The ticks of a due schedule for which runs are started, the oldest first.

    And the newest of those before them, which start none. One that is at most `LATE` late is not
    missed: it is started, or with the overlap `skip` the newest of several, one run at a time.
    `ticks_until` gives the ticks up to a time, the newest first.
    """
    started, most = list[float](), 1 if schedule.overlap == "skip" else MOST
    for tick in takewhile(lambda tick: tick >= schedule.next, ticks_until(now)):
        last = schedule.missed == "last" and not started
        wanted = last or schedule.missed == "all" or now - tick <= LATE
        if not wanted or len(started) == most:
            return started[::-1], tick
        started.append(tick)
    return started[::-1], None


def why_none(schedule: CronSchedule, tick: float, now: float) -> str:
    """Why the ticks up to one that `ticks_to_start` passes over start no run."""
    if now - tick > LATE and schedule.missed != "all":
        return (
            f"no worker took the ticks within a minute, and `--missed {schedule.missed}` drops them"
        )
    if schedule.overlap == "skip":
        return "later ones were due as well, and `--overlap skip` starts one run at a time"
    return f"not more than the last {MOST} are started later"


def say_tick(at: float) -> str:
    """A tick in UTC: ``2026-11-30T09:00:00Z``."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def tick_id(schedule: CronSchedule, at: float, number: int) -> str:
    """The id of a run of a tick: the same for whoever starts it."""
    time = datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%SZ")
    which = f"-{number + 1}" if len(schedule.starts) > 1 else ""
    return f"{schedule.name}-{time}{which}"


class MemoryCrons:
    """The cron schedules of a journal in memory."""

    def __init__(self) -> None:
        self._crons: dict[str, CronSchedule] = {}

        self._changes = 0

    async def now(self) -> float:
        """The journal's time."""
        raise NotImplementedError

    async def row(self, run_id: str) -> RunRow | None:
        """The row of a run, or None."""
        raise NotImplementedError

    async def create_whole(self, runs: Sequence[WholeRun]) -> None:
        """Create runs with their content."""
        raise NotImplementedError

    async def place_request(self, request: StoredRequest) -> StoredRequest:
        """Store a request."""
        raise NotImplementedError

    async def put_cron(
        self, before: CronSchedule | None, after: CronSchedule | None, *,
        runs: Sequence[WholeRun] = (), requests: Sequence[StoredRequest] = (),
    ) -> bool:  # fmt: skip
        name = (before or after or _NONE).name
        there = self._crons.get(name)
        if (there and there.version) != (before and before.version):
            return False
        if after is None:
            self._crons.pop(name, None)
        else:
            version = after.version if before is None else before.version + 1
            self._crons[name] = after.replace(version=version)
        new = {run.row.run_id for run in runs if await self.row(run.row.run_id) is None}
        await self.create_whole([run for run in runs if run.row.run_id in new])
        for request in requests:
            if request.run_id in new:
                await self.place_request(request)
        self._changes += 1
        return True

    async def cron_schedules(self, *, due: bool = False) -> list[CronSchedule]:
        now = await self.now()
        found = sorted(self._crons.values(), key=lambda one: one.name)
        return [one for one in found if not due or (one.next <= now and not one.paused)]


_NONE = CronSchedule("", "", "", (), 0.0, 0.0)
