"""What the model was not shown is not carried out, and queries about tools know it.

Real runs of generated machines under a model that calls every tool by name: states show and
carry out different tools, replies are not kept, judged by another call, pruned away, shared with
children; a caller gives conversations that hold calls.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chartloop.analysis.proofs.query import Answer, Questions
from chartloop.api import Machine
from chartloop.run.events import Recorded
from tests.gated import TOOLS, built_gated, gated_machines, naming_adversaries, played_gated
from tests.laws.test_query_laws import Happened, Moment, agrees

slowly = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(gated_machines(), st.integers(0, 10_000), st.booleans())
def test_no_tool_is_carried_out_that_was_not_shown(data: Any, seed: int, given_: bool) -> None:
    asyncio.run(_only_shown(built_gated(data), seed, given_))


async def _only_shown(machine: Machine, seed: int, given_: bool) -> None:
    for choices in naming_adversaries(seed):
        heard: list[Recorded] = []
        _, model, done = await played_gated(machine, choices, given=given_, heard=heard)
        for name, call in done:
            if call not in ("given", "file"):
                assert name in model.shown[call], (name, call, model.shown[call])


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(gated_machines(), st.integers(0, 10_000), st.booleans())
def test_no_call_is_carried_out_that_was_not_shown_to_somebody_who_accepted_it(
    data: Any, seed: int, given_: bool
) -> None:
    held = {**data, "approve": {"tools": ["buy"], "within": "30s"}}
    asyncio.run(_only_approved(built_gated(held), seed, given_))


async def _only_approved(machine: Machine, seed: int, given_: bool) -> None:
    for choices in naming_adversaries(seed):
        heard: list[Recorded] = []
        run, _, done = await played_gated(machine, choices, given=given_, heard=heard)
        accepted = approved(heard)
        for name, call in done:
            if name == "buy" and call != "file":
                assert call in accepted, (call, accepted, run.result.path)
                accepted.remove(call)  # once


def approved(heard: list[Recorded]) -> list[str]:
    """The calls that were shown with a question that was answered `accept`."""
    shown: list[str] = []
    out: list[str] = []
    for record, _, _ in heard:
        outcome = record.outcome
        if outcome is not None and record.state.startswith("s") and _asked_for(outcome.result):
            shown = [json.loads(call["arguments"])["call"] for call in outcome.result]
        elif record.kind == "answer" and record.input.event == "accept":
            out += shown
            shown = []
    return out


def _asked_for(result: Any) -> bool:
    """Whether it is what `ask_approval` gives."""
    return isinstance(result, list) and all(set(c) == {"id", "name", "arguments"} for c in result)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


QUERIES = (
    "reach tool:{t}", "never tool:{t} before {a}", "never tool:{t} after {a}",
    "never tool:{t} before tool:{u}", "never tool:{t} after tool:{u}", "never {a} before tool:{t}",
)  # fmt: skip


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(gated_machines(), st.integers(0, 10_000), st.booleans(), st.data())
def test_no_tool_is_carried_out_where_a_query_says_that_none_is(
    data: Any, seed: int, given_: bool, pick: Any
) -> None:
    machine = built_gated(data)
    states = [f"state:{n}" for n in machine.spec.states]
    questions = Questions(machine.chart)
    asked = [
        pick.draw(st.sampled_from(QUERIES)).format(
            a=pick.draw(st.sampled_from(states)),
            t=pick.draw(st.sampled_from(TOOLS)), u=pick.draw(st.sampled_from(TOOLS)),
        )
        for _ in range(6)
    ]  # fmt: skip
    asked += [f"reach tool:{name}" for name in TOOLS]
    asyncio.run(_asked(machine, [questions.ask(text) for text in asked], seed, given_))


async def _asked(machine: Machine, answers: list[Answer], seed: int, given_: bool) -> None:
    for choices in naming_adversaries(seed):
        heard: list[Recorded] = []
        run, _, _ = await played_gated(machine, choices, given=given_, heard=heard)
        went = happened(machine, heard)
        for answer in answers:
            fits = agrees(answer, went, ended=run.ended)
            assert fits, (answer.query, str(answer), went)


def happened(machine: Machine, heard: list[Recorded]) -> Happened:
    """Tools that were executed and states that were entered; not those of children."""
    out: dict[str, list[Moment]] = {}
    at = 0.0
    for record, decision, _ in heard:
        state = machine.spec.states.get(record.state)
        child = (
            state is not None and state.action is not None and state.action.name == "run_machine"
        )
        done = record.outcome if record.kind == "step" and not child else None
        tools = [f"tool:{name}" for name in done.spent.tools] if done is not None else []
        for name in tools:  # calls of one reply are made at once
            out.setdefault(name, []).append(Moment(at, at))
        for name in decision.path:
            at += 1
            out.setdefault(f"state:{name}", []).append(Moment(at, at))
        at += 1
    return out
