"""`chartloop fork`: start a new run from a record of an old one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chartloop.cli import console, parameters
from chartloop.cli.journal_access import find_run, machine_of, open_journal, resume_line
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import load_machine
from chartloop.cli.migrate import count_of, judge_run, records_of, refusal, row_under
from chartloop.cli.options import RUN_ID, RunOptions, at_least, pass_options
from chartloop.core.errors import RunError
from chartloop.core.units import say_count

with at_first_use(__name__):
    from chartloop import api
    from chartloop.api import continuing
    from chartloop.run import migrate, sync
    from chartloop.run import replay as replaying

if TYPE_CHECKING:
    from chartloop.api import Machine
    from chartloop.run.journal import Journal, RunRow


@click.command(
    epilog="""\b
Examples:
  chartloop fork last --at 4
  chartloop resume $(chartloop fork 3kf --at 4)
  chartloop fork 3kf --at 4 --machine changed.yaml

\b
The new run's id is on stdout. Nothing is run; the old run stays as it is.
"""
)
@parameters.run_argument
@click.option(
    "--at", type=at_least(1), metavar="N",
    help="Copy the records before this one, as `chartloop show` numbers them. Default: all.",
)  # fmt: skip
@click.option(
    "--run-id",
    type=RUN_ID,
    metavar="ID",
    help="The new run's id. Default: a random one.",
)
@parameters.file_option
@parameters.tools_option
@parameters.trust_option
@parameters.journal_option
@parameters.format_option()
@pass_options(RunOptions)
def fork(run: str, at: int | None, file: str | None, options: RunOptions) -> None:
    """Start a new run from a record of an old one."""
    journal = open_journal(options)
    row = find_run(journal, run)
    if file is None:
        made = fork_run(journal, row, machine_of(journal, row, options), at, run_id=options.run_id)
    else:
        machine = load_machine(file, options)
        verdict = judge_run(journal, row, machine, at)
        if not verdict.goes_on:
            raise refusal(row, verdict, file)
        forked = migrate.fork_under(
            journal, row.run_id, count_of(row, records_of(journal, row, at), at),
            row_under(journal, row, machine, options.run_id), machine.chart,
            names=verdict.names, origin=verdict.origin(row.machine_hash),
        )  # fmt: skip
        made = sync.by_hand(forked)
    data = {"run": made.run_id, "parent": row.run_id, "at": at, "state": made.state}
    console.result(console.as_json(data) if options.is_json else made.run_id)
    steps = say_count(made.steps, "step")
    console.say(
        f"it is at {made.stopped_at}, {made.phase(driven=False).word}, after {steps}", "dim"
    )
    console.say(f"continue with:  {resume_line(journal, made, options)}")


def fork_run(
    journal: Journal, row: RunRow, machine: Machine, at: int | None = None,
    *, run_id: str | None = None,
) -> RunRow:  # fmt: skip
    """Fork a run with its records below `at`. Raises `RunError` if they replay differently."""
    records = records_of(journal, row, at)
    seq = count_of(row, records, at)
    replayed = replaying.replay(machine.chart, records[:seq], row.run_id)
    if not replayed.same:
        first = replayed.differences[0]
        message = f"run `{row.run_id}` is decided differently than it was recorded: {first}"
        hint = f"`chartloop fork {row.run_id} --at {first.seq}` starts before it"
        raise RunError(message, hint=hint if first.seq else "start a new run")
    kept = migrate.fork_point(machine.chart, records, seq)
    return sync.by_hand(
        continuing.fork_below(
            journal,
            row,
            machine.chart,
            records,
            kept,
            run_id=run_id or api.new_run_id(),
            now=sync.by_hand(journal.now()),
        )
    )
