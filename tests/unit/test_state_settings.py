"""What a state says of its own model call: settings, marks for the cache, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from chartloop import SpecError, load
from chartloop.adapters.model.caching import mark_for_cache
from chartloop.api import Machine
from chartloop.run.ports import ModelReply
from chartloop.testing import LoopbackServer
from tests.talks import Listening
from tests.tool_loop import CLAUDE, WITH_KEYS, add, http_model, needs_litellm

pytestmark = WITH_KEYS
MARK = {"type": "ephemeral"}


TEXT = """
chartloop: 1
machine: m
instructions: Be brief.
model: {{{model}}}
tools: [add]
vars: {{most: 7}}
states:
  q: {{do: receive, next: a}}
  a: {{do: infer, with: {{{state}}}, next: d}}
  d: {{stop: completed}}
"""


def made(state: str, model: str = "name: scripted") -> Machine:
    return load(TEXT.format(model=model, state=state), tools=[add])


def listening() -> Listening:
    return Listening(ModelReply("ok", prompt_tokens=1, completion_tokens=1))


def settings_of(state: str, model: str = "name: x/y") -> Mapping[str, Any]:
    heard = listening()
    made(state, model).run("a task", model=heard)
    return heard.asked[0].settings


def test_every_setting_of_a_state_is_over_the_files() -> None:
    state = (
        "temperature: 0.5, top_p: 0.9, max_tokens: 1_000, stop: [END], seed: 3, stream: true, "
        "timeout: 5s, idle_timeout: 2s, reply_limit: 500, fallbacks: [openai/b], "
        "extra: {b: 2}, cache: [tools]"
    )
    found = settings_of(state, "name: x/y, max_tokens: 5, timeout: 60s, extra: {a: 1, b: 1}")
    assert found == {
        "name": "x/y", "temperature": 0.5, "top_p": 0.9, "max_tokens": 1_000, "stop": ["END"],
        "seed": 3, "stream": True, "timeout": 5.0, "idle_timeout": 2.0, "reply_limit": 500,
        "fallbacks": ["openai/b"], "extra": {"a": 1, "b": 2}, "cache": ["tools"],
    }  # fmt: skip


def test_a_setting_may_be_an_expression() -> None:
    assert settings_of("max_tokens: vars.most + 1")["max_tokens"] == 8


def test_one_that_comes_to_nothing_fails_before_the_call() -> None:
    heard = listening()
    result = made("max_tokens: vars.most - 7", "name: x/y").run("a task", model=heard)
    assert not heard.asked
    assert "`max_tokens` of this call is 0" in str(result.errors)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("temperature: 3", "`temperature` takes a number from 0 to 2"),
        ("top_p: 0", "`top_p` takes a number above 0"),
        ("max_tokens: 0", "`max_tokens` takes a number above zero"),
        ("max_tokens: many", "many"),
        ("stop: []", "`stop` takes a text, or a list"),
        ("timeout: never", "never"),
        ("fallbacks: openai/b", "`fallbacks` takes"),
        ("extra: [1]", "`extra` takes a mapping"),
        ("extra: {n: 5}", "`extra` takes a mapping without `n`"),
        ("extra: {max_completion_tokens: 9}", "without `max_completion_tokens`"),
        ("extra: {extra_body: {model: x}}", "without `model`"),
        ("cache: [prompts]", "`cache` takes a list of `instructions`, `tools`"),
        ("max_token: 5", "max_tokens"),
        ("api_base: 'http://x'", "no field `api_base`"),
    ],
    ids=str,
)
def test_a_wrong_one_is_a_finding(state: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        made(state)


@pytest.mark.parametrize("extra", ["model: x", "n: 5", "extra_body: {max_tokens: 9}", "api_key: x"])
def test_what_the_files_extra_may_not_hold_is_a_finding(extra: str) -> None:
    with pytest.raises(SpecError, match=r"`model\.extra` may not hold"):
        made("seed: 1", f"name: scripted, extra: {{{extra}}}")


def test_an_unknown_word_of_the_files_cache_is_a_finding() -> None:
    with pytest.raises(SpecError, match="prompts"):
        made("seed: 1", "name: scripted, cache: [prompts]")


class TestBound:
    PRICED = (
        "name: x/y, context_window: 10_000, max_tokens: 1_000, "
        "input_cost_per_token: 0.000001, output_cost_per_token: 0.00001"
    )

    def usd(self, state: str, model: str = PRICED) -> float | None:
        return made(state, model).bound().to_dict()["bounds"]["usd"]["value"]

    def test_a_states_max_tokens_bounds_its_reply(self) -> None:
        assert self.usd("seed: 1") == pytest.approx(0.009 + 0.01)
        assert self.usd("max_tokens: 100") == pytest.approx(0.0099 + 0.001)
        assert self.usd("max_tokens: 5_000") == pytest.approx(0.005 + 0.05)

    def test_an_expression_counts_as_high_as_it_may_be(self) -> None:
        assert self.usd("max_tokens: 10 * vars.most") == pytest.approx(0.00993 + 0.0007)

    def test_the_files_price_says_nothing_of_another_model(self) -> None:
        assert self.usd("model: x/y") == self.usd("seed: 1")
        assert self.usd("model: x/other") is None
        assert self.usd("fallbacks: [x/other]") is None

    def test_fallbacks_of_a_state_are_requests(self) -> None:
        assert (
            made("fallbacks: [a/b, c/d]", self.PRICED)
            .bound()
            .to_dict()["bounds"]["requests"]["value"]
            == 3
        )


@needs_litellm
@pytest.mark.parametrize("where", ["file", "state"])
def test_marks_reach_anthropic(where: str) -> None:
    marks = "cache: [instructions, tools, conversation]"
    with LoopbackServer(["ok"], models=[CLAUDE]) as server:
        more = marks if where == "file" else ""
        model = http_model(f"anthropic/{CLAUDE}", server.messages_url, more)
        made(marks if where == "state" else "keep: true", model).run("a task")
    body = server.requests[0].body
    assert body["system"][-1]["cache_control"] == MARK
    assert body["tools"][-1]["cache_control"] == MARK
    assert body["messages"][-1]["content"][-1]["cache_control"] == MARK


@needs_litellm
def test_a_provider_that_caches_by_itself_gets_none() -> None:
    with LoopbackServer(["ok"]) as server:
        model = http_model("openai/loopback", server.url)
        made("cache: [instructions, tools]", model).run("a task")
    assert "cache" not in str(server.requests[0].body)


def test_a_message_without_content_is_not_marked() -> None:
    request: dict[str, Any] = {"model": "claude", "messages": [{"role": "user", "content": ""}]}
    mark_for_cache(request, ["conversation", "instructions", "tools"], "anthropic")
    assert request["messages"] == [{"role": "user", "content": ""}]
