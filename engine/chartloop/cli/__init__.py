"""The command line.

    commands/   one file per command, with the command's name
    app         the table of the commands, help, errors and exit codes
    console     what is printed, and where: results on stdout, all else on stderr
    parameters  arguments and options that several commands share
    options     what the command line said, as typed records
    drive       a run that continues while a person looks on

A command imports what it needs when it is called, so that ``chartloop --help`` costs next to
nothing. Nothing here decides anything about a run: commands call `api` and print.
"""

from __future__ import annotations

import gc


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    gc.set_threshold(50_000, 20, 20)  # imports make many objects, and none of them is garbage
    from chartloop.cli.app import app

    app.main(prog_name="chartloop")
