"""Pruning of the conversation: `prune_context` and its four strategies.

Every strategy keeps a call and its replies together.

Source: 004 "Optimization Strategies", "Summarize Strategy"; 003 "Context Overflow Recovery".
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Literal, NamedTuple

from chartloop.actions.annotations import Field, Fraction
from chartloop.actions.declare import action
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
from chartloop.core.traits import ASKS_MODEL
from chartloop.core.transcript import Conversation, estimate_messages
from chartloop.core.types import COUNT, STR, struct
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


TARGET = 0.5
Strategy = Literal["sliding", "truncate", "summarize", "essentials"]
Whole = Annotated[int, Field(type=COUNT)]


@action(
    work=False, suspends=False, intents="own",
    traits=replace(ASKS_MODEL, fails="by_fields", asks_if=("strategy", "summarize")),
    changes=("usage.messages", "usage.context_tokens", "usage.prunable"),
    result=struct({"before": COUNT, "after": COUNT, "removed": COUNT}, keyed=True),
    reads=("messages", "queue", "task"),
)  # fmt: skip
async def prune_context(
    ctx: Context, *, strategy: Annotated[Strategy, Field(type=STR)] = "sliding",
    keep_first: Whole = 2, target: Annotated[float, Fraction] = TARGET,
    system_tokens: Whole = 0, response_tokens: Whole = 0,
) -> Outcome:  # fmt: skip
    """Prunes the conversation, keeping calls and their replies together.

    Args:
        strategy: `sliding` keeps the first and the newest messages, `truncate` the task and the
            newest, `summarize` the newest after a summary by the model, `essentials` the current
            task with its acceptance criteria and the newest results.
        keep_first: How many of the first groups `sliding` keeps; default 2.
        target: The share of the window to prune to; default 50%.
        system_tokens: Tokens to keep free for the system message.
        response_tokens: Tokens to keep free for the reply.
    """
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
