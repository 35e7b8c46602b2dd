"""The parts around the states: model, memory, tasks, limits, reasons, notes."""

# without `annotations` of `__future__`: the annotations are part of the table
from typing import Annotated, Literal

from chartloop.core.specs import CacheMark
from chartloop.language.file.keys import (
    REQUIRED,
    Flag,
    IsNumber,
    Json,
    Part,
    Prose,
    Scalar,
    Text,
    Whole,
    key,
)


class ModelShape(Part, title="model"):
    """The model that `infer` calls, and its settings."""

    name: Prose
    """A litellm model name such as `openai/gpt-4o-mini`, or `scripted`."""
    temperature: Annotated[float, IsNumber(least=0, most=2)] | None = None
    """The sampling temperature: 0 to 2."""
    top_p: Annotated[float, IsNumber(above=0, most=1)] | None = None
    """The share of likely tokens to sample from: above 0, up to 1."""
    max_tokens: Scalar | None = None
    """Longest reply, in tokens."""
    stop: Prose | list[Prose] | None = None
    """Where the model stops writing: a text, or a list of texts."""
    seed: Whole | None = None
    """The seed for reproducible replies, as far as the provider supports it."""
    stream: Flag | None = None
    """Whether replies are streamed even without a listener."""
    timeout: Scalar | None = None
    """Longest time for a whole reply, streamed or not: `60s`. Default: 10 min."""
    idle_timeout: Scalar | None = None
    """Longest pause between two pieces of a streamed reply. Default: `60s`."""
    reply_limit: Scalar | None = None
    """Longest reply, in characters of its text and tool arguments. Default: `1_000_000`."""
    api_base: Prose | None = None
    """The host to call instead of the provider's. Such a file needs `--trust`."""
    api_key_env: Prose | None = None
    """The environment variable that holds the key. Never the key itself."""
    context_window: Scalar | None = None
    """The model's window, in tokens: `128_000`."""
    input_cost_per_token: Annotated[float, IsNumber(least=0)] | None = None
    """Price of a token that is sent, in USD."""
    output_cost_per_token: Annotated[float, IsNumber(least=0)] | None = None
    """Price of a token that the model writes, in USD."""
    fallbacks: list[Prose] | None = None
    """Models that are tried next when this one fails."""
    cache: list[CacheMark] | None = None
    """The parts marked for the provider's cache: `[instructions, tools]`."""
    extra: dict[str, Json] | None = None
    """Passed to the provider unchanged."""


class BlockShape(Part, title="memory_block"):
    """A memory block with a limit, a label or a template. Source: 004 `make-memory-block`."""

    value: Prose = ""
    """The text that the block starts with."""
    limit: Scalar | None = None
    """Longest value, in characters."""
    label: Prose | None = None
    """The block's name in the prompt; default: its name in the file."""
    template: Prose | None = None
    """The form of the block in the prompt: a template of `{{ value }}` and `{{ label }}`."""
    on_demand: Flag = False
    """The prompt only names the block; the model reads it with the tool `core_memory_read`."""


class TypedValue(Part, title="typed_value"):
    """A value with its type written out."""

    type: Text = key(cure='write `{type: "list[str]", value: []}`', default=REQUIRED)
    """`bool int float str duration fraction list[T] map[T] any`"""
    value: Json = None
    """The first value; `null` switches a limit off."""


class TaskShape(Part, title="task"):
    """One task of the queue. Source: 003 "Task Queue"."""

    id: Prose | None = None
    """Names the task in reports; default: `task_1` and so on."""
    text: Prose
    """The task, in words."""
    kind: Literal["primary", "improvement"] = "primary"
    """`primary` work must be done; `improvement` follows it."""
    acceptance: Prose = ""
    """The acceptance criteria: how to tell that it is done."""
    by: dict[Literal["tool", "prompt", "machine"], Json] | None = None
    """The means to do it: one of `tool`, `prompt` or `machine`."""


class TaskFile(Part, title="tasks_file"):
    """Tasks in their own file, read when the run starts."""

    file: Text
    """A path, taken from the machine's folder."""


class ReasonShape(Part, title="reason"):
    """A stop reason of this file, or a built-in one redefined."""

    priority: Annotated[int, IsNumber(least=0, most=9, whole=True)] = 7
    """0 to 9: of several reasons the lowest number wins."""
    forced: Flag = True
    """Whether the run was cut short rather than finished."""
    status: Literal["completed", "error"] = "completed"
    """The status with which the run ends."""


class IgnoreShape(Part, title="accepted_finding"):
    """A finding that is accepted."""

    code: Text
    """The finding's code: `CL316`."""
    at: Text | None = None
    """Where: `states.x`, `limits.x`, `rules.0`; anywhere when left out."""
    reason: Prose
    """Why it is right."""


class DeviationShape(Part, title="deviation"):
    """An accepted difference from the picture in `source`."""

    difference: Prose
    """The difference."""
    reason: Prose
    """Why it is right."""


class ElicitationShape(Part, title="mcp_elicitation"):
    """The questions that an MCP server may ask a person."""

    within: Scalar | None = None
    """How long an answer may take; default: `10m`."""
    questions: Scalar | None = None
    """The number of questions in one call of a tool; default: 10, and 0 refuses them."""


class SamplingShape(Part, title="mcp_sampling"):
    """The calls of the run's model that an MCP server may make."""

    calls: Scalar
    """The number of model calls in one call of a tool."""
    tokens: Scalar | None = None
    """The tokens of these calls together."""


class McpShape(Part, title="mcp_server"):
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
    effect: Literal["pure", "local", "paid"] | None = key("effect", "Actions")
    """The effect of repeating a call, for all of its tools; default: `paid`, never repeated."""
    connect_timeout: Scalar | None = key("longest time to connect", "Actions")
    """How long it has to start and to list its tools; default: `30s`."""
    timeout: Scalar | None = key("longest time of a call", "Actions")
    """How long a call may take; default: `60s`."""
    elicitation: ElicitationShape | None = key("questions", "Actions")
    """Questions that it may ask: `{within: 10m, questions: 10}`."""
    sampling: SamplingShape | None = key("model calls", "Actions")
    """Calls of the run's model that it may make: `{calls: 5, tokens: 10_000}`; default: none."""
    lock: dict[str, Json] | None = None
    """Its locked tools, in a recorded machine; your file has them in `*.tools.lock.json`."""


Limit = Scalar | TypedValue | list[Text] | None
Var = Scalar | TypedValue | list[Json] | None
Block = Text | BlockShape
Tasks = TaskFile | list[Text | TaskShape]
