"""`chartloop upgrade`: show which recorded runs can continue with a changed file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.commands.diff import save
from chartloop.cli.compare_inputs import machines_at
from chartloop.cli.error_report import ERROR, OK, USAGE, say_error
from chartloop.cli.late import at_first_use
from chartloop.cli.options import at_least, option, pass_options
from chartloop.cli.printing import print_result
from chartloop.cli.progress_bar import progress_bar
from chartloop.cli.run_selection import (
    Selection,
    SelectionOptions,
    choice_options,
    refuse_undeclared,
    runs_argument,
    select_runs,
)
from chartloop.core.errors import ChartloopError

with at_first_use(__name__):
    from chartloop.studies import upgrade as upgrades

if TYPE_CHECKING:
    from chartloop.api import Machine
    from chartloop.run.recorded import RecordedRun
    from chartloop.studies.upgrade import Upgraded

OWN = "-"
"""In place of OLD: the machine of each run, from the journal."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class UpgradeOptions(SelectionOptions):
    """The options of `upgrade`."""

    write_map: str | None = option(
        "--write-map",
        type=click.Path(dir_okay=False, allow_dash=True),
        metavar="FILE",
        help="Write the `renamed:` block that NEW needs to this file; `-` prints it alone.",
    )
    first: int = option(
        "--first",
        type=at_least(1),
        default=20,
        metavar="N",
        show_default=True,
        help="List at most this many runs and reasons, the worst first.",
    )
    unfinished: bool = option("--unfinished", is_flag=True, help="Only runs that have not ended.")


@click.command(
    epilog="""\b
Examples:
  chartloop upgrade old.yaml new.yaml
  chartloop upgrade main:agent.yaml agent.yaml --unfinished
  chartloop upgrade - agent.yaml last
  chartloop upgrade - agent.yaml --write-map map.yaml

\b
OLD and NEW are files, names of shipped machines, or REV:PATH in a git repository. With `-` for OLD
each run is compared with the machine that it was started with, from the journal. Runs of other
machines are reported and skipped. Nothing is run and the journal is not changed.

\b
unchanged          the same machine, or one that differs only in words
safe               every record is decided as before: the run can continue
needs a state map  the same, once the file has the lines under `renamed:`
unsafe             a record is decided differently, or data of the run do not fit

\b
Exit codes: 0 every run can continue, 1 some cannot, 2 a machine or a run cannot be read.
"""
)
@click.argument("old", shell_complete=completion.machines)
@click.argument("new", shell_complete=completion.machines)
@runs_argument
@parameters.options_of(UpgradeOptions)
@choice_options
@parameters.tools_option
@parameters.define_option
@parameters.format_option()
@pass_options(UpgradeOptions)
def upgrade(old: str, new: str, runs: tuple[str, ...], options: UpgradeOptions) -> None:
    """Show which recorded runs can continue with a changed file."""
    try:
        sides = _sides(old, new, options)
        result = None if sides is None else _judge(*sides, runs, options)
    except ChartloopError as error:
        say_error(error)
        raise click.exceptions.Exit(USAGE) from None
    if result is None:
        raise click.exceptions.Exit(USAGE)
    if options.write_map == "-" and not options.is_json:
        console.say(result.summary)
    else:
        print_result(result, options, listed=options.first, skipped=False)
    if options.write_map is not None:
        block = result.map_block()
        if not block:
            console.say("no run needs a state map: nothing is written", "dim")
        elif options.write_map == "-":
            console.result(block.rstrip("\n"))
        else:
            save(Path(options.write_map), block)
            console.say(f"{options.write_map}: the `renamed:` block for the new file", "dim")
    raise click.exceptions.Exit(OK if result.all_go_on else ERROR)


def _sides(old: str, new: str, options: UpgradeOptions) -> tuple[Machine | None, Machine] | None:
    """Load the old machine (None for `-`) and the new one. None if either is not a machine."""
    machines = machines_at((new,) if old == OWN else (old, new), options)
    if machines is None:
        return None
    *before, (_, after) = machines
    return (before[0][1] if before else None), after


def _judge(
    old: Machine | None, new: Machine, runs: tuple[str, ...], options: UpgradeOptions
) -> Upgraded:
    """Judge the selected runs. Skipped runs are reported on stderr."""
    for machine in (new, old):
        if machine is not None:
            refuse_undeclared(machine.spec)
    selection: Selection = select_runs(runs, options, (new if old is None else old).name)
    with progress_bar("deciding again", len(selection)) as tick:
        judged = _each(selection, tick, only_unfinished=options.unfinished)
        result = upgrades.upgrade(new, old, judged, now=time.time())
    selection.unread += result.passed_over
    selection.say_unread()
    return replace(result, passed_over=tuple(selection.unread))


def _each(
    selection: Iterable[RecordedRun], tick: Callable[[], object], *, only_unfinished: bool
) -> Iterator[RecordedRun]:
    for run in selection:
        tick()
        if not (only_unfinished and run.row.ended):
            yield run
