"""The command line.

    commands/   one file for each command, with the command's name
    app         the table of commands, help, errors and exit codes
    console     output: results on stdout, everything else on stderr
    parameters  arguments and options that several commands share
    options     the options of the command line as typed records
    drive       driving a run with a live view

A command imports what it needs when it is called, so that ``chartloop --help`` is fast. Nothing
here decides anything about a run: commands call `api` and print.
"""

from __future__ import annotations

import gc


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    gc.set_threshold(200_000, 20, 20)  # imports make many objects, and none of them is garbage
    from chartloop.cli.app import app

    app.main(prog_name="chartloop")
