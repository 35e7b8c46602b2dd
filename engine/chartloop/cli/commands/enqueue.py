"""`chartloop enqueue`: add tasks to a run's queue, from any process."""

from __future__ import annotations

import click

from chartloop.cli import parameters
from chartloop.cli.inbox import post_message
from chartloop.cli.journal_access import find_run, machine_of, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import tasks_of
from chartloop.cli.options import RunOptions, pass_options

with at_first_use(__name__):
    from chartloop.api import run_messages


@click.command(
    epilog="""\b
Examples:
  chartloop enqueue last "Write the tests."
  chartloop enqueue 3kf --tasks more.yaml
"""
)
@parameters.run_argument
@click.argument("texts", nargs=-1, metavar="[TASK]...")
@parameters.tasks_option
@parameters.message_id_option
@parameters.tools_option
@parameters.journal_option
@parameters.format_option()
@pass_options(RunOptions)
def enqueue(run: str, texts: tuple[str, ...], options: RunOptions) -> None:
    """Add tasks at the end of the queue of a run.

    Each TASK is a text. A file can give tasks more fields, like `tasks` in a machine file.
    """
    journal = open_journal(options)
    row = find_run(journal, run)
    message_id = options.message_id
    for to_run in (False, True):  # own tools are loaded only if a task names a tool
        opened = machine_of(journal, row, options, to_run=to_run).open(row.run_id, journal=journal)
        given_tasks = [*texts, *(tasks_of(opened.machine.spec, options) or ())]
        if not given_tasks:
            raise click.UsageError("no task is given: name some, or a file with --tasks")
        message = run_messages.tasks_message(opened.session, given_tasks, fresh=message_id is None)
        if not any("tool" in task["by"] for task in message["tasks"]):
            break
    post_message(journal, row, options, message, message_id)
