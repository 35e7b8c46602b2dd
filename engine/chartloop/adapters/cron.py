"""The calendar of a cron schedule: the times at which it ticks, in its time zone.

Cronsim counts as Debian's cron does where clocks are set: a time that does not exist is taken at
the next one that does, and one that comes twice is taken once, unless the hour is ``*``.

Belongs here: times. Never: which of them are started (`run.cron`), the journal.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from importlib.util import find_spec
from itertools import count, takewhile
from zoneinfo import ZoneInfo

from chartloop.core.errors import LimitError, SetupError
from chartloop.extras import install
from chartloop.run.cron import CronSchedule

FIELDS = ("minute", "hour", "day-of-month", "month", "day-of-week")


def next_tick(schedule: CronSchedule, after: float) -> float:
    """The first tick after a time.

    Raises:
        LimitError: the cron expression or the time zone is wrong, or there is no such time.
        SetupError: the extra `cron` is not installed.
    """
    return next(_ticks(schedule, after, reverse=False))


def ticks_until(schedule: CronSchedule, at: float) -> Iterator[float]:
    """The ticks up to a time, the newest first."""
    return _ticks(schedule, at, reverse=True)


def _ticks(schedule: CronSchedule, at: float, *, reverse: bool) -> Iterator[float]:
    """The ticks after a time, or those up to it backwards."""
    if schedule.every:
        first, every = schedule.created, schedule.every
        done = round((at - first) / every)
        near = (first + n * every for n in (count(done + 1, -1) if reverse else count(done - 1)))
        past = (tick for tick in near if (tick <= at if reverse else tick > at))
        return takewhile(lambda tick: tick > first, past) if reverse else past
    if find_spec("cronsim") is None:
        raise SetupError("cron expressions need the library cronsim", hint=install("cron"))
    from cronsim import CronSim, CronSimError  # noqa: PLC0415  an extra

    zone = _zone(schedule.timezone)
    # a tick at `at` itself is up to it: cronsim starts beyond the time that it is given
    start = datetime.fromtimestamp(at + reverse, zone)
    if len(fields := schedule.cron.split()) != len(FIELDS):
        raise _wrong(schedule.cron, f"it has {len(fields)} fields, not {len(FIELDS)}")
    try:
        found = CronSim(schedule.cron, start, reverse=reverse)
    except CronSimError as error:
        name = str(error).removeprefix("Bad ")
        which = fields[FIELDS.index(name)] if name in FIELDS else schedule.cron
        raise _wrong(schedule.cron, f"`{which}` is no {name}") from None
    return (tick.timestamp() for tick in found)


def local_time(schedule: CronSchedule, at: float) -> str:
    """A tick in the time zone of its schedule, for people."""
    return datetime.fromtimestamp(at, _zone(schedule.timezone)).strftime("%Y-%m-%d %H:%M:%S %Z")


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise LimitError(
            f"there is no time zone `{name[:80]}`",
            hint="a zone has a name such as Europe/Berlin; UTC is the default. If this system has"
            f" no zones: {install('cron')}",
        ) from None


def _wrong(text: str, why: str) -> LimitError:
    return LimitError(
        f"`{text[:80]}` is not a cron expression: {why}",
        hint=f"its fields are {', '.join(FIELDS)}: `0 9 * * 1-5` is at nine on working days",
    )
