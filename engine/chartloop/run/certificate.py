"""The certificate of a run: the bounds proven when it started, stored with it."""

from __future__ import annotations

from chartloop.run.journal import Journal


async def stored_certificate(journal: Journal, run_id: str) -> str | None:
    """The text of a run's certificate; None if it has none: a child is covered by its parent's."""
    first = await journal.records(run_id, 0, 1)
    hash = str(first[0].input.data.get("certificate", "")) if first else ""
    return await journal.blob(hash) if hash else None
