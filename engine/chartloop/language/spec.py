"""Specs: the content of a machine file, with every name resolved.

Frozen records with places, independent of `transitions` and of runs. Specs are equal if their
files mean the same; places are not compared.

`language.load` makes a spec, `language.dump` writes it back, `machine.build` compiles it.
Source: `docs/language.md`
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from chartloop.core.errors import EMPTY_KINDS, NOWHERE, Finding, Place
from chartloop.core.facts import EMPTY, Failure, wire_name
from chartloop.core.reasons import REASONS, StopReason
from chartloop.core.specs import MOST_CALLS, ActionSpec, DataUse, Registry, Supply, ToolSpec
from chartloop.core.traits import NO_ACTION, ActionTraits, Asks, Calls
from chartloop.core.types import ANY, Type
from chartloop.language.expression import Expression
from chartloop.language.label import Label
from chartloop.language.server_tools import ServerSpec
from chartloop.language.template.template import Template
from chartloop.language.yaml.document import Document, Path, dotted_path

Job = Literal["act", "decide", "wait", "fork", "pass", "end"]
EdgeRole = Literal["next", "then", "else", "case", "on", "expired", "failed", "all", "error"]
InDoubt = Literal["retry", "tell", "ask", "fail"]
EndWord = Literal["completed", "error", "by_reason"]

RETURN = "return"
"""The target of an edge that returns to the point where a detour interrupted the run."""
INPUTS = ("task", "answer", "messages", "tasks")
"""What a run may be given, besides variables and memory blocks."""
NEVER = "never"
"""`continues: never`: no run of the machine continues another one."""
HIGHEST = "highest"
"""`stop: highest`: stop with the signals already raised."""


def path_in_file(made: Mapping[Path, Path], path: Path) -> Path:
    """The path in the file for a path of the machine; `made` maps generated paths to the file's."""
    for end in range(len(path), 1, -1) if made else ():
        if (origin := made.get(path[:end])) is not None:
            return origin + path[end:]
    return path


@dataclass(frozen=True, slots=True)
class Assign:
    """One assignment of a `set`: sets a variable, or appends to a list."""

    target: str
    """``vars.x``"""
    value: Expression | Any
    """An expression, or a constant of the variable's type."""
    append: bool = False

    @property
    def constant(self) -> bool:
        """Whether the value is a plain YAML value."""
        return not isinstance(self.value, Expression)


@dataclass(frozen=True, slots=True)
class Save:
    """One entry of a `save`: a part of the action's result, or a template over it."""

    target: str
    path: tuple[str | int, ...] | None = None
    template: Template | None = None
    append: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge from a state to the next one."""

    id: str
    """``monitor.next.0``; live transitions and records refer to it."""
    source: str
    target: str
    role: EdgeRole = "next"
    trigger: str = "advance"
    label: Label | None = None
    """The label in the file; None takes the default of the role."""
    when: Expression | None = None
    case: str = ""
    """For role `case`: the value of the state's `of` that selects the edge."""
    set: tuple[Assign, ...] = ()
    stop: str = ""
    message: Template | None = None
    """The message of the signal that `stop` raises."""
    data: tuple[tuple[str, Type], ...] = ()
    """For role `on`: the fields of the answer."""
    path: Path = field(default=(), compare=False, repr=False)
    """The path within the machine."""

    @property
    def guard_path(self) -> Path:
        """The path of its guard: the branches of a decision share the one of the state."""
        decides = self.role == "then"
        return ("states", self.source, "when") if decides else (*self.path, "when")


@dataclass(frozen=True, slots=True)
class Given:
    """A field of `with`, ready for evaluation; the form of `value` depends on `kind`."""

    kind: str
    """`constant`, or a `core.specs.ArgKind`."""
    value: Any


@dataclass(frozen=True, slots=True)
class Retry:
    """Extra attempts of an action. Waits are ``base * factor ** attempt`` seconds.

    A longer wait that the provider requests is granted, up to `most` seconds.
    """

    times: int
    base: float = 1.0
    factor: float = 2.0
    on: tuple[str, ...] = ("TRANSIENT",)
    most: float = 300.0

    def covers(self, failure: Failure) -> bool:
        """Whether this failure is tried again, as long as attempts are left."""
        named = failure.category in self.on
        return named or ("EMPTY" in self.on and failure.kind in EMPTY_KINDS)

    def wait(self, attempt: int, asked: float | None = None) -> float:
        """The wait in seconds after `attempt` extra attempts; `asked` is the provider's request."""
        return max(self.base * self.factor**attempt, asked or 0.0)


@dataclass(frozen=True, slots=True)
class StateSpec:
    """One state and its job."""

    name: str
    job: Job
    edges: tuple[Edge, ...] = ()
    """The edges in the order of evaluation, within their trigger."""
    label: Label | None = None
    ask: Label | None = None
    about: str = ""
    role: str = ""
    shape: str = ""
    """`pill` or `rect`, if the file sets how the state is drawn."""
    action: ActionSpec | None = field(default=None)
    result: Type = field(default=ANY, compare=False)
    """The type of the action's result."""
    args: Mapping[str, Given] = field(default_factory=dict[str, Given])
    save: tuple[Save, ...] = ()
    of: Expression | None = None
    warn_at: Expression | float | None = None
    within: Expression | float | None = None
    all: tuple[str, ...] = ()
    retry: Retry | None = None
    failed_next: bool = False
    """Whether the file has `failed: next`."""
    set: tuple[Assign, ...] = ()
    status: str = ""
    stop: str = ""
    message: Template | None = None
    """The message of the signal that `stop` raises."""
    end: EndWord | None = None
    allow: tuple[str, ...] | None = None
    in_doubt: InDoubt | None = None

    @property
    def repairs(self) -> int:
        """The number of extra attempts that the action may request itself."""
        field = self.action.repairs if self.action is not None else ""
        given = self.args.get(field)
        return int(given.value) if given is not None else 0

    @property
    def most_calls(self) -> int:
        """The most tool calls of one reply that the action executes."""
        given = self.args.get(self.action.most_calls) if self.action is not None else None
        return int(given.value) if given is not None else MOST_CALLS

    @property
    def traits(self) -> ActionTraits:
        """The traits of its action, given its fields; empty ones if it has none."""
        if self.action is None:
            return NO_ACTION
        traits = self.action.traits
        if not traits.one_of:
            return traits
        tool, machine = (self.action.naming(n) in self.args for n in ("tool", "machine"))
        return traits.chosen(tool=tool, machine=machine)

    @property
    def needs(self) -> Supply | None:
        """The supply that its action needs, given its fields."""
        if self.action is None or self.action.needs_if is None:
            return None if self.action is None else self.action.needs
        written = {name: given.value for name, given in self.args.items()}
        return self.action.needs if self.action.needs_if(written) else None

    @property
    def calls(self) -> Calls:
        """The tool calls that its action executes, given its fields."""
        calls = self.traits.calls
        if calls == "memory" and self.action is not None:
            return "none" if self.action.naming("block") in self.args else "memory"
        return calls

    @property
    def asks_model(self) -> Asks:
        """What its action requests from the model, given its fields."""
        when = self.traits.asks_if
        if when is not None:
            given = self.args.get(when[0])
            if given is None or (given.kind == "constant" and given.value != when[1]):
                return "never"
        return self.traits.asks

    @property
    def named_tool(self) -> str:
        """The tool that its fields name for its action to call; empty if there is none."""
        if self.action is None or self.traits.calls != "named":
            return ""
        given = self.args.get(self.action.naming("tool"))
        return "" if given is None else str(given.value)

    @property
    def named_machines(self) -> Iterator[str]:
        """The child machines that its fields name, those of several children one by one."""
        for arg in self.action.args if self.action is not None else ():
            if (given := self.args.get(arg.name)) is None:
                continue
            if arg.names == "machine":
                yield str(given.value)
            for inner in arg.fields:
                if inner.names == "machine":
                    yield from (str(one[inner.name].value) for one in given.value.values())

    @property
    def attempts(self) -> int:
        """The most extra attempts of the action, for retries and repairs together."""
        return self.repairs + (self.retry.times if self.retry is not None else 0)

    @property
    def attempts_label(self) -> str:
        """The extra attempts as in pictures: ``retry ≤ 2``. Empty if there are none."""
        retries = f"retry ≤ {self.retry.times}" if self.retry is not None else ""
        repairs = f"ask again ≤ {self.repairs}" if self.repairs else ""
        return ", ".join(filter(None, (retries, repairs)))

    def edges_of(self, role: EdgeRole) -> Iterator[Edge]:
        """The edges of one role, in order."""
        return (e for e in self.edges if e.role == role)

    @property
    def pill(self) -> bool:
        """Whether the file sets that the state is drawn as a pill."""
        return self.shape == "pill"

    @property
    def rests(self) -> bool:
        """Whether a step ends here, because the state acts, waits or ends."""
        return self.job in ("act", "wait", "end") or self.action is not None


@dataclass(frozen=True, slots=True)
class Rule:
    """A stop rule (`stop`), a signal rule (`signal`) or a detour (`to` alone)."""

    id: str
    """``rules.0``"""
    when: Expression
    stop: str = ""
    signal: str = ""
    to: str = ""
    at: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    message: Template | None = None
    warn_at: Expression | float | None = None

    @property
    def kind(self) -> Literal["stop", "signal", "detour"]:
        """What the rule does when it holds."""
        return "stop" if self.stop else "signal" if self.signal else "detour"

    @property
    def stops_for_certain(self) -> bool:
        """Whether it stops a run anywhere as soon as its only comparison holds."""
        alone = any(bound.text == self.when.text for bound in self.when.bounds)
        return bool(self.stop) and alone and not (self.at or self.before)

    @property
    def path(self) -> Path:
        """The path within the machine."""
        return ("rules", int(self.id.partition(".")[2]))


@dataclass(frozen=True, slots=True)
class LimitSpec:
    """A named threshold. The value None means off, and requires a nullable type."""

    type: Type
    value: Any = None
    typed: bool = False
    """Whether the file writes it as `{type, value}`."""


@dataclass(frozen=True, slots=True)
class VarSpec:
    """A variable and its first value."""

    type: Type
    value: Any = None


@dataclass(frozen=True, slots=True)
class BlockSpec:
    """A memory block. `limit` is in characters, or None."""

    value: str = ""
    limit: int | None = None
    label: str = ""
    template: Template | None = None
    on_demand: bool = False
    """Whether prompts only name it, and the model reads it with the tool `core_memory_read`."""

    def in_prompt(self, name: str, value: str) -> str:
        """The block with this value as the system message contains it."""
        if self.on_demand:
            label, size = self.label or name, f"{len(value):,}"
            return f"Memory block `{name}` ({label}): {size} characters, read by core_memory_read."
        return self.render(name, value)

    def render(self, name: str, value: str) -> str:
        """The block with this value as the model reads it."""
        label = self.label or name
        if self.template is not None:
            return self.template.render({"value": value, "label": label})
        return f"<{label}>\n{value}\n</{label}>"


@dataclass(frozen=True, slots=True)
class Ignore:
    """A finding that the file accepts."""

    code: str
    at: str
    reason: str


@dataclass(frozen=True, slots=True)
class Deviation:
    """An accepted difference from the picture in `source`."""

    difference: str
    reason: str


@dataclass(frozen=True, slots=True)
class Approve:
    """The key `approve`, with the states and rules of the file: see `language.approval`."""

    tools: tuple[str, ...]
    by: str = ""
    ask: Template | None = None
    within: Expression | float | None = None
    expired: str = ""
    when: Expression | None = None
    """Holds for the calls that wait, over `call` and the facts; None: every call of `tools`."""
    edit: bool = False
    remember: bool = False
    not_by: str = ""
    """`submitter`: who submitted the run cannot accept."""
    states: Mapping[str, StateSpec] = field(default_factory=dict[str, StateSpec])
    """The calling states before the expansion, by name."""
    rules: tuple[Rule, ...] = ()
    """The rules before the expansion."""
    made: tuple[str, ...] = ()
    """The names of the states that the expansion added."""


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """The content of a machine file, or of a child machine in one."""

    name: str
    states: Mapping[str, StateSpec]
    start: str
    rules: tuple[Rule, ...] = ()
    title: str = ""
    about: str = ""
    source: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    instructions: Template | None = None
    model: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tools: tuple[str, ...] = ()
    servers: Mapping[str, ServerSpec] = field(default_factory=dict[str, ServerSpec])
    """The MCP servers that the file declares: their tools are `server.tool`."""
    memory: Mapping[str, BlockSpec] = field(default_factory=dict[str, BlockSpec])
    tasks: tuple[Mapping[str, Any], ...] | str | None = None
    """The initial tasks, or the path of the file that holds them."""
    limits: Mapping[str, LimitSpec] = field(default_factory=dict[str, LimitSpec])
    vars: Mapping[str, VarSpec] = field(default_factory=dict[str, VarSpec])
    define: Mapping[str, Expression] = field(default_factory=dict[str, Expression])
    reasons: Mapping[str, StopReason] = field(default_factory=lambda: dict(REASONS))
    own_reasons: tuple[str, ...] = ()
    """The reasons that this file declares."""
    approve: Approve | None = None
    data: Mapping[str, DataUse] = field(default_factory=dict[str, DataUse])
    """What the file says that tools do with data, by tool."""
    inputs: Mapping[str, DataUse] | None = None
    """What a caller may give a run, and the labels of it; None: anything."""
    machines: Mapping[str, MachineSpec] = field(default_factory=dict[str, "MachineSpec"])
    resume_at: tuple[str, ...] = ()
    """The states, besides its start, at which a run may begin that continues another."""
    continues: str = ""
    """`never`: no next message continues a run."""
    on_stop: str = ""
    on_error: Edge | None = None
    in_doubt: InDoubt | None = None
    output: Expression | Mapping[str, Expression] | None = None
    agent: str = ""
    ignore: tuple[Ignore, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    start_given: bool = False
    registry: Registry = field(default=Registry(), compare=False, repr=False)
    """The actions, tools and guards that the file's names refer to."""
    file: str = field(default="", compare=False)
    roots: Mapping[str, Type] = field(
        default_factory=lambda: dict(EMPTY), compare=False, repr=False
    )
    """The names that expressions of this machine may read."""
    document: Document | None = field(default=None, compare=False, repr=False)
    """The parsed text of the file, for places."""
    base: Path = field(default=(), compare=False)
    """The path of the machine in the file: empty, or ``machines.x`` for a child."""
    made: Mapping[Path, Path] = field(default_factory=dict[Path, Path], compare=False, repr=False)
    """The paths of generated parts, such as the states of a loop, to their origin in the file."""

    @property
    def entries(self) -> tuple[str, ...]:
        """The states at which a caller's run may begin: the start, and those of `resume_at`."""
        after = () if self.continues == NEVER else self.resume_at
        return tuple(dict.fromkeys((self.start, *after)))

    def place(self, path: Path, *, key: bool = False, of: str = "") -> Place:
        """The place of a value in the file, or of its key, or of the part `of` its text."""
        if self.document is None:
            return NOWHERE
        full = self.base + path_in_file(self.made, path)
        offset = self.document.raw(full).find(of) if of else -1
        if offset >= 0:
            return self.document.part(full, offset, len(of))
        return self.document.key(full) if key else self.document.at(full)

    def accepts(self, finding: Finding) -> bool:
        """Whether the machine's `ignore` lists the finding."""
        base = dotted_path(self.base)
        at = finding.at.removeprefix(base + ".") if base else finding.at
        return any(
            i.code == finding.code and (not i.at or f"{at}.".startswith(f"{i.at}."))
            for i in self.ignore
        )

    @property
    def wire_names(self) -> Mapping[str, str]:
        """The names of MCP servers' tools, by their names in requests and conversations."""
        if not self.servers:
            return EMPTY
        return {wire_name(name): name for name in self.registry.tools if "." in name}

    def tools_at(self, state: StateSpec) -> tuple[ToolSpec, ...]:
        """The tools that a state may use, in the file's order."""
        known = self.registry.tools
        return tuple(known[name] for name in self.offered(state) if name in known)

    def offered(self, state: StateSpec) -> tuple[str, ...]:
        """The names of the tools that a state may use."""
        return self.tools if state.allow is None else state.allow

    def use_of(self, part: ToolSpec | ActionSpec) -> DataUse:
        """What a tool or action does with data: the file's word counts before its own."""
        return self.data.get(part.name, part.data)

    def children_of(self, state: StateSpec) -> tuple[str, ...]:
        """The names of the child machines that a state may run."""
        match state.traits.runs:
            case "none":
                return ()
            case "calls":
                return tuple(tool.machine for tool in self.tools_at(state) if tool.machine)
            case "task":
                return tuple(self.machines)
            case "one" | "several":
                return tuple(dict.fromkeys(state.named_machines))

    def starts_of(self, name: str) -> Iterator[str]:
        """Yield the states, besides its own start, at which this machine starts a child."""
        for state in self.states.values():
            if state.traits.runs in ("one", "several"):
                several = state.args["children"].value.values() if "children" in state.args else ()
                for given in cast("tuple[Mapping[str, Given], ...]", (state.args, *several)):
                    if "start" in given and given["machine"].value == name:
                        yield str(given["start"].value)

    @property
    def authored(self) -> MachineSpec:
        """The machine as its file has it, before the expansion of `approve`."""
        given = self.approve
        if given is None:
            return self
        kept = ((n, s) for n, s in self.states.items() if n not in given.made)
        states = {name: given.states.get(name, state) for name, state in kept}
        return replace(self, states=states, rules=given.rules)

    @property
    def gates(self) -> Collection[str]:
        """The waits that `approve` made: they take no answer before the calls were shown."""
        names = () if self.approve is None else self.approve.made
        return [name for name in names if self.states[name].job == "wait"]

    @property
    def needs_submitter(self) -> bool:
        """Whether a gate, of the machine or of a child, depends on who submits a run."""
        return any(part.approve is not None and part.approve.not_by for part in self.family())

    def family(self) -> Iterator[MachineSpec]:
        """The machine and all its descendants."""
        yield self
        for child in self.machines.values():
            yield from child.family()

    def edges(self) -> Iterator[Edge]:
        """The edges of all states, in the file's order, without `on_error`."""
        for state in self.states.values():
            yield from state.edges

    def guards(self) -> list[Expression]:
        """The guards of its rules, then those of its edges."""
        guards = [rule.when for rule in self.rules]
        return guards + [edge.when for edge in self.edges() if edge.when is not None]

    def reason(self, name: str) -> StopReason:
        """The stop reason of that name; a plain one if the name is not declared."""
        return self.reasons.get(name) or StopReason(name)
