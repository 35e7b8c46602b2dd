"""Texts that a journal keeps beside its log: payloads, machines, snapshots.

Each is checked against its hash when it is read. A payload or machine with another hash is
damaged; a snapshot with another hash is ignored, because it is only a cache.

Belongs here: texts in columns. Never: the log and its rows (`rows`).
"""

from __future__ import annotations

import json
from collections.abc import Callable

from chartloop.adapters.journal.writes import Connection, PutBlob, PutSnapshot, Stored
from chartloop.core.errors import JournalCorrupt
from chartloop.run.journal import BY_HAND, Snapshot, digest
from chartloop.run.redact import has_marks

UNREAD = (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError)
"""The exceptions that reading a damaged value may raise."""

KEEP_TEXT = (
    "INSERT INTO blob VALUES (?, ?, true) ON CONFLICT (hash) DO UPDATE SET "
    "data = excluded.data, kept = excluded.kept"
)


def read_text(stored: Stored) -> str:
    """Decode the text of a column."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


class TextRows:
    """The tables `blob` and `snapshot`."""

    db: Connection
    stored: Callable[[str], Stored]

    def put_blob(self, write: PutBlob) -> str:
        """Store a text permanently under its hash; returns the hash."""
        sql = "SELECT data FROM blob WHERE hash = ? AND kept"
        found = self.db.execute(sql, (write.key,)).fetchone()
        if found is None or not _is_whole(write.key, found[0]):
            row = write.key, self.stored(write.hide(write.text))
            self.db.execute(KEEP_TEXT, row)
        return write.key

    def blob(self, key: str) -> str | None:
        """The text of that hash, or None. Raises `JournalCorrupt` if the text has changed."""
        sql = "SELECT CAST(data AS BLOB) FROM blob WHERE hash = ?"  # it may be no text any more
        found = self.db.execute(sql, (key,)).fetchone()
        if found is None:
            return None
        if not _is_whole(key, found[0]):
            raise JournalCorrupt(
                f"the text that is kept as {key[:12]} does not have that hash any more",
                hint=f"{BY_HAND}; a run continues with the file of its machine: "
                "`chartloop resume RUN --machine FILE`",
            )
        return read_text(found[0])

    def replace_snapshot(self, write: PutSnapshot) -> bool:
        """Replace the snapshot of a run. False if there is no such run."""
        run_id, (seq, record_seq, _), data = write
        sealed = self.stored(f"{_seal(run_id, seq, record_seq, data)} {data}")
        sql = (
            "INSERT INTO snapshot SELECT run_id, ?, ?, ? FROM run WHERE run_id = ? ON CONFLICT "
            "(run_id) DO UPDATE SET seq = excluded.seq, record_seq = excluded.record_seq, "
            "data = excluded.data"
        )
        return self.db.execute(sql, (seq, record_seq, sealed, run_id)).rowcount == 1

    def read_snapshot(self, run_id: str) -> Snapshot | None:
        """The run's snapshot; None if it is missing or damaged."""
        sql = "SELECT seq, record_seq, data FROM snapshot WHERE run_id = ?"
        found = self.db.execute(sql, (run_id,)).fetchone()
        if found is None:
            return None
        try:
            seq, record_seq, text = found[0], found[1], read_text(found[2])
            seal, _, data = text.partition(" ")
            whole = seal == _seal(run_id, seq, record_seq, data)
            numbers = isinstance(seq, int) and isinstance(record_seq, int)
            return Snapshot(seq, record_seq, json.loads(data)) if whole and numbers else None
        except UNREAD:
            return None


def _is_whole(key: str, stored: Stored) -> bool:
    """Whether a text is unchanged. A redacted one has another hash and is accepted."""
    try:
        text = read_text(stored)
    except UNREAD:
        return False
    return digest(text) == key or has_marks(text)


def _seal(run_id: str, seq: int, record_seq: int, data: str) -> str:
    return digest(f"{run_id} {seq} {record_seq} {data}")
