"""`chartloop cancel`: ask a run to stop, from any process."""

from __future__ import annotations

import contextlib

import click

from chartloop.cli import console, parameters
from chartloop.cli.inbox import post_message
from chartloop.cli.journal_access import find_run, machine_of, open_journal
from chartloop.cli.options import RunOptions, pass_options
from chartloop.core.errors import ChartloopError, nearest


@click.command(
    epilog="""\b
Examples:
  chartloop cancel last
  chartloop cancel 3kf --reason stop_requested --message "not needed any more"
"""
)
@parameters.run_argument
@click.option(
    "--reason", default="user_requested", show_default=True, help="The stop reason to record."
)
@click.option("--message", default="", help="The reason in words.")
@parameters.journal_option
@parameters.format_option()
@pass_options(RunOptions)
def cancel(run: str, reason: str, message: str, options: RunOptions) -> None:
    """Ask a run to stop before its next action."""
    journal = open_journal(options)
    row = find_run(journal, run)
    data = {"message": message} if message else {}
    # a stop reason that the machine does not have stops it all the same, and so does a run whose
    # machine can no longer be read
    with contextlib.suppress(ChartloopError):
        known = machine_of(journal, row, options).spec.reasons
        if reason not in known:
            warning = f"the machine has no stop reason `{reason}`: it stops as `custom` does"
            console.say(f"{console.plain(warning)}; {nearest(reason, known)}", "yellow")
    post_message(journal, row, options, {"kind": "cancel", "reason": reason, "data": data})
