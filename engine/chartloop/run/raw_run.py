"""A run as a journal stores it, whole, and the part of the port that gives and takes one.

Belongs here: the records. Never: what is done with them (`run.copies`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from chartloop.run.chain import Chain
from chartloop.run.journal_records import RunRow


class Text(NamedTuple):
    """A payload, or a text that is stored for good: a machine, a certificate."""

    data: str
    kept: bool


class RawMessage(NamedTuple):
    """A message of the inbox, consumed or not."""

    msg_id: str
    at: float
    data: str
    seq: int | None
    """The event that consumed it."""


class RawSnapshot(NamedTuple):
    """A snapshot with its seal."""

    seq: int
    record_seq: int
    data: str


class RawRequest(NamedTuple):
    """A request, with its activation as far as it is not a worker's."""

    key: str
    kind: str
    digest: str
    at: float
    data: str
    outcome: str | None
    needs: str
    due: float | None
    lapses: str
    parked: bool


class RawRun(NamedTuple):
    """A run as it is stored, read at one moment."""

    row: RunRow
    question: str | None
    """The text of the row's question."""
    chain: Chain
    epochs: Sequence[int]
    """The epoch of each event."""
    texts: Mapping[str, Text]
    """What its events and its row refer to, by hash, as far as it is there."""
    messages: Sequence[RawMessage] = ()
    snapshot: RawSnapshot | None = None
    requests: Sequence[RawRequest] = ()


class Copies(Protocol):
    """The part of a journal's port that gives and takes whole runs."""

    async def raw(self, run_id: str) -> RawRun | None:
        """A run as it is stored; None if the journal keeps no text of it."""
        ...

    async def put_raw(self, runs: Sequence[RawRun]) -> None:
        """Write runs as they were stored elsewhere, in one transaction: all of them, or none.

        Their events get the newest numbers. `RunError` if an id, or the key of a request, is taken.
        """
        ...

    async def chain_ends(self, run_ids: Sequence[str]) -> Mapping[str, bytes]:
        """Where the chains of these runs end, without the runs that are not there."""
        ...
