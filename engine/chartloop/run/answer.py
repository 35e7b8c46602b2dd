"""Sending answers: to the wait that the sender has seen, or ahead, for a state.

An answer is bound to a wait when it is sent. The transaction that writes the message also checks
that the wait is still current and unanswered: of two simultaneous answers one is refused. An answer
to a child's question goes into the inbox of that child.

Belongs here: checking and sending, for every face. Never: what the driver does with an answer
(`run.inbox`).
Source: docs/approval.md; docs/design.md, "The journal" (inbox).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, cast

from chartloop.core.approvals import CALLS, DENY, call_faults, request_at
from chartloop.core.errors import (
    AheadError,
    AnsweredError,
    AnswerError,
    JournalCorrupt,
    RunError,
    WaitError,
    nearest,
)
from chartloop.core.facts import EMPTY
from chartloop.core.person_names import person_name
from chartloop.core.position import IN_DOUBT
from chartloop.core.records import Record
from chartloop.core.strict_json import pointer, unfits
from chartloop.core.types import Type, accepts
from chartloop.core.visible import cut
from chartloop.run.answer_links import AnswerLink
from chartloop.run.elicitation import complete_data, content_fault, form_in, schema_fault
from chartloop.run.four_eyes import refusal_of
from chartloop.run.inbox import sent_before
from chartloop.run.journal import Check, InboxMessage, RunRow
from chartloop.run.question import Question, asked_here, due_at, question_of, wait_of
from chartloop.run.session import Session
from chartloop.run.succession import refuse_moved


class Answer(NamedTuple):
    """An answer, as its sender gives it."""

    event: str
    data: Mapping[str, Any] = EMPTY
    wait: str = ""
    """The id of the wait to answer; empty for the current one."""
    ahead: str = ""
    """The state to answer before it asks; empty otherwise."""
    shown: str | None = None
    """The digest of a question that was shown in part before it was opened; empty if it was not
    opened. None for a sender who was given all of it."""
    link: AnswerLink | None = None
    """The link that it comes by, which the record names; None if it comes by none."""


class Sent(NamedTuple):
    """The receipt of an answer."""

    run: str
    """The run whose inbox has it: the child, if a child waits."""
    message_id: str
    wait: str
    """The wait that it is bound to; empty for one given ahead."""
    new: bool
    """False if a message with this id was sent before: a repetition has no effect."""


class _Moved(RunError):
    """The run has continued since it was read. Handled in this module."""


async def send_answer(
    session: Session, answer: Answer, *, at: float | None = None, message_id: str | None = None
) -> Sent:
    """Send an answer. `AnswerError`, or a subclass that says why, if it is refused."""
    refuse_moved(session.row)
    if answer.wait and answer.ahead:
        raise AheadError("an answer is for a wait or ahead of one, not both", state=answer.ahead)
    id = message_id or secrets.token_hex(8)
    if isinstance(by := answer.data.get("by"), str):
        by = person_name(by, "`by`", AnswerError, place=pointer("data", "by"))
        answer = answer._replace(data={**answer.data, "by": by})
    data = {"kind": "answer", "event": answer.event, "data": dict(answer.data)}
    if answer.link is not None:
        data["via"] = answer.link.via
    bound = {"ahead": answer.ahead} if answer.ahead else {}
    if answer.wait:
        bound["wait"] = answer.wait.rpartition(":")[2]  # a child has its own part of the id
    before = partial(sent_before, session.journal, session.run_id, id, {**data, **bound})
    known = Sent(session.run_id, id, answer.wait, new=False)
    if message_id is not None and await before():
        return known
    message = InboxMessage(id, float(session.ports.clock.now() if at is None else at), data)
    try:
        sent = await _send(session, answer, message)
    except AnswerError:
        if message_id is not None and await before():  # sent meanwhile, and even taken
            return known
        raise
    if not sent.new:
        await before()
    return sent


async def _send(session: Session, answer: Answer, message: InboxMessage) -> Sent:
    if answer.ahead:
        message = message._replace(data={**message.data, "ahead": answer.ahead})
        chart, state, event = session.chart, answer.ahead, answer.event
        if state not in chart.waiting:
            hint = (
                nearest(state, sorted(chart.waiting)) if chart.waiting else "no state of it waits"
            )
            raise AheadError(f"`{state}` is not a state that waits", hint=hint, state=state)
        if state in chart.spec.gates:
            raise AheadError(
                f"`{state}` approves calls, and no call was shown yet",
                hint="wait until it asks, then answer its question without `ahead`", state=state,
            )  # fmt: skip
        if event not in chart.events_at(state):
            listed = ", ".join(f"`{e}`" for e in chart.events_at(state))
            raise AnswerError(f"`{state}` does not take `{event}`", hint=f"it takes {listed}")
        refuse_data(event, chart.answer_fields(state, event), answer.data)
        new = await session.journal.send(session.run_id, message, check=_still_ahead(state))
        return Sent(session.run_id, message.msg_id, "", new)
    return await _send_to_wait(session, answer, message)


def refuse_data(event: str, fields: Mapping[str, Type], data: Mapping[str, Any]) -> None:
    """Raise `AnswerError` unless the data fit the fields of an event."""
    for at, why, is_number in unfits(data, "/data"):
        if is_number:
            raise AnswerError(f"{at}: {why}", place=at)
    for name in data:
        if fields and name not in fields:
            hint, place = nearest(name, fields), pointer("data", name)
            raise AnswerError(f"`{event}` has no field `{name}`", hint=hint, place=place)
    for name, type in fields.items():
        place = pointer("data", name)
        if name not in data:
            if type.nullable:
                continue
            raise AnswerError(f"`{event}` needs `{name}` ({type})", place=place)
        if not accepts(type, data[name]):
            given = cut(str(data[name]), 80)
            raise AnswerError(f"`{name}` of `{event}` is {type}: `{given}` is not", place=place)
        if name == "by" and not data[name]:
            raise AnswerError(f"`by` of `{event}` is empty", hint="say who answers", place=place)


# to a wait ----------------------------------------------------------------------------------


async def _send_to_wait(session: Session, answer: Answer, message: InboxMessage) -> Sent:
    current = question_of(session)
    wait = answer.wait or (current.wait if current is not None else "")
    view = session
    while True:
        question = question_of(view)
        if question is None or question.wait != wait:
            fresh = await _read_again(view)
            if fresh is None:
                raise await _refusal(view, wait)
            view = fresh
            continue
        _refuse(view, question, answer)
        waiting = await _run_that_waits(view)
        if waiting is None:
            hint = "`resume` continues the run; then see what it asks"
            text = f"the child that asked has moved on since: wait {wait} is over"
            raise WaitError(text, hint=hint, wait=wait)
        _refuse_late(waiting, question, message.at)
        form = waiting.position.form
        if form is not None and answer.event == "accept":
            if fault := content_fault(form_in(form), answer.data):
                raise AnswerError(f"the form does not take that: {fault}")
        if answer.event != DENY:
            made_by = None if answer.link is None else answer.link.made_by
            if (fault := refusal_of(waiting, str(answer.data.get("by", "")), made_by)) is not None:
                raise fault
        _refuse_decisions(waiting, answer)
        bound = message._replace(data={**message.data, "wait": wait_of(waiting)})
        try:
            check = _still_open(waiting, question)
            new = await view.journal.send(waiting.run_id, bound, check=check)
        except _Moved:
            view = await _read_again(view) or view
            continue
        return Sent(waiting.run_id, message.msg_id, wait, new)


async def _read_again(view: Session) -> Session | None:
    """The run as the journal has it now; None if nothing has changed."""
    row = await view.journal.row(view.run_id)
    if row is None or row.head == view.head:
        return None
    fresh = Session(view.chart, view.journal, view.run_id, view.ports)
    fresh.names = view.names
    await fresh.open()
    if fresh.head != row.head and await view.journal.row(view.run_id) == row:
        raise JournalCorrupt(
            f"run `{row.run_id}` is damaged: its row says {row.head} events, its log {fresh.head}",
            hint="the journal was edited: nothing was sent",
        )
    return fresh


async def _run_that_waits(session: Session) -> Session | None:
    """The run whose wait is answered: this one, or the child that asks. None if it moved on."""
    asked = asked_here(session)
    if asked is None:
        return session
    if await session.journal.row(asked.run) is None:
        return None
    child = session.child(asked.machines[0], asked.run)
    await child.open()
    if child.position.status != "paused" or wait_of(child) != asked.wait:
        return None
    return await _run_that_waits(child)


def _still_open(session: Session, question: Question) -> Check:
    """The check that no one has answered the wait; called when the message is written."""
    own, head, state = wait_of(session), session.head, session.position.state

    def check(row: RunRow, messages: Sequence[InboxMessage]) -> None:
        if row.head != head:
            raise _Moved("the run has continued")
        for message in messages:
            data = message.data
            if data.get("kind") == "answer" and (
                data.get("wait") == own or data.get("ahead") == state
            ):
                raise _answered_error(question.wait, str(data.get("event")), message.at, question)

    return check


def _refuse(session: Session, question: Question, answer: Answer) -> None:
    event, taken = answer.event, question.answers
    if answer.shown or (answer.shown is not None and question.rest):
        _refuse_unopened(question, answer.shown)
    if event in taken:
        refuse_data(event, taken[event], _whole(session, answer))
        return
    if session.position.blocked_on == IN_DOUBT:
        message = f"`{event}` is not an answer to a call in doubt"
        raise AnswerError(message, hint="answer `retry` or `fail`")
    listed = ", ".join(f"`{e}`" for e in taken)
    message = f"`{question.state}` does not take `{event}`"
    raise AnswerError(
        message, hint=f"it takes {listed}" if listed else "it takes no answer", place="/event"
    )


def _refuse_unopened(question: Question, shown: str) -> None:
    """Raise `AnswerError` unless the sender has seen the question to its end."""
    if shown == question.digest:
        return
    if shown:
        message = f"wait {question.wait} asks something else than what was shown"
    else:
        message = f"{question.rest:,} more characters of the question were not shown"
    hint = "open the whole question, and answer with its `digest` as `shown`"
    raise AnswerError(message, hint=hint, place="/shown")


def _whole(session: Session, answer: Answer) -> Mapping[str, Any]:
    """The data of an answer, with None for the optional fields of a form that it leaves out."""
    asked, form = asked_here(session), session.position.form
    content = form if asked is None else asked.form
    if not content or answer.event != "accept":
        return answer.data
    return complete_data(form_in(content), answer.data)


def _refuse_decisions(session: Session, answer: Answer) -> None:
    """Raise `AnswerError` if an answer may not decide so on the calls of an approval."""
    request = request_at(session.position)
    if request is None:
        return
    for fault, hint, key in call_faults(request, answer.event, answer.data):
        raise AnswerError(fault, hint=hint, place=pointer("data", CALLS, *filter(None, [key])))
    schemas = {held["key"]: held.get("schema") for held in request["calls"]}
    names = {held["key"]: held["name"] for held in request["calls"]}
    for key, value in (answer.data.get(CALLS) or EMPTY).items():
        if not isinstance(value, Mapping):
            continue
        given = cast("Mapping[str, Any]", value)
        for name, kind, word in (("note", str, "a text"), ("remember", bool, "true or false")):
            if not isinstance(given.get(name, kind()), kind):
                where = pointer("data", CALLS, key, name)
                raise AnswerError(f"`{name}` of `{key}` is not {word}", place=where)
        if "arguments" not in given:
            continue
        if fault := schema_fault(schemas[key], given["arguments"]) or _tool_fault(
            session, names[key], given["arguments"]
        ):
            raise AnswerError(
                f"the changed arguments of `{key}` do not fit its tool: {fault}",
                place=pointer("data", CALLS, key, "arguments"),
            )


def _tool_fault(session: Session, name: str, arguments: Any) -> str:
    """Why a tool refuses arguments; empty if it takes them, or is not known here."""
    registry = session.chart.spec.registry
    if registry.assumed or (tool := registry.tools.get(name)) is None:
        return ""
    try:
        tool.parse(json.dumps(arguments))
    except ValueError as error:
        return str(error).rpartition("\n- ")[2]
    return ""


def _refuse_late(session: Session, question: Question, at: float) -> None:
    due = due_at(session.chart, session.position)
    if due is not None and at >= due:
        message = f"wait {question.wait} expired at {say_time(due)}"
        hint = "`resume` continues the run as if no answer came"
        raise WaitError(message, hint=hint, wait=question.wait)


# refusals -----------------------------------------------------------------------------------


async def wait_over(session: Session, wait: str) -> str:
    """Why a wait takes no answer any more, for the person whom it asked; empty while it does."""
    row = await session.journal.row(session.run_id)
    if row is None or row.moved_to:
        return "The run continues as another one, so this question is over."
    question = question_of(session)
    if question is None or question.wait != wait:
        _, ended = await _course(session, wait)
        if ended is not None and ended.kind == "answer":
            given = ended.input
            return _said(given.event, given.data, given.via, given.at)
        how = "" if ended is None else _ENDED.get(ended.kind, "")
        if ended is not None and how:
            return f"This question {how} at {say_time(ended.input.at)}."
        return "This question is over: the run has gone on without an answer."
    waiting = await _run_that_waits(session)
    if waiting is None:
        return "This question is over: the run has gone on without an answer."
    for message in await session.journal.inbox(waiting.run_id):
        given = message.data
        if given.get("kind") == "answer" and given.get("wait") == wait_of(waiting):
            data: Mapping[str, Any] = given.get("data") or EMPTY
            return _said(str(given.get("event")), data, str(given.get("via", "")), message.at)
        if given.get("kind") == "cancel":
            return "The run was cancelled, so this question is over."
    if (due := due_at(waiting.chart, waiting.position)) is not None:
        if await session.journal.now() >= due:
            return f"This question expired at {say_time(due)}."
    return ""


def _said(event: str, data: Mapping[str, Any], via: str, at: float) -> str:
    by = str(data.get("by") or "")
    who = f" by {by}" if by else ""
    how = f" via {'link' if by and by in via else via}" if via else ""
    return f"This question was answered already: `{event}`{who}{how}, at {say_time(at)}."


async def _refusal(session: Session, wait: str) -> AnswerError:
    """The error for a wait that cannot be answered now, with the current question."""
    question, position = question_of(session), session.position
    hint = asks_now(session, question)
    if not wait:
        where = f"it is {position.status} at `{position.state}`"
        if position.status == "idle":
            where = "it has not started"
        if position.ended:
            where = f"it has ended ({position.status}) at `{position.state}`"
        return WaitError(
            f"the run waits for nothing: {where}", hint=hint if question else "", question=question
        )
    began, ended = await _course(session, wait)
    if began is None:
        return WaitError(f"there is no wait {wait}", hint=hint, wait=wait, question=question)
    if ended is not None and ended.kind == "answer":
        return _answered_error(wait, ended.input.event, ended.input.at, question, hint)
    how = "is over"
    if ended is not None and ended.kind in _ENDED:
        how = f"{_ENDED[ended.kind]} at {say_time(ended.input.at)}"
    return WaitError(f"wait {wait} {how}", hint=hint, wait=wait, question=question)


_ENDED = {"expired": "expired", "stop": "ended with a stop"}


async def _course(session: Session, wait: str) -> tuple[Record | None, Record | None]:
    """The records that began and ended one of the run's own waits, each or None."""
    if not (wait.isascii() and wait.isdecimal()) or not session.head:
        return None, None
    records = await session.journal.records(session.run_id)
    number = int(wait) if len(wait) < 10 else len(records)
    began = records[number] if number < len(records) else None
    if began is None or began.status != "paused" or began.kind == "pause":
        return None, None
    ended = (r for r in records[number + 1 :] if not r.aside or r.status != "paused")
    return began, next(ended, None)


def _answered_error(
    wait: str, event: str, at: float, question: Question | None, hint: str = ""
) -> AnsweredError:
    message = f"wait {wait} was answered already, with `{event}` at {say_time(at)}"
    hint = hint or "the run takes that answer when it continues"
    return AnsweredError(message, hint=hint, wait=wait, question=question, at=at)


def asks_now(session: Session, question: Question | None) -> str:
    """The current question, as a hint in a refusal."""
    if question is None:
        position = session.position
        return f"it waits for nothing now: it is {position.status} at `{position.state}`"
    events = ", ".join(f"`{event}`" for event in question.answers)
    return f"it asks now, as wait {question.wait}: {question.text} It takes {events or 'nothing'}"


def say_time(at: float) -> str:
    """A time in words, in UTC."""
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{at} s"


# ahead --------------------------------------------------------------------------------------


def _still_ahead(state: str) -> Check:
    def check(row: RunRow, messages: Sequence[InboxMessage]) -> None:
        if row.ended:
            raise AheadError(f"the run has ended ({row.status})", state=state)
        if row.status == "paused" and row.state == state:
            hint = "answer its question without `ahead`"
            raise AheadError(f"`{state}` asks now", hint=hint, state=state)
        for message in messages:
            if message.data.get("kind") == "answer" and message.data.get("ahead") == state:
                event = message.data.get("event")
                hint = "its first wait takes that one; this one would be for a later wait"
                text = f"`{event}` was given ahead for `{state}` already"
                raise AheadError(text, hint=hint, state=state)

    return check
