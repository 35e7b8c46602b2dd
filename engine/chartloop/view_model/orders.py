"""The orders that a face may give a run, and which of them are allowed now.

Orders of a page are read from messages that anyone may have written.

Belongs here: the form of each order, and its refusal. Never: carrying it out (`perform`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, cast

from chartloop.api import Run
from chartloop.core.errors import RunError, nearest

LONGEST = 20_000
"""Characters of a text that a page may send."""


class Step(NamedTuple):
    """Do the current action."""


class RunUntil(NamedTuple):
    """Go on to the end, to a wait, or `until` a state is entered or a guard holds."""

    until: str = ""


class Pause(NamedTuple):
    """Rest before the next action."""


class Resume(NamedTuple):
    """Take back a request to pause, and do nothing else yet."""


class Cancel(NamedTuple):
    """Stop before the next action, and continue to the end that this leads to."""

    reason: str = "user_requested"
    """A stop reason of the machine."""
    message: str = ""


class Answer(NamedTuple):
    """Answer the wait, and continue from it. The data are as they were typed."""

    event: str
    data: Mapping[str, str | bool]
    wait: str = ""
    """The id of the wait whose question the page shows."""


class Back(NamedTuple):
    """Take the newest records back."""

    records: int


class Enqueue(NamedTuple):
    """Add tasks at the end of the queue."""

    tasks: tuple[str, ...]


class Fork(NamedTuple):
    """Go on as a new run; the old one stays as it is."""

    at: int | None = None
    """The first record that is left out; None keeps all."""


class Break(NamedTuple):
    """Set a breakpoint, or take it away where it is set."""

    at: str
    """A state, an edge, a rule, or a guard."""


class Set(NamedTuple):
    """Change a limit or a variable. The value is as it was typed."""

    name: str
    value: str


class Why(NamedTuple):
    """Show the decision of one record; of the newest where `seq` is None."""

    seq: int | None


class Show(NamedTuple):
    """Show everything as it is now."""


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
Driving = Step | RunUntil | Cancel | Answer
"""Orders that do an action: they may take long. A cancelled run may have an epilogue."""


def refusals_of(run: Run, records: int) -> dict[str, str]:
    """Why an order cannot be given to a run that rests, by its name; what is not here can.

    `records` is how many the run has.
    """
    refused: dict[str, str] = {}
    if run.ended:
        refused["step"] = refused["run"] = "The run has ended: Back takes its last record back"
        refused |= dict.fromkeys(("set", "cancel", "pause", "enqueue"), "The run has ended")
    elif waits_for_answer(run):
        refused["step"] = refused["run"] = "The run waits for an answer"
    if run.ended or not run.answers:
        refused["answer"] = "The run waits for no answer"
    if not is_held(run):
        refused["resume"] = "Nobody has paused the run"
    if records < 2:
        refused["back"] = "There is nothing to take back"
    if not records:
        refused["fork"] = "There is nothing to fork from"
    return refused


def waits_for_answer(run: Run) -> bool:
    """Whether it can only continue with an answer: its wait has no deadline that is over."""
    if run.ended or not run.answers:
        return False
    wake_at, now = run.session.position.wake_at, run.session.ports.clock.now()
    return wake_at is None or now < wake_at


def is_held(run: Run) -> bool:
    """Whether it rests because a pause was asked for: not at a wait, and not in a back-off."""
    position = run.session.position
    blocked = position.blocked_on or position.wake_at is not None
    return position.status == "paused" and not blocked and not run.answers


def order_of(message: object) -> Order:
    """The order in a message. `RunError` explains why a message is not an order."""
    if not isinstance(message, Mapping):
        raise _refusal(f"a {type(message).__name__} is not an order")
    given = cast(Mapping[object, object], message)
    do = given.get("do")
    read = _READ.get(do) if isinstance(do, str) else None
    if read is None:
        hint = nearest(do, _READ) if isinstance(do, str) else ""
        raise _refusal(f"there is no order {_quote(do)}", hint)
    return read(given)


def number_of(message: object) -> int:
    """The number by which a page knows its order again; 0 for a message that has none."""
    given = cast(Mapping[object, object], message).get("id") if isinstance(message, Mapping) else 0
    if not isinstance(given, int) or isinstance(given, bool):
        return 0
    return given if 0 <= given < 2**53 else 0  # what a page can count to


def _answer(given: Mapping[object, object]) -> Answer:
    data = given.get("data", {})
    if not isinstance(data, Mapping):
        raise _refusal("the fields of an answer are a mapping")
    typed = cast(Mapping[object, object], data)
    read = {
        _text(name, "a field's name"): _field_value(name, value) for name, value in typed.items()
    }
    wait = _text(given.get("wait", ""), "the wait")
    return Answer(_text(given.get("event"), "the event"), read, wait)


def _enqueue(given: Mapping[object, object]) -> Enqueue:
    tasks = given.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        raise _refusal("the tasks are a list of texts")
    return Enqueue(tuple(_text(task, "a task") for task in cast("list[object]", tasks)))


def _field_value(name: object, value: object) -> str | bool:
    return value if isinstance(value, bool) else _text(value, f"the field {_quote(name)}")


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise _refusal(f"{what} is a {type(value).__name__}, not a text")
    if len(value) > LONGEST:
        raise _refusal(f"{what} is longer than {LONGEST:,} characters")
    return value


def _count(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refusal(f"{what} is not a number: {_quote(value)}")
    return value


def _optional_count(value: object, what: str) -> int | None:
    return None if value is None else _count(value, what)


_READ: Mapping[str, Callable[[Mapping[object, object]], Order]] = MappingProxyType(
    {
        "step": lambda _: Step(),
        "run": lambda given: RunUntil(_text(given.get("until", ""), "where to run to").strip()),
        "pause": lambda _: Pause(),
        "resume": lambda _: Resume(),
        "cancel": lambda given: Cancel(
            _text(given.get("reason", "user_requested"), "the reason").strip(),
            _text(given.get("message", ""), "the message"),
        ),
        "enqueue": _enqueue,
        "answer": _answer,
        "back": lambda given: Back(_count(given.get("records", 1), "how many records")),
        "fork": lambda given: Fork(_optional_count(given.get("at"), "a record's number")),
        "break": lambda given: Break(_text(given.get("at"), "where to stop").strip()),
        "set": lambda given: Set(
            _text(given.get("name"), "the name").strip(), _text(given.get("value"), "the value")
        ),
        "why": lambda given: Why(_optional_count(given.get("seq"), "a record's number")),
        "show": lambda _: Show(),
    }
)


def _quote(value: object) -> str:
    text = repr(value) if isinstance(value, (str, int, float)) else type(value).__name__
    return text if len(text) <= 60 else text[:59] + "…"


def _refusal(fault: str, hint: str = "") -> RunError:
    return RunError(f"this is not an order: {fault}", hint=hint)
