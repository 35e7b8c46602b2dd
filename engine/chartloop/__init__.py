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
    from chartloop.adapters.sqlite import SqliteJournal
    from chartloop.api import Machine, Run, check, draw, load
    from chartloop.checker.bound import Bound
    from chartloop.checker.query.answers import Answer
    from chartloop.core.errors import (
        AheadError,
        AnsweredError,
        AnswerError,
        Category,
        ChartloopError,
        ClosedChartError,
        Driven,
        Fenced,
        Finding,
        Findings,
        JournalCorrupt,
        JournalError,
        JournalLocked,
        JournalTooNew,
        LimitError,
        MachineChangedError,
        ModelError,
        Note,
        Place,
        RulesChangedError,
        RunError,
        ScriptError,
        SetupError,
        Severity,
        SpecError,
        StatusError,
        TaskError,
        ToolError,
        UnknownRunError,
        WaitError,
    )
    from chartloop.core.facts import AgentStatus, Facts, Task
    from chartloop.core.outcome import Outcome, ToolResult
    from chartloop.core.reasons import AgentStop, Continuation, StopReason, StopSignal, StopSignals
    from chartloop.core.records import Record
    from chartloop.core.specs import ToolSpec
    from chartloop.coverage.coverage import Coverage
    from chartloop.diff.diff import Diff
    from chartloop.machine.decision import Decision
    from chartloop.machine.explain import Explanation
    from chartloop.notebook.live import Live
    from chartloop.run.answer import Sent
    from chartloop.run.breakpoints import Breakpoints
    from chartloop.run.context import Context
    from chartloop.run.events import Delta, FromChild, Recorded, Started
    from chartloop.run.journal import Journal, MemoryJournal
    from chartloop.run.ports import (
        Clock,
        Model,
        ModelReply,
        ModelRequest,
        Notifier,
        Sandbox,
        SandboxResult,
        Tokenizer,
    )
    from chartloop.run.profile import StateProfile
    from chartloop.run.question import Question
    from chartloop.run.replay import Replay
    from chartloop.run.result import Result
    from chartloop.run.steps import Step
    from chartloop.run.trace import Trace
    from chartloop.simulation.result import Simulation
    from chartloop.studies.stats.result import Stats
    from chartloop.studies.upgrade.result import Upgraded
    from chartloop.studies.whatif.result import Sweep, WhatIf
    from chartloop.view.picture import Picture

_WHERE = {
    "action": "chartloop.actions.declare",
    "AgentStatus": "chartloop.core.facts",
    "AgentStop": "chartloop.core.reasons",
    "AheadError": "chartloop.core.errors",
    "Answer": "chartloop.checker.query.answers",
    "AnsweredError": "chartloop.core.errors",
    "AnswerError": "chartloop.core.errors",
    "Bound": "chartloop.checker.bound",
    "Breakpoints": "chartloop.run.breakpoints",
    "Cancellation": "chartloop.adapters.cancel",
    "Category": "chartloop.core.errors",
    "ChartloopError": "chartloop.core.errors",
    "check": "chartloop.api",
    "Clock": "chartloop.run.ports",
    "ClosedChartError": "chartloop.core.errors",
    "Context": "chartloop.run.context",
    "Continuation": "chartloop.core.reasons",
    "Coverage": "chartloop.coverage.coverage",
    "Decision": "chartloop.machine.decision",
    "Delta": "chartloop.run.events",
    "Diff": "chartloop.diff.diff",
    "draw": "chartloop.api",
    "Driven": "chartloop.core.errors",
    "Explanation": "chartloop.machine.explain",
    "Facts": "chartloop.core.facts",
    "Fenced": "chartloop.core.errors",
    "FileCancellation": "chartloop.adapters.cancel",
    "Finding": "chartloop.core.errors",
    "Findings": "chartloop.core.errors",
    "FromChild": "chartloop.run.events",
    "guard": "chartloop.actions.declare",
    "Journal": "chartloop.run.journal",
    "JournalCorrupt": "chartloop.core.errors",
    "JournalError": "chartloop.core.errors",
    "JournalLocked": "chartloop.core.errors",
    "JournalTooNew": "chartloop.core.errors",
    "LimitError": "chartloop.core.errors",
    "Live": "chartloop.notebook.live",
    "load": "chartloop.api",
    "Machine": "chartloop.api",
    "MachineChangedError": "chartloop.core.errors",
    "MemoryJournal": "chartloop.run.journal",
    "Model": "chartloop.run.ports",
    "ModelError": "chartloop.core.errors",
    "ModelReply": "chartloop.run.ports",
    "ModelRequest": "chartloop.run.ports",
    "Note": "chartloop.core.errors",
    "Notifier": "chartloop.run.ports",
    "Outcome": "chartloop.core.outcome",
    "Picture": "chartloop.view.picture",
    "Place": "chartloop.core.errors",
    "Question": "chartloop.run.question",
    "Record": "chartloop.core.records",
    "Recorded": "chartloop.run.events",
    "Replay": "chartloop.run.replay",
    "Result": "chartloop.run.result",
    "Run": "chartloop.api",
    "RulesChangedError": "chartloop.core.errors",
    "RunError": "chartloop.core.errors",
    "Sandbox": "chartloop.run.ports",
    "SandboxResult": "chartloop.run.ports",
    "ScriptError": "chartloop.core.errors",
    "Sent": "chartloop.run.answer",
    "SetupError": "chartloop.core.errors",
    "Severity": "chartloop.core.errors",
    "SignalCancellation": "chartloop.adapters.cancel",
    "Simulation": "chartloop.simulation.result",
    "SpecError": "chartloop.core.errors",
    "SqliteJournal": "chartloop.adapters.sqlite",
    "Started": "chartloop.run.events",
    "StateProfile": "chartloop.run.profile",
    "Stats": "chartloop.studies.stats.result",
    "StatusError": "chartloop.core.errors",
    "Step": "chartloop.run.steps",
    "StopReason": "chartloop.core.reasons",
    "StopSignal": "chartloop.core.reasons",
    "StopSignals": "chartloop.core.reasons",
    "Sweep": "chartloop.studies.whatif.result",
    "Task": "chartloop.core.facts",
    "TaskError": "chartloop.core.errors",
    "Tokenizer": "chartloop.run.ports",
    "tool": "chartloop.actions.declare",
    "ToolError": "chartloop.core.errors",
    "ToolResult": "chartloop.core.outcome",
    "ToolSpec": "chartloop.core.specs",
    "Trace": "chartloop.run.trace",
    "UnknownRunError": "chartloop.core.errors",
    "Upgraded": "chartloop.studies.upgrade.result",
    "WaitError": "chartloop.core.errors",
    "WhatIf": "chartloop.studies.whatif.result",
}

__all__ = [
    "AgentStatus",
    "AgentStop",
    "AheadError",
    "Answer",
    "AnswerError",
    "AnsweredError",
    "Bound",
    "Breakpoints",
    "Cancellation",
    "Category",
    "ChartloopError",
    "Clock",
    "ClosedChartError",
    "Context",
    "Continuation",
    "Coverage",
    "Decision",
    "Delta",
    "Diff",
    "Driven",
    "Explanation",
    "Facts",
    "Fenced",
    "FileCancellation",
    "Finding",
    "Findings",
    "FromChild",
    "Journal",
    "JournalCorrupt",
    "JournalError",
    "JournalLocked",
    "JournalTooNew",
    "LimitError",
    "Live",
    "Machine",
    "MachineChangedError",
    "MemoryJournal",
    "Model",
    "ModelError",
    "ModelReply",
    "ModelRequest",
    "Note",
    "Notifier",
    "Outcome",
    "Picture",
    "Place",
    "Question",
    "Record",
    "Recorded",
    "Replay",
    "Result",
    "RulesChangedError",
    "Run",
    "RunError",
    "Sandbox",
    "SandboxResult",
    "ScriptError",
    "Sent",
    "SetupError",
    "Severity",
    "SignalCancellation",
    "Simulation",
    "SpecError",
    "SqliteJournal",
    "Started",
    "StateProfile",
    "Stats",
    "StatusError",
    "Step",
    "StopReason",
    "StopSignal",
    "StopSignals",
    "Sweep",
    "Task",
    "TaskError",
    "Tokenizer",
    "ToolError",
    "ToolResult",
    "ToolSpec",
    "Trace",
    "UnknownRunError",
    "Upgraded",
    "WaitError",
    "WhatIf",
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
