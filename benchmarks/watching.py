"""Watching a journal that holds many runs: pages, the inbox, the tail, and whether there is news.

    python benchmarks/watching.py [RUNS]        # 50,000 by default

Prints milliseconds of wall time, the median and the worst of many calls, of a journal in a file
that is in the disk cache. The goal is the first page and the inbox of 50,000 runs in 50 ms.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.run.journal import Event, RunRow, WholeRun
from chartloop.run.journal_pages import SORTS, RunFilter, RunOrder
from chartloop.run.journal_records import OpenQuestion
from chartloop.run.sync import by_hand

TIMES = 50
DAY = 86_400.0


def row(number: int) -> RunRow:
    """One in fifty waits, one in a hundred has failed, one in ten is a child."""
    run_id = f"run{number:06}"
    state: dict[str, Any] = {"status": "completed", "reason": "completed", "ending": "done"}
    if number % 100 == 7:
        state = {"status": "error", "reason": "error", "ending": "failed"}
    elif number % 50 == 3:
        fields = {"note": "str", "amount": "float"}
        asks = OpenQuestion(
            "12", f"Refund order {number}?", {"yes": fields, "no": {}}, run_id, "gate"
        )
        state = {"status": "paused", "question": asks}
    child = f"{run_id}/gate/1" if number % 10 == 9 else run_id
    return RunRow(
        child, f"machine{number % 20}", "f" * 64, state="gate", steps=12, tokens=12 * number,
        cost=number * 7_919 % 1_009 / 100, agent=f"agent{number % 7}",
        session=f"session{number % 5_000}", task=f"What became of order {number} of March?",
        created=DAY + number, updated=DAY + number + number * 31 % 977, **state,
    )  # fmt: skip


def fill(journal: SqliteJournal, runs: int) -> None:
    """Runs of four events each."""
    events = [Event(n, "intent", 1.0, None, {"key": str(n), "text": "x" * 200}) for n in range(4)]
    for first in range(0, runs, 1_000):
        whole = [WholeRun(row(n), events) for n in range(first, min(first + 1_000, runs))]
        by_hand(journal.create_whole(whole))


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """The median and the worst, in milliseconds."""
    took: list[float] = []
    for _ in range(TIMES):
        before = time.perf_counter()
        work()
        took.append((time.perf_counter() - before) * 1_000)
    return statistics.median(took), max(took)


def main(runs: int) -> None:
    """Make the journal, ask it, print."""
    with tempfile.TemporaryDirectory() as folder:
        journal = SqliteJournal(Path(folder) / "journal.db")
        fill(journal, runs)
        page = lambda cursor="", **wanted: by_hand(journal.page(RunFilter(**wanted), cursor))  # noqa: E731
        sorted_by = lambda order, **wanted: by_hand(  # noqa: E731
            journal.page(RunFilter(**wanted), order=order)
        )
        deep, middle = "", by_hand(journal.tail("", 2 * runs)).cursor
        for _ in range(20):
            deep = by_hand(journal.page(RunFilter(), deep, max(1, runs // 40))).next
        token = by_hand(journal.changed())
        end, half = DAY + runs, DAY + runs / 2
        asked: dict[str, Callable[[], Any]] = {
            "first page": page,
            "page in the middle": lambda: page(deep),
            "inbox": lambda: page(waiting=True),
            "inbox of one machine": lambda: page(waiting=True, machine="machine3"),
            "inbox of an agent that never asks": lambda: page(waiting=True, agent="none"),
            "one machine": lambda: page(machine="machine7"),
            "a machine that there is not": lambda: page(machine="none"),
            "a rare status": lambda: page(status="error"),
            "a status that there is not": lambda: page(status="debugging"),
            "a rare reason": lambda: page(reason="error"),
            "one session": lambda: page(session="session77"),
            "begun in one hour": lambda: page(created_from=half, created_to=half + 3600),
            "active in the last hour": lambda: page(updated_from=end - 3600),
            "nothing fits, all are looked at": lambda: page(updated_from=2 * end),
            "those that failed": lambda: page(ending="failed"),
            "a word of one task": lambda: page(search=f"order {runs // 2} "),
            "a word of no task": lambda: page(search="zebra"),
            **{f"sorted by {by}": partial(sorted_by, RunOrder(by)) for by in SORTS},
            "the least cost first": lambda: sorted_by(RunOrder("cost", True)),
            "one machine, by cost": lambda: sorted_by(RunOrder("cost"), machine="machine7"),
            "those that failed, by duration": lambda: sorted_by(
                RunOrder("duration"), ending="failed"
            ),
            "by cost, of the last hour": lambda: sorted_by(
                RunOrder("cost"), created_from=end - 3600
            ),
            "counts by hour, the last day": lambda: by_hand(
                journal.tally(RunFilter(created_from=end - DAY), 3600.0)
            ),
            "256 events of the tail": lambda: by_hand(journal.tail(middle)),
            "no news": lambda: by_hand(journal.changed(token)),
        }
        print(f"{runs:,} runs{'':31}median ms   worst ms")
        for what, work in asked.items():
            median, worst = timed(work)
            print(f"{what:40}{median:11.3f}{worst:11.3f}")
        by_hand(journal.close())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
