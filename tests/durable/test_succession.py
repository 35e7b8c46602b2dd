"""Orders that make another run of one: given twice, by many at once, later, and after a kill.

The law: a run has one other attempt, one next message in a session, and moves once. Whoever comes
second is told the run that came first, and nothing is made, unless they insist.

The table is {retry, batch, next, move} x {again, at once, another later, after a kill} x {SQLite,
PostgreSQL} x {Python, command line, HTTP}. It has no cell for a batch in Python, which has no such
call, for a move over HTTP, where no route moves a run, and for moves that are killed or made at
once, which `test_move` has.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chartloop.api import Machine, Run, load
from chartloop.api.retrying import check_retry, retry_plan, retry_run
from chartloop.core.errors import ChartloopError, FollowedError
from chartloop.hosting.callers import Caller
from chartloop.hosting.machines import Machines
from chartloop.hosting.problems import problem_of
from chartloop.hosting.runs import Runs
from chartloop.hosting.settings import Settings
from chartloop.run.copies import lines_of, put_tree, read_tree, read_trees
from chartloop.run.journal import Journal
from chartloop.run.journal_pages import RunFilter
from chartloop.run.journal_records import RunRow
from chartloop.run.phases import in_phase
from chartloop.run.succession import UNBEGUN
from chartloop.run.sync import by_hand
from chartloop.testing import CrashAt, Crashed, ManualClock
from chartloop.testing.journal_suite.concurrent import race
from tests.cli.shell import Shell
from tests.durable.test_starters import another, where

__all__ = ["another", "where"]

MACHINE = """\
chartloop: 1
machine: m
model: {name: scripted}
limits: {steps: 9}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  a: {do: receive, next: b}
  b: {do: infer, next: c}
  c: {stop: completed}
"""
CHANGED = MACHINE.replace("c: {stop", "d: {stop").replace("next: c", "next: d")
DOWN: list[Any] = [{"error": {"category": "CRITICAL", "message": "down"}}]
CALLERS = 8


@dataclass
class Door:
    """One way to give orders. `again` insists, and `key` is an idempotency key."""

    where: str
    another: Callable[[], Journal]
    machine: Machine
    folder: Path
    journals: list[Journal] = field(default_factory=list[Journal])

    def retry(self, run_id: str, *, again: bool = False, caller: int = 0) -> str | None:
        """Try a run again; returns the successor that refused it, or None."""
        raise NotImplementedError

    def say(self, run_id: str, *, branch: bool = False, caller: int = 0) -> str | None:
        """Send a next message; returns likewise."""
        raise NotImplementedError

    def journal(self, caller: int) -> Journal:
        while len(self.journals) <= caller:
            self.journals.append(self.another())
        return self.journals[caller]

    def at_once(self, order: str, run_id: str) -> list[str | None]:
        for caller in range(CALLERS):
            self.journal(caller)
        give = {"retry": self.retry, "next": self.say}[order]
        found = race(*(partial(give, run_id, caller=caller) for caller in range(CALLERS)))
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return found


class InPython(Door):
    def retry(self, run_id: str, *, again: bool = False, caller: int = 0) -> str | None:
        run = self.machine.open(run_id, journal=self.journal(caller))
        plan = retry_plan(run, again=again)
        try:
            retry_run(run, plan, {})
        except FollowedError as error:
            with pytest.raises(FollowedError, match=error.successor):
                check_retry(run, retry_plan(run), {}, plan.digest)
            return error.successor
        return None

    def say(self, run_id: str, *, branch: bool = False, caller: int = 0) -> str | None:
        journal = self.journal(caller)
        try:
            run = self.machine.start(
                "y", continues=run_id, journal=journal, branch=branch, script=["Yes."]
            )
            run.run()
        except FollowedError as error:
            return error.successor
        return None


class OverHttp(Door):
    """The calls that routes make, each with a journal of its own, as several servers."""

    def server(self, caller: int) -> Runs:
        journal = self.journal(caller)
        settings = Settings(machines=(self.folder,), journal=journal, workers=0)
        return Runs(settings, journal, Machines(settings, journal))

    def retry(self, run_id: str, *, again: bool = False, caller: int = 0) -> str | None:
        server = self.server(caller)
        confirm = server.retry_plan(run_id, again=again)["digest"]
        body: dict[str, Any] = {"limits": {}, "confirm": confirm, "again": again}
        return self.refusal(lambda: server.retry(run_id, body, Caller()))

    def say(self, run_id: str, *, branch: bool = False, caller: int = 0) -> str | None:
        body = {"machine": "m", "task": "y", "continues": run_id, "branch": branch}
        server = self.server(caller)
        return self.refusal(lambda: server.start(body, Caller()))

    def refusal(self, give: Callable[[], Any]) -> str | None:
        try:
            give()
        except ChartloopError as error:
            problem = problem_of(error)
            assert (problem.status, problem.body["code"]) == (409, "CL624")
            return problem.body["successor"]
        return None


class OnTheCommandLine(Door):
    sh: Shell

    def command(self, order: str, run_id: str, *more: str) -> list[str]:
        journal = ("--journal", self.where, "--no-input", "--script", "up.yaml")
        if order == "retry":
            return ["retry", run_id, "--yes", *journal, *more]
        return ["run", "m.yaml", "y", "--continue", run_id, *journal, *more]

    def retry(self, run_id: str, *, again: bool = False, caller: int = 0) -> str | None:
        done = self.sh(*self.command("retry", run_id, *["--again"] * again))
        return refused(done.code, done.err)

    def say(self, run_id: str, *, branch: bool = False, caller: int = 0) -> str | None:
        done = self.sh(*self.command("next", run_id, *["--branch"] * branch))
        return refused(done.code, done.err)

    def at_once(self, order: str, run_id: str) -> list[str | None]:
        command = [sys.executable, "-m", "chartloop", *self.command(order, run_id)]
        started = [
            subprocess.Popen(command, cwd=self.folder, text=True, stderr=subprocess.PIPE)
            for _ in range(CALLERS)
        ]
        return [refused(one.wait(120), one.communicate()[1]) for one in started]


def refused(code: int, said: str) -> str | None:
    assert code in (0, 1), said
    if not code:
        return None
    found = re.search(r"error\[CL624\]: run `\w+` was \w+ \w*\s?as run `(\w+)`", said)
    assert found is not None, said
    return found[1]


DOORS = {"python": InPython, "http": OverHttp, "command-line": OnTheCommandLine}


def at(*doors: str) -> pytest.MarkDecorator:
    """Only at these doors: the others have no such order."""
    return pytest.mark.parametrize("door", doors, indirect=True)


@pytest.fixture(params=DOORS)
def door(
    request: pytest.FixtureRequest, where: str, another: Callable[[], Journal], sh: Shell
) -> Door:
    sh.write("m.yaml", MACHINE)
    sh.write("up.yaml", "replies: [Yes.]\n")
    door = DOORS[request.param](where, another, load(sh.folder / "m.yaml"), sh.folder)
    if isinstance(door, OnTheCommandLine):
        door.sh = sh
    return door


def ended(door: Door, run_id: str, order: str) -> Run:
    """A run that failed, for a retry, or one that is done, for a next message."""
    script = DOWN if order == "retry" else ["Hello."]
    run = door.machine.start("x", run_id=run_id, journal=door.journal(0), script=script)
    run.run()
    return run


def give(door: Door, order: str, run_id: str, *, insist: bool = False) -> str | None:
    if order == "retry":
        return door.retry(run_id, again=insist, caller=1)
    return door.say(run_id, branch=insist, caller=1)


def followers(door: Door, run_id: str) -> list[RunRow]:
    return by_hand(door.journal(0).rows(parent=run_id))


@pytest.fixture
def sh(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    return Shell(tmp_path, capsys, monkeypatch)


ORDERS = pytest.mark.parametrize("order", ["retry", "next"])


@ORDERS
def test_a_second_order_names_the_first_and_does_nothing(door: Door, order: str) -> None:
    """By the same caller, and later by another one, with another connection."""
    ended(door, "r", order)
    assert give(door, order, "r") is None
    (first,) = followers(door, "r")
    assert first.follows == {"retry": "attempt", "next": "next"}[order]
    assert [give(door, order, "r") for _ in range(2)] == [first.run_id] * 2
    later = replace_caller(door)
    assert give(later, order, "r") == first.run_id
    assert followers(door, "r") == [first.replace(**changed(door, first))]


def replace_caller(door: Door) -> Door:
    door.journals = []
    return door


def changed(door: Door, row: RunRow) -> dict[str, Any]:
    now = by_hand(door.journal(0).row(row.run_id))
    assert now is not None
    return now.to_mapping()


@pytest.mark.slow("starts processes")
@ORDERS
def test_eight_at_once_make_one(door: Door, order: str) -> None:
    for number in range(1 if isinstance(door, OnTheCommandLine) else 4):
        run_id = f"r{number}"
        ended(door, run_id, order)
        found = door.at_once(order, run_id)
        (first,) = followers(door, run_id)
        assert sorted(map(str, found)) == sorted(["None", *[first.run_id] * (CALLERS - 1)])


@ORDERS
def test_who_insists_makes_another(door: Door, order: str) -> None:
    ended(door, "r", order)
    give(door, order, "r")
    assert give(door, order, "r", insist=True) is None
    newest, first = followers(door, "r")
    told = {"retry": f"attempt after {first.run_id}", "next": ""}[order]
    assert newest.follows == told
    named = newest if order == "retry" else first
    assert give(door, order, "r") == named.run_id


@at("python", "http")  # a command reads the plan as it begins, and may see the other one's
def test_who_insists_at_once_makes_one_more(door: Door) -> None:
    """They agreed to what they saw: one attempt. The second one is not in it."""
    ended(door, "r", "retry")
    door.retry("r")
    for caller in range(CALLERS):
        door.journal(caller)
    found = race(*(partial(door.retry, "r", again=True, caller=n) for n in range(2)))
    made = followers(door, "r")
    assert len(made) == 1 + found.count(None)
    assert len({row.follows for row in made}) == len(made)  # each came after another one


@ORDERS
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, 6))
def test_after_a_kill_there_is_one_or_none(
    door: Door, order: str, write: int, before: bool
) -> None:
    """Whatever write the first caller died at."""
    run = ended(door, "r", order)
    dying = CrashAt(door.journal(0), write, before=before)
    run.session.journal = dying
    try:
        if order == "retry":
            plan = retry_plan(run)
            retry_run(run, plan, {})
        else:
            long_ago = ManualClock(run.session.row.created - UNBEGUN - 1)
            door.machine.start("z", continues=run, run_id="n", clock=long_ago, script=["Z"]).run()
    except Crashed:
        pass
    left = {row.run_id: row for row in followers(door, "r")}
    answer = give(door, order, "r")
    now = followers(door, "r")
    assert len(now) == 1
    if answer is None:
        assert not any(row.head for row in left.values())
        assert now[0].run_id not in left
    else:
        assert answer == now[0].run_id
        assert answer in left


@ORDERS
def test_a_successor_that_is_removed_frees_its_origin(door: Door, order: str) -> None:
    ended(door, "r", order)
    give(door, order, "r")
    (first,) = followers(door, "r")
    by_hand(door.journal(0).remove([first.run_id]))
    row = by_hand(door.journal(0).row("r"))
    assert row is not None
    assert row.successor == ""
    assert give(door, order, "r") is None


@at("http", "command-line")
def test_a_batch_passes_over_what_was_tried_again(door: Door) -> None:
    for run_id in ("r", "s"):
        ended(door, run_id, "retry")
    door.retry("r")
    (first,) = followers(door, "r")
    if isinstance(door, OnTheCommandLine):
        done = door.sh(*door.command("retry", "r", "s"))
        assert done.code == 1
        assert f"Run `r` was tried again as run `{first.run_id}`: done" in done.err
    else:  # the page sends one order for each
        assert [door.retry(one, caller=1) for one in ("r", "s")] == [first.run_id, None]
    assert [len(followers(door, one)) for one in ("r", "s")] == [1, 1]


@at("http")
def test_a_key_gives_the_first_ones_answer(door: Door) -> None:
    assert isinstance(door, OverHttp)
    ended(door, "r", "retry")
    servers = [door.server(caller) for caller in range(CALLERS)]
    body: dict[str, Any] = {"limits": {}, "confirm": servers[0].retry_plan("r")["digest"]}
    receipts = race(*(partial(server.retry, "r", body, Caller(key="k")) for server in servers))
    assert receipts == [receipts[0]] * CALLERS
    assert servers[-1].retry("r", body, Caller(key="k")) == receipts[0]
    ended(door, "s", "next")
    say = {"machine": "m", "task": "y", "continues": "s"}
    started = race(*(partial(server.start, say, Caller(key="n")) for server in servers))
    assert [receipt for receipt, _ in started] == [started[0][0]] * CALLERS
    assert [len(followers(door, one)) for one in ("r", "s")] == [1, 1]


@at("python", "command-line")
def test_a_run_moves_once_and_not_when_another_follows_it(door: Door) -> None:
    (door.folder / "new.yaml").write_text(CHANGED + "renamed: {c: d}\n")
    new = load(door.folder / "new.yaml")
    ended(door, "r", "retry")
    door.retry("r")
    (first,) = followers(door, "r")
    said = f"run `r` is followed by run `{first.run_id}`, and moves no more"
    if isinstance(door, OnTheCommandLine):
        more = ("--machine", "new.yaml", "--use-new-file", "--script", "up.yaml")
        done = door.sh("resume", "r", *more, "--journal", door.where)
        assert "run r had ended before: nothing was done" in done.err
    else:
        with pytest.raises(FollowedError, match=said):
            new.open("r", journal=door.journal(0), changed=True, script=["Yes."]).run()
    assert followers(door, "r") == [first]


# lists, and other sessions ------------------------------------------------------------------------


def test_a_run_that_was_tried_again_leaves_the_lists_of_failed_runs(door: Door) -> None:
    ended(door, "r", "retry")
    ended(door, "s", "retry")
    ended(door, "d", "next")
    door.retry("r")
    door.say("d")
    journal = door.journal(0)
    (made,) = followers(door, "r")
    by_hand(journal.remove([row.run_id for row in followers(door, "d")]))
    door.say("d")
    filters = {name: in_phase(RunFilter(), name) for name in ("failed", "continued", "done")}
    listed = {
        name: {row.run_id for row in by_hand(journal.page(wanted)).rows}
        for name, wanted in filters.items()
        if wanted is not None
    }
    assert listed["failed"] == {"s"}
    assert {"r", "d"} <= listed["continued"]
    assert "d" in listed["done"]
    row = by_hand(journal.row("r"))
    assert row is not None
    assert (row.successor, row.phase().name) == (made.run_id, "continued")
    counts = {one.phase: one.runs for one in by_hand(journal.tally(RunFilter(), 1e12))}
    assert (counts["failed"], counts["continued"]) == (1, 1)
    if isinstance(door, OnTheCommandLine):
        failed = door.sh("runs", "--phase", "failed", "--format", "json", "--journal", door.where)
        assert [one["run"] for one in failed.json] == ["s"]
        old = door.sh("show", "r", "--journal", door.where).out
        assert f"→ tried again as {made.run_id}" in old
        assert "another attempt of r" in door.sh("show", made.run_id, "--journal", door.where).out
        done = door.sh("runs", "rm", made.run_id, "--yes", "--journal", door.where)
        assert "nothing follows r any more" in done.err
    if isinstance(door, OverHttp):
        view = door.server(0).view("r")
        assert (view["followers"], view["became"]) == ([made.run_id], ["tried again as"])
        assert door.server(0).view(made.run_id)["follows"] == "another attempt of"


def test_each_session_has_its_own_next_message(
    another: Callable[[], Journal], tmp_path: Path
) -> None:
    (tmp_path / "m.yaml").write_text(MACHINE)
    machine, journal = load(tmp_path / "m.yaml"), another()
    machine.start("x", run_id="r", journal=journal, script=["Hello."]).run()

    def say(session: str | None) -> None:
        machine.start("y", continues="r", journal=journal, session=session, script=["Yes."]).run()

    for session in (None, "a", "b"):
        say(session)
        with pytest.raises(FollowedError, match="was continued as run"):
            say(session)
    assert len(by_hand(journal.rows(parent="r"))) == 3


def test_a_failed_run_that_the_conversation_went_on_from_is_not_tried_again(
    another: Callable[[], Journal], tmp_path: Path
) -> None:
    """And the other way round: a run has one successor, whichever came first."""
    (tmp_path / "m.yaml").write_text(MACHINE)
    machine, journal = load(tmp_path / "m.yaml"), another()
    runs: list[Run] = []
    for run_id in ("r", "s"):
        run = machine.start("x", run_id=run_id, session="a", journal=journal, script=DOWN)
        run.run()
        runs.append(run)
    runs[0].next("y", script=["Yes."], run_id="n").run()
    plan = retry_plan(runs[0])
    assert plan.refusal.startswith("Run `r` was continued as run `n`: done; made there: 1 call of")
    with pytest.raises(FollowedError):
        check_retry(runs[0], plan, {}, plan.digest)
    retry_run(runs[1], retry_plan(runs[1]), {}, run_id="t")
    with pytest.raises(FollowedError, match="run `s` was tried again as run `t`"):
        runs[1].next("y", script=["Yes."]).run()


def test_an_attempt_and_a_next_message_at_once_are_one(another: Callable[[], Journal]) -> None:
    """They have no index in common: the lock of the run that they follow is between them."""
    journals = [another() for _ in range(4)]

    def create(journal: Journal, row: RunRow) -> None:
        by_hand(journal.create(row))

    for number in range(60):
        by_hand(journals[0].create(RunRow(f"r{number}")))
        rows = [
            RunRow(f"r{number}-{n}", parent=f"r{number}", follows=kind, created=1e12)
            for n, kind in enumerate(("attempt", "next") * 2)
        ]
        found = race(*(partial(create, *one) for one in zip(journals, rows, strict=True)))
        assert [isinstance(one, FollowedError) for one in found].count(True) == 3, found


def test_a_copy_carries_the_mark_if_both_runs_are_in_the_file(
    another: Callable[[], Journal], tmp_path: Path
) -> None:
    (tmp_path / "m.yaml").write_text(MACHINE)
    machine, origin = load(tmp_path / "m.yaml"), another()
    run = machine.start("x", run_id="r", journal=origin, script=DOWN)
    run.run()
    retry_run(run, retry_plan(run), {}, run_id="t")
    lines = [
        line.encode() for name in ("r", "t") for one in by_hand(read_tree(origin, name))
        for line in lines_of(one)
    ]  # fmt: skip
    by_hand(origin.remove(["r", "t"]))
    trees = [tree for tree in read_trees(lines, "x") if not isinstance(tree, ChartloopError)]
    assert len(trees) == 2

    def successor() -> str:
        row = by_hand(origin.row("r"))
        return "" if row is None else row.successor

    by_hand(put_tree(origin, trees[0], go_on=False))
    assert successor() == ""
    # an attempt that was made here meanwhile stays, and so does that of the file
    here = machine.open("r", journal=origin)
    retry_run(here, retry_plan(here), {}, run_id="u")
    by_hand(put_tree(origin, trees[1], go_on=False))
    row = by_hand(origin.row("t"))
    assert row is not None
    assert (successor(), row.follows) == ("t", "attempt after u")


def test_the_digest_covers_the_attempt_before_and_limits(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MACHINE)
    run = load(tmp_path / "m.yaml").start("x", script=DOWN)
    run.run()
    first = retry_plan(run)
    retry_run(run, first, {}, run_id="t")
    second = retry_plan(run, again=True)
    assert second.refusal == ""
    assert second.needs_confirmation
    assert second.digest != first.digest
    with pytest.raises(FollowedError):
        check_retry(run, retry_plan(run), {}, first.digest)
    retry_run(run, second, {}, run_id="u")
    with pytest.raises(FollowedError, match="was tried again as run `u`"):
        retry_run(run, second, {}, run_id="v")
