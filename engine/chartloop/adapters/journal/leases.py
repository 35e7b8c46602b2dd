"""Leases as rows of a database. `run.lease` decides who gets one."""

from __future__ import annotations

from collections.abc import Sequence

from chartloop.adapters.journal.activations import ScheduleRows
from chartloop.adapters.journal.writes import MarkRestored, Release, Renew
from chartloop.run.lease import Acquired, Claim, Driver, Lease, ancestry, grant, living
from chartloop.run.processes import Process
from chartloop.run.validate_record import is_number

RESTORED = ("ALTER TABLE journal ADD COLUMN restored DOUBLE PRECISION NOT NULL DEFAULT 0",)
"""What version 4 of the tables adds, for SQLite and PostgreSQL."""


class LeaseRows(ScheduleRows):
    """The table `lease`."""

    def take(self, run_id: str, claim: Claim) -> Acquired:
        """Replace the lease of a run by that of a claim. `Driven` before anything is written."""
        acquired = self.try_claim(run_id, claim)
        self.db.execute("DELETE FROM lease WHERE run_id = ?", (run_id,))
        if acquired.lease is not None:
            driver, *times = acquired.lease
            columns = (run_id, driver.token, driver.face, *driver.process, *times)
            self.db.execute("INSERT INTO lease VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", columns)
        return acquired

    def try_claim(self, run_id: str, claim: Claim) -> Acquired:
        """The lease that a claim would get, without writing it."""
        return grant(run_id, self._leases(*ancestry(run_id)), claim, self.now())

    def lease(self, run_id: str) -> Lease | None:
        """The run's lease, or None."""
        return self._leases(run_id).get(run_id)

    def living_lease(self, run_id: str) -> tuple[str, Lease] | None:
        """The lease that keeps other drivers from the run, after the id of its run."""
        return living(self._leases(*ancestry(run_id)), self.now())

    def _leases(self, *run_ids: str) -> dict[str, Lease]:
        """The leases of these runs by id, in the order of the ids."""
        sql = f"SELECT * FROM lease WHERE run_id IN ({', '.join('?' * len(run_ids))})"  # noqa: S608  marks alone
        leases = {
            run_id: Lease(Driver(token, face, Process(*process)), since, renewed, until)
            for run_id, token, face, *process, since, renewed, until in self.db.execute(
                sql, run_ids
            )
            if _is_sound((token, face), Process(*process), (since, renewed, until))
        }
        return {run_id: leases[run_id] for run_id in run_ids if run_id in leases}

    def restored(self) -> float:
        """When the journal was marked as restored; 0 while it is not."""
        return self.db.execute("SELECT restored FROM journal").fetchone()[0]

    def mark_restored(self, write: MarkRestored) -> None:
        """Set or lift the mark. Setting it fences the drivers of all runs that have not ended."""
        at = 0.0
        if not write.lift:
            self.db.execute("UPDATE run SET epoch = epoch + 1 WHERE ending = '' AND moved_to = ''")
            newest = self.db.execute("SELECT max(CAST(created AS REAL)) FROM run").fetchone()[0]
            at = max(self.now(), newest or 0.0)
        self.db.execute("UPDATE journal SET restored = ?", (at,))

    def renew(self, write: Renew) -> bool:
        """Renew a driver's lease. False if it has none."""
        run_id, token, ttl = write
        now = self.now()
        sql = "UPDATE lease SET renewed = ?, until = ? WHERE run_id = ? AND token = ?"
        return self.db.execute(sql, (now, now + ttl, run_id, token)).rowcount == 1

    def release(self, write: Release) -> None:
        """Delete a driver's lease. What it left is due again."""
        self.db.execute("DELETE FROM lease WHERE run_id = ? AND token = ?", write)
        self.wake(write.run_id, left=True)


def _is_sound(names: Sequence[object], process: Process, times: Sequence[object]) -> bool:
    """Whether a row is a valid lease. A damaged one is ignored."""
    host, pid, place, born = process
    named = all(isinstance(text, str) for text in (*names, host, place, born))
    return named and type(pid) is int and 0 <= pid < 1 << 31 and all(map(is_number, times))
