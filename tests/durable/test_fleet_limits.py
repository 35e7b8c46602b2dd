"""Runs under limits across runs: what their model calls reserve, wait for, and are stopped by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.adapters.model.scripted import Scripted
from chartloop.api import Machine, Run, load
from chartloop.run.fleet import FleetLimit, Per, What
from chartloop.run.fleet_calls import FLEET_WAIT, forget_limits
from chartloop.run.journal import Journal, MemoryJournal
from chartloop.run.sync import by_hand
from chartloop.testing import CrashAt, Crashed, ManualClock

TEXT = """
chartloop: 1
machine: writer
start: think
model: {name: m, max_tokens: 100, input_cost_per_token: 0.001, output_cost_per_token: 0.001}
limits: {steps: 4}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  think: {do: infer, next: think}
"""
REPLY = {"text": "x", "usage": {"prompt_tokens": 10, "completion_tokens": 10}}
"""Twenty tokens, for 0.02 USD."""


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the runs and of their journal."""
    return ManualClock()


@pytest.fixture(params=["memory", "file"])
def journal(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> Iterator[Journal]:
    """A journal."""
    forget_limits()
    if request.param == "memory":
        yield MemoryJournal(now=clock.now)
        return
    opened = SqliteJournal(tmp_path / "journal.db", now=clock.now)
    yield opened
    by_hand(opened.close())


def limit(
    journal: Journal, most: float, what: What = "cost", per: Per = "all", scope: str = "fleet"
) -> None:
    """A limit, known at once."""
    by_hand(journal.set_limit(FleetLimit(scope, what, per, most)))
    forget_limits()


def machine(text: str = TEXT) -> Machine:
    """The machine of these runs."""
    return load(text)


def start(journal: Journal, clock: ManualClock, text: str = TEXT, **options: Any) -> Run:
    """A run of four model calls."""
    model = Scripted([REPLY] * 9, clock=clock)
    return machine(text).start("Go.", journal=journal, model=model, clock=clock, **options)


def used(journal: Journal) -> tuple[float, float]:
    """What is used and held of the only limit."""
    (found,) = by_hand(journal.limits())
    return round(found.used, 6), round(found.held, 6)


def test_without_a_limit_nothing_is_reserved(journal: Journal, clock: ManualClock) -> None:
    run = start(journal, clock)
    assert run.run().reason == "steps_limit"
    assert by_hand(journal.limits()) == []


def test_calls_settle_what_they_cost(journal: Journal, clock: ManualClock) -> None:
    limit(journal, 5.0)
    assert start(journal, clock).run().reason == "steps_limit"
    assert used(journal) == (0.08, 0.0)


def test_a_spent_budget_ends_the_run_with_its_reason(journal: Journal, clock: ManualClock) -> None:
    limit(journal, 0.13)
    result = start(journal, clock).run()
    assert result.reason == "cost_limit"
    (signal,) = result.signals
    assert signal.source == "fleet"
    assert signal.message.startswith("fleet: cost in all: ")
    assert result.facts.usage.llm_calls == 2
    assert used(journal) == (0.04, 0.0)


@pytest.mark.parametrize("scope", ["agent:writer", "session:s", "model:m"])
def test_a_limit_is_of_an_agent_a_session_or_a_model(
    journal: Journal, clock: ManualClock, scope: str
) -> None:
    limit(journal, 120, "tokens", "day", scope)
    assert start(journal, clock, session="s").run().reason == "token_limit"
    other = TEXT.replace("name: m,", "name: n,").replace("machine: writer", "machine: other")
    assert start(journal, clock, other, session="t").run().reason == "steps_limit"


def test_a_limit_of_a_tenant_is_for_all_its_runs_and_no_other_ones(
    journal: Journal, clock: ManualClock
) -> None:
    limit(journal, 0.13, scope="tenant:acme")
    limit(journal, 999.0, scope="tenant:beta")
    other = TEXT.replace("machine: writer", "machine: other")
    assert start(journal, clock, tenant="acme", session="s").run().reason == "cost_limit"
    stopped = start(journal, clock, other, tenant="acme").run()
    (signal,) = stopped.signals
    assert (signal.source, stopped.facts.usage.llm_calls) == ("tenant:acme", 0)
    assert start(journal, clock, tenant="beta").run().reason == "steps_limit"
    assert start(journal, clock).run().reason == "steps_limit"
    assert [round(one.used, 6) for one in by_hand(journal.limits())] == [0.04, 0.08]


def test_the_session_of_a_tenant_is_not_that_of_another_one(
    journal: Journal, clock: ManualClock
) -> None:
    limit(journal, 0.05, scope="session:s")
    limit(journal, 0.05, scope="session:acme:s")
    assert start(journal, clock, tenant="beta", session="s").run().reason == "steps_limit"
    for tenant in ("acme", None):
        assert start(journal, clock, tenant=tenant, session="s").run().reason == "cost_limit"


def test_a_rate_makes_the_run_wait_and_says_so(journal: Journal, clock: ManualClock) -> None:
    limit(journal, 6, "requests", "minute", "model:m")
    begun = clock.now()
    run = start(journal, clock)
    assert run.run().reason == "steps_limit"
    assert 29.9 < clock.now() - begun < 31
    waits = [r for r in run.records if r.kind == "blocked"]
    assert len(waits) == 3
    assert {r.input.data["on"] for r in waits} == {FLEET_WAIT}
    assert run.replay().same


def test_a_model_without_a_price_is_refused_under_a_limit_of_cost(
    journal: Journal, clock: ManualClock
) -> None:
    limit(journal, 5.0)
    text = TEXT.replace(", input_cost_per_token: 0.001, output_cost_per_token: 0.001", "")
    result = start(journal, clock, text).run()
    assert result.status == "error"
    assert "`m` has none: say `input_cost_per_token`" in str(result.errors[0])
    limit(journal, 5000, "tokens")
    by_hand(journal.remove_limit("fleet", "cost", "all"))
    forget_limits()
    assert start(journal, clock, text).run().reason == "steps_limit"


def test_a_reply_of_unknown_length_is_refused(journal: Journal, clock: ManualClock) -> None:
    limit(journal, 5000, "tokens")
    result = start(journal, clock, TEXT.replace("max_tokens: 100, ", "")).run()
    assert "say `max_tokens` in `model`" in str(result.errors[0])


def crash_at(n: int, *, before: bool, journal: Journal, clock: ManualClock) -> bool:
    """Drive the run `r` until write `n`. False if it lived."""
    dying = CrashAt(journal, n, before=before)
    forget_limits()
    model = Scripted([REPLY] * 9, clock=clock)
    try:
        start(dying, clock, run_id="r").run()
    except Crashed:
        return True
    finally:
        del model
    return False


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_whatever_kills_a_driver_nothing_stays_held_and_nothing_is_overdrawn(
    clock: ManualClock, tmp_path: Path, before: bool
) -> None:
    """The process dies at each write in turn; the next one goes on."""
    n, seen = 1, set[float]()
    while True:
        opened = SqliteJournal(tmp_path / f"{n}.db", now=clock.now)
        limit(opened, 5.0)
        if not crash_at(n, before=before, journal=opened, clock=clock):
            break
        forget_limits()
        row = by_hand(opened.row("r"))
        model = Scripted([REPLY] * 9, clock=clock)
        if row is None or not row.head:
            run = start(opened, clock, run_id="r")
        else:
            run = machine().open("r", journal=opened, model=model, clock=clock)
        assert run.run().reason == "steps_limit"
        doubted = sum(doubt.amounts["cost"] for doubt in by_hand(opened.doubts()))
        spent, held = used(opened)
        assert held == 0.0
        assert spent == pytest.approx(0.08 + doubted) or spent == pytest.approx(0.1)
        assert bool(doubted) <= any(e.type == "in_doubt" for e in by_hand(opened.events("r")))
        seen.add(round(doubted, 3))
        by_hand(opened.close())
        n += 1
    by_hand(opened.close())
    assert n > 15
    assert len(seen) > 1  # some deaths left a call in doubt, others did not
