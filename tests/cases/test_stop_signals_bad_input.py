"""What comes from a model or a tool and is not as it should be: it is on the record, nothing is
lost, and there is always a result. Stops among them: two at once, reasons and contexts of junk.

Tools that raise, hang or return anything at all are in `tests/unit/test_hostile_tools.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import AgentStop, Outcome, Run, StopSignal, load
from chartloop.actions.declare import EffectWord, tool_spec
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.facts import ToolCall
from chartloop.core.outcome import ToolResult
from chartloop.core.reasons import REASONS
from chartloop.run.ports import ModelReply
from chartloop.testing import ManualClock
from tests.support import start
from tests.talks import Listening, call, calls, outcomes, talk, written

LOOP = """
tools: [bad, worse]
states:
  ask: {do: infer, next: [{when: len(last.tool_calls) > 0, to: work}, {to: done}]}
  work: {do: call_tools, next: ask}
  done: {stop: completed}
"""


# models ---------------------------------------------------------------------------------------


def asked(name: str, arguments: str) -> ModelReply:
    """A reply that asks for one call, as the model wrote it."""
    return ModelReply("", (ToolCall("1", name, arguments),), "tool_calls")


class Says(NamedTuple):
    """What a model answers first, and what is written down of it."""

    id: str
    reply: ModelReply
    error: str
    output: Any = "5"


SAYS = [
    Says("nonsense", ModelReply("%$ \ud800 }{"), "", "%$ \ufffd }{"),
    Says("empty-content", ModelReply(""), "", ""),
    Says("malformed-arguments", asked("submit_answer", '{"answer": '), "submit_answer: error: "),
    Says("arguments-of-another-type", asked("submit_answer", '{"answer": {"a": 1}}'), "submit_answer: error: "),
    Says("no-arguments", asked("submit_answer", ""), "submit_answer: error: "),
    Says("an-unknown-tool", asked("sumbit_answer", "{}"), "there is no tool `sumbit_answer`; the tools are: `submit_answer`"),
    Says("a-nameless-tool", asked("", "{}"), "there is no tool `unnamed`"),
]  # fmt: skip


@pytest.mark.parametrize("case", SAYS, ids=lambda case: case.id)
def test_a_model_may_answer_anything(case: Says) -> None:
    model = Listening(case.reply, ModelReply("5"))
    run = load("stop_signals").start("Find it.", model=model, clock=ManualClock())
    result = run.run()
    assert (result.reason, result.kind, result.output) == ("completed", "natural", case.output)
    assert [error["category"] for error in result.errors] == ["RECOVERABLE"] * bool(case.error)
    empty = "the model gave an empty reply: neither text nor tool calls"
    assert (empty in result.warnings) is (case.id == "empty-content")
    for error in result.errors:
        assert case.error in error["message"]
        assert (error["state"], error["step"]) == ("execute", 3)
        assert run.messages[-2]["content"] in error["message"]  # the model was told
    written(run)


# tools ----------------------------------------------------------------------------------------


def stopping(*stops: AgentStop, effect: EffectWord = "pure") -> Run:
    """A run whose model calls its tools at once, each of which raises one of these."""

    def tool(name: str, stop: AgentStop) -> object:
        def call_() -> str:
            raise stop

        return tool_spec(call_, name=name, effect=effect)

    names = ("bad", "worse")
    tools = [tool(n, s) for n, s in zip(names, [*stops, AgentStop("unused")], strict=False)]
    run = talk(LOOP, [calls(*names[: len(stops)])], tools)
    run.run()
    return run


def test_of_two_stops_at_once_the_higher_wins_and_both_are_on_the_record() -> None:
    run = stopping(AgentStop("tired", reason="custom"), AgentStop("found"))
    assert run.result.reason == "stop_requested"
    assert [str(s) for s in run.result.signals] == [
        "custom: tired (from bad)", "stop_requested: found (from worse)"
    ]  # fmt: skip
    assert run.facts.usage.llm_calls == 1


def test_of_two_equal_stops_at_once_the_first_decides_and_no_answer_is_lost() -> None:
    replies = [calls("submit_answer", "submit_answer")]
    for number, asking in enumerate(replies[0]["tool_calls"]):
        asking["arguments"] = {"answer": f"answer {number}"}
    run = load("stop_signals").start("Find it.", script=replies, clock=ManualClock())
    result = run.run()
    assert (result.reason, result.output) == ("answer_submitted", "answer 0\nanswer 1")
    assert [s.context["answer"] for s in outcomes(run, "execute")[0].signals] == [
        "answer 0", "answer 1"
    ]  # fmt: skip


class Reason(NamedTuple):
    """A reason as a tool wrote it, and the reason that the run has."""

    id: str
    written: Any
    becomes: str


REASON = [
    Reason("unknown", "out_of_paper", "out_of_paper"),
    Reason("empty", "", "stop_requested"),
    Reason("none", None, "stop_requested"),
    Reason("a-number", 5, "5"),
    Reason("a-list", ["x"], "['x']"),
    Reason("half-a-character", "\ud800", "\ufffd"),
]


@pytest.mark.parametrize("case", REASON, ids=lambda case: case.id)
def test_a_tool_that_stops_for_an_unknown_reason_stops(case: Reason) -> None:
    run = stopping(AgentStop("enough", reason=case.written))
    result = run.run()
    assert (result.reason, result.signals[0].message) == (case.becomes, "enough")
    assert result.facts.usage.llm_calls == 1  # the run does not go on
    known = case.becomes in REASONS
    warning = f"stop reason `{case.becomes}` is not one of the machine's: it stops as `custom` does"
    assert (warning in result.warnings) is not known
    assert result.kind == "limit"
    written(run)


CUSTOM = """
states:
  a: {do: act, next: done}
  enough: {stop: custom}
  done: {stop: completed}
"""


@pytest.mark.parametrize("ask", ["cancel", "tool"])
def test_an_unknown_reason_goes_the_way_of_custom(ask: str) -> None:
    run = start(CUSTOM, {"a": [AgentStop("enough", reason="own")] if ask == "tool" else []})
    if ask == "cancel":
        run.advance()
        run.cancel("own")
    result = run.run()
    assert (result.reason, result.state) == ("own", "enough")


def itself() -> dict[str, Any]:
    loop: list[Any] = []
    loop.append(loop)
    return {"loop": loop}


class Junk(NamedTuple):
    """A context as a tool wrote it, and as it is recorded."""

    id: str
    context: Callable[[], dict[Any, Any]]
    recorded: dict[str, Any]


JUNK = [
    Junk("an-object", lambda: {"at": object}, {"at": "<class 'object'>"}),
    Junk("a-set", lambda: {"seen": {1}}, {"seen": [1]}),
    Junk("no-number", lambda: {"share": float("nan")}, {"share": "nan"}),
    Junk("data-that-holds-itself", itself, {"loop": "[[...]]"}),
    Junk("a-key-that-is-none", lambda: {5: "five", (1,): "one"}, {"5": "five", "[1]": "one"}),
    Junk("half-a-character", lambda: {"\ud800": "\ud800"}, {"\ufffd": "\ufffd"}),
]


@pytest.mark.parametrize("where", ["a tool", "a paid tool", "an action"])
@pytest.mark.parametrize("case", JUNK, ids=lambda case: case.id)
def test_a_context_that_is_no_json_becomes_some(case: Junk, where: str) -> None:
    stop = AgentStop("enough", context=case.context())
    if where == "an action":
        run = start(CUSTOM, {"a": [stop]})
    else:
        run = stopping(stop, effect="pure" if where == "a tool" else "paid")
    assert run.run().reason == "stop_requested"
    (signal,) = run.result.signals
    assert signal.context == {"step": run.facts.run.steps, **case.recorded}
    written(run)


def test_a_signal_that_a_tool_returns_is_made_sound_too(tmp_path: Path) -> None:
    signal = StopSignal(REASONS["custom"], "\ud800", {"at": object}, "bad")

    def bad() -> ToolResult:
        return ToolResult("seen", signals=(signal,))

    other = tool_spec(lambda: 1, name="worse")
    journal = SqliteJournal(tmp_path / "journal.db")  # a paid call's result is written beforehand
    run = talk(LOOP, [call("bad")], [tool_spec(bad, effect="paid"), other], journal=journal)
    assert run.run().reason == "custom"
    assert run.result.signals[0].context == {"at": "<class 'object'>"}
    written(run)


def test_an_action_that_gives_no_signal_as_one_fails() -> None:
    nothing: Any = "stop"
    run = start(
        "states: {a: {do: act, next: z}, z: {stop: completed}}",
        {"a": [Outcome(signals=(nothing,))]},
    )
    result = run.run()
    assert (result.reason, result.errors[0]["category"]) == ("error", "CRITICAL")
    assert "act gave an invalid signal" in result.errors[0]["message"]
