"""Messages to a run: checked, then put into its inbox.

The run's driver reads them before the next action.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any

from chartloop.api.caller_values import checked_tasks
from chartloop.core.errors import StatusError
from chartloop.core.position import IN_DOUBT
from chartloop.run.inbox import pause_asked, sent_before
from chartloop.run.journal import InboxMessage
from chartloop.run.loop import advance
from chartloop.run.question import question_of
from chartloop.run.session import Session


async def post(session: Session, data: Mapping[str, Any], *, message_id: str | None = None) -> None:
    """Send a message, and start the run if it has not started. `StatusError` if it has ended."""
    before = partial(sent_before, session.journal, session.run_id, message_id or "", data)
    if message_id and await before():
        return
    if not session.head:
        await advance(session)
    if session.position.ended:
        raise StatusError(
            f"the run has ended ({session.position.status})",
            hint="`next` starts a new run that continues it",
        )
    message = InboxMessage(message_id or secrets.token_hex(8), session.ports.clock.now(), data)
    if not await session.journal.send(session.run_id, message):
        await before()


def tasks_message(session: Session, tasks: Any, *, fresh: bool) -> dict[str, Any]:
    """A message that appends tasks to the queue. `TaskError` for an invalid task.

    Tasks that are not `fresh` may have been delivered before, so their ids may be in the queue.
    """
    taken = (task.id for task in session.position.queue) if fresh else ()
    added = checked_tasks(session.chart.spec, tasks, taken, session.position.facts.queue)
    return {"kind": "enqueue", "tasks": [task.to_dict() for task in added]}


async def refuse_resume(session: Session) -> None:
    """Raise `StatusError` unless a resume would end a pause, or one that was asked for."""
    position = session.position
    if position.status != "paused":
        if session.head and await pause_asked(session.journal, session.run_id):
            return
        raise StatusError(f"the run is {position.status}, not paused")
    if position.blocked_on == IN_DOUBT:
        raise StatusError(
            f"a paid call of `{position.state}` is in doubt", hint="send `retry` or `fail`"
        )
    question = question_of(session)
    if question is not None and question.answers and not position.pause_asked:
        events = ", ".join(f"`{e}`" for e in question.answers)
        raise StatusError(f"`{position.state}` waits for an answer", hint=f"send one of {events}")
