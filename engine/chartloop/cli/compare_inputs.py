"""Machines to compare, by file, shipped name or ``REV:PATH``. They are read, never run.

Nothing that a file names is imported; undeclared tools count as known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chartloop.cli import console
from chartloop.cli.error_report import say_findings
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import own_of, say_assumed
from chartloop.cli.options import RunOptions

with at_first_use(__name__):
    from chartloop.actions import declare
    from chartloop.studies.review import sources as revisions

if TYPE_CHECKING:
    from chartloop.api import Machine


def machines_at(sources: Sequence[str], options: RunOptions) -> list[tuple[str, Machine]] | None:
    """Load each machine with its name. None, with findings on stderr, if one cannot be loaded."""
    looking = revisions.Looking(declare.specs_of(own_of(options)), dict(options.define))
    sides = [looking.at(source) for source in sources]
    for side in sides:
        if side.machine is None:
            console.say(f"{console.plain(side.name)} cannot be compared:")
            say_findings([f for f in side.findings if f.is_error], side.name)
    say_assumed(dict.fromkeys(name for side in sides for name in side.undeclared_names))
    machines = [(side.name, side.machine) for side in sides if side.machine is not None]
    return machines if len(machines) == len(sides) else None
