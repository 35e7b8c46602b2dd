"""Cron schedules: when they tick, which ticks are started, and by whom."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import NamedTuple

import pytest

from chartloop.adapters.cron import next_tick, ticks_until
from chartloop.core.errors import LimitError
from chartloop.run.cron import (
    LATE,
    CronSchedule,
    Missed,
    Overlap,
    say_tick,
    tick_id,
    ticks_to_start,
    why_none,
)

CRONSIM = pytest.mark.extra(  # noqa: S610 - no Django
    "cronsim", install='pip install -e ".[cron]"'
)
EVERY = CronSchedule("every", "m", "h", ({},), 1_000.0, 1_060.0, every=60.0)


def minutes(at: float) -> Iterator[float]:
    """The ticks of each minute up to a time, the newest first."""
    newest = at // 60 * 60
    return (newest - 60 * number for number in count())


class Case(NamedTuple):
    """How late the first of the ticks of each minute is, and which of them are started."""

    late: float
    """The seconds from the first due tick, at minute 10, to the worker's look."""
    missed: Missed
    overlap: Overlap
    starts: list[int]
    passed: int | None = None
    """The newest that starts no run."""
    why: str = ""


MISSED, ONE = "no worker took the ticks within a minute", "one run at a time"
CASES = {
    # one tick, in time
    "one-last-skip": Case(0.5, "last", "skip", [10]),
    "one-last-allow": Case(0.5, "last", "allow", [10]),
    "one-none-skip": Case(0.5, "skip", "skip", [10]),
    "one-none-allow": Case(0.5, "skip", "allow", [10]),
    "one-all-allow": Case(0.5, "all", "allow", [10]),
    # one tick, as late as it may be: the next is not due yet
    "late-last-skip": Case(LATE - 1, "last", "skip", [10]),
    "late-none-allow": Case(LATE - 1, "skip", "allow", [10]),
    # two, both of which are late by no more than a minute
    "two-last-skip": Case(LATE, "last", "skip", [11], 10, ONE),
    "two-last-allow": Case(LATE, "last", "allow", [10, 11]),
    "two-none-skip": Case(LATE, "skip", "skip", [11], 10, ONE),
    "two-none-allow": Case(LATE, "skip", "allow", [10, 11]),
    "two-all-allow": Case(LATE, "all", "allow", [10, 11]),
    # many, of which one is in time
    "many-last-skip": Case(601, "last", "skip", [20], 19, MISSED),
    "many-last-allow": Case(601, "last", "allow", [20], 19, MISSED),
    "many-none-skip": Case(601, "skip", "skip", [20], 19, MISSED),
    "many-none-allow": Case(601, "skip", "allow", [20], 19, MISSED),
    "many-all-allow": Case(601, "all", "allow", [*range(10, 21)]),
    "too-many-all-allow": Case(60.0 * 250, "all", "allow", [*range(161, 261)], 160, "the last 100"),
}  # fmt: skip
"""`--missed all` needs `--overlap allow`: `schedule add` refuses it with `skip`."""


@pytest.mark.parametrize("name", CASES)
def test_each_tick_is_started_or_passed_over_for_a_reason(name: str) -> None:
    case = CASES[name]
    schedule = EVERY.replace(next=600.0, missed=case.missed, overlap=case.overlap)
    now = 600.0 + case.late
    started, passed = ticks_to_start(schedule, now, minutes)
    assert started == [60.0 * minute for minute in case.starts]
    assert passed == (None if case.passed is None else 60.0 * case.passed)
    due = list(range(600, int(now) + 1, 60))
    assert due == [*range(600, int(passed or 540) + 1, 60), *map(int, started)]
    assert case.why in ("" if passed is None else why_none(schedule, passed, now))


@pytest.mark.parametrize(("missed", "starts"), [("last", True), ("skip", False), ("all", True)])
@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_an_hourly_tick_that_is_missed(missed: Missed, overlap: Overlap, *, starts: bool) -> None:
    hourly = EVERY.replace(next=600.0, missed=missed, overlap=overlap)
    found = ticks_to_start(hourly, 900.0, lambda _: iter([600.0, -3000.0]))
    assert found == (([600.0], None) if starts else ([], 600.0))


def test_seconds_that_a_worker_was_away_are_made_up_for_one_by_one() -> None:
    each = EVERY.replace(every=3.0, created=0.0, next=600.0, overlap="allow")
    started, passed = ticks_to_start(each, 613.0, partial(ticks_until, each))
    assert (started, passed) == ([600.0, 603.0, 606.0, 609.0, 612.0], None)


def test_an_interval_is_counted_from_the_start() -> None:
    for every in (1.0, 7.0, 60.0):
        schedule, at, seen = EVERY.replace(every=every), EVERY.created, list[float]()
        for _ in range(200):
            at = next_tick(schedule, at)
            seen.append(at)
            assert next(ticks_until(schedule, at)) == at
            assert next_tick(schedule, at - 0.25) == at
        assert seen == [EVERY.created + every * n for n in range(1, 201)]
        assert [*ticks_until(schedule, seen[9] + 0.5)] == seen[9::-1]


def test_the_id_of_a_run_names_its_tick() -> None:
    at = datetime(2026, 11, 30, 9, tzinfo=UTC).timestamp()
    assert (tick_id(EVERY, at, 0), say_tick(at)) == (
        "every-20261130T090000Z",
        "2026-11-30T09:00:00Z",
    )
    assert tick_id(EVERY.replace(starts=({}, {})), at, 1) == "every-20261130T090000Z-2"


CLOCKS = {
    "set-forward-it-comes-at-the-next-time": (
        "30 2 * * *", "2026-03-28T12:00", ["03-29T01:00Z", "03-30T00:30Z"]
    ),
    "set-back-it-comes-once": (
        "30 2 * * *", "2026-10-24T12:00", ["10-25T00:30Z", "10-26T01:30Z"]
    ),
    "set-back-each-hour-comes": (
        "0 * * * *", "2026-10-25T00:30", ["10-24T23:00Z", "10-25T00:00Z", "10-25T01:00Z"]
    ),
    "working-days": ("0 9 * * MON-FRI", "2026-11-27T12:00", ["11-30T08:00Z", "12-01T08:00Z"]),
}  # fmt: skip


@CRONSIM
@pytest.mark.parametrize("case", CLOCKS)
def test_the_calendar_of_a_time_zone(case: str) -> None:
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    cron, start, ticks = CLOCKS[case]
    schedule = EVERY.replace(every=0.0, cron=cron, timezone="Europe/Berlin")
    at = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    for tick in ticks:
        at = next_tick(schedule, at)
        assert datetime.fromtimestamp(at, UTC).strftime("%m-%dT%H:%MZ") == tick
        assert next(ticks_until(schedule, at)) == at  # a tick is up to itself
        assert next(ticks_until(schedule, at + 0.5)) == at


WRONG = {
    "61 * * * *": "`61` is no minute",
    "0 9 * * 1-8": "`1-8` is no day-of-week",
    "0 0 31 2 *": "`31` is no day-of-month",
    "* * *": "it has 3 fields, not 5",
    "* * * * * *": "it has 6 fields, not 5",
    "@daily": "it has 1 fields, not 5",
}


@CRONSIM
@pytest.mark.parametrize("cron", WRONG)
def test_a_wrong_expression_is_named_with_its_field(cron: str) -> None:
    with pytest.raises(LimitError) as wrong:
        next_tick(EVERY.replace(every=0.0, cron=cron), 0.0)
    assert WRONG[cron] in wrong.value.message


@CRONSIM
@pytest.mark.parametrize("zone", ["Mars", "../etc/passwd", "", "\0", "x" * 300])
def test_a_wrong_time_zone_is_named(zone: str) -> None:
    with pytest.raises(LimitError, match="there is no time zone"):
        next_tick(EVERY.replace(every=0.0, cron="0 9 * * *", timezone=zone), 0.0)
