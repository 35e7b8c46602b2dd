"""The shape of a machine file, before any name in it has a meaning.

Pydantic models of every mapping that the language has: they refuse unknown keys and wrong
kinds of value, and the JSON Schema of editors is made from them. What names refer to,
what expressions mean and what is missing in the machine is not decided here.

Imported by: language.load, language.schema
Source: design "language", sections 1, 2, 4, 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Strict,
    StringConstraints,
    Tag,
)

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
Text = Annotated[str, Strict()]
Scalar = Annotated[bool, Strict()] | Annotated[int, Strict()] | Annotated[float, Strict()] | Text
"""What YAML writes on one line: an expression, a quantity or a constant."""


class Shape(BaseModel):
    """A mapping of the language: known keys only."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, hide_input_in_errors=True)


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "mapping"
    if isinstance(value, list):
        return "list"
    return "scalar"


class Append(Shape):
    """Adds to a list: ``{append: last.text}``."""

    append: Scalar


Assigned = Annotated[
    Annotated[Scalar | None, Tag("scalar")]
    | Annotated[Append, Tag("mapping")]
    | Annotated[list[JsonValue], Tag("list")],
    Discriminator(_kind),
]
Sets = dict[str, Assigned]


class EdgeShape(Shape):
    """One way on: a target with a guard, a label and what happens when it is taken."""

    to: Text = Field(description="The state that it leads to, or `return`.")
    label: Text | None = Field(None, description="Text on the arrow.")
    when: Scalar | None = Field(None, description="Guard: the edge is taken when it holds.")
    set: Sets | None = Field(None, description="Variables that are set when it is taken.")
    stop: Text | None = Field(None, description="Stop reason that is raised when it is taken.")


EdgeLike = Annotated[
    Annotated[Text, Tag("scalar")] | Annotated[EdgeShape, Tag("mapping")], Discriminator(_kind)
]
Edges = Annotated[
    Annotated[Text, Tag("scalar")]
    | Annotated[EdgeShape, Tag("mapping")]
    | Annotated[list[EdgeLike], Tag("list")],
    Discriminator(_kind),
]


class OnShape(EdgeShape):
    """What an event of a wait leads to, and the data that its answer carries."""

    data: dict[Name, Text] | None = Field(
        None, description="Fields of the answer and their types: `{note: str}`."
    )


OnEdge = Annotated[
    Annotated[Text, Tag("scalar")]
    | Annotated[OnShape, Tag("mapping")]
    | Annotated[list[EdgeLike], Tag("list")],
    Discriminator(_kind),
]


class RetryShape(Shape):
    """Extra attempts of an action; each is a step and a record."""

    times: Annotated[int, Strict(), Field(ge=1, le=100)] = Field(description="Extra attempts.")
    base: Scalar = Field("1s", description="Wait before the first extra attempt.")
    factor: Annotated[float, Field(ge=1, le=100)] = Field(
        2.0, description="Each further wait is so many times longer."
    )
    on: list[Literal["TRANSIENT", "RECOVERABLE", "CRITICAL"]] = Field(
        default_factory=lambda: ["TRANSIENT"], description="Categories of failure that are retried."
    )


class StateShape(Shape):
    """A state: one job, and what is common to all."""

    label: Text | None = Field(None, description="Text of the node; `\\n` breaks the line.")
    about: Text | None = Field(None, description="For people.")
    role: Literal["hub"] | None = Field(None, description="`hub`: drawn in yellow.")
    shape: Literal["pill"] | None = Field(None, description="Drawn as a pill in mid-machine.")
    do: Text | None = Field(None, description="The action of this state.")
    with_: dict[str, JsonValue] | None = Field(
        None, alias="with", description="Fields of the action; see `interlock actions NAME`."
    )
    save: Sets | None = Field(None, description="`{vars.x: result.path}`: kept from the result.")
    ask: Text | None = Field(None, description="The question of a decision or a wait.")
    when: Scalar | None = Field(None, description="Guard of a decision with `then` and `else`.")
    then: EdgeLike | None = Field(None, description="Taken when the guard holds.")
    else_: EdgeLike | None = Field(None, alias="else", description="Taken otherwise.")
    of: Scalar | None = Field(None, description="Expression whose value chooses a case.")
    cases: dict[str, EdgeLike] | None = Field(None, description="One edge for each value of `of`.")
    warn_at: Scalar | None = Field(None, description="Share of a budget at which the result warns.")
    on: dict[Name, OnEdge] | None = Field(None, description="Wait: an edge for each event.")
    within: Scalar | None = Field(None, description="How long the action or wait may take.")
    expired: EdgeLike | None = Field(None, description="Taken when `within` has passed.")
    all: list[Text] | None = Field(None, description="Decisions that are all started, in order.")
    next: Edges | None = Field(None, description="The way on: one edge or an ordered list.")
    failed: Text | None = Field(None, description="Where a failed action goes; `next`: go on.")
    retry: RetryShape | None = None
    set: Sets | None = Field(None, description="Variables that are set on entry.")
    status: Literal["running", "debugging"] | None = Field(None, description="Status wanted here.")
    stop: Text | None = Field(None, description="Stop reason raised on entry; `highest`.")
    end: Literal["completed", "error", "by_reason"] | None = Field(None, description="The end.")
    allow: list[Text] | None = Field(None, description="The tools that this state may use.")
    in_doubt: Literal["retry", "ask", "fail"] | None = Field(
        None, description="What to do with a paid call whose answer was lost."
    )


class RuleShape(Shape):
    """A stop rule, a signal rule or a detour, looked at after every action."""

    when: Scalar = Field(description="Guard of the rule.")
    stop: Text | None = Field(None, description="Stop reason: raise it and stop.")
    signal: Text | None = Field(None, description="Stop reason: raise it, let the file decide.")
    to: Text | None = Field(None, description="Where the run goes; without `stop`, a detour.")
    message: Text | None = Field(None, description="Template of the signal's message.")
    warn_at: Scalar | None = Field(None, description="Share of the budget at which to warn.")
    at: list[Text] | None = Field(None, description="Only after the action of these states.")
    before: list[Text] | None = Field(None, description="Only when one of these is to be entered.")


class ModelShape(Shape):
    """The model that `infer` calls, and how."""

    name: Text = Field(description="A litellm model name, or `scripted`.")
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    max_tokens: Scalar | None = Field(None, description="Longest reply, in tokens.")
    stop: list[Text] | Text | None = None
    seed: int | None = None
    stream: Annotated[bool, Strict()] | None = None
    timeout: Scalar | None = Field(None, description="Longest wait for a reply: `60s`.")
    api_base: Text | None = None
    api_key_env: Text | None = Field(None, description="Environment variable that holds the key.")
    context_window: Scalar | None = Field(None, description="The model's window, in tokens.")
    input_cost_per_token: float | None = Field(None, ge=0, description="USD.")
    output_cost_per_token: float | None = Field(None, ge=0, description="USD.")
    fallbacks: list[Text] | None = Field(None, description="Models that are tried next.")
    extra: dict[str, JsonValue] | None = Field(None, description="Goes to the provider as it is.")


class BlockShape(Shape):
    """A memory block. Source: 004 `make-memory-block`."""

    value: Text = ""
    limit: Scalar | None = Field(None, description="Longest value, in characters.")
    label: Text | None = None
    template: Text | None = Field(
        None, description="How the block stands in the prompt; `{{ value }}`, `{{ label }}`."
    )


class TypedValue(Shape):
    """A value with its type written out."""

    type: Text = Field(description="bool int float str duration fraction list[T] map[T] any")
    value: JsonValue = None


Limit = Annotated[
    Annotated[Scalar | None, Tag("scalar")]
    | Annotated[TypedValue, Tag("mapping")]
    | Annotated[list[Text], Tag("list")],
    Discriminator(_kind),
]
Var = Annotated[
    Annotated[Scalar | None, Tag("scalar")]
    | Annotated[TypedValue, Tag("mapping")]
    | Annotated[list[JsonValue], Tag("list")],
    Discriminator(_kind),
]
Block = Annotated[
    Annotated[Text, Tag("scalar")] | Annotated[BlockShape, Tag("mapping")], Discriminator(_kind)
]


class TaskShape(Shape):
    """One task of the queue."""

    id: Text | None = None
    text: Text
    kind: Literal["primary", "improvement"] = "primary"
    acceptance: Text = ""
    by: dict[Literal["tool", "prompt", "machine"], JsonValue] | None = None


class TaskFile(Shape):
    """Tasks in a file of their own, read when the run starts."""

    file: Text


Tasks = Annotated[
    Annotated[TaskFile, Tag("mapping")] | Annotated[list[TaskShape], Tag("list")],
    Discriminator(_kind),
]


class ReasonShape(Shape):
    """A stop reason of this file."""

    priority: Annotated[int, Strict(), Field(ge=0, le=9)] = 7
    forced: Annotated[bool, Strict()] = True
    status: Literal["completed", "error"] = "completed"


class IgnoreShape(Shape):
    """A finding that is accepted."""

    code: Text
    at: Text | None = Field(None, description="Where: `states.x`; anywhere when left out.")
    reason: Text


class DeviationShape(Shape):
    """An accepted difference from the picture in `source`."""

    difference: Text
    reason: Text


class McpShape(Shape):
    """An MCP server, in the shape that every client accepts."""

    command: Text | None = None
    args: list[Text] | None = None
    env: dict[str, Text] | None = None
    cwd: Text | None = None
    url: Text | None = None
    headers: dict[str, Text] | None = None


Output = Annotated[
    Annotated[Scalar, Tag("scalar")] | Annotated[dict[Name, Scalar], Tag("mapping")],
    Discriminator(_kind),
]


class MachineShape(Shape):
    """A machine: what a file and an inline child machine have in common."""

    title: Text | None = Field(None, description="Heading of the picture.")
    about: Text | None = Field(None, description="For people.")
    source: Text | None = Field(None, description="The document that this machine reproduces.")
    metadata: dict[str, JsonValue] | None = Field(None, description="For people and programs.")
    instructions: Text | None = Field(None, description="System prompt, a template.")
    model: ModelShape | None = None
    tools: list[Text] | None = Field(None, description="Registered tools, in the model's order.")
    mcp_servers: dict[str, McpShape] | None = None
    memory: dict[Name, Block] | None = None
    tasks: Tasks | None = None
    limits: dict[Name, Limit] | None = Field(None, description="Named thresholds.")
    vars: dict[Name, Var] | None = Field(None, description="Variables with their first value.")
    define: dict[Name, Scalar] | None = Field(None, description="Named expressions.")
    reasons: dict[Name, ReasonShape] | None = None
    rules: list[RuleShape] | None = None
    states: dict[Name, StateShape | None] | None = None
    machines: dict[Name, MachineShape] | None = Field(None, description="Child machines.")
    start: Text | None = Field(None, description="The start state; default: the first.")
    on_stop: Text | None = Field(None, description="Where every stop without `to` goes.")
    on_error: EdgeLike | None = Field(None, description="Edge for unhandled failures.")
    in_doubt: Literal["retry", "ask", "fail"] | None = None
    output: Output | None = None
    agent: Text | None = Field(None, description="Stable id across runs.")
    ignore: list[IgnoreShape] | None = None
    deviations: list[DeviationShape] | None = None
    renamed: dict[str, Text] | None = None


class FileShape(MachineShape):
    """A whole machine file."""

    interlock: Annotated[int, Strict()] = Field(description="Format version: 1.")
    machine: Name = Field(description="The machine's name.")
