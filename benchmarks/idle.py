"""How soon a worker picks up a run, and what it costs while nothing is due.

    python benchmarks/idle.py [--runs 100] [--seconds 60] [--write]

For each kind of journal one worker in a process of its own, with a scripted model. Another process
submits runs, each once the worker has been idle for a while: from the moment at which a run is due,
as its row says, to its claim. Then nothing happens for so many seconds: the worker's processor
time. `--write` keeps the figures in `idle.json` and puts the table into docs/workers.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from fleet import Place, submit, working
from fleet_worker import runs_of
from tables import digits, put, table

from chartloop.run.sync import by_hand

HERE = Path(__file__).resolve().parent
FIGURES, PAGE = HERE / "idle.json", HERE.parent / "docs" / "workers.md"
TOOK = "SELECT since - at FROM request"
Figures = dict[str, float]


def measure(place: Place, count: int, seconds: float) -> dict[str, Figures]:
    """The figures of each kind of journal."""
    found: dict[str, Figures] = {}
    for kind, folder, where in place.journals():
        runs = runs_of(folder, where)
        with working(folder, where, 0, 0.0, 20, workers=1) as (worker,):
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
            for _ in range(count):
                time.sleep(random.uniform(0.2, 0.5))  # noqa: S311  not in step with its polls
                submit(runs, 1)
            while by_hand(runs.journal.backlog()).settled < count:
                time.sleep(0.05)
            if kind == "SQLite":
                rows: list[Any] = sqlite3.connect(where).execute(TOOK).fetchall()
            else:
                with psycopg.connect(place.cluster.url()) as database:
                    schema = where.rpartition("=")[2]
                    database.execute("SELECT set_config('search_path', %s, false)", (schema,))
                    rows = database.execute(TOOK).fetchall()
            took = sorted(1000 * one for (one,) in rows)
            before = cpu_of(worker.pid)
            time.sleep(seconds)
            used = cpu_of(worker.pid) - before
        found[kind] = {
            "p50": statistics.median(took), "p95": took[int(0.95 * len(took))],
            "idle": 100 * used / seconds,
        }  # fmt: skip
    return found


def cpu_of(pid: int) -> float:
    """Seconds of processor time of a process."""
    columns = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return sum(map(int, columns[11:13])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--write", action="store_true", help="put the table into docs/workers.md")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="idle-") as name:
        place = Place(Path(name))
        try:
            found = measure(place, given.runs, given.seconds)
        finally:
            place.cluster.end()
    rows = [
        (f"a due run is claimed after, p50 / p95 of {given.runs}",
         *(f"{digits(found[k]['p50'])} / {digits(found[k]['p95'])} ms" for k in found)),
        (f"processor time of an idle worker, over {given.seconds:g} s",
         *(f"{found[k]['idle']:.2g} % of a core" for k in found)),
    ]  # fmt: skip
    told = table(["", *found], rows)
    told += f"\n\n{os.cpu_count()} processors, load {load:.1f} before it."
    print(told)
    if given.write:
        kept = {"load": round(load, 1), "runs": given.runs, "seconds": given.seconds, **found}
        FIGURES.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        put(PAGE, {"idle": told}, by="benchmarks/idle.py")


if __name__ == "__main__":
    main()
