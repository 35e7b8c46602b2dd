"""LLM agents as explicit state machines.

    from interlock import load

    machine = load("agent")
    print(machine.run("What is 2 + 2?", script=["4"]).explain())

Everything that is public is imported from here. Names are loaded when they are first used, so
that ``import interlock`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.actions.declare import action, guard, tool
    from interlock.adapters.cancel import Cancellation, FileCancellation, SignalCancellation
    from interlock.api import Machine, Run, check, draw, load
    from interlock.core.errors import Finding, InterlockError, RunError, SpecError
    from interlock.core.facts import AgentStatus, Facts
    from interlock.core.outcome import Outcome, ToolResult
    from interlock.core.reasons import (
        AgentStop,
        Continuation,
        StopReason,
        StopSignal,
        StopSignals,
    )
    from interlock.core.records import Record
    from interlock.machine.decision import Decision
    from interlock.run.breakpoints import Breakpoints
    from interlock.run.context import Context
    from interlock.run.profile import StateProfile
    from interlock.run.result import Result
    from interlock.run.steps import Step
    from interlock.view.picture import Picture

_WHERE = {
    "action": "interlock.actions.declare",
    "AgentStatus": "interlock.core.facts",
    "AgentStop": "interlock.core.reasons",
    "Breakpoints": "interlock.run.breakpoints",
    "Cancellation": "interlock.adapters.cancel",
    "check": "interlock.api",
    "Context": "interlock.run.context",
    "Continuation": "interlock.core.reasons",
    "Decision": "interlock.machine.decision",
    "draw": "interlock.api",
    "Facts": "interlock.core.facts",
    "FileCancellation": "interlock.adapters.cancel",
    "Finding": "interlock.core.errors",
    "guard": "interlock.actions.declare",
    "InterlockError": "interlock.core.errors",
    "load": "interlock.api",
    "Machine": "interlock.api",
    "Outcome": "interlock.core.outcome",
    "Picture": "interlock.view.picture",
    "Record": "interlock.core.records",
    "Result": "interlock.run.result",
    "Run": "interlock.api",
    "RunError": "interlock.core.errors",
    "SignalCancellation": "interlock.adapters.cancel",
    "SpecError": "interlock.core.errors",
    "StateProfile": "interlock.run.profile",
    "Step": "interlock.run.steps",
    "StopReason": "interlock.core.reasons",
    "StopSignal": "interlock.core.reasons",
    "StopSignals": "interlock.core.reasons",
    "tool": "interlock.actions.declare",
    "ToolResult": "interlock.core.outcome",
}

__all__ = [
    "AgentStatus",
    "AgentStop",
    "Breakpoints",
    "Cancellation",
    "Context",
    "Continuation",
    "Decision",
    "Facts",
    "FileCancellation",
    "Finding",
    "InterlockError",
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
        raise AttributeError(f"module `interlock` has no attribute `{name}`")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
