"""Where a query says that each call was accepted by itself, no call is executed that was not.

Real runs of generated machines, with and without gates, under a model that calls every tool by name.
The judge reads no records: it counts what the tools did, and what the questions showed that somebody
answered with `accept`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from chartloop.api import Machine
from chartloop.testing.clock import ManualClock
from tests.exploring import Choices
from tests.gated import (
    DONE,
    GIVEN,
    TOOLS,
    Data,
    Naming,
    built_gated,
    gated_machines,
    naming_adversaries,
)

slowly = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
SHOWN = re.compile(r'^\s*(\w+) (\{"call":.*\})$', re.MULTILINE)
GATES = (["buy"], ["buy"], ["buy", "send"], list(TOOLS))


@st.composite
def consenting_machines(draw: st.DrawFn) -> Data:
    """A machine that shows, executes and holds back, here and in its child, or that waits itself."""
    data = draw(gated_machines())
    body, line = data["states"], list(data["states"])
    for state in body.values():
        if "on" in state:
            state["on"] = dict(zip(("accept", "deny"), state["on"].values(), strict=True))
        elif state.get("do") in ("call_tools", "call_tool") and draw(st.booleans()):
            retry = {"times": draw(st.integers(1, 2)), "on": ["RECOVERABLE"]}
            state |= {"with": {"on_error": "fail"}, "retry": retry}
    if "aside" in body:
        words = {"text": "Do you like cats?"}
        body["aside"] |= draw(
            st.sampled_from([{}, {"do": "ask_user", "with": words}, {"do": "call_tools"}])
        )
        if body["aside"]["do"] == "ask_user":
            del body["aside"]["allow"]
    if draw(st.booleans()):
        at = draw(st.sampled_from([name for name in line if name not in ("aside", "done")]))
        data["tasks"] = [{"text": "file", "by": {"tool": draw(st.sampled_from(TOOLS))}}]
        body["tasks"] = {"do": "work", "failed": "next", "next": "done"}
        body[at]["next" if "next" in body[at] else "expired"] = "tasks"
    if draw(st.integers(0, 3)) == 0:
        data["on_stop"] = "last"
        body |= {"last": {"do": "call_tools", "next": "over"}, "over": {"end": "by_reason"}}
    if draw(st.booleans()):
        body |= {
            "reply": {"do": "infer", "failed": "next", "next": "gate"},
            "gate": {
                "on": {"accept": "pay", "deny": draw(st.sampled_from(["pay", "done"]))},
                "within": "30s", "expired": draw(st.sampled_from(["pay", "done"])),
            },
            "pay": {"do": "call_tools", "failed": "next", "next": draw(st.sampled_from(["reply", "done"]))},
        }  # fmt: skip
        data["start"] = "reply"
    child = data["machines"]["child"]
    child["tools"] = list(TOOLS)
    child["states"]["think"]["allow"] = draw(st.sampled_from([["look"], list(TOOLS)]))
    for one in (data, child):
        one.pop("approve", None)
        if draw(st.integers(0, 3)):
            one["approve"] = {"tools": draw(st.sampled_from(GATES)), "within": "30s"}
    if "approve" in data and draw(st.booleans()):
        data["approve"]["expired"] = draw(st.sampled_from([n for n in line if n != "aside"]))
    return data


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(consenting_machines(), st.integers(0, 10_000), st.booleans())
def test_no_call_lacks_its_own_accept_where_a_query_says_that_each_has_it(
    data: Any, seed: int, given_: bool
) -> None:
    machine = built_gated(data)
    questions = machine.questions()
    answers = {t: questions.ask(f"each tool:{t} after its own accept") for t in TOOLS}
    sure = [tool for tool, answer in answers.items() if answer]
    for answer in answers.values():
        event(f"{answer.word}: {answer.reason.split('`')[0]}")
    for choices in naming_adversaries(seed):
        asyncio.run(judged(machine, choices, sure, given=given_))


async def judged(machine: Machine, choices: Choices, sure: list[str], *, given: bool) -> None:
    """One run. After each record, every call of a `sure` tool had an `accept` for it, and its own."""
    DONE.clear()
    clock = ManualClock()
    more: Data = {"messages": [{"role": "user", "content": "x"}, GIVEN]} if given else {}
    run = machine.start("task", model=Naming(choices), clock=clock, **more)
    accepted: Counter[tuple[str, str]] = Counter()
    for _ in range(60):
        if run.ended:
            break
        if run.status == "paused" and (asked := run.question) is not None:
            words = list(asked.answers)
            which = choices.of(len(words) + 1)
            if which == len(words):
                clock.advance(31.0)
            else:
                if words[which] == "accept":
                    accepted.update(calls_in(asked.text))
                await run.asend(words[which], wait=asked.wait)
        await run.aadvance()
        for call, times in Counter(DONE).items():
            lacks = call[0] in sure and times > accepted[call]
            assert not lacks, (call, times, dict(accepted), run.result.path)


def calls_in(text: str) -> list[tuple[str, str]]:
    """The calls that a question shows: tool, and the call by its name."""
    shown: list[tuple[str, Mapping[str, str]]] = [
        (n, json.loads(a)) for n, a in SHOWN.findall(text)
    ]
    return [(name, arguments["call"]) for name, arguments in shown]


@pytest.mark.parametrize(
    "head", [{}, {"approve": {"tools": ["look"]}}], ids=["no-gate", "for-another"]
)
def test_the_law_sees_a_call_that_was_accepted_by_no_one(head: Data) -> None:
    """An answer that is wrong on purpose is found out."""
    states = {
        "think": {"do": "infer", "next": "act"}, "act": {"do": "call_tools", "next": "done"},
        "done": {"stop": "completed"},
    }  # fmt: skip
    model = {"name": "scripted", "context_window": 100}
    machine = built_gated(
        {
            "chartloop": 1,
            "machine": "m",
            **head,
            "model": model,
            "tools": list(TOOLS),
            "states": states,
        }
    )
    with pytest.raises(AssertionError, match="'buy'"):
        asyncio.run(judged(machine, Choices((), 0), ["buy"], given=False))
