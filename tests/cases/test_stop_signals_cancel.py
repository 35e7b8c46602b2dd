"""Cooperative cancellation: what document 002 says of it.

Whom a request means, files and signals of the system are in `tests/unit/test_cancel.py`; the
journal's messages, from another process, in `tests/cli/test_resume.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from chartloop import Cancellation, Run, load
from chartloop.actions.declare import tool_spec
from chartloop.core.facts import RunFacts, ToolCall
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.testing import ManualClock
from tests.support import path, start
from tests.talks import call, outcomes, talk

LOOP = """
tools: [look]
states:
  ask: {do: infer, next: [{when: len(last.tool_calls) > 0, to: work}, {to: done}]}
  work: {do: call_tools, next: ask}
  done: {stop: completed}
"""
SEARCH = call("conversation_search", query="it")


def run_of_the_machine(*replies: Any, cancel: Any, **options: Any) -> Run:
    """A run of the shipped machine that listens to this source."""
    return load("stop_signals").start(
        "Find it.", script=list(replies), clock=ManualClock(), cancel=cancel, **options
    )


# checkpoints ----------------------------------------------------------------------------------


def test_before_the_run_nothing_is_done() -> None:
    cancel = Cancellation()
    cancel.request()
    run = run_of_the_machine("5", cancel=cancel)
    result = run.run()
    assert (result.reason, result.kind, result.forced) == ("user_requested", "human", True)
    assert (result.steps, result.facts.usage.llm_calls) == (0, 0)
    assert result.path == ("task", "stop_signal", "end")


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_before_each_step_it_stops_cleanly(after: int) -> None:
    cancel = Cancellation()
    run = run_of_the_machine(SEARCH, SEARCH, "5", cancel=cancel)
    while run.facts.run.steps < after:
        run.advance()
    cancel.request()
    result = run.run()
    assert (result.reason, result.steps) == ("user_requested", after)
    assert result.path[-2:] == ("stop_signal", "end")  # the machine's own way out
    assert [(s.reason, s.source) for s in result.signals] == [("user_requested", "caller")]


class Asked:
    """A model during whose call somebody asks for the end."""

    suspends = False

    def __init__(self, cancel: Cancellation) -> None:
        self.cancel = cancel

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing can be missing."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        return None

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        self.cancel.request()
        return ModelReply("I was not interrupted.", (ToolCall("1", "look", "{}"),), "tool_calls")


def test_a_model_call_in_flight_is_not_interrupted() -> None:
    cancel = Cancellation()
    run = talk(LOOP, (), [tool_spec(lambda: 1, name="look")], model=Asked(cancel), cancel=cancel)
    result = run.run()
    assert (result.reason, run.facts.last.text) == ("user_requested", "I was not interrupted.")
    assert (result.facts.usage.llm_calls, result.facts.usage.tool_calls) == (1, 0)


def test_a_tool_in_flight_is_not_interrupted() -> None:
    cancel = Cancellation()

    def look() -> str:
        outside = threading.Thread(target=cancel.request)  # other code, in another thread
        outside.start()
        outside.join()
        return "found"

    run = talk(LOOP, [call("look")], [tool_spec(look, effect="pure")], cancel=cancel)
    result = run.run()
    assert (result.reason, result.facts.usage.tool_calls) == ("user_requested", 1)
    assert outcomes(run, "work")[0].result[0]["content"] == "found"
    assert result.facts.errors.total == 0


# requests -------------------------------------------------------------------------------------


def test_a_request_is_inspected_reset_and_used_again() -> None:
    cancel = Cancellation()
    assert not cancel.is_requested()
    cancel.request()
    assert cancel.is_requested()
    assert run_of_the_machine("5", cancel=cancel).run().reason == "user_requested"
    cancel.reset()
    assert not cancel.is_requested()
    assert run_of_the_machine("5", cancel=cancel).run().reason == "completed"


class Meant(NamedTuple):
    """What a request names, and whether it means the run."""

    id: str
    asked: dict[str, str]
    stops: bool


MEANT = [
    Meant("its-agent", {"agent": "scout"}, True),
    Meant("its-run", {"run": "first"}, True),
    Meant("its-session", {"session": "ann"}, True),
    Meant("another-agent", {"agent": "cook"}, False),
    Meant("another-run", {"run": "second"}, False),
    Meant("another-session", {"session": "bob"}, False),
]


@pytest.mark.parametrize("case", MEANT, ids=lambda case: case.id)
def test_a_request_has_a_scope(case: Meant) -> None:
    cancel = Cancellation()
    cancel.request(**case.asked)
    run = run_of_the_machine("5", cancel=cancel, run_id="first", agent="scout", session="ann")
    assert run.run().reason == ("user_requested" if case.stops else "completed")


# sources of one's own -------------------------------------------------------------------------


class Row:
    """A flag in a table, by the agent that it is about: nothing of chartloop is subclassed."""

    def __init__(self) -> None:
        self.flags: dict[str, bool] = {}
        self.asked = 0

    def is_requested(self, run: RunFacts) -> bool:
        self.asked += 1
        return self.flags.get(run.agent, False)


def test_any_object_with_the_one_method_is_a_source() -> None:
    flags = Row()
    run = run_of_the_machine(SEARCH, "5", cancel=flags, agent="scout")
    run.advance()
    run.advance()
    assert flags.asked == 1  # once before each action
    flags.flags["scout"] = True
    assert run.run().reason == "user_requested"
    other = run_of_the_machine("5", cancel=flags, agent="cook")
    assert other.run().reason == "completed"


class Broken:
    """A source that cannot be reached, for a while."""

    def __init__(self) -> None:
        self.reachable = False

    def is_requested(self, run: RunFacts) -> bool:
        if not self.reachable:
            raise ConnectionError("the flags cannot be reached")
        return False


def test_a_source_that_cannot_be_reached_is_the_caller_s_to_mend_and_nothing_is_lost() -> None:
    flags = Broken()
    run = run_of_the_machine(SEARCH, "5", cancel=flags)
    with pytest.raises(ConnectionError, match="cannot be reached"):
        run.run()
    assert (run.status, run.state, run.facts.run.steps) == ("running", "task", 0)
    flags.reachable = True
    assert run.run().reason == "completed"


# and a continuation ---------------------------------------------------------------------------

PUT_OFF = """
rules:
  - {when: run.steps == 1, signal: custom}
states:
  a: {do: act, next: put_off}
  put_off: {do: continue_run, next: keep}
  keep: {do: keep, next: b}
  b: {do: act, next: done}
  done: {stop: completed}
"""


def by_source(run: Run, cancel: Cancellation) -> None:
    cancel.request()


def by_message(run: Run, cancel: Cancellation) -> None:
    run.cancel()


@pytest.mark.parametrize("ask", [by_source, by_message], ids=["source", "message"])
def test_a_continuation_does_not_put_a_caller_off(
    ask: Callable[[Run, Cancellation], None],
) -> None:
    cancel = Cancellation()
    run = start(PUT_OFF, cancel=cancel)
    while run.state != "keep":
        run.advance()
    assert run.continuation.requested
    ask(run, cancel)
    record = run.advance()
    assert record is not None
    assert (record.kind, run.ended) == ("stop", True)
    assert run.result.reason == "user_requested"
    assert run.result.signals.reasons == ("custom", "user_requested")
    assert path(run) == "a put_off keep end-completed"
