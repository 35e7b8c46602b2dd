"""The arguments that a state gives a tool, compared with the tool's parameters.

An unknown argument or a missing one fails in every run. Values without templates are validated by
the tool itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.core.errors import nearest
from chartloop.core.facts import EMPTY
from chartloop.core.specs import ArgSpec, ToolSpec
from chartloop.core.visible import short
from chartloop.language.spec import StateSpec
from chartloop.language.template.template import Template
from chartloop.language.yaml.reading import Path


def check_tool_arguments(context: CheckContext) -> None:
    """Check every state that calls a tool by its name."""
    for state in context.spec.states.values():
        path: Path = ("states", state.name, "with")
        for arg in state.action.args if state.action is not None else ():
            tool = _tool(context, state, arg) if arg.arguments_of else None
            given: Any = state.args[arg.name].value if arg.name in state.args else EMPTY
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
            if absent := [n for n in missing if n not in misspelt]:
                names = ", ".join(f"`{n}`" for n in absent)
                message = f"{always} without {names}: the call always fails"
                context.say("CL341", at, message, hint=f"give {names} under `{arg.name}`", key=True)
            if not unknown and not missing and (faults := _faults(tool, arguments)):
                message = f"{always} with a value that it refuses: {faults}"
                hint = "fix the value: the call always fails"
                context.say("CL341", at, message, hint=hint, key=True)


def _tool(context: CheckContext, state: StateSpec, arg: ArgSpec) -> ToolSpec | None:
    """The tool, if its parameters are known."""
    name = state.args.get(arg.arguments_of)
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
    if not _is_fixed(arguments):
        return ""
    try:
        tool.parse(json.dumps(_plain(arguments), ensure_ascii=False))
    except ValueError as error:
        faults = [line.removeprefix("- ") for line in str(error).splitlines()]
        return "; ".join(faults[1:] or faults)
    except Exception:  # noqa: BLE001  a fault of the application's schema, not of the file
        return ""
    return ""


def _is_fixed(value: Any) -> bool:
    match value:
        case Template():
            return value.constant
        case Mapping():
            return all(map(_is_fixed, cast("Mapping[str, Any]", value).values()))
        case list():
            return all(map(_is_fixed, cast("list[Any]", value)))
        case _:
            return True


def _plain(value: Any) -> Any:
    match value:
        case Template():
            return value.text
        case Mapping():
            return {k: _plain(v) for k, v in cast("Mapping[str, Any]", value).items()}
        case list():
            return [_plain(v) for v in cast("list[Any]", value)]
        case _:
            return value
