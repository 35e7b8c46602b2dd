"""Proofs believe the traits of an action, whatever its name: an action that is made up is held to.

An action with random traits does the worst that they allow: it waits, runs a child, carries calls
out, asks the model, raises a signal, fails. It takes the place of actions of generated machines,
and real runs of these under adversaries are held against the bound and against queries.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from chartloop.actions import call_tools as calling
from chartloop.actions import infer as talking
from chartloop.actions import run_machines as children
from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.actions.registry import check_traits
from chartloop.analysis.proofs.bound import Assume, bound
from chartloop.analysis.proofs.query import Questions
from chartloop.analysis.proofs.query.query_text import names_of
from chartloop.api import Machine, lifecycle
from chartloop.core.errors import Category, ModelError
from chartloop.core.outcome import Blocked, Outcome, Spent
from chartloop.core.reasons import StopSignal
from chartloop.core.specs import ActionSpec, ArgSpec, Effect
from chartloop.core.traits import ActionTraits
from chartloop.core.types import DURATION, INT, STR
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.run.context import Context
from chartloop.run.events import Recorded
from chartloop.run.exceptions import outcome_of_call
from tests.exploring import CHOICES, LONGEST, OWN, adversaries, playing
from tests.laws.test_bound_laws import exceeded, overshot, wrapped_beyond
from tests.laws.test_query_laws import FORMS, agrees, happened
from tests.strategies import costly_machines

LONGEST_WAIT = 20.0

FIELDS: Mapping[str, tuple[ArgSpec, Any]] = {
    "tool": (ArgSpec("tool", "name", STR, names="tool", required=True), "poke"),
    "machine": (ArgSpec("machine", "name", STR, names="machine", required=True), "child"),
    "reason": (ArgSpec("reason", "name", STR, names="reason", required=True), "custom"),
    "times": (ArgSpec("times", "value", INT), 2),
    "most": (ArgSpec("most", "duration", DURATION), "7s"),
}
"""The fields that such an action may have, and what a machine writes there."""

all_traits = st.builds(
    ActionTraits,
    asks=st.sampled_from(["never", "reply", "text"]),
    calls=st.sampled_from(["none", "none", "all", "first", "named"]),
    runs=st.sampled_from(["none", "none", "one"]),
    fails=st.just("by_world"),
    waits=st.sampled_from([None, None, ("most", LONGEST_WAIT)]),
    continues=st.sampled_from(["", "", "times"]),
    writes=st.sampled_from(["", "report", "snapshot"]),
)


@st.composite
def actions(draw: st.DrawFn) -> ActionSpec:
    """An action with random traits, that does the worst that they allow."""
    traits = draw(all_traits)
    quiet = traits.asks == "never" and traits.calls == traits.runs == "none"
    if quiet and traits.waits is None and draw(st.booleans()):
        traits = replace(traits, fails="never")
    fields = {
        "tool": traits.calls == "named", "machine": traits.runs == "one",
        "reason": traits.fails != "never" and draw(st.booleans()),
        "times": bool(traits.continues), "most": traits.waits is not None,
    }  # fmt: skip
    needed = [name for name, has in fields.items() if has]
    if traits.fails == "never" and needed:
        traits = replace(traits, fails="by_world")

    async def act(ctx: Context, **given: Any) -> Outcome | Blocked:
        return await done(ctx, traits, given)

    made = ActionSpec(
        "made_up",
        act,
        tuple(FIELDS[name][0] for name in needed),
        work=draw(st.booleans()),
        effect=Effect.PAID,
        own_intents=True,
        uses=frozenset() if traits.asks == "never" else frozenset({"model"}),
        may_wait=traits.waits is not None or traits.runs != "none",
        own_deadline=traits.runs != "none",
        changes=frozenset({"run.continuations"} if traits.continues else ()),
        supplies=frozenset({"conversation"}),
        declares=traits,
    )
    check_traits(made)
    return made


def finished(made: Outcome | Blocked) -> Outcome:
    """What tools came to of which none asks anything."""
    assert isinstance(made, Outcome)
    return made


async def done(ctx: Context, traits: ActionTraits, given: Mapping[str, Any]) -> Outcome | Blocked:
    """Everything that the traits allow, as it is chosen."""
    choices, out = CHOICES[0], Outcome()
    if traits.waits is not None and ctx.blocked_until is None:
        return Blocked(ctx.now + given.get("most", LONGEST_WAIT) * choices.of(2), "made-up")
    if traits.runs == "one":
        child = await children.run_machine(ctx, given["machine"])
        if isinstance(child, Blocked):
            return child
        out = child
    match traits.calls:
        case "all":
            out = both(out, finished(await calling.call_tools(ctx)))
        case "first":
            out = both(out, finished(await calling.call_tool(ctx)))
        case "named":
            out = both(out, finished(await calling.tool(ctx, given["tool"])))
        case _:
            pass
    if traits.asks == "reply" or (traits.asks == "text" and choices.of(2)):
        out = both(out, await asked(ctx, traits.asks == "text"))
    reason = given.get("reason")
    if reason is not None and choices.of(2):
        raised = StopSignal(ctx.machine.reason(reason), "", {}, ctx.state.name)
        out = out.replace(signals=(*out.signals, raised))
    if out.ok and traits.fails != "never" and traits.asks != "reply" and choices.of(3) == 2:
        category = [*Category][choices.of(3)]
        out = out.replace(ok=False, error=Outcome.failure(category, "it failed").error)
    if traits.continues and out.ok:
        out = out.replace(continued=given.get("times", 1))
    return out.replace(result=None)


async def asked(ctx: Context, for_text: bool) -> Outcome:
    """One model call, for a text of its own or for the run's next reply."""
    try:
        if not for_text:
            return await talking.infer(ctx)
        return Outcome(spent=(await talking.complete(ctx, talking.request_messages(ctx))).spent)
    except ModelError as error:
        return outcome_of_call(error)


def both(one: Outcome, other: Outcome) -> Outcome:
    """What two things come to that an action does one after the other."""
    a, b = one.spent, other.spent
    known = [cost for cost in (a.cost, b.cost) if cost is not None]
    tools = {n: a.tools.get(n, 0) + b.tools.get(n, 0) for n in a.tools.keys() | b.tools.keys()}
    return other.replace(
        ok=one.ok and other.ok, error=one.error or other.error,
        messages=(*one.messages, *other.messages),
        rewrite=one.rewrite if other.rewrite is None else other.rewrite,
        spent=Spent(
            a.llm_calls + b.llm_calls, a.prompt_tokens + b.prompt_tokens,
            a.completion_tokens + b.completion_tokens, sum(known) if known else None, tools=tools,
        ),
        tool_errors=(*one.tool_errors, *other.tool_errors), changes={**one.changes, **other.changes},
        signals=(*one.signals, *other.signals), unanswered=one.unanswered + other.unanswered,
        progressed=one.progressed or other.progressed, timed_out=one.timed_out or other.timed_out,
    )  # fmt: skip


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """A machine in which the made-up action stands in place of others."""
    data, action = draw(costly_machines()), draw(actions())
    acting = [name for name, state in data["states"].items() if "do" in state]
    for name in draw(st.lists(st.sampled_from(acting), min_size=1, max_size=2, unique=True)):
        kept = {k: v for k, v in data["states"][name].items() if k not in ("with", "save", "allow")}
        given = {arg.name: FIELDS[arg.name][1] for arg in action.args}
        data["states"][name] = {**kept, "do": "made_up", **({"with": given} if given else {})}
    loaded = load(json.dumps(data), "made.yaml", with_own(specs_of(*OWN, action)))
    assume(loaded.ok)
    assert loaded.spec is not None
    return Machine(Chart(loaded.spec, lifecycle()))


slowly = settings(
    deadline=None, max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(machines(), st.integers(0, 10_000))
def test_no_run_with_a_made_up_action_exceeds_its_bound(machine: Machine, seed: int) -> None:
    asyncio.run(bounded(machine, seed))


async def bounded(machine: Machine, seed: int) -> None:
    found = bound(machine.chart, assume=Assume(calls_per_reply=2))
    assert not found.unknown
    actions = found["actions"].value
    longest = LONGEST if actions is None else int(4 * actions) + LONGEST
    for choices in adversaries(seed, 12):
        heard: list[Recorded] = []
        run, spent = await playing(machine, choices, longest, heard=heard)
        assert not exceeded(found, spent), (run.result.path, exceeded(found, spent))
        assert not overshot(found, run.facts), (run.result.path, overshot(found, run.facts))
        assert not wrapped_beyond(found, heard), (run.result.path, wrapped_beyond(found, heard))


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(machines(), st.integers(0, 10_000), st.data())
def test_no_run_with_a_made_up_action_does_what_a_query_excludes(
    machine: Machine, seed: int, pick: Any
) -> None:
    own = {name: limit.value for name, limit in machine.spec.limits.items()}
    questions = Questions(machine.chart, pick.draw(st.sampled_from([None, own])))
    names = [f"{sort}:{name}" for sort, all_ in names_of(machine.chart).items() for name in all_]
    some = st.sampled_from(names)
    texts = [
        pick.draw(st.sampled_from(FORMS)).format(a=pick.draw(some), b=pick.draw(some))
        for _ in range(8)
    ] + [f"reach {name}" for name in names]
    answers = [questions.ask(text) for text in texts]

    async def play() -> None:
        for choices in adversaries(seed, 4):
            heard: list[Recorded] = []
            run, _ = await playing(machine, choices, heard=heard)
            went = happened(machine, heard)
            for answer in answers:
                assert agrees(answer, went, ended=run.ended), (str(answer), answer.query, went)

    asyncio.run(play())
