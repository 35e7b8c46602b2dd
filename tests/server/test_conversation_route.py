"""The conversation of a run over HTTP: its pages, what it continues, one text to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Serve, Served

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django
CHAT = """\
chartloop: 1
machine: chat
model: {name: scripted}
limits: {steps: 50}
output: last.text
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  take: {do: receive, next: think}
  think: {do: infer, next: done}
  done: {stop: completed}
"""


@pytest.fixture
def chat(serve: Serve, machines: Path) -> Served:
    (machines / "chat.yaml").write_text(CHAT)
    return serve(script=["word " * 2_000, "Short."])


def said(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["place"], one["kind"], one["text"]["text"][:20]) for one in found["items"]]


def test_a_run_is_read_by_pages(chat: Served) -> None:
    run = chat.start()
    chat.until(run, "paused")
    whole = chat.get(f"/runs/{run}/conversation")
    assert [kind for _, kind, _ in said(whole)] == ["task", "reply", "question"]
    assert whole["items"][-1]["open"]
    assert (whole["before"], whole["after"], whole["earlier"]) == (None, None, None)
    last = chat.get(f"/runs/{run}/conversation", params={"limit": 1})
    assert last["items"] == whole["items"][-1:]
    first = chat.get(f"/runs/{run}/conversation", params={"before": last["before"]})
    assert first["items"] == whole["items"][:-1]
    then = chat.get(f"/runs/{run}/conversation", params={"after": "start", "limit": 2})
    assert then["items"] == whole["items"][:2]
    rest = chat.get(f"/runs/{run}/conversation", params={"after": then["after"]})
    assert rest["items"] == whole["items"][2:]


def test_a_long_text_is_cut_and_given_whole(chat: Served) -> None:
    run = chat.start("chat")
    chat.until(run, "completed")
    reply = chat.get(f"/runs/{run}/conversation")["items"][-1]
    assert len(reply["text"]["text"]) + reply["text"]["rest"] == 10_000
    assert reply["text"]["rest"] > 0
    asked = {"place": reply["place"], "name": "text"}
    assert chat.get(f"/runs/{run}/passage", params=asked) == {"text": "word " * 2_000, "next": None}
    told = chat.get(f"/runs/{run}/passage", 404, params={**asked, "name": "result"})
    assert told["detail"] == f"the conversation has no `result` at {reply['place']}"


def test_a_turn_names_the_run_that_it_continues(chat: Served) -> None:
    first = chat.start("chat", task="I am Ann.")
    chat.until(first, "completed")
    second = chat.start("chat", task="Who am I?", continues=first)
    chat.until(second, "completed")
    found = chat.get(f"/runs/{second}/conversation")
    assert found["earlier"] == first
    assert [text for _, _, text in said(found)] == ["Who am I?", "word word word word "]
    forked = chat.post(f"/runs/{second}/fork", {}, 201)["made"]
    assert chat.get(f"/runs/{forked}/conversation")["earlier"] == first
    assert chat.get(f"/runs/{first}/conversation")["earlier"] is None


@pytest.mark.parametrize("asked", ["before=x", "before=start", "after=1", "limit=0", "limit=1000"])
def test_what_is_no_page(chat: Served, asked: str) -> None:
    run = chat.start(drive="none")
    chat.get(f"/runs/{run}/conversation?{asked}", 422)
    chat.get("/runs/none/conversation", 404)
