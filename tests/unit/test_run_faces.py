"""The faces of a run: sync, async and streamed; stepping, asking, going back; as data."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from chartloop.actions.declare import tool, tool_spec
from chartloop.adapters.clock import SystemClock
from chartloop.adapters.model.scripted import Scripted
from chartloop.api import Machine, Run, load
from chartloop.core.errors import (
    AnswerError,
    LimitError,
    MachineChangedError,
    RunError,
    StatusError,
    UnknownRunError,
)
from chartloop.core.facts import RunFacts
from chartloop.core.outcome import Outcome
from chartloop.core.reasons import StopReason
from chartloop.run.events import Delta, Event, FromChild, Recorded, Rewound, Started
from chartloop.run.journal import MemoryJournal
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.run.sync import by_hand, wait
from chartloop.testing.clock import ManualClock
from tests.support import OK, failure, path, start
from tests.support import machine as own_machine
from tests.talks import call, machine, talk

END = "  z: {stop: completed}\n"
CHAT = (
    "limits: {steps: 9}\ntools: [one]\nstates:\n  a: {do: receive, next: b}\n  b: {do: infer, next: [{when: len(last.tool_calls) > 0, to: c}, {to: z}]}\n  c: {do: call_tools, next: b}\n"
    + END
)
REPLIES = [{"text": "Let me see.", **call("one")}, "It is one."]
LINE = (
    "limits: {steps: 9}\nvars: {n: 0}\nstates:\n  a: {do: act, next: b}\n  b: {do: act, next: c}\n  c: {do: act, next: z}\n"
    + END
)


@tool
def doubled(n: int) -> int:
    """Twice n."""
    return 2 * n


def chat(**options: Any) -> Run:
    """A run whose tool is called on another thread, so that it suspends."""
    return talk(CHAT, REPLIES, [tool_spec(lambda: 1, name="one")], run_id="r", **options)


def line(**options: Any) -> Run:
    """A run that never suspends."""
    return start(LINE, **options)


async def asteps(run: Run) -> None:
    while await run.aadvance() is not None:
        pass


def steps(run: Run) -> None:
    while run.advance() is not None:
        pass


def in_loop(run: Run) -> None:
    """The sync face where a loop runs already, as in a notebook."""

    async def main() -> None:
        run.run()

    asyncio.run(main())


async def streamed(run: Run) -> None:
    async for _ in run.astream():
        pass


FACES: dict[str, Callable[[Run], Any]] = {
    "run": Run.run,
    "steps": steps,
    "arun": lambda run: asyncio.run(run.arun()),
    "asteps": lambda run: asyncio.run(asteps(run)),
    "stream": lambda run: list(run.stream()),
    "astream": lambda run: asyncio.run(streamed(run)),
    "run inside a running loop": in_loop,
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("make", [chat, line], ids=["suspends", "by hand"])
def test_every_face_gives_the_same_run(make: Callable[..., Run], face: str) -> None:
    run, other = make(), make()
    FACES[face](run)
    other.run()
    assert run.ended
    assert [r.replace(input=r.input) for r in run.records] == other.records
    assert run.result.to_dict() | {"run": ""} == other.result.to_dict() | {"run": ""}


def named(events: list[Event]) -> list[str]:
    return [f"{type(e).__name__} {what(e)}" for e in events]


def what(event: Event) -> str:
    match event:
        case Recorded():
            return event.record.state
        case Delta():
            return event.text
        case FromChild() | Rewound():
            return event.run
        case _:
            return event.state


def _slow() -> int:
    time.sleep(0.2)
    return 1


def close(events: Any) -> None:
    """Leave a stream, as the end of a loop over it does."""
    events.close()


class TestStreams:
    WANTED = (
        "Recorded a|Started a|Recorded a|Started b|Delta Let |Delta me |Delta see.|ToolCallDelta b|Recorded b|Started c|Recorded c"
        "|Started b|Delta It |Delta is |Delta one.|Recorded b"
    ).split("|")

    def test_events_come_in_order(self) -> None:
        assert named(list(chat().stream())) == self.WANTED

    def test_the_async_stream_gives_the_same(self) -> None:
        async def main() -> list[Event]:
            return [event async for event in chat().astream()]

        assert named(asyncio.run(main())) == self.WANTED

    def test_events_name_the_step_and_are_plain_data(self) -> None:
        events = list(chat().stream())
        assert [e.step for e in events if isinstance(e, Started)] == [1, 2, 3, 4]
        assert {e.step for e in events if isinstance(e, Delta)} == {2, 4}
        lines = [json.loads(json.dumps(e.to_dict(), default=dict)) for e in events]
        assert [x["seq"] for x in lines if x["event"] == "recorded"] == [0, 1, 2, 3, 4]
        assert lines[-1]["steps"] == 4

    def test_recorded_comes_after_the_append(self) -> None:
        run = chat()
        for event in run.stream():
            if isinstance(event, Recorded):
                assert event.record in run.records

    def test_leaving_lets_the_action_finish_and_stops_before_the_next(self) -> None:
        run = talk(CHAT, REPLIES, [tool_spec(_slow, name="one")])
        events = run.stream()
        for event in events:
            if isinstance(event, Started) and event.state == "c":
                break
        close(events)
        assert (run.result.reason, run.result.signals[0].source) == ("user_requested", "caller")
        assert (path(run), run.facts.usage.tool_calls) == ("a b c b end-completed", 1)
        assert run.session.cancels == []
        assert run.session.listener is None

    def test_leaving_by_hand(self) -> None:
        run = line()
        events = run.stream()
        next(events)
        next(events)
        close(events)
        assert (run.result.reason, path(run)) == ("user_requested", "a b end-completed")
        assert run.session.listener is None

    def test_leaving_the_async_stream_cancels_too(self) -> None:
        async def main() -> Run:
            run = talk(CHAT, REPLIES, [tool_spec(_slow, name="one")])
            events: Any = run.astream()
            async for event in events:
                if isinstance(event, Started) and event.state == "c":
                    break
            await events.aclose()
            return run

        run = asyncio.run(main())
        assert (run.result.reason, path(run)) == ("user_requested", "a b c b end-completed")

    def test_a_run_that_is_streamed_cannot_be_stepped_by_somebody_else(self) -> None:
        release = threading.Event()
        run = talk(CHAT, REPLIES, [tool_spec(lambda: release.wait(20), name="one")])
        for event in run.stream():
            if isinstance(event, Started) and event.state == "c":
                with pytest.raises(StatusError, match="being driven"):
                    run.advance()
                with pytest.raises(StatusError, match="being driven"):
                    run.set("limits.steps", 3)
                release.set()
        assert run.ended

    def test_a_stream_that_nobody_reads_does_nothing(self) -> None:
        run = line()
        run.stream()
        assert run.status == "idle"

    def test_what_goes_wrong_comes_out(self) -> None:
        run = talk(CHAT, [REPLIES[0]], [tool_spec(lambda: 1, name="one")])
        with pytest.raises(RunError, match="too few replies"):
            list(run.stream())
        assert run.state == "b"
        assert not run.ended


class TestCancel:
    def test_before_the_next_action(self) -> None:
        run = line()
        run.advance()
        run.advance()
        run.cancel("custom", "enough")
        result = run.run()
        assert (path(run), result.reason, result.signals[0].message) == (
            "a b end-completed",
            "custom",
            "enough",
        )

    def test_from_another_thread(self) -> None:
        started, release = threading.Event(), threading.Event()

        def one() -> str:
            started.set()
            release.wait(20)
            return "done"

        run = talk(CHAT, REPLIES, [tool_spec(one)])
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(run.run)
            assert started.wait(20)
            run.cancel()
            release.set()
            result = future.result(20)
        assert (result.reason, result.kind, path(run)) == (
            "user_requested",
            "human",
            "a b c b end-completed",
        )
        assert run.facts.usage.tool_calls == 1  # what had begun was finished

    def test_a_cancel_object_is_looked_at_before_each_action(self) -> None:
        class After:
            asked = 0

            def is_requested(self, run: RunFacts) -> bool:
                self.asked += 1
                return self.asked > 2

        run = line(cancel=After())
        assert run.run().signals[0].source == "caller"
        assert path(run) == "a b c end-completed"

    def test_a_hard_one_ends_the_task_and_the_run_goes_on_from_there(self) -> None:
        calls: list[str] = []
        begun = asyncio.Event()

        async def one() -> str:
            calls.append("x")
            begun.set()
            if len(calls) == 1:
                await asyncio.sleep(60)
            return "done"

        run = talk("in_doubt: retry\n" + CHAT, REPLIES, [tool_spec(one)])

        async def main() -> None:
            task = asyncio.ensure_future(run.arun())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert (run.state, run.ended) == ("c", False)
        result = run.run()
        assert result.reason == "completed"
        assert any("started before an interruption" in w for w in result.warnings)
        assert len(calls) == 2
        assert run.replay().same


class TestByHand:
    def test_pause_and_resume(self) -> None:
        run = line()
        run.advance()
        run.pause()
        assert run.run().kind == "waiting"
        assert (run.status, run.state) == ("paused", "a")
        run.resume()
        assert run.run().reason == "completed"
        assert [r.kind for r in run.records[:4]] == ["start", "pause", "resume", "step"]

    def test_resume_needs_a_pause(self) -> None:
        run = line()
        with pytest.raises(StatusError, match="idle, not paused"):
            run.resume()

    def test_set_is_on_the_record(self) -> None:
        run = line()
        record = run.set("limits.steps", 3)
        assert (record.kind, record.input.data) == ("edit", {"limits.steps": 3})
        run.set("vars.n", 7)
        assert (run.facts.limits["steps"], run.facts.vars["n"]) == (3, 7)
        run.run()
        assert run.replay().same

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("limits.steps", "x"),
            ("limits.nope", 1),
            ("vars.n", "x"),
            ("run.steps", 1),
            ("limits.steps", -1),
        ],
    )
    def test_set_refuses_what_does_not_fit(self, name: str, value: Any) -> None:
        run = line()
        with pytest.raises(LimitError):
            run.set(name, value)
        assert run.records == []

    def test_back_goes_on_as_a_fork(self) -> None:
        run = line()
        run.run()
        old = run.id
        assert run.back(2) is run
        assert (run.state, run.facts.run.steps, run.status) == ("b", 1, "running")
        assert run.id != old
        row = by_hand(run.session.journal.row(run.id))
        assert row is not None
        assert (row.parent, row.fork_seq) == (old, 2)
        assert run.run().reason == "completed"
        assert run.facts.run.id == run.id

    @pytest.mark.parametrize("records", [0, -1, 4, 99])
    def test_only_what_was_done_is_taken_back(self, records: int) -> None:
        run = line()
        with pytest.raises(RunError, match="1 record cannot be taken back") as fresh:
            run.back()
        assert fresh.value.hint == "the run has done nothing yet"
        run.run()
        old = run.id
        with pytest.raises(RunError, match="cannot be taken back") as refused:
            run.back(records)
        assert refused.value.hint == "3 records can: the start of a run stays"
        assert run.id == old

    def test_a_run_that_is_driven_is_not_taken_back(self) -> None:
        run = line()
        run.advance()
        run.advance()
        old = run.id
        with run.session.turn, pytest.raises(StatusError, match="is being driven"):
            run.back()
        assert run.id == old
        assert run.back().id != old

    def test_fork_leaves_the_run_as_it_is(self) -> None:
        run = line()
        run.run()
        fork = run.fork(1, run_id="other")
        fork.set("vars.n", 5)
        fork.run()
        assert (run.facts.vars["n"], fork.facts.vars["n"], fork.id) == (0, 5, "other")
        assert fork.records[0] == run.records[0]

    @pytest.mark.parametrize("at", [0, -1, 5, 99])
    def test_a_fork_needs_a_record(self, at: int) -> None:
        run = line()
        run.run()
        with pytest.raises(RunError, match="records are numbered 0 to 3"):
            run.fork(at)

    def test_why_looks_at_any_record(self) -> None:
        run = start(
            "limits: {steps: 2}\nrules:\n  - {when: run.steps >= limits.steps, stop: steps_limit}\n"
            + LINE.replace("limits: {steps: 9}\n", "")
        )
        run.run()
        rows = run.why().rows
        assert [(r.id, r.holds, r.taken) for r in rows if r.kind == "rule"] == [
            ("rules.0", True, True)
        ] or rows[0].taken
        assert run.why(1).state == "a"
        json.dumps(run.why().to_dict())
        with pytest.raises(UnknownRunError, match="records are numbered 0 to 2"):
            run.why(9)

    def test_send_checks_what_the_wait_takes(self) -> None:
        run = start("states:\n  w: {on: {fix: {to: z, data: {note: str}}}}\n" + END)
        run.advance()
        for event, data in (
            ("nope", {}),
            ("fix", {}),
            ("fix", {"note": 5}),
            ("fix", {"note": "x", "more": 1}),
        ):
            with pytest.raises(AnswerError):
                run.send(event, data)
        run.send("fix", {"note": "x"}, message_id="1")
        run.send("fix", {"note": "x"}, message_id="1")  # delivered twice
        assert run.run().facts.last.answer == {"note": "x"}


class TestResult:
    KEYS = (
        "run",
        "machine",
        "reason",
        "kind",
        "success",
        "forced",
        "status",
        "phase",
        "state",
        "steps",
        "usage",
        "elapsed",
        "output",
        "question",
        "wait",
        "signals",
        "warnings",
        "errors",
        "partial",
        "path",
        "timeline",
        "profile",
        "metadata",
        "last_activity",
        "moved_to",
    )

    def test_the_public_shape(self) -> None:
        run = start(
            "rules:\n  - {when: run.steps >= 2, stop: steps_limit, message: 'two'}\n"
            + LINE.replace("a: {do: act", "a: {do: act, failed: next"),
            {"a": [failure("CRITICAL", "p")]},
            run_id="r",
        )
        said = run.run().to_dict()
        assert tuple(said) == self.KEYS
        assert {k: said[k] for k in ("run", "machine", "reason", "kind", "success", "forced", "status", "state", "steps", "question", "output", "warnings")} == {
            "run": "r", "machine": "m", "reason": "steps_limit", "kind": "limit", "success": False, "forced": True, "status": "completed",
            "state": "end-completed", "steps": 2, "question": None, "output": None, "warnings": [],
        }  # fmt: skip
        assert said["signals"] == [
            {
                "reason": "steps_limit",
                "message": "two",
                "source": said["signals"][0]["source"],
                "context": {"run.steps": 2},
            }
        ]
        assert said["errors"] == [{"category": "CRITICAL", "message": "p", "state": "a", "step": 1}]
        assert said["path"] == ["a", "b", "end-completed"]
        assert [(m["state"], m["tokens"]) for m in said["timeline"]] == [("a", 0), ("b", 0)]
        assert {n: (p["attempts"], p["failed"]) for n, p in said["profile"].items()} == {
            "a": (1, 1), "b": (1, 0)
        }  # fmt: skip
        assert json.loads(json.dumps(said)) == said

    def test_a_run_that_waits(self) -> None:
        run = start("states:\n  w: {ask: 'Go on?', on: {yes: z}}\n" + END)
        said = run.run()
        assert (said.kind, said.reason, said.question, said.events) == (
            "waiting",
            None,
            "Go on?",
            ("yes",),
        )
        assert said.explain() == "The run has not ended. It is paused at `w` (wait 0): Go on?"

    def test_explain_names_reason_source_and_the_rest(self) -> None:
        signals = Outcome(signals=())
        run = start(
            "rules:\n  - {when: run.steps >= 1, signal: custom}\n  - {when: run.steps >= 2, stop: time_limit, message: late}\n"
            + LINE,
            {"a": [signals]},
        )
        text = run.run().explain()
        assert text.startswith(
            "Stopped by a limit (`time_limit`) at `b` after 2 steps and 0 ms.\nRaised by "
        )
        assert ": late.\nAlso raised: custom" in text
        assert str(run.result) == text

    @pytest.mark.parametrize(
        ("reason", "kind", "success"),
        [
            ("completed", "natural", True),
            ("finish_reason", "natural", True),
            ("answer_submitted", "natural", True),
            ("stop_requested", "limit", False),
            ("user_requested", "human", False),
            ("custom", "limit", False),
            ("error", "error", False),
            ("error_rate", "error", False),
        ],
    )
    def test_kinds(self, reason: str, kind: str, success: bool) -> None:
        result = start(f"states:\n  a: {{do: act, next: e}}\n  e: {{stop: {reason}}}\n").run()
        assert (result.reason, result.kind, result.success) == (reason, kind, success)
        assert isinstance(result.reason, StopReason)

    def test_output_expressions(self) -> None:
        one = start("output: vars.n + 1\n" + LINE)
        several = start("output: {n: vars.n, steps: run.steps}\n" + LINE)
        broken = start("output: 1 / vars.n\n" + LINE)
        assert (one.run().output, several.run().output) == (1, {"n": 0, "steps": 3})
        assert broken.run().output is None
        assert "`output` could not be read" in broken.result.warnings[0]

    def test_a_cost_limit_without_a_price_is_said(self) -> None:
        body = (
            "limits: {cost: 1}\nrules:\n  - {when: usage.cost >= limits.cost, stop: cost_limit}\nstates:\n  a: {do: infer, next: z}\n"
            + END
        )
        result = talk(
            body, [{"text": "x", "usage": {"prompt_tokens": 1, "completion_tokens": 1}}]
        ).run()
        assert any("could not be enforced" in w for w in result.warnings)
        priced = talk(
            body,
            [{"text": "x", "usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.1}}],
        ).run()
        assert priced.warnings == ()


class TestData:
    def test_a_machine_pickles(self) -> None:
        made = load(
            "chartloop: 1\nmachine: m\ninstructions: Be.\nstates:\n  a: {do: receive, next: b}\n  b: {do: infer, next: z}\n"
            + END
        )
        again: Machine = pickle.loads(pickle.dumps(made))  # noqa: S301  our own data
        assert (again.hash, again.name, again.spec) == (made.hash, made.name, made.spec)
        assert again.run("hi", script=["yes"]).output == "yes"

    def test_a_machine_pickles_with_tools_of_its_own(self) -> None:
        made = load(
            "chartloop: 1\nmachine: m\n"
            + CHAT.replace("one", "doubled").replace("limits: {steps: 9}\n", ""),
            tools=[doubled],
        )
        again: Machine = pickle.loads(pickle.dumps(made))  # noqa: S301  our own data
        assert again.hash == made.hash
        run = again.start("t", script=[call("doubled", n=2), "done"], clock=ManualClock())
        assert run.run().reason == "completed"
        assert run.messages[2]["content"] == "4"

    def test_a_run_pickles_and_goes_on(self) -> None:
        body = "states:\n  a: {do: receive, next: b}\n  b: {do: infer, next: c}\n  c: {do: infer, next: z}\n"
        made = machine(body + END)
        run = made.start("task", script=["one", "two"], clock=ManualClock())
        for _ in range(3):
            run.advance()
        run.pause()
        kept = pickle.loads(pickle.dumps(run))  # noqa: S301  our own data
        assert (kept.run_id, kept.position.state) == (run.id, "c")
        again = made.attach(kept, script=["one", "two"], clock=ManualClock())
        assert again.run().kind == "waiting"  # the pause came along
        again.resume()
        assert again.run().output == "two"
        assert [r.to_json() for r in again.records[:3]] == [r.to_json() for r in run.records[:3]]
        assert again.replay().same

    def test_a_run_that_has_not_begun_pickles(self) -> None:
        run = line(run_id="r")
        kept = pickle.loads(pickle.dumps(run))  # noqa: S301  our own data
        again = own_machine(LINE).attach(kept, clock=ManualClock())
        assert (again.run().reason, again.id, again.facts.run.task) == ("completed", "r", "task")

    def test_another_machine_is_refused(self) -> None:
        run = line()
        run.advance()
        kept = pickle.loads(pickle.dumps(run))  # noqa: S301  our own data
        with pytest.raises(MachineChangedError):
            own_machine("states:\n" + END).attach(kept)

    def test_open_a_run_that_is_not_there(self) -> None:
        with pytest.raises(UnknownRunError):
            own_machine(LINE).open("nope", journal=MemoryJournal())


class TestThreads:
    def test_eight_threads_over_one_chart(self) -> None:
        made = machine(CHAT, [tool_spec(lambda: 1, name="one")])

        def fifty(_: int) -> list[dict[str, Any]]:
            return [
                made.run("t", script=REPLIES, clock=ManualClock(), run_id="r").to_dict()
                for _ in range(50)
            ]

        with ThreadPoolExecutor(8) as pool:
            results = [r for part in pool.map(fifty, range(8)) for r in part]
        assert len(results) == 400
        assert all(r == results[0] for r in results)

    def test_eight_threads_by_hand(self) -> None:
        made = own_machine(LINE)

        def fifty(_: int) -> list[dict[str, Any]]:
            return [made.run("t", clock=ManualClock(), run_id="r").to_dict() for _ in range(50)]

        with ThreadPoolExecutor(8) as pool:
            results = [r for part in pool.map(fifty, range(8)) for r in part]
        assert all(r == results[0] for r in results)

    def test_two_threads_cannot_drive_one_run(self) -> None:
        entered, release = threading.Event(), threading.Event()

        def one() -> str:
            entered.set()
            release.wait(20)
            return "x"

        run = talk(CHAT, REPLIES, [tool_spec(one)])
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(run.run)
            assert entered.wait(20)
            with pytest.raises(StatusError, match="being driven"):
                run.run()
            release.set()
            assert future.result(20).reason == "completed"

    def test_the_turn_is_given_back_when_a_step_fails(self) -> None:
        run = talk(CHAT, [], [tool_spec(lambda: 1, name="one")])
        for _ in range(3):
            with pytest.raises(RunError, match="too few replies"):
                run.run()


def test_a_wait_for_a_person_is_left_on_a_real_clock() -> None:
    run = start("states:\n  w: {on: {yes: z}, within: 1h, expired: z}\n" + END, clock=SystemClock())
    assert run.run().kind == "waiting"


def test_a_component_that_suspends_against_its_word() -> None:
    async def liar() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RunError, match="would not suspend"):
        wait(liar(), suspends=False)


def test_ok_is_the_default_outcome() -> None:
    assert Outcome() == OK


PRUNES = """
chartloop: 1
machine: prunes
model: {name: scripted, context_window: 40}
states:
  a: {do: prune_context, with: {strategy: summarize}, next: z}
  z: {stop: completed}
"""


class Slowly(Scripted):
    """A model that really waits, in a machine that asks it only now and then."""

    @property
    def suspends(self) -> bool:
        return True

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        await asyncio.sleep(0.01)
        return await super().complete(request, on_text)


def test_a_model_that_an_action_only_may_use_is_waited_for() -> None:
    said = [{"role": role, "content": role * 40} for role in ("user", "assistant", "user")]
    result = load(PRUNES).start("x", model=Slowly(["In short."]), messages=said).run()
    assert result.reason == "completed"
    assert result.facts.usage.llm_calls == 1
