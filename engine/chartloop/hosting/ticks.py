"""Ticks: the runs that cron schedules start, by whichever worker looks first.

    due ─▶ the machine of the journal, with this worker's tools ─▶ the run, in memory ─▶ `put_cron`

A run is started in memory, and written together with its request and the schedule's next tick. So
a worker that dies before has written nothing, and of two workers one has written it all.

Belongs here: starting the runs of a schedule. Never: threads, calendars.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from chartloop.adapters.cron import next_tick, ticks_until
from chartloop.adapters.model.scripted import Scripted
from chartloop.api import Machine, StartOptions
from chartloop.api.plugins import recall_plugins
from chartloop.core.errors import (
    ChartloopError,
    JournalCorrupt,
    LimitError,
    MovedError,
    SetupError,
    SpecError,
)
from chartloop.hosting.machines import Machines, needs_of
from chartloop.hosting.runs import release
from chartloop.run.cron import CronSchedule, say_tick, tick_id, ticks_to_start, why_none
from chartloop.run.journal import Journal, MemoryJournal
from chartloop.run.journal_records import WholeRun
from chartloop.run.migrate import successor_of
from chartloop.run.requests import StoredRequest, start_order
from chartloop.run.sync import by_hand

_log = logging.getLogger(__name__)


class Draft(NamedTuple):
    """A run that is not in the journal yet, and what it needs there."""

    run: WholeRun
    request: StoredRequest
    texts: list[str]
    """The texts that the journal must have before: its machine and certificate."""
    plugins: Mapping[str, str]


def draft(machine: Machine, start: Mapping[str, Any], run_id: str, at: float) -> Draft:
    """A run with its first record and the request to drive it, due at a time.

    Raises what `Machine.start` does.
    """
    kept = _Drafts()
    given = {**start, "run_id": run_id, "journal": kept, "model": Scripted([])}
    run = machine.start(**cast("StartOptions", given))  # a worker has the model, and its key
    run.advance()
    release(run)
    row = by_hand(kept.row(run.id))  # as its first record has left it
    assert row is not None
    order = start_order(row.run_id, at, needs_of(kept, row))
    events = by_hand(kept.events(row.run_id))
    return Draft(WholeRun(row, events), order, kept.texts, recall_plugins(kept, row.run_id))


class _Drafts(MemoryJournal):
    """A journal in memory that hands on the texts which are stored for good."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    async def put_blob(self, data: str) -> str:
        self.texts.append(data)
        return await super().put_blob(data)


def take_ticks(journal: Journal, machines: Machines, lacks: dict[str, str]) -> int:
    """Start the runs of all schedules that are due; returns how many.

    `lacks` gets why this process cannot start those of a schedule, by what they need.
    """
    started = 0
    for schedule in by_hand(journal.cron_schedules(due=True)):
        try:
            machine = machines.to_tick(schedule)
            started += _take(journal, schedule, machine)
            lacks[schedule.needs] = ""
        except (SetupError, SpecError, JournalCorrupt) as error:
            lacks[schedule.needs] = error.message
        except LimitError as error:  # others tick all the same
            _log.warning("schedule `%s` cannot tick: %s", schedule.name, error.message)
    return started


def _take(journal: Journal, schedule: CronSchedule, machine: Machine) -> int:
    """Start the runs of a schedule's ticks, as long as no other worker does."""
    started, now, note = 0, by_hand(journal.now()), schedule.note
    ticks, passed = ticks_to_start(schedule, now, partial(ticks_until, schedule))
    why = "" if passed is None else why_none(schedule, passed, now)
    if ticks and schedule.overlap == "skip" and (going := _going(journal, schedule)):
        passed, ticks, why = ticks[-1], [], f"run `{going}` has not ended"
    if passed is not None:
        first, last = say_tick(schedule.next), say_tick(passed)
        which = f"tick of {last}" if first == last else f"ticks from {first} to {last}"
        note = f"the {which} started no run: {why}"
    for tick in ticks or [now]:
        following = next_tick(schedule, now if tick in (now, *ticks[-1:]) else tick)
        after, drafts = schedule.replace(next=following, note=note), list[Draft]()
        try:
            drafts = _drafts(schedule, machine, tick, now) if ticks else []
        except (SetupError, SpecError):
            raise  # another worker may have what this one lacks
        except ChartloopError as error:
            note = f"the tick of {say_tick(tick)} started no run: {error.message}"
            after = after.replace(note=note)
        if drafts:
            ids = (*(each.run.row.run_id for each in drafts),)
            after = after.replace(last=tick, runs=ids)
            for text in dict.fromkeys(text for each in drafts for text in each.texts):
                by_hand(journal.put_blob(text))
        written = by_hand(
            journal.put_cron(
                schedule, after,
                runs=[each.run for each in drafts], requests=[each.request for each in drafts],
            )
        )  # fmt: skip
        if not written:
            break
        if note != schedule.note:
            _log.warning("schedule `%s`: %s", schedule.name, note)
        started += len(drafts)
        schedule = after.replace(version=schedule.version + 1)
    return started


def _drafts(schedule: CronSchedule, machine: Machine, tick: float, now: float) -> list[Draft]:
    found = list[Draft]()
    by = {"schedule": {"name": schedule.name, "tick": say_tick(tick)}}
    for number, start in enumerate(schedule.starts):
        given = {**start, "metadata": {**start.get("metadata", {}), **by}}
        found.append(draft(machine, given, tick_id(schedule, tick, number), now))
    return found


def _going(journal: Journal, schedule: CronSchedule) -> str:
    """A run of the tick before that has not ended; empty for none."""
    for run_id in schedule.runs:
        row = by_hand(journal.row(run_id))
        try:
            if row is not None and not by_hand(successor_of(journal, row)).ended:
                return run_id
        except MovedError:  # what continued it is gone
            continue
    return ""
