"""A step costs what it adds, however many were before it.

Counted, never timed: how many functions a step calls, and how many bytes it takes at its peak, far
into a run, beside the same early on. A walk over the conversation would show in the first, a copy
of it in the second.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop import load, tool
from chartloop.api import Run
from chartloop.core.facts import ToolCall
from chartloop.core.transcript import Conversation, estimate
from chartloop.run.ports import ModelReply, ModelRequest
from tests.effort import calls

ROOT = Path(__file__).resolve().parents[2]


class Looper:
    """A model that asks for tools for ever. It reads no more of the request than its end."""

    suspends = False

    def __init__(self, each: int, *, counted: bool, name: str = "add") -> None:
        self._each, self._counted, self._turn, self._name = each, counted, 0, name
        self.requests: list[int] = []

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing can be missing."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        return None

    async def complete(
        self, request: ModelRequest, on_text: Callable[[str], None] | None = None
    ) -> ModelReply:
        self._turn += 1
        self.requests.append(len(request.messages))
        made = tuple(
            ToolCall(
                f"call_{self._turn:06}_{n}",
                self._name,
                json.dumps({"a": 100_000 + self._turn, "b": n}),
            )
            for n in range(self._each)
        )
        used: dict[str, Any] = {"prompt_tokens": 5, "completion_tokens": 5} if self._counted else {}
        return ModelReply("x" * 60, made, **used)


@tool(blocking=False)
def add(a: int, b: int) -> str:
    """Add.

    Args:
        a: One.
        b: Other.
    """
    return f"{a + b:09}"


MACHINE = """
chartloop: 1
machine: m
%smodel: {name: scripted}
tools: [add]
limits: {steps: 1_000_000, time: 9h}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: run.working >= limits.time, stop: time_limit}
states:
  question: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: use}, {to: done}]}
  use: {do: call_tools, next: think}
  done: {stop: completed}
""".lstrip()


def looping(each: int, *, instructed: bool, counted: bool) -> tuple[Run, Looper]:
    text = MACHINE % ("instructions: Be brief.\n" if instructed else "")
    model = Looper(each, counted=counted)
    return load(text, tools=[add]).start("go", model=model), model


def turn(run: Run) -> None:
    """A call of the model and what it asks for."""
    run.step()
    run.step()


def cost_of_a_turn(run: Run) -> int:
    """The least of some turns: now and then a list grows or a cache is made."""
    return min(calls(lambda: turn(run)) for _ in range(4))


@pytest.mark.slow("tries hundreds of examples for seconds")
@settings(deadline=None, max_examples=12)
@given(st.integers(1, 3), st.booleans(), st.booleans())
def test_a_turn_calls_as_many_functions_late_as_early(
    each: int, instructed: bool, counted: bool
) -> None:
    run, model = looping(each, instructed=instructed, counted=counted)
    for _ in range(20):
        turn(run)
    early = cost_of_a_turn(run)
    for _ in range(150):
        turn(run)
    assert cost_of_a_turn(run) <= early + 2
    assert model.requests[-1] > 150 * (each + 1)


@pytest.mark.slow("takes seconds")
def test_a_turn_copies_no_conversation() -> None:
    run, _ = looping(1, instructed=True, counted=False)

    def peak() -> int:
        gc.collect()
        tracemalloc.start()
        try:
            turn(run)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    for _ in range(20):
        turn(run)
    early = min(peak() for _ in range(5))
    for _ in range(1_500):
        turn(run)
    # a copy of 3,000 messages would take 24,000 bytes more
    assert min(peak() for _ in range(5)) < early + 8_000


class CountedList(list[Any]):
    """A list that counts how many of its elements were visited. `islice` visits those before its
    start too, in no function that could be counted."""

    visited = 0

    def __iter__(self) -> Iterator[Any]:
        for n in range(len(self)):
            yield self[n]

    def __getitem__(self, index: Any) -> Any:
        found: Any = super().__getitem__(index)
        self.visited += len(found) if isinstance(index, slice) else 1
        return found


@pytest.mark.parametrize("instructed", [False, True])
def test_a_turn_visits_the_messages_that_were_added(instructed: bool) -> None:
    run, _ = looping(1, instructed=instructed, counted=False)
    for _ in range(100):
        turn(run)
    log = run.session.position.messages.log
    log.messages = counted = CountedList(log.messages)
    turn(run)
    assert run.session.position.messages.log.messages is counted
    assert 0 < counted.visited <= 12


@pytest.mark.parametrize("size", [10, 1_000])
def test_what_is_known_of_a_conversation_is_carried_on(size: int) -> None:
    talk = Conversation({"role": "user", "content": "x" * 40} for _ in range(size))
    assert (estimate(talk), len(talk.sendable())) == (14 * size, size)

    def grow(more: Sequence[Mapping[str, Any]]) -> None:
        grown = talk.add(more)
        assert estimate(grown) == 14 * (size + 1)
        assert grown.sendable() is grown

    assert calls(lambda: grow([{"role": "user", "content": "x" * 40}])) < 60


@tool
def add_elsewhere(a: int, b: int) -> str:
    """Add, on another thread.

    Args:
        a: One.
        b: Other.
    """
    return f"{a + b:09}"


def garbage_of_turns(each: int, name: str) -> int:
    """How many objects twenty turns leave to the garbage collector."""
    called = {"add": add, "add_elsewhere": add_elsewhere}[name]
    text = (MACHINE % "").replace("add", name)
    model = Looper(each, counted=True, name=name)
    run = load(text, tools=[called]).start("go", model=model)
    for _ in range(5):
        turn(run)
    gc.collect()
    gc.disable()
    for _ in range(20):
        turn(run)
    return gc.collect()


@pytest.mark.parametrize("called", ["add", "add_elsewhere"], ids=["in place", "on a thread"])
@pytest.mark.parametrize("each", [1, 2])
def test_a_turn_leaves_no_cycle_behind(each: int, called: str) -> None:
    """What a step no longer needs is freed at once: with a thousand runs in one process the
    garbage collector would be a quarter of all work. In a process of its own: what threads of other
    tests leave behind would be counted too."""
    code = (
        f"from tests.laws.test_step_cost_laws import *; print(garbage_of_turns({each}, {called!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == 0
