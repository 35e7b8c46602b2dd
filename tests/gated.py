"""Machines whose states show and carry out different tools, and a model that names every tool.

The model knows all tools of the machine by name, whatever it is shown, and writes into the
arguments of each call which call it is: what is executed can be traced to what was shown.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from chartloop import tool
from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.api import Machine, Run, lifecycle
from chartloop.core.conversation import assistant
from chartloop.core.errors import Category, ModelError
from chartloop.core.facts import ToolCall
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.run.events import Recorded
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.testing.clock import ManualClock
from tests.exploring import Choices

Data = dict[str, Any]
TOOLS = ("buy", "look", "send")
DONE: list[tuple[str, str]] = []
"""The calls that were executed: tool, and the call by which."""


@tool
async def buy(call: str) -> str:
    """Buys."""
    DONE.append(("buy", call))
    return "bought"


@tool
async def look(call: str) -> str:
    """Looks."""
    DONE.append(("look", call))
    return "seen " * 40


@tool
async def send(call: str) -> str:
    """Sends."""
    DONE.append(("send", call))
    return "sent"


REGISTRY = with_own(specs_of(buy, look, send))


class Naming:
    """A model that calls tools by name, shown or not. `shown` has what was offered, by call."""

    suspends = False

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.shown: dict[str, frozenset[str]] = {}
        self.asked = 0

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing can fail later."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """The file's."""
        return settings.get("context_window")

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """All tools, one of them, the same id as ever, none, or a failure."""
        self.asked += 1
        offered = frozenset(t["function"]["name"] for t in request.tools)
        match self.choices.of(8):
            case 0 | 1:
                return self._calling(TOOLS, offered)
            case 2:
                return self._calling(TOOLS[:1], offered)
            case 3:
                return self._calling((*reversed(TOOLS), "none"), offered)
            case 4:
                return self._calling(TOOLS[1:], offered)
            case 5 | 6:
                return ModelReply("hi", (), "stop", 3, 2)
            case _:
                raise ModelError("no", category=Category.RECOVERABLE)

    def _calling(self, names: tuple[str, ...], offered: frozenset[str]) -> ModelReply:
        calls: list[ToolCall] = []
        for n, name in enumerate(names):
            written = f"{self.asked}.{n}"
            self.shown[written] = offered
            calls.append(ToolCall(f"id{n}", name, json.dumps({"call": written})))
        return ModelReply("hi", tuple(calls), "tool_calls", 3, 2)


GIVEN = assistant(
    "", [ToolCall(f"g{n}", t, json.dumps({"call": "given"})) for n, t in enumerate(TOOLS)]
)
"""A message of a conversation that the caller gives, with calls in it."""


def built_gated(data: Data | str) -> Machine:
    """A machine with these tools, not through the checker."""
    text = data if isinstance(data, str) else json.dumps(data)
    loaded = load(text, "generated.yaml", REGISTRY)
    assert loaded.ok, "\n\n".join(f.render() for f in loaded.findings)
    assert loaded.spec is not None
    return Machine(Chart(loaded.spec, lifecycle()))


async def played_gated(
    machine: Machine, choices: Choices, *, given: bool, heard: list[Recorded], longest: int = 40
) -> tuple[Run, Naming, list[tuple[str, str]]]:
    """One run, the model that it asked, and the calls that were executed."""
    DONE.clear()
    model, clock = Naming(choices), ManualClock()
    more: Data = {"messages": [{"role": "user", "content": "x"}, GIVEN]} if given else {}
    run = machine.start("task", model=model, clock=clock, **more)
    run.session.listener = lambda e: heard.append(e) if isinstance(e, Recorded) else None
    for _ in range(longest):
        if run.ended:
            break
        wait = machine.chart.events_at(run.state) if run.state in machine.chart.waiting else ()
        if wait and run.status == "paused":
            which = choices.of(len(wait) + 1)
            if which < len(wait):
                await run.asend(wait[which])
            else:
                clock.advance(31.0)
        await run.aadvance()
    return run, model, list(DONE)


def naming_adversaries(seed: int) -> Iterator[Choices]:
    """One that always calls everything, some that alternate, and random ones."""
    yield Choices((), 0)
    for first, then in ((0, 5), (2, 5), (5, 0), (3, 4)):
        yield Choices([first, then] * 40, first)
    chance = random.Random(seed)  # noqa: S311  no secret
    for _ in range(6):
        yield Choices([chance.randrange(8) for _ in range(80)], chance.randrange(8))


JOBS = ("infer", "infer", "tools", "wait", "prompt", "prune", "tool", "child")
LINES = (
    ("infer", "", "tools"), ("infer", "", "", "tools"), ("infer", "tools", "", "tools"),
    ("", "tools"), ("", "infer", "", "tools"), ("infer", "", "infer", "tools"), ("", "", "", ""),
)  # fmt: skip
"""What the states of a machine do, one after the other; empty: anything."""


@st.composite
def gated_states(draw: st.DrawFn, job: str, ahead: str, names: list[str]) -> Data:
    """A state that asks, carries out, waits or shortens the conversation. Mostly it leads on."""
    onward = st.sampled_from([*[ahead] * 12, *names])
    job = job or draw(st.sampled_from(JOBS))
    if job == "wait":
        return {"on": {"yes": draw(onward), "no": draw(onward)}, "within": "30s", "expired": ahead}
    out: Data = {"failed": "next"}
    allowed = draw(st.sampled_from([None, [], ["look"], ["look", "send"], ["buy"], list(TOOLS)]))
    match job:
        case "infer":
            out["do"] = "infer"
            if draw(st.integers(0, 2)) == 0:
                out["with"] = {"keep": draw(st.sampled_from([False, False, True]))}
        case "tools":
            out["do"] = draw(st.sampled_from(["call_tools", "call_tools", "call_tool"]))
        case "prompt":
            out |= {"do": "prompt", "with": {"user": "Is it safe?", "keep": draw(st.booleans())}}
        case "prune":
            strategy = draw(st.sampled_from(["sliding", "truncate", "essentials"]))
            out |= {"do": "prune_context", "with": {"strategy": strategy, "target": "1%"}}
        case "tool":
            given = {"name": draw(st.sampled_from(TOOLS)), "arguments": {"call": "file"}}
            out |= {"do": "tool", "with": given}
        case _:
            share = draw(st.sampled_from([[], ["messages"]]))
            out |= {"do": "run_machine", "with": {"machine": "child", "task": "x", "share": share}}
    if job in ("infer", "tools") and allowed is not None:
        out["allow"] = allowed
    out["next"] = draw(onward)
    if draw(st.integers(0, 3)) == 0:
        asks = [
            "len(last.tool_calls) > 0",
            "last.ok",
            'any(c.name == "buy" for c in last.tool_calls)',
        ]
        out["next"] = [{"when": draw(st.sampled_from(asks)), "to": draw(onward)}, out["next"]]
    return out


@st.composite
def gated_machines(draw: st.DrawFn) -> Data:
    """A machine with states that show, carry out and hold back."""
    line = draw(st.sampled_from(LINES))
    names = [f"s{n}" for n in range(len(line))]
    ahead = [*names[1:], draw(st.sampled_from([*names, "done"]))]
    body = {
        name: draw(gated_states(job, to, [*names, "done"]))
        for name, job, to in zip(names, line, ahead, strict=True)
    }
    rules: list[Data] = [{"when": "run.steps >= 12", "stop": "steps_limit"}]
    if draw(st.booleans()):
        allow = draw(st.sampled_from([[], ["buy"]]))
        body["aside"] = {"do": "infer", "allow": allow, "failed": "next", "next": "return"}
        rules.append({"when": f"run.steps == {draw(st.integers(1, 5))}", "to": "aside"})
    body["done"] = {"stop": "completed"}
    shown = draw(st.sampled_from([["look"], ["look", "send"]]))
    onward = draw(st.sampled_from(["over", "act"]))
    child = {
        "model": {"name": "scripted"}, "tools": ["look", "send"],
        "states": {
            "think": {"do": "infer", "allow": shown, "failed": "next", "next": onward},
            "act": {"do": "call_tools", "next": "over"}, "over": {"stop": "completed"},
        },
    }  # fmt: skip
    held = draw(st.sampled_from([{}, {}, {"approve": {"tools": ["buy"], "within": "30s"}}]))
    return {
        "chartloop": 1, "machine": "gated", **held, "model": {"name": "scripted", "context_window": 100},
        "tools": list(TOOLS), "rules": rules, "machines": {"child": child}, "states": body,
    }  # fmt: skip
