"""The orders that a face may give a run, and which of them are allowed now.

The messages of a page are untrusted: anyone may have written them.

Belongs here: the form of each order, and why it may be refused. Never: carrying it out (`perform`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, cast

from msgspec import Meta

from chartloop.api import Run
from chartloop.core.codec import read
from chartloop.core.errors import RunError, nearest
from chartloop.core.visible import cut

LONGEST = 20_000
"""The most characters of a text that a page may send."""
Text = Annotated[str, Meta(max_length=LONGEST)]


@dataclass(frozen=True)
class Step:
    """Do the current action."""


@dataclass(frozen=True)
class RunUntil:
    """Drive the run to its end, to a wait, or `until` a state is entered or a guard holds."""

    until: Text = ""


@dataclass(frozen=True)
class Pause:
    """Pause before the next action."""


@dataclass(frozen=True)
class Resume:
    """End a pause, without doing an action yet."""


@dataclass(frozen=True)
class Cancel:
    """Stop before the next action, then do the epilogue, if there is one."""

    reason: Text = "user_requested"
    """A stop reason of the machine."""
    message: Text = ""


@dataclass(frozen=True)
class Answer:
    """Answer the wait and continue from it. The data are as typed."""

    event: Text
    data: Mapping[Text, Text | bool] = field(default_factory=dict[str, str | bool])
    wait: Text = ""
    """The id of the wait whose question the page shows."""
    shown: Text = ""
    """The digest of a question of which more was opened."""


@dataclass(frozen=True)
class Back:
    """Take back the newest records."""

    records: int = 1


@dataclass(frozen=True)
class Enqueue:
    """Append tasks to the queue."""

    tasks: Annotated[tuple[Text, ...], Meta(min_length=1)]


@dataclass(frozen=True)
class Fork:
    """Continue as a new run; the old one stays as it is."""

    at: int | None = None
    """The first record to leave out; None keeps all."""


@dataclass(frozen=True)
class Break:
    """Set a breakpoint, or remove it if it is set."""

    at: Text
    """A state, an edge, a rule, or a guard."""


@dataclass(frozen=True)
class Set:
    """Change a limit or a variable. The value is as typed."""

    name: Text
    value: Text


@dataclass(frozen=True)
class Why:
    """Show the decision of a record, by default the newest."""

    seq: int | None = None


@dataclass(frozen=True)
class Show:
    """Show the current view; with the question to its end if `whole`."""

    whole: bool = False


Order = (
    Step
    | RunUntil
    | Pause
    | Resume
    | Cancel
    | Answer
    | Enqueue
    | Back
    | Fork
    | Break
    | Set
    | Why
    | Show
)
ORDERS: Mapping[str, type[Order]] = MappingProxyType(
    {
        "step": Step, "run": RunUntil, "pause": Pause, "resume": Resume, "cancel": Cancel,
        "enqueue": Enqueue, "answer": Answer, "back": Back, "fork": Fork, "break": Break,
        "set": Set, "why": Why, "show": Show,
    }
)  # fmt: skip
"""The orders by their word in a message, whose other keys are the fields of the order."""
_TRIMMED = ("until", "reason", "at", "name")
"""The fields without the spaces around them."""
Driving = Step | RunUntil | Cancel | Answer
"""Orders that do actions, and so may take long; a cancelled run may have an epilogue."""


def refusals_of(run: Run, records: int) -> dict[str, str]:
    """The reasons why orders are refused now, by order; an order without a reason is allowed.

    For a run that is not being driven; `records` is the number of its records.
    """
    if run.moved_to:
        giving = ORDERS.keys() - {"break", "why", "show"}
        return dict.fromkeys(sorted(giving), f"The run continues as run {run.moved_to}")
    refused: dict[str, str] = {}
    if run.ended:
        refused["step"] = refused["run"] = "The run has ended: Back takes its last record back"
        refused |= dict.fromkeys(("set", "cancel", "pause", "enqueue"), "The run has ended")
    elif waits_for_answer(run):
        refused["step"] = refused["run"] = "The run waits for an answer"
    if run.ended or not run.answers:
        refused["answer"] = "The run waits for no answer"
    if not is_held(run) and run.session.row.parked is None:
        refused["resume"] = "Nobody has paused the run"
    if records < 2:
        refused["back"] = "There is nothing to take back"
    if not records:
        refused["fork"] = "There is nothing to fork from"
    return refused


def waits_for_answer(run: Run) -> bool:
    """Whether it needs an answer to continue: it waits, and the wait has not expired."""
    if run.ended or not run.answers:
        return False
    wake_at, now = run.session.position.wake_at, run.session.ports.clock.now()
    return wake_at is None or now < wake_at


def is_held(run: Run) -> bool:
    """Whether it was paused on request, rather than by a wait or a back-off."""
    position = run.session.position
    blocked = position.blocked_on or position.wake_at is not None
    return position.status == "paused" and not blocked and not run.answers and not run.moved_to


def order_of(message: object) -> Order:
    """Parse a message as an order. Raises `RunError` if it is not one."""
    if not isinstance(message, Mapping):
        raise _refusal(f"a {type(message).__name__} is not an order")
    fields = cast(Mapping[object, object], message)
    do = fields.get("do")
    kind = ORDERS.get(do) if isinstance(do, str) else None
    if kind is None:
        if not isinstance(do, str):
            raise _refusal(f"there is no order {type(do).__name__}")
        raise _refusal(f"there is no order {cut(repr(do))}", nearest(do, ORDERS))
    trimmed = {
        str(name): value.strip() if name in _TRIMMED and isinstance(value, str) else value
        for name, value in fields.items()
    }
    try:
        return read(trimmed, kind, {})
    except ValueError as error:
        raise _refusal(str(error)) from None


def number_of(message: object) -> int:
    """The number by which a page matches the reply to its order; 0 if it has none."""
    number = cast(Mapping[object, object], message).get("id") if isinstance(message, Mapping) else 0
    if not isinstance(number, int) or isinstance(number, bool):
        return 0
    return number if 0 <= number < 2**53 else 0  # JavaScript's safe integers


def _refusal(fault: str, hint: str = "") -> RunError:
    return RunError(f"this is not an order: {fault}", hint=hint)
