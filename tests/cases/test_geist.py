"""Document 000, "Agent Stopping Conditions": the machines geist, geist_tick and geist_phase.

Every condition, field, marker and phase of the document is a case here. Its names in Python are
those of `test_geist_names.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import Machine, Result, Run, guard, load, tool
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.adapters.model.scripted import Scripted
from chartloop.run.events import Recorded
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.testing.clock import ManualClock
from chartloop.testing.loopback import LoopbackServer
from tests.tool_loop import QUIET, needs_litellm

SPENT = {"prompt_tokens": 90, "completion_tokens": 10}


def reply(*items: str, **more: Any) -> dict[str, Any]:
    """A phase's reply: its new list. It costs 100 tokens."""
    return {"text": json.dumps({"items": items}, ensure_ascii=False), "usage": SPENT, **more}


def calling(*calls: tuple[str, Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """A reply of the execution phase that calls adapters."""
    made = [{"name": name, "arguments": dict(given)} for name, given in calls]
    return {"text": "", "tool_calls": made, "usage": SPENT, **more}


def tick(
    *steps: str, world: Sequence[str] = ("It rains.",), tasks: Sequence[str] = ("Write",)
) -> list[dict[str, Any]]:
    """The replies of one tick."""
    return [reply(*world), reply(*tasks), reply(*steps or ("Wrote a line.",))]


SAME = tick()
BAD = [{"text": "Sure!", "usage": SPENT}] * 3
"""A tick that fails in its first phase."""


@tool(effect="local")
def send(to: str) -> str:
    """Sends a message."""
    if to == "nobody":
        raise ConnectionError("no such mailbox")
    return f"sent to {to}"


@tool(effect="local")
def search(text: str) -> str:
    """Searches."""
    return f"found {text}"


def start(script: Sequence[Any], task: str = "Write a report.", **given: Any) -> Run:
    """A run of the machine `geist`, on a simulated clock."""
    own = {n: given.pop(n) for n in ("define", "guards") if n in given}
    machine = load("geist", tools=[send, search], **own)
    return machine.start(task, script=list(script), clock=ManualClock(), **given)


def phase(script: Sequence[Any], name: str = "execution", **given: Any) -> Run:
    """A run of one phase."""
    vars = {"phase": name, **given.pop("vars", {})}
    machine = load("geist_phase", tools=[send, search])
    return machine.start("Go.", script=list(script), clock=ManualClock(), vars=vars, **given)


def ticks(result: Result) -> int:
    """The iterations of a run."""
    return result.facts.run.visits.get("record_tick", 0)


# stopping conditions ------------------------------------------------------------------------


class Stop(NamedTuple):
    """An execution: its conditions, what its model says, why and after how many ticks it stops."""

    id: str
    reason: str
    ticks: int
    script: Sequence[Any]
    limits: Mapping[str, Any] = {}
    vars: Mapping[str, Any] = {}
    task: str = "Write a report."


DIFFERENT = [[*tick(f"Line {n}.")] for n in range(9)]
FOUR = [r for one in DIFFERENT[:4] for r in one]
SIX = [r for one in DIFFERENT[:6] for r in one]
DONE = tick("TASK_COMPLETE: done")
ALONE = {
    "world": [r for n in range(4) for r in tick("Line.", world=[f"Rain {n}."])],
    "tasks": [r for n in range(4) for r in tick("Line.", tasks=[f"Write {n}"])],
    "execution": [r for n in range(4) for r in tick(f"Line {n}.")],
}
"""Four ticks that differ in one of the three contexts and in nothing else."""

STOPS = [
    # max_iterations
    Stop("max-iterations-reached", "steps_limit", 2, SAME * 2, {"max_iterations": 2}),
    Stop("max-iterations-of-one", "steps_limit", 1, SAME, {"max_iterations": 1}),
    Stop("max-iterations-of-zero-allows-none", "steps_limit", 0, [], {"max_iterations": 0}),
    Stop("max-iterations-off", "completed", 7, [*SIX, *DONE], {"max_iterations": None}),
    Stop(
        "a-failed-tick-is-no-iteration", "steps_limit", 1, [*BAD, *SAME], {"max_iterations": 1}
    ),
    # max_tokens
    Stop("token-budget-exhausted", "token_limit", 2, SAME * 2, {"max_tokens": 600}),
    Stop("token-budget-passed", "token_limit", 2, SAME * 2, {"max_tokens": 301}),
    Stop("token-budget-of-a-failed-tick", "token_limit", 0, BAD, {"max_tokens": 300}),
    Stop("token-budget-of-zero-allows-none", "token_limit", 0, [], {"max_tokens": 0}),
    Stop(
        "token-budget-off", "steps_limit", 2, SAME * 2, {"max_tokens": None, "max_iterations": 2}
    ),
    # timeout_seconds
    Stop(
        "timeout-within-a-tick", "time_limit", 1, [*SAME, reply("x", delay="61s")],
        {"timeout_seconds": "60s"},
    ),
    Stop(
        "timeout-within-a-tick-is-no-error-too-many", "time_limit", 0, [reply("x", delay="61s")],
        {"timeout_seconds": "60s", "max_consecutive_errors": 0, "max_total_errors": 0},
    ),
    Stop("timeout-of-zero-allows-none", "time_limit", 0, [], {"timeout_seconds": "0s"}),
    Stop(
        "timeout-off", "completed", 1, [*SAME[:2], reply("[DONE]", delay="9d")],
        {"timeout_seconds": None},
    ),
    # stop_when_task_queue_empty
    Stop("queue-is-empty-at-once", "completed", 0, [], task=""),
    Stop("queue-becomes-empty", "completed", 1, tick(tasks=())),
    Stop(
        "queue-is-looked-at-only-if-asked", "steps_limit", 2, tick(tasks=()) * 2,
        {"max_iterations": 2}, {"stop_when_task_queue_empty": False},
    ),
    Stop(
        "queue-that-waits-needs-no-task", "completed", 1, tick(tasks=()),
        vars={"task_context": ["Write"]}, task="",
    ),
    # require_progress_every_n_ticks
    Stop("no-progress", "no_progress", 5, SAME * 5),
    Stop(
        "no-progress-every-two-ticks", "no_progress", 2, SAME * 2,
        {"require_progress_every_n_ticks": 2},
    ),
    Stop(
        "progress-of-one-tick-is-assumed", "steps_limit", 2, FOUR[:6],
        {"require_progress_every_n_ticks": 1, "max_iterations": 2},
    ),
    *(
        Stop(
            f"progress-in-the-{name}-alone-is-progress", "steps_limit", 4, replies,
            {"require_progress_every_n_ticks": 2, "max_iterations": 4},
        )
        for name, replies in ALONE.items()
    ),
    Stop(
        "progress-is-asked-for-before-every-tick", "no_progress", 2, SAME * 2,
        {"require_progress_every_n_ticks": 0},
    ),
    Stop(
        "only-the-last-two-ticks-are-compared", "steps_limit", 4, [*SAME, *SAME, *FOUR[:6]],
        {"require_progress_every_n_ticks": 3, "max_iterations": 4},
    ),
    Stop(
        "progress-begins-a-new-stretch", "no_progress", 4, [*FOUR[:6], *SAME * 2],
        {"require_progress_every_n_ticks": 2},
    ),
    Stop(
        "progress-is-not-asked-for", "steps_limit", 7, SAME * 7,
        {"require_progress_every_n_ticks": None, "max_iterations": 7},
    ),
    # max_consecutive_errors, max_total_errors
    Stop("three-errors-in-a-row", "error_threshold", 0, BAD * 3),
    Stop(
        "a-good-tick-ends-the-row", "error_threshold", 1, [*BAD * 2, *SAME, *BAD * 3],
    ),
    Stop(
        "no-error-is-allowed", "error_threshold", 0, BAD, {"max_consecutive_errors": 0},
    ),
    Stop(
        "errors-in-all", "error_threshold", 2, [*BAD, *FOUR[:3], *BAD, *FOUR[3:6], *BAD],
        {"max_total_errors": 3},
    ),
    # completion markers
    Stop("marker-task-complete", "completed", 1, DONE),
    Stop("marker-done", "completed", 1, tick("Wrote it.", "[DONE]")),
    Stop("marker-check", "completed", 1, tick("Wrote it ✓")),
    Stop(
        "marker-of-the-callers", "completed", 1, tick("over and out"),
        {"completion_markers": ["over and out"]},
    ),
    Stop(
        "marker-that-is-none", "steps_limit", 1, DONE,
        {"completion_markers": [], "max_iterations": 1},
    ),
    Stop(
        "marker-only-of-the-execution", "steps_limit", 1,
        tick(world=["TASK_COMPLETE"], tasks=["[DONE]"]), {"max_iterations": 1},
    ),
    # custom_condition
    Stop(
        "custom-condition", "custom", 1,
        [*SAME[:2], calling(("send", {"to": "ann"}))], vars={"stop_on_call": "send"},
    ),
    Stop(
        "custom-condition-that-does-not-hold", "steps_limit", 1,
        [*SAME[:2], calling(("search", {"text": "x"}))], {"max_iterations": 1},
        {"stop_on_call": "send"},
    ),
]  # fmt: skip


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("case", STOPS, ids=lambda case: case.id)
def test_it_stops(case: Stop) -> None:
    run = start(case.script, case.task, limits=case.limits, vars=case.vars)
    result = run.run()
    assert (str(result.reason), ticks(result)) == (case.reason, case.ticks), result.explain()
    assert result.success is (case.reason == "completed")
    assert result.state == "end"
    assert result.output["iterations_completed"] == case.ticks


def test_time_that_passes_between_two_ticks_counts() -> None:
    clock = ManualClock()
    run = load("geist").start("Write.", script=SAME, clock=clock, limits={"timeout_seconds": "60s"})
    while ticks(run.result) < 1:
        run.advance()
    run.pause()
    run.advance()
    clock.advance(60)
    run.resume()
    assert (str(run.run().reason), ticks(run.result)) == ("time_limit", 1)


@pytest.mark.parametrize(("timeout", "finished"), [(119, 1), (120, 1), (121, 2)])
def test_a_tick_that_ends_at_the_timeout_is_ended_by_it(timeout: int, finished: int) -> None:
    slow = [{**one, "delay": "20s"} for one in SAME * 3]
    run = load("geist").start(
        "Write.", script=slow, clock=ManualClock(), limits={"timeout_seconds": f"{timeout}s"}
    )
    result = run.run()
    assert (str(result.reason), ticks(result), result.elapsed) == ("time_limit", finished, timeout)


class Order(NamedTuple):
    """Two conditions that hold at once: the first one in the document's order decides."""

    id: str
    reason: str
    limits: Mapping[str, Any]
    vars: Mapping[str, Any] = {}


ORDERS = [
    Order(
        "iterations-before-tokens", "steps_limit", {"max_iterations": 1, "max_tokens": 1}
    ),
    Order("tokens-before-timeout", "token_limit", {"max_tokens": 1, "timeout_seconds": "20s"}),
    Order("timeout-before-queue", "time_limit", {"timeout_seconds": "20s"}),
    Order("queue-before-progress", "completed", {"require_progress_every_n_ticks": 1}),
    Order(
        "queue-before-custom", "completed", {}, {"stop_on_call": "send", "function_log": ["send"]}
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", ORDERS, ids=lambda case: case.id)
def test_of_two_conditions_the_first_decides(case: Order) -> None:
    script = [reply("It rains."), reply(), reply("Wrote.", delay="20s")]
    define = {"custom_condition": "vars.stop_on_call != '' and iterations > 0"}
    result = start(script, limits=case.limits, vars=case.vars, define=define).run()
    assert str(result.reason) == case.reason


def test_no_progress_comes_before_the_custom_condition() -> None:
    define = {"custom_condition": "iterations >= 2"}
    limits = {"require_progress_every_n_ticks": 2}
    assert str(start(SAME * 2, limits=limits, define=define).run().reason) == "no_progress"


def test_conditions_are_looked_at_before_the_tick_and_markers_after_it() -> None:
    define = {"custom_condition": "True"}
    assert str(start([], define=define).run().reason) == "custom"
    limits = {"max_iterations": 1}
    assert str(start(DONE, limits=limits).run().reason) == "completed"  # not steps_limit


# custom conditions --------------------------------------------------------------------------


def test_a_custom_condition_is_an_expression() -> None:
    define = {"custom_condition": "len(vars.task_context) >= 3"}
    script = [*SAME, *tick(tasks=["a", "b", "c"])]
    result = start(script, define=define).run()
    assert (str(result.reason), ticks(result)) == ("custom", 2)


@guard
def has_searched(log: list[str]) -> bool:
    """Whether the search was called."""
    return any(entry.startswith("search ") for entry in log)


def test_a_custom_condition_is_a_guard_in_python() -> None:
    define = {"custom_condition": "has_searched(vars.function_log)"}
    script = [*SAME, *SAME[:2], calling(("search", {"text": "x"}))]
    result = start(script, define=define, guards=[has_searched]).run()
    assert (str(result.reason), ticks(result)) == ("custom", 2)


def test_conditions_are_joined_with_and_and_or() -> None:
    define = {
        "custom_condition": "iterations >= 9 or (len(vars.task_context) == 2 and iterations > 1)"
    }
    script = [*tick(tasks=["a", "b"]), *SAME, *tick(tasks=["a", "b"])]
    result = start(script, define=define).run()
    assert (str(result.reason), ticks(result)) == ("custom", 3)


def test_a_custom_condition_that_fails_stops_the_run_and_says_so() -> None:
    result = start(SAME, define={"custom_condition": "1 / iterations > 0"}).run()
    assert (str(result.reason), result.kind) == ("guard_error", "error")


# interrupts, warnings, changing limits ------------------------------------------------------


def test_a_person_interrupts_it() -> None:
    run = start(SAME)
    while ticks(run.result) < 1:
        run.advance()
    run.cancel("user_requested", "enough")
    result = run.run()
    assert (str(result.reason), result.kind) == ("user_requested", "human")
    assert result.path[-2:] == ("result", "end")
    assert result.output["execution_context"] == ["Wrote a line."]


class Warn(NamedTuple):
    id: str
    share: str
    tokens: int | None
    warned: bool


@pytest.mark.parametrize(
    "case",
    [
        Warn("at-the-share", "60%", 500, True),
        Warn("below-it", "61%", 500, False),
        Warn("another-share", "50%", 500, True),
        Warn("no-budget-no-warning", "1%", None, False),
    ],
    ids=lambda case: case.id,
)
def test_it_warns_at_a_share_of_the_tokens(case: Warn) -> None:
    limits = {"max_tokens": case.tokens, "warn_at_token_percentage": case.share}
    result = start([*SAME, *DONE], limits=limits).run()
    assert any("max_tokens" in warning for warning in result.warnings) is case.warned


def test_a_limit_is_changed_while_it_runs() -> None:
    run = start(FOUR)
    while ticks(run.result) < 2:
        run.advance()
    run.set("limits.max_iterations", 3)
    assert (str(run.run().reason), ticks(run.result)) == ("steps_limit", 3)
    assert [record.kind for record in run.records].count("edit") == 1


# the result ---------------------------------------------------------------------------------


def test_what_was_done_stays_when_it_is_cut_short() -> None:
    script = [*tick("Line 1."), *SAME[:2], calling(("search", {"text": "rain"}))]
    run = start(script, limits={"max_iterations": 2})
    result = run.run()
    assert not result.success
    assert result.output["function_log"] == ['search {"text": "rain"} -> found rain']
    assert result.output["task_context"] == ["Write"]
    done = [s.result["output"]["execution_context"] for s in run.trace() if s.state == "tick"]
    assert done == [["Line 1."], ["[search]"]]


def test_the_result_has_its_timelines() -> None:
    script = [*SAME[:2], reply("a", delay="5s"), *SAME[:2], reply("b", delay="2s")]
    run = start(script, limits={"max_iterations": 2})
    result = run.run()
    at = [m for m in result.timeline if m.state == "tick"]
    assert [(m.at, m.tokens) for m in at] == [(5, 300), (7, 600)]
    assert (result.tokens, result.elapsed) == (600, 7)
    steps = [step for step in run.trace() if step.state == "tick"]
    assert [(s.tokens, s.ended - s.started) for s in steps] == [(300, 5), (300, 2)]


def test_the_new_fields_of_the_context() -> None:
    run = start(DONE)
    result = run.run()
    assert result.output["is_complete"] is True
    assert result.output["completion_message"] == "TASK_COMPLETE: done"
    assert result.output["result"] == "TASK_COMPLETE: done"
    assert result.output["total_tokens_used"] == 300
    assert result.output["execution_start_time"] == result.facts.run.started_at


def test_a_run_that_was_cut_short_is_not_complete() -> None:
    result = start(SAME, limits={"max_iterations": 1}).run()
    assert result.output["is_complete"] is False
    assert result.output["completion_message"] == ""


def test_the_errors_are_on_the_result() -> None:
    result = start([*BAD, *DONE]).run()
    assert [e["category"] for e in result.errors] == ["RECOVERABLE"]
    assert "no JSON at `items`" in result.errors[0]["message"]


@pytest.mark.parametrize("streaming", [True, False])
def test_partial_results_are_given_when_they_are_asked_for(streaming: bool) -> None:
    run = start(FOUR, limits={"max_iterations": 3}, vars={"stream_updates": streaming})
    seen = [
        event.position.facts.vars["execution_context"]
        for event in run.stream()
        if isinstance(event, Recorded) and event.record.state == "partial"
    ]
    assert [list(steps) for steps in seen] == [["Line 0."], ["Line 1."], ["Line 2."]] * streaming
    assert len(run.result.partial) == 3 * streaming


def test_a_run_goes_on_in_another_process(tmp_path: Path) -> None:
    script = [*FOUR[:6], *DONE]
    machine = load("geist", tools=[send, search])
    first = machine.start("Write.", script=script, journal=SqliteJournal(tmp_path / "j.db"))
    while ticks(first.result) < 2:
        first.advance()
    journal = SqliteJournal(tmp_path / "j.db")
    result = machine.open(first.id, journal=journal, script=script).run()
    assert (str(result.reason), ticks(result), result.tokens) == ("completed", 3, 900)


# early stopping -----------------------------------------------------------------------------


class Early(NamedTuple):
    """A forced stop, and whether one last call is made for an answer."""

    id: str
    how: str
    answers: bool
    limits: Mapping[str, Any]
    script: Sequence[Any] = SAME


ANSWER = reply("As far as it goes.")


@pytest.mark.parametrize(
    "case",
    [
        Early("generate", "generate", True, {"max_iterations": 1}),
        Early("force", "force", False, {"max_iterations": 1}),
        Early("within-the-tokens", "generate", True, {"max_iterations": 1, "max_tokens": 301}),
        Early("tokens-are-used-up-too", "generate", False, {"max_iterations": 1, "max_tokens": 300}),
        Early("never-past-the-tokens", "generate", False, {"max_tokens": 300}),
        Early(
            "never-past-the-time", "generate", False, {"timeout_seconds": "1s"},
            [reply("x", delay="2s")],
        ),
        Early(
            "not-after-errors", "generate", False, {"max_consecutive_errors": 0}, BAD,
        ),
        Early("not-when-it-is-complete", "generate", False, {}, DONE),
        Early(
            "without-progress", "generate", True, {"require_progress_every_n_ticks": 2}, SAME * 2
        ),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_one_last_call_for_an_answer(case: Early) -> None:
    script = [*case.script, ANSWER] if case.answers else case.script
    run = start(script, limits=case.limits, vars={"early_stopping": case.how})
    result = run.run()
    assert run.facts.vars["final_answer"] == ("As far as it goes." if case.answers else "")
    assert result.facts.usage.llm_calls == len([r for r in script if "delay" not in r])


def test_an_answer_that_is_no_json_is_not_asked_for_again() -> None:
    script = [*SAME, {"text": "Well..."}]
    result = start(script, limits={"max_iterations": 1}, vars={"early_stopping": "generate"}).run()
    assert (str(result.reason), result.state) == ("steps_limit", "end")
    assert result.warnings


# a tick and its phases ----------------------------------------------------------------------


def once(script: Sequence[Any], **given: Any) -> Run:
    """A run of a single tick."""
    machine = load("geist_tick", tools=[send, search])
    return machine.start("Write.", script=list(script), clock=ManualClock(), **given)


def children(run: Run) -> list[Mapping[str, Any]]:
    """The results of the phases."""
    return [r.outcome.result for r in run.records if r.outcome is not None]


def test_a_tick_goes_through_three_phases() -> None:
    run = once(tick("step", world=["fact"], tasks=["task"]))
    result = run.run()
    assert result.path[-5:] == ("tick", "world", "tasks", "execution", "snapshot")
    assert result.output == {
        "world_context": ["fact"],
        "task_context": ["task"],
        "execution_context": ["step"],
        "function_log": [],
        "stop_asked": False,
    }


def test_the_world_that_is_switched_off_is_skipped_on_the_record() -> None:
    run = once(tick()[1:], vars={"include_world_processing": False, "world_context": ["It rains."]})
    result = run.run()
    assert [child["state"] for child in children(run)] == ["skipped", "done", "done"]
    assert [child["tokens"] for child in children(run)] == [0, 100, 100]
    assert result.output["world_context"] == ["It rains."]


def test_a_task_is_put_into_the_queue_before_the_tick() -> None:
    run = once(tick(), vars={"task_context": ["Read."]})
    run.advance()
    assert run.facts.vars["task_context"] == ("Read.", "Write.")


class Json(NamedTuple):
    """Replies of a phase, and what comes of them."""

    id: str
    replies: Sequence[Any]
    items: Sequence[str] | None
    """None: the phase fails."""


GOOD = '{"items": ["a"]}'


@pytest.mark.parametrize(
    "case",
    [
        Json("json", [GOOD], ["a"]),
        Json("json-in-a-fence", [f"```json\n{GOOD}\n```"], ["a"]),
        Json("json-within-a-text", [f"Here it is: {GOOD}"], ["a"]),
        Json("an-empty-list", ['{"items": []}'], []),
        Json("nonsense-once", ["Sure!", GOOD], ["a"]),
        Json("nonsense-twice", ["Sure!", "Sure!", GOOD], ["a"]),
        Json("nonsense-three-times", ["Sure!"] * 3, None),
        Json("empty-content", [""] * 3, None),
        Json("a-missing-field", ['{"facts": ["a"]}'] * 3, None),
        Json("no-list", ['{"items": "a"}'] * 3, None),
        Json("a-list-of-numbers", ['{"items": [1]}'] * 3, None),
        Json("json-that-ends-early", ['{"items": ["a"'] * 3, None),
    ],
    ids=lambda case: case.id,
)
@pytest.mark.parametrize("name", ["world", "tasks", "execution"])
def test_json_is_asked_for_up_to_three_times(case: Json, name: str) -> None:
    run = phase(case.replies, name)
    result = run.run()
    assert result.facts.usage.llm_calls == len(case.replies)
    if case.items is None:
        assert (str(result.reason), result.kind) == ("retry_limit", "error")
        assert len(result.errors) == 3
        assert "`items`" in result.errors[-1]["message"]
    else:
        assert (str(result.reason), result.output["items"]) == ("completed", case.items)


class Listening(Scripted):
    """A scripted model that keeps what it was asked."""

    def __init__(self, replies: Sequence[Any]) -> None:
        super().__init__(replies)
        self.requests = list[ModelRequest]()

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        self.requests.append(request)
        return await super().complete(request, on_text)


def asked(script: Sequence[Any], name: str, **given: Any) -> list[ModelRequest]:
    """What the model is asked in a phase."""
    model = Listening(script)
    machine = load("geist_phase", tools=[send, search])
    machine.run("Go.", model=model, vars={"phase": name, **given})
    return model.requests


def test_the_model_is_told_what_was_wrong_with_its_reply() -> None:
    first, second = (r.messages[-1]["content"] for r in asked(["Sure!", GOOD], "tasks"))
    assert "could not be used" not in first
    assert "could not be used: the reply has no JSON at `items`" in second


class Told(NamedTuple):
    id: str
    phase: str
    says: str
    tools: int


@pytest.mark.parametrize(
    "case",
    [
        Told("world", "world", "reason about the world", 0),
        Told("tasks", "tasks", "reason about the tasks", 0),
        Told("execution", "execution", "do the first task", 2),
        Told("answer", "answer", "best final answer", 0),
    ],
    ids=lambda case: case.id,
)
def test_each_phase_has_its_own_question_and_only_execution_has_adapters(case: Told) -> None:
    contexts = {f"{n}_context": [f"the {n}"] for n in ("world", "task", "execution")}
    (request,) = asked([GOOD], case.phase, **contexts, function_log=["send -> sent"])
    said = "\n".join(m["content"] for m in request.messages)
    assert case.says in said
    assert all(text in said for text in ("the world", "the task", "the execution", "send -> sent"))
    assert len(request.tools) == case.tools


class Marked(NamedTuple):
    id: str
    markers: Sequence[str]
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Marked("the-first", ["over and out", "bye"], "say `over and out: `"),
        Marked("the-documents", ["TASK_COMPLETE", "[DONE]", "✓"], "say `TASK_COMPLETE: `"),
        Marked("none", [], ""),
    ],
    ids=lambda case: case.id,
)
def test_the_model_is_told_the_marker(case: Marked) -> None:
    model = Listening(SAME)
    limits = {"completion_markers": case.markers, "max_iterations": 1}
    load("geist").run("Write.", model=model, limits=limits)
    told = str(model.requests[2].messages[0]["content"])
    assert case.says in told
    assert ("When everything is done" in told) is bool(case.markers)


# adapters -----------------------------------------------------------------------------------


def test_an_adapter_is_called_and_the_call_is_logged() -> None:
    result = phase([calling(("send", {"to": "ann"}), text="On it.")]).run()
    assert result.output["items"] == ["On it. [send]"]
    assert result.output["function_log"] == ['send {"to": "ann"} -> sent to ann']


def test_what_an_adapter_returns_is_no_completion_marker() -> None:
    script = [*SAME[:2], calling(("search", {"text": "TASK_COMPLETE"}))]
    result = start(script, limits={"max_iterations": 1}).run()
    assert str(result.reason) == "steps_limit"


class Broken(NamedTuple):
    """Calls of which one fails, and what is said of it."""

    id: str
    calls: Sequence[tuple[str, Mapping[str, Any]]]
    says: Sequence[str]


BROKEN = [
    Broken("raises", [("send", {"to": "nobody"})], ["no such mailbox"]),
    Broken("unknown", [("fly", {})], ["there is no tool `fly`", "`send`, `search`"]),
    Broken("without-its-argument", [("send", {})], ["to"]),
    Broken(
        "beside-one-that-worked", [("send", {"to": "ann"}), ("send", {"to": "nobody"})],
        ["sent to ann", "no such mailbox"],
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.id)
def test_an_adapter_that_fails_fails_the_tick(case: Broken) -> None:
    result = start([*SAME[:2], calling(*case.calls), *DONE]).run()
    assert (str(result.reason), ticks(result)) == ("completed", 1)
    assert [e["category"] for e in result.errors] == ["RECOVERABLE"]
    for said in case.says:
        assert said in result.errors[0]["message"]
        assert said in result.facts.vars["failures"][0]  # the next tick is told
    assert result.output["function_log"] == []  # which holds calls, not errors


def test_a_provider_that_is_busy_is_asked_again() -> None:
    busy = {"error": {"category": "TRANSIENT", "message": "busy"}}
    result = phase([busy, busy, GOOD], "world").run()
    assert (str(result.reason), result.elapsed) == ("completed", 3)


def test_a_provider_that_refuses_fails_the_tick() -> None:
    refusal = {"error": {"category": "CRITICAL", "message": "wrong key"}}
    result = start([refusal] * 3).run()
    assert str(result.reason) == "error_threshold"
    assert "wrong key" in result.errors[0]["message"]


# the machines -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["geist", "geist_tick", "geist_phase"])
def test_it_needs_no_python(name: str) -> None:
    machine: Machine = load(name)
    assert machine.findings == ()
    assert machine.spec.tools == ()


@pytest.mark.slow("takes seconds")
@needs_litellm
@QUIET
def test_it_runs_over_http() -> None:
    script = [*SAME[:2], calling(("search", {"text": "rain"})), *DONE]
    with LoopbackServer(script) as server:
        settings = {"name": "openai/loopback", "api_base": server.url}
        result = load("geist", tools=[send, search]).run("Write.", settings=settings)
        asked = [request.body for request in server.requests]
    assert (str(result.reason), ticks(result)) == ("completed", 2), result.explain()
    assert result.output["function_log"] == ['search {"text": "rain"} -> found rain']
    assert [len(body.get("tools", ())) for body in asked] == [0, 0, 2, 0, 0, 2]
