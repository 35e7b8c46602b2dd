"""The arguments that a state gives a tool, compared with the tool's parameters.

An unknown argument or a missing one fails in every run. Values without templates are validated by
the tool itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast

from chartloop.analysis.checker.check_context import CheckContext, value_of
from chartloop.core.errors import nearest
from chartloop.core.facts import EMPTY
from chartloop.core.specs import ToolSpec
from chartloop.core.types import ANY
from chartloop.core.visible import short
from chartloop.language.spec import StateSpec
from chartloop.language.yaml.reading import Path


def check_tool_arguments(context: CheckContext) -> None:
    """Check every state and task that calls a tool by its name."""
    for path, task, called in tool_tasks(context):
        _task(context, path, task, called)
    for state in context.spec.states.values():
        path: Path = ("states", state.name, "with")
        screens = state.traits.screens is not None
        for arg in state.action.args if state.action is not None else ():
            named = arg.name if screens and arg.names == "tool" else arg.arguments_of
            tool = _tool(context, state, named) if named else None
            given: Any = state.args[arg.name].value if arg.name in state.args else EMPTY
            if tool is not None and screens:
                given = {"text": _TEXT}
            if tool is None or not isinstance(given, Mapping):
                continue
            arguments = cast("Mapping[str, Any]", given)
            at = (*path, arg.name) if arg.name in state.args else path
            takes = cast("Mapping[str, Any]", tool.parameters["properties"])
            required = cast("Sequence[str]", tool.parameters.get("required", ()))
            unknown = _unknown(context, at, tool, arguments.keys() - takes.keys())
            missing = [n for n in required if n not in arguments]
            misspelt = {word for name in unknown for word in get_close_matches(name, missing, n=1)}
            always = f"`{state.name}` calls `{tool.name}`"
            absent = [n for n in missing if n not in misspelt]
            if absent and not (screens and unknown):
                names = ", ".join(f"`{n}`" for n in absent)
                message = f"{always} without {names}: the call always fails"
                hint = "it is given `text` alone" if screens else f"give {names} under `{arg.name}`"
                context.say("CL341", at, message, hint=hint, key=True)
            if not unknown and not missing and (faults := _faults(tool, arguments)):
                message = f"{always} with a value that it refuses: {faults}"
                hint = "fix the value: the call always fails"
                context.say("CL341", at, message, hint=hint, key=True)
            if screens:
                _verdict(context, state, at, tool)


def tool_tasks(context: CheckContext) -> Iterator[tuple[Path, Mapping[str, Any], ToolSpec]]:
    """The tasks of the file that a tool does, each with its place."""
    states, tools = context.spec.states.values(), context.spec.registry.tools
    tasks = context.spec.tasks if isinstance(context.spec.tasks, tuple) else ()
    found: list[tuple[Path, Any]] = [(("tasks", n, "by"), task) for n, task in enumerate(tasks)]
    for state in states:
        supplies = state.action is not None and "tasks" in state.action.supplies
        for name, given in state.args.items() if supplies else ():
            value: Any = context.constant(given.value)
            items = value[0] if value and isinstance(value[0], (list, tuple)) else value
            found += [(("states", state.name, "with", name), one) for one in items]
    for path, task in found if any(s.needs == "tasks" for s in states) else ():
        one = cast("Mapping[str, Any]", task if isinstance(task, Mapping) else {})
        by = cast("Mapping[str, Any]", one.get("by") if isinstance(one.get("by"), Mapping) else {})
        if (tool := tools.get(str(by.get("tool")))) is not None:
            yield path, one, tool


def _task(context: CheckContext, path: Path, task: Mapping[str, Any], tool: ToolSpec) -> None:
    """Report a task whose tool refuses what a task gives it."""
    given = tool.for_task(task["text"], task.get("id", ""), task.get("acceptance", ""))
    if not context.has_finding_at(path) and (faults := _faults(tool, given)):
        message = f"task `{task.get('id') or short(task['text'])}` fails whenever it is begun: "
        message += f"`{tool.name}` refuses what a task gives it: {faults}"
        hint = "let the model or a state call it, or give its arguments defaults"
        context.say("CL364", path, message, hint=hint)


_TEXT = "a text"
"""Stands for the text that a screen looks at."""


def _verdict(context: CheckContext, state: StateSpec, at: Path, tool: ToolSpec) -> None:
    """Report a screen by a tool whose result is no verdict."""
    given, has = tool.result, tool.result.field("verdict")
    open = given.kind in ("any", "map") and (given.of or ANY).kind in ("any", "str", "enum")
    said = has is not None and has.kind in ("any", "str", "enum")
    if open or said or context.has_finding_at(at):
        return
    message = f"`{tool.name}` returns {given}, and a verdict is `{{verdict, reason, remove}}`: "
    code, when = "CL341", "always fails"
    if given.kind == "str":
        code, when = "CL117", "fails unless that text is its JSON"
    context.say(code, at, f"{message}`{state.name}` {when}", hint="return a mapping with `verdict`")


def _tool(context: CheckContext, state: StateSpec, field: str) -> ToolSpec | None:
    """The tool that a field names, if its parameters are known."""
    name = state.args.get(field)
    tool = context.spec.registry.tools.get(str(name.value)) if name is not None else None
    return tool if tool is not None and "properties" in tool.parameters else None


def _unknown(context: CheckContext, at: Path, tool: ToolSpec, names: Collection[str]) -> list[str]:
    """Report the arguments that the tool does not have, and return them."""
    if tool.parameters.get("additionalProperties") is not False:
        return []
    for name in sorted(names):
        message = f"`{tool.name}` has no argument `{short(name)}`: the call always fails"
        hint = nearest(name, tool.parameters["properties"]) or "it takes none"
        context.say("CL341", (*at, name), message, hint=hint, key=True)
    return sorted(names)


def _faults(tool: ToolSpec, arguments: Mapping[str, Any]) -> str:
    """The tool's complaints about fixed arguments; empty if it accepts them."""
    try:
        for value in value_of(arguments, {}):
            tool.parse(json.dumps(value, ensure_ascii=False))
    except ValueError as error:
        faults = [line.removeprefix("- ") for line in str(error).splitlines()]
        return "; ".join(faults[1:] or faults)
    except Exception:  # noqa: BLE001  a fault of the application's schema, not of the file
        return ""
    return ""
