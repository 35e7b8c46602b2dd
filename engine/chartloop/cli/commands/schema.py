"""`chartloop schema`: print the JSON Schema of machine files, made from the code."""

from __future__ import annotations

import click

from chartloop.cli import console, parameters
from chartloop.cli.options import RunOptions, pass_options


@click.command(
    epilog="""\b
Example:
  chartloop schema > machine.schema.json

\b
Editors find it by the first line of a machine file:
  # yaml-language-server: $schema=machine.schema.json
"""
)
@parameters.format_option("json", "text")
@pass_options(RunOptions)
def schema(options: RunOptions) -> None:
    """Print the JSON Schema of machine files, for editors."""
    from chartloop.actions import builtin
    from chartloop.language.file.schema import schema as made

    del options  # a schema is JSON in either format
    console.result(console.as_json(made(builtin().actions.values())))
