"""The orders that a face may give a run, and which of them are allowed now.

The messages of a page are untrusted: anyone may have written them.

Belongs here: the form of each order, and why it may be refused. Never: carrying it out (`perform`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, cast

from chartloop.api import Run
from chartloop.core.errors import RunError, nearest
from chartloop.core.visible import cut

LONGEST = 20_000
"""The most characters of a text that a page may send."""


class Step(NamedTuple):
    """Do the current action."""


class RunUntil(NamedTuple):
    """Drive the run to its end, to a wait, or `until` a state is entered or a guard holds."""

    until: str = ""


class Pause(NamedTuple):
    """Pause before the next action."""


class Resume(NamedTuple):
    """End a pause, without doing an action yet."""


class Cancel(NamedTuple):
    """Stop before the next action, then do the epilogue, if there is one."""

    reason: str = "user_requested"
    """A stop reason of the machine."""
    message: str = ""


class Answer(NamedTuple):
    """Answer the wait and continue from it. The data are as typed."""

    event: str
    data: Mapping[str, str | bool]
    wait: str = ""
    """The id of the wait whose question the page shows."""
    shown: str = ""
    """The digest of a question of which more was opened."""


class Back(NamedTuple):
    """Take back the newest records."""

    records: int


class Enqueue(NamedTuple):
    """Append tasks to the queue."""

    tasks: tuple[str, ...]


class Fork(NamedTuple):
    """Continue as a new run; the old one stays as it is."""

    at: int | None = None
    """The first record to leave out; None keeps all."""


class Break(NamedTuple):
    """Set a breakpoint, or remove it if it is set."""

    at: str
    """A state, an edge, a rule, or a guard."""


class Set(NamedTuple):
    """Change a limit or a variable. The value is as typed."""

    name: str
    value: str


class Why(NamedTuple):
    """Show the decision of a record, by default the newest."""

    seq: int | None


class Show(NamedTuple):
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
Driving = Step | RunUntil | Cancel | Answer
"""Orders that do actions, and so may take long; a cancelled run may have an epilogue."""


def refusals_of(run: Run, records: int) -> dict[str, str]:
    """The reasons why orders are refused now, by order; an order without a reason is allowed.

    For a run that is not being driven; `records` is the number of its records.
    """
    if run.moved_to:
        giving = _READ.keys() - {"break", "why", "show"}
        return dict.fromkeys(sorted(giving), f"The run continues as run {run.moved_to}")
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
    read = _READ.get(do) if isinstance(do, str) else None
    if read is None:
        hint = nearest(do, _READ) if isinstance(do, str) else ""
        raise _refusal(f"there is no order {_quote(do)}", hint)
    return read(fields)


def number_of(message: object) -> int:
    """The number by which a page matches the reply to its order; 0 if it has none."""
    number = cast(Mapping[object, object], message).get("id") if isinstance(message, Mapping) else 0
    if not isinstance(number, int) or isinstance(number, bool):
        return 0
    return number if 0 <= number < 2**53 else 0  # JavaScript's safe integers


def _answer(fields: Mapping[object, object]) -> Answer:
    data = fields.get("data", {})
    if not isinstance(data, Mapping):
        raise _refusal("the fields of an answer are a mapping")
    typed = cast(Mapping[object, object], data)
    read = {
        _text(name, "a field's name"): (
            value if isinstance(value, bool) else _text(value, f"the field {_quote(name)}")
        )
        for name, value in typed.items()
    }
    wait = _text(fields.get("wait", ""), "the wait")
    shown = _text(fields.get("shown", ""), "the digest")
    return Answer(_text(fields.get("event"), "the event"), read, wait, shown)


def _enqueue(fields: Mapping[object, object]) -> Enqueue:
    tasks = fields.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        raise _refusal("the tasks are a list of texts")
    return Enqueue(tuple(_text(task, "a task") for task in cast("list[object]", tasks)))


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
        "run": lambda fields: RunUntil(_text(fields.get("until", ""), "where to run to").strip()),
        "pause": lambda _: Pause(),
        "resume": lambda _: Resume(),
        "cancel": lambda fields: Cancel(
            _text(fields.get("reason", "user_requested"), "the reason").strip(),
            _text(fields.get("message", ""), "the message"),
        ),
        "enqueue": _enqueue,
        "answer": _answer,
        "back": lambda fields: Back(_count(fields.get("records", 1), "how many records")),
        "fork": lambda fields: Fork(_optional_count(fields.get("at"), "a record's number")),
        "break": lambda fields: Break(_text(fields.get("at"), "where to stop").strip()),
        "set": lambda fields: Set(
            _text(fields.get("name"), "the name").strip(), _text(fields.get("value"), "the value")
        ),
        "why": lambda fields: Why(_optional_count(fields.get("seq"), "a record's number")),
        "show": lambda fields: Show(fields.get("whole") is True),
    }
)


def _quote(value: object) -> str:
    text = repr(value) if isinstance(value, (str, int, float)) else type(value).__name__
    return cut(text)


def _refusal(fault: str, hint: str = "") -> RunError:
    return RunError(f"this is not an order: {fault}", hint=hint)
