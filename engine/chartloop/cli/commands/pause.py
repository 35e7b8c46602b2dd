"""`chartloop pause`: ask a run to pause, from any process."""

from __future__ import annotations

import click

from chartloop.cli import parameters
from chartloop.cli.inbox import post_message
from chartloop.cli.journal_access import find_run, open_journal
from chartloop.cli.options import RunOptions, pass_options
from chartloop.core.errors import StatusError


@click.command(
    epilog="""\b
Example:
  chartloop pause last
"""
)
@parameters.run_argument
@parameters.journal_option
@parameters.format_option()
@pass_options(RunOptions)
def pause(run: str, options: RunOptions) -> None:
    """Ask a run to pause before its next action.

    If the run is waiting, it pauses once the wait is over. `chartloop resume` continues it.
    """
    journal = open_journal(options)
    row = find_run(journal, run)
    if row.status == "paused" and row.wake_at is None:
        raise StatusError(f"run `{row.run_id}` is paused already, at `{row.state}`")
    post_message(journal, row, options, {"kind": "pause"})
