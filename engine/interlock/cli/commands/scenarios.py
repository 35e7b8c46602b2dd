"""`interlock test`: scenarios, as pytest runs them, without pytest."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from interlock.cli import covering, options, out
from interlock.cli.faults import ERROR, MisuseError, count
from interlock.cli.how import How
from interlock.core.errors import InterlockError, SpecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from interlock.core.specs import Registry
    from interlock.coverage.coverage import Coverage


@click.command(
    epilog="""\b
Examples:
  interlock test
  interlock test tests/scenarios --tools tools.py
  interlock test hello.scenario.yaml --format json
  interlock test tests/scenarios --coverage --fail-under 100

\b
A scenario is NAME.scenario.yaml: a machine, a task, scripted replies, and what is expected. The
exit code is 1 when one fails, or less is covered than --fail-under wants.
"""
)
@click.argument("paths", nargs=-1, type=click.Path(exists=True))
@click.option(
    "--coverage", "covered", is_flag=True,
    help="Show which parts of their machines the scenarios go through, and which never.",
)  # fmt: skip
@covering.threshold_option
@covering.save_option
@options.tools_option
@options.format_option()
def test(paths: tuple[str, ...], **given: Any) -> None:
    """Run scenarios: scripted runs with what is expected of them.

    PATHS are files, or folders that are searched; by default this one.
    """
    from interlock.cli.loading import load_tools
    from interlock.cli.stored import shown
    from interlock.testing import Covering, collecting, find_scenarios

    how = How.of(given)
    wanted = covering.wanted_of(how)
    found = find_scenarios(paths or (".",))
    if not found:
        raise MisuseError("there is no scenario here", hint="a scenario is a NAME.scenario.yaml")
    own = load_tools(how.tools)
    shows = bool(how.more["covered"] or wanted or how.more["save"])
    counted = Covering()
    with collecting(counted) if shows else nullcontext():
        played = [Played(shown(path), *_play(path, own, how)) for path in found]
    failed = sum(not one.passed for one in played)
    coverages = counted.coverages() if shows else ()
    short = [said for one in coverages for said in one.below(wanted)]
    if how.is_json:
        told: Any = [one._asdict() for one in played]
        if shows:
            told = {"scenarios": told, "coverage": [one.to_dict() for one in coverages],
                    "below": short}  # fmt: skip
        out.result(out.as_json(told))
    else:
        for one in played:
            _say(one)
        told = f"{len(played) - failed} passed" + (f", {failed} failed" if failed else "")
        out.result(out.style(told, "red" if failed else "green"))
        _say_coverage(coverages)
    if shows:
        covering.save(how, coverages)
        _say_short(counted.passed, short)
    raise click.exceptions.Exit(ERROR if failed or short else 0)


def _say_coverage(coverages: Sequence[Coverage]) -> None:
    if coverages:
        out.result()
        covering.tell(coverages)


def _say_short(passed: Iterable[str], short: Iterable[str]) -> None:
    """What was not counted, and what is not enough."""
    for said in passed:
        out.say(out.plain(said), "yellow")
    for said in short:
        out.say(out.plain(said), "red")


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
