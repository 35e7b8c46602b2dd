"""The agent of document 000: its settings, its context, its adapters.

Belongs here: what an agent is and brings. Never: a loop; see `compat.geist`.

Imported by: compat.geist
Source: 000 "Current BaseAgent Architecture", "Modified AgentContext", "Code Examples".
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

from chartloop.actions.declare import tool_spec
from chartloop.api import load
from chartloop.api.wiring import PortOptions
from chartloop.core.errors import RunError, SetupError
from chartloop.core.specs import ToolSpec


@dataclass(slots=True)
class AgentSettings:
    """How an agent asks its model, and whether it reasons about the world."""

    max_tokens: int | None = None
    """Of one reply. What a run may use is `AgentStoppingConditions.max_tokens`."""
    temperature: float | None = None
    include_world_processing: bool = True


@dataclass(slots=True)
class AgentContext:
    """What an agent knows. An execution leaves it as its last tick left it."""

    world_context: list[str] = field(default_factory=list[str])
    task_context: list[str] = field(default_factory=list[str])
    """The task queue."""
    execution_context: list[str] = field(default_factory=list[str])
    execution_classes: list[Any] = field(default_factory=list[Any])
    """Adapters: classes or objects, whose public methods the model may call; or functions."""
    function_log: list[str] = field(default_factory=list[str])
    """One line for each call: ``SendgridAdapter_send_email {"to": "a"} -> sent``."""
    subprocess_id: int = 0
    """Kept as it is: what ran in a subprocess is a child machine here."""
    settings: AgentSettings = field(default_factory=AgentSettings)
    is_complete: bool = False
    completion_message: str | None = None
    total_tokens_used: int = 0
    execution_start_time: float | None = None
    """Seconds since 1970-01-01 UTC."""

    def add_completion_tokens(self, completion: Any) -> None:
        """Count in what a completion made elsewhere has used."""
        if hasattr(completion, "usage"):
            self.total_tokens_used += completion.usage.total_tokens

    def take(self, found: Mapping[str, Any]) -> None:
        """Take over what a run came to: the output of the machine `geist` or `geist_tick`."""
        self.world_context = list(found["world_context"])
        self.task_context = list(found["task_context"])
        self.execution_context = list(found["execution_context"])
        self.function_log = [line for entry in found["function_log"] for line in entry.splitlines()]


class BaseAgent:
    """An agent: a model, a context, adapters.

    `components` are those of `Machine.start`: `model`, `script`, `settings`, `clock` ...
    """

    MODEL = "openai/gpt-4o-mini"

    def __init__(
        self, api_key: str | None = None, agent_context: AgentContext | None = None,
        **components: Unpack[PortOptions],
    ) -> None:  # fmt: skip
        if api_key and api_key not in os.environ.values():
            raise SetupError(
                "a key is taken from the environment, never from code",
                hint="set `OPENAI_API_KEY`, and leave `api_key` out",
            )
        self.agent_context = agent_context or AgentContext()
        self._components = components

    @property
    def _agent_context(self) -> AgentContext:
        return self.agent_context

    @property
    def components(self) -> PortOptions:
        """What a run of this agent is started with."""
        said = self.agent_context.settings
        own: dict[str, Any] = {"max_tokens": said.max_tokens, "temperature": said.temperature}
        settings = {name: value for name, value in own.items() if value is not None}
        given: PortOptions = {**self._components}
        given["settings"] = {**settings, **(self._components.get("settings") or {})}
        if not {"model", "script"} & given.keys():
            given["model"] = self.MODEL
        return given

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The adapters as tools."""
        return tuple(adapter_tools(self.agent_context.execution_classes))

    def initialize(self, task: str) -> None:
        """Put a task into the queue."""
        self.agent_context.task_context.append(task)

    def tick(self) -> dict[str, list[str]]:
        """A single tick, for the newest task; gives the three contexts."""
        context = self.agent_context
        if not context.task_context:
            raise RunError("the agent has no task", hint="`initialize(task)` gives it one")
        *others, task = context.task_context
        run = load("geist_tick", tools=self.tools).start(
            task, vars={**contexts(context), "task_context": others}, **self.components
        )
        result = run.run()
        if not result.success:
            raise RunError(result.explain())
        context.take(result.output)
        context.total_tokens_used += result.tokens
        names = ("world_context", "task_context", "execution_context")
        return {name: getattr(context, name) for name in names}


class GPT4Agent(BaseAgent):
    """An agent whose model is GPT-4o, unless it is given another."""

    MODEL = "openai/gpt-4o"


def contexts(context: AgentContext) -> dict[str, Any]:
    """A context as variables of the machines."""
    return {
        "world_context": context.world_context,
        "task_context": context.task_context,
        "execution_context": context.execution_context,
        "function_log": context.function_log,
        "include_world_processing": context.settings.include_world_processing,
    }


def adapter_tools(adapters: Sequence[Any]) -> Iterator[ToolSpec]:
    """Every function that adapters offer, as a tool: ``SendgridAdapter_send_email``."""
    for adapter in adapters:
        if isinstance(adapter, ToolSpec):
            yield adapter
        elif inspect.isroutine(adapter):
            yield tool_spec(adapter)
        else:
            made = adapter() if inspect.isclass(adapter) else adapter
            for name, method in inspect.getmembers(made, inspect.isroutine):
                if not name.startswith("_"):
                    yield tool_spec(method, name=f"{type(made).__name__}_{name}")
