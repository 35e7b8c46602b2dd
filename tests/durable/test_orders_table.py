"""Orders that are given twice: each order × each door × each caller × both databases.

`TABLE` has a cell for every order and door: a `Given`, which is tried with every caller and on both
databases, or the reason why there is nothing to try. A cell that is missing fails.

Tries of a failed run and next messages are elsewhere: a run knows its successors (`test_succession`).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from chartloop.adapters.journal.opening import is_server
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Machine, Run, load
from chartloop.core.errors import ChartloopError, RunError
from chartloop.hosting.callers import Caller
from chartloop.hosting.machines import Machines
from chartloop.hosting.mcp_server.tool_calls import Calls
from chartloop.hosting.problems import Refusal
from chartloop.hosting.runs import Runs, release
from chartloop.hosting.settings import Settings
from chartloop.hosting.ticks import take_ticks
from chartloop.run.answer_links import links_of, make_link
from chartloop.run.copies import lines_of, read_tree
from chartloop.run.fleet import FleetLimit, Reservation
from chartloop.run.journal import CHILD_MARK, Journal
from chartloop.run.sync import by_hand
from chartloop.testing.crash import CrashAt, Crashed
from chartloop.testing.journal_suite.concurrent import race
from chartloop.testing.journal_suite.fleet import sent
from tests.cli.shell import call
from tests.postgres import NEEDED, Cluster

MACHINE = """\
chartloop: 1
machine: m
limits: {steps: 50}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  a: {do: receive, next: b}
  b: {ask: 'Go on?', on: {yes: c, no: c}}
  c: {stop: completed}
"""
CHANGED = MACHINE.replace("Go on?", "Go on now?")
N = 4
"""How many give the order at once."""
AWAY = 60.0
"""Seconds after a kill until somebody gives the order again: claims and leases have ended."""
Door = Literal["python", "cli", "http", "mcp", "worker"]
DOORS: tuple[Door, ...] = ("python", "cli", "http", "mcp", "worker")
CallerOf = Literal["again", "later", "at once", "killed"]
CALLERS: tuple[CallerOf, ...] = ("again", "later", "at once", "killed")
ROWS = (
    "start by id", "start by id, used if there", "start by key", "submit", "answer",
    "answer by link", "send", "resume", "batch resume", "fork", "back", "upgrade", "move", "cancel",
    "pause", "schedule add", "schedule tick", "limit settle", "import",
)  # fmt: skip


# the place ------------------------------------------------------------------------------------


class Hand:
    """A process that gives orders: its journal, its server, its MCP server."""

    def __init__(self, place: Place, journal: Journal) -> None:
        self.place, self.journal = place, journal
        folder = place.folder
        self.settings = Settings(machines=(folder / "served",), journal=journal, workers=0)
        self.runs = Runs(self.settings, journal, Machines(self.settings, journal))

    @property
    def machine(self) -> Machine:
        return self.place.machine

    def open(self, run_id: str) -> Run:
        return self.machine.open(run_id, journal=self.journal)

    def mcp(self, order: Callable[[Calls], Any]) -> Any:
        return asyncio.run(order(Calls(self.settings)))


class Dying(CrashAt):
    """A journal that dies; its name is not that of a server, whose own door would be taken."""

    @property
    def name(self) -> str:
        return "dying"


class Place:
    """A database with its machine, and the hands that reach it."""

    def __init__(self, where: str, folder: Path) -> None:
        self.where, self.folder, self.shift = where, folder, 0.0
        (folder / "served").mkdir()
        (folder / "served" / "m.yaml").write_text(MACHINE)
        (folder / "m.yaml").write_text(MACHINE)
        (folder / "changed.yaml").write_text(CHANGED)
        (folder / "killed.py").write_text(KILLED)
        self.machine = load(folder / "m.yaml")
        self.changed = load(folder / "changed.yaml")
        self.opened = [self._journal() for _ in range(N)]
        self.hands = [Hand(self, journal) for journal in self.opened]
        self._numbers = count()

    def _journal(self) -> Any:
        if is_server(self.where):
            from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415

            return PostgresJournal(self.where, now=self.now)
        return SqliteJournal(self.where, now=self.now)

    def now(self) -> float:
        return time.time() + self.shift

    @property
    def journal(self) -> Journal:
        return self.opened[0]

    def new(self) -> str:
        return f"r{next(self._numbers)}"

    def dying(self, write: int, *, before: bool) -> tuple[Hand, CrashAt]:
        """A hand that dies at a write."""
        journal = Dying(self.journal, write, before=before)
        return Hand(self, journal), journal

    def cli(self, *args: str) -> Said:
        done = call(*args, *self._options(args), cwd=self.folder)
        return Said(done.code, done.out, done.err)

    def process(self, *args: str, write: int = 0) -> subprocess.Popen[str]:
        """The same command in a process of its own, which dies before a write."""
        command = [sys.executable, "killed.py", *args, *self._options(args)]
        return subprocess.Popen(
            command, cwd=self.folder, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "KILL_AT": str(write)},
        )  # fmt: skip

    def _options(self, args: Sequence[str]) -> tuple[str, ...]:
        return ("--journal", self.where) if "--journal" not in args else ()

    def rest(self, run_id: str) -> Run:
        """Drive a run until it waits or has ended, as a worker would."""
        run = self.machine.open(run_id, journal=self.journal)
        with suppress(RunError):
            run.run()
        return run


KILLED = """\
import os, sys
from chartloop.adapters.journal.rows import Rows
at, done, perform = int(os.environ["KILL_AT"]), 0, Rows.perform
def counted(self, write):
    global done
    done += 1
    if done == at:
        os._exit(137)
    return perform(self, write)
Rows.perform = counted
from chartloop.cli import main
sys.argv[0] = "chartloop"
main()
"""
"""`chartloop`, which dies within the transaction of a write, before it is committed."""


class Said(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


def prepared(place: Place, run_id: str, steps: int = 0) -> None:
    """A run with its first record, and so many actions."""
    run = place.machine.start("x", run_id=run_id, journal=place.journal)
    run.advance()
    release(run)
    for _ in range(steps):
        run.step()
    release(run)


def paused(place: Place, run_id: str) -> None:
    prepared(place, run_id)
    run = place.machine.open(run_id, journal=place.journal)
    run.pause()
    run.step()
    release(run)


def nothing(_: Place, __: str) -> None: ...


# effects --------------------------------------------------------------------------------------


def kinds(place: Place, run_id: str, kind: str) -> int:
    return sum(one.kind == kind for one in by_hand(place.journal.records(run_id)))


def started(place: Place, run_id: str) -> int:
    return kinds(place, run_id, "start")


def taken(kind: str) -> Callable[[Place, str], int]:
    """How many records of a kind the run has once it was driven."""

    def effect(place: Place, run_id: str) -> int:
        place.rest(run_id)
        return kinds(place, run_id, kind)

    return effect


def made(place: Place, run_id: str) -> int:
    """How many runs were made of it."""
    rows = by_hand(place.journal.rows(parent=run_id))
    return sum(CHILD_MARK not in row.run_id for row in rows)


def by_key(place: Place, run_id: str) -> int:
    """How many runs have the task of the order, each begun once and due once."""
    rows = [row for row in by_hand(place.journal.rows()) if row.task == f"task {run_id}"]
    for row in rows:
        assert started(place, row.run_id) == 1
        assert sum(one.is_open for one in by_hand(place.journal.requests(row.run_id))) == 1
    return len(rows)


# what the others are told ----------------------------------------------------------------------


def text_of(reply: Any) -> str:
    """The words of a reply, by whichever door."""
    if isinstance(reply, Said):
        return f"{reply.out}{reply.err}"
    if isinstance(reply, Refusal):
        return reply.detail
    return str(reply)


def is_refusal(reply: Any) -> bool:
    return reply.code not in (0, 4) if isinstance(reply, Said) else isinstance(reply, BaseException)


@dataclass(frozen=True)
class Given:
    """How an order is given by a door, and what must be true of it."""

    give: Callable[[Hand, str], Any]
    """Called with a hand and the id of a run. For the command line it gives the arguments."""
    effect: Callable[[Place, str], int]
    """How often it was carried out."""
    prepare: Callable[[Place, str], None] = nothing
    same: bool = False
    """Whether everyone gets the same reply."""
    told: str = ""
    """Words of a reply without an error: one of these, parted by `|`; empty for any words."""
    refused: Sequence[str] = ()
    """Words of the errors that the others may get; empty if they get no error."""
    later: str = ""
    """Words of the error of a caller who comes when the order has had its effect."""
    other: Callable[[Hand, str], Any] | None = None
    """Another order under the same key: it is refused with `OTHER`."""
    skips: Mapping[CallerOf, str] = field(default_factory=dict[CallerOf, str])
    """The callers that cannot occur, with the reasons."""


OTHER = ("used for another request", "with another content", "with another machine or task")


def argv(*words: str) -> Callable[[Hand, str], Any]:
    """A command; `{}` in a word is the id of the run."""
    return lambda _, run_id: tuple(word.replace("{}", run_id) for word in words)


def keyed(run_id: str) -> Caller:
    return Caller(key=f"key {run_id}")


def message(kind: str, **body: Any) -> Callable[[Hand, str], Any]:
    return lambda hand, run_id: hand.runs.message(kind, run_id, body, keyed(run_id))


def start_http(hand: Hand, run_id: str, **more: Any) -> Any:
    body = {"machine": "m", "task": f"task {run_id}", **more}
    return hand.runs.start(body, keyed(run_id))[0]


def start_http_by_id(hand: Hand, run_id: str, **more: Any) -> Any:
    return hand.runs.start({"machine": "m", "task": "x", "run_id": run_id, **more}, Caller())[0]


def start_python(hand: Hand, run_id: str, **more: Any) -> Any:
    run = hand.machine.start("x", run_id=run_id, journal=hand.journal, **more)
    run.advance()
    release(run)
    return run.id


def move_python(hand: Hand, run_id: str) -> Any:
    run = hand.place.changed.open(run_id, journal=hand.journal, changed=True)
    run.step()
    release(run)


def with_link(place: Place, run_id: str) -> None:
    prepared(place, run_id, 1)
    run = place.machine.open(run_id, journal=place.journal)
    by_hand(make_link(place.journal, run.session, "eve@example.org"))


def by_link(hand: Hand, run_id: str) -> Any:
    (link,) = by_hand(links_of(hand.journal, run_id))
    caller = Caller(f"key {run_id}", "link", link.to, "answer", link=link)
    body = {"event": "yes", "wait": link.wait, "then": "run"}
    return hand.runs.message("answer", run_id, body, caller)


def doubted(place: Place, run_id: str) -> None:
    """A call in doubt, under a limit."""
    journal, scope, key = place.journal, f"session:{run_id}", f"{run_id}/call"
    by_hand(journal.set_limit(FleetLimit(scope, "cost", "all", 9.0)))
    prepared(place, run_id)
    row, _ = by_hand(journal.acquire(run_id))
    reserved = Reservation(run_id, row.epoch, row.head, key, (scope,), {"cost": 2.0})
    by_hand(journal.reserve(reserved))
    by_hand(journal.append(run_id, row.head, row.epoch, [sent(key, row.head)]))
    by_hand(journal.acquire(run_id))


def settled(place: Place, run_id: str) -> int:
    """1 if what the call has used is counted once."""
    (limit,) = [one for one in by_hand(place.journal.limits()) if one.scope == f"session:{run_id}"]
    assert limit.used == 1.0
    return 1


def exported(place: Place, run_id: str) -> None:
    """The file of a run of another journal."""
    origin = SqliteJournal(place.folder / f"{run_id}.db")
    run = place.machine.start("x", run_id=run_id, journal=origin)
    run.advance()
    release(run)
    tree = by_hand(read_tree(origin, run_id))
    text = "".join(f"{line}\n" for one in tree for line in lines_of(one))
    (place.folder / f"{run_id}.jsonl").write_text(text)
    by_hand(origin.close())


def scheduled(place: Place, run_id: str) -> None:
    place.cli("schedule", "add", f"s{run_id}", "m.yaml", "x", "--every", "1d")
    (one,) = [one for one in by_hand(place.journal.cron_schedules()) if one.name == f"s{run_id}"]
    tick = place.now() // 1
    by_hand(place.journal.put_cron(one, one.replace(created=tick - one.every, next=tick)))


def schedules(place: Place, run_id: str) -> int:
    return sum(one.name == f"s{run_id}" for one in by_hand(place.journal.cron_schedules()))


def ticked(place: Place, run_id: str) -> int:
    return len(by_hand(place.journal.rows(prefix=f"s{run_id}-")))


def tick(hand: Hand, _: str) -> Any:
    return take_ticks(hand.journal, hand.runs.machines, {})


# the table ------------------------------------------------------------------------------------

NO_LINK = "a link is answered at a server, by HTTP alone"
NO_SCHEDULE = "schedules are made on the command line alone; workers carry them out"
NO_LIMIT = "calls in doubt are settled on the command line alone"
NO_IMPORT = "journals are exported and imported on the command line alone"
NO_TOOL = "the MCP server has no such tool"
NO_ORDER = "a worker carries out what others order: it gives no such order itself"
NO_BATCH = "there is no order that resumes several runs: each is given by itself"
JUDGES = "`upgrade` judges and changes nothing: what it allows is a move"
DRIVEN = "is driven by"
TAKEN = "there is a run"
ANSWERED = "was answered already"

TABLE: dict[tuple[str, Door], Given | str] = {
    ("start by id", "python"): Given(start_python, started, refused=(TAKEN, DRIVEN)),
    ("start by id", "cli"): Given(
        argv("run", "m.yaml", "x", "--run-id", "{}", "--no-input"), started, refused=(TAKEN, DRIVEN)
    ),
    ("start by id", "http"): Given(
        start_http_by_id, started, refused=(TAKEN, DRIVEN),
    ),
    ("start by id", "mcp"): "the server chooses the ids of the runs that its tools start",
    ("start by id, used if there", "python"): Given(
        partial(start_python, if_exists="use"), started, refused=(DRIVEN,)
    ),
    ("start by id, used if there", "cli"): Given(
        argv("run", "m.yaml", "x", "--run-id", "{}", "--if-exists", "use", "--no-input"), started,
        refused=(DRIVEN,),
    ),
    ("start by id, used if there", "http"): Given(
        partial(start_http_by_id, if_exists="use"), started, same=True
    ),
    ("start by id, used if there", "mcp"): "as above: a client cannot name a run before it is there",
    ("start by key", "python"): "Python takes no key: the run id is one, with `if_exists`",
    ("start by key", "cli"): "`run` drives its run here; the order with a key is `submit`",
    ("start by key", "http"): Given(
        start_http, by_key, same=True, other=lambda hand, run_id: start_http(hand, run_id, agent="b")
    ),
    ("start by key", "mcp"): "a call of a tool has no key: each is another order",
    ("submit", "python"): "Python submits with `start`; there is no other call",
    ("submit", "cli"): Given(
        argv("submit", "m.yaml", "task {}", "--key", "key {}"), by_key,
        told="1 run submitted|1 submitted before",
        other=argv("submit", "m.yaml", "another", "--key", "key {}"),
    ),
    ("submit", "http"): "`POST /runs` is the submit of a server: see `start by key`",
    ("submit", "mcp"): NO_TOOL,
    ("answer", "python"): Given(
        lambda hand, run_id: hand.open(run_id).send("yes", message_id=f"k{run_id}").message_id,
        taken("answer"), partial(prepared, steps=1), same=True,
        other=lambda hand, run_id: hand.open(run_id).send("no", message_id=f"k{run_id}"),
    ),
    ("answer", "cli"): Given(
        argv("answer", "{}", "yes", "--key", "k{}"), taken("answer"), partial(prepared, steps=1),
        told="is kept for run|delivered before: it is ignored|has taken the answer",
        other=argv("answer", "{}", "no", "--key", "k{}"),
    ),
    ("answer", "http"): Given(
        message("answer", event="yes"), taken("answer"), partial(prepared, steps=1), same=True,
        other=message("answer", event="no"),
    ),
    ("answer", "mcp"): Given(
        lambda hand, run_id: hand.mcp(lambda calls: calls.answer(run_id, {"event": "yes"})),
        taken("answer"), partial(prepared, steps=1), refused=(ANSWERED,),
        later="waits for nothing",
    ),
    ("answer by link", "python"): NO_LINK,
    ("answer by link", "cli"): NO_LINK,
    ("answer by link", "http"): Given(
        by_link, taken("answer"), with_link, same=True
    ),
    ("answer by link", "mcp"): NO_LINK,
    ("send", "python"): Given(
        lambda hand, run_id: hand.open(run_id).enqueue(["x"], message_id=f"k{run_id}"), taken("enqueue"),
        prepared, same=True,
        other=lambda hand, run_id: hand.open(run_id).enqueue(["y"], message_id=f"k{run_id}"),
    ),
    ("send", "cli"): Given(
        argv("enqueue", "{}", "x", "--key", "k{}"), taken("enqueue"), prepared,
        told="are kept for run|delivered before: it is ignored|has taken the tasks",
        other=argv("enqueue", "{}", "y", "--key", "k{}"),
    ),
    ("send", "http"): Given(
        message("enqueue", tasks=["x"]), taken("enqueue"), prepared, same=True,
        other=message("enqueue", tasks=["y"]),
    ),
    ("send", "mcp"): NO_TOOL,
    ("resume", "python"): Given(
        lambda hand, run_id: hand.open(run_id).resume(), taken("resume"), paused, same=True,
        later="waits for an answer",
    ),
    ("resume", "cli"): Given(
        argv("resume", "{}", "--no-input"), taken("resume"), paused, refused=(DRIVEN,)
    ),
    ("resume", "http"): Given(message("resume"), taken("resume"), paused, same=True),
    ("resume", "mcp"): Given(
        lambda hand, run_id: hand.mcp(lambda calls: calls.resume(run_id)), taken("resume"), paused,
        same=True,
    ),
    **{("batch resume", door): NO_BATCH for door in DOORS},
    ("fork", "python"): Given(
        lambda hand, run_id: hand.open(run_id).fork(run_id=f"f{run_id}").id, made, prepared,
        refused=(TAKEN,),
    ),
    ("fork", "cli"): Given(
        argv("fork", "{}", "--run-id", "f{}"), made, prepared, refused=(TAKEN,)
    ),
    ("fork", "http"): Given(
        lambda hand, run_id: hand.runs.fork(run_id, None, keyed(run_id)), made, prepared, same=True,
        other=lambda hand, run_id: hand.runs.fork(run_id, 1, keyed(run_id)),
    ),
    ("fork", "mcp"): NO_TOOL,
    ("back", "python"): "`Run.back` takes no key: each call is another fork. `fork(run_id=)` is one",
    ("back", "cli"): "the command line goes back with `fork --at`",
    ("back", "http"): Given(
        lambda hand, run_id: hand.runs.back(run_id, 1, keyed(run_id)), made,
        partial(prepared, steps=1), same=True,
        other=lambda hand, run_id: hand.runs.back(run_id, 2, keyed(run_id)),
    ),
    ("back", "mcp"): NO_TOOL,
    **{("upgrade", door): JUDGES for door in DOORS},
    ("move", "python"): Given(
        move_python, made, partial(prepared, steps=1), refused=(DRIVEN, "has been driven", "continues")
    ),
    ("move", "cli"): Given(
        argv("resume", "{}", "--machine", "changed.yaml", "--use-new-file", "--no-input"), made,
        partial(prepared, steps=1), told="continues as run", refused=(DRIVEN,),
    ),
    ("move", "http"): "a server has the files of its folder: runs are moved where they are driven",
    ("move", "mcp"): NO_TOOL,
    ("cancel", "python"): Given(
        lambda hand, run_id: hand.open(run_id).cancel(), taken("stop"), prepared, same=True,
        later="has ended",
    ),
    ("cancel", "cli"): Given(
        argv("cancel", "{}"), taken("stop"), prepared, told="is kept for run", later="has ended"
    ),
    ("cancel", "http"): Given(message("cancel"), taken("stop"), prepared, same=True),
    ("cancel", "mcp"): Given(
        lambda hand, run_id: hand.mcp(lambda calls: calls.cancel(run_id, "enough")), taken("stop"),
        prepared, same=True, later="has ended",
    ),
    ("pause", "python"): Given(
        lambda hand, run_id: hand.open(run_id).pause(), taken("pause"), prepared, same=True,
        skips={"later": "a pause that comes when the first has ended is another order"},
    ),
    ("pause", "cli"): Given(
        argv("pause", "{}"), taken("pause"), prepared, told="is kept for run",
        later="is paused already",
    ),
    ("pause", "http"): Given(message("pause"), taken("pause"), prepared, same=True),
    ("pause", "mcp"): "a run is paused when its call is cancelled, and not by a tool",
    ("schedule add", "python"): NO_SCHEDULE,
    ("schedule add", "cli"): Given(
        argv("schedule", "add", "s{}", "m.yaml", "x", "--every", "1h"), schedules,
        told="starts its first run at|is there already: it stays as it is",
        other=argv("schedule", "add", "s{}", "m.yaml", "y", "--every", "1h"),
    ),
    ("schedule add", "http"): NO_SCHEDULE,
    ("schedule add", "mcp"): NO_SCHEDULE,
    ("schedule tick", "python"): "no tick is ordered by hand",
    ("schedule tick", "cli"): "no tick is ordered by hand",
    ("schedule tick", "http"): "no tick is ordered by hand",
    ("schedule tick", "mcp"): "no tick is ordered by hand",
    ("schedule tick", "worker"): Given(tick, ticked, scheduled),
    ("limit settle", "python"): NO_LIMIT,
    ("limit settle", "cli"): Given(
        argv("limits", "settle", "{}/call", "--cost", "1"), settled, doubted,
        refused=("it was settled before, or never was",),
    ),
    ("limit settle", "http"): NO_LIMIT,
    ("limit settle", "mcp"): NO_LIMIT,
    ("import", "python"): NO_IMPORT,
    ("import", "cli"): Given(
        argv("journal", "import", "{}.jsonl"), started, exported,
        told="1 run imported|0 runs imported, 1 were there",
    ),
    ("import", "http"): NO_IMPORT,
    ("import", "mcp"): NO_IMPORT,
    **{(row, "worker"): NO_ORDER for row in ROWS if row not in ("batch resume", "schedule tick", "upgrade")},
}  # fmt: skip
TRIED = [(row, door) for (row, door), cell in TABLE.items() if isinstance(cell, Given)]


def test_the_table_has_every_cell() -> None:
    assert set(TABLE) == {(row, door) for row in ROWS for door in DOORS}
    for cell in TABLE.values():
        reasons = [cell] if isinstance(cell, str) else [*cell.skips.values()]
        assert all(len(reason) > 10 for reason in reasons)


# trying it ------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=NEEDED)])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Place]:
    folder = tmp_path_factory.mktemp("orders")
    where = str(folder / "j.db")
    if request.param == "postgres":
        cluster: Cluster = request.getfixturevalue("postgres")
        where = cluster.of(folder)
    made_here = Place(where, folder)
    yield made_here
    for journal in made_here.opened:
        by_hand(journal.close())


def judge(cell: Given, replies: Sequence[Any], *, later: bool = False) -> None:
    """One of them was carried out; the others are told so."""
    fine = [reply for reply in replies if not is_refusal(reply)]
    assert fine, replies
    if cell.same and not (later and cell.later):
        assert all(reply == replies[0] for reply in replies), replies
    words = (cell.later,) if later and cell.later else cell.refused
    for reply in replies:
        text = text_of(reply)
        if is_refusal(reply):
            assert any(word in text for word in words), replies
        elif isinstance(reply, Said) and cell.told:
            assert any(word in text for word in cell.told.split("|")), reply


def outcome(order: Callable[[], Any]) -> Any:
    try:
        return order()
    except (ChartloopError, Refusal) as error:
        return error


AGAIN: tuple[CallerOf, ...] = ("again", "later")
GIVEN_AGAIN = [
    (row, door, caller)
    for caller in AGAIN
    for (row, door), cell in TABLE.items()
    if isinstance(cell, Given) and caller not in cell.skips
]


@pytest.mark.parametrize(
    ("row", "door", "caller"), GIVEN_AGAIN, ids=lambda name: name.replace(" ", "-")
)
def test_an_order_given_again(row: str, door: Door, caller: CallerOf, place: Place) -> None:
    cell = cell_of(row, door, caller)
    run_id = place.new()
    cell.prepare(place, run_id)
    replies = [given(cell, door, place, run_id, 0)]
    if caller == "later":
        cell.effect(place, run_id)
    replies.append(given(cell, door, place, run_id, 1))
    judge(cell, replies, later=caller == "later")
    assert cell.effect(place, run_id) == 1
    if cell.other is not None:
        another = partial(given, cell, door, place, run_id, 2, other=True)
        refusal = another()
        assert is_refusal(refusal)
        assert any(word in text_of(refusal) for word in OTHER), refusal
        assert cell.effect(place, run_id) == 1


def cell_of(row: str, door: Door, caller: CallerOf) -> Given:
    cell = TABLE[row, door]
    assert isinstance(cell, Given)
    if caller in cell.skips:
        pytest.skip(cell.skips[caller])
    return cell


def given(
    cell: Given, door: Door, place: Place, run_id: str, who: int, *, other: bool = False
) -> Any:
    """The reply that a caller gets for an order."""
    give = cell.other if other and cell.other is not None else cell.give
    if door == "cli":
        return place.cli(*give(place.hands[who], run_id))
    return outcome(lambda: give(place.hands[who], run_id))


IN_PROCESS = [(row, door) for row, door in TRIED if door != "cli"]
COMMANDS = [(row, door) for row, door in TRIED if door == "cli"]


@pytest.mark.parametrize(("row", "door"), IN_PROCESS, ids=lambda name: name.replace(" ", "-"))
def test_an_order_given_at_once(row: str, door: Door, place: Place) -> None:
    cell = cell_of(row, door, "at once")
    for _ in range(3):
        run_id = place.new()
        cell.prepare(place, run_id)
        replies = race(*(partial(cell.give, hand, run_id) for hand in place.hands))
        for reply in replies:
            if isinstance(reply, BaseException) and not isinstance(
                reply, (ChartloopError, Refusal)
            ):
                raise reply
        judge(cell, replies)
        assert cell.effect(place, run_id) == 1


@pytest.mark.parametrize(("row", "door"), IN_PROCESS, ids=lambda name: name.replace(" ", "-"))
def test_an_order_whose_caller_was_killed_is_given_again(
    row: str, door: Door, place: Place
) -> None:
    cell, writes = cell_of(row, door, "killed"), 0
    for write in count(1):
        died = False
        # dead before a write or after it; the run goes on before the order is repeated, or not
        for before, goes_on in product((True, False), (False, True)):
            run_id = place.new()
            cell.prepare(place, run_id)
            hand, journal = place.dying(write, before=before)
            with suppress(Crashed):
                outcome(lambda hand=hand, run_id=run_id: cell.give(hand, run_id))
            died |= journal.dead
            place.shift += AWAY
            if goes_on:
                with suppress(ChartloopError):
                    place.rest(run_id)
            for reply in [given(cell, door, place, run_id, who) for who in (1, 2)]:
                refused = (*cell.refused, cell.later) if cell.later else cell.refused
                assert not is_refusal(reply) or any(w in text_of(reply) for w in refused), reply
            assert cell.effect(place, run_id) == 1, (write, before, goes_on)
        if not died:
            break
        writes = write
    assert writes > 0


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize(("row", "door"), COMMANDS, ids=lambda name: name.replace(" ", "-"))
def test_a_command_given_at_once(row: str, door: Door, place: Place) -> None:
    cell = cell_of(row, door, "at once")
    run_id = place.new()
    cell.prepare(place, run_id)
    processes = [place.process(*cell.give(hand, run_id)) for hand in place.hands]
    replies = [said(process) for process in processes]
    judge(cell, replies)
    assert cell.effect(place, run_id) == 1


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize(("row", "door"), COMMANDS, ids=lambda name: name.replace(" ", "-"))
def test_a_command_that_was_killed_is_given_again(row: str, door: Door, place: Place) -> None:
    cell = cell_of(row, door, "killed")
    for write in count(1):
        run_id = place.new()
        cell.prepare(place, run_id)
        killed = said(place.process(*cell.give(place.hands[0], run_id), write=write)).code == 137
        again = place.cli(*cell.give(place.hands[1], run_id))  # who died on this machine is seen
        refused = (*cell.refused, cell.later) if cell.later else cell.refused
        assert not is_refusal(again) or any(word in text_of(again) for word in refused), again
        assert cell.effect(place, run_id) == 1, write
        if not killed:
            assert write > 1
            break


def said(process: subprocess.Popen[str]) -> Said:
    out, err = process.communicate(timeout=60)
    return Said(process.returncode, out, err)
