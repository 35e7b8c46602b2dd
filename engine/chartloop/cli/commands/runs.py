"""`chartloop runs`: list and remove the runs of a journal."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chartloop.cli import completion, console, parameters, queue_report
from chartloop.cli.journal_access import ago, find_run, name_of, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.options import AGE, FilterOptions, at_least, option, pass_options
from chartloop.cli.printing import Line, Row, print_lines, say_lines
from chartloop.cli.progress_bar import progress_bar
from chartloop.core.errors import UnknownRunError
from chartloop.core.phase import CONTINUED, PARKED, PHASES, Phase
from chartloop.core.units import say_count, say_elapsed, say_some
from chartloop.core.visible import cut
from chartloop.run.journal_pages import SORTS, Sort
from chartloop.ui.view_model.table import table_lines

with at_first_use(__name__):
    from chartloop.run import journal_pages, journal_records, phases, retention, succession, sync
    from chartloop.ui.view_model import fleet_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chartloop.run.journal import Journal, RunRow
    from chartloop.run.phases import Stand

NEWEST = 20
"""The default of `--limit`."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RunsOptions(FilterOptions):
    """The options of `runs` and `runs rm`: filters. Durations are in seconds."""

    machine: str | None = option(
        "--machine", metavar="NAME", shell_complete=completion.machines,
        help="Only runs of this machine.",
    )  # fmt: skip
    reason: str | None = option(
        "--reason", metavar="REASON", help="Only runs with this stop reason."
    )
    waiting: bool = option("--waiting", is_flag=True, help="Only runs that wait for an answer.")
    since: float | None = option(
        "--since", type=AGE, metavar="DURATION",
        help="Only runs started within this time: 30d, 12h.",
    )  # fmt: skip
    older: float | None = option(
        "--older", type=AGE, metavar="DURATION",
        help="Only runs whose last record is older than this.",
    )  # fmt: skip
    phase: str | None = option(
        "--phase", type=click.Choice(tuple(PHASES)), metavar="PHASE",
        help="Only runs that stand like this: failed, limited, waiting, unattended...",
    )  # fmt: skip
    search: str | None = option(
        "--search", metavar="TEXT", help="Only runs with this text in their task or id."
    )
    children: bool = option("--children", is_flag=True, help="Include child runs.")

    def filter(self, now: float) -> journal_pages.RunFilter:
        """The filter for a journal, with the ages of the options as points in time."""
        ago: Callable[[float | None], float | None] = lambda age: None if age is None else now - age  # noqa: E731
        wanted = journal_pages.RunFilter(
            machine=self.machine, status=self.status, reason=self.reason, agent=self.agent,
            session=self.session, tenant=self.tenant, waiting=self.waiting or None,
            created_from=ago(self.since),
            updated_to=ago(self.older), children=bool(self.children),
            search=self.search or None,
        )  # fmt: skip
        narrowed = phases.in_phase(wanted, self.phase)
        if narrowed is None:
            raise click.UsageError(f"--phase {self.phase} and the other filters exclude each other")
        return narrowed


_filters = parameters.together(
    parameters.options_of(RunsOptions, "machine"),
    parameters.of_runs,
    parameters.options_of(RunsOptions, *"reason phase search waiting since older children".split()),
)


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  chartloop runs --waiting
  chartloop runs --phase failed --since 7d
  chartloop runs --search lithium --sort cost
  chartloop runs --machine agent --limit 100 --format json
  chartloop runs --watch
  chartloop runs rm --older 30d
""",
)
@_filters
@click.option(
    "--limit",
    "longest",
    type=at_least(1),
    metavar="N",
    default=NEWEST,
    show_default=True,
    help="List at most this many, the newest first.",
)
@click.option(
    "--sort", "by", type=click.Choice(SORTS), default="started", show_default=True,
    help="The most, or the newest, first.",
)  # fmt: skip
@click.option(
    "--watch", is_flag=True,
    help="Show instead how many runs are due, since when, how fast they end, and what each worker"
    " holds.",
)  # fmt: skip
@parameters.journal_option
@parameters.format_option()
@click.pass_context
@pass_options(RunsOptions)
def runs(
    ctx: click.Context, longest: int, watch: bool, options: RunsOptions, *,
    by: Sort
) -> None:  # fmt: skip
    """List and remove recorded runs."""
    if ctx.invoked_subcommand is not None:
        return
    journal = _open_or_none(options)
    if watch and journal is not None:
        queue_report.watch(journal, as_json=options.is_json)
    rows: list[RunRow] = []
    stands: dict[str, Stand] = {}
    more = False
    if journal is not None:
        order = journal_pages.RunOrder(by)
        rows, more = _page(journal, options, longest, order)
        stands = sync.by_hand(phases.stands_of(journal, rows))
    if options.is_json:
        told = [{**_public(row), "phase": stands[row.run_id].phase.name} for row in rows]
        console.result(console.as_json(told))
        return
    now = 0.0 if journal is None else sync.by_hand(journal.now())
    print_lines(_table(rows, now, stands))
    if more:
        console.say(f"and more: --limit {longest * 5}", "dim")
    elif not rows:
        console.say("no runs", "dim")
    if journal is not None:
        backlog = sync.by_hand(journal.backlog())
        for line in (*fleet_view.troubles(backlog), *fleet_view.say_parked(backlog)):
            console.say(console.plain(line), "yellow")


@runs.command(
    "rm",
    epilog="""\b
Examples:
  chartloop runs rm --older 30d
  chartloop runs rm 3kf 9qx --yes
""",
)
@click.argument("names", nargs=-1, metavar="[RUN]...", shell_complete=completion.runs)
@_filters
@click.option("--yes", is_flag=True, help="Do not ask.")
@parameters.journal_option
@parameters.format_option()
@pass_options(RunsOptions)
def remove(names: tuple[str, ...], yes: bool, options: RunsOptions) -> None:
    """Remove runs, with the data that no other run uses.

    Whatever their status: `chartloop journal prune` leaves what a run may still need.
    """
    older = options.older
    if not names and older is None:
        raise click.UsageError("name runs, or give their age: --older 30d")
    journal = open_journal(options)
    rows = [find_run(journal, n) for n in names] if names else _every_row(journal, options)
    now = sync.by_hand(journal.now())
    before = now - older if older is not None else None
    chosen = [r for r in dict.fromkeys(rows) if before is None or r.updated < before]
    if chosen and not yes:
        _confirm(chosen, name_of(journal), now)
    count = 0
    with progress_bar("removing", len(chosen)) as advance:
        for part in retention.in_parts([r.run_id for r in chosen]):
            count += sync.by_hand(journal.remove(part))
            for _ in part:
                advance()
    if options.is_json:
        console.result(console.as_json({"removed": [r.run_id for r in chosen]}))
    console.say(f"{say_count(count, 'run')} removed" if count else "nothing to remove")
    say_freed(chosen)


def say_freed(removed: list[RunRow]) -> None:
    """Say which runs are not followed any more."""
    if freed := succession.freed_origins(removed):
        console.say(console.plain(
            f"nothing follows {say_some(freed, NEWEST)} any more: their failures count again, and "
            "they may be tried again or continued"
        ))  # fmt: skip


def _confirm(chosen: list[RunRow], where: str, now: float) -> None:
    say_lines(_table(chosen[:NEWEST], now, {}))
    unfinished = sum(not r.ended for r in chosen)
    count = say_count(len(chosen), "run")
    more = f" ({unfinished} of them not ended)" if unfinished else ""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"this would remove {count}{more}: confirm with --yes")
    click.confirm(f"remove {count}{more} from {where}?", abort=True, err=True)


def _open_or_none(options: RunsOptions) -> Journal | None:
    try:
        return open_journal(options)
    except UnknownRunError as missing:
        if options.journal:
            raise
        console.say(missing.message, "dim")
        return None


def _page(
    journal: Journal, options: RunsOptions, limit: int, order: journal_pages.RunOrder
) -> tuple[list[RunRow], bool]:  # fmt: skip
    """One page of runs, and whether more follow."""
    cursor = ""
    wanted = options.filter(sync.by_hand(journal.now()))
    found: list[RunRow] = []
    while True:
        rows, cursor = sync.by_hand(journal.page(wanted, cursor, limit, order=order))
        found += _standing(journal, rows, options.phase)
        if len(found) >= limit or not cursor:
            return found[:limit], bool(cursor) or len(found) > limit


def _standing(journal: Journal, rows: list[RunRow], phase: str | None) -> list[RunRow]:
    """The rows of a phase: some need their leases for it."""
    if phase is None:
        return rows
    stands = sync.by_hand(phases.stands_of(journal, rows))
    return [row for row in rows if stands[row.run_id].phase.name == phase]


def _every_row(journal: Journal, options: RunsOptions) -> list[RunRow]:
    async def every() -> list[RunRow]:
        return [
            row async for row in retention.every_run(journal, options.filter(await journal.now()))
        ]

    return _standing(journal, sync.by_hand(every()), options.phase)


def _public(row: RunRow) -> dict[str, Any]:
    """The public shape of one run in a listing."""
    asked = row.question
    return {
        "run": row.run_id, "tenant": row.tenant, "machine": row.machine, "priority": row.priority,
        "status": row.status, "phase": row.phase().name, "state": row.state,
        "at": row.stopped_at, "task": row.task, "message": row.message,
        "reason": row.reason or None, "steps": row.steps, "created": row.created,
        "duration": row.duration,
        "updated": row.updated, "wait": None if asked is None else asked.wait,
        "question": None if asked is None else asked.text,
        "answers": None if asked is None else asked.answers,
        "due": None if asked is None else asked.due, "tokens": row.tokens, "cost": row.cost,
        "parked": row.parked, "moved_to": row.moved_to or None, "successor": row.successor or None,
    }  # fmt: skip


def _table(rows: list[RunRow], now: float, stands: Mapping[str, Stand]) -> list[Line]:
    longest = max(24, (console.width() - 80) // 2)  # of a task or message: about a line

    def short(text: str) -> str:
        return cut(" ".join(text.split()), longest)

    def cells(row: RunRow) -> tuple[str, ...]:
        phase = _phase(row, stands)
        asked = row.question
        said = row.message or ("" if row.reason == "completed" else row.reason)
        if phase is PARKED:
            said = phases.say_parked(row)
        elif asked is not None:
            said = f"(wait {asked.wait}) {asked.text}" if asked.wait else asked.text
        elif row.moved_to or phase is CONTINUED:
            said = f"now {row.moved_to or row.successor}"
        return (
            row.run_id, short(row.task), phase.marked, short(said), row.machine, str(row.steps),
            say_elapsed(max(0.0, row.duration)), ago(row.created, now),
        )  # fmt: skip

    head = ("run", "task", "phase", "ended with, or asks", "machine", "steps", "took", "started")
    coloured = [Row(cells(row), _phase(row, stands).ink) for row in rows]
    if any(r.priority != journal_records.PRIORITY for r in rows):
        head = (*head, "priority")
        ranks = ("" if r.priority == journal_records.PRIORITY else str(r.priority) for r in rows)
        coloured = [
            row._replace(cells=(*row.cells, rank))
            for row, rank in zip(coloured, ranks, strict=True)
        ]
    return table_lines(coloured, head, width=console.width(), right={5, 6}, spare=(4, 5, 3, 6))


def _phase(row: RunRow, stands: Mapping[str, Stand]) -> Phase:
    return stands[row.run_id].phase if row.run_id in stands else row.phase()
