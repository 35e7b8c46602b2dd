"""The agent of document 000: its settings, its context, its adapters, its phases.

Belongs here: the agent, and its own phases as actions of the machine. Never: a loop; see
`compat.geist`.

Source: 000 "Current BaseAgent Architecture", "Modified AgentContext", "Code Examples".
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Unpack

from anyio import to_thread

from chartloop.actions.declare import action_spec, tool_spec
from chartloop.adapters.journal.opening import JournalOrPath
from chartloop.adapters.model.scripted import Scripted
from chartloop.api import Run, load
from chartloop.api.wiring import PortOptions
from chartloop.core.errors import RunError, SetupError
from chartloop.core.outcome import Outcome, Spent
from chartloop.core.plain import plain
from chartloop.core.specs import ActionSpec, ToolSpec
from chartloop.run.context import Context
from chartloop.run.ports import Model, ModelReply, ModelRequest, OnText
from chartloop.run.result import Result


@dataclass(slots=True)
class AgentSettings:
    """The settings of an agent's model calls and of its world phase."""

    max_tokens: int | None = None
    """The most tokens of one reply; `AgentStoppingConditions.max_tokens` limits a whole run."""
    temperature: float | None = None
    include_world_processing: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Plain data under the document's names."""
        return asdict(self)


CONTEXTS = ("world_context", "task_context", "execution_context")


@dataclass(slots=True)
class AgentContext:
    """The contexts and counters of an agent, updated by each execution."""

    world_context: list[str] = field(default_factory=list[str])
    task_context: list[str] = field(default_factory=list[str])
    """The task queue."""
    execution_context: list[str] = field(default_factory=list[str])
    execution_classes: list[Any] = field(default_factory=list[Any])
    """Adapters: functions, or classes and objects whose public methods the model may call."""
    function_log: list[str] = field(default_factory=list[str])
    """One line for each call: ``SendgridAdapter_send_email {"to": "a"} -> sent``."""
    subprocess_id: int = 0
    """Kept for compatibility: a child machine takes the place of a subprocess."""
    settings: AgentSettings = field(default_factory=AgentSettings)
    is_complete: bool = False
    completion_message: str | None = None
    total_tokens_used: int = 0
    execution_start_time: float | None = None
    """Seconds since 1970-01-01 UTC."""

    def add_completion_tokens(self, completion: Any) -> None:
        """Add the tokens of a completion that was made elsewhere."""
        if hasattr(completion, "usage"):
            self.total_tokens_used += completion.usage.total_tokens

    @property
    def state(self) -> dict[str, list[str]]:
        """The three contexts."""
        return {name: list(getattr(self, name)) for name in CONTEXTS}

    def to_dict(self) -> dict[str, Any]:
        """Plain data under the document's names. Adapters are given by their names."""
        return {
            **self.state,
            "execution_classes": [_name_of(adapter) for adapter in self.execution_classes],
            "function_log": list(self.function_log), "subprocess_id": self.subprocess_id,
            "settings": self.settings.to_dict(), "is_complete": self.is_complete,
            "completion_message": self.completion_message,
            "total_tokens_used": self.total_tokens_used,
            "execution_start_time": self.execution_start_time,
        }  # fmt: skip

    def take(self, output: Mapping[str, Any]) -> None:
        """Replace contexts and log by the output of the machine `geist` or `geist_tick`."""
        self.world_context = list(output["world_context"])
        self.task_context = list(output["task_context"])
        self.execution_context = list(output["execution_context"])
        log = output["function_log"]
        self.function_log = [line for entry in log for line in entry.splitlines()]


class BaseAgent:
    """An agent: a model, a context, adapters, and three phases.

    A subclass may override `tick_world`, `tick_tasks` and `tick_execution`, which `tick` and an
    executor call: each changes `agent_context` and may call `super()`. `components` are those of
    `Machine.start`: `model`, `script`, `settings`, `clock` ...
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
        self.journal: JournalOrPath | None = None
        """The journal of the ticks; None keeps them in memory."""
        self.tenant = ""
        """Whose runs its ticks are; empty for no tenant."""
        self.model: Model | None = None
        """The model that the phases of the current execution share; None: each phase makes one."""
        self.task = ""
        """The task of the current execution."""
        self.inside: list[Result] = []
        """The runs of the current phase."""
        self._components = components

    @property
    def _agent_context(self) -> AgentContext:
        return self.agent_context

    @property
    def components(self) -> PortOptions:
        """The ports for the runs of this agent."""
        mine = self.agent_context.settings
        own: dict[str, Any] = {"max_tokens": mine.max_tokens, "temperature": mine.temperature}
        settings = {name: value for name, value in own.items() if value is not None}
        ports: PortOptions = {**self._components}
        ports["settings"] = {**settings, **(self._components.get("settings") or {})}
        if not {"model", "script"} & ports.keys():
            ports["model"] = self.MODEL
        return ports

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The adapters as tools."""
        return tuple(adapter_tools(self.agent_context.execution_classes))

    def initialize(self, task: str, *, journal: JournalOrPath | None = None) -> None:
        """Add a task to the queue. The following ticks are kept in `journal`."""
        self.agent_context.task_context.append(task)
        self.journal = journal or self.journal

    # the phases -----------------------------------------------------------------------------

    def tick_world(self) -> None:
        """Phase 1: reason about the world; replaces `world_context`."""
        self._phase("world")

    def tick_tasks(self) -> None:
        """Phase 2: split tasks and drop finished ones; replaces `task_context`."""
        self._phase("tasks")

    def tick_execution(self) -> None:
        """Phase 3: call adapters; replaces `execution_context`."""
        self._phase("execution")

    def _phase(self, name: str) -> None:
        """Run one phase as a run of the machine `geist_phase`."""
        context = self.agent_context
        before = contexts(context)
        before.pop("include_world_processing")
        items: dict[str, Any] = {} if name == "execution" else {"items": before[ITEMS[name]]}
        ports = self.components
        if self.model is not None:
            ports["model"] = self.model
            ports.pop("script", None)
        task = self.task or (context.task_context[-1] if context.task_context else "")
        machine = load("geist_phase", tools=self.tools)
        variables = {**before, **items, "phase": name}
        result = machine.run(
            task, vars=variables, journal=self.journal, tenant=self.tenant, **ports
        )
        self.inside.append(result)
        if not result.success:
            raise RunError(result.explain())
        log = result.output["function_log"]
        context.take({**before, "function_log": log, ITEMS[name]: result.output["items"]})

    # a tick ---------------------------------------------------------------------------------

    def tick(self, *, journal: JournalOrPath | None = None) -> dict[str, list[str]]:
        """Execute one tick for the newest task; return the three contexts."""
        run = self._tick(journal)
        run.run()
        return self._state_after_tick(run)

    async def atick(self, *, journal: JournalOrPath | None = None) -> dict[str, list[str]]:
        """Execute one tick inside a running event loop; see `tick`."""
        run = self._tick(journal)
        await run.arun()
        return self._state_after_tick(run)

    def _tick(self, journal: JournalOrPath | None) -> Run:
        context = self.agent_context
        if not context.task_context:
            raise RunError("the agent has no task", hint="`initialize(task)` gives it one")
        *others, task = context.task_context
        return start_of(
            self, "geist_tick", task, loaded={}, journal=journal or self.journal,
            vars={**contexts(context), "task_context": others},
        )  # fmt: skip

    def _state_after_tick(self, run: Run) -> dict[str, list[str]]:
        result, context = run.result, self.agent_context
        if not result.success:
            raise RunError(result.explain())
        context.take(result.output)
        context.total_tokens_used += result.tokens
        return context.state

    # completion -----------------------------------------------------------------------------

    def complete_text(self, prompt: str) -> str:
        """Return the model's answer to a prompt: one call without adapters, context or loop."""
        return self._output_of(self._completion(prompt).run())

    async def acomplete_text(self, prompt: str) -> str:
        """Return the model's answer to a prompt; see `complete_text`."""
        return self._output_of(await self._completion(prompt).arun())

    def _completion(self, prompt: str) -> Run:
        return load(COMPLETION).start(
            prompt, journal=self.journal, tenant=self.tenant, **self.components
        )

    def _output_of(self, result: Result) -> str:
        self.agent_context.total_tokens_used += result.tokens
        if not result.success:
            raise RunError(result.explain())
        return str(result.output)


COMPLETION = """\
chartloop: 1
machine: complete_text
title: A direct completion
model: {name: openai/gpt-4o-mini}
output: last.text
states:
  prompt: {do: receive, next: complete}
  complete: {do: infer, retry: {times: 2, base: 1s, factor: 2, on: [TRANSIENT]}, next: done}
  done: {stop: completed}
"""
"""The machine of `complete_text`."""


class GPT4Agent(BaseAgent):
    """An agent whose default model is GPT-4o."""

    MODEL = "openai/gpt-4o"


def contexts(context: AgentContext) -> dict[str, Any]:
    """The variables of the machines for a context."""
    return {
        "world_context": context.world_context,
        "task_context": context.task_context,
        "execution_context": context.execution_context,
        "function_log": context.function_log,
        "include_world_processing": context.settings.include_world_processing,
    }


def adapter_tools(adapters: Sequence[Any]) -> Iterator[ToolSpec]:
    """Yield each function of the adapters as a tool: ``SendgridAdapter_send_email``."""
    for adapter in adapters:
        if isinstance(adapter, ToolSpec):
            yield adapter
        elif inspect.isroutine(adapter):
            yield tool_spec(adapter)
        else:
            instance = adapter() if inspect.isclass(adapter) else adapter
            for name, method in inspect.getmembers(instance, inspect.isroutine):
                if not name.startswith("_"):
                    yield tool_spec(method, name=f"{type(instance).__name__}_{name}")


def _name_of(adapter: Any) -> str:
    """The name of a function, class or tool; for another object, of its class."""
    for attribute in ("__name__", "name"):
        if isinstance(name := getattr(adapter, attribute, None), str):
            return name
    return type(adapter).__name__


# phases that a subclass overrides ------------------------------------------------

ITEMS = {"world": "world_context", "tasks": "task_context", "execution": "execution_context"}
"""The context that each phase replaces."""
PHASES = {"world": "tick_world", "tasks": "tick_tasks", "execution": "tick_execution"}
"""The method of each phase, by its state in the machine `geist_tick`."""


def own_phases(agent: BaseAgent) -> list[str]:
    """The states of `geist_tick` whose phase the agent overrides."""
    return [state for state, name in PHASES.items() if overrides(agent, name)]


def overrides(agent: BaseAgent, method: str) -> bool:
    """Whether the agent's class overrides a method of `BaseAgent`."""
    return getattr(type(agent), method) is not getattr(BaseAgent, method)


def start_of(
    agent: BaseAgent, name: str, task: str, *, loaded: Mapping[str, Any], **options: Any
) -> Run:
    """Start the machine `geist` or `geist_tick`, with overridden phases as actions."""
    machine = load(name, tools=agent.tools, **loaded)
    ports = agent.components
    agent.model = None
    if phases := own_phases(agent):
        data = json.loads(machine.canonical())
        tick = data.get("machines", {}).get("geist_tick", data)
        for phase in phases:
            tick["states"][phase]["do"] = PHASES[phase]
            del tick["states"][phase]["with"]
        text = json.dumps(data, indent=1)
        actions = [_phase_action(agent, state) for state in phases]
        machine = load(text, tools=agent.tools, actions=actions, **loaded)
        script = ports.pop("script", None)
        if script is not None:
            agent.model = ports["model"] = InOrder(Scripted(script, clock=ports.get("clock")))
    return machine.start(task, tenant=agent.tenant, **options, **ports)


def _phase_action(agent: BaseAgent, state: str) -> ActionSpec:
    async def phase(context: Context) -> Any:
        work = partial(_do_phase, agent, state, context)
        return await to_thread.run_sync(work, abandon_on_cancel=True)

    return action_spec(phase, name=PHASES[state])


def _do_phase(agent: BaseAgent, state: str, context: Context) -> Outcome:
    """Call the agent's method with the contexts of the run, and return the result as an outcome."""
    variables, own = plain(context.facts.vars), agent.agent_context
    own.take(variables)
    if state != "world" or variables["include_world_processing"]:
        agent.task, agent.inside = context.facts.run.task, []
        getattr(agent, PHASES[state])()
    items = list(getattr(own, ITEMS[state]))
    output = {"items": items, "function_log": list(own.function_log), "stop_asked": False}
    used = [result.facts.usage for result in agent.inside]
    spent = Spent(
        sum(u.llm_calls for u in used), sum(u.prompt_tokens for u in used),
        sum(u.completion_tokens for u in used),
    )  # fmt: skip
    return Outcome(result={"output": output}, spent=spent)


class InOrder:
    """A scripted model that several runs share: each call gets the next reply."""

    def __init__(self, model: Scripted) -> None:
        self._model = model
        self._calls = 0

    @property
    def suspends(self) -> bool:
        """Whether a reply has a delay."""
        return self._model.suspends

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Do nothing: a script needs no setup."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """The context window in the settings, if given."""
        return self._model.context_window(settings)

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """Return the next reply."""
        number, self._calls = self._calls, self._calls + 1
        return await self._model.complete(request.replace(number=number), on_text)
