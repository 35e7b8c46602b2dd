"""What waits, what no worker here can drive and what was ever ordered is not read again and again.

Counted are the instructions of SQLite's machine, and the rows that PostgreSQL reads: what an idle
worker, a list and a submit cost does not grow with the journal.
"""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.run.journal import Journal
from chartloop.run.journal_pages import RunFilter, RunOrder, Sort
from chartloop.run.journal_records import RunRow
from chartloop.run.schedule import SOME
from chartloop.run.sync import by_hand
from chartloop.testing.journal_suite.activations import ONE, order
from chartloop.testing.journal_suite.desk import Desk
from chartloop.testing.journal_suite.requests import asked
from tests.postgres import NEEDED

if TYPE_CHECKING:
    from tests.postgres import Cluster

FEW, MANY = 40, 2_000
SETTINGS = (
    "UPDATE run SET status = 'paused', question = '{}' WHERE run_id = 'waits'",
    "UPDATE run SET status = 'completed', ending = 'done', reason = 'completed' WHERE run_id = 'd'",
    "UPDATE run SET status = 'paused' WHERE run_id = 'answered'",
    "UPDATE request SET due = NULL, turn = NULL WHERE run_id = 'waits'",
    "UPDATE request SET outcome = '{}', due = NULL, turn = NULL WHERE run_id = 'd'",
)
"""One run waits, one has ended, one is due and needs what no worker here has."""
COPIED = {
    "run_id": "run_id || n", "key": "key || n", "created": "created + n", "steps": "n", "cost": "n",
}  # fmt: skip
COLUMNS = {
    "run": "run_id machine machine_hash epoch head status state reason steps wake_at agent session "
    "parent fork_seq moved_to priority created updated question tokens cost origin chain task "
    "ending message last_state follows",
    "request": "key run_id kind digest at data outcome needs due wakes worker since events lapses "
    "parked priority share turn",
}

Look = Callable[[Journal], Any]


def submitted(journal: Journal) -> None:
    """What `chartloop submit` asks the journal for."""
    by_hand(journal.create(RunRow("new")))
    by_hand(journal.place_request(asked("new", "new")))
    by_hand(journal.workers())
    by_hand(journal.remove(["new"]))


def listed(filter: RunFilter, by: str = "started", *, ascending: bool = False) -> Look:
    """The first page of a list."""
    order = RunOrder(cast(Sort, by), ascending=ascending)
    return lambda journal: by_hand(journal.page(filter, "", 20, order=order))


LOOKS: dict[str, Look] = {
    "sweep": lambda journal: by_hand(journal.sweep()),
    "sweep for what was lost": lambda journal: by_hand(journal.sweep(lost=True)),
    "claim": lambda journal: by_hand(journal.claim("one", 5, {"own": True})),
    "claim, knowing": lambda journal: by_hand(journal.claim("one", 5, {"other": False})),
    "keep": lambda journal: by_hand(journal.keep(ONE)),
    "news": lambda journal: by_hand(journal.changed("")),
    "cron": lambda journal: by_hand(journal.cron_schedules(due=True)),
    "submit": submitted,
    "all": listed(RunFilter()),
    "inbox": listed(RunFilter(waiting=True)),
    "ended": listed(RunFilter(ending="done")),
    "failed": listed(RunFilter(ending="failed", followed=False)),
    "living": listed(RunFilter(ending="")),
    "paused": listed(RunFilter(status="paused")),
    "of a machine": listed(RunFilter(machine="none")),
    "of a tenant": listed(RunFilter(tenant="t")),
    "of a parent": listed(RunFilter(parent="p")),
    "by their ids": listed(RunFilter(prefix="zz")),
    **{
        f"by {by}, {'up' if ascending else 'down'}": listed(RunFilter(), by, ascending=ascending)
        for by in ("started", "duration", "steps", "cost", "tokens")
        for ascending in (True, False)
    },
}


def fill(journal: Journal, execute: Callable[[str], Any], n: int) -> None:
    """`n` runs of each kind, copied from one that the journal wrote."""
    do = Desk(journal)
    order(do, "waits", "d")
    order(do, "answered", needs="other")
    for sql in SETTINGS:
        execute(sql)
    numbers = f"WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < {n})"  # noqa: S608
    for table, names in COLUMNS.items():
        columns = ", ".join(names.split())
        copies = ", ".join(COPIED.get(name, name) for name in names.split())
        execute(f"INSERT INTO {table} ({columns}) {numbers} SELECT {copies} FROM {table}, t")  # noqa: S608


# the file -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Two journals: of few runs and of many."""
    paths = tuple(tmp_path_factory.mktemp("reads") / f"{n}.db" for n in (FEW, MANY))
    for path, n in zip(paths, (FEW, MANY), strict=True):
        journal = SqliteJournal(path)
        database = sqlite3.connect(path, isolation_level=None)
        fill(journal, database.execute, n)
        database.close()
        by_hand(journal.close())
    return paths


def instructions(path: Path, look: Look) -> int:
    """What a look costs in instructions of SQLite's machine."""
    journal, count = SqliteJournal(path), 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    def watch(handler: Callable[[], int] | None) -> None:
        for database in gc.get_objects():
            if isinstance(database, sqlite3.Connection):
                with suppress(sqlite3.ProgrammingError):  # it is closed
                    database.set_progress_handler(handler, 1)

    look(journal)  # what is prepared once
    watch(tick)
    try:
        look(journal)
    finally:
        watch(None)
        by_hand(journal.close())
    return count


@pytest.mark.parametrize("look", LOOKS)
def test_a_file_with_fifty_times_the_runs_costs_the_same(
    files: tuple[Path, ...], look: str
) -> None:
    few, many = (instructions(path, LOOKS[look]) for path in files)
    assert few > 0 or look == "news"
    assert many <= few + 200, (few, many)  # a page of an index holds some rows more or less


def test_a_backlog_counts_so_many_runs_and_says_that_there_are_more(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    database = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    fill(journal, database.execute, SOME + 500)
    database.close()
    backlog = by_hand(journal.backlog())
    assert (backlog.due, backlog.resting, backlog.held) == (SOME + 1, SOME + 1, 0)
    assert backlog.needs == {"other": SOME + 1}
    assert backlog.placed == 3 * (SOME + 501)
    by_hand(journal.close())


# the server ---------------------------------------------------------------------------------------

READ = (
    "SELECT coalesce(sum(seq_tup_read), 0) + coalesce(sum(idx_tup_fetch), 0) "
    "FROM pg_stat_user_tables WHERE schemaname = '{}'"
)


class OnServer:
    """A journal of `n` runs of each kind in a schema of a server."""

    def __init__(self, cluster: Cluster, path: Path, n: int) -> None:
        from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415

        self.cluster, self.url = cluster, cluster.of(path / str(n))
        self.open = lambda: PostgresJournal(self.url)
        self.schema = self.url.rpartition("schema=")[2]
        journal = self.open()
        fill(journal, lambda sql: cluster.execute(f"SET search_path = '{self.schema}'; {sql}"), n)
        cluster.execute("ANALYZE")
        by_hand(journal.close())

    def rows(self, look: Look) -> int:
        """The rows that a look reads. A connection tells them when it ends."""
        journal = self.open()
        look(journal)
        by_hand(journal.close())
        before = self.read()
        journal = self.open()
        by_hand(journal.close())
        opened = self.read()
        journal = self.open()
        look(journal)
        by_hand(journal.close())
        return (self.read() - opened) - (opened - before)

    def read(self) -> int:
        """The rows that were read so far."""
        return int(self.cluster.execute(READ.format(self.schema))[0][0])


@pytest.fixture(scope="module")
def servers(postgres: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[OnServer, ...]:
    """Two journals: of few runs and of many."""
    path = tmp_path_factory.mktemp("reads")
    return tuple(OnServer(postgres, path, n) for n in (FEW, MANY))


class TestServer:
    """The same on PostgreSQL, where the planner has a say."""

    pytestmark: ClassVar = [*NEEDED]

    @pytest.mark.parametrize("look", LOOKS)
    def test_a_database_with_fifty_times_the_runs_costs_the_same(
        self, servers: tuple[OnServer, ...], look: str
    ) -> None:
        few, many = (server.rows(LOOKS[look]) for server in servers)
        assert many <= max(few, 3 * FEW) + 50, (few, many)
