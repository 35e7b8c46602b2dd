"""`chartloop replay`: decide the records of a run again, and compare."""

from __future__ import annotations

from dataclasses import replace as changed

import click

from chartloop.cli import parameters
from chartloop.cli.error_report import ERROR
from chartloop.cli.journal_access import find_run, machine_of, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import load_machine
from chartloop.cli.migrate import records_of
from chartloop.cli.options import RunOptions, pass_options
from chartloop.cli.printing import print_result

with at_first_use(__name__):
    from chartloop.run import recorded, sync
    from chartloop.run import replay as replaying


@click.command(
    epilog="""\b
Examples:
  chartloop replay last
  chartloop replay 3kf --machine changed.yaml

\b
Nothing is run: no model, no tool. The comparison ends at the first record that differs; the exit
code is then 1, as it is if the run was changed since it was written.
"""
)
@parameters.run_argument
@parameters.file_option
@parameters.tools_option
@parameters.trust_option
@parameters.journal_option
@parameters.format_option()
@pass_options(RunOptions)
def replay(run: str, file: str | None, options: RunOptions) -> None:
    """Decide the records of a run again, and compare."""
    journal = open_journal(options)
    row = find_run(journal, run)
    machine = machine_of(journal, row, options) if file is None else load_machine(file, options)
    comparison = replaying.replay(machine.chart, records_of(journal, row), row.run_id)
    checked = sync.by_hand(recorded.check_chain(journal, row.run_id))
    comparison = changed(comparison, chain=checked)
    print_result(comparison, options, added={"run": row.run_id, "machine": machine.name})
    raise click.exceptions.Exit(0 if comparison.same and not (checked and checked.fault) else ERROR)
