"""`interlock test`: scenarios, as pytest runs them, without pytest."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from interlock.cli import options, out
from interlock.cli.faults import ERROR, MisuseError, count
from interlock.cli.how import How
from interlock.core.errors import InterlockError, SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.core.specs import Registry


@click.command(
    epilog="""\b
Examples:
  interlock test
  interlock test tests/scenarios --tools tools.py
  interlock test hello.scenario.yaml --format json

\b
A scenario is NAME.scenario.yaml: a machine, a task, scripted replies, and what is expected. The
exit code is 1 when one fails.
"""
)
@click.argument("paths", nargs=-1, type=click.Path(exists=True))
@options.tools_option
@options.format_option()
def test(paths: tuple[str, ...], **given: Any) -> None:
    """Run scenarios: scripted runs with what is expected of them.

    PATHS are files, or folders that are searched; by default this one.
    """
    from interlock.cli.loading import load_tools
    from interlock.cli.stored import shown
    from interlock.testing import find_scenarios

    how = How.of(given)
    found = find_scenarios(paths or (".",))
    if not found:
        raise MisuseError("there is no scenario here", hint="a scenario is a NAME.scenario.yaml")
    own = load_tools(how.tools)
    played = [Played(shown(path), *_play(path, own, how)) for path in found]
    failed = sum(not one.passed for one in played)
    if how.is_json:
        out.result(out.as_json([one._asdict() for one in played]))
    else:
        for one in played:
            _say(one)
        told = f"{len(played) - failed} passed" + (f", {failed} failed" if failed else "")
        out.result(out.style(told, "red" if failed else "green"))
    raise click.exceptions.Exit(ERROR if failed else 0)


class Played(NamedTuple):
    """How one scenario went."""

    file: str
    passed: bool
    problems: tuple[str, ...]
    said: str
    """Everything about a failure, for people."""


def _play(path: Path, own: list[Registry], how: How) -> tuple[bool, tuple[str, ...], str]:
    """Play one file. A fault of the file fails it, and the others are played all the same."""
    from interlock.cli.loading import with_tools_hint
    from interlock.testing import run_scenario

    try:
        report = run_scenario(path, tools=own)
    except SpecError as error:
        found = with_tools_hint(error.findings, how)
        lines = tuple(f.render() for f in found)
        return False, lines, "\n".join([*lines, count(found)])
    except InterlockError as error:
        return False, (str(error),), str(error)
    return report.passed, report.problems, "" if report.passed else str(report)


def _say(played: Played) -> None:
    if played.passed:
        out.result(f"{out.style('✓', 'green')} {played.file}")
        return
    out.result(f"{out.style('✗', 'red')} {played.file}")
    for line in out.plain(played.said).split("\n"):
        for part in out.fitted(f"    {line}".rstrip(), sys.stdout):
            out.result(part)
    out.result()
