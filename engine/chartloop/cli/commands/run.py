"""`chartloop run`: run a machine once, or over a file of tasks (see `cli.batch`)."""

from __future__ import annotations

import sys

import click

from chartloop.cli import completion, parameters
from chartloop.cli.options import RunCommandOptions, pass_options


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
@parameters.notify_options
@parameters.watch_options
@click.option(
    "--inputs", type=click.Path(exists=True, dir_okay=False, allow_dash=True), metavar="FILE.jsonl",
    help="Run once for each line of a file; - is stdin.",
)  # fmt: skip
@click.option(
    "--concurrency", type=click.IntRange(1, 1000), metavar="N", default=4, show_default=True,
    help="With --inputs: run this many at once.",
)  # fmt: skip
@click.option(
    "--total-limit", "totals", multiple=True, metavar="tokens=N,cost=USD,steps=N",
    help="With --inputs: start no new run once all together have spent this much.",
)  # fmt: skip
@click.option(
    "--file", "files", multiple=True, metavar="PATH",
    help="An image (PNG, JPEG, GIF, WebP), PDF or text to send with TASK. Repeatable.",
)  # fmt: skip
@parameters.require_option("--require-bound")
@click.option(
    "--continue", "continues", metavar="RUN", shell_complete=completion.runs,
    help="A finished run to continue: TASK becomes the next message; conversation, memory and "
    "variables are carried over.",
)  # fmt: skip
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
        from chartloop.cli.batch import run_all

        if task:
            raise click.UsageError("--inputs holds the tasks: leave TASK out")
        if options.files:
            raise click.UsageError("--inputs holds the tasks: leave --file out")
        raise click.exceptions.Exit(run_all(machine, options))
    if options.totals:
        raise click.UsageError("--total-limit goes with --inputs; for one run there is --limit")
    raise click.exceptions.Exit(
        run_one(machine, sys.stdin.read() if task == "-" else task, options)
    )


def run_one(source: str, task: str, options: RunCommandOptions) -> int:
    """Start one run and drive it until it ends or waits; return the exit code."""
    from chartloop.cli.drive import Interrupts, drive, tell
    from chartloop.cli.journal_access import find_run, machine_of, open_journal, remember
    from chartloop.cli.machine_loader import load_machine
    from chartloop.cli.run_factory import script_of, start
    from chartloop.run.media import read_media

    machine = load_machine(source, options)
    script = script_of(options)
    interrupts, before = Interrupts(), None
    if (before_id := options.continues) is not None:
        journal = open_journal(options)
        row = find_run(journal, before_id)
        before = machine_of(journal, row, options).open(row.run_id, journal=journal)
    text = task.strip("\n")
    parts = [text, *map(read_media, options.files)] if options.files else text
    started = start(
        machine, parts, options, lambda: open_journal(options, make=True),
        cancel=interrupts, script=script, continues=before,
    )  # fmt: skip
    remember(started, source, options)
    drive(started, options, interrupts, script)
    code = tell(started, options, interrupts)
    if script is not None and not interrupts.count:
        script.check_used(started)
    return code
