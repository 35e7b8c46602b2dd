"""Facts: the values that guards, `set`, templates and labels read.

Facts are grouped in sections. A section is an immutable `Value` that is replaced when it
changes, so that a snapshot of all facts is one reference. Only `core.fold` and `machine.evolve`
change facts.

`FACTS` describes them: one row per fact, with its type, its unit and what changes it. Guards are
typed from it, and the reference page is generated from it. A test keeps rows and sections in step.

Source: docs/reference/facts.md; 000 `ExecutionMetrics`, 003 "Monitoring", 004 `agent-state`.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from chartloop.core.cells import NAMES
from chartloop.core.format import say_value
from chartloop.core.plain import plain
from chartloop.core.reports import Group, Part, Shown, Table
from chartloop.core.text_table import Cell, Row
from chartloop.core.types import (
    ANY,
    BOOL,
    COUNT,
    COUNTER,
    STR,
    Type,
    enum_of,
    list_of,
    map_of,
    struct,
)
from chartloop.core.units import say_count
from chartloop.core.values import Count, Money, Time, Value


class AgentStatus(enum.StrEnum):
    """The status of an agent. Source: 004 "Agent Status", 001 "Set Status = Debugging"."""

    IDLE = "idle"
    RUNNING = "running"
    PAUSED = "paused"
    DEBUGGING = "debugging"
    COMPLETED = "completed"
    ERROR = "error"


class _Nothing(dict[str, Any]):
    """An empty mapping that cannot be filled, so that one instance can be shared."""

    def __setitem__(self, key: str, value: Any) -> None:
        raise TypeError("this mapping is shared and stays empty")

    def __reduce__(self) -> str:
        return "EMPTY"


EMPTY: Mapping[str, Any] = _Nothing()


class Failure(Value, frozen=True, gc=False):
    """The failure of an action, and the state where it happened."""

    category: str
    message: str
    state: str = ""
    kind: str = ""
    """The kind of failure, if it is a known one: ``rate_limit``. Not readable by guards."""
    retry_after: float | None = None
    """Seconds to wait before a retry, if the provider sent them. Not readable by guards."""


LONGEST_WIRE_NAME = 64


def wire_name(name: str) -> str:
    """The name of a tool in a request: providers allow no dots and at most 64 characters.

    ``calc.add`` becomes ``calc__add``. A name that is too long is cut and gets a hash as suffix.
    """
    if "." not in name and len(name) <= LONGEST_WIRE_NAME:
        return name
    without_dots = name.replace(".", "__")
    if len(without_dots) <= LONGEST_WIRE_NAME:
        return without_dots
    return (
        f"{without_dots[: LONGEST_WIRE_NAME - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    )


class ToolCall(Value, frozen=True, gc=False):
    """A tool call that the model requests. `arguments` is the JSON text that it wrote."""

    id: str
    name: str
    arguments: str


class Task(Value, frozen=True, gc=False):
    """A task of the queue. Source: 003 "Task Queue"."""

    id: str
    text: str
    kind: str = "primary"
    acceptance: str = ""
    by: Mapping[str, Any] = EMPTY
    attempts: Count = 0
    """The number of failed attempts."""
    cycle: Count = 0
    """The improvement cycle that the task belongs to; 0 while it is only identified."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `Task(**data)` reads it back."""
        return {**self.to_mapping(), "by": dict(self.by)}


class TokenPart(NamedTuple):
    """A count of tokens that is part of another one, as providers, guards and traces know it."""

    of: str
    """The count that it is a part of, and never exceeds."""
    about: str
    """Its description as a fact."""
    sent_as: tuple[tuple[str, str], ...]
    """The fields of a provider's usage that hold it, the first choice first: section and name."""
    span_name: str
    """Its attribute in traces, of the semantic conventions of OpenTelemetry."""
    words: str = ""
    """What a report adds to its number; empty if reports leave it out."""


PARTS: Mapping[str, TokenPart] = MappingProxyType(
    {
        "cached_tokens": TokenPart(
            "prompt_tokens",
            "Prompt tokens that providers read from their caches, where they say so.",
            (("prompt_tokens_details", "cached_tokens"), ("", "cache_read_input_tokens")),
            "gen_ai.usage.cache_read.input_tokens", "from the cache",
        ),
        "cache_write_tokens": TokenPart(
            "prompt_tokens",
            "Prompt tokens that providers wrote into their caches, where they say so.",
            (
                ("prompt_tokens_details", "cache_write_tokens"),
                ("prompt_tokens_details", "cache_creation_tokens"),
                ("", "cache_creation_input_tokens"),
            ),
            "gen_ai.usage.cache_creation.input_tokens",
        ),
        "reasoning_tokens": TokenPart(
            "completion_tokens",
            "Completion tokens of reasoning, where providers say so.",
            (("completion_tokens_details", "reasoning_tokens"),),
            "gen_ai.usage.reasoning.output_tokens", "of reasoning",
        ),
    }
)  # fmt: skip
"""The partial counts, by the name of their field in `TokenParts` and `ReportedParts`."""


parts_of: Callable[[Any], tuple[int | None, ...]] = attrgetter(*PARTS)
"""The partial counts of a reply or a sum, in the order of `PARTS`."""


class TokenParts(Value, frozen=True, gc=False, kw_only=True):
    """The counts of `PARTS`, summed up: 0 where nothing was reported."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class ReportedParts(Value, frozen=True, gc=False, kw_only=True):
    """The counts of `PARTS` as one reply reports them: None where it does not."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class RunFacts(Value, frozen=True, gc=False):
    """`run`: identity, status, clock and counters of the run."""

    id: str = ""
    machine: str = ""
    agent: str = ""
    session: str = ""
    task: str = ""
    status: str = "idle"
    paused_from: str = ""
    steps: int = 0
    visits: Mapping[str, int] = EMPTY
    elapsed: float = 0.0
    working: float = 0.0
    idle: float = 0.0
    started_at: float = 0.0
    continuations: int = 0
    depth: int = 0


class UsageFacts(TokenParts, frozen=True, gc=False):
    """`usage`: calls, tokens, cost, and the size of the conversation."""

    llm_calls: int = 0
    tool_calls: int = 0
    calls: Mapping[str, int] = EMPTY
    unknown_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cost: float | None = None
    messages: int = 0
    context_tokens: int = 0
    context_window: int = 0
    context_ratio: float = 0.0
    prunable: bool = False

    @property
    def tokens(self) -> str:
        """The tokens in words: ``1,204 tokens (800 from the cache, 120 of reasoning)``."""
        more = ", ".join(
            f"{count:,} {part.words}"
            for name, part in PARTS.items() if part.words and (count := getattr(self, name))
        )  # fmt: skip
        return say_count(self.total_tokens, "token") + (f" ({more})" if more else "")


class ErrorFacts(Value, frozen=True, gc=False):
    """`errors`: counts of failures, and the newest one."""

    total: int = 0
    consecutive: int = 0
    rate: float = 0.0
    retries: int = 0
    last: Failure | None = None


class ApprovalFacts(Value, frozen=True, gc=False):
    """`approvals`: what was decided about calls that a person must approve."""

    denied: int = 0


class ProgressFacts(Value, frozen=True, gc=False):
    """`progress`: signs of progress and of stalling."""

    stalled_steps: int = 0
    stalled_for: float = 0.0
    repeats: int = 0
    recent: tuple[str, ...] = ()
    cycles: int = 0
    improving: bool = False
    improvements: int = 0
    magnitude: float | None = None


class LastFacts(Value, frozen=True, gc=False):
    """`last`: the newest action, model reply and answer."""

    state: str = ""
    action: str = ""
    ok: bool = True
    error: Failure | None = None
    result: Any = None
    answer: Any = None
    text: str = ""
    finish_reason: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    wants_memory: bool = False
    calls_dropped: int = 0
    model: str = ""
    denied: int = 0


class QueueFacts(Value, frozen=True, gc=False):
    """`queue`: the task queue."""

    size: int = 0
    done: int = 0
    failed: int = 0
    primary_done: bool = True
    current: Task | None = None


class SignalFacts(Value, frozen=True, gc=False):
    """`signals`: the raised stop signals."""

    count: int = 0
    top: str | None = None
    reasons: tuple[str, ...] = ()
    status: str = "completed"
    continued: bool = False


class FleetFacts(Value, frozen=True, gc=False):
    """`fleet`: what limits across runs leave, as its journal said when the record was made."""

    usd_left: Money | None = None
    tokens_left: Count | None = None
    requests_wait: Time | None = None


class Marks(Value, frozen=True, gc=False):
    """State that the fold keeps between steps. Guards cannot read it."""

    now: float = 0.0
    """The latest clock reading, seconds since the epoch. Never falls."""
    progress_at: float = 0.0
    paused_at: float | None = None
    work: int = 0
    work_failed: int = 0
    seen: tuple[int, ...] = ()
    """Fingerprints of the latest distinct tool calls, newest last; at most `SEEN`."""
    last_calls: tuple[int, ...] = ()
    has_queue: bool = False
    cut_short: bool = False
    """Whether the last reply lacks its end."""
    rules: int = 1
    """The version of the decision rules with which the run began: `machine.evolve.RULES`."""


SEEN = 64
"""The number of distinct tool calls that are remembered for `progress.stalled_steps`."""
RECENT = 10
"""The number of work actions that `progress.recent` holds."""


CUT_SHORT = frozenset({"length", "content_filter"})
"""Finish reasons of a reply that lacks its end."""


class Facts(Shown, Value, frozen=True, gc=False):
    """All facts at one moment. Immutable: a changed copy shares the unchanged sections."""

    run: RunFacts = RunFacts()
    usage: UsageFacts = UsageFacts()
    errors: ErrorFacts = ErrorFacts()
    approvals: ApprovalFacts = ApprovalFacts()
    progress: ProgressFacts = ProgressFacts()
    last: LastFacts = LastFacts()
    queue: QueueFacts = QueueFacts()
    signals: SignalFacts = SignalFacts()
    fleet: FleetFacts = FleetFacts()
    memory: Mapping[str, str] = EMPTY
    limits: Mapping[str, Any] = EMPTY
    vars: Mapping[str, Any] = EMPTY
    marks: Marks = Marks()

    @property
    def unfinished(self) -> int:
        """What an end does not have: the tasks that were given up, and a last reply cut short."""
        return self.queue.failed + self.marks.cut_short

    def to_dict(self) -> dict[str, Any]:
        """The facts that guards can read, as plain data. Source: 004 `agent-state->hash`."""
        return {root: value for root, value in plain(self).items() if root != "marks"}

    def items(self) -> list[tuple[str, Any]]:
        """Every fact by its full name, as plain data: ``("run.steps", 3)``."""
        return [
            (f"{root}.{name}", value)
            for root, section in self.to_dict().items()
            for name, value in section.items()
        ]

    def parts(self) -> Iterator[Part]:
        """The facts that have changed, and the others on demand."""
        initial = dict(Facts().items())
        changed, others = list[Row](), list[Row]()
        for name, value in self.items():
            spec = FACTS.get(name)
            if spec is not None and isinstance(value, dict):  # counts by name: without the zeros
                value = {key: count for key, count in cast(dict[str, int], value).items() if count}
            text = say_value(value, spec.type if spec is not None else None)
            cells = (Cell(name, "code"), text, Cell(spec.about if spec is not None else "", "dim"))
            (others if name in initial and value == initial[name] else changed).append(Row(cells))
        head = ("fact", "value", "meaning")
        title = f"{len(others)} more with their initial values"
        yield from (Table(changed, head), Group(title, [Table(others, head)], folded=title))

    def plain_text(self) -> str:
        """The facts that have changed, one a line."""
        changed = cast(Table, next(iter(self.parts())))
        return "\n".join(f"{name}: {text}" for name, text, _ in (r.cells for r in changed.rows))


class FactSpec(NamedTuple):
    """A row of `FACTS`: a fact's type, its meaning and what changes it."""

    type: Type
    about: str
    unit: str = ""
    changed_by: str = "every action"
    words: tuple[str, ...] = ()
    """The words that the engine gives it, where its type is a text."""
    by_actions: bool = False
    """Whether only the file's own actions change it, not time, a caller or an entry of a state."""
    cells: tuple[str, ...] = ()
    """The parts of the run whose text it may hold: see `core.cells`."""
    no_text: str = ""
    """Why a text or list of texts holds no text of the run."""

    @property
    def description(self) -> str:
        """The description, with the unit unless type or text already give it."""
        known = not self.unit or self.unit == self.type.kind or self.unit in self.about.lower()
        return self.about if known else f"{self.about} ({self.unit})"

    def to_dict(self) -> dict[str, Any]:
        """The row as plain data: a fact of `chartloop info facts --format json`, without its name."""
        return {
            "type": str(self.type), "unit": self.unit or None, "about": self.about,
            "changed_by": self.changed_by,
        }  # fmt: skip


_CATEGORY = enum_of("TRANSIENT", "RECOVERABLE", "CRITICAL")
FAILURE = struct({"category": _CATEGORY, "message": STR, "state": STR})
TOOL_CALL = struct({"id": STR, "name": STR, "arguments": STR})
TASK = struct(
    {"id": STR, "text": STR, "kind": enum_of("primary", "improvement"), "acceptance": STR}
)
STATUS = enum_of(*(str(s) for s in AgentStatus))
_TIME = Type("duration", nonneg=True, grows=True)
_WORK = "work actions"
_RUNS = "every record, by the calls of all runs"
_NAMED, _ENGINE = "a name of the file", "a word of the engine"

FACTS: Mapping[str, FactSpec] = MappingProxyType(
    {
        "run.id": FactSpec(STR, "The run's id.", changed_by="start", no_text=NAMES),
        "run.machine": FactSpec(STR, "The machine's name.", changed_by="start", no_text=_NAMED),
        "run.agent": FactSpec(STR, "The stable id of the agent across runs.", changed_by="start", no_text=NAMES),
        "run.session": FactSpec(STR, "The session that the caller named.", changed_by="start", no_text=NAMES),
        "run.task": FactSpec(STR, "The task of the run.", changed_by="start", cells=("task",)),
        "run.status": FactSpec(STATUS, "The state of the status region.", changed_by="status triggers"),
        "run.paused_from": FactSpec(STR, "The status that a pause left: `running` or `debugging`; empty otherwise.", changed_by="`pause`, `resume`", no_text=_ENGINE),
        "run.steps": FactSpec(COUNTER, "Finished actions: failed, retried and upkeep ones too.", "actions"),
        "run.visits": FactSpec(map_of(COUNTER), "Entries of each state: `run.visits.<state>`.", "entries", "entering a state"),
        "run.elapsed": FactSpec(_TIME, "All time since the start.", "duration", "every record"),
        "run.working": FactSpec(_TIME, "`elapsed` without `idle`.", "duration", "every record"),
        "run.idle": FactSpec(_TIME, "Time spent paused or waiting, or with no process driving the run.", "duration", "the end of a pause or wait"),
        "run.started_at": FactSpec(Type("float", nonneg=True), "When the run was started.", "seconds since 1970-01-01 UTC", "start"),
        "run.continuations": FactSpec(COUNTER, "How often `continue_run` put a stop off.", "times", "`continue_run`", by_actions=True),
        "run.depth": FactSpec(COUNT, "0 for a top-level run, 1 for its child, and so on.", "levels", "start"),
        "usage.llm_calls": FactSpec(COUNTER, "Model calls that gave a reply.", "calls", "model calls", by_actions=True),
        "usage.tool_calls": FactSpec(COUNTER, "Tool calls that were executed.", "calls", "tool calls", by_actions=True),
        "usage.calls": FactSpec(map_of(COUNTER), "Tool calls by tool: `usage.calls.<tool>`.", "calls", "tool calls", by_actions=True),
        "usage.unknown_calls": FactSpec(COUNTER, "Calls with effects whose outcome was not known when their action ended.", "calls", "actions", by_actions=True),
        "usage.prompt_tokens": FactSpec(COUNTER, "Tokens sent to models.", "tokens", "model calls", by_actions=True),
        "usage.completion_tokens": FactSpec(COUNTER, "Tokens that models wrote.", "tokens", "model calls", by_actions=True),
        "usage.total_tokens": FactSpec(COUNTER, "Prompt and completion tokens.", "tokens", "model calls", by_actions=True),
        **{f"usage.{name}": FactSpec(COUNTER, part.about, "tokens", "model calls", by_actions=True) for name, part in PARTS.items()},
        "usage.cost": FactSpec(Type("float", nonneg=True, grows=True, nullable=True), "What the model calls cost; None while no price is known.", "USD", "model calls", by_actions=True),
        "usage.messages": FactSpec(COUNT, "Messages in the conversation.", "messages", "actions that add or prune messages"),
        "usage.context_tokens": FactSpec(COUNT, "Tokens of the conversation as the next model call will send it, as last counted or estimated.", "tokens", "model calls and messages"),
        "usage.context_window": FactSpec(COUNT, "The model's window; 0 while it is unknown.", "tokens", "start"),
        "usage.context_ratio": FactSpec(Type("fraction", nonneg=True), "`context_tokens / context_window`; 0 while the window is unknown.", "fraction", "model calls and messages"),
        "usage.prunable": FactSpec(BOOL, "Whether `prune_context` could still remove something.", changed_by="messages and `prune_context`"),
        "errors.total": FactSpec(COUNTER, "Every failure: of actions, and of single tool calls.", "failures", by_actions=True),
        "errors.consecutive": FactSpec(COUNT, "Failed work actions since the last that succeeded.", "failures", _WORK + ", `back_off`, `apply_fix`", by_actions=True),
        "errors.rate": FactSpec(Type("fraction", nonneg=True), "Failed tasks over all tasks, waiting ones too; over work actions when there is no queue.", "fraction", _WORK, by_actions=True),
        "errors.retries": FactSpec(COUNT, "Back-offs and fixes since work last succeeded.", "times", "`back_off`, `apply_fix`, " + _WORK, by_actions=True),
        "errors.last": FactSpec(FAILURE.maybe(), "The newest failure: `category`, `message`, `state`.", changed_by="failures", by_actions=True, cells=("error",)),
        "approvals.denied": FactSpec(COUNTER, "Tool calls that a person denied, or that nobody answered in time. They are not errors.", "calls", "`call_tools`, `call_tool`", by_actions=True),
        "progress.stalled_steps": FactSpec(COUNT, "Work actions since variables, queue or memory changed or a new tool call was made.", "actions", _WORK),
        "progress.stalled_for": FactSpec(Type("duration", nonneg=True), "Time since a task was done or an action reported progress.", "duration", "every record"),
        "progress.repeats": FactSpec(COUNT, "How often, in a row, the model asked for the same tool calls again.", "times", "model calls", by_actions=True),
        "progress.recent": FactSpec(list_of(STR), f"The last {RECENT} work actions, oldest first; tool calls by tool name.", changed_by=_WORK, no_text=_NAMED),
        "progress.cycles": FactSpec(COUNTER, "Improvement cycles.", "cycles", "`measure`", by_actions=True),
        "progress.improving": FactSpec(BOOL, "Whether the run is in its improvement phase.", changed_by="`measure`", by_actions=True),
        "progress.improvements": FactSpec(COUNT, "Improvements identified and not yet done.", "tasks", "`measure`", by_actions=True),
        "progress.magnitude": FactSpec(Type("fraction", nullable=True), "How much the last improvement cycle improved; None before the first.", "fraction", "`measure`", by_actions=True),
        "last.state": FactSpec(STR, "Where the last action was done.", no_text=_NAMED),
        "last.action": FactSpec(STR, "The last action's name; empty before the first.", no_text=_NAMED),
        "last.ok": FactSpec(BOOL, "Whether the last action succeeded; true before the first."),
        "last.error": FactSpec(FAILURE.maybe(), "The last action's failure: `category`, `message`, `state`; None when it succeeded.", cells=("error",)),
        "last.result": FactSpec(ANY, "The result of the last action, of the type that it declares.", cells=("result",)),
        "last.answer": FactSpec(ANY.maybe(), "The data of the newest answer, as the wait declares it.", changed_by="answers", cells=("answer",)),
        "last.text": FactSpec(STR, "The newest model reply's text.", changed_by="model calls", by_actions=True, cells=("reply",)),
        "last.finish_reason": FactSpec(STR, "Why the model stopped writing: `stop`, `length`, `tool_calls`, `content_filter`.", changed_by="model calls", words=("stop", "length", "tool_calls", "content_filter"), by_actions=True, no_text="a word of the provider"),
        "last.tool_calls": FactSpec(list_of(TOOL_CALL), "The calls that the newest reply asks for: `id`, `name`, `arguments`.", changed_by="model calls", by_actions=True, cells=("reply",)),
        "last.model": FactSpec(STR, "The model that wrote the newest reply: the file's, or the fallback that answered.", changed_by="model calls", by_actions=True, cells=("model",)),
        "last.wants_memory": FactSpec(BOOL, "Whether the newest reply asks for tool calls, and all of them are memory tools.", changed_by="model calls", by_actions=True),
        "last.calls_dropped": FactSpec(COUNT, "How many calls of the newest reply were not executed: more than `at_most` of `call_tools`, or all but the first of `call_tool`.", "calls", "model calls, `call_tools`, `call_tool`", by_actions=True),
        "last.denied": FactSpec(COUNT, "How many calls of the newest reply were denied, or not answered in time.", "calls", "model calls, `call_tools`, `call_tool`", by_actions=True),
        "queue.size": FactSpec(COUNT, "Tasks that wait; improvements from the beginning of their cycle on.", "tasks", "`work`, `enqueue`"),
        "queue.done": FactSpec(COUNTER, "Tasks that were done.", "tasks", "`work`", by_actions=True),
        "queue.failed": FactSpec(COUNTER, "Tasks that were given up.", "tasks", "`work`", by_actions=True),
        "queue.primary_done": FactSpec(BOOL, "Whether no primary task waits.", changed_by="`work`, `enqueue`"),
        "queue.current": FactSpec(TASK.maybe(), "The task that was started and is not done: `id`, `text`, `kind`, `acceptance`.", changed_by="`work`", cells=("queue",)),
        "signals.count": FactSpec(COUNT, "Stop signals that are raised and not suppressed.", "signals", "rules, states, tools, callers"),
        "signals.top": FactSpec(STR.maybe(), "The reason of the signal with the highest priority.", changed_by="rules, states, tools, callers", no_text=NAMES),
        "signals.reasons": FactSpec(list_of(STR), "The reasons of the raised signals, in order.", changed_by="rules, states, tools, callers", no_text=NAMES),
        "signals.status": FactSpec(enum_of("completed", "error"), "The status that the run would end with: the status of the top reason.", changed_by="rules, states, tools, callers"),
        "signals.continued": FactSpec(BOOL, "Whether a continuation was requested: the signals wait.", changed_by="`continue_run`", by_actions=True),
        "fleet.usd_left": FactSpec(Type("float", nonneg=True, nullable=True), "What the next model call may take from the tightest budget across runs; None without one.", "USD", _RUNS),
        "fleet.tokens_left": FactSpec(Type("int", nonneg=True, nullable=True), "The same of the budgets of tokens; None without one.", "tokens", _RUNS),
        "fleet.requests_wait": FactSpec(Type("duration", nonneg=True, nullable=True), "Time until the rates across runs let a request through, 0 if they do now; None without a rate.", "duration", _RUNS),
    }
)  # fmt: skip


def sections() -> dict[str, Type]:
    """The struct type of each section, by root name, without those that a machine declares."""
    fields: dict[str, dict[str, Type]] = {}
    for name, spec in FACTS.items():
        root, _, field = name.partition(".")
        fields.setdefault(root, {})[field] = spec.type
    return {root: struct(f) for root, f in fields.items()}
