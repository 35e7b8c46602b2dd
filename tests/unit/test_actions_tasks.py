"""The task queue: `enqueue`, `work`, `apply_fix`, `measure`, `checkpoint`, `restore`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import Run, load, tool
from chartloop.actions.checkpoints import magnitude
from chartloop.actions.tasks import tasks_of
from chartloop.core.errors import Category, ModelError, TaskError, ToolError
from chartloop.core.facts import Task
from chartloop.testing.clock import ManualClock
from tests.talks import outcomes

WORK = """
chartloop: 1
machine: m
tools: [do_it]
tasks: %s
states:
  measure: {do: measure, next: left}
  left: {ask: Left?, when: queue.size + progress.improvements > 0, then: work, else: z}
  work: {do: work, with: {attempts: %d}, failed: next, next: measure}
  z: {stop: completed}
"""

Made = Any
"""What the tool returns for a task, or the exception that it raises."""


def working(tasks: str, made: Mapping[str, Sequence[Made]], attempts: int = 3) -> Run:
    """A run that works its queue off; the tool does what `made` says for each task's text."""
    left = {text: list(each) for text, each in made.items()}

    @tool
    def do_it(task: str) -> Any:
        """Do a task."""
        one = left[task].pop(0) if left.get(task) else "done"
        if isinstance(one, BaseException):
            raise one
        return one

    machine = load(WORK % (tasks, attempts), tools=[do_it])
    return machine.start("x", clock=ManualClock(1000))


def upto(run: Run, state: str) -> None:
    """Step until the run is at a state."""
    while run.state != state or not run.records:
        run.advance()


def by_tool(*texts: str, kind: str = "primary") -> str:
    """Tasks for `working`, as the file writes them."""
    each = (f"{{id: {t}, text: {t}, kind: {kind}, by: {{tool: do_it}}}}" for t in texts)
    return f"[{', '.join(each)}]"


# what a task is -----------------------------------------------------------------------------


class Given(NamedTuple):
    id: str
    data: Any
    tasks: tuple[Task, ...]


@pytest.mark.parametrize(
    "case",
    [
        Given("text", "a", (Task("task_1", "a"),)),
        Given("list", ["a", {"text": "b"}], (Task("task_1", "a"), Task("task_2", "b"))),
        Given("nothing", [], ()),
        Given(
            "whole",
            {"id": "x", "text": "a", "kind": "improvement", "acceptance": "b", "by": {"tool": "t"}},
            (Task("x", "a", "improvement", "b", {"tool": "t"}),),
        ),
        Given(
            "its-own-id",
            [{"id": "task_2", "text": "a"}, "b"],
            (Task("task_2", "a"), Task("task_1", "b")),
        ),
    ],
    ids=lambda case: case.id,
)
def test_what_a_task_is(case: Given) -> None:
    assert tasks_of(case.data, ()) == case.tasks


def test_ids_that_are_taken_are_not_given_again() -> None:
    taken = (task for task in ("task_1", "x"))  # read once
    assert [task.id for task in tasks_of(["a", "b"], taken)] == ["task_2", "task_3"]


class Wrong(NamedTuple):
    id: str
    data: Any
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Wrong("number", 3, "task 1 is int, neither a text nor a mapping"),
        Wrong("none", [None], "task 1 is NoneType"),
        Wrong("empty", "  ", "task 1 has no text"),
        Wrong("no-text", {"id": "a"}, "task 1 has no text"),
        Wrong("key", ["a", {"text": "b", "size": 1}], "task 2 has `size`"),
        Wrong("text-type", {"text": 3}, "task 1: `text` must be a text"),
        Wrong("kind", {"text": "a", "kind": "big"}, "not `big`"),
        Wrong("twice", [{"id": "x", "text": "a"}, {"id": "x", "text": "b"}], "a task `x` already"),
        Wrong("taken", {"id": "old", "text": "a"}, "a task `old` already"),
        Wrong("by", {"text": "a", "by": {"tool": "t", "prompt": "p"}}, "`by` is one of"),
        Wrong("by-nobody", {"text": "a", "by": {"magic": "t"}}, "`by` is one of"),
        Wrong("by-number", {"text": "a", "by": {"tool": 3}}, "`by` is one of"),
        Wrong("by-type", {"text": "a", "by": "tool"}, "`by` is one of"),
    ],
    ids=lambda case: case.id,
)
def test_what_no_task_is(case: Wrong) -> None:
    with pytest.raises(TaskError, match=case.says.replace("(", "\\(")):
        tasks_of(case.data, ("old",))


# work ---------------------------------------------------------------------------------------


def test_tasks_are_done_in_order_primary_first() -> None:
    tasks = f"[{by_tool('i', kind='improvement')[1:-1]}, {by_tool('a', 'b')[1:-1]}]"
    run = working(tasks, {})
    assert run.run().reason == "completed"
    assert [o.result["task"] for o in outcomes(run, "work")] == ["a", "b", "i"]
    assert run.facts.queue.to_tuple()[:4] == (0, 3, 0, True)


def test_a_task_that_failed_stays_first_until_it_is_given_up() -> None:
    run = working(by_tool("a", "b"), {"a": [ValueError("no")] * 9}, attempts=2)
    seen: list[tuple[int, int, str]] = []
    while (record := run.advance()) is not None:
        if record.state == "work":
            queue = run.facts.queue
            seen.append((queue.size, queue.failed, queue.current.id if queue.current else ""))
    assert seen == [(2, 0, "a"), (1, 1, ""), (0, 1, "")]
    errors = [o.error.message for o in outcomes(run, "work") if o.error is not None]
    assert errors == [
        "task `a` failed (attempt 1 of 2): error: ValueError: no",
        "task `a` failed (given up): error: ValueError: no",
    ]
    assert run.facts.errors.rate == 0.5
    assert (run.facts.queue.done, run.facts.queue.failed) == (1, 1)


class Raised(NamedTuple):
    id: str
    error: Callable[[], BaseException]
    category: Category


@pytest.mark.parametrize(
    "case",
    [
        Raised("any", lambda: ValueError("x"), Category.RECOVERABLE),
        Raised("connection", lambda: ConnectionResetError("x"), Category.TRANSIENT),
        Raised("timeout", lambda: TimeoutError("x"), Category.TRANSIENT),
        Raised("said", lambda: ToolError("x", category="CRITICAL"), Category.CRITICAL),
        Raised("said-nothing", lambda: ToolError("x"), Category.RECOVERABLE),
        Raised("model", lambda: ModelError("x", category=Category.TRANSIENT), Category.TRANSIENT),
    ],
    ids=lambda case: case.id,
)
def test_the_category_of_a_failed_task(case: Raised) -> None:
    run = working(by_tool("a"), {"a": [case.error()]})
    upto(run, "work")
    run.advance()
    assert run.facts.last.error is not None
    assert run.facts.last.error.category == case.category


def test_the_report_of_a_run_shows_what_its_tasks_gave() -> None:
    text = (WORK % (by_tool("a", "b"), 3)).replace("else: z", "else: told")
    text += "  told: {do: report, with: {partial: true}, next: z}\n"

    @tool
    def do_it(task: str) -> str:
        """Do a task."""
        return f"{task} is\n# done" if task == "a" else ""

    run = load(text, tools=[do_it]).start("x", clock=ManualClock(1000))
    (report,) = run.run().partial
    assert "## Newest results\n\n- a is \\# done\n- (nothing)\n" in report


def test_a_report_brings_tasks_improvements_and_metrics() -> None:
    report = {
        "tasks": ["more"],
        "improvements": [{"id": "better", "text": "better"}],
        "metrics": {"x": 1},
    }
    made = {"a": [report]}
    run = working(by_tool("a"), made)
    while run.facts.queue.done == 0:
        run.advance()
    position = run.session.position
    assert [(t.id, t.kind, t.cycle) for t in position.queue] == [
        ("task_1", "primary", 0),
        ("better", "improvement", 0),
    ]
    assert (run.facts.queue.size, run.facts.queue.primary_done) == (1, False)
    assert position.kept["work"]["metrics"] == {"x": 1}


@pytest.mark.parametrize(
    "report",
    [
        {"metrics": {"x": "1"}},
        {"metrics": [1]},
        {"tasks": [3]},
        {"improvements": [{"id": "a", "text": "a"}]},
    ],
    ids=["metric", "metrics", "tasks", "id-taken"],
)
def test_a_report_that_is_none_fails_the_task(report: Any) -> None:
    run = working(by_tool("a"), {"a": [report] * 3})
    run.run()
    (first, *_rest) = outcomes(run, "work")
    assert first.error is not None
    assert first.error.kind == "report"
    assert run.facts.queue.failed == 1


def test_an_empty_queue_fails_the_action() -> None:
    body = WORK.replace("then: work, else: z", "then: z, else: work").replace(
        "failed: next, next: measure", "failed: z, next: z"
    )
    run = load(body % ("[]", 1), tools=[tool(_nothing)]).start("x")
    run.run()
    (only,) = outcomes(run, "work")
    assert only.error is not None
    assert (only.error.kind, only.error.message) == ("no_task", "the queue is empty")


def _nothing() -> str:
    """Nothing."""
    return ""


_nothing.__name__ = "do_it"


# by a prompt --------------------------------------------------------------------------------

PROMPTED = """
chartloop: 1
machine: m
model: {name: scripted}
instructions: Be brief.
tasks:
  - {id: a, text: Say hello., acceptance: It says hello., by: {prompt: "You greet."}}
states:
  work: {do: work, failed: z, next: z}
  z: {stop: completed}
"""


def test_a_task_by_prompt_is_one_model_call() -> None:
    run = load(PROMPTED).start(
        "x", script=[{"text": "hello", "usage": {"prompt_tokens": 7, "completion_tokens": 2}}]
    )
    run.run()
    assert [(m["role"], m["content"]) for m in run.messages] == [
        ("user", "You greet.\n\nSay hello.\n\nIt is done when: It says hello."),
        ("assistant", "hello"),
    ]
    assert (run.facts.usage.llm_calls, run.facts.usage.total_tokens) == (1, 9)
    assert run.facts.last.result == {"task": "a", "text": "hello", "result": "hello"}


def test_a_reply_in_json_is_a_report() -> None:
    run = load(PROMPTED).start("x", script=[{"text": '{"metrics": {"speed": 2}}'}])
    run.run()
    assert run.session.position.kept["work"]["metrics"] == {"speed": 2}


def test_a_model_that_fails_fails_the_task() -> None:
    run = load(PROMPTED).start(
        "x", script=[{"error": {"category": "TRANSIENT", "message": "busy"}}]
    )
    run.run()
    assert run.facts.errors.last is not None
    assert run.facts.errors.last.category == "TRANSIENT"
    queue = run.session.position.queue
    assert [(t.id, t.attempts) for t in queue] == [("a", 1)]


# improvement --------------------------------------------------------------------------------


class Magnitude(NamedTuple):
    id: str
    current: dict[str, float]
    previous: dict[str, float]
    is_: float | None


@pytest.mark.parametrize(
    "case",
    [
        Magnitude("the-document's-three", {"coverage": 0.9, "quality": 0.6, "performance": 2}, {"coverage": 0.6, "quality": 0.5, "performance": 2}, (0.5 + 0.2 + 0) / 3),
        Magnitude("worse", {"x": 1}, {"x": 2}, -0.5),
        Magnitude("from-zero", {"x": 1, "y": 3}, {"x": 0, "y": 2}, 0.5),
        Magnitude("only-from-zero", {"x": 1}, {"x": 0}, None),
        Magnitude("none", {}, {}, None),
        Magnitude("new", {"x": 1}, {}, None),
        Magnitude("gone", {}, {"x": 1}, None),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_magnitude(case: Magnitude) -> None:
    assert magnitude(case.current, case.previous) == pytest.approx(case.is_)


def test_a_cycle_begins_with_all_that_is_identified_and_ends_with_the_last() -> None:
    made = {
        "a": [{"metrics": {"x": 1.0}, "improvements": [by("i"), by("j")]}],
        "i": [{"metrics": {"x": 1.1}, "improvements": [by("k")]}],
        "j": [{"metrics": {"x": 1.2}}],
        "k": [{"metrics": {"x": 1.5}}],
    }
    run = working(by_tool("a"), made)
    seen: list[Any] = []
    while (record := run.advance()) is not None:
        if record.kind == "step" and record.state == "measure":
            progress = run.facts.progress
            seen.append(
                (progress.improving, progress.improvements, progress.cycles, progress.magnitude)
            )
    assert seen == [
        (False, 0, 0, None),
        (True, 2, 0, None),
        (True, 1, 0, None),
        (True, 1, 1, pytest.approx(0.2)),
        (True, 0, 2, pytest.approx(0.25)),
    ]


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_cycle_whose_first_task_fails_is_counted(attempts: int) -> None:
    made = {
        "a": [{"metrics": {"x": 1.0}, "improvements": [by("i"), by("j")]}],
        "i": [ToolError("no"), {"metrics": {"x": 1.5}}],
        "j": [{"metrics": {"x": 2.0}}],
    }
    run = working(by_tool("a"), made, attempts)
    result = run.run()
    assert (result.facts.progress.cycles, result.facts.progress.magnitude) == (1, 1.0)


def by(text: str) -> dict[str, Any]:
    return {"id": text, "text": text, "by": {"tool": "do_it"}}


# fixes and checkpoints ----------------------------------------------------------------------

FIXED = """
chartloop: 1
machine: m
tools: [do_it]
tasks: [{id: a, text: a, by: {tool: do_it}}]
states:
  work: {do: work, failed: ask, next: more}
  more: {ask: More?, when: queue.size > 0, then: work, else: z}
  ask: {on: {fix: {to: fix, data: {note: str, tasks: any}}}}
  fix: {do: apply_fix, next: work}
  z: {stop: completed}
"""


def test_a_fix_goes_into_the_conversation_and_to_the_front_of_the_queue() -> None:
    done: list[str] = []

    @tool
    def do_it(task: str) -> str:
        """Do a task."""
        done.append(task)
        if done == ["a"]:
            raise ValueError("no key")
        return "done"

    run = load(FIXED, tools=[do_it]).start("x", clock=ManualClock(1000))
    assert run.run().kind == "waiting"
    run.send("fix", {"note": "use mine", "tasks": [{"text": "get a key", "by": {"tool": "do_it"}}]})
    while run.state != "work":
        run.advance()
    assert (run.facts.errors.consecutive, run.facts.errors.retries) == (0, 1)
    assert run.run().reason == "completed"
    assert done == ["a", "a", "get a key"]  # the one that was begun stays first
    assert [m["content"] for m in run.messages] == ["use mine"]


CHECKED = """
chartloop: 1
machine: m
vars: {n: 1}
tasks: [a, b]
states:
  keep: {do: checkpoint, next: change}
  change: {do: enqueue, with: {tasks: '["c"]'}, set: {vars.n: 2}, next: back}
  back: {do: restore, next: z}
  z: {stop: completed}
"""


def test_restore_brings_back_variables_and_queue() -> None:
    run = load(CHECKED.replace("[a, b]", "[{text: a}, {text: b}]")).start("x")
    upto(run, "back")
    assert (run.facts.vars["n"], run.facts.queue.size) == (2, 3)
    run.run()
    assert (run.facts.vars["n"], run.facts.queue.size) == (1, 2)
    assert [t.text for t in run.session.position.queue] == ["a", "b"]


def test_restore_without_a_checkpoint_fails() -> None:
    first = "ask: {ask: Keep?, when: vars.n > 1, then: keep, else: change}"
    body = CHECKED.replace("[a, b]", "[{text: a}]").replace("states:", f"states:\n  {first}")
    run = load(body.replace("next: z}", "failed: z, next: z}")).start("x")
    run.run()
    assert run.facts.errors.last is not None
    assert run.facts.errors.last.message == "there is no checkpoint"


# laws ---------------------------------------------------------------------------------------

texts = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True)
results = st.one_of(
    st.just("done"),
    st.builds(ValueError, st.just("no")),
    st.builds(ConnectionError, st.just("busy")),
    st.fixed_dictionaries({"metrics": st.dictionaries(st.sampled_from("xy"), st.integers(0, 9))}),
)


def is_given_up(results: list[Any], attempts: int) -> bool:
    """Whether a task fails for good: a call whose outcome is not known is not made again."""
    for one in results[:attempts]:
        if not isinstance(one, Exception):
            return False
        if isinstance(one, ConnectionError):
            return True
    return len(results) >= attempts


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(
    texts,
    st.dictionaries(st.sampled_from("abcdef"), st.lists(results, max_size=4)),
    st.integers(1, 3),
)
def test_every_task_is_done_or_given_up_once(
    names: list[str], made: dict[str, list[Any]], attempts: int
) -> None:
    run = working(by_tool(*names), made, attempts)
    assert run.run().reason == "completed"
    queue = run.facts.queue
    assert (queue.size, queue.done + queue.failed, queue.current) == (0, len(names), None)
    assert queue.failed == sum(is_given_up(made.get(name, []), attempts) for name in names)
    assert run.replay().same
