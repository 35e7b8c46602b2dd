"""The schedule as columns of the table `request`. What they mean is said in `run.schedule`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from chartloop.adapters.journal.texts import UNREAD, read_text
from chartloop.adapters.journal.writes import (
    ClaimRuns,
    Connection,
    Enqueue,
    HandBack,
    Keep,
    PlaceRequest,
    Sweep,
)
from chartloop.run.journal_records import PRIORITY, RunRow
from chartloop.run.lease import CHILD_MARK, ancestry
from chartloop.run.processes import Process, is_gone
from chartloop.run.requests import StoredRequest
from chartloop.run.schedule import (
    COUNTED,
    RESTS,
    SOME,
    STRAY,
    Activation,
    Backlog,
    Claimed,
    Depth,
    Held,
    Lapse,
    LivingRuns,
    Parked,
    Resting,
    WorkerRow,
    is_parked,
    share_of,
)
from chartloop.run.tenants import MARK
from chartloop.run.validate_record import is_number

REQUEST = "key, run_id, kind, digest, at, data, outcome, needs"
_FREE = "outcome IS NULL AND worker IS NULL"
_DUE = f"{_FREE} AND due <= ?"
_HAS_TURN = f"{_FREE} AND coalesce(turn, 0) > 0"
"""Written as its index has it: no planner takes that of all turns, whatever they need."""
_LISTED = "IN (SELECT value FROM json_each(?))"


def _turn(priority: str, share: str) -> str:
    """The turn of a run that becomes due: two looks into an index."""
    due = (
        "FROM request AS other WHERE other.outcome IS NULL AND other.worker IS NULL "
        f"AND other.turn IS NOT NULL AND other.priority = {priority}"
    )
    return (
        "(SELECT 1 + max(turn) FROM ("  # noqa: S608
        f"SELECT coalesce(max(other.turn), 0) AS turn {due} AND other.share = {share} "
        f"UNION ALL SELECT coalesce(min(other.turn), 1) - 1 {due}) AS turns)"
    )


_TURN = _turn("request.priority", "request.share")
PLACE_LATER = (
    f"INSERT INTO request ({REQUEST}, due, priority, share, turn) "  # noqa: S608  constants
    f"VALUES ({'?, ' * 11}NULL)"
)
PLACE_DUE = PLACE_LATER.replace("NULL)", f"{_turn('?', '?')})")
_WAKE = (
    "UPDATE request SET wakes = wakes + 1, due = CASE WHEN parked THEN NULL "  # noqa: S608
    "WHEN due < ? THEN due ELSE ? END, turn = CASE WHEN parked OR lapses != '[]' THEN NULL "
    f"ELSE coalesce(turn, {_TURN}) END WHERE outcome IS NULL AND run_id {_LISTED}"
)
TAKE_TURNS = (
    "UPDATE request SET turn = given.turn FROM (SELECT id, "  # noqa: S608
    f"{_turn('late.priority', 'late.share')} - 1 "
    "+ row_number() OVER (PARTITION BY priority, share ORDER BY due, id) AS turn "
    f"FROM (SELECT rowid AS id, priority, share, due FROM request WHERE {_DUE} AND turn IS NULL "
    "AND lapses = '[]' ORDER BY due LIMIT 1000) AS late) AS given WHERE request.rowid = given.id"
)
"""Gives turns to the runs whose time has come, but for those that have lapsed."""
_STOPPED = (
    f"SELECT key, run_id, events, lapses FROM request WHERE {_FREE} "  # noqa: S608
    f"AND (parked OR lapses != '[]') AND run_id {_LISTED}"
)
_TAKE_UP = f"UPDATE request SET parked = false, lapses = ? WHERE {_FREE} AND key = ? AND lapses = ?"  # noqa: S608
NEWEST = "(SELECT coalesce(max(number), 0) FROM event)"
_ORDER = "ORDER BY priority, turn, due LIMIT ?"
_TAKE = f"UPDATE request SET worker = ?, since = ?, events = {NEWEST} WHERE rowid IN "  # noqa: S608  constants
_TAKEN = f"RETURNING priority, turn, due, wakes, {REQUEST}"
CLAIM = (
    f"{_TAKE} (SELECT due.rowid FROM json_each(?) AS able JOIN request AS due ON due.rowid IN "  # noqa: S608
    f"(SELECT rowid FROM request WHERE {_HAS_TURN} AND needs = able.value "
    f"{_ORDER}) {_ORDER}) {_TAKEN}"
)
"""An index gives the first runs for each need; the first of these are claimed."""
CLAIM_OF = (
    f"{_TAKE} (SELECT rowid FROM request WHERE {_DUE} AND lapses = '[]' AND needs {_LISTED} "  # noqa: S608
    f"AND run_id {_LISTED} ORDER BY priority, coalesce(turn, 0), due LIMIT ?) {_TAKEN}"
)
_LAPSED = f"{_DUE} AND turn IS NULL AND lapses != '[]'"
"""Runs that have lapsed have no turn: an index finds them, and `CLAIM` does not see them."""
CLAIM_ALONE = (
    f"{_TAKE} (SELECT rowid FROM request WHERE {_LAPSED} AND needs {_LISTED} "  # noqa: S608
    f"ORDER BY priority, length(lapses), due LIMIT ?) {_TAKEN.replace('turn', 'length(lapses)')}"
)
_SUSPECTS = (
    f"SELECT needs, count(*), min(run_id) FROM (SELECT needs, run_id FROM request WHERE {_LAPSED} "  # noqa: S608
    "LIMIT ?) AS lapsed GROUP BY needs"
)
_LEFT = (
    f"SELECT run_id, needs, due, lapses FROM request WHERE {_FREE} AND due IS NOT NULL "  # noqa: S608
    f"AND run_id {_LISTED}"
)
_NEEDED = f"SELECT min(needs) FROM request WHERE {_HAS_TURN}"  # noqa: S608
_NEEDS = (
    f"WITH RECURSIVE needed(needs) AS ({_NEEDED} UNION ALL "  # noqa: S608
    f"SELECT ({_NEEDED} AND request.needs > needed.needs) FROM needed "
    "WHERE needed.needs IS NOT NULL) SELECT needs, "
    f"(SELECT run_id FROM request WHERE {_HAS_TURN} AND request.needs = needed.needs "
    "ORDER BY priority, turn, due LIMIT 1) FROM needed WHERE needs IS NOT NULL"
)
"""What due runs need, each with one of them: a step in an index for each, not for each run."""
_DUE_FIRST = (
    "SELECT needs, count(*), min(due) FROM (SELECT needs, due FROM request "  # noqa: S608
    f"WHERE {_DUE} ORDER BY due LIMIT ?) AS first GROUP BY needs"
)
_RESTING = (
    f"SELECT (SELECT count(*) FROM (SELECT 1 FROM request WHERE {_FREE} AND due > ? LIMIT ?) "  # noqa: S608
    f"AS later) + (SELECT count(*) FROM (SELECT 1 FROM request WHERE {_FREE} AND due IS NULL "
    "AND NOT parked LIMIT ?) AS waiting)"
)
_NEXT = f"SELECT min(due) FROM request WHERE {_FREE} AND due IS NOT NULL"  # noqa: S608
_DUE_LATER = (
    f"SELECT run_id, due, needs FROM request WHERE {_FREE} AND due > ? ORDER BY due LIMIT ?"  # noqa: S608
)
_LATER = (
    f"SELECT min(due) FROM request WHERE {_FREE} AND turn IS NULL "  # noqa: S608
    "AND (lapses = '[]' OR due > ?)"
)
_HAND_BACK = (
    "UPDATE request SET worker = NULL, due = CASE wakes WHEN ? THEN ? ELSE ? END, "  # noqa: S608
    f"turn = CASE WHEN wakes = ? OR lapses != '[]' THEN NULL ELSE {_TURN} END "
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
    "UPDATE request SET worker = NULL, due = ?, turn = NULL, parked = ?, lapses = ? "
    "WHERE key = ? AND worker = ?"
)
"""Of the worker that was found dead: another sweep may have come first, and a claim after it."""
_LOST = (
    f"UPDATE request SET due = ? WHERE {_FREE} AND +due IS NULL AND NOT parked AND run_id IN "  # noqa: S608
    f"(SELECT run_id FROM lease JOIN run USING (run_id) WHERE until <= ? AND status NOT {_LISTED})"
)
"""Runs whose last driver, a program that was not a worker, has died."""
_GOES_ON = f"SELECT 1 FROM run WHERE run_id = ? AND status NOT {_LISTED}"  # noqa: S608
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
_PLACE = (
    "CASE WHEN key IS NULL THEN '' WHEN worker IS NOT NULL THEN 'held' WHEN parked THEN 'parked' "
    "WHEN due <= ? THEN 'due' ELSE 'rests' END"
)
_LIVING = (
    f"SELECT tenant, machine, machine_hash, coalesce(needs, ''), begun.priority, {_PLACE}, "  # noqa: S608
    "status, asks, timed, count(*), min(due), min(begun.run_id) FROM ("
    "SELECT run_id, tenant, machine, machine_hash, priority, status, question IS NOT NULL AS asks, "
    "wake_at IS NOT NULL AS timed FROM run WHERE ending = '' AND +status != 'moved' "
    "AND instr(run_id, '/') = 0 AND {of} ORDER BY created LIMIT ?) AS begun LEFT JOIN request "
    "ON request.run_id = begun.run_id AND outcome IS NULL GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9"
)
_WORKERS = "SELECT id, face, host, pid, place, born, room, lacks, until FROM worker ORDER BY id"
_HOLDS = (
    "SELECT worker, run_id, since, priority FROM request "
    "WHERE outcome IS NULL AND worker IS NOT NULL ORDER BY since, run_id"
)


class ScheduleRows:
    """The columns of `request` that workers use, and the table `worker`."""

    db: Connection
    now: Callable[[], float]

    def insert_request(self, write: PlaceRequest, run: RunRow | None) -> None:
        """Insert a request to a run, if it has one, with its activation."""
        run_id, request, data, outcome = write
        priority = PRIORITY if run is None else run.priority
        share = share_of(run_id, "" if run is None else run.session)
        columns = (*request[:5], data, outcome, request.needs, request.at, priority, share)
        if request.at <= self.now():
            self.db.execute(PLACE_DUE, (*columns, priority, share, priority))
        else:
            self.db.execute(PLACE_LATER, columns)

    def wake(self, run_id: str, *, left: bool = False) -> bool:
        """Make a run and its ancestors due. `left`: by a driver, which takes up parked ones too."""
        runs, now = json.dumps([*ancestry(run_id)]), self.now()
        if left:
            for key, of, events, lapses in self.db.execute(_STOPPED, (runs,)).fetchall():
                # somebody has looked: the count begins again, and the suspicion stays
                kept: list[Any] = [] if self._has_new(of, events) else json.loads(lapses)[:1]
                self.db.execute(_TAKE_UP, (json.dumps(kept), key, lapses))
        free = " AND worker IS NULL" if left else ""
        return self.db.execute(_WAKE + free, (now, now, runs)).rowcount > 0

    def _has_new(self, run_id: str, events: int | None) -> bool:
        """Whether a run or a child of it has a record after this event."""
        below = run_id + CHILD_MARK
        tree = (events, run_id, below, below + "\U0010ffff")
        return self.db.execute(_PROGRESS, tree).fetchone() is not None

    def enqueue(self, write: Enqueue) -> bool:
        """Make a run due, even a parked one."""
        return self.wake(write.run_id, left=True)

    def nothing_due(self) -> Claimed | None:
        """The outcome of a claim where nothing is due; None if something is."""
        (due,) = self.db.execute(_NEXT).fetchone()
        return None if is_number(due) and due <= self.now() else Claimed([], {}, due)

    def claim(self, write: ClaimRuns) -> Claimed:
        """Claim due runs that the worker can drive."""
        _, worker, limit, can, only, alone = write
        able, now = ["", *(needs for needs, able in can.items() if able)], self.now()
        following, waits, listed = None, True, json.dumps(able)
        if only is None:
            (following,) = self.db.execute(_LATER, (-1.0,)).fetchone()
            if waits := following is not None and following <= now:
                self.db.execute(TAKE_TURNS, (now,))
                (following,) = self.db.execute(_LATER, (now,)).fetchone()
            sql, given = (CLAIM_ALONE, (now, listed)) if alone else (CLAIM, (listed, limit))
            found = self.db.execute(sql, (worker, now, *given, limit)).fetchall()
        else:
            given = worker, now, now, listed, json.dumps(only), limit
            found = self.db.execute(CLAIM_OF, given).fetchall()
        found.sort(key=lambda columns: (columns[0], columns[1] or 0, columns[2]))
        runs = [
            Activation(request, wakes, alone)
            for *_, wakes, columns in ((*row[:4], row[4:]) for row in found)
            for request in read_requests([columns])
        ]
        suspects = self.db.execute(_SUSPECTS, (now, SOME)).fetchall() if waits else []
        lapsed = sum(count for needs, count, _ in suspects if needs in able)
        if only is not None:
            left = self.db.execute(_LEFT, (json.dumps(only),)).fetchall()
            return Claimed(
                runs, {n: run for run, n, due, _ in left if n and n not in can and due <= now},
                min((due for *_, due, _ in left if due > now), default=None),
                [
                    run for run, needs, due, lapses in left if can.get(needs, True)
                    and (lapses == "[]" or due > now or (needs and needs not in can))
                ],
                lapsed,
            )  # fmt: skip
        unjudged: dict[str, str] = {}
        if len(found) < limit:
            needed = dict(self.db.execute(_NEEDS).fetchall())
            if not needed.keys().isdisjoint(able):
                following = now  # another worker has its row just now, and may die in it
            needed |= {needs: run_id for needs, _, run_id in suspects}
            unjudged = {
                needs: run_id for needs, run_id in needed.items() if needs not in ("", *can)
            }
        return Claimed(runs, unjudged, following, lapsed=lapsed)

    def keep(self, write: Keep) -> None:
        """List a worker as alive, or take it off the list."""
        _, (id, face, process, room, lacks, _), ttl = write
        self.db.execute("DELETE FROM worker WHERE id = ?", (id,))
        if ttl > 0:
            columns = (id, face, *process, self.now() + ttl, room, json.dumps(dict(lacks)))
            self.db.execute("INSERT INTO worker VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", columns)

    def hand_back(self, write: HandBack) -> None:
        """Give up a claim, if the worker still has it."""
        _, worker, (request, wakes, alone), due = write
        now = self.now()
        if (
            due is None
            and self.db.execute(_GOES_ON, (request.run_id, json.dumps(RESTS))).fetchone()
        ):
            due = now + STRAY
        if alone:
            sql = "SELECT events FROM request WHERE key = ? AND worker = ?"
            claimed = self.db.execute(sql, (request.key, worker)).fetchone()
            if claimed is not None and self._has_new(request.run_id, *claimed):
                sql = "UPDATE request SET lapses = '[]' WHERE key = ? AND worker = ?"
                self.db.execute(sql, (request.key, worker))
        rests = wakes if due is None or due > now else -1
        self.db.execute(_HAND_BACK, (wakes, due, now, rests, request.key, worker))

    def sweep(self, write: Sweep) -> int:
        """Make the runs of dead workers due again, or park them."""
        now = self.now()
        for id, *process, until in self.db.execute(_DEAD).fetchall():
            if not is_number(until) or until <= now or is_gone(Process(*process)):
                # unless it has said meanwhile that it lives
                sql = "DELETE FROM worker WHERE id = ? AND until = ?"
                self.db.execute(sql, (id, until))
        orphans = self.db.execute(_ORPHANS).fetchall()
        for key, run_id, worker, since, events, lapses in orphans:
            before: list[Any] = [] if self._has_new(run_id, events) else json.loads(lapses)
            lapsed = [*before, [worker, since, now]]
            parked = is_parked(lapsed)
            given = None if parked else now, parked, json.dumps(lapsed), key, worker
            self.db.execute(_LAPSE, given)
        swept = len(orphans)
        if write.lost:
            swept += self.db.execute(_LOST, (now, now, json.dumps(RESTS))).rowcount
        return swept

    def workers(self) -> list[WorkerRow]:
        """The workers that are listed."""
        return [
            WorkerRow(id, face, Process(*process), room, json.loads(lacks), until)
            for id, face, *process, room, lacks, until in self.db.execute(_WORKERS)
        ]

    def backlog(self) -> Backlog:
        """The schedule as it is now."""
        now, db = self.now(), self.db
        due = db.execute(_DUE_FIRST, (now, SOME + 1)).fetchall()
        needs = dict.fromkeys(dict(db.execute(_NEEDS).fetchall()), 1) | {
            needed: count for needed, count, _ in due
        }
        holds = [Held(*held) for held in db.execute(_HOLDS).fetchall()]
        (resting,) = db.execute(_RESTING, (now, SOME + 1, SOME + 1)).fetchone()
        (placed,) = db.execute("SELECT coalesce(max(rowid), 0) FROM request").fetchone()
        stopped = "SELECT run_id, lapses FROM request WHERE outcome IS NULL AND parked"
        parked = [
            Parked(run_id, tuple(Lapse(*lapse) for lapse in json.loads(lapses)))
            for run_id, lapses in db.execute(stopped)
        ]
        return Backlog(
            sum(needs.values()), min((at for *_, at in due), default=None), len(holds),
            resting, placed, parked, needs,
            self.workers(),
            holds,
        )  # fmt: skip

    def living(self, of: str = "") -> list[LivingRuns]:
        """The runs that have not ended, counted by version."""
        sql = _LIVING.replace("{of}", "+tenant = ?" if of else "true")
        given = self.now(), *([of.removesuffix(MARK)] if of else []), COUNTED
        return [LivingRuns(*row) for row in self.db.execute(sql, given)]

    def resting(self, limit: int) -> list[Resting]:
        """The runs that are due by themselves later, the next first."""
        found = self.db.execute(_DUE_LATER, (self.now(), limit)).fetchall()
        return [Resting(*columns) for columns in found]

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
