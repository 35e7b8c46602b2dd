"""Providers that lie, hang or flood, over HTTP: the limits of a run hold against them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from chartloop.actions.declare import tool
from chartloop.api import Machine, load
from chartloop.run.result import Result
from tests.provider import STREAM, Answer, Provider, event, http, reply

needs_litellm = pytest.mark.extra(  # noqa: S610 - no Django
    "litellm", install='pip install "chartloop[llm]"'
)
pytestmark = [
    needs_litellm,
    pytest.mark.filterwarnings("ignore:.*using the `ReadOnly` qualifier"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_"),
]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-AAbbCC00112233445566778899")


@tool
def add(x: int) -> str:
    """Add.

    Args:
        x: What.
    """
    return f"{x}"


LOOP = """
chartloop: 1
machine: m
model: {{name: openai/gpt-4o-mini, api_base: '{url}', timeout: 20s, {model}}}
tools: [add]
limits: {{tokens: 5_000, cost: 1.0, steps: 40}}
rules:
  - {{when: usage.total_tokens >= limits.tokens, stop: token_limit}}
  - {{when: usage.cost >= limits.cost, stop: cost_limit}}
  - {{when: run.steps >= limits.steps, stop: steps_limit}}
states:
  q: {{do: receive, next: a}}
  a: {{do: infer, {state}next: w}}
  w: {{ask: 'Tools?', when: len(last.tool_calls) > 0, then: u, else: d}}
  u: {{do: call_tools, next: a}}
  d: {{stop: completed}}
"""


def asking(provider: Provider, model: str = "stream: false", state: str = "") -> Machine:
    text = LOOP.format(url=provider.url, model=model, state=state)
    text = text.replace("cost_limit", "token_limit")
    return load(text, tools=[add])


def played(answer: Answer, model: str = "stream: false", state: str = "") -> Result:
    with Provider(answer) as provider:
        return asking(provider, model, state).run("a task")


class Lie(NamedTuple):
    id: str
    usage: dict[str, Any] | None
    said: str


LONG = "word " * 2_000
"""2,500 tokens, as they are estimated."""

LIES = [
    Lie("negative-prompt", {"prompt_tokens": -100_000, "completion_tokens": 5}, "-100,000"),
    Lie("negative-completion", {"prompt_tokens": 9, "completion_tokens": -9}, "-9"),
    Lie("zero-sum", {"prompt_tokens": -5, "completion_tokens": 5}, "-5"),
    Lie("absurd", {"prompt_tokens": 10**30, "completion_tokens": 5}, "digits"),
    Lie("zeros", {"prompt_tokens": 0, "completion_tokens": 0}, "without usage"),
    Lie("none", None, "without usage"),
]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", LIES, ids=lambda case: case.id)
def test_a_loop_with_usage_that_cannot_be_stops_at_its_token_limit(
    case: Lie, streamed: bool
) -> None:
    usage = case.usage and {**case.usage, "total_tokens": sum(case.usage.values())}

    def answer(n: int, _: Any) -> Iterator[bytes]:
        body = reply(LONG, calls=1, usage=usage)
        body["choices"][0]["message"]["tool_calls"][0]["id"] = f"c{n}"
        if not streamed:
            return http(body)
        return _as_stream(body, usage)

    result = played(answer, f"stream: {json.dumps(streamed)}")
    assert result.reason == "token_limit"
    usage_ = result.facts.usage
    assert usage_.llm_calls <= 3
    assert min(usage_.prompt_tokens, usage_.completion_tokens) > 0
    assert usage_.cost is not None
    assert usage_.cost > 0
    assert any(case.said in warning for warning in result.warnings)


def _as_stream(body: dict[str, Any], usage: Any) -> Iterator[bytes]:
    message = body["choices"][0]["message"]
    yield STREAM
    yield event({"role": "assistant", "content": message["content"]})
    calls = [{"index": n, **call} for n, call in enumerate(message["tool_calls"])]
    yield event({"tool_calls": calls})
    yield event({}, "tool_calls", **({"usage": usage} if usage else {}))
    yield b"data: [DONE]\n\n"
