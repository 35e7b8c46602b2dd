"""`chartloop stats`: show what recorded runs have in common, as tables, data and plots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chartloop import catalog
from chartloop.cli import completion, console, parameters
from chartloop.cli.error_report import MisuseError
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import seen_machine
from chartloop.cli.options import pass_options
from chartloop.cli.printing import Line, print_lines
from chartloop.cli.progress_bar import progress_bar
from chartloop.cli.run_selection import SelectionOptions, choice_options, select_runs

with at_first_use(__name__):
    from chartloop import api
    from chartloop.actions import undeclared
    from chartloop.run import recorded, session
    from chartloop.studies.stats import stats as run_stats

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chartloop.api import Machine
    from chartloop.run.recorded import Recorded, RecordedRun
    from chartloop.studies.stats.stats import Stats


@click.command(
    epilog="""\b
Examples:
  chartloop stats
  chartloop stats agent --since 30d
  chartloop stats my.yaml --tools tools.py --newest 500 --plot stats.svg
  chartloop stats agent --plot plots/
  chartloop stats 3kf last old.jsonl --format json
  chartloop stats agent --format csv > stats.csv

\b
A limit of which no run used even half is marked `never near`: it may be too loose. --plot needs
the extra `plots`.
"""
)
@click.argument(
    "subjects", nargs=-1, metavar="[MACHINE] [RUN]...", shell_complete=completion.machines
)
@click.option(
    "--plot", type=click.Path(), metavar="PATH",
    help="Draw plots: one page for a .svg or .png; else PATH is a folder for one file per plot.",
)  # fmt: skip
@choice_options
@parameters.tools_option
@parameters.define_option
@parameters.format_option("text", "json", "csv")
@pass_options(SelectionOptions)
def stats(subjects: tuple[str, ...], plot: str | None, options: SelectionOptions) -> None:
    """Show what recorded runs have in common.

    Why they stop; time, cost and calls of each state; how close they come to each limit; what
    fails. Covers the runs of MACHINE, a file or a shipped name; without it, those of every machine
    in the journal, machine by machine. RUN names single runs.
    """
    first = subjects[0] if subjects else ""
    named = first in catalog.shipped_machines() or Path(first).suffix in (".yaml", ".yml")
    machine, names = (seen_machine(first, options), subjects[1:]) if named else (None, subjects)
    selection = select_runs(names, options, machine.name if machine is not None else "")
    with progress_bar("reading runs", len(selection)) as tick:
        if machine is not None:
            figures = [run_stats.stats_of(machine, selection, tick)]
            selection.unread += figures[0].unread
        else:
            groups = _by_machine(selection, selection.unread)
            figures = [run_stats.stats_of(one, runs, tick) for one, runs in groups]
    selection.say_unread()
    if plot is not None:  # before printing: a closed pipe ends the command
        _plot(figures, Path(plot))
    if options.format == "json":
        data = [one.to_dict() for one in figures]
        console.result(console.as_json(data[0] if machine is not None else data))
    elif options.format == "csv":
        console.result(run_stats.csv_text(figures).rstrip("\n"))
    else:
        _print(figures)


def _by_machine(
    runs: Iterable[RecordedRun], unread: list[Any]
) -> Iterable[tuple[Machine, list[Recorded]]]:
    """Group runs by machine, with the machine of the newest run that can be read."""
    runs_of: dict[str, list[Recorded]] = {}
    machines: dict[str, Machine | None] = {}
    for run in runs:
        name = run.row.machine
        if machines.get(name) is None and run.machine:
            # undeclared tools, actions and guards are accepted
            own = undeclared.upkeep_stand_ins(session.upkeep_of(run.records[0].input))
            text = run.machine if "\n" in run.machine else f"{run.machine}\n"
            machines[name], _ = api.find_faults(text, tools=own, assume=True)
        runs_of.setdefault(name, []).append(run)
    for name, own_runs in runs_of.items():
        machine = machines.get(name)
        if machine is None:
            why = f"the machine `{name}` cannot be read from the journal: name its file"
            unread += [recorded.Unread(run.run_id, why) for run in own_runs]
        else:
            yield machine, own_runs


def _print(figures: list[Stats]) -> None:
    if not figures:
        console.result("no runs")
    for number, one in enumerate(figures):
        print_lines([Line("")] * bool(number) + one.lines(console.width()))


def _plot(figures: list[Stats], path: Path) -> None:
    if not figures:
        raise MisuseError("there is nothing to draw: no runs", hint="`chartloop runs` lists them")
    if len(figures) > 1 and path.suffix:
        names = ", ".join(one.machine for one in figures)
        raise MisuseError(
            f"these are runs of {len(figures)} machines: {names}", hint="name one MACHINE"
        )
    for one in figures:
        folder = path / one.machine if len(figures) > 1 else path
        for file in one.plot(folder):
            console.say(f"wrote {console.plain(str(file))}", "dim")
