"""The endpoints of document 000, in its shapes, over the names of `compat.geist`.

An execution is driven on a worker's loop like every run, and its run is in the journal. Conditions
and adapters, which the document passes as Python, are never part of a request: adapters are the
server's own tools, chosen by name.

Source: 000 "Proposed Geist API", "Phase 2: Update API Endpoints", "Streaming Support".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from chartloop.actions.declare import specs_of
from chartloop.compat.geist import AgentExecutor, AgentStoppingConditions
from chartloop.compat.geist_agent import AgentContext, AgentSettings, GPT4Agent
from chartloop.core.errors import RunError, StatusError, nearest
from chartloop.core.specs import ToolSpec
from chartloop.hosting.asking import fit, in_lane
from chartloop.hosting.problems import Refusal, Wrong, problem_of
from chartloop.hosting.server.common import (
    CHANGES,
    DRIVE,
    STREAM,
    Parts,
    Rooms,
    TheParts,
    TheReach,
    problems,
)
from chartloop.hosting.server.shapes import Body, Text
from chartloop.run.tenants import Reach

router = Rooms(prefix="/agent", tags=["Geist"], dependencies=[DRIVE])
T = TypeVar("T")
Count = Annotated[int, Field(ge=0, le=2**31)]
RAN = problems(*CHANGES, 502)
_PYTHON = "Python is never taken from a request"


class SettingsBody(Body):
    """The settings of an agent's model calls: `AgentSettings`."""

    max_tokens: Annotated[int, Field(ge=1, le=2**31)] | None = None
    temperature: Annotated[float, Field(ge=0, le=10)] | None = None
    include_world_processing: bool = True


class ConditionsBody(Body):
    """The stopping conditions: `AgentStoppingConditions`. 0 or null switches a condition off."""

    max_iterations: Count | None = 25
    max_tokens: Count | None = None
    timeout_seconds: Annotated[float, Field(ge=0, le=1e9)] | None = None
    max_consecutive_errors: Count = 3
    max_total_errors: Count = 10
    require_progress_every_n_ticks: Count | None = 5
    custom_condition: Any = None
    """Refused over HTTP, since it is Python."""
    completion_markers: Annotated[list[str], Field(max_length=100)] = Field(
        default_factory=lambda: ["TASK_COMPLETE", "[DONE]", "✓"]
    )
    stop_when_task_queue_empty: bool = True
    warn_at_token_percentage: Annotated[float, Field(ge=0, le=1)] = 0.8
    early_stopping: Literal["force", "generate"] = "force"


class AgentBody(Body):
    """A task with the settings of the agent."""

    task: Annotated[str, Field(min_length=1, max_length=200_000)]
    agent_settings: SettingsBody = Field(default_factory=SettingsBody)
    execution_classes: list[Any] | None = None
    """Names of the server's tools that the agent may call; null: all of them."""


class TickBody(AgentBody):
    """A task for a single tick."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"task": "Send email to user@example.com", "agent_settings": {}}]
        },
    )


class ExecuteBody(AgentBody):
    """A task to execute until a stopping condition holds."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "task": "Send email to user@example.com",
                    "agent_settings": {},
                    "stopping_conditions": {
                        "max_iterations": 10,
                        "max_tokens": 50000,
                        "timeout_seconds": 60.0,
                        "stop_when_task_queue_empty": True,
                    },
                    "stream": False,
                }
            ]
        },
    )
    stopping_conditions: ConditionsBody = Field(default_factory=ConditionsBody)
    stream: bool = False
    """Answer as `/agent/execute/stream` does."""


class TextBody(Body):
    """A text for the model to complete."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"prompt": "Say hello."}]}
    )
    prompt: Text
    agent_settings: SettingsBody = Field(default_factory=SettingsBody)


class TickResult(BaseModel):
    """The state after one tick."""

    world_context: list[str]
    task_context: list[str]
    execution_context: list[str]


class ExecutionResult(BaseModel):
    """The result of an execution or, in a stream, its present state."""

    model_config = ConfigDict(extra="allow")
    stopping_reason: str | None
    success: bool
    iterations_completed: int
    tokens_used: int
    execution_time_seconds: float
    result: Any = None
    tick_history: list[dict[str, Any]]
    warnings: list[str]


class CompletedText(BaseModel):
    """The model's answer."""

    text: str


# agents -----------------------------------------------------------------------------------------


def _agent(
    parts: Parts, reach: Reach, settings: SettingsBody, classes: Sequence[Any] | None
) -> GPT4Agent:
    context = AgentContext(
        settings=AgentSettings(**settings.model_dump()),
        execution_classes=list(_adapters(parts, classes)),
    )
    agent = GPT4Agent(agent_context=context, **parts.settings.components)
    agent.journal, agent.tenant = parts.journal, reach.tenant or ""
    return agent


def _adapters(parts: Parts, classes: Sequence[Any] | None) -> list[ToolSpec]:
    known: Mapping[str, ToolSpec] = specs_of(parts.settings.tools).tools
    if classes is None:
        return list(known.values())
    for number, name in enumerate(classes):
        at = f"/execution_classes/{number}"
        if not isinstance(name, str):
            raise _python(at, "an adapter is named: it is one of the server's own tools")
        if name not in known:
            message = f"the server has no tool `{name[:100]}`"
            wrong = Wrong(at, message, nearest(name, known, otherwise="it has none"))
            raise Refusal(422, message, hint=wrong.hint, wrong=[wrong])
    return [known[name] for name in classes]


def _python(at: str, hint: str) -> Refusal:
    return Refusal(422, f"{at}: {_PYTHON}", hint=hint, wrong=[Wrong(at, _PYTHON, hint)])


async def _drive(parts: Parts, work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine that runs on a worker's loop."""
    if not parts.settings.workers:
        work.close()
        raise StatusError(
            "this server drives no runs: it was started with `--workers 0`",
            hint="ask a server with workers",
        )
    try:
        async with parts.metrics.lanes.agents:
            return await asyncio.wrap_future(parts.workers.call(work))
    except RunError as error:
        if type(error) is RunError:  # the run itself failed, not the request
            raise Refusal(502, error.message, hint=error.hint) from error
        raise


# routes -----------------------------------------------------------------------------------------


@router.post("/initialize_task_and_tick", responses=RAN, response_model=TickResult)
async def initialize_task_and_tick(body: TickBody, parts: TheParts, reach: TheReach) -> Any:
    """Do a single tick for a task; returns the three contexts."""
    classes = body.execution_classes
    agent = await in_lane(partial(_agent, parts, reach, body.agent_settings, classes))
    await in_lane(partial(agent.initialize, body.task))
    return await _drive(parts, agent.atick())


@router.post(
    "/execute",
    responses={**RAN, 200: {**STREAM[200], "description": "The result; a stream if asked for."}},
    response_model=ExecutionResult,
)
async def execute(body: ExecuteBody, parts: TheParts, reach: TheReach) -> Any:
    """Execute until a stopping condition holds. With `stream`, the response is a stream."""
    executor = await in_lane(partial(_executor, parts, reach, body))
    if body.stream:
        return _updates(parts, executor, body.task)
    result = await _drive(parts, executor.aexecute(body.task))
    return await in_lane(lambda: _json(result.to_dict()))


@router.post("/execute/stream", responses={**RAN, **STREAM}, response_class=StreamingResponse)
async def execute_stream(body: ExecuteBody, parts: TheParts, reach: TheReach) -> Any:
    """Execute with a stream of updates, one after each tick, and the result last.

    A client that closes the stream interrupts the execution before its next action.
    """
    executor = await in_lane(partial(_executor, parts, reach, body))
    return _updates(parts, executor, body.task)


@router.post("/complete_text", responses=RAN, response_model=CompletedText)
async def complete_text(body: TextBody, parts: TheParts, reach: TheReach) -> Any:
    """Complete a text in one model call, without adapters or a loop."""
    agent = await in_lane(partial(_agent, parts, reach, body.agent_settings, []))
    return {"text": await _drive(parts, agent.acomplete_text(body.prompt))}


def _executor(parts: Parts, reach: Reach, body: ExecuteBody) -> AgentExecutor:
    agent = _agent(parts, reach, body.agent_settings, body.execution_classes)
    given = body.stopping_conditions
    if given.custom_condition is not None:
        raise _python(
            "/stopping_conditions/custom_condition",
            "write the condition as a rule of a machine, and start that with `POST /runs`",
        )
    conditions = AgentStoppingConditions(**given.model_dump())
    return AgentExecutor(agent, conditions, journal=parts.journal)


def _updates(parts: Parts, executor: AgentExecutor, task: str) -> StreamingResponse:
    if not parts.settings.workers:
        raise StatusError("this server drives no runs: it was started with `--workers 0`")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    lines = _lines(parts, executor, task)
    return StreamingResponse(lines, media_type="text/event-stream", headers=headers)


def _json(value: dict[str, Any]) -> Response:
    body = json.dumps(value, default=str).encode()
    return Response(fit(body), media_type="application/json")


async def _lines(parts: Parts, executor: AgentExecutor, task: str) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[dict[str, Any] | BaseException | None] = asyncio.Queue()

    def put(item: dict[str, Any] | BaseException | None) -> None:
        with suppress(RuntimeError):  # the web loop is closed: the server stops
            loop.call_soon_threadsafe(queue.put_nowait, item)

    async def work() -> None:
        try:
            async for update in executor.astream(task):
                put(update.to_dict())
            put(None)
        except BaseException as error:
            put(error)
            raise

    try:
        async with parts.metrics.lanes.agents:
            parts.workers.call(work())
            while (item := await queue.get()) is not None:
                if isinstance(item, BaseException):
                    problem = problem_of(item)
                    yield f"event: error\ndata: {json.dumps(problem.body)}\n\n".encode()
                    return
                yield b"data: " + (await in_lane(partial(_json, item))).body + b"\n\n"
    finally:
        executor.interrupt()
