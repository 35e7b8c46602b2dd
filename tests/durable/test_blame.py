"""Which run is to blame when a process ends: each way to end × each kind of worker.

A run ends its process again and again; three others are beside it. Each lets its worker be started
again as systemd would. What is right is the same in every cell:

| | the run that ends its process | the runs beside it |
|---|---|---|
| after the first end | driven alone | driven alone, once each; then beside others again |
| at last | parked, after `LAPSES` processes of its own | done |
| a call is made | once in each of these processes | at most once more, and that is reported |

A program that has no command ends with the run each time, since it drives it itself; then nothing
else is in it.

Not here: a program that ends by a signal of another, which it cannot tell from these. A process that the kernel kills for its memory gets SIGKILL, as `is-killed`; a machine that
is away leaves what `stops` leaves, a lease that lapses.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from chartloop.run.schedule import LAPSES
from chartloop.run.sync import by_hand
from tests.cli.shell import PROGRAM
from tests.cli.working import Place, until
from tests.durable.pairs import DBOS, POSTGRES, SQLITE, WITH_DBOS, place_of
from tests.postgres import NEEDED, Cluster

pytestmark = [*NEEDED, pytest.mark.slow("ends processes")]
HOST = """\
import sys, time
from pathlib import Path
from chartloop.adapters.journal.opening import journal_of
from chartloop.hosting.machines import Machines
from chartloop.hosting.runs import Runs
from chartloop.hosting.settings import Settings
from chartloop.hosting.workers import Workers
sys.path.insert(0, ".")
from pay import pay

journal = journal_of(sys.argv[1])
settings = Settings(machines=(Path("."),), journal=journal, tools=[pay], workers=2)
workers = Workers(Runs(settings, journal, Machines(settings, journal)), lambda _, __: None)
workers.start()
while True:
    time.sleep(1)
"""
"""A program whose tools are its own functions, with two threads that drive runs."""
VICTIM = [sys.executable, str(Path(__file__).with_name("victim.py"))]
KINDS = {
    "worker": [*PROGRAM, "worker", "--tools", "pay.py"],
    "serve": [*PROGRAM, "serve", "--machines", ".", "--tools", "pay.py", "--port", "0"],
    "mcp": [*PROGRAM, "mcp", "--machines", ".", "--tools", "pay.py"],
    "program": [sys.executable, "host.py"],
    "short-leases": [*VICTIM, "worker", "--tools", "pay.py"],
}
SERVER = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610  no Django
MCP = pytest.mark.extra("mcp", install='pip install -e ".[mcp]"')  # noqa: S610  no Django
WAYS = ("exits", "aborts", "is-killed", "is-killed-with-its-group", "reads-null")
CELLS = [
    *(pytest.param(SQLITE, "worker", way, id=f"{way}-worker") for way in WAYS),
    *(pytest.param(SQLITE, "program", way, id=f"{way}-program") for way in WAYS[:2]),
    pytest.param(SQLITE, "serve", "exits", id="exits-serve", marks=SERVER),
    pytest.param(SQLITE, "mcp", "exits", id="exits-mcp", marks=MCP),
    pytest.param(SQLITE, "short-leases", "stops", id="stops-worker"),
    *(
        pytest.param(pair, "worker", way, id=f"{way}-{pair}", marks=marks)
        for pair, marks in ((POSTGRES, ()), (DBOS, WITH_DBOS.marks))
        for way in ("exits", "is-killed")
    ),
]  # fmt: skip


class Scene(Place):
    """A run that ends its process, three beside it, and who drives them."""

    def __init__(self, folder: Path, where: str, way: str) -> None:
        super().__init__(folder, where)
        (folder / "host.py").write_text(HOST)
        self.submit("--var", f"rest={way}", "--run-id", "guilty")
        self.beside = [self.submit("--var", "rest=0.5", "--key", str(n))[0] for n in range(3)]

    @contextmanager
    def host(self, kind: str, *more: str, **environment: str) -> Generator[subprocess.Popen[bytes]]:
        """A process that drives the runs, at the head of a group of its own."""
        with (self.folder / "said").open("ab") as said:
            where = [self.where] if kind == "program" else ["--journal", self.where]
            process = subprocess.Popen(
                [*KINDS[kind], *where, *more], cwd=self.folder, stdin=subprocess.PIPE, stderr=said,
                stdout=said, env={**os.environ, **environment}, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            if not has_ended(process):
                process.terminate()  # it ends its own processes too
                process.wait(60)
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()

    def parked(self) -> list[str]:
        """The runs that are parked."""
        with self.journal() as journal:
            return [one.run_id for one in by_hand(journal.backlog()).parked]

    def over(self) -> bool:
        """Whether nothing more happens by itself."""
        rows = {row.run_id: row for row in self.rows()}
        return self.parked() != [] and all(rows[run].ended for run in self.beside)

    def asked(self, run: str) -> Counter[str]:
        """How often each call of a run was made."""
        words = self.effects()
        return Counter(key for word, key, _ in words if word == "asked" and key.startswith(run))


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended, or stopped for good."""
    if process.poll() is not None:
        return True
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize(("pair", "kind", "way"), CELLS)
def test_the_run_that_ends_its_process_is_parked_and_no_other(
    pair: str, kind: str, way: str, postgres: Cluster, tmp_path: Path
) -> None:
    scene, deaths = Scene(tmp_path, place_of(pair, postgres, tmp_path), way), 0
    of_its_own = 0 if kind == "program" else LAPSES
    with ExitStack() as hosts:
        while not scene.over():
            assert deaths <= 1 + LAPSES - of_its_own, (tmp_path / "said").read_text()
            process = hosts.enter_context(scene.host(kind, VICTIM_TTL="3"))
            until(lambda process=process: has_ended(process) or scene.over(), pause=0.2)
            deaths += has_ended(process)
    assert scene.parked() == ["guilty"]
    assert scene.asked("guilty").total() == LAPSES + 1
    assert deaths == 1 + LAPSES - of_its_own
    check_beside(scene)


def check_beside(scene: Scene) -> None:
    """The runs beside are done. Each made one call once more at most, which is reported."""
    rows, doubts = {row.run_id: row for row in scene.rows()}, scene.doubts()
    for run in scene.beside:
        assert (rows[run].status, rows[run].steps) == ("completed", 5)
        again = {key: count - 1 for key, count in scene.asked(run).items() if count > 1}
        assert sum(again.values()) <= 1
        assert all(doubts[key] >= count for key, count in again.items())


@pytest.mark.parametrize("alone", [False, True])
def test_a_run_that_does_not_stop_is_handed_back_and_not_to_blame(
    alone: bool, tmp_path: Path
) -> None:
    """SIGTERM, again and again, to a worker whose action blocks all of its runs."""
    scene = Scene(tmp_path, "", "blocks")
    if alone:
        with scene.host("worker") as process:
            until(lambda: scene.asked("guilty").total() == 1)
            process.kill()
    for number in range(alone, LAPSES + 2 if alone else 2):
        with scene.host("worker", "--grace", "0.1") as process:
            until(lambda number=number: scene.asked("guilty").total() == number + 1)
            process.terminate()
            assert process.wait(60) == 0
        with scene.journal() as journal:
            backlog = by_hand(journal.backlog())
            (mine,) = by_hand(journal.requests("guilty", open_only=True))
            claimed = by_hand(journal.claim("w", 9, {mine.needs: True}, alone=alone))
            assert (backlog.held, backlog.parked, backlog.workers) == (0, [], [])
            assert "guilty" in [one.request.run_id for one in claimed.runs]
            for one in claimed.runs:
                by_hand(journal.hand_back("w", one, 0.0))


def test_ordinary_kills_park_nobody(tmp_path: Path) -> None:
    """A worker is killed more often than it takes to be parked, each time with runs in flight."""
    scene = Scene(tmp_path, "", "0.5")
    for number in range(LAPSES + 2):
        with scene.host("worker") as process:
            before = len(scene.effects())
            until(lambda before=before: len(scene.effects()) > before + 1 or scene.over())
            process.kill()
        assert scene.parked() == [], number
    with scene.host("worker", "--until-idle") as process:
        assert process.wait(120) == 0
    assert {row.status for row in scene.rows()} == {"completed"}
