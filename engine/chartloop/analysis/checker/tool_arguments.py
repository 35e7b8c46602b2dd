"""The arguments that a state gives a tool, compared with the tool's parameters.

An unknown argument or a missing one fails in every run. Values without templates are validated by
the tool itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast

from chartloop.analysis.checker.check_context import CheckContext, keyed, listed, value_of
from chartloop.core.errors import nearest
from chartloop.core.facts import EMPTY
from chartloop.core.specs import ToolSpec
from chartloop.core.types import ANY
from chartloop.core.visible import short
from chartloop.language.spec import StateSpec
from chartloop.language.yaml.reading import Path


def check_tool_arguments(context: CheckContext) -> None:
    """Check every state and task that calls a tool by its name."""
    for path, task, tool in tool_tasks(context):
        given = tool.for_task(task["text"], task.get("id", ""), task.get("acceptance", ""))
        if not context.has_finding_at(path) and (faults := _faults(tool, given)):
            message = f"task `{task.get('id') or short(task['text'])}` fails whenever it is begun: "
            message += f"`{tool.name}` refuses what a task gives it: {faults}"
            hint = "let the model or a state call it, or give its arguments defaults"
            context.say("CL364", path, message, hint=hint)
    for state in context.spec.states.values():
        path: Path = ("states", state.name, "with")
        always = f"`{state.name}` calls"
        for arg in state.action.args if state.action is not None else ():
            at = (*path, arg.name) if arg.name in state.args else path
            screens = state.traits.screens is not None and arg.names == "tool"
            tool = _tool(context, state, arg.name if screens else arg.arguments_of)
            given: Any = state.args[arg.name].value if arg.name in state.args else EMPTY
            if tool is not None and screens:
                if faults := _faults(tool, {"text": "a text"}):
                    message = (
                        f"{always} `{tool.name}` with `text` alone, which it refuses: {faults}"
                    )
                    hint = "screen with a tool that takes `text`"
                    context.say("CL341", at, message, hint=hint, key=True)
                _verdict(context, state, at, tool)
            elif tool is not None and isinstance(given, Mapping):
                arguments = cast("Mapping[str, Any]", given)
                _arguments(context, at, f"{always} `{tool.name}`", tool, arguments)


def _arguments(
    context: CheckContext, at: Path, always: str, tool: ToolSpec, given: Mapping[str, Any]
) -> None:
    """Report arguments that a tool lacks, does not have, or refuses."""
    unknown = _unknown(context, at, tool, given.keys() - tool.parameters["properties"].keys())
    missing = [n for n in tool.parameters.get("required", ()) if n not in given]
    misspelt = {word for name in unknown for word in get_close_matches(name, missing, n=1)}
    if absent := ", ".join(f"`{n}`" for n in missing if n not in misspelt):
        message = f"{always} without {absent}: the call always fails"
        context.say("CL341", at, message, hint=f"give {absent} under `arguments`", key=True)
    values = [("CL341", "always fails", value_of(given, {}))]
    values += [("CL364", "fails unless a caller gives another one", context.constant(given))]
    for code, when, known in values if not unknown and not missing else ():
        # an empty text waits for what a caller gives
        open = code == "CL364" and any("" in one.values() for one in known)
        if not open and (faults := "".join(_faults(tool, one) for one in known)):
            message = f"{always} with a value that it refuses: {faults}"
            context.say(code, at, message, hint=f"fix the value: the call {when}", key=True)
            return


def tool_tasks(context: CheckContext) -> Iterator[tuple[Path, Mapping[str, Any], ToolSpec]]:
    """The tasks of the file that a tool does, each with its place."""
    states, tools = context.spec.states.values(), context.spec.registry.tools
    found = [(("tasks", n, "by"), task) for n, task in enumerate(listed(context.spec.tasks))]
    for state in states:
        adds = state.action is not None and "tasks" in state.action.supplies
        for name, given in state.args.items() if adds else ():
            found += [
                (("states", state.name, "with", name), one)
                for value in context.constant(given.value) for one in listed(value)
            ]  # fmt: skip
    for path, task in found if any(s.needs == "tasks" for s in states) else ():
        by = keyed(keyed(task).get("by"))
        is_whole = isinstance(keyed(task).get("text"), str)
        if is_whole and (tool := tools.get(str(by.get("tool")))) is not None:
            yield path, keyed(task), tool


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
