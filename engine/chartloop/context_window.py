"""The context window by hand: what a conversation takes, whether it fits, what to leave out.

A machine does this by itself: the facts `usage.context_*`, the action `prune_context`. Here is
the same counting and the same shortening as functions, for a conversation that is in no run yet,
or in none of ours.

    window = ContextWindow(max_tokens=50_000, system_tokens=1_000, response_tokens=2_048)
    if not fits(window, messages):
        messages = optimize(window, messages)

Belongs here: what has no run. Never: its own way of counting or shortening.
Source:       004 "Context Window Manager"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from chartloop.actions.prune import split_messages
from chartloop.adapters.model.litellm import LiteLLM
from chartloop.core.conversation import Messages, sliding, system, truncate
from chartloop.core.errors import LimitError, SetupError
from chartloop.core.outcome import Message
from chartloop.core.transcript import estimate_message, estimate_messages, estimate_tokens
from chartloop.language.spec import BlockSpec
from chartloop.run.ports import Model, ModelRequest, Tokenizer
from chartloop.run.sync import wait

__all__ = [
    "ContextUsage",
    "ContextWindow",
    "Strategy",
    "analyze_usage",
    "aoptimize",
    "count_block_tokens",
    "count_message_tokens",
    "count_messages_tokens",
    "count_system_tokens",
    "estimate_tokens",
    "fits",
    "optimize",
]

Strategy = Literal["truncate", "sliding", "summarize"]
Block = str | BlockSpec
"""A memory block: its text, or what a file says about it (`machine.spec.memory`)."""


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """A model's window, and how a conversation is brought to fit into it. All in tokens.

    Source: 004 `make-context-window-manager`.
    """

    max_tokens: int = 100_000
    system_tokens: int = 0
    """Kept free for the system message: see `count_system_tokens`."""
    response_tokens: int = 0
    """Kept free for the reply."""
    strategy: Strategy = "sliding"
    """`truncate` keeps the newest messages, `sliding` the first and the newest, `summarize` the
    newest after a summary of all others that a model writes."""
    tokenizer: Tokenizer | None = None
    """Counts exactly, for one model; without it tokens are estimated."""

    def __post_init__(self) -> None:
        if min(self.max_tokens, self.system_tokens, self.response_tokens) < 0 or self.room <= 0:
            raise LimitError(
                f"a window of {self.max_tokens:,} tokens has no room for messages next to"
                f" {self.system_tokens:,} of the system message and"
                f" {self.response_tokens:,} of the reply",
                hint="raise `max_tokens`, or keep less free",
            )

    @property
    def room(self) -> int:
        """Tokens that the conversation may take."""
        return self.max_tokens - self.system_tokens - self.response_tokens

    def count(self, messages: Sequence[Message]) -> int:
        """How many tokens the messages take."""
        return count_messages_tokens(messages, tokenizer=self.tokenizer)


class ContextUsage(NamedTuple):
    """How full a window is. Source: 004 `analyze-context-usage`."""

    total_tokens: int
    """The conversation, and what is kept free for the system message."""
    available_tokens: int
    """What may still be added; 0 when nothing, or already too much."""
    usage_percent: float
    """`total_tokens` of the whole window, in percent: 100.0 is full."""
    fits: bool
    """Whether the conversation fits beside all that is kept free."""


# counting -----------------------------------------------------------------------------------


def count_message_tokens(message: Message) -> int:
    """About how many tokens one message takes, its tool calls included.

    Source: 004 `count-message-tokens`.
    """
    return estimate_message(message)


def count_messages_tokens(
    messages: Sequence[Message], *, tokenizer: Tokenizer | None = None
) -> int:
    """How many tokens messages take: as `tokenizer` counts them, else estimated.

    Source: 004 `count-messages-tokens`.
    """
    return estimate_messages(messages) if tokenizer is None else tokenizer.count(messages)


def count_block_tokens(name: str, block: Block) -> int:
    """About how many tokens a memory block takes in the system message.

    With its label and template; of one that is read on demand, the line that names it.
    Source: 004 `count-memory-block-tokens`.
    """
    return estimate_tokens(_in_prompt(name, block))


def count_system_tokens(persona: str, blocks: Mapping[str, Block] | None = None) -> int:
    """About how many tokens the system message takes: persona, or instructions, and blocks.

    Source: 004 `count-system-message-tokens`.
    """
    parts = [persona, *(_in_prompt(name, block) for name, block in (blocks or {}).items())]
    return estimate_message(system("\n\n".join(part for part in parts if part)))


def _in_prompt(name: str, block: Block) -> str:
    given = BlockSpec(block) if isinstance(block, str) else block
    return given.in_prompt(name, given.value)


# looking ------------------------------------------------------------------------------------


def analyze_usage(window: ContextWindow, messages: Sequence[Message]) -> ContextUsage:
    """How full a window is with these messages. Source: 004 `analyze-context-usage`."""
    taken = window.count(messages)
    total = taken + window.system_tokens
    return ContextUsage(
        total, max(0, window.room - taken), 100 * total / window.max_tokens, taken <= window.room
    )


def fits(window: ContextWindow, messages: Sequence[Message]) -> bool:
    """Whether the messages fit beside all that is kept free. Source: 004 `check-context-fits`."""
    return analyze_usage(window, messages).fits


# shortening ---------------------------------------------------------------------------------


def optimize(
    window: ContextWindow, messages: Iterable[Message], *, model: Model | str | None = None,
    settings: Mapping[str, Any] | None = None, keep_first: int = 2,
) -> Messages:  # fmt: skip
    """The messages as they fit into the window; as they are, where they do.

    A tool call and its replies stay together, and the newest group of messages is always kept,
    also where it alone is too much: ask `fits`. `summarize` makes one call of `model`, a litellm
    name or anything that honours the `Model` port, with these settings; messages that are too
    old to fit into that call are left out. `keep_first` groups at the beginning are kept by
    `sliding`, fewer where they leave no room.

    Raises:
        SetupError: `summarize` has no model, or the model cannot be used.
        ModelError: the call for the summary failed.

    Source: 004 `optimize-context`.
    """
    asked = _choose_summarizer(window, model, settings)
    suspends = asked is not None and asked.model.suspends
    return wait(_optimize(window, tuple(messages), asked, keep_first), suspends=suspends)


async def aoptimize(
    window: ContextWindow, messages: Iterable[Message], *, model: Model | str | None = None,
    settings: Mapping[str, Any] | None = None, keep_first: int = 2,
) -> Messages:  # fmt: skip
    """The messages as they fit into the window, inside a running event loop; see `optimize`."""
    asked = _choose_summarizer(window, model, settings)
    return await _optimize(window, tuple(messages), asked, keep_first)


class _Asked(NamedTuple):
    """Who writes the summary."""

    model: Model
    settings: Mapping[str, Any]


def _choose_summarizer(
    window: ContextWindow, model: Model | str | None, settings: Mapping[str, Any] | None
) -> _Asked | None:
    if window.strategy != "summarize":
        return None
    if model is None:
        raise SetupError("`summarize` needs a model that writes the summary", hint="give `model=`")
    given = dict(settings or {})
    if not isinstance(model, str):
        return _Asked(model, given)
    made = LiteLLM()
    given["name"] = model
    made.prepare(given)
    return _Asked(made, given)


async def _optimize(
    window: ContextWindow, messages: Messages, asked: _Asked | None, keep_first: int
) -> Messages:
    if window.count(messages) <= window.room:
        return messages
    if asked is not None:
        return await _summarize(window, messages, asked)
    first = keep_first if window.strategy == "sliding" else 0
    return sliding(messages, window.room, window.count, first=first)


async def _summarize(window: ContextWindow, messages: Messages, asked: _Asked) -> Messages:
    parts = split_messages(messages, window.room, window.count)
    if not parts.older:
        return messages
    question = window.count(parts._replace(older=()).request)
    older = truncate(
        parts.older, window.max_tokens - window.response_tokens - question, window.count
    )
    request = ModelRequest(parts._replace(older=older).request, settings=asked.settings)
    return parts.with_summary((await asked.model.complete(request)).text)
