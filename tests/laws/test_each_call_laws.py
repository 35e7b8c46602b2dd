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
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from chartloop.api import Machine
from chartloop.core.errors import AheadError
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.run.question import Question
from chartloop.testing.clock import ManualClock
from tests.exploring import Choices
from tests.gated import (
    DONE,
    GIVEN,
    TOOLS,
    Data,
    Naming,
    built_gated,
    naming_adversaries,
)

slowly = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
SHOWN = re.compile(r'^\s*(?:\d+\. )?(\w+) (\{"call":.*\})$', re.MULTILINE)
GATES = (None, ["buy"], ["buy"], ["buy", "send"], list(TOOLS))
ALLOWED = (None, None, None, ["buy"], ["look", "send"])
JOBS: Mapping[str, Data] = {
    "infer": {"do": "infer", "failed": "next"},
    "calls": {"do": "call_tools", "failed": "next"},
    "call": {"do": "call_tool", "failed": "next"},
    "strict": {
        "do": "call_tools",
        "with": {"on_error": "fail"},
        "failed": "next",
        "retry": {"times": 2, "on": ["RECOVERABLE"]},
    },
    "file": {
        "do": "tool",
        "with": {"name": "buy", "arguments": {"call": "file"}},
        "failed": "next",
    },
    "task": {"do": "work", "failed": "next"},
    "ask": {"do": "ask_user", "with": {"text": "Do you like cats?"}},
    "child": {"do": "run_machine", "with": {"machine": "child", "task": "x"}, "failed": "next"},
    "shared": {
        "do": "run_machine",
        "with": {"machine": "child", "task": "x", "share": ["messages"]},
        "failed": "next",
    },
    "gate": {"on": {"accept": "", "deny": ""}, "within": "30s"},
}
"""What a state of a generated machine may do."""
LINES = (
    ("infer", "calls"),
    ("infer", "calls"),
    ("infer", "strict"),
    ("infer", "call"),
    ("infer", "calls", "infer", "calls"),
    ("infer", "gate", "calls"),
    ("infer", "gate", "calls"),
    ("gate", "infer", "calls"),
    ("infer", "child", "calls"),
)
MOMENTS = (
    "run.visits.s1 == 1",
    "last.answer is not None",
    "run.visits.s1 == 1 and last.answer is not None",
    "run.steps == 1",
    "run.steps == 3",
)
"""When a detour is made, once."""


class Repeating(Naming):
    """A model whose calls are always the same ones."""

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """As the first of them."""
        self.asked = 0
        return await super().complete(request, on_text)


SOME = ("1.0", "2.0", "4.0", "given", "file")
WHEN = f"call.arguments.call in {json.dumps(SOME)}"
"""The condition of gates with `when`, and the calls for which it holds."""


def gate(draw: st.DrawFn) -> Data:
    """The key `approve`, or nothing."""
    tools = draw(st.sampled_from(GATES))
    more = draw(st.sampled_from([{}, {}, {"when": WHEN}, {"edit": True}, {"remember": True}]))
    return {} if tools is None else {"approve": {"tools": tools, "within": "30s", **more}}


@st.composite
def consenting_machines(draw: st.DrawFn) -> Data:
    """A machine that asks, executes, waits and runs a child, with gates or without."""
    line = [*draw(st.sampled_from(LINES)), *draw(st.lists(st.sampled_from([*JOBS]), max_size=2))]
    names = [f"s{n}" for n in range(len(line))]
    body: Data = {}
    for name, job, ahead in zip(names, line, [*names[1:], "done"], strict=True):
        state = body[name] = {**JOBS[job]}
        onward = draw(st.sampled_from([ahead, ahead, ahead, *names]))
        if job == "gate":
            refused = st.sampled_from([onward, "done", "done", "done", names[0]])
            state |= {"on": {"accept": onward, "deny": draw(refused)}, "expired": draw(refused)}
            continue
        state["next"] = onward
        if (
            job in ("infer", "calls", "call")
            and (allow := draw(st.sampled_from(ALLOWED))) is not None
        ):
            state["allow"] = allow
    rules: list[Data] = [{"when": "run.steps >= 14", "stop": "steps_limit"}]
    if draw(st.booleans()):
        when = f"{draw(st.sampled_from(MOMENTS))} and run.visits.aside == 0"
        rules.append({"when": when, "to": "aside"})
        job = draw(st.sampled_from(["infer", "infer", "ask", "calls", "child"]))
        body["aside"] = {**JOBS[job], "next": "return"}
    last: Data = {}
    if draw(st.integers(0, 3)) == 0:
        last = {"on_stop": "last"}
        body |= {"last": {"do": "call_tools", "next": "over"}, "over": {"end": "by_reason"}}
    held = gate(draw)
    if held and draw(st.booleans()):
        held["approve"]["expired"] = draw(st.sampled_from(names))
    child = {
        "model": {"name": "scripted"}, "tools": list(TOOLS), **gate(draw),
        "states": {
            "think": {"do": "infer", "failed": "next", "next": "act"},
            "act": {"do": "call_tools", "next": "over"}, "over": {"stop": "completed"},
        },
    }  # fmt: skip
    return {
        "chartloop": 1, "machine": "m", "model": {"name": "scripted", "context_window": 100}, **held, **last,
        "tools": list(TOOLS), "tasks": [{"text": "file", "by": {"tool": draw(st.sampled_from(TOOLS))}}],
        "rules": rules, "machines": {"child": child}, "states": {**body, "done": {"stop": "completed"}},
    }  # fmt: skip


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(consenting_machines(), st.integers(0, 10_000), st.sampled_from([Naming, Repeating]))
def test_no_call_lacks_its_own_accept_where_a_query_says_that_each_has_it(
    data: Any, seed: int, model: type[Naming]
) -> None:
    machine = built_gated(data)
    questions = machine.questions()
    sure: set[tuple[str, str]] = set()
    for name in TOOLS:
        for when in ("", WHEN):
            text = f"each tool:{name} {when and f'when {when}'} after its own accept"
            answer = questions.ask(text)
            event(f"{answer.word}: {answer.reason.split('`')[0]}")
            if answer:
                sure.add((name, when))
    for choices in naming_adversaries(seed):
        asyncio.run(judged(machine, model(choices), sure))


async def judged(machine: Machine, model: Naming, sure: Collection[tuple[str, str]]) -> None:
    """One run. After each record, every `sure` call had an `accept` for it, and its own.

    `sure` has tools with the condition that was asked about.
    """
    DONE.clear()
    clock, choices = ManualClock(), model.choices
    more: Data = {"messages": [{"role": "user", "content": "x"}, GIVEN]} if choices.of(2) else {}
    run = machine.start("task", model=model, clock=clock, **more)
    accepted: Counter[tuple[str, str]] = Counter()
    for name in machine.spec.gates:
        with pytest.raises(AheadError):  # no call was shown yet
            await run.asend("accept", ahead=name)
    for _ in range(60):
        if run.ended:
            break
        if run.status == "paused" and (asked := run.question) is not None:
            words = list(asked.answers)
            which = choices.of(len(words) + 1)
            if which == len(words):
                clock.advance(31.0)
            else:
                decided, data = decision(asked, words[which], choices)
                accepted.update(decided)
                await run.asend(words[which], data, wait=asked.wait)
        await run.aadvance()
        for call, times in Counter(DONE).items():
            asked_about = (call[0], "") in sure or (call[1] in SOME and (call[0], WHEN) in sure)
            lacks = asked_about and times > accepted[call]
            assert not lacks, (call, times, dict(accepted), run.result.path)


def decision(
    asked: Question, word: str, choices: Choices
) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """The calls that an answer accepts, as its question shows them, and its data."""
    shown = [(name, json.loads(text)["call"]) for name, text in SHOWN.findall(asked.text)]
    keys = [str(call["key"]) for call in asked.calls]
    if word == "edit":
        other = {"arguments": {"call": [*SOME, "other"][choices.of(len(SOME) + 1)]}}
        return [], {"calls": {keys[0]: other}}
    if word != "accept":
        return [], {}
    data: dict[str, Any] = {"remember": True} if "remember" in asked.answers[word] else {}
    if keys and choices.of(2):
        first, *others = keys
        return shown[:1], {**data, "calls": {first: "accept", **dict.fromkeys(others, "deny")}}
    return shown, data


@pytest.mark.parametrize(
    "head", [{}, {"approve": {"tools": ["look"]}}], ids=["no-gate", "for-another"]
)
def test_the_law_sees_a_call_that_was_accepted_by_no_one(head: Data) -> None:
    """An answer that is wrong on purpose is found out."""
    states = {
        "think": {"do": "infer", "next": "act"}, "act": {"do": "call_tools", "next": "done"},
        "done": {"stop": "completed"},
    }  # fmt: skip
    machine = built_gated(
        {
            "chartloop": 1,
            "machine": "m",
            **head,
            "tools": list(TOOLS),
            "states": states,
            "model": {"name": "scripted", "context_window": 100},
        }
    )
    with pytest.raises(AssertionError, match="'buy'"):
        asyncio.run(judged(machine, Naming(Choices((), 0)), [("buy", "")]))
