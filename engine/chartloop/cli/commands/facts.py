"""`chartloop facts`: list the facts that guards, labels and templates read, from the code."""

from __future__ import annotations

import click

from chartloop.cli import console, parameters
from chartloop.cli.error_report import MisuseError
from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions, pass_options
from chartloop.cli.printing import Row, print_table
from chartloop.core.errors import nearest

with at_first_use(__name__):
    from chartloop.core import facts as fact_table


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

    With WORD, list those whose name or description contains it.
    """
    wanted = (word or "").lower()
    matches = {
        n: s for n, s in fact_table.FACTS.items() if wanted in n or wanted in s.about.lower()
    }
    if not matches:
        raise MisuseError(f"no fact has `{word}` in it", hint=nearest(word or "", fact_table.FACTS))
    if options.is_json:
        console.result(console.as_json([{"fact": n, **s.to_dict()} for n, s in matches.items()]))
        return
    rows = [Row((n, str(s.type), s.description)) for n, s in matches.items()]
    print_table(rows, ("fact", "type", "what it is"))
    console.say(
        "and memory.<block>, limits.<name>, vars.<name>, and each name under `define`", "dim"
    )
