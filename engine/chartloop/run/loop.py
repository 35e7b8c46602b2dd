"""The loop: what a run does next, until it rests or ends.

    messages ─▶ cancel? ─▶ due? ─▶ act ─▶ evolve ─▶ append ─▶ adopt ─▶ again

One coroutine. Where neither journal nor actions suspend it is driven by hand; see `run.sync`.
What happens inside an action is `run.execute`'s; what a decision is, `machine.evolve`'s.

Source: design "architecture", section 3; 002 "How the Loop Decides to Stop"; 004 "Execution Flow".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chartloop.core.errors import Category, StatusError
from chartloop.core.facts import EMPTY
from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.position import CHILD, ELICITATION, IN_DOUBT
from chartloop.core.records import Input, Record
from chartloop.run.context import StopRequest
from chartloop.run.execute import act
from chartloop.run.inbox import Due, next_due
from chartloop.run.journal import InboxMessage
from chartloop.run.session import Session

POLL = 0.5
"""Seconds between two looks at cancellation and messages while a back-off is waited out."""


async def drive(session: Session, rest: Callable[[], bool] | None = None) -> None:
    """Step until the run ends, comes to a breakpoint, waits for somebody, or `rest` says so."""
    with session.turn:
        session.begin_drive(rest)
        try:
            while not session.at_breakpoint() and not (rest is not None and rest()):
                if await _next_record(session) is None:
                    break
        finally:
            session.end_drive()
            await leave(session)


async def advance(session: Session) -> Record | None:
    """One record: whatever is due next. None when the run has ended or waits for a person.

    The run's lease is kept between two steps, and given back where there is no next one.
    """
    with session.turn:
        try:
            record = await _next_record(session)
        except BaseException:
            await leave(session)
            raise
        if record is None or session.position.ended:
            await leave(session)
        return record


async def act_once(session: Session) -> Record | None:
    """One action, with what is recorded before it: the start, an answer, the end of a pause.

    The newest record that was made. None when the run has ended, rests or waits for a person.
    """
    newest: Record | None = None
    while (record := await advance(session)) is not None:
        newest = record
        if is_action(record) or session.position.status == "paused":
            break
    return newest


def is_action(record: Record) -> bool:
    """Whether an action was done, or started: it may wait in the middle."""
    return record.kind in ("step", "blocked")


async def change(session: Session, data: Mapping[str, Any]) -> Record:
    """One record of limits or variables that someone changed by hand. The run rests as it did."""
    holder = session.holder
    with session.turn:
        rested = holder.driver is None
        if not session.log.owned or rested:
            await session.take_over()
        try:
            return await session.apply(Input("edit", at=session.ports.clock.now(), data=data))
        finally:
            if rested:
                await leave(session)


async def leave(session: Session) -> None:
    """The run rests: whoever wants may drive it now. A child's lease is its parent's."""
    try:
        await session.log.rest()
    finally:
        if session.ports.tracer is not None:
            session.end_trace()
        if session.above is None:
            await session.holder.release()
            servers, waits = session.ports.servers, session.position.status == "paused"
            if servers is not None and not (waits and servers.asks(session.run_id)):
                await servers.close()


async def _next_record(session: Session) -> Record | None:
    position, clock = session.position, session.ports.clock
    if position.status == "idle":
        return await begin(session)
    if position.ended:
        return None
    holder = session.log.holder
    if holder.doubtful:
        await holder.check()
    if not session.log.owned or holder.driver is None:
        await session.take_over()
        return await _next_record(session)
    if not session.closing and (due := await _due_message(session)) is not None:
        return await _act_on_message(session, due)
    if session.can_be_stopped and (asked := await _stop_request(session)) is not None:
        if await _has_child(session):
            return await _close_child(session, clock.now())
        await _doubt_calls(session)
        return await session.apply(
            Input("stop", asked.reason, at=clock.now(), data=_stop_data(asked))
        )
    if position.status == "paused":
        return await _when_due(session)
    return await step(session)


async def _stop_request(session: Session) -> StopRequest | None:
    """Who wants that the run stop now. No one, once it is on its way out."""
    if session.closing or session.position.closing:
        return None
    return await session.find_stop_request()


def _stop_data(asked: StopRequest) -> dict[str, str]:
    return {n: v for n, v in (("message", asked.message), ("source", asked.source)) if v}


async def begin(session: Session) -> Record | None:
    """The `start` record of a new run."""
    given = session.begun
    if given is None:
        raise StatusError(
            f"run `{session.run_id}` stopped before its first record",
            hint="nothing has happened yet: start it again, with the same id",
        )
    if session.ports.servers is not None:
        await session.ports.servers.ready()
    if not session.log.epoch:
        await session.create()
    else:  # started before, and whether it was written is not known
        await session.take_over()
        if session.position.status != "idle":
            return await _next_record(session)
    return await session.apply(await session.complete_start(given))


async def step(session: Session) -> Record:
    """Do the action of the current state, and record what came of it."""
    if session.ports.servers is not None:
        await session.ports.servers.ready()
    started = session.ports.clock.now()
    try:
        done = await act(session, started)
    finally:
        session.closing = False
    at = session.ports.clock.now()
    if isinstance(done, Outcome):
        return await session.apply(Input("step", outcome=done, started=started, at=at))
    data = {"until": done.until, "on": done.on, "asks": done.asks}
    given = {name: value for name, value in data.items() if value not in (None, {})}
    return await session.apply(Input("blocked", started=started, at=at, data=given))


async def _when_due(session: Session) -> Record | None:
    """A paused run: wait until it is due where that is for us to do, else leave it."""
    position, clock = session.position, session.ports.clock
    waits, due = position.state in session.chart.waiting, position.wake_at
    if await _children_moved_on(session):
        return await _resume(session, clock.now())
    for_somebody = waits or position.blocked_on in (CHILD, ELICITATION)
    whole = clock.suspends or session.above is not None  # a parent passes the question on first
    stays = session.stays_for_answers
    if due is None or (for_somebody and whole and due > clock.now() and not stays):
        return None
    late = None if position.closing else session.deadline
    until = due if late is None else min(due, late)
    while until > clock.now():
        await clock.sleep(min(until - clock.now(), POLL) if clock.suspends else until - clock.now())
        if await _stop_request(session) is not None or await _due_message(session) is not None:
            return await _next_record(session)
        if stays and due > clock.now():
            if session.wants_rest():
                return None
            if not session.stays_for_answers or await _children_moved_on(session):
                return await _resume(session, clock.now())
    if until < due or await _due_message(session) is not None:
        return await _next_record(session)
    at = max(due, clock.now())
    return await (session.apply(Input("expired", at=at)) if waits else _resume(session, at))


# messages ----------------------------------------------------------------------------------


async def _due_message(session: Session) -> Due | None:
    """The message that is acted on next. Answers that were given ahead stay until their state."""
    messages = await session.inbox()
    if not messages:
        return None
    due, spent = next_due(session, messages)
    session.discard(spent)
    return due


async def _act_on_message(session: Session, due: Due) -> Record:
    message, data, position = due.message, due.message.data, session.position
    at, consumed = max(message.at, position.facts.marks.now), (message.msg_id,)
    if due.drop:
        why = {"why": due.drop}
        dropped = Input("drop", str(data.get("event", "")), at=at, data=why)
        return await session.apply(dropped, consumed=consumed)
    match data["kind"]:
        case "answer" if position.blocked_on == IN_DOUBT:
            return await _settle_doubt(session, data["event"], at, consumed)
        case "cancel" if await _has_child(session):
            return await _close_child(session, at)
        case "resume":
            return await _wake(session, at, consumed)
        case "cancel":
            await _doubt_calls(session)
            return await session.apply(_input_of(message, at), consumed=consumed)
        case _:
            return await session.apply(_input_of(message, at), consumed=consumed)


async def _doubt_calls(session: Session) -> None:
    """A stop ends calls in which an MCP server waits for an answer: how they end is not known."""
    position = session.position
    if position.form is None:
        return
    action = session.job(position.state).action
    about = {"state": position.state, "action": "" if action is None else action.name}
    about["left"] = "stopped"
    await session.note_doubts(about)


def _input_of(message: InboxMessage, at: float) -> Input:
    """The input that a message is on the record."""
    data = message.data
    given: dict[str, Any] = dict(data.get("data") or {})
    match data["kind"]:
        case "answer":
            ahead = message.at if "ahead" in data else None
            return Input("answer", data["event"], at=at, data=given, ahead=ahead)
        case "cancel":
            reason = data.get("reason", "user_requested")
            return Input("stop", reason, at=at, data={"source": "outside", **given})
        case "enqueue":
            return Input("enqueue", at=at, data={"tasks": data["tasks"]})
        case kind:
            return Input(kind, at=at)


# children -----------------------------------------------------------------------------------


async def _resume(session: Session, at: float, consumed: tuple[str, ...] = ()) -> Record:
    """Out of a pause, or out of the wait for a child: it says so where the action has one."""
    data = {CHILD: True} if await session.find_children() else EMPTY
    return await session.apply(Input("resume", at=at, data=data), consumed=consumed)


async def _has_child(session: Session) -> bool:
    """Whether the current action has started a child that has not ended: it is stopped first."""
    return any(not row.ended for row in await session.find_children())


async def _close_child(session: Session, at: float) -> Record:
    """Call the action that has a child once more: the child sees that it should stop."""
    session.closing = True
    return await (_wake(session, at) if session.position.status == "paused" else step(session))


async def _wake(session: Session, at: float, consumed: tuple[str, ...] = ()) -> Record:
    """Out of a pause, and out of what the run was blocked on when that was asked for.

    The message goes with the last record: a process that dies between the two leaves it.
    """
    position = session.position
    if position.pause_asked and position.state not in session.chart.waiting:
        await _resume(session, at)
    return await _resume(session, at, consumed)


async def _children_moved_on(session: Session) -> bool:
    """Whether children that this run waits for were answered themselves, or are not there.

    A fork has none: the children are those of the run that it was forked from.
    """
    if (asked := session.position.child_question) is None:
        return False
    going = [row for row in await session.find_children() if not row.ended]
    if len(going) < asked.waiting:
        return True
    for child in await session.open_children():
        if child.position.ended:
            continue
        if child.position.status != "paused" or await _due_message(child) is not None:
            return True
        if await _children_moved_on(child):
            return True
    return False


async def _settle_doubt(
    session: Session, answer: str, at: float, consumed: tuple[str, ...]
) -> Record:
    """Someone said what to do about a call in doubt. A pause that was asked for comes after it."""
    held = session.position.pause_asked
    record = await session.apply(Input("resume", at=at), consumed=consumed)
    if answer == "fail" and session.position.state == record.state:
        if held:
            await _resume(session, at)
        text = "the paid call that is in doubt may have been made"
        outcome = Outcome.failure(Category.RECOVERABLE, text, kind="in_doubt", in_doubt=True)
        record = await session.apply(Input("step", outcome=outcome, started=at, at=at))
        if held and not session.position.ended:
            return await session.apply(Input("pause", at=at))
    return record


__all__ = ["Blocked", "advance", "begin", "drive", "step"]
