"""A conversation that grows is what it would be if it were made whole, and forgets nothing.

What is sent, how large it is: worked out as messages are added, in any pieces, asked for in
between or not, and by several that grew from the same one.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.conversation import assistant, calls_of, groups, tool_reply, user
from chartloop.core.facts import ToolCall
from chartloop.core.outcome import Message
from chartloop.core.transcript import (
    NO_REPLY,
    Conversation,
    Joined,
    estimate,
    estimate_messages,
)
from tests.talks import provider_says

CALLS = st.sampled_from("abc").map(lambda id_: ToolCall(id_, "tool", "{}"))
WORDS = st.sampled_from(["one", "two", "three four", "", "ü" * 40])
SAID = st.one_of(
    WORDS.map(user),
    WORDS.map(assistant),
    st.builds(assistant, WORDS, st.lists(CALLS, max_size=3, unique_by=lambda call: call.id)),
    st.builds(tool_reply, CALLS, WORDS),
)
TALK = st.lists(SAID, max_size=14)


@st.composite
def pieces(draw: st.DrawFn, talk: list[Message]) -> list[tuple[list[Message], bool]]:
    """A talk in pieces; and whether somebody asks what is sent after each."""
    out: list[tuple[list[Message], bool]] = []
    while talk:
        size = draw(st.integers(1, len(talk)))
        out.append((talk[:size], draw(st.booleans())))
        talk = talk[size:]
    return out


def as_sent(talk: Sequence[Message]) -> list[Message]:
    """What is sent, said once more: group by group, with all messages at hand."""
    sent: list[Message] = []
    for first, *rest in groups(talk):
        replies = [m for m in (first, *rest) if m["role"] == "tool"]
        sent += [first] if first["role"] != "tool" else []
        for call in calls_of(first):
            found = next((m for m in replies if m["tool_call_id"] == call.id), None)
            sent.append(found or tool_reply(call, NO_REPLY))
        sent += [m for m in rest if m["role"] != "tool"]
    return sent


def same(one: Sequence[Message], other: Sequence[Message]) -> bool:
    return list(one) == list(other)


@given(TALK.flatmap(pieces))
def test_a_conversation_that_grows_is_what_it_is_whole(
    parts: list[tuple[list[Message], bool]],
) -> None:
    grown, talk = Conversation(), list[Message]()
    for piece, asked in parts:
        grown, talk = grown.add(piece), [*talk, *piece]
        if asked:
            assert same(grown.sendable(), as_sent(talk))
            assert estimate(grown) == estimate_messages(talk)
    assert grown == Conversation(talk)
    assert same(grown.sendable(), as_sent(talk))
    assert estimate(grown.sendable()) == estimate_messages(as_sent(talk))
    assert not talk or not (sent := tuple(grown.sendable())) or provider_says(sent) is None
    assert len(grown) == len(talk)
    assert list(reversed(grown)) == talk[::-1]
    assert pickle.loads(pickle.dumps(grown)) == grown  # noqa: S301


@given(TALK, TALK, TALK, st.booleans())
def test_two_that_grow_from_one_do_not_meet(
    before: list[Message], one: list[Message], other: list[Message], asked: bool
) -> None:
    root = Conversation(before)
    first = root.add(one)
    if asked:
        first.sendable()
    second = root.add(other)
    for found, talk in ((first, [*before, *one]), (second, [*before, *other]), (root, before)):
        assert list(found) == talk
        assert estimate(found) == estimate_messages(talk)
        assert same(found.sendable(), as_sent(talk))


@given(TALK)
def test_what_is_sent_is_sent_as_it_is_where_it_is_sound(talk: list[Message]) -> None:
    sent = tuple(Conversation(talk).sendable())
    assert same(Conversation(sent).sendable(), sent)
    if same(sent, talk):
        whole = Conversation(talk)
        assert whole.sendable() is whole


@given(TALK, st.integers(-20, 20), st.integers(-20, 20))
def test_messages_with_a_head_are_a_sequence(talk: list[Message], at: int, to: int) -> None:
    head = (user("instructions"),)
    sent = Conversation(talk).sendable()
    made, whole = Joined(head, sent), [*head, *sent]
    assert list(made) == whole
    assert len(made) == len(whole)
    assert tuple(made[at:to]) == tuple(whole[at:to])
    assert estimate(made) == estimate_messages(whole)
    if -len(whole) <= at < len(whole):
        assert made[at] == whole[at]
