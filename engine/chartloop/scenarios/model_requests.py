"""Model requests as a scenario records them, and their comparison in a replay.

    requests:
      - {messages: [{user: What is 2 + 3?}], tools: [add]}
      - keeps: 1                              # leading messages repeated from the previous request
        messages:
          - {assistant: Let me add., calls: ['add({"a": 2, "b": 3})']}
          - {tool: "5"}
        tools: [add]

A reply is given only for the request that it was recorded for. Any other request is a miss; its
error shows the nearest recorded request and the differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from chartloop.core.conversation import calls_of, text_of
from chartloop.core.errors import ScriptError
from chartloop.core.outcome import Message
from chartloop.run.model_wrapper import ModelWrapper
from chartloop.run.ports import Model, ModelReply, ModelRequest, OnText
from chartloop.scenarios.side_by_side import beside, common

COMPARED = 400
"""How many of a request's last lines are compared to find the nearest request."""


class Request(NamedTuple):
    """A request in the form that is compared: its messages and the names of its tools."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The lines of the messages, with a line for each call and each tool."""
        return [*_lines(self.messages), *(f"offers {tool}" for tool in self.tools)]


def request_of(asked: ModelRequest) -> Request:
    """Convert a model request to the form that is compared."""
    tools = (tool.get("function", tool).get("name", "") for tool in asked.tools)
    return Request(tuple(map(_message, asked.messages)), tuple(map(str, tools)))


def _message(message: Message) -> Mapping[str, Any]:
    written: dict[str, Any] = {str(message.get("role", "")): text_of(message)}
    if calls := calls_of(message):
        written["calls"] = [f"{call.name}({call.arguments})" for call in calls]
    return written


def _lines(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for message in messages:
        for name, value in message.items():
            if name == "calls":
                yield from (f"  calls {call}" for call in value)
            else:
                yield from (f"{name}: {line}" for line in str(value).split("\n"))


def scenario_requests(requests: Sequence[Request]) -> list[dict[str, Any]]:
    """Write requests as data of a scenario, each with only its new messages."""
    out: list[dict[str, Any]] = []
    before: tuple[Mapping[str, Any], ...] = ()
    for request in requests:
        same = common(before, request.messages)
        keeps = {"keeps": same} if same else {}
        new = [dict(message) for message in request.messages[same:]]
        written = {"messages": new, "tools": list(request.tools)}
        out.append({**keeps, **{name: value for name, value in written.items() if value}})
        before = request.messages
    return out


def read(entries: Sequence[Mapping[str, Any]]) -> tuple[Request, ...]:
    """Read what `scenario_requests` wrote; each request has all its messages."""
    out: list[Request] = []
    before: tuple[Mapping[str, Any], ...] = ()
    for entry in entries:
        kept = before[: entry.get("keeps") or 0]
        before = (*kept, *(entry.get("messages") or ()))
        out.append(Request(before, tuple(entry.get("tools") or ())))
    return tuple(out)


class Matching(ModelWrapper):
    """A model that answers only recorded requests, and keeps those that it answered."""

    def __init__(self, model: Model, recorded: Sequence[Request]) -> None:
        super().__init__(model)
        self._recorded = recorded
        self.requests: list[Request] = []
        """The answered requests, call by call."""
        self.missed = False
        """Whether a request was a miss, after which the rest of the run means nothing."""

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """Return the reply recorded for this request. `ScriptError` for a miss."""
        asked = request_of(request)
        if request.number < len(self._recorded) and asked != self._recorded[request.number]:
            self.missed = True
            raise miss(asked, request.number, self._recorded)
        self.requests.append(asked)
        return await super().complete(request, on_text)


def miss(asked: Request, number: int, recorded: Sequence[Request]) -> ScriptError:
    """The error for a request that differs from the recorded one; `number` counts from 0."""
    lines = asked.lines
    alike = [(_likeness(known.lines, lines), n == number) for n, known in enumerate(recorded)]
    nearest = alike.index(max(alike))
    which = f"its own, request {number + 1}" if nearest == number else f"request {nearest + 1}"
    table = "\n".join(f"  {line}" for line in beside(recorded[nearest].lines, lines))
    message = f"model call {number + 1} asks what was not recorded; nearest to it is {which}"
    hint = "record the run again if you want this change, or take `requests` out of the scenario"
    return ScriptError(f"{message}:\n{table}", hint=hint)


def _likeness(left: Sequence[str], right: Sequence[str]) -> float:
    these, those = left[-COMPARED:], right[-COMPARED:]
    return SequenceMatcher(None, these, those, autojunk=False).ratio()
