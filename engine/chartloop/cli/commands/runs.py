"""`chartloop runs`: list what a journal holds, remove it, export it."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.options import RunOptions, pass_options
from chartloop.cli.printing import Line, Row, print_lines, say_lines
from chartloop.core.errors import ChartloopError
from chartloop.core.units import say_count
from chartloop.view_model.table import table_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chartloop.api import Machine
    from chartloop.run.journal import Journal, RunRow
    from chartloop.run.question import Question

_STATUS = {"completed": "green", "error": "red", "paused": "cyan", "debugging": "yellow"}
NEWEST = 20
"""Runs that are listed unless more are asked for."""


_filters = parameters.together(
    click.option(
        "--machine", metavar="NAME", shell_complete=completion.machines, help="Only this machine."
    ),
    parameters.of_runs,
    click.option("--children", is_flag=True, help="Include child runs."),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RunsOptions(RunOptions):
    """The options of `runs` and of `runs rm`: which runs."""

    machine: str | None = None
    status: str | None = None
    children: bool = False


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  chartloop runs --status paused
  chartloop runs --machine agent --limit 100 --format json
  chartloop runs rm --older 30d
  chartloop runs export last > run.jsonl
""",
)
@_filters
@click.option(
    "--limit",
    "longest",
    type=click.IntRange(min=1),
    metavar="N",
    default=NEWEST,
    show_default=True,
    help="How many, the newest first.",
)
@parameters.journal_option
@parameters.format_option()
@click.pass_context
@pass_options(RunsOptions)
def runs(ctx: click.Context, longest: int, options: RunsOptions) -> None:
    """List, remove and export recorded runs."""
    if ctx.invoked_subcommand is not None:
        return
    journal = _open_or_none(options)
    found = _rows(journal, options, longest + 1) if journal is not None else []
    asked = _questions(journal, found[:longest], options) if journal is not None else {}
    if options.is_json:
        console.result(
            console.as_json([_public(row, asked.get(row.run_id)) for row in found[:longest]])
        )
        return
    print_lines(_table(found[:longest], asked))
    if len(found) > longest:
        console.say(f"and more: --limit {longest * 5}", "dim")
    elif not found:
        console.say("no runs", "dim")


@runs.command(
    "rm",
    epilog="""\b
Examples:
  chartloop runs rm --older 30d
  chartloop runs rm 3kf 9qx --yes
""",
)
@click.argument("names", nargs=-1, metavar="[RUN]...", shell_complete=completion.runs)
@click.option(
    "--older", type=parameters.AGE, metavar="DURATION", help="Whose last record is older than this."
)
@_filters
@click.option("--yes", is_flag=True, help="Do not ask.")
@parameters.journal_option
@parameters.format_option()
@pass_options(RunsOptions)
def remove(names: tuple[str, ...], older: float | None, yes: bool, options: RunsOptions) -> None:
    """Remove runs and everything that only they hold."""
    from chartloop.cli.journal_access import find_run, name_of, open_journal
    from chartloop.run.sync import by_hand

    if not names and older is None:
        raise click.UsageError("name runs, or say how old: --older 30d")
    journal = open_journal(options)
    rows = [find_run(journal, n) for n in names] if names else _rows(journal, options, None)
    before = time.time() - older if older is not None else None
    doomed = [r for r in dict.fromkeys(rows) if before is None or r.updated < before]
    if doomed and not yes:
        _confirm(doomed, name_of(journal))
    count = by_hand(journal.remove([r.run_id for r in doomed])) if doomed else 0
    if options.is_json:
        console.result(console.as_json({"removed": [r.run_id for r in doomed]}))
    console.say(f"{say_count(count, 'run')} removed" if count else "nothing to remove")


def _confirm(doomed: list[RunRow], where: str) -> None:
    say_lines(_table(doomed[:NEWEST]))
    going = sum(not r.ended for r in doomed)
    count = say_count(len(doomed), "run")
    more = f" ({going} of them not ended)" if going else ""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"this would remove {count}{more}: say --yes")
    click.confirm(f"remove {count}{more} from {where}?", abort=True, err=True)


@runs.command(
    "export",
    epilog="""\b
Example:
  chartloop runs export last > run.jsonl
""",
)
@parameters.run_argument
@parameters.journal_option
@pass_options(RunOptions)
def export(run: str, options: RunOptions) -> None:
    """Print the records of a run as lines of JSON, the run's own row first."""
    from chartloop.cli.journal_access import find_run, open_journal
    from chartloop.cli.migrate import records_of

    journal = open_journal(options)
    row = find_run(journal, run)
    console.result(console.as_json({"run": row.run_id, **row.to_mapping()}, indent=None))
    for record in records_of(journal, row):
        console.result(console.as_json({"seq": record.seq, **record.to_dict()}, indent=None))


def _open_or_none(options: RunsOptions) -> Journal | None:
    from chartloop.cli.journal_access import open_journal
    from chartloop.core.errors import UnknownRunError

    try:
        return open_journal(options)
    except UnknownRunError as missing:
        if options.journal:
            raise
        console.say(missing.message, "dim")
        return None


def _rows(journal: Journal, options: RunsOptions, limit: int | None) -> list[RunRow]:
    from chartloop.run.sync import by_hand

    return by_hand(
        journal.rows(
            machine=options.machine, status=options.status, agent=options.agent,
            session=options.session, children=bool(options.children), limit=limit,
        )
    )  # fmt: skip


def _questions(journal: Journal, rows: list[RunRow], options: RunsOptions) -> dict[str, Question]:
    """What the runs that are paused ask, by run; without those whose machine cannot be read."""
    from chartloop.cli.journal_access import machine_of

    machines: dict[str, Machine] = {}
    found: dict[str, Question] = {}
    for row in rows:
        if row.status != "paused":
            continue
        with contextlib.suppress(ChartloopError):
            if row.machine_hash not in machines:
                machines[row.machine_hash] = machine_of(journal, row, options)
            run = machines[row.machine_hash].open(row.run_id, journal=journal)
            if (question := run.question) is not None:
                found[row.run_id] = question
    return found


def _public(row: RunRow, asked: Question | None) -> dict[str, Any]:
    """The public shape of one run in a listing. Source: design "language", section 11."""
    return {
        "run": row.run_id, "machine": row.machine, "status": row.status, "state": row.state,
        "reason": row.reason or None, "steps": row.steps, "created": row.created,
        "updated": row.updated, "wait": None if asked is None else asked.wait,
        "question": None if asked is None else asked.text,
    }  # fmt: skip


def _table(rows: list[RunRow], asked: Mapping[str, Question] = {}) -> list[Line]:
    from chartloop.cli.journal_access import ago

    wait: Callable[[RunRow], str] = lambda r: (  # noqa: E731
        f" (wait {asked[r.run_id].wait})" if r.run_id in asked else ""
    )
    cells: Callable[[RunRow], tuple[str, ...]] = lambda r: (  # noqa: E731
        r.run_id,
        r.machine,
        r.status,
        r.state + wait(r),
        r.reason,
        str(r.steps),
        ago(r.updated),
    )
    head = ("run", "machine", "status", "state", "reason", "steps", "last record")
    coloured = [Row(cells(r), _STATUS.get(r.status, "")) for r in rows]
    return table_lines(coloured, head, width=console.width(), right={5}, spare=(3, 5, 1))
