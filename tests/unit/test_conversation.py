"""What is done with chat messages, case by case."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from chartloop.core.conversation import (
    EXCERPT,
    arguments_of,
    assistant,
    calls_of,
    groups,
    newest,
    open_calls,
    prunable,
    search,
    sliding,
    system,
    text_of,
    tool_reply,
    trim_calls,
    truncate,
    user,
)
from chartloop.core.facts import ToolCall
from chartloop.core.outcome import Message
from chartloop.core.transcript import Conversation
from tests.effort import calls

A = ToolCall("a", "add", '{"x": 1}')
B = ToolCall("b", "read", "{}")
HI, BYE = user("hi"), user("bye")
ASKS = assistant("", [A, B])
SAYS = assistant("I add.", [A])
DONE = assistant("done")
RA, RB = tool_reply(A, "2"), tool_reply(B, "text")


def test_messages_are_those_of_the_chat_format() -> None:
    assert system("be kind") == {"role": "system", "content": "be kind"}
    assert HI == {"role": "user", "content": "hi"}
    assert DONE == {"role": "assistant", "content": "done"}
    assert SAYS == {
        "role": "assistant",
        "content": "I add.",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}}
        ],
    }
    assert RA == {"role": "tool", "tool_call_id": "a", "name": "add", "content": "2"}
    assert calls_of(ASKS) == (A, B)


class Text(NamedTuple):
    """A message's content and the text of it."""

    id: str
    content: Any
    text: str


@pytest.mark.parametrize(
    "case",
    [
        Text("text", "hi", "hi"),
        Text("none", None, ""),
        Text("parts", [{"type": "text", "text": "a"}, {"type": "image_url"}, "b"], "a\n[image]\nb"),
        Text("odd-part", [{"type": "text", "text": 3}], ""),
    ],
    ids=lambda case: case.id,
)
def test_the_text_of_a_message(case: Text) -> None:
    assert text_of({"role": "user", "content": case.content}) == case.text


class Grouped(NamedTuple):
    """A conversation as its groups, and the newest calls that have no reply."""

    id: str
    groups: list[list[Message]]
    unanswered: tuple[ToolCall, ...] = ()


GROUPED = [
    Grouped("empty", []),
    Grouped("talk", [[HI], [DONE], [BYE]]),
    Grouped("a-call-and-its-reply", [[HI], [SAYS, RA], [DONE]]),
    Grouped("two-calls-in-any-order", [[ASKS, RB, RA], [HI]]),
    Grouped("a-reply-is-missing", [[ASKS, RB]], (A,)),
    Grouped("a-reply-to-an-older-call-is-missing", [[ASKS, RB], [DONE]]),
    Grouped("no-reply-yet", [[HI], [ASKS]], (A, B)),
    Grouped("talk-while-a-call-waits", [[ASKS, RA, HI, RB], [BYE]]),
    Grouped("talk-after-a-call-nobody-answers", [[SAYS], [HI], [BYE]], (A,)),
    Grouped("the-same-id-again", [[SAYS, RA], [SAYS, RA]]),
    Grouped("one-id-twice-in-a-message", [[assistant("", [A, A]), RA, RA]]),
    Grouped("one-id-twice-and-one-reply", [[assistant("", [A, A]), RA]], (A,)),
    Grouped("a-second-reply-stays-with-the-first", [[SAYS, RA, RA], [HI]]),
    Grouped("a-reply-to-nothing", [[RA], [HI, RB]]),
]


@pytest.mark.parametrize("case", GROUPED, ids=lambda case: case.id)
def test_groups(case: Grouped) -> None:
    messages = [message for group in case.groups for message in group]
    assert groups(messages) == tuple(map(tuple, case.groups))
    assert open_calls(messages) == case.unanswered
    assert prunable(messages) == (len(case.groups) > 1)


class Trimmed(NamedTuple):
    """A conversation before and after the last assistant message is reduced."""

    id: str
    messages: list[Message]
    keep: set[str]
    left: list[Message]


TRIMMED = [
    Trimmed("the-first-only", [HI, ASKS], {"a"}, [HI, assistant("", [A])]),
    Trimmed("all", [HI, ASKS, RA, RB], {"a", "b"}, [HI, ASKS, RA, RB]),
    Trimmed("none-and-a-text", [HI, SAYS], set(), [HI, assistant("I add.")]),
    Trimmed("none-and-no-text", [HI, ASKS], set(), [HI]),
    Trimmed("replies-go-too", [ASKS, RA, RB, HI], {"b"}, [assistant("", [B]), RB, HI]),
    Trimmed("earlier-ones-stay", [SAYS, RA, ASKS], {"b"}, [SAYS, RA, assistant("", [B])]),
    Trimmed("no-calls", [ASKS, RA, RB, DONE], set(), [ASKS, RA, RB, DONE]),
    Trimmed("an-empty-message-without-calls", [assistant("")], set(), [assistant("")]),
    Trimmed("no-assistant", [HI, BYE], {"a"}, [HI, BYE]),
    Trimmed("nothing", [], {"a"}, []),
]


@pytest.mark.parametrize("case", TRIMMED, ids=lambda case: case.id)
def test_trimming_calls(case: Trimmed) -> None:
    assert trim_calls(case.messages, case.keep) == tuple(case.left)


class Cut(NamedTuple):
    """A conversation cut to a budget; every message counts as one token."""

    id: str
    messages: list[Message]
    budget: int
    first: int
    left: list[Message]


TALK = [user(str(n)) for n in range(6)]
CUT = [
    Cut("it-fits", TALK, 6, 0, TALK),
    Cut("the-oldest-go", TALK, 4, 0, TALK[2:]),
    Cut("one-is-always-left", TALK, 0, 0, TALK[5:]),
    Cut("a-group-goes-whole", [SAYS, RA, HI, BYE], 3, 0, [HI, BYE]),
    Cut("the-newest-group-stays-whole", [HI, ASKS, RA, RB], 1, 0, [ASKS, RA, RB]),
    Cut("the-first-stay", TALK, 4, 2, [*TALK[:2], *TALK[4:]]),
    Cut("the-first-are-groups", [ASKS, RA, RB, *TALK], 5, 1, [ASKS, RA, RB, *TALK[4:]]),
    Cut("room-for-one-of-the-first", TALK, 2, 2, [TALK[0], TALK[5]]),
    Cut("room-for-none-of-the-first", TALK, 1, 2, [TALK[5]]),
    Cut("more-first-than-there-are", TALK, 4, 99, [*TALK[:3], TALK[5]]),
    Cut("first-below-zero", TALK, 4, -1, TALK[2:]),
    Cut("nothing", [], 0, 2, []),
]


@pytest.mark.parametrize("case", CUT, ids=lambda case: case.id)
def test_cutting_to_a_budget(case: Cut) -> None:
    assert sliding(case.messages, case.budget, len, first=case.first) == tuple(case.left)
    if case.first == 0:
        assert newest(case.messages, case.budget, len) == tuple(case.left)


TASK = user("task: count")
TRUNCATED = [
    Cut("it-fits", TALK, 6, 0, TALK),
    Cut("the-oldest-go", TALK, 4, 0, TALK[2:]),
    Cut("the-task-stays", [TASK, SAYS, RA, ASKS, RA, RB], 4, 0, [TASK, ASKS, RA, RB]),
    Cut("over-the-budget", [TASK, SAYS, RA, ASKS, RA, RB], 1, 0, [TASK, ASKS, RA, RB]),
    Cut("it-starts-with-a-user", [HI, SAYS, RA, TASK, ASKS, RA, RB], 6, 0, [TASK, ASKS, RA, RB]),
    Cut("a-note-is-no-task", [TASK, SAYS, RA, BYE, SAYS, RA], 3, 0, [TASK, SAYS, RA]),
    Cut("only-the-task", [SAYS, RA, TASK], 1, 0, [TASK]),
    Cut("no-user", [SAYS, RA, ASKS, RA, RB], 3, 0, [ASKS, RA, RB]),
    Cut("nothing", [], 0, 0, []),
]


@pytest.mark.parametrize("case", TRUNCATED, ids=lambda case: case.id)
def test_truncating_keeps_the_task(case: Cut) -> None:
    assert truncate(case.messages, case.budget, len, "task") == tuple(case.left)


def test_without_a_task_the_newest_message_from_the_user_stays() -> None:
    talk = [TASK, SAYS, RA, BYE, SAYS, RA, ASKS, RA, RB]
    assert truncate(talk, 4, len) == (BYE, ASKS, RA, RB)
    assert truncate(talk, 4, len, "another") == (BYE, ASKS, RA, RB)


def test_cutting_asks_for_few_counts() -> None:
    asked: list[int] = []

    def count(messages: Any) -> int:
        asked.append(len(messages))
        return len(messages)

    assert len(truncate([HI] * 4_000, 100, count)) == 100
    assert len(asked) < 20


LONG = user("x" * 1_000 + " the needle is here " + "y" * 1_000)
TALKED = [
    user("Where is the red key?"),
    assistant("The KEY is in the drawer."),
    tool_reply(A, "drawer: red and blue"),
    LONG,
    assistant("", [A]),
]


class Found(NamedTuple):
    """A query and where it is found, best first."""

    id: str
    query: str
    indices: list[int]
    limit: int = 5


FOUND = [
    Found("one-word-newest-first", "key", [1, 0]),
    Found("more-words-first", "red drawer", [2, 1, 0]),
    Found("every-case", "rEd", [2, 0]),
    Found("a-word-counts-once", "red red red drawer", [2, 1, 0]),
    Found("inside-longer-words", "draw", [2, 1]),
    Found("limited", "key", [1], 1),
    Found("limited-to-none", "key", [], 0),
    Found("limited-to-less-than-none", "key", [], -3),
    Found("signs-are-no-words", "?!.*", []),
    Found("no-pattern", "[xyz]{9}", []),
    Found("empty", "", []),
    Found("not-there", "green", []),
]


@pytest.mark.parametrize("case", FOUND, ids=lambda case: case.id)
def test_search(case: Found) -> None:
    hits = search(TALKED, case.query, case.limit)
    assert [hit.index for hit in hits] == case.indices
    assert [hit.role for hit in hits] == [TALKED[i]["role"] for i in case.indices]


def test_an_excerpt_shows_the_word_with_what_is_round_it() -> None:
    (hit,) = search(TALKED, "needle")
    assert "the needle is here" in hit.excerpt
    assert len(hit.excerpt) == EXCERPT + 2
    assert hit.excerpt[0] == hit.excerpt[-1] == "…"
    assert search([HI], "hi")[0].excerpt == "hi"


@pytest.mark.slow("takes seconds")
def test_a_search_of_much_with_much_ends() -> None:
    query = "(a+)+" * 1_000 + " ".join(f"word{n}" for n in range(100_000))
    much = [user("a" * 1_000_000)] * 3
    assert search(much, query) != ()
    assert calls(lambda: search(much, query)) < 20 * len(query.split())


def test_a_run_s_conversation_is_taken_as_it_is() -> None:
    messages = Conversation([HI]).add([SAYS, RA])
    assert groups(messages) == ((HI,), (SAYS, RA))
    assert newest(messages, 2, len) == (SAYS, RA)


@pytest.mark.parametrize("text", ["", "{oops", "[" * 100_000], ids=["empty", "broken", "deep"])
def test_arguments_that_are_no_data_are_the_text_that_was_written(text: str) -> None:
    assert arguments_of(ToolCall("1", "add", text)) == text
    assert arguments_of(ToolCall("1", "add", '{"a": [1]}')) == {"a": [1]}
