"""`chartloop tools lock`: lock the tools that the MCP servers of a machine offer."""

from __future__ import annotations

import sys

import click

from chartloop.cli import console, parameters
from chartloop.cli.error_report import ERROR, UntrustedError
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import locate
from chartloop.cli.options import RunOptions, pass_options
from chartloop.core.units import say_count

with at_first_use(__name__):
    from chartloop.api import tool_lock


@click.group(
    epilog="""\b
Example:
  chartloop tools lock machine.yaml --trust
"""
)
def tools() -> None:
    """Lock the tools that the MCP servers of a machine offer.

    The lock is written next to the machine, to NAME.tools.lock.json. Checks, proofs and pictures
    read it and start no server; a run compares the servers with it, and stops if they differ.
    """


@tools.command(
    epilog="""\b
Examples:
  chartloop tools lock machine.yaml --trust
  chartloop tools lock machine.yaml --trust --check

\b
With --check the exit code is 1 when the servers do not offer what the lock holds.
"""
)
@parameters.machine_argument
@parameters.trust_option
@click.option("--check", is_flag=True, help="Write nothing; list the differences, for CI.")
@parameters.format_option()
@pass_options(RunOptions)
def lock(machine: str, check: bool, options: RunOptions) -> None:
    """Start the MCP servers of MACHINE and record which tools they offer.

    The lock holds the name, description and schemas of each tool that the file names. Changes are
    shown before they are written.
    """
    locate(machine)
    declared = tool_lock.declared_in(machine)
    if not options.trust:
        wants = "; ".join(one.server.reaches for one in declared.values())
        raise UntrustedError(f"{machine} {wants}", hint="read the file, then add --trust")
    found = tool_lock.lock_tools(machine)
    if options.is_json:
        data = {"lock": str(found.path), "found": found.found, "differences": found.differences}
        console.result(console.as_json(data))
    elif found.fits:
        console.result(f"{found.path.name} fits: {say_count(found.tools, 'tool')}")
    else:
        for line in found.differences:
            console.result(console.plain(line))
    for name in tool_lock.locked_nothing(declared, found):
        console.say(f"no tool fits `{console.plain(name)}`", "yellow")
    if check and not found.fits:
        console.say(_why(found.found, found.path.name), "red")
        raise click.exceptions.Exit(ERROR)
    if not found.fits:
        found.write()
        if not options.is_json:
            console.say(f"{found.path.name} written: {say_count(found.tools, 'tool')}", "green")
    sys.stdout.flush()


def _why(found: str, name: str) -> str:
    if found == "missing":
        return f"there is no {name}: write it with `chartloop tools lock`"
    if found == "differs":
        return f"{name} does not hold what the servers offer"
    return found
