"""Retention: which old runs may go, and their removal in parts.

A run stays as long as something may still read it: until it has ended, while it is driven, while a
request for it is open, and, if it was moved, until the run that continues it has ended, since
others know it by the old id. What forks and continued runs took from it is their own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from itertools import islice

from chartloop.core.errors import MovedError
from chartloop.run.journal import CHILD_MARK, Journal, RunRow
from chartloop.run.journal_pages import RunFilter
from chartloop.run.journal_records import MOVED
from chartloop.run.migrate import successor_of

ENDED = ("completed", "error", MOVED)
PART = 100
"""The runs that one transaction removes."""


async def old_runs(
    journal: Journal, before: float, statuses: Collection[str] = ENDED
) -> list[RunRow]:
    """The runs that nothing needs whose last record is older, the oldest first."""
    found = list[RunRow]()
    for status in statuses:
        async for row in every_run(journal, RunFilter(status=status, updated_to=before)):
            found.append(row)
    asked = {request.run_id for request in await journal.requests(open_only=True)}
    asked = {run_id.partition(CHILD_MARK)[0] for run_id in asked}
    found = [row for row in found if row.run_id not in asked and not await _is_needed(journal, row)]
    return sorted(found, key=lambda row: (row.updated, row.run_id))


async def every_run(journal: Journal, filter: RunFilter) -> AsyncIterator[RunRow]:
    """All matching runs, the newest first."""
    cursor = ""
    while True:
        rows, cursor = await journal.page(filter, cursor, 1000)
        for row in rows:
            yield row
        if not cursor:
            return


async def _is_needed(journal: Journal, row: RunRow) -> bool:
    if row.moved_to:
        try:
            return not (await successor_of(journal, row)).ended
        except MovedError:  # it is gone
            return False
    tree = await journal.rows(prefix=row.run_id + CHILD_MARK)
    for one in (row, *(child for child in tree if not child.ended)):
        if await journal.living_lease(one.run_id) is not None:
            return True
    return False


def in_parts(run_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """The runs that are removed together."""
    left = iter(run_ids)
    while part := list(islice(left, PART)):
        yield part
