"""`chartloop retry`: try runs that failed again, from where they failed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.error_report import ERROR, OK, say_error
from chartloop.cli.journal_access import as_before, find_run, machine_of, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions, pass_options
from chartloop.core.errors import FollowedError
from chartloop.core.units import say_count

with at_first_use(__name__):
    from chartloop.api import retrying
    from chartloop.cli import drive, run_factory

if TYPE_CHECKING:
    from chartloop.api import Machine, Run
    from chartloop.run.retry import RetryPlan


class Again(NamedTuple):
    """A run, what trying it again means, and the limits to raise."""

    machine: Machine
    run: Run
    options: RunOptions
    plan: RetryPlan
    limits: dict[str, Any]


@click.command(
    epilog="""\b
Examples:
  chartloop retry last
  chartloop retry last --dry-run
  chartloop retry 3kf 9xa --yes --raise
  chartloop retry 3kf --limit steps=60

\b
What was done before the failure is kept. Calls that are made a second time, and calls in doubt, are
listed first, and somebody agrees to them: at the terminal, or by --yes. A run that a limit stopped
needs a higher one: --limit NAME=VALUE, or --raise for as much again.

\b
Each is a new run; the old one stays as it is. A run that was tried again before is left out, unless
--again says to make another attempt all the same.
"""
)
@click.argument("runs", nargs=-1, required=True, shell_complete=completion.runs)
@click.option("--dry-run", is_flag=True, help="Only list what would be kept and made again.")
@click.option("--yes", is_flag=True, help="Agree to the calls that are made again.")
@click.option("--again", "insists", is_flag=True, help="Although they were tried again before.")
@click.option(
    "--raise", "raises", is_flag=True, help="Give the limits that stopped them as much again."
)
@parameters.limit_option
@parameters.model_options
@parameters.tools_option
@parameters.trust_option
@parameters.journal_option
@parameters.notify_option
@parameters.watch_options
@parameters.format_option("text", "json", "jsonl")
@pass_options(RunOptions)
def retry(
    runs: tuple[str, ...],
    options: RunOptions,
    *,
    dry_run: bool,
    yes: bool,
    raises: bool,
    insists: bool,
) -> None:
    """Try runs that failed again, from where they failed."""
    journal = open_journal(options)
    again: list[Again] = []
    for name in dict.fromkeys(runs):
        row = find_run(journal, name)
        own = as_before(journal, row, options)
        machine = machine_of(journal, row, own, to_run=not dry_run)
        run = machine.open(row.run_id, journal=journal)
        plan = retrying.retry_plan(run, again=insists)
        limits: dict[str, Any] = {one.name: one.raised for one in plan.limits} if raises else {}
        again.append(Again(machine, run, own, plan, limits | dict(options.limit)))
    if dry_run and options.is_json:
        console.result(console.as_json([one.plan.to_dict() for one in again]))
        return
    for one in again:
        console.say(console.plain(f"run {one.run.id}"), "bold")
        for line in one.plan.explain():
            console.say(console.plain(f"  {line}"))
    if dry_run:
        return
    # those that were tried again before are named above, and left out
    given = len(again)
    again = [one for one in again if not (one.plan.refusal and one.plan.successor)] or again
    # all of them, before the first is begun
    checked = [
        retrying.check_retry(one.run, one.plan, one.limits, one.plan.digest) for one in again
    ]
    if any(one.plan.needs_confirmation for one in again) and not yes:
        what = "make these calls again"
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise click.UsageError(f"this would {what}: agree with --yes")
        click.confirm(f"{what}?", abort=True, err=True)
    worst = OK if len(again) == given else ERROR
    for one, values in zip(again, checked, strict=True):
        try:
            made = retrying.retry_run(one.run, one.plan, values)
        except FollowedError as error:  # by somebody else, since
            worst = max(worst, say_error(error))
        else:
            worst = max(worst, _drive(one, made))
    if len(again) > 1:
        console.say(f"{say_count(len(again), 'run')} tried again", "dim")
    raise click.exceptions.Exit(worst)


def _drive(one: Again, made: Run) -> int:
    """Drive the fork; returns its exit code."""
    console.say(console.plain(f"run {one.run.id} goes on as run {made.id}"))
    interrupts = drive.Interrupts()
    script = run_factory.script_of(one.options)
    if script is not None:
        script.events = [event for event in script.events if event.after >= made.facts.run.steps]
    opened = run_factory.go_on(
        one.machine, made.id, one.options, one.run.session.journal, cancel=interrupts,
        script=script, not_before=made.last_activity,
    )  # fmt: skip
    opened.prepare()
    drive.drive(opened, one.options, interrupts, script)
    return drive.tell(opened, one.options, interrupts)
