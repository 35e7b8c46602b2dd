"""What `chartloop runs` says of the runs that wait for workers."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from chartloop.cli import console
from chartloop.cli.late import at_first_use
from chartloop.cli.printing import Row
from chartloop.core.units import say_count, say_elapsed
from chartloop.ui.view_model.table import table_lines

with at_first_use(__name__):
    from chartloop.run import journal_records, lease, schedule, sync

if TYPE_CHECKING:
    from chartloop.run.journal import Journal
    from chartloop.run.schedule import Backlog

EVERY = 1.0
"""Seconds between two lines of `--watch`."""


def troubles(backlog: Backlog) -> Iterator[str]:
    """What keeps due runs from being driven: no worker, what all workers lack, parked runs."""
    if backlog.due and not backlog.workers:
        runs = say_count(backlog.due, "run")
        yield f"{runs} due, and no worker is there: `chartloop worker` drives them"
    for needs, count in backlog.needs.items() if backlog.workers else ():
        whys = [worker.lacks.get(needs) for worker in backlog.workers]
        if all(whys):
            runs = say_count(count, "run")
            yield f"no worker can drive {runs}: {'; '.join(dict.fromkeys(w for w in whys if w))}"
    if resting := sum(not parked.lapses for parked in backlog.parked):
        runs = say_count(resting, "run")
        verb = "rests since it was" if resting == 1 else "rest since they were"
        yield f"{runs} {verb} imported: `chartloop journal import FILE --go-on` lets them go on"
    for parked in backlog.parked:
        if not parked.lapses:
            continue
        died = ", ".join(f"{lapse.worker} {lease.say_time(lapse.until)}" for lapse in parked.lapses)
        yield (
            f"run {parked.run_id} is parked: its workers died without a new record ({died}); "
            f"`chartloop resume {parked.run_id}` takes it up"
        )


def watch(journal: Journal, *, as_json: bool) -> None:
    """Print the depth of the queue, its rates and the workers, every second until Ctrl-C."""
    before: tuple[float, Backlog] | None = None
    painted = 0
    while True:
        now, backlog = sync.by_hand(journal.now()), sync.by_hand(journal.backlog())
        data = _figures(now, backlog, before)
        if as_json:
            console.result(console.as_json(data, indent=None))
        else:
            lines = [_say(data), *troubles(backlog)]
            if console.is_terminal(sys.stderr):
                lines[:1] = lines[0].split("; ", 1)  # for 80 columns
                lines += ["", *_table(data["workers"])] if data["workers"] else []
                lines = [line[: console.width() - 1] for line in lines]
                lines += [""] * (painted - len(lines))
                text = "\n".join(line.ljust(console.width() - 1) for line in lines)
                console.repaint(text, up=max(0, painted - 1))
                painted = len(lines)
            else:
                console.result("\n".join(lines))
        sys.stdout.flush()
        before = now, backlog
        time.sleep(EVERY)


def _open(backlog: Backlog) -> tuple[int, ...]:
    """The open requests, by what becomes of them next."""
    return backlog.due, backlog.held, backlog.resting, len(backlog.parked)


def _is_cut(backlog: Backlog) -> bool:
    """Whether there are more than were counted."""
    return max(backlog.due, backlog.resting) > schedule.SOME


def _figures(
    now: float, backlog: Backlog, before: tuple[float, Backlog] | None
) -> dict[str, Any]:  # fmt: skip
    """The figures of one moment; the rates are those since the moment before."""
    came = done = None
    if before is not None:
        at, last = before
        passed = max(now - at, 0.001)
        came = round(max(0.0, (backlog.placed - last.placed) / passed), 2)
        if not _is_cut(backlog) and not _is_cut(last):
            more = sum(_open(backlog)) - sum(_open(last))
            done = round(max(0.0, came - more / passed), 2)
    oldest = None if backlog.oldest is None else max(0.0, now - backlog.oldest)
    return {
        "due": backlog.due, "oldest_due_seconds": oldest, "held": backlog.held,
        "resting": backlog.resting, "parked": [one.run_id for one in backlog.parked],
        "submitted_per_second": came, "finished_per_second": done,
        "workers": [
            {
                "id": one.id, "program": one.face, "host": one.process.host,
                "pid": one.process.pid, "room": one.room,
                "lease_left_seconds": round(one.until - now, 1),
                "runs": [
                    {
                        "run": held.run_id, "since": held.since,
                        "seconds": round(max(0.0, now - held.since), 1), "priority": held.priority,
                    }
                    for held in backlog.holds if held.worker == one.id
                ],
            }
            for one in backlog.workers
        ],
    }  # fmt: skip


def _table(workers: list[dict[str, Any]]) -> Iterator[str]:
    """What each worker holds: how many runs, and the one that it has had longest."""
    rows = list[Row]()
    for one in workers:
        runs, left = one["runs"], one["lease_left_seconds"]
        oldest = runs[0]["run"] if runs else ""
        if runs and runs[0]["priority"] != journal_records.PRIORITY:
            oldest += f" (priority {runs[0]['priority']})"
        rows.append(
            Row((
                one["id"], one["program"], f"{len(runs)} of {one['room']}",
                say_elapsed(runs[0]["seconds"]) if runs else "",
                f"{left:.0f} s" if left > 0 else "lapsed", oldest,
            ))
        )  # fmt: skip
    head = ("worker", "program", "holds", "longest", "lease left", "its oldest run")
    for line in table_lines(rows, head, width=console.width() - 1, right={2, 3, 4}, spare=(1, 5)):
        yield line.text


def _say(data: dict[str, Any]) -> str:
    oldest = data["oldest_due_seconds"]
    age = "" if oldest is None else f" (oldest {say_elapsed(oldest)})"
    rates = [
        f"; {data[f'{what}_per_second']:g}/s {what}"
        for what in ("submitted", "finished") if data[f"{what}_per_second"] is not None
    ]  # fmt: skip
    due, resting = (_say_some(data[name]) for name in ("due", "resting"))
    return (
        f"{due} due{age}, {data['held']:,} held, {resting} resting, {len(data['parked'])} parked"
        f"{''.join(rates)}; {say_count(len(data['workers']), 'worker')}"
    )


def _say_some(count: int) -> str:
    return f"{min(count, schedule.SOME):,}{'+' if count > schedule.SOME else ''}"
