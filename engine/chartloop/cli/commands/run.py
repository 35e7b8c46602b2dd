"""`chartloop run`: run a machine once, or over a file of tasks (see `cli.batch`)."""

from __future__ import annotations

import sys

import click

from chartloop.cli import parameters
from chartloop.cli.journal_access import find_run, machine_of, open_journal, remember
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import load_machine
from chartloop.cli.options import RunCommandOptions, pass_options

with at_first_use(__name__):
    from chartloop.cli import batch, drive, run_factory
    from chartloop.run import media


@click.command(
    epilog="""\b
Examples:
  chartloop run agent "What is 2 + 2?"
  chartloop run agent "What is 2 + 2?" --script replies.yaml --format json
  chartloop run my.yaml - --tools tools.py --limit steps=20 < task.txt
  chartloop run agent "And times three?" --continue last
  chartloop run agent --inputs tasks.jsonl --concurrency 8 --total-limit cost=2.50

\b
The result is on stdout, everything else on stderr. A run that waits asks on a terminal; without
one, the exit code is 4 and the commands that answer are on stderr. Ctrl-C stops before the next
action, twice stops now.

\b
A line of --inputs is {"task": "...", "vars": {...}, "limits": {...}}.
"""
)
@parameters.machine_argument
@click.argument("task", default="", required=False)
@parameters.start_options
@parameters.notify_option
@parameters.watch_options
@parameters.options_of(RunCommandOptions, "inputs", "concurrency", "totals", "files")
@parameters.require_option("--require-bound")
@parameters.options_of(RunCommandOptions, "continues", "branch", "if_exists")
@parameters.format_option("text", "json", "jsonl")
@pass_options(RunCommandOptions)
def run(machine: str, task: str, options: RunCommandOptions) -> None:
    """Run a machine, once or over a file of tasks.

    MACHINE is a file or the name of a shipped machine. TASK is the text of the task; - reads it
    from stdin.
    """
    if options.continues and (options.inputs is not None or options.in_memory):
        raise click.UsageError(
            "--continue goes with one TASK, and with the journal that has the run"
        )
    if options.inputs is not None:
        if task:
            raise click.UsageError("--inputs holds the tasks: leave TASK out")
        if options.files:
            raise click.UsageError("--inputs holds the tasks: leave --file out")
        raise click.exceptions.Exit(batch.run_all(machine, options))
    if options.totals:
        raise click.UsageError("--total-limit goes with --inputs; for one run there is --limit")
    raise click.exceptions.Exit(
        run_one(machine, sys.stdin.read() if task == "-" else task, options)
    )


def run_one(source: str, task: str, options: RunCommandOptions) -> int:
    """Start one run and drive it until it ends or waits; return the exit code."""
    machine = load_machine(source, options)
    script = run_factory.script_of(options)
    interrupts, before = drive.Interrupts(), None
    if (before_id := options.continues) is not None:
        journal = open_journal(options)
        row = find_run(journal, before_id)
        before = machine_of(journal, row, options).open(row.run_id, journal=journal)
    text = task.strip("\n")
    parts = [text, *map(media.read_media, options.files)] if options.files else text
    started = run_factory.start(
        machine, parts, options, lambda: open_journal(options, make=True),
        cancel=interrupts, script=script, continues=before,
    )  # fmt: skip
    remember(started, source, options)
    drive.drive(started, options, interrupts, script)
    code = drive.tell(started, options, interrupts)
    if script is not None and not interrupts.count:
        script.check_used(started)
    return code
