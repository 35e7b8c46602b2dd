"""What `chartloop runs` says of the runs that wait for workers, and of the fleet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from chartloop.cli import console
from chartloop.cli.late import at_first_use
from chartloop.cli.printing import Row
from chartloop.core.units import say_count, say_elapsed
from chartloop.ui.view_model.table import table_lines

with at_first_use(__name__):
    from chartloop.run import journal_records, schedule, sync
    from chartloop.ui.view_model import fleet_view

if TYPE_CHECKING:
    from chartloop.run.journal import Journal
    from chartloop.ui.view_model.fleet_view import FleetRows
    from chartloop.ui.view_model.run_view import Json

EVERY = 1.0
"""Seconds between two lines of `--watch`."""


def watch(journal: Journal, *, as_json: bool) -> None:
    """Print the depth of the queue, its rates and the workers, every second until Ctrl-C."""
    before: FleetRows | None = None
    painted = 0
    while True:
        found = sync.by_hand(fleet_view.read_fleet(journal))
        data = fleet_view.fleet_view(found) | _rates(found, before)
        if as_json:
            console.result(console.as_json(data, indent=None))
        else:
            lines = [_say(data), *data["troubles"], *fleet_view.say_parked(found.backlog)]
            if console.is_terminal(sys.stderr):
                lines[:1] = lines[0].split("; ", 1)  # for 80 columns
                lines += ["", *_table(data)] if data["workers"] else []
                lines = [line[: console.width() - 1] for line in lines]
                lines += [""] * (painted - len(lines))
                text = "\n".join(line.ljust(console.width() - 1) for line in lines)
                console.repaint(text, up=max(0, painted - 1))
                painted = len(lines)
            else:
                console.result("\n".join(lines))
        sys.stdout.flush()
        before = found
        time.sleep(EVERY)


def _rates(found: FleetRows, before: FleetRows | None) -> Json:
    """How many runs came and ended in a second since the moment before; None if not known."""
    came = done = None
    if before is not None:
        passed = max(found.now - before.now, 0.001)
        came = round(max(0.0, (found.backlog.placed - before.backlog.placed) / passed), 2)
        now, then = (
            (one.due, one.held, one.resting, len(one.parked))
            for one in (found.backlog, before.backlog)
        )
        if max(*now, *then) <= schedule.SOME:  # else there are more than were counted
            done = round(max(0.0, came - (sum(now) - sum(then)) / passed), 2)
    return {"submitted_per_second": came, "finished_per_second": done}


def _table(data: Json) -> Iterator[str]:
    """What each worker holds: how many runs, and the one that it has had longest."""
    rows = list[Row]()
    for one in data["workers"]:
        runs, left = one["runs"], one["lease_left_seconds"]
        oldest = runs[0]["run"] if runs else ""
        if runs and runs[0]["priority"] != journal_records.PRIORITY:
            oldest += f" (priority {runs[0]['priority']})"
        rows.append(
            Row((
                one["id"], one["program"], f"{one['holds']} of {one['room']}",
                say_elapsed(max(0.0, data["at"] - runs[0]["since"])) if runs else "",
                f"{left:.0f} s" if left > 0 else "lapsed", one["may_end"], oldest,
            ))
        )  # fmt: skip
    head = ("worker", "program", "holds", "longest", "lease left", "may end", "its oldest run")
    for line in table_lines(rows, head, width=console.width() - 1, right={2, 3, 4}, spare=(1, 6)):
        yield line.text


def _say(data: Json) -> str:
    oldest = data["oldest_due_seconds"]
    age = "" if oldest is None else f" (oldest {say_elapsed(oldest)})"
    rates = [
        f"; {data[f'{what}_per_second']:g}/s {what}"
        for what in ("submitted", "finished") if data[f"{what}_per_second"] is not None
    ]  # fmt: skip
    due, resting = (_say_some(data[name]) for name in ("due", "resting"))
    return (
        f"{due} due{age}, {data['held']:,} held, {resting} resting, {data['parked_runs']:,} parked"
        f"{''.join(rates)}; {say_count(len(data['workers']), 'worker')}"
    )


def _say_some(count: int) -> str:
    return f"{min(count, schedule.SOME):,}{'+' if count > schedule.SOME else ''}"
