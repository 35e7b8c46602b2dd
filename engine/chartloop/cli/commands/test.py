"""`chartloop test`: run scenarios as the pytest plugin does, without pytest."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chartloop.catalog import display_path
from chartloop.cli import console, coverage_report, parameters
from chartloop.cli.coverage_report import CoverageGate
from chartloop.cli.error_report import ERROR, MisuseError
from chartloop.cli.options import GenerateOptions, RunOptions, pass_options
from chartloop.cli.printing import Line, print_lines
from chartloop.core.errors import ChartloopError, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from chartloop.core.specs import Registry
    from chartloop.scenarios import Played
    from chartloop.studies.coverage.coverage import Coverage


@dataclass(frozen=True, kw_only=True)
class TestOptions(CoverageGate, GenerateOptions):
    """The options of `test`."""

    covered: bool = False


@click.command(
    epilog="""\b
Examples:
  chartloop test
  chartloop test tests/scenarios --tools tools.py
  chartloop test hello.scenario.yaml --format json
  chartloop test tests/scenarios --coverage --fail-under 100
  chartloop test machine.yaml --generate scenarios --tools tools.py
  chartloop test agent --generate --dry-run
  chartloop test agent --generate --for think.next.1 --for steps_limit

\b
A scenario is NAME.scenario.yaml: a machine, a task, scripted replies and expectations. The exit
code is 1 when a scenario fails or coverage is below --fail-under; with --generate, when a target is
left without a scenario and is not proven impossible.
"""
)
@click.argument("paths", nargs=-1, metavar="[PATHS | MACHINE]...")
@click.option(
    "--generate", "folder", is_flag=False, flag_value=".", metavar="[DIR]",
    help="Write the scenarios that MACHINE lacks into DIR: the shortest for each edge, rule and"
    " stop reason that no scenario there shows. Default: this folder.",
)  # fmt: skip
@click.option(
    "--for", "only", multiple=True, metavar="NAME",
    help="With --generate: only for this edge, rule or stop reason, even if a scenario shows it."
    " Repeatable.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="With --generate: list them and write nothing.")
@click.option(
    "--force", is_flag=True, help="With --generate: overwrite files that a person changed."
)
@click.option(
    "--work", type=click.IntRange(1), metavar="N",
    help="With --generate: the most moves that the search tries. Default: 20,000.",
)  # fmt: skip
@click.option(
    "--run-actions", is_flag=True,
    help="With --generate: run your own actions that have effects, many times.",
)  # fmt: skip
@click.option(
    "--coverage", "covered", is_flag=True,
    help="Show which parts of their machines the scenarios cover.",
)  # fmt: skip
@coverage_report.threshold_option
@coverage_report.save_option
@parameters.tools_option
@parameters.format_option()
@pass_options(TestOptions)
def test(paths: tuple[str, ...], folder: str | None, options: TestOptions) -> None:
    """Run scenarios: scripted runs with expectations.

    PATHS are files, or folders to search; default: this folder. With --generate, write scenarios
    for one MACHINE: a file, or the name of a shipped machine.
    """
    if folder is not None:
        from chartloop.cli.generate_scenarios import generate_and_report

        if options.covered or coverage_report.wanted_of(options) or options.save:
            raise click.UsageError(
                "coverage goes without --generate: run it on the folder after it"
            )
        raise click.exceptions.Exit(generate_and_report(paths, folder, options))
    if unused := [name for name in _GENERATING if getattr(options, name)]:
        words = ", ".join(_GENERATING[name] for name in unused)
        raise click.UsageError(f"{words} goes with --generate")
    _run(paths, options)


_NO_SCENARIO = (
    "a scenario is a NAME.scenario.yaml; `chartloop test MACHINE --generate` writes those that a"
    " machine lacks"
)
_GENERATING = {
    "only": "--for", "dry_run": "--dry-run", "force": "--force", "work": "--work",
    "run_actions": "--run-actions",
}  # fmt: skip


def _run(paths: tuple[str, ...], options: TestOptions) -> None:
    """Run the scenarios under the paths and report on each."""
    from chartloop.cli.machine_loader import own_of
    from chartloop.scenarios import Covering, collecting, played_lines

    wanted = coverage_report.wanted_of(options)
    found = _find_scenario_files(paths or (".",))
    if not found:
        raise MisuseError("there is no scenario here", hint=_NO_SCENARIO)
    own = own_of(options)
    shows = bool(options.covered or wanted or options.save)
    counted = Covering()
    with collecting(counted) if shows else nullcontext():
        played = [_play(path, own, options) for path in found]
    failed = sum(not one.passed for one in played)
    coverages = counted.coverages() if shows else ()
    short = [message for one in coverages for message in one.below(wanted)]
    if options.is_json:
        data: Any = [one.to_dict() for one in played]
        if shows:
            measured = [one.to_dict() for one in coverages]
            data = {"scenarios": data, "coverage": measured, "below": short}
        console.result(console.as_json(data))
    else:
        print_lines(played_lines(played))
        _print_coverage(coverages)
    if shows:
        coverage_report.save(options, coverages)
        _say_short(counted.skipped_runs, short)
    raise click.exceptions.Exit(ERROR if failed or short else 0)


def _print_coverage(coverages: Sequence[Coverage]) -> None:
    from chartloop.studies.coverage.coverage import coverage_lines

    if coverages:
        print_lines([Line(""), *coverage_lines(coverages, console.width())])


def _say_short(skipped: Iterable[str], short: Iterable[str]) -> None:
    """Print the scenarios that were not counted, and the thresholds that were missed."""
    for message in skipped:
        console.say(console.plain(message), "yellow")
    for message in short:
        console.say(console.plain(message), "red")


def _find_scenario_files(paths: tuple[str, ...]) -> list[Path]:
    from chartloop.core.errors import SetupError
    from chartloop.scenarios import find_scenarios

    try:
        return find_scenarios(paths)
    except SetupError as error:
        raise click.UsageError(error.message) from None


def _play(path: Path, own: list[Registry], options: RunOptions) -> Played:
    """Play one file. An error in the file fails it and does not stop the others."""
    from chartloop.cli.machine_loader import with_tools_hint
    from chartloop.scenarios import Played, run_scenario

    file = display_path(path)
    try:
        return Played.of(file, run_scenario(path, tools=own))
    except SpecError as error:
        return Played.faulty(file, SpecError(with_tools_hint(error.findings, options)))
    except ChartloopError as error:
        return Played.faulty(file, error)
