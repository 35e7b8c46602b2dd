"""The messages of a run: an append-only list with cached estimates.

Every step needs the messages to send and their size. Both are cached with the list and updated
when messages are added, so that the cost of a step does not grow with the length of the run.
Tokens are estimated without a tokenizer.

Source: 004 "Context Window Manager", `build-llm-messages`; OpenAI API reference, "Create chat
completion": a tool message answers a call of the assistant message before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any, overload

import msgspec

from chartloop.core.codec import read
from chartloop.core.conversation import calls_of, newest_open_calls, tool_reply
from chartloop.core.facts import ToolCall
from chartloop.core.media_parts import media_tokens
from chartloop.core.outcome import CallResult, Held, Message, Reply, as_message
from chartloop.core.reasoning import reasoning_text

_ID = itemgetter("id")
NO_REPLY = "error: this call was not executed"
"""The reply to a call that was never made."""
NOT_KNOWN = (
    "error: it is not known whether this call was carried out; check before you make it again"
)
"""The reply to a call that was begun, and whose outcome is not known."""


class _Log:
    """The list that conversations share, and its sendable form as far as it is settled."""

    __slots__ = ("counted", "messages", "settled")

    def __init__(self, messages: list[Held]) -> None:
        self.messages = messages
        """Most are dicts only while they are read: the records of the run have the replies."""
        self.settled: tuple[int, Conversation | None] = 0, None
        """The number of messages that later ones cannot change, and the corrected copy that is
        sent in their place; None while they are sent themselves."""
        self.counted: tuple[int, int] = 0, 0
        """A number of messages, and their estimated tokens."""


class Conversation(Sequence[Message]):
    """The messages so far, oldest first. Immutable; the cost of `add` is that of the new messages.

    A conversation is a prefix of a list that it shares with its predecessors and successors.
    Adding to one that has grown already, as a fork does, copies the list.
    """

    __slots__ = ("_end", "_length", "log")

    def __init__(self, messages: Iterable[Held] = ()) -> None:
        self.log = _Log(list(messages))
        self._length = len(self.log.messages)
        self._end = [self._length]
        """The right to append to the list: one item, which only one thread can pop."""

    @classmethod
    def read(cls, data: Any, reasons: Mapping[str, Any]) -> Conversation:
        """Read the conversation of a stored position."""
        return data if isinstance(data, cls) else cls(read(data, tuple[Message, ...], reasons))

    def add(self, messages: Iterable[Held]) -> Conversation:
        """Return the conversation with more messages at its end."""
        added = tuple(messages)
        if not added:
            return self
        try:
            length = self._end.pop() + len(added)
        except IndexError:  # the list has grown already
            fork = Conversation((*self.log.messages[: self._length], *added))
            fork.log.counted = self._length, self.tokens
            return fork
        self.log.messages += added
        other = Conversation.__new__(Conversation)
        other.log, other._length, other._end = self.log, length, [length]
        return other

    @property
    def tokens(self) -> int:
        """The estimated tokens of the messages: see `estimate_messages`."""
        (count, tokens), log, length = self.log.counted, self.log, self._length
        if count != length:
            tokens += estimate_messages(log.messages[count:length])
            tokens -= estimate_messages(log.messages[length:count])
            log.counted = length, tokens
        return tokens

    def open_calls(self, names: Mapping[str, str]) -> tuple[ToolCall, ...]:
        """The calls of the last reply without a result: see `core.conversation.open_calls`."""
        return newest_open_calls(self._newest_first(), names)

    def whole(self) -> tuple[Message, ...]:
        """All messages, oldest first."""
        return tuple(self)

    def sendable(self) -> Conversation | Joined:
        """The messages as providers accept them: each call with its reply, and no other replies.

        A call without a reply gets `NO_REPLY`, arguments are JSON objects (`sent_arguments`). A
        conversation that is valid already is returned itself.
        """
        settled, copy = self.log.settled
        if settled > self._length:
            settled, copy = 0, None
        held = self.log.messages[settled : self._length]
        end = _answered(held)
        if copy is not None:
            copy = copy.add(held[:end])
        settled += end
        messages = [*map(as_message, held[end:])]
        start, length = 0, len(messages)
        while start < length:
            first, end = messages[start], start + 1
            calls = first.get("tool_calls") or () if first["role"] != "tool" else ()
            waiting: list[str] = list(map(_ID, calls))
            while waiting and end < length and messages[end]["role"] != "assistant":
                id_ = messages[end].get("tool_call_id", "")
                if messages[end]["role"] == "tool" and id_ in waiting:
                    waiting.remove(id_)
                end += 1
            if waiting and end == length:  # replies may still come
                break
            group = messages[start:end]
            sent = _sent(group)
            if copy is not None:
                copy = copy.add(sent)
            elif sent is not group:
                copy = Conversation((*self.log.messages[: settled + start], *sent))
            start = end
        self.log.settled = settled + start, copy
        if start == length:
            return self if copy is None else copy
        if copy is None:
            copy = Conversation.__new__(Conversation)
            copy.log, copy._length, copy._end = self.log, settled + start, []
        return Joined((), copy, _sent(messages[start:]))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Message]:
        return map(as_message, islice(self.log.messages, self._length))

    def __reversed__(self) -> Iterator[Message]:
        return map(as_message, self._newest_first())

    def _newest_first(self) -> Iterator[Held]:
        return map(self.log.messages.__getitem__, range(self._length - 1, -1, -1))

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        at = range(self._length)[index]
        get = self.log.messages.__getitem__
        return as_message(get(at)) if isinstance(at, int) else tuple(map(as_message, map(get, at)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Conversation) and (
            (self.log is other.log and self._length == other._length)
            or self.whole() == other.whole()
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"Conversation({[*self]})"

    def __reduce__(self) -> tuple[type[Conversation], tuple[tuple[Message, ...]]]:
        return (Conversation, (self.whole(),))


class Joined(Sequence[Message]):
    """A sequence of a conversation with messages before and after it, without a copy."""

    __slots__ = ("after", "before", "between")

    def __init__(
        self, before: Sequence[Message], between: Conversation | Joined,
        after: Sequence[Message] = (),
    ) -> None:  # fmt: skip
        self.between: Conversation
        if isinstance(between, Joined):
            before, after = (*before, *between.before), (*between.after, *after)
            self.between = between.between
        else:
            self.between = between
        self.before, self.after = tuple(before), tuple(after)

    def __len__(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    def __iter__(self) -> Iterator[Message]:
        return chain(self.before, self.between, self.after)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        at = range(len(self))[index]
        return self._at(at) if isinstance(at, int) else tuple(map(self._at, at))

    def _at(self, index: int) -> Message:
        if index < len(self.before):
            return self.before[index]
        index -= len(self.before)
        if index < len(self.between):
            return self.between[index]
        return self.after[index - len(self.between)]

    def __repr__(self) -> str:
        return f"Joined({[*self]})"

    @property
    def tokens(self) -> int:
        """The estimated tokens of all the messages."""
        return estimate_messages(chain(self.before, self.after)) + self.between.tokens


def estimate(messages: Sequence[Message]) -> int:
    """Estimate the tokens of messages, using the cached estimate of a conversation."""
    if isinstance(messages, (Conversation, Joined)):
        return messages.tokens
    return estimate_messages(messages)


def _answered(held: Sequence[Held]) -> int:
    """The number of messages up to the first that is not a reply or answers its calls in order."""
    end = 0
    while end < len(held) and type(reply := held[end]) is Reply:
        after = end + 1 + len(reply.tool_calls)
        if after > len(held) or not all(map(_answers, reply.tool_calls, held[end + 1 : after])):
            break
        end = after
    return end


def _answers(call: ToolCall, held: Held) -> bool:
    fit = sent_arguments(call.arguments) == call.arguments
    return fit and type(held) is CallResult and held.id == call.id


def _sent(group: Sequence[Message]) -> Sequence[Message]:
    """The messages of one group as they are sent; the same ones if nothing is wrong with them."""
    if group[0]["role"] == "tool":  # no call
        return ()
    calls: Sequence[Mapping[str, Any]] = group[0].get("tool_calls") or ()
    replies, fit = group[1:], True
    in_order = len(replies) == len(calls)
    for call, reply in zip(calls, replies, strict=False):
        if reply["role"] != "tool" or reply.get("tool_call_id") != call["id"]:
            in_order = False
    for call in calls:
        arguments = call["function"]["arguments"]
        fit = fit and sent_arguments(arguments) == arguments
    messages = group if in_order else _with_every_reply(group)
    if fit:
        return messages
    sent = [
        {**c, "function": {**(f := c["function"]), "arguments": sent_arguments(f["arguments"])}}
        for c in calls
    ]
    return [{**messages[0], "tool_calls": sent}, *messages[1:]]


_OBJECT = msgspec.json.Decoder(dict[str, Any])


def sent_arguments(text: str) -> str:
    """The arguments of a call as they go back to a provider: always the text of a JSON object.

    A model may write anything: half of its JSON, two objects, a list, JSON within JSON. The record
    keeps that, the reply to the call says what is wrong with it, and providers, which refuse a
    conversation that holds it, get ``{"raw": TEXT}``; ``{}`` for nothing or null.
    """
    try:
        _OBJECT.decode(text)
    except (ValueError, RecursionError):
        return json.dumps({"raw": text}) if text.strip() not in ("", "null") else "{}"
    return text


def _with_every_reply(messages: Sequence[Message]) -> list[Message]:
    """The message with calls, then a reply to each call, then the other messages."""
    first, *rest = messages
    replies = [m for m in rest if m["role"] == "tool"]
    sent = [first]
    for call in calls_of(first):
        reply = next((m for m in replies if m.get("tool_call_id") == call.id), None)
        if reply is not None:
            replies.remove(reply)
        sent.append(tool_reply(call, NO_REPLY) if reply is None else reply)
    return sent + [m for m in rest if m["role"] != "tool"]


PER_MESSAGE = 4
"""The tokens around the content of a message: its role and separators."""
PER_CALL = 8
"""The tokens around a tool call: its id, type and braces."""
PER_IMAGE = 1_000
"""The tokens of an image of unknown size, and of a part that is neither text nor image."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text; 0 only for the empty text.

    The estimate of two joined texts is at most the sum of both and at least the larger.
    """
    if text.isascii():
        return (len(text) + 3) >> 2
    size = len(text.encode("utf-8", "surrogatepass"))
    return (3 * size - len(text) + 7) >> 3


def estimate_message(message: Message) -> int:
    """Estimate the tokens of one message in a request, with its tool calls."""
    return estimate_messages((message,))


def estimate_messages(messages: Iterable[Held]) -> int:
    """The sum of `estimate_message`, so that added messages can be counted separately."""
    tokens = 0
    for held in messages:
        tokens += PER_MESSAGE
        if type(held) is CallResult:
            texts = [held.content]
        else:
            message = as_message(held)
            content = message.get("content")
            texts = [content] if isinstance(content, str) else []
            if not texts:
                tokens += sum(map(_part, content or ()))
            for call in message.get("tool_calls") or ():
                tokens += PER_CALL
                texts += (call["function"]["name"], call["function"]["arguments"])
            if "reasoning" in message:
                texts.append(reasoning_text(message["reasoning"]))
        for text in texts:
            tokens += (len(text) + 3) >> 2 if text.isascii() else estimate_tokens(text)
    return tokens


def _part(part: object) -> int:
    text = part if isinstance(part, str) else _text_of(part)
    if text is not None:
        return estimate_tokens(text)
    return media_tokens(part, PER_IMAGE) if isinstance(part, Mapping) else PER_IMAGE  # pyright: ignore[reportUnknownArgumentType]


def _text_of(part: object) -> str | None:
    text: object = part.get("text") if isinstance(part, Mapping) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return text if isinstance(text, str) else None


NO_MESSAGES = Conversation()
