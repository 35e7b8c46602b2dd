"""Values from a caller: limits, variables, settings, tasks, a conversation. Checked like a file's.

Source: docs/language.md, "Limits and variables"; docs/data.md, "What is declared".
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from chartloop import catalog
from chartloop.actions.tasks import NO_QUEUE, tasks_of
from chartloop.core.codes import finding
from chartloop.core.errors import LimitError, SetupError, SpecError, TaskError, nearest
from chartloop.core.facts import QueueFacts, Task
from chartloop.core.units import parse_duration, parse_number
from chartloop.language.file.parts import ModelShape
from chartloop.language.file.shape import read_part
from chartloop.language.spec import MachineSpec
from chartloop.language.task_file import load_tasks
from chartloop.language.values import block_value, limit_value, var_value
from chartloop.language.yaml.document import Document


def checked_values(
    spec: MachineSpec, limits: Mapping[str, Any] | None, vars: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Limits and variables, checked and converted. `LimitError` for an invalid one."""
    return (
        {n: limit_value(spec, n, v) for n, v in (limits or {}).items()},
        {n: var_value(spec, n, v) for n, v in (vars or {}).items()},
    )


def checked_memory(spec: MachineSpec, memory: Mapping[str, str] | None) -> dict[str, str]:
    """Memory blocks, checked. `LimitError` for an invalid one."""
    return {n: block_value(spec, n, v) for n, v in (memory or {}).items()}


def own_metadata(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The caller's metadata of a run, as JSON data. `LimitError` for any other value."""
    try:
        data = json.loads(json.dumps(dict(given or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        hint = "give texts, numbers, lists and mappings with texts as keys"
        raise LimitError(f"`metadata` is not JSON data: {error}", hint=hint) from None
    return data


def model_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Model settings, checked like a file's `model`. `LimitError` for an invalid one.

    Returns only the given ones, with quantities parsed: ``30s`` is 30.0.
    """
    if not given:
        return {}
    plain = {
        name: list(cast("tuple[Any, ...]", v)) if isinstance(v, tuple) else v
        for name, v in given.items()
    }
    shape, findings = read_part(Document({"name": "", **plain}, "settings", ""), ModelShape)
    for first in findings:
        if first.code == "CL201":
            known = nearest(first.at, ModelShape.table())
            raise LimitError(f"a model has no setting `{first.at}`", hint=known)
        raise LimitError(f"setting of the model: {first.message}", hint=first.hint)
    if not (shape.api_key_env or "x").isidentifier():  # it may be a key, so do not print it
        hint = "write `OPENAI_API_KEY`, and set the variable"
        raise LimitError("`api_key_env` is the name of an environment variable", hint=hint)
    out = {name: getattr(shape, name) for name in given}
    for name, read in _QUANTITIES.items():
        value = out.get(name)
        if value is None:
            continue
        number = read(value) if isinstance(value, str) else value
        of_kind = isinstance(number, int if name != "timeout" else (int, float))
        if not of_kind or isinstance(number, bool) or not 0 < number < math.inf:
            hint = (
                "write seconds, or `30s`" if name == "timeout" else "write a whole number above 0"
            )
            raise LimitError(f"setting `{name}` of the model is no such quantity", hint=hint)
        out[name] = number
    return out


_QUANTITIES = {
    "timeout": parse_duration,
    "max_tokens": parse_number,
    "context_window": parse_number,
}


ROLES = ("system", "user", "assistant", "tool")
SENT = ("role", "content", "tool_calls", "tool_call_id", "name", "reasoning")
"""The fields that chat APIs accept. Any others, such as an id or a time, are dropped."""


def history(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """The messages with the fields that are sent. `SetupError` names the first invalid message."""
    if isinstance(messages, (str, Mapping)):
        raise _no_message("`messages` is a list of messages, not one", "write [{...}]")
    return [_message(number, given) for number, given in enumerate(messages, 1)]


def _message(number: int, given: Any) -> dict[str, Any]:
    which = f"message {number} of `messages`"
    if not isinstance(given, Mapping):
        text = f"{which} is a {type(given).__name__}, not a mapping"
        raise _no_message(text, 'write {"role": "user", "content": "Hello."}')
    fields = cast(Mapping[str, Any], given)
    message: dict[str, Any] = {name: fields[name] for name in SENT if name in fields}
    role = message.get("role")
    if role not in ROLES:
        text = f"{which} has no role" if role is None else f"{which} has the role `{role}`"
        raise _no_message(text, nearest(str(role), ROLES, otherwise=f"one of {', '.join(ROLES)}"))
    content = message.get("content")
    if content is None and message["role"] == "assistant":  # APIs write None if it only has calls
        message["content"] = ""
    elif not isinstance(content, (str, list)):
        text = "no content" if content is None else f"content that is a {type(content).__name__}"
        raise _no_message(f"{which} has {text}", "write a text, or a list of parts")
    if "tool_calls" in message:
        calls: Any = message["tool_calls"]
        hint = 'write {"id": ..., "type": "function", "function": {"name": ..., "arguments": "{}"}}'
        if message["role"] != "assistant" or not isinstance(calls, list):
            raise _no_message(f"{which} has `tool_calls` that are no calls of the assistant", hint)
        for call in cast(list[Any], calls):
            if not _is_call(call):
                raise _no_message(f"{which} has an invalid tool call", hint)
        if not calls:
            del message["tool_calls"]
    if not isinstance(message.get("reasoning", {}), Mapping):
        raise _no_message(f"{which} has a `reasoning` that is not a mapping", "leave it out")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        raise _no_message(f"{which} answers no call", "name it: `tool_call_id`")
    return message


def _is_call(call: Any) -> bool:
    try:
        texts = call["id"], call["function"]["name"], call["function"]["arguments"]
    except (LookupError, TypeError):
        return False
    return all(isinstance(text, str) for text in texts)


def _no_message(problem: str, hint: str) -> SetupError:
    return SetupError(f"{problem}: this is not a conversation to continue", hint=hint)


def refuse_undeclared(
    spec: MachineSpec, vars: Mapping[str, Any] | None, memory: Mapping[str, str] | None,
    **others: object,
) -> None:  # fmt: skip
    """Raise `LimitError` for a value that is none of the machine's `inputs`, if it declares any."""
    if spec.inputs is None:
        return
    given = [name for name, value in others.items() if value]
    for name in (*given, *(vars or ()), *(f"memory.{name}" for name in memory or ())):
        if name not in spec.inputs:
            message = f"`{name}` is no input of machine `{spec.name}`"
            listed = ", ".join(f"`{one}`" for one in spec.inputs)
            raise LimitError(
                message, hint=f"its `inputs` are {listed}" if listed else "it has none"
            )


def first_tasks(
    spec: MachineSpec, folder: Path, given: Sequence[Any] | None = None
) -> tuple[Task, ...]:
    """The tasks that a run starts with: the caller's, else the machine's or its task file's."""
    if given is not None:
        return checked_tasks(spec, given)
    if not isinstance(spec.tasks, str):
        return inline_tasks(spec)
    path = folder / spec.tasks
    try:
        if os.path.isfile(path):  # noqa: PTH113  a name that no file can have is not an error here
            return tasks_of(read_tasks_file(path, spec), ())
        message = f"`{path}` is not a file"
    except SetupError as error:
        message = error.message
    place, hint = spec.place(("tasks", "file")), "the path is taken from the machine's folder"
    raise SpecError([finding("CL411", message, place, hint=hint, at="tasks.file")])


def inline_tasks(spec: MachineSpec) -> tuple[Task, ...]:
    """The tasks that a machine file lists itself."""
    return tuple(Task(**t) for t in spec.tasks) if isinstance(spec.tasks, tuple) else ()


def checked_tasks(
    spec: MachineSpec, given: Any, taken: Iterable[str] = (), queue: QueueFacts = NO_QUEUE
) -> tuple[Task, ...]:
    """Tasks from a text, a mapping or a list, for a queue in which the ids `taken` are in use.

    `TaskError` for an invalid task, or one that an unknown tool or machine is to do.
    """
    tasks = tasks_of(given, taken, queue)
    for number, task in enumerate(tasks):
        for kind, known in (("tool", spec.registry.tools), ("machine", spec.machines)):
            name = task.by.get(kind)
            if name is not None and name not in known:
                message = f"task {number + 1}: unknown {kind} `{name}`"
                raise TaskError(message, hint=nearest(name, known), number=number)
    return tasks


def read_tasks_file(path: Path, spec: MachineSpec) -> list[dict[str, Any]]:
    """Read a task file for a machine. `SpecError` with all its mistakes."""
    text, name = catalog.read_text(path), catalog.display_path(path)
    tasks, findings = load_tasks(text, name, spec.registry, spec.machines)
    if findings:
        raise SpecError(findings)
    return list(tasks)


def wants_task(spec: MachineSpec, canonical: str) -> bool:
    """Whether something in a machine may read the task: an action, a child or an expression."""
    if spec.tasks is not None:
        return False
    actions = (state.action for state in spec.states.values() if state.action is not None)
    return "run.task" in canonical or any(
        not action.is_builtin
        or action.traits.step == "user-message"
        or action.traits.runs != "none"
        for action in actions
    )
