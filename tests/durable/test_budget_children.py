"""A child counts in its parent: its usage in the parent's totals, its reservations in their limits.

The table is the test: what becomes of a child's model call x what becomes of the parent x how the
child is run x where the count is read. Beside it, a death at each write of a run with a child.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chartloop import OutcomeUnknown, ToolError, stats
from chartloop.actions.declare import tool_spec
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.adapters.model.scripted import Scripted
from chartloop.api import Machine, Run, load
from chartloop.run.fleet import FleetLimit
from chartloop.run.fleet_calls import forget_limits
from chartloop.run.journal import Journal, MemoryJournal
from chartloop.run.sync import by_hand
from chartloop.testing import CrashAt, Crashed, ManualClock

MODEL = (
    "model: {name: m, max_tokens: 100, input_cost_per_token: 0.001, output_cost_per_token: 0.001}"
)
HEAD = f"""\
chartloop: 1
machine: top
{MODEL}
machines:
  kid:
    about: Thinks.
    inputs: {{task: {{}}}}
    {MODEL}
    states:
      think: {{do: infer, failed: wait, next: wait}}
      wait: {{ask: "Ok?", on: {{yes: more}}}}
      more: {{do: infer, failed: done, next: done}}
      done: {{stop: completed}}
states:
  done: {{stop: completed}}
"""
SHAPES = {
    "alone": HEAD + "  go: {do: run_machine, with: {machine: kid, task: x}, next: done}\nstart: go\n",
    "parallel": HEAD
    + "  go: {do: run_machines, with: {machine: kid, each: [a, b], most: 2}, next: done}\nstart: go\n",
    "tool": HEAD + "  ask: {do: infer, next: act}\n  act: {do: call_tools, next: done}\nstart: ask\n"
    "tools: [kid]\n",
}  # fmt: skip
USAGE = {"usage": {"prompt_tokens": 10, "completion_tokens": 10}}
"""Twenty tokens, for 0.02 USD."""
ASK = {"tool_calls": [{"name": "kid", "arguments": {"task": "x"}}], **USAGE}
ENDS: dict[str, dict[str, Any]] = {
    "answered": {"text": "x", **USAGE},
    "refused": {"refusal": "I don't answer this.", **USAGE},
    "no-answer": {"error": {"category": "RECOVERABLE", "message": "the connection was cut"}},
}


def journal_with(limits: list[FleetLimit], journal: Any) -> Journal:
    """A journal with limits, known at once."""
    for limit in limits:
        by_hand(journal.set_limit(limit))
    forget_limits()
    return journal


LIMITS = [
    FleetLimit("fleet", "cost", "day", 50.0), FleetLimit("agent:top", "tokens", "all", 90_000.0),
    FleetLimit("session:s", "requests", "day", 90.0),
]  # fmt: skip


def counted(journal: Journal, run: Run, machine: Machine, calls: int, lost: int = 0) -> None:
    """Every place has the same count: the children's rows, the parent, `stats`, the limits.

    The limits count `lost` calls more, which were paid and whose record a death has prevented.
    """
    used = {limit.what: limit for limit in by_hand(journal.limits())}
    doubts = by_hand(journal.doubts())
    held = {what: sum(one.amounts.get(what, 0.0) for one in doubts) for what in used}
    usage = run.facts.usage
    assert run.result.facts.usage == usage
    assert {what: limit.held for what, limit in used.items()} == dict.fromkeys(used, 0.0)
    assert {what: limit.in_doubt for what, limit in used.items()} == pytest.approx(held)
    cost, tokens = (usage.cost or 0.0) + held["cost"], usage.total_tokens + held["tokens"]
    assert used["cost"].used == pytest.approx(cost + 0.02 * lost)
    assert used["tokens"].used == pytest.approx(tokens + 20 * lost)
    assert used["requests"].used == calls
    made = usage.llm_calls + run.session.tally.failed_calls
    assert calls == made + lost + (0 if run.session.tally.failed_calls else len(doubts))
    below = by_hand(journal.rows(prefix=f"{run.id}/"))
    own = 0.02 if machine.spec.start == "ask" and usage.llm_calls else 0.0
    assert (usage.cost or 0.0) == pytest.approx(own + sum(row.cost or 0.0 for row in below))
    totals = stats(machine, run).totals
    assert (totals["tokens"].total, totals["llm_calls"].total) == (
        usage.total_tokens,
        usage.llm_calls,
    )


@pytest.mark.parametrize("then", ["goes on", "cancelled"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_childs_calls_count_in_its_parent(shape: str, end: str, then: str) -> None:
    clock = ManualClock()
    journal = journal_with(LIMITS, MemoryJournal(now=clock.now))
    machine = load(SHAPES[shape])
    kids = 2 if shape == "parallel" else 1
    script = [*([ASK] if shape == "tool" else []), *[ENDS[end]] * 9]
    run = machine.start(
        "Go.", journal=journal, model=Scripted(script, clock=clock), clock=clock, session="s"
    )
    assert run.run().kind == "waiting"
    calls = kids + (shape == "tool")
    in_flight = {limit.what: limit.held for limit in by_hand(journal.limits())}
    assert set(in_flight.values()) == {0.0}  # a question holds nothing
    if then == "cancelled":
        run.cancel()
        run.run()
    else:
        while run.run().kind == "waiting":
            run.send("yes")
        calls += kids
    assert run.ended
    assert len(by_hand(journal.doubts())) == (
        0 if end != "no-answer" else calls - (shape == "tool")
    )
    counted(journal, run, machine, calls)


PAYING = f"""\
chartloop: 1
machine: top
{MODEL}
machines:
  kid:
    about: Pays.
    inputs: {{task: {{}}}}
    tools: [pay]
    states:
      act: {{do: tool, with: {{name: pay, arguments: {{usd: 5}}}}, failed: done, next: done}}
      done: {{stop: completed}}
states:
  done: {{stop: completed}}
"""
PAYERS = {name: PAYING + text.removeprefix(HEAD) for name, text in SHAPES.items()}
PAYERS["task"] = PAYING + "  go: {do: work, failed: done, next: done}\nstart: go\n"


@pytest.mark.parametrize("ends", ["known", "unknown", "failed"])
@pytest.mark.parametrize("shape", PAYERS)
def test_a_childs_unknown_calls_are_its_parents(shape: str, ends: str) -> None:
    def pay(usd: int) -> str:
        """Pay.

        Args:
            usd: How much.
        """
        if ends != "known":
            raise OutcomeUnknown("?") if ends == "unknown" else ToolError("no money")
        return "paid"

    clock, journal = ManualClock(), MemoryJournal()
    machine = load(PAYERS[shape], tools=[tool_spec(pay, blocking=False)])
    tasks = [{"text": "x", "by": {"machine": "kid"}}] if shape == "task" else []
    run = machine.start(
        "Go.", journal=journal, model=Scripted([ASK, *[ENDS["answered"]] * 9], clock=clock),
        clock=clock, tasks=tasks,
    )  # fmt: skip
    run.run()
    kids = 2 if shape == "parallel" else 1
    usage = run.result.facts.usage
    assert run.ended
    assert usage.calls["pay"] == kids
    assert usage.unknown_calls == (kids if ends == "unknown" else 0)
    assert len(run.session.calls.unknown) == usage.unknown_calls  # a fork does not repeat them


def script_of(machine: Machine) -> list[Any]:
    """The replies that a run of this machine gets."""
    return [*([ASK] if machine.spec.start == "ask" else []), *[ENDS["answered"]] * 9]


def begin(machine: Machine, journal: Journal, clock: ManualClock) -> Run:
    """The run `r`."""
    model = Scripted(script_of(machine), clock=clock)
    return machine.start(
        "Go.", journal=journal, model=model, clock=clock, session="s", run_id="r"
    )  # fmt: skip


def drive(run: Run, then: str) -> None:
    """Go on to the end, or cancel."""
    if then == "cancelled" and not run.ended:
        run.cancel()
    while run.run().kind == "waiting":
        run.send("yes")


@pytest.mark.parametrize("then", ["goes on", "cancelled"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("shape", SHAPES)
def test_whatever_kills_a_driver_a_childs_calls_are_held_by_none(
    shape: str, before: bool, then: str, tmp_path: Path
) -> None:
    """The process dies at each write in turn; the next one goes on, or is told to stop."""
    n, seen = 0, set[tuple[bool, int]]()
    machine = load(SHAPES[shape])
    while True:
        n, clock = n + 1, ManualClock()
        opened: Any = MemoryJournal(now=clock.now)
        if shape == "alone":
            opened = SqliteJournal(tmp_path / f"{n}.db", redactor=None, now=clock.now)
        journal = journal_with(LIMITS, opened)
        try:
            drive(begin(machine, CrashAt(journal, n, before=before), clock), "goes on")
        except Crashed:
            pass
        else:
            break
        forget_limits()
        row = by_hand(journal.row("r"))
        if row is None or not row.head:
            run = begin(machine, journal, clock)
        else:
            model = Scripted(script_of(machine), clock=clock)
            run = machine.open("r", journal=journal, model=model, clock=clock)
        drive(run, then)
        assert run.ended
        requests = next(one for one in by_hand(journal.limits()) if one.what == "requests")
        doubts = len(by_hand(journal.doubts()))
        lost = round(requests.used) - doubts - run.facts.usage.llm_calls
        assert 0 <= lost <= 1
        counted(journal, run, machine, round(requests.used), lost)
        seen.add((doubts > 0, lost))
        by_hand(journal.close())
    by_hand(journal.close())
    assert n > 15
    assert {(True, 0), (False, 0)} <= seen
