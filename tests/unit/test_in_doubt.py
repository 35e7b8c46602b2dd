"""The wait for who decides on a call in doubt is part of the machine: each reader knows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from chartloop import Machine, load, tool
from chartloop.analysis.proofs.query.query_text import QueryFault
from chartloop.cli.app import app
from chartloop.machine.graph import graph
from chartloop.machine.in_doubt import decides, policy
from chartloop.testing import Crashed


@tool
def pay(usd: int) -> str:
    """Pay.

    Args:
        usd: How much.
    """
    return f"paid {usd}"


@tool(effect="local")
def book(item: str) -> str:
    """Book.

    Args:
        item: What.
    """
    return item


HEAD = """\
chartloop: 1
machine: m
model: {name: scripted}
tools: [pay, book]
"""
CHAT = """\
states:
  q: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""
STEP = """\
states:
  act: {do: tool, with: {name: %s, arguments: {%s: %s}}, next: done}
  done: {stop: completed}
"""
STEPS = """\
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
"""
TIMED = """\
limits: {steps: 20, time: 8s}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}, {when: run.elapsed >= limits.time, stop: time_limit}]
"""
PAYS = STEP % ("pay", "usd", 5)


def machine(*parts: str) -> Machine:
    return load(HEAD + "".join(parts), tools=[pay, book])


class Says(NamedTuple):
    """A file, and what is done about the calls of one of its states."""

    id: str
    text: str
    state: str
    tool: str
    policy: str


POLICIES = [
    Says("a-tool", PAYS, "act", "pay", "tell"),
    Says("a-tool-of-a-reply", STEPS + CHAT, "act", "pay", "tell"),
    Says("with-its-key", STEP % ("book", "item", "desk"), "act", "book", "retry"),
    Says("with-its-key-whatever-the-file-says", "in_doubt: fail\n" + STEPS + CHAT, "act", "book", "retry"),
    Says("behind-an-approval", "approve: {tools: [pay]}\n" + STEPS + CHAT, "act_approved", "pay", "ask"),
    Says("beside-an-approval", "approve: {tools: [book]}\n" + STEPS + CHAT, "act_approved", "pay", "tell"),
    Says("the-file", "in_doubt: fail\n" + PAYS, "act", "pay", "fail"),
    Says("the-state-before-the-file", "in_doubt: fail\n" + PAYS.replace("next: done", "in_doubt: ask, next: done"), "act", "pay", "ask"),
    Says("the-file-before-the-gate", "in_doubt: tell\napprove: {tools: [pay]}\n" + STEPS + CHAT, "act_approved", "pay", "tell"),
    Says("the-model", STEPS + CHAT, "think", "", "retry"),
    Says("the-model-if-the-file-says-so", "in_doubt: ask\n" + STEPS + CHAT, "think", "", "ask"),
]  # fmt: skip
EXTRA = HEAD.replace("{name: scripted}", "{name: scripted, extra: {%s}}")


@pytest.mark.parametrize("case", POLICIES, ids=lambda case: case.id)
def test_what_is_done_about_a_call(case: Says) -> None:
    spec = machine(case.text).spec
    state = spec.states[case.state]
    assert state.action is not None
    called = spec.registry.tools.get(case.tool)
    assert policy(spec, state, state.action, called) == case.policy
    old = state.in_doubt or spec.in_doubt or "retry"
    if called is None or called.effect == "paid":
        assert policy(spec, state, state.action, called, rules=1) == old


@pytest.mark.parametrize(
    ("extra", "acts"),
    [("mcp_servers: []", True), ("extra_body: {tools: []}", True), ("user: eve", False)],
)
def test_a_provider_that_executes_tools_is_not_asked_again(extra: str, acts: bool) -> None:
    spec = load(EXTRA % extra + STEPS + CHAT, tools=[pay, book]).spec
    state = spec.states["think"]
    assert state.action is not None
    assert policy(spec, state, state.action, None) == ("tell" if acts else "retry")


class Waits(NamedTuple):
    """A file, and the longest that its calls in doubt wait for a person."""

    id: str
    text: str
    longest: float | None
    why: str = ""


ASK = "in_doubt: ask\n"
WAITS = [
    Waits("nobody-decides", PAYS, 0),
    Waits("a-time-limit", ASK + TIMED + PAYS, 8),
    Waits("nothing-ends-it", ASK + PAYS, None, "nothing bounds how long a call in doubt waits at `act`"),
    Waits("the-approval", "approve: {tools: [pay], within: 1m}\n" + STEPS + CHAT, 760),
]  # fmt: skip


@pytest.mark.parametrize("case", WAITS, ids=lambda case: case.id)
def test_bound_counts_the_wait(case: Waits) -> None:
    figure = machine(case.text).bound().figures["waiting"]
    assert figure.value == case.longest
    assert case.why in figure.why


def test_bound_still_holds_the_time_limit() -> None:
    lines = str(machine(ASK + TIMED + PAYS).bound())
    assert "never past it" in lines


@pytest.mark.parametrize(("text", "happens"), [(ASK + PAYS, True), (PAYS, False)])
def test_a_query_knows_the_answers(text: str, happens: bool) -> None:
    made = machine(text)
    assert (decides(made.spec, made.spec.states["act"]) is not None) == happens
    if happens:
        assert str(made.query("never retry")).startswith("no")
        assert str(made.query("never fail before retry")).startswith("no")
    else:
        with pytest.raises(QueryFault, match="nothing that is called `retry`"):
            made.query("never retry")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (ASK + PAYS, "in doubt:\na person decides"),
        (
            "approve: {tools: [pay], by: boss, within: 1h}\n" + STEPS + CHAT,
            "in doubt:\nboss decides,\nat most 1 hour",
        ),
    ],
)
def test_the_picture_draws_it(text: str, label: str) -> None:
    drawn = graph(machine(text).chart)
    edges = [(a, b, d["label"]) for a, b, d in drawn.edges(data=True) if d["kind"] == "in_doubt"]
    assert label in {text for _, _, text in edges}
    assert all(a == b for a, b, _ in edges)


# answers in bulk ------------------------------------------------------------------------------


def test_one_command_answers_every_run_in_doubt(tmp_path: Path) -> None:
    """And no other question, though it takes the same words."""
    where = tmp_path / "j.db"
    kills: list[Any] = [Crashed("one"), Crashed("two")]

    @tool(blocking=False)
    def pay(usd: int) -> str:
        """Pay.

        Args:
            usd: How much.
        """
        if kills:
            raise kills.pop()
        return "paid"

    text = "chartloop: 1\nmachine: m\ntools: [pay]\n" + ASK + PAYS
    made = load(text, tools=[pay])
    for name in ("a", "b"):
        with pytest.raises(Crashed):
            made.start("t", run_id=name, journal=where).run()
        made.open(name, journal=where, take_over=True).run()
    asks = 'chartloop: 1\nmachine: n\nstates: {w: {ask: "Again?", on: {retry: d, fail: d}}, d: {end: completed}}\n'
    load(asks).start("t", run_id="c", journal=where).run()
    tools = tmp_path / "t.py"
    tools.write_text(
        "from chartloop import tool\n@tool\ndef pay(usd: int) -> str:\n    'Pay.'\n    return 'paid'\n"
    )
    command = [
        "answer",
        "--in-doubt",
        "retry",
        "--all",
        "by=eve",
        "--journal",
        str(where),
        "--tools",
        str(tools),
        "--format",
        "json",
    ]
    ran = CliRunner().invoke(app, command)
    assert ran.exit_code == 0, ran.output
    assert sorted(json.loads(ran.stdout)["answered"]) == ["a", "b"]
    again = CliRunner().invoke(app, command)
    assert (again.exit_code, [*json.loads(again.stdout)["refused"]]) == (1, ["b", "a"])
    for name in ("a", "b"):
        assert made.open(name, journal=where).run().reason == "completed"
    assert made.open("a", journal=where).facts.usage.calls == {"pay": 1}


@pytest.mark.parametrize("given", [["--in-doubt", "retry"], ["--all"], []])
def test_it_says_what_is_missing(given: list[str]) -> None:
    ran = CliRunner().invoke(app, ["answer", *given])
    assert ran.exit_code == 2
    assert ("--all" if given else "name a run and an event") in ran.output
