"""The law of `record`: playing a recorded run gives the same run.

The runs are real ones of generated machines, with random replies, results and answers: failures of
each category, tool calls, calls of children, waits that are answered, expire or stay open, cancels,
other limits and variables at the start.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chartloop import AgentStop, guard, tool
from chartloop.api import Machine, Run, load
from chartloop.core.errors import SpecError, ToolError
from chartloop.scenarios import recording, run_scenario
from chartloop.testing import ManualClock
from tests.strategies import costly_machines, small_machines

RECORDS = 25
"""The records of a run before it is cancelled."""
REPLIES = 300
"""The scripted replies of a run: more than it can ask for."""
RUNS = 5
"""The runs of each machine."""

RESULTS: list[Iterator[Any]] = [cycle(["ok"])]
"""The results of the tool `poke` in the run that is driven, call by call."""


@tool
async def poke() -> Any:
    """Return or raise what was drawn."""
    match next(RESULTS[0]):
        case Exception() as error:
            raise error
        case result:
            return result


@guard(name="whim")
def now_and_then(number: int) -> bool:
    """A guard that the engine cannot see into, and that always gives one answer for one number."""
    return number % 2 == 1


OWN = [poke, now_and_then]


def tidied(data: dict[str, Any]) -> dict[str, Any]:
    """The machine without its unreachable states, which the checker would refuse."""
    states: dict[str, Any] = data["states"]
    found, pending = {"s0"}, ["s0", *(word for rule in data["rules"] for word in words(rule))]
    pending += [str(data.get(name, "")) for name in ("on_stop", "on_error")]
    while pending:
        name = pending.pop()
        if name in states and (name not in found or name == "s0"):
            found.add(name)
            pending += [word for word in words(states[name]) if word not in found]
    rules = [rule for given in data["rules"] if (rule := covering(given, found))]
    return {**data, "rules": rules, "states": {n: s for n, s in states.items() if n in found}}


def covering(rule: dict[str, Any], states: set[str]) -> dict[str, Any]:
    """The rule for only these states; empty if it covers none of them."""
    kept = dict(rule)
    for key in ("at", "before"):
        if key in rule:
            kept[key] = [name for name in rule[key] if name in states]
    return {} if [] in kept.values() else kept


def words(value: Any) -> Iterator[str]:
    """Every text in a piece of data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in cast("dict[str, Any]", value).items():
            if key not in ("at", "before", "with"):
                yield from words(part)
    elif isinstance(value, list):
        for part in cast("list[Any]", value):
            yield from words(part)


def accepted(path: Path, data: dict[str, Any]) -> bool:
    """Write a machine that ignores the findings of the checker; return whether it loads then."""
    data = tidied(data)
    codes: set[str] = set()
    for _ in range(3):
        ignore = [{"code": code, "reason": "it is generated"} for code in sorted(codes)]
        path.write_text(json.dumps({**data, "ignore": ignore} if ignore else data))
        try:
            load(path, tools=OWN)
        except SpecError as error:
            codes |= {finding.code for finding in error.findings}
        else:
            return True
    return False


# runs ---------------------------------------------------------------------------------------


class Drawn(NamedTuple):
    """The input of one run from outside."""

    replies: Sequence[Any]
    """The replies of the model, from the first again after the last."""
    results: Sequence[Any]
    """The values and errors that `poke` returns or raises, likewise."""
    answers: Sequence[str]
    """The answer to each wait: an event, or empty for silence."""
    cancel: str
    """The reason for which the run is cancelled if it goes on for too long."""
    start: dict[str, Any]
    """Limits and variables in place of the machine's."""


_CALL = {"name": "poke"}
_REPLIES: tuple[Any, ...] = (
    "Hi.", "", {"text": "Twice.", "tool_calls": [_CALL, _CALL]}, {"tool_calls": [_CALL]},
    {"tool_calls": [{"name": "child", "arguments": {"task": "x"}}]}, {"tool_calls": [{"name": "none"}, _CALL]},
    {"tool_calls": [{"name": "poke", "arguments": "not JSON"}]},
    {"text": "Long.", "usage": {"prompt_tokens": 3, "completion_tokens": 2}}, {"text": "Late.", "delay": "41s"},
    {"text": "Cut", "finish_reason": "length"}, {"refusal": "I will not."},
    {"error": {"category": "TRANSIENT", "message": "busy"}}, {"error": {"category": "RECOVERABLE", "message": "no"}},
    {"error": {"category": "CRITICAL", "message": "gone"}, "delay": "2s"},
)  # fmt: skip
_RESULTS = (
    "ok", 3, None, {"n": [1, 2]}, "", ToolError("it broke"), AgentStop("enough"),
)  # fmt: skip
_STARTS: tuple[dict[str, Any], ...] = ({}, {}, {"limits": {"few": 1}}, {"limits": {"few": 3}})


def drawn(seed: int) -> Iterator[Drawn]:
    """The input of some runs; some of them hear few different replies."""
    chance = random.Random(seed)  # noqa: S311  no secret
    for _ in range(RUNS):
        yield Drawn(
            chance.choices(chance.sample(_REPLIES, chance.randint(1, 5)), k=RECORDS),
            chance.choices(_RESULTS, k=chance.randint(1, 4)),
            chance.choices(["yes", "no", "yes", "no", ""], k=chance.randint(0, RECORDS)),
            chance.choice(["user_requested", "custom"]), chance.choice(_STARTS),
        )  # fmt: skip


def driven(machine: Machine, given: Drawn) -> Run:
    """A run that has ended, or that waits for ever."""
    RESULTS[0] = cycle(given.results)
    replies, answers = cycle(given.replies), iter(given.answers)
    script = [next(replies) for _ in range(REPLIES)]
    run = machine.start("Do it.", script=script, clock=ManualClock(), **given.start)
    steps, cancelled = 0, False
    for number in range(2 * RECORDS):
        # A scenario knows a cancel by the steps before it, so it comes right after a step.
        before, steps = steps, run.session.position.facts.run.steps
        if number >= RECORDS and not cancelled and steps > before:
            run.cancel(given.cancel)
            cancelled = True
        waits = run.status == "paused" and run.state in machine.chart.waiting
        if waits and (answer := next(answers, "")):
            run.send(answer)
        if run.advance() is None:
            return run
    assume(run.ended)
    return run


def play_again(folder: Path, data: dict[str, Any], seed: int) -> None:
    """Drive runs, record each and play its scenario."""
    assume(accepted(folder / "m.yaml", data))
    machine = load(folder / "m.yaml", tools=OWN)
    for run in [driven(machine, one) for one in drawn(seed)]:
        again = recording(run, machine, named="../m.yaml")
        assert (again.differences, again.lacks) == ((), ()), again.text
        report = run_scenario(again.save(folder / "again" / "it.scenario.yaml"), tools=OWN)
        assert report.passed, f"{again.text}\n{report}"
        assert report.run is not None
        assert report.run.result.path == run.result.path
        assert report.run.result.reason == run.result.reason


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(costly_machines(), st.integers(0, 10_000))
@settings(deadline=None, max_examples=25)
def test_a_recorded_run_of_any_machine_is_played_as_it_was(data: dict[str, Any], seed: int) -> None:
    with TemporaryDirectory() as folder:
        play_again(Path(folder), data, seed)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(small_machines(), st.integers(0, 10_000))
@settings(deadline=None, max_examples=40)
def test_a_recorded_run_with_waits_is_played_as_it_was(data: dict[str, Any], seed: int) -> None:
    with TemporaryDirectory() as folder:
        play_again(Path(folder), data, seed)
