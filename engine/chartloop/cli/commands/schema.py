"""`chartloop schema`: the JSON Schema of machine files, from the code itself."""

from __future__ import annotations

from typing import Any

import click

from chartloop.cli import console, parameters


@click.command(
    epilog="""\b
Example:
  chartloop schema > machine.schema.json

\b
Editors read it by the first line of a machine file:
  # yaml-language-server: $schema=machine.schema.json
"""
)
@parameters.format_option("json", "text")
def schema(**given: Any) -> None:
    """Print the JSON Schema of machine files, for editors."""
    from chartloop.language.file.schema import schema as made

    del given  # a schema is JSON, whichever is asked for
    console.result(console.as_json(made()))
