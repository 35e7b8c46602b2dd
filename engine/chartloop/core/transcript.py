"""The messages of a run: a list that only grows, and what is known of it so far.

A conversation of n messages is asked about at every step: what the model is sent, how large it is.
Each answer is kept with the list and carried on when messages are added, so that a step costs
what it adds, however long the run is. Tokens are estimated without a tokenizer.

Source: 004 "Context Window Manager", `build-llm-messages`; OpenAI API reference, "Create chat
completion": a tool message answers a call of the assistant message before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, overload

from chartloop.core.conversation import calls_of, tool_reply
from chartloop.core.media_parts import media_tokens
from chartloop.core.outcome import Message
from chartloop.core.reasoning import reasoning_text

NO_REPLY = "error: this call was not executed"
"""The text in place of a call's reply: it was cut off, or never made."""


class _Log:
    """The list that conversations share, and what has been worked out about it."""

    __slots__ = ("messages", "sendable")

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages
        self.sendable: list[_Sendable] = []
        """One or none: whoever takes it out has it for itself, in whichever thread."""


class Conversation(Sequence[Message]):
    """The messages so far, oldest first. Immutable; `add` costs what it adds.

    The first messages of a list that it shares with the conversations that it grew from and into.
    Adding to one that has grown already, as a fork does, copies the list.
    """

    __slots__ = ("_end", "_length", "_tokens", "log")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.log = _Log(list(messages))
        self._length = len(self.log.messages)
        self._end = [self._length]
        """The right to add to the list. Whoever takes it out has it, in whichever thread."""
        self._tokens: int | None = None

    def first(self, length: int) -> Conversation:
        """Its first messages, as a conversation over the same list. Adding to it makes a copy."""
        return self._over(length, [], None)

    def _over(self, length: int, end: list[int], tokens: int | None) -> Conversation:
        made = Conversation.__new__(Conversation)
        made.log, made._length, made._end, made._tokens = self.log, length, end, tokens
        return made

    def add(self, messages: Iterable[Message]) -> Conversation:
        """The conversation with these at its end."""
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
        """About how many tokens it takes: `core.tokens.estimate_messages`."""
        if self._tokens is None:
            self._tokens = estimate_messages(self)
        return self._tokens

    def sendable(self) -> Sequence[Message]:
        """The messages as providers take them: each call with its reply, and no other replies.

        A call that has none gets `NO_REPLY`. A conversation that is sound is given as it is.
        """
        log = self.log
        try:
            found = log.sendable.pop()
        except IndexError:
            found = _Sendable(self.first(0))
        if found.read > self._length:
            found = _Sendable(self.first(0))
        found.read_on(self)
        log.sendable = [found]
        return found.messages(self)

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
    """Messages before and after a conversation, with it as one sequence and without a copy."""

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
        """About how many tokens they take."""
        return estimate_messages(chain(self.before, self.after)) + self.between.tokens


def with_head(head: Sequence[Message], messages: Sequence[Message]) -> Sequence[Message]:
    """Messages with others before them."""
    if not head:
        return messages
    if isinstance(messages, Conversation):
        return Joined(head, messages)
    if isinstance(messages, Joined):
        return Joined((*head, *messages.before), messages.between, messages.after)
    return (*head, *messages)


def estimate(messages: Sequence[Message]) -> int:
    """About how many tokens messages take. What a conversation has counted is not counted again."""
    if isinstance(messages, (Conversation, Joined)):
        return messages.tokens
    return estimate_messages(messages)


def sendable(messages: Sequence[Message]) -> Sequence[Message]:
    """Messages as providers take them: see `Conversation.sendable`."""
    return (messages if isinstance(messages, Conversation) else Conversation(messages)).sendable()


class _Sendable:
    """What a conversation is sent as, up to where it has been read.

    While it is sound that is the conversation itself, else its own.
    """

    __slots__ = ("_differs", "_open", "_settled", "_waiting", "read")

    def __init__(self, nothing: Conversation) -> None:
        self.read = 0
        """How many messages have been looked at."""
        self._settled = nothing
        """Messages that nothing to come can change."""
        self._differs = False
        self._open: list[Message] = []
        """An assistant message that has calls without a reply, and all that came after it."""
        self._waiting: list[str] = []
        """The ids of these calls."""

    def read_on(self, conversation: Conversation) -> None:
        """Look at the messages that were added."""
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
        sent = messages if _in_order(messages) else _with_every_reply(messages)
        self._settle(conversation, messages, sent)

    def _settle(
        self, conversation: Conversation, messages: Sequence[Message], sent: Sequence[Message]
    ) -> None:
        """These messages are sent as those."""
        if not self._differs and (messages is sent or _same(messages, sent)):
            self._settled = conversation.first(len(self._settled) + len(sent))
            return
        if not self._differs:
            self._differs, self._settled = True, Conversation(self._settled)
        self._settled = self._settled.add(sent)

    def messages(self, conversation: Conversation) -> Sequence[Message]:
        """The messages to send: they end where the conversation has been read."""
        if self._open:
            sent = _with_every_reply(self._open)
            if self._differs or not _same(self._open, sent):
                return Joined((), self._settled, sent)
        elif self._differs:
            return self._settled
        return conversation


def _in_order(messages: Sequence[Message]) -> bool:
    """Whether each call of the first message has its reply in its place, and nothing else came."""
    calls = messages[0].get("tool_calls") or ()
    if len(messages) != len(calls) + 1:
        return False
    for number, call in enumerate(calls, 1):
        message = messages[number]
        if message["role"] != "tool" or message.get("tool_call_id") != call["id"]:
            return False
    return True


def _with_every_reply(messages: Sequence[Message]) -> list[Message]:
    """A message with calls, the reply to each, then the other messages after it."""
    first, *rest = messages
    replies = [m for m in rest if m["role"] == "tool"]
    sent = [first]
    for call in calls_of(first):
        found = next((m for m in replies if m.get("tool_call_id") == call.id), None)
        if found is not None:
            replies.remove(found)
        sent.append(tool_reply(call, NO_REPLY) if found is None else found)
    return sent + [m for m in rest if m["role"] != "tool"]


def _same(messages: Sequence[Message], others: Sequence[Message]) -> bool:
    return len(messages) == len(others) and all(map(_is, messages, others))


def _is(message: Message, other: Message) -> bool:
    return message is other


PER_MESSAGE = 4
"""Tokens round the content of each message: its role and separators."""
PER_CALL = 8
"""Tokens round each tool call: its id, type and braces."""
PER_IMAGE = 1_000
"""Tokens of an image whose size is not known, and of a part that is neither text nor image."""


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` takes; 0 only for the empty text.

    Joining two texts never costs more than both and never less than the larger.
    """
    if text.isascii():
        return (len(text) + 3) >> 2
    size = len(text.encode("utf-8", "surrogatepass"))
    return (3 * size - len(text) + 7) >> 3


def estimate_message(message: Message) -> int:
    """About how many tokens one message takes in a request, its tool calls included."""
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
    """The sum of `estimate_message`, so that added messages can be counted by themselves."""
    return sum(map(estimate_message, messages))


def _part(part: object) -> int:
    text = part if isinstance(part, str) else _text_of(part)
    if text is not None:
        return estimate_tokens(text)
    return media_tokens(part, PER_IMAGE) if isinstance(part, Mapping) else PER_IMAGE  # pyright: ignore[reportUnknownArgumentType]


def _text_of(part: object) -> str | None:
    text: object = part.get("text") if isinstance(part, Mapping) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return text if isinstance(text, str) else None
