"""Workers that are killed, and what is true afterwards.

A `Fleet` is a folder with a machine, its paid action and a journal, and some `chartloop worker`
processes, which `victim` kills or stops where a test says. The action writes each call into a file
and flushes it to the disk: that file, and not the journal, says what was really paid.

    submit ─▶ pay ─▶ pay ─▶ rest, until its time ─▶ pay ─▶ question, until an answer ─▶ pay ─▶ end

A second machine pays under deadlines that cut its calls off.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from chartloop import load
from chartloop.adapters.journal.opening import journal_of
from chartloop.core.errors import WaitError
from chartloop.hosting.callers import Caller
from chartloop.hosting.machines import Machines
from chartloop.hosting.runs import Runs
from chartloop.hosting.settings import Settings
from chartloop.run.calls import begun_in
from chartloop.run.journal import Event
from chartloop.run.recorded import check_chain
from chartloop.run.schedule import LAPSES
from chartloop.run.sync import by_hand
from tests.cli.working import until

VICTIM = Path(__file__).with_name("victim.py")
SOON = 60.0
"""Seconds in which what a dead worker held is taken up, however busy the machine is."""
CALLS = 4
"""The paid calls of a run."""
ERRAND = """\
chartloop: 1
machine: errand
in_doubt: retry
states:
  first: {do: pay, next: second}
  second: {do: pay, next: rest}
  rest: {ask: "Sooner?", on: {yes: third}, within: 400ms, expired: third}
  third: {do: pay, next: question}
  question: {ask: "Go on?", on: {yes: fourth}}
  fourth: {do: pay, next: done}
  done: {stop: completed}
"""
LIMITED = ERRAND.replace("machine: errand", "machine: limited").replace(
    "states:\n",
    """\
limits: {steps: 40}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  begin: {do: receive, next: first}
""",
)
"""The same errand, with a step before it at whose end a limit may stop the run."""
CUT = """\
chartloop: 1
machine: cut
tools: [transfer]
states:
  first:
    do: pay
    with: {seconds: 9}
    within: 300ms
    retry: {times: 2, on: [TRANSIENT, RECOVERABLE, CRITICAL]}
    failed: second
    next: second
  second: {do: tool, with: {name: transfer}, within: 200ms, failed: third, next: third}
  third: {do: pay, with: {seconds: 0.8}, failed: fourth, next: fourth}
  fourth: {do: pay, with: {seconds: 0.3}, within: 300ms, failed: done, next: done}
  done: {stop: completed}
"""
"""The first payment is cut off and tempts to a repetition; the second one is too, and returns late,
in the third; the last one comes back at its deadline. The file does not say what becomes of doubts.
"""
POISON = """\
chartloop: 1
machine: poison
in_doubt: retry
states:
  first: {do: end, next: done}
  done: {stop: completed}
"""
"""Its action ends whatever process it is in."""
MACHINES = {"errand": ERRAND, "limited": LIMITED, "cut": CUT, "poison": POISON}
PAY = """\
import asyncio, os, sys, time
from chartloop import Context, action, tool

come = getattr(sys.modules["__main__"], "come", lambda place: None)

def note(word, ctx):
    file = os.open("effects", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    call = f"{ctx.facts.run.id}/{ctx.state.name}"  # each state is entered once
    os.write(file, f"{word} {ctx.key} {os.getpid()} {call}\\n".encode())
    os.fsync(file)
    os.close(file)

@action(effect="paid")
async def pay(ctx: Context, seconds: float = 0.0) -> dict[str, str]:
    \"\"\"Pays, and takes a moment.\"\"\"
    note("asked", ctx)
    come("asked")
    await asyncio.sleep(seconds or float(os.environ.get("PAY", "0.05")))
    note("replied", ctx)
    come("replied")
    return {}

@action(effect="paid")
def end(ctx: Context) -> dict[str, str]:
    \"\"\"Ends its process.\"\"\"
    note("ended", ctx)
    os._exit(9)

@tool(effect="paid")
def transfer(ctx: Context) -> str:
    \"\"\"Pays in a thread that goes on after a deadline.\"\"\"
    note("asked", ctx)
    come("asked")
    time.sleep(0.5)
    note("replied", ctx)
    return "transferred"
"""


class Kill(NamedTuple):
    """A signal that a worker sent to itself."""

    place: str
    signal: int
    pid: int
    at: float
    """Of the clock that all processes of a machine share."""
    held: tuple[str, ...]
    """The runs that it had claimed."""
    taken_up: float | None
    """The seconds until the last of them had been claimed by another; None if it held none."""


class Story(NamedTuple):
    """What became of a fleet's runs."""

    runs: int
    unfinished: list[str]
    lost: list[str]
    """Acknowledged writes that are not in the journal, as they were written."""
    paid: int
    """Calls that were really made."""
    again: int
    """Calls that were made once more, each time counted."""
    twice: list[str]
    """Calls that were made again without a report that they are in doubt, or that were not to be
    made again whatever is reported."""
    misnamed: list[str]
    """Calls that had another key when they were made again, and keys that two calls had."""
    denied: list[str]
    """Calls that were made, and that the journal says failed, or were not made."""
    missing: list[str]
    """Calls that a record says were made, and were not."""
    in_flight: Counter[tuple[str, int]]
    """The calls with an intent and without a record, by key and process."""
    reported: Counter[tuple[str, int]]
    """The calls that are reported in doubt, by key and process that left them."""
    damaged: list[str]
    held: int
    """Runs that a worker still holds."""


class Link(Protocol):
    """What leads a worker to a database."""

    before: tuple[str, ...]
    """What a command starts with that uses it."""

    def leads_to(self, url: str) -> str:
        """The URL of a database by this way."""
        ...


class Fleet:
    """Workers on one journal."""

    def __init__(self, folder: Path, where: str = "", *options: str, **environment: str) -> None:
        self.folder, self.where = folder, where or str(folder / "j.db")
        self.options, self.environment = options, environment
        (folder / "arm").mkdir()
        (folder / "trace").touch()
        (folder / "effects").touch()
        for name, text in MACHINES.items():
            (folder / f"{name}.yaml").write_text(text)
        (folder / "pay.py").write_text(PAY)
        spec = importlib.util.spec_from_file_location("pay_of_fleet", folder / "pay.py")
        assert spec is not None
        assert spec.loader is not None
        tools: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tools)
        self.journal = journal_of(self.where)
        given = [tools.pay, tools.end, tools.transfer]
        settings = Settings(machines=(folder,), journal=self.journal, tools=given)
        self._runs = Runs(settings, self.journal, Machines(settings, self.journal))
        self._machines = {name: load(folder / f"{name}.yaml", tools=given) for name in MACHINES}
        self.runs: list[str] = []
        self.poisoned = ""
        self.workers: list[subprocess.Popen[bytes]] = []
        self._answered: set[str] = set()

    # the workers ----------------------------------------------------------------------------------

    def start(
        self, count: int = 1, *, link: Link | None = None, able: bool = True, **environment: str
    ) -> list[subprocess.Popen[bytes]]:
        """Start workers; they may not have begun to work.

        `link` leads them to the journal. Those that are not `able` lack the machine's action.
        """
        before, where = (
            ((), self.where) if link is None else (link.before, link.leads_to(self.where))
        )
        command = [
            *before, sys.executable, str(VICTIM), "worker", "--journal", where,
            *(("--tools", "pay.py") if able else ()), "--concurrency", "4", *self.options,
        ]  # fmt: skip
        new = [self._start(command, environment) for _ in range(count)]
        self.workers += new
        return new

    def call(self, *words: str) -> subprocess.Popen[bytes]:
        """Start another command on the journal."""
        return self._start([sys.executable, str(VICTIM), *words, "--journal", self.where], {})

    def give(self, key: str, *words: str) -> subprocess.Popen[bytes]:
        """Give an order with a key, in a process of its own; it prints the answer to a pipe."""
        command = [sys.executable, str(VICTIM), *words]
        return self._start(command, {"VICTIM_KEY": key}, stdout=subprocess.PIPE)

    def _start(
        self, command: list[str], environment: dict[str, str], stdout: int | None = None
    ) -> subprocess.Popen[bytes]:
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(
                command, cwd=self.folder, stdout=stdout or said, stderr=said,
                env={**os.environ, **self.environment, **environment},
            )  # fmt: skip

    def working(self) -> int:
        """How many workers are alive and listed."""
        listed = {line[2] for line in self.trace() if line[0] == "kept"}
        return sum(one.pid in listed and one.poll() is None for one in self.workers)

    def dead(self) -> int:
        """How many workers have ended."""
        return sum(one.poll() is not None for one in self.workers)

    def arm(self, place: str, number: int = signal.SIGKILL) -> None:
        """The first worker that comes to a place, or the first with `KEY:`, gets a signal there."""
        new = self.folder / "new"
        new.write_text(str(int(number)))
        new.rename(self.folder / "arm" / place)

    def stopped(self) -> list[int]:
        """The processes that have come to a place and stopped there."""
        return [kill.pid for kill in self.kills() if kill.signal == signal.SIGSTOP]

    def lapse(self, pid: int) -> None:
        """Let the time pass in which a process could have renewed its leases, and did not."""
        for table in ("lease", "worker"):
            sql = f"UPDATE {table} SET until = until - 3600 WHERE pid = {pid}"  # noqa: S608
            if self.where.startswith("postgresql"):
                import psycopg  # noqa: PLC0415  an extra

                url, _, schema = self.where.partition("?schema=")
                with psycopg.connect(url) as server:
                    server.execute(sql.replace(table, f"{schema}.{table}", 1).encode())
            else:
                with closing(sqlite3.connect(self.where, timeout=30)) as file, file:
                    file.execute(sql)

    def said(self) -> str:
        """What the workers printed."""
        return (self.folder / "said").read_text()

    def close(self) -> None:
        """Stop the workers as an operator does; those that do not end are killed."""
        for one in self.workers:
            if one.poll() is None:
                one.send_signal(signal.SIGCONT)
                one.send_signal(signal.SIGTERM)
        for one in self.workers:
            with suppress(subprocess.TimeoutExpired):
                one.wait(30)
            one.kill()
            one.wait()
        by_hand(self.journal.close())

    # the runs -------------------------------------------------------------------------------------

    def submit(self, count: int, machine: str = "errand") -> None:
        """Start runs, as a server does."""
        for _ in range(count):
            receipt, _ = self._runs.start({"machine": machine, "task": "Pay."}, Caller())
            self.runs.append(str(receipt["run"]))

    def poison(self) -> None:
        """Start a run that ends each process that drives it, and replace its first worker."""
        receipt, _ = self._runs.start({"machine": "poison", "task": "End."}, Caller())
        self.poisoned = str(receipt["run"])
        until(self.dead)
        self.start()

    def fail(self) -> dict[str, Any]:
        """Let a limit end a run before it pays; gives the order to try it again."""
        run = self._machines["limited"].start("Pay.", limits={"steps": 1}, journal=self.journal)
        assert run.run().reason == "steps_limit"
        limits, plan = {"steps": 40}, self._runs.retry_plan(run.id)
        return {"run": run.id, "limits": limits, "confirm": plan["digest"]}

    def answer(self) -> bool:
        """Answer the questions that are asked; whether every run has ended."""
        rows = by_hand(self.journal.rows())
        for row in rows:
            if row.state == "question" and row.run_id not in self._answered:
                with suppress(WaitError):  # it may have been answered by what a test sent
                    self.send(row.run_id)
                self._answered.add(row.run_id)
        return all(row.ended or row.run_id == self.poisoned for row in rows)

    def send(self, run_id: str) -> None:
        """Answer the question of a run."""
        row = by_hand(self.journal.row(run_id))
        assert row is not None
        self._machines[row.machine].open(run_id, journal=self.journal).send("yes")

    def finish(self, seconds: float = 200.0) -> None:
        """Wait until every run has ended, and its order is settled."""
        until(lambda: self.answer() and not self.open, seconds)

    @property
    def open(self) -> int:
        """Runs that a worker holds or has still to take: of a dead one also those that ended."""
        backlog = by_hand(self.journal.backlog())
        return backlog.held + backlog.due

    # what happened --------------------------------------------------------------------------------

    def trace(self) -> list[list[Any]]:
        """What the workers noted: a word, what it is about, the process, the time."""
        text = (self.folder / "trace").read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def effects(self) -> list[tuple[str, str, int, str]]:
        """What was really done: a word, a key, a process, and the run and state of the call."""
        lines = (line.split() for line in (self.folder / "effects").read_text().splitlines())
        return [(word, key, int(pid), call) for word, key, pid, call in lines]

    def back(self, at: float, *pids: int) -> float | None:
        """The seconds from a moment until a worker, or one of these, wrote to the journal."""
        wrote = (e[-1] - at for e in self.trace() if e[-1] > at and (not pids or e[-2] in pids))
        return min(wrote, default=None)

    def kills(self) -> list[Kill]:
        """The signals, in order, with the time until other workers had taken up what was held."""
        trace, found = self.trace(), list[Kill]()
        for index, (word, *what) in enumerate(trace):
            if word != "signal":
                continue
            place, number, pid, at = what
            held = set[str]()
            for other in trace[:index]:
                if other[-2] == pid and other[0] in ("claimed", "handed"):
                    (held.add if other[0] == "claimed" else held.discard)(other[1])
            later = (e for e in trace if e[0] == "claimed" and e[-2] != pid and e[-1] > at)
            taken = dict[str, float]()
            for _, run_id, _, when in later:
                taken.setdefault(run_id, when - at)
            times = [taken.get(run_id, math.inf) for run_id in held]
            found.append(
                Kill(place, number, pid, at, tuple(sorted(held)), max(times, default=None))
            )
        return found

    def story(self) -> Story:
        """What became of the runs."""
        events = {run_id: by_hand(self.journal.events(run_id)) for run_id in self.runs}
        drivers = {(run, epoch): pid for word, run, *rest in self.trace()
                   if word == "acquired" for epoch, pid, _ in [rest]}  # fmt: skip
        asked, named = Counter[str](), defaultdict[str, set[str]](set)
        for word, key, _, call in self.effects():
            if word == "asked":
                asked[call] += 1
                named[call].add(key)
        of = Counter(key for keys in named.values() for key in keys)
        doubts, in_flight = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
        rows = {row.run_id: row for row in by_hand(self.journal.rows())}
        unfinished, twice, missing, denied = list[str](), list[str](), list[str](), list[str]()
        for run_id, log in events.items():
            recorded, left = set[str](), set[str]()
            for key, epoch, outcome in _calls(log):
                (recorded if outcome == "recorded" else left).add(key)
                if outcome == "left":
                    in_flight[key, drivers.get((run_id, epoch), 0)] += 1
            told = _doubts(run_id, log, drivers)
            doubts += told
            repeats = rows[run_id].machine != "cut"  # whose file leaves doubts to the default
            known = recorded if repeats else recorded | left
            if rows[run_id].status != "completed" or len(known) != CALLS:
                unfinished.append(run_id)
            standing = begun_in(log)
            mine = {key: call for call, keys in named.items() if call.startswith(f"{run_id}/")
                    for key in keys}  # fmt: skip
            again = Counter[str]()
            for (key, _), count in told.items():
                again[key] += count
            twice += [k for k, c in mine.items() if asked[c] > 1 + (again[k] if repeats else 0)]
            missing += [key for key in recorded if key not in mine]
            denied += [
                key for key in mine
                if key not in standing or standing[key].standing not in ("done", "unknown")
                or (key not in recorded and key not in again)
            ]  # fmt: skip
        return Story(
            len(self.runs),
            unfinished,
            [*self._lost(events)],
            asked.total(), asked.total() - len(asked), twice,
            [*(call for call, keys in named.items() if len(keys) > 1),
             *(key for key, count in of.items() if count > 1)],
            denied, missing, in_flight, doubts,
            [run for run in self.runs if (chain := by_hand(check_chain(self.journal, run))) is None
             or chain.fault],
            by_hand(self.journal.backlog()).held,
        )  # fmt: skip

    def _lost(self, events: dict[str, list[Event]]) -> Iterator[str]:
        if self.poisoned:
            events = {**events, self.poisoned: by_hand(self.journal.events(self.poisoned))}
        for word, run_id, *rest in self.trace():
            if word == "wrote":
                head, epoch, count, *_ = rest
                now = events[run_id][head : head + count]
                if [event.epoch for event in now] != [epoch] * count:
                    yield f"{run_id} {head}"


def _calls(log: list[Event]) -> Iterator[tuple[str, int, str]]:
    """Each intent of a run, with the epoch of its driver and what became of it.

    A call is left by a driver that dies, and by a deadline: no payment fails by itself.
    """
    open_: dict[str, int] = {}
    for event in log:
        if event.type == "intent":
            key = str(event.data["key"])
            if key in open_:
                yield key, open_[key], "left"
            open_[key] = event.epoch
        elif event.record is not None and (outcome := event.record.outcome) is not None:
            for key, epoch in open_.items():
                done = epoch == event.epoch and outcome.ok
                yield key, epoch, "recorded" if done else "left"
            open_ = {}
    for key, epoch in open_.items():
        yield key, epoch, "left"


def _doubts(
    run_id: str, log: list[Event], drivers: dict[tuple[str, int], int]
) -> Counter[tuple[str, int]]:
    """The reports of doubt, with the process whose call each is about."""
    found, epochs = Counter[tuple[str, int]](), defaultdict[str, int](int)
    for event in log:
        key = str(event.data.get("key", "")) if event.record is None else ""
        if event.type == "intent":
            epochs[key] = event.epoch
        elif event.type == "in_doubt":
            found[key, drivers.get((run_id, epochs[key]), 0)] += 1
    return found


def check(story: Story) -> None:
    """The promises: no step lost, nothing recorded paid twice, what is in doubt reported."""
    assert story.unfinished == []
    assert story.lost == []
    assert story.misnamed == []
    assert story.twice == []
    assert story.denied == []
    assert story.missing == []
    assert story.damaged == []
    assert story.reported == story.in_flight
    assert story.held == 0


def report(
    fault: str, pair: str, fleet: Fleet, tries: int, back: Sequence[float | None] = (),
    answered: Mapping[int, float] | None = None,
) -> None:  # fmt: skip
    """Check a fleet's story, and write it down where `CHARTLOOP_FIGURES` says.

    `back`: the seconds that it took to go on after each fault that was not a kill. `answered`: for
    each process that died of an order, the seconds until all others had the answer to it.
    """
    story, kills = fleet.story(), [kill for kill in fleet.kills() if kill.signal == signal.SIGKILL]
    if path := os.environ.get("CHARTLOOP_FIGURES"):
        left = Counter[int]()
        for (_, pid), count in story.reported.items():
            left[pid] += count
        line = {
            "fault": fault, "pair": pair, "tries": tries, "runs": story.runs,
            "calls": story.paid, "unfinished": len(story.unfinished), "lost": len(story.lost),
            "again": story.again, "twice": len(story.twice), "in_flight": story.in_flight.total(),
            "reported": story.reported.total(),
            "kills": [
                {"place": kill.place, "runs": len(kill.held), "reported": left[kill.pid],
                 "seconds": (answered or {}).get(kill.pid, kill.taken_up)}
                for kill in kills
            ],
            "back": [*back],
        }  # fmt: skip
        with Path(path).open("a") as file:
            file.write(json.dumps(line) + "\n")
    check(story)
    parked = [one.run_id for one in by_hand(fleet.journal.backlog()).parked]
    assert parked == ([fleet.poisoned] if fleet.poisoned else [])
    ends = sum(word == "ended" for word, *_ in fleet.effects())
    assert bool(fleet.poisoned) <= ends <= 1 + LAPSES
    assert [kill for kill in kills if (kill.taken_up or 0) > SOON] == []


@contextmanager
def fleet_of(
    folder: Path, where: str = "", *options: str, workers: int = 0, **environment: str
) -> Generator[Fleet]:
    """A fleet whose workers are at work."""
    fleet = Fleet(folder, where, *options, **environment)
    try:
        fleet.start(workers)
        until(lambda: fleet.working() == workers)
        yield fleet
    finally:
        fleet.close()


def until_answering(fleet: Fleet, what: Callable[[], Any], seconds: float = 150.0) -> None:
    """Wait for something while a person answers."""

    def look() -> bool:
        fleet.answer()
        return bool(what())

    until(look, seconds)
