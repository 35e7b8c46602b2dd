"""What is put into a run's inbox, from any process: `answer`, `enqueue`, `pause`, `cancel`.

Whoever drives the run takes it out; where nobody does, the next `chartloop resume` does.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from chartloop.cli import completion, options, out
from chartloop.cli.how import How
from chartloop.cli.options import PAIR
from chartloop.core.errors import ChartloopError, StatusError, nearest

if TYPE_CHECKING:
    from chartloop.run.journal import Journal, RunRow

PATIENCE = 1.5
"""Seconds in which a process that drives the run is expected to have taken the letter."""
_WILL = {
    "answer": "takes it when it goes on",
    "enqueue": "takes them when it goes on",
    "pause": "pauses before its next action",
    "cancel": "stops before its next action",
}
"""What a run does with a letter that nobody has taken yet."""
_CALLED = {"enqueue": "tasks", "pause": "request to pause", "cancel": "request to stop"}


@click.command(
    epilog="""\b
Examples:
  chartloop answer last abort
  chartloop answer 3kf fix note="use 3"
  chartloop answer 3kf fix --data '{"note": "use 3"}'
  chartloop answer 3kf accept --wait 5
  chartloop answer 3kf accept --ahead approve

\b
`chartloop show RUN` shows the question and the id of its wait. An answer for another wait, for one
that is over, or for a run that waits for nothing is refused (exit code 2).
"""
)
@options.run_argument
@click.argument("event", shell_complete=completion.events)
@click.argument("fields", nargs=-1, type=PAIR, metavar="[NAME=VALUE]...")
@click.option("--data", metavar="JSON", help="The answer's data as a JSON object.")
@click.option(
    "--wait",
    metavar="ID",
    help="The id of the wait, as the question shows it; default: the current one.",
)
@click.option(
    "--ahead",
    metavar="STATE",
    help="Answer before the question: the first wait of this state takes it.",
)
@click.option(
    "--id",
    "message_id",
    metavar="ID",
    help="Idempotency key: repeated messages with it are ignored.",
)
@options.tools_option
@options.journal_option
@options.durability_option
@options.format_option()
def answer(run: str, event: str, fields: tuple[tuple[str, str], ...], **given: Any) -> None:
    """Answer the question that a run waits with.

    EVENT is one of those that the wait takes. Its data are given field by field, or as JSON.
    """
    from chartloop.cli.stored import find_run, machine_of, open_journal
    from chartloop.cli.values import answer_data

    how = How.of(given)
    wait, ahead = how.more["wait"] or "", how.more["ahead"] or ""
    if wait and ahead:
        raise click.UsageError("--wait answers a question, --ahead one to come: give one of them")
    journal = open_journal(how)
    row = find_run(journal, run)
    opened = machine_of(journal, row, how).open(row.run_id, journal=journal)
    taken = opened.answers.get(event, {})
    if ahead:
        taken = opened.machine.chart.answer_fields(ahead, event)
    data = answer_data(event, taken, fields, how.more["data"])
    sent = opened.send(event, data, wait=wait, ahead=ahead, message_id=how.more["message_id"])
    said = {"kind": "answer", "event": event, "data": data}
    said |= {"ahead": ahead} if ahead else {"wait": sent.wait}
    _tell(journal, row, how, Posted(said, sent.run, sent.message_id, sent.new))


@click.command(
    epilog="""\b
Examples:
  chartloop enqueue last "Write the tests."
  chartloop enqueue 3kf --tasks more.yaml
"""
)
@options.run_argument
@click.argument("texts", nargs=-1, metavar="[TASK]...")
@options.tasks_option
@click.option(
    "--id",
    "message_id",
    metavar="ID",
    help="Idempotency key: repeated messages with it are ignored.",
)
@options.tools_option
@options.journal_option
@options.durability_option
@options.format_option()
def enqueue(run: str, texts: tuple[str, ...], **given: Any) -> None:
    """Add tasks at the end of the queue of a run.

    Each TASK is a text; a file may say more of them, as `tasks` in a machine file does.
    """
    from chartloop.api.posting import tasks_letter
    from chartloop.cli.loading import tasks_of
    from chartloop.cli.stored import find_run, machine_of, open_journal

    how = How.of(given)
    journal = open_journal(how)
    row = find_run(journal, run)
    message_id = how.more["message_id"]
    for to_run in (False, True):  # only a tool that a task names must be there
        opened = machine_of(journal, row, how, to_run=to_run).open(row.run_id, journal=journal)
        given_tasks = [*texts, *(tasks_of(opened.machine.spec, how) or ())]
        if not given_tasks:
            raise click.UsageError("no task is given: name some, or a file with --tasks")
        letter = tasks_letter(opened.session, given_tasks, fresh=message_id is None)
        if not any("tool" in task["by"] for task in letter["tasks"]):
            break
    _post(journal, row, how, letter, message_id)


@click.command(
    epilog="""\b
Example:
  chartloop pause last
"""
)
@options.run_argument
@options.journal_option
@options.durability_option
@options.format_option()
def pause(run: str, **given: Any) -> None:
    """Ask a run to pause before its next action.

    At a wait it takes effect once the wait is over. `chartloop resume` continues it.
    """
    from chartloop.cli.stored import find_run, open_journal

    how = How.of(given)
    journal = open_journal(how)
    row = find_run(journal, run)
    if row.status == "paused" and row.wake_at is None:
        raise StatusError(f"run `{row.run_id}` is paused already, at `{row.state}`")
    _post(journal, row, how, {"kind": "pause"})


@click.command(
    epilog="""\b
Examples:
  chartloop cancel last
  chartloop cancel 3kf --reason stop_requested --message "not needed any more"
"""
)
@options.run_argument
@click.option(
    "--reason", default="user_requested", show_default=True, help="The stop reason to record."
)
@click.option("--message", default="", help="Why, in words.")
@options.journal_option
@options.durability_option
@options.format_option()
def cancel(run: str, reason: str, message: str, **given: Any) -> None:
    """Ask a run to stop before its next action."""
    from chartloop.cli.stored import find_run, open_journal

    how = How.of(given)
    journal = open_journal(how)
    row = find_run(journal, run)
    data = {"message": message} if message else {}
    _say_unless_known(reason, journal, row, how)
    _post(journal, row, how, {"kind": "cancel", "reason": reason, "data": data})


def _say_unless_known(reason: str, journal: Journal, row: RunRow, how: How) -> None:
    """A warning for a reason that the machine does not have: a run stops for it all the same."""
    from chartloop.cli.stored import machine_of

    # a machine that cannot be read any more is no reason to let its run go on
    with contextlib.suppress(ChartloopError):
        known = machine_of(journal, row, how).spec.reasons
        if reason not in known:
            said = f"the machine has no stop reason `{reason}`: it stops as `custom` does"
            out.say(f"{out.plain(said)}; {nearest(reason, known)}", "yellow")


class Posted(NamedTuple):
    """A letter that was sent."""

    data: Mapping[str, Any]
    run: str
    """In whose inbox it is."""
    message_id: str
    new: bool


def _post(
    journal: Journal, row: RunRow, how: How, data: Mapping[str, Any], message_id: str | None = None
) -> None:
    from chartloop.run.journal import Letter
    from chartloop.run.sync import by_hand

    if row.ended:
        raise StatusError(f"run `{row.run_id}` has ended ({row.status})")
    letter = Letter(message_id or secrets.token_hex(8), time.time(), data)
    fresh = by_hand(journal.send(row.run_id, letter))
    _tell(journal, row, how, Posted(data, row.run_id, letter.msg_id, fresh))


def _tell(journal: Journal, row: RunRow, how: How, posted: Posted) -> None:
    """Say what became of a letter."""
    from chartloop.cli.stored import resume_line
    from chartloop.run.sync import by_hand

    data, fresh = posted.data, posted.new
    taken = fresh and "ahead" not in data and _is_taken(journal, posted.run, posted.message_id)
    now = by_hand(journal.row(row.run_id)) or row
    told = {"run": row.run_id, "sent": dict(data), "new": fresh, "taken": taken}
    if how.is_json:
        out.result(out.as_json({**told, "status": now.status, "state": now.state}))
    kind = data["kind"]
    what, are = (_CALLED.get(kind, kind), "are" if kind == "enqueue" else "is")
    if not fresh:
        out.say("this message was delivered before: nothing is done twice")
    elif taken:
        out.say(f"run {row.run_id} has taken the {what}: it is {now.status} at {now.state}")
    else:
        will = _WILL[kind]
        if "ahead" in data:
            will = f"takes it when it first waits at {out.plain(data['ahead'])}"
        out.say(f"the {what} {are} kept for run {row.run_id}, which {will}")
        when = "go on with" if kind == "answer" else "if no process drives it now"
        out.say(f"{when}:  {resume_line(journal, now, how)}")


def _is_taken(journal: Journal, run_id: str, message_id: str) -> bool:
    """Whether somebody takes the letter out while we look."""
    from chartloop.run.sync import by_hand

    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if message_id not in {x.msg_id for x in by_hand(journal.letters(run_id))}:
            return True
        time.sleep(0.05)
    return False
