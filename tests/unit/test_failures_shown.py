"""A tool that raised is shown as failed wherever a person looks at a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import live, load, tool
from chartloop.api import Run
from chartloop.run.record_text import outcome_of
from chartloop.ui.view_model.build import view_run

MACHINE = """
chartloop: 1
machine: caller
model: {name: scripted}
tools: [broken, fine]
states:
  receive: {do: receive, next: think}
  think:
    do: infer
    next:
      - {when: len(last.tool_calls) > 0, to: act}
      - {to: done}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""
SAID = "1 of 2 calls failed: broken: ValueError: no such item: 3"


@tool(effect="pure")
def broken(n: int) -> str:
    """Look an item up."""
    raise ValueError(f"no such item: {n}")


@tool(effect="pure")
def fine(n: int) -> str:
    """Look an item up."""
    return f"item {n}"


def after_calls(*tools: str) -> Run:
    """A run whose newest record is that of these calls, all in one reply."""
    calls = [{"name": name, "arguments": {"n": 3}} for name in tools]
    replies = [{"text": "", "tool_calls": calls}, "bye"]
    run = load(MACHINE, tools=[broken, fine]).start("x", script=replies)
    run.run(until="act")
    run.advance()
    return run


@dataclass(frozen=True)
class Face:
    """Something that a person looks at, and what must stand in it."""

    id: str
    shown: Callable[[Run], str]
    says: str


FACES = [
    Face("words", lambda run: outcome_of(run.records[-1]), SAID),
    Face("records", lambda run: " ".join(str(run.records.rows()[-1]["outcome"]).split()), SAID),
    Face("frame", lambda run: str(run.records.rows()[-1]["ok"]), "False"),
    Face("table", lambda run: run.records._repr_mimebundle_()["text/html"], "color:#dc2626"),  # pyright: ignore[reportPrivateUsage]
    Face("card", lambda run: run.records[-1]._repr_mimebundle_()["text/html"], "no such item: 3"),  # pyright: ignore[reportPrivateUsage]
    Face("card-in-text", lambda run: run.records[-1]._repr_mimebundle_()["text/plain"], ", failed"),  # pyright: ignore[reportPrivateUsage]
    Face("panel", lambda run: str(view_run(run).to_dict()["records"][-1]["failed"]), "True"),
    Face("panel-words", lambda run: str(view_run(run).to_dict()["records"][-1]["outcome"]), SAID),
    Face("live", lambda run: live(run).svg(), "↻ 1 recovered"),
    Face("live-caption", lambda run: live(run).svg(), "running at think · 3 steps · 1 error"),
    Face("live-in-words", lambda run: live(run)._repr_mimebundle_()["text/html"], "1 error; it went through receive, think, act"),  # pyright: ignore[reportPrivateUsage]
    Face("live-in-characters", lambda run: str(live(run)), "• act  ↻ 1 recovered"),
    Face("picture", lambda run: run.draw(look="live").svg(), "↻ 1 recovered"),
    Face("picture-drawn", lambda run: run.draw(look="live").text(), "↻ 1 recovered"),
    Face("picture-mermaid", lambda run: run.draw(look="live").mermaid(), "act<br/>↻ 1 recovered"),
    Face("profile", lambda run: str(run.result.profile["act"].failed_calls), "1"),
]  # fmt: skip


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.id)
def test_a_tool_that_raised_is_shown_as_failed(face: Face) -> None:
    assert face.says in face.shown(after_calls("broken", "fine"))


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.id)
def test_calls_that_went_well_are_not(face: Face) -> None:
    if face.id != "frame":
        assert face.says not in face.shown(after_calls("fine", "fine"))


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(calls=st.lists(st.sampled_from(["broken", "fine", "unknown"]), min_size=1, max_size=5))
def test_every_failed_call_is_counted_and_named(calls: list[str]) -> None:
    run = after_calls(*calls)
    record, failed = run.records[-1], sum(name != "fine" for name in calls)
    assert len(record.failures) == failed
    assert outcome_of(record).startswith(
        f"{failed} of {len(calls)} calls failed" if failed else "ok"
    )
    assert all(name in outcome_of(record) for name in calls if name != "fine")


def test_a_state_that_the_run_is_at_again_says_so_once_it_has_left_it() -> None:
    run = after_calls("broken")
    run.run()
    assert "↻ 1 recovered" in run.draw(look="live").svg()
    assert "done at done · 4 steps · 1 error" in run.draw(look="live").svg()
