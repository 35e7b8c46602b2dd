"""Limits and reservations that an older version wrote: each keeps its day, as far as it is known."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.run.fleet import DAY
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock
from chartloop.testing.journal_suite.desk import Desk
from tests.postgres import NEEDED, Cluster

TODAY = 1_700_000_000.0 // DAY * DAY
OLD_LIMITS = [("day", 50.0), ("all", 70.0), ("minute", 9.0)]
"""What `used` shows of each. The older tables kept what calls of yesterday held among today's."""
OLD_CALLS = [
    ("yesterdays", TODAY - 3600.0, "day", True), ("todays", TODAY + 60.0, "day", True),
    ("flies", TODAY + 90.0, "day", False), ("flew", TODAY - 60.0, "day", False),
    ("unsent", None, "day", False), ("any", TODAY - 9 * DAY, "all", True),
    ("rate", TODAY + 60.0, "minute", True),
]  # fmt: skip


def old_rows(execute: Callable[..., Any], mark: str) -> None:
    """Rows as version 4 of the tables has them: 4 USD each."""

    def put(into: str, *row: Any) -> None:
        execute(f"INSERT INTO {into} VALUES ({', '.join([mark] * len(row))})", row)  # noqa: S608

    for per, used in OLD_LIMITS:
        put("quota", "fleet", "cost", per, 100.0, used, 12.0, TODAY + 100.0)
    for n, (key, at, per, doubt) in enumerate(OLD_CALLS):
        put("reservation", key, 3, key, "fleet", "cost", per, 4.0, doubt)
        for seq, when in ((2, TODAY - 2 * DAY), (4, at), (5, TODAY + 5 * DAY)):
            if at is not None:
                data, names = (
                    json.dumps({"key": key}).encode(),
                    "number, run_id, seq, epoch, type, at, data",
                )
                put(f"event ({names})", n * 10 + seq, key, seq, 1, "intent", when, data)


def check_old_rows(do: Desk) -> None:
    """Each older reservation belongs to the day in which its call was made."""

    def figures(per: str) -> tuple[float, float, float]:
        (found,) = (one for one in do(do.journal.limits()) if one.per == per)
        return found.used, found.held, found.in_doubt

    def settled(key: str, head: int | None = None) -> None:
        assert do(do.journal.settle_call(key, key, {"cost": 1.0}, head=head))

    assert figures("day") == (50.0, 4.0, 4.0)
    assert figures("all") == (70.0, 0.0, 4.0)
    assert len(do(do.journal.doubts())) == 4
    settled("yesterdays")
    settled("flew", 3)
    settled("unsent", 3)
    assert figures("day") == (50.0, 4.0, 4.0)
    settled("todays")
    assert figures("day") == (47.0, 4.0, 0.0)
    settled("flies", 3)
    assert figures("day") == (48.0, 0.0, 0.0)
    settled("any")
    assert figures("all") == (67.0, 0.0, 0.0)
    before = figures("minute")
    settled("rate")
    assert figures("minute") == before


def test_older_rows_of_a_file_keep_their_day(tmp_path: Path) -> None:
    from chartloop.adapters.journal.sqlite_migrations import MIGRATIONS  # noqa: PLC0415

    path = tmp_path / "journal.db"
    by_hand(SqliteJournal(path, migrations=MIGRATIONS[:4]).close())
    with closing(sqlite3.connect(path)) as database:
        old_rows(database.execute, "?")
        database.commit()
    clock = ManualClock(TODAY + 120.0)
    do = Desk(SqliteJournal(path, redactor=None, now=clock.now))
    check_old_rows(do)
    do.close()


@pytest.mark.parametrize("where", [pytest.param("postgres", marks=NEEDED)])
def test_older_rows_of_postgres_keep_their_day(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    import psycopg  # noqa: PLC0415

    from chartloop.adapters.journal.postgres import PostgresJournal, migrate_database  # noqa: PLC0415
    from chartloop.adapters.journal.postgres_tables import MIGRATIONS  # noqa: PLC0415

    cluster: Cluster = request.getfixturevalue(where)
    url = cluster.of(tmp_path)
    Desk(PostgresJournal(url, migrations=MIGRATIONS[:4])).close()
    with psycopg.connect(cluster.url()) as database:
        schema = url.rpartition("schema=")[2]
        database.execute(f"SET search_path = {schema}".encode())
        cursor = database.cursor()
        old_rows(cast("Callable[..., Any]", cursor.execute), "%s")
    clock = ManualClock(TODAY + 120.0)
    assert migrate_database(url)[1:] == (4, len(MIGRATIONS))
    do = Desk(PostgresJournal(url, redactor=None, now=clock.now))
    check_old_rows(do)
    do.close()
