"""What a model was asked, as a scenario keeps it, and whether it is asked the same again.

    requests:
      - {messages: [{user: What is 2 + 3?}], tools: [add]}
      - keeps: 1                              # messages of the request before it that come again
        messages:
          - {assistant: Let me add., calls: ['add({"a": 2, "b": 3})']}
          - {tool: "5"}
        tools: [add]

A reply is given for the request that it was recorded for. Another request is a miss: it is said
which recorded one is nearest, and where the two part.
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
"""Lines of a request that are compared with others to find the nearest."""


class Request(NamedTuple):
    """A request as it is compared: the lines of its messages, and the tools that it offers."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """One line for each message, its calls on their own lines, then the tools."""
        return [*_lines(self.messages), *(f"offers {tool}" for tool in self.tools)]


def request_of(asked: ModelRequest) -> Request:
    """A model request as it is compared."""
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
    """The requests as a scenario has them: each with its new messages only."""
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
    """What `written` wrote, whole."""
    out: list[Request] = []
    before: tuple[Mapping[str, Any], ...] = ()
    for entry in entries:
        kept = before[: entry.get("keeps") or 0]
        before = (*kept, *(entry.get("messages") or ()))
        out.append(Request(before, tuple(entry.get("tools") or ())))
    return tuple(out)


class Matching(ModelWrapper):
    """A model that answers only what it was asked when its replies were recorded, and notes it."""

    def __init__(self, model: Model, recorded: Sequence[Request]) -> None:
        super().__init__(model)
        self._recorded = recorded
        self.requests: list[Request] = []
        """What it has answered, call by call."""
        self.missed = False
        """It was asked what was not recorded: what came of the run after that says nothing."""

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """The reply that was recorded for this request. `ScriptError` when none was."""
        asked = request_of(request)
        if request.number < len(self._recorded) and asked != self._recorded[request.number]:
            self.missed = True
            raise miss(asked, request.number, self._recorded)
        self.requests.append(asked)
        return await super().complete(request, on_text)


def miss(asked: Request, number: int, recorded: Sequence[Request]) -> ScriptError:
    """What is wrong with a request that is not the one that was recorded, number from 0."""
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
