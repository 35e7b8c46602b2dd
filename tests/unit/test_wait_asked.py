"""How long to wait, in each spelling that providers use, by header and by body."""

from __future__ import annotations

import asyncio
import json
import time
from email.utils import formatdate
from typing import NamedTuple

import pytest

from chartloop.adapters.model.litellm import LiteLLM
from chartloop.adapters.model.waits import wait_asked
from chartloop.core.errors import ModelError
from chartloop.run.ports import ModelRequest
from tests.tool_loop import WITH_KEYS, needs_litellm
from tests.wires import Answer, WireServer


class Asked(NamedTuple):
    """What a refusal says, and the seconds that it means."""

    id: str
    headers: dict[str, str]
    body: str
    seconds: float | None


def head(id: str, name: str, value: str, seconds: float | None) -> Asked:
    return Asked(id, {name: value}, "", seconds)


def body(id: str, text: str, seconds: float | None) -> Asked:
    return Asked(id, {}, text, seconds)


pytestmark = WITH_KEYS
ASKED = [
    head("seconds", "retry-after", "20", 20),
    head("zero", "retry-after", "0", 0),
    head("a-fraction", "retry-after", "0.5", 0.5),
    head("with-a-unit", "retry-after", "30s", 30),
    head("a-date", "retry-after", "DATE+90", 90),
    head("a-date-that-is-past", "retry-after", "DATE-90", 0),
    head("milliseconds", "retry-after-ms", "1500", 1.5),
    head("azure-milliseconds", "x-ms-retry-after-ms", "250", 0.25),
    head("after-a-reset", "x-ratelimit-reset-after", "12.5", 12.5),
    head("reset-in-seconds", "x-ratelimit-reset", "45", 45),
    head("reset-as-a-duration", "x-ratelimit-reset", "1m6s", 66),
    head("reset-as-a-time", "x-ratelimit-reset", "TIME+60", 60),
    head("reset-as-milliseconds", "x-ratelimit-reset", "MILLIS+60", 60),
    head("reset-of-the-draft", "ratelimit-reset", "10", 10),
    head("negative", "retry-after", "-5", None),
    head("not-a-number", "retry-after", "nan", None),
    head("for-ever", "retry-after", "inf", None),
    head("a-word", "retry-after", "soon", None),
    head("empty", "retry-after", "", None),
    Asked("the-finer-header-counts", {"retry-after": "2", "retry-after-ms": "1500"}, "", 1.5),
    Asked("a-header-before-the-body", {"retry-after": "2"}, "Please try again in 20s.", 2),
    Asked("the-body-for-a-broken-header", {"retry-after": "soon"}, "try again in 20s", 20),
    body(
        "gemini", '{"@type": "google.rpc.RetryInfo", "retryDelay": "34.074824224s"}', 34.074824224
    ),
    body("gemini-without-a-space", '{"retryDelay":"5s"}', 5),
    body("gemini-quota", '{"metadata": {"quotaResetDelay": "373.801628ms"}}', 0.373801628),
    body("gemini-in-words", "Your quota will reset after 18s.", 18),
    body("gemini-retry-in", "Please retry in 27.9s.", 27.9),
    body("openai", "Rate limit reached. Please try again in 6m0s. Visit the page.", 360),
    body("openai-milliseconds", "Please try again in 898ms.", 0.898),
    body("openai-seconds", "Please try again in 20s.", 20),
    body("groq", "Please try again in 7.66s. Need more tokens?", 7.66),
    body("groq-hours", "Please try again in 1h2m3.5s.", 3723.5),
    body("azure", "Please retry after 26 seconds.", 26),
    body("azure-one", "Please retry after 1 second.", 1),
    body("in-words", "Please wait 2 minutes and 5 seconds", 125),
    body("a-field", '{"error": {"retry_after": 12}}', 12),
    body("a-field-of-text", '{"error": {"retry_after": "12"}}', 12),
    body("a-field-in-seconds", '{"retry_after_seconds": 7.5}', 7.5),
    body("a-field-in-milliseconds", '{"retry_after_ms": 7500}', 7.5),
    body("camel-case", '{"retryAfter": 9}', 9),
    body("camel-case-milliseconds", '{"retryAfterMs": 9000}', 9),
    body("nothing", "Rate limit reached for requests.", None),
    body("no-number", "Please try again later.", None),
    body("another-number", "Limit 3, used 3, requested 1.", None),
    body("a-number-without-a-unit", "Try again in 5 places.", None),
]


def now(value: str) -> str:
    """A header's value with the time of this moment in place of a placeholder."""
    kind, sign, seconds = value.partition("+") if "+" in value else value.partition("-")
    at = time.time() + float(f"{sign}{seconds}" if seconds.isdecimal() else 0)
    made = {
        "DATE": formatdate(at, usegmt=True),
        "TIME": str(int(at)),
        "MILLIS": str(int(at * 1000)),
    }
    return made.get(kind, value)


@pytest.mark.parametrize("case", ASKED, ids=lambda case: case.id)
def test_a_wait_is_read_in_each_spelling(case: Asked) -> None:
    headers = {name: now(value) for name, value in case.headers.items()}
    came = wait_asked(headers, case.body)
    if case.seconds is None:
        assert came is None
    else:
        assert came == pytest.approx(case.seconds, abs=1e-6 if headers == case.headers else 3)


REFUSED = json.dumps({"error": {"code": 429, "message": "Resource has been exhausted."}}).encode()
DELAY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
LATER = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Slow down.", "details": [DELAY]}
SENT = {
    "a-header": ("openai/gpt-4o", Answer("application/json", REFUSED, 429, {"retry-after-ms": "1500"}), 1.5),
    "a-body": ("gemini/gemini-2.5-flash", Answer("application/json", json.dumps({"error": LATER}).encode(), 429), 34.5),
    "nothing": ("openai/gpt-4o", Answer("application/json", REFUSED, 429), None),
}  # fmt: skip


@needs_litellm
@pytest.mark.parametrize("case", SENT)
def test_a_refused_call_says_how_long(case: str) -> None:
    name, refused, seconds = SENT[case]
    with WireServer([refused]) as server:
        settings = {"name": name, "api_base": server.url, "timeout": "20s"}
        request = ModelRequest([{"role": "user", "content": "Hi."}], settings=settings)
        with pytest.raises(ModelError) as raised:
            asyncio.run(LiteLLM().complete(request))
    assert (raised.value.kind, raised.value.retry_after) == ("rate_limit", seconds)
