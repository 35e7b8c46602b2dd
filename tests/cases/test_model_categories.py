"""The table of what can go wrong with a model call, streamed and not, over real HTTP.

Each row is one way in which a provider fails (`chartloop.testing.loopback.FAULTS`) and what the
run is told. Every row goes both ways that litellm has into the network: through the client of
openai, and through its own. Source: design "traps", litellm; 003 "Error Categories".
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from chartloop.adapters.model.litellm import KINDS, LiteLLM
from chartloop.core.errors import Category, ModelError
from chartloop.run.ports import ModelReply, ModelRequest
from chartloop.testing.loopback import FAULTS, LoopbackServer
from tests.tool_loop import QUIET, needs_litellm

pytestmark = [needs_litellm, QUIET]

TRANSIENT, RECOVERABLE, CRITICAL = Category.TRANSIENT, Category.RECOVERABLE, Category.CRITICAL


class Row(NamedTuple):
    """A fault, and what the call comes to. `stream` where a streamed call differs."""

    fault: str
    category: Category | None = None
    kind: str = ""
    """Of the failure; for a reply, its finish reason."""
    status: int | None = None
    stream: str = ""


TABLE = [
    Row("rate_limit", TRANSIENT, "rate_limit", 429),
    Row("quota", CRITICAL, "quota", 429),
    Row("unauthorized", CRITICAL, "auth", 401),
    Row("forbidden", CRITICAL, "auth", 403),
    Row("not_found", CRITICAL, "model_not_found", 404),
    Row("bad_request", CRITICAL, "bad_request", 400),
    Row("context_too_long", RECOVERABLE, "context_overflow", 400),
    Row("content_refused", RECOVERABLE, "content_filter", 400),
    Row("server_error", TRANSIENT, "server", 500),
    Row("unavailable", TRANSIENT, "server", 503),
    Row("timeout", TRANSIENT, "timeout"),
    Row("disconnect", TRANSIENT, "connection"),
    Row("malformed_json", TRANSIENT, "broken_body", stream="stream_broken"),
    Row("html", TRANSIENT, "broken_body", stream="empty_stream"),
    Row("empty_stream", TRANSIENT, "broken_body", stream="empty_stream"),
    Row("cut_stream", TRANSIENT, "broken_body", stream="stream_broken"),
    Row("torn_stream", TRANSIENT, "broken_body", stream="stream_broken"),
    Row("stalled_stream", TRANSIENT, "timeout"),
    Row("cut_tool_arguments", TRANSIENT, "broken_body", stream="stream_broken"),
    Row("stream_error", TRANSIENT, "server", stream="stream_broken"),
    Row("slow", None, "stop"),
    Row("length", None, "length"),
    Row("content_filter", None, "content_filter"),
]
NOT_STREAMED = [Row("not_streamed", None, "stop")]
STREAMED = [
    *(row._replace(kind=row.stream or row.kind) for row in TABLE),
    Row("not_streamed", None, "stop"),
]


RUNNER = asyncio.Runner()
"""One event loop for all calls, as a run has: litellm keeps its connections by loop."""


@pytest.fixture(scope="module", autouse=True)
def one_loop() -> Iterator[None]:
    with RUNNER:
        yield


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer() as server:
        yield server


@pytest.fixture(params=["openai", "hosted_vllm"])
def settings(request: pytest.FixtureRequest, server: LoopbackServer) -> dict[str, Any]:
    """Settings for the server, by either way."""
    return {"name": f"{request.param}/", "api_base": server.url, "timeout": 60}


def ask(
    settings: Mapping[str, Any], fault: str, pieces: list[str] | None
) -> ModelReply | ModelError:
    patience = 0.3 if fault in ("timeout", "stalled_stream") else 60
    own = {**settings, "name": f"{settings['name']}fault-{fault}", "timeout": patience}
    request = ModelRequest([{"role": "user", "content": "hi"}], settings=own)
    on_text = None if pieces is None else pieces.append
    try:
        return RUNNER.run(LiteLLM().complete(request, on_text))
    except ModelError as error:
        return error


def check(row: Row, came: ModelReply | ModelError) -> None:
    if isinstance(came, ModelReply):
        assert (row.category, row.kind) == (None, came.finish_reason)
        assert came.text == "The quick brown fox jumps over the lazy dog."
        return
    assert (came.category, came.kind) == (row.category, row.kind), came.message
    assert row.status is None or came.status == row.status
    assert came.retry_after == (7 if row.fault == "rate_limit" else None)
    assert came.hint == KINDS[row.kind].cure


@pytest.mark.parametrize("row", TABLE + NOT_STREAMED, ids=lambda row: row.fault)
def test_not_streamed(row: Row, settings: Mapping[str, Any]) -> None:
    came = ask(settings, row.fault, None)
    check(row, came)
    if isinstance(came, ModelError):
        assert came.partial == ""


@pytest.mark.parametrize("row", STREAMED, ids=lambda row: row.fault)
def test_streamed(row: Row, settings: Mapping[str, Any]) -> None:
    pieces: list[str] = []
    came = ask(settings, row.fault, pieces)
    check(row, came)
    assert "".join(pieces) == (came.text if isinstance(came, ModelReply) else came.partial)


CUTS = ["cut_stream", "torn_stream", "stalled_stream", "stream_error", "malformed_json"]


@pytest.mark.parametrize("fault", CUTS)
def test_a_cut_text_is_kept_and_never_a_success(fault: str, settings: Mapping[str, Any]) -> None:
    came = ask(settings, fault, [])
    assert isinstance(came, ModelError)
    assert came.partial == "The quick brown fox jumps over the lazy "


def test_every_fault_has_a_row_streamed_and_not() -> None:
    assert {row.fault for row in TABLE + NOT_STREAMED} == set(FAULTS)
    assert {row.fault for row in STREAMED} == set(FAULTS)


ELSEWHERE = {
    "setup",
    "unexpected",
    "too_long",
    "unreadable",
    "reasoning",
    "media",
    "refusal",
    "reply",
    "empty",
}
"""Kinds that none of these faults causes: see test_litellm, test_hostile_providers,
test_reasoning, test_media and replies."""


def test_every_kind_is_met_and_has_its_category() -> None:
    met = {row.kind: row.category for row in TABLE + STREAMED if row.category}
    assert met == {name: kind.category for name, kind in KINDS.items() if name not in ELSEWHERE}
