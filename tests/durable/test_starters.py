"""Several programs start one run: it is begun once, and everyone else learns of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from chartloop.adapters.journal.opening import journal_of
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Machine, load
from chartloop.core.errors import RunError
from chartloop.hosting.begin import PATIENCE, begin_once
from chartloop.hosting.callers import Caller
from chartloop.hosting.machines import Machines
from chartloop.hosting.runs import Runs, release
from chartloop.hosting.settings import Settings
from chartloop.run.copies import put_tree, read_tree
from chartloop.run.journal import Journal
from chartloop.run.lease import TTL, Driver
from chartloop.run.processes import Process
from chartloop.run.sync import by_hand
from chartloop.testing.journal_suite.concurrent import race
from tests.postgres import NEEDED, Cluster

MACHINE = """\
chartloop: 1
machine: m
states:
  a: {ask: 'Go on?', on: {yes: d}}
  d: {stop: completed}
"""
J = TypeVar("J", bound=Journal)
CALLERS = 4
ROUNDS = 10


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=NEEDED)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty journal."""
    if request.param == "sqlite":
        return str(tmp_path / "j.db")
    cluster: Cluster = request.getfixturevalue("postgres")
    return cluster.of(tmp_path)


@pytest.fixture
def another(where: str) -> Iterator[Callable[[], Journal]]:
    """Opens the journal once more."""
    with ExitStack() as stack:

        def another() -> Journal:
            journal = journal_of(where)
            stack.callback(lambda: by_hand(journal.close()))
            return journal

        yield another


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "m.yaml").write_text(MACHINE)
    return load(tmp_path / "m.yaml")


@contextmanager
def closing_journal(journal: J) -> Generator[J]:
    yield journal
    by_hand(journal.close())


def kinds(journal: Journal, run_id: str) -> list[str]:
    """The kinds of the records of a run."""
    return [e.record.input.kind for e in by_hand(journal.events(run_id)) if e.record is not None]


def begin(machine: Machine, journal: Journal, run_id: str) -> None:
    run = machine.start("x", run_id=run_id, journal=journal)
    run.advance()
    release(run)


class Overtaken(SqliteJournal):
    """A journal in which another program acts just before this one takes a run."""

    happens: Callable[[], None] | None = None

    async def acquire(self, *args: Any, **more: Any) -> Any:
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        return await super().acquire(*args, **more)


def test_a_run_that_was_begun_meanwhile_gets_no_second_start(
    machine: Machine, tmp_path: Path
) -> None:
    """Both have found no record; the other one goes on first."""
    path = tmp_path / "j.db"
    with closing_journal(SqliteJournal(path)) as one, closing_journal(Overtaken(path)) as two:
        two.happens = partial(begin, machine, one, "r")
        with pytest.raises(RunError, match="there is a run `r` already"):
            begin(machine, two, "r")
        assert kinds(two, "r") == ["start"]
        assert machine.open("r", journal=two).status == "paused"
        assert by_hand(two.living_lease("r")) is None


def test_one_id_is_begun_once(another: Callable[[], Journal], machine: Machine) -> None:
    journals = [another() for _ in range(CALLERS)]
    for number in range(ROUNDS):
        run_id = f"r{number}"
        outcomes = race(*(partial(begin, machine, journal, run_id) for journal in journals))
        refused = [one for one in outcomes if one is not None]
        assert all(isinstance(one, RunError) for one in refused), refused
        assert len(refused) == CALLERS - 1
        assert kinds(journals[0], run_id) == ["start"]


def test_everyone_who_may_find_the_run_begun_succeeds(
    another: Callable[[], Journal], machine: Machine
) -> None:
    journals = [another() for _ in range(CALLERS)]
    for number in range(ROUNDS):
        run_id = f"r{number}"
        outcomes = race(*(
            partial(begin_once, journal, run_id, partial(begin, machine, journal, run_id))
            for journal in journals
        ))  # fmt: skip
        assert sorted(outcomes, key=str) == [False] * (CALLERS - 1) + [True]
        assert kinds(journals[0], run_id) == ["start"]


def test_a_starter_that_died_elsewhere_is_waited_for_until_its_lease_ends(
    another: Callable[[], Journal], machine: Machine
) -> None:
    """Nobody here can see whether a process of another machine lives."""
    journal, elsewhere = another(), Driver("far", "serve", Process("another-box", 7, "there", "1"))
    run = machine.start("x", run_id="r", journal=journal)
    by_hand(journal.put_blob(machine.chart.text))
    by_hand(journal.create(run.session.row))
    by_hand(journal.acquire("r", elsewhere, ttl=1.0))
    assert begin_once(journal, "r", partial(begin, machine, journal, "r"))
    assert kinds(journal, "r") == ["start"]
    assert PATIENCE > TTL


def test_what_hinders_a_start_is_said_at_once(
    another: Callable[[], Journal], machine: Machine
) -> None:
    journal = another()

    def fails() -> None:
        raise RunError("there is no task", hint="give one")

    with pytest.raises(RunError, match="there is no task"):
        begin_once(journal, "r", fails)


def test_a_start_with_a_key_gives_one_run_whoever_sends_it(
    another: Callable[[], Journal], machine: Machine, tmp_path: Path
) -> None:
    journals = [another() for _ in range(CALLERS)]
    settings = [Settings(machines=(tmp_path,), journal=one, workers=0) for one in journals]
    servers = [
        Runs(each, journal, Machines(each, journal))
        for each, journal in zip(settings, journals, strict=True)
    ]
    for number in range(ROUNDS):
        caller = Caller(key=f"k{number}")
        body = {"machine": machine.name, "task": "x"}
        outcomes = race(*(partial(server.start, body, caller) for server in servers))
        receipts = [receipt for receipt, _ in outcomes]
        assert receipts == [receipts[0]] * CALLERS
        assert sum(new for _, new in outcomes) == 1
        assert kinds(journals[0], receipts[0]["run"]) == ["start"]
    assert len(by_hand(journals[0].rows())) == ROUNDS


def test_imports_of_the_same_file_at_once_write_each_run_once(
    another: Callable[[], Journal], machine: Machine, tmp_path: Path
) -> None:
    with closing_journal(SqliteJournal(tmp_path / "origin.db")) as origin:
        for number in range(ROUNDS):
            begin(machine, origin, f"r{number}")
        trees = [by_hand(read_tree(origin, f"r{number}")) for number in range(ROUNDS)]
    journals = [another() for _ in range(CALLERS)]
    for tree in trees:
        works = (partial(put_tree, journal, tree, go_on=False) for journal in journals)
        outcomes = race(*(lambda work=work: by_hand(work()) for work in works))
        assert sorted(one.new for one in outcomes) == [0] * (CALLERS - 1) + [1]
    assert len(by_hand(journals[0].rows())) == ROUNDS


@pytest.mark.slow("starts processes")
def test_submit_with_a_key_says_the_same_to_everyone(where: str, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MACHINE)
    (tmp_path / "tasks.jsonl").write_text("".join(f'{{"task": "{n}"}}\n' for n in range(8)))
    command = [
        sys.executable, "-m", "chartloop", "submit", "m.yaml", "--inputs", "tasks.jsonl", "--key",
        "k", "--journal", where, "--format", "json",
    ]  # fmt: skip
    processes = [
        subprocess.Popen(
            command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(6)
    ]
    done = [(*process.communicate(timeout=120), process.returncode) for process in processes]
    assert [code for *_, code in done] == [0] * len(done), done
    told = [json.loads(out) for out, *_ in done]
    assert all(one["runs"] == told[0]["runs"] for one in told)
    assert sum(one["submitted"] for one in told) == 8
    journal = journal_of(where)
    rows = by_hand(journal.rows())
    assert len(rows) == 8
    assert all(kinds(journal, row.run_id) == ["start"] for row in rows)
    by_hand(journal.close())
