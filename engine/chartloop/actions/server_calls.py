"""Requests of MCP servers to the run during their calls: questions and model calls.

A question blocks the action until it is answered, while its call stays in flight. A model call uses
the run's model: it is recorded like every paid call, and refused beyond what the file allows or
once a limit of the run is spent.

Belongs here: one call of a server's tool, from the side of the action. Never: the protocol
(`adapters.mcp_servers`).
Source: Model Context Protocol, "Elicitation", "Sampling".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from chartloop.actions.infer import CallSettings, complete
from chartloop.core.errors import ModelError, ToolError
from chartloop.core.facts import EMPTY
from chartloop.core.fold import lookup
from chartloop.core.outcome import NOTHING_SPENT, Blocked, Outcome, Spent
from chartloop.core.position import ELICITATION
from chartloop.core.reasons import AgentStop
from chartloop.language.server_tools import Sampling, ServerSpec
from chartloop.machine.child_budget import OWN, budgets_of
from chartloop.run.context import Context
from chartloop.run.elicitation import InputRequired, RequestIds
from chartloop.run.fleet_calls import CallIntent
from chartloop.run.ports import SampleRequest, SamplingRefused

SAMPLED = "sampled"
"""The key for the usage of a server's model call, by field of `Spent`, in its recorded result."""
_COUNTED = {
    "usage.llm_calls": ("llm_calls",), "usage.prompt_tokens": ("prompt_tokens",),
    "usage.completion_tokens": ("completion_tokens",), "usage.cost": ("cost",),
    "usage.total_tokens": ("prompt_tokens", "completion_tokens"),
}  # fmt: skip


class ServerCalls:
    """The calls of servers' tools by one action, and the usage of their model calls."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        kept = ctx.kept.get(ELICITATION, EMPTY)
        self.answers: Mapping[str, Any] = (
            kept["answers"] if kept.get("action") == ctx.key else EMPTY
        )
        self.started = sum(1 for _ in self._sampled(""))
        """The number of started model calls, including those before an interruption."""
        self.blocked: list[InputRequired] = []
        """The questions at which calls wait."""

    def call(self, key: str, tool: str) -> ServerCall:
        """The handle for one call of a tool."""
        return ServerCall(self, key, tool)

    def _sampled(self, key: str) -> Iterator[Mapping[str, Any]]:
        """The recorded usage of each model call, for one tool call or for all."""
        below = f"{key or self.ctx.key}/"
        for name, data in self.ctx.recorded.items():
            if name.startswith(below) and SAMPLED in data:
                yield data[SAMPLED]

    def spent(self, key: str = "") -> Spent:
        """The total usage of model calls, for one tool call or for all."""
        total = NOTHING_SPENT
        for part in self._sampled(key):
            if "failed" not in part:
                total = total.plus(Spent(**part))
        return total

    def attempts(self, key: str) -> int:
        """The number of model calls in one tool call, including failed ones."""
        return sum(1 for _ in self._sampled(key))

    def counted(self, outcome: Outcome) -> Outcome:
        """Add the usage of the servers' model calls to the action's outcome."""
        if not self.started:
            return outcome
        spent = self.spent()
        return outcome.replace(
            spent=spent.plus(outcome.spent),
            unanswered=outcome.unanswered + self.started - spent.llm_calls,
        )

    def done(self, outcome: Outcome) -> Outcome:
        """Remove the questions of the finished action from its outcome."""
        if self.ctx.kept.get(ELICITATION):
            return outcome.replace(kept={**outcome.kept, ELICITATION: {}})
        return outcome

    def wait(self) -> Blocked:
        """Block the action until its first question is answered.

        A question from before an interruption keeps its deadline.
        """
        ctx, question = self.ctx, self.blocked[0]
        until = ctx.ports.clock.now() + question.within
        if ctx.deadline is not None:
            until = min(until, ctx.deadline)
        kept, before = ctx.kept.get(ELICITATION, EMPTY), ctx.blocked_until
        if before is not None and kept.get("form", EMPTY) == question.form.to_mapping():
            until = min(until, before)
        return Blocked(until, ELICITATION, question.form.to_mapping())


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
        """Whether questions of this run are declined because no one can answer."""
        return self.calls.ctx.ports.questions == "decline"

    def _warn(self, text: str) -> None:
        self.warnings.append(f"{self.tool}: {text}")

    async def sample(self, server: ServerSpec, request: SampleRequest) -> Mapping[str, Any]:
        """Call the model with a server's messages; return `text`, `model` and `finish_reason`.

        A call that was recorded before an interruption is not repeated. Raises `SamplingRefused`
        with the reason if the call is not allowed.
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
        # the text belongs to the server: it is not streamed to the run's listeners
        quiet = replace(ctx, failed_calls=ctx.failed_calls + number, gone=[True])
        most = [n for n in (request.max_tokens, self._tokens_left(allowed)) if n is not None]
        settings = CallSettings(
            max_tokens=min(most, default=None), temperature=request.temperature,
            stop=list(request.stop) or None,
        )  # fmt: skip
        about = {"state": ctx.state.name, "tool": self.tool}
        intent = CallIntent(key, partial(ctx.intent, key, about))
        try:
            completion = await complete(quiet, request.messages, call=settings, intent=intent)
        except (AgentStop, ToolError) as error:  # of limits across runs: it was not made
            self._warn(f"a model call was refused: {error.message}")
            raise SamplingRefused(error.message) from None
        except ModelError as error:
            used = {"failed": 1} if error.spent is None else _amounts(error.spent)
            await ctx.result(key, {"error": error.message, SAMPLED: used})
            self._warn(f"a model call failed: {error.message}")
            raise SamplingRefused(f"the model call failed: {error.message}") from None
        for warning in completion.warnings:
            self._warn(warning)
        reply = completion.reply
        data = {
            "text": reply.text, "model": reply.model, "finish_reason": reply.finish_reason,
            SAMPLED: _amounts(completion.spent),
        }  # fmt: skip
        await ctx.result(key, data)
        return data

    def _refusal(self, allowed: Sampling) -> str:
        """Why the file or a limit of the run forbids another call; empty if it is allowed."""
        if self.calls.attempts(self.key) >= allowed.calls:
            return f"`sampling` allows {allowed.calls} model calls in one call of a tool"
        tokens_left = self._tokens_left(allowed)
        if tokens_left is not None and tokens_left <= 0:
            return f"`sampling` allows {allowed.tokens:,} tokens in one call of a tool"
        name = spent_limit(self.calls.ctx, self.calls.spent())
        return f"`limits.{name}` of the run is spent" if name else ""

    def _tokens_left(self, allowed: Sampling) -> int | None:
        if allowed.tokens is None:
            return None
        spent = self.calls.spent(self.key)
        return allowed.tokens - spent.prompt_tokens - spent.completion_tokens


def _amounts(spent: Spent) -> dict[str, Any]:
    return {name: n for name, n in spent.to_mapping().items() if name != "tools" and n}


def spent_limit(ctx: Context, spent: Spent) -> str:
    """The first budget of the run that is spent, counting the action's usage; empty if none is."""
    for name, facts in budgets_of(ctx.machine, ctx.machine).items():
        limit = ctx.facts.limits.get(name)
        if limit is None or facts & OWN:
            continue
        for fact in facts:
            more = sum(getattr(spent, field) or 0 for field in _COUNTED.get(fact, ()))
            if (lookup(ctx.facts, fact) or 0) + more >= limit:
                return name
    return ""
