"""Leases as rows of a SQLite file. `run.lease` decides who gets one."""

from __future__ import annotations

from collections.abc import Sequence

from chartloop.adapters.journal.sqlite_migrations import Connection
from chartloop.run.lease import Acquired, Claim, Driver, Lease, ancestry, grant
from chartloop.run.processes import Process
from chartloop.run.validate_record import is_number


def take(db: Connection, run_id: str, claim: Claim, now: float) -> Acquired:
    """Replace the lease of a run by that of a claim. Raises `Driven` before anything is written."""
    acquired = try_claim(db, run_id, claim, now)
    db.execute("DELETE FROM lease WHERE run_id = ?", (run_id,))
    if acquired.lease is not None:
        driver, *times = acquired.lease
        columns = (run_id, driver.token, driver.face, *driver.process, *times)
        db.execute("INSERT INTO lease VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", columns)
    return acquired


def try_claim(db: Connection, run_id: str, claim: Claim, now: float) -> Acquired:
    """The lease that a claim would get, without writing it."""
    return grant(run_id, leases(db, *ancestry(run_id)), claim, now)


def lease(db: Connection, run_id: str) -> Lease | None:
    """The run's lease, or None."""
    return leases(db, run_id).get(run_id)


def leases(db: Connection, *run_ids: str) -> dict[str, Lease]:
    """The leases of these runs by id, in the order of the ids."""
    marks = ", ".join("?" * len(run_ids))
    found = {
        run_id: Lease(Driver(token, face, Process(*process)), since, renewed, until)
        for run_id, token, face, *process, since, renewed, until in db.execute(
            f"SELECT * FROM lease WHERE run_id IN ({marks})",  # noqa: S608  marks alone
            run_ids,
        )
        if _is_sound((token, face), Process(*process), (since, renewed, until))
    }
    return {run_id: found[run_id] for run_id in run_ids if run_id in found}


def _is_sound(names: Sequence[object], process: Process, times: Sequence[object]) -> bool:
    """Whether a row is a valid lease. A damaged one is ignored."""
    host, pid, place, born = process
    named = all(isinstance(text, str) for text in (*names, host, place, born))
    return named and type(pid) is int and 0 <= pid < 1 << 31 and all(map(is_number, times))


def renew(db: Connection, run_id: str, token: str, now: float, ttl: float) -> bool:
    """Renew a driver's lease. False if it has none."""
    sql = "UPDATE lease SET renewed = ?, until = ? WHERE run_id = ? AND token = ?"
    return db.execute(sql, (now, now + ttl, run_id, token)).rowcount == 1


def release(db: Connection, run_id: str, token: str) -> None:
    """Delete a driver's lease."""
    db.execute("DELETE FROM lease WHERE run_id = ? AND token = ?", (run_id, token))
