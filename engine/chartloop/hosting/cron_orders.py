"""Orders to a schedule: pause it, let it go on, remove it.

Belongs here: what each order changes. Never: ticks (`ticks`), commands, HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chartloop.adapters.cron import next_tick
from chartloop.core.errors import SetupError, nearest
from chartloop.run.cron import CronSchedule
from chartloop.run.journal import Journal
from chartloop.run.shared_copies import RESTORED, RESTS
from chartloop.run.sync import by_hand
from chartloop.run.tenants import ALL_TENANTS, Reach


class UnknownScheduleError(SetupError):
    """The journal has no schedule of this name, or none that the caller may see."""


Change = Callable[[CronSchedule, Journal], CronSchedule | None]
"""What a schedule becomes; None if it is removed."""


def resumed(one: CronSchedule, journal: Journal) -> CronSchedule:
    """A schedule that is not paused."""
    if not one.paused:
        return one
    note = "" if one.note in (RESTS, RESTORED) else one.note
    return one.replace(paused=False, note=note, next=next_tick(one, by_hand(journal.now())))


CHANGES: Mapping[str, Change] = {
    "pause": lambda one, _: one.replace(paused=True),
    "resume": resumed,
    "remove": lambda _, __: None,
}
"""What each order makes of a schedule."""


def change_schedule(
    journal: Journal, name: str, change: Change, reach: Reach = ALL_TENANTS
) -> None:  # fmt: skip
    """Change a schedule, or remove it. Raises `UnknownScheduleError` if there is none."""
    done = False
    while not done:  # a worker may take a tick between the two
        every = by_hand(journal.cron_schedules())
        known = {one.name: one for one in every if reach.tenant in (None, one.tenant)}
        if name not in known:
            hint = nearest(name, known, otherwise="`chartloop schedule list` lists them")
            raise UnknownScheduleError(f"there is no schedule `{name}`", hint=hint)
        done = by_hand(journal.put_cron(known[name], change(known[name], journal)))
