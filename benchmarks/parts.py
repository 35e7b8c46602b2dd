"""What is measured of chartloop alone. Each workload gives a mapping of figures.

CPU times are of this process, in microseconds unless the name says otherwise; wall times say so.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chartloop import catalog, live, sweep, upgrade, whatif
from chartloop.actions import builtin
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.analysis.proofs.bound import bound
from chartloop.api import examine, lifecycle, load
from chartloop.core.outcome import Outcome, Reply, Spent
from chartloop.core.records import Input, Record
from chartloop.language.load import load as load_text
from chartloop.machine.build import Chart
from chartloop.pictures.live.bundle import live_bundle
from chartloop.run.journal import Event, MemoryJournal, RunRow, Update
from chartloop.run.loop import advance
from chartloop.run.ports import ModelReply
from chartloop.run.sync import by_hand
from chartloop.studies.coverage.collect import Seeing
from machines import (
    STEPS,
    TALK,
    complete,
    decisions,
    dense,
    detours,
    forks,
    hard,
    machine,
    many_states,
    ruled,
)

Figures = dict[str, float]


def cpu(work: Callable[[], Any], times: int = 1) -> float:
    """CPU microseconds of one of `times` equal pieces of work."""
    before = time.process_time()
    work()
    return (time.process_time() - before) / times * 1e6


def step(count: int = 5_000) -> Figures:
    """One step in memory with six rules; and how the last steps compare with the first."""
    run = machine(STEPS).start("x", vars={"last": count + 1_000})
    session = run.session

    async def go(steps: int) -> None:
        for _ in range(steps):
            await advance(session)

    by_hand(go(200))
    parts = [cpu(lambda: by_hand(go(500)), 500) for _ in range(count // 500)]
    return {
        "step": statistics.median(parts),
        "growth": statistics.median(parts[-3:]) / statistics.median(parts[:3]),
    }


def plausible(seq: int) -> Record:
    """A record as a model call with 200 characters of text leaves it."""
    text = "x" * 200
    reply = Reply(text, model="m")
    outcome = Outcome(
        result=reply.result, reply=reply, messages=(reply.message,),
        spent=Spent(1, 400, 50, 0.0012), context_tokens=450,
    )  # fmt: skip
    at = 1_700_000_000.25 + seq
    given = Input("step", outcome=outcome, started=at - 1, at=at)
    return Record(seq, "think", given, ("think.next.1",), next="think", status="running")


def covering(count: int = 5_000) -> Figures:
    """Counting one record into a coverage; and what one costs in a run ten times as long."""
    run = machine(STEPS).start("x", vars={"last": count + 10})
    for _ in range(count):
        by_hand(advance(run.session))
    records, chart = run.records, run.machine.chart

    def counted(records: list[Record]) -> float:
        seeing = Seeing(chart)
        return cpu(lambda: seeing.add("x", records), len(records))

    short = statistics.median(counted(records[: count // 10]) for _ in range(10))
    return {"count": counted(records), "growth": counted(records) / short}


def append(count: int = 2_000) -> Figures:
    """One append to SQLite, as the loop does it, and what it takes on the disk."""
    row = RunRow("r", "m", "h", created=1.0, updated=1.0)
    records = [plausible(n) for n in range(count)]

    async def write(journal: SqliteJournal) -> None:
        await journal.create(row)
        epoch = (await journal.acquire("r"))[0].epoch
        update = Update("running", "think", "", 1)
        for n, record in enumerate(records):
            event = Event(n, "record", record.input.at, record)
            await journal.append("r", n, epoch, (event,), update=update)

    with tempfile.TemporaryDirectory() as folder:
        by_process = SqliteJournal(Path(folder) / "process.db")
        through_power = SqliteJournal(Path(folder) / "power.db", durability="power")
        normal = cpu(lambda: by_hand(write(by_process)), count)
        full = cpu(lambda: by_hand(write(through_power)), count)
        by_hand(by_process.close())
        by_hand(through_power.close())
        size = sum(p.stat().st_size for p in Path(folder).iterdir())
    return {"append NORMAL": normal, "append FULL": full, "bytes per step": size / count / 2}


class Slow:
    """A model that takes 50 ms of somebody else's time."""

    suspends = True

    def prepare(self, settings: Any) -> None:
        """Nothing is missing."""

    def context_window(self, settings: Any) -> int | None:
        """Not known."""
        return None

    async def complete(self, request: Any, on_text: Any = None) -> ModelReply:
        """An answer of 200 characters."""
        await asyncio.sleep(0.05)
        return ModelReply("x" * 200, prompt_tokens=100, completion_tokens=50)


def agents(count: int = 1_000, turns: int = 10, *, durable: bool) -> Figures:
    """So many agents at once, each of so many model calls of 50 ms, no tools. Wall seconds."""
    made = machine(TALK)

    async def all_of_them(journal: Any) -> None:
        await asyncio.gather(
            *(
                made.arun("x", model=Slow(), journal=journal, vars={"turns": turns})
                for _ in range(count)
            )
        )

    with tempfile.TemporaryDirectory() as folder:
        journal: Any = MemoryJournal()
        if durable:
            journal = SqliteJournal(Path(folder) / "journal.db")
        before = time.perf_counter()
        asyncio.run(all_of_them(journal))
        wall = time.perf_counter() - before
        by_hand(journal.close())
    return {"durable" if durable else "memory": wall}


def weight(count: int = 500) -> Figures:
    """What a waiting agent holds in memory, in kB."""
    made = machine(TALK)
    model = Slow()

    async def hold() -> float:
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        runs = [made.start("x", model=model) for _ in range(count)]
        for run in runs:
            await run.aadvance()
            await run.aadvance()
        after = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return (after - before) / count / 1000

    return {"kB per agent": asyncio.run(hold())}


def opening(count: int = 5_000) -> Figures:
    """Opening a run of `count` steps, milliseconds of CPU."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        made, text = machine(TALK), "x" * 200
        script = [{"text": text, "usage": {"prompt_tokens": 9, "completion_tokens": 9}}] * count
        run = made.start(
            "x", script=script, journal=SqliteJournal(path), vars={"turns": count}, run_id="long"
        )
        run.run()
        by_hand(run.session.journal.close())

        def open_it(snapshot: bool) -> None:
            journal = SqliteJournal(path)
            session = made.start("x", script=[], journal=journal, run_id="long").session
            by_hand(session.open(snapshot=snapshot))
            assert session.tally.records == count + 2
            by_hand(journal.close())

        without = statistics.median(cpu(lambda: open_it(False)) for _ in range(3)) / 1000
        journal = SqliteJournal(path)
        session = made.start("x", script=[], journal=journal, run_id="long").session
        by_hand(session.open(snapshot=False))
        by_hand(session.put_snapshot())
        by_hand(journal.close())
        with_one = statistics.median(cpu(lambda: open_it(True)) for _ in range(3)) / 1000
    return {"open, ms": without, "open with snapshot, ms": with_one}


def loading() -> Figures:
    """A file of 45 states: loaded and built, and loaded with all checks. Milliseconds of CPU."""
    text = many_states()

    def build() -> None:
        loaded = load_text(text, "many.yaml", builtin())
        assert loaded.spec is not None
        Chart(loaded.spec, lifecycle())

    build()
    machine(text)
    return {
        "load and build, ms": statistics.median(cpu(build) for _ in range(9)) / 1000,
        "with checks, ms": statistics.median(cpu(lambda: machine(text)) for _ in range(9)) / 1000,
    }


def checking() -> Figures:
    """`chartloop check`: usual and hard files, of CPU seconds."""
    usual, texts = many_states(), (hard(), decisions(), forks(), detours(), complete())
    examine(usual)
    spent = [cpu(lambda text=text: examine(text)) / 1e6 for text in texts]
    return {
        "check, ms": statistics.median(cpu(lambda: examine(usual)) / 1000 for _ in range(9)),
        "hard, s": spent[0],
        "decisions, s": spent[1],
        "forks, s": spent[2],
        "detours, s": spent[3],
        "complete, s": spent[4],
        "memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }


def proving() -> Figures:
    """The moderator, checked and proven; and a thousand states with dense loops. CPU time."""
    text = catalog.read_text(catalog.shipped_machines()["moderator"])
    hard = load_text(dense(1_000, 5_000), "dense.yaml", builtin()).spec
    assert hard is not None
    charted, known = Chart(hard, lifecycle()), machine(text)
    machine(text).bound()
    questions, asked = machine(ruled()).questions(), ("avoid done", "never done before think")
    return {
        "bound, ms": statistics.median(cpu(lambda: bound(known.chart)) for _ in range(9)) / 1000,
        "check and bound, ms": (
            statistics.median(cpu(lambda: machine(text).bound()) for _ in range(9)) / 1000
        ),
        "dense, s": cpu(lambda: bound(charted, brief=True)) / 1e6,
        "two queries of 500 rules, s": cpu(lambda: [questions.ask(q) for q in asked]) / 1e6,
    }


def upgrading(count: int = 1_000, steps: int = 100) -> Figures:
    """So many runs of so many steps in a SQLite file, judged under changed files. CPU seconds.

    The first file has another name for a state, the second another limit.
    """
    made, text = machine(TALK), "x" * 200
    reply = {"text": text, "usage": {"prompt_tokens": 9, "completion_tokens": 9}}
    turns = steps - 1  # the first step receives the task
    renamed = machine(TALK.replace("think", "ponder"))
    looser = machine(TALK.replace("steps: 1_000_000", "steps: 2_000_000"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        journal = SqliteJournal(path)
        for _ in range(count):
            made.run("x", script=[reply] * turns, journal=journal, vars={"turns": turns})
        by_hand(journal.close())
        spent = [cpu(lambda to=to: upgrade(to, made, path)) / 1e6 for to in (renamed, looser)]
        kinds = {upgrade(to, made, path).verdicts[0].kind for to in (renamed, looser)}
        assert kinds == {"map", "safe"}
    return {"renamed, s": spent[0], "looser, s": spent[1]}


def whatif_runs(count: int = 1_000, steps: int = 100) -> Figures:
    """So many runs of so many steps in a SQLite file, decided again. CPU seconds of one core.

    The first limit stops no run, so that each is decided to its end; the second stops each in the
    middle, so that each is also folded once more as it was.
    """
    made, text = machine(TALK), "x" * 200
    reply = {"text": text, "usage": {"prompt_tokens": 9, "completion_tokens": 9}}
    turns = steps - 1  # the first step receives the task
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        journal = SqliteJournal(path)
        for _ in range(count):
            made.run("x", script=[reply] * turns, journal=journal, vars={"turns": turns})
        by_hand(journal.close())
        same = [cpu(lambda: whatif(made, path, limits={"steps": 10 * steps})) for _ in range(2)]
        half = [cpu(lambda: whatif(made, path, limits={"steps": steps // 2})) for _ in range(2)]
        swept = cpu(lambda: sweep(made, path, "steps", range(10, steps + 1, 10)))
    return {
        "the same, s": statistics.median(same) / 1e6,
        "stopped in the middle, s": statistics.median(half) / 1e6,
        "ten limits, s": swept / 1e6,
    }


def starting() -> Figures:
    """Whole processes: `import chartloop` and `chartloop --help`, over a bare one; and a run.

    Milliseconds, with modules that are compiled, as an installation has them.
    """

    def wall(*args: str) -> float:
        times: list[float] = []
        for _ in range(7):
            before = time.perf_counter()
            subprocess.run([sys.executable, *args], check=True, capture_output=True, env=compiled)
            times.append(time.perf_counter() - before)
        return statistics.median(times) * 1000

    with tempfile.TemporaryDirectory() as cache:
        compiled = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        compiled.pop("PYTHONDONTWRITEBYTECODE", None)
        first_record(compiled)
        bare = wall("-c", "pass")
        return {
            "import, ms": wall("-c", "import chartloop") - bare,
            "--help, ms": wall("-m", "chartloop", "--help") - bare,
            "first record, ms": statistics.median(first_record(compiled) for _ in range(7)) * 1000,
        }


def first_record(variables: dict[str, str]) -> float:
    """Seconds from the start of `chartloop run` until it says its first record."""
    command = [sys.executable, "-m", "chartloop", "run", "machine.yaml", "x", "-v"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "machine.yaml").write_text(TALK, "utf-8")
        (folder / "script.yaml").write_text(f"- {'x' * 200}\n" * 10, "utf-8")
        command += ["--script", "script.yaml", "--journal", "journal.db"]
        before = time.perf_counter()
        with subprocess.Popen(
            command, cwd=folder, env=variables, text=True,
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        ) as running:  # fmt: skip
            assert running.stderr is not None
            line = running.stderr.readline()
            found = time.perf_counter() - before
            running.communicate()
        assert running.returncode == 0, line
    return found


def painting(count: int = 200) -> Figures:
    """The picture of document 003's machine, painted anew after each step. Milliseconds of CPU.

    The layout is Graphviz's, in a process of its own: wall time. "Show" is all that a front end is
    sent: the image and the text form.
    """
    tasks = [f"task {n}" for n in range(count)]
    run = load("moderator").start(tasks=tasks, script=["Done."] * count)
    before = time.perf_counter()
    picture = live(run)
    picture.svg()
    layout = time.perf_counter() - before
    run.advance()
    standing = live.standing
    repaint = cpu(lambda: [live.picture.svg(standing) for _ in range(count)], count)

    def step_and_show() -> None:
        assert run.advance() is not None
        live_bundle(picture.picture, picture.standing)

    shown = statistics.median(cpu(step_and_show) for _ in range(count))
    return {
        "repaint, ms": repaint / 1000,
        "step and show, ms": shown / 1000,
        "layout, ms": layout * 1000,
    }


WORKLOADS: dict[str, Callable[[], Figures]] = {
    "step": step,
    "append": append,
    "covering": covering,
    "agents in memory": lambda: agents(durable=False),
    "agents durable": lambda: agents(durable=True),
    "weight": weight,
    "opening": opening,
    "loading": loading,
    "checking": checking,
    "proving": proving,
    "starting": starting,
    "what if": whatif_runs,
    "upgrading": upgrading,
    "painting": painting,
}


def main() -> None:
    """Run one workload in this process and print its figures."""
    print(json.dumps(WORKLOADS[sys.argv[1]]()))


if __name__ == "__main__":
    main()
