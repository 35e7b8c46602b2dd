"""The context window by hand: how large a conversation is, whether it fits, and shortening it.

A machine does this by itself, with the facts `usage.context_*` and the action `prune_context`.
These functions count and shorten in the same way a conversation that is not part of a run.

    window = ContextWindow(max_tokens=50_000, system_tokens=1_000, response_tokens=2_048)
    if not fits(window, messages):
        messages = optimize(window, messages)

Belongs here: functions that need no run. Never: another way of counting or shortening.
Source: 004 "Context Window Manager"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from chartloop.actions.prune import split_messages
from chartloop.adapters.model.litellm import LiteLLM
from chartloop.core.conversation import Messages, newest, sliding, system
from chartloop.core.errors import LimitError, SetupError, nearest
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
"""A memory block: its text, or its declaration in a file (`machine.spec.memory`)."""


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """A model's context window and the strategy to fit a conversation into it. All in tokens.

    Source: 004 `make-context-window-manager`.
    """

    max_tokens: int = 100_000
    system_tokens: int = 0
    """Reserved for the system message: see `count_system_tokens`."""
    response_tokens: int = 0
    """Reserved for the reply."""
    strategy: Strategy = "sliding"
    """`truncate` keeps the newest messages, `sliding` the first and the newest, `summarize` the
    newest after a summary of the others that a model writes."""
    tokenizer: Tokenizer | None = None
    """Counts exactly, for one model; without one, tokens are estimated."""

    def __post_init__(self) -> None:
        if self.strategy not in get_args(Strategy):
            raise SetupError(
                f"a strategy is truncate, sliding or summarize, not {self.strategy!r}",
                hint=nearest(str(self.strategy), get_args(Strategy)),
            )
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
        """The number of tokens that the messages take."""
        return count_messages_tokens(messages, tokenizer=self.tokenizer)


class ContextUsage(NamedTuple):
    """How full a window is. Source: 004 `analyze-context-usage`."""

    total_tokens: int
    """Tokens of the conversation, plus those reserved for the system message."""
    available_tokens: int
    """Tokens that may still be added; 0 if the window is full or overfull."""
    usage_percent: float
    """`total_tokens` in percent of the whole window: 100.0 is full."""
    fits: bool
    """Whether the conversation fits beside the reserved tokens."""


# counting -----------------------------------------------------------------------------------


def count_message_tokens(message: Message) -> int:
    """Estimate the tokens of one message, its tool calls included.

    Source: 004 `count-message-tokens`.
    """
    return estimate_message(message)


def count_messages_tokens(
    messages: Sequence[Message], *, tokenizer: Tokenizer | None = None
) -> int:
    """Count the tokens of messages with `tokenizer`, or estimate them without one.

    Source: 004 `count-messages-tokens`.
    """
    return estimate_messages(messages) if tokenizer is None else tokenizer.count(messages)


def count_block_tokens(name: str, block: Block) -> int:
    """Estimate the tokens of a memory block in the system message.

    Its label and template are included; a block that is read on demand counts as its one line.
    Source: 004 `count-memory-block-tokens`.
    """
    return estimate_tokens(_in_prompt(name, block))


def count_system_tokens(persona: str, blocks: Mapping[str, Block] | None = None) -> int:
    """Estimate the tokens of the system message: the persona or instructions, and memory blocks.

    Source: 004 `count-system-message-tokens`.
    """
    parts = [persona, *(_in_prompt(name, block) for name, block in (blocks or {}).items())]
    return estimate_message(system("\n\n".join(part for part in parts if part)))


def _in_prompt(name: str, block: Block) -> str:
    spec = BlockSpec(block) if isinstance(block, str) else block
    return spec.in_prompt(name, spec.value)


# measuring ----------------------------------------------------------------------------------


def analyze_usage(window: ContextWindow, messages: Sequence[Message]) -> ContextUsage:
    """How full a window is with these messages. Source: 004 `analyze-context-usage`."""
    taken = window.count(messages)
    total = taken + window.system_tokens
    return ContextUsage(
        total, max(0, window.room - taken), 100 * total / window.max_tokens, taken <= window.room
    )


def fits(window: ContextWindow, messages: Sequence[Message]) -> bool:
    """Whether the messages fit beside the reserved tokens. Source: 004 `check-context-fits`."""
    return analyze_usage(window, messages).fits


# shortening ---------------------------------------------------------------------------------


def optimize(
    window: ContextWindow, messages: Iterable[Message], *, model: Model | str | None = None,
    settings: Mapping[str, Any] | None = None, keep_first: int = 2,
) -> Messages:  # fmt: skip
    """Shorten the messages to fit into the window; unchanged if they already fit.

    A tool call and its replies stay together. The newest group of messages is always kept, even
    if it alone is too large: check with `fits`. `summarize` makes one call of `model`, a litellm
    name or any object with the `Model` port, with these settings; the oldest messages are left
    out if they do not fit into that call. `sliding` keeps `keep_first` groups at the beginning, or
    fewer if they leave no room.

    Raises:
        SetupError: `summarize` has no model, or the model cannot be used.
        ModelError: the call for the summary failed.

    Source: 004 `optimize-context`.
    """
    writer = _choose_summarizer(window, model, settings)
    suspends = writer is not None and writer.model.suspends
    return wait(_optimize(window, tuple(messages), writer, keep_first), suspends=suspends)


async def aoptimize(
    window: ContextWindow, messages: Iterable[Message], *, model: Model | str | None = None,
    settings: Mapping[str, Any] | None = None, keep_first: int = 2,
) -> Messages:  # fmt: skip
    """Shorten the messages to fit, inside a running event loop; see `optimize`."""
    writer = _choose_summarizer(window, model, settings)
    return await _optimize(window, tuple(messages), writer, keep_first)


class _Writer(NamedTuple):
    """The model that writes a summary, with its settings."""

    model: Model
    settings: Mapping[str, Any]


def _choose_summarizer(
    window: ContextWindow, model: Model | str | None, settings: Mapping[str, Any] | None
) -> _Writer | None:
    if window.strategy != "summarize":
        return None
    if model is None:
        raise SetupError("`summarize` needs a model that writes the summary", hint="give `model=`")
    options = dict(settings or {})
    if not isinstance(model, str):
        return _Writer(model, options)
    made = LiteLLM()
    options["name"] = model
    made.prepare(options)
    return _Writer(made, options)


async def _optimize(
    window: ContextWindow, messages: Messages, writer: _Writer | None, keep_first: int
) -> Messages:
    if window.count(messages) <= window.room:
        return messages
    if writer is not None:
        return await _summarize(window, messages, writer)
    first = keep_first if window.strategy == "sliding" else 0
    return sliding(messages, window.room, window.count, first=first)


async def _summarize(window: ContextWindow, messages: Messages, writer: _Writer) -> Messages:
    parts = split_messages(messages, window.room, window.count)
    if not parts.older:
        return messages
    question = window.count(parts._replace(older=()).request)
    older = newest(parts.older, window.max_tokens - window.response_tokens - question, window.count)
    request = ModelRequest(parts._replace(older=older).request, settings=writer.settings)
    return parts.with_summary((await writer.model.complete(request)).text)
