"""The tools of `chartloop mcp`, by the protocol's own client, in both forms of the protocol."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from chartloop import load, tool
from chartloop.run.loop import leave
from chartloop.run.sync import by_hand
from tests.mcp_server.conftest import Gate, Make, first_run, needs_mcp, person, play, talking

pytestmark = needs_mcp
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])
"""Revision 2026-07-28, in which a call returns what it needs, and 2025-11-25, in which it asks."""


@MODES
def test_a_machine_is_a_tool_with_typed_input_and_output(make: Make, mode: str) -> None:
    async def client() -> None:
        async with talking(make(['{"urgency": 4}']), mode=mode) as talk:
            tools = {tool.name: tool for tool in (await talk.client.list_tools()).tools}
            own = ["answer", "cancel", "resume", "start", "status", "why"]
            assert sorted(tools) == sorted(["hurry", "rating", "review", "triage", *own])
            triage = tools["triage"]
            assert (triage.title, triage.input_schema["required"]) == (
                "How urgent a mail is", ["task"],
            )  # fmt: skip
            assert "required" not in tools["hurry"].input_schema  # it never reads a task
            assert triage.input_schema["properties"]["vars"]["properties"] == {
                "urgency": {"type": "integer", "default": 0},
                "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            }
            assert triage.output_schema is not None
            told = await talk.call("triage", task="The shop is down!", vars={"tags": ["shop"]})
            assert (told["status"], told["reason"], told["success"]) == (
                "completed", "completed", True,
            )  # fmt: skip
            assert told["output"] == {"urgency": 4, "tags": ["shop"]}

    play(client())


@MODES
def test_a_question_is_asked_of_the_person_until_the_run_ends(make: Make, mode: str) -> None:
    eve = person({"answer": "reject", "note": "too short"}, {"answer": "approve"})

    async def client() -> None:
        async with talking(make(), mode=mode, elicitation_callback=eve) as talk:
            told = await talk.call("review", task="x")
            assert (told["status"], told["output"]) == ("completed", "Second.")

    play(client())
    (first, schema), (second, _) = eve.asked
    assert (first, second) == ('Publish "First."?', 'Publish "Second."?')
    assert schema["properties"]["answer"]["enum"] == ["approve", "reject"]
    assert schema["properties"]["note"] == {
        "type": "string", "title": "note", "description": "for `reject`",
    }  # fmt: skip
    assert schema["required"] == ["answer"]


@MODES
def test_an_answer_that_the_run_refuses_is_asked_for_again(make: Make, mode: str) -> None:
    eve = person({"answer": "reject"}, {"answer": "approve"})

    async def client() -> None:
        async with talking(make(), mode=mode, elicitation_callback=eve) as talk:
            assert (await talk.call("review", task="x"))["output"] == "First."

    play(client())
    assert [text for text, _ in eve.asked] == [
        'Publish "First."?',
        '`reject` needs `note` (str). Publish "First."?',
    ]


GATE = """\
chartloop: 1
machine: gate
model: {name: scripted}
tools: [buy]
approve: {tools: [buy], by: the boss, edit: true, remember: true, when: call.arguments.usd > 100}
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
output: last.text
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""


@MODES
def test_each_call_of_an_approval_is_decided_by_itself(
    make: Make, machines: Path, mode: str
) -> None:
    bought = list[tuple[str, float]]()

    @tool
    def buy(item: str, usd: float) -> str:
        """Buy an item."""
        bought.append((item, usd))
        return "bought"

    (machines / "gate.yaml").write_text(GATE)
    wants = [
        {"name": "buy", "arguments": {"item": i, "usd": n}} for i, n in (("a", 300), ("b", 400))
    ]
    small = {"name": "buy", "arguments": {"item": "pen", "usd": 2}}
    script = [{"tool_calls": [*wants, small]}, {"tool_calls": wants[:1]}, "Done."]
    eve = person(
        {"answer": "edit", "by": "eve", "call_2_usd": "dear"},
        {"answer": "accept", "by": "eve", "call_2_usd": 250},
        {"answer": "accept", "by": "bob", "remember": True, "call_2": "deny"},
    )

    async def client() -> None:
        settings = make(script, tools=(buy,))
        async with talking(settings, mode=mode, elicitation_callback=eve) as talk:
            told = await talk.call("gate", task="x")
            assert told["output"] == "Done."

    play(client())
    assert (sorted(bought[:2]), bought[2:]) == ([("a", 300), ("pen", 2)], [("a", 300)])
    texts = [text for text, _ in eve.asked]
    assert len(texts) == 3
    assert '1. buy {"item": "a", "usd": 300}' in texts[0]
    assert texts[1].startswith("the changed arguments of ")
    assert "(changed by eve)" in texts[2]
    assert "calls" not in eve.asked[0][1]["properties"]


def test_the_calls_of_a_question_are_told_and_answered_by_key(make: Make, machines: Path) -> None:
    (machines / "gate.yaml").write_text(GATE)

    @tool
    def buy(item: str, usd: float) -> str:
        """Buy an item."""
        return "bought"

    script = [{"tool_calls": [{"id": "c1", "name": "buy", "arguments": {"item": "a", "usd": 300}}]}]

    async def client() -> None:
        settings = make([*script, "Done."], tools=(buy,))
        async with talking(settings) as talk:
            told = await talk.call("gate", task="x")
            (call,) = told["question"]["calls"]
            assert (call["key"], call["name"]) == ("c1", "buy")
            answer = {"run": told["run"], "event": "accept"}
            data = {"by": "eve", "calls": {"c9": "accept"}}
            error = await talk.refused("answer", **answer, data=data)
            assert "no call `c9` waits for an approval" in error["detail"]
            data = {"by": "eve", "calls": {"c1": {"result": "We have one."}}}
            done = await talk.call("answer", **answer, data=data)
            assert done["output"] == "Done."

    play(client())


class NoAnswer:
    """What a person does instead of answering, and what the call says of it."""

    DECLINES = ("decline", "declined")
    CLOSES = ("cancel", "closed the form")


@MODES
@pytest.mark.parametrize(("does", "says"), [NoAnswer.DECLINES, NoAnswer.CLOSES])
def test_no_answer_leaves_the_run_waiting(make: Make, mode: str, does: str, says: str) -> None:
    async def client() -> None:
        async with talking(make(), mode=mode, elicitation_callback=person(does)) as talk:
            told = await talk.call("review", task="x")
            assert told["status"] == "waiting"
            assert says in told["note"]
            after = await talk.call("answer", run=told["run"], event="approve")
            assert (after["status"], after["output"]) == ("completed", "First.")

    play(client())


@MODES
def test_with_nobody_there_the_call_gives_the_question(make: Make, mode: str) -> None:
    async def client() -> None:
        async with talking(make(), mode=mode) as talk:
            given: Any = await talk.client.call_tool("review", {"task": "x"})
            told = given.structured_content
            assert (told["status"], told["state"]) == ("waiting", "approve")
            asked = told["question"]
            assert asked["text"] == 'Publish "First."?'
            assert asked["answers"] == {"approve": {}, "reject": {"note": "str"}}
            assert f'wait="{asked["wait"]}"' in given.content[0].text
            run = told["run"]
            late = await talk.refused("answer", run=run, event="approve", wait="99")
            assert late["code"] == "CL615"
            assert (await talk.refused("answer", run=run, event="publish"))["code"] == "CL602"
            assert (await talk.refused("answer", run=run, event="reject"))["code"] == "CL602"
            again = await talk.call(
                "answer", run=run, event="reject", data={"note": "shorter"}, wait=asked["wait"]
            )
            assert again["question"]["text"] == 'Publish "Second."?'
            done = await talk.call("answer", run=run, event="approve")
            assert (done["status"], done["output"]) == ("completed", "Second.")
            assert (await talk.refused("answer", run=run, event="approve"))["code"] == "CL615"

    play(client())


@MODES
def test_a_question_that_expires_lets_the_run_go_on(make: Make, mode: str) -> None:
    async def slowly() -> Any:
        await asyncio.sleep(60 if mode == "legacy" else 2)
        return {"said": "yes"}

    async def client() -> None:
        eve = person(slowly)
        async with talking(make(), mode=mode, elicitation_callback=eve) as talk:
            told = await talk.call("hurry", task="")
            assert (told["status"], told["output"]) == ("completed", "too late")
        assert eve.asked[0][1]["properties"] == {"said": {"type": "string", "title": "said"}}

    play(client())


def test_somebody_else_may_answer_while_the_form_is_open(make: Make) -> None:
    async def client() -> None:
        async def elsewhere() -> Any:
            (row,) = (await talk.call("status"))["runs"]
            await talk.call("answer", run=row["run"], event="approve", seconds=0)
            await asyncio.sleep(60)

        async with talking(make(), mode="legacy", elicitation_callback=person(elsewhere)) as talk:
            assert (await talk.call("review", task="x"))["output"] == "First."

    play(client())


def test_each_step_is_told_once_to_a_client_that_wants_progress(make: Make) -> None:
    told: list[tuple[float, str]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, str(message)))

    async def client() -> None:
        eve = person({"answer": "reject", "note": "more"}, {"answer": "approve"})
        async with talking(make(), mode="legacy", elicitation_callback=eve) as talk:
            await talk.client.call_tool("review", {"task": "x"}, progress_callback=hear)

    play(client())
    steps = [message.partition(": ")[2] for _, message in told]
    assert steps == ["take → draft", "draft → approve", "draft → approve"]
    numbers = [number for number, _ in told]
    assert numbers == sorted(set(numbers))


@MODES
def test_long_work_is_started_and_looked_at_later(make: Make, mode: str) -> None:
    async def client() -> None:
        async with talking(make(), mode=mode) as talk:
            told = await talk.call("start", machine="review", task="x")
            run = told["run"]
            assert "has been started" in told["note"]
            waiting = await talk.call("status", run=run, seconds=60)
            assert waiting["status"] == "waiting"
            why = await talk.call("why", run=run, record=2)
            assert (why["run"], why["seq"]) == (run, 2)
            assert why["title"] == "step at draft"
            listed = (await talk.call("status"))["runs"]
            assert [(row["run"], row["status"]) for row in listed] == [(run, "waiting")]
            gone = await talk.call("cancel", run=run, message="not needed")
            assert (gone["status"], gone["reason"]) == ("completed", "user_requested")
            assert gone["success"] is False
            assert (await talk.refused("cancel", run=run))["code"] == "CL601"
            assert (await talk.call("resume", run=run))["status"] == "completed"

    play(client())


def test_a_run_that_nobody_drives_says_so(make: Make, machines: Path) -> None:
    settings = make()
    given: Any = {"journal": settings.journal, "run_id": "left", "script": ["First."]}
    started = load(machines / "review.yaml").start("x", **given)
    started.advance()
    by_hand(leave(started.session))

    async def client() -> None:
        async with talking(settings) as talk:
            (listed,) = (await talk.call("status"))["runs"]
            told = await talk.call("status", run="left")
            assert (listed["phase"], told["phase"]) == ("unattended", "unattended")
            assert (listed["status"], told["status"]) == ("running", "running")

    play(client())


@MODES
def test_a_call_that_is_cancelled_pauses_its_run(make: Make, gate: Gate, mode: str) -> None:
    settings = make(["Second."], tools=gate.action)

    async def client() -> None:
        async with talking(settings, mode=mode) as talk:
            task = asyncio.create_task(talk.call("twice", task="x"))
            run = await first_run(talk.client)
            task.cancel()
            await asyncio.wait([task])
            await gate.open_once_paused(settings, run)
            told = await talk.until(run, "paused", "completed")
            assert told["status"] == "paused", told
            after = await talk.call("resume", run=run)
            assert (after["status"], after["output"]) == ("completed", "Second.")

    play(client())


@MODES
def test_two_calls_at_once_are_two_runs(make: Make, mode: str) -> None:
    async def client() -> None:
        async with talking(make(['{"urgency": 2}']), mode=mode) as talk:
            both = await asyncio.gather(*(talk.call("triage", task=str(n)) for n in range(2)))
            assert {told["status"] for told in both} == {"completed"}
            assert len({told["run"] for told in both}) == 2

    play(client())


class Wrong:
    """Calls that are wrong: tool, arguments, the code that they give, and a word of the error."""

    CASES: tuple[tuple[str, dict[str, Any], str, str], ...] = (
        ("review", {}, "CL640", "task"),
        ("review", {"task": 5}, "CL640", "task"),
        ("review", {"task": "x", "limits": {"steps": 9}}, "CL640", "limits"),
        ("triage", {"task": "x", "vars": {"urgency": "high"}}, "CL640", "urgency"),
        ("triage", {"task": "x", "vars": {"weight": 1}}, "CL640", "weight"),
        ("start", {"machine": "revue"}, "CL640", "revue"),
        ("start", {"machine": "broken", "task": "x"}, "", "errors"),
        ("broken", {"task": "x"}, "", "errors"),
        ("status", {"run": "nothing"}, "CL604", "nothing"),
        ("answer", {"run": "nothing", "event": "yes"}, "CL604", "nothing"),
        ("cancel", {"run": "nothing"}, "CL604", "nothing"),
        ("resume", {"run": "nothing"}, "CL604", "nothing"),
        ("why", {"run": "nothing"}, "CL604", "nothing"),
        ("why", {"run": "nothing", "record": -1}, "CL640", "record"),
        ("status", {"run": ""}, "CL640", "run"),
        ("status", {"run": "x", "seconds": 1e9}, "CL640", "seconds"),
    )


@MODES
def test_a_call_that_is_wrong_says_why_and_starts_nothing(make: Make, mode: str) -> None:
    async def client() -> None:
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415

        async with talking(make(), mode=mode) as talk:
            for name, arguments, code, word in Wrong.CASES:
                told = await talk.refused(name, **arguments)
                assert told.get("code", "") == code, told
                assert word in told["detail"], told
            with pytest.raises(MCPError, match="there is no tool `revue`"):
                await talk.client.call_tool("revue", {"task": "x"})
            assert (await talk.call("status"))["runs"] == []

    play(client())


def test_a_state_that_this_server_did_not_give_is_refused(make: Make) -> None:
    async def client() -> None:
        async with talking(make()) as talk:
            started = await talk.call("start", machine="hurry", task="")
            for state in ("", "{", "[]", '{"run": 5}', '{"run": "no", "wait": "1"}'):
                given: Any = await talk.client.session.call_tool(
                    "review", {"task": "x"}, request_state=state
                )
                assert given.is_error, state
            other = json.dumps({"run": started["run"], "wait": "0"})
            given = await talk.client.session.call_tool(
                "review", {"task": "x"}, request_state=other
            )
            assert "is not one of `review`" in given.content[0].text

    play(client())


def test_a_run_that_cannot_be_driven_is_an_error_of_its_call(make: Make, machines: Path) -> None:
    (machines / "real.yaml").write_text(
        "chartloop: 1\nmachine: real\nmodel: {name: scripted}\nstates:\n"
        "  a: {do: infer, next: b}\n  b: {stop: completed}\n"
    )

    async def client() -> None:
        async with talking(make(components={})) as talk:
            assert (await talk.refused("real", task="x"))["code"] == "CL607"

    play(client())


def test_secrets_do_not_leave(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from chartloop.hosting.server import Token  # noqa: PLC0415

    monkeypatch.setenv("SHOP_TOKEN", "hunter2-hunter2")
    token = Token("0123456789-the-tokens-own", "drive")  # the journal does not know it
    script = [f"It is hunter2-hunter2, or {token.secret}."]

    async def client() -> None:
        eve = person("decline")
        settings = make(script, tokens=(token,))
        async with talking(settings, elicitation_callback=eve) as talk:
            given: Any = await talk.client.call_tool("review", {"task": "x"})
            assert "«redacted:SHOP_TOKEN»" in given.structured_content["question"]["text"]
            run = given.structured_content["run"]
            seen = [given, eve.asked]
            for name, arguments in (
                ("status", {"run": run}),
                ("why", {"run": run}),
                ("status", {}),
            ):
                seen.append(await talk.client.call_tool(name, arguments))
            seen.append(await talk.client.call_tool("status", {"run": token.secret}))
        for secret in ("hunter2-hunter2", token.secret):
            assert secret not in repr(seen)

    play(client())


def test_a_machine_with_the_name_of_another_tool_is_refused(make: Make, machines: Path) -> None:
    from chartloop.core.errors import SetupError  # noqa: PLC0415
    from chartloop.hosting.mcp_server.transports import open_calls  # noqa: PLC0415

    (machines / "other.yaml").write_text("chartloop: 1\nmachine: status\nstates: {}\n")
    with pytest.raises(SetupError, match="the machine `status` has the name of a tool"):
        open_calls(make())


@MODES
def test_a_question_that_is_cut_is_opened_before_it_is_answered(make: Make, mode: str) -> None:
    eve = person()

    async def client() -> None:
        async with talking(make(["word " * 3_000]), mode=mode, elicitation_callback=eve) as talk:
            told = await talk.call("rating", task="x")
            run, question = told["run"], told["question"]
            assert (told["status"], question["rest"] > 0) == ("waiting", True)
            answer = {"run": run, "event": "rate", "data": {"urgency": 3}}
            refused = await talk.client.call_tool("answer", answer)
            assert refused.is_error
            whole = (await talk.call("status", run=run, whole=True))["question"]
            assert whole["about"].count("word") == 3_000
            done = await talk.call("answer", **answer, shown=whole["digest"])
            assert done["status"] == "completed"

    play(client())
    assert eve.asked == []  # a form has no room for all of it
