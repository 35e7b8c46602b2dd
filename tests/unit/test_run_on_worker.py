"""A run in which plain tools alone suspend: one worker drives it, and calls them in place.

What the caller sees is what a run on the event loop shows. A worker that is left behind in a tool
adds nothing to the run, whatever the tool does later.
"""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop.actions.declare import tool_spec
from chartloop.adapters.clock import SystemClock
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Run
from chartloop.core.facts import ToolCall
from chartloop.core.outcome import ToolResult
from chartloop.core.plain import plain
from chartloop.run.context import Context
from chartloop.run.exceptions import AgentStop
from chartloop.run.ports import ModelReply, ModelRequest
from chartloop.run.sync import wait
from tests.talks import calls, outcomes, talk

BODY = """
in_doubt: retry
tools: [bad, fine]
memory: {{notes: "old"}}
states:
  ask: {{do: infer, next: [{{when: len(last.tool_calls) > 0, to: work}}, {{to: z}}]}}
  work: {{do: call_tools{work}, next: ask}}
  z: {{stop: completed}}
"""
OPEN, CUT = BODY.format(work=""), BODY.format(work=", within: 100ms, failed: next")
THEN = """
tools: [bad, fine]
memory: {notes: "old"}
in_doubt: retry
states:
  ask: {do: infer, next: work}
  work: {do: call_tools, within: 100ms, failed: then, next: z}
  then: {do: infer, next: after}
  after: {do: call_tools, next: last}
  last: {do: infer, next: z}
  z: {stop: completed}
"""
"""A call that is cut off, and then another one, which has all the time."""
TOOLS = "chartloop tool"
"""The name of a worker."""


def fine() -> str:
    """A tool that answers at once."""
    return threading.current_thread().name


def begin(
    body: str, bad: Callable[..., Any], *replies: Any, other: Callable[[], str] = fine,
    effect: Any = "pure", **options: Any,
) -> Run:  # fmt: skip
    """A run whose model asks for these calls, and then is done."""
    tools = [
        tool_spec(bad, name="bad", effect=effect),
        tool_spec(other, name="fine", effect="pure"),
    ]
    script = () if "model" in options else [*replies, "done"]
    return talk(body, script, tools, clock=SystemClock(), **options)


class Hanging:
    """A tool that hangs until it is released, and then does something to its run, which is over."""

    def __init__(self, late: Callable[[Context], Any] = str) -> None:
        self.late = late
        self.began, self.release, self.done = (threading.Event() for _ in range(3))

    def hang(self, ctx: Context) -> Any:
        """The tool."""
        self.began.set()
        try:
            assert self.release.wait(60)
            return self.late(ctx)
        finally:
            self.done.set()

    def let_go(self) -> None:
        """Let it end, and wait for that; its worker has then no more than a few lines to do."""
        self.release.set()
        assert self.done.wait(60)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.let_go()


def test_one_worker_drives_the_run_and_calls_its_tools() -> None:
    threads: list[threading.Thread] = []

    def bad() -> str:
        threads.append(threading.current_thread())
        return "ok"

    run = begin(OPEN, bad, calls("bad"), calls("bad"))
    run.listen(lambda _: threads.append(threading.current_thread()))
    assert run.run().reason == "completed"
    assert len(set(threads)) == 1
    assert threads[0].name == TOOLS
    assert threads[0] is not threading.current_thread()


class Late(NamedTuple):
    """What a tool does after its run has continued without it."""

    id: str
    do: Callable[[Context], Any]


def _return(_: Context) -> str:
    return "late"


def _write(_: Context) -> ToolResult:
    return ToolResult("late", changes={"memory.notes": "late"})


def _start(_: Context) -> str:
    return str(begin(OPEN, fine, calls("fine")).run().reason)


def _stop(_: Context) -> None:
    raise AgentStop("late")


def _save(ctx: Context) -> None:
    ctx.save()


def _tell(ctx: Context) -> None:
    ctx.tell("late")


def _exit(_: Context) -> None:
    raise SystemExit(1)


LATE = [
    Late("returns", _return),
    Late("writes memory", _write),
    Late("stops the run", _stop),
    Late("exits", _exit),
    Late("asks for a snapshot", _save),
    Late("streams", _tell),
    Late("starts another run", _start),
]


@pytest.mark.parametrize("case", LATE, ids=lambda case: case.id)
@pytest.mark.parametrize("effect", ["pure", "paid"])
@pytest.mark.parametrize("during", [True, False], ids=["during a call", "after the run"])
def test_nothing_of_a_tool_that_was_left_behind_is_recorded(
    case: Late, effect: str, during: bool
) -> None:
    hanging, events = Hanging(case.do), list[Any]()

    def other() -> str:
        """Another call of the run, during which the first one ends."""
        if during:
            hanging.let_go()
            time.sleep(0.05)  # for what must not happen: nothing has to
        return threading.current_thread().name

    run = begin(THEN, hanging.hang, calls("bad"), calls("fine"), other=other, effect=effect)
    run.listen(events.append)
    assert run.run().reason == "completed"
    assert outcomes(run, "work")[0].timed_out
    assert outcomes(run, "after")[0].result[0]["content"] == TOOLS
    assert run.replay().same
    before = (run.records, len(events), run.result, _events(run))
    hanging.let_go()
    assert (run.records, len(events), run.result, _events(run)) == before
    late = [event.data["late"] for event in before[3] if "late" in event.data]
    assert len(late) == (during and effect == "paid" and case.id != "exits")  # settles the doubt
    log = [event for event in before[3] if "late" not in event.data]
    assert not any("late" in str(part) for part in (*before[0], *log, *events))
    assert run.facts.memory["notes"] == "old"


def _events(run: Run) -> list[Any]:
    async def read() -> list[Any]:
        return list(await run.session.journal.events(run.id))

    return asyncio.run(read())


def test_a_deadline_nearer_than_the_one_before_is_kept(hanging: Hanging) -> None:
    body = """
tools: [bad, fine]
limits: {time: 1h}
rules:
  - {when: run.working >= limits.time, stop: time_limit}
states:
  far: {do: tool, with: {name: fine}, next: nearer}
  nearer: {do: tool, with: {name: fine}, within: 10m, next: near}
  near: {do: tool, with: {name: bad}, within: 100ms, expired: z}
  z: {stop: completed}
"""
    run = begin(body, hanging.hang)
    assert run.run().reason == "completed"
    assert outcomes(run, "near")[0].timed_out


@pytest.mark.parametrize("count", [1, 2])
def test_a_deadline_is_kept_again_and_again(count: int) -> None:
    every = [Hanging() for _ in range(3)]
    left = iter([each for each in every for _ in range(count)])
    lock = threading.Lock()

    def bad(ctx: Context) -> Any:
        with lock:
            mine = next(left)
        return mine.hang(ctx)

    run = begin(CUT, bad, *[calls(*["bad"] * count)] * 3)
    assert run.run().reason == "completed"
    assert [outcome.timed_out for outcome in outcomes(run, "work")] == [True] * 3
    for each in every:
        each.release.set()


def test_a_plain_function_that_gives_a_coroutine_is_cut_off() -> None:
    ended = threading.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    run = begin(CUT, lambda: hang(), calls("bad"))  # noqa: PLW0108  it is to be a plain function
    assert run.run().reason == "completed"
    assert outcomes(run, "work")[0].timed_out
    assert ended.is_set()  # it was cancelled, and had a moment to clean up


def rests(run: Run) -> None:
    """Wait until nothing drives the run: an interrupted caller waits for that for a moment only."""
    for _ in range(6000):
        if not run.session.turn.is_held:
            return
        time.sleep(0.01)
    pytest.fail("it is still driven")


# the caller ---------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [["bad"], ["bad", "fine"]], ids=["one call", "two at once"])
def test_ctrl_c_reaches_the_caller_and_the_run_can_go_on(names: list[str]) -> None:
    main = threading.main_thread()
    assert threading.current_thread() is main
    assert main.ident is not None
    ident, hanging = main.ident, Hanging()

    def interrupt(ctx: Context) -> Any:
        if not hanging.began.is_set():
            hanging.began.set()
            signal.pthread_kill(ident, signal.SIGINT)
            return hanging.hang(ctx)
        return "again"

    run = begin(OPEN, interrupt, calls(*names), effect="paid")
    with pytest.raises(KeyboardInterrupt):
        run.run()
    rests(run)
    assert run.state == "work"
    before = _events(run)
    hanging.let_go()
    time.sleep(0.05)  # for what must not happen: nothing has to
    assert _events(run) == before
    assert run.run().reason == "completed"
    assert outcomes(run, "work")[0].result[0]["content"] == "again"
    assert run.replay().same


class Talkative:
    """A model that asks for calls without end; the first time the caller is interrupted."""

    suspends = False

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self.asked, self._interrupt = 0, interrupt

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing is missing."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        return None

    async def complete(self, request: ModelRequest, on_text: Any = None) -> ModelReply:
        self.asked += 1
        if self.asked == 1:
            self._interrupt()
        return ModelReply("", (ToolCall(str(self.asked), "fine", "{}"),), "tool_calls")


def test_ctrl_c_between_two_calls_ends_the_run_at_the_next() -> None:
    ident = threading.main_thread().ident
    assert ident is not None
    body = OPEN.replace("states:", "limits: {steps: 1_000_000_000}\nstates:")
    model = Talkative(lambda: signal.pthread_kill(ident, signal.SIGINT))
    run = begin(body, fine, model=model)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    rests(run)
    asked = model.asked
    assert (run.state, run.ended) == ("work", False)
    assert (run.step() is not None, model.asked) == (True, asked)


def test_a_context_variable_of_the_caller_is_seen_and_a_tools_own_is_not() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="nothing")
    seen: list[str] = []

    def bad() -> str:
        seen.append(variable.get())
        variable.set("the tool's")
        return "ok"

    variable.set("the caller's")
    run = begin(OPEN, bad, calls("bad"), calls("bad", "bad"))
    assert run.run().reason == "completed"
    assert seen == ["the caller's"] * 3
    assert variable.get() == "the caller's"


def test_a_run_that_was_given_another_journal_is_driven_as_that_one_needs(tmp_path: Path) -> None:
    """As the command line does it."""
    run, journal = begin(OPEN, fine, calls("bad")), SqliteJournal(tmp_path / "j.db")
    assert run.suspends
    run.session.journal = journal.grouped
    assert run.run().reason == "completed"
    assert run.replay().same
    wait(journal.grouped.close(), suspends=True)


def test_two_runs_at_once() -> None:
    """Each tool waits for that of the other run."""
    both = threading.Barrier(2, timeout=60)
    results: list[str] = []

    def drive() -> None:
        run = begin(OPEN, lambda: both.wait() * 0, calls("bad"), calls("bad"))
        results.append(str(run.run().reason))

    threads = [threading.Thread(target=drive) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == ["completed"] * 2


def test_inside_a_running_loop(hanging: Hanging) -> None:
    async def main() -> Run:
        run = begin(THEN, hanging.hang, calls("bad"), calls("fine"))
        assert run.run().reason == "completed"
        return run

    run = asyncio.run(main())
    assert outcomes(run, "work")[0].timed_out
    assert outcomes(run, "after")[0].result[0]["content"] == TOOLS


def test_an_async_tool_cannot_wait_for_such_a_run_on_the_thread_that_drives_it() -> None:
    async def bad() -> str:
        return str(begin(OPEN, fine, calls("fine")).run().reason)

    run = begin(OPEN, bad, calls("bad"))
    assert run.run().reason == "completed"
    assert "`a` before it" in outcomes(run, "work")[0].tool_errors[0]


@pytest.mark.parametrize("drive", ["run", "step", "advance"])
def test_each_way_to_drive_it_gives_the_records_of_the_event_loop(drive: str) -> None:
    def bad(n: int = 0) -> Any:
        match n:
            case 0:
                return {"n": n}
            case 1:
                raise ValueError("odd")
            case _:
                return ToolResult("t", changes={"memory.notes": "new"}, partial=("half",))

    asked = [
        {"tool_calls": [{"name": "bad", "arguments": {"n": n}, "id": str(n)} for n in numbers]}
        for numbers in ([0], [1], [2], [0, 1, 2], [])
    ]
    here, there = (begin(OPEN, bad, *asked[:-1]) for _ in range(2))
    asyncio.run(there.arun())
    while not here.ended:
        getattr(here, drive)()
    assert _timeless(here) == _timeless(there)
    assert [event.type for event in _events(here)] == [event.type for event in _events(there)]


def _timeless(run: Run) -> list[Any]:
    """The records of a run without their times and its id."""
    records = [one.replace(input=one.input.replace(started=0.0, at=0.0)) for one in run.records]
    return json.loads(json.dumps(plain([one.to_dict() for one in records])).replace(run.id, "run"))
