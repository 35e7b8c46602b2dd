"""The interface of document 000 over the machine `geist`: its examples run with new imports.

    from chartloop.compat.geist import AgentContext, AgentExecutor, GPT4Agent

    agent = GPT4Agent(agent_context=AgentContext())
    result = AgentExecutor(agent).execute(task="Research Python async patterns")

Nothing here decides when to stop. Conditions become limits and variables of the machine; its stop
reason and records become a result.

Source: 000 "New Components", "Code Examples", "Observability".
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, Literal, overload

from chartloop.actions.declare import guard_spec
from chartloop.adapters.cancel import SignalCancellation
from chartloop.adapters.journal.opening import JournalOrPath
from chartloop.api import Run
from chartloop.compat.geist_agent import (
    AgentContext,
    AgentSettings,
    BaseAgent,
    GPT4Agent,
    contexts,
    overrides,
    start_of,
)
from chartloop.core.errors import RunError, SetupError
from chartloop.core.plain import plain
from chartloop.core.records import Record
from chartloop.run.trace import Call, Trace, TraceStep

__all__ = [
    "AgentContext", "AgentExecutionResult", "AgentExecutor", "AgentSettings",
    "AgentStoppingConditions", "BaseAgent", "ExecutionError", "GPT4Agent", "StoppingReason",
]  # fmt: skip


class StoppingReason(Enum):
    """Why the agent stopped executing."""

    TASK_COMPLETE = "task_complete"
    MAX_ITERATIONS = "max_iterations"
    MAX_TOKENS = "max_tokens"
    TIMEOUT = "timeout"
    ERROR_THRESHOLD = "error_threshold"
    USER_INTERRUPT = "user_interrupt"
    NO_PROGRESS = "no_progress"
    CUSTOM_CONDITION = "custom_condition"


REASONS = {
    "completed": StoppingReason.TASK_COMPLETE,
    "steps_limit": StoppingReason.MAX_ITERATIONS,
    "token_limit": StoppingReason.MAX_TOKENS,
    "time_limit": StoppingReason.TIMEOUT,
    "error_threshold": StoppingReason.ERROR_THRESHOLD,
    "user_requested": StoppingReason.USER_INTERRUPT,
    "no_progress": StoppingReason.NO_PROGRESS,
    "custom": StoppingReason.CUSTOM_CONDITION,
}
"""The document's stopping reasons by the machine's stop reasons. `AgentStop`, raised by an adapter,
is a custom condition too."""


@dataclass(slots=True)
class AgentStoppingConditions:
    """When to stop. None or 0 turns a condition off; for errors, 0 allows none."""

    max_iterations: int | None = 25
    max_tokens: int | None = None
    """The most tokens of all model calls together."""
    timeout_seconds: float | None = None
    max_consecutive_errors: int = 3
    max_total_errors: int = 10
    require_progress_every_n_ticks: int | None = 5
    custom_condition: Callable[[AgentContext], bool] | None = None
    completion_markers: list[str] = field(default_factory=lambda: ["TASK_COMPLETE", "[DONE]", "✓"])
    stop_when_task_queue_empty: bool = True
    warn_at_token_percentage: float = 0.8
    early_stopping: Literal["force", "generate"] = "force"
    """`generate`: make one last call for a final answer, if tokens and time are left."""

    def __post_init__(self) -> None:
        if self.early_stopping not in ("force", "generate"):
            raise ValueError(f"early_stopping is force or generate, not {self.early_stopping!r}")

    @property
    def limits(self) -> dict[str, Any]:
        """The limits of the machine `geist`."""
        return {
            "max_iterations": self.max_iterations or None,
            "max_tokens": self.max_tokens or None,
            "timeout_seconds": self.timeout_seconds or None,
            "max_consecutive_errors": self.max_consecutive_errors,
            "max_total_errors": self.max_total_errors,
            "require_progress_every_n_ticks": self.require_progress_every_n_ticks or None,
            "completion_markers": self.completion_markers,
            "warn_at_token_percentage": self.warn_at_token_percentage,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data under the document's names. The custom condition is given by its name."""
        custom = self.custom_condition
        conditions = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name != "custom_condition"
        }
        return {**conditions, "custom_condition": getattr(custom, "__name__", None)}


class ExecutionError(Exception):
    """A failed tick. The text describes the error; `step` is the number of the run's step."""

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"message": str(self), "step": self.step}


@dataclass(slots=True)
class AgentExecutionResult:
    """The result of an execution, so far if it is streamed. Times in seconds."""

    stopping_reason: StoppingReason | None
    """None while the execution continues."""
    success: bool
    """Whether the task is complete."""
    iterations_completed: int
    tokens_used: int
    execution_time_seconds: float
    final_context: AgentContext
    tick_history: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The contexts after each tick, with `tokens_used` and `seconds`."""
    function_calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """`iteration`, `name`, `arguments`, `ok` and `result` of each call, also in failed ticks."""
    errors: list[Exception] = field(default_factory=list[Exception])
    result: Any = None
    """The completion message of the agent, or the final answer of `early_stopping`."""
    partial_results: list[Any] = field(default_factory=list[Any])
    """The result of each tick's execution."""
    warnings: list[str] = field(default_factory=list[str])
    token_usage_timeline: list[int] = field(default_factory=list[int])
    """Tokens used by the end of each tick."""
    execution_timeline: list[float] = field(default_factory=list[float])
    """Seconds from the start to the end of each tick."""

    @property
    def current_state(self) -> dict[str, list[str]]:
        """The three contexts."""
        return self.final_context.state

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, in the format of the document's API.

        Source: 000 "Proposed Geist API".
        """
        reason = self.stopping_reason
        special = {
            "stopping_reason": None if reason is None else reason.value,
            "final_context": self.final_context.to_dict(),
            "errors": [
                error.to_dict() if isinstance(error, ExecutionError) else {"message": str(error)}
                for error in self.errors
            ],
        }
        return {f.name: special.get(f.name, plain(getattr(self, f.name))) for f in fields(self)}


class AgentExecutor:
    """Executes an agent until a stopping condition holds.

    `run` is the chartloop run of the newest execution: `run.why()`, `run.trace()`. With a
    `journal` it can be resumed. Ctrl-C, `interrupt` and leaving a stream stop it with
    `USER_INTERRUPT`. A subclass that overrides a method that is never called raises `SetupError`.
    """

    def __init__(
        self, agent: BaseAgent, stopping_conditions: AgentStoppingConditions | None = None, *,
        journal: JournalOrPath | None = None,
    ) -> None:  # fmt: skip
        for method in ("tick", "atick", "initialize"):
            if overrides(agent, method):
                raise SetupError(
                    f"an executor never calls `{type(agent).__name__}.{method}`",
                    hint="override `tick_world`, `tick_tasks` or `tick_execution`",
                )
        self.agent = agent
        self.conditions = stopping_conditions or AgentStoppingConditions()
        self.run: Run | None = None
        self._journal = journal
        self._raised: BaseException | None = None
        self._log: list[str] = []
        """The function log before the newest execution."""
        self._judged: dict[tuple[int, int], bool] = {}
        """What the custom condition said, by iterations and errors: it is asked once a round."""
        self._written: dict[str, list[str]] = {}
        """Lists that the custom condition changed, until the run has them."""
        self._interrupts = SignalCancellation(signal.SIGINT)

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if never := sorted(NEVER_CALLED.intersection(vars(cls))):
            raise SetupError(
                f"`{cls.__name__}.{never[0]}` would never be called: the machine `geist` decides",
                hint="give an `AgentStoppingConditions`, or change a copy of the machine",
            )

    # properties of the document's executor ----------------------------------------------------

    @property
    def iteration_count(self) -> int:
        """Finished ticks of the newest execution."""
        return 0 if self.run is None else _iterations(self.run)

    @property
    def token_count(self) -> int:
        """Tokens used so far."""
        return 0 if self.run is None else self.run.facts.usage.total_tokens

    @property
    def error_count(self) -> int:
        """Failed ticks so far."""
        return 0 if self.run is None else self.run.facts.errors.total

    @property
    def consecutive_errors(self) -> int:
        """Failed ticks in a row."""
        return 0 if self.run is None else self.run.facts.errors.consecutive

    @property
    def start_time(self) -> float | None:
        """The start in seconds since 1970-01-01 UTC; None before an execution."""
        return None if self.run is None else self.run.facts.run.started_at

    @property
    def last_progress_tick(self) -> int:
        """The iteration at which progress was last seen."""
        return 0 if self.run is None else int(self.run.facts.vars["last_progress"])

    @property
    def tick_history(self) -> list[dict[str, Any]]:
        """The contexts after each finished tick."""
        return [] if self.run is None else [_tick(step) for step in _ticks(self.run.trace())]

    # execution --------------------------------------------------------------------------------

    @overload
    def execute(
        self, task: str | None = ..., stream_updates: Literal[False] = ...
    ) -> AgentExecutionResult: ...
    @overload
    def execute(
        self, task: str | None = ..., *, stream_updates: Literal[True]
    ) -> Generator[AgentExecutionResult, None, AgentExecutionResult]: ...
    def execute(self, task: str | None = None, stream_updates: bool = False) -> Any:
        """Execute until a stopping condition holds. Without a task, work on the task queue.

        With `stream_updates`, return a generator: a result after each tick, the final one last.
        """
        run = self._begin(task, stream_updates)
        return self._stream(run) if stream_updates else self._whole(run)

    async def aexecute(self, task: str | None = None) -> AgentExecutionResult:
        """Execute inside a running event loop; see `execute`."""
        run = self._begin(task, False)
        with self._listening():
            while await self._astep(run) is not None:
                pass
        return self._end_result(run, await run.atrace())

    async def astream(self, task: str | None = None) -> AsyncGenerator[AgentExecutionResult]:
        """Yield a result after each tick, the final one last; see `execute`."""
        run = self._begin(task, True)
        try:
            while (record := await self._astep(run)) is not None:
                if record.state == "partial":
                    yield self._result(run, await run.atrace())
        except GeneratorExit:
            self.interrupt()
            await run.arun()
            raise
        yield self._end_result(run, await run.atrace())

    def interrupt(self) -> None:
        """Stop before the next action. Works from any thread, and from an adapter."""
        self._interrupts.request()

    # the run of the machine ------------------------------------------------------------------

    def _begin(self, task: str | None, streaming: bool) -> Run:
        self._log = list(self.agent.agent_context.function_log)
        self._judged, self._written = {}, {}
        agent, conditions = self.agent, self.conditions
        variables = {
            **contexts(agent.agent_context),
            "stop_when_task_queue_empty": conditions.stop_when_task_queue_empty,
            "early_stopping": conditions.early_stopping,
            "stream_updates": streaming,
        }
        self.run = run = start_of(
            agent,
            "geist",
            task or "",
            loaded=self._load_options(),
            limits=conditions.limits,
            vars=variables,
            journal=self._journal or agent.journal,
        )
        self._interrupts.reset()
        run.session.cancels.append(self._interrupts)
        return run

    def _load_options(self) -> dict[str, Any]:
        """The options of `load` for the custom condition: a guard and its definition."""
        custom = self.conditions.custom_condition
        if custom is None:
            return {}

        def holds(  # noqa: PLR0917  the fields of an `AgentContext`
            world: list[str], tasks: list[str], execution: list[str], log: list[str],
            tokens: int, started: float, iterations: int, errors: int,
        ) -> bool:  # fmt: skip
            # a replay or an edit decides again: the answer, and what was written, stay the same
            if (iterations, errors) in self._judged:
                return self._judged[iterations, errors]
            context = self.agent.agent_context
            current = {
                "world_context": world, "task_context": tasks, "execution_context": execution,
                "function_log": log,
            }  # fmt: skip
            context.take(current)
            context.total_tokens_used, context.execution_start_time = tokens, started
            given = {name: list(getattr(context, name)) for name in current}
            try:
                answer = bool(custom(context))
            except BaseException as error:
                self._raised = error
                raise
            after = {name: list(getattr(context, name)) for name in current}
            self._written = {name: after[name] for name in current if after[name] != given[name]}
            if "function_log" in self._written:  # it only grows; its entries stay as they were made
                added = after["function_log"][len(given["function_log"]) :]
                self._written["function_log"] = [*log, *added]
            self._judged[iterations, errors] = answer
            return answer

        return {
            "guards": [guard_spec(holds, name="holds")],
            "define": {"custom_condition": CUSTOM},
        }

    def _whole(self, run: Run) -> AgentExecutionResult:
        while self._step(run) is not None:
            pass
        return self._end_result(run, run.trace())

    def _stream(self, run: Run) -> Generator[AgentExecutionResult, None, AgentExecutionResult]:
        """Execute one tick per request of the caller."""
        try:
            while (record := self._step(run)) is not None:
                if record.state == "partial":
                    yield self._result(run, run.trace())
        except GeneratorExit:
            self.interrupt()
            self._whole(run)
            raise
        final = self._end_result(run, run.trace())
        yield final
        return final

    def _step(self, run: Run) -> Record | None:
        with self._listening():
            record = run.advance()
            while self._written:
                name, value = self._written.popitem()
                run.set(f"vars.{name}", value)
            return record

    async def _astep(self, run: Run) -> Record | None:
        record = await run.aadvance()
        while self._written:
            name, value = self._written.popitem()
            await run.aset(f"vars.{name}", value)
        return record

    def _listening(self) -> AbstractContextManager[Any]:
        """A context in which Ctrl-C requests a stop. Only the main thread receives signals."""
        main = threading.current_thread() is threading.main_thread()
        return self._interrupts if main else nullcontext()

    def _end_result(self, run: Run, trace: Trace) -> AgentExecutionResult:
        if self._raised is not None:
            raise self._raised
        if str(run.result.reason) not in REASONS:
            raise RunError(run.result.explain())
        return self._result(run, trace, REASONS[str(run.result.reason)])

    def _result(
        self, run: Run, trace: Trace, reason: StoppingReason | None = None
    ) -> AgentExecutionResult:
        result, facts, context = run.result, run.facts, self.agent.agent_context
        variables = plain(facts.vars)
        log = _log(trace, self._log, variables["function_log"])
        context.take({**variables, "function_log": log})
        context.is_complete = variables["is_complete"]
        context.completion_message = variables["completion_message"] or None
        context.total_tokens_used = facts.usage.total_tokens
        context.execution_start_time = facts.run.started_at
        ticks = _ticks(trace)
        return AgentExecutionResult(
            reason, reason is StoppingReason.TASK_COMPLETE, _iterations(run),
            facts.usage.total_tokens, facts.run.elapsed, replace(context),
            [_tick(step) for step in ticks], _calls(trace),
            [ExecutionError(e["message"], e["step"]) for e in result.errors],
            variables["final_answer"] or context.completion_message,
            [step.result["output"]["execution_context"] for step in ticks],
            list(result.warnings), [s.total_tokens for s in ticks], [s.ended for s in ticks],
        )  # fmt: skip


NEVER_CALLED = frozenset({
    "_check_stopping_conditions", "_check_completion_markers", "_has_made_progress",
    "_execute_tick", "_handle_error", "_build_result", "_build_partial_result",
})  # fmt: skip
"""Methods of the document's executor that are never called: the machine does their work."""


CUSTOM = (
    "holds(vars.world_context, vars.task_context, vars.execution_context, vars.function_log,"
    " usage.total_tokens, run.started_at, run.visits.record_tick, errors.total)"
)
"""The machine's `custom_condition` for a condition in Python."""


def _iterations(run: Run) -> int:
    return run.facts.run.visits.get("record_tick", 0)


def _ticks(trace: Trace) -> list[TraceStep]:
    return [step for step in trace if step.state == "tick" and step.ok]


def _log(trace: Trace, before: list[str], now: list[str]) -> list[str]:
    """The function log, with the calls of failed and interrupted ticks in their order.

    `now` is the log of the run: a custom condition may have added to it after the newest tick.
    """
    out, seen = list(before), len(before)
    for step in trace:
        if step.state == "tick" and step.ok:
            log = step.result["output"]["function_log"]
            out += log[seen:]
            seen = len(log)
        elif step.state == "tick":
            out += [_line(call) for call in Trace([step]).calls]
    return out + now[seen:]


def _line(call: Call) -> str:
    result = call.result if isinstance(call.result, str) else json.dumps(call.result, default=str)
    return f"{call.name} {json.dumps(call.arguments)} -> {result}"


def _tick(step: TraceStep) -> dict[str, Any]:
    took = step.ended - step.started
    return {**step.result["output"], "tokens_used": step.tokens, "seconds": took}


def _calls(trace: Trace) -> list[dict[str, Any]]:
    """All calls of adapters, also in failed ticks."""
    out: list[dict[str, Any]] = []
    iteration = 1
    for step in trace:
        for call in Trace([step]).calls:
            entry = {"name": call.name, "arguments": call.arguments, "ok": call.ok}
            out.append({"iteration": iteration, **entry, "result": call.result})
        iteration += step.state == "tick" and step.ok
    return out
