"""The certificate that was stored with a run when it started: what was proven of it."""

from __future__ import annotations

from chartloop.run.journal import Journal


async def stored_certificate(journal: Journal, run_id: str) -> str | None:
    """Its text; None where the run was stored without one: a child's is its parent's."""
    events = await journal.events(run_id, 0, 1)
    begun = events[0].record if events else None
    hash = "" if begun is None else str(begun.input.data.get("certificate", ""))
    return await journal.blob(hash) if hash else None
