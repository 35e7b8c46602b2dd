"""`chartloop coverage`: show which parts of a machine its recorded runs have covered."""

from __future__ import annotations

from dataclasses import dataclass

import click

from chartloop.cli import console, coverage_report, parameters
from chartloop.cli.coverage_report import CoverageGate
from chartloop.cli.error_report import ERROR
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import seen_machine
from chartloop.cli.options import option, pass_options
from chartloop.cli.printing import print_result
from chartloop.cli.progress_bar import progress_bar
from chartloop.cli.run_selection import SelectionOptions, choice_options, runs_argument

with at_first_use(__name__):
    from chartloop.cli import run_selection
    from chartloop.studies.coverage import measure


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CoverageOptions(CoverageGate, SelectionOptions):
    """The options of `coverage`."""

    saved: tuple[str, ...] = option(
        "--with",
        multiple=True,
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="Add saved coverage. Without RUN, count only these files. Repeatable.",
    )
    drawn: str | None = option(
        "--draw",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Write the heat map: the machine's picture, coloured by how often runs visited each"
        " part.",
    )


@click.command(
    epilog="""\b
Examples:
  chartloop coverage agent
  chartloop coverage my.yaml last 3kf --tools tools.py
  chartloop coverage agent --since 7d --fail-under 90 --fail-under atoms=75
  chartloop coverage agent --draw heat.svg
  chartloop coverage agent --save monday.json
  chartloop coverage agent --with monday.json --with tests.json

\b
Scenarios have coverage too: `chartloop test --coverage --save tests.json`. An edge that no run can
take, by the checker's proof, is listed separately and does not count. docs/coverage.md explains
what counts as covered.
"""
)
@parameters.machine_argument
@runs_argument
@parameters.options_of(CoverageOptions, "saved")
@parameters.options_of(CoverageGate)
@parameters.options_of(CoverageOptions, "drawn")
@choice_options
@parameters.tools_option
@parameters.define_option
@parameters.format_option()
@pass_options(CoverageOptions)
def coverage(machine: str, runs: tuple[str, ...], options: CoverageOptions) -> None:
    """Show which parts of a machine its runs have covered.

    States, edges, rules, guard atoms, stop reasons and children, and those that no run reached.
    Without RUN: all runs of MACHINE in the journal. Every record is decided again; nothing is run.
    """
    wanted = coverage_report.wanted_of(options)
    loaded = seen_machine(machine, options)
    only_saved = bool(options.saved) and not runs
    selection = (
        run_selection.Selection([], 0)
        if only_saved
        else run_selection.select_runs(runs, options, loaded.name, children=True)
    )
    with progress_bar("deciding again", len(selection)) as tick:
        result = measure.coverage_of(loaded, selection, options.saved, tick)
    selection.say_unread()
    if (file := options.drawn) is not None:
        result.draw().save(file)
        console.say(f"{file}: {result.machine}, by how often runs visited each part", "dim")
    coverage_report.save(options, [result, *result.inside])
    missed = result.below(wanted)
    print_result(result, options, added={"below": list(missed)})
    if only_saved:
        console.say("only saved coverage is counted; `all` adds the runs in the journal", "dim")
    for message in missed:
        console.say(message, "red")
    raise click.exceptions.Exit(ERROR if missed else 0)
