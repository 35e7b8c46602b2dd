"""The components that a run uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from chartloop.core.facts import FleetFacts, Task
from chartloop.language.spec import MachineSpec
from chartloop.run.ports import Clock, Model, Notifier, Sandbox, Tokenizer, ToolServers
from chartloop.run.tracing import Tracer

Questions = Literal["rest", "stay", "decline"]
"""The reaction to a question of an MCP server, whose call ends with the process. `rest`: the run
rests as at a wait, since its driver answers. `stay`: the driver waits for the answer or the
deadline, since the answer comes from elsewhere. `decline`: no one can answer."""


@dataclass(slots=True)
class Ports:
    """The components that a run uses; None for one that its machine does not need."""

    clock: Clock
    model: Model | None = None
    sandbox: Sandbox | None = None
    notifier: Notifier | None = None
    tokenizer: Tokenizer | None = None
    tracer: Tracer | None = None
    servers: ToolServers | None = None
    questions: Questions = "rest"
    """See `Questions`."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The caller's model settings, which override the file's `model`."""
    folder: Path | None = None
    """The machine file's folder, to which paths are relative."""
    fleet: Sequence[FleetFacts] = ()
    """The facts of `fleet`, record by record, in place of what the journal says; the last stays."""
    first_tasks: Callable[[MachineSpec], Sequence[Task]] = lambda _: ()
    """Returns the tasks with which a run of a machine starts, from its task file if it has one."""

    def with_model(self, model: Model | None) -> Ports:
        """A copy with another model."""
        return replace(self, model=model)

    def window(self, machine: MachineSpec) -> int | None:
        """The context window of a machine's model in tokens; None if unknown."""
        settings: Mapping[str, Any] = {**machine.model, **self.settings}
        return self.model.context_window(settings) if self.model is not None else None
