"""A journal that was restored from a backup: what its runs do next may have been done before.

The table is the test. A row is a kind of call, the columns are the two databases. A run waits, the
journal is copied, the run goes on and makes its calls, and the copy is put back and marked. Then
the run goes on once more: nothing that was paid is paid again unless a person or the file says so.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chartloop import Context, Machine, Run, load
from chartloop.actions.declare import action_spec, tool_spec
from chartloop.adapters.journal.opening import journal_of
from chartloop.api.retrying import check_retry, retry_plan, retry_run
from chartloop.core.errors import Fenced
from chartloop.run.journal import Journal
from chartloop.run.sync import by_hand
from tests.postgres import NEEDED, PROGRAMS, Cluster

WARNED = "may have been made before the journal was restored from a backup"


class Bank:
    """A ledger outside of the journal, which no backup takes back."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.within: Callable[[], None] = lambda: None
        """What happens within a payment."""

    def pay(self, usd: int) -> str:
        """Pay.

        Args:
            usd: How much.
        """
        self.within()
        self.done.append(f"pay {usd}")
        return f"paid {usd}"

    def judge(self, text: str) -> str:
        """Judge a text."""
        self.done.append("judge")
        return '{"verdict": "pass"}'

    def book(self) -> str:
        """Book with the key that the call has."""
        self.done.append("book")
        return "booked"

    def look(self) -> str:
        """Look."""
        self.done.append("look")
        return "seen"

    def wire(self, ctx: Context) -> str:
        """Wire money, as an action of the application."""
        self.done.append("wire")
        return "wired"

    def machine(self, text: str) -> Machine:
        """A machine with all of it."""
        tools = [
            tool_spec(self.pay),
            tool_spec(self.judge),
            tool_spec(self.book, effect="local"),
            tool_spec(self.look, effect="pure"),
        ]
        return load(text, tools=tools, actions=[action_spec(self.wire)])


class Backup:
    """A journal that is copied and put back."""

    def __init__(self, folder: Path, cluster: Cluster | None) -> None:
        self.folder, self.cluster = folder, cluster
        self.where = str(folder / "j.db") if cluster is None else cluster.of(folder)
        self.copy = folder / "copy"

    @property
    def journal(self) -> Journal:
        """The journal, opened if it is closed."""
        return journal_of(self.where)

    def keep(self) -> None:
        """Copy the journal while it is in use."""
        if self.cluster is None:
            with closing(sqlite3.connect(self.where)) as source:
                source.execute("PRAGMA busy_timeout = 1000")
                with closing(sqlite3.connect(self.copy)) as copy:
                    source.backup(copy)
            return
        self._run("pg_dump", "--schema", self.schema, "--file", str(self.copy))

    def put_back(self) -> None:
        """Put the copy in the place of the journal, which nothing uses any more."""
        by_hand(self.journal.close())
        if self.cluster is None:
            for rest in ("", "-wal", "-shm"):
                Path(self.where + rest).unlink(missing_ok=True)
            shutil.copy(self.copy, self.where)
            return
        self.cluster.execute(f'DROP SCHEMA "{self.schema}" CASCADE')
        self._run("psql", "--quiet", "--set", "ON_ERROR_STOP=1", "--file", str(self.copy))

    @property
    def schema(self) -> str:
        return self.where.rpartition("schema=")[2]

    def _run(self, program: str, *arguments: str) -> None:
        url = self.where.partition("?")[0]
        command = [str(PROGRAMS / program), url, *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=60)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=NEEDED)])
def backup(request: pytest.FixtureRequest, tmp_path: Path) -> Backup:
    sqlite = request.param == "sqlite"
    return Backup(tmp_path, None if sqlite else request.getfixturevalue("postgres"))


HEAD = """\
chartloop: 1
machine: m
{more}tools: [pay, judge, book, look]
limits: {{steps: 30}}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
  start: {{do: receive, next: question}}
  question: {{ask: Go on?, on: {{yes: act}}}}
"""
END = "  done: {stop: completed}\n"
LOOP = """\
  act: {{do: {do}, next: [{{when: len(last.tool_calls) > 0, to: call}}, {{to: done}}]}}
  call: {{do: {call}, next: act}}
"""


def calls(*named: tuple[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A reply that calls tools."""
    return {"tool_calls": [{"name": name, "arguments": given} for name, given in named]}


TWO = calls(("pay", {"usd": 1}), ("pay", {"usd": 2}))


@dataclass(frozen=True)
class Kind:
    """A kind of call, and what becomes of it in a restored journal."""

    id: str
    states: str
    script: tuple[Any, ...] = ("Done.",)
    done: tuple[str, ...] = ()
    """The effects before the journal was restored."""
    again: tuple[str, ...] = ()
    """The effects afterwards."""
    unknown: int = 0
    """The calls whose outcome is not known afterwards."""
    more: str = ""
    asks: bool = False
    """Whether a person decides on them."""


PAID = ("pay 1", "pay 2")
ALL = LOOP.format(do="infer", call="call_tools")
INNER = """\
machines:
  inner:
    about: Pays.
    limits: {steps: 9}
    rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
    tools: [pay]
    states:
      go: {do: tool, with: {name: pay, arguments: {usd: 1}}, failed: z, next: z}
      z: {stop: completed}
"""
NAMED = "  act: {{do: tool, with: {{name: {0}}}, failed: done, next: done}}\n"
PAYS = "  act: {do: tool, with: {name: pay, arguments: {usd: 1}}, failed: done, next: done}\n"
CALLS_EACH = (TWO, calls(("pay", {"usd": 3})), "Done.")
KINDS = [
    Kind("two-calls-of-a-reply-and-a-later-one", ALL, CALLS_EACH, (*PAID, "pay 3"), (), 3),
    Kind("first-call-of-a-reply", LOOP.format(do="infer", call="call_tool"), (TWO, "Done."),
         ("pay 1",), (), 1),
    Kind("one-call-beside-a-reading-one", ALL,
         (calls(("pay", {"usd": 1}), ("look", {})), "Done."), ("pay 1", "look"), ("look",), 1),
    Kind("named-tool", PAYS, done=("pay 1",), unknown=1),
    Kind("own-action", "  act: {do: wire, failed: done, next: done}\n", done=("wire",), unknown=1),
    Kind("task", "  act: {do: work, failed: done, next: done}\n", done=("pay 1",), unknown=1,
         more='tasks: [{text: "1", by: {tool: pay}}]\n'),
    Kind("judge-of-a-screen",
         "  act: {do: screen, with: {tool: judge, stop: unsafe}, failed: done, next: done}\n",
         done=("judge",), unknown=1, more="reasons: {unsafe: {priority: 6, status: completed}}\n"),
    Kind("child", "  act: {do: run_machine, with: {machine: inner}, next: done}\n",
         done=("pay 1",), unknown=1, more=INNER),
    Kind("ask", ALL, (TWO, "Done."), PAID, (), 2, "in_doubt: ask\n", asks=True),
    Kind("fail", PAYS, done=("pay 1",), unknown=1, more="in_doubt: fail\n"),
    Kind("the-file-repeats", PAYS, done=("pay 1",), again=("pay 1",), more="in_doubt: retry\n"),
    Kind("local-tool", NAMED.format("book"), done=("book",), again=("book",)),
    Kind("reading-tool", NAMED.format("look"), done=("look",), again=("look",)),
    Kind("model", "  act: {do: infer, next: done}\n"),
    Kind("model-though-the-file-asks", "  act: {do: infer, next: done}\n", more="in_doubt: ask\n"),
    Kind("model-whose-provider-acts",
         "  act: {do: infer, with: {extra: {container: c}}, failed: done, next: done}\n",
         unknown=1),
]  # fmt: skip


def begin(backup: Backup, bank: Bank, kind: Kind, run_id: str = "r") -> Machine:
    """A run that waits, of which the journal has been copied, and which then went on and paid."""
    machine = bank.machine(HEAD.format(more=kind.more) + kind.states + END)
    machine.start("t", run_id=run_id, journal=backup.journal, script=[]).run()
    backup.keep()
    reopened(machine, backup, kind, run_id).run()
    assert sorted(bank.done) == sorted(kind.done)  # those of one reply are made at once
    bank.done.clear()
    return machine


def reopened(machine: Machine, backup: Backup, kind: Kind, run_id: str = "r") -> Run:
    """The run, answered."""
    run = machine.open(run_id, journal=backup.journal, script=[*kind.script])
    run.send("yes")
    return run


def mark(backup: Backup, *, lift: bool = False) -> None:
    by_hand(backup.journal.mark_restored(lift=lift))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.id)
def test_what_was_done_before_is_not_done_again_unsaid(backup: Backup, kind: Kind) -> None:
    bank = Bank()
    machine = begin(backup, bank, kind)
    backup.put_back()
    mark(backup)
    run = reopened(machine, backup, kind)
    run.run()
    if kind.asks:
        assert run.question is not None
        assert set(run.question.answers) == {"retry", "fail"}
        assert bank.done == [*kind.again]
        return
    assert bank.done == [*kind.again]
    assert run.facts.usage.unknown_calls == kind.unknown
    warned = [warning for warning in run.result.warnings if WARNED in warning]
    assert bool(warned) == (kind.unknown > 0 or kind.id == "the-file-repeats")
    assert run.replay().same


# how a run goes on -----------------------------------------------------------------------------

CHAT = """\
chartloop: 1
machine: m
tools: [pay, judge, book, look]
limits: {steps: 30}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  start: {do: receive, next: act}
  act: {do: tool, with: {name: pay, arguments: {usd: 1}}, next: done}
  done: {stop: completed}
"""


def restored(backup: Backup, bank: Bank, *, steps: int = 1) -> Machine:
    """A run before its payment, in a journal that was put back and marked."""
    machine = bank.machine(CHAT)
    run = machine.start("t", run_id="r", journal=backup.journal)
    for _ in range(steps):
        run.step()
    backup.keep()
    run.run()
    assert bank.done == ["pay 1"]
    bank.done.clear()
    backup.put_back()
    mark(backup)
    return machine


def opened(machine: Machine, backup: Backup, run_id: str = "r") -> Run:
    return machine.open(run_id, journal=backup.journal, script=[], take_over=True)


WAYS: dict[str, tuple[Callable[[Machine, Backup], Run], int]] = {
    "resume": (opened, 0),
    "fork": (lambda machine, backup: opened(machine, backup).fork(), 0),
    "fork-of-a-fork": (lambda machine, backup: opened(machine, backup).fork().fork(), 0),
    "back": (lambda machine, backup: opened(machine, backup).back(1), 0),
    "another-run": (
        lambda machine, backup: machine.start("t", run_id="n", journal=backup.journal), 1,
    ),
}  # fmt: skip
"""How a run goes on, and how often that pays."""


@pytest.mark.parametrize("way", WAYS)
def test_whatever_goes_on_from_before_pays_nothing_again(backup: Backup, way: str) -> None:
    bank = Bank()
    machine = restored(backup, bank)
    go, pays = WAYS[way]
    run = go(machine, backup)
    run.run()
    assert len(bank.done) == pays
    assert run.facts.usage.unknown_calls == 1 - pays
    if pays:
        return
    plan = retry_plan(run)
    assert plan.doubts
    check_retry(run, plan, {}, plan.digest)
    again = retry_run(run, plan, {})
    again.run()
    assert bank.done == []
    assert again.id != run.id


def test_a_run_that_is_moved_to_a_changed_file_pays_nothing_again(backup: Backup) -> None:
    bank = Bank()
    restored(backup, bank)
    new = bank.machine(CHAT.replace("next: done", "failed: done, next: done"))
    moved = new.open("r", journal=backup.journal, script=[], take_over=True, changed=True)
    moved.run()
    assert moved.id != "r"
    assert (bank.done, moved.facts.usage.unknown_calls) == ([], 1)


def test_the_next_message_to_a_run_from_before_is_a_new_order(backup: Backup) -> None:
    bank = Bank()
    machine = restored(backup, bank, steps=3)
    run = opened(machine, backup).next("once more")
    run.run()
    assert bank.done == ["pay 1"]


@pytest.mark.parametrize("word", ["retry", "fail"])
def test_only_a_person_has_it_made(backup: Backup, word: str) -> None:
    bank = Bank()
    kind = next(kind for kind in KINDS if kind.id == "ask")
    machine = begin(backup, bank, kind)
    backup.put_back()
    mark(backup)
    run = reopened(machine, backup, kind)
    run.run()
    run.send(word)
    run.advance()  # the process dies after the answer
    by_hand(backup.journal.close())
    run = machine.open("r", journal=backup.journal, script=[*kind.script], take_over=True)
    run.run()
    assert sorted(bank.done) == (["pay 1", "pay 2"] if word == "retry" else [])
    assert run.ended
    assert run.session.calls.unknown == {}
    assert run.replay().same


def test_an_accepted_call_is_asked_about_once_more(backup: Backup) -> None:
    """The first accept may have had its effect: who accepts again may not know."""
    bank = Bank()
    gate = "approve: {tools: [pay]}\n"
    machine = bank.machine(HEAD.format(more=gate) + ALL + END)
    one = [calls(("pay", {"usd": 1})), "Done."]
    run = machine.start("t", run_id="r", journal=backup.journal, script=one)
    run.run()
    run.send("yes")
    run.run()
    assert run.question is not None
    assert "accept" in run.question.answers
    backup.keep()
    run.send("accept")
    run.run()
    assert bank.done == ["pay 1"]
    backup.put_back()
    mark(backup)
    run = machine.open("r", journal=backup.journal, script=one, take_over=True)
    run.send("accept")
    run.run()
    assert run.question is not None
    assert set(run.question.answers) == {"retry", "fail"}
    assert bank.done == ["pay 1"]


# the mark --------------------------------------------------------------------------------------


def test_a_mark_that_is_repeated_or_older_than_the_process_stands(backup: Backup) -> None:
    """Killed between the mark and the run: another process finds it."""
    bank = Bank()
    machine = restored(backup, bank)
    first = by_hand(backup.journal.restored())
    by_hand(backup.journal.close())
    assert by_hand(backup.journal.restored()) == first
    mark(backup)
    assert by_hand(backup.journal.restored()) > first
    run = opened(machine, backup)
    run.run()
    assert bank.done == []
    assert run.facts.usage.unknown_calls == 1


def test_what_began_between_two_marks_is_from_before_the_second(backup: Backup) -> None:
    bank = Bank()
    machine = restored(backup, bank)
    run = machine.start("t", run_id="n", journal=backup.journal)
    run.step()
    mark(backup)
    run = opened(machine, backup, "n")
    run.run()
    assert bank.done == []


def test_without_the_mark_it_goes_on_as_before(backup: Backup) -> None:
    bank = Bank()
    machine = restored(backup, bank)
    mark(backup, lift=True)
    run = opened(machine, backup)
    run.run()
    assert (bank.done, run.facts.usage.unknown_calls) == (["pay 1"], 0)


def test_a_call_that_is_recorded_is_neither_made_nor_in_doubt(backup: Backup) -> None:
    bank = Bank()
    machine = restored(backup, bank, steps=2)
    run = opened(machine, backup)
    run.run()
    assert (bank.done, run.facts.usage.unknown_calls, run.result.reason) == ([], 0, "completed")


def test_a_call_that_was_in_flight_is_in_doubt_as_after_a_kill(backup: Backup) -> None:
    bank = Bank()
    machine = bank.machine(CHAT)
    bank.within = backup.keep
    machine.start("t", run_id="r", journal=backup.journal).run()
    assert bank.done == ["pay 1"]
    backup.put_back()
    mark(backup)
    run = opened(machine, backup)
    run.run()
    assert (bank.done, run.facts.usage.unknown_calls) == (["pay 1"], 1)
    types = [event.type for event in by_hand(backup.journal.events("r"))]
    assert types.count("in_doubt") == 1


def test_a_driver_of_before_the_mark_is_fenced(backup: Backup) -> None:
    bank = Bank()
    machine = bank.machine(CHAT)
    run = machine.start("t", run_id="r", journal=backup.journal)
    run.step()
    mark(backup)
    with pytest.raises(Fenced):
        run.run()
    assert bank.done == []
