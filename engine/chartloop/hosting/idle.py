"""When a worker that ends once it is idle has nothing left to do, and what it leaves.

Due runs, and due ticks of schedules, are work. A run that goes on by itself within `NEAR` seconds
is waited for; what rests for longer is left, and named with its time. A tick that cannot be taken,
and a run that another process drives, are left if nothing has been done for as long.

Belongs here: reading what is left, and the words for it. Never: driving, exit codes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from chartloop.core.errors import ChartloopError
from chartloop.core.position import RETRY
from chartloop.core.units import say_count
from chartloop.hosting.workers import Workers
from chartloop.run.cron import CronSchedule
from chartloop.run.fleet_calls import FLEET_WAIT, standing_against
from chartloop.run.lease import say_time
from chartloop.run.schedule import Resting
from chartloop.run.sync import by_hand

NEAR = 60.0
"""Seconds for which a worker waits for what goes on by itself: a minute's limit has passed then."""
NAMED = 200
"""The most resting runs that are read to say why."""


class Idle:
    """Whether workers have nothing left to do."""

    def __init__(self, workers: Workers) -> None:
        self.workers, self.journal = workers, workers.runs.journal
        self._made, self._since = -1, 0.0
        """How many records had been made at the last look, and since when."""
        self._due = list[CronSchedule]()
        """The schedules with a due tick at the last look."""

    def reached(self) -> bool:
        """Whether nothing is due or driven, and nothing near is waited for."""
        if self.workers.made != self._made:
            self._made, self._since = self.workers.made, time.monotonic()
        lacks = self.workers.lacks
        # first: the run of a tick that is taken meanwhile is in the backlog
        self._due = by_hand(self.journal.cron_schedules(due=True))
        backlog = by_hand(self.journal.backlog())
        if backlog.held or any(not lacks.get(needs) for needs in backlog.needs):
            return False
        until = by_hand(self.journal.now()) + NEAR
        waits = any(not lacks.get(one.needs) for one in self._due)
        waits = waits or any(one.due <= until for one in self._resting())
        return not waits or time.monotonic() - self._since > NEAR

    def left(self) -> Iterator[str]:
        """What is due later or could not be done, in words. Questions are left to the inbox."""
        for one in self._due:
            why = self.workers.lacks.get(one.needs) or "see the warnings above"
            yield f"a tick of schedule {one.name} is due, and could not be taken here: {why}"
        groups = dict[str, list[float]]()
        for one in self._resting():
            if why := self._why(one):
                groups.setdefault(why, []).append(one.due)
        for why, times in groups.items():
            rest, first = ("rests", "") if len(times) == 1 else ("rest", "the first ")
            runs = say_count(len(times), "run")
            yield f"{runs} {rest} for {why}, {first}until {say_time(min(times))}"

    def _resting(self) -> list[Resting]:
        found = by_hand(self.journal.resting(NAMED))
        return [one for one in found if not self.workers.lacks.get(one.needs)]

    def _why(self, one: Resting) -> str:
        """What a run rests for; empty for an answer."""
        try:
            run = self.workers.runs.open(one.run_id)
        except ChartloopError as error:
            return f"a time, unreadable: {error.message}"
        position = run.session.position
        if run.question is not None:
            return ""
        if position.blocked_on == FLEET_WAIT:
            names = by_hand(standing_against(run.session))
            return f"the limit `{'` and `'.join(names)}`" if names else "a limit across runs"
        if position.blocked_on == RETRY:
            return "another attempt"
        return "a time" if position.status == "paused" else "another process that drives it"
