"""Signals, reasons and continuation as values: the tables and sentences of document 002.

What runs do with them is in `test_stop_signals_runs.py`.
"""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields
from itertools import combinations
from typing import Any, NamedTuple

import pytest

from chartloop import AgentStop, Continuation, StopReason, StopSignal, StopSignals
from chartloop.core.reasons import REASONS

STEPS = StopSignal.steps_limit(20, 20, source="rules.0")
TOKENS = StopSignal.token_limit(16_200, 16_000, source="rules.1")
LENGTH = StopSignal.finish_reason("length", ["length"], source="rules.3")


# "Stop Signals" -------------------------------------------------------------------------------


class Property(NamedTuple):
    """A property of a signal, its type, and what it is of the step limit."""

    name: str
    type: type
    value: Any


PROPERTIES = [
    Property("reason", StopReason, "steps_limit"),
    Property("message", str, "20 of 20 steps"),
    Property("context", dict, {"run.steps": 20, "limits.steps": 20}),
    Property("source", str, "rules.0"),
]


@pytest.mark.parametrize("case", PROPERTIES, ids=lambda case: case.name)
def test_a_property_of_a_signal(case: Property) -> None:
    value = getattr(STEPS, case.name)
    assert isinstance(value, case.type)
    assert value == case.value


def test_a_signal_is_an_immutable_value_of_four_properties() -> None:
    assert [field.name for field in fields(StopSignal)] == [case.name for case in PROPERTIES]
    with pytest.raises(FrozenInstanceError):
        STEPS.message = "other"  # pyright: ignore[reportAttributeAccessIssue]
    assert StopSignal.steps_limit(20, 20, source="rules.0") == STEPS
    assert StopSignal.steps_limit(21, 20, source="rules.0") != STEPS


# "Factory Methods" ----------------------------------------------------------------------------


class Made(NamedTuple):
    """What a factory gives."""

    signal: StopSignal
    reason: str
    message: str
    context: dict[str, Any]


MADE = [
    Made(StopSignal.steps_limit(20, 20), "steps_limit", "20 of 20 steps", {"run.steps": 20, "limits.steps": 20}),
    Made(StopSignal.steps_limit(1, 1), "steps_limit", "1 of 1 step", {"run.steps": 1, "limits.steps": 1}),
    Made(TOKENS, "token_limit", "16,200 of 16,000 tokens", {"usage.total_tokens": 16_200, "limits.tokens": 16_000}),
    Made(StopSignal.time_limit(61, 60), "time_limit", "61 s of 60 s", {"run.elapsed": 61, "limits.time": 60}),
    Made(StopSignal.retry_limit(3, 3), "retry_limit", "3 of 3 retries", {"errors.retries": 3, "limits.retries": 3}),
    Made(LENGTH, "finish_reason", "the model ended with `length`", {"last.finish_reason": "length", "limits.finish_reasons": ["length"]}),
    Made(StopSignal.finish_reason("stop"), "finish_reason", "the model ended with `stop`", {"last.finish_reason": "stop"}),
    Made(StopSignal.user_requested("not needed"), "user_requested", "not needed", {}),
    Made(StopSignal.error("no key", {"status": 401}), "error", "no key", {"status": 401}),
    Made(StopSignal.stop_requested("found", {"answer": 5}), "stop_requested", "found", {"answer": 5}),
    Made(StopSignal.completed("done"), "completed", "done", {}),
]  # fmt: skip


@pytest.mark.parametrize("case", MADE, ids=lambda case: str(case.signal))
def test_a_factory(case: Made) -> None:
    assert case.signal.reason is REASONS[case.reason]
    assert case.signal.message == case.message
    assert case.signal.context == case.context


# "Displaying and Serializing Signals", "Serialization" ----------------------------------------


@pytest.mark.parametrize("case", MADE, ids=lambda case: str(case.signal))
def test_a_signal_is_plain_data_both_ways(case: Made) -> None:
    data = json.loads(json.dumps(case.signal.to_dict()))
    assert set(data) == {"reason", "message", "context", "source"}
    again = StopSignal.from_dict(data)
    assert again == case.signal
    assert again.reason.priority == case.signal.reason.priority


class Shown(NamedTuple):
    signal: StopSignal
    text: str


SHOWN = [
    Shown(STEPS, "steps_limit: 20 of 20 steps (from rules.0)"),
    Shown(StopSignal.completed(), "completed"),
    Shown(StopSignal.user_requested(), "user_requested (from caller)"),
    Shown(StopSignal.error("no key"), "error: no key"),
]


@pytest.mark.parametrize("case", SHOWN, ids=lambda case: case.text)
def test_a_signal_is_displayed(case: Shown) -> None:
    assert str(case.signal) == case.text


def test_reasons_of_a_file_survive_serialization() -> None:
    own = StopReason("handed_over", 6, forced=False)
    signal = StopSignal(own, "to Ann")
    known = StopSignal.from_dict(signal.to_dict(), {"handed_over": own})
    assert (known.reason.priority, known.reason.forced) == (6, False)
    foreign = StopSignal.from_dict(signal.to_dict())
    assert (foreign.reason, foreign.reason.priority) == ("handed_over", 7)


# "Creating Signals from Exceptions", "AgentStopException" -------------------------------------


class Stopping(NamedTuple):
    """A property of the exception, and what it is when it was given."""

    name: str
    value: Any


RAISED = AgentStop("found", context={"answer": 5}, source="search", step=3)
STOPPING = [
    Stopping("signal", StopSignal.stop_requested("found", {"step": 3, "answer": 5}, source="search")),
    Stopping("step", 3),
    Stopping("context", {"answer": 5}),
    Stopping("source", "search"),
    Stopping("reason", "stop_requested"),
    Stopping("message", "found"),
]  # fmt: skip


@pytest.mark.parametrize("case", STOPPING, ids=lambda case: case.name)
def test_a_property_of_the_exception(case: Stopping) -> None:
    assert getattr(RAISED, case.name) == case.value


def test_an_exception_takes_a_whole_signal() -> None:
    stop = AgentStop(TOKENS, context={"seen": 7})
    assert stop.signal == StopSignal(
        REASONS["token_limit"], TOKENS.message, {**TOKENS.context, "seen": 7}, "rules.1"
    )
    assert isinstance(stop, Exception)
    assert str(stop) == "16,200 of 16,000 tokens"


def test_a_signal_is_made_from_an_exception() -> None:
    assert StopSignal.from_exception(RAISED) == RAISED.signal
    assert StopSignal.from_exception(AgentStop("x"), source="tool").source == "tool"
    other = StopSignal.from_exception(ValueError("odd"), source="tool")
    assert (other.reason, other.message) == ("error", "ValueError: odd")
    assert other.context == {"exception": "ValueError"}


# "The StopSignals Collection" -----------------------------------------------------------------


def test_a_collection_is_immutable() -> None:
    one = StopSignals([STEPS])
    two = one.add(TOKENS)
    assert (len(one), len(two)) == (1, 2)
    assert two.reasons == ("steps_limit", "token_limit")
    assert isinstance(two, tuple)


def test_the_highest_and_the_first_of_several() -> None:
    signals = StopSignals([LENGTH, TOKENS, STEPS])
    assert (signals.highest, signals.first) == (STEPS, LENGTH)
    assert StopSignals().highest is None
    assert StopSignals().first is None


def test_a_collection_is_plain_data_both_ways() -> None:
    signals = StopSignals([LENGTH, TOKENS])
    again = StopSignals.from_list(json.loads(json.dumps(signals.to_list())))
    assert again == signals
    assert isinstance(again, StopSignals)
    assert str(again) == f"{LENGTH}; {TOKENS}"


# "StopReason" ---------------------------------------------------------------------------------


class Reason(NamedTuple):
    """A row of the document's table, and whether such a stop is a forced one."""

    name: str
    value: str
    priority: int
    about: str
    forced: bool = True


TABLE = [
    Reason("ErrorForbade", "error", 0, "An error prevents the run from continuing."),
    Reason("StopRequested", "stop_requested", 1, "A tool or action requested it: `AgentStop`."),
    Reason("StepsLimitReached", "steps_limit", 2, "The steps are used up."),
    Reason("TokenLimitReached", "token_limit", 3, "The tokens are used up."),
    Reason("TimeLimitReached", "time_limit", 4, "The time is used up."),
    Reason("RetryLimitReached", "retry_limit", 5, "The retries are used up."),
    Reason("FinishReasonReceived", "finish_reason", 6, "The model ended its reply in a way that stops the run.", False),
    Reason("UserRequested", "user_requested", 2, "A caller or a person requested it from outside."),
    Reason("Completed", "completed", 8, "The work is done.", False),
    Reason("Unknown", "unknown", 9, "The run ended without a reason."),
]  # fmt: skip


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.name)
def test_a_reason(case: Reason) -> None:
    reason = REASONS[case.value]
    assert (reason.value, reason.priority, reason.about) == case[1:4]
    assert reason == case.value


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.name)
def test_natural_endings_are_not_forced_and_all_others_are(case: Reason) -> None:
    assert REASONS[case.value].was_forced is case.forced


def test_two_reasons_have_priority_2_and_none_of_the_documents_7() -> None:
    assert sorted(case.priority for case in TABLE) == [0, 1, 2, 2, 3, 4, 5, 6, 8, 9]


def test_every_reason_says_what_it_means() -> None:
    assert [name for name, reason in REASONS.items() if not reason.about] == []
    assert StopReason("own").about == ""


PAIRS = list(combinations(TABLE, 2))


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=[f"{a.value}-{b.value}" for a, b in PAIRS])
def test_the_lower_number_takes_precedence(one: Reason, other: Reason) -> None:
    first, second = StopSignal(REASONS[one.value]), StopSignal(REASONS[other.value])
    wins = second if other.priority < one.priority else first
    assert StopSignals([first, second]).highest is wins
    if one.priority != other.priority:
        assert StopSignals([second, first]).highest is wins


# "ExecutionContinuation" ----------------------------------------------------------------------


class Continued(NamedTuple):
    """What there is, whether the loop should stop, and what is said about it."""

    id: str
    signals: StopSignals
    requested: bool
    stops: bool
    says: str


TWO = StopSignals([TOKENS, STEPS])
CONTINUED = [
    Continued("nothing", StopSignals(), False, False, "No stop signal has been raised; the run continues."),
    Continued("only a request", StopSignals(), True, False, "No stop signal has been raised; the run continues."),
    Continued("signals", TWO, False, True, f"The run stops: {STEPS} has the highest priority of 2 signals: {TWO}."),
    Continued("one signal", StopSignals([STEPS]), False, True, f"The run stops: {STEPS}."),
    Continued("signals and a request", TWO, True, False, f"The run continues: a continuation puts 2 signals off: {TWO}."),
]  # fmt: skip


@pytest.mark.parametrize("case", CONTINUED, ids=lambda case: case.id)
def test_a_continuation_stops_for_signals_that_nobody_overrides(case: Continued) -> None:
    state = Continuation(case.signals, case.requested)
    assert state.should_stop is case.stops
    assert state.explain() == case.says
    assert Continuation.from_dict(json.loads(json.dumps(state.to_dict()))) == state


def test_a_continuation_is_immutable() -> None:
    empty = Continuation()
    stopped = empty.with_signal(STEPS)
    going = stopped.with_requested()
    assert (empty.should_stop, stopped.should_stop, going.should_stop) == (False, True, False)
    assert (empty.signals, stopped.signals.first) == ((), STEPS)
    assert going.with_requested(False) == stopped
    with pytest.raises(FrozenInstanceError):
        empty.requested = True  # pyright: ignore[reportAttributeAccessIssue]
