"""What the tests of actions share: runs with scripted replies and tools of the test's own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.api import Machine, Run, lifecycle
from chartloop.core.errors import SpecError
from chartloop.core.outcome import Message, Outcome
from chartloop.core.records import Record
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.testing.clock import ManualClock
from chartloop.testing.loopback import refuse
from tests.support import Said, actions

Replies = Sequence[Mapping[str, Any] | str]


def machine(body: str, tools: Sequence[object] = (), said: Said | None = None) -> Machine:
    """A machine of the YAML that follows `machine:`, with these tools and `act` and `keep`."""
    registry = with_own(specs_of(*tools, actions(said or {}), bare="tool"))
    loaded = load(f"chartloop: 1\nmachine: m\n{body}", "m.yaml", registry)
    if loaded.spec is None or not loaded.ok:
        raise SpecError(loaded.findings)
    # not through the checker: what it warns of must be sound all the same
    return Machine(Chart(loaded.spec, lifecycle()))


def talk(
    body: str, replies: Replies = (), tools: Sequence[object] = (), said: Said | None = None,
    *, task: str = "task", **options: Any,
) -> Run:  # fmt: skip
    """A run of such a machine with scripted replies, on a simulated clock unless one is given."""
    options.setdefault("clock", ManualClock())
    if "model" not in options:
        options["script"] = list(replies)
    return machine(body, tools, said).start(task, **options)


def call(name: str, id_: str = "", **arguments: Any) -> dict[str, Any]:
    """A reply that asks for one tool call."""
    return {"tool_calls": [{"name": name, "arguments": arguments, "id": id_}]}


def calls(*names: str) -> dict[str, Any]:
    """A reply that asks for several tool calls without arguments."""
    return {"tool_calls": [{"name": name} for name in names]}


def outcomes(run: Run, state: str) -> list[Outcome]:
    """What the action of a state came to, each time."""
    return [r.outcome for r in run.records if r.state == state and r.outcome is not None]


def written(run: Run) -> list[Record]:
    """The records as they come back from JSON; they must be the same."""
    reasons = run.machine.spec.reasons
    lines = [record.to_json() for record in run.records]
    again = [Record.from_dict(n, json.loads(line), reasons) for n, line in enumerate(lines)]
    assert [record.to_json() for record in again] == lines
    assert all(line.encode() for line in lines)
    return again


class Listening:
    """A model that gives replies in order, and keeps what it was asked.

    Every request must be one that a provider would take.
    """

    suspends = False

    def __init__(self, *replies: ModelReply) -> None:
        self.replies = list(replies)
        self.asked: list[ModelRequest] = []

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing can be missing."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        return settings.get("context_window")

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        self.asked.append(request)
        assert not request.messages or provider_says(request.messages) is None
        return self.replies.pop(0)


def provider_says(messages: Sequence[Message]) -> str | None:
    """What a provider would say against these messages; None when it takes them."""
    body = {"model": "m", "messages": json.loads(json.dumps([dict(m) for m in messages]))}
    json.dumps(body, ensure_ascii=False).encode()  # as it goes over the wire
    found = refuse(body, ["m"])
    return None if found is None else found.message
