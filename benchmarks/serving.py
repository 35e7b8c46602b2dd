"""The server under load: streams, reads while many runs are driven, long lists, a long run.

    python benchmarks/serving.py                   # all rows, once: about three minutes
    python benchmarks/serving.py --only load,idle  # some of: load, idle, slow, mute, many, long
    python benchmarks/serving.py --write           # and the table of docs/server.md

The server, its watchers and whoever reads are three processes. Times are wall time, so that a
machine that does something else shows in them; the share of a core is processor time.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from serving_server import MACHINE, SlowModel, look_up
from tables import digits, put, table

from chartloop import load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.run.journal import Event, RunRow
from chartloop.run.sync import by_hand

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "server.md"
SIZES = ((50, 50, "of one each"), (200, 100, "of one each"), (50, 50, "of all"))
"""Runs, watchers, and what each of these watches: a run's page watches one, a list all."""
IDLE_FOR = 5.0
PAIRS = 5
RUNS = 100_000
STEPS = 5_000
HISTORY, NEW, LARGE = 240_000_000, 60_000_000, 150_000
"""Bytes of a journal, of what is written meanwhile, and of each text."""
MUTE = 200
OVER = 180.0
"""Seconds after which what is measured is given up."""


class Figure(NamedTuple):
    """A row of the table."""

    what: str
    value: str
    goal: str = ""


# processes --------------------------------------------------------------------------------------


class Program:
    """A program that answers lines with lines."""

    def __init__(self, name: str, *args: object) -> None:
        command = [sys.executable, str(HERE / name), *map(str, args)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def line(self) -> str:
        """Its next line."""
        assert self._process.stdout is not None
        found = self._process.stdout.readline().strip()
        if not found:
            raise SystemExit(f"{self._process.args} ended: {self._process.wait()}")
        return found

    def ask(self, text: str = "") -> str:
        """Send a line; gives the next."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()
        return self.line()

    def end(self) -> None:
        """Let it end."""
        if self._process.poll() is None:
            self._process.communicate(timeout=30)


@contextmanager
def program(name: str, *args: object) -> Iterator[Program]:
    """A program that ends with this."""
    started = Program(name, *args)
    try:
        yield started
    finally:
        started.end()


class Client:
    """One connection to the server."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of a request, which has to be a good one."""
        sent = None if body is None else json.dumps(body)
        head = {"Content-Type": "application/json"} if sent else {}
        self._connection.request(method, path, sent, head)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text)

    def get(self, path: str) -> Any:
        return self.ask("GET", path)


@contextmanager
def server(folder: Path, workers: int = 1) -> Iterator[tuple[Program, int]]:
    """A server on the journal of a folder, and its port."""
    with program("serving_server.py", folder, workers) as started:
        yield started, int(started.line())


def start_runs(port: int, count: int, task: str = "short") -> list[str]:
    """Start runs, eight at a time: `run-0` and so on, where they are many."""

    def start(number: int) -> str:
        named = {"run_id": f"run-{number}"} if count > 1 else {}
        body = {"machine": "loop", "task": f"look up {task}", **named}
        return Client(port).ask("POST", "/runs", body)["run"]

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(start, range(count)))


def ended(client: Client, runs: list[str]) -> dict[str, Any]:
    """Wait until these runs are over; gives their rows."""
    end, left = time.monotonic() + OVER, set(runs)
    rows: dict[str, Any] = {}
    while left and time.monotonic() < end:
        time.sleep(0.2)
        for row in client.get("/runs?status=completed&limit=500")["runs"]:
            rows[row["run"]] = row
        left = set(runs) - rows.keys()
    if left:
        raise SystemExit(f"{len(left)} runs did not end in {OVER:g} s")
    return {run: rows[run] for run in runs}


class Reader(threading.Thread):
    """Asks for the newest runs, again and again, and keeps how long each answer took."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._client, self._over = Client(port), threading.Event()
        self.took: list[float] = []

    def run(self) -> None:
        while not self._over.wait(0.02):
            before = time.perf_counter()
            self._client.get("/runs")
            self.took.append(1_000 * (time.perf_counter() - before))

    def end(self) -> None:
        """No more."""
        self._over.set()
        self.join()


def quantile(values: list[float], share: float) -> float:
    """The value below which that share of them is."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


# rows -------------------------------------------------------------------------------------------


def measure_load() -> Iterator[Figure]:
    """Many runs, many watchers of all of them."""
    for runs, watchers, what in SIZES:
        of = 0 if what == "of all" else runs
        with (
            tempfile.TemporaryDirectory() as folder,
            server(Path(folder)) as (served, port),
            program("serving_watchers.py", port, watchers, "hear", of) as watching,
        ):
            watching.line()
            reader, client = Reader(port), Client(port)
            used, began = float(served.ask()), time.perf_counter()
            reader.start()
            rows = ended(client, start_runs(port, runs))
            took = time.perf_counter() - began
            heads = {run: row["head"] for run, row in rows.items()}
            found = json.loads(watching.ask(json.dumps(heads)))
            reader.end()
            used = float(served.ask()) - used
        size = f"{runs} runs × {watchers} watchers {what}"
        times = f"{digits(found['p50'])} / {digits(found['p99'])} ms"
        reads = [quantile(reader.took, share) for share in (0.5, 0.99)]
        yield Figure(f"{size}: events delivered", f"{found['events']:,} in {digits(took)} s")
        yield Figure("events lost, out of order", f"{found['lost']}, {found['disordered']}", "0, 0")
        yield Figure("streams closed as too slow, and resumed", f"{found['resumed']}")
        yield Figure("from commit to watcher, median / p99", times)
        yield Figure(
            "`GET /runs` meanwhile, p50 / p99",
            f"{digits(reads[0])} / {digits(reads[1])} ms",
            "p99 < 200 ms",
        )
        yield Figure("processor time of the server", f"{digits(used)} s")


def measure_idle() -> Iterator[Figure]:
    """Watchers, and nothing to watch."""
    with (
        tempfile.TemporaryDirectory() as folder,
        server(Path(folder)) as (served, port),
        program("serving_watchers.py", port, 100, "hear", 0) as watching,
    ):
        watching.line()
        time.sleep(0.5)
        before = float(served.ask())
        time.sleep(IDLE_FOR)
        share = (float(served.ask()) - before) / IDLE_FOR
    yield Figure("100 watchers, nothing happens: share of a core", f"{100 * share:.2g} %", "< 5 %")


def measure_slow() -> Iterator[Figure]:
    """A run beside watchers that read nothing, and the same without them, in turn."""
    alone: list[float] = []
    beside: list[float] = []
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as (_, port):
        client = Client(port)

        def one() -> float:
            (row,) = ended(client, start_runs(port, 1, "long")).values()
            return row["updated"] - row["created"]

        one()
        for _ in range(PAIRS):
            alone.append(one())
            with program("serving_watchers.py", port, 100, "mute", 0) as watching:
                watching.line()
                beside.append(one())
    ratio = statistics.median(beside) / statistics.median(alone)
    yield Figure("a run of 42 steps", f"{digits(statistics.median(alone))} s")
    yield Figure("beside 100 watchers that read nothing", f"{digits(ratio)} ×", "≈ 1")


def measure_mute() -> Iterator[Figure]:
    """Streams that ask for a large journal from its first event, and read nothing."""
    with tempfile.TemporaryDirectory() as folder:
        first = fill_large(Path(folder), "old", HISTORY // LARGE)
        with server(Path(folder), workers=0) as (served, port):
            client = Client(port)
            with program("serving_watchers.py", port, 1, "mute", 0) as one:
                one.line()  # the first request of all builds the routes
            before = int(served.ask("memory").split()[0])
            took: list[float] = []

            def look(seconds: float) -> None:
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    took.append(timed(lambda: client.get("/healthz")))
                    time.sleep(0.02)

            with (
                program("serving_watchers.py", port, MUTE, "mute", first) as behind,
                ThreadPoolExecutor(1) as thread,
            ):
                opened = thread.submit(behind.line)
                look(5.0)
                opened.result()
                look(7.0)  # the first of them are closed
            with program("serving_watchers.py", port, MUTE, "mute", 0) as live:
                live.line()
                more = (Path(folder), "new", NEW // LARGE)
                writer = get_context("spawn").Process(target=fill_large, args=more)
                writer.start()  # in a process of its own: it would hold up who looks
                while writer.is_alive():
                    look(0.5)
                look(2.0)
            time.sleep(1.0)
            now, most = map(int, served.ask("memory").split())
    what = f"{MUTE} streams that read nothing, {HISTORY // 10**6} MB old and {NEW // 10**6} MB new"
    health = " / ".join(digits(quantile(took, share)) for share in (0.5, 0.99, 1.0))
    yield Figure(f"{what}: `/healthz`, p50 / p99 / worst", f"{health} ms", "≤ 200 ms")
    yield Figure("memory of the server: at most, and after they left",
                 f"+ {most - before} / + {now - before} MB", "+ 200 MB")  # fmt: skip


def fill_large(folder: Path, run_id: str, count: int) -> str:
    """Write a run with large texts; gives the id of its first event."""
    journal = SqliteJournal(folder / "journal.db")
    by_hand(journal.create(RunRow(run_id, status="running", created=time.time())))
    row, _ = by_hand(journal.acquire(run_id))
    begun = by_hand(journal.tail(limit=0)).newest
    for seq in range(count):
        data = {"key": f"k{seq}", "state": "think", "data": os.urandom(LARGE // 2).hex()}
        event = Event(seq, "result", time.time(), None, data)
        by_hand(journal.append(run_id, seq, row.epoch, [event]))
    first = by_hand(journal.tail(begun, 1)).cursor
    by_hand(journal.close())
    return first


def measure_many() -> Iterator[Figure]:
    """A journal with many runs."""
    from watching import fill  # noqa: PLC0415  only here

    with tempfile.TemporaryDirectory() as folder:
        journal = SqliteJournal(Path(folder) / "journal.db")
        fill(journal, RUNS)
        by_hand(journal.close())
        with server(Path(folder), workers=0) as (_, port):
            client = Client(port)
            asked = {
                "first page": "/runs?limit=50", "dearest": "/runs?limit=50&sort=cost",
                "a word of no task": "/runs?limit=50&search=zeppelin",
                "inbox": "/runs?waiting=true&limit=100",
            }  # fmt: skip
            for what, path in asked.items():
                took = [timed(lambda path=path: client.get(path)) for _ in range(101)][1:]
                value = f"{digits(statistics.median(took))} / {digits(quantile(took, 0.99))} ms"
                yield Figure(f"{what} of {RUNS:,} runs, p50 / p99", value, "< 50 ms")


def timed(work: Callable[[], Any]) -> float:
    """Milliseconds."""
    before = time.perf_counter()
    work()
    return 1_000 * (time.perf_counter() - before)


def measure_long() -> Iterator[Figure]:
    """The page of a long run in a browser, from the first request of a fresh server."""
    with tempfile.TemporaryDirectory() as folder:
        make_long(Path(folder))
        with server(Path(folder), workers=0) as (_, port):
            client = Client(port)
            first = timed(lambda: client.get("/runs/long"))
            again = statistics.median(timed(lambda: client.get("/runs/long")) for _ in range(20))
            said = f"/runs/long/conversation?before={STEPS // 2}.0"
            talk = [timed(lambda: client.get("/runs/long/conversation")) for _ in range(21)]
            older = statistics.median(timed(lambda: client.get(said)) for _ in range(20))
        with server(Path(folder), workers=0) as (_, port):
            page = load_page(f"http://127.0.0.1:{port}/runs/long")
    yield Figure(
        f"`GET` of a run of {STEPS:,} steps, first / again", f"{digits(first)} / {digits(again)} ms"
    )
    newest = f"{digits(talk[0])} / {digits(statistics.median(talk[1:]))} ms"
    yield Figure("a page of its conversation: the newest, first / again", newest)
    yield Figure("one from its middle", f"{digits(older)} ms")
    if page is None:
        yield Figure("its page in a browser", "not measured: `pip install playwright`")
        return
    yield Figure("its page in Chromium: the newest steps are there", f"{digits(page[0])} ms")
    yield Figure("the picture too, and the newest step in full", f"{digits(page[1])} ms", "< 1 s")
    yield Figure("a click on a step in its middle, until it is shown", f"{digits(page[2])} ms")


def make_long(folder: Path) -> None:
    """A run of many steps, driven here."""
    model = SlowModel(turns=STEPS // 2 - 1, pause=0.0)
    machine = load(MACHINE, tools=[look_up])
    journal = SqliteJournal(folder / "journal.db")
    run = machine.start("look up short", journal=journal, run_id="long", model=model)
    result = run.run()
    assert result.steps >= STEPS - 2, result
    by_hand(journal.close())


SHOWN = """() => {
  const lines = document.querySelectorAll(".steps li").length;
  const drawn = document.querySelector(".cl-picture svg") !== null;
  const full = document.querySelector(".step table") !== null;
  const now = performance.now();
  if (lines >= 50) window.linesAt ??= now;
  if (lines >= 50 && drawn && full) window.allAt ??= now;
  return window.allAt ? [window.linesAt, window.allAt] : null;
}"""
CHOSEN = """(seq) => {
  const about = document.querySelector(".step .cl-about");
  return about !== null && about.textContent.startsWith(`step ${seq}:`);
}"""


def load_page(link: str) -> tuple[float, float, float] | None:
    """Milliseconds from the navigation: to the list of steps, to everything; and of a click."""
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415  an extra
    except ImportError:
        return None
    with sync_playwright() as playwright:
        options: dict[str, Any] = {"args": ["--no-sandbox"]}
        for path in ("/usr/bin/chromium", "/usr/bin/chromium-browser"):
            if Path(path).exists():
                options["executable_path"] = path
        browser = playwright.chromium.launch(**options)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.goto("about:blank")
        page.goto(link)
        lines, whole = page.wait_for_function(SHOWN, polling="raf").json_value()
        middle = STEPS // 2
        before = time.perf_counter()
        page.goto(f"{link}?step={middle}")
        page.wait_for_function(CHOSEN, arg=middle, polling="raf")
        chosen = 1_000 * (time.perf_counter() - before)
        browser.close()
    return lines, whole, chosen


ROWS: dict[str, Callable[[], Iterator[Figure]]] = {
    "load": measure_load, "idle": measure_idle, "slow": measure_slow, "mute": measure_mute,
    "many": measure_many, "long": measure_long,
}  # fmt: skip


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default=",".join(ROWS), help="rows, divided by commas")
    parser.add_argument("--write", action="store_true", help="the table of docs/server.md")
    given = parser.parse_args()
    figures: list[Figure] = []
    for name in given.only.split(","):
        if name not in ROWS:
            parser.error(f"unknown row {name}: {', '.join(ROWS)}")
        for figure in ROWS[name]():
            print(f"{figure.what:60} {figure.value:30} {figure.goal}", flush=True)
            figures.append(figure)
    if given.write:
        rows = [[what, f"**{value}**", goal] for what, value, goal in figures]
        told = table(["what", "measured", "goal"], rows)
        put(PAGE, {"load": told}, by="benchmarks/serving.py")


if __name__ == "__main__":
    main()
