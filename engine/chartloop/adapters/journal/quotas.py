"""Limits across runs as the tables `quota` and `reservation`. What they mean: `run.fleet`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from secrets import token_hex
from typing import Any

from chartloop.adapters.journal.run_lists import beyond
from chartloop.adapters.journal.texts import UNREAD, read_text
from chartloop.adapters.journal.writes import (
    Connection,
    RemoveLimit,
    Reserve,
    SetLimit,
    SettleCall,
)
from chartloop.run.fleet import (
    FOREVER,
    NOTHING,
    Doubt,
    FleetLimit,
    Held,
    Reserved,
    ask,
    doubts_of,
    settled,
)
from chartloop.run.journal import CHILD_MARK


def editions(floor: str) -> tuple[str, ...]:
    """What version 6 of the tables adds, for a database that has the `floor` of a number.

    An older reservation counts for the day of the next intent of its run, and in the edition that
    its limit has now. One from a day's limit without an intent counts no longer, nor does one from
    a minute's.
    """
    day = floor.format("min(e.at) / 86400")
    of = (
        "r.scope = quota.scope AND r.what = quota.what AND r.per = quota.per AND r.until > quota.at"
    )
    total = f"coalesce((SELECT sum(r.amount) FROM reservation r WHERE {of} AND"  # noqa: S608
    return (
        "ALTER TABLE quota ADD COLUMN in_doubt DOUBLE PRECISION NOT NULL DEFAULT 0",
        "ALTER TABLE quota ADD COLUMN edition TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE reservation ADD COLUMN edition TEXT NOT NULL DEFAULT ''",
        f"ALTER TABLE reservation ADD COLUMN until DOUBLE PRECISION NOT NULL DEFAULT {FOREVER}",
        f"""
        UPDATE reservation SET until = CASE WHEN per = 'minute' THEN 0 ELSE coalesce((
            SELECT ({day} + 1) * 86400 FROM event e
            WHERE e.run_id = reservation.run_id AND e.seq >= head AND e.type = 'intent'
        ), 0) END WHERE per != 'all'
        """,  # noqa: S608
        f"""
        UPDATE quota SET held = {total} NOT r.doubt), 0), in_doubt = {total} r.doubt), 0)
        WHERE per != 'minute'
        """,  # noqa: S608
    )


_COLUMNS = "scope, what, per, most, used, held, at, in_doubt, edition"
LIMITS_OF = (
    f"SELECT {_COLUMNS} FROM quota WHERE scope IN (SELECT value FROM json_each(?)) "  # noqa: S608
    "ORDER BY scope, what, per"
)
HOLD_RUN = "SELECT 1 FROM run WHERE run_id = ?"
"""Until the transaction ends, no other one removes the run or forks it."""
_ADD = (
    f"INSERT INTO quota ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, 0, ?, 0, ?) "  # noqa: S608
    "ON CONFLICT (scope, what, per) DO "
)
_SET = "UPDATE SET most = excluded.most"
_COUNT = (
    "UPDATE quota SET used = ?, held = ?, at = ?, in_doubt = ? "
    "WHERE scope = ? AND what = ? AND per = ?"
)
_HELD = "run_id, head, key, scope, what, per, edition, amount, until, doubt"
_RESERVE = f"INSERT INTO reservation ({_HELD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, false)"  # noqa: S608
_GIVE_WAY = (
    "UPDATE reservation SET head = (SELECT min(head) - 1 FROM reservation WHERE run_id = ?) "
    "WHERE run_id = ? AND head = ? AND key = ?"
)
"""To the next call of one intent, when the one before had no answer."""
_OF = "run_id = ? AND head = ? AND key = ?"
_BELOW = "(run_id = ? OR run_id >= ? AND run_id < ?)"
"""Calls of a run and its children: its id, and the range of theirs."""
_INTENTS = "SELECT CAST(data AS BLOB) FROM event WHERE run_id = ? AND seq >= ? AND type = 'intent'"


class FleetRows:
    """The tables `quota` and `reservation`. Limits are locked before their reservations."""

    db: Connection
    now: Callable[[], float]
    check_driver: Callable[[str, int, int], None]

    def limits(self) -> list[FleetLimit]:
        """All limits, as they stand now."""
        sql = f"SELECT {_COLUMNS} FROM quota ORDER BY scope, what, per"  # noqa: S608
        now = self.now() if (rows := self.db.execute(sql).fetchall()) else 0.0
        return [FleetLimit(*row).later(now) for row in rows]

    def set_limit(self, write: SetLimit) -> bool:
        """Set a limit; what it has counted stays."""
        scope, what, per, most, used, _, at, *_ = write.limit
        values = (scope, what, per, most, used, at or self.now(), token_hex(8))
        return self.db.execute(_ADD + ("NOTHING" if write.only_new else _SET), values).rowcount == 1

    def remove_limit(self, write: RemoveLimit) -> bool:
        """Remove a limit. Its reservations name its edition, so they count no longer."""
        sql = "DELETE FROM quota WHERE scope = ? AND what = ? AND per = ?"
        return self.db.execute(sql, write[1:]).rowcount == 1

    def _limits_of(self, scopes: Iterable[str]) -> list[FleetLimit]:
        """The limits of these scopes as they stand now; other transactions wait to change them."""
        found = self.db.execute(LIMITS_OF, (json.dumps(sorted(scopes)),)).fetchall()
        now = self.now() if found else 0.0
        return [FleetLimit(*row).later(now) for row in found]

    def _count(self, limit: FleetLimit) -> None:
        counted = (limit.used, limit.held, limit.at, limit.in_doubt)
        self.db.execute(_COUNT, (*counted, *limit[:3]))

    def reserve(self, write: Reserve) -> Reserved:
        """Reserve what a call may use, if every limit allows it."""
        run_id, epoch, head, key, scopes, amounts = write.reservation
        self.check_driver(run_id, head, epoch)
        sql = f"SELECT doubt FROM reservation WHERE {_OF}"  # noqa: S608
        if doubt := self.db.execute(sql, (run_id, head, key)).fetchone():
            if not doubt[0]:
                return Reserved()  # our own commit, whose result was lost
            self.db.execute(_GIVE_WAY, (run_id, run_id, head, key))
        limits = self._limits_of(scopes)
        answer, after = ask(limits, amounts, self.now() if limits else 0.0)
        for limit in after:
            self._count(limit)
            of = (*limit[:3], limit.edition, amounts[limit.what], limit.until)
            self.db.execute(_RESERVE, (run_id, head, key, *of))
        return answer

    def settle_call(self, write: SettleCall) -> bool:
        """Replace what a call has reserved by what it used."""
        run_id, key, used, head = write
        if head is None:
            return self._settle("run_id = ? AND key = ? AND doubt", (run_id, key), used)
        return self._settle(_OF, (run_id, head, key), used)

    def _settle(self, which: str, values: Sequence[Any], used: Mapping[str, float] | None) -> bool:
        """Settle reservations. The second of two transactions at once finds none."""
        sql = f"SELECT scope FROM reservation WHERE {which}"  # noqa: S608
        if not (scopes := {scope for (scope,) in self.db.execute(sql, values).fetchall()}):
            return False
        limits = {(*one[:3], one.edition): one for one in self._limits_of(scopes)}
        sql = f"DELETE FROM reservation WHERE {which}"  # noqa: S608
        if used is None:
            sql = f"UPDATE reservation SET doubt = true WHERE {which} AND NOT doubt"  # noqa: S608
        rows = self.db.execute(f"{sql} RETURNING {_HELD}", values).fetchall()
        found = [Held(*row)._replace(doubt=used is not None and bool(row[-1])) for row in rows]
        for limit in settled(limits, found, used).values():
            self._count(limit)
        return bool(found)

    def close_reservations(self, run_id: str, *, removed: bool = False) -> None:
        """Settle what earlier drivers of a run and its children have reserved, and fence these.

        It counts whole if an intent stands, and is in doubt unless the run is removed.
        """
        below = (run_id, run_id + CHILD_MARK, beyond(run_id + CHILD_MARK))
        which = f"{_BELOW} AND NOT doubt"
        sql = f"SELECT DISTINCT run_id, head, key FROM reservation WHERE {which}"  # noqa: S608
        calls = self.db.execute(sql, below).fetchall()
        for child in sorted({call[0] for call in calls} - {run_id}):
            self.db.execute("UPDATE run SET epoch = epoch + 1 WHERE run_id = ?", (child,))
        for call in calls:
            sent = False
            for (data,) in self.db.execute(_INTENTS, call[:2]).fetchall():
                try:
                    sent |= json.loads(read_text(data))["key"] == call[2]
                except UNREAD:  # it may be that of any of them
                    sent = True
            self._settle(f"{_OF} AND NOT doubt", call, None if sent else NOTHING)
        if removed:
            self._settle(_BELOW, below, {})

    def doubts(self) -> list[Doubt]:
        """The calls in doubt that count at their worst case."""
        sql = f"SELECT {_HELD} FROM reservation WHERE doubt"  # noqa: S608
        return doubts_of(Held(*row) for row in self.db.execute(sql).fetchall())
