"""`interlock test`: scenarios, as pytest runs them, without pytest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from interlock.cli import options, out
from interlock.cli.faults import ERROR, MisuseError
from interlock.cli.options import How

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.testing.scenario import ScenarioReport


@click.command(epilog="""\b
Examples:
  interlock test
  interlock test tests/scenarios --tools tools.py
  interlock test hello.scenario.yaml --format json

\b
A scenario is NAME.scenario.yaml: a machine, a task, scripted replies, and what is expected. The
exit code is 1 when one fails.
""")
@click.argument("paths", nargs=-1, type=click.Path(exists=True))
@options.tools_option
@options.format_option()
def test(paths: tuple[str, ...], **given: Any) -> None:
    """Run scenarios: scripted runs with what is expected of them.

    PATHS are files, or folders that are searched; by default this one.
    """
    from interlock.cli.loading import load_tools
    from interlock.cli.stored import shown
    from interlock.testing.scenario import find_scenarios, run_scenario

    how = How.of(given)
    found = find_scenarios(paths or (".",))
    if not found:
        raise MisuseError("there is no scenario here", hint="a scenario is a NAME.scenario.yaml")
    own = load_tools(how.tools)
    reports = [(path, run_scenario(path, tools=own)) for path in found]
    failed = [path for path, report in reports if not report.passed]
    if how.is_json:
        out.result(out.as_json([_public(path, report) for path, report in reports]))
    else:
        for path, report in reports:
            _say(shown(path), report)
        passed = len(reports) - len(failed)
        colour = "red" if failed else "green"
        out.result(out.style(f"{passed} passed" + (f", {len(failed)} failed" if failed else ""), colour))
    raise click.exceptions.Exit(ERROR if failed else 0)


def _public(path: Path, report: ScenarioReport) -> dict[str, Any]:
    from interlock.cli.stored import shown

    return {
        "scenario": report.name, "file": shown(path), "passed": report.passed,
        "problems": list(report.problems),
    }  # fmt: skip


def _say(file: str, report: ScenarioReport) -> None:
    if report.passed:
        out.result(f"{out.style('✓', 'green')} {file}")
        return
    out.result(f"{out.style('✗', 'red')} {file}")
    for problem in report.problems:
        for line in out.plain(problem).split("\n"):
            out.result(f"    {line}".rstrip())
