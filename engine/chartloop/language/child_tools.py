"""Child machines as tools of the model: what a call gives a child, and what the model reads of it.

The arguments are the child's `inputs`; without these a task. What it is said to be for is its
`about`, or its `title`.

Belongs here: a machine as a `ToolSpec`. Never: a run of it (`actions.call_machines`).
Source: docs/agents-as-tools.md
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, NoReturn

from chartloop.core.errors import LimitError
from chartloop.core.plain import plain
from chartloop.core.specs import Effect, ToolSpec
from chartloop.language.json_schema.of_type import schema_of_type
from chartloop.language.server_tools import Arguments
from chartloop.language.spec import MachineSpec
from chartloop.language.values import block_value, var_value


class Filled(NamedTuple):
    """What the arguments of a call give a child."""

    task: str
    vars: Mapping[str, Any]
    memory: Mapping[str, str]


def tool_of_machine(name: str, child: MachineSpec) -> ToolSpec:
    """The tool that runs a child machine, which the file knows by this name."""
    about = child.about or child.title or f"Gives a task to `{name}`, which does it by itself."
    properties: dict[str, Any] = {}
    for argument, cell in cells_of(child).items():
        root, _, part = cell.partition(".")
        if root == "vars":
            var = child.vars[part]
            properties[argument] = {**schema_of_type(var.type), "default": plain(var.value)}
        else:
            properties[argument] = {"type": "string"}
    parameters = {
        "type": "object", "properties": properties, "additionalProperties": False,
        "required": [name for name in properties if name == "task"],
    }  # fmt: skip
    return ToolSpec(
        name, " ".join(about.split()), parameters,
        partial(_parse, Arguments(name, parameters), child), _is_run,
        blocking=False, suspends=False, effect=Effect.LOCAL, machine=name,
    )  # fmt: skip


def _parse(arguments: Arguments, child: MachineSpec, text: str) -> dict[str, Any]:
    """The arguments that the schema and the child itself can take. Raises `ValueError`."""
    read = arguments(text)
    try:
        fill(child, read)
    except LimitError as error:
        raise ValueError(error.message) from None
    return read


def fill(child: MachineSpec, arguments: Mapping[str, Any]) -> Filled:
    """What checked arguments give the child. `LimitError` for a value that it cannot have."""
    task, vars, memory = "", dict[str, Any](), dict[str, str]()
    for argument, cell in cells_of(child).items():
        if argument in arguments:
            root, _, part = cell.partition(".")
            value = arguments[argument]
            if root == "vars":
                vars[part] = var_value(child, part, value)
            elif root == "memory":
                memory[part] = block_value(child, part, value)
            else:
                task = value
    return Filled(task, vars, memory)


def cells_of(child: MachineSpec) -> dict[str, str]:
    """The arguments of a call, each with the part of the child that it fills.

    Messages, tasks of the queue and answers are nothing that a model gives.
    """
    if child.inputs is None:
        return {"task": "task"}
    out = {name: name for name in child.inputs if name == "task"}
    for name in child.inputs:
        root, _, part = name.partition(".")
        if name in child.vars:
            out[f"vars_{name}" if name in out else name] = f"vars.{name}"
        elif part:
            out[f"{root}_{part}"] = name
    return out


def _is_run(**_: Any) -> NoReturn:
    raise AssertionError("a child machine is run, not called")
