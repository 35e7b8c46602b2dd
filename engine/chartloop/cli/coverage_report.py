"""Options of the commands that show coverage: thresholds and saving.

Never here: counting and reports (`studies.coverage`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chartloop.cli import console
from chartloop.cli.options import RunOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chartloop.studies.coverage.coverage import Coverage
    from chartloop.studies.coverage.targets import Kind

threshold_option = click.option(
    "--fail-under", multiple=True, metavar="[WHAT=]PERCENT",
    help="Exit with 1 if coverage is below this: 90 means edges; states=, rules=, atoms=, reasons=."
    " Repeatable.",
)  # fmt: skip
save_option = click.option(
    "--save", type=click.Path(dir_okay=False), metavar="FILE",
    help="Save the counts, for `chartloop coverage --with`.",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CoverageGate(RunOptions):
    """The options of commands that show coverage."""

    fail_under: tuple[str, ...] = ()
    save: str | None = None


def wanted_of(options: CoverageGate) -> dict[Kind, float]:
    """Parse the thresholds, in percent by kind. Raises `MisuseError` for an invalid one."""
    from chartloop.cli.error_report import MisuseError
    from chartloop.core.errors import SetupError
    from chartloop.studies.coverage.coverage import wanted_of as read

    try:
        return read(options.fail_under)
    except SetupError as error:
        raise MisuseError(error.message, hint=error.hint) from None


def save(options: CoverageGate, coverages: Sequence[Coverage]) -> None:
    """Write the file of `--save`, if given."""
    from chartloop.pictures.save import write_whole
    from chartloop.studies.coverage.coverage import to_json

    if (file := options.save) is not None:
        write_whole(Path(file), to_json(coverages).encode())
        console.say(f"{file}: the coverage of {', '.join(one.machine for one in coverages)}", "dim")
