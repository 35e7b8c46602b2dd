"""Whatever is cut from a conversation, what is left is one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.conversation import (
    assistant,
    calls_of,
    groups,
    newest,
    open_calls,
    prunable,
    search,
    sliding,
    tool_reply,
    trim_calls,
    truncate,
    user,
    without_reopened,
)
from chartloop.core.facts import ToolCall
from chartloop.core.outcome import Message
from chartloop.core.transcript import estimate_messages

Messages = list[Message]
IDS = st.sampled_from("abc")
CALLS = IDS.map(lambda id_: ToolCall(id_, "tool", "{}"))
WORDS = st.sampled_from(["one", "two", "three four", "", "x" * 40])
TALK = WORDS.map(user) | WORDS.map(assistant)


@st.composite
def exchanges(draw: st.DrawFn) -> Messages:
    """Calls and the reply to each, in any order; perhaps somebody speaks in between."""
    calls = draw(st.lists(CALLS, min_size=1, max_size=3, unique_by=lambda call: call.id))
    replies = [tool_reply(call, draw(WORDS)) for call in draw(st.permutations(calls))]
    said = draw(st.lists(WORDS.map(user), max_size=1))
    return [assistant(draw(WORDS), calls), *replies[:-1], *said, replies[-1]]


def _joined(parts: list[Messages]) -> Messages:
    return [message for part in parts for message in part]


WELL_FORMED = st.lists(TALK.map(lambda m: [m]) | exchanges(), max_size=8).map(_joined)
ANY = st.lists(
    TALK
    | st.builds(assistant, WORDS, st.lists(CALLS, max_size=3))
    | st.builds(tool_reply, CALLS, WORDS),
    max_size=12,
)
BUDGETS = st.integers(-1, 200)
FIRST = st.integers(-1, 4)


def is_well_formed(messages: Sequence[Message]) -> bool:
    """Whether each call has one reply, and each reply its call before it."""
    waiting: set[str] = set()
    for message in messages:
        calls = {call.id for call in calls_of(message)}
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
        elif calls and waiting:
            return False
        waiting |= calls
    return not waiting


def is_subsequence(part: Sequence[Message], whole: Sequence[Message]) -> bool:
    rest = iter(whole)
    return all(any(message is other for other in rest) for message in part)


@given(ANY)
def test_groups_put_together_are_the_conversation(messages: Messages) -> None:
    assert _joined([list(group) for group in groups(messages)]) == messages
    assert all(groups(messages))


@given(ANY)
def test_a_call_and_its_replies_are_in_one_group(messages: Messages) -> None:
    for group in groups(messages):
        assert not any(calls_of(message) for message in group[1:])


@given(ANY)
def test_replies_to_what_is_unanswered_leave_nothing_unanswered(messages: Messages) -> None:
    missing = open_calls(messages)
    answered = [*messages, *(tool_reply(call, "") for call in missing)]
    assert open_calls(answered) == ()
    assert not missing or set(missing) <= set(calls_of(groups(answered)[-1][0]))


@given(WELL_FORMED)
def test_the_made_conversations_are_well_formed(messages: Messages) -> None:
    assert is_well_formed(messages)
    assert open_calls(messages) == ()


@given(ANY, BUDGETS, FIRST)
def test_a_cut_leaves_a_part_in_order(messages: Messages, budget: int, first: int) -> None:
    left = sliding(messages, budget, estimate_messages, first=first)
    assert is_subsequence(left, messages)
    assert bool(left) == bool(messages)


@given(ANY, BUDGETS, FIRST)
def test_a_cut_leaves_whole_groups_and_the_newest(
    messages: Messages, budget: int, first: int
) -> None:
    # not the groups of what is left: where nobody kept to the rules, a reply that answered no call
    # may come to stand behind one of its id
    parts = groups(messages)
    left = sliding(messages, budget, estimate_messages, first=first)
    kept = range(min(max(first, 0), len(parts)) + 1)
    cuts = [(*parts[:n], *parts[at:]) for n in kept for at in range(n, max(len(parts), 1))]
    assert left == messages or left in [tuple(chain.from_iterable(cut)) for cut in cuts]


@given(WELL_FORMED, BUDGETS, FIRST)
def test_a_cut_stays_well_formed(messages: Messages, budget: int, first: int) -> None:
    left = sliding(messages, budget, estimate_messages, first=first)
    assert is_well_formed(left)


@given(ANY, BUDGETS, FIRST)
def test_a_cut_keeps_to_its_budget_unless_one_group_is_too_much(
    messages: Messages, budget: int, first: int
) -> None:
    left = sliding(messages, budget, estimate_messages, first=first)
    assert estimate_messages(left) <= budget or len(groups(left)) <= 1


@given(ANY, BUDGETS, FIRST)
def test_a_cut_opens_no_call_again(messages: Messages, budget: int, first: int) -> None:
    left = sliding(messages, budget, estimate_messages, first=first)
    assert {*open_calls(without_reopened(left, messages))} <= {*open_calls(messages)}


@given(ANY, BUDGETS)
def test_truncating_keeps_as_much_as_fits(messages: Messages, budget: int) -> None:
    parts = groups(messages)
    left = groups(newest(messages, budget, estimate_messages))
    if 0 < len(left) < len(parts):
        one_more = [m for group in parts[-len(left) - 1 :] for m in group]
        assert estimate_messages(one_more) > budget


@given(ANY, BUDGETS, st.sampled_from(["", "o", "no task"]))
def test_truncating_keeps_the_task_and_the_newest_group(
    messages: Messages, budget: int, task: str
) -> None:
    left = truncate(messages, budget, estimate_messages, task)
    assert groups(messages)[-1:] == groups(left)[-1:]
    asked = [group[0] for group in groups(messages) if group[0]["role"] == "user"]
    if asked and left != tuple(messages):
        assert left[0]["role"] == "user"
        tasks = [m for m in asked if str(m["content"]).startswith(task)] or asked
        assert tasks[-1] in left
    if len(groups(left)) > 2:
        assert estimate_messages(left) <= budget


@given(ANY, BUDGETS, FIRST)
def test_a_second_cut_changes_nothing(messages: Messages, budget: int, first: int) -> None:
    left = sliding(messages, budget, estimate_messages, first=first)
    assert sliding(left, budget, estimate_messages, first=first) == left


@given(ANY)
def test_prunable_means_that_something_can_go(messages: Messages) -> None:
    assert prunable(messages) == (newest(messages, -1, estimate_messages) != tuple(messages))


@given(WELL_FORMED, st.sets(IDS))
def test_trimmed_calls_stay_well_formed(messages: Messages, keep: set[str]) -> None:
    left = trim_calls(messages, keep)
    assert is_well_formed(left)
    assert trim_calls(left, keep) == left or len(left) < len(messages)


@given(ANY, st.sets(IDS))
def test_trimming_touches_only_the_last_assistant_message(
    messages: Messages, keep: set[str]
) -> None:
    at = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=len(messages))
    left = trim_calls(messages, keep)
    assert left[:at] == tuple(messages[:at])
    if at < len(messages) and len(left) > at and left[at]["role"] == "assistant":
        asked = calls_of(messages[at])
        assert calls_of(left[at]) == tuple(call for call in asked if call.id in keep)
        assert left[at]["content"] == messages[at]["content"]


@given(ANY, st.text(max_size=20), st.integers(-1, 5))
def test_what_a_search_finds_is_there(messages: Messages, query: str, limit: int) -> None:
    hits = search(messages, query, limit)
    assert len(hits) <= max(limit, 0)
    assert len({hit.index for hit in hits}) == len(hits)
    for hit in hits:
        assert hit.role == messages[hit.index]["role"]
        assert hit.excerpt.strip("…") in messages[hit.index]["content"]
