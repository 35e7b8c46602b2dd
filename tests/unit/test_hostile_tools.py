"""Tools and models that do their worst: it is on the record, and the run is not lost."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from chartloop.actions.declare import tool_spec
from chartloop.adapters.clock import SystemClock
from chartloop.api import Run
from chartloop.core.facts import ToolCall
from chartloop.core.outcome import ToolResult
from chartloop.core.reasons import REASONS, StopSignal
from chartloop.run.context import Context
from chartloop.run.exceptions import AgentStop
from chartloop.run.ports import ModelReply
from chartloop.run.sanitize import LONGEST
from tests.talks import Listening, call, calls, outcomes, provider_says, talk, written

LOOP = """
tools: [bad]
memory: {notes: "old"}
states:
  ask: {do: infer, next: [{when: len(last.tool_calls) > 0, to: work}, {to: z}]}
  work: {do: call_tools, next: ask}
  z: {stop: completed}
"""


def made_by(function: Callable[..., Any], **options: Any) -> Run:
    """A run in which the model calls `bad` once, and then is done."""
    spec = tool_spec(function, name="bad", effect="pure")
    return talk(LOOP, [call("bad"), "done"], [spec], **options)


class Raising(NamedTuple):
    """What a tool raises, and what the model reads of it."""

    id: str
    make: Callable[[], BaseException]
    told: str


class Odd(BaseException):
    """An exception that nobody has heard of."""


class Mute(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


RAISED = [
    Raising("an exception", lambda: ValueError("odd"), "error: ValueError: odd"),
    Raising("exit", lambda: SystemExit(3), "error: SystemExit: 3"),
    Raising("interrupt", KeyboardInterrupt, "error: KeyboardInterrupt: "),
    Raising("generator exit", GeneratorExit, "error: GeneratorExit: "),
    Raising("stop iteration", lambda: StopIteration(1), "StopIteration"),
    Raising("a cancellation of its own", asyncio.CancelledError, "error: CancelledError: "),
    Raising("a group", lambda: ExceptionGroup("two", [ValueError("a"), OSError("b")]), "error: ExceptionGroup: two (2 sub-exceptions)"),
    Raising("a group with an exit", lambda: BaseExceptionGroup("two", [SystemExit()]), "error: BaseExceptionGroup: two (1 sub-exception)"),
    Raising("no Exception", lambda: Odd("x"), "error: Odd: x"),
    Raising("no text", Mute, "error: Mute"),
    Raising("a timeout of its own", lambda: TimeoutError("socket"), "error: TimeoutError: socket"),
    Raising("too much text", lambda: ValueError("x" * 1_000_000), "… (cut: the whole has 1,000,019"),
    Raising("half a character", lambda: ValueError("\ud800"), "error: ValueError: \ufffd"),
]  # fmt: skip


@pytest.mark.parametrize("asynchronous", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("case", RAISED, ids=lambda case: case.id)
def test_a_tool_may_raise_anything(case: Raising, asynchronous: bool) -> None:
    def plain() -> str:
        raise case.make()

    async def later() -> str:
        await asyncio.sleep(0)
        raise case.make()

    run = made_by(later if asynchronous else plain)
    assert run.run().reason == "completed"
    (outcome,) = outcomes(run, "work")
    assert outcome.ok
    assert case.told in outcome.messages[0]["content"]
    assert len(outcome.tool_errors) == run.facts.errors.total == 1
    assert run.facts.errors.consecutive == 0
    written(run)


@pytest.mark.parametrize(
    "error", [SystemExit(2), KeyboardInterrupt(), Odd("x")], ids=["exit", "interrupt", "odd"]
)
def test_the_private_loop_outlives_what_a_tool_raises(error: BaseException) -> None:
    async def bad() -> str:
        raise error

    for _ in range(2):
        assert made_by(bad).run().reason == "completed"


def test_a_tool_may_stop_the_run() -> None:
    def bad() -> str:
        raise AgentStop("enough", reason="custom", context={"n": 1})

    run = made_by(bad)
    result = run.run()
    assert (result.reason, result.signals[0].message, result.signals[0].source) == (
        "custom",
        "enough",
        "bad",
    )
    assert result.facts.errors.total == 0
    assert provider_says(run.messages) is None


class Returned(NamedTuple):
    """What a tool returns, what the model reads, and what is recorded as its data."""

    id: str
    value: Any
    told: str
    data: Any


class Rude:
    """A value that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def looped() -> Any:
    value: list[Any] = [1]
    value.append(value)
    return value


def deep() -> Any:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    return value


RETURNED = [
    Returned("nothing", None, "done", None),
    Returned("text", "yes", "yes", "yes"),
    Returned("data", {"a": [1, 2.5, None, True]}, '{"a": [1, 2.5, null, true]}', {"a": [1, 2.5, None, True]}),
    Returned("a tuple and a set", ({1}, (2,)), "[[1], [2]]", [[1], [2]]),
    Returned("no number", float("nan"), "NaN", "nan"),
    Returned("no number inside", {"x": float("inf")}, '{"x": Infinity}', "{'x': inf}"),
    Returned("bytes", b"\xff\x00", "b'", "b'\\xff\\x00'"),
    Returned("an object", object, "<class 'object'>", "<class 'object'>"),
    Returned("what cannot be shown", Rude(), "<Rude>", "<Rude>"),
    Returned("data that holds itself", looped(), "[1, [...]]", "[1, [...]]"),
    Returned("data that is too deep", deep(), "", None),
    Returned("a number with 5,000 digits", 10**5000, "<int>", "<int>"),
    Returned("half a character", "a\ud800b", "a\ufffdb", "a\ufffdb"),
    Returned("half a character inside", {"\udfff": 1}, "\ufffd", {"\ufffd": 1}),
    Returned("two halves", "\ud83d\ude00", "\U0001f600", "\U0001f600"),
    Returned("NUL", "a\0b", "a\0b", "a\0b"),
]  # fmt: skip


@pytest.mark.parametrize("case", RETURNED, ids=lambda case: case.id)
def test_a_tool_may_return_anything(case: Returned) -> None:
    run = made_by(lambda: case.value)
    assert run.run().reason == "completed"
    (outcome,) = outcomes(run, "work")
    assert case.told in outcome.result[0]["content"]
    assert case.id == "data that is too deep" or outcome.result[0]["result"] == case.data
    assert outcome.tool_errors == ()
    written(run)


def test_a_megabyte_is_cut() -> None:
    run = made_by(lambda: ["x" * 1_000_000])
    run.run()
    (outcome,) = outcomes(run, "work")
    told, data = outcome.result[0]["content"], outcome.result[0]["result"]
    assert LONGEST < len(told) < LONGEST + 100
    assert told.endswith("… (cut: the whole has 1,000,004 characters)")
    assert data == told
    written(run)


def test_a_generator_is_no_result() -> None:
    run = made_by(lambda: (n for n in range(3)))
    run.run()
    assert "returned a generator" in outcomes(run, "work")[0].tool_errors[0]


def test_a_plain_function_may_give_a_coroutine() -> None:
    async def inner() -> int:
        return 5

    def bad() -> object:
        return inner()

    run = made_by(bad)
    run.run()
    assert outcomes(run, "work")[0].result[0]["result"] == 5


class Written(NamedTuple):
    """A result that a tool writes itself, and what of it is refused."""

    id: str
    result: Any
    ok: bool


WRITTEN = [
    Written("memory", ToolResult("t", changes={"memory.notes": "new"}), True),
    Written("no such block", ToolResult("t", changes={"memory.nope": "new"}), False),
    Written("a variable", ToolResult("t", changes={"vars.n": 1}), False),
    Written("a fact", ToolResult("t", changes={"run.steps": 0}), False),
    Written("no text", ToolResult("t", changes={"memory.notes": 5}), False),
    Written("changes that are none", ToolResult("t", changes=[1]), False),  # pyright: ignore[reportArgumentType]
    Written("text that is none", ToolResult(5), True),  # pyright: ignore[reportArgumentType]
    Written("partial results that are none", ToolResult("t", partial=(b"x",)), True),  # pyright: ignore[reportArgumentType]
    Written("data that is none", ToolResult("t", result={1, 2}), True),
]  # fmt: skip


@pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case.id)
def test_a_tool_may_write_its_own_result(case: Written) -> None:
    run = made_by(lambda: case.result)
    assert run.run().reason == "completed"
    (outcome,) = outcomes(run, "work")
    assert outcome.result[0]["ok"] == case.ok
    assert run.facts.memory["notes"] == ("new" if case.id == "memory" else "old")
    assert set(run.facts.vars) == set()
    written(run)


def test_a_tool_that_changes_its_arguments_changes_nothing_else() -> None:
    def bad(items: list[int]) -> int:
        items.append(9)
        items.clear()
        return len(items)

    run = talk(LOOP, [call("bad", items=[1, 2]), "done"], [tool_spec(bad, effect="pure")])
    run.run()
    assert json.loads(run.messages[0]["tool_calls"][0]["function"]["arguments"]) == {
        "items": [1, 2]
    }


def test_what_a_tool_returns_is_copied() -> None:
    mine: list[int] = [1]
    run = made_by(lambda: mine)
    run.run()
    mine.append(2)
    assert outcomes(run, "work")[0].result[0]["result"] == [1]


# hanging ------------------------------------------------------------------------------------

SLOW = LOOP.replace("do: call_tools", "do: call_tools, within: 100ms, failed: next")


async def _sleeps() -> str:
    await asyncio.Event().wait()
    return "late"


@pytest.mark.parametrize("asynchronous", [False, True], ids=["plain", "async"])
def test_a_tool_that_hangs_is_cut_off_and_the_run_goes_on(asynchronous: bool) -> None:
    release = threading.Event()

    def hang() -> None:
        release.wait()

    spec = tool_spec(_sleeps if asynchronous else hang, name="bad", effect="pure")
    run = talk(SLOW, [call("bad"), "done"], [spec], clock=SystemClock())
    result = run.run()  # it hangs where the tool is waited for
    release.set()
    assert result.reason == "completed"
    (outcome,) = outcomes(run, "work")
    assert outcome.timed_out
    assert outcome.error is not None
    assert (outcome.error.category, outcome.error.kind) == ("TRANSIENT", "timeout")
    assert outcome.error.message == "call_tools took too long: stopped after 100 ms"


def test_calls_that_were_done_in_time_keep_their_replies() -> None:
    paid: list[str] = []

    def pay() -> str:
        paid.append("x")
        return "paid"

    body = SLOW.replace("[bad]", "[pay, bad]").replace(
        "failed: next", "retry: {times: 1, base: 0s}, failed: next"
    )
    bad = tool_spec(_sleeps, name="bad", effect="pure")
    model = Listening(
        ModelReply("", (ToolCall("1", "pay", "{}"), ToolCall("2", "bad", "{}")), "tool_calls"),
        ModelReply("done"),
    )
    run = talk(body, (), [tool_spec(pay, name="pay"), bad], model=model, clock=SystemClock())
    assert run.run().reason == "completed"
    first, second = outcomes(run, "work")
    assert [m["content"] for m in first.messages] == ["paid"]
    assert second.messages == ()
    assert paid == ["x"]  # the second attempt made only the call that had not been done
    replies = [m["content"] for m in model.asked[1].messages if m["role"] == "tool"]
    assert replies == ["paid", "error: this call was not executed"]


@pytest.mark.slow("starts processes for seconds")
def test_no_thread_keeps_the_process_alive() -> None:
    script = (
        "import time\nfrom chartloop.actions.declare import tool_spec\nfrom chartloop.adapters.clock import SystemClock\n"
        "from tests.talks import talk, call\nfrom tests.unit.test_hostile_tools import SLOW\n"
        "bad = tool_spec(lambda: time.sleep(3600), name='bad', effect='pure')\n"
        "print(talk(SLOW, [call('bad'), 'done'], [bad], clock=SystemClock()).run().reason)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("completed", 0), done.stderr


# calling back -------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("method", ["step", "run"])
def test_a_tool_cannot_drive_the_run_that_calls_it(method: str, asynchronous: bool) -> None:
    box: list[Run] = []

    def plain() -> str:
        return str(getattr(box[0], method)())

    async def later() -> str:
        return plain()

    run = made_by(later if asynchronous else plain)
    box.append(run)
    assert run.run().reason == "completed"
    (told,) = outcomes(run, "work")[0].tool_errors
    assert ("`a` before it" if asynchronous else "is being driven at this moment") in told
    assert run.facts.usage.tool_calls == 1


def test_a_tool_may_cancel_its_run() -> None:
    box: list[Run] = []

    def bad() -> str:
        box[0].cancel(message="I have seen enough")
        return "asked"

    run = made_by(bad)
    box.append(run)
    result = run.run()
    assert (result.reason, result.signals[0].message) == ("user_requested", "I have seen enough")


def test_a_tool_may_run_another_machine() -> None:
    def bad() -> str:
        return str(made_by(lambda: "inner").run().reason)

    run = made_by(bad)
    run.run()
    assert outcomes(run, "work")[0].result[0]["content"] == "completed"


# models -------------------------------------------------------------------------------------


def test_a_tool_that_nobody_registered() -> None:
    run = talk(LOOP, [call("nope"), "done"], [tool_spec(lambda: 1, name="bad")])
    assert run.run().reason == "completed"
    assert outcomes(run, "work")[0].tool_errors == (
        "nope: error: there is no tool `nope`; the tools are: `bad`",
    )
    assert run.facts.usage.tool_calls == 0


class Asks(NamedTuple):
    """Tool calls as a model wrote them."""

    id: str
    calls: tuple[Any, ...]


ASKS = [
    Asks("the same id twice", (ToolCall("1", "bad", "{}"), ToolCall("1", "bad", "{}"))),
    Asks("no ids", (ToolCall("", "bad", "{}"), ToolCall("", "bad", "{}"))),
    Asks("an id that is none", (ToolCall(None, "bad", "{}"),)),  # pyright: ignore[reportArgumentType]
    Asks("an id of a megabyte", (ToolCall("x" * 1_000_000, "bad", "{}"),)),
    Asks("no name", (ToolCall("1", "", "{}"),)),
    Asks("a name of junk", (ToolCall("1", "bad\0\ud800 ☃.{}" * 40, "{}"),)),
    Asks("broken arguments", (ToolCall("1", "bad", '{"a": '),)),
    Asks("no arguments", (ToolCall("1", "bad", ""),)),
    Asks("arguments that are none", (ToolCall("1", "bad", None),)),  # pyright: ignore[reportArgumentType]
    Asks("arguments of junk", (ToolCall("1", "bad", "\ud800\0☃"),)),
    Asks("arguments that are a list", (ToolCall("1", "bad", "[1]"),)),
    Asks("arguments too deep", (ToolCall("1", "bad", "[" * 100_000),)),
]  # fmt: skip


@pytest.mark.parametrize("action", ["call_tools", "call_tool"])
@pytest.mark.parametrize("case", ASKS, ids=lambda case: case.id)
def test_a_model_may_ask_for_anything(case: Asks, action: str) -> None:
    model = Listening(ModelReply("\ud800\0", case.calls, "tool_calls"), ModelReply("done"))
    run = talk(
        LOOP.replace("call_tools", action), (), [tool_spec(lambda: "ok", name="bad")], model=model
    )
    assert run.run().reason == "completed"
    assert len(model.asked) == 2  # and neither would be refused: see `Listening`
    written(run)


@pytest.mark.slow("takes seconds")
def test_a_thousand_calls_at_once() -> None:
    at_once, most = 0, 0
    lock = threading.Lock()

    def bad() -> str:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.02)
        with lock:
            at_once -= 1
        return "ok"

    many = LOOP.replace("do: call_tools", "do: call_tools, with: {at_most: 1000}")
    run = talk(many, [calls(*["bad"] * 1000), "done"], [tool_spec(bad, name="bad", effect="pure")])
    assert run.run().reason == "completed"
    assert run.facts.usage.calls == {"bad": 128}  # as many as a provider takes back
    assert len(outcomes(run, "work")[0].messages) == 128
    assert 1 < most <= 64


def test_a_tool_that_reads_the_context_sees_the_run() -> None:
    def bad(ctx: Context) -> str:
        return f"{ctx.run_id} {ctx.step} {ctx.state.name} {len(ctx.messages)} {ctx.queue} {ctx.prompt} {ctx.streaming}"

    run = made_by(bad)
    run.run()
    assert outcomes(run, "work")[0].result[0]["content"] == f"{run.id} 2 work 1 () None False"


def test_signals_and_partial_results_of_a_tool_count() -> None:
    made = ToolResult("t", partial=("half",), signals=(StopSignal(REASONS["custom"], "seen"),))
    result = made_by(lambda: made).run()
    assert (result.reason, result.partial) == ("custom", ("half",))
