"""The row of a run and its position are one truth, however its first records came to be written.

Lists, the inbox and workers read the row; answers and drivers read the log. The table is each way
of writing the first records of a run, for each kind of position to which they may lead.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import Machine, Run, load, tool
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api.continuing import move_session
from chartloop.api.retrying import retry_plan, retry_run
from chartloop.hosting.callers import Caller
from chartloop.hosting.machines import Machines
from chartloop.hosting.runs import Runs
from chartloop.hosting.settings import Settings
from chartloop.hosting.ticks import take_ticks
from chartloop.run.journal_pages import RunFilter
from chartloop.run.phases import stand_of
from chartloop.run.question import update_at
from chartloop.run.refold import refold_last
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock
from tests.cli.shell import call

PAY = """\
import chartloop

@chartloop.tool
def pay(n: int) -> int:
    "Pay."
    return n
"""


@tool
def pay(n: int) -> int:
    """Pay."""
    return n


class Kind(NamedTuple):
    """A machine, and how a run of it stands when its first records are written."""

    states: str
    phase: str
    reason: str = ""
    asks: bool = False
    wakes: bool = False
    more: str = ""
    """The keys of the file before its states."""
    acts: bool = False
    """It gets there by acting: no run stands there after its first record."""


DONE = ", done: {stop: completed}"
ASKS = '{ask: "Go?", on: {yes: done}}'
LATE = '{ask: "Go?", within: 1h, expired: late, on: {yes: done}}, late: {stop: user_unresponsive}'
CHILD = f"machines: {{inner: {{states: {{q: {ASKS}{DONE}}}}}}}\n"
KINDS = {
    "question": Kind(ASKS, "waiting", asks=True),
    "question-with-a-time": Kind(LATE, "waiting", asks=True, wakes=True),
    "event": Kind("{on: {yes: done}}", "waiting", asks=True),
    "action": Kind("{do: nothing, next: done}", "running"),
    "end": Kind("{next: done}", "done", "completed"),
    "end-with-an-error": Kind("{next: [{when: run.steps > 0, to: done}, bad]}, bad: {stop: error}", "failed",
                              "error"),
    "limit": Kind("{do: nothing, next: done}", "limited", "steps_limit",
                  more="rules: [{when: run.steps >= 0, stop: steps_limit}]\n"),
    "failed-step": Kind("{set: {vars.x: 1 / vars.x}, next: done}", "failed", "guard_error",
                        more="vars: {x: 0.0}\n", acts=True),
    "rest-after-a-failure": Kind(
        "{do: infer, retry: {times: 2, base: 1h, factor: 2, on: [TRANSIENT]}, next: done}", "sleeping", wakes=True,
        more="model: {name: scripted}\n", acts=True),
    "approval-of-a-call": Kind(
        "{do: infer, next: act}, act: {do: call_tools, next: done}", "waiting", asks=True,
        more="model: {name: scripted}\ntools: [pay]\napprove: {tools: [pay]}\n", acts=True),
    "question-of-a-child": Kind("{do: run_machine, with: {machine: inner}, next: done}", "waiting",
                                asks=True, more=CHILD, acts=True),
}  # fmt: skip


class At:
    """A folder with the machine of a kind, and a journal."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.folder, self.kind = folder, kind
        self.text = f"chartloop: 1\nmachine: w\n{kind.more}states: {{a: {kind.states}{DONE}}}\n"
        (folder / "w.yaml").write_text(self.text)
        (folder / "tools.py").write_text(PAY)
        (folder / "pyproject.toml").touch()
        (folder / ".chartloop").mkdir()
        self.journal = SqliteJournal(folder / ".chartloop" / "journal.db")

    def machine(self, text: str = "") -> Machine:
        return load(text or self.text, tools=[pay] if "pay" in self.text else [])

    def cli(self, *line: str) -> str:
        done = call(*line, cwd=self.folder)
        assert done.code == 0, done.err
        return done.out

    def open(self, run_id: str, title: str = "") -> Run:
        machine = self.machine(self.text + title)
        return machine.open(run_id, journal=self.journal, changed=True, script=self.script)

    @property
    def script(self) -> list[Any]:
        calls = {"tool_calls": [{"name": "pay", "arguments": {"n": 1}}]}
        return [
            {"error": {"category": "TRANSIENT", "message": "busy"}} if self.kind.wakes else calls
        ]

    def start(self, run_id: str = "r", continues: Run | None = None) -> Run:
        """A run at the position of its kind."""
        run = self.machine().start(
            "t", script=self.script, journal=self.journal, run_id=run_id, continues=continues
        )
        run.advance()
        while self.kind.acts and run.status == "running":
            run.step()
        return run

    def placed(self) -> str:
        return self.start().id


def submitted(at: At) -> str:
    at.cli("submit", "w.yaml", "t", "--run-id", "r")
    return "r"


def ticked(at: At) -> str:
    at.cli("schedule", "add", "s", "w.yaml", "t", "--every", "1s")
    (schedule,) = by_hand(at.journal.cron_schedules())
    journal = SqliteJournal(at.folder / ".chartloop" / "journal.db", now=lambda: schedule.next)
    machines = Machines(Settings(machines=(), journal=journal, serves=False), journal)
    assert take_ticks(journal, machines, {}) == 1
    (row,) = by_hand(at.journal.rows())
    return row.run_id


def ordered(at: At) -> str:
    settings = Settings(machines=(at.folder,), journal=at.journal)
    runs = Runs(settings, at.journal, Machines(settings, at.journal))
    body = {"machine": "w", "task": "t", "run_id": "r", "drive": "run"}
    return runs.start(body, Caller())[0]["run"]


def continued(at: At) -> str:
    before = load("chartloop: 1\nmachine: w\nstates: {a: {next: z}, z: {stop: completed}}\n")
    ended = before.start("t", journal=at.journal, run_id="before")
    ended.run()
    return at.start("r", continues=ended).id


def imported(at: At) -> str:
    at.start()
    at.cli("journal", "export", "--to", "runs.jsonl")
    by_hand(at.journal.remove(["r"]))
    at.cli("journal", "import", "runs.jsonl")
    return "r"


def forked(at: At) -> str:
    return at.start("before").fork(run_id="r").id


def forked_under(at: At) -> str:
    at.start("before")
    return at.open("before", OTHER).fork(run_id="r").id


def moved(at: At) -> str:
    at.start("before")
    run = at.open("before", OTHER)
    machine = run.machine.canonical()
    return asyncio.run(move_session(run.session, run_id="r", machine=machine)).run_id


OTHER = "title: Another machine\n"
WAYS: dict[str, tuple[Callable[[At], str], bool]] = {
    "start": (At.placed, True), "submit": (submitted, False), "tick": (ticked, False),
    "order": (ordered, False), "next": (continued, True), "import": (imported, True),
    "fork": (forked, True), "fork-under-another-machine": (forked_under, True),
    "upgrade": (moved, True),
}  # fmt: skip
"""Each way, and whether it may lead to what a run reaches only by acting."""
CELLS = [
    pytest.param(way, kind, id=f"{way}-{kind}")
    for way, (_, acts) in WAYS.items()
    for kind in KINDS
    if acts or not KINDS[kind].acts
    if way != "upgrade" or not KINDS[kind].reason  # a run that has ended is moved nowhere
]


def agreeing(at: At, run_id: str) -> Run:
    """The run, whose row says what follows from its log."""
    row = by_hand(at.journal.row(run_id))
    assert row is not None
    run = at.open(run_id)
    last = refold_last(run.machine.chart, run.records, run_id)
    told = update_at(run.machine.chart, run_id, last.after, last.rest, last.decision)
    assert row.standing() == told
    return run


@pytest.mark.parametrize(("way", "name"), CELLS)
def test_row_and_position_agree(way: str, name: str, tmp_path: Path) -> None:
    at = At(tmp_path, KINDS[name])
    kind, run_id = at.kind, WAYS[way][0](at)
    if way.startswith("fork") and name == "question-of-a-child":  # it starts the child anew
        kind = kind._replace(phase="paused", asks=False)
    row = by_hand(at.journal.row(run_id))
    assert row is not None
    run = agreeing(at, run_id)
    # as the table says, whatever the way
    asks, wakes = row.question is not None, row.wake_at is not None
    assert (row.reason, asks, wakes) == (kind.reason, kind.asks, kind.wakes)
    assert (run.question is not None) is asks
    stands = by_hand(stand_of(at.journal, row)).phase.name
    going = {"queued", "running", "unattended"} if kind.phase == "running" else {kind.phase}
    assert stands in going
    # as lists and the inbox say
    waiting = by_hand(at.journal.page(RunFilter(waiting=True))).rows
    assert (run_id in {one.run_id for one in waiting}) is asks
    ended = by_hand(at.journal.page(RunFilter(ending=kind.phase))).rows
    assert (run_id in {one.run_id for one in ended}) is bool(row.ended)


def test_an_attempt_after_a_late_answer_asks_again(tmp_path: Path) -> None:
    at = At(tmp_path, KINDS["question-with-a-time"])
    clock = ManualClock()
    old = at.machine().start("t", journal=at.journal, run_id="before", clock=clock)
    old.advance()
    clock.advance(4_000)
    old.run()
    assert str(old.result.reason) == "user_unresponsive"
    retry_run(old, retry_plan(old), {}, run_id="r")
    assert agreeing(at, "r").question is not None
    (row,) = by_hand(at.journal.page(RunFilter(waiting=True))).rows
    assert row.run_id == "r"


@pytest.mark.parametrize("name", ["question-with-a-time", "rest-after-a-failure", "failed-step"])
def test_an_attempt_stands_where_it_goes_on(name: str, tmp_path: Path) -> None:
    at = At(tmp_path, KINDS[name])
    old = at.start("before")
    if not old.ended:
        old.cancel("time_limit")
        old.run()
    retry_run(old, retry_plan(old), {}, run_id="r")
    agreeing(at, "r")


def test_a_child_has_a_row_of_its_own(tmp_path: Path) -> None:
    at = At(tmp_path, KINDS["question-of-a-child"])
    at.start()
    (child,) = by_hand(at.journal.rows(parent="r"))
    assert child.question is not None
    assert (child.phase().name, child.question.text) == ("waiting", "Go?")


@pytest.mark.slow("drives runs")
def test_a_schedule_goes_on_once_its_question_is_answered(tmp_path: Path) -> None:
    at = At(tmp_path, KINDS["question"])
    run_id = ticked(at)
    (listed,) = json.loads(at.cli("schedule", "list", "--format", "json"))
    assert (listed["status"], listed["runs"]) == ("paused", [run_id])
    assert run_id in at.cli("runs", "--waiting")
    at.cli("answer", run_id, "yes")
    at.cli("resume", run_id)
    (schedule,) = by_hand(at.journal.cron_schedules())
    journal = SqliteJournal(at.folder / ".chartloop" / "journal.db", now=lambda: schedule.next)
    machines = Machines(Settings(machines=(), journal=journal, serves=False), journal)
    assert take_ticks(journal, machines, {}) == 1
