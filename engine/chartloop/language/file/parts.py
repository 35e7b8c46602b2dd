"""The shapes around the states: model, memory, tasks, limits, reasons, notes.

The texts below the keys become descriptions in the JSON Schema, which editors show.

Source: design "language", section 1.
"""

# without `annotations` of `__future__`: pydantic would compile each of them anew at every start
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Strict, Tag

from chartloop.core.specs import CacheMark
from chartloop.language.file.base import (
    FINITE,
    LIST,
    MAPPING,
    SCALAR,
    Data,
    Flag,
    Scalar,
    Shape,
    Text,
    kind_of,
)


class ModelShape(Shape):
    """The model that `infer` calls, and its settings."""

    name: Text
    """A litellm model name such as `openai/gpt-4o-mini`, or `scripted`."""
    temperature: Annotated[float, Field(ge=0, le=2), FINITE] | None = None
    """The sampling temperature: 0 to 2."""
    top_p: Annotated[float, Field(gt=0, le=1), FINITE] | None = None
    """The share of likely tokens to sample from: above 0, up to 1."""
    max_tokens: Scalar | None = None
    """Longest reply, in tokens."""
    stop: Annotated[
        Annotated[Text, Tag(SCALAR)] | Annotated[list[Text], Tag(LIST)], Discriminator(kind_of)
    ] | None = None  # fmt: skip
    """Where the model stops writing: a text, or a list of texts."""
    seed: Annotated[int, Strict()] | None = None
    """The seed for reproducible replies, as far as the provider supports it."""
    stream: Flag | None = None
    """Whether replies are streamed even without a listener."""
    timeout: Scalar | None = None
    """Longest time for a whole reply, streamed or not: `60s`. Default: 10 min."""
    idle_timeout: Scalar | None = None
    """Longest pause between two pieces of a streamed reply. Default: `60s`."""
    reply_limit: Scalar | None = None
    """Longest reply, in characters of its text and tool arguments. Default: `1_000_000`."""
    api_base: Text | None = None
    """The host to call instead of the provider's. Such a file needs `--trust`."""
    api_key_env: Text | None = None
    """The environment variable that holds the key. Never the key itself."""
    context_window: Scalar | None = None
    """The model's window, in tokens: `128_000`."""
    input_cost_per_token: Annotated[float, Field(ge=0), FINITE] | None = None
    """Price of a token that is sent, in USD."""
    output_cost_per_token: Annotated[float, Field(ge=0), FINITE] | None = None
    """Price of a token that the model writes, in USD."""
    fallbacks: list[Text] | None = None
    """Models that are tried next when this one fails."""
    cache: list[CacheMark] | None = None
    """The parts marked for the provider's cache: `[instructions, tools]`."""
    extra: dict[str, Data] | None = None
    """Passed to the provider unchanged."""


class BlockShape(Shape):
    """A memory block with a limit, a label or a template. Source: 004 `make-memory-block`."""

    value: Text = ""
    """The text that the block starts with."""
    limit: Scalar | None = None
    """Longest value, in characters."""
    label: Text | None = None
    """The block's name in the prompt; default: its name in the file."""
    template: Text | None = None
    """The form of the block in the prompt: a template of `{{ value }}` and `{{ label }}`."""
    on_demand: Flag = False
    """The prompt only names the block; the model reads it with the tool `core_memory_read`."""


class TypedValue(Shape):
    """A value with its type written out."""

    type: Text
    """`bool int float str duration fraction list[T] map[T] any`"""
    value: Data = None
    """The first value; `null` switches a limit off."""


class TaskShape(Shape):
    """One task of the queue. Source: 003 "Task Queue"."""

    id: Text | None = None
    """Names the task in reports; default: `task_1` and so on."""
    text: Text
    """The task, in words."""
    kind: Literal["primary", "improvement"] = "primary"
    """`primary` work must be done; `improvement` follows it."""
    acceptance: Text = ""
    """The acceptance criteria: how to tell that it is done."""
    by: dict[Literal["tool", "prompt", "machine"], Data] | None = None
    """The means to do it: one of `tool`, `prompt` or `machine`."""


class TaskFile(Shape):
    """Tasks in their own file, read when the run starts."""

    file: Text
    """A path, taken from the machine's folder."""


class ReasonShape(Shape):
    """A stop reason of this file, or a built-in one redefined."""

    priority: Annotated[int, Strict(), Field(ge=0, le=9)] = 7
    """0 to 9: of several reasons the lowest number wins."""
    forced: Flag = True
    """Whether the run was cut short rather than finished."""
    status: Literal["completed", "error"] = "completed"
    """The status with which the run ends."""


class IgnoreShape(Shape):
    """A finding that is accepted."""

    code: Text
    """The finding's code: `CL316`."""
    at: Text | None = None
    """Where: `states.x`, `limits.x`, `rules.0`; anywhere when left out."""
    reason: Text
    """Why it is right."""


class DeviationShape(Shape):
    """An accepted difference from the picture in `source`."""

    difference: Text
    """The difference."""
    reason: Text
    """Why it is right."""


class ElicitationShape(Shape):
    """The questions that an MCP server may ask a person."""

    within: Scalar | None = None
    """How long an answer may take; default: `10m`."""
    questions: Scalar | None = None
    """The number of questions in one call of a tool; default: 10, and 0 refuses them."""


class SamplingShape(Shape):
    """The calls of the run's model that an MCP server may make."""

    calls: Scalar
    """The number of model calls in one call of a tool."""
    tokens: Scalar | None = None
    """The tokens of these calls together."""


class McpShape(Shape):
    """An MCP server, in the shape that every client accepts, with a few keys of our own."""

    type: Literal["stdio", "http", "streamable-http"] | None = None
    """The transport; follows from `command` or `url`."""
    command: Text | None = None
    """The program to start: it speaks MCP on stdin and stdout."""
    args: list[Text] | None = None
    """Its arguments."""
    env: dict[str, Text] | None = None
    """Its environment; `${VAR}` is a variable of chartloop's environment."""
    cwd: Text | None = None
    """Its working directory; default: the machine file's folder."""
    url: Text | None = None
    """The address of a running server, over streamable HTTP."""
    headers: dict[str, Text] | None = None
    """Sent with each request; `${VAR}` is a variable of chartloop's environment."""
    effect: Literal["pure", "local", "paid"] | None = None
    """The effect of repeating a call, for all of its tools; default: `paid`, never repeated."""
    connect_timeout: Scalar | None = None
    """How long it has to start and to list its tools; default: `30s`."""
    timeout: Scalar | None = None
    """How long a call may take; default: `60s`."""
    elicitation: ElicitationShape | None = None
    """Questions that it may ask: `{within: 10m, questions: 10}`."""
    sampling: SamplingShape | None = None
    """Calls of the run's model that it may make: `{calls: 5, tokens: 10_000}`; default: none."""
    lock: dict[str, Data] | None = None
    """Its locked tools, in a recorded machine; your file has them in `*.tools.lock.json`."""


Limit = Annotated[
    Annotated[Scalar | None, Tag(SCALAR)]
    | Annotated[TypedValue, Tag(MAPPING)]
    | Annotated[list[Text], Tag(LIST)],
    Discriminator(kind_of),
]
Var = Annotated[
    Annotated[Scalar | None, Tag(SCALAR)]
    | Annotated[TypedValue, Tag(MAPPING)]
    | Annotated[list[Data], Tag(LIST)],
    Discriminator(kind_of),
]
Block = Annotated[
    Annotated[Text, Tag(SCALAR)] | Annotated[BlockShape, Tag(MAPPING)], Discriminator(kind_of)
]
Task = Annotated[
    Annotated[Text, Tag(SCALAR)] | Annotated[TaskShape, Tag(MAPPING)], Discriminator(kind_of)
]
Tasks = Annotated[
    Annotated[TaskFile, Tag(MAPPING)] | Annotated[list[Task], Tag(LIST)],
    Discriminator(kind_of),
]
