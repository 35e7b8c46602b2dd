"""Document 003, what its text has and its chart lacks: the machine `moderator_full`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import ToolResult, load, tool
from chartloop.catalog import shipped_machines
from chartloop.scenarios import run_scenario
from chartloop.testing import ManualClock
from tests.cases.moderating import BROKEN, BUSY, REFUSED, late, moderated, reply, upto, visits

MINUTE = 60.0
STUCK = late(BUSY, 7 * MINUTE)


def full(*replies: Any, **options: Any) -> Any:
    """A run of the whole document."""
    return moderated(*replies, machine="moderator_full", **options)


# manual stop --------------------------------------------------------------------------------


def test_a_manual_stop_is_graceful() -> None:
    run = upto(full(reply(), reply(), tasks=["a", "b"]), "continue_work")
    run.cancel()
    result = run.run()
    assert (result.reason, result.kind) == ("user_requested", "human")
    assert [s.message for s in result.signals] == ["User requested stop"]
    assert result.path[-5:] == ("stop_at_once", "report", "save_state", "notify_end", "end")
    assert run.facts.usage.llm_calls == 0
    assert [task.text for task in run.session.position.queue] == ["a", "b"]


def test_a_manual_stop_while_a_person_is_asked() -> None:
    run = upto(full(REFUSED, REFUSED, REFUSED), "user_responds")
    run.cancel(message="Enough for today.")
    result = run.run()
    assert [s.message for s in result.signals] == ["Enough for today."]
    assert "stop_at_once" in result.path


# off topic ----------------------------------------------------------------------------------


class Drift(NamedTuple):
    """What the judge says, and whether a person is asked."""

    id: str
    drift: float
    asks: bool
    limit: Any = 0.5


@pytest.mark.parametrize(
    "case",
    [
        Drift("exactly", 0.5, asks=False),
        Drift("one-above", 0.51, asks=True),
        Drift("another-limit", 0.3, asks=True, limit=0.2),
    ],
    ids=lambda case: case.id,
)
def test_topic_drift(case: Drift) -> None:
    judged = reply(f'{{"drift": {case.drift}}}')
    run = full(reply("A poem."), judged, task="Write a parser.", limits={"drift": case.limit})
    run.run()
    entered = visits(run)
    assert ("request_direction" in entered) == case.asks
    assert ("complete" in entered) != case.asks


def test_a_person_is_told_that_work_diverges() -> None:
    run = full(reply("A poem."), reply('{"drift": 0.9}'), task="Write a parser.")
    assert upto(run, "user_responds").result.question == "Work diverging from requirements"


def test_the_judge_reads_the_work_and_what_was_asked() -> None:
    run = full(reply("A poem."), reply('{"drift": 0}'), task="Write a parser.")
    upto(run, "judge")
    sent = run.session.position.prompt
    assert sent is not None
    assert sent[1]["content"] == "What was asked: Write a parser.\nThe work: A poem.\n"
    run.run()
    assert run.facts.usage.messages == 2  # what the judge said is not part of the conversation


class Unjudged(NamedTuple):
    """When there is no call of the judge."""

    id: str
    task: str
    limits: Mapping[str, Any]


@pytest.mark.parametrize(
    "case",
    [
        Unjudged("nothing-was-asked", "", {}),
        Unjudged("the-limit-is-off", "Write a parser.", {"drift": None}),
    ],
    ids=lambda case: case.id,
)
def test_nothing_is_judged(case: Unjudged) -> None:
    run = full(reply(), task=case.task, limits=dict(case.limits))
    assert run.run().reason == "completed"
    assert run.facts.usage.llm_calls == 1


def test_a_tool_can_be_the_judge() -> None:
    @tool
    def topic_drift(work: str, requirements: str) -> float:
        """How far work is from its requirements.

        Args:
            work: What was done.
            requirements: What was asked.
        """
        return 0.0 if set(work.split()) & set(requirements.split()) else 0.9

    text = shipped_machines()["moderator_full"].read_text("utf-8")
    head, _, rest = text.partition("  judge:\n")
    judge = (
        "  judge:\n    do: tool\n    with:\n      name: topic_drift\n"
        '      arguments: {work: "{{ vars.work }}", requirements: "{{ run.task }}"}\n'
        "    save: {vars.drift: result}\n    failed: monitor\n    next: check_drift\n"
    )
    made = head + judge + "  check_drift:\n" + rest.partition("  check_drift:\n")[2]
    made = made.replace("  drift: 0.0 ", '  work: ""\n  drift: 0.0 ').replace(
        "    do: work\n", "    do: work\n    save: {vars.work: result.text}\n"
    )
    machine = load(made, tools=[topic_drift])
    run = moderated(reply("A poem."), machine=machine, task="Write a parser.")
    assert upto(run, "user_responds").facts.vars["drift"] == 0.9
    run = moderated(reply("The parser."), machine=machine, task="Write a parser.")
    assert run.run().reason == "completed"


# stagnation ---------------------------------------------------------------------------------


class Stagnation(NamedTuple):
    """What happens for 30 minutes, and what is done about it."""

    id: str
    replies: Sequence[Any]
    leads: str
    task: str = ""
    """With one the work is judged, which is another action."""


@pytest.mark.parametrize(
    "case",
    [
        Stagnation("five-times-the-same", [STUCK] * 5, "try_alternative"),
        Stagnation("four-times-the-same", [late(BUSY, 10 * MINUTE)] * 4, "request_guidance"),
        Stagnation(
            "exactly-four-times-the-same", [late(BUSY, 7.5 * MINUTE)] * 5, "request_guidance"
        ),
        Stagnation("one-long-action", [late(reply(), 40 * MINUTE)], "request_guidance"),
        Stagnation(
            "five-actions-not-all-the-same",
            [reply(), reply('{"drift": 0}'), *[late(BUSY, 10 * MINUTE)] * 3],
            "request_guidance",
            "Write a parser.",
        ),
    ],
    ids=lambda case: case.id,
)
def test_what_is_done_about_stagnation(case: Stagnation) -> None:
    run = full(*case.replies, task=case.task, tasks=["a", "b"])
    found = {"try_alternative", "request_guidance"}
    while not found & visits(run).keys():
        run.advance()
    assert case.leads in visits(run)
    assert run.facts.progress.stalled_for == 30 * MINUTE


def test_another_way_is_told_to_the_model_and_has_as_long_again() -> None:
    run = full(*[STUCK] * 5, late(reply(), 40 * MINUTE))
    result = run.run()
    assert (
        run.messages[0]["content"]
        == "The same was tried five times without progress. Try another way."
    )
    assert (result.reason, result.elapsed) == ("stagnation", 60 * MINUTE)


def test_progress_takes_back_what_was_granted() -> None:
    late_again = [late(reply(), 40 * MINUTE), reply(), late(reply(), 40 * MINUTE)]
    run = upto(full(*late_again, tasks=["a", "b"]), "user_responds")
    assert run.facts.vars["granted"] == 30 * MINUTE
    run.send("fix", {"note": "Begin with the lexer."})
    run.advance()
    upto(run, "user_responds")
    assert run.facts.queue.done == 1
    assert run.facts.run.elapsed == 60 * MINUTE


# progress -----------------------------------------------------------------------------------


@tool
def open_pull_request(task: str) -> ToolResult:
    """Open a pull request.

    Args:
        task: What it is about.
    """
    return ToolResult(f"{task}: opened, its checks fail", ok=False, progressed=True)


@tool
def resolve_issue(task: str) -> ToolResult:
    """Resolve an issue, of several that the task has.

    Args:
        task: What it is about.
    """
    return ToolResult(f"{task}: one is left", ok=False, progressed=True)


@tool
def complete_task(task: str) -> str:
    """Do a task.

    Args:
        task: What it is about.
    """
    return task


@tool
def fail_task(task: str) -> ToolResult:
    """Fail to do a task.

    Args:
        task: What it is about.
    """
    return ToolResult(f"{task}: no", ok=False)


class Progress(NamedTuple):
    """What a task's tool does, and whether that is progress."""

    does: Any
    is_progress: bool


@pytest.mark.parametrize(
    "case",
    [
        Progress(complete_task, True),
        Progress(open_pull_request, True),
        Progress(resolve_issue, True),
        Progress(fail_task, False),
    ],
    ids=lambda case: case.does.__name__,
)
@pytest.mark.parametrize("machine", ["moderator", "moderator_full"])
def test_what_is_progress(case: Progress, machine: str) -> None:
    clock = ManualClock(1_700_000_000)
    made = load(machine, tools=[case.does])
    tasks = [{"text": "a", "by": {"tool": case.does.__name__}}, "b"]
    run = upto(moderated(tasks=tasks, machine=made, clock=clock), "continue_work")
    clock.advance(20 * MINUTE)
    run.advance()
    assert run.facts.progress.stalled_for == (0 if case.is_progress else 20 * MINUTE)


# critical errors ----------------------------------------------------------------------------


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_critical_error_stops_at_once(before: int) -> None:
    run = full(*[BUSY] * before, BROKEN)
    result = run.run()
    assert result.reason == "critical_failure"
    assert result.signals[0].message.endswith("the key is not valid")
    assert run.facts.errors.total == before + 1


# endings ------------------------------------------------------------------------------------

FULL = sorted((Path(__file__).parents[1] / "scenarios").glob("moderator_full_*.scenario.yaml"))


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("path", FULL, ids=lambda path: path.name.partition(".")[0])
def test_every_ending_is_reported_saved_and_told(path: Path) -> None:
    played = run_scenario(path)
    assert played.passed, str(played)
    assert played.result is not None
    assert played.result.path[-4:] == ("report", "save_state", "notify_end", "end")
    assert all(signal.message for signal in played.result.signals)
    assert f"| Stopped for | {played.result.reason} |" in played.result.output
