"""Requests as rows of a SQLite file. `run.requests` defines them and refuses conflicting ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from chartloop.adapters.journal import sqlite_leases, sqlite_rows
from chartloop.adapters.journal.sqlite_migrations import Connection
from chartloop.adapters.journal.sqlite_texts import UNREAD, read_text, stored_text
from chartloop.run.journal import holds, refuse_moved
from chartloop.run.requests import StoredRequest, refuse_second
from chartloop.run.validate_record import is_number


class RequestText(NamedTuple):
    """A request with its data as redacted text."""

    request: StoredRequest
    data: str
    outcome: str | None


_COLUMNS = "key, run_id, kind, digest, at, data, outcome"


def place(db: Connection, given: RequestText) -> StoredRequest:
    """Store a request, and return the one stored under its key."""
    request = given.request
    if known := select(db, key=request.key):
        return known[0]
    run = sqlite_rows.row(db, request.run_id)
    if request.is_open and run is not None:
        refuse_moved(run)
    before = select(db, request.run_id, open_only=True, limit=1)
    refuse_second(request, before[0] if before else None)
    outcome = None if given.outcome is None else stored_text(given.outcome)
    row = (*request[:5], stored_text(given.data), outcome)
    db.execute(f"INSERT OR REPLACE INTO request ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608  names alone
    return request


def settle(db: Connection, key: str, outcome: str, epoch: int, now: float) -> bool:
    """Set the outcome of an open request, unless another driver has had its run since `epoch`."""
    sql = "SELECT run_id FROM request WHERE key = ? AND outcome IS NULL"
    if (found := db.execute(sql, (key,)).fetchone()) is None:
        return False
    grant = partial(sqlite_leases.try_claim, db, found[0], now=now)
    if not holds(sqlite_rows.row(db, found[0]), epoch, grant):
        return False
    db.execute("UPDATE request SET outcome = ? WHERE key = ?", (stored_text(outcome), key))
    return True


def withdraw(db: Connection, key: str) -> None:
    """Delete a request."""
    db.execute("DELETE FROM request WHERE key = ?", (key,))


def select(
    db: Connection, run_id: str | None = None, *, key: str | None = None, open_only: bool = False,
    limit: int | None = None,
) -> list[StoredRequest]:  # fmt: skip
    """Requests, the newest first. Damaged ones are skipped."""
    tests: list[str] = []
    values: list[Any] = []
    for column, value in (("run_id", run_id), ("key", key)):
        if value is not None:
            tests.append(f"{column} = ?")
            values.append(value)
    if open_only:
        tests.append("outcome IS NULL")
    where = f"WHERE {' AND '.join(tests)}" if tests else ""
    sql = f"SELECT {_COLUMNS} FROM request {where} ORDER BY rowid DESC LIMIT ?"  # noqa: S608  names alone
    return list(_readable(db.execute(sql, (*values, -1 if limit is None else limit)).fetchall()))


def _readable(rows: Sequence[Sequence[Any]]) -> Iterator[StoredRequest]:
    for key, run_id, kind, digest, at, data, outcome in rows:
        try:
            request = json.loads(read_text(data))
            result = None if outcome is None else json.loads(read_text(outcome))
        except UNREAD:
            continue
        names = all(isinstance(text, str) for text in (key, run_id, kind, digest))
        mappings = isinstance(request, dict) and isinstance(result, (dict, type(None)))
        if names and mappings and is_number(at):
            yield StoredRequest(key, run_id, kind, digest, at, request, result)
