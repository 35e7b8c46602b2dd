"""The plan of a retry: where it starts, what is kept, which calls are made again, what is in doubt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from chartloop import load, tool
from chartloop.api import Run
from chartloop.api.retrying import check_retry, retry_plan, retry_run
from chartloop.core.errors import FollowedError, LimitError, StatusError
from chartloop.run.journal import Event, MemoryJournal, RunRow
from chartloop.run.retry import plan_retry
from chartloop.run.sync import by_hand
from chartloop.testing import CrashAt, Crashed, ManualClock

HEAD = """\
chartloop: 1
machine: clerk
model: {name: scripted}
output: last.text
"""
TOOLS = (
    HEAD
    + """\
tools: [search]
limits: {steps: 9, cost: 1.00}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.cost is not None and usage.cost >= limits.cost, stop: cost_limit}
states:
  take: {do: receive, next: think}
  think:
    do: infer
    retry: {times: 2, base: 0s, on: [TRANSIENT]}
    next: [{when: len(last.tool_calls) > 0, to: use}, {to: done}]
  use: {do: call_tools, next: think}
  done: {stop: completed}
"""
)
TIMED = (
    HEAD
    + """\
limits: {time: 10s}
rules: [{when: run.elapsed >= limits.time, stop: time_limit}]
states:
  take: {do: receive, next: nap}
  nap: {do: back_off, with: {base: 10s, factor: 1}, next: nap}
"""
)
CREW = (
    HEAD
    + """\
limits: {steps: 9}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
machines:
  worker:
    model: {name: scripted}
    limits: {steps: 9}
    rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
    states:
      take: {do: receive, next: think}
      think: {do: infer, next: done}
      done: {stop: completed}
states:
  take: {do: receive, next: split}
  split:
    do: run_machines
    with: {children: {one: {machine: worker, task: a}, two: {machine: worker, task: b}}}
    next: done
  done: {stop: completed}
"""
)
EPILOGUE = (
    HEAD
    + """\
limits: {steps: 9}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  take: {do: receive, next: think}
  think: {do: infer, failed: tidy, next: done}
  tidy: {do: receive, next: lost}
  lost: {stop: error}
  done: {stop: completed}
"""
)
USED = {"prompt_tokens": 90, "completion_tokens": 10, "cost": 0.25}
CALL = {"text": "I look.", "tool_calls": [{"name": "search", "arguments": {"query": "x"}}], "usage": USED}  # fmt: skip
SAID = {"text": "Done.", "usage": USED}


def down(category: str) -> dict[str, Any]:
    return {"error": {"category": category, "message": "server down"}}


@tool
def search(query: str) -> str:
    """Search."""
    return f"about {query}"


def run_of(text: str, *script: Any, **options: Any) -> Run:
    run = load(text, tools=[search]).start("x", script=list(script), run_id="r", **options)
    run.run()
    return run


def cancelled() -> Run:
    run = load(TOOLS, tools=[search]).start("x", script=[CALL, SAID], run_id="r")
    run.run(until="use")
    run.cancel()
    run.run()
    return run


class Case(NamedTuple):
    """A run that ended, and its plan."""

    id: str
    make: Callable[[], Run]
    at: int
    state: str
    kept: int
    attempts: int
    calls: list[tuple[Any, ...]]
    """Kind, name, times, failed, tokens and cost of each."""
    limits: Sequence[tuple[Any, ...]] = ()
    keeps: bool = False


FAILED_CALL = ("model", "", 1, 1, 0, None)
CASES = [
    Case("a-failed-call", lambda: run_of(TOOLS, CALL, down("CRITICAL")), 4, "think", 3, 1,
         [FAILED_CALL]),
    Case("all-attempts-are-one-failure", lambda: run_of(TOOLS, CALL, *[down("TRANSIENT")] * 3),
         4, "think", 3, 3, [FAILED_CALL]),
    Case("an-attempt-that-helped-is-kept",
         lambda: run_of(TOOLS, down("TRANSIENT"), CALL, down("CRITICAL")), 5, "think", 4, 1,
         [FAILED_CALL]),
    Case("a-limit-keeps-the-newest-step", lambda: run_of(TOOLS, *[CALL] * 9), 8, "think", 8, 0,
         [], [("cost", "1 of 1", 2.0)], keeps=True),
    Case("two-limits", lambda: run_of(TOOLS, *[CALL] * 9, limits={"steps": 8}), 8, "think", 8, 0,
         [], [("steps", "8 of 8", 16), ("cost", "1 of 1", 2.0)], keeps=True),
    Case("children-start-anew", lambda: run_of(CREW, SAID, down("CRITICAL")), 2, "split", 1, 1,
         [("machine", "worker", 1, 0, 100, 0.25), ("machine", "worker", 1, 1, 0, None)]),
    Case("a-cancel-keeps-everything", cancelled, 3, "use", 2, 0, []),
    Case("an-end-of-the-file-is-decided-again", lambda: run_of(EPILOGUE, down("CRITICAL")),
         3, "tidy", 2, 0, []),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_plan(case: Case) -> None:
    run = case.make()
    plan = retry_plan(run)
    assert not plan.refusal
    assert (plan.at, plan.state, plan.kept, plan.attempts) == case[2:6]
    calls = [(c.kind, c.name, c.times, c.failed, c.tokens, c.cost) for c in plan.calls]
    assert sorted(calls, key=repr) == sorted(case.calls, key=repr)
    assert [(one.name, one.used, one.raised) for one in plan.limits] == [*case.limits]
    assert plan.keeps_outcome == case.keeps
    assert plan.doubts == ()
    assert plan.needs_confirmation == bool(case.calls)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_a_plan_keeps_is_kept(case: Case) -> None:
    run = case.make()
    before = [record.to_dict() for record in run.records]
    plan = retry_plan(run)
    limits = check_retry(run, plan, {one.name: one.raised for one in plan.limits}, plan.digest)
    made = retry_run(run, plan, limits)
    assert [record.to_dict() for record in run.records] == before
    assert [record.to_dict() for record in made.records[: plan.at]] == before[: plan.at]
    assert made.facts.run.steps == plan.kept
    assert not made.ended
    assert made.replay().same
    again = sum(call.cost or 0.0 for call in plan.calls)
    paid = [one.facts.usage.cost or 0.0 for one in (run, made)]
    assert round(paid[0] - again, 9) == round(paid[1], 9)


def test_a_clock_that_went_on_raises_the_limit_beyond_it() -> None:
    clock = ManualClock(1_000.0)
    run = load(TIMED).start("x", run_id="r", clock=clock)
    run.run()
    clock.advance(90)
    (limit,) = retry_plan(run).limits
    assert (limit.name, limit.fact, limit.raised) == ("time", "run.elapsed", "1m50s")
    made = retry_run(run, retry_plan(run), {"time": 110.0})
    assert not made.ended


@pytest.mark.parametrize("write", [1, 2])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_retry_is_written_whole_or_not_at_all(write: int, before: bool) -> None:
    """The limits that it raises and the outcome that it keeps are in it from the first moment."""
    run = run_of(TOOLS, *[CALL] * 9)
    plan, journal = retry_plan(run), run.session.journal
    run.session.journal = CrashAt(journal, write, before=before)
    with pytest.raises(Crashed):
        retry_run(run, plan, {"cost": 3.0}, run_id="f")
    run.session.journal = journal
    if by_hand(journal.row("f")) is None:
        retry_run(run, plan, {"cost": 3.0}, run_id="f")
    else:
        with pytest.raises(FollowedError, match="was tried again as run `f`"):
            retry_run(run, plan, {"cost": 3.0})
    made = by_hand(journal.records("f", plan.at))
    assert [record.kind for record in made] == ["edit", "step"]


# refusals -----------------------------------------------------------------------------------------


def test_only_a_run_that_failed_is_tried_again() -> None:
    done = run_of(TOOLS, SAID)
    waits = load(TOOLS, tools=[search]).start("x", script=[SAID])
    waits.step()
    said = {one: retry_plan(run).refusal for one, run in (("done", done), ("waits", waits))}
    assert said == {"done": "The run is done: nothing failed", "waits": "The run has not ended"}
    with pytest.raises(StatusError, match="the run is done"):
        check_retry(done, retry_plan(done), {}, "")


def test_a_run_that_stopped_before_its_first_step_has_nothing_to_keep() -> None:
    run = load(TOOLS, tools=[search]).start("t", limits={"steps": 0}, script=[])
    assert run.run().kind == "limit"
    plan = retry_plan(run)
    assert (plan.refusal, plan.hint) == (
        "The run stopped before its first step",
        "start it again, with other limits",
    )
    with pytest.raises(StatusError, match="stopped before its first step"):
        check_retry(run, plan, {"steps": 9}, plan.digest)


def test_a_child_is_tried_again_with_its_parent() -> None:
    run = run_of(CREW, SAID, down("CRITICAL"))
    row = by_hand(run.session.journal.row("r/split/1/two"))
    assert row is not None
    events = by_hand(run.session.journal.events(row.run_id))
    plan = plan_retry(run.machine.chart, row, events, kind="error", facts=run.facts)
    assert (plan.refusal, plan.hint) == (
        "This run is a part of another one, which would not hear of it", "try r again",
    )  # fmt: skip


def test_what_is_made_again_wants_the_digest_of_the_list_that_was_shown() -> None:
    run = run_of(TOOLS, CALL, down("CRITICAL"))
    plan = retry_plan(run)
    with pytest.raises(StatusError, match="nobody has agreed"):
        check_retry(run, plan, {}, "")
    with pytest.raises(StatusError, match="nobody has agreed"):
        check_retry(run, plan, {}, "x")
    assert check_retry(run, plan, {}, plan.digest) == {}
    assert plan._replace(calls=()).digest != plan.digest


def test_a_limit_that_stopped_it_wants_another_value() -> None:
    run = run_of(TOOLS, *[CALL] * 9)
    plan = retry_plan(run)
    with pytest.raises(StatusError, match="would stop it again"):
        check_retry(run, plan, {}, "")
    with pytest.raises(LimitError):
        check_retry(run, plan, {"cost": "much"}, "")
    assert check_retry(run, plan, {"cost": 2}, plan.digest) == {"cost": 2}


# doubts -------------------------------------------------------------------------------------------


class Doubtful(NamedTuple):
    """The events after the last step that was finished, and the calls in doubt."""

    id: str
    events: list[tuple[str, str]]
    doubts: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Doubtful("none", [], []),
        Doubtful("an-intent-without-outcome", [("intent", "a")], ["a"]),
        Doubtful("a-result-settles-it", [("intent", "a"), ("result", "a")], []),
        Doubtful("one-of-two", [("intent", "a"), ("intent", "b"), ("result", "a")], ["b"]),
        Doubtful("noted-by-a-driver", [("intent", "a"), ("in_doubt", "a")], ["a"]),
        Doubtful("made-again-and-answered",
                 [("intent", "a"), ("in_doubt", "a"), ("intent", "a"), ("result", "a")], []),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_calls_in_doubt(case: Doubtful) -> None:
    journal = MemoryJournal()
    run = load(TOOLS, tools=[search]).start("x", script=[CALL, SAID], run_id="r", journal=journal)
    run.run(until="use")
    run.cancel()
    run.run()
    events = by_hand(journal.events("r"))
    data = {"state": "use", "tool": "search"}
    added = [Event(99, kind, 7.0, None, {"key": key, **data}) for kind, key in case.events]  # pyright: ignore[reportArgumentType]
    row = by_hand(journal.row("r"))
    assert row is not None
    plan = plan_retry(
        run.machine.chart, row, [*events[:-1], *added, events[-1]], kind="human", facts=run.facts
    )
    assert [doubt.key for doubt in plan.doubts] == case.doubts
    assert plan.needs_confirmation == bool(case.doubts)
    if plan.doubts:
        said = "In doubt: search at `use` was begun, and may have been carried out; the new run asks about it first"
        assert said in plan.explain()


def test_a_moved_run_is_not_tried_again() -> None:
    run = run_of(TOOLS, CALL, down("CRITICAL"))
    row = RunRow("r", status="moved", moved_to="s", question=None)
    plan = plan_retry(run.machine.chart, row, [], kind="error", facts=run.facts)
    assert plan.refusal == "The run continues as run s"
