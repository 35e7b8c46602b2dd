"""Where a run is: all that it is at one moment.

A position is a fold of the run's records. It is plain data: JSON and pickle both ways, and it
knows no machine, so the same position can be asked of two machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from chartloop.core.facts import (
    EMPTY,
    ErrorFacts,
    Facts,
    Failure,
    LastFacts,
    Marks,
    ProgressFacts,
    QueueFacts,
    RunFacts,
    SignalFacts,
    Task,
    ToolCall,
    UsageFacts,
)
from chartloop.core.outcome import Message
from chartloop.core.plain import plain
from chartloop.core.reasons import NO_SIGNALS, REASONS, StopReason, StopSignals
from chartloop.core.transcript import NO_MESSAGES, Conversation
from chartloop.core.values import Value

FILES = "files"
"""Under this name `Position.kept` holds the images and files that the run was started with, as
parts of a message."""
REPAIRED = "repaired"
"""Under this name `Position.kept` holds how often an action has asked to be done again."""


def repair_count(kept: Mapping[str, Any], state: str, attempt: int) -> int:
    """The number of extra attempts so far that a state's action asked for itself."""
    note = kept.get(REPAIRED) if attempt else None
    return min(note["times"], attempt) if note and note["state"] == state else 0


CHILD = "child"
"""A run is blocked on this while a child machine waits. Under this name `Position.kept` holds
what the child asks, an `Asked` as plain data."""
IN_DOUBT = "in-doubt"
"""A run is blocked on this while someone must say whether a paid call is made again."""
ELICITATION = "elicitation"
"""A run is blocked on this while someone must fill the form that an MCP server asks for. Under this
name `Position.kept` holds the form, its action, and the answers that this action has."""
METADATA = "metadata"
"""Under this name a run keeps what its caller said about it at the start."""


APPROVAL = "ask_approval"
"""Under this name `Position.kept` holds the calls that someone was asked to approve, and what
they answered."""


class Asked(Value, frozen=True, gc=False):
    """The question of a waiting child; an answer to the parent is an answer to it."""

    run: str
    """The child's run id."""
    question: str
    events: tuple[str, ...]
    """The events that its wait takes."""
    machines: tuple[str, ...] = ()
    """From the parent down to the machine that waits: the child's name, its child's, and on."""
    state: str = ""
    """The state in which that one waits."""
    closing: bool = False
    """All that wait are on their way out, and wait on it: that they should stop is not news."""
    waiting: int = 1
    """How many children wait."""
    wait: str = ""
    """The id of the child's wait, in its own run; empty in a journal of an older version."""
    form: Mapping[str, Any] = EMPTY
    """The form that an MCP server asks the child for; empty for another question."""

    def to_data(self) -> dict[str, Any]:
        """Plain data, for a record."""
        data = self.to_mapping()
        return data if self.form else {name: data[name] for name in data if name != "form"}


class ReturnPoint(Value, frozen=True, gc=False):
    """Where a detour interrupts a run, and `next: return` continues it."""

    kind: Literal["state", "edge", "fork"]
    """In a state, before it was left; on an edge, before it was taken; before the branches of an
    `all` were entered."""
    name: str
    """The state, the edge by id, or the state of the `all`."""


class Return(Value, frozen=True, gc=False):
    """A detour that has not returned: an entry of the stack `Position.returns`."""

    rule: str
    """The rule that made the detour, by id."""
    point: ReturnPoint
    attempt: int | None = None
    """Of an interrupted retry: the extra attempts that were made before it."""

    def to_text(self) -> str:
        """The form that snapshots and printed positions have, such as ``rules.0:act.retry#1``."""
        kind, name = self.point.kind, self.point.name
        point = f"={name}" if kind == "state" else f"{name}.all" if kind == "fork" else name
        attempt = "" if self.attempt is None else f"#{self.attempt}"
        return f"{self.rule}:{point}{attempt}"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read back what `to_text` wrote."""
        rule, _, rest = text.partition(":")
        point, _, attempt = rest.partition("#")
        return cls(rule, _point_from_text(point), int(attempt) if attempt else None)


def _point_from_text(text: str) -> ReturnPoint:
    if text.startswith("="):
        return ReturnPoint("state", text[1:])
    head, dot, last = text.partition(".")  # an edge of a wait is ``wait.on.all``
    return ReturnPoint("fork", head) if dot and last == "all" else ReturnPoint("edge", text)


class Position(Value, frozen=True, gc=False):
    """All that a run is at one moment."""

    state: str
    status: str = "idle"
    paused_from: str = ""
    """The status that a pause left: `running` or `debugging`."""
    facts: Facts = Facts()
    signals: StopSignals = NO_SIGNALS
    """Raised and not suppressed."""
    soft: tuple[str, ...] = ()
    """Reasons among `signals` that came from `signal` rules: the file's decisions judge them."""
    suppressed: StopSignals = NO_SIGNALS
    """Put off by a continuation."""
    stopping: bool = False
    """The epilogue is open: the reason is settled, rules are off."""
    returns: tuple[Return, ...] = ()
    """The detours that have not returned; the newest last."""
    skip: str = ""
    """The rule whose detour just ended: skipped until another action has finished."""
    attempt: int = 0
    """Extra attempts made of the present action."""
    entered_at: float = 0.0
    """When the present state was entered: where the clock of `within` starts."""
    wake_at: float | None = None
    blocked_on: str = ""
    """Why the present action waits, when it returned `Blocked`."""
    waited: float | None = None
    """Until when the present action waited, once it is called again."""
    pause_asked: bool = False
    """A pause that was asked for at a wait: takes effect before the next action."""
    warned: frozenset[str] = frozenset()
    """Rules and decisions whose `warn_at` has spoken."""
    messages: Conversation = NO_MESSAGES
    prompt: tuple[Message, ...] | None = None
    """The messages that the next model call sends in place of the conversation."""
    queue: tuple[Task, ...] = ()
    kept: Mapping[str, Any] = EMPTY

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self.status in ("completed", "error")

    @property
    def closing(self) -> bool:
        """Whether it is stopping, or waits for a child that is: no one need ask it to."""
        return self.stopping or ((asked := self.child_question) is not None and asked.closing)

    @property
    def child_question(self) -> Asked | None:
        """The question of a child, while the run waits for that."""
        given = self.kept.get(CHILD) if self.blocked_on == CHILD else None
        if given is None:
            return None
        return Asked(
            given["run"], given["question"], tuple(given["events"]), tuple(given["machines"]),
            given["state"], given["closing"], given["waiting"], given.get("wait", ""),
            given.get("form", EMPTY),
        )  # fmt: skip

    @property
    def form(self) -> Mapping[str, Any] | None:
        """The form that an MCP server asks for, while the run waits for that."""
        return self.kept[ELICITATION]["form"] if self.blocked_on == ELICITATION else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, whole; `messages` too."""
        return {
            **{n: getattr(self, n) for n in _PLAIN},
            "facts": plain(self.facts),
            "signals": self.signals.to_list(),
            "suppressed": self.suppressed.to_list(),
            "soft": list(self.soft),
            "returns": [one.to_text() for one in self.returns],
            "warned": sorted(self.warned),
            "messages": list(self.messages),
            "prompt": None if self.prompt is None else list(self.prompt),
            "queue": [{**t.to_mapping(), "by": dict(t.by)} for t in self.queue],
            "kept": dict(self.kept),
        }

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], reasons: Mapping[str, StopReason] = REASONS
    ) -> Position:
        """Read back what `to_dict` wrote."""
        given = dict(data)
        given["facts"] = _facts_in(given["facts"])
        given["signals"] = StopSignals.from_list(given["signals"], reasons)
        given["suppressed"] = StopSignals.from_list(given["suppressed"], reasons)
        given["soft"] = tuple(given["soft"])
        given["returns"] = tuple(map(Return.from_text, given["returns"]))
        given["warned"] = frozenset(given["warned"])
        if not isinstance(given["messages"], Conversation):
            given["messages"] = Conversation(given["messages"])
        given["prompt"] = None if given["prompt"] is None else tuple(given["prompt"])
        given["queue"] = tuple(Task(**t) for t in given["queue"])
        return cls(**given)


_PLAIN = (
    "state", "status", "paused_from", "stopping", "skip", "attempt", "entered_at", "wake_at",
    "blocked_on", "waited", "pause_asked",
)  # fmt: skip


def _failure(data: Mapping[str, Any] | None) -> Failure | None:
    return None if data is None else Failure(**data)


def _facts_in(data: Mapping[str, Any]) -> Facts:
    errors, progress = dict(data["errors"]), dict(data["progress"])
    last, queue = dict(data["last"]), dict(data["queue"])
    signals, marks = dict(data["signals"]), dict(data["marks"])
    errors["last"] = _failure(errors["last"])
    progress["recent"] = tuple(progress["recent"])
    last["error"] = _failure(last["error"])
    last["tool_calls"] = tuple(ToolCall(**c) for c in last["tool_calls"])
    queue["current"] = None if queue["current"] is None else Task(**queue["current"])
    signals["reasons"] = tuple(signals["reasons"])
    marks["seen"], marks["last_calls"] = tuple(marks["seen"]), tuple(marks["last_calls"])
    return Facts(
        RunFacts(**data["run"]),
        UsageFacts(**data["usage"]),
        ErrorFacts(**errors),
        ProgressFacts(**progress),
        LastFacts(**last),
        QueueFacts(**queue),
        SignalFacts(**signals),
        dict(data["memory"]),
        dict(data["limits"]),
        dict(data["vars"]),
        Marks(**marks),
    )
