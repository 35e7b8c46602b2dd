"""`chartloop schema`: print the JSON Schema of machine files, made from the code."""

from __future__ import annotations

import click

from chartloop import actions as built_in
from chartloop.cli import console, parameters
from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions, pass_options

with at_first_use(__name__):
    from chartloop.language.file import schema as schemas


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
    del options  # a schema is JSON in either format
    console.result(console.as_json(schemas.schema(built_in.builtin().actions.values())))
