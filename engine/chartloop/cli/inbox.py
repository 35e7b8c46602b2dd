"""Messages to a run's inbox, sent by `answer`, `enqueue`, `pause` and `cancel`.

The process that drives the run takes them; without one, the next `chartloop resume` does.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from chartloop.cli import console
from chartloop.cli.journal_access import resume_line
from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions
from chartloop.core.errors import StatusError

with at_first_use(__name__):
    from chartloop.run import inbox, sync
    from chartloop.run import journal as journals

if TYPE_CHECKING:
    from chartloop.run.journal import Journal, RunRow

PATIENCE = 1.5
"""Seconds to wait for the process that drives the run to take the message."""
_WILL = {
    "answer": "takes it when it continues",
    "enqueue": "takes them when it continues",
    "pause": "pauses before its next action",
    "cancel": "stops before its next action",
}
"""The effect of a message that has not been taken yet, by its kind."""
_CALLED = {"enqueue": "tasks", "pause": "request to pause", "cancel": "request to stop"}


class Posted(NamedTuple):
    """A message that was sent."""

    data: Mapping[str, Any]
    run: str
    """The run whose inbox holds it: the run itself or the child that asks."""
    message_id: str
    new: bool
    """False if a message with this id was sent before."""


def post_message(
    journal: Journal,
    row: RunRow,
    options: RunOptions,
    data: Mapping[str, Any],
    message_id: str | None = None,
) -> None:
    """Send a message to the inbox of a run and report its status."""
    id = message_id or secrets.token_hex(8)
    known = sync.by_hand(inbox.sent_before(journal, row.run_id, id, data))
    if row.ended and not row.moved_to and not known:
        raise StatusError(f"run `{row.run_id}` has ended ({row.phase().word})")
    message = journals.InboxMessage(id, sync.by_hand(journal.now()), data)
    fresh = sync.by_hand(journal.send(row.run_id, message))
    if not fresh:  # perhaps another process has sent it meanwhile
        sync.by_hand(inbox.sent_before(journal, row.run_id, id, data))
    report_message(journal, row, options, Posted(data, row.run_id, message.msg_id, fresh))


def report_message(journal: Journal, row: RunRow, options: RunOptions, posted: Posted) -> None:
    """Report whether a message was new and whether it has been taken."""
    data, fresh = posted.data, posted.new
    # a prompt that shows the question takes it too, without driving the run
    taken = fresh and "ahead" not in data and _is_taken(journal, posted.run, posted.message_id)
    now = sync.by_hand(journal.row(row.run_id)) or row
    report = {"run": row.run_id, "sent": dict(data), "new": fresh, "taken": taken}
    if options.is_json:
        console.result(console.as_json({**report, "status": now.status, "state": now.state}))
    kind = data["kind"]
    what, are = (_CALLED.get(kind, kind), "are" if kind == "enqueue" else "is")
    if not fresh:
        console.say("this message was delivered before: it is ignored")
    elif taken:
        console.say(
            f"run {row.run_id} has taken the {what}: {now.phase().word} at {now.stopped_at}"
        )
    else:
        will = _WILL[kind]
        if "ahead" in data:
            will = f"takes it when it first waits at {console.plain(data['ahead'])}"
        console.say(f"the {what} {are} kept for run {row.run_id}, which {will}")
        if sync.by_hand(journal.living_lease(row.run_id)) is not None:
            console.say("a process drives it, and takes this after the current action")
        else:
            console.say(f"continue with:  {resume_line(journal, now, options)}")


def _is_taken(journal: Journal, run_id: str, message_id: str) -> bool:
    """Whether a process takes the message within `PATIENCE`."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if message_id not in {x.msg_id for x in sync.by_hand(journal.inbox(run_id))}:
            return True
        time.sleep(0.05)
    return False
