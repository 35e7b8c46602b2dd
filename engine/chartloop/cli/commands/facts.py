"""`chartloop facts`: what guards, labels and templates read, from the code itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chartloop.cli import console, parameters
from chartloop.cli.error_report import MisuseError
from chartloop.cli.options import RunOptions, pass_options
from chartloop.cli.styled_table import Row, table
from chartloop.core.errors import nearest

if TYPE_CHECKING:
    from chartloop.core.facts import FactSpec


@click.command(
    epilog="""\b
Examples:
  chartloop facts
  chartloop facts usage
  chartloop facts tokens --format json
"""
)
@click.argument("word", required=False)
@parameters.format_option()
@pass_options(RunOptions)
def facts(word: str | None, options: RunOptions) -> None:
    """List what guards, labels and templates can read.

    WORD lists those whose name or description has it.
    """
    from chartloop.core.facts import FACTS

    wanted = (word or "").lower()
    found = {n: s for n, s in FACTS.items() if wanted in n or wanted in s.about.lower()}
    if not found:
        raise MisuseError(f"no fact has `{word}` in it", hint=nearest(word or "", FACTS))
    if options.is_json:
        told = [
            {
                "fact": n, "type": str(s.type), "unit": s.unit or None, "about": s.about,
                "changed_by": s.changed_by,
            }
            for n, s in found.items()
        ]  # fmt: skip
        console.result(console.as_json(told))
        return
    rows = [Row((n, str(s.type), _about(s))) for n, s in found.items()]
    for line in table(rows, ("fact", "type", "what it is")):
        console.result(line)
    console.say(
        "and memory.<block>, limits.<name>, vars.<name>, and each name under `define`", "dim"
    )


def _about(spec: FactSpec) -> str:
    """What a fact is, with its unit where neither type nor words say it."""
    said = not spec.unit or spec.unit == spec.type.kind or spec.unit in spec.about.lower()
    return spec.about if said else f"{spec.about} ({spec.unit})"
