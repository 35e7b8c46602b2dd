"""The schedule on DBOS: the cases of every schedule, and what only an engine can get wrong."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from chartloop import MemoryJournal, SqliteJournal
from chartloop.adapters.journal.opening import journal_of
from chartloop.adapters.journal.sqlite_migrations import MIGRATIONS as OF_FILES
from chartloop.core.errors import SetupError
from chartloop.run.journal import Journal
from chartloop.run.schedule import Claimed
from chartloop.run.sync import by_hand
from chartloop.testing.journal_suite.activations import ScheduleCases, claim, order, runs_of
from chartloop.testing.journal_suite.desk import Desk, Opening
from tests.cli.working import Place, kill_one_of_two, until
from tests.postgres import NEEDED, Cluster

if TYPE_CHECKING:
    from chartloop.adapters.journal.postgres import PostgresJournal

VERSION = OF_FILES[-1].number
"""The version of the tables, the same in both databases."""
pytestmark = [
    *NEEDED,
    pytest.mark.extra("dbos", install='pip install -e ".[distributed]"'),  # noqa: S610  no Django
]


def prepared(
    cluster: Cluster, folder: Path, now: Callable[[], float] | None = None
) -> PostgresJournal:
    """The journal of a folder, whose runs DBOS delivers."""
    from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415
    from chartloop.adapters.schedule.opening import prepare  # noqa: PLC0415

    journal = PostgresJournal(cluster.of(folder), redactor=None, now=now)
    prepare(journal, "dbos")
    return journal


class OnDbos:
    """A journal whose claims are what DBOS has delivered."""

    suspends = True
    OWN = "enqueue", "keep", "hand_back", "sweep", "backlog"

    def __init__(self, cluster: Cluster, direct: Any) -> None:
        import psycopg  # noqa: PLC0415  an extra

        from chartloop.adapters.schedule.dbos import DbosSchedule  # noqa: PLC0415

        self.direct = direct
        # asked again and again: a connection for each question took longer than DBOS
        self._database = psycopg.connect(cluster.url(), autocommit=True)
        self.schedule = DbosSchedule(direct, poll=0.02)
        self.schedule.start("suite", 1000, lambda: None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.schedule if name in self.OWN else self.direct.grouped, name)

    def workflows(self) -> Counter[str]:
        """The number of workflows, by status."""
        schema = self.direct.address.schema
        counted = f"SELECT status, count(*) FROM {schema}_dbos.workflow_status GROUP BY status"  # noqa: S608
        return Counter(dict(self._database.execute(counted.encode()).fetchall()))

    def rests(self) -> bool:
        """Whether DBOS has delivered everything."""
        found = self.workflows()
        left = found["ENQUEUED"] + found["DELAYED"]
        return not left and found["PENDING"] <= self.schedule.deliveries

    async def claim(
        self, worker: str, limit: int, can: Mapping[str, bool], *, alone: bool = False
    ) -> Claimed:
        until(self.rests, 15.0, pause=0.005)
        if alone:
            return await self.schedule.claim(worker, limit, can, alone=True)
        claimed = await self.schedule.claim(worker, limit, can)
        if claimed.runs:
            return claimed
        until(self.rests, 15.0, pause=0.005)  # what another could not drive is delivered anew
        return await self.schedule.claim(worker, limit, can)

    async def close(self) -> None:
        self._database.close()
        self.schedule.stop()
        self.schedule.close()
        await self.direct.close()


class TestSchedule(Opening, ScheduleCases):
    @pytest.fixture(autouse=True)
    def server(self, postgres: Cluster) -> None:
        self.cluster = postgres

    def open(self, folder: Path, now: Callable[[], float]) -> Journal:
        opened: Any = OnDbos(self.cluster, prepared(self.cluster, folder, now))
        return opened


@pytest.mark.slow("kills a process")
def test_a_killed_workers_runs_are_taken_up(postgres: Cluster, tmp_path: Path) -> None:
    place = Place(tmp_path, postgres.of(tmp_path))
    said = place.call("journal", "migrate", "--schedule", "dbos")
    assert said.endswith(f"tables of version {VERSION} made; DBOS delivers its runs\n")
    assert place.call("journal", "migrate").endswith("up to date; DBOS delivers its runs\n")
    kill_one_of_two(place)
    schema = place.where.rpartition("=")[2]
    drives = postgres.execute(f"SELECT count(*) FROM {schema}_dbos.workflow_status")  # noqa: S608
    assert drives[0][0] >= 12


def test_an_engine_that_refuses_fails_no_write_and_is_told_later(
    postgres: Cluster, tmp_path: Path
) -> None:
    journal = prepared(postgres, tmp_path)
    status = f"{journal.address.schema}_dbos.workflow_status"
    postgres.execute(f"ALTER TABLE {status} RENAME TO gone")
    order(Desk(journal), "r")
    postgres.execute(
        f"ALTER TABLE {status.replace('workflow_status', 'gone')} RENAME TO workflow_status"
    )
    on = OnDbos(postgres, journal)
    do = Desk(cast(Journal, on))
    assert claim(do) == []
    assert do(on.schedule.sweep()) == 0
    assert do(on.schedule.sweep(lost=True)) == 1
    assert runs_of(claim(do)) == ["r"]
    assert do(on.schedule.sweep(lost=True)) == 0
    do.close()


def test_a_delay_that_is_over_is_ended_even_if_the_clocks_of_all_workers_are_behind(
    postgres: Cluster, tmp_path: Path
) -> None:
    from chartloop.adapters.schedule.dbos_tables import FORGOTTEN, execute  # noqa: PLC0415

    journal = prepared(postgres, tmp_path)
    order(Desk(journal), "r")
    status = f"{journal.address.schema}_dbos.workflow_status"
    postgres.execute(f"UPDATE {status} SET status = 'DELAYED', delay_until_epoch_ms = 1")  # noqa: S608
    assert len(execute(journal.address, FORGOTTEN, None, 0.0)) == 1
    assert execute(journal.address, FORGOTTEN, None, 0.0) == []
    by_hand(journal.close())


def test_a_run_that_was_delivered_to_a_worker_that_lacks_something_finds_one_that_does_not(
    postgres: Cluster, tmp_path: Path
) -> None:
    on = OnDbos(postgres, prepared(postgres, tmp_path))
    do = Desk(cast(Journal, on))
    order(do, "r", needs="a machine")
    assert do(on.claim("one", 9, {"a machine": False})).runs == []
    assert on.schedule.deliveries == 0
    assert do(on.schedule.sweep(lost=True)) == 0
    assert do(on.claim("two", 9, {})).unjudged == {"a machine": "r"}
    assert runs_of(do(on.claim("one", 9, {"a machine": True})).runs) == ["r"]
    do.close()


def test_dbos_takes_higher_priorities_first_and_submitters_in_turn(
    postgres: Cluster, tmp_path: Path
) -> None:
    journal = prepared(postgres, tmp_path)
    do = Desk(cast(Journal, journal))
    order(do, *(f"many{number}" for number in range(4)), session="many")
    order(do, "single", session="s")
    order(do, "last", session="s", priority=9)
    order(do, "first", session="many", priority=1)
    order(do, "acme:single", session="many")
    schema = journal.address.schema
    rows = postgres.execute(
        f"SELECT workflow_uuid FROM {schema}_dbos.workflow_status "  # noqa: S608
        "WHERE status = 'ENQUEUED' ORDER BY priority, created_at"
    )
    taken = [str(id).rsplit(":", 3)[0] for (id,) in rows]
    assert (taken[0], taken[-1]) == ("first", "last")
    assert {*taken[1:4]} == {"many0", "single", "acme:single"}
    assert taken[4:-1] == ["many1", "many2", "many3"]
    do.close()


def test_who_only_submits_needs_no_rights_in_dbos(postgres: Cluster, tmp_path: Path) -> None:
    from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415

    journal = prepared(postgres, tmp_path)
    schema = journal.address.schema
    postgres.execute(
        f"CREATE ROLE submitter LOGIN; GRANT USAGE ON SCHEMA {schema} TO submitter; "
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO submitter"
    )
    submitter = PostgresJournal(postgres.url(schema, user="submitter"), make=False)
    order(Desk(submitter), "r")
    by_hand(submitter.close())
    on = OnDbos(postgres, journal)
    do = Desk(cast(Journal, on))
    assert runs_of(claim(do)) == ["r"]
    do.close()


def test_what_a_dead_worker_left_in_dbos_is_ended(postgres: Cluster, tmp_path: Path) -> None:
    on = OnDbos(postgres, prepared(postgres, tmp_path))
    do = Desk(cast(Journal, on))
    order(do, "r")
    claim(do)
    status = f"{on.direct.address.schema}_dbos.workflow_status"
    postgres.execute(f"UPDATE {status} SET executor_id = 'dead'")  # noqa: S608
    assert do(on.schedule.sweep(lost=True)) == 0
    assert (on.workflows()["PENDING"], on.workflows()["CANCELLED"]) == (0, 1)
    do.close()


def test_dbos_needs_a_journal_that_is_prepared_for_it(postgres: Cluster, tmp_path: Path) -> None:
    from chartloop.adapters.schedule.opening import engine_of, prepare  # noqa: PLC0415

    for wrong in (MemoryJournal(), SqliteJournal(tmp_path / "j.db")):
        with pytest.raises(SetupError, match="cannot deliver the runs"):
            engine_of(wrong, "dbos")
        assert engine_of(wrong) is None
        by_hand(wrong.close())
    journal = journal_of(postgres.of(tmp_path))
    with pytest.raises(SetupError, match="does not deliver"):
        engine_of(journal, "dbos")
    assert engine_of(journal) is None
    prepare(journal, "dbos")
    prepare(journal, "dbos")  # again, as with each migration
    assert engine_of(journal) is not None
    assert engine_of(journal, "table") is None
    prepare(journal, "table")
    assert engine_of(journal) is None
    by_hand(journal.close())


def test_without_dbos_the_door_says_how_to_get_it(postgres: Cluster, tmp_path: Path) -> None:
    by_hand(prepared(postgres, tmp_path).close())
    code = f"""import sys
sys.modules["dbos"] = None
from chartloop.adapters.journal.opening import journal_of
from chartloop.adapters.schedule.opening import engine_of
try:
    engine_of(journal_of({postgres.of(tmp_path)!r}))
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("SetupError the runs of this journal are delivered by DBOS")
    assert "pip install" in done.stdout
