"""The schedule as columns of the table `request`. What they mean is said in `run.schedule`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from chartloop.adapters.journal.texts import UNREAD, read_text
from chartloop.adapters.journal.writes import ClaimRuns, Connection, Enqueue, HandBack, Keep, Sweep
from chartloop.run.lease import CHILD_MARK, ancestry
from chartloop.run.processes import Process, is_gone
from chartloop.run.requests import StoredRequest
from chartloop.run.schedule import (
    LAPSES,
    RESTS,
    Activation,
    Backlog,
    Claimed,
    Depth,
    Lapse,
    Parked,
    WorkerRow,
)
from chartloop.run.tenants import MARK
from chartloop.run.validate_record import is_number

REQUEST = "key, run_id, kind, digest, at, data, outcome, needs"
_FREE = "outcome IS NULL AND worker IS NULL"
_DUE = f"{_FREE} AND due <= ?"
_LISTED = "IN (SELECT value FROM json_each(?))"
_WAKE = (
    "UPDATE request SET wakes = wakes + 1, due = CASE WHEN parked THEN NULL "  # noqa: S608
    f"WHEN due < ? THEN due ELSE ? END WHERE outcome IS NULL AND run_id {_LISTED}"
)
_TAKE_UP = f"UPDATE request SET parked = false, lapses = '[]' WHERE {_FREE} AND run_id {_LISTED}"  # noqa: S608
NEWEST = "(SELECT coalesce(max(number), 0) FROM event)"
CLAIM = (
    "UPDATE request SET worker = ?, since = ?, "  # noqa: S608  constants
    f"events = CASE lapses WHEN '[]' THEN {NEWEST} ELSE events END WHERE rowid IN "
    f"(SELECT rowid FROM request WHERE {_DUE} AND needs {_LISTED} ORDER BY due LIMIT ?) "
    f"RETURNING due, wakes, {REQUEST}"
)
CLAIM_OF = CLAIM.replace("ORDER BY due", f"AND run_id {_LISTED} ORDER BY due")
_LEFT = (
    f"SELECT run_id, needs, due FROM request WHERE {_FREE} AND due IS NOT NULL "  # noqa: S608
    f"AND run_id {_LISTED}"
)
_UNJUDGED = (
    f"SELECT needs, min(run_id) FROM request WHERE {_DUE} AND needs NOT {_LISTED} "  # noqa: S608
    "GROUP BY needs"
)
_NEXT = f"SELECT min(due) FROM request WHERE {_FREE} AND due IS NOT NULL"  # noqa: S608
_FOLLOWING = f"SELECT min(due) FROM request WHERE {_FREE} AND due > ?"  # noqa: S608
_HAND_BACK = (
    "UPDATE request SET worker = NULL, due = CASE wakes WHEN ? THEN ? ELSE ? END "
    "WHERE key = ? AND worker = ? AND outcome IS NULL"
)
_DEAD = "SELECT id, host, pid, place, born, until FROM worker"
_ORPHANS = (
    "SELECT key, run_id, worker, since, events, lapses FROM request WHERE outcome IS NULL "
    "AND worker IS NOT NULL AND worker NOT IN (SELECT id FROM worker)"
)
_PROGRESS = (
    "SELECT 1 FROM event WHERE record IS NOT NULL AND number > ? "
    "AND (run_id = ? OR run_id >= ? AND run_id < ?) LIMIT 1"
)
_LAPSE = (
    "UPDATE request SET worker = NULL, due = ?, parked = ?, lapses = ? WHERE key = ? AND worker = ?"
)
"""Of the worker that was found dead: another sweep may have come first, and a claim after it."""
_LOST = (
    f"UPDATE request SET due = ? WHERE {_FREE} AND due IS NULL AND NOT parked "  # noqa: S608
    f"AND run_id IN (SELECT run_id FROM run WHERE status NOT {_LISTED})"
)
DEPTH = (
    "SELECT count(*), min(due), "  # noqa: S608  constants
    "(SELECT count(*) FROM request WHERE outcome IS NULL AND worker IS NOT NULL), "
    "(SELECT count(*) FROM request WHERE outcome IS NULL AND parked), "
    f"(SELECT max(number) FROM schema_version) FROM request WHERE {_DUE}"
)
"""Each count has its index, of such rows alone."""
TENANT = (
    "CASE WHEN instr(run_id, ':') BETWEEN 1 AND instr(run_id || '/', '/') "
    "THEN substr(run_id, 1, instr(run_id, ':') - 1) ELSE '' END"
)
"""The tenant in the id of a run: `tenant_of`."""
_DEPTH_OF = DEPTH.replace("WHERE outcome", f"WHERE {TENANT} = ?1 AND outcome")
_WORKERS = "SELECT id, face, host, pid, place, born, room, lacks FROM worker ORDER BY id"


class ScheduleRows:
    """The columns of `request` that workers use, and the table `worker`."""

    db: Connection
    now: Callable[[], float]

    def wake(self, run_id: str, *, left: bool = False) -> bool:
        """Make a run and its ancestors due. `left`: by a driver, which takes up parked ones too."""
        runs, now = json.dumps([*ancestry(run_id)]), self.now()
        if left:
            self.db.execute(_TAKE_UP, (runs,))
        free = " AND worker IS NULL" if left else ""
        return self.db.execute(_WAKE + free, (now, now, runs)).rowcount > 0

    def enqueue(self, write: Enqueue) -> bool:
        """Make a run due, even a parked one."""
        return self.wake(write.run_id, left=True)

    def nothing_due(self) -> Claimed | None:
        """The outcome of a claim where nothing is due; None if something is."""
        (due,) = self.db.execute(_NEXT).fetchone()
        return None if is_number(due) and due <= self.now() else Claimed([], {}, due)

    def claim(self, write: ClaimRuns) -> Claimed:
        """Claim due runs that the worker can drive."""
        _, worker, limit, can, only = write
        able, now = ["", *(needs for needs, able in can.items() if able)], self.now()
        given = worker, now, now, json.dumps(able)
        if only is None:
            found = self.db.execute(CLAIM, (*given, limit)).fetchall()
        else:
            found = self.db.execute(CLAIM_OF, (*given, json.dumps(only), limit)).fetchall()
        found.sort(key=lambda columns: columns[0])
        runs = [
            Activation(request, wakes)
            for _, wakes, *columns in found
            for request in read_requests([columns])
        ]
        if only is not None:
            left = self.db.execute(_LEFT, (json.dumps(only),)).fetchall()
            return Claimed(
                runs, {n: run for run, n, due in left if n and n not in can and due <= now},
                min((due for *_, due in left if due > now), default=None),
                [run for run, needs, _ in left if can.get(needs, True)],
            )  # fmt: skip
        unjudged: dict[str, str] = {}
        if len(found) < limit:
            known = json.dumps(["", *can])
            unjudged = dict(self.db.execute(_UNJUDGED, (now, known)).fetchall())
        following = self.db.execute(_FOLLOWING, (now,)).fetchone()[0]
        return Claimed(runs, unjudged, following)

    def keep(self, write: Keep) -> None:
        """List a worker as alive, or take it off the list."""
        _, (id, face, process, room, lacks), ttl = write
        self.db.execute("DELETE FROM worker WHERE id = ?", (id,))
        if ttl > 0:
            columns = (id, face, *process, self.now() + ttl, room, json.dumps(dict(lacks)))
            self.db.execute("INSERT INTO worker VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", columns)

    def hand_back(self, write: HandBack) -> None:
        """Give up a claim, if the worker still has it."""
        _, worker, (request, wakes), due = write
        self.db.execute(_HAND_BACK, (wakes, due, self.now(), request.key, worker))

    def sweep(self, write: Sweep) -> int:
        """Make the runs of dead workers due again, or park them."""
        now = self.now()
        for id, *process, until in self.db.execute(_DEAD).fetchall():
            if not is_number(until) or until <= now or is_gone(Process(*process)):
                self.db.execute("DELETE FROM worker WHERE id = ?", (id,))
        orphans = self.db.execute(_ORPHANS).fetchall()
        for key, run_id, worker, since, events, lapses in orphans:
            below = run_id + CHILD_MARK
            tree = (events, run_id, below, below + "\U0010ffff")
            new = self.db.execute(_PROGRESS, tree).fetchone() is not None
            lapsed = [] if new else [*json.loads(lapses), [worker, since, now]]
            parked = len(lapsed) >= LAPSES
            given = None if parked else now, parked, json.dumps(lapsed), key, worker
            self.db.execute(_LAPSE, given)
        swept = len(orphans)
        if write.lost:
            swept += self.db.execute(_LOST, (now, json.dumps(RESTS))).rowcount
        return swept

    def backlog(self) -> Backlog:
        """The schedule as it is now."""
        now, db = self.now(), self.db
        due = f"SELECT needs, count(*), min(due) FROM request WHERE {_DUE} GROUP BY needs"  # noqa: S608
        needs = db.execute(due, (now,)).fetchall()
        held, open_ = db.execute(
            "SELECT count(worker), count(*) FROM request WHERE outcome IS NULL"
        ).fetchone()
        (every,) = db.execute("SELECT count(*) FROM request").fetchone()
        stopped = "SELECT run_id, lapses FROM request WHERE outcome IS NULL AND parked"
        parked = [
            Parked(run_id, tuple(Lapse(*lapse) for lapse in json.loads(lapses)))
            for run_id, lapses in db.execute(stopped)
        ]
        waiting = sum(count for _, count, _ in needs)
        return Backlog(
            waiting, min((at for *_, at in needs), default=None), held,
            open_ - held - waiting - len(parked), every - open_, parked,
            {needs: count for needs, count, _ in needs},
            [
                WorkerRow(id, face, Process(*process), room, json.loads(lacks))
                for id, face, *process, room, lacks in db.execute(_WORKERS)
            ],
        )  # fmt: skip

    def depth(self, of: str = "") -> Depth:
        """Its figures alone; `of` some runs, as `covers` says."""
        now = self.now()
        sql, given = (_DEPTH_OF, (of.removesuffix(MARK), now)) if of else (DEPTH, (now,))
        due, oldest, held, parked, tables = self.db.execute(sql, given).fetchone()
        return Depth(due, 0.0 if oldest is None else now - oldest, held, parked, tables)


def read_requests(rows: Sequence[Sequence[Any]]) -> list[StoredRequest]:
    """The requests of rows with the columns `REQUEST`. Damaged ones are skipped."""
    found: list[StoredRequest] = []
    for key, run_id, kind, digest, at, data, outcome, needs in rows:
        try:
            request = json.loads(read_text(data))
            result = None if outcome is None else json.loads(read_text(outcome))
        except UNREAD:
            continue
        names = all(isinstance(text, str) for text in (key, run_id, kind, digest, needs))
        mappings = isinstance(request, dict) and isinstance(result, (dict, type(None)))
        if names and mappings and is_number(at):
            found.append(StoredRequest(key, run_id, kind, digest, at, request, result, needs))
    return found
