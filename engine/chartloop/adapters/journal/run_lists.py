"""Lists of runs: which, in which order, page by page, and how many began when.

Belongs here: the SQL of lists. Never: one run by itself (`rows`).
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from chartloop.adapters.journal.raw_rows import COLUMNS, FOLLOWERS, NAMES
from chartloop.adapters.journal.texts import UNREAD, read_text
from chartloop.adapters.journal.writes import Columns, Connection, Stored, stored_text
from chartloop.core.phase import phase_if_followed, phase_if_parked, phase_of
from chartloop.run.journal import CHILD_MARK, RunRow
from chartloop.run.journal_pages import (
    RunCount,
    RunFilter,
    RunOrder,
    RunPage,
    Sort,
    read_run_cursor,
    run_cursor,
)
from chartloop.run.validate_record import as_row

LIST_COLUMNS = (
    "ALTER TABLE run ADD COLUMN task TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE run ADD COLUMN ending TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE run ADD COLUMN message TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE run ADD COLUMN last_state TEXT NOT NULL DEFAULT ''",
    """
    UPDATE run SET ending = CASE
        WHEN status = 'error' THEN 'failed'
        WHEN reason IN ('completed', 'answer_submitted', 'finish_reason') THEN 'done'
        WHEN reason = 'user_requested' THEN 'stopped'
        WHEN reason IN ('error', 'guard_error', 'critical_failure', 'retry_limit',
            'error_threshold', 'error_rate', 'unknown', 'stop_requested', 'stagnation',
            'no_progress', 'health_critical', 'diminishing_returns') THEN 'gave_up'
        ELSE 'limited' END
    WHERE status IN ('completed', 'error')
    """,
    "CREATE INDEX run_ending ON run (ending, created) WHERE ending != ''",
    "CREATE INDEX run_living ON run (created) WHERE ending = ''",
    "CREATE INDEX run_by_duration ON run ((updated - created), run_id) WHERE ending != ''",
    "CREATE INDEX run_by_cost ON run (coalesce(cost, -1), run_id) WHERE ending != ''",
    "CREATE INDEX run_by_steps ON run (steps, run_id) WHERE ending != ''",
    "CREATE INDEX run_by_tokens ON run (coalesce(tokens, -1), run_id) WHERE ending != ''",
)
"""What version 2 of the tables adds, for SQLite and PostgreSQL.

The ending of an older run is told from its status and reason. This is history: it does not change
with `core.phase`.
"""

SUCCESSOR = (
    "ALTER TABLE run ADD COLUMN follows TEXT NOT NULL DEFAULT ''",
    "CREATE UNIQUE INDEX run_follows ON run (parent, session, follows) WHERE follows != ''",
)
"""What version 3 of the tables adds: which run follows which, once."""

_MOVES = "('idle', 'running', 'debugging')"
_RESTS = f"ending = '' AND lower(status) NOT IN {_MOVES}"
"""Written so that only the indices of such runs fit it, which are in the order of a list."""
RESTING_BY = (
    """
    CREATE INDEX request_needs ON request (needs, priority, turn, due)
    WHERE outcome IS NULL AND worker IS NULL AND coalesce(turn, 0) > 0
    """,
    f"CREATE INDEX resting_by_duration ON run ((updated - created), run_id) WHERE {_RESTS}",
    f"CREATE INDEX resting_by_cost ON run (coalesce(cost, -1), run_id) WHERE {_RESTS}",
    f"CREATE INDEX resting_by_steps ON run (steps, run_id) WHERE {_RESTS}",
    f"CREATE INDEX resting_by_tokens ON run (coalesce(tokens, -1), run_id) WHERE {_RESTS}",
)
"""What version 5 of the tables adds: what waits and what a worker cannot drive are not read."""

NO_CHILD = f"instr(run_id, '{CHILD_MARK}') = 0"
_FOLLOWED = f"EXISTS (SELECT 1 {FOLLOWERS})"
_PARKED = "run_id IN (SELECT run_id FROM request WHERE outcome IS NULL AND parked)"
_RUN_ID, _QUESTION = map(NAMES.index, ("run_id", "question"))
_KEYS: Mapping[Sort, str] = {
    "started": "created", "duration": "(updated - created)", "steps": "steps",
    "cost": "coalesce(cost, -1)", "tokens": "coalesce(tokens, -1)",
}  # fmt: skip
"""What runs are sorted by, as their indices have it."""
_PARTS = ("ending != ''", _RESTS, f"status IN {_MOVES}")
_SELDOM = ("reason", "tenant", "parent", "ending")
"""The columns that are empty in most rows; their indices omit these rows."""


class ListRows:
    """The table `run`, read as lists."""

    db: Connection
    stored: Callable[[str], Stored]

    def rows(self, filter: RunFilter, limit: int | None) -> list[RunRow]:
        """The matching runs, the newest first; of equally old ones the last created."""
        where, values = self._where(filter)
        sql = f"SELECT {COLUMNS} FROM run {where} ORDER BY created DESC, rowid DESC LIMIT ?"  # noqa: S608
        found = self.db.execute(sql, (*values, -1 if limit is None else limit)).fetchall()
        return [row_of(columns) for columns in found]

    def page(self, filter: RunFilter, cursor: str, limit: int, order: RunOrder) -> RunPage:
        """A page of the matching runs after a cursor, in an order.

        By anything but the start, runs that have ended come from an index that holds only these,
        so that a step need not write it, and so do those that rest. The others are sorted.
        """
        key, way = _KEYS[order.by], "ASC" if order.ascending else "DESC"
        parts = ("",) if order.by == "started" else _PARTS
        found: list[Columns] = []
        for part in parts:
            where, values = self._where(filter, part)
            if cursor:
                where += f" AND ({key}, run_id) {'>' if order.ascending else '<'} (?, ?)"
                values.extend(read_run_cursor(cursor, edited=self.stored is stored_text))
            sql = (
                f"SELECT {COLUMNS}, {key} FROM run {where} "  # noqa: S608
                f"ORDER BY {key} {way}, run_id {way} LIMIT ?"
            )
            found += self.db.execute(sql, (*values, limit + 1)).fetchall()
        if len(parts) > 1:
            found.sort(key=lambda row: (row[-1], row[_RUN_ID]), reverse=not order.ascending)
        rows = [row_of(columns[:-1]) for columns in found[:limit]]
        if len(found) <= limit:
            return RunPage(rows)
        last = found[limit - 1]
        return RunPage(rows, run_cursor(last[-1], last[_RUN_ID]))

    def tally(self, filter: RunFilter, width: float) -> list[RunCount]:
        """How many matching runs began in each span of time, by how they stand."""
        where, values = self._where(filter)
        sql = (
            "SELECT CAST((created - ?) / ? AS INTEGER), status, reason, ending, "  # noqa: S608
            f"question IS NOT NULL, wake_at IS NOT NULL, "
            f"ending NOT IN ('', 'done') AND {_FOLLOWED}, {_PARKED}, count(*) FROM run {where} "
            "GROUP BY 1, 2, 3, 4, 5, 6, 7, 8"
        )
        counts = Counter[tuple[int, str]]()
        for span, status, reason, ending, asks, wakes, followed, parked, runs in self.db.execute(
            sql, (filter.created_from or 0.0, width, *values)
        ).fetchall():
            phase = phase_of(status, reason, ending=ending, asks=bool(asks), wakes=bool(wakes))
            phase = phase_if_followed(phase_if_parked(phase, parked), followed)
            counts[span, phase.name] += runs
        return [RunCount(*key, runs) for key, runs in sorted(counts.items())]

    def _where(self, filter: RunFilter, part: str = "true") -> tuple[str, list[Any]]:
        """The condition of a filter with its values.

        For waiting runs, and for the runs of a parent, only the short index of these is used;
        ``+`` excludes the other indices.
        """
        tests, values = [part or "true"], list[Any]()

        def test(sql: str, *arguments: Any) -> None:
            tests.append(sql)
            values.extend(arguments)

        own = "+" if filter.waiting else ""
        for column, wanted in filter.columns():
            seldom = f" AND {own}{column} != ''" if column in _SELDOM and wanted else ""
            test(f"{own}{column} = ?{seldom}", wanted)
        if filter.prefix:
            own = "+" if filter.waiting or filter.parent else ""
            test(f"{own}run_id >= ?", filter.prefix)
            if (end := beyond(filter.prefix)) is not None:
                test(f"{own}run_id < ?", end)
        if filter.waiting is not None:
            test("question IS NOT NULL" if filter.waiting else "question IS NULL")
        for sql, fits in ((_PARKED, filter.parked), (_FOLLOWED, filter.followed)):
            if fits is not None:
                test(sql if fits else f"NOT {sql}")
        for column, sign, at in (
            ("created", ">=", filter.created_from), ("created", "<", filter.created_to),
            ("updated", ">=", filter.updated_from), ("updated", "<", filter.updated_to),
        ):  # fmt: skip
            if at is not None:
                test(f"{column} {sign} ?", at)
        if filter.search:
            text = filter.search.lower()
            test("(instr(lower(task), ?) > 0 OR instr(lower(run_id), ?) > 0)", text, text)
        if not filter.children:
            test(NO_CHILD)
        return f"WHERE {' AND '.join(tests)}", values


def row_of(columns: Columns) -> RunRow:
    """The row of a run. The question and the lapses are JSON texts."""
    stored, lapses = columns[_QUESTION], columns[-1]
    if stored is lapses is None:
        return as_row(columns)
    question: Any = stored
    parked: Any = lapses
    with contextlib.suppress(*UNREAD):  # `as_row` reports an invalid value
        question = None if stored is None else json.loads(read_text(stored))
        parked = None if lapses is None else tuple(end for _, _, end in json.loads(lapses))
    return as_row((*columns[:_QUESTION], question, *columns[_QUESTION + 1 : -1], parked))


def beyond(prefix: str) -> str | None:
    """The first text after all that start with `prefix`, in the order of code points.

    A range needs no escaping, unlike a pattern, and can use the index.
    """
    while prefix:
        following = ord(prefix[-1]) + 1
        prefix = prefix[:-1]
        if following <= 0x10FFFF:
            # the skipped code points are surrogates, which columns cannot contain
            return prefix + chr(0xE000 if following == 0xD800 else following)
    return None
