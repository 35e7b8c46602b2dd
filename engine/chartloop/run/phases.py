"""How runs of a journal stand: their rows, with what the rows do not know.

Whether a process drives a run stands in its lease, and whether a worker is asked to in its newest
request. Only a run that could be going on needs them.

Belongs here: the reading. Never: the words (`core.phase`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from chartloop.core.phase import CONTINUED, DONE, ENDINGS, PARKED, Phase
from chartloop.run.journal import Journal
from chartloop.run.journal_pages import RunFilter
from chartloop.run.journal_records import RunRow
from chartloop.run.lease import say_time


class Stand(NamedTuple):
    """How a run stands, and who drives it."""

    phase: Phase
    driver: str | None
    """The process that drives it now; None if none does."""
    about: str = ""
    """Why no worker takes it up, and how one will."""


def in_phase(filter: RunFilter, name: str | None) -> RunFilter | None:
    """The filter with what rows know of a phase, if one is named; None if nothing can match both.

    Whether a run that goes on is driven is not known to its row: its `Stand` says so.
    """
    if name is None:
        return filter
    by_status = {
        "running": "running", "unattended": "running", "paused": "paused", "stepped": "debugging",
        "idle": "idle",
    }  # fmt: skip
    wanted: dict[str, Any] = {}
    if name in (ending.name for ending in ENDINGS):
        wanted = {"ending": name} | ({} if name == DONE.name else {"followed": False})
    elif name == CONTINUED.name:
        wanted = {"followed": True}
    elif name in ("moved", "damaged"):
        wanted = {"status": name}
    else:  # a worker is awaited from several statuses
        wanted = {"ending": "", "parked": name == PARKED.name}
        if name == "waiting":
            wanted["waiting"] = True
        elif name in by_status:
            wanted["status"] = by_status[name]
    for field, value in wanted.items():
        if getattr(filter, field) not in (None, value):
            return None
    return filter.replace(**wanted)


async def stand_of(journal: Journal, row: RunRow) -> Stand:
    """How a run stands."""
    if row.parked is None and row.status not in ("idle", "running", "debugging"):
        return Stand(row.phase(), None)
    lease = await journal.living_lease(row.run_id)
    if lease is not None:
        return Stand(row.phase(driven=True), str(lease[1].driver))
    if row.parked is not None:
        return Stand(row.phase(), None, say_parked(row))
    asked = await journal.requests(row.run_id, open_only=True, limit=1)
    return Stand(row.phase(driven=False, queued=bool(asked)), None)


def say_parked(row: RunRow) -> str:
    """Why no worker takes up a parked run; empty for any other."""
    if not row.parked:
        return "" if row.parked is None else "it rests since it was imported"
    return f"its process died {len(row.parked)} times, the last {say_time(row.parked[-1])}"


async def stands_of(journal: Journal, rows: Iterable[RunRow]) -> dict[str, Stand]:
    """How runs stand, by id."""
    return {row.run_id: await stand_of(journal, row) for row in rows}
