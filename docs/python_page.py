"""The page of the Python API: what is imported from `chartloop`, read from the code."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from page_parts import link, table

import chartloop
from chartloop.actions.declare import action_spec, guard_spec, tool_spec
from chartloop.api.tables import KnownFacts, Records
from chartloop.api.wiring import PortOptions
from chartloop.core.errors import ChartloopError
from chartloop.run.trace import Call, TraceStep

PYTHON_HEAD = """\
# Python

What has a heading of its own is imported from `chartloop`; what is for tests, from
[`chartloop.testing`](../testing.md), and scenarios from `chartloop.scenarios`; what counts and
shortens conversations, from
[`chartloop.compat.context_window`](../steps.md#the-context-window-by-hand). Beside a method
stands its async face: both work inside a running event loop."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Machines": (
        *("load", "check", "draw", "Machine", "Picture", "Finding", "Findings", "Note", "Severity"),
        *("Place",),
    ),
    "Runs": (
        *("Run", "Result", "Question", "Sent", "Facts", "Task", "Breakpoints", "Record", "Step"),
        *("StateProfile", "Outcome", "Decision", "Explanation", "Trace", "Replay", "live", "Live"),
        *("panel", "conversation", "Conversation"),
    ),
    "Studies": (
        *("Bound", "Answer", "diff", "Diff", "coverage", "Coverage", "stats", "Stats"),
        *("whatif", "WhatIf", "sweep", "Sweep", "upgrade", "Upgraded"),
    ),
    "Your own tools, actions and guards": (
        *("tool", "action", "guard", "Context", "ToolResult", "ToolSpec", "AgentStop"),
        *("Image", "File"),
    ),
    "Stopping": (
        "StopReason", "StopSignal", "StopSignals", "Continuation", "Cancellation",
        "FileCancellation", "SignalCancellation", "AgentStatus",
    ),
    "Events of a stream": (
        *("Started", "Delta", "ReasoningDelta", "ToolCallDelta", "Recorded", "Rewound"),
        *("FromChild",),
    ),
    "Ports": (
        *("Model", "ModelRequest", "ModelReply", "Pieces"),
        *("Journal", "SqliteJournal", "MemoryJournal"),
        *("RunFilter", "RunPage", "Tail"),
        *("Clock", "Sandbox", "SandboxResult", "Notifier", "Tokenizer", "ToolServers"),
        *("ToolClient", "SampleRequest", "SamplingRefused"),
        *("Tracer", "OpenTelemetry"),
    ),
    "Errors": (
        "ChartloopError", "SpecError", "RunError", "StatusError", "AnswerError", "WaitError",
        "AnsweredError", "AheadError", "LimitError", "TaskError", "UnknownRunError",
        "ArgumentsError", "PluginError", "MissingPluginError",
        "CursorError", "CursorGoneError",
        "MachineChangedError", "ScriptError", "SetupError", "ServerUnavailableError",
        "ToolsChangedError", "ClosedChartError", "JournalError",
        "Driven", "RulesChangedError", "Fenced", "JournalLocked", "JournalCorrupt",
        "JournalTooNew", "JournalTooOld", "JournalUnavailable", "ModelError", "MovedError",
        "FollowedError", "ToolError", "OutcomeUnknown", "Category",
    ),
}  # fmt: skip
DECLARED: Mapping[str, Any] = {"tool": tool_spec, "action": action_spec, "guard": guard_spec}
"""What says what a decorator takes."""
_SECTION = re.compile(r"^(Args|Raises|Returns|Attributes):$")
_DOUBLE = re.compile(r"``([^`]*)``")
_SOURCE = re.compile(r"\s*\bSource: .*?(?=\n\n|\Z)", re.DOTALL)
"""Where an idea comes from is for those who read the code."""
_WIDE = 88


def python() -> str:
    """What is imported from `chartloop`, and what it takes and gives."""
    placed = [name for names in GROUPS.values() for name in names]
    if sorted(placed) != sorted(chartloop.__all__):
        raise SystemExit("GROUPS does not name what `chartloop.__all__` does")
    links = (f"{title}: " + ", ".join(link(n) for n in names) for title, names in GROUPS.items())
    out = [PYTHON_HEAD, "", *(f"- {line}" for line in links)]
    for title, names in GROUPS.items():
        out += ["", f"## {title}"]
        for name in names:
            out += ["", f"### {name}", "", *_thing(name, getattr(chartloop, name))]
        if title == "Runs":
            out += ["", *_beside()]
        if title == "Errors":
            out += ["", "Each has a code of its own in [findings and errors](errors.md):", ""]
            out += ["```text", *_tree(ChartloopError), "```"]
    return "\n".join(out)


def _beside() -> Iterator[str]:
    yield from ("### Steps of a trace", "", "From `chartloop.run.trace`.", "")
    yield from ("`Trace` is a tuple of steps; its `calls` are those of all of them.", "")
    for part in (TraceStep, Call):
        yield from (f"`{part.__name__}`: {_doc(part)}", "", *_fields(part), "")
    yield from ("", "### Tables of a run", "", "From `chartloop.api.tables`.")
    for shown in (Records, KnownFacts):
        yield from ("", f"`{shown.__name__}`: {_doc(shown)}", *_methods(shown))
    yield ""
    yield from ("### Options of a run", "", _doc(PortOptions), "", *_fields(PortOptions))


def _tree(error: type[Exception], depth: int = 0) -> Iterator[str]:
    first = (inspect.getdoc(error) or "").partition("\n")[0]
    yield f"{'  ' * depth + error.__name__:<26}{first}"
    for inner in error.__subclasses__():
        if inner.__module__ == ChartloopError.__module__:  # not whatever else has been imported
            yield from _tree(inner, depth + 1)


def _thing(name: str, thing: Any) -> Iterator[str]:
    if not inspect.isclass(thing):
        yield from ("```python", _call(name, thing), "```", "", _doc(thing))
        if name in DECLARED:
            yield from ("", _doc(DECLARED[name]))
        return
    yield _doc(thing)
    if issubclass(thing, Enum):
        yield from ("", ", ".join(f"`{member.value}`" for member in thing))
    if rows := list(_fields(thing)):
        yield from ("", *rows)
    yield from _methods(thing)


def _fields(cls: type) -> Iterator[str]:
    """What a value of the class holds: annotated fields and properties."""
    own = {row[0]: row for row in (*_annotated(cls), *_properties(cls))}
    held = [base for base in cls.__bases__ if base.__name__ == f"Held{cls.__name__}"]
    rows = [own.pop(row[0], row) for base in held for row in _annotated(base)]
    rows += own.values()
    if rows:
        yield table(("field", "type", "meaning"), rows)


def _annotated(cls: type) -> Iterator[tuple[str, str, str]]:
    body: list[ast.stmt] = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    found = body[0].body if isinstance(body[0], ast.ClassDef) else []
    for node, below in zip(found, [*found[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if not node.target.id.startswith("_"):
                yield f"`{node.target.id}`", f"`{ast.unparse(node.annotation)}`", _text(below)


def _text(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return _plain(inspect.cleandoc(str(node.value.value)))
    return ""


def _members(cls: type) -> dict[str, Any]:
    """What a class has of its own, and of the parts that `api` puts it together from."""
    parts = [part for part in cls.__mro__[1:] if part.__module__.startswith("chartloop.api.")]
    inherited = {name: m for part in reversed(parts) for name, m in vars(part).items()}
    return {**vars(cls), **{n: m for n, m in inherited.items() if n not in vars(cls)}}


def _properties(cls: type) -> Iterator[tuple[str, str, str]]:
    for name, member in _members(cls).items():
        read = member.fget if isinstance(member, property) else getattr(member, "func", None)
        if read is not None and not name.startswith("_"):
            gives = inspect.get_annotations(read).get("return", "")
            yield f"`{name}`", f"`{gives}`", _first(read)


def _methods(cls: type) -> Iterator[str]:
    functions = {n: getattr(cls, n) for n in _members(cls) if not n.startswith("_")}
    calls = {n: f for n, f in functions.items() if inspect.isfunction(f) or inspect.ismethod(f)}
    for name, function in calls.items():
        if name.startswith("a") and name[1:] in functions:
            continue
        twin = f", `a{name}`" if f"a{name}" in calls else ""
        yield from ("", f"**`{name}`**{twin}", "", "```python", _call(name, function), "```", "")
        yield _doc(function)


def _call(name: str, function: Any) -> str:
    """A call as a reader writes it: no `self`, no quotes round types, one line where it fits."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return f"{name}(...)"
    parts = list(_parameters(found))
    gives = found.return_annotation
    tail = "" if gives in (inspect.Signature.empty, "None") else f" -> {gives}"
    line = f"{name}({', '.join(parts)}){tail}"
    if len(line) <= _WIDE:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){tail}"])


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    starred = False
    for p in signature.parameters.values():
        if p.name in ("self", "cls"):
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        said = "" if p.annotation is p.empty else f": {p.annotation}"
        yield f"{mark}{p.name}{said}{_default(p.default)}"
        if p.kind is p.POSITIONAL_ONLY:
            yield "/"


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    plain = isinstance(value, (str, int, float, type(None))) or value == ()
    return f" = {value!r}" if plain else " = ..."


def _doc(thing: Any) -> str:
    return _plain(inspect.getdoc(thing) or "")


def _first(thing: Any) -> str:
    return " ".join(_doc(thing).partition("\n\n")[0].split())


def _plain(text: str) -> str:
    """A docstring as Markdown: single backquotes, sections as lists, no sources."""
    out: list[str] = []
    for line in _SOURCE.sub("", _DOUBLE.sub(r"`\1`", text)).split("\n"):
        if heading := _SECTION.match(line):
            out += [f"{heading[1]}:", ""]
        elif re.match(r"^ {4}\w+: ", line) and any(s in out for s in ("Args:", "Raises:")):
            name, _, about = line.strip().partition(": ")
            out.append(f"- `{name}`: {about}")
        elif line.startswith("        ") and out and out[-1].startswith("- "):
            out[-1] += " " + line.strip()
        else:
            out.append(line)
    return "\n".join(out)
