"""`worker --until-idle`: what counts as work, what is waited for, and what is named at its end.

The table is what is left in a journal, for each pair of a journal and who delivers its runs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop.hosting import idle
from chartloop.run.fleet import FleetLimit, Per, What
from chartloop.run.fleet_calls import forget_limits
from chartloop.run.lease import Driver
from chartloop.run.processes import Process
from chartloop.run.sync import by_hand
from tests.cli.shell import Done, call
from tests.cli.working import Place
from tests.durable.pairs import POSTGRES, SQLITE, WITH_DBOS, place_of
from tests.postgres import NEEDED, Cluster

pytestmark = [pytest.mark.slow("workers that wait"), *NEEDED]

REPLIES = "- {text: x, usage: {prompt_tokens: 10, completion_tokens: 10}}\n"
FAR = Process("another-host", 1, "x", "y")
MODEL = "model: {name: m, max_tokens: 100}\n"


class Case(NamedTuple):
    """What is left for a worker, and how it ends."""

    states: str
    """Those of the machine, before `done`."""
    schedule: tuple[str, ...] = ()
    """The line after `schedule add s w.yaml t`; empty for a run that is submitted."""
    limit: tuple[What, Per, float] | None = None
    runs: int = 1
    code: int = 0
    says: str = ""
    ended: bool = True
    """Whether every run has ended."""


CASES = {
    "nothing": Case("", runs=0),
    "a-due-tick": Case("a: {do: nothing, next: done}", ("--every", "1h")),
    "a-wait-of-seconds": Case(
        "a: {on: {go: done}, within: 2s, expired: late}, late: {stop: user_unresponsive}"
    ),
    "a-back-off-of-seconds": Case(
        "a: {do: fails, retry: {times: 1, base: 2s, factor: 1, on: [TRANSIENT]}, failed: done,"
        " next: done}",
    ),
    "a-limit-for-seconds": Case(
        "a: {do: infer, next: done}", limit=("requests", "minute", 30.0), runs=3
    ),
    "a-question": Case('a: {ask: "Go?", on: {yes: done}}', ended=False),
    "a-question-with-a-day": Case(
        'a: {ask: "Go?", within: 1d, expired: late, on: {yes: done}}, late: {stop: user_unresponsive}',
        ended=False,
    ),
    "a-back-off-of-an-hour": Case(
        "a: {do: fails, retry: {times: 1, base: 1h, factor: 1, on: [TRANSIENT]}, failed: done,"
        " next: done}", code=3, says="1 run rests for another attempt, until", ended=False,
    ),
    "a-limit-for-hours": Case(
        "a: {do: infer, next: b}, b: {do: infer, next: done}", limit=("tokens", "minute", 0.1),
        code=3, says="1 run rests for the limit `fleet: tokens per minute`, until", ended=False,
    ),
    "a-tick-that-cannot-be-taken": Case(
        "a: {do: nothing, next: done}", ("--every", "1h", "--tools", "tools.py"), runs=0, code=3,
        says="a tick of schedule s is due, and could not be taken here: ",
    ),
}  # fmt: skip
FAILS = """
from chartloop import Context, action
from chartloop.core.errors import Category, ToolError

@action
async def fails(ctx: Context) -> dict[str, str]:
    "Fails."
    raise ToolError("busy", category=Category.TRANSIENT)
"""


def machine(case: Case) -> str:
    """The file of a case."""
    model = MODEL if "infer" in case.states else ""
    more = f"{case.states}, " if case.states else "a: {do: nothing, next: done}, "
    return f"chartloop: 1\nmachine: w\n{model}states: {{{more}done: {{stop: completed}}}}\n"


def left(place: Place, case: Case) -> Done:
    """Leave what the case says in the journal, and call a worker that ends when it is idle."""
    folder, journal = place.folder, ("--journal", place.where)
    (folder / "w.yaml").write_text(machine(case))
    (folder / "tools.py").write_text(FAILS)
    (folder / "r.yaml").write_text(REPLIES)
    tools = ("--tools", "tools.py") if "fails" in case.states else ()
    if case.limit:
        what, per, most = case.limit
        with place.journal() as opened:
            by_hand(opened.set_limit(FleetLimit("fleet", what, per, most)))
        forget_limits()
    if case.schedule:
        place.call("schedule", "add", "s", "w.yaml", "t", *case.schedule)
        with place.journal() as opened:
            (schedule,) = by_hand(opened.cron_schedules())
            after = schedule.replace(created=schedule.created - 3600, next=schedule.created)
            if "tools.py" in case.schedule:
                after = after.replace(plugins={"no-plugin": "1"})
            assert by_hand(opened.put_cron(schedule, after))
    else:
        for _ in range(case.runs):
            place.call("submit", "w.yaml", "t", *tools, "--run-id", f"r{_}")
    script = ("--script", "r.yaml") if "infer" in case.states else ()
    return call("worker", "--until-idle", *tools, *script, *journal, cwd=folder)


PAIRS = [SQLITE, POSTGRES, WITH_DBOS]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", CASES)
def test_a_worker_ends_when_nothing_near_is_left(
    name: str, pair: str, tmp_path: Path, postgres: Cluster
) -> None:
    case = CASES[name]
    place = Place(tmp_path, place_of(pair, postgres, tmp_path))
    done = left(place, case)
    assert done.code == case.code, done.err
    *_, last = done.err.strip().splitlines()
    assert (case.says or "finished here") in last
    assert (" until " in last) is bool(re.search("until$", case.says))
    assert len(place.rows()) == case.runs
    assert place.ended() is case.ended


def test_a_tick_that_falls_due_while_it_works_counts(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.submit("--var", "rest=0.5")
    place.call("schedule", "add", "s", "pays.yaml", "--tools", "pay.py", "--every", "1h")
    with place.journal() as journal:
        (schedule,) = by_hand(journal.cron_schedules())
        soon = by_hand(journal.now()) // 1 + 2
        assert by_hand(journal.put_cron(schedule, schedule.replace(created=soon - 3600, next=soon)))
    worker = ("worker", "--until-idle", "--tools", "pay.py", "--journal", place.where)
    assert "2 runs finished here" in call(*worker, cwd=tmp_path).err
    assert place.ended()


def test_a_tick_that_is_passed_over_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(tmp_path)
    case = CASES["a-question"]._replace(schedule=("--every", "1h"))
    assert left(place, case).code == 0
    with place.journal() as journal:
        (schedule,) = by_hand(journal.cron_schedules())
        (run_id,) = schedule.runs
        assert by_hand(journal.put_cron(schedule, schedule.replace(next=schedule.next - 3600)))
    worker = ("worker", "--until-idle", "--journal", place.where)
    assert call(*worker, cwd=tmp_path).code == 0
    says = f"started no run: run `{run_id}` has not ended"
    assert says in caplog.text
    assert says in place.call("schedule", "list")
    assert len(place.rows()) == 1


def test_a_run_that_another_process_drives_is_left_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "NEAR", 3.0)
    place = Place(tmp_path)
    (run_id,) = place.submit("--var", "rest=0")
    with place.journal() as journal:
        by_hand(journal.acquire(run_id, Driver("t", "elsewhere", FAR), ttl=600.0))
        worker = ("worker", "--until-idle", "--tools", "pay.py", "--journal", place.where)
        done = call(*worker, cwd=tmp_path)
    assert done.code == 3
    assert "1 run rests for another process that drives it, until" in done.err
