"""Every shipped machine through litellm: its scenarios give the same over real HTTP as by script.

The provider is `LoopbackServer`, which gives the scenario's own replies in the OpenAI format; a
reply that is an error becomes the provider's own failure of that category. Reason, path and output
must be those of the scripted run.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import Result, load
from chartloop.adapters.model.scripted import parse_replies
from chartloop.catalog import shipped_machines
from chartloop.core.plain import plain
from chartloop.run.sync import loop_thread
from chartloop.scenarios import Scenario, find_scenarios, load_scenario, run_scenario
from chartloop.testing import LoopbackServer
from tests.tool_loop import QUIET, needs_litellm

pytestmark = [needs_litellm, QUIET]

ROOT = Path(__file__).parents[2]
MODEL = "openai/loopback"
LATE = "a reply is late on the simulated clock, which does not pass while a server is waited for"
PRICED = "a reply has a price of its own, and a provider sends none"
HALF = "a reply breaks off after its first words; tests/cases/test_model_categories.py has that"
EMPTY = "a reply says nothing at all: over HTTP that is a failure, for it may have been lost"
SILENT = "no model is asked"


@pytest.fixture(autouse=True)
def no_client_is_left() -> Iterator[None]:
    """litellm keeps a client for each server, and forgets those of servers that are gone."""
    yield
    litellm: Any = importlib.import_module("litellm")
    closing = litellm.close_litellm_async_clients()
    asyncio.run_coroutine_threadsafe(closing, loop_thread()).result(10)
    litellm.in_memory_llm_clients_cache.flush_cache()


class Played(NamedTuple):
    """A scenario, and why it does not go over the wire; empty when it does."""

    path: Path
    scenario: Scenario
    left_out: str


def why_left_out(scenario: Scenario) -> str:
    """What of a scenario's replies HTTP cannot carry."""
    replies, _ = parse_replies(scenario.replies)
    if not replies:
        return SILENT
    if any(reply.delay for reply in replies):
        return LATE
    if any(reply.cost is not None for reply in replies):
        return PRICED
    if any(reply.error and reply.text for reply in replies):
        return HALF
    says = all(reply.text or reply.tool_calls or reply.error for reply in replies)
    return "" if says else EMPTY


def found() -> Iterator[Played]:
    """The scenarios of the shipped machines."""
    for path in find_scenarios([ROOT / "tests" / "scenarios"]):
        scenario = load_scenario(path)
        yield Played(path, scenario, why_left_out(scenario))


ALL = [*found()]
OVER_HTTP = [played for played in ALL if not played.left_out]


SANDBOX = pytest.mark.extra("pydantic_monty", install='pip install -e ".[sandbox]"')  # noqa: S610 - no Django


@cache
def uses(machine: str) -> frozenset[str]:
    """The components that its states and those of its child machines use, or may use."""
    states = (s for part in load(machine).spec.family() for s in part.states.values())
    actions = [s.action for s in states if s.action is not None]
    return frozenset(name for action in actions for name in action.uses | action.may_use)


def params() -> Iterator[Any]:
    """The scenarios that go over the wire, each with what its machine needs."""
    for played in OVER_HTTP:
        needs = [SANDBOX] if "sandbox" in uses(played.scenario.machine) else []
        yield pytest.param(played, marks=needs, id=played.path.name.split(".")[0])


def came_to(result: Result | None) -> tuple[Any, ...]:
    """What must be the same. A failure over HTTP names its model and status, a script has none."""
    assert result is not None
    output = re.sub(rf"{MODEL}: (HTTP \d+: )?", "", json.dumps(plain(result.output)))
    return str(result.reason), result.path, json.loads(output)


@cache
def by_script(path: Path) -> tuple[Any, ...]:
    """What the scripted run comes to."""
    return came_to(run_scenario(path).result)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("played", [*params()])
def test_it_is_the_same_run_over_http(played: Played, stream: bool) -> None:
    replies = played.scenario.replies
    with LoopbackServer(replies) as server:
        where = {"api_base": server.url, "timeout": 10, "stream": stream}
        report = run_scenario(played.path, model=MODEL, settings=where)
    assert came_to(report.result) == by_script(played.path), str(report)
    assert len(server.requests) == len(replies)


@pytest.mark.parametrize("machine", sorted(m for m in shipped_machines() if "model" in uses(m)))
def test_every_machine_that_asks_a_model_is_asked_over_http(machine: str) -> None:
    assert machine in {played.scenario.machine for played in OVER_HTTP}


def test_most_scenarios_go_over_the_wire() -> None:
    reasons = Counter(played.left_out for played in ALL if played.left_out != SILENT)
    assert set(reasons) <= {"", LATE, PRICED, HALF, EMPTY}
    assert reasons[""] > len(ALL) / 2, reasons
