"""Pruning of the conversation: `prune_context` and its four strategies.

Every strategy keeps a call and its replies together.

Source: 004 "Optimization Strategies", "Summarize Strategy"; 003 "Context Overflow Recovery".
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from chartloop.actions.infer import complete
from chartloop.actions.tasks import done_when, reports_of
from chartloop.core.conversation import (
    Count,
    Messages,
    groups,
    newest,
    prunable,
    sliding,
    truncate,
    user,
    without_reopened,
)
from chartloop.core.outcome import NOTHING_SPENT, Message, Outcome, Spent
from chartloop.core.specs import ActionSpec, ArgSpec, Effect
from chartloop.core.traits import ActionTraits
from chartloop.core.transcript import Conversation, estimate_messages
from chartloop.core.types import COUNT, FRACTION, STR, struct
from chartloop.run.context import Context
from chartloop.run.fleet_calls import CallIntent

SUMMARIZE = (
    "Summarize the conversation so far for yourself: what was asked, what was decided and done, "
    "what is known and what is still open. Keep names, numbers and exact wording that will be "
    "needed. Write only the summary."
)
"""The model's instructions for the strategy `summarize`."""


class Pruned(NamedTuple):
    """A conversation after pruning, and the usage of the pruning."""

    messages: tuple[Message, ...]
    spent: Spent = NOTHING_SPENT
    warnings: tuple[str, ...] = ()


async def prune_context(
    ctx: Context, *, strategy: str = "sliding", keep_first: int = 2, target: float = 0.5,
    system_tokens: int = 0, response_tokens: int = 0,
) -> Outcome:  # fmt: skip
    """Prune the conversation to a share of the window, less the reserved tokens."""
    count = ctx.ports.tokenizer.count if ctx.ports.tokenizer is not None else estimate_messages
    messages = ctx.messages.whole()
    before = count(messages)
    window = ctx.facts.usage.context_window or before
    budget = max(0, int(window * target) - system_tokens - response_tokens)
    match strategy:
        case "truncate":
            pruned = Pruned(truncate(messages, budget, count, ctx.facts.run.task))
        case "essentials":
            pruned = Pruned(essentials(ctx, messages))
        case "summarize":
            pruned = await _summarize(ctx, messages, split_messages(messages, budget, count))
        case _:
            shorter = sliding(messages, budget, count, first=keep_first)
            pruned = Pruned(without_reopened(shorter, messages))
    after = count(pruned.messages)
    result = {"before": before, "after": after, "removed": len(messages) - len(pruned.messages)}
    if pruned.messages == messages:
        return Outcome(result=result, prunable=False)
    return Outcome(
        result=result, rewrite=pruned.messages, context_tokens=after + system_tokens,
        prunable=prunable(pruned.messages), spent=pruned.spent, warnings=pruned.warnings,
    )  # fmt: skip


def essentials(ctx: Context, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The current task, its acceptance criteria and the newest results, as one message.

    Source: 003 "Context Overflow Recovery" (current task, acceptance criteria, recent 3 commits).
    """
    task = ctx.facts.queue.current or (ctx.queue[0] if ctx.queue else None)
    parts = [f"Task: {task.text}" if task is not None else f"Task: {ctx.facts.run.task}"]
    if task is not None and task.acceptance:
        parts.append(done_when(task))
    parts += [f"Earlier result: {text}" for text in reports_of(ctx).results]
    short = (user("\n\n".join(parts)),)
    return messages if messages == short or not messages else short


SUMMARY = "Summary of the conversation so far:\n\n"
"""The text before a summary in the conversation."""


class SplitMessages(NamedTuple):
    """A conversation split for a summary."""

    older: Messages
    """The messages that a summary replaces; empty if there is only one group."""
    newest: Messages
    """The messages that are kept unchanged."""

    @property
    def request(self) -> Messages:
        """The request to the model for the summary."""
        return (*Conversation(self.older).sendable(), user(SUMMARIZE))

    def with_summary(self, text: str) -> Messages:
        """The conversation with the summary in place of the older messages."""
        return (user(SUMMARY + text), *self.newest)


def split_messages(messages: Messages, budget: int, count: Count) -> SplitMessages:
    """Split off the newest groups that fit into half of the budget, and at least one."""
    kept = newest(messages, budget // 2, count)
    if len(kept) < len(messages):
        return SplitMessages(messages[: len(messages) - len(kept)], kept)
    parts = groups(messages)
    if len(parts) < 2:
        return SplitMessages((), messages)
    return SplitMessages(messages[: -len(parts[-1])], parts[-1])


async def _summarize(ctx: Context, messages: Messages, parts: SplitMessages) -> Pruned:
    """Replace the older messages by a summary of the model."""
    if not parts.older:
        return Pruned(messages)
    about = {"state": ctx.state.name, "action": "prune_context"}
    intent = CallIntent(ctx.key, partial(ctx.intent, ctx.key, about))
    made = await complete(ctx, parts.request, intent=intent)
    return Pruned(parts.with_summary(made.reply.text), made.spent, made.warnings)


ACTIONS = (
    ActionSpec(
        "prune_context",
        prune_context,
        (
            ArgSpec(
                "strategy",
                "enum",
                STR,
                choices=("sliding", "truncate", "summarize", "essentials"),
                about="`sliding` keeps the first and the newest messages, `truncate` the task and "
                "the newest, `summarize` the newest after a summary by the model, `essentials` the "
                "current task with its acceptance criteria and the newest results.",
            ),
            ArgSpec(
                "keep_first",
                "value",
                COUNT,
                about="How many of the first groups `sliding` keeps; default 2.",
            ),
            ArgSpec(
                "target",
                "value",
                FRACTION,
                about="The share of the window to prune to; default 50%.",
            ),
            ArgSpec(
                "system_tokens", "value", COUNT, about="Tokens to keep free for the system message."
            ),
            ArgSpec("response_tokens", "value", COUNT, about="Tokens to keep free for the reply."),
        ),
        result=struct({"before": COUNT, "after": COUNT, "removed": COUNT}, keyed=True),
        work=False,
        effect=Effect.PAID,
        own_intents=True,
        suspends=False,
        may_use=frozenset({"model"}),
        changes=frozenset({"usage.messages", "usage.context_tokens", "usage.prunable"}),
        declares=ActionTraits(
            asks="text",
            calls="none",
            runs="none",
            fails="by_fields",
            step="system",
            family="prune",
            asks_if=("strategy", "summarize"),
        ),
        about="Prunes the conversation, keeping calls and their replies together.",
    ),
)
