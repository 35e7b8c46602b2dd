"""Document 003: every ending, every threshold at its boundary, and the report of each stop."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import Facts, load
from chartloop.catalog import shipped_machines
from chartloop.core.errors import WaitError
from chartloop.core.facts import ErrorFacts, ProgressFacts, UsageFacts
from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.pictures.flowchart import Arrow, Box
from chartloop.scenarios import load_scenario, run_scenario
from chartloop.testing import ManualClock
from tests.cases.moderating import (
    BROKEN,
    BUSY,
    REFUSED,
    done_at,
    late,
    moderated,
    reply,
    upto,
    visits,
)

SCENARIOS = Path(__file__).parents[1] / "scenarios"

# endings ------------------------------------------------------------------------------------


class Ending(NamedTuple):
    """A scenario, the box that it ends in, and every signal that was raised, with its message."""

    scenario: str
    stop: str
    label: str
    signals: Mapping[str, str]


ENDINGS = [
    Ending("reaches_the_token_limit", "stop_tokens", "STOP:\nToken Limit", {"token_limit": "Token limit reached"}),
    Ending("reaches_the_runtime_limit", "stop_runtime", "STOP:\nRuntime Limit", {"time_limit": "Runtime limit exceeded"}),
    Ending("diminishes_over_its_cycles", "stop_diminishing", "STOP:\nDiminishing Returns", {"diminishing_returns": "Improvement: 5.0%"}),
    Ending("has_too_many_errors", "stop_error_rate", "STOP:\nHigh Error Rate", {"error_rate": "Error rate: 20.0%"}),
    Ending("stagnates", "stop_stagnation", "STOP:\nSystem Stagnated", {"stagnation": "No progress for 30 minutes"}),
    Ending("overflows", "stop_context", "STOP:\nContext Overflow", {"context_overflow": "Context window full"}),
    Ending("fails_critically", "stop_critical", "STOP:\nCritical Failure", {"critical_failure": "task `task_1` failed (attempt 3 of 10): the key is not valid"}),
    Ending("is_aborted_by_the_user", "stop_aborted", "STOP:\nUser Aborted", {"user_requested": "User requested stop"}),
    Ending("gets_no_response", "stop_unresponsive", "STOP:\nUser Unresponsive", {"user_unresponsive": "No response to intervention request"}),
    Ending("diminishes_in_a_cycle", "stop_diminishing_again", "STOP:\nDiminishing Returns", {"diminishing_returns": "Improvement: 5.0%"}),
    Ending("has_critical_health", "stop_health", "STOP:\nHealth Critical", {"health_critical": "Health: 13%"}),
    Ending("completes", "complete", "Complete:\nAll Tasks Done", {"completed": "All tasks done"}),
    Ending("reaches_both_limits", "stop_tokens", "STOP:\nToken Limit", {"token_limit": "Token limit reached", "time_limit": "Runtime limit exceeded"}),
]  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.scenario)
def test_an_ending(ending: Ending) -> None:
    played = run_scenario(load_scenario(SCENARIOS / f"moderator_{ending.scenario}.scenario.yaml"))
    run, result = played.run, played.result
    assert played.passed, str(played)
    assert run is not None
    assert result is not None
    assert result.path[-5:] == (ending.stop, "report", "save_state", "notify_end", "end")
    assert {str(s.reason): s.message for s in result.signals} == dict(ending.signals)
    assert result.reason == next(iter(ending.signals))
    assert run.machine.chart.spec.states[ending.stop].label is not None
    boxes = {box.id: box.label for box in run.draw().chart.boxes}
    assert boxes[ending.stop] == ending.label
    assert run.replay().same
    _report_holds_it_all(done_at(run, "report")[0].result, run, ending)


def test_a_lost_task_is_no_success() -> None:
    """One of ten stays below every limit: the chart ends in "All Tasks Done", the result says more."""
    run = load("moderator").start(
        "", tasks=[f"task {n}" for n in range(10)], script=[*["done"] * 9, *[BUSY] * 10],
        clock=ManualClock(),
    )  # fmt: skip
    result = run.run()
    assert (result.reason, result.kind, result.success) == ("completed", "limit", False)
    assert result.path[-5] == "complete"
    assert result.signals[-1].message == "9 of 10 tasks done"
    assert "1 task was given up: the work is not complete" in result.warnings
    assert "9 of 10 tasks done" in result.output
    assert run.replay().same


def _report_holds_it_all(report: Mapping[str, Any], run: Any, ending: Ending) -> None:
    """The report as data, as Markdown, and as the run's output."""
    assert json.loads(json.dumps(report)) == report
    facts = run.facts
    assert report["reason"] == str(run.result.reason)
    assert {s["reason"]: s["message"] for s in report["signals"]} == dict(ending.signals)
    assert report["metrics"]["errors"]["total"] == facts.errors.total
    assert report["metrics"]["progress"]["cycles"] == facts.progress.cycles
    assert report["metrics"]["usage"]["total_tokens"] == facts.usage.total_tokens
    assert report["tasks"]["done"] == facts.queue.done
    assert report["tasks"]["failed"] == facts.queue.failed
    assert [t["text"] for t in report["tasks"]["waiting"]] == [
        t.text for t in run.session.position.queue
    ]
    assert [e["message"] for e in report["failures"]] == [e["message"] for e in run.result.errors]
    assert [m["state"] for m in report["timeline"]][:2] == ["start", "monitor"]
    assert report["path"] == list(run.result.path[:-3])
    text = report["text"]
    assert run.result.output == text
    assert text.startswith("# Report: moderator\n")
    assert f"| Stopped for | {report['reason']} |" in text
    assert "## Signals" in text
    assert "## Timeline" in text
    assert ("## Errors" in text) == bool(report["failures"])
    assert ("## Tasks that are left" in text) == bool(report["tasks"]["waiting"])
    drawn = read_mermaid(text.partition("```mermaid\n")[2].partition("```")[0])
    assert {box.id for box in drawn.boxes} >= {"start", "monitor", ending.stop, "report"}


# arrows -------------------------------------------------------------------------------------

STATES = {
    "Start": "start", "Monitor": "monitor", "Check1": "check_tokens", "Check2": "check_runtime",
    "Check3": "check_cycles", "CheckMagnitude": "check_magnitude", "Check4": "check_error_rate",
    "Check5": "check_stagnation", "Check6": "check_context", "AttemptRecover": "can_recover",
    "Checkpoint": "checkpoint", "PruneContext": "prune", "ResumeFromCheckpoint": "resume",
    "Check7": "check_errors", "ErrorType": "error_category", "RetryWithBackoff": "retry",
    "RequestIntervention": "request_intervention", "UserRespond": "user_responds",
    "ApplyFix": "apply_fix", "Check8": "check_queue", "AllTasksDone": "all_done",
    "ImprovementCheck": "improving", "ImprovementAvailable": "improvements_identified",
    "CheckDiminishing": "check_diminishing", "HealthCheck": "health_check",
    "ContinueWork": "continue_work", "HealthAlert": "health_alert",
    "CriticalityCheck": "severity", "NotifyUser": "notify_user", "Stop1": "stop_tokens",
    "Stop2": "stop_runtime", "Stop3": "stop_diminishing", "Stop4": "stop_error_rate",
    "Stop5": "stop_stagnation", "Stop6": "stop_context", "Stop7": "stop_critical",
    "Stop8": "stop_aborted", "Stop9": "stop_unresponsive", "Stop10": "stop_diminishing_again",
    "Stop11": "stop_health", "Complete": "complete", "GenerateReport": "report",
    "SaveState": "save_state", "NotifyCompletion": "notify_end", "End": "end",
}  # fmt: skip
"""What the document calls a box, and what the machine calls the state."""
CHART = read_mermaid((Path(__file__).parent / "sources/seed003_verbatim.mmd").read_text("utf-8"))


@cache
def taken() -> frozenset[tuple[str, str]]:
    """The ways that the moderator's scenarios take, by source and target."""
    edges = {edge.id: (edge.source, edge.target) for edge in load("moderator").spec.edges()}
    found = [load_scenario(path) for path in SCENARIOS.glob("moderator_*.scenario.yaml")]
    runs = [run_scenario(made).run for made in found if made.machine == "moderator"]
    ids = {id for run in runs if run is not None for record in run.records for id in record.taken}
    return frozenset(edges[id] for id in ids & edges.keys())


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("arrow", CHART.arrows, ids=lambda a: f"{a.source}-{a.target}")
def test_an_arrow_of_the_chart_is_taken(arrow: Arrow) -> None:
    source, target = STATES[arrow.source], STATES[arrow.target]
    drawn = [a for a in load("moderator").draw().chart.arrows if a.source == source]
    assert [a.label for a in drawn if a.target == target] == [arrow.label]
    assert (source, target) in taken()


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("box", CHART.boxes, ids=lambda box: box.id)
def test_a_box_of_the_chart_is_drawn(box: Box) -> None:
    (drawn,) = [b for b in load("moderator").draw().chart.boxes if b.id == STATES[box.id]]
    assert drawn.label == box.label
    assert (drawn.fill or "") == (box.fill or "")


# thresholds ---------------------------------------------------------------------------------

DAY, MINUTE = 24 * 3600.0, 60.0


def improving(cycles: int, last: float) -> list[dict[str, Any]]:
    """Replies of so many cycles that each double a metric, but the last, which makes it `last`."""
    values = [100.0 * 2**n for n in range(cycles)]
    values.append(last)
    more = ['"improvements": ["again"]'] * cycles + ['"tasks": []']
    return [
        reply(f'{{"metrics": {{"speed": {value}}}, {rest}}}')
        for value, rest in zip(values, more, strict=True)
    ]


def one_cycle(last: float) -> list[dict[str, Any]]:
    """One cycle that makes a metric `last` instead of 100, and finds a further improvement."""
    better = f'{{"metrics": {{"speed": {last}}}, "improvements": ["again"]}}'
    return [reply('{"metrics": {"speed": 100}, "improvements": ["x"]}'), reply(better)]


class Threshold(NamedTuple):
    """What happens at a boundary, and where it leads."""

    id: str
    replies: Sequence[Any]
    leads: str
    """A state that is entered."""
    avoids: str = ""
    """One that is not."""
    tasks: Sequence[Any] = ("Write the parser.",)
    limits: Mapping[str, Any] = {}


FIVE, SIX = ["a", "b", "c", "d", "e"], ["a", "b", "c", "d", "e", "f"]
LONG = {"stagnation": "2d"}
THRESHOLDS = [
    Threshold("tokens-one-below", [reply(tokens=999_999)], "check_context", "stop_tokens"),
    Threshold("tokens-exactly", [reply(tokens=1_000_000)], "stop_tokens", "complete"),
    Threshold("runtime-one-below", [reply(delay=DAY - 1)], "complete", "stop_runtime", limits=LONG),
    Threshold("runtime-exactly", [reply(delay=DAY)], "stop_runtime", "complete", limits=LONG),
    Threshold("cycles-one-below", improving(4, 840), "complete", "check_magnitude"),
    Threshold("cycles-exactly", improving(5, 1680), "stop_diminishing", "complete"),
    Threshold("magnitude-after-the-cycles-below", improving(5, 1759), "stop_diminishing"),
    Threshold("magnitude-after-the-cycles-exactly", improving(5, 1760), "check_magnitude", "stop_diminishing"),
    Threshold("magnitude-of-a-cycle-below", one_cycle(109.9), "stop_diminishing_again"),
    Threshold("magnitude-of-a-cycle-exactly", [*one_cycle(110), reply('{"metrics": {"speed": 400}}')], "complete", "stop_diminishing_again"),
    Threshold("error-rate-below", [*[BUSY] * 10, *[reply()] * 5], "complete", "stop_error_rate", tasks=SIX),
    Threshold("error-rate-exactly", [BUSY] * 10, "stop_error_rate", "complete", tasks=FIVE),
    Threshold("stagnation-one-below", [late(BUSY, 30 * MINUTE - 1), reply()], "complete", "stop_stagnation"),
    Threshold("stagnation-exactly", [late(BUSY, 30 * MINUTE)], "stop_stagnation", "complete"),
    Threshold("context-one-below", [reply(tokens=121_599)], "complete", "can_recover"),
    Threshold("context-exactly", [reply(tokens=121_600)], "stop_context", "complete"),
    Threshold("consecutive-errors-one-below", [REFUSED, REFUSED, reply()], "complete", "error_category"),
    Threshold("consecutive-errors-exactly", [REFUSED] * 3, "user_responds", "complete"),
]  # fmt: skip


@pytest.mark.parametrize("case", THRESHOLDS, ids=lambda case: case.id)
def test_a_threshold(case: Threshold) -> None:
    run = moderated(*case.replies, tasks=case.tasks, limits=dict(case.limits))
    run.run()
    entered = visits(run)
    assert case.leads in entered
    assert case.avoids not in entered


def test_thresholds_are_those_of_the_document() -> None:
    limits = {name: limit.value for name, limit in load("moderator").spec.limits.items()}
    assert limits == {
        "tokens": 1_000_000, "runtime": DAY, "context": 0.95, "error_rate": 0.2,
        "stagnation": 30 * MINUTE, "consecutive_errors": 3, "improvement": 0.1, "cycles": 5,
        "response": 5 * MINUTE, "health": 0.2,
        "health_warning": 0.4, "error_threshold": 10,  # the document gives these two no number
    }  # fmt: skip


class Answer(NamedTuple):
    """A person who answers after so many seconds, and where the run goes."""

    id: str
    after: float
    leads: str


@pytest.mark.parametrize(
    "case",
    [
        Answer("in-time", 5 * MINUTE - 1, "apply_fix"),
        Answer("exactly", 5 * MINUTE, "stop_unresponsive"),
    ],
    ids=lambda case: case.id,
)
def test_the_time_for_an_answer(case: Answer) -> None:
    clock = ManualClock(1_700_000_000)
    run = moderated(REFUSED, REFUSED, REFUSED, reply(), clock=clock)
    upto(run, "user_responds")
    clock.advance(case.after)
    in_time = case.leads == "apply_fix"
    with nullcontext() if in_time else pytest.raises(WaitError, match="expired"):
        run.send("fix", {"note": "Use the other grammar."})
    run.run()
    assert case.leads in visits(run)
    assert len({"apply_fix", "stop_unresponsive"} & visits(run).keys()) == 1


class Category(NamedTuple):
    """Three failures of a category, and what is done about them."""

    failure: Mapping[str, Any]
    leads: str


@pytest.mark.parametrize(
    "case",
    [
        Category(BROKEN, "stop_critical"),
        Category(REFUSED, "request_intervention"),
        Category(BUSY, "retry"),
    ],
    ids=lambda case: case.leads,
)
def test_what_is_done_about_three_errors(case: Category) -> None:
    run = moderated(*[case.failure] * 3)
    while "error_category" not in visits(run):
        run.advance()
    assert case.leads in visits(run)
    assert run.facts.errors.consecutive == 3


class Queue(NamedTuple):
    """Tasks, what the model says, and how often the chart's questions about them were asked."""

    id: str
    replies: Sequence[Any]
    asked: tuple[int, int, int]
    """`check_queue`, `all_done`, `improving`."""
    tasks: Sequence[Any]


@pytest.mark.parametrize(
    "case",
    [
        Queue("empty", [], (1, 1, 1), []),
        Queue("one-waits", [reply()], (2, 1, 1), ["a"]),
        Queue("one-is-to-be-tried-again", [BUSY, reply()], (3, 2, 1), ["a"]),
        Queue("another-waits-behind-it", [BUSY, reply(), reply()], (4, 1, 1), ["a", "b"]),
        Queue(
            "an-improvement-is-to-be-tried-again",
            [BUSY, reply()],
            (3, 2, 2),
            [{"text": "a", "kind": "improvement"}],
        ),
    ],
    ids=lambda case: case.id,
)
def test_the_questions_about_the_queue(case: Queue) -> None:
    run = moderated(*case.replies, tasks=case.tasks)
    assert run.run().reason == "completed"
    entered = run.facts.run.visits
    assert tuple(entered[s] for s in ("check_queue", "all_done", "improving")) == case.asked


# labels -------------------------------------------------------------------------------------


class Labelled(NamedTuple):
    """Another value of a limit, and the label that shows it."""

    limit: str
    value: Any
    state: str
    label: str


@pytest.mark.parametrize(
    "case",
    [
        Labelled("tokens", 500_000, "check_tokens", "Token Usage\n≥ 500,000?"),
        Labelled("runtime", "90m", "check_runtime", "Runtime\n≥ 90 min?"),
        Labelled("cycles", 3, "check_cycles", "Improvement\nCycles ≥ 3?"),
        Labelled("improvement", "2.5%", "check_magnitude", "Improvement\nMagnitude\n< 2.5%?"),
        Labelled("error_rate", "50%", "check_error_rate", "Error Rate\n≥ 50%?"),
        Labelled("stagnation", "10m", "check_stagnation", "Stagnation\n≥ 10 min?"),
        Labelled("context", "80%", "check_context", "Context Size\n≥ 80% limit?"),
        Labelled("consecutive_errors", 7, "check_errors", "Consecutive\nErrors ≥ 7?"),
    ],
    ids=lambda case: case.limit,
)
def test_a_limit_is_drawn_as_it_is(case: Labelled) -> None:
    plain = {box.id: box.label for box in load("moderator").draw().chart.boxes}
    run = moderated(limits={case.limit: case.value})
    run.advance()
    drawn = {box.id: box.label for box in run.draw().chart.boxes}
    assert drawn == {**plain, case.state: case.label}
    assert drawn != plain


def test_the_time_for_an_answer_is_drawn_as_it_is() -> None:
    run = moderated(limits={"response": "2m"})
    run.advance()
    (arrow,) = [a for a in run.draw().chart.arrows if a.target == "stop_unresponsive"]
    assert arrow.label == "No Response\n2 min"


def test_another_number_in_the_file_is_another_picture() -> None:
    text = (
        shipped_machines()["moderator"].read_text("utf-8").replace("runtime: 24h", "runtime: 12h")
    )
    boxes = {box.id: box.label for box in load(text).draw().chart.boxes}
    assert boxes["check_runtime"] == "Runtime\n≥ 12 hours?"


# health -------------------------------------------------------------------------------------


class Health(NamedTuple):
    """How much is used up, the health that is left, and what follows from it."""

    id: str
    tokens: int = 0
    context: float = 0.0
    errors: int = 0
    stalled: float = 0.0
    score: float = 1.0
    ok: bool = True
    severity: str = "WARNING"


@pytest.mark.parametrize(
    "case",
    [
        Health("all-is-well"),
        Health("tokens-weigh-30%", tokens=1_000_000, score=0.70),
        Health("half-the-tokens", tokens=500_000, score=0.85),
        Health("context-weighs-25%", context=1.0, score=0.75),
        Health("errors-weigh-25%", errors=10, score=0.75),
        Health("three-errors", errors=3, score=0.925),
        Health("progress-weighs-20%", stalled=10 * MINUTE, score=0.80),
        Health("progress-just-in-time", stalled=10 * MINUTE - 1, score=1.0),
        Health("warning-at-its-edge", 1_000_000, 1.0, 2, score=0.40),
        Health("warning-below", 1_000_000, 1.0, 3, score=0.375, ok=False),
        Health("critical-at-its-edge", 1_000_000, 1.0, 10, score=0.20, ok=False),
        Health("critical-below", 1_000_000, 1.0, 11, score=0.175, ok=False, severity="CRITICAL"),
        Health("nothing-left", 1_000_000, 1.0, 10, 3600.0, 0.0, False, "CRITICAL"),
    ],
    ids=lambda case: case.id,
)
def test_the_health_score(case: Health) -> None:
    spec = load("moderator").spec
    facts = Facts(
        usage=UsageFacts(total_tokens=case.tokens, context_ratio=case.context),
        errors=ErrorFacts(total=case.errors),
        progress=ProgressFacts(stalled_for=case.stalled),
        limits={name: limit.value for name, limit in spec.limits.items()},
        vars={name: var.value for name, var in spec.vars.items()},
    )
    assert spec.define["health"].value(facts) == pytest.approx(case.score)
    (well,) = spec.states["health_check"].edges_of("then")
    assert well.when is not None
    assert well.when.value(facts) is case.ok
    assert spec.define["severity_of_alert"].value(facts) == case.severity
