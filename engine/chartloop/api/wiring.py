"""The components of a run, constructed here from the caller's options and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from chartloop.adapters.clock import SystemClock
from chartloop.adapters.model.litellm import LiteLLM
from chartloop.adapters.model.routed import Routed
from chartloop.adapters.model.scripted import Scripted
from chartloop.adapters.notify.log import LogNotifier
from chartloop.adapters.sandbox.monty import MontySandbox
from chartloop.api.caller_values import first_tasks, inline_tasks, model_settings
from chartloop.core.durability import Durability
from chartloop.core.errors import SetupError
from chartloop.core.facts import Task
from chartloop.core.specs import ActionSpec
from chartloop.language.server_tools import ServerSpec
from chartloop.language.spec import MachineSpec
from chartloop.run.components import Ports
from chartloop.run.job import suspends as spec_suspends
from chartloop.run.ports import Cancel, Clock, Model, Notifier, Sandbox, Tokenizer, ToolServers
from chartloop.run.session import Session
from chartloop.run.tracing import Tracer


class PortOptions(TypedDict, total=False):
    """The components that a caller may give instead of the default ones."""

    model: Model | str | None
    """A litellm model name, or any object with the `Model` port."""
    script: Any
    """Scripted replies instead of a model, in the form of ``docs/language.md``, section 8."""
    settings: Mapping[str, Any] | None
    """Settings that override the file's `model`: temperature, timeout, api_base ... A `model`
    overrides their ``name``, and a state's `with` overrides all of them."""
    clock: Clock | None
    cancel: Cancel | None
    """Polled before each action; the run stops once it is requested."""
    sandbox: Sandbox | None
    notifier: Notifier | None
    tokenizer: Tokenizer | None
    tracer: Tracer | None
    """Traces each action, model call and tool call, such as `OpenTelemetry`."""
    durability: Durability | None
    """What a write to the journal's file survives: ``"process"``, the end of the process, by
    ``kill -9`` too; ``"power"``, the loss of power as well. The default is that of the file if it
    is open in this process, else ``"process"``."""


def uses_of(spec: MachineSpec) -> frozenset[str]:
    """The ports that a machine and its children require."""
    return frozenset[str]().union(*(_own_uses(part, inline_tasks(part)) for part in spec.family()))


def _own_uses(spec: MachineSpec, tasks: Sequence[Task]) -> frozenset[str]:
    by_prompt = any("prompt" in (task.by or {"prompt": ""}) for task in tasks)
    used = (a.uses | a.may_use if by_prompt else a.uses for a in _actions(spec))
    sampled = any(server.sampling is not None for server in spec.servers.values())
    return frozenset[str](("model",) if sampled else ()).union(*used)


def _actions(spec: MachineSpec) -> list[ActionSpec]:
    return [s.action for s in spec.states.values() if s.action is not None]


def make_ports(spec: MachineSpec, folder: Path | None, given: PortOptions) -> Ports:
    """The components of a run, not yet checked; see `prepare`."""
    uses = uses_of(spec)
    clock = given.get("clock") or SystemClock()
    named, settings = given.get("model"), model_settings(given.get("settings") or {})
    made = Ports(
        clock,
        notifier=given.get("notifier") or LogNotifier(),
        tokenizer=given.get("tokenizer"),
        tracer=given.get("tracer"),
        settings={**settings, "name": named} if isinstance(named, str) else settings,
        folder=folder,
        first_tasks=lambda part: first_tasks(
            part, folder or Path() if part.file == spec.file else Path(part.file).parent
        ),
    )
    if "model" in uses or any("model" in a.may_use for s in spec.family() for a in _actions(s)):
        made.model = _model(spec, made.settings, given, clock)
    made.sandbox = given.get("sandbox")
    made.servers = _servers(spec, folder)
    return made


def _servers(spec: MachineSpec, folder: Path | None) -> ToolServers | None:
    """The MCP servers of a machine's tools and its children's; None for most machines."""
    used: dict[tuple[str, str], ServerSpec] = {}
    for part in spec.family():
        named = {tool.server for tool in part.registry.tools.values()} if part.servers else ()
        used |= {(s.name, s.definition): s for s in part.servers.values() if s.name in named}
    if not used:
        return None
    from chartloop.adapters.mcp_servers import McpServers  # noqa: PLC0415  when one is declared

    return McpServers(tuple(used.values()), folder)


def _model(
    spec: MachineSpec, settings: Mapping[str, Any], given: PortOptions, clock: Clock
) -> Model | None:
    script, model = given.get("script"), given.get("model")
    if script is not None:
        return script if isinstance(script, Scripted) else Scripted(script, clock=clock)
    if model is not None and not isinstance(model, str):
        return model
    named = {{**part.model, **settings}.get("name", "scripted") for part in spec.family()}
    usual = None if named <= {"scripted"} else LiteLLM()
    own = {p.name: p.model for p in spec.registry.plugins if p.model is not None}
    return usual if usual is None or not own else Routed(usual, own)


def prepare(spec: MachineSpec, ports: Ports, tasks: Sequence[Task]) -> None:
    """Raise `SetupError` now for what would fail later: no model, no key, no sandbox.

    `tasks` are those in the queue.
    """
    uses = uses_of(spec)
    if "sandbox" in uses and ports.sandbox is None:
        ports.sandbox = MontySandbox()
    if ports.servers is not None:
        ports.servers.prepare()
    for part in spec.family():
        if "model" in _own_uses(part, tasks if part is spec else inline_tasks(part)):
            settings = {**part.model, **ports.settings}
            scripted = settings.get("name", "scripted") == "scripted" and isinstance(
                ports.model, LiteLLM
            )
            if ports.model is None or scripted:
                named = "is scripted" if part.model.get("name") == "scripted" else "names no model"
                raise SetupError(
                    f"machine `{part.name}` {named}",
                    hint="give `model=` or `script=` (`--model NAME` or `--script FILE`)",
                )
            ports.model.prepare(settings)


def suspends(session: Session, *, threads: bool = True) -> bool:
    """Whether anything that a run may do yields to the event loop.

    `threads`: whether a plain tool, which is called in another thread, counts.
    """
    if session.journal.suspends or session.ports.servers is not None:
        return True
    return spec_suspends(session.chart.spec, session.ports, threads=threads)
