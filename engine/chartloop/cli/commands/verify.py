"""`chartloop verify`: compare a machine with the flowchart of a document."""

from __future__ import annotations

import click

from chartloop.cli import parameters
from chartloop.cli.charts import (
    ChartOptions,
    find_chart,
)
from chartloop.cli.error_report import ERROR, OK, USAGE, say_error
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import read_machine
from chartloop.cli.options import pass_options
from chartloop.cli.printing import print_result, say_lines
from chartloop.core.errors import SpecError

with at_first_use(__name__):
    from chartloop.interchange import verify as verifying


@click.command(
    epilog="""\b
Examples:
  chartloop verify FLOW.md machine.yaml
  chartloop verify docs/design.md agent --chart "Main loop"
  chartloop verify flow.mmd machine.yaml --format json

\b
Declare an intended difference in the machine, with its reason:
  deviations:
    - {difference: "edge ask → stop added", reason: the document has no edge out of it}

\b
Exit codes: 0 no undeclared difference; 1 an undeclared difference, or a declared one that does not
exist; 2 the document or the machine cannot be read.
"""
)
@click.argument("document", type=click.Path(dir_okay=False))
@parameters.machine_argument
@parameters.options_of(ChartOptions)
@parameters.tools_option
@parameters.format_option()
@pass_options(ChartOptions)
def verify(document: str, machine: str, options: ChartOptions) -> None:
    """Compare a machine with the chart of a document.

    DOCUMENT is a Markdown file with a Mermaid flowchart or state diagram in a fence, or a .mmd
    file.
    """
    try:
        chart = find_chart(document, options)
        verdict = verifying.verify(chart, read_machine(machine, options))
    except SpecError as error:
        say_error(error)
        raise click.exceptions.Exit(USAGE) from None
    if not options.is_json:
        say_lines(verdict.read.lines())
    print_result(verdict, options)
    raise click.exceptions.Exit(OK if verdict.holds else ERROR)
