"""The lines of an export beside its runs: cron schedules, and limits across runs.

Each is one line of JSON with a ``part`` and its own digest. The line of a schedule has the text of
its machine. That of a limit has what is used: in all, or on the day that it says. What calls in
flight hold stays behind, with their drivers, and so does what a minute has used.

A schedule or limit whose name the journal already has is passed over.

Belongs here: these lines. Never: runs (`run.copies`), SQL, files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple, get_args

from chartloop.core.codec import NOT_FAST, read, to_json
from chartloop.core.errors import ChartloopError, JournalCorrupt, RunError
from chartloop.core.plain import plain
from chartloop.run.cron import CronSchedule
from chartloop.run.fleet import DAY, FleetLimit, Per, What
from chartloop.run.journal import Journal
from chartloop.run.validate_record import UNFIT, is_number

SharedPart = Literal["schedules", "limits"]
SCHEDULE, LIMIT = b'{"part":"schedule"', b'{"part":"limit"'
"""How the lines begin."""


RESTS = "it rests since it was imported"
"""The note of a schedule that an import has paused."""
RESTORED = "it rests since the journal was restored from a backup"
"""The note of one that the mark of a restored journal has paused."""


class SharedLine(NamedTuple):
    """A schedule or a limit."""

    what: SharedPart
    name: str
    text: str


async def shared_lines(journal: Journal) -> list[SharedLine]:
    """The schedules and the limits of a journal as lines, in the order of their names."""
    lines = list[SharedLine]()
    for schedule in await journal.cron_schedules():
        data = {name: value for name, value in plain(schedule).items() if name != "version"}
        text = await journal.blob(schedule.machine_hash)
        line = _line("schedule", data=data, text=text)
        lines.append(SharedLine("schedules", schedule.name, line))
    for limit in await journal.limits():
        used = {"most": limit.most, "used": 0.0 if limit.per == "minute" else limit.used}
        day = {"day": limit.at // DAY * DAY} if limit.per == "day" else {}
        line = _line("limit", data={**dict(zip(_KEY, limit, strict=False)), **used, **day})
        lines.append(SharedLine("limits", limit.name, line))
    return lines


_KEY = ("scope", "what", "per")


def _line(part: str, **more: Any) -> str:
    text = json.dumps(more, separators=(",", ":"), sort_keys=True)
    return to_json({"part": part, "sha256": sha256(text.encode()).hexdigest(), "of": text})


class PutShared(NamedTuple):
    """What became of a schedule or limit of a file."""

    what: SharedPart
    name: str
    new: bool
    rests: bool = False
    """Whether it is a schedule that this import has paused."""


async def put_shared(target: Journal, line: bytes, where: str, *, go_on: bool) -> PutShared:
    """Write the schedule or limit of a line.

    Without `go_on` a schedule is paused, with `RESTS` as its note. `where` names the line. Raises
    `JournalCorrupt` for one that was changed.
    """
    try:
        whole: dict[str, str] = json.loads(line)
        part, of, digest = whole["part"], whole["of"], whole["sha256"]
        if sha256(of.encode()).hexdigest() != digest:
            raise ValueError("the line was changed")
        given = json.loads(of)
        if part == "schedule":
            schedule = read({**given["data"], "version": 0}, CronSchedule, {})
            rests = not go_on and not schedule.paused
            if rests:
                schedule = schedule.replace(paused=True, note=RESTS)
            new = await _put_schedule(target, schedule, given["text"])
            return PutShared("schedules", schedule.name, new, new and rests)
        limit = _limit(given["data"])
    except ChartloopError:
        raise
    except (*UNFIT, *NOT_FAST) as error:
        why = str(error) if type(error) is ValueError else f"{type(error).__name__} {error}"
        raise JournalCorrupt(
            f"{where}: the schedule or limit cannot be imported: {why}",
            hint="nothing of it was written; `chartloop journal export` writes whole lines",
        ) from error
    return PutShared("limits", limit.name, await target.set_limit(limit, only_new=True))


def _limit(data: Mapping[str, Any]) -> FleetLimit:
    scope, what, per = (data[name] for name in _KEY)
    figures = [data["most"], data["used"], data.get("day", 0.0)]
    known = isinstance(scope, str) and what in get_args(What) and per in get_args(Per)
    if not known or not all(is_number(figure) for figure in figures):
        raise ValueError("it is not a limit")
    most, used, day = map(float, figures)
    return FleetLimit(scope, what, per, most, used, 0.0, day)


async def _put_schedule(target: Journal, schedule: CronSchedule, text: str | None) -> bool:
    if any(schedule.name == one.name for one in await target.cron_schedules()):
        return False
    if text is None or await target.put_blob(text) != schedule.machine_hash:
        raise RunError(
            f"the text of the machine of schedule `{schedule.name}` is not there, or hides secrets",
            hint="add the schedule anew: `chartloop schedule add`",
        )
    return await target.put_cron(None, schedule)
