"""The loop: takes the next step of a run until it rests or ends.

    messages ─▶ cancel? ─▶ due? ─▶ act ─▶ evolve ─▶ append or hold ─▶ adopt ─▶ again

A record that leads straight to a paid call is held until that call's intent is written: see
`run.log` for what that means for a kill. One coroutine, driven by hand where neither journal nor
actions suspend (`run.sync`). `run.act` does an action; `machine.evolve` decides.

Source: docs/design.md, "A step"; 002 "How the Loop Decides to Stop"; 004 "Execution Flow".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chartloop.core.errors import RunError, StatusError
from chartloop.core.facts import EMPTY
from chartloop.core.outcome import Outcome
from chartloop.core.position import CHILD, ELICITATION, IN_DOUBT
from chartloop.core.records import Input, Record
from chartloop.machine.decision import moved, record_of
from chartloop.machine.evolve import evolve
from chartloop.run import rules_version
from chartloop.run.act import act
from chartloop.run.doubts import leave_unknown
from chartloop.run.events import Recorded
from chartloop.run.fleet_calls import fleet_facts
from chartloop.run.inbox import Due, next_due
from chartloop.run.journal import Event, InboxMessage, RunRow, digest
from chartloop.run.question import update_at
from chartloop.run.session import UPKEEP, Session, StopRequest
from chartloop.run.sync import off_loop
from chartloop.run.tracing import CARRIER

POLL = 0.5
"""Seconds between two checks for cancellation and messages during a back-off."""


async def drive(session: Session, rest: Callable[[], bool] | None = None) -> None:
    """Step until the run ends, reaches a breakpoint, waits for someone, or `rest` is true."""
    with session.turn:
        watch = watch_breakpoints(session)
        session.goes_on, session.rest_asked = True, rest
        try:
            while not at_breakpoint(session, watch) and not (rest is not None and rest()):
                if await _next_record(session) is None:
                    break
        finally:
            session.goes_on, session.rest_asked = False, None
            await leave(session)


def watch_breakpoints(session: Session) -> Callable[[], bool] | None:
    """The watch over the breakpoints of a run that is about to be driven; None without any."""
    return None if session.breakpoints is None else session.breakpoints.watch(session.reached)


def at_breakpoint(session: Session, watch: Callable[[], bool] | None) -> bool:
    """Whether a breakpoint was reached since the last call. Never after they were cleared."""
    return watch is not None and session.breakpoints is not None and watch()


async def advance(session: Session) -> Record | None:
    """Make the next record. None when the run has ended or waits for a person.

    The lease is kept between two steps, and released when no step follows.
    """
    with session.turn:
        try:
            made = await _next_record(session)
        except BaseException:
            await leave(session)
            raise
        if made is None or (session.position.status != "running" and session.position.ended):
            await leave(session)
        return made


async def act_once(session: Session) -> Record | None:
    """Do one action, with the records before it: the start, an answer, the end of a pause.

    Returns the newest record made. None when the run has ended, rests or waits for a person.
    """
    newest: Record | None = None
    while (made := await advance(session)) is not None:
        newest = made
        if made.input.kind in _ACTIONS or session.position.status == "paused":
            break
    return newest


_ACTIONS = ("step", "blocked")


def is_action(record: Record) -> bool:
    """Whether a record is of an action, done or blocked half-way."""
    return record.kind in _ACTIONS


async def change(session: Session, data: Mapping[str, Any]) -> Record:
    """Record limits or variables changed by hand. A run that rested rests again."""
    holder = session.holder
    with session.turn:
        rested = holder.driver is None
        if not session.owned or rested:
            await session.become_driver()
        try:
            return await record(session, Input("edit", at=session.ports.clock.now(), data=data))
        finally:
            if rested:
                await leave(session)


async def leave(session: Session) -> None:
    """Let the run rest, and release its lease; a child's lease belongs to its parent."""
    try:
        await session.settle_shielded()
    finally:
        if session.ports.tracer is not None:
            session.end_trace()
        if session.above is None:
            await session.holder.release()
            servers, waits = session.ports.servers, session.position.status == "paused"
            if servers is not None and not (waits and servers.asks(session.run_id)):
                await servers.close()


async def _next_record(session: Session) -> Record | None:
    position, holder = session.position, session.holder
    if position.status != "running":
        if position.status == "idle":
            return await begin(session)
        if position.ended:
            return None
    if holder.may_be_lost:
        await holder.check()
    if not session.owned or holder.driver is None:
        await session.become_driver()
        return await _next_record(session)
    if session.returned:
        await session.note_returned()
    if not session.closing and (messages := await session.journal.inbox(session.run_id)):
        if (due := _due_of(session, messages)) is not None:
            return await _act_on_message(session, due)
    if session.cancels or session.above is not None:
        if (request := await _stop_request(session)) is not None:
            at = session.ports.clock.now()
            if await _has_child(session):
                return await _close_child(session, at)
            data = {"message": request.message, "source": request.source}
            given = {name: text for name, text in data.items() if text}
            given |= await leave_unknown(session)
            return await record(session, Input("stop", request.reason, at=at, data=given))
    return await (_when_due(session) if position.status == "paused" else act_and_record(session))


async def _stop_request(session: Session) -> StopRequest | None:
    """The request, other than a message, that the run stop now; None once it is stopping."""
    if session.closing or session.position.closing:
        return None
    return await session.find_stop_request()


async def begin(session: Session) -> Record | None:
    """Make the `start` record of a new run, or read on if a first attempt has made it."""
    start = session.begun
    if start is None:
        raise StatusError(
            f"run `{session.run_id}` stopped before its first record",
            hint="nothing has happened yet: start it again, with the same id",
        )
    if session.ports.servers is not None:
        await session.ports.servers.ready()
    if not session.epoch:
        if session.above is None:  # it begins by the journal's clock
            shift = session.ports.clock.follow(await session.journal.now())
            start = start.replace(started=start.started + shift, at=start.at + shift)
            row: RunRow = session.row
            session.begun = start
            session.row = row.replace(created=row.created + shift, updated=row.updated + shift)
        try:
            await session.create(None if session.spec_text is None else session.spec_text())
        except RunError:
            there = await session.journal.row(session.run_id)
            if session.if_exists == "refuse" or there is None or not there.head:
                raise
            if there.machine_hash != session.row.machine_hash:
                raise
            await session.open()
            return await _next_record(session)
    else:  # a second attempt: the first may have been written
        await session.become_driver()
        if session.position.status != "idle":
            return await _next_record(session)
    data: dict[str, Any] = {**start.data, **rules_version.marks(session.engine)}
    if session.upkeep:
        data[UPKEEP] = [*session.upkeep]
    if session.ports.tracer is not None and (where := (await session.trace()).carrier):
        data[CARRIER] = dict(where)
    if (certify := session.certify) is not None and session.journal.durability is not None:
        # a proof would block the event loop
        text = await off_loop(certify) if session.journal.suspends else certify()
        data["certificate"] = await session.journal.put_blob(text)
    return await record(session, start.replace(data=data))


async def act_and_record(session: Session) -> Record:
    """Do the action of the current state, and record its outcome."""
    if session.ports.servers is not None:
        await session.ports.servers.ready()
    started = session.ports.clock.now()
    try:
        outcome = await act(session, started)
    finally:
        session.closing = False
    at = session.ports.clock.now()
    if isinstance(outcome, Outcome):
        return await record(session, Input("step", outcome=outcome, started=started, at=at))
    fields = {"until": outcome.until, "on": outcome.on, "asks": outcome.asks}
    data = {name: value for name, value in fields.items() if value not in (None, {})}
    return await record(session, Input("blocked", started=started, at=at, data=data))


async def record(session: Session, input: Input, *, consumed: Sequence[str] = ()) -> Record:
    """Decide one input, write its record or hold it, adopt the new position.

    `consumed` are the ids of the messages that leave the inbox with it.
    """
    before, tally = session.position, session.tally
    if session.chart.fleet_reads:
        input = input.replace(fleet=await fleet_facts(session))
    position, decision = evolve(session.chart, before, input, oracle=session.ask)
    made = record_of(decision, tally.records, position.wake_at)
    if session.calls.results and input.outcome is not None and input.outcome.ok:
        session.drop_result()  # the outcome of a failure may lack it
    event = Event(session.head, "record", input.at, made, EMPTY, session.epoch)
    running = position.status == "running"
    rest = tally.records if not running and moved(decision) else tally.rest
    update = update_at(session.chart, session.run_id, position, rest, decision)
    if session.without_effect:
        consumed, session.without_effect = (*consumed, *session.without_effect), ()
    # write at once: a held record would leave its message in the inbox, to be read again
    next_is_call = session.goes_on and running and session.jobs[position.state].follows_held
    if next_is_call and not consumed and session.listener is None and session.may_hold(made.seq):
        session.hold(event, update)
    else:
        await session.append(event, update=update, consumed=consumed)
    session.position = position
    tally.add(made, decision, position.facts)
    if (calls := session.calls).intents or calls.results or calls.unknown or calls.decided:
        session.close_calls(made, before)
    if session.journal.suspends:
        session.end_action()
    if session.listener is not None:
        session.tell_record(Recorded(made, decision, position))
    if session.ports.tracer is not None:
        (await session.trace()).record(before, made, position)
    if tally.records >= session.snapshot_at and not (calls.intents or calls.decided):
        await session.put_snapshot()
    return made


async def _when_due(session: Session) -> Record | None:
    """Continue a paused run when it is due; None if waiting for that is not this driver's task."""
    position, clock = session.position, session.ports.clock
    waits, due = position.state in session.chart.waiting, position.wake_at
    if await _children_moved_on(session):
        return await _resume(session, clock.now())
    for_somebody = waits or position.blocked_on in (CHILD, ELICITATION, IN_DOUBT)
    may_rest = clock.suspends or session.above is not None  # a parent passes the question on first
    stays = session.stays_for_answers
    if due is None or (for_somebody and may_rest and due > clock.now() and not stays):
        return None
    late = None if position.closing else session.deadline
    until = due if late is None else min(due, late)
    while until > clock.now():
        await clock.sleep(min(until - clock.now(), POLL) if clock.suspends else until - clock.now())
        if await _stop_request(session) is not None or await _due_message(session) is not None:
            return await _next_record(session)
        if stays and due > clock.now():
            if session.rest_asked is not None and session.rest_asked():
                return None
            if not session.stays_for_answers or await _children_moved_on(session):
                return await _resume(session, clock.now())
    if until < due or await _due_message(session) is not None:
        return await _next_record(session)
    at = max(due, clock.now())
    expires = waits or position.blocked_on == IN_DOUBT
    return await (record(session, Input("expired", at=at)) if expires else _resume(session, at))


# messages ----------------------------------------------------------------------------------


async def _due_message(session: Session) -> Due | None:
    """The message to act on next. An answer given ahead stays in the inbox until its state."""
    return _due_of(session, await session.journal.inbox(session.run_id))


def _due_of(session: Session, messages: Sequence[InboxMessage]) -> Due | None:
    due, session.without_effect = next_due(session, messages)
    return due


async def _act_on_message(session: Session, due: Due) -> Record:
    message, data, position = due.message, due.message.data, session.position
    at, consumed = max(message.at, position.facts.marks.now), (message.msg_id,)
    if due.drop:
        why = {"why": due.drop}
        dropped = Input("drop", str(data.get("event", "")), at=at, data=why)
        return await record(session, dropped, consumed=consumed)
    match data["kind"]:
        case "cancel" if await _has_child(session):
            return await _close_child(session, at)
        case "resume":
            return await _wake(session, at, consumed)
        case "cancel":
            stop = _input_of(message, at)
            stop = stop.replace(data={**stop.data, **await leave_unknown(session)})
            return await record(session, stop, consumed=consumed)
        case _:
            return await record(session, _input_of(message, at), consumed=consumed)


def _input_of(message: InboxMessage, at: float) -> Input:
    """The input that records a message."""
    data = message.data
    content: dict[str, Any] = dict(data.get("data") or {})
    match data["kind"]:
        case "answer":
            ahead = message.at if "ahead" in data else None
            via = str(data.get("via", ""))
            return Input("answer", data["event"], at=at, data=content, ahead=ahead, via=via)
        case "cancel":
            reason = data.get("reason", "user_requested")
            return Input("stop", reason, at=at, data={"source": "outside", **content})
        case "enqueue":
            return Input("enqueue", at=at, data={"tasks": data["tasks"]})
        case kind:
            return Input(kind, at=at)


# children -----------------------------------------------------------------------------------


async def _resume(session: Session, at: float, consumed: tuple[str, ...] = ()) -> Record:
    """Resume from a pause, or from the wait for a child, which the record then marks."""
    data = {CHILD: True} if await session.find_children() else EMPTY
    return await record(session, Input("resume", at=at, data=data), consumed=consumed)


async def _has_child(session: Session) -> bool:
    """Whether the current action has a child that must stop first, or that it has yet to count."""
    children, on = await session.find_children(), session.position.blocked_on
    return any(not row.ended or on in ("", CHILD) for row in children)


async def _close_child(session: Session, at: float) -> Record:
    """Call the action of the child once more, so that the child sees the stop request."""
    session.closing = True
    return await (
        _wake(session, at) if session.position.status == "paused" else act_and_record(session)
    )


async def _wake(session: Session, at: float, consumed: tuple[str, ...] = ()) -> Record:
    """Resume from a pause, and from whatever the run was blocked on when the pause came.

    The last record consumes the message, so that a crash between the two leaves it in the inbox.
    """
    position = session.position
    if position.pause_asked and position.state not in session.chart.waiting:
        await _resume(session, at)
    return await _resume(session, at, consumed)


async def _children_moved_on(session: Session) -> bool:
    """Whether children that this run waits for have moved on by themselves, or are missing.

    A fork has none: the children belong to the run that it was forked from.
    """
    if (question := session.position.child_question) is None:
        return False
    open_rows = [row for row in await session.find_children() if not row.ended]
    if len(open_rows) < question.waiting:
        return True
    for child in await open_children(session):
        if child.position.ended:
            continue
        if child.position.status != "paused" or await _due_message(child) is not None:
            return True
        if await _children_moved_on(child):
            return True
    return False


async def open_children(session: Session) -> list[Session]:
    """The children that the current action has started, opened; ended ones too.

    Without those whose machine this one does not declare. The hash resolves equal names.
    """
    declared, children = session.chart.spec.machines, list[Session]()
    for row in await session.find_children():
        alike = [name for name, machine in declared.items() if machine.name == row.machine]
        if len(alike) > 1:
            alike = [n for n in alike if digest(session.chart.child(n).text) == row.machine_hash]
        if alike:
            children.append(session.child(alike[0], row.run_id))
    for child in children:
        await child.open()
    return children
