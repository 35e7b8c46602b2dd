"""Requests of an MCP server to the run while it carries out one of its calls.

A question blocks the action until someone answers, and its call stays in flight. A model call goes
through the run's own model: written down before and after it like every paid call, and refused past
what the file allows and where a limit of the run is spent.

Belongs here: one call of a server's tool, as the action that makes it sees it. Never: the protocol
(`adapters.mcp_servers`).
Source: Model Context Protocol, "Elicitation", "Sampling".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from chartloop.actions.infer import Asked, complete
from chartloop.core.errors import ModelError
from chartloop.core.facts import EMPTY
from chartloop.core.fold import lookup
from chartloop.core.outcome import NOTHING_SPENT, Blocked, Outcome, Spent
from chartloop.core.position import ELICITATION
from chartloop.language.server_tools import Sampling, ServerSpec
from chartloop.machine.child_budget import OWN, budgets_of
from chartloop.run.context import Context
from chartloop.run.elicitation import InputRequired, RequestIds
from chartloop.run.ports import SampleRequest, SamplingRefused

SAMPLED = "sampled"
"""In the result of a model call that a server asked for: what it spent, by field of `Spent`."""
_COUNTED = {
    "usage.llm_calls": ("llm_calls",), "usage.prompt_tokens": ("prompt_tokens",),
    "usage.completion_tokens": ("completion_tokens",), "usage.cost": ("cost",),
    "usage.total_tokens": ("prompt_tokens", "completion_tokens"),
}  # fmt: skip


class ServerCalls:
    """All calls of servers' tools that one action makes, and the usage of their model calls."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        kept = ctx.kept.get(ELICITATION, EMPTY)
        self.answers: Mapping[str, Any] = (
            kept["answers"] if kept.get("action") == ctx.key else EMPTY
        )
        self.started = sum(1 for _ in self._sampled(""))
        """Model calls that were started, those of an earlier attempt included."""
        self.blocked: list[InputRequired] = []
        """The questions that calls have come to."""

    def call(self, key: str, tool: str) -> ServerCall:
        """One call of a tool."""
        return ServerCall(self, key, tool)

    def _sampled(self, key: str) -> Iterator[Mapping[str, Any]]:
        """The usage of each model call, of one call or of all."""
        below = f"{key or self.ctx.key}/"
        for name, data in self.ctx.recorded.items():
            if name.startswith(below) and SAMPLED in data:
                yield data[SAMPLED]

    def spent(self, key: str = "") -> Spent:
        """The usage of the model calls of one call, or of all."""
        total = NOTHING_SPENT
        for part in self._sampled(key):
            if "failed" not in part:
                total = total.plus(Spent(**part))
        return total

    def attempts(self, key: str) -> int:
        """The model calls of one call, those that failed included."""
        return sum(1 for _ in self._sampled(key))

    def counted(self, outcome: Outcome) -> Outcome:
        """The outcome of the action with what the model calls of its servers used."""
        if not self.started:
            return outcome
        spent = self.spent()
        return outcome.replace(
            spent=spent.plus(outcome.spent),
            unanswered=outcome.unanswered + self.started - spent.llm_calls,
        )

    def done(self, outcome: Outcome) -> Outcome:
        """The outcome of the action, which has finished: its questions are over."""
        if self.ctx.kept.get(ELICITATION):
            return outcome.replace(kept={**outcome.kept, ELICITATION: {}})
        return outcome

    def wait(self) -> Blocked:
        """The action waits for an answer to the first of its questions.

        One that was asked before an interruption keeps its deadline.
        """
        ctx, asked = self.ctx, self.blocked[0]
        until = ctx.ports.clock.now() + asked.within
        if ctx.deadline is not None:
            until = min(until, ctx.deadline)
        kept, before = ctx.kept.get(ELICITATION, EMPTY), ctx.blocked_until
        if before is not None and kept.get("form", EMPTY) == asked.form.to_mapping():
            until = min(until, before)
        return Blocked(until, ELICITATION, asked.form.to_mapping())


class ServerCall:
    """One call of a server's tool. Source: the port `ToolClient`."""

    def __init__(self, calls: ServerCalls, key: str, tool: str) -> None:
        self.calls = calls
        self.key = key
        self.tool = tool
        self.action = calls.ctx.key
        self.answers = calls.answers
        self.warnings: list[str] = []
        self._ids = RequestIds()

    @property
    def asks_nobody(self) -> bool:
        """Whether no one can answer a question of this run."""
        return self.calls.ctx.ports.questions == "decline"

    def _warn(self, text: str) -> None:
        self.warnings.append(f"{self.tool}: {text}")

    async def sample(self, server: ServerSpec, request: SampleRequest) -> Mapping[str, Any]:
        """The model's reply to a server's messages: `text`, `model` and `finish_reason`.

        What was recorded before an interruption is not asked again. `SamplingRefused` says why not.
        """
        ctx, allowed = self.calls.ctx, server.sampling
        if allowed is None:
            raise SamplingRefused("the machine's file does not allow this server model calls")
        key = f"{self.key}/model/{self._ids.next(request.to_mapping())}"
        if (known := ctx.recorded.get(key)) is not None and "text" in known:
            return known
        if why := self._refusal(allowed):
            self._warn(f"a model call was refused: {why}")
            raise SamplingRefused(why)
        number, self.calls.started = self.calls.started, self.calls.started + 1
        await ctx.intent(key, {"state": ctx.state.name, "tool": self.tool})
        # its text is the server's: no one who listens to the run hears it
        quiet = replace(ctx, failed_calls=ctx.failed_calls + number, left=True)
        most = [n for n in (request.max_tokens, self._tokens_left(allowed)) if n is not None]
        asked = Asked(
            max_tokens=min(most, default=None), temperature=request.temperature,
            stop=list(request.stop) or None,
        )  # fmt: skip
        try:
            answered = await complete(quiet, request.messages, asked=asked)
        except ModelError as error:
            await ctx.result(key, {"error": error.message, SAMPLED: {"failed": 1}})
            self._warn(f"a model call failed: {error.message}")
            raise SamplingRefused(f"the model call failed: {error.message}") from None
        for warning in answered.warnings:
            self._warn(warning)
        spent = {n: v for n, v in answered.spent.to_mapping().items() if n != "tools" and v}
        reply = answered.reply
        data = {
            "text": reply.text, "model": reply.model, "finish_reason": reply.finish_reason,
            SAMPLED: spent,
        }  # fmt: skip
        await ctx.result(key, data)
        return data

    def _refusal(self, allowed: Sampling) -> str:
        """Why the file or a limit of the run does not allow another call; empty when they do."""
        if self.calls.attempts(self.key) >= allowed.calls:
            return f"`sampling` allows {allowed.calls} model calls in one call of a tool"
        left = self._tokens_left(allowed)
        if left is not None and left <= 0:
            return f"`sampling` allows {allowed.tokens:,} tokens in one call of a tool"
        name = spent_limit(self.calls.ctx, self.calls.spent())
        return f"`limits.{name}` of the run is spent" if name else ""

    def _tokens_left(self, allowed: Sampling) -> int | None:
        if allowed.tokens is None:
            return None
        spent = self.calls.spent(self.key)
        return allowed.tokens - spent.prompt_tokens - spent.completion_tokens


def spent_limit(ctx: Context, spent: Spent) -> str:
    """The name of a budget of the run that is spent, with what the action has used so far."""
    for name, facts in budgets_of(ctx.machine, ctx.machine).items():
        limit = ctx.facts.limits.get(name)
        if limit is None or facts & OWN:
            continue
        for fact in facts:
            more = sum(getattr(spent, field) or 0 for field in _COUNTED.get(fact, ()))
            if (lookup(ctx.facts, fact) or 0) + more >= limit:
                return name
    return ""
