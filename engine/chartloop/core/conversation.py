"""Operations on chat messages: make them, find open calls, cut to a budget, search.

These are pure functions over sequences of messages, independent of runs. A run keeps its
messages in a `core.transcript.Conversation`.

All of them keep one rule: an assistant message with tool calls and the replies to them are one
*group*, kept or dropped whole. Providers refuse a call without its reply, and a reply without
its call.

Source: 004 "Context Window Manager" and the tool `conversation_search`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from chartloop.core.facts import EMPTY, ToolCall
from chartloop.core.media_parts import is_media, say_part, with_parts
from chartloop.core.outcome import CallResult, Held, Message, Reply

Messages = tuple[Message, ...]
Count = Callable[[Sequence[Message]], int]
"""Counts the tokens of messages: `run.ports.Tokenizer.count`, or `estimate_messages`."""


def system(text: str) -> Message:
    """A message with instructions to the model."""
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    """A message from the user."""
    return {"role": "user", "content": text}


def assistant(text: str, tool_calls: Iterable[ToolCall] = ()) -> Message:
    """A message from the model, with the calls that it requests."""
    return Reply(text, tool_calls=tuple(tool_calls)).message


def tool_reply(call: ToolCall, text: str, parts: Sequence[Mapping[str, Any]] = ()) -> Message:
    """A message with the result of a call, and its images and files."""
    return with_parts(CallResult(call.id, call.name, content=text).message, parts)


def text_of(message: Message) -> str:
    """The text of a message. Parts take a line each, an image as ``[image 12 kB]``."""
    content: str | Iterable[Any] | None = message.get("content")
    if isinstance(content, str):
        return content
    texts = (_text_of_part(part) for part in content or ())
    return "\n".join(text for text in texts if text is not None)


def _text_of_part(part: Any) -> str | None:
    if isinstance(part, str):
        return part
    if is_media(part):
        return say_part(part)
    text = part.get("text") if isinstance(part, Mapping) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return text if isinstance(text, str) else None


def calls_of(message: Message) -> tuple[ToolCall, ...]:
    """The calls that a message requests, in order."""
    calls: Iterable[Mapping[str, Any]] = message.get("tool_calls") or ()
    return tuple([
        ToolCall(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls
    ])  # fmt: skip


def groups(messages: Iterable[Message]) -> tuple[Messages, ...]:
    """Split a conversation into groups that must stay whole; joined, they are the conversation.

    A group with calls extends to the last of their replies, with everything in between. A reply
    without a call, or a second reply to one, belongs to the group before it. Once the next
    assistant message has come, older calls can no longer be answered.
    """
    return tuple(_groups(messages))


def arguments_of(call: ToolCall) -> Any:
    """The arguments of a call as data, or as the model's text if that is not JSON."""
    try:
        return json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments


def open_calls(
    messages: Sequence[Message], names: Mapping[str, str] = EMPTY
) -> tuple[ToolCall, ...]:
    """The calls of the last assistant message that have no reply, in order.

    `names` maps wire names to tool names where they differ: `MachineSpec.wire_names`. Calls of
    older messages can no longer be answered: see `groups`. Reads only the messages from the last
    assistant message on.
    """
    return newest_open_calls(reversed(messages), names)


def newest_open_calls(
    newest_first: Iterable[Held], names: Mapping[str, str]
) -> tuple[ToolCall, ...]:
    """Like `open_calls`, of what messages are made of, the newest first."""
    replies: list[str] = []
    for message in newest_first:
        if isinstance(message, CallResult):
            replies.append(message.id)
        elif isinstance(message, Reply) or message["role"] == "assistant":
            open_: list[ToolCall] = []
            for call in message.tool_calls if isinstance(message, Reply) else calls_of(message):
                if call.id in replies:
                    replies.remove(call.id)
                else:
                    name = names.get(call.name)
                    open_.append(call if name is None else call.replace(name=name))
            return tuple(open_)
        elif message["role"] == "tool":
            replies.append(message.get("tool_call_id", ""))
    return ()


def trim_calls(messages: Iterable[Message], keep_ids: Collection[str]) -> Messages:
    """Reduce the last assistant message to the calls with these ids.

    Replies to removed calls are removed too, as is a message left with neither calls nor text.
    Source: 004 "Execute first tool call".
    """
    parts = list(groups(messages))
    for at in reversed(range(len(parts))):
        if parts[at][0]["role"] == "assistant":
            parts[at] = _trim_group(parts[at], keep_ids)
            break
    return _join_groups(parts)


def newest(messages: Sequence[Message], budget_tokens: int, count: Count) -> Messages:
    """The newest groups that fit into the budget, and at least the newest one.

    A system message is dropped like any other: a run's instructions are not in its conversation.
    Source: 004 "Truncate Strategy".
    """
    return sliding(messages, budget_tokens, count, first=0)


def truncate(
    messages: Sequence[Message], budget_tokens: int, count: Count, task: str = ""
) -> Messages:
    """The task, and the newest groups that fit into the budget with it, at least the newest one.

    The task is the newest message from the user that begins with `task`, else the newest one from
    the user at all. If it is among the newest groups, these start with it or with an older message
    from the user: providers refuse a conversation that starts with a reply.
    """
    parts = groups(messages)
    if len(parts) < 2 or count(messages) <= budget_tokens:
        return tuple(messages)
    asked = [n for n, part in enumerate(parts) if part[0]["role"] == "user"]
    if not asked:
        return newest(messages, budget_tokens, count)
    tasks = [n for n in asked if text_of(parts[n][0]).startswith(task)]
    at = tasks[-1] if tasks else asked[-1]
    starts = [n for n in asked if n <= at]
    fits = bisect_left(starts, True, key=lambda n: count(_join_groups(parts[n:])) <= budget_tokens)
    if fits < len(starts):
        return _join_groups(parts[starts[fits] :])
    later = parts[at + 1 :]
    if not later:
        return parts[at]
    drop = _fewest([parts[at]], later, lambda shorter: count(shorter) <= budget_tokens)
    return _join_groups([parts[at], *later[-1 if drop is None else drop :]])


def sliding(
    messages: Sequence[Message], budget_tokens: int, count: Count, *, first: int = 2
) -> Messages:
    """The `first` groups, and as many of the newest as fit into the budget with them.

    The newest group is always kept. If it leaves no room for `first` groups, fewer of them are
    kept. Source: 004 "Sliding Window Strategy".
    """
    parts = groups(messages)
    if len(parts) < 2 or count(messages) <= budget_tokens:
        return tuple(messages)
    for kept in range(min(max(first, 0), len(parts) - 1), -1, -1):
        head, rest = parts[:kept], parts[kept:]
        drop = _fewest(head, rest, lambda shorter: count(shorter) <= budget_tokens)
        if drop is not None:
            return _join_groups([*head, *rest[drop:]])
    return parts[-1]


def without_reopened(shorter: Messages, messages: Sequence[Message]) -> Messages:
    """Remove open calls that pruning has reopened.

    If the newest reply was cut out, an older one takes its place, whose calls can no longer be
    answered.
    """
    reply = _newest_reply(messages)
    while (now := _newest_reply(shorter)) is not None and now is not reply:
        open_ = {call.id for call in open_calls(shorter)}
        if not open_:
            break
        shorter = trim_calls(shorter, {call.id for call in calls_of(now)} - open_)
    return shorter


def _newest_reply(messages: Sequence[Message]) -> Message | None:
    return next((m for m in reversed(messages) if m["role"] == "assistant"), None)


def prunable(messages: Iterable[Message]) -> bool:
    """Whether pruning can drop anything, given a small enough budget."""
    return len(tuple(islice(_groups(messages), 2))) > 1


class Hit(NamedTuple):
    """A message that matches a search."""

    role: str
    excerpt: str
    """Up to `EXCERPT` characters around the first matching word."""
    index: int  # pyright: ignore[reportIncompatibleMethodOverride] - `tuple.index` is not used
    """The position of the message in the conversation, from 0."""


EXCERPT = 200
WORDS = 32
"""The number of words of a query that are searched for."""


def search(messages: Sequence[Message], query: str, limit: int = 5) -> tuple[Hit, ...]:
    """The messages that contain the most words of the query; between equals, the newer.

    Case is ignored. A word also matches inside a longer one, for languages without spaces between
    words. Source: 004 `conversation_search`.
    """
    words = list(dict.fromkeys(re.findall(r"\w+", query.lower())))[:WORDS]
    patterns = [re.compile(re.escape(word), re.IGNORECASE) for word in words]
    ranked: list[tuple[int, int, Hit]] = []
    for index, message in enumerate(messages):
        text = text_of(message)
        starts = [match.start() for p in patterns if (match := p.search(text))]
        if starts:
            begin = max(0, min(min(starts) - EXCERPT // 4, len(text) - EXCERPT))
            cut = text[begin : begin + EXCERPT]
            excerpt = ("…" if begin else "") + cut + ("…" if begin + EXCERPT < len(text) else "")
            hit = Hit(message["role"], excerpt, index)
            ranked.append((-len(starts), -index, hit))
    return tuple(hit for _, _, hit in sorted(ranked)[: max(limit, 0)])


def _groups(messages: Iterable[Message]) -> Iterator[Messages]:
    group: list[Message] = []
    waiting: list[str] = []
    aside: list[Message] = []  # after an open call: part of its group if its reply still comes
    for message in messages:
        if message["role"] == "tool":
            group += [*aside, message]
            aside = []
            if (id_ := message.get("tool_call_id", "")) in waiting:
                waiting.remove(id_)
        elif waiting and message["role"] != "assistant":
            aside.append(message)
        else:
            yield from _split_group(group, aside)
            group, aside = [message], []
            waiting = [call.id for call in calls_of(message)]
    yield from _split_group(group, aside)


def _split_group(group: list[Message], aside: list[Message]) -> Iterator[Messages]:
    """A finished group, then each later message as a group of its own."""
    if group:
        yield tuple(group)
    yield from ((message,) for message in aside)


def _join_groups(parts: Iterable[Messages]) -> Messages:
    return tuple(message for part in parts for message in part)


def _trim_group(group: Messages, keep_ids: Collection[str]) -> Messages:
    first, *rest = group
    calls: Sequence[Mapping[str, Any]] = first.get("tool_calls") or ()
    kept = [call for call in calls if call["id"] in keep_ids]
    if len(kept) == len(calls):
        return group
    ids = {call["id"] for call in kept}
    replies = [m for m in rest if m["role"] != "tool" or m.get("tool_call_id") in ids]
    text = {key: value for key, value in first.items() if key != "tool_calls"}
    if kept:
        return ({**text, "tool_calls": kept}, *replies)
    return (text, *replies) if text_of(text) else tuple(replies)


def _fewest(
    head: Sequence[Messages], rest: Sequence[Messages], fits: Callable[[Messages], bool]
) -> int | None:
    """The number of oldest groups of `rest` to drop; None if its newest alone is too large."""
    low, high = 0, len(rest) - 1
    if not fits(_join_groups([*head, rest[high]])):
        return None
    while low < high:
        middle = (low + high) // 2
        if fits(_join_groups([*head, *rest[middle:]])):
            high = middle
        else:
            low = middle + 1
    return high
