r"""The parts of a machine file: machines, states, edges and rules.

Each row is a key: its kind of value, its words and heading in a diff, and below it the text that
editors show. The meaning of names and expressions is not checked here. See `docs/language.md`.
"""

# without `annotations` of `__future__`: the annotations are part of the table
from typing import Annotated, Literal

from chartloop.core.errors import RetryOn
from chartloop.language.file.keys import (
    LOST,
    REQUIRED,
    IsFlag,
    IsNumber,
    Json,
    Label,
    Name,
    Names,
    Part,
    Prose,
    Scalar,
    Template,
    Text,
    Whole,
    is_whole,
    key,
)
from chartloop.language.file.name_rules import RESERVED_STATES
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
    "LOST", "NEEDS", "Append", "ApproveShape", "BlockShape", "DeviationShape", "EdgeLike",
    "EdgeShape", "ElicitationShape", "FileShape", "IgnoreShape", "MachineShape", "McpShape",
    "ModelShape", "OnShape", "ReasonShape", "RetryShape", "RuleShape", "SamplingShape", "Scalar",
    "Sets", "StateShape", "TaskFile", "TaskShape", "TypedValue", "is_whole",
]  # fmt: skip

NEEDS: dict[str, tuple[str, ...]] = {
    "then": ("when", "for"), "in": ("for",), "each": ("for",), "most": ("for",),
    "cases": ("of",), "else": ("when", "of"), "expired": ("within",),
    "within": ("do", "on"), "warn_at": ("when",), "with": ("do",), "save": ("do",),
    "retry": ("do",), "failed": ("do",), "allow": ("do",), "in_doubt": ("do",),
    "message": ("stop",),
}  # fmt: skip
"""The keys of a state that require another key: each with the keys of which one is necessary."""


StateName = Annotated[str, Names(reserved=RESERVED_STATES)]

EDGE = "an edge is a state's name, or a mapping with `to`"
"""The hint for what is no edge."""


class Append(Part, title="append"):
    """Adds to a list: `{append: last.text}`."""

    append: Scalar = key(
        cure="write `{append: expression}`, or an expression alone", default=REQUIRED
    )
    """The value added at the end: an expression, or a part of the result under `save`."""


Assigned = Scalar | Append | list[Json] | None
Sets = dict[str, Assigned]


class EdgeShape(Part, title="edge", noun="an edge"):
    """An edge: a target with a guard, a label and effects."""

    to: Text = key("target", "Edges", cure=EDGE, default=REQUIRED)
    """The state that it leads to; `return` goes back to where a detour interrupted the run."""
    label: Label | None = key("label", "Words")
    """Text of the edge."""
    when: Scalar | None = key("guard", "Edges")
    """Guard: the edge is taken when it holds. Quote it in `{...}`."""
    set: Sets | None = key("`set`", "Edges")
    """Variables that are set when the edge is taken: `{vars.x: expression}`."""
    stop: Text | None = key("stop reason", "Edges")
    """Stop reason that is raised when the edge is taken."""
    message: Template | None = key("message of the stop", "Edges")
    """Template of the message that goes with `stop`."""


EdgeLike = Text | EdgeShape
Edges = EdgeLike | list[EdgeLike]


Listed = Scalar | list[Json]


class OnShape(EdgeShape, title="event"):
    """The edge of an event of a wait, and the data of its answer."""

    data: dict[Name, Text] | None = key("data of the answer", "Edges")
    """Fields of the answer and their types: `{note: str}`; guards read `last.answer.note`."""


OnLike = Text | OnShape
OnEdges = OnLike | list[OnLike]


class RetryShape(Part, title="retry"):
    """Extra attempts of an action; each is a step and a record."""

    times: Annotated[int, IsNumber(least=1, most=100, whole=True)]
    """How many extra attempts: 1 to 100."""
    base: Scalar = "1s"
    """The wait before the first extra attempt."""
    factor: Annotated[float, IsNumber(least=1, most=100)] = 2.0
    """Each further wait is this many times longer."""
    on: list[RetryOn] = key(default=["TRANSIENT"])
    """Categories of failure that are retried; `EMPTY` is an empty reply. Default: `[TRANSIENT]`."""
    most: Scalar = "5m"
    """The longest wait that a provider may ask for (`Retry-After`); beyond it the action fails."""


RetryLike = Annotated[int, IsNumber(least=1, most=100, whole=True)] | RetryShape
ModelLike = Text | ModelShape


class StateShape(Part, title="state", noun="a state"):
    """A state: the keys of its one job, and those common to all states."""

    label: Label | None = key("label", "Words")
    r"""Text of the node. `\n` breaks the line, `{limits.tokens:,}` shows the live value."""
    about: Prose | None = key("description", "Words")
    """A description for people."""
    role: Literal["hub"] | None = key("role in the picture", "Words")
    """`hub`: the middle of the machine, drawn in its own colour."""
    shape: Literal["pill", "rect"] | None = key("shape", "Words")
    """`pill`: where a picture starts or ends in mid-machine; `rect`: an end drawn as a box."""
    do: Text | None = key("action", "Actions")
    """Act: the action of this state; see `chartloop info actions`."""
    with_: dict[str, Json] | None = key(
        "`with`", "Actions", cure="`with` maps the action's fields to their values"
    )
    """Fields of the action; see `chartloop info actions NAME`."""
    save: Sets | None = key("`save`", "Actions")
    """`{vars.x: result.path}`: what is kept of the result when the action succeeded."""
    ask: Label | None = key("question", "Words")
    """The question of a decision or a wait: drawn as a diamond."""
    when: Scalar | None = key("guard", "Edges")
    """Decide: a guard, with `then` and `else`."""
    then: EdgeLike | None = key(cure=EDGE)
    """Taken when the guard holds; of a loop, after its last item."""
    else_: EdgeLike | None = key(cure=EDGE)
    """Taken when the guard does not hold, or no case fits."""
    for_: Text | None = None
    """Loop: the variable that takes each item in turn; needs `in`, `each` and `then`."""
    in_: Listed | None = None
    """The list of the loop: an expression, read once when the loop starts."""
    each: EdgeLike | None = None
    """Taken with each item; from there the run comes back to this state for the next."""
    most: Scalar | None = None
    """The most items that the loop goes through: a number or an expression."""
    of: Scalar | None = key("what is decided on", "Edges")
    """Decide: an expression whose value chooses one of `cases`."""
    cases: dict[str, EdgeLike] | None = key(cure="`cases` maps each value of `of` to an edge")
    """One edge for each value of `of`."""
    warn_at: Scalar | None = key("share that warns", "Edges")
    """Share of the guard's budget at which the result warns: `80%`."""
    on: dict[Name, OnEdges] | None = key(
        "order of the edges", "Edges", cure="`on` maps each event to an edge"
    )
    """Wait: an edge for each event from outside."""
    within: Scalar | None = key("longest time", "Actions")
    """How long the action or wait may take: `5m`, a limit, or an expression."""
    expired: EdgeLike | None = key(cure=EDGE)
    """Taken when `within` has passed."""
    all: Annotated[list[Text], 1] | None = key(
        "order of branches", "Edges", cure="name the decisions: `all: [a, b]`"
    )
    """Check all: decisions that are all started, in this order."""
    next: Edges | None = key(
        "order of the edges",
        "Edges",
        cure="`next` is a state's name, a mapping with `to`, or a list of these",
    )
    """The next state, an edge, or a list of edges, of which the first that holds is taken."""
    failed: EdgeLike | None = key("`failed`", "Edges", cure=EDGE)
    """Where a failed action goes; `next` continues as after a success."""
    retry: RetryLike | None = key("retries", "Actions")
    """Extra attempts of the action: `{times, base, factor, on}`, or how many."""
    set: Sets | None = key("`set` on entry", "Actions")
    """Variables that are set on entry: `{vars.x: expression}`."""
    status: Literal["running", "debugging"] | None = key("status", "States")
    """The status that the run has from here on."""
    stop: Text | None = key("stop reason", "States")
    """Stop reason that is raised on entry; `highest` stops with those already raised."""
    message: Template | None = key("message of the stop", "Actions")
    """Template of the message that goes with `stop`."""
    end: Literal["completed", "error", "by_reason"] | None = key("end", "States")
    """The end of the run, and its status; `by_reason` takes that of the stop reason."""
    allow: list[Text] | None = key("allowed tools", "Actions")
    """The tools of the machine that this state may use; default: all."""
    in_doubt: Literal["retry", "tell", "ask", "fail"] | None = key("`in_doubt`", "Actions")
    """The treatment of a paid call whose answer was lost in a crash."""


class RuleShape(Part, title="rule", noun="a rule"):
    """A stop rule, a signal rule or a detour, evaluated after every action."""

    when: Scalar = key("guard", "Rules", default=REQUIRED)
    """Guard of the rule."""
    stop: Text | None = key("stop reason", "Rules")
    """Stop: the reason that is raised; the run stops."""
    signal: Text | None = key("signal", "Rules")
    """Signal: the reason that is raised; the file's own decisions judge it."""
    to: Text | None = key("target", "Rules", cure=EDGE)
    """Where a stop goes; alone: a detour."""
    message: Template | None = key("message", "Rules")
    """Template of the signal's message; default: what was measured against what."""
    warn_at: Scalar | None = key("share that warns", "Rules")
    """Share of the budget at which the result warns: `80%`."""
    at: Annotated[list[Text], 1] | None = key("states after which it is evaluated", "Rules")
    """Look only after the action of these states."""
    before: Annotated[list[Text], 1] | None = key("states before which it is evaluated", "Rules")
    """Look only when one of these states is about to be entered."""


Output = Scalar | dict[Name, Scalar]


class ApproveShape(Part, title="approve"):
    """The tools whose calls a person must approve before they are executed."""

    tools: Annotated[list[Text], 1]
    """The tools whose calls wait for an approval, wherever the machine executes calls."""
    by: Text | None = None
    """Who may answer, a role or a name: shown with the question; answers must then say `by`."""
    not_by: Literal["submitter"] | None = None
    """`submitter`: who submitted the run cannot accept; answers must then say `by`."""
    ask: Template | None = None
    """A template that is shown above the calls; the calls and their arguments are always shown."""
    within: Scalar | None = None
    """How long an answer may take: `10m`, a limit, or an expression; default: for ever."""
    expired: Text | None = key(cure=EDGE)
    """The state to go to when no answer came in time; default: the calls are denied."""
    when: Scalar | None = None
    """Which calls wait, a guard over `call.arguments`: `call.arguments.usd > 100`; default: all."""
    edit: Annotated[bool, IsFlag(loose=True)] | None = None
    """Whether an answer may change arguments, or give a result in the tool's place."""
    remember: Annotated[bool, IsFlag(loose=True)] | None = None
    """Whether an answer may also accept all later calls of this run with equal arguments."""


class DataShape(Part, title="data", noun="what is said of data"):
    """What a tool, an action or an input says of its data; what it leaves out is harmless."""

    reads: Literal["private", "public"] | None = key("what it reads", "Data")
    """`private`: what comes from it is not for everybody."""
    from_: Literal["untrusted", "trusted"] | None = key("whom it is from", "Data")
    """`untrusted`: anybody may have written what comes from it."""
    sends: Literal["out", "nowhere"] | None = key("what it sends", "Data")
    """`out`: what it is given may leave the system."""


class MachineShape(Part, title="child_machine", noun="the machine, at the top of the file"):
    """A machine: the keys that a file and an inline child machine have in common."""

    title: Prose | None = key("title", "Words")
    """Heading of the picture."""
    about: Prose | None = key("description", "Words")
    """For people: what the machine is for."""
    source: Prose | None = key("source", "Words")
    """The document that this machine reproduces."""
    metadata: dict[str, Json] | None = None
    """For people and programs; chartloop does not read it."""
    instructions: Template | None = key("instructions", "Model")
    """System prompt, a template: `{{ memory.persona }}`."""
    model: ModelLike | None = None
    """The model that `infer` calls: its name, or `{name, ...}`."""
    tools: list[Text] | None = key("order of the tools", "Model")
    """Tools and child machines, in the order of the request; `*`: all tools that Python brings."""
    approve: ApproveShape | None = None
    """Tools whose calls a person must approve: `{tools, by, when, ...}`."""
    data: dict[str, DataShape] | None = key(cure="`data` maps tools: `{fetch: {from: untrusted}}`")
    """What tools and own actions do with data, by name: `{fetch: {from: untrusted}}`."""
    inputs: dict[str, DataShape] | None = key(cure="`inputs`: `{task: {from: untrusted}}`")
    """What a caller may give a run, and what is known of it; default: anything, and nothing."""
    mcp_servers: dict[str, McpShape] | None = None
    """MCP servers by name; their tools are `server.tool`."""
    memory: dict[Name, Block] | None = None
    """Memory blocks by name: a text, or `{value, limit, label, template}`."""
    tasks: Tasks | None = key("file of tasks", "Data")
    """The initial tasks of the queue, or `{file: path}`."""
    limits: dict[Name, Limit] | None = key(cure="`limits` maps names to thresholds: `{steps: 50}`")
    """Named thresholds: `50`, `1_000_000`, `30m`, `95%`, true, a list of texts."""
    vars: dict[Name, Var] | None = key(cure='`vars` maps names to first values: `{plan: ""}`')
    """Variables with their first value: `{approach: ""}`, `{type: "list[str]", value: []}`."""
    define: dict[Name, Scalar] | None = None
    """Named expressions: derived facts and named guards."""
    reasons: dict[Name, ReasonShape | None] | None = None
    """Stop reasons of this file: `{name: {priority, forced, status}}`."""
    rules: list[RuleShape] | None = key(
        "order of the rules", "Rules", cure="a rule is `{when: guard, stop: reason}`"
    )
    """Stop rules and detours, evaluated after every action."""
    states: dict[StateName, StateShape | None] | None = key(
        cure="`states` maps each state's name to its job: `think: {do: infer, next: act}`"
    )
    """The states; the first is where a run starts, unless `start` names another."""
    machines: dict[Name, "Child"] | None = None
    """Child machines by name: a whole machine, a path, or the name of a shipped one."""
    start: Text | None = key("start state", "Edges")
    """The start state; default: the first."""
    resume_at: list[Text] | None = key("`resume_at`", "Edges")
    """The states at which the next run of a conversation may begin, besides the start state."""
    continues: Literal["never"] | None = key("`continues`", "Edges")
    """`never`: no next message continues a run, so nothing of it reaches another one."""
    on_stop: Text | None = key("`on_stop`", "Edges")
    """The state where every stop goes that has no `to` of its own."""
    on_error: EdgeLike | None = key(cure=EDGE)
    """Edge for a failed action that no one handles; default: stop with reason `error`."""
    in_doubt: Literal["retry", "tell", "ask", "fail"] | None = key("`in_doubt`", "Actions")
    """The treatment of a paid call whose answer was lost in a crash; default: `retry`."""
    output: Output | None = key("output", "Data")
    """What the run gives: an expression, or `{name: expression}`; default: at a natural end the
    last text."""
    agent: Prose | None = key("agent's id", "Data")
    """A stable id for memory, cancellation and listing across runs."""
    ignore: list[IgnoreShape] | None = None
    """Findings that are accepted: `[{code, at, reason}]`."""
    deviations: list[DeviationShape] | None = None
    """Accepted differences from the picture in `source`: `[{difference, reason}]`."""
    renamed: dict[str, Text] | None = None
    """`{old_state: new_state}`, for runs that were recorded before a rename."""


Child = Text | MachineShape


class FileShape(MachineShape):
    """A whole machine file."""

    chartloop: Whole = key(cure="write `chartloop: 1` as the first line", default=REQUIRED)
    """Format version: 1. The first line of the file."""
    machine: Text = key("name", "Data", cure="write `machine: my_agent`", default=REQUIRED)
    """The machine's name: a small letter, then small letters, digits and underscores."""
