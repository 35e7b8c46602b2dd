"""`chartloop test`: run scenarios as the pytest plugin does, without pytest."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from chartloop import scenarios
from chartloop.catalog import display_path
from chartloop.cli import console, coverage_report, parameters
from chartloop.cli.coverage_report import CoverageGate
from chartloop.cli.error_report import ERROR, MisuseError
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import locate, own_of, with_tools_hint
from chartloop.cli.options import RunOptions, option, pass_options
from chartloop.cli.printing import Line, print_lines, print_result
from chartloop.core.errors import ChartloopError, SetupError, SpecError

with at_first_use(__name__):
    from chartloop.studies.coverage import coverage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chartloop.core.specs import Registry


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TestOptions(CoverageGate, RunOptions):
    """The options of `test`."""

    covered: bool = option(
        "--coverage", is_flag=True, help="Show which parts of their machines the scenarios cover."
    )
    generate: str | None = option(
        "--generate", is_flag=False, flag_value=".", metavar="[DIR]",
        help="Write a scenario into DIR for each state, edge, rule and reason of MACHINE that none"
        " there shows. Default: this folder.",
    )  # fmt: skip


@click.command(
    epilog="""\b
Examples:
  chartloop test
  chartloop test tests/scenarios --tools tools.py
  chartloop test hello.scenario.yaml --format json
  chartloop test tests/scenarios --coverage --fail-under 100
  chartloop test machine.yaml --generate scenarios --tools tools.py

\b
A scenario is NAME.scenario.yaml: a machine, a task, scripted replies and expectations. The exit
code is 1 when a scenario fails or coverage is below --fail-under; with --generate, when a part is
left without a scenario.
"""
)
@click.argument("paths", nargs=-1, metavar="[PATHS | MACHINE]...")
@parameters.options_of(TestOptions)
@parameters.options_of(CoverageGate)
@parameters.tools_option
@parameters.format_option()
@pass_options(TestOptions)
def test(paths: tuple[str, ...], options: TestOptions) -> None:
    """Run scenarios: scripted runs with expectations.

    PATHS are files, or folders to search; default: this folder. With --generate, write scenarios
    for one MACHINE: a file, or the name of a shipped machine.
    """
    if options.generate is None:
        _run(paths, options)
    if options.covered or options.fail_under or options.save:
        raise click.UsageError("coverage goes without --generate: run it on the folder after it")
    if len(paths) != 1:
        hint = "--generate takes one MACHINE: `chartloop test machine.yaml --generate [DIR]`"
        raise click.UsageError(hint)
    try:
        result = scenarios.generate(locate(paths[0]), Path(options.generate), own_of(options))
    except SpecError as error:
        raise SpecError(with_tools_hint(error.findings, options)) from None
    print_result(result, options)
    raise click.exceptions.Exit(ERROR if result.left else 0)


_NO_SCENARIO = (
    "a scenario is a NAME.scenario.yaml; `chartloop test MACHINE --generate` writes those that a"
    " machine lacks"
)


def _run(paths: tuple[str, ...], options: TestOptions) -> NoReturn:
    """Run the scenarios under the paths and report on each."""
    wanted = coverage_report.wanted_of(options)
    found = _find_scenario_files(paths or (".",))
    if not found:
        raise MisuseError("there is no scenario here", hint=_NO_SCENARIO)
    own = own_of(options)
    shows = bool(options.covered or wanted or options.save)
    counted = scenarios.Covering()
    with scenarios.collecting(counted) if shows else nullcontext():
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
        print_lines(scenarios.played_lines(played))
        if coverages:
            print_lines([Line(""), *coverage.coverage_lines(coverages, console.width())])
    if shows:
        coverage_report.save(options, coverages)
        _say_short(counted.skipped_runs, short)
    raise click.exceptions.Exit(ERROR if failed or short else 0)


def _say_short(skipped: Iterable[str], short: Iterable[str]) -> None:
    """Print the scenarios that were not counted, and the thresholds that were missed."""
    for message in skipped:
        console.say(console.plain(message), "yellow")
    for message in short:
        console.say(console.plain(message), "red")


def _find_scenario_files(paths: tuple[str, ...]) -> list[Path]:
    try:
        return scenarios.find_scenarios(paths)
    except SetupError as error:
        raise click.UsageError(error.message) from None


def _play(path: Path, own: list[Registry], options: RunOptions) -> scenarios.Played:
    """Play one file. An error in the file fails it and does not stop the others."""
    file = display_path(path)
    try:
        return scenarios.Played.of(file, scenarios.run_scenario(path, tools=own))
    except SpecError as error:
        return scenarios.Played.faulty(file, SpecError(with_tools_hint(error.findings, options)))
    except ChartloopError as error:
        return scenarios.Played.faulty(file, error)
