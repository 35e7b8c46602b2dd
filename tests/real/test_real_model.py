"""Runs with a model that a real server samples: their structure, whatever the model writes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chartloop import Delta, Run, load
from tests.collector import Spans, roots, tree
from tests.real.conftest import RealServer, Wire
from tests.tool_loop import QUIET, needs_litellm

pytestmark = [needs_litellm, QUIET]
MODEL = "{name: openai/tiny, context_window: 512, temperature: 0, max_tokens: 40}"
HEAD = f"""
chartloop: 1
machine: real
model: {MODEL}
limits: {{steps: 9, errors: 3}}
rules:
  - {{when: run.steps >= limits.steps, stop: steps_limit}}
  - {{when: errors.consecutive >= limits.errors, stop: error_threshold}}
"""
PLAIN = (
    HEAD
    + """
states:
  task: {do: receive, next: think}
  think: {do: infer, retry: {times: 2, base: 10ms, on: [TRANSIENT]}, next: done}
  done: {stop: completed}
"""
)
LOOP = PLAIN.replace("next: done}", "next: [{when: run.steps > 99, to: done}, think]}")
JUDGE = (
    HEAD
    + """
vars: {sum: {type: int, value: 0}, sure: {type: bool, value: false}, word: ""}
output: {sum: vars.sum, sure: vars.sure, word: vars.word}
states:
  task: {do: receive, next: judge}
  judge:
    do: infer
    with:
      output:
        type: object
        properties:
          sum: {type: integer, minimum: 0, maximum: 99}
          sure: {type: boolean}
          word: {enum: [yes, no, "perhaps, later"]}
        required: [sum, sure, word]
        additionalProperties: false
    save: {vars.sum: result.data.sum, vars.sure: result.data.sure, vars.word: result.data.word}
    next: [{to: done, when: last.result.data.sure}, judge]
  done: {stop: completed}
"""
)


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")


def start(text: str, url: str, **options: Any) -> Run:
    settings = {"api_base": url, "timeout": 60, **options.pop("settings", {})}
    return load(text).start(options.pop("task", "What is 2 + 3?"), settings=settings, **options)


def url(server: RealServer) -> str:
    return f"http://127.0.0.1:{server.port}/v1"


def test_a_structured_loop_fits_its_schema_at_every_turn(server: RealServer) -> None:
    spans = Spans()
    # a token is a character here, and the grammar lets the model write white space
    run = start(JUDGE, url(server), settings={"max_tokens": 300}, tracer=spans.telemetry)
    result = run.run()
    assert result.reason in ("completed", "steps_limit"), result.errors
    replies = [r.outcome for r in run.records if r.state == "judge" and r.outcome is not None]
    assert replies
    for outcome in replies:
        assert outcome.ok, outcome.error
        data = outcome.result["data"]
        assert 0 <= data["sum"] <= 99
        assert isinstance(data["sure"], bool)
        assert data["word"] in ("yes", "no", "perhaps, later")
        assert not outcome.spent.estimated  # the server counts
        assert outcome.spent.prompt_tokens > 0
    assert set(result.output) == {"sum", "sure", "word"}
    found = spans.all()
    (whole,) = roots(found)
    chats = [name for name, below in tree(found, whole)[1] if below]
    assert chats == ["infer judge"] * len(replies)
    counted = [
        s.attributes["gen_ai.usage.input_tokens"] for s in found if s.name.startswith("chat")
    ]
    assert counted == [outcome.spent.prompt_tokens for outcome in replies]


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_that_is_cut_at_its_longest_is_said(server: RealServer, stream: bool) -> None:
    run = start(PLAIN, url(server), settings={"max_tokens": 12, "stream": stream})
    result = run.run()
    assert result.reason == "completed", result.errors
    outcome = run.records[2].outcome
    assert outcome is not None
    assert outcome.reply is not None
    assert outcome.reply.finish_reason == "length"
    assert outcome.spent.completion_tokens == 12
    assert any("finish_reason `length`" in warning for warning in result.warnings)


def test_a_stream_that_is_cut_is_a_failure_and_asked_for_again(server: RealServer) -> None:
    with Wire(server.port, cut=(900,)) as wire:
        run = start(PLAIN, wire.url, settings={"stream": True})
        result = run.run()
    assert result.reason == "completed", result.errors
    first, second = (r.outcome for r in run.records if r.state == "think" and r.kind == "step")
    assert first is not None
    assert first.error is not None
    assert (first.ok, first.error.category) == (False, "TRANSIENT")
    assert second is not None
    assert second.ok
    assert wire.opened >= 2
    assert run.replay().same


def test_a_context_that_is_full_is_named(server: RealServer) -> None:
    run = start(PLAIN, url(server), task="word " * 400)
    result = run.run()
    assert result.kind == "error"
    outcome = run.records[2].outcome
    assert outcome is not None
    assert outcome.error is not None
    assert outcome.error.kind == "context_overflow"
    again = run.back(1)  # nothing is lost: from before the call, with a shorter task
    assert again.state == "think"


def test_a_run_that_is_cancelled_in_mid_stream_goes_on_later(
    server: RealServer, tmp_path: Path
) -> None:
    async def cancelled() -> tuple[Run, list[str]]:
        heard: list[str] = []
        run = start(PLAIN, wire.url, settings={"max_tokens": 300}, journal=tmp_path / "runs.db")

        def hear(event: Any) -> None:
            if isinstance(event, Delta):
                heard.append(event.text)
                task.cancel()

        run.listen(hear)
        task = asyncio.create_task(run.arun())
        with pytest.raises(asyncio.CancelledError):
            await task
        return run, heard

    with Wire(server.port, pause=0.01) as wire:
        run, heard = asyncio.run(cancelled())
    assert heard
    assert run.status == "running"
    other = load(PLAIN).open(
        run.id, journal=tmp_path / "runs.db", settings={"api_base": url(server), "max_tokens": 20}
    )
    result = other.run()
    assert result.reason == "completed", result.errors
    assert any("whether it happened is not known" in warning for warning in result.warnings)
    assert other.replay().same


def test_a_stop_that_is_asked_for_in_mid_stream_comes_after_the_reply(server: RealServer) -> None:
    with Wire(server.port, pause=0.005) as wire:
        run = start(LOOP, wire.url)

        def hear(event: Any) -> None:
            if isinstance(event, Delta):
                run.session.cancels.append(_Now())

        run.listen(hear)
        result = run.run()
    assert result.reason == "user_requested"
    assert [r.state for r in run.records if r.kind == "step"] == ["task", "think"]


class _Now:
    """A request to stop, from now on."""

    def is_requested(self, run: object) -> bool:
        return True
