"""`chartloop export`: write a machine for other state machine libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import click

from chartloop.cli import console, parameters
from chartloop.cli.error_report import MisuseError
from chartloop.cli.options import RunOptions, pass_options
from chartloop.core.units import say_count

Language = Literal["xstate", "scxml"]

_SUFFIXES: Mapping[str, Language] = {".json": "xstate", ".scxml": "scxml"}


@dataclass(frozen=True, kw_only=True)
class ExportOptions(RunOptions):
    """The options of `export`."""

    language: Language | None = None
    output: str | None = None
    everything: bool = False
    status: bool = False


@click.command(
    epilog="""\b
Examples:
  chartloop export agent --to xstate
  chartloop export agent -o agent.scxml
  chartloop export my.yaml --to xstate -o my.json --all --status

\b
The export is the live machine: its states, its transitions in the order in which they are tried,
its rules. Guards are written by name, with their texts; the program that runs the export evaluates
them. See docs/exports.md.
"""
)
@parameters.machine_argument
@click.option(
    "--to", "language", type=click.Choice(get_args(Language)),
    help="xstate: JSON for createMachine of XState 5. scxml: XML of the W3C. Default: by the suffix"
    " of the output, .json or .scxml.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Default: stdout."
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also write the ends that the engine adds, and the edges to them.",
)
@click.option(
    "--status", is_flag=True, help="Also write the status of the run, as a parallel state."
)
@parameters.tools_option
@parameters.define_option
@pass_options(ExportOptions)
def export(machine: str, options: ExportOptions) -> None:
    """Write a machine for XState, or as SCXML."""
    from chartloop.cli.machine_loader import read_machine
    from chartloop.pictures.save import write_whole

    output = options.output
    path = None if output is None or output == "-" else Path(output)
    write = _writer(options.language or _language_of(path))
    text = write(read_machine(machine, options), all=options.everything, status=options.status)
    if path is not None:
        write_whole(path, text.encode())
        console.say(f"{path}: {say_count(len(text.splitlines()), 'line')}", "dim")
    elif sys.stdout.isatty():
        console.result(text.rstrip("\n"))
    else:  # both languages are UTF-8, whatever the encoding of stdout
        sys.stdout.buffer.write(text.encode())


def _language_of(path: Path | None) -> Language:
    language = _SUFFIXES.get(path.suffix.lower()) if path is not None else None
    if language is None:
        cause = "no format is given" if path is None else f"`{path.name}` has an unknown suffix"
        raise MisuseError(cause, hint="say --to xstate or --to scxml")
    return language


def _writer(language: Language) -> Callable[..., str]:
    if language == "xstate":
        from chartloop.interchange.xstate import to_xstate

        return to_xstate
    from chartloop.interchange.scxml import to_scxml

    return to_scxml
