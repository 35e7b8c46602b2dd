"""The messages in a run's inbox: which one the driver takes next, and what it does with it.

An answer is taken by the wait that it was sent to or, if given ahead, by the first wait of the
state that it names. Any other answer is dropped, which is recorded. Pauses and resumes count in
order of arrival: a second pause has no effect, and a resume ends every pause before it.

Belongs here: decisions about messages, pure. Never: writing records (`run.loop`), sending
(`run.answer`).
Source: docs/design.md, "The journal"; docs/approval.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from chartloop.core.approvals import CALLS
from chartloop.core.errors import StatusError
from chartloop.core.plain import plain
from chartloop.core.position import DECISIONS, ELICITATION, IN_DOUBT
from chartloop.run.elicitation import ACTIONS
from chartloop.run.journal import InboxMessage, Journal
from chartloop.run.question import wait_of
from chartloop.run.redact import has_marks
from chartloop.run.session import Session


class Fate(Enum):
    """How a message is handled, unless it is dropped for a reason."""

    TAKE = "acted on now"
    KEEP = "its time may come"
    SPENT = "it would change nothing, now or later"


class Due(NamedTuple):
    """The message that a run acts on next."""

    message: InboxMessage
    drop: str = ""
    """Why it is dropped; empty if it is acted on."""


def next_due(session: Session, messages: Sequence[InboxMessage]) -> tuple[Due | None, list[str]]:
    """The first message to act on, in order of arrival, and the ids of spent ones before it.

    Spent messages leave the inbox with the next record.
    """
    spent: list[str] = []
    for message in messages:
        fate = _fate(session, message)
        if isinstance(fate, str):
            return Due(message, fate), spent
        if fate is Fate.TAKE:
            return Due(message), spent
        if fate is Fate.SPENT:
            spent.append(message.msg_id)
    return None, spent


def _fate(session: Session, message: InboxMessage) -> Fate | str:
    match message.data.get("kind"):
        case "answer" if "ahead" in message.data:
            return _ahead(session, message)
        case "answer":
            wait, event = message.data.get("wait"), message.data.get("event")
            position = session.position
            if not isinstance(wait, str):
                return "it names no question"
            if position.status != "paused" or wait != wait_of(session):
                return f"wait {wait}, which it was for, is over"
            if position.wake_at is not None and message.at >= position.wake_at:
                return f"wait {wait} had expired when it came"
            if position.blocked_on == IN_DOUBT:
                return Fate.TAKE if event in DECISIONS else f"wait {wait} does not take it"
            form = position.blocked_on == ELICITATION
            taken = event in (ACTIONS if form else session.chart.events_at(position.state))
            return Fate.TAKE if taken else f"wait {wait} does not take it"
        case "cancel":
            return _cancel(session)
        case "pause":
            return _pause(session)
        case "resume":
            return _resume(session)
        case "enqueue":
            return Fate.TAKE
        case "unreadable":
            return f"it cannot be read: {message.data.get('why', '')}"
        case _:
            return Fate.KEEP


async def sent_before(
    journal: Journal, run_id: str, msg_id: str, data: Mapping[str, Any]
) -> bool:  # fmt: skip
    """Whether a message with this id was sent to a run or a child of it.

    `StatusError` if it said something else: the id is that of one order.
    """
    known = await journal.message(run_id, msg_id)
    if known is None:
        return False
    kept, given = _content(known.data), _content(data)
    if "wait" not in given:  # it was bound to the wait of its time
        kept.pop("wait", None)
    was, now = kept.pop("data", {}), given.pop("data", {})
    # a command line types its fields by the question, which may be over when it is repeated
    untyped = CALLS in was and CALLS not in now
    pairs = [(value, now.get(name)) for name, value in was.items()]
    same = untyped or (was.keys() == now.keys() and all(
        old == new or isinstance(old, str) != isinstance(new, str) for old, new in pairs
    ))  # fmt: skip
    if not (same and kept == given) and not has_marks(str(known.data)):
        raise StatusError(
            f"the message `{msg_id}` was sent to run `{run_id}` before, with another content",
            hint="give each message a key of its own, and repeat it only with the same content",
        )
    return True


def _content(data: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a message. The ids of its tasks depend on the queue of their time."""
    return plain({**data, "tasks": [{**task, "id": ""} for task in data.get("tasks", ())]})


async def pause_asked(journal: Journal, run_id: str) -> bool:
    """Whether a message in the inbox asks for a pause, which the run has not read yet."""
    return any(message.data.get("kind") == "pause" for message in await journal.inbox(run_id))


def _ahead(session: Session, message: InboxMessage) -> Fate | str:
    position = session.position
    state = session.names.state(str(message.data["ahead"]))
    if message.data.get("event") not in session.chart.events_at(state):
        return f"`{state}`, which it was given ahead for, does not take it"
    if state in session.chart.spec.gates:
        return f"`{state}` approves calls, which it was given ahead of"
    here = position.status == "paused" and position.state == state
    return Fate.TAKE if here else Fate.KEEP


def _cancel(session: Session) -> Fate:
    if session.position.stopping:
        return Fate.SPENT
    return Fate.KEEP if session.position.closing else Fate.TAKE


def _pause(session: Session) -> Fate:
    position = session.position
    if position.stopping or position.pause_asked or is_held(session):
        return Fate.SPENT
    return Fate.TAKE


def _resume(session: Session) -> Fate:
    position = session.position
    if position.status != "paused":
        return Fate.SPENT
    if position.blocked_on == IN_DOUBT:  # the pause takes effect once the call is settled
        return Fate.KEEP if position.pause_asked else Fate.SPENT
    waits = position.state in session.chart.waiting and not position.pause_asked
    return Fate.SPENT if waits else Fate.TAKE


def is_held(session: Session) -> bool:
    """Whether the run rests because it was paused, rather than for a wait, a child or a time."""
    position = session.position
    free = not position.blocked_on and position.wake_at is None
    return position.status == "paused" and free and position.state not in session.chart.waiting
