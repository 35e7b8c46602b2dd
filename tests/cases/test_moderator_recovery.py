"""Document 003, "Recovery Procedures": what is done about it, what is kept, and bad input."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import RunError, ToolResult, load, tool
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import AnswerError, WaitError
from chartloop.testing import ManualClock
from tests.cases.moderating import BUSY, REFUSED, done_at, late, moderated, reply, upto, visits

# the whole day ------------------------------------------------------------------------------


def test_a_day_of_work_ends_at_its_last_second() -> None:
    """Tasks of 29 minutes, each of which brings the next: progress is made, and the day ends."""
    endless = [reply(f'{{"tasks": ["Step {n}."]}}', delay=29 * 60) for n in range(60)]
    run = moderated(*endless)
    result = run.run()
    assert result.reason == "time_limit"
    assert result.elapsed == 24 * 3600
    assert run.facts.queue.done == 24 * 60 // 29


class Often(NamedTuple):
    """A check, and how often the document wants it made."""

    check: str
    document: str


OFTEN = [
    Often("check_tokens", "after each task completion"),
    Often("check_runtime", "every 5 minutes"),
    Often("check_cycles", "at the start of each improvement cycle"),
    Often("check_magnitude", "at the end of each improvement cycle"),
    Often("check_error_rate", "after each task"),
    Often("check_stagnation", "every minute"),
    Often("check_context", "before each LLM call"),
    Often("check_errors", "after each error"),
]


@pytest.mark.parametrize("often", OFTEN, ids=lambda often: often.check)
def test_nothing_is_done_between_two_checks(often: Often) -> None:
    """Before every unit of work, failed ones and those of a cycle too, all is looked at."""
    first = reply('{"metrics": {"speed": 1}, "improvements": ["x", "y"]}')
    cycle = [reply('{"metrics": {"speed": 2}, "improvements": ["z"]}'), BUSY, reply()]
    run = moderated(first, *cycle, reply(), limits={"cycles": 0})
    *before_work, _ = " ".join(run.run().path).split("continue_work")
    asked = [often.check in part.split() for part in before_work]
    assert asked == [True] * 5  # of a magnitude because the limit of cycles is none


# A check between two units of work is made as often as there is work; within one unit a deadline
# cuts the work off. So no limit is noticed later than the document's frequency allows.

MINUTE = 60


class Late(NamedTuple):
    """A unit of work that takes too long, and when the run must have noticed."""

    reason: str
    limits: Mapping[str, Any]
    takes: float
    limit: float
    every: float


LATE = [
    Late("time_limit", {"runtime": "1h", "stagnation": "10h"}, 3 * 3600, 3600, 5 * MINUTE),
    Late("stagnation", {"stagnation": "30m"}, 2 * 3600, 30 * MINUTE, MINUTE),
]


@pytest.mark.parametrize("late", LATE, ids=lambda late: late.reason)
def test_a_limit_is_noticed_as_often_as_the_document_checks(late: Late) -> None:
    result = moderated(reply(delay=late.takes), reply(), limits=late.limits).run()
    assert result.reason == late.reason
    assert late.limit <= result.elapsed <= late.limit + late.every


# context overflow ---------------------------------------------------------------------------

OVERFLOW = [
    "Write the lexer.",
    "Write the parser.",
    "Write the checker.",
    "Write the printer.",
    {"id": "docs", "text": "Write the docs.", "acceptance": "Every word is explained."},
    "Publish it.",
]


def test_an_overflow_keeps_the_task_its_acceptance_and_three_results() -> None:
    sizes = [100, 200, 300, 125_000]
    names = ["lexer", "parser", "checker", "printer"]
    done = [reply(f"The {n} is written.", tokens=t) for n, t in zip(names, sizes, strict=True)]
    run = moderated(*done, reply("The docs are written."), reply(), tasks=OVERFLOW)
    while "resume" not in visits(run):
        run.advance()
    (kept,) = run.messages
    assert kept["content"].split("\n\n") == [
        "Task: Write the docs.",
        "It is done when: Every word is explained.",
        "Earlier result: The parser is written.",
        "Earlier result: The checker is written.",
        "Earlier result: The printer is written.",
    ]
    run.run()
    (overflowed,) = done_at(run, "checkpoint")
    assert done_at(run, "resume")[0].result == overflowed.result
    tried = [outcome.result["task"] for outcome in done_at(run, "continue_work")]
    assert tried == ["task_1", "task_2", "task_3", "task_4", "docs", "task_5"]
    assert run.result.reason == "completed"


def test_a_task_that_was_begun_is_the_current_one_after_an_overflow() -> None:
    run = moderated(
        reply("The lexer is written.", tokens=121_000), BUSY, reply("The parser is written."),
        tasks=[{"text": "Write the lexer."}, {"text": "Write the parser.", "acceptance": "It runs."}],
        limits={"context": "94%"},
    )  # fmt: skip
    run.run()
    assert run.result.reason == "context_overflow"  # two messages: there is nothing to leave out
    run = moderated(
        reply("The lexer is written."), reply("The parser is written.", tokens=119_999), BUSY,
        reply("The tests are written."),
        tasks=["Write the lexer.", "Write the parser.", {"text": "Test it.", "acceptance": "Green."}],
    )  # fmt: skip
    while run.facts.errors.total == 0:
        run.advance()
    run.set("limits.context", "90%")
    while "resume" not in visits(run):
        run.advance()
    assert run.facts.queue.current is not None
    assert run.facts.queue.current.text == "Test it."
    assert run.messages[0]["content"].startswith("Task: Test it.\n\nIt is done when: Green.")
    assert run.run().reason == "completed"


# errors -------------------------------------------------------------------------------------


def test_back_offs_are_of_1_2_and_4_seconds_and_the_task_stays_the_same() -> None:
    run = moderated(*[BUSY] * 9, reply())
    run.run()
    assert [outcome.result["waited"] for outcome in done_at(run, "retry")] == [1, 2, 4]
    assert {outcome.result["task"] for outcome in done_at(run, "continue_work")} == {"task_1"}
    assert run.result.reason == "completed"


def test_a_fix_reaches_the_model() -> None:
    run = upto(moderated(REFUSED, REFUSED, REFUSED, reply()), "user_responds")
    assert run.result.question == (
        "3 attempts in a row have failed."
        " The last one: task `task_1` failed (attempt 3 of 10): the request was refused"
    )
    run.send("fix", {"note": "Use the other grammar."})
    run.run()
    assert [m["content"] for m in run.messages][:2] == [
        "Use the other grammar.",
        "Write the parser.",
    ]
    assert run.result.reason == "completed"


# diminishing returns ------------------------------------------------------------------------


class Magnitude(NamedTuple):
    """Metrics before and after one cycle, and its magnitude."""

    id: str
    before: str
    after: str
    magnitude: float | None


@pytest.mark.parametrize(
    "case",
    [
        Magnitude(
            "the-document's-three",
            '"test_coverage": 0.5, "code_quality": 0.8, "performance": 100',
            '"test_coverage": 0.6, "code_quality": 0.8, "performance": 110',
            0.1,
        ),
        Magnitude("worse-counts-too", '"a": 1, "b": 1', '"a": 1.5, "b": 0.9', 0.2),
        Magnitude("zero-before-is-left-out", '"a": 0, "b": 2', '"a": 9, "b": 3', 0.5),
        Magnitude("a-new-one-is-left-out", '"b": 2', '"a": 9, "b": 3', 0.5),
        Magnitude("nothing-to-compare", '"a": 0', '"a": 9', None),
    ],
    ids=lambda case: case.id,
)
def test_the_magnitude_of_a_cycle(case: Magnitude) -> None:
    first = f'{{"metrics": {{{case.before}}}, "improvements": ["Make it better."]}}'
    run = moderated(reply(first), reply(f'{{"metrics": {{{case.after}}}}}'))
    run.run()
    wanted = None if case.magnitude is None else pytest.approx(case.magnitude)
    assert run.facts.progress.magnitude == wanted
    assert run.facts.progress.cycles == 1


# what is left behind ------------------------------------------------------------------------


def test_the_saved_state_is_read_again(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "runs.db")
    run = moderated(reply(), journal=journal)
    result = run.run()
    again = load("moderator").open(run.id, journal=journal)
    assert again.result.to_dict() == result.to_dict()
    assert again.facts == run.facts
    assert again.ended


class Listener:
    """Notes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        """Note it."""
        self.heard.append(f"{text} ({data['reason']})")


class Deaf:
    """A notifier that reaches nobody."""

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        """Fail."""
        raise ConnectionError("nobody is there")


def test_people_are_told_of_alerts_and_of_the_end() -> None:
    listener = Listener()
    moderated(*[BUSY] * 5, reply(), limits={"error_threshold": 2}, notifier=listener).run()
    assert listener.heard == [
        "Health: 38% (None)",
        "Health: 38%; going on with caution (None)",
        "moderator: completed (completed)",
    ]


def test_a_notice_that_reaches_nobody_stops_nothing() -> None:
    run = moderated(*[BUSY] * 5, reply(), limits={"error_threshold": 4}, notifier=Deaf())
    result = run.run()
    assert result.reason == "completed"
    assert (
        result.warnings[-1] == "notify_end failed after the stop: ConnectionError: nobody is there"
    )


# bad input ----------------------------------------------------------------------------------


def test_an_answer_after_the_deadline_changes_nothing() -> None:
    clock = ManualClock(1_700_000_000)
    run = upto(moderated(REFUSED, REFUSED, REFUSED, clock=clock), "user_responds")
    clock.advance(301)
    with pytest.raises(WaitError, match="expired at"):
        run.send("fix", {"note": "Too late."})
    result = run.run()
    assert result.reason == "user_unresponsive"
    assert run.facts.run.visits["apply_fix"] == 0
    with pytest.raises(AnswerError, match="the run waits for nothing"):
        run.send("fix", {"note": "Later still."})


@pytest.mark.parametrize("data", [{}, {"note": 3}, {"note": "x", "more": "y"}], ids=str)
def test_an_answer_that_is_none_is_refused_and_the_run_waits_on(data: Mapping[str, Any]) -> None:
    run = upto(moderated(REFUSED, REFUSED, REFUSED), "user_responds")
    with pytest.raises(AnswerError):
        run.send("fix", data)
    with pytest.raises(AnswerError, match="it takes `fix`, `abort`"):
        run.send("mend")
    assert run.state == "user_responds"


class Zero(NamedTuple):
    """A limit of zero, and what comes of it."""

    limit: str
    reason: str
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Zero("tokens", "token_limit", "Token limit reached"),
        Zero("runtime", "time_limit", "Runtime limit exceeded"),
        Zero("error_rate", "error_rate", "Error rate: 0.0%"),
        Zero("stagnation", "stagnation", "No progress for 0 minutes"),
        Zero("context", "context_overflow", "Context window full"),
        Zero("error_threshold", "guard_error", "raised ZeroDivisionError"),
    ],
    ids=lambda case: case.limit,
)
def test_a_limit_of_zero_is_spent_at_once(case: Zero) -> None:
    run = moderated(limits={case.limit: 0})
    result = run.run()
    assert result.reason == case.reason
    assert case.says in result.signals[0].message
    assert result.path[-4:] == ("report", "save_state", "notify_end", "end")
    assert result.usage["llm_calls"] == 0


def test_a_limit_below_what_is_used_stops_a_run_that_is_resumed(tmp_path: Path) -> None:
    journal, clock = SqliteJournal(tmp_path / "runs.db"), ManualClock(1_700_000_000)
    run = moderated(reply(tokens=5_000), reply(), tasks=["a", "b"], journal=journal, clock=clock)
    while run.facts.usage.total_tokens == 0:
        run.advance()
    run.pause()
    run.advance()
    run = load("moderator").open(run.id, journal=journal, clock=clock, script=[reply(), reply()])
    assert run.status == "paused"
    run.set("limits.tokens", 4_000)
    run.resume()
    result = run.run()
    assert (result.reason, result.usage["total_tokens"]) == ("token_limit", 5_000)
    assert run.facts.queue.size == 1


def test_a_task_for_a_tool_that_is_not_there_does_not_begin() -> None:
    with pytest.raises(RunError, match="task 2: unknown tool `buidl`") as caught:
        moderated(tasks=["a", {"text": "b", "by": {"tool": "buidl"}}])
    assert "Traceback" not in str(caught.value)


def test_a_task_that_is_reported_for_a_tool_that_is_not_there_is_critical() -> None:
    more = reply('{"tasks": [{"text": "Build it.", "by": {"tool": "buidl"}}]}')
    result = moderated(more).run()
    assert result.reason == "critical_failure"
    assert result.signals[0].message.endswith("there is no tool `buidl`")


def test_a_report_that_is_none_is_a_failure_that_a_person_hears_of() -> None:
    run = upto(moderated(*[reply('{"metrics": "good"}')] * 3), "user_responds")
    assert "`metrics` must be numbers by name" in str(run.result.question)


@pytest.mark.parametrize("wrong", ["", {"text": 3}, {"txt": "a"}, None], ids=str)
def test_what_is_no_task_is_refused(wrong: Any) -> None:
    with pytest.raises(RunError, match="task 1"):
        moderated(tasks=[wrong])


def test_a_tool_that_never_ends_does_not_hold_up_the_stop() -> None:
    clock = ManualClock(1_700_000_000)

    @tool(effect="local")
    async def build(task: str) -> str:
        """Build it.

        Args:
            task: What is to be built.
        """
        await clock.sleep(10 * 24 * 3600)
        return task

    made = load("moderator", tools=[build])
    tasks = [{"text": "a", "by": {"tool": "build"}}]
    run = moderated(tasks=tasks, machine=made, clock=clock)
    result = run.run()
    assert (result.reason, result.elapsed) == ("stagnation", 30 * 60)
    assert run.facts.queue.current is not None


def test_a_tool_that_fails_says_of_what_category() -> None:
    @tool
    def build(task: str) -> ToolResult:
        """Build it.

        Args:
            task: What is to be built.
        """
        return ToolResult(f"{task}: the disk is full", ok=False, category="CRITICAL")

    made = load("moderator", tools=[build])
    tasks = [{"text": "a", "by": {"tool": "build"}}]
    assert moderated(tasks=tasks, machine=made).run().reason == "critical_failure"


def test_the_runtime_limit_cuts_a_task_off() -> None:
    run = moderated(late(reply(), 3600), limits={"runtime": "20m"})
    result = run.run()
    assert (result.reason, result.elapsed) == ("time_limit", 20 * 60)
    assert run.facts.queue.size == 1


def test_a_run_without_any_task_is_complete() -> None:
    run = moderated(tasks=[])
    assert run.run().reason == "completed"
    assert run.facts.usage.llm_calls == 0
