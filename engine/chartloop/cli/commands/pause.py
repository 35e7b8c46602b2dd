"""`chartloop pause`: a request to pause, from any process."""

from __future__ import annotations

from typing import Any

import click

from chartloop.cli import parameters
from chartloop.cli.inbox import post_message
from chartloop.cli.options import How
from chartloop.core.errors import StatusError


@click.command(
    epilog="""\b
Example:
  chartloop pause last
"""
)
@parameters.run_argument
@parameters.journal_option
@parameters.durability_option
@parameters.format_option()
def pause(run: str, **given: Any) -> None:
    """Ask a run to pause before its next action.

    At a wait it takes effect once the wait is over. `chartloop resume` continues it.
    """
    from chartloop.cli.journal_access import find_run, open_journal

    how = How.of(given)
    journal = open_journal(how)
    row = find_run(journal, run)
    if row.status == "paused" and row.wake_at is None:
        raise StatusError(f"run `{row.run_id}` is paused already, at `{row.state}`")
    post_message(journal, row, how, {"kind": "pause"})
