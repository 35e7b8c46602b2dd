"""What a page may ask for, read from a message that anybody may have written.

Belongs here: the form of each order, and its refusal. Never: doing it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, cast

from chartloop.core.errors import RunError, nearest

LONGEST = 20_000
"""Characters of a text that a page may send."""


class Step(NamedTuple):
    """Do the action at hand."""


class Run(NamedTuple):
    """Go on to the end, to a wait, or `until` a state is entered or a guard holds."""

    until: str = ""


class Pause(NamedTuple):
    """Rest before the next action."""


class Cancel(NamedTuple):
    """Stop before the next action, and go on to the end that this leads to."""


class Answer(NamedTuple):
    """Answer the wait, and go on from it. The data are as they were typed."""

    event: str
    data: Mapping[str, str | bool]
    wait: str = ""
    """The id of the wait whose question the page shows."""


class Back(NamedTuple):
    """Take the newest records back."""

    records: int


class Set(NamedTuple):
    """Change a limit or a variable. The value is as it was typed."""

    name: str
    value: str


class Why(NamedTuple):
    """Show the decision of one record; of the newest where `seq` is None."""

    seq: int | None


class Show(NamedTuple):
    """Show everything as it is now."""


Order = Step | Run | Pause | Cancel | Answer | Back | Set | Why | Show
Driving = Step | Run | Cancel | Answer
"""Orders that do an action: they may take long. A cancelled run may have an epilogue."""


def order_of(message: object) -> Order:
    """What a message asks for. `RunError` says what is wrong with one that is no order."""
    if not isinstance(message, Mapping):
        raise _no_order(f"a {type(message).__name__} is no order")
    given = cast(Mapping[object, object], message)
    do = given.get("do")
    read = _READ.get(do) if isinstance(do, str) else None
    if read is None:
        hint = nearest(do, _READ) if isinstance(do, str) else ""
        raise _no_order(f"there is no order {_shown(do)}", hint)
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
        raise _no_order("the fields of an answer are a mapping")
    typed = cast(Mapping[object, object], data)
    read = {_text(name, "a field's name"): _typed(name, value) for name, value in typed.items()}
    wait = _text(given.get("wait", ""), "the wait")
    return Answer(_text(given.get("event"), "the event"), read, wait)


def _typed(name: object, value: object) -> str | bool:
    return value if isinstance(value, bool) else _text(value, f"the field {_shown(name)}")


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise _no_order(f"{what} is a {type(value).__name__}, not a text")
    if len(value) > LONGEST:
        raise _no_order(f"{what} is longer than {LONGEST:,} characters")
    return value


def _count(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _no_order(f"{what} is no number: {_shown(value)}")
    return value


def _why(given: Mapping[object, object]) -> Why:
    seq = given.get("seq")
    return Why(None if seq is None else _count(seq, "a record's number"))


_READ: Mapping[str, Callable[[Mapping[object, object]], Order]] = MappingProxyType(
    {
        "step": lambda _: Step(),
        "run": lambda given: Run(_text(given.get("until", ""), "where to run to").strip()),
        "pause": lambda _: Pause(),
        "cancel": lambda _: Cancel(),
        "answer": _answer,
        "back": lambda given: Back(_count(given.get("records", 1), "how many records")),
        "set": lambda given: Set(
            _text(given.get("name"), "the name").strip(), _text(given.get("value"), "the value")
        ),
        "why": _why,
        "show": lambda _: Show(),
    }
)


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, (str, int, float)) else type(value).__name__
    return text if len(text) <= 60 else text[:59] + "…"


def _no_order(said: str, hint: str = "") -> RunError:
    return RunError(f"the panel sent something else than an order: {said}", hint=hint)
