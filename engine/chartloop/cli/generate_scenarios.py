"""`chartloop test MACHINE --generate`: runs the generator and shows its progress.

Never here: the search and its result (`scenarios.generator`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from chartloop.cli import console
from chartloop.cli.error_report import ERROR, INTERRUPTED
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import locate, own_of, with_tools_hint
from chartloop.cli.options import RunOptions, option
from chartloop.cli.printing import print_result
from chartloop.core.errors import SpecError
from chartloop.core.units import say_number

with at_first_use(__name__):
    from chartloop.scenarios.generator import generate, search

if TYPE_CHECKING:
    from chartloop.scenarios.generator.search import Progress

_EVERY = 0.1
"""Seconds between two updates of the progress line."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class GenerateOptions(RunOptions):
    """The options of `test --generate`."""

    only: tuple[str, ...] = option(
        "--for", multiple=True, metavar="NAME",
        help="With --generate: only for this edge, rule or stop reason, even if a scenario shows"
        " it. Repeatable.",
    )  # fmt: skip
    dry_run: bool = option(
        "--dry-run", is_flag=True, help="With --generate: list them and write nothing."
    )
    force: bool = option(
        "--force", is_flag=True, help="With --generate: overwrite files that a person changed."
    )
    work: int | None = option(
        "--work", type=click.IntRange(1), metavar="N",
        help="With --generate: the most moves that the search tries. Default: 20,000.",
    )  # fmt: skip
    run_actions: bool = option(
        "--run-actions", is_flag=True,
        help="With --generate: run your own actions that have effects, many times.",
    )  # fmt: skip


def generate_and_report(paths: Sequence[str], folder: str, options: GenerateOptions) -> int:
    """Generate scenarios, write and print them; return the exit code."""
    machine = _machine(paths, folder)
    path = locate(machine)
    line = _Line()
    try:
        result = generate.generate(
            path, folder, tools=own_of(options), only=options.only,
            work=options.work or search.WORK, run_actions=options.run_actions, progress=line.paint,
        )  # fmt: skip
    except SpecError as error:
        raise SpecError(with_tools_hint(error.findings, options)) from None
    finally:
        line.clear()
    dry = bool(options.dry_run)
    if not dry:
        result.write(force=bool(options.force))
    print_result(result, options, added={"written": not dry}, written=not dry)
    if not options.is_json:
        for message in result.unread:
            console.say(f"skipped: {console.plain(message)}", "yellow")
    if result.stopped:
        return INTERRUPTED
    return ERROR if any(one.why != "proven" for one in result.unreached) else 0


def _machine(paths: Sequence[str], folder: str) -> str:
    if len(paths) == 1:
        return paths[0]
    if not paths and folder.endswith((".yaml", ".yml")):
        raise click.UsageError(
            f"--generate takes the folder: write `chartloop test {folder} --generate`"
        )
    raise click.UsageError("--generate takes one MACHINE: a file, or the name of a shipped one")


class _Line:
    """The progress line on stderr, shown only on a terminal."""

    def __init__(self) -> None:
        self._shown = console.is_terminal(sys.stderr)
        self._next = 0.0
        self._painted = False

    def paint(self, progress: Progress) -> None:
        """Show the progress, at most every `_EVERY` seconds."""
        now = time.monotonic()
        if not self._shown or now < self._next:
            return
        self._next = now + _EVERY
        found, wanted = say_number(progress.found), say_number(progress.wanted)
        tried, work = say_number(progress.tried), say_number(progress.work)
        doing = progress.phase or f"{tried} of {work} moves tried"
        self._write(f"{found} of {wanted} found, {doing}; Ctrl-C keeps what is found")

    def clear(self) -> None:
        """Erase the line."""
        if self._painted:
            self._write("")

    def _write(self, text: str) -> None:
        console.repaint(text)
        self._painted = bool(text)
