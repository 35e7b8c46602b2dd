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
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import read_machine
from chartloop.cli.options import RunOptions, option, pass_options
from chartloop.core.units import say_count

with at_first_use(__name__):
    from chartloop.interchange import scxml, xstate
    from chartloop.pictures import save as saving

Language = Literal["xstate", "scxml"]

_SUFFIXES: Mapping[str, Language] = {".json": "xstate", ".scxml": "scxml"}


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ExportOptions(RunOptions):
    """The options of `export`."""

    language: Language | None = option(
        "--to",
        type=click.Choice(get_args(Language)),
        help="xstate: JSON for createMachine of XState 5. scxml: XML of the W3C. Default: by the"
        " suffix"
        " of the output, .json or .scxml.",
    )
    output: str | None = option(
        "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Default: stdout."
    )
    everything: bool = option(
        "--all",
        is_flag=True,
        help="Also write the ends that the engine adds, and the edges to them.",
    )
    status: bool = option(
        "--status", is_flag=True, help="Also write the status of the run, as a parallel state."
    )


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
@parameters.options_of(ExportOptions)
@parameters.tools_option
@parameters.define_option
@pass_options(ExportOptions)
def export(machine: str, options: ExportOptions) -> None:
    """Write a machine for XState, or as SCXML."""
    output = options.output
    path = None if output is None or output == "-" else Path(output)
    write = _writer(options.language or _language_of(path))
    text = write(read_machine(machine, options), all=options.everything, status=options.status)
    if path is not None:
        saving.write_whole(path, text.encode())
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
        return xstate.to_xstate
    return scxml.to_scxml
