"""A machine as a tool of the protocol: its name, its description, its input and output schemas.

Belongs here: names, descriptions and JSON Schemas, as plain data. Never: a run, the protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chartloop.api import Machine
from chartloop.api.caller_values import wants_task
from chartloop.core.errors import ArgumentsError
from chartloop.core.plain import plain
from chartloop.core.strict_json import unfits
from chartloop.language.expression import Expression
from chartloop.language.json_schema.of_type import schema_of_type
from chartloop.language.json_schema.validator import Validator
from chartloop.language.spec import MachineSpec

Json = dict[str, Any]
LONGEST_TASK = 200_000
"""Characters."""
LONGEST_WAIT = 300
"""The most seconds that `answer`, `status` and `cancel` wait for a run to rest."""


class ToolShape(NamedTuple):
    """A tool as a client sees it."""

    name: str
    title: str
    description: str
    input: Json
    output: Json
    reads_only: bool = False


# runs -------------------------------------------------------------------------------------------


def _or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def run_schema(output: Json | None = None) -> Json:
    """The schema of a run in the result of every tool; `output` is the schema of its output."""
    text, question = {"type": "string"}, {
        "type": "object",
        "description": "What the run asks. Answer it with the tool `answer`.",
        "properties": {
            "wait": {"type": "string", "description": "The id of this question."},
            "text": {"type": "string"},
            "about": {
                "type": "string", "description": "What is decided: the newest reply of the model."
            },
            "rest": {
                "type": "integer",
                "description": "The characters that follow. Above 0 an answer names, as `shown`,"
                " the `digest` that `status` gives with `whole: true`.",
            },
            "digest": {"type": "string", "description": "Of the whole question."},
            "answers": {
                "type": "object",
                "description": "The events that it takes, each with its fields and their types.",
            },
            "calls": {
                "type": "array", "items": {"type": "object"},
                "description": "The tool calls that an approval decides on: `key`, `name`,"
                " `arguments`, and their `schema` if they may be changed.",
            },
            "due": _or_null(
                {"type": "number", "description": "When it expires, in seconds since the epoch."}
            ),
        },
        "required": ["wait", "text", "answers"],
    }  # fmt: skip
    return {
        "type": "object",
        "properties": {
            "run": {"type": "string", "description": "The run's id."},
            "machine": text,
            "status": {
                "type": "string",
                "enum": ["running", "waiting", "paused", "completed", "error"],
                "description": "`waiting`: it asks a person. `paused`: `resume` continues it.",
            },
            "phase": {"type": "string", "description": "How it stands, in one word."},
            "state": {"type": "string", "description": "The state that the run is in."},
            "reason": _or_null({"type": "string", "description": "Why it stopped."}),
            "kind": {"type": "string", "enum": ["natural", "human", "limit", "error", "waiting"]},
            "success": {"type": "boolean", "description": "Whether it came to its natural end."},
            "steps": {"type": "integer"},
            "output": {} if output is None else _or_null(output) if output else {},
            "explanation": {"type": "string", "description": "Where it is and why, in words."},
            "warnings": {"type": "array", "items": text},
            "question": _or_null(question),
            "note": {"type": "string", "description": "What happened to this call."},
        },
        "required": ["run", "machine", "status", "state", "reason", "success", "steps", "output"],
    }


def output_schema(spec: MachineSpec) -> Json:
    """The schema of a run's output; empty if any value is possible."""
    output = spec.output
    if output is None:
        return {"type": "string"}
    if isinstance(output, Expression):
        return schema_of_type(output.type)
    fields = {name: schema_of_type(part.type) for name, part in output.items()}
    return {"type": "object", "properties": fields, "required": list(fields)}


# tools ------------------------------------------------------------------------------------------


def machine_tool(machine: Machine) -> ToolShape:
    """The tool that runs a machine."""
    spec = machine.spec
    about = " ".join((spec.about or spec.title or f"Runs the machine `{spec.name}`.").split())
    message = f"{about} Gives the run's output, or its question where it waits for a person."
    task: Json = {
        "type": "string", "maxLength": LONGEST_TASK, "description": "What the run is to do."
    }  # fmt: skip
    fields: Json = {"task": task}
    if spec.vars:
        fields["vars"] = {
            "type": "object",
            "description": "First values of variables; each has one in the file.",
            "properties": {
                name: {**schema_of_type(var.type), "default": plain(var.value)}
                for name, var in spec.vars.items()
            },
            "additionalProperties": False,
        }
    given = _object(fields, ["task"] if wants_task(spec, machine.canonical()) else [])
    taken = run_schema(output_schema(spec))
    return ToolShape(spec.name, spec.title or spec.name, message, given, taken)


def _object(fields: Json, required: Iterable[str] = ()) -> Json:
    schema: Json = {"type": "object", "properties": fields, "additionalProperties": False}
    if names := list(required):
        schema["required"] = names
    return schema


_RUN: Json = {"type": "string", "minLength": 1, "maxLength": 400, "description": "The run's id."}


def _seconds(default: int) -> Json:
    return {
        "type": "number", "minimum": 0, "maximum": LONGEST_WAIT, "default": default,
        "description": "How long to wait for the run to end or to ask, before this call returns.",
    }  # fmt: skip


ANSWER_WAIT = 60
_RUN_RESULT = run_schema()

OWN: Mapping[str, ToolShape] = {
    shape.name: shape
    for shape in (
        ToolShape(
            "start", "Start a run",
            "Starts a run of a machine and returns its id at once. For long work: ask `status`"
            " later. A machine's own tool starts it and waits for the end.",
            _object(
                {
                    "machine": {"type": "string", "description": "The name of a machine's tool."},
                    "task": {"type": "string", "maxLength": LONGEST_TASK, "default": ""},
                    "vars": {"type": "object", "description": "As in the machine's own tool."},
                },
                ["machine"],
            ),
           _RUN_RESULT,
        ),
        ToolShape(
            "answer", "Answer a run",
            "Answers the question of a run that waits, and gives where the run is then.",
            _object(
                {
                    "run": _RUN,
                    "event": {"type": "string", "description": "One of the question's `answers`."},
                    "data": {
                        "type": "object",
                        "description": "The fields of that event. In an approval `calls` decides on"
                        ' each call by its key: "accept", "deny", or {"decision": "deny", "note":'
                        ' "..."}; with the event `edit` {"arguments": {...}}, all of them.',
                    },
                    "wait": {
                        "type": "string",
                        "description": "The question's `wait`: refused where the run asks another.",
                    },
                    "shown": {"type": "string", "description": "The question's `digest`."},
                    "seconds": _seconds(ANSWER_WAIT),
                },
                ["run", "event"],
            ),
           _RUN_RESULT,
        ),
        ToolShape(
            "status", "See a run",
            "Gives where a run is, its output or its question. Without `run`: the newest runs.",
            _object(
                {
                    "run": _RUN,
                    "seconds": _seconds(0),
                    "whole": {
                        "type": "boolean", "default": False,
                        "description": "The question to its end, with its `digest`.",
                    },
                }
            ),
            {
                "type": "object",
                "properties": {
                    **_RUN_RESULT["properties"],
                    "runs": {"type": "array", "items": {"type": "object"}},
                },
            },
            reads_only=True,
        ),
        ToolShape(
            "cancel", "Cancel a run",
            "Stops a run before its next action. What it has done is kept.",
            _object(
                {
                    "run": _RUN,
                    "message": {"type": "string", "maxLength": 1_000},
                    "seconds": _seconds(10),
                },
                ["run"],
            ),
           _RUN_RESULT,
        ),
        ToolShape(
            "resume", "Resume a run",
            "Continues a run that was paused, as one is whose call was cancelled, and waits for it"
            " as the machine's own tool does.",
            _object({"run": _RUN}, ["run"]),
           _RUN_RESULT,
        ),
        ToolShape(
            "why", "Explain a decision",
            "Shows which rules and edges were evaluated when a step of a run was decided, with the"
            " values that they read. Without `record`: the newest.",
            _object({"run": _RUN, "record": {"type": "integer", "minimum": 0}}, ["run"]),
            {
                "type": "object",
                "properties": {"run": {"type": "string"}, "seq": {"type": "integer"}},
                "required": ["run", "seq"],
            },
            reads_only=True,
        ),
    )
}  # fmt: skip
"""The server's own tools, by name."""


def refuse_arguments(shape: ToolShape, arguments: Json) -> None:
    """Raise `ArgumentsError` with each place where arguments do not match the tool's schema."""
    unfit = [f"{at}: {why}" for at, why, _ in unfits(arguments)]
    faults = unfit or Validator(shape.input).faults(arguments)
    if faults:
        text = "; ".join(str(fault).replace("the reply", "the arguments") for fault in faults)
        known = ", ".join(f"`{name}`" for name in shape.input["properties"])
        raise ArgumentsError(f"`{shape.name}` does not take this: {text}", hint=f"it takes {known}")
