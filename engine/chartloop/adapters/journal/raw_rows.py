"""Whole runs as they are stored: read from the tables, and written to them.

Nothing is redacted or encoded again: what a run holds was, when it was written.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from chartloop.adapters.journal.texts import KEEP_TEXT, UNREAD, read_text
from chartloop.adapters.journal.writes import Connection, PutRaw, Stored
from chartloop.core.codec import read
from chartloop.core.errors import JournalCorrupt, RunError, UnknownRunError
from chartloop.run.chain import START, Chain, Link
from chartloop.run.copies import text_of, texts_wanted
from chartloop.run.journal import BY_HAND, RunRow, duplicate_run_error
from chartloop.run.payload import references
from chartloop.run.raw_run import RawMessage, RawRequest, RawRun, RawSnapshot, Text
from chartloop.run.schedule import share_of
from chartloop.run.succession import follows_as
from chartloop.run.tenants import refuse_stranger

NAMES = RunRow.__struct_fields__[:-2]
FOLLOWERS = "FROM run AS s WHERE s.parent = run.run_id AND s.follows != ''"
COLUMNS = (
    f"{', '.join(NAMES)}, "  # noqa: S608  constants
    f"coalesce((SELECT s.run_id {FOLLOWERS} ORDER BY s.rowid DESC LIMIT 1), '') AS successor, "
    "(SELECT q.lapses FROM request AS q WHERE q.run_id = run.run_id AND q.outcome IS NULL "
    "AND q.parked LIMIT 1) AS parked"
)
"""The columns of a `RunRow`: the stored ones, the run that follows it, and the lapses of its
request if that is parked."""
INSERT_RUN = (
    f"INSERT INTO run ({', '.join(NAMES)}, origin, chain) "  # noqa: S608
    f"VALUES ({', '.join('?' * len(NAMES))}, ?, ?) ON CONFLICT DO NOTHING"
)
EVENT = "run_id, seq, epoch, type, record, at, digest, data"
INSERT = f"INSERT INTO event ({EVENT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
KEEP_PAYLOAD = "INSERT INTO blob VALUES (?, ?, false) ON CONFLICT (hash) DO NOTHING"
REFER = "INSERT INTO event_blob VALUES (?, ?, ?)"
_CHAIN = (
    "SELECT CAST(origin AS BLOB), CAST(chain AS BLOB), head, origin = ? "
    "OR coalesce((SELECT p.origin = run.origin FROM run AS p WHERE p.run_id = run.parent), true) "
    "OR EXISTS (SELECT 1 FROM event WHERE run_id = run.parent AND digest = run.origin) "
    "FROM run WHERE run_id = ?"
)
_REQUEST = "key, kind, digest, at, data, outcome, needs, due, lapses, parked"


class RawRows(ABC):
    """The tables that hold a run, as they are."""

    db: Connection
    stored: Callable[[str], Stored]

    @abstractmethod
    def require_row(self, run_id: str) -> RunRow: ...

    @abstractmethod
    def follower(self, row: RunRow) -> RunRow | None: ...

    def chain(self, run_id: str) -> Chain:
        """The run's events as they are stored, with their digests."""
        found = self.db.execute(_CHAIN, (START, run_id)).fetchone()
        if found is None:
            raise UnknownRunError(f"there is no run `{run_id}` in this journal")
        sql = (
            "SELECT seq, record, CAST(at AS REAL), CAST(type AS BLOB), CAST(data AS BLOB), digest "
            "FROM event WHERE run_id = ? ORDER BY seq"
        )
        origin, end, head, follows = found
        rows = self.db.execute(sql, (run_id,))
        links = [Link((*event,), digest) for *event, digest in rows]
        return Chain(origin, end, head, bool(follows), links)

    def chain_ends(self, run_ids: Sequence[str]) -> dict[str, bytes]:
        """Where the chains of these runs end."""
        sql = (
            "SELECT run_id, CAST(chain AS BLOB) FROM run "
            "WHERE run_id IN (SELECT value FROM json_each(?))"
        )
        return dict(self.db.execute(sql, (json.dumps(run_ids),)).fetchall())

    def raw(self, run_id: str) -> RawRun:
        """A run with everything that only it holds. Raises `JournalCorrupt` if it is damaged."""
        row = self.require_row(run_id)
        try:
            return self._raw(row)
        except UNREAD as error:
            raise JournalCorrupt(
                f"run `{run_id}` cannot be read: {type(error).__name__} {error}",
                hint=f"{BY_HAND}; `chartloop replay {run_id}` checks its records",
            ) from error

    def _raw(self, row: RunRow) -> RawRun:
        db, run_id, chain = self.db, row.run_id, self.chain(row.run_id)
        sql = "SELECT question FROM run WHERE run_id = ?"
        (question,) = db.execute(sql, (run_id,)).fetchone()
        sql = "SELECT epoch FROM event WHERE run_id = ? ORDER BY seq"
        epochs = [epoch for (epoch,) in db.execute(sql, (run_id,)).fetchall()]
        texts: dict[str, Text] = {}
        for key in texts_wanted(row, chain.links):
            sql = "SELECT CAST(data AS BLOB), kept FROM blob WHERE hash = ?"
            if (text := db.execute(sql, (key,)).fetchone()) is not None:
                texts[key] = Text(read_text(text[0]), bool(text[1]))
        sql = "SELECT msg_id, at, data, seq FROM inbox WHERE run_id = ? ORDER BY number"
        messages = [
            read((msg_id, at, read_text(data), seq), RawMessage, {})
            for msg_id, at, data, seq in db.execute(sql, (run_id,)).fetchall()
        ]
        sql = "SELECT seq, record_seq, data FROM snapshot WHERE run_id = ?"
        snapshot = db.execute(sql, (run_id,)).fetchone()
        sql = f"SELECT {_REQUEST} FROM request WHERE run_id = ? ORDER BY rowid"  # noqa: S608
        requests = [
            read((
                key, kind, digest, at, read_text(data),
                None if outcome is None else read_text(outcome), needs, due, lapses, bool(parked),
            ), RawRequest, {})
            for key, kind, digest, at, data, outcome, needs, due, lapses, parked
            in db.execute(sql, (run_id,)).fetchall()
        ]  # fmt: skip
        return RawRun(
            row, None if question is None else read_text(question), chain, epochs, texts, messages,
            None if snapshot is None
            else read((snapshot[0], snapshot[1], read_text(snapshot[2])), RawSnapshot, {}),
            requests,
        )  # fmt: skip

    def put_raw(self, write: PutRaw) -> None:
        """Write whole runs. `RunError` if an id or a key is taken."""
        there = self.chain_ends([run.row.run_id for run in write.runs])
        for run in write.runs:
            refuse_stranger(run.row.run_id, run.row.parent)
            if run.row.run_id in there:
                raise duplicate_run_error(run.row.run_id)
            for request in run.requests:
                sql = "SELECT run_id FROM request WHERE key = ?"
                if (found := self.db.execute(sql, (request.key,)).fetchone()) is not None:
                    raise RunError(
                        f"a request of run `{run.row.run_id}` has the key `{request.key}`, which "
                        f"one of run `{found[0]}` has here",
                        hint=f"remove that run: `chartloop runs rm {found[0]}`",
                    )
        for run in write.runs:
            self._put(run)

    def _put(self, run: RawRun) -> None:
        db, run_id, stored = self.db, run.row.run_id, self.stored
        question = None if run.question is None else stored(run.question)
        row = run.row
        if row.follows and (newest := self.follower(row)) is not None:  # both were made: it stays
            row = row.replace(follows=follows_as(row.follows, newest.run_id))
        columns = (*row.to_tuple()[:-5], question, row.tokens, row.cost)
        created = db.execute(INSERT_RUN, (*columns, run.chain.origin, run.chain.end))
        if created.rowcount == 0:
            raise duplicate_run_error(run_id)
        for key, text in sorted(run.texts.items()):
            db.execute(KEEP_TEXT if text.kept else KEEP_PAYLOAD, (key, stored(text.data)))
        for epoch, link in zip(run.epochs, run.chain.links, strict=True):
            seq, record, at, type, _ = link.event
            text = text_of(link)
            event = (run_id, seq, epoch, type.decode(), record, at, link.digest, stored(text))
            db.execute(INSERT, event)
            for key in sorted(references(text)):
                if not run.texts[key].kept:
                    db.execute(REFER, (run_id, seq, key))
        for message in run.messages:
            sql = "INSERT INTO inbox (run_id, msg_id, at, data, seq) VALUES (?, ?, ?, ?, ?)"
            values = message.msg_id, message.at, stored(message.data), message.seq
            db.execute(sql, (run_id, *values))
        if run.snapshot is not None:
            sql = "INSERT INTO snapshot VALUES (?, ?, ?, ?)"
            db.execute(sql, (run_id, *run.snapshot[:2], stored(run.snapshot.data)))
        for request in run.requests:
            outcome = None if request.outcome is None else stored(request.outcome)
            columns = f"run_id, {_REQUEST}, priority, share"
            sql = f"INSERT INTO request ({columns}) VALUES ({', '.join('?' * 13)})"  # noqa: S608
            # the events that its claims are counted from have other numbers here
            lapses = request.lapses if request.parked else "[]"
            values = (*request[:4], stored(request.data), outcome, request.needs, request.due)
            whose = run.row.priority, share_of(run_id, run.row.session)
            db.execute(sql, (run_id, *values, lapses, request.parked, *whose))
