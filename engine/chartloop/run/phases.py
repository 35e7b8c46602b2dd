"""How runs of a journal stand: their rows, with what the rows do not know.

Whether a process drives a run stands in its lease, and whether a worker is asked to in its newest
request. Only a run that could be going on needs them.

Belongs here: the reading. Never: the words (`core.phase`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from chartloop.core.phase import Phase
from chartloop.run.journal import Journal
from chartloop.run.journal_records import RunRow


class Stand(NamedTuple):
    """How a run stands, and who drives it."""

    phase: Phase
    driver: str | None
    """The process that drives it now; None if none does."""


async def stand_of(journal: Journal, row: RunRow) -> Stand:
    """How a run stands."""
    if row.status not in ("idle", "running", "debugging"):
        return Stand(row.phase(), None)
    lease = await journal.living_lease(row.run_id)
    if lease is not None:
        return Stand(row.phase(driven=True), str(lease[1].driver))
    asked = await journal.requests(row.run_id, open_only=True, limit=1)
    return Stand(row.phase(driven=False, queued=bool(asked)), None)


async def stands_of(journal: Journal, rows: Iterable[RunRow]) -> dict[str, Stand]:
    """How runs stand, by id."""
    return {row.run_id: await stand_of(journal, row) for row in rows}
