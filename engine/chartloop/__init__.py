"""LLM agents as explicit state machines.

    from chartloop import load

    machine = load("agent")
    print(machine.run("What is 2 + 2?", script=["4"]).explain())

Everything that is public is imported from here. Names are loaded when they are first used, so
that ``import chartloop`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chartloop.actions.declare import action, guard, tool
    from chartloop.adapters.cancel import Cancellation, FileCancellation, SignalCancellation
    from chartloop.api import Machine, Run, check, draw, load
    from chartloop.core.errors import ChartloopError, Finding, RunError, SpecError
    from chartloop.core.facts import AgentStatus, Facts
    from chartloop.core.outcome import Outcome, ToolResult
    from chartloop.core.reasons import (
        AgentStop,
        Continuation,
        StopReason,
        StopSignal,
        StopSignals,
    )
    from chartloop.core.records import Record
    from chartloop.machine.decision import Decision
    from chartloop.run.breakpoints import Breakpoints
    from chartloop.run.context import Context
    from chartloop.run.profile import StateProfile
    from chartloop.run.result import Result
    from chartloop.run.steps import Step
    from chartloop.view.picture import Picture

_WHERE = {
    "action": "chartloop.actions.declare",
    "AgentStatus": "chartloop.core.facts",
    "AgentStop": "chartloop.core.reasons",
    "Breakpoints": "chartloop.run.breakpoints",
    "Cancellation": "chartloop.adapters.cancel",
    "check": "chartloop.api",
    "Context": "chartloop.run.context",
    "Continuation": "chartloop.core.reasons",
    "Decision": "chartloop.machine.decision",
    "draw": "chartloop.api",
    "Facts": "chartloop.core.facts",
    "FileCancellation": "chartloop.adapters.cancel",
    "Finding": "chartloop.core.errors",
    "guard": "chartloop.actions.declare",
    "ChartloopError": "chartloop.core.errors",
    "load": "chartloop.api",
    "Machine": "chartloop.api",
    "Outcome": "chartloop.core.outcome",
    "Picture": "chartloop.view.picture",
    "Record": "chartloop.core.records",
    "Result": "chartloop.run.result",
    "Run": "chartloop.api",
    "RunError": "chartloop.core.errors",
    "SignalCancellation": "chartloop.adapters.cancel",
    "SpecError": "chartloop.core.errors",
    "StateProfile": "chartloop.run.profile",
    "Step": "chartloop.run.steps",
    "StopReason": "chartloop.core.reasons",
    "StopSignal": "chartloop.core.reasons",
    "StopSignals": "chartloop.core.reasons",
    "tool": "chartloop.actions.declare",
    "ToolResult": "chartloop.core.outcome",
}

__all__ = [
    "AgentStatus",
    "AgentStop",
    "Breakpoints",
    "Cancellation",
    "ChartloopError",
    "Context",
    "Continuation",
    "Decision",
    "Facts",
    "FileCancellation",
    "Finding",
    "Machine",
    "Outcome",
    "Picture",
    "Record",
    "Result",
    "Run",
    "RunError",
    "SignalCancellation",
    "SpecError",
    "StateProfile",
    "Step",
    "StopReason",
    "StopSignal",
    "StopSignals",
    "ToolResult",
    "action",
    "check",
    "draw",
    "guard",
    "load",
    "tool",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module `chartloop` has no attribute `{name}`")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
