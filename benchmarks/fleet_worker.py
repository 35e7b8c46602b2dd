"""A worker in a process of its own, with a scripted model.

    python benchmarks/fleet_worker.py FOLDER JOURNAL TURNS PAUSE AT_ONCE

Prints a line when it is ready, begins with the first line of its standard input, and ends with it.
Then it prints the seconds of processor time that it has used.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from serving_server import MACHINE, SlowModel, look_up

from chartloop.adapters.journal.opening import journal_of
from chartloop.hosting.machines import Machines
from chartloop.hosting.runs import Runs
from chartloop.hosting.settings import Limits, Settings
from chartloop.hosting.workers import Workers


def runs_of(
    folder: Path, where: str, *, turns: int = 9, pause: float = 0, at_once: int = 20
) -> Runs:
    """The runs of a journal, of a machine with `2 * turns + 2` steps."""
    (folder / "loop.yaml").write_text(MACHINE)
    journal = journal_of(where)
    settings = Settings(
        machines=(folder,), journal=journal, tools=[look_up], serves=False,
        components={"model": SlowModel(turns, pause)}, limits=Limits(at_once=at_once),
    )  # fmt: skip
    return Runs(settings, journal, Machines(settings, journal))


def main(folder: str, where: str, turns: str, pause: str, at_once: str) -> None:
    """Work until the standard input ends."""
    runs = runs_of(Path(folder), where, turns=int(turns), pause=float(pause), at_once=int(at_once))
    workers = Workers(runs, lambda _, __: None)
    print("ready", flush=True)
    sys.stdin.readline()
    used = time.process_time()
    workers.start()
    sys.stdin.read()
    workers.stop()
    print(time.process_time() - used, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
