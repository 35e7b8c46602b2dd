"""Limits across runs as the tables `quota` and `reservation`. What they mean: `run.fleet`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from chartloop.adapters.journal.texts import UNREAD, read_text
from chartloop.adapters.journal.writes import (
    Connection,
    RemoveLimit,
    Reserve,
    SetLimit,
    SettleCall,
)
from chartloop.run.fleet import (
    Doubt,
    FleetLimit,
    Reserved,
    ask,
    doubts_of,
    sent_keys,
)

_COLUMNS = "scope, what, per, most, used, held, at"
LIMITS_OF = (
    f"SELECT {_COLUMNS} FROM quota WHERE scope IN (SELECT value FROM json_each(?)) "  # noqa: S608
    "ORDER BY scope, what, per"
)
HOLD_RUN = "SELECT 1 FROM run WHERE run_id = ?"
"""Until the transaction ends, no other one removes the run, settles its calls or forks it."""
_ADD = "INSERT INTO quota VALUES (?, ?, ?, ?, ?, 0, ?) ON CONFLICT (scope, what, per) DO "
_SET = "UPDATE SET most = excluded.most"
_COUNT = "UPDATE quota SET used = ?, held = ?, at = ? WHERE scope = ? AND what = ? AND per = ?"
_OPEN = "SELECT head, key, scope, what, per, amount, doubt FROM reservation WHERE run_id = ? AND "
_CLOSE = "DELETE FROM reservation WHERE run_id = ? AND head = ? AND key = ?"
_DOUBT = "UPDATE reservation SET doubt = true WHERE run_id = ? AND head = ? AND key = ?"
_INTENTS = (
    "SELECT seq, CAST(data AS BLOB) FROM event WHERE run_id = ? AND seq >= ? AND type = 'intent'"
)


class FleetRows:
    """The tables `quota` and `reservation`."""

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
        scope, what, per, most, used, _, at = write.limit
        values = (scope, what, per, most, used, at or self.now())
        return self.db.execute(_ADD + ("NOTHING" if write.only_new else _SET), values).rowcount == 1

    def remove_limit(self, write: RemoveLimit) -> bool:
        """Remove a limit."""
        sql = "DELETE FROM quota WHERE scope = ? AND what = ? AND per = ?"
        return self.db.execute(sql, write[1:]).rowcount == 1

    def _limits_of(self, scopes: Iterable[str]) -> dict[tuple[str, ...], FleetLimit]:
        """The limits of these scopes as they stand now; other transactions wait to change them."""
        found = self.db.execute(LIMITS_OF, (json.dumps(sorted(scopes)),)).fetchall()
        now = self.now() if found else 0.0
        return {row[:3]: FleetLimit(*row).later(now) for row in map(tuple, found)}

    def _count(self, limit: FleetLimit) -> None:
        self.db.execute(_COUNT, (limit.used, limit.held, limit.at, *limit[:3]))

    def reserve(self, write: Reserve) -> Reserved:
        """Reserve what a call may use, if every limit allows it."""
        run_id, epoch, head, key, scopes, amounts = write.reservation
        self.check_driver(run_id, head, epoch)
        sql = "SELECT 1 FROM reservation WHERE run_id = ? AND head = ? AND key = ?"
        if self.db.execute(sql, (run_id, head, key)).fetchone():
            return Reserved()  # our own commit, whose result was lost
        limits = self._limits_of(scopes)
        answer, after = ask(limits.values(), amounts, self.now() if limits else 0.0)
        for limit in after:
            self._count(limit)
            self.db.execute(
                "INSERT INTO reservation VALUES (?, ?, ?, ?, ?, ?, ?, false)",
                (run_id, head, key, *limit[:3], amounts[limit.what]),
            )
        return answer

    def settle_call(self, write: SettleCall) -> bool:
        """Replace what a call has reserved by what it used."""
        run_id, key, used, head = write
        self.db.execute(HOLD_RUN, (run_id,))
        which, value = ("doubt AND key = ?", (key,)) if head is None else (
            "key = ? AND head = ?", (key, head)
        )  # fmt: skip
        found = self.db.execute(_OPEN + which, (run_id, *value)).fetchall()
        self._settle(found, lambda _, what, amount: used.get(what, amount))
        for at in {row[0] for row in found}:
            self.db.execute(_CLOSE, (run_id, at, key))
        return bool(found)

    def _settle(
        self, found: Iterable[Any], used: Callable[[tuple[int, str], str, float], float]
    ) -> None:
        limits = self._limits_of({row[2] for row in found}) if found else {}
        for head, key, scope, what, per, amount, doubt in found:
            if (limit := limits.get((scope, what, per))) is not None:
                spent = used((head, key), what, amount)
                limits[scope, what, per] = limit.settle(amount, spent, doubted=bool(doubt))
                self._count(limits[scope, what, per])

    def close_reservations(self, run_id: str) -> None:
        """Settle what earlier drivers of a run have reserved: whole if an intent stands."""
        found = self.db.execute(_OPEN + "NOT doubt", (run_id,)).fetchall()
        if not found:
            return
        intents = list[tuple[int, str]]()
        first = min(row[0] for row in found)
        for seq, data in self.db.execute(_INTENTS, (run_id, first)).fetchall():
            try:
                intents.append((seq, json.loads(read_text(data))["key"]))
            except UNREAD:  # it may be that of any of them
                intents += [(seq, row[1]) for row in found]
        calls = {(row[0], row[1]) for row in found}
        sent = {call for call in calls if call[1] in sent_keys(intents, call[0])}
        self._settle(found, lambda call, _, amount: amount if call in sent else 0.0)
        for head, key in calls:
            self.db.execute(_DOUBT if (head, key) in sent else _CLOSE, (run_id, head, key))

    def doubts(self) -> list[Doubt]:
        """The calls in doubt that count at their worst case."""
        sql = "SELECT run_id, key, what, amount FROM reservation WHERE doubt"
        return doubts_of(self.db.execute(sql).fetchall())
