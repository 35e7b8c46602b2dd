"""Runs that stop, and runs that go on: the behaviour that document 002 describes.

Played by the shipped machine `stop_signals` where the sentence is about the loop, and by a
machine of a few lines where it is about one mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from chartloop import AgentStop, Run, StopSignal, load
from chartloop.actions.declare import tool_spec
from chartloop.core.outcome import Outcome
from chartloop.core.reasons import REASONS
from chartloop.testing import ManualClock
from tests.support import path, start
from tests.talks import call, outcomes, talk

SEARCH = call("conversation_search", query="it")


def submit(answer: str) -> dict[str, Any]:
    """A reply that ends the work."""
    return call("submit_answer", answer=answer)


def used(tokens: int, reply: Mapping[str, Any]) -> dict[str, Any]:
    """A reply that took so many tokens."""
    return {**reply, "usage": {"prompt_tokens": tokens - 1, "completion_tokens": 1}}


def play(*replies: Any, **limits: Any) -> Run:
    """A run of the shipped machine, up to its end."""
    run = load("stop_signals").start(
        "Find it.", script=list(replies), clock=ManualClock(), limits=limits
    )
    run.run()
    return run


# "How the Loop Decides to Stop" ---------------------------------------------------------------

CHAIN = ("signal.", "continuation.", "tool_calls.")


def decided(run: Run) -> list[str]:
    """The ways that the chain took, one text for each end of an iteration."""
    taken = [edge for record in run.records for edge in record.taken]
    found: list[str] = []
    for edge in taken:
        if edge.startswith("end_of_iteration."):
            found.append("")
        elif edge.startswith(CHAIN):
            found[-1] = f"{found[-1]} {edge}".strip()
    return found


GO_ON = "signal.else continuation.else tool_calls.then"


class Chain(NamedTuple):
    """Replies, limits, and which ways of the chain they lead."""

    id: str
    replies: list[Any]
    limits: dict[str, Any]
    ways: list[str]
    reason: str


CHAINS = [
    Chain("a-signal-and-no-override-stops", [used(16_001, SEARCH)], {}, ["signal.then"], "token_limit"),
    Chain("an-override-goes-on", [SEARCH, "A summary.", "Not there."], {"steps": 1, "continuations": 1}, ["signal.else continuation.then", "signal.then"], "steps_limit"),
    Chain("tool-calls-are-executed", [SEARCH, SEARCH, submit("5")], {}, [GO_ON, GO_ON], "answer_submitted"),
    Chain("a-final-response-completes", [SEARCH, "5"], {}, [GO_ON, "signal.else continuation.else tool_calls.else"], "completed"),
]  # fmt: skip


@pytest.mark.parametrize("case", CHAINS, ids=lambda case: case.id)
def test_the_chain(case: Chain) -> None:
    run = play(*case.replies, **case.limits)
    assert decided(run) == case.ways
    assert run.result.reason == case.reason


# "Stop Signals" -------------------------------------------------------------------------------


def test_a_signal_says_what_was_measured_and_where() -> None:
    (signal,) = play(used(16_200, {"text": "Well,"})).result.signals
    assert signal.reason == "token_limit"
    assert signal.message == "usage.total_tokens > limits.tokens (16,200 against 16,000)"
    assert signal.context == {"limits.tokens": 16_000, "usage.total_tokens": 16_200}
    assert signal.source == "rules.1"


def test_several_signals_of_one_iteration_coexist() -> None:
    run = play(used(16_001, {"text": "Once", "finish_reason": "length"}), steps=1)
    assert run.result.signals.reasons == ("steps_limit", "token_limit", "finish_reason")
    assert run.result.signals.first == run.result.signals.highest
    assert run.result.reason == "steps_limit"


def test_the_highest_need_not_be_the_first() -> None:
    signals = play(used(16_001, submit("5")), steps=1).result.signals
    assert signals.first is not None
    assert signals.highest is not None
    assert (signals.first.reason, signals.highest.reason) == ("steps_limit", "answer_submitted")


# "Emitting Stop Signals from Hooks" -----------------------------------------------------------

EMITTING = """
rules:
  - {when: run.steps >= 1, signal: custom, message: "{{ run.steps }} done"}
states:
  a: {do: act, next: b}
  b: {do: act, next: judge}
  judge: {ask: "Signals?", when: signals.count > 0, then: stop, else: a}
  stop: {stop: highest, next: end}
  end: {end: by_reason}
"""


def test_a_rule_emits_and_the_file_decides() -> None:
    run = start(EMITTING)
    result = run.run()
    assert path(run) == "a b judge stop end"  # emitted after `a`, judged at the end
    assert [str(signal) for signal in result.signals] == ["custom: 1 done (from rules.0)"]
    assert run.continuation.signals == result.signals


def test_an_action_emits_a_signal_of_its_own() -> None:
    signal = StopSignal(REASONS["custom"], "seen enough", {"n": 3}, "a hook")
    run = start(EMITTING, {"a": [Outcome(signals=(signal,))]})
    assert run.run().reason == "custom"
    assert run.result.signals.first == signal
    assert path(run) == "a end"  # it stops by itself


# "StopReason" ---------------------------------------------------------------------------------

BUSY = {"error": {"category": "TRANSIENT", "message": "busy"}}
BROKEN = {"error": {"category": "CRITICAL", "message": "no key"}}


class Ends(NamedTuple):
    """What ends a run for each reason of the document's table."""

    reason: str
    replies: list[Any]
    limits: dict[str, Any]
    kind: str
    forced: bool = True


ENDS = [
    Ends("error", [BROKEN], {}, "error"),
    Ends("answer_submitted", [submit("5")], {}, "natural"),
    Ends("steps_limit", ["Well,"], {"steps": 1}, "limit"),
    Ends("token_limit", [used(16_001, {"text": "Well,"})], {}, "limit"),
    Ends("time_limit", [{"text": "Hm.", "delay": "60s"}], {}, "limit"),
    Ends("retry_limit", [BUSY] * 4, {}, "error"),
    Ends("finish_reason", [{"text": "I may not", "finish_reason": "content_filter"}], {}, "limit", False),
    Ends("completed", ["5"], {}, "natural", False),
]  # fmt: skip


@pytest.mark.parametrize("case", ENDS, ids=lambda case: case.reason)
def test_a_run_ends_for_a_reason(case: Ends) -> None:
    result = play(*case.replies, **case.limits).result
    assert (result.reason, result.kind, result.forced) == (case.reason, case.kind, case.forced)
    assert result.success is (case.kind == "natural")
    assert ("Done at" if case.reason == "completed" else case.reason) in result.explain()


def test_a_run_ends_for_a_caller() -> None:
    run = load("stop_signals").start("Find it.", script=[SEARCH], clock=ManualClock())
    run.advance()
    run.cancel(message="not needed")
    result = run.run()
    assert (result.reason, result.kind, result.forced) == ("user_requested", "human", True)


def test_a_run_ends_for_no_reason() -> None:
    run = start("states: {a: {do: act, next: end}, end: {end: by_reason}}")
    result = run.run()
    assert (result.reason, result.status, result.forced) == ("unknown", "error", True)


# "AgentStopException" -------------------------------------------------------------------------

LOOP = """
tools: [search]
states:
  ask: {do: infer, next: [{when: len(last.tool_calls) > 0, to: work}, {to: done}]}
  work: {do: call_tools, next: ask}
  done: {stop: completed}
"""


def searching(stop: AgentStop, head: str = "") -> Run:
    """A run whose tool raises this; `head` is more of its file."""

    def search() -> str:
        raise stop

    run = talk(head + LOOP, [call("search")], [tool_spec(search, effect="pure")])
    run.run()
    return run


def test_a_tool_stops_the_run_and_its_properties_are_on_the_record() -> None:
    run = searching(AgentStop("found", context={"answer": 5}, source="the index"))
    (signal,) = run.result.signals
    assert signal == StopSignal.stop_requested(
        "found", {"step": 2, "answer": 5}, source="the index"
    )
    assert outcomes(run, "work")[0].signals == (signal,)
    assert outcomes(run, "work")[0].result[0]["result"] == {"step": 2, "answer": 5}


def test_without_a_source_it_is_the_tool() -> None:
    (signal,) = searching(AgentStop("found")).result.signals
    assert (signal.source, signal.context) == ("search", {"step": 2})


def test_without_a_reason_it_is_no_success() -> None:
    """The program cannot know whether the work is done: who stops a run says so."""
    result = searching(AgentStop("I give up")).result
    assert (result.reason, result.kind, result.success) == ("stop_requested", "limit", False)
    assert result.forced
    assert result.output is None


@pytest.mark.parametrize("reason", ["completed", "found", "answer_submitted"])
def test_a_reason_that_is_declared_as_success_is_natural(reason: str) -> None:
    head = "reasons: {found: {priority: 1, forced: false}}"
    result = searching(AgentStop("here", reason=reason), head).result
    assert (result.reason, result.kind, result.success) == (reason, "natural", True)


def test_a_reason_of_the_file_that_cuts_short_or_fails_is_not_natural() -> None:
    for more, kind in (("forced: true", "limit"), ("forced: false, status: error", "error")):
        head = f"reasons: {{lost: {{{more}}}}}"
        assert searching(AgentStop("gone", reason="lost"), head).result.kind == kind


def test_a_tool_may_raise_a_whole_signal() -> None:
    run = searching(AgentStop(StopSignal.time_limit(61, 60, source="the shop closes")))
    assert run.result.reason == "time_limit"
    assert [str(signal) for signal in run.result.signals] == [
        "time_limit: 61 s of 60 s (from the shop closes)"
    ]


def test_it_is_no_error_and_ends_the_run_at_once() -> None:
    run = searching(AgentStop("found"))
    assert (run.facts.errors.total, run.result.errors) == (0, ())
    assert run.facts.usage.llm_calls == 1
    assert run.messages[-1]["content"] == "found"  # no call is left without its reply


def test_the_task_is_completed_by_a_tool_and_the_answer_is_the_output() -> None:
    result = play(SEARCH, submit("42")).result
    assert (result.reason, result.output) == ("answer_submitted", "42")
    assert result.signals[0].context == {"step": 5, "answer": "42"}


# the chain by itself --------------------------------------------------------------------------


class Alone(NamedTuple):
    """What an iteration left, and where the chain ends."""

    id: str
    given: dict[str, Any]
    ends: str
    reason: str = ""


ALL = [
    "error", "stop_requested", "steps_limit", "token_limit", "time_limit", "retry_limit",
    "finish_reason", "user_requested", "completed", "unknown",
]  # fmt: skip
CALLS = [{"name": "conversation_search", "arguments": {"query": "it"}}]
ALONE = [
    Alone("a-signal-and-no-override", {"emitted": ["time_limit"]}, "stop_signal", "time_limit"),
    Alone("the-highest-of-two", {"emitted": ["token_limit", "steps_limit"]}, "stop_signal", "steps_limit"),
    Alone("a-signal-comes-before-tool-calls", {"emitted": ["error"], "tool_calls": CALLS}, "stop_signal", "error"),
    Alone("an-override-of-a-signal", {"emitted": ["steps_limit"], "continued": True}, "continue"),
    Alone("an-override-of-nothing", {"continued": True}, "continue"),
    Alone("an-override-of-completion", {"continued": True, "tool_calls": []}, "continue"),
    Alone("tool-calls", {"tool_calls": CALLS}, "continue"),
    Alone("a-final-response", {}, "complete", "completed"),
    *(Alone(f"signal-{reason}", {"emitted": [reason]}, "stop_signal", reason) for reason in ALL),
]  # fmt: skip


@pytest.mark.parametrize("case", ALONE, ids=lambda case: case.id)
def test_the_chain_alone(case: Alone) -> None:
    call_ = {"function": {"name": "conversation_search", "arguments": '{"query": "it"}'}}
    said = {"role": "assistant", "content": "5"}
    if case.given.get("tool_calls"):
        said |= {"content": "", "tool_calls": [{"id": "1", "type": "function", **call_}]}
    messages = [{"role": "user", "content": "Find it."}, said]
    run = load("should_stop").start(vars=case.given, messages=messages)
    result = run.run()
    assert result.state == case.ends
    assert not case.reason or result.reason == case.reason
    made = (
        case.ends == "continue" and "tool_calls" in case.given and not case.given.get("continued")
    )
    assert run.facts.usage.tool_calls == made


def test_the_chain_alone_is_that_of_the_loop() -> None:
    alone, loop = (load(name).spec.states for name in ("should_stop", "stop_signals"))
    for name in ("signal", "continuation", "tool_calls"):
        mine, whole = (
            [(e.target, "" if e.when is None else e.when.text) for e in m[name].edges]
            for m in (alone, loop)
        )
        assert [(to, when.replace("vars.", "last.")) for to, when in mine] == whole, name


# "Overriding Stop Signals with Continuation" --------------------------------------------------


def test_a_summary_earns_one_more_step() -> None:
    run = play(SEARCH, "A summary.", "Not there.", steps=1, continuations=1)
    assert run.facts.run.continuations == 1
    assert "A summary." in run.messages[0]["content"]
    assert run.facts.usage.llm_calls == 3  # the summary, and the step that it earned
    assert run.result.output == "Not there."


@pytest.mark.parametrize("times", [0, 1, 2, 5])
def test_an_override_that_resolves_nothing_is_bounded(times: int) -> None:
    run = play(*[SEARCH, "A summary."] * times, SEARCH, steps=1, continuations=times)
    assert run.result.reason == "steps_limit"
    assert run.facts.run.continuations == times
    assert len(run.result.signals) == times + 1  # emitted again on the next step, each time
    assert f"Raised by rules.0: {run.result.signals[-1].message}" in run.result.explain()


OVERRIDDEN = """
rules: [{when: run.steps == 2, stop: steps_limit}]
states:
  ask: {do: receive, next: request}
  request: {do: REQUEST, next: think}
  think: {do: infer, next: done}
  done: {stop: completed}
"""


@pytest.mark.parametrize(
    ("request_", "reason"), [("continue_run", "completed"), ("nothing", "steps_limit")]
)
def test_a_rule_that_stops_is_overridden_as_well(request_: str, reason: str) -> None:
    run = talk(OVERRIDDEN.replace("REQUEST", request_), ["5"])
    assert run.run().reason == reason
    assert "steps_limit" in run.result.signals.reasons


CROWDED = """
limits: {context: 60, continuations: 1}
rules:
  - {when: usage.context_tokens >= limits.context, signal: context_overflow}
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: crowded}
  crowded: {ask: "Too long?", when: signals.count > 0 and not signals.continued, then: may, else: more}
  may: {ask: "May go on?", when: run.continuations < limits.continuations, then: shorten, else: stop}
  shorten: {do: prune_context, with: {strategy: truncate, target: 10%}, next: request}
  request: {do: continue_run, with: {times: limits.continuations}, next: more}
  more: {ask: "More?", when: run.visits.think < 3, then: think, else: done}
  stop: {stop: highest, next: end}
  end: {end: by_reason}
  done: {stop: completed}
"""


def test_an_override_that_resolves_the_cause_is_not_needed_again() -> None:
    run = talk(CROWDED, ["x" * 160, "y" * 160, "three"])
    assert run.run().reason == "completed"
    assert run.facts.run.continuations == 1
    assert run.result.signals.reasons == ("context_overflow", "completed")
    assert run.continuation.signals.reasons == ("completed",)  # what was put off is only on record
    assert "Raised by" not in run.result.explain()
    assert "Also raised: context_overflow" in run.result.explain()


def test_the_continuation_says_what_goes_on() -> None:
    run = load("stop_signals").start(
        "Find it.",
        script=[SEARCH, "A summary.", "5"],
        clock=ManualClock(),
        limits={"steps": 1, "continuations": 1},
    )
    told: list[str] = []
    while run.advance() is not None:
        told.append(run.continuation.explain().partition(":")[0])
    assert list(dict.fromkeys(told)) == [
        "No stop signal has been raised; the run continues.",
        "The run stops",
        "The run continues",
    ]
    assert told[-1] == "The run stops"


# "Inspecting Stop Reasons After Execution" ----------------------------------------------------


def test_why_it_stopped_is_told_afterwards() -> None:
    run = play(used(16_001, {"text": "Well,"}))
    assert run.result.explain().splitlines()[:2] == [
        "Stopped by a limit (`token_limit`) at `end` after 2 steps and 0 ms.",
        "Raised by rules.1: usage.total_tokens > limits.tokens (16,001 against 16,000).",
    ]
    assert run.result.to_dict()["signals"] == run.result.signals.to_list()
    assert run.continuation.should_stop
    assert run.why().decision.winner == "token_limit"


# "Combining Guards and Stop Tools" ------------------------------------------------------------


def test_the_document_s_thresholds_are_the_machine_s() -> None:
    limits = load("stop_signals").spec.limits
    assert [limits[name].value for name in ("steps", "tokens", "time")] == [20, 16_000, 60]


@pytest.mark.parametrize(("failures", "reason"), [(3, "completed"), (4, "retry_limit")])
def test_a_model_call_is_retried_three_times(failures: int, reason: str) -> None:
    busy = {"error": {"category": "TRANSIENT", "message": "busy"}}
    run = play(*[busy] * failures, "5")
    assert (run.result.reason, run.facts.run.visits["back_off"]) == (reason, 3)


class Guard(NamedTuple):
    """Where a limit is reached or exceeded, as the document says of it, the run stops."""

    id: str
    replies: list[Any]
    reason: str
    limits: dict[str, Any]


def iterations(number: int) -> list[Any]:
    """Replies for so many iterations: a model call, and the tool that it asks for."""
    return [SEARCH] * number


ROOM = {"tokens": 1_000_000}
GUARDS = [
    Guard("19-iterations", [*iterations(18), "5"], "completed", ROOM),
    Guard("20-iterations", iterations(20), "steps_limit", ROOM),
    Guard("20-iterations-the-last-without-a-tool", [*iterations(19), "5"], "steps_limit", ROOM),
    Guard("15,999-tokens", [used(15_999, {"text": "5"})], "completed", {}),
    Guard("16,000-tokens", [used(16_000, {"text": "5"})], "completed", {}),
    Guard("16,001-tokens", [used(16_001, {"text": "5"})], "token_limit", {}),
    Guard("16,001-tokens-of-two-calls", [used(9_000, SEARCH), used(7_001, {"text": "5"})], "token_limit", {}),
    Guard("59.9-seconds", [{"text": "5", "delay": "59900ms"}], "completed", {}),
    Guard("60-seconds", [{"text": "5", "delay": "60s"}], "time_limit", {}),
    Guard("90-seconds", [{"text": "5", "delay": "90s"}], "time_limit", {}),
    Guard("submitted", [submit("5")], "answer_submitted", {}),
    Guard("no-tool-calls", ["5"], "completed", {}),
]  # fmt: skip


@pytest.mark.parametrize("case", GUARDS, ids=lambda case: case.id)
def test_guards_and_a_stop_tool(case: Guard) -> None:
    run = play(*case.replies, **case.limits)
    assert run.result.reason == case.reason
    assert run.facts.run.elapsed <= 60
    assert run.facts.run.visits["infer"] == len(case.replies) <= 20
    assert run.facts.usage.tool_calls == sum("tool_calls" in reply for reply in case.replies)
