"""`chartloop why`: show everything that was evaluated to decide a record."""

from __future__ import annotations

import click

from chartloop.cli import console, parameters
from chartloop.cli.journal_access import find_run, machine_of, open_journal
from chartloop.cli.options import RunOptions, at_least, pass_options
from chartloop.cli.printing import print_lines


@click.command(
    epilog="""\b
Examples:
  chartloop why last
  chartloop why last --record 3
  chartloop why 3kf --record 3 --format json

\b
✓ held, ✗ did not, ! could not be evaluated, · was not evaluated: an edge before it was taken.
`left` is the rest of a budget that is not spent.
"""
)
@parameters.run_argument
@click.option(
    "--record", type=at_least(0), metavar="N",
    help="The record, as `chartloop show` numbers them. Default: the newest.",
)  # fmt: skip
@parameters.tools_option
@parameters.journal_option
@parameters.format_option()
@pass_options(RunOptions)
def why(run: str, record: int | None, options: RunOptions) -> None:
    """Show why a run took its path.

    Every rule and edge that was evaluated, with the values that its guard read, taken or not.
    """
    journal = open_journal(options)
    row = find_run(journal, run)
    opened = machine_of(journal, row, options).open(row.run_id, journal=journal)
    explanation = opened.why(record)
    if options.is_json:
        console.result(console.as_json(explanation.to_dict()))
        return
    number = record if record is not None else opened.session.tally.records - 1
    console.result(
        console.style(f"record {number} of run {row.run_id}: {explanation.title}", bold=True)
    )
    print_lines(explanation.lines(console.width()))
