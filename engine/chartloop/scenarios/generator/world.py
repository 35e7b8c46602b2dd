"""The world of a run, which answers as it is told: model and tools.

A list of numbers says which answer is given, question by question; beyond its end one number
stands for all. What was said is written down, as a scenario would say it.

Belongs here: asking for a choice, and keeping the answer. Never: which choices are tried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from chartloop.adapters.model.scripted import ScriptedReply, deliver, parse_replies
from chartloop.core.specs import ToolSpec
from chartloop.run.ports import Clock, ModelReply, ModelRequest, OnText
from chartloop.scenarios.generator.replies import Replies
from chartloop.scenarios.scripted_tools import given_result, late, stand_in


class Answer(NamedTuple):
    """One answer of the world."""

    kind: Literal["reply", "result"]
    value: Any
    """As a scenario writes it."""
    tool: str = ""


class Choice(NamedTuple):
    """A question to the world: of how many answers which was given."""

    options: int
    taken: int


class World:
    """What a run meets. One world serves all runs of a search, one after the other."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.model = ChosenModel(self)
        self.replies: Replies | None = None
        self.said: list[Answer] = []
        self.made: list[Choice] = []
        self._given: Sequence[int] = ()
        self._otherwise = 0

    def begin(self, given: Sequence[int], otherwise: int = 0) -> None:
        """The choices of the next action; what is asked beyond them is decided by `otherwise`."""
        self._given, self._otherwise = given, otherwise
        self.said, self.made = [], []

    def choose(self, options: int) -> int:
        """One of so many."""
        number = len(self.made)
        wanted = self._given[number] if number < len(self._given) else self._otherwise
        taken = wanted if wanted < options else 0
        self.made.append(Choice(options, taken))
        return taken

    def tool(self, name: str, known: ToolSpec | None) -> ToolSpec:
        """A tool that gives whatever is chosen, with the arguments of the one that it is for."""

        async def give(**arguments: Any) -> Any:
            del arguments
            assert self.replies is not None
            options = self.replies.results
            result = options[self.choose(len(options))]
            self.said.append(Answer("result", result, name))
            given, delay = late(result)
            if delay:
                await self.clock.sleep(delay)
            return given_result(given)

        return stand_in(name, known, give)


class ChosenModel:
    """A model that says whatever is chosen."""

    suspends = False

    def __init__(self, world: World) -> None:
        self._world = world
        self._read: dict[str, ScriptedReply] = {}

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing can be missing."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """The window that the file gives."""
        return settings.get("context_window")

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """One of the replies that fit the request."""
        world = self._world
        assert world.replies is not None
        options = world.replies.to(request)
        option = options[world.choose(len(options))]
        world.said.append(Answer("reply", option))
        return await deliver(self._reply(option), request, world.clock, on_text)

    def _reply(self, said: Any) -> ScriptedReply:
        key = json.dumps(said, sort_keys=True)
        if key not in self._read:
            (self._read[key],), _ = parse_replies([said])
        return self._read[key]
