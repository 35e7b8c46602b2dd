"""The command line.

    commands/   one file for each command, with the command's name
    app         the table of commands, help, errors and exit codes
    console     output: results on stdout, everything else on stderr
    options     each option once: a field of a typed record
    parameters  the options of a record on a command, and those that several commands share
    late        imports at the top of a file that happen at first use
    drive       driving a run with a live view

The table imports a command when it is called, and a command what is heavy when it uses it (`late`),
so that help and completion are fast. Nothing here decides anything about a run: commands call `api`
and print.
"""

from __future__ import annotations

import gc

IS_PROGRAM = "program"
"""The object of click's context in a process that runs nothing but the command line."""


def main() -> None:
    """Run the command line and leave the process with its exit code."""
    gc.set_threshold(200_000, 20, 20)  # imports make many objects, and none of them is garbage
    from chartloop.cli.app import app  # noqa: PLC0415  see above

    app.main(prog_name="chartloop", obj=IS_PROGRAM)
