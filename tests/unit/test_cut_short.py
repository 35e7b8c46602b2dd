"""An end never promises more than was seen: replies that lack their end, and tasks without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import pytest

from chartloop import load
from chartloop.studies.whatif.question import unfinished

HALF = [
    {"text": text, "finish_reason": why}
    for why, text in product(("length", "content_filter"), ("The su", ""))
]
WHOLE = {"text": "The sum is 3."}

HEAD = "chartloop: 1\nmachine: m\nmodel: {name: scripted}\n"
ASKS = "states:\n  q: {do: receive, next: a}\n  a: {do: infer, next: d}\n  d: {stop: completed}\n"
TWICE = ASKS.replace("next: d}", "next: b}", 1) + "  b: {do: infer, next: d}\n"
RULED = (
    HEAD
    + "rules: [{when: last.finish_reason in limits.ends, stop: finish_reason}]\nlimits: {ends: [length, content_filter]}\n"
    + ASKS
)
SAVED = (
    HEAD
    + "vars: {said: ''}\noutput: vars.said\n"
    + ASKS.replace("next: d}", "save: {vars.said: result.text}, next: e}", 1).replace(
        "  d:", "  e: {set: {vars.said: '\"so far\"'}, next: d}\n  d:"
    )
)
TASKS = (
    HEAD
    + "tasks: [{id: one, text: Add.}]\nstates:\n  w: {do: work, with: {attempts: 1}, failed: next, next: d}\n  d: {stop: completed}\n"
)
CHILD = "machines:\n  kid:\n    states:\n      q: {do: receive, next: a}\n      a: {do: infer, next: d}\n      d: {stop: completed}\n"
BY_CHILD = TASKS.replace("text: Add.}", "text: Add., by: {machine: kid}}") + CHILD
SHARED = (
    HEAD
    + "states:\n  r: {do: run_machine, with: {machine: kid, share: [messages], task: Add.}, next: d}\n  d: {stop: completed}\n"
    + CHILD
)
OWN = SHARED.replace("share: [messages], ", "")


class End(NamedTuple):
    """A machine, its last replies, and whether its end is a success when they are cut short."""

    id: str
    file: str
    replies: int
    success: bool = False
    task: str = ""


ENDS = [
    End("the-last-reply", HEAD + ASKS, 1, task="Add."),
    End("a-stop-rule-for-it", RULED, 1, task="Add."),
    End("an-output-of-its-own", SAVED, 1, task="Add."),
    End("a-task", TASKS, 1),
    End("a-task-by-a-child", BY_CHILD, 1),
    End("a-child-in-this-conversation", SHARED, 1),
    # its parent reads `last.result`, and decides
    End("a-child-of-its-own", OWN, 1, success=True),
]


def run(end: End, replies: Sequence[Mapping[str, Any]]) -> Any:
    started = load(end.file).start(end.task, script=list(replies))
    started.run()
    return started


@pytest.mark.parametrize(
    "half", HALF, ids=lambda half: f"{half['finish_reason']}-{len(half['text'])}"
)
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.id)
def test_a_reply_that_lacks_its_end_is_no_success(end: End, half: Mapping[str, Any]) -> None:
    cut = run(end, [half] * end.replies)
    result = cut.result
    assert (result.success, result.kind) == ((True, "natural") if end.success else (False, "limit"))
    assert result.phase.name == ("done" if end.success else "gave_up")
    assert bool(unfinished(cut.records)) is not end.success
    assert any("not complete" in warning for warning in result.warnings)
    assert cut.replay().same


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.id)
def test_a_whole_reply_is_success(end: End) -> None:
    result = run(end, [WHOLE] * end.replies).result
    assert (result.success, result.kind, result.phase.name) == (True, "natural", "done")


@pytest.mark.parametrize(
    "half", HALF, ids=lambda half: f"{half['finish_reason']}-{len(half['text'])}"
)
def test_only_the_last_reply_counts(half: Mapping[str, Any]) -> None:
    assert run(End("twice", HEAD + TWICE, 2, task="Add."), [half, WHOLE]).result.success
    assert not run(End("twice", HEAD + TWICE, 2, task="Add."), [WHOLE, half]).result.success


@pytest.mark.parametrize("file", [TASKS, BY_CHILD], ids=["by-prompt", "by-child"])
def test_a_task_with_an_empty_reply_is_not_done(file: str) -> None:
    result = run(End("empty", file, 1), [{"text": ""}]).result
    assert (result.facts.queue.done, result.facts.queue.failed) == (0, 1)
    assert not result.success
