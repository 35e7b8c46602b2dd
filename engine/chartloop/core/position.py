"""Positions: the complete state of a run at one moment.

A position is a fold of the run's records. It is plain data that converts to JSON and pickle and
back. It does not depend on a machine, so that two machines can be compared at the same position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from chartloop.core.codec import read, written
from chartloop.core.facts import EMPTY, Facts, Task
from chartloop.core.outcome import Message
from chartloop.core.plain import plain
from chartloop.core.reasons import NO_SIGNALS, REASONS, StopReason, StopSignals
from chartloop.core.transcript import NO_MESSAGES, Conversation
from chartloop.core.values import Value

FILES = "files"
"""The key of `Position.kept` for the images and files that the run was started with, as message
parts."""
REPAIRED = "repaired"
"""The key of `Position.kept` for the number of extra attempts that an action requested."""


def repair_count(kept: Mapping[str, Any], state: str, attempt: int) -> int:
    """The number of extra attempts that a state's action has requested itself so far."""
    note = kept.get(REPAIRED) if attempt else None
    return min(note["times"], attempt) if note and note["state"] == state else 0


CHILD = "child"
"""The `blocked_on` of a run whose child waits for an answer. The key of `Position.kept` for the
child's question, an `Asked` as plain data."""
RETRY = "retry"
"""The `blocked_on` of a run that backs off before the next attempt of an action."""
IN_DOUBT = "in-doubt"
"""The `blocked_on` of a run that waits for a decision on calls whose outcome is not known. The key
of `Position.kept` for these calls, and for who decides."""
DECISIONS: tuple[str, ...] = ("retry", "fail")
"""The answers of a run that waits because a call is in doubt."""
ELICITATION = "elicitation"
"""The `blocked_on` of a run that waits for an MCP server's form to be filled in. The key of
`Position.kept` for the form, its action, and the answers that the action has received."""
METADATA = "metadata"
"""The key of `Position.kept` for the metadata that the caller passed at the start."""


REPLY_KEY = "reply"
"""The key of `Position.kept` for the key that the calls of the newest reply have in common."""
SUBMITTER = "submitter"
"""The key of `Position.kept` for who submitted the run, where that is known."""

APPROVAL = "ask_approval"
"""The key of `Position.kept` for the calls to be approved, and what was decided on each: see
`core.approvals`."""
REMEMBERED = "remembered"
"""The key of `Position.kept` for the calls that need no more approval, as digests, and the run in
which they need none."""


ENDED = ("completed", "error")
"""The status of a run that has ended."""


class Asked(Value, frozen=True, gc=False):
    """The question of a waiting child run; the parent passes its answer on."""

    run: str
    """The child's run id."""
    question: str
    events: tuple[str, ...]
    """The events that the child's wait takes."""
    machines: tuple[str, ...] = ()
    """The names of the machines from the child down to the one that waits."""
    state: str = ""
    """The state in which that machine waits."""
    closing: bool = False
    """Whether all waiting children are already stopping, so that a stop need not be passed on."""
    waiting: int = 1
    """The number of waiting children."""
    wait: str = ""
    """The id of the wait in the child's run."""
    form: Mapping[str, Any] = EMPTY
    """The form that an MCP server wants filled in; empty for any other question."""
    calls: tuple[Mapping[str, Any], ...] = ()
    """The calls that an approval is about; empty for any other question."""
    about: str = ""
    """What is decided: the newest reply of the child's model."""
    doubt: Mapping[str, Any] | None = None
    """The calls in doubt that it is about; None for any other question."""

    def to_data(self) -> dict[str, Any]:
        """The question as plain data, for a record."""
        return written(self)


class ReturnPoint(Value, frozen=True, gc=False):
    """The point where a detour interrupts a run, and where `next: return` continues it."""

    kind: Literal["state", "edge", "fork"]
    """`state`: before the state is left; `edge`: before the edge is taken; `fork`: before the
    branches of an `all` are entered."""
    name: str
    """The state, the id of the edge, or the state with the `all`."""


class Return(Value, frozen=True, gc=False):
    """An entry of the stack `Position.returns`: a detour that has not returned yet."""

    rule: str
    """The id of the rule that made the detour."""
    point: ReturnPoint
    attempt: int | None = None
    """The number of extra attempts before the detour, if it interrupted a retry."""

    def to_text(self) -> str:
        """The entry as snapshots and printed positions hold it: ``rules.0:act.retry#1``."""
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
    """The complete state of a run at one moment.

    The facts repeat status and signals, because guards read nothing but facts.
    """

    state: str
    status: str = "idle"
    paused_from: str = ""
    """The status before the pause: `running` or `debugging`."""
    facts: Facts = Facts()
    signals: StopSignals = NO_SIGNALS
    """The signals that are raised and not suppressed."""
    soft: tuple[str, ...] = ()
    """The reasons among `signals` that `signal` rules raised: the file decides what they mean."""
    suppressed: StopSignals = NO_SIGNALS
    """Deferred signals, set aside since work has started again."""
    stopping: bool = False
    """Whether the epilogue has begun: the reason is settled and rules are no longer evaluated."""
    returns: tuple[Return, ...] = ()
    """The detours that have not returned; the newest last."""
    skip: str = ""
    """The rule of the newest detour: skipped until an action after its own target has finished."""
    attempt: int = 0
    """The number of extra attempts of the current action."""
    entered_at: float = 0.0
    """When the current state was entered, or its next attempt began; `within` counts from here."""
    wake_at: float | None = None
    blocked_on: str = ""
    """Why the current action waits: as it said in `Blocked`, or `RETRY` for a back-off."""
    waited: float | None = None
    """The time until which the current action waited, once it is called again."""
    pause_asked: bool = False
    """Whether a pause was requested during a wait; it takes effect before the next action."""
    warned: frozenset[str] = frozenset()
    """The rules and decisions whose `warn_at` has been reached."""
    messages: Conversation = NO_MESSAGES
    prompt: tuple[Message, ...] | None = None
    """The messages that the next model call sends instead of the conversation."""
    queue: tuple[Task, ...] = ()
    kept: Mapping[str, Any] = EMPTY
    """What actions keep for a later call, by their names, and what the engine does, by `CHILD`,
    `FILES` and the other keys above."""

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.status in ENDED

    @property
    def closing(self) -> bool:
        """Whether the run is stopping, or waits for a child that is."""
        return self.stopping or ((asked := self.child_question) is not None and asked.closing)

    @property
    def child_question(self) -> Asked | None:
        """The question of a child run; None unless the run waits for its answer."""
        given = self.kept.get(CHILD) if self.blocked_on == CHILD else None
        if given is None:
            return None
        return read(given, Asked, REASONS)

    @property
    def form(self) -> Mapping[str, Any] | None:
        """The form that an MCP server wants filled in; None unless the run waits for it."""
        return self.kept[ELICITATION]["form"] if self.blocked_on == ELICITATION else None

    @property
    def doubt(self) -> Mapping[str, Any] | None:
        """The calls in doubt on which a person decides; None unless the run waits for that."""
        return (self.kept.get(IN_DOUBT) or EMPTY) if self.blocked_on == IN_DOUBT else None

    def to_dict(self) -> dict[str, Any]:
        """The whole position as plain data, `messages` included."""
        return {
            **plain(self),
            "signals": self.signals.to_list(),
            "suppressed": self.suppressed.to_list(),
            "returns": [one.to_text() for one in self.returns],
            "warned": sorted(self.warned),
            "messages": list(self.messages),
        }

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], reasons: Mapping[str, StopReason] = REASONS
    ) -> Position:
        """Read back what `to_dict` wrote."""
        returns = tuple(map(Return.from_text, data["returns"]))
        return read({**data, "returns": returns}, cls, reasons)
