"""Cron schedules as rows. What they mean is said in `run.cron`."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable

from chartloop.adapters.journal.texts import UNREAD, read_text
from chartloop.adapters.journal.writes import Connection, CreateWhole, PlaceRequest, PutCron
from chartloop.core.codec import NOT_FAST, read
from chartloop.run.cron import CronSchedule
from chartloop.run.journal import RunRow
from chartloop.run.requests import StoredRequest


class CronRows(ABC):
    """The table `cron`."""

    db: Connection
    now: Callable[[], float]

    @abstractmethod
    def row(self, run_id: str) -> RunRow | None: ...
    @abstractmethod
    def create_whole(self, write: CreateWhole) -> None: ...
    @abstractmethod
    def place_request(self, write: PlaceRequest) -> StoredRequest: ...

    def put_cron(self, write: PutCron) -> bool:
        """Change a schedule of this version, and create the runs of its tick."""
        _, name, version, first, after, whole, orders = write
        if after is None:
            sql, values = "DELETE FROM cron WHERE name = ? AND version = ?", (name, version)
        elif version is None:
            sql = "INSERT INTO cron VALUES (?, ?, ?, ?) ON CONFLICT (name) DO NOTHING"
            values = (name, first, *after)
        else:
            sql = (
                "UPDATE cron SET version = version + 1, due = ?, data = ? "
                "WHERE name = ? AND version = ?"
            )
            values = (*after, name, version)
        if self.db.execute(sql, values).rowcount == 0:
            return False
        new = {run.run_id for run in whole.runs if self.row(run.run_id) is None}
        runs = [run for run in whole.runs if run.run_id in new]
        self.create_whole(whole._replace(runs=runs))
        for order in orders:
            if order.run_id in new:
                self.place_request(order)
        return True

    def cron_schedules(self, due: bool) -> list[CronSchedule]:
        """The schedules, or those that are due. Damaged ones are skipped."""
        sql = "SELECT name, version, data FROM cron"
        if due:
            found = self.db.execute(f"{sql} WHERE due <= ? ORDER BY name", (self.now(),))
        else:
            found = self.db.execute(f"{sql} ORDER BY name")
        schedules: list[CronSchedule] = []
        for name, version, data in found.fetchall():
            try:
                kept = json.loads(read_text(data))
                schedules.append(read({**kept, "name": name, "version": version}, CronSchedule, {}))
            except (*UNREAD, *NOT_FAST):
                continue
        return schedules
