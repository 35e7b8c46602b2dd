"""Tokens are guessed cheaply, and wrong by no more than the module says."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.conversation import assistant, user
from chartloop.core.facts import ToolCall
from chartloop.core.transcript import (
    PER_CALL,
    PER_IMAGE,
    PER_MESSAGE,
    estimate_message,
    estimate_messages,
    estimate_tokens,
)


class Counted(NamedTuple):
    """A text with its true counts, taken with the vocabularies of GPT-4o and GPT-4."""

    id: str
    text: str
    o200k: int
    cl100k: int
    low: float
    """The guess over the true counts: at least this."""
    high: float


CHINESE = "状态机决定下一步做什么；动作负责执行，而日志会记住每一个步骤。"  # noqa: RUF001
KOREAN = "상태 기계가 다음에 무엇을 할지 결정하고, 동작이 그것을 실행합니다."
RUSSIAN = "Машина решает, что делать дальше; действия выполняют это."

COUNTED = [
    Counted("nothing", "", 0, 0, 1, 1),
    Counted("one-word", "Hello", 1, 1, 1, 2),
    Counted(
        "english",
        "The machine decides; actions do; the journal remembers; the picture is computed"
        " from what runs. Whoever opens the house should see those four rooms.",
        29, 29, 0.9, 1.3,
    ),
    Counted(
        "python",
        "def estimate_message(message: Message) -> int:\n"
        '    content = message.get("content")\n'
        "    return PER_MESSAGE + estimate_tokens(content)\n",
        27, 27, 0.9, 1.3,
    ),
    Counted("chinese", CHINESE, 20, 35, 0.8, 1.6),
    Counted("korean", KOREAN, 22, 32, 0.8, 1.6),
    Counted("russian", RUSSIAN, 15, 24, 0.6, 2.8),
    Counted("json", '[{"id": 17, "price": 21.25, "n": 3}]', 21, 21, 0.4, 0.8),
    Counted("emoji", "😀🎉🚀🔥✅", 7, 13, 0.5, 1),
]  # fmt: skip


@pytest.mark.parametrize("case", COUNTED, ids=lambda case: case.id)
def test_the_guess_is_as_good_as_is_said(case: Counted) -> None:
    guess = estimate_tokens(case.text)
    for true in (case.o200k, case.cl100k):
        assert case.low * true <= guess <= case.high * true


class Weighed(NamedTuple):
    """A message and what it weighs."""

    id: str
    message: dict[str, Any]
    tokens: int


CALL = ToolCall("call_1", "read", '{"a": 12}')

WEIGHED = [
    Weighed("text", {**user("four" * 4)}, PER_MESSAGE + 4),
    Weighed("no-content", {"role": "assistant", "content": None}, PER_MESSAGE),
    Weighed("missing-content", {"role": "assistant"}, PER_MESSAGE),
    Weighed("call", {**assistant("", [CALL])}, PER_MESSAGE + PER_CALL + 1 + 3),
    Weighed("two-calls", {**assistant("", [CALL, CALL])}, PER_MESSAGE + 2 * (PER_CALL + 1 + 3)),
    Weighed(
        "parts",
        {"role": "user", "content": [{"type": "text", "text": "four"}, "four"]},
        PER_MESSAGE + 2,
    ),
    Weighed(
        "an-image-is-not-its-base64",
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "A" * 10**6}}]},
        PER_MESSAGE + PER_IMAGE,
    ),
]


@pytest.mark.parametrize("case", WEIGHED, ids=lambda case: case.id)
def test_what_a_message_weighs(case: Weighed) -> None:
    assert estimate_message(case.message) == case.tokens


TEXTS = st.text(st.characters(exclude_categories=()), max_size=60)
"""Every text, with lone surrogates."""


@given(TEXTS, TEXTS)
def test_joining_costs_no_more_than_both_and_no_less_than_either(one: str, other: str) -> None:
    joined = estimate_tokens(one + other)
    assert max(estimate_tokens(one), estimate_tokens(other)) <= joined
    assert joined <= estimate_tokens(one) + estimate_tokens(other)


@given(TEXTS)
def test_only_the_empty_text_is_free(text: str) -> None:
    assert (estimate_tokens(text) == 0) == (text == "")
    assert estimate_tokens(text) <= 2 * len(text)


@given(st.lists(TEXTS.map(user)), st.lists(TEXTS.map(user)))
def test_added_messages_can_be_counted_by_themselves(
    before: list[dict[str, Any]], added: list[dict[str, Any]]
) -> None:
    whole = estimate_messages([*before, *added])
    assert whole == estimate_messages(before) + estimate_messages(added)
