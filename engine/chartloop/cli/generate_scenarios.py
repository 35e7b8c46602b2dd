"""`chartloop test MACHINE --generate`: what is written, what is left, and how far the search is.

Belongs here: printing. Never: the search (`scenarios.generator`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from chartloop.cli import console
from chartloop.cli.error_report import ERROR, INTERRUPTED
from chartloop.cli.journal_access import display_path
from chartloop.cli.options import GenerateOptions
from chartloop.core.units import say_count, say_number

if TYPE_CHECKING:
    from chartloop.scenarios import Generated
    from chartloop.scenarios.generator.search import Progress

_EVERY = 0.1
"""Seconds between two paints of the line that says how far the search is."""
_TARGETS = 3
"""Of what a scenario shows, so many are named."""


def generate_and_report(paths: Sequence[str], folder: str, options: GenerateOptions) -> int:
    """Generate, print and write; the exit code."""
    from chartloop.cli.machine_loader import load_tools, locate, with_tools_hint
    from chartloop.core.errors import SpecError
    from chartloop.scenarios.generator.generate import generate
    from chartloop.scenarios.generator.search import WORK

    machine = _machine(paths, folder)
    path = locate(machine)
    line = _Line()
    try:
        found = generate(
            path, folder, tools=load_tools(options.tools), only=options.only,
            work=options.work or WORK, run_actions=options.run_actions, told=line.paint,
        )  # fmt: skip
    except SpecError as error:
        raise SpecError(with_tools_hint(error.findings, options)) from None
    finally:
        line.clear()
    dry = bool(options.dry_run)
    if not dry:
        found.write(force=bool(options.force))
    if options.is_json:
        console.result(console.as_json({**found.to_dict(), "written": not dry}))
    else:
        for said in _report_lines(found, dry=dry):
            console.result(said)
    if found.stopped:
        return INTERRUPTED
    return ERROR if any(one.why != "proven" for one in found.unreached) else 0


def _machine(paths: Sequence[str], folder: str) -> str:
    if len(paths) == 1:
        return paths[0]
    if not paths and folder.endswith((".yaml", ".yml")):
        raise click.UsageError(
            f"--generate takes the folder: write `chartloop test {folder} --generate`"
        )
    raise click.UsageError("--generate takes one MACHINE: a file, or the name of a shipped one")


def _report_lines(found: Generated, *, dry: bool) -> Iterator[str]:
    for one in found.scenarios:
        named = ", ".join(t.name for t in one.shows[:_TARGETS])
        more = len(one.shows) - _TARGETS
        rest = f" and {more} more" if more > 0 else ""
        sign = console.style("·" if dry else "+", "" if dry else "green")
        yield f"{sign} {display_path(found.folder / one.file)}"
        yield console.style(f"    {console.plain(named)}{rest}", "dim")
    for one in found.unreached:
        sign = console.style("·", "dim") if one.why == "proven" else console.style("✗", "red")
        yield from console.wrap_to_terminal(
            f"{sign} {one.target}: {console.plain(one.said)}", sys.stdout
        )
    for said in found.unread:
        console.say(f"skipped: {console.plain(said)}", "yellow")
    yield _totals(found, dry=dry)


def _totals(found: Generated, *, dry: bool) -> str:
    """How many things there are to show, and who shows them."""
    new, there = sum(len(one.shows) for one in found.scenarios), found.there
    name, all_ = console.plain(found.machine), say_number(len(found.targets))
    if there == len(found.targets):
        return f"{name}: all {all_} edges, rules and stop reasons are shown already"
    files = say_count(len(found.scenarios), "scenario")
    verb = "would show" if dry else "show"
    left = f", {len(found.unreached)} are left" if found.unreached else ""
    return (
        f"{name}: of {all_} edges, rules and stop reasons {there} were shown,"
        f" {files} {verb} {new} more{left}"
    )


class _Line:
    """A line on stderr that says how far the search is, where a person looks at it."""

    def __init__(self) -> None:
        self._shown = console.is_terminal(sys.stderr)
        self._next = 0.0
        self._painted = False

    def paint(self, progress: Progress) -> None:
        """Say it, now and then."""
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + _EVERY
        found, wanted = say_number(progress.found), say_number(progress.wanted)
        tried, work = say_number(progress.tried), say_number(progress.work)
        doing = progress.said or f"{tried} of {work} moves tried"
        self._write(f"{found} of {wanted} found, {doing}; Ctrl-C keeps what is found")

    def clear(self) -> None:
        """Take it away."""
        if self._painted:
            self._write("")

    def _write(self, text: str) -> None:
        console.repaint(text)
        self._painted = bool(text)
