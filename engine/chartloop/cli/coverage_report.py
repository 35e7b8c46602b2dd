"""Options of the commands that show coverage: thresholds and saving.

Never here: counting and reports (`studies.coverage`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chartloop.cli import console
from chartloop.cli.error_report import MisuseError
from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions, option
from chartloop.core.errors import SetupError

with at_first_use(__name__):
    from chartloop.pictures import save as saving
    from chartloop.studies.coverage import coverage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chartloop.studies.coverage.coverage import Coverage
    from chartloop.studies.coverage.targets import Kind


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CoverageGate(RunOptions):
    """The options of commands that show coverage."""

    fail_under: tuple[str, ...] = option(
        "--fail-under", multiple=True, metavar="[WHAT=]PERCENT",
        help="Exit with 1 if coverage is below this: 90 means edges; states=, rules=, atoms=,"
        " reasons=. Repeatable.",
    )  # fmt: skip
    save: str | None = option(
        "--save", type=click.Path(dir_okay=False), metavar="FILE",
        help="Save the counts, for `chartloop coverage --with`.",
    )  # fmt: skip


def wanted_of(options: CoverageGate) -> dict[Kind, float]:
    """Parse the thresholds, in percent by kind. Raises `MisuseError` for an invalid one."""
    try:
        return coverage.wanted_of(options.fail_under)
    except SetupError as error:
        raise MisuseError(error.message, hint=error.hint) from None


def save(options: CoverageGate, coverages: Sequence[Coverage]) -> None:
    """Write the file of `--save`, if given."""
    if (file := options.save) is not None:
        saving.write_whole(Path(file), coverage.to_json(coverages).encode())
        console.say(f"{file}: the coverage of {', '.join(one.machine for one in coverages)}", "dim")
