"""`chartloop check`: find every mistake of a machine file, before anything runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.error_report import ERROR
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import locate, own_of, with_tools_hint
from chartloop.cli.options import RunOptions, pass_options
from chartloop.cli.printing import Line, print_lines

with at_first_use(__name__):
    from chartloop import api

if TYPE_CHECKING:
    from chartloop.api import Examined


@click.command(
    epilog="""\b
Examples:
  chartloop check my.yaml
  chartloop check my.yaml --tools tools.py
  chartloop check machines/*.yaml --format json

\b
The exit code is 1 when a file has an error; warnings alone give 0. Every code has its cause and
fix in docs/reference/errors.md; docs/checks.md describes the proofs.
"""
)
@click.argument("machines", nargs=-1, required=True, shell_complete=completion.machines)
@parameters.tools_option
@parameters.define_option
@parameters.format_option()
@pass_options(RunOptions)
def check(machines: tuple[str, ...], options: RunOptions) -> None:
    """Find every mistake of a machine file, before anything runs.

    Only the modules given with --tools are imported; nothing is run or fetched.
    """
    examined = [_check(source, options) for source in machines]
    if options.is_json:
        data = [machine.to_dict() for machine in examined]
        console.result(console.as_json(data[0] if len(data) == 1 else data))
    else:
        for number, machine in enumerate(examined):
            print_lines([Line("")] * bool(number) + machine.lines(console.columns(sys.stdout)))
    wrong = any(finding.is_error for machine in examined for finding in machine.findings)
    raise click.exceptions.Exit(ERROR if wrong else 0)


def _check(source: str, options: RunOptions) -> Examined:
    locate(source)
    own = own_of(options)
    examined = api.examine(source, tools=own, define=dict(options.define))
    return examined._replace(findings=tuple(with_tools_hint(examined.findings, options)))
