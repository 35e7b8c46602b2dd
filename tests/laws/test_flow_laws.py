"""No flow of data that happened in a run was denied.

Every tool gives its mark back, and all marks that it was given; a model writes all marks that it was
sent, as text and as arguments. So a mark that reaches a tool shows that data of the marked tool, or
input, may reach it: no query may say that it does not.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chartloop import AgentStop, Context, tool
from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.analysis.proofs.query import Questions
from chartloop.api import Machine, lifecycle
from chartloop.core.errors import ToolError
from chartloop.core.facts import ToolCall
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.testing.clock import ManualClock
from tests.exploring import Choices

Data = dict[str, Any]
slowly = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
TOOLS = ("fetch", "crm", "mail", "mail_all", "quit")
SINKS = (*TOOLS, "out")
INPUTS = ("task", "w", "answer", "tasks")
LABELLED = {"<fetch>": "untrusted", "<crm>": "private"}
"""The marks of the tools that declare a label; screens end the first."""
MARK = re.compile(r"<(?:fetch|crm|mail|mail_all|quit|broken|task|w|answer|tasks)>")
GOT: dict[str, set[str]] = {}
"""The marks that each tool was given in the runs that are going on, and what was sent out."""


def marks(data: object) -> str:
    """All marks in some data."""
    text = json.dumps(data, default=str).replace("\\", "")  # a report escapes them
    return "".join(sorted(set(MARK.findall(text))))


def got(name: str, text: str) -> str:
    for to in (name, "out") if name.startswith("mail") else (name,):
        GOT.setdefault(to, set()).update(MARK.findall(marks(text)))
    return f"<{name}>{marks(text)}"


@tool(data={"from": "untrusted"})
def fetch(text: str) -> str:
    """Fetch."""
    return got("fetch", text)


@tool(data={"reads": "private"})
def crm(text: str) -> str:
    """Look up."""
    return got("crm", text)


@tool(data={"sends": "out"})
def mail(text: str) -> str:
    """Send."""
    return got("mail", text)


@tool(data={"sends": "out"})
def mail_all(ctx: Context, text: str) -> str:
    """Send all that it knows of the run."""
    known = [text, ctx.facts.to_dict(), [*ctx.messages.whole()], ctx.position.signals.to_list()]
    return got("mail_all", marks(known))


@tool(data={"from": "trusted"})
def quit(text: str) -> str:
    """Stop the run, and say why."""
    raise AgentStop(got("quit", text), reason="custom", context={"said": text})


@tool(data={"from": "trusted"})
def broken(text: str) -> str:
    """Fail, and say what it was given."""
    raise ToolError(text)


@tool(data={"from": "trusted"})
def judge(text: str) -> Data:
    """Take out what is untrusted."""
    return verdict(got("judge", text))


def verdict(text: str) -> Data:
    """What a screen is told of a text."""
    cut = sorted({"<fetch>"} & set(MARK.findall(text)))
    return {"verdict": "redact" if cut else "pass", "reason": "so", "remove": cut}


REGISTRY = with_own(specs_of(fetch, crm, mail, mail_all, quit, broken, judge))


class Post:
    """A notifier that keeps the marks of what it sends."""

    suspends = False

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        """Sends it out."""
        GOT.setdefault("out", set()).update(MARK.findall(marks([text, dict(data)])))


class Echo:
    """A model that repeats all marks that it is sent, and calls what is chosen with them."""

    suspends = False

    def __init__(self, choices: Choices) -> None:
        self.choices = choices

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing can fail later."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """Of some size."""
        return 1000

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """A text with a tag around all marks; calls of none, one or two tools."""
        text = marks(list(request.messages))
        name = str(request.settings.get("name", ""))
        if str(request.messages[0]["content"]).startswith("You screen"):
            return ModelReply(json.dumps(verdict(text)), (), "stop", 1, 1)
        offered = any(tool["function"]["name"] == "child" for tool in request.tools)
        names = [*TOOLS, "child"] if offered else TOOLS
        given = {"child": {"task": text, "n": text, "memory_m": text}}
        names = [n for n in names if n != "quit" or self.choices.of(4) == 0]  # it ends the run
        calls = [
            ToolCall(f"c{n}", name, json.dumps(given.get(name, {"text": text})))
            for n in range(self.choices.of(3))
            for name in [names[self.choices.of(len(names))]]
        ]
        why = "tool_calls" if calls else "stop"
        return ModelReply(f"<A>{text}</A>", tuple(calls), why, 1, 1, model=name)


READABLE = (
    "last.text", "last.result", "vars.v", "vars.w", "memory.m", "run.task", "last.answer",
    "queue.current", "last.tool_calls", "errors.last", "last.model", "last", "run", "signals",
    "limits.tag",
)  # fmt: skip


SCREEN = {"tool": "judge", "clears": ["untrusted"], "stop": "custom"}


@st.composite
def bodies(draw: st.DrawFn, ends: list[str]) -> Data:
    """A state that moves data, or lets a model or a tool do it."""
    x = draw(st.sampled_from(READABLE))
    said = "{{ " + x + " }}"
    var = draw(st.sampled_from(["vars.v", "vars.w"]))
    onward = st.sampled_from(ends)
    part = draw(st.sampled_from(["result", "result"]))
    body: Data = draw(st.sampled_from([
        {"do": "infer"}, {"do": "infer"}, {"do": "infer", "with": {"keep": False}},
        {"do": "infer", "allow": ["fetch"]}, {"do": "infer", "save": {var: "result.text"}},
        {"do": "infer", "with": {"model": said}}, {"do": "notify", "with": {"text": "It is done."}},
        {"do": "notify", "with": {"text": said}}, {"do": "report", "save": {var: "result.text"}},
        {"do": "report", "save": {"vars.list": "result"}},
        {"do": "signal", "with": {"reason": "soft", "message": said}},
        {"do": "signal", "with": {"reason": "custom", "message": said}}, {"do": "continue_run"},
        {"do": "call_tools"}, {"do": "call_tools"}, {"do": "call_tool"}, {"do": "receive"},
        {"do": "call_tools", "allow": ["crm", "mail"]},
        *[{"do": "tool", "with": {"name": t, "arguments": {"text": said}}, "save": {var: part}}
          for t in TOOLS],
        *[{"do": "tool", "with": {"name": t, "arguments": {"text": said}}} for t in TOOLS],
        {"do": "nothing", "with": {"input": {"x": said}}, "save": {var: "result.x"}},
        {"do": "nothing", "set": {"vars.v": "vars.w"}}, {"do": "nothing", "set": {var: '""'}},
        {"do": "nothing", "set": {"vars.w": "last.text"}}, {"do": "nothing", "set": {"vars.flag": "True"}},
        {"do": "prompt", "with": {"user": said}},
        {"do": "prompt", "with": {"user": said, "keep": True}},
        {"do": "prompt", "with": {"user": "hi", "system": said}},
        {"do": "set", "with": {"vars.v": "vars.w"}}, {"do": "parse", "with": {var: {"tag": "A"}}},
        {"do": "update_memory", "with": {"block": "m", "append": said}}, {"do": "update_memory"},
        {"do": "screen", "with": SCREEN}, {"do": "screen", "with": SCREEN | {"clears": []}},
        *[{"do": "screen", "with": {"stop": "custom", "clears": ["untrusted"], **how}}
          for how in ({"look_for": "marks"}, {"machine": "judging"})],
        {"do": "screen", "with": SCREEN | {"text": said}, "save": {var: "result.text"}},
        {"do": "prune_context", "with": {"strategy": "essentials", "target": "1%"}},
        {"do": "checkpoint"}, {"do": "restore"}, {"do": "measure"}, {"do": "work"},
        {"do": "enqueue", "with": {"tasks": "vars.v"}},
        {"do": "report", "with": {"text": said}, "save": {var: "result.text"}},
        {"do": "prune_context", "with": {"strategy": "summarize", "target": "1%"}},
        {"do": "run_machine", "with": {"machine": "child", "task": said}, "save": {var: "result.text"}},
        {"do": "run_machine", "with": {"machine": "child", "vars": {"n": "vars.w"}},
         "save": {var: "result.output"}},
        {"do": "run_machine", "with": {"machine": "child", "task": said, "start": "raw"}},
        {"do": "run_machine", "with": {"machine": "child", "vars": {"n": "vars.w"}},
         "save": {var: "{{ result.signals }}{{ result.warnings }}{{ result.errors }}"}},
        {"do": "run_machine", "with": {"machine": "child", "task": "x", "limits": {"tag": "vars.w"}},
         "save": {var: "result.output"}},
        {"do": "run_machine", "with": {"machine": "child", "memory": {"m": said}}},
        {"do": "run_machine", "with": {"machine": "child", "task": "x", "share": ["messages"]}},
        {"do": "run_machine", "with": {"machine": "child", "task": "x", "share": ["memory"]}},
        {"do": "run_machines", "with": {"machine": "child", "each": "[vars.v, vars.w]"},
         "save": {"vars.list": "result.outputs"}},
        {"on": {"yes": draw(onward), "no": {
            "to": draw(onward), "data": {"note": "str"}, "set": {var: "last.answer.note"}}}},
    ]))  # fmt: skip
    body = dict(body)
    if "on" in body:
        if draw(st.booleans()):
            body["on"]["no"] |= {"stop": "custom", "message": said}
        return body
    edge: Any = draw(onward)
    if draw(st.integers(0, 9)) == 0:
        edge = {"to": edge, "stop": "custom", "message": said}
    elif draw(st.integers(0, 4)) == 0:
        edge = {"to": edge, "set": {draw(st.sampled_from(["vars.v", "vars.w"])): draw(
            st.sampled_from(["last.text", "vars.w", '""', "run.task"]))}}  # fmt: skip
    other = {"when": f"run.steps % {draw(st.integers(2, 3))} == 0", "to": draw(onward)}
    body["next"] = [other, edge]
    body["failed"] = "next"
    return body


TAG: Data = {"type": "str", "value": ""}


def child(inner: Data, told: Data, status: str) -> Data:
    """A child that moves data of its own, with what it says of its end."""
    return {
        "model": {"name": "scripted"}, "tools": [*TOOLS], "vars": {"n": ""}, "memory": {"m": ""},
        "limits": {"steps": 6, "tag": TAG},
        "rules": [{"when": "run.steps >= limits.steps", "stop": "custom", **told}],
        "reasons": {"custom": {"priority": 6, "status": status}},
        "states": {"a": inner | {"next": "b", "failed": "next"}, "b": {"do": "infer", "next": "c"},
                   "c": {"do": "call_tools", "next": "done"},
                   "raw": tooled("mail", "{{ run.task }}", next="done"),
                   "done": {"stop": "completed", **told}},
        "output": {"n": "vars.n", "text": "last.text", "tag": "limits.tag"},
        "inputs": {"task": {}, "n": {}, "memory.m": {}},
    }  # fmt: skip


@st.composite
def lines(draw: st.DrawFn) -> Data:
    """States one after the other, so that each has to pass on what a tool gave at the beginning."""
    names = [f"s{n}" for n in range(draw(st.integers(3, 6)))]
    states: Data = {}
    for name, after in zip(names, [*names[1:], "done"], strict=True):
        body = draw(bodies([after]))
        if "next" in body:
            body["next"] = body["next"][1]
        states[name] = body
    x = "{{ " + draw(st.sampled_from(READABLE)) + " }}"
    states["done"] = {
        "do": "tool",
        "with": {"name": "mail", "arguments": {"text": x}},
        "next": "end",
    }
    return states | {"end": {"stop": "completed"}}


@st.composite
def webs(draw: st.DrawFn) -> Data:
    """States that lead anywhere."""
    names = [f"s{n}" for n in range(draw(st.integers(2, 6)))]
    return {n: draw(bodies([*names, "done"])) for n in names} | {"done": {"stop": "completed"}}


@st.composite
def machines(draw: st.DrawFn) -> Data:
    """Machines that carry data about."""
    states: Data = draw(st.one_of(lines(), lines(), webs()))
    said = st.sampled_from(READABLE).map("{{{{ {} }}}}".format)
    told = draw(st.sampled_from([
        {}, {"message": "{{ vars.n }}"}, {"message": "{{ run.task }}"}, {"message": "{{ last.text }}"},
    ]))  # fmt: skip
    inner = draw(st.sampled_from([
        {"do": "receive"}, {"do": "nothing"}, {"do": "infer"},
        {"do": "tool", "with": {"name": "crm", "arguments": {"text": "{{ vars.n }}"}},
         "save": {"vars.n": "result"}},
        {"do": "prompt", "with": {"user": "{{ memory.m }}"}},
        {"do": "nothing", "set": {"vars.n": "run.task"}},
        noted("{{ limits.tag }}", save={"vars.n": "result.x"}),
        tooled("quit", "{{ vars.n }}"), tooled("broken", "{{ run.task }}"),
    ]))  # fmt: skip
    status = draw(st.sampled_from(["completed", "error"]))
    out = carrier(states, inner, told=told, status=status)
    for kind in ("stop", "signal") if draw(st.booleans()) else ():
        when = draw(st.sampled_from(["run.steps >= 4", 'vars.w != "" and run.steps >= 3']))
        end = {"to": draw(st.sampled_from(sorted(states)))} if kind == "stop" else {}
        reason = "soft" if kind == "signal" else "custom"
        says = {"message": draw(said)} if draw(st.booleans()) else {}
        out["rules"] = [*out["rules"], {"when": when, kind: reason, **says, **end}]
    if draw(st.booleans()):
        out["resume_at"] = [draw(st.sampled_from(sorted(states)))]
    if draw(st.booleans()):
        told = draw(st.sampled_from(["vars.v", "memory.m", "run.task"]))
        out["instructions"] = "{{ " + told + " }}"
    return out


TRUSTED = {"from": "trusted"}
JUDGING: Data = {
    "vars": {"said": {"type": "map[any]", "value": {}}},
    "limits": {"steps": 6}, "rules": [{"when": "run.steps >= limits.steps", "stop": "steps_limit"}],
    "states": {"a": {"do": "tool", "with": {"name": "judge", "arguments": {"text": "{{ run.task }}"}},
                     "save": {"vars.said": "result"}, "next": "done"}, "done": {"stop": "completed"}},
    "output": "vars.said",
}  # fmt: skip
"""A child that judges for a screen."""


def carrier(
    states: Data, inner: Data, *, told: Data | None = None, status: str = "completed"
) -> Data:  # fmt: skip
    """The machine of these states, with a child that begins with what is `inner`."""
    return {
        "chartloop": 1, "machine": "carrier", "model": {"name": "scripted"},
        "tools": [*TOOLS, "broken", "core_memory_append", "core_memory_read", "conversation_search",
                  "child"],
        "limits": {"steps": 25, "tag": TAG}, "vars": {"flag": False, "v": "", "w": "", "list": {"type": "map[any]", "value": {}}},
        "memory": {"m": ""}, "states": states, "machines": {"child": child(inner, told or {}, status), "judging": JUDGING},
        "inputs": {"task": TRUSTED, "w": TRUSTED, "answer": TRUSTED, "tasks": TRUSTED},
        "reasons": {"custom": {"priority": 6, "status": "completed"},
                    "soft": {"priority": 7, "status": "completed"}},
        "rules": [{"when": "run.steps >= limits.steps", "stop": "steps_limit"},
                  {"when": "vars.flag", "signal": "soft", "message": "{{ vars.v }}"}],
        "tasks": [{"text": "a"}, {"text": "b", "by": {"tool": "crm"}},
                  {"text": "c", "by": {"machine": "child"}}],
    }  # fmt: skip


class Carry(NamedTuple):
    """A way to bring data from one part of a run into another: states, one after the other."""

    into: str
    states: tuple[Data, ...]
    instructions: str = ""


def tooled(name: str, text: str, **more: Any) -> Data:
    return {"do": "tool", "with": {"name": name, "arguments": {"text": text}}, **more}


def noted(text: str, **more: Any) -> Data:
    return {"do": "nothing", "with": {"input": {"x": text}}, **more}


STOPS: Data = noted("", next={"stop": "custom", "message": "{{ vars.v }}"})
"""A state from which the run goes on in its epilogue, with a message of its stop."""
ASKED: tuple[Data, ...] = ({"do": "infer"}, {"do": "call_tools"})
CARRIES: Mapping[str, tuple[Carry, ...]] = {
    "v": (
        Carry("w", (noted("{{ vars.v }}", save={"vars.w": "result.x"}),)),
        Carry("w", (noted("", set={"vars.w": "vars.v"}),)),
        Carry("w", ({"do": "set", "with": {"vars.w": "vars.v"}},)),
        Carry("w", ({"do": "nothing", "next": {"set": {"vars.w": "vars.v"}}},)),
        Carry("w", (tooled("fetch", "{{ vars.v }}", save={"vars.w": "result"}),)),
        Carry("m", ({"do": "update_memory", "with": {"block": "m", "append": "{{ vars.v }}"}},)),
        Carry("reply", ({"do": "prompt", "with": {"user": "{{ vars.v }}"}}, {"do": "infer"})),
        Carry("reply", ({"do": "prompt", "with": {"user": "x", "system": "{{ vars.v }}"}},
                        {"do": "infer", "with": {"keep": False}})),
        Carry("reply", ({"do": "infer"},), "{{ vars.v }}"),
        Carry("v", ({"do": "checkpoint"}, noted("", set={"vars.v": '""'}), {"do": "restore"})),
        Carry("w", ({"do": "enqueue", "with": {"tasks": "vars.v"}}, *[
            {"do": "work", "save": {"vars.w": "result.text"}}] * 4)),
        Carry("w", (tooled("broken", "{{ vars.v }}"),
                    noted("{{ errors.last.message }}", save={"vars.w": "result.x"}))),
        Carry("w", ({"do": "run_machine", "with": {"machine": "child", "task": "{{ vars.v }}"},
                     "save": {"vars.w": "result.text"}},)),
        Carry("w", ({"do": "run_machine", "with": {"machine": "child", "vars": {"n": "vars.v"}}},
                    noted("{{ last.result.output.n }}", save={"vars.w": "result.x"}))),
        Carry("messages", ({"do": "run_machine", "with": {
            "machine": "child", "task": "{{ vars.v }}", "share": ["messages"]}},)),
        Carry("w", ({"do": "run_machines", "with": {"machine": "child", "each": "[vars.v]"}},
                    noted("{{ last.result.outputs }}", save={"vars.w": "result.x"}))),
        Carry("w", (noted("", set={"vars.flag": "True"}), noted("", set={"vars.flag": "False"}),
                    {"do": "report", "save": {"vars.w": "result.text"}})),
        Carry("w", (STOPS, {"do": "report", "save": {"vars.w": "result.text"}})),
        Carry("w", (STOPS, {"do": "report"}, noted("{{ last.result.signals }}", save={"vars.w": "result.x"}))),
        Carry("w", ({"do": "run_machine", "with": {"machine": "child", "task": "{{ vars.v }}"}},
                    noted("{{ last.result.signals }}", save={"vars.w": "result.x"}))),
        Carry("w", ({"do": "run_machine", "with": {"machine": "child", "limits": {"tag": "vars.v"}}},
                    noted("{{ last.result.output }}", save={"vars.w": "result.x"}))),
        Carry("w", ({"do": "infer", "with": {"model": "{{ vars.v }}"}},
                    noted("{{ last.model }}", save={"vars.w": "result.x"}))),
    ),
    "w": (
        Carry("v", (noted("", set={"vars.v": "vars.w"}),)),
        Carry("v", ({"do": "set", "with": {"vars.v": "vars.w"}}, noted("", set={"vars.w": '""'}))),
    ),
    "m": (
        Carry("reply", ({"do": "infer"},)),
        Carry("v", (noted("{{ memory.m }}", save={"vars.v": "result.x"}),)),
        Carry("v", ({"do": "run_machine", "with": {"machine": "child", "share": ["memory"]},
                     "save": {"vars.v": "result.text"}},)),
    ),
    "reply": (
        Carry("v", (noted("{{ last.text }}", save={"vars.v": "result.x"}),)),
        Carry("v", ({"do": "parse", "with": {"vars.v": {"tag": "A"}}},)),
        Carry("v", (noted("", set={"vars.v": "last.text"}),)),
        Carry("messages", ({"do": "call_tools"},)),
    ),
    "messages": (
        Carry("reply", ({"do": "infer"},)),
        Carry("reply", ({"do": "prune_context", "with": {"strategy": "summarize", "target": "1%"}},
                        {"do": "infer"})),
    ),
}  # fmt: skip
"""By the part of a run that holds data: how it can get into another one."""
SENDS: Mapping[str, tuple[Data, ...]] = {
    "v": (tooled("mail", "{{ vars.v }}"),), "w": (tooled("mail", "{{ vars.w }}"),),
    "m": (tooled("mail", "{{ memory.m }}"),), "reply": (tooled("mail", "{{ last.text }}"),),
    "messages": ASKED,
}  # fmt: skip


@st.composite
def walks(draw: st.DrawFn, source: str) -> Data:
    """Data of a tool, or of an input, that is carried through some parts of a run, and then sent."""
    held, instructions = ("v", "") if source == "crm" else ("w", "")
    states: list[Data] = [tooled("crm", "x", save={"vars.v": "result"})] if source == "crm" else []
    for _ in range(draw(st.integers(0, 4))):
        carry = draw(st.sampled_from(CARRIES[held]))
        states += carry.states
        held, instructions = carry.into, carry.instructions or instructions
    sent: tuple[Data, ...] = draw(st.sampled_from([SENDS[held], *([ASKED] if held == "m" else [])]))
    return in_line([*states, *sent], instructions)


def in_line(states: list[Data], instructions: str) -> Data:
    """The machine of states one after the other."""
    named: Data = {}
    for number, state in enumerate(states):
        to: Data = {"to": f"s{number + 1}", **state.get("next", {})}
        named[f"s{number}"] = state | {
            "next": to["to"] if len(to) == 1 else [to],
            "failed": to["to"],
        }
    named[f"s{len(states)}"] = {"stop": "completed"}
    return carrier(named, {"do": "receive"}, told={"message": "{{ run.task }}"}) | (
        {"instructions": instructions} if instructions else {}
    )


@pytest.mark.parametrize("number", range(len(CARRIES["v"])))
def test_each_way_alone_is_found(number: int) -> None:
    """Data of an input, which nothing before has put into a result, an error or a signal."""
    carry = CARRIES["v"][number]
    moved = [noted("", set={"vars.v": "vars.w"}), noted("", set={"vars.w": '""'})]
    data = in_line([*moved, *carry.states, *SENDS[carry.into]], carry.instructions)
    machine = made(data)
    asyncio.run(held_against(machine, set(), Choices([1, 2] * 20)))
    assert "<w>" in GOT.get("mail", ()), data["states"]
    assert Questions(machine.chart).ask("no flow input:w to mail").holds is False, data["states"]


@pytest.mark.slow("tries many machines for seconds")
@slowly
@given(st.data(), st.sampled_from(["crm", "input:w"]))
def test_what_is_carried_to_a_tool_is_found(drawn: st.DataObject, source: str) -> None:
    data = drawn.draw(walks(source))
    machine = made(data)
    answer = Questions(machine.chart).ask(f"no flow {source} to mail")
    asyncio.run(held_against(machine, set(), Choices([1, 2] * 20)))
    assert f"<{source.removeprefix('input:')}>" in GOT.get("mail", ()), data["states"]
    assert answer.holds is False, data["states"]
    assert answer.witness[0] == "s0"
    assert answer.edges


LOOK: tuple[Data, ...] = (
    {"do": "screen", "with": SCREEN}, {"do": "screen", "with": SCREEN | {"clears": []}},
    *[{"do": "screen", "with": SCREEN | {"text": f"{{{{ vars.{a} }}}}"}, "save": {f"vars.{b}": "result.text"}}
      for a in "vw" for b in "vw"],
    {"do": "screen", "with": {"stop": "custom", "clears": ["untrusted"], "look_for": "marks"}},
)  # fmt: skip
KEPT: Data = {"do": "prompt", "with": {"user": "{{ vars.v }}", "keep": True}}
TALKS: Mapping[str, tuple[Carry, ...]] = {
    "v": (Carry("messages", (KEPT, {"do": "infer"})), Carry("messages", (KEPT,))) * 4,
    "messages": (Carry("messages", ({"do": "infer"}, {"do": "call_tools"})),
                 Carry("messages", ({"do": "infer"}, noted("", set={"vars.v": '""'})))) * 2,
}  # fmt: skip
"""More ways that lead through the conversation, where screens look."""


@st.composite
def screened_walks(draw: st.DrawFn) -> Data:
    """Untrusted data that is carried about, here and there past a screen, and then sent."""
    held, states, instructions = "v", [tooled("fetch", "x", save={"vars.v": "result"})], ""
    for _ in range(draw(st.integers(1, 4))):
        states += draw(st.lists(st.sampled_from(LOOK), max_size=1))
        carry = draw(st.sampled_from([*CARRIES[held], *TALKS.get(held, ())]))
        states += carry.states
        held, instructions = carry.into, carry.instructions or instructions
    states += draw(st.lists(st.sampled_from(LOOK), max_size=1))
    last = ({"do": "infer"}, *SENDS["reply"])
    states += last if held == "messages" else SENDS[held]
    named: Data = {}
    for n, state in enumerate(states):  # what fails ends the run: it leaves what was there before
        to = f"s{n + 1}"
        fails = state.get("with", {}).get("name") == "broken"
        failed = {"failed": to} if fails else {}
        named[f"s{n}"] = state | {"next": [{**state.get("next", {}), "to": to}], **failed}
    named[f"s{len(states)}"] = {"stop": "completed"}
    return carrier(named, {"do": "receive"}) | (
        {"instructions": instructions} if instructions else {}
    )


@pytest.mark.slow("tries many machines for seconds")
@settings(slowly, max_examples=150)
@given(screened_walks(), st.sampled_from([[1, 0], [1, 1], [0, 0]]))
def test_what_no_screen_took_out_is_found(data: Data, chosen: list[int]) -> None:
    machine = made(data)
    denied = {
        (label, to) for to in TOOLS for label in LABELLED.values()
        if Questions(machine.chart).ask(f"no flow {label} to {to}").holds
    }  # fmt: skip
    asyncio.run(held_against(machine, denied, Choices(chosen * 20)))


@pytest.mark.slow("tries many machines for seconds")
@slowly
@given(machines(), st.integers(0, 10_000))
def test_no_flow_that_happened_was_denied(data: Data, seed: int) -> None:
    machine = made(data)
    questions = Questions(machine.chart)
    denied = {
        (source, to) for to in SINKS for source in (*TOOLS, *(f"input:{name}" for name in INPUTS))
        if questions.ask(f"no flow {source} to {to}").holds
    }  # fmt: skip
    denied |= {
        (label, to) for to in SINKS for label in LABELLED.values()
        if questions.ask(f"no flow {label} to {to}").holds
    }  # fmt: skip
    for number in range(4):
        chance = random.Random(seed * 4 + number)  # noqa: S311  no secret
        choices = Choices([chance.randrange(6) for _ in range(200)])
        asyncio.run(held_against(machine, denied, choices))


def made(data: Data) -> Machine:
    """The machine, not through the checker."""
    loaded = load(json.dumps(data), "generated.yaml", REGISTRY)
    assert loaded.ok, "\n\n".join(f.render() for f in loaded.findings)
    assert loaded.spec is not None
    return Machine(Chart(loaded.spec, lifecycle()))


async def held_against(machine: Machine, denied: set[tuple[str, str]], choices: Choices) -> None:
    """Play a run, and hold the marks that tools were given against what was denied."""
    GOT.clear()
    run = None
    for _ in range(2):  # the second goes on with what the first left
        run = machine.start(
            "<task>", vars={} if run else {"w": "<w>"}, model=Echo(choices), clock=ManualClock(),
            notifier=Post(),
            continues=run, start=(*machine.spec.resume_at, "")[0] if run else "",
        )  # fmt: skip
        for _ in range(60):
            if run.ended:
                break
            if run.state in machine.chart.waiting and run.status == "paused":
                event = ("yes", "no")[choices.of(2)]
                await run.asend(event, {"note": "<answer>"} if event == "no" else {})
            await run.aadvance()
        if not run.ended:
            break
    for to, given_ in GOT.items():
        for mark in given_:
            name = mark.strip("<>")
            source = f"input:{name}" if name in INPUTS else name
            assert (source, to) not in denied, f"no flow {source} to {to}"
            assert (LABELLED.get(mark), to) not in denied, f"no flow {LABELLED.get(mark)} to {to}"
