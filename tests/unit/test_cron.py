"""Cron schedules: when they tick, which ticks are started, and by whom."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import NamedTuple

import pytest

from chartloop.adapters.cron import next_tick, ticks_until
from chartloop.core.errors import LimitError
from chartloop.run.cron import (
    LATE,
    MOST,
    CronSchedule,
    Missed,
    say_tick,
    tick_id,
    ticks_to_start,
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
    """What is missed, and the minutes that are started."""

    id: str
    missed: Missed
    late: float
    """The seconds from the first due tick, at minute 10, to the worker's look."""
    starts: list[int]


CASES = [
    Case("in-time", "last", 0.5, [10]),
    Case("the-last-of-what-is-missed", "last", 601, [20]),
    Case("a-little-late-is-not-missed", "skip", LATE - 1, [10]),
    Case("none-of-what-is-missed-but-one-in-time", "skip", 601, [20]),
    Case("all", "all", 121, [10, 11, 12]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_ticks_that_are_started(case: Case) -> None:
    schedule = EVERY.replace(next=600.0, missed=case.missed)
    found = ticks_to_start(schedule, 600.0 + case.late, minutes)
    assert found == [60.0 * minute for minute in case.starts]


def test_an_old_tick_is_skipped_and_of_all_the_newest_are_started() -> None:
    hourly = EVERY.replace(next=600.0, missed="skip")
    assert ticks_to_start(hourly, 900.0, lambda _: iter([600.0, -3000.0])) == []
    year = ticks_to_start(EVERY.replace(next=600.0, missed="all"), 4e7, minutes)
    assert (len(year), year[-1]) == (MOST, 4e7 // 60 * 60)
    assert year == sorted(year)


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
