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
from typing import Any, overload

import msgspec

from chartloop.core.codec import read
from chartloop.core.conversation import calls_of, tool_reply
from chartloop.core.media_parts import media_tokens
from chartloop.core.outcome import Message
from chartloop.core.reasoning import reasoning_text

NO_REPLY = "error: this call was not executed"
"""The reply to a call that was cut off or never made."""


class _Log:
    """The list that conversations share, and its cached sendable form."""

    __slots__ = ("messages", "sendable")

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.sendable: list[_Sendable] = []
        """Holds one item or none: a thread that pops it has exclusive use."""


class Conversation(Sequence[Message]):
    """The messages so far, oldest first. Immutable; the cost of `add` is that of the new messages.

    A conversation is a prefix of a list that it shares with its predecessors and successors.
    Adding to one that has grown already, as a fork does, copies the list.
    """

    __slots__ = ("_end", "_length", "_tokens", "log")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.log = _Log(list(messages))
        self._length = len(self.log.messages)
        self._end = [self._length]
        """The right to append to the list: one item, which only one thread can pop."""
        self._tokens: int | None = None

    @classmethod
    def read(cls, data: Any, reasons: Mapping[str, Any]) -> Conversation:
        """Read the conversation of a stored position."""
        return data if isinstance(data, cls) else cls(read(data, tuple[Message, ...], reasons))

    def first(self, length: int) -> Conversation:
        """The first messages as a conversation over the same list. Adding to it copies the list."""
        return self._over(length, [], None)

    def _over(self, length: int, end: list[int], tokens: int | None) -> Conversation:
        other = Conversation.__new__(Conversation)
        other.log, other._length, other._end, other._tokens = self.log, length, end, tokens
        return other

    def add(self, messages: Iterable[Message]) -> Conversation:
        """Return the conversation with more messages at its end."""
        added = tuple(messages)
        if not added:
            return self
        try:
            self._end.pop()
        except IndexError:  # the list has grown already
            return Conversation(chain(self, added))
        self.log.messages += added
        length, tokens = self._length + len(added), self._tokens
        if tokens is not None:
            tokens += estimate_messages(added)
        return self._over(length, [length], tokens)

    def whole(self) -> tuple[Message, ...]:
        """All messages, oldest first."""
        return tuple(self)

    @property
    def tokens(self) -> int:
        """The estimated tokens of the messages: see `estimate_messages`."""
        if self._tokens is None:
            self._tokens = estimate_messages(self)
        return self._tokens

    def sendable(self) -> Sequence[Message]:
        """The messages as providers accept them: each call with its reply, and no other replies.

        A call without a reply gets `NO_REPLY`, arguments are JSON objects (`sent_arguments`). A
        conversation that is valid already is returned itself.
        """
        log = self.log
        try:
            form = log.sendable.pop()
        except IndexError:
            form = _Sendable(self.first(0))
        if form.read > self._length:
            form = _Sendable(self.first(0))
        form.read_on(self)
        log.sendable = [form]
        return form.messages(self)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Message]:
        return islice(self.log.messages, self._length)

    def __reversed__(self) -> Iterator[Message]:
        messages = self.log.messages
        return (messages[n] for n in range(self._length - 1, -1, -1))

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        at = range(self._length)[index]
        messages = self.log.messages
        return messages[at] if isinstance(at, int) else tuple(messages[n] for n in at)

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


NO_MESSAGES = Conversation()


class Joined(Sequence[Message]):
    """A sequence of a conversation with messages before and after it, without a copy."""

    __slots__ = ("after", "before", "between")

    def __init__(
        self, before: Sequence[Message], between: Conversation, after: Sequence[Message] = ()
    ) -> None:
        self.before, self.between, self.after = tuple(before), between, tuple(after)

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


def with_head(head: Sequence[Message], messages: Sequence[Message]) -> Sequence[Message]:
    """Prepend messages, without copying a conversation."""
    if not head:
        return messages
    if isinstance(messages, Conversation):
        return Joined(head, messages)
    if isinstance(messages, Joined):
        return Joined((*head, *messages.before), messages.between, messages.after)
    return (*head, *messages)


def estimate(messages: Sequence[Message]) -> int:
    """Estimate the tokens of messages, using the cached estimate of a conversation."""
    if isinstance(messages, (Conversation, Joined)):
        return messages.tokens
    return estimate_messages(messages)


def sendable(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages as providers accept them: see `Conversation.sendable`."""
    return (messages if isinstance(messages, Conversation) else Conversation(messages)).sendable()


class _Sendable:
    """The form in which a conversation is sent, as far as it has been read.

    As long as the conversation is valid, it is sent itself; after that, a corrected copy.
    """

    __slots__ = ("_differs", "_open", "_settled", "_waiting", "read")

    def __init__(self, nothing: Conversation) -> None:
        self.read = 0
        """The number of messages that have been read."""
        self._settled = nothing
        """The sent messages that later ones cannot change."""
        self._differs = False
        self._open: list[Message] = []
        """The assistant message with open calls, if there is one, and the messages after it."""
        self._waiting: list[str] = []
        """The ids of these calls."""

    def read_on(self, conversation: Conversation) -> None:
        """Read the messages that were added."""
        for message in conversation.log.messages[self.read : len(conversation)]:
            self._read(conversation, message)
        self.read = len(conversation)

    def _read(self, conversation: Conversation, message: Message) -> None:
        answers = message["role"] == "tool"
        if self._open and message["role"] == "assistant":
            self._close(conversation)
        if not self._open:
            if answers:  # no call
                self._settle(conversation, (message,), ())
                return
            self._waiting = [call["id"] for call in message.get("tool_calls") or ()]
        self._open.append(message)
        if answers and (id_ := message.get("tool_call_id", "")) in self._waiting:
            self._waiting.remove(id_)
        if not self._waiting:
            self._close(conversation)

    def _close(self, conversation: Conversation) -> None:
        messages, self._open = self._open, []
        self._settle(conversation, messages, _sent(messages))

    def _settle(
        self, conversation: Conversation, messages: Sequence[Message], sent: Sequence[Message]
    ) -> None:
        """Send `sent` in place of `messages`."""
        if not self._differs and (messages is sent or _same(messages, sent)):
            self._settled = conversation.first(len(self._settled) + len(sent))
            return
        if not self._differs:
            self._differs, self._settled = True, Conversation(self._settled)
        self._settled = self._settled.add(sent)

    def messages(self, conversation: Conversation) -> Sequence[Message]:
        """The messages to send, as far as the conversation has been read."""
        if self._open:
            sent = _sent(self._open)
            if self._differs or not _same(self._open, sent):
                return Joined((), self._settled, sent)
        elif self._differs:
            return self._settled
        return conversation


def _in_order(messages: Sequence[Message]) -> bool:
    """Whether the replies to all calls of the first message follow in order, and nothing else."""
    calls = messages[0].get("tool_calls") or ()
    if len(messages) != len(calls) + 1:
        return False
    for number, call in enumerate(calls, 1):
        message = messages[number]
        if message["role"] != "tool" or message.get("tool_call_id") != call["id"]:
            return False
    return True


def _sent(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages of one group as they are sent; the same ones if nothing is wrong with them."""
    messages = messages if _in_order(messages) else _with_every_reply(messages)
    calls: Sequence[Mapping[str, Any]] = messages[0].get("tool_calls") or ()
    arguments = [call["function"]["arguments"] for call in calls]
    fit = [sent_arguments(text) for text in arguments]
    if fit == arguments:
        return messages
    pairs = zip(calls, fit, strict=True)
    sent = [{**c, "function": {**c["function"], "arguments": text}} for c, text in pairs]
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


def _same(messages: Sequence[Message], others: Sequence[Message]) -> bool:
    return len(messages) == len(others) and all(map(_is, messages, others))


def _is(message: Message, other: Message) -> bool:
    return message is other


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
    content = message.get("content")
    if isinstance(content, str):
        tokens = PER_MESSAGE + estimate_tokens(content)
    else:
        tokens = PER_MESSAGE + sum(_part(part) for part in content or ())
    calls: Iterable[Mapping[str, Any]] = message.get("tool_calls") or ()
    for call in calls:
        function = call["function"]
        tokens += PER_CALL + estimate_tokens(function["name"])
        tokens += estimate_tokens(function["arguments"])
    if "reasoning" in message:
        tokens += estimate_tokens(reasoning_text(message["reasoning"]))
    return tokens


def estimate_messages(messages: Iterable[Message]) -> int:
    """The sum of `estimate_message`, so that added messages can be counted separately."""
    return sum(map(estimate_message, messages))


def _part(part: object) -> int:
    text = part if isinstance(part, str) else _text_of(part)
    if text is not None:
        return estimate_tokens(text)
    return media_tokens(part, PER_IMAGE) if isinstance(part, Mapping) else PER_IMAGE  # pyright: ignore[reportUnknownArgumentType]


def _text_of(part: object) -> str | None:
    text: object = part.get("text") if isinstance(part, Mapping) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return text if isinstance(text, str) else None
