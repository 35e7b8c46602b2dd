"""`chartloop coverage`: show which parts of a machine its recorded runs have covered."""

from __future__ import annotations

from dataclasses import dataclass

import click

from chartloop.cli import console, coverage_report, parameters
from chartloop.cli.coverage_report import CoverageGate
from chartloop.cli.error_report import ERROR
from chartloop.cli.options import pass_options
from chartloop.cli.printing import print_result
from chartloop.cli.run_selection import SelectionOptions, choice_options, runs_argument


@dataclass(frozen=True, kw_only=True)
class CoverageOptions(CoverageGate, SelectionOptions):
    """The options of `coverage`."""

    drawn: str | None = None


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
@click.option(
    "--with", "saved", multiple=True, metavar="FILE", type=click.Path(dir_okay=False),
    help="Add saved coverage. Without RUN, count only these files. Repeatable.",
)  # fmt: skip
@coverage_report.threshold_option
@coverage_report.save_option
@click.option(
    "--draw", "drawn", type=click.Path(dir_okay=False), metavar="FILE",
    help="Write the heat map: the machine's picture, coloured by how often runs visited each part.",
)  # fmt: skip
@choice_options
@parameters.tools_option
@parameters.define_option
@parameters.format_option()
@pass_options(CoverageOptions)
def coverage(
    machine: str, runs: tuple[str, ...], saved: tuple[str, ...], options: CoverageOptions
) -> None:
    """Show which parts of a machine its runs have covered.

    States, edges, rules, guard atoms, stop reasons and children, and those that no run reached.
    Without RUN: all runs of MACHINE in the journal. Every record is decided again; nothing is run.
    """
    from chartloop.cli.machine_loader import seen_machine
    from chartloop.cli.progress_bar import progress_bar
    from chartloop.cli.run_selection import Selection, select_runs
    from chartloop.studies.coverage.measure import coverage_of

    wanted = coverage_report.wanted_of(options)
    loaded = seen_machine(machine, options)
    only_saved = bool(saved) and not runs
    selection = (
        Selection([], 0) if only_saved else select_runs(runs, options, loaded.name, children=True)
    )
    with progress_bar("deciding again", len(selection)) as tick:
        result = coverage_of(loaded, selection, saved, tick)
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
