"""Where text may be: every fact, result, port and entry of the package is in the table of cells.

Real runs check the table: each part of a run holds a text of its own, an action is done, and
whatever arrives at a tool must not have been proven to stay away.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import pytest

import chartloop
from chartloop import AgentStop, Context, tool
from chartloop.actions import builtin, with_own
from chartloop.actions.declare import specs_of
from chartloop.analysis.proofs.query import Questions
from chartloop.analysis.proofs.query.data_movements import cells_of_fact
from chartloop.api import Machine, Run, lifecycle
from chartloop.core.cells import ASSUMED, CELLS, ENTRIES, OWN, PORTS
from chartloop.core.facts import FACTS, ToolCall
from chartloop.core.records import RecordKind
from chartloop.core.types import Type
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.run import ports, tracing
from chartloop.run.children import ChildStart
from chartloop.run.ports import ModelReply, ModelRequest, OnText, SandboxResult
from chartloop.testing.clock import ManualClock

Data = dict[str, Any]
SOURCES = ("task", "w", "v", "memory.m", "answer", "messages", "tasks")
SENT: list[str] = []
"""The texts that were sent out in the run that is going on."""


def marks(text: str) -> set[str]:
    plain = text.replace("\\", "")  # a report escapes them
    return {name for name in SOURCES if f"<{name}>" in plain}


def whole(text: str) -> str:
    return "".join(f"<{name}>" for name in sorted(marks(text)))


@tool(data={"sends": "out"})
def mail(text: str) -> str:
    """Send."""
    SENT.append(text)
    return "sent"


@tool(data={"sends": "out"})
def mail_all(ctx: Context, text: str) -> str:
    """Send all that it knows."""
    SENT.append(json.dumps([ctx.facts.to_dict(), [*ctx.messages.whole()]], default=str))
    return "sent"


@tool(data={"from": "trusted"})
def echo(text: str) -> str:
    """Give it back."""
    return whole(text)


@tool(data={"from": "trusted"})
def quit(text: str) -> str:
    """Stop, and say why."""
    raise AgentStop(text, reason="odd", context={"said": text})


@tool(data={"from": "trusted"})
def judge(text: str) -> Data:
    """Let it pass."""
    return {"verdict": "pass", "reason": f"it has {whole(text)}"}


REGISTRY = with_own(specs_of(mail, mail_all, echo, quit, judge))


class Echo:
    """A model that repeats what it is sent, as text and as a call."""

    suspends = False

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing can fail later."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """Of some size."""
        return 1000

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """All marks, and the name of the model that was asked for."""
        text = whole(json.dumps(list(request.messages), default=str))
        calls = (ToolCall("c", "echo", json.dumps({"text": text})),) if request.tools else ()
        name = str(request.settings.get("name", ""))
        return ModelReply(f"<A>{text}</A>", calls, "stop", 1, 1, model=name)


class Echoing:
    """A sandbox that gives its code back."""

    suspends = False

    async def run(
        self, code: str, *, session: bytes | None, timeout: float | None
    ) -> SandboxResult:
        """Its code, as everything that code can give."""
        return SandboxResult(True, whole(code), whole(code), whole(code), whole(code), b"x")


class Post:
    """A notifier that keeps what it sends."""

    suspends = False

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        """Sends it out."""
        SENT.append(json.dumps([text, dict(data)], default=str))


# the table ----------------------------------------------------------------------------------


def may_hold_text(type: Type) -> bool:
    """Whether a value of the type may be, or have in it, any text."""
    if type.kind in ("list", "map"):
        return type.of is None or may_hold_text(type.of)
    if type.kind == "struct":
        return any(may_hold_text(inner) for _, inner in type.fields)
    return type.kind in ("str", "any")


@pytest.mark.parametrize("name", FACTS)
def test_every_fact_has_a_cell_or_a_reason(name: str) -> None:
    fact = FACTS[name]
    assert bool(fact.cells) + bool(fact.no_text) == may_hold_text(fact.type)
    assert {*fact.cells} <= {*CELLS}
    assert cells_of_fact(name) == {*fact.cells}
    assert cells_of_fact(name.partition(".")[0]) >= {*fact.cells}


def methods() -> Iterator[str]:
    """The methods of all ports that take anything."""
    for module in (ports, tracing):
        for name, port in vars(module).items():
            if getattr(port, "_is_protocol", False) and port.__module__ == module.__name__:
                for word, method in dict[str, Any](vars(cast("type", port))).items():
                    if inspect.isfunction(method) and not word.startswith("_"):
                        taken = [*inspect.signature(method).parameters][1:]
                        yield from [f"{name}.{word}"] if taken else []


def test_every_method_of_a_port_is_in_the_table() -> None:
    assert {*methods()} == {*PORTS}


def start_fields() -> set[str]:
    """The fields that the package writes into the start of a run."""
    found: set[str] = set()
    for path in Path(chartloop.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "start_data":
                for keyword in node.keywords:
                    bounded = keyword.arg is None  # `**bounded` of `Machine.start`
                    found |= {"limits", "vars"} if bounded else {str(keyword.arg)}
    return found


def test_every_entry_is_in_the_table() -> None:
    kinds = {*get_args(RecordKind)} - {"start"}
    assert {*ENTRIES} == kinds | {f"start.{name}" for name in start_fields()}
    for way in ENTRIES.values():
        cells = () if isinstance(way, str) else way
        assert {*cells} <= {*CELLS, *OWN}


def test_what_is_given_to_a_run_or_a_child_is_an_entry() -> None:
    others = {"continues", "branch", "journal", "run_id", "tenant", "priority", "require_bound",
              "if_exists", "self", "ports"}  # fmt: skip
    """Where the run is kept, and what it may cost: names and numbers."""
    given = {*inspect.signature(Machine.start).parameters} - others
    assert {f"start.{name}" for name in given} <= {*ENTRIES}
    child = {*ChildStart._fields} - {"machine", "share"}
    assert {f"start.{name}" for name in child} <= {*ENTRIES}


def test_each_reason_that_is_assumed_is_told() -> None:
    answer = machine([{"do": "nothing"}]).query("no flow untrusted to mail")
    assert answer.holds
    assert {*ASSUMED} <= {*answer.assumptions}


# real runs ----------------------------------------------------------------------------------


def sends(text: str) -> Data:
    return {"do": "tool", "with": {"name": "mail", "arguments": {"text": text}}}


class Case(NamedTuple):
    """An action in all its forms, each with what comes before it."""

    action: str
    forms: tuple[Data, ...]
    first: tuple[Data, ...] = ()
    never: Mapping[str, str] = {}
    """The keys of its result that it has in no form here, with the reason."""


ALL = "".join(f"{{{{ {n} }}}}" for n in ("run.task", "vars.w", "memory.m"))
ASK: Data = {"do": "infer"}
CHILD = {"machine": "child", "task": "{{ run.task }}", "vars": {"n": "vars.w"}}
CASES = (
    Case("adopt_proposal", ({"with": {"from": "vars.map", "map": {"a": "vars.v"}}},)),
    Case("apply_fix", ({},)),
    Case("ask_approval", ({"with": {"tools": ["echo"]}},), (ASK,),
         dict.fromkeys(("id", "name", "arguments"), "the calls of a reply, if the file has a gate")),
    Case("ask_user", ({"with": {"text": ALL}},)),
    Case("back_off", ({},)),
    Case("call_tool", ({},), (ASK,)),
    Case("call_tools", ({}, {"with": {"on_error": "fail"}}), (ASK,)),
    Case("checkpoint", ({},)),
    Case("continue_run", ({},)),
    Case("enqueue", ({"with": {"tasks": "vars.w"}},)),
    Case("infer", ({}, {"with": {"model": "{{ vars.w }}"}}, {"with": {"keep": False}})),
    Case("measure", ({},)),
    Case("nothing", ({"with": {"input": {"x": ALL}}},)),
    Case("notify", ({}, {"with": {"text": ALL}})),
    Case("parse", ({"with": {"vars.v": {"tag": "A"}}},), (ASK,)),
    Case("prompt", ({"with": {"user": ALL}}, {"with": {"user": "x", "system": ALL, "keep": True}})),
    Case("prune_context", tuple(
        {"with": {"strategy": s, "target": "1%"}}
        for s in ("sliding", "truncate", "summarize", "essentials"))),
    Case("python", ({"with": {"code": "vars.w"}},)),
    Case("receive", ({},)),
    Case("report", ({}, {"with": {"text": ALL}})),
    Case("restore", ({},), ({"do": "checkpoint"},)),
    Case("run_machine", tuple(
        {"with": {**CHILD, **more}} for more in (
            {}, {"start": "late", "limits": {"tag": "vars.v"}}, {"share": ["messages"]}, {"share": ["memory"]},
            {"limits": {"tag": "vars.w"}}, {"machine": "sad"}))),
    Case("run_machines", (
        {"with": {"machine": "child", "each": "[vars.w]"}},
        {"with": {"children": {"a": CHILD, "b": {"machine": "sad", "task": "{{ vars.w }}"}}}})),
    Case("save_run", ({},)),
    Case("screen", (
        {"with": {"tool": "judge", "text": ALL, "stop": "odd"}},
        {"with": {"machine": "judging", "text": ALL, "stop": "odd"}},
        {"with": {"tool": "quit", "text": ALL, "stop": "odd"}},
    )),
    Case("set", ({"with": {"vars.v": "vars.w"}},)),
    Case("signal", ({"with": {"reason": "odd", "message": ALL}},)),
    Case("tool", tuple(
        {"with": {"name": n, "arguments": {"text": text}}}
        for n, text in (("echo", ALL), ("quit", ALL), ("mail_all", "x")))),
    Case("update_memory", ({"with": {"block": "m", "append": ALL}}, {"with": {"block": "m", "old": "x", "new": ALL}}, {})),
    Case("work", ({},) , ({"do": "enqueue", "with": {"tasks": '[{"text": vars.w, "by": {"tool": "echo"}}]'}},)),
)  # fmt: skip
WAIT: Data = {"on": {"go": {"data": {"note": "str"}}}}


def machine(states: list[Data], inputs: tuple[str, ...] = SOURCES, **more: Any) -> Machine:
    """States one after the other, in a machine with all parts that hold text."""
    named: Data = {}
    for number, state in enumerate(states):
        to = f"s{number + 1}"
        if "on" in state:
            named[f"s{number}"] = {"on": {"go": {**state["on"]["go"], "to": to}}}
        else:
            named[f"s{number}"] = {**state, "next": to, "failed": to}
    named[f"s{len(states)}"] = {"stop": "completed"}
    data: Data = {
        "chartloop": 1, "machine": "table", "model": {"name": "scripted"},
        "tools": ["mail", "mail_all", "echo", "quit", "judge", "core_memory_append"],
        "limits": {"steps": 40, "tag": {"type": "str", "value": ""}},
        "vars": {"w": "", "v": "", "u": "", "flag": False,
                 "map": {"type": "map[str]", "value": {}}},
        "memory": {"m": "x"}, "inputs": {name: {"from": "trusted"} for name in (*inputs, "map")},
        "reasons": {"odd": {"priority": 6, "status": "completed"},
                    "soft": {"priority": 7, "status": "completed"}},
        "rules": [{"when": "run.steps >= limits.steps", "stop": "steps_limit"},
                  {"when": "vars.flag", "signal": "soft", "message": "{{ vars.w }}"}],
        "on_stop": "s0", "states": named, "machines": CHILDREN, **more,
    }  # fmt: skip
    data["on_stop"] = f"s{len(states) - 1}"
    loaded = load(json.dumps(data), "table.yaml", REGISTRY)
    assert loaded.spec is not None, "\n\n".join(f.render() for f in loaded.findings)
    return Machine(Chart(loaded.spec, lifecycle()))


def kid(status: str, **more: Any) -> Data:
    """A child that says what it was given, in all ways but its output."""
    return {
        "vars": {"n": ""}, "memory": {"m": ""}, "output": "1", "tools": ["mail"],
        "limits": {"tag": {"type": "str", "value": ""}},
        "reasons": {"odd": {"priority": 6, "status": status}},
        "inputs": {"task": {}, "n": {}, "memory.m": {}},
        "states": {"a": {"do": "nothing", "next": "b"},
                   "late": {**sends("{{ run.task }}{{ limits.tag }}"), "next": "b"},
                   "b": {"stop": "odd", "message": "{{ vars.n }}{{ run.task }}{{ limits.tag }}"}},
        **more,
    }  # fmt: skip


CHILDREN: Data = {
    "child": kid("completed"), "sad": kid("error"),
    "judging": kid("completed", output={"verdict": '"pass"', "reason": "vars.n"}),
}  # fmt: skip


def started(made: Machine) -> Run:
    return made.start(
        "<task>", vars={"w": "<w>", "v": "<v>", "map": {"a": "<w>"}},
        memory={"m": "x <memory.m>"}, messages=[{"role": "user", "content": "<messages>"}],
        tasks=[{"text": "<tasks>", "by": {"tool": "echo"}}], session="s",
        model=Echo(), sandbox=Echoing(), notifier=Post(), clock=ManualClock(),
    )  # fmt: skip


async def played(made: Machine) -> Run:
    """The run to its end; a wait is answered."""
    SENT.clear()
    run = started(made)
    for _ in range(40):
        if run.ended:
            break
        if run.status == "paused" and run.state in made.chart.waiting:
            await run.asend("go", {"note": "<answer>"})
        await run.aadvance()
    assert run.ended, run.state
    return run


def arrived() -> set[str]:
    return marks("".join(SENT))


def check_arrivals(made: Machine) -> int:
    """No text arrived that was proven to stay away; how many did."""
    questions = Questions(made.chart)
    here = arrived()
    for name in here:
        assert not questions.ask(f"no flow input:{name} to out").holds, (name, made.canonical())
    return len(here)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.action)
def test_each_action_gives_only_what_it_reads(case: Case) -> None:
    keys: set[str] = set()
    for form in case.forms:
        for fact in ("last.result", "errors.last", "last", ""):  # "": what the action itself sends
            act: Data = {"do": case.action, **form}
            raised: list[Data] = [
                {"do": "nothing", "set": {"vars.flag": f}} for f in ("True", "False")
            ]
            before = [WAIT, *raised, *case.first]
            told = sends("{{ " + fact + " }}") if fact else {"do": "nothing"}
            made = machine([*before, act, told])
            run = asyncio.run(played(made))
            check_arrivals(made)
            for record in run.records:
                if record.outcome is not None and record.state == f"s{len(before)}":
                    result = record.outcome.result
                    keys |= set(one_of(result))
    declared = {n for n, _ in struct_of(builtin().actions[case.action].result)}
    assert declared - keys == {*case.never}


def struct_of(type: Type) -> tuple[tuple[str, Type], ...]:
    return struct_of(type.of) if type.kind == "list" and type.of is not None else type.fields


def one_of(result: Any) -> Mapping[str, Any]:
    if isinstance(result, (list, tuple)):
        return cast("list[Any]", result)[0] if result else {}
    return cast("dict[str, Any]", result) if isinstance(result, Mapping) else {}


def test_every_built_in_action_has_a_case() -> None:
    assert {case.action for case in CASES} == {*builtin().actions}
