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

from chartloop.core.version import __version__ as __version__

if TYPE_CHECKING:
    from chartloop.actions.declare import action, guard, tool
    from chartloop.adapters.cancel import Cancellation, FileCancellation, SignalCancellation
    from chartloop.adapters.journal.sqlite import SqliteJournal
    from chartloop.adapters.tracer.otel import OpenTelemetry
    from chartloop.analysis.proofs.bound import Bound
    from chartloop.analysis.proofs.query.query_answer import Answer
    from chartloop.analysis.versions.diff.diff import Diff, diff
    from chartloop.api import Machine, Run, check, draw, load
    from chartloop.core.errors import (
        AheadError,
        AnsweredError,
        AnswerError,
        ArgumentsError,
        Category,
        ChartloopError,
        ClosedChartError,
        CursorError,
        CursorGoneError,
        Driven,
        Fenced,
        Finding,
        Findings,
        FollowedError,
        JournalCorrupt,
        JournalError,
        JournalLocked,
        JournalTooNew,
        JournalTooOld,
        JournalUnavailable,
        LimitError,
        MachineChangedError,
        MissingPluginError,
        ModelError,
        MovedError,
        Note,
        OutcomeUnknown,
        Place,
        PluginError,
        RulesChangedError,
        RunError,
        ScriptError,
        ServerUnavailableError,
        SetupError,
        Severity,
        SpecError,
        StatusError,
        TaskError,
        ToolError,
        ToolsChangedError,
        UnknownRunError,
        WaitError,
    )
    from chartloop.core.facts import AgentStatus, Facts, Task
    from chartloop.core.outcome import Outcome, ToolResult
    from chartloop.core.reasons import AgentStop, Continuation, StopReason, StopSignal, StopSignals
    from chartloop.core.records import Record
    from chartloop.core.specs import ToolSpec
    from chartloop.machine.decision import Decision
    from chartloop.machine.explain import Explanation
    from chartloop.pictures.picture import Picture
    from chartloop.run.answer import Sent
    from chartloop.run.breakpoints import Breakpoints
    from chartloop.run.context import Context
    from chartloop.run.events import (
        Delta,
        FromChild,
        ReasoningDelta,
        Recorded,
        Rewound,
        Started,
        ToolCallDelta,
    )
    from chartloop.run.journal import Journal, MemoryJournal
    from chartloop.run.journal_pages import RunFilter, RunPage, Tail
    from chartloop.run.media import File, Image
    from chartloop.run.ports import (
        Clock,
        Model,
        ModelReply,
        ModelRequest,
        Notifier,
        Pieces,
        SampleRequest,
        SamplingRefused,
        Sandbox,
        SandboxResult,
        Tokenizer,
        ToolClient,
        ToolServers,
    )
    from chartloop.run.question import Question
    from chartloop.run.replay import Replay
    from chartloop.run.result import Result
    from chartloop.run.steps import Step
    from chartloop.run.tally import StateProfile
    from chartloop.run.trace import Trace
    from chartloop.run.tracing import Tracer
    from chartloop.studies.coverage.coverage import Coverage
    from chartloop.studies.coverage.measure import coverage
    from chartloop.studies.stats.stats import Stats, stats
    from chartloop.studies.upgrade import Upgraded, upgrade
    from chartloop.studies.whatif.result import Sweep, WhatIf
    from chartloop.studies.whatif.whatif import sweep, whatif
    from chartloop.ui.notebook.live import Live, live
    from chartloop.ui.notebook.panel.open import panel
    from chartloop.ui.view_model.conversation_report import Conversation, conversation

_WHERE = {
    "action": "chartloop.actions.declare",
    "AgentStatus": "chartloop.core.facts",
    "AgentStop": "chartloop.core.reasons",
    "AheadError": "chartloop.core.errors",
    "Answer": "chartloop.analysis.proofs.query.query_answer",
    "AnsweredError": "chartloop.core.errors",
    "AnswerError": "chartloop.core.errors",
    "ArgumentsError": "chartloop.core.errors",
    "Bound": "chartloop.analysis.proofs.bound",
    "Breakpoints": "chartloop.run.breakpoints",
    "Cancellation": "chartloop.adapters.cancel",
    "Category": "chartloop.core.errors",
    "ChartloopError": "chartloop.core.errors",
    "check": "chartloop.api",
    "Clock": "chartloop.run.ports",
    "ClosedChartError": "chartloop.core.errors",
    "CursorError": "chartloop.core.errors",
    "CursorGoneError": "chartloop.core.errors",
    "RunFilter": "chartloop.run.journal_pages",
    "RunPage": "chartloop.run.journal_pages",
    "Tail": "chartloop.run.journal_pages",
    "Context": "chartloop.run.context",
    "Continuation": "chartloop.core.reasons",
    "Conversation": "chartloop.ui.view_model.conversation_report",
    "conversation": "chartloop.ui.view_model.conversation_report",
    "Coverage": "chartloop.studies.coverage.coverage",
    "coverage": "chartloop.studies.coverage.measure",
    "Decision": "chartloop.machine.decision",
    "Delta": "chartloop.run.events",
    "ReasoningDelta": "chartloop.run.events",
    "ToolCallDelta": "chartloop.run.events",
    "Diff": "chartloop.analysis.versions.diff.diff",
    "diff": "chartloop.analysis.versions.diff.diff",
    "draw": "chartloop.api",
    "Driven": "chartloop.core.errors",
    "Explanation": "chartloop.machine.explain",
    "File": "chartloop.run.media",
    "Image": "chartloop.run.media",
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
    "JournalTooOld": "chartloop.core.errors",
    "JournalUnavailable": "chartloop.core.errors",
    "LimitError": "chartloop.core.errors",
    "live": "chartloop.ui.notebook.live",
    "Live": "chartloop.ui.notebook.live",
    "load": "chartloop.api",
    "Machine": "chartloop.api",
    "MachineChangedError": "chartloop.core.errors",
    "MemoryJournal": "chartloop.run.journal",
    "Model": "chartloop.run.ports",
    "MissingPluginError": "chartloop.core.errors",
    "ModelError": "chartloop.core.errors",
    "FollowedError": "chartloop.core.errors",
    "MovedError": "chartloop.core.errors",
    "ModelReply": "chartloop.run.ports",
    "Pieces": "chartloop.run.ports",
    "ModelRequest": "chartloop.run.ports",
    "Note": "chartloop.core.errors",
    "Notifier": "chartloop.run.ports",
    "OpenTelemetry": "chartloop.adapters.tracer.otel",
    "Outcome": "chartloop.core.outcome",
    "OutcomeUnknown": "chartloop.core.errors",
    "panel": "chartloop.ui.notebook.panel.open",
    "Picture": "chartloop.pictures.picture",
    "Place": "chartloop.core.errors",
    "Question": "chartloop.run.question",
    "Record": "chartloop.core.records",
    "Recorded": "chartloop.run.events",
    "Replay": "chartloop.run.replay",
    "Result": "chartloop.run.result",
    "Rewound": "chartloop.run.events",
    "RulesChangedError": "chartloop.core.errors",
    "Run": "chartloop.api",
    "RunError": "chartloop.core.errors",
    "Sandbox": "chartloop.run.ports",
    "SandboxResult": "chartloop.run.ports",
    "ScriptError": "chartloop.core.errors",
    "ServerUnavailableError": "chartloop.core.errors",
    "SampleRequest": "chartloop.run.ports",
    "SamplingRefused": "chartloop.run.ports",
    "ToolClient": "chartloop.run.ports",
    "ToolServers": "chartloop.run.ports",
    "ToolsChangedError": "chartloop.core.errors",
    "Sent": "chartloop.run.answer",
    "PluginError": "chartloop.core.errors",
    "SetupError": "chartloop.core.errors",
    "Severity": "chartloop.core.errors",
    "SignalCancellation": "chartloop.adapters.cancel",
    "SpecError": "chartloop.core.errors",
    "SqliteJournal": "chartloop.adapters.journal.sqlite",
    "Started": "chartloop.run.events",
    "StateProfile": "chartloop.run.tally",
    "Stats": "chartloop.studies.stats.stats",
    "stats": "chartloop.studies.stats.stats",
    "StatusError": "chartloop.core.errors",
    "Step": "chartloop.run.steps",
    "StopReason": "chartloop.core.reasons",
    "StopSignal": "chartloop.core.reasons",
    "StopSignals": "chartloop.core.reasons",
    "Sweep": "chartloop.studies.whatif.result",
    "sweep": "chartloop.studies.whatif.whatif",
    "Task": "chartloop.core.facts",
    "TaskError": "chartloop.core.errors",
    "Tokenizer": "chartloop.run.ports",
    "tool": "chartloop.actions.declare",
    "ToolError": "chartloop.core.errors",
    "ToolResult": "chartloop.core.outcome",
    "ToolSpec": "chartloop.core.specs",
    "Tracer": "chartloop.run.tracing",
    "Trace": "chartloop.run.trace",
    "UnknownRunError": "chartloop.core.errors",
    "upgrade": "chartloop.studies.upgrade",
    "Upgraded": "chartloop.studies.upgrade",
    "WaitError": "chartloop.core.errors",
    "WhatIf": "chartloop.studies.whatif.result",
    "whatif": "chartloop.studies.whatif.whatif",
}

__all__ = [
    "AgentStatus",
    "AgentStop",
    "AheadError",
    "Answer",
    "AnswerError",
    "AnsweredError",
    "ArgumentsError",
    "Bound",
    "Breakpoints",
    "Cancellation",
    "Category",
    "ChartloopError",
    "Clock",
    "ClosedChartError",
    "Context",
    "Continuation",
    "Conversation",
    "Coverage",
    "CursorError",
    "CursorGoneError",
    "Decision",
    "Delta",
    "Diff",
    "Driven",
    "Explanation",
    "Facts",
    "Fenced",
    "File",
    "FileCancellation",
    "Finding",
    "Findings",
    "FollowedError",
    "FromChild",
    "Image",
    "Journal",
    "JournalCorrupt",
    "JournalError",
    "JournalLocked",
    "JournalTooNew",
    "JournalTooOld",
    "JournalUnavailable",
    "LimitError",
    "Live",
    "Machine",
    "MachineChangedError",
    "MemoryJournal",
    "MissingPluginError",
    "Model",
    "ModelError",
    "ModelReply",
    "ModelRequest",
    "MovedError",
    "Note",
    "Notifier",
    "OpenTelemetry",
    "Outcome",
    "OutcomeUnknown",
    "Picture",
    "Pieces",
    "Place",
    "PluginError",
    "Question",
    "ReasoningDelta",
    "Record",
    "Recorded",
    "Replay",
    "Result",
    "Rewound",
    "RulesChangedError",
    "Run",
    "RunError",
    "RunFilter",
    "RunPage",
    "SampleRequest",
    "SamplingRefused",
    "Sandbox",
    "SandboxResult",
    "ScriptError",
    "Sent",
    "ServerUnavailableError",
    "SetupError",
    "Severity",
    "SignalCancellation",
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
    "Tail",
    "Task",
    "TaskError",
    "Tokenizer",
    "ToolCallDelta",
    "ToolClient",
    "ToolError",
    "ToolResult",
    "ToolServers",
    "ToolSpec",
    "ToolsChangedError",
    "Trace",
    "Tracer",
    "UnknownRunError",
    "Upgraded",
    "WaitError",
    "WhatIf",
    "action",
    "check",
    "conversation",
    "coverage",
    "diff",
    "draw",
    "guard",
    "live",
    "load",
    "panel",
    "stats",
    "sweep",
    "tool",
    "upgrade",
    "whatif",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module `chartloop` has no attribute `{name}`")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
