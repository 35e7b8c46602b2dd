"""The world of a run: a model and tools that give chosen answers.

A list of numbers chooses the answers, question by question; one further number chooses the rest.
The answers are kept as a scenario writes them.

Belongs here: applying choices and keeping answers. Never: which choices are tried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from chartloop.adapters.model.scripted import ScriptedReply, deliver, parse_replies
from chartloop.core.specs import ToolSpec
from chartloop.run.ports import Clock, ModelReply, ModelRequest, OnText
from chartloop.scenarios.generator.replies import Replies
from chartloop.scenarios.scripted_tools import split_delay, stand_in, tool_result


class Answer(NamedTuple):
    """One answer of the model or a tool."""

    kind: Literal["reply", "result"]
    value: Any
    """The answer as a scenario writes it."""
    tool: str = ""


class Choice(NamedTuple):
    """A question to the world: the number of options, and the one taken."""

    options: int
    taken: int


class World:
    """The model and the tools of all runs of a search, which use it one after the other."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.model = ChosenModel(self)
        self.replies: Replies | None = None
        self.answers: list[Answer] = []
        self.choices: list[Choice] = []
        self._numbers: Sequence[int] = ()
        self._default = 0

    def begin(self, numbers: Sequence[int], default: int = 0) -> None:
        """Set the choices of the next action: `numbers` in order, then `default`."""
        self._numbers, self._default = numbers, default
        self.answers, self.choices = [], []

    def choose(self, options: int) -> int:
        """The index of the chosen option; 0 if there are fewer options than its number."""
        number = len(self.choices)
        wanted = self._numbers[number] if number < len(self._numbers) else self._default
        taken = wanted if wanted < options else 0
        self.choices.append(Choice(options, taken))
        return taken

    def tool(self, name: str, known: ToolSpec | None) -> ToolSpec:
        """A stand-in for a tool, which returns the chosen results."""

        async def give(**arguments: Any) -> Any:
            del arguments
            assert self.replies is not None
            options = self.replies.results
            result = options[self.choose(len(options))]
            self.answers.append(Answer("result", result, name))
            value, delay = split_delay(result)
            if delay:
                await self.clock.sleep(delay)
            return tool_result(value)

        return stand_in(name, known, give)


class ChosenModel:
    """A model that gives the chosen replies."""

    suspends = False

    def __init__(self, world: World) -> None:
        self._world = world
        self._read: dict[str, ScriptedReply] = {}

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Do nothing: this model needs no settings."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """The window that the file sets; None if it sets none."""
        return settings.get("context_window")

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """Give the chosen one of the candidate replies."""
        world = self._world
        assert world.replies is not None
        options = world.replies.to(request)
        option = options[world.choose(len(options))]
        world.answers.append(Answer("reply", option))
        key = json.dumps(option, sort_keys=True)
        if key not in self._read:
            (self._read[key],), _ = parse_replies([option])
        return await deliver(self._read[key], request, world.clock, on_text)
