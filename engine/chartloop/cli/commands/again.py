"""`chartloop fork` and `replay`: recorded inputs once more, to begin elsewhere or to compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from chartloop.cli import options, out
from chartloop.cli.faults import ERROR
from chartloop.cli.how import How
from chartloop.core.errors import RunError
from chartloop.core.units import say_count

if TYPE_CHECKING:
    from chartloop.api import Machine
    from chartloop.run.journal import Journal, RunRow

file_option = click.option(
    "--machine", "file", metavar="FILE", help="Decide by this file, not by the recorded machine."
)


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
@options.run_argument
@click.option(
    "--at", type=click.IntRange(min=1), metavar="N",
    help="Copy the records before this one, as `chartloop show` numbers them. Default: all.",
)  # fmt: skip
@click.option(
    "--run-id", type=options.RUN_ID, metavar="ID", help="The new run's id. Default: a random one."
)
@file_option
@options.tools_option
@options.trust_option
@options.journal_option
@options.format_option()
def fork(run: str, at: int | None, file: str | None, **given: Any) -> None:
    """Start a new run from a record of an old one."""
    from chartloop.cli.loading import load_machine
    from chartloop.cli.moving import fork_run_under, judged_run, refused
    from chartloop.cli.stored import find_run, machine_of, open_journal, resume_line

    how = How.of(given)
    journal = open_journal(how)
    row = find_run(journal, run)
    if file is None:
        made = fork_run(journal, row, machine_of(journal, row, how), at, run_id=how.run_id)
    else:
        machine = load_machine(file, how)
        verdict = judged_run(journal, row, machine, at)
        if not verdict.goes_on:
            raise refused(row, verdict, file)
        made = fork_run_under(journal, row, machine, verdict, at, run_id=how.run_id)
    told = {"run": made.run_id, "parent": row.run_id, "at": at, "state": made.state}
    out.result(out.as_json(told) if how.is_json else made.run_id)
    steps = say_count(made.steps, "step")
    out.say(f"it stands at {made.state}, {made.status}, after {steps}", "dim")
    out.say(f"go on with:  {resume_line(journal, made, how)}")


def fork_run(
    journal: Journal, row: RunRow, machine: Machine, at: int | None = None,
    *, run_id: str | None = None,
) -> RunRow:  # fmt: skip
    """A new run with the records below `at`, decided again by its machine and found the same."""
    from chartloop.cli.moving import count_of, records_of, row_of_fork
    from chartloop.run.replay import replay
    from chartloop.run.sync import by_hand

    records = records_of(journal, row)
    seq = count_of(row, records, at)
    found = replay(machine.chart, records[:seq], row.run_id)
    if not found.same:
        first = found.differences[0]
        said = f"run `{row.run_id}` is decided otherwise than it was recorded: {first}"
        hint = f"`chartloop fork {row.run_id} --at {first.seq}` begins before it"
        raise RunError(said, hint=hint if first.seq else "start a new run")
    made = row_of_fork(row, found.position, run_id)
    by_hand(journal.fork(row.run_id, seq, made))
    return made


@click.command(
    epilog="""\b
Examples:
  chartloop replay last
  chartloop replay 3kf --machine changed.yaml

\b
Nothing is run: no model, no tool. The comparison ends at the first record that differs; the exit
code is then 1.
"""
)
@options.run_argument
@file_option
@options.tools_option
@options.trust_option
@options.journal_option
@options.format_option()
def replay(run: str, file: str | None, **given: Any) -> None:
    """Decide the records of a run again, and compare."""
    from chartloop.cli.loading import load_machine
    from chartloop.cli.moving import records_of
    from chartloop.cli.stored import find_run, machine_of, open_journal
    from chartloop.run.replay import replay as decide_again

    how = How.of(given)
    journal = open_journal(how)
    row = find_run(journal, run)
    machine = machine_of(journal, row, how) if file is None else load_machine(file, how)
    records = records_of(journal, row)
    found = decide_again(machine.chart, records, row.run_id)
    if how.is_json:
        differences = [d._asdict() for d in found.differences]
        told = {"run": row.run_id, "machine": machine.name, "records": found.records}
        out.result(out.as_json({**told, "same": found.same, "differences": differences}))
    elif found.same:
        was = "decided as it was" if found.records == 1 else "all decided as they were"
        out.result(f"{say_count(found.records, 'record')}, {was} recorded")
    else:
        of = say_count(len(records), "record")
        out.result(f"{found.records} of {of} decided as recorded, then:")
        for difference in found.differences:
            out.result(f"  {out.plain(str(difference))}")
    raise click.exceptions.Exit(0 if found.same else ERROR)
