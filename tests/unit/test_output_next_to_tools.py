"""A state that asks for data and offers tools: calls first, data with the reply that calls none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chartloop.api import Machine
from chartloop.testing import LoopbackServer
from tests.provider import Provider, http
from tests.tool_loop import WITH_KEYS, http_model, needs_litellm, tool_loop

pytestmark = WITH_KEYS


STATE = (
    "with: {output: {type: object, properties: {sum: {type: integer}}, required: [sum]}, repair: 1}, "
    "save: {vars.sum: result.data.sum, vars.said: '{{ result.data.sum }}'}, "
)
TOP = 'vars: {sum: 0, said: ""}\noutput: vars.sum\n'
CALL: dict[str, Any] = {"tool_calls": [{"name": "add", "arguments": {"x": 3}}]}
OTHER: dict[str, Any] = {"tool_calls": [{"name": "other", "arguments": {}}]}


def made(model: str = "name: scripted") -> Machine:
    return tool_loop(model, state=STATE, top=TOP)


def test_calls_come_first_and_data_with_the_last_reply() -> None:
    run = made().start("a task", script=[CALL, {**CALL, "text": "Wait."}, '{"sum": 3}'])
    result = run.run()
    assert (str(result.reason), result.output, result.errors) == ("completed", 3, ())
    assert result.facts.vars["said"] == "3"
    assert run.replay().same


def test_data_next_to_a_call_is_data() -> None:
    run = made().start("a task", script=[{**CALL, "text": '{"sum": 5}'}, "no", '{"sum": 3}'])
    while run.state != "u":
        run.step()
    assert run.facts.vars["sum"] == 5
    assert run.run().output == 3


def test_a_reply_that_calls_no_tool_of_the_state_is_repaired() -> None:
    result = made().run("a task", script=[OTHER, '{"sum": 3}'])
    assert result.output == 3
    assert "the reply is not JSON" in result.errors[0]["message"]


def test_it_loads_without_a_finding() -> None:
    assert not [*made("name: openai/gpt-4o-mini").findings]


@needs_litellm
class TestOverHttp:
    def test_both_are_sent(self) -> None:
        with LoopbackServer([CALL, '{"sum": 3}']) as server:
            result = made(http_model("openai/loopback", server.url)).run("a task")
        assert result.output == 3
        assert {"tools", "response_format"} <= server.requests[0].body.keys()

    def test_a_server_that_refuses_both_is_understood(self) -> None:
        no = {"error": {"message": "Failed to initialize samplers", "type": "x", "code": 400}}

        def refusing(_number: int, _body: Mapping[str, Any]) -> Iterator[bytes]:
            yield from http(no, "400 Bad Request")

        with Provider(refusing) as provider:
            result = made(http_model("openai/gpt-4o-mini", provider.url)).run("a task")
        assert "Failed to initialize samplers; some servers refuse" in str(result.errors)
        assert "allow: []" in str(result.errors)
