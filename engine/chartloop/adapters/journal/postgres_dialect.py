"""The SQL of `rows`, as PostgreSQL has it; the one place that knows where the two differ.

Most of it is spelling, and the same in both databases. Some statements rely on SQLite's single
writer, and have another text here:

* Events get their numbers when the transaction ends (`NUMBERED`), from a row that is locked until
  the commit. So the order of numbers is the order of commits, and a reader of the tail, who
  continues after the highest number, misses nothing. A sequence would give numbers earlier: a
  later number could be seen before an earlier one.
* A worker's claim passes over the rows that another one is just claiming.
* The limits that a call reserves from or settles are locked, in one order. So is a run that is
  removed or forked.
* A payload is touched before an event refers to it, and locked before it is looked whether any
  event still does. Each waits for the other, and then sees what the other wrote.

Belongs here: SQL as text. Never: connections, transactions, tables.
"""

from __future__ import annotations

import re
from itertools import count
from typing import NamedTuple

from chartloop.adapters.journal.activations import CLAIM, CLAIM_ALONE, CLAIM_OF, NEWEST, TAKE_TURNS
from chartloop.adapters.journal.quotas import HOLD_RUN, LIMITS_OF
from chartloop.adapters.journal.raw_rows import INSERT, KEEP_PAYLOAD
from chartloop.adapters.journal.rows import BOUNDS, COPY, KEEP_NUMBER, PAYLOADS
from chartloop.adapters.journal.run_lists import NO_CHILD
from chartloop.run.lease import CHILD_MARK

DEFERRED = INSERT
"""The statement that is not executed: `NUMBERED` inserts its rows when the transaction ends."""
NUMBERED = (
    "WITH given AS (UPDATE journal SET newest = newest + ?1 RETURNING newest - ?1 AS before) "
    "INSERT INTO event (number, run_id, seq, epoch, type, record, at, digest, data) "
    "SELECT before + place, run_id, seq, epoch, type, record, at, digest, data FROM given, "
    "unnest(?2::text[], ?3::int8[], ?4::int8[], ?5::text[], ?6::int8[], ?7::float8[], "
    "?8::bytea[], ?9::bytea[]) WITH ORDINALITY "
    "AS t (run_id, seq, epoch, type, record, at, digest, data, place)"
)
"""Gives the newest numbers to events: their count, and the columns of `INSERT` as arrays."""
_EACH_ABLE = "json_array_elements_text(?::json) AS able(value), LATERAL"
_OWN = {
    BOUNDS: "SELECT id, coalesce((SELECT min(number) FROM event) - 1, newest), newest FROM journal",
    COPY: (
        "WITH copied AS (SELECT * FROM event WHERE run_id = ?2 AND seq < ?3), "
        "given AS (UPDATE journal SET newest = newest + (SELECT count(*) FROM copied) "
        "RETURNING newest + 1 AS after) "
        "INSERT INTO event (number, run_id, seq, epoch, type, record, at, digest, data) "
        "SELECT after - row_number() OVER (ORDER BY seq DESC), ?1, seq, 0, type, record, at, "
        "digest, data FROM copied, given"
    ),
    CLAIM: CLAIM.replace(NEWEST, "(SELECT newest FROM journal)")
    .replace("json_each(?) AS able JOIN request AS due ON due.rowid IN", _EACH_ABLE)
    .replace("SELECT rowid FROM request", "SELECT rowid, priority, turn, due FROM request")
    .replace("LIMIT ?) ", "LIMIT ? FOR UPDATE SKIP LOCKED) AS due ", 1),
    **{
        claim: claim.replace(NEWEST, "(SELECT newest FROM journal)").replace(
            "LIMIT ?", "LIMIT ? FOR UPDATE SKIP LOCKED"
        )
        for claim in (CLAIM_OF, CLAIM_ALONE)
    },
    TAKE_TURNS: TAKE_TURNS.replace("LIMIT 1000", "LIMIT 1000 FOR UPDATE SKIP LOCKED"),
    LIMITS_OF: f"{LIMITS_OF} FOR UPDATE",
    HOLD_RUN: f"{HOLD_RUN} FOR NO KEY UPDATE",
    KEEP_NUMBER: "",  # `journal.newest` keeps it
    KEEP_PAYLOAD: (
        "INSERT INTO blob VALUES (?, ?, false) ON CONFLICT (hash) DO UPDATE SET kept = blob.kept"
    ),
    PAYLOADS: (
        "SELECT hash FROM blob WHERE hash IN (SELECT hash FROM event_blob WHERE run_id = ?) "
        "ORDER BY hash FOR UPDATE"
    ),
}
_TABLES = (
    "cron|run|event|inbox|blob|event_blob|snapshot|lease|request|worker|journal|schema_version|"
    "quota|reservation"
)
_SPELLING = (
    (r"\b(FROM|JOIN|INTO|UPDATE) (" + _TABLES + r")\b(?!\.)", r'\1 "{schema}".\2'),
    (r"SELECT value FROM json_each\(\?\)", "SELECT json_array_elements_text(?::json)"),
    (r"\+(?=[a-z])", ""),  # excludes an index of SQLite
    (r"\browid\b", "number"),
    (re.escape(NO_CHILD), f"run_id NOT LIKE '%{CHILD_MARK}%'"),  # whose rows it can estimate
    (r"\binstr\(", "strpos("),
    (r"\bCAST\(type AS BLOB\)", "convert_to(type, 'UTF8')"),
    (r"\bAS BLOB\b", "AS bytea"),
    (r"\bAS REAL\b", "AS float8"),
    (r"\bCAST\((.+?) AS INTEGER\)", r"floor(\1)::int8"),
    (r"\bLIMIT \?", "LIMIT nullif(?, -1)"),
    (r"%", "%%"),
    (r"\?(\d+)", r"%(\1)s"),
    (r"\?", "%s"),
)


class Statement(NamedTuple):
    """A statement for PostgreSQL."""

    text: str
    """Empty if nothing is to be executed."""
    named: bool
    """Whether its parameters are numbered, and so given by name."""
    reads_events: bool
    """Whether it needs the events that were deferred."""


def spell(sql: str, schema: str) -> Statement:
    """A statement of `rows`, for tables in a schema."""
    own = _OWN.get(sql, sql)
    numbered = re.findall(r"\?(\d+)", own)
    if numbered:  # a mark without a number has the next one
        following = count(max(map(int, numbered)) + 1)
        own = re.sub(r"\?(?!\d)", lambda _: f"?{next(following)}", own)
    text = own
    for pattern, replacement in _SPELLING:
        text = re.sub(pattern, replacement.replace("{schema}", schema), text)
    return Statement(text, bool(numbered), re.search(r"\bevent\b", own) is not None)
