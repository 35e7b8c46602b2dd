"""Texts that a journal keeps beside its log: payloads, machines, snapshots.

Each is checked against its hash when it is read. A payload or machine with another hash is
damaged; a snapshot with another hash is ignored, because it is only a cache.

Belongs here: texts in columns. Never: the log and its rows (`sqlite_rows`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

from chartloop.adapters.journal.sqlite_migrations import Connection
from chartloop.core.errors import JournalCorrupt
from chartloop.run.journal import BY_HAND, Snapshot, digest
from chartloop.run.redact import has_marks

Stored: TypeAlias = str | bytes
"""A text in a column: bytes if it has lone surrogates."""
UNREAD = (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError)
"""The exceptions that reading a damaged value may raise."""


def stored_text(text: str) -> Stored:
    """Encode a text for a column."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def read_text(stored: Stored) -> str:
    """Decode the text of a column."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


def put_blob(db: Connection, key: str, text: Callable[[], str]) -> str:
    """Store a text permanently under its hash. `text` is called only if it is new."""
    found = db.execute("SELECT data FROM blob WHERE hash = ? AND kept", (key,)).fetchone()
    if found is None or not _is_whole(key, found[0]):
        db.execute("INSERT OR REPLACE INTO blob VALUES (?, ?, 1)", (key, stored_text(text())))
    return key


def blob(db: Connection, key: str) -> str | None:
    """The text of that hash, or None. Raises `JournalCorrupt` if the text has changed."""
    found = db.execute("SELECT data FROM blob WHERE hash = ?", (key,)).fetchone()
    if found is None:
        return None
    if not _is_whole(key, found[0]):
        raise JournalCorrupt(
            f"the text that is kept as {key[:12]} does not have that hash any more",
            hint=f"{BY_HAND}; a run continues with the file of its machine: "
            "`chartloop resume RUN --machine FILE`",
        )
    return read_text(found[0])


def _is_whole(key: str, stored: Stored) -> bool:
    """Whether a text is unchanged. A redacted one has another hash and is accepted."""
    try:
        text = read_text(stored)
    except UNREAD:
        return False
    return digest(text) == key or has_marks(text)


def put_snapshot(db: Connection, run_id: str, snapshot: Snapshot, data: str) -> bool:
    """Replace the snapshot of a run. False if there is no such run."""
    sealed = f"{_seal(run_id, snapshot.seq, snapshot.record_seq, data)} {data}"
    put = db.execute(
        "INSERT OR REPLACE INTO snapshot SELECT run_id, ?, ?, ? FROM run WHERE run_id = ?",
        (snapshot.seq, snapshot.record_seq, stored_text(sealed), run_id),
    )
    return put.rowcount == 1


def _seal(run_id: str, seq: int, record_seq: int, data: str) -> str:
    return digest(f"{run_id} {seq} {record_seq} {data}")


def snapshot(db: Connection, run_id: str) -> Snapshot | None:
    """The run's snapshot; None if it is missing or damaged."""
    sql = "SELECT seq, record_seq, data FROM snapshot WHERE run_id = ?"
    found = db.execute(sql, (run_id,)).fetchone()
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
