r"""The shapes of machines, states, edges and rules: the core of a machine file.

Pydantic models of the mappings of the language. They refuse unknown keys and wrong kinds of
values. The JSON Schema for editors is made from them: the text below a key is its description
there. The meaning of names and expressions is not checked here.

Source: design "language", sections 1, 2 and 4.
"""

# without `annotations` of `__future__`: pydantic would compile each of them anew at every start
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Strict, Tag

from chartloop.core.errors import RetryOn
from chartloop.language.file.base import (
    FINITE,
    LIST,
    MAPPING,
    SCALAR,
    Data,
    Name,
    Scalar,
    Shape,
    Text,
    kind_of,
)
from chartloop.language.file.parts import (
    Block,
    BlockShape,
    DeviationShape,
    ElicitationShape,
    IgnoreShape,
    Limit,
    McpShape,
    ModelShape,
    ReasonShape,
    SamplingShape,
    TaskFile,
    Tasks,
    TaskShape,
    TypedValue,
    Var,
)

__all__ = [
    "NEEDS", "Append", "ApproveShape", "BlockShape", "DeviationShape", "EdgeLike", "EdgeShape",
    "ElicitationShape", "FileShape",
    "IgnoreShape", "MachineShape", "McpShape", "ModelShape", "OnShape", "ReasonShape", "RetryShape",
    "RuleShape", "SamplingShape", "Sets", "Shape", "StateShape", "TaskFile", "TaskShape", "Text",
    "TypedValue",
]  # fmt: skip

NEEDS: dict[str, tuple[str, ...]] = {
    "then": ("when", "for"), "in": ("for",), "each": ("for",), "most": ("for",),
    "cases": ("of",), "else": ("when", "of"), "expired": ("within",),
    "within": ("do", "on"), "warn_at": ("when",), "with": ("do",), "save": ("do",),
    "retry": ("do",), "failed": ("do",), "allow": ("do",), "in_doubt": ("do",),
    "message": ("stop",),
}  # fmt: skip
"""The keys of a state that require another key: each with the keys of which one is necessary."""


class Append(Shape):
    """Adds to a list: `{append: last.text}`."""

    append: Scalar
    """The value added at the end: an expression, or a part of the result under `save`."""


Assigned = Annotated[
    Annotated[Scalar | None, Tag(SCALAR)]
    | Annotated[Append, Tag(MAPPING)]
    | Annotated[list[Data], Tag(LIST)],
    Discriminator(kind_of),
]
Sets = dict[str, Assigned]


class EdgeShape(Shape):
    """An edge: a target with a guard, a label and effects."""

    to: Text
    """The state that it leads to; `return` goes back to where a detour interrupted the run."""
    label: Text | None = None
    """Text of the edge."""
    when: Scalar | None = None
    """Guard: the edge is taken when it holds. Quote it in `{...}`."""
    set: Sets | None = None
    """Variables that are set when the edge is taken: `{vars.x: expression}`."""
    stop: Text | None = None
    """Stop reason that is raised when the edge is taken."""
    message: Text | None = None
    """Template of the message that goes with `stop`."""


EdgeLike = Annotated[
    Annotated[Text, Tag(SCALAR)] | Annotated[EdgeShape, Tag(MAPPING)], Discriminator(kind_of)
]
Edges = Annotated[
    Annotated[Text, Tag(SCALAR)]
    | Annotated[EdgeShape, Tag(MAPPING)]
    | Annotated[list[EdgeLike], Tag(LIST)],
    Discriminator(kind_of),
]


Listed = Annotated[
    Annotated[Scalar, Tag(SCALAR)] | Annotated[list[Data], Tag(LIST)], Discriminator(kind_of)
]


class OnShape(EdgeShape):
    """The edge of an event of a wait, and the data of its answer."""

    data: dict[Name, Text] | None = None
    """Fields of the answer and their types: `{note: str}`; guards read `last.answer.note`."""


OnLike = Annotated[
    Annotated[Text, Tag(SCALAR)] | Annotated[OnShape, Tag(MAPPING)], Discriminator(kind_of)
]
OnEdges = Annotated[
    Annotated[Text, Tag(SCALAR)]
    | Annotated[OnShape, Tag(MAPPING)]
    | Annotated[list[OnLike], Tag(LIST)],
    Discriminator(kind_of),
]


class RetryShape(Shape):
    """Extra attempts of an action; each is a step and a record."""

    times: Annotated[int, Strict(), Field(ge=1, le=100)]
    """How many extra attempts: 1 to 100."""
    base: Scalar = "1s"
    """The wait before the first extra attempt."""
    factor: Annotated[float, Field(ge=1, le=100), FINITE] = 2.0
    """Each further wait is this many times longer."""
    on: list[RetryOn] = Field(default_factory=lambda: ["TRANSIENT"])
    """Categories of failure that are retried; `EMPTY` is an empty reply. Default: `[TRANSIENT]`."""
    most: Scalar = "5m"
    """The longest wait that a provider may ask for (`Retry-After`); beyond it the action fails."""


RetryLike = Annotated[
    Annotated[int, Strict(), Field(ge=1, le=100), Tag(SCALAR)]
    | Annotated[RetryShape, Tag(MAPPING)],
    Discriminator(kind_of),
]
ModelLike = Annotated[
    Annotated[Text, Tag(SCALAR)] | Annotated[ModelShape, Tag(MAPPING)], Discriminator(kind_of)
]


class StateShape(Shape):
    """A state: the keys of its one job, and those common to all states."""

    label: Text | None = None
    r"""Text of the node. `\n` breaks the line, `{limits.tokens:,}` shows the live value."""
    about: Text | None = None
    """A description for people."""
    role: Literal["hub"] | None = None
    """`hub`: the middle of the machine, drawn in its own colour."""
    shape: Literal["pill", "rect"] | None = None
    """`pill`: where a picture starts or ends in mid-machine; `rect`: an end drawn as a box."""
    do: Text | None = None
    """Act: the action of this state; see `chartloop actions`."""
    with_: dict[str, Data] | None = Field(None, alias="with")
    """Fields of the action; see `chartloop actions NAME`."""
    save: Sets | None = None
    """`{vars.x: result.path}`: what is kept of the result when the action succeeded."""
    ask: Text | None = None
    """The question of a decision or a wait: drawn as a diamond."""
    when: Scalar | None = None
    """Decide: a guard, with `then` and `else`."""
    then: EdgeLike | None = None
    """Taken when the guard holds; of a loop, after its last item."""
    else_: EdgeLike | None = Field(None, alias="else")
    """Taken when the guard does not hold, or no case fits."""
    for_: Text | None = Field(None, alias="for")
    """Loop: the variable that takes each item in turn; needs `in`, `each` and `then`."""
    in_: Listed | None = Field(None, alias="in")
    """The list of the loop: an expression, read once when the loop starts."""
    each: EdgeLike | None = None
    """Taken with each item; from there the run comes back to this state for the next."""
    most: Scalar | None = None
    """The most items that the loop goes through: a number or an expression."""
    of: Scalar | None = None
    """Decide: an expression whose value chooses one of `cases`."""
    cases: dict[str, EdgeLike] | None = None
    """One edge for each value of `of`."""
    warn_at: Scalar | None = None
    """Share of the guard's budget at which the result warns: `80%`."""
    on: dict[Name, OnEdges] | None = None
    """Wait: an edge for each event from outside."""
    within: Scalar | None = None
    """How long the action or wait may take: `5m`, a limit, or an expression."""
    expired: EdgeLike | None = None
    """Taken when `within` has passed."""
    all: Annotated[list[Text], Field(min_length=1)] | None = None
    """Check all: decisions that are all started, in this order."""
    next: Edges | None = None
    """The next state, an edge, or a list of edges, of which the first that holds is taken."""
    failed: EdgeLike | None = None
    """Where a failed action goes; `next` continues as after a success."""
    retry: RetryLike | None = None
    """Extra attempts of the action: `{times, base, factor, on}`, or how many."""
    set: Sets | None = None
    """Variables that are set on entry: `{vars.x: expression}`."""
    status: Literal["running", "debugging"] | None = None
    """The status that the run has from here on."""
    stop: Text | None = None
    """Stop reason that is raised on entry; `highest` stops with those already raised."""
    message: Text | None = None
    """Template of the message that goes with `stop`."""
    end: Literal["completed", "error", "by_reason"] | None = None
    """The end of the run, and its status; `by_reason` takes that of the stop reason."""
    allow: list[Text] | None = None
    """The tools of the machine that this state may use; default: all."""
    in_doubt: Literal["retry", "ask", "fail"] | None = None
    """The treatment of a paid call whose answer was lost in a crash."""


class RuleShape(Shape):
    """A stop rule, a signal rule or a detour, evaluated after every action."""

    when: Scalar
    """Guard of the rule."""
    stop: Text | None = None
    """Stop: the reason that is raised; the run stops."""
    signal: Text | None = None
    """Signal: the reason that is raised; the file's own decisions judge it."""
    to: Text | None = None
    """Where a stop goes; alone: a detour."""
    message: Text | None = None
    """Template of the signal's message; default: what was measured against what."""
    warn_at: Scalar | None = None
    """Share of the budget at which the result warns: `80%`."""
    at: Annotated[list[Text], Field(min_length=1)] | None = None
    """Look only after the action of these states."""
    before: Annotated[list[Text], Field(min_length=1)] | None = None
    """Look only when one of these states is about to be entered."""


Output = Annotated[
    Annotated[Scalar, Tag(SCALAR)] | Annotated[dict[Name, Scalar], Tag(MAPPING)],
    Discriminator(kind_of),
]


class ApproveShape(Shape):
    """The tools whose calls a person must approve before they are executed."""

    tools: Annotated[list[Text], Field(min_length=1)]
    """The tools whose calls wait for an approval, wherever the machine executes calls."""
    by: Text | None = None
    """Who may answer, a role or a name: shown with the question; answers must then say `by`."""
    not_by: Literal["submitter"] | None = None
    """`submitter`: who submitted the run cannot accept; answers must then say `by`."""
    ask: Text | None = None
    """A template that is shown above the calls; the calls and their arguments are always shown."""
    within: Scalar | None = None
    """How long an answer may take: `10m`, a limit, or an expression; default: for ever."""
    expired: Text | None = None
    """The state to go to when no answer came in time; default: the calls are denied."""
    when: Scalar | None = None
    """Which calls wait, a guard over `call.arguments`: `call.arguments.usd > 100`; default: all."""
    edit: bool | None = None
    """Whether an answer may change arguments, or give a result in the tool's place."""
    remember: bool | None = None
    """Whether an answer may also accept all later calls of this run with equal arguments."""


class MachineShape(Shape):
    """A machine: the keys that a file and an inline child machine have in common."""

    title: Text | None = None
    """Heading of the picture."""
    about: Text | None = None
    """For people: what the machine is for."""
    source: Text | None = None
    """The document that this machine reproduces."""
    metadata: dict[str, Data] | None = None
    """For people and programs; chartloop does not read it."""
    instructions: Text | None = None
    """System prompt, a template: `{{ memory.persona }}`."""
    model: ModelLike | None = None
    """The model that `infer` calls: its name, or `{name, ...}`."""
    tools: list[Text] | None = None
    """Registered tools, in the order in which the model sees them; `*`: all that Python brings."""
    approve: ApproveShape | None = None
    """Tools whose calls a person must approve: `{tools, by, when, ...}`."""
    mcp_servers: dict[str, McpShape] | None = None
    """MCP servers by name; their tools are `server.tool`."""
    memory: dict[Name, Block] | None = None
    """Memory blocks by name: a text, or `{value, limit, label, template}`."""
    tasks: Tasks | None = None
    """The initial tasks of the queue, or `{file: path}`."""
    limits: dict[Name, Limit] | None = None
    """Named thresholds: `50`, `1_000_000`, `30m`, `95%`, true, a list of texts."""
    vars: dict[Name, Var] | None = None
    """Variables with their first value: `{approach: ""}`, `{type: "list[str]", value: []}`."""
    define: dict[Name, Scalar] | None = None
    """Named expressions: derived facts and named guards."""
    reasons: dict[Name, ReasonShape | None] | None = None
    """Stop reasons of this file: `{name: {priority, forced, status}}`."""
    rules: list[RuleShape] | None = None
    """Stop rules and detours, evaluated after every action."""
    states: dict[Name, StateShape | None] | None = None
    """The states; the first is where a run starts, unless `start` names another."""
    machines: dict[Name, "Child"] | None = None
    """Child machines by name: a whole machine, a path, or the name of a shipped one."""
    start: Text | None = None
    """The start state; default: the first."""
    on_stop: Text | None = None
    """The state where every stop goes that has no `to` of its own."""
    on_error: EdgeLike | None = None
    """Edge for a failed action that no one handles; default: stop with reason `error`."""
    in_doubt: Literal["retry", "ask", "fail"] | None = None
    """The treatment of a paid call whose answer was lost in a crash; default: `retry`."""
    output: Output | None = None
    """What the run gives: an expression, or `{name: expression}`; default: at a natural end the
    last text."""
    agent: Text | None = None
    """A stable id for memory, cancellation and listing across runs."""
    ignore: list[IgnoreShape] | None = None
    """Findings that are accepted: `[{code, at, reason}]`."""
    deviations: list[DeviationShape] | None = None
    """Accepted differences from the picture in `source`: `[{difference, reason}]`."""
    renamed: dict[str, Text] | None = None
    """`{old_state: new_state}`, for runs that were recorded before a rename."""


Child = Annotated[
    Annotated[Text, Tag(SCALAR)] | Annotated[MachineShape, Tag(MAPPING)], Discriminator(kind_of)
]


class FileShape(MachineShape):
    """A whole machine file."""

    chartloop: Annotated[int, Strict()]
    """Format version: 1. The first line of the file."""
    machine: Name
    """The machine's name: a small letter, then small letters, digits and underscores."""
