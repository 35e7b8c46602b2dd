"""`chartloop resume`: continue a run from its last record."""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.journal_access import as_before, find_run, machine_of, name_of, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import load_machine
from chartloop.cli.migrate import judge_run, refusal, row_under
from chartloop.cli.options import RunOptions, option, pass_options
from chartloop.core.errors import StatusError
from chartloop.core.units import say_count

with at_first_use(__name__):
    from chartloop.cli import drive, run_factory
    from chartloop.run import inbox, journal_pages, migrate, phases, retention, succession, sync
    from chartloop.run import journal as journals

if TYPE_CHECKING:
    from chartloop.api import Machine, Run
    from chartloop.run.journal import Journal, RunRow


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ResumeOptions(RunOptions):
    """The options of `resume`."""

    parked: bool = option(
        "--parked", is_flag=True,
        help="Let workers take up all runs that are parked: their processes died again and again.",
    )  # fmt: skip
    tenant: str | None = option(
        "--tenant", metavar="NAME", help="With --parked: only runs of this tenant."
    )
    yes: bool = option("--yes", is_flag=True, help="With --parked: do not ask.")


@click.command(
    epilog="""\b
Examples:
  chartloop resume last
  chartloop resume 3kf --tools tools.py
  chartloop resume 3kf --machine my.yaml --use-new-file
  chartloop resume --parked

\b
The machine is the one that the run was started with, from the journal. A recorded model call is
never repeated. Script and model are recorded; pass --tools and --api-base again, because tools are
Python code and a server sees keys.

\b
For a run that has ended, the result is printed again, with its exit code.

\b
A run that another process drives is refused with exit code 6; `chartloop pause` asks that process
to pause it. If the process has ended, the run continues at once; if it was on another computer,
30 seconds after it last renewed its lease.

\b
With --parked nothing is driven here: workers take the runs up, each in a process of its own.
"""
)
@click.argument("run", required=False, shell_complete=completion.runs)
@parameters.options_of(ResumeOptions)
@click.option(
    "--machine",
    "file",
    metavar="FILE",
    help="Use this file; it must be the same machine.",
)
@click.option(
    "--use-new-file", is_flag=True,
    help="Continue with a changed file, as a new run that starts with the records of this one.",
)  # fmt: skip
@parameters.model_options
@parameters.tools_option
@parameters.trust_option
@parameters.journal_option
@parameters.take_over_option
@parameters.notify_option
@parameters.watch_options
@parameters.format_option("text", "json", "jsonl")
@pass_options(ResumeOptions)
def resume(run: str | None, file: str | None, use_new_file: bool, options: ResumeOptions) -> None:
    """Continue an interrupted, paused or answered run."""
    if options.parked:
        if run or file:
            raise click.UsageError("--parked is for all runs that are parked: name none")
        _take_up_parked(options)
        return
    if run is None:
        raise click.UsageError("name a run: chartloop resume RUN, or give --parked")
    if use_new_file and file is None:
        raise click.UsageError("--use-new-file goes with --machine FILE")
    journal = open_journal(options)
    row = _successor(journal, find_run(journal, run), file, options)
    if row.ended:
        raise click.exceptions.Exit(_report_again(journal, row, options))
    if row.head == 0:
        hint = "nothing has happened yet: start it again, with the same --run-id"
        raise StatusError(f"run `{row.run_id}` stopped before its first record", hint=hint)
    options = as_before(journal, row, options)
    if file is None:
        machine = machine_of(journal, row, options, to_run=True)
    else:
        machine = load_machine(file, options)
        row = _move(journal, row, machine, file, options, use_new_file=use_new_file)
    script, interrupts = run_factory.script_of(options), drive.Interrupts()
    if script is not None:
        script.events = [e for e in script.events if e.after >= row.steps]
    opened = run_factory.go_on(
        machine,
        row.run_id,
        options,
        journal,
        cancel=interrupts,
        script=script,
        not_before=row.updated,
    )
    opened.prepare()  # may take long, so before its lease: a driver of the run does something
    sync.wait(
        opened.session.become_driver(), suspends=opened.suspends
    )  # refuses before a message is sent
    _wake(opened, journal)
    drive.drive(opened, options, interrupts, script)
    raise click.exceptions.Exit(drive.tell(opened, options, interrupts))


def _take_up_parked(options: ResumeOptions) -> None:
    """Let workers take up all runs that are parked because processes died with them."""
    journal = open_journal(options)
    wanted = journal_pages.RunFilter(parked=True, tenant=options.tenant, children=True)

    async def every() -> list[RunRow]:
        return [row async for row in retention.every_run(journal, wanted)]

    rows = sync.by_hand(every())
    chosen = [row for row in rows if row.parked]
    for row in chosen:
        console.say(console.plain(f"{row.run_id}: {phases.say_parked(row)}"))
    if chosen and not options.yes:
        count = say_count(len(chosen), "run")
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise click.UsageError(f"this would resume {count}: confirm with --yes")
        click.confirm(f"resume {count} of {name_of(journal)}?", abort=True, err=True)
    taken = [row.run_id for row in chosen if sync.by_hand(journal.enqueue(row.run_id))]
    if options.is_json:
        console.result(console.as_json({"resumed": taken}))
    console.say(f"{say_count(len(taken), 'run')} resumed, for workers to take up")
    if rest := len(rows) - len(chosen):
        way = "`chartloop journal import FILE --go-on`"
        console.say(f"{say_count(rest, 'run')} left that came by an import: {way}", "dim")


def _successor(journal: Journal, row: RunRow, file: str | None, options: RunOptions) -> RunRow:
    """The last successor of a run that was moved to this file before; else the run itself.

    `MovedError` for a moved run without a file, or with another one.
    """
    if not row.moved_to:
        return row
    if file is None:
        succession.refuse_moved(row)
    last = sync.by_hand(migrate.moved_before(journal, row, load_machine(file or "", options).hash))
    console.say(f"run {row.run_id} was moved before: it continues as run {last.run_id}")
    return last


def _report_again(journal: Journal, row: RunRow, options: RunOptions) -> int:
    """Print the result of a run that has ended; return its exit code.

    Needed when a process was killed between the last record of a run and its output.
    """
    run = machine_of(journal, row, options).open(row.run_id, journal=journal)
    console.say(f"run {row.run_id} had ended before: nothing was done", "dim")
    code = drive.tell(run, options)
    again = f"chartloop run {row.machine} TASK --continue {row.run_id}"
    console.say(f"continue its conversation with:  {again}", "dim")
    return code


def _move(
    journal: Journal,
    row: RunRow,
    machine: Machine,
    file: str,
    options: RunOptions,
    *,
    use_new_file: bool,
) -> RunRow:
    """Continue with a changed machine, as a new run: all records of a run are of one machine."""
    if machine.hash == row.machine_hash:
        return row
    verdict = judge_run(journal, row, machine)
    if not (use_new_file and verdict.goes_on):
        raise refusal(row, verdict, file)
    moved = migrate.move(
        journal, row, row_under(journal, row, machine), machine.chart, names=verdict.names,
        origin=verdict.origin(row.machine_hash), take_over=options.take_over,
    )  # fmt: skip
    made = sync.by_hand(moved)  # or the run that another process has moved it to meanwhile
    console.say(f"run {row.run_id} continues as run {made.run_id}, with the new file")
    for name, text in verdict.details():
        console.say(console.plain(f"{name}: {text}"), "dim")
    taken = {message.msg_id for message in sync.by_hand(journal.inbox(made.run_id))}
    for message in sync.by_hand(journal.inbox(row.run_id)):
        if message.data.get("kind") == "answer" and message.msg_id not in taken:
            event = console.plain(str(message.data.get("event")))
            console.say(f"the answer `{event}` stays behind: the new file does not ask the same")
    return made


def _wake(run: Run, journal: Journal) -> None:
    """Withdraw a pause, or a request for one that the run has not taken yet."""
    waiting = {message.data.get("kind") for message in sync.by_hand(journal.inbox(run.id))}
    asked = run.session.position.pause_asked or inbox.is_held(run.session)
    if asked or "pause" in waiting:
        message = journals.InboxMessage(
            secrets.token_hex(8), run.session.ports.clock.now(), {"kind": "resume"}
        )
        sync.by_hand(journal.send(run.id, message))
