"""`chartloop journal`: migrate, export, import and prune a journal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chartloop.adapters.schedule.opening import SCHEDULES, ScheduleName
from chartloop.cli import completion, console, parameters
from chartloop.cli.commands.runs import say_freed
from chartloop.cli.error_report import say_error
from chartloop.cli.journal_access import find_run, journal_at, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.options import AGE, RunOptions, option, pass_options
from chartloop.cli.progress_bar import progress_bar
from chartloop.core.errors import ChartloopError
from chartloop.core.units import say_count

with at_first_use(__name__):
    from chartloop.adapters.journal import opening as journal_opening
    from chartloop.adapters.schedule import opening as schedules
    from chartloop.hosting import cron_orders
    from chartloop.pictures import save as saving
    from chartloop.run import copies, journal_pages, retention, shared_copies, sync
    from chartloop.run import journal as journals
    from chartloop.run import lease as leases

if TYPE_CHECKING:
    from chartloop.run.copies import Put
    from chartloop.run.cron import CronSchedule
    from chartloop.run.journal import Journal
    from chartloop.run.shared_copies import SharedPart


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ExportOptions(RunOptions):
    """The options of `journal export`: which runs. Durations are in seconds."""

    machine: str | None = option(
        "--machine", metavar="NAME", shell_complete=completion.machines,
        help="Only runs of this machine.",
    )  # fmt: skip
    older: float | None = option(
        "--older", type=AGE, metavar="DURATION",
        help="Only runs whose last record is older than this: 30d, 12h.",
    )  # fmt: skip


@click.group(
    epilog="""\b
Examples:
  chartloop journal migrate --journal postgresql://owner@db.example.org/runs
  chartloop journal migrate --restored
  chartloop journal export --to runs.jsonl
  chartloop journal import runs.jsonl --journal postgresql://team@db.example.org/runs
  chartloop journal prune --older 90d --status completed
""",
)
def journal() -> None:
    """Migrate, export, import and prune a journal."""


@journal.command()
@click.option(
    "--schedule", type=click.Choice(SCHEDULES),
    help="Who delivers due runs to workers from now on: the journal's own table, or DBOS, whose"
    " tables are made beside it in PostgreSQL. Default: as it is, at first the table.",
)  # fmt: skip
@click.option(
    "--restored", is_flag=True,
    help="Mark it as restored from a backup: what its runs do next may have been done before.",
)  # fmt: skip
@click.option("--go-on", is_flag=True, help="Lift that mark, and let its schedules go on.")
@parameters.journal_option
@parameters.format_option()
@pass_options(RunOptions)
def migrate(
    schedule: ScheduleName | None, restored: bool, go_on: bool, options: RunOptions
) -> None:  # fmt: skip
    """Make the tables of a journal, or update them, with those of DBOS if it delivers the runs.

    In PostgreSQL it needs a role that may create tables; the workers need none. Update all that use
    the journal first.

    With --restored, give it before any worker starts. Until --go-on, each call with effects of a
    run from before is in doubt, the schedules are paused, and `submit` warns.
    """
    if restored and go_on:
        raise click.UsageError("--restored sets the mark, and --go-on lifts it: give one of them")
    name, before, after = journal_opening.migrate_tables(journal_at(options.journal))
    opened = journal_opening.journal_of(journal_at(options.journal))
    by = schedules.prepare(opened, schedule)
    if restored or go_on:
        for one in sync.by_hand(opened.cron_schedules()):
            cron_orders.change_schedule(opened, one.name, _as_restored if go_on else _at_rest)
        sync.by_hand(opened.mark_restored(lift=go_on))
    marked = sync.by_hand(opened.restored())
    if options.is_json:
        data = {"before": before, "after": after, "schedule": by, "restored": marked or None}
        console.result(console.as_json(data))
        return
    done = "made" if not before else "up to date" if before == after else f"updated from {before}"
    engine = "; DBOS delivers its runs" if by == "dbos" else ""
    console.say(f"{name}: tables of version {after} {done}{engine}")
    if marked:
        console.say(f"{leases.say_restored(marked)}: {leases.MARKED}", "yellow")
    elif go_on:
        console.say("its runs and schedules go on")


def _at_rest(one: CronSchedule, _: Journal) -> CronSchedule:
    """Pause a schedule of a restored journal."""
    return one if one.paused else one.replace(paused=True, note=shared_copies.RESTORED)


def _as_restored(one: CronSchedule, journal: Journal) -> CronSchedule:
    """Let a schedule that rests since the journal was restored go on; leave any other alone."""
    return cron_orders.resumed(one, journal) if one.note == shared_copies.RESTORED else one


@journal.command("export")
@click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=completion.runs)
@click.option(
    "--to", "output", required=True, metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True), help="The file to write; - is stdout.",
)  # fmt: skip
@parameters.options_of(ExportOptions)
@parameters.journal_option
@parameters.format_option()
@pass_options(ExportOptions)
def export(runs: tuple[str, ...], output: str, options: ExportOptions) -> int:
    """Write whole runs to a file of JSON lines, from which `journal import` makes them again.

    All runs of the journal, unless some are named; each with its children. With all of them its
    schedules, and its limits with what is used of them. `stats`, `coverage` and
    `whatif` read the file as well. Runs that are driven or were changed are left out, and named.
    """
    if output == "-" and sys.stdout.isatty():
        raise click.UsageError("lines of stored bytes are not for a terminal: name a file")
    opened, tally = open_journal(options), _Tally("exported")
    chosen = _choose(opened, runs, options)

    def content() -> Iterator[bytes]:
        with progress_bar("exporting", len(chosen)) as advance:
            for run_id in chosen:
                try:
                    tree = sync.by_hand(copies.read_tree(opened, run_id))
                except ChartloopError as error:
                    tally.refuse(run_id, error)
                else:
                    for run in tree:
                        yield from (line.encode() + b"\n" for line in copies.lines_of(run))
                    tally.count(copies.Put(len(tree), len(tree), ()))
                advance()
        if runs or options.machine or options.older is not None:
            return  # schedules and limits go with the whole journal only
        for line in sync.by_hand(shared_copies.shared_lines(opened)):
            yield line.text.encode() + b"\n"
            tally.shared[line.what].append(line.name)

    if output == "-":
        sys.stdout.buffer.writelines(content())
    else:
        saving.write_whole(Path(output), content())
    return tally.tell(as_json=options.is_json and output != "-")


@journal.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--go-on", is_flag=True,
    help="Let its runs and schedules go on here: to move a journal, or after an import at rest.",
)  # fmt: skip
@parameters.journal_option
@parameters.format_option()
@pass_options(RunOptions)
def import_(file: str, go_on: bool, options: RunOptions) -> int:
    """Write the runs of a file of `journal export` into a journal, as they were stored.

    Workers leave its runs alone, and its schedules are paused, until the command is given again
    with --go-on. FILE may be -, stdin. The digests are checked. Nothing is written of a run with a
    damaged line, nor of its children; the line is named, and the exit code is 1. Runs that the
    journal has already are passed over, so an interrupted import can be repeated. Those that went
    on there are left out, and named.
    """
    opened, tally = open_journal(options, make=True), _Tally("imported")
    name, shared = "stdin" if file == "-" else file, list[tuple[str, bytes]]()

    def watched(lines: Iterable[bytes]) -> Iterator[bytes]:
        for at, line in enumerate(lines, 1):
            if line.startswith((shared_copies.SCHEDULE, shared_copies.LIMIT)):
                shared.append((f"{name}:{at}", line))
            yield line

    with click.open_file(file, "rb") as lines:
        for tree in copies.read_trees(watched(lines), name):
            if isinstance(tree, ChartloopError):
                tally.refuse("", tree)
                continue
            run_id = tree[0].row.run_id
            try:
                tally.count(sync.by_hand(copies.put_tree(opened, tree, go_on=go_on)))
            except ChartloopError as error:
                tally.refuse(run_id, error)
    for where, line in shared:
        try:
            put = sync.by_hand(shared_copies.put_shared(opened, line, where, go_on=go_on))
        except ChartloopError as error:
            tally.refuse("", error)
            continue
        tally.shared[put.what] += [put.name] if put.new else []
        tally.resting["schedule"] += [put.name] if put.rests else []
        if go_on and put.what == "schedules" and not put.new:
            cron_orders.change_schedule(opened, put.name, _as_released)
    return tally.tell(as_json=options.is_json, file=file, go_on=go_on)


def _as_released(one: CronSchedule, journal: Journal) -> CronSchedule:
    """Let a schedule of an import at rest go on; leave any other alone."""
    return cron_orders.resumed(one, journal) if one.note == shared_copies.RESTS else one


_STATUSES = ("completed", "error", "moved")


def _statuses(_: click.Context, __: click.Parameter, value: str) -> list[str]:
    given = [status.strip() for status in value.split(",")]
    if unknown := [status for status in given if status not in _STATUSES]:
        raise click.BadParameter(f"`{unknown[0]}` is none of {', '.join(_STATUSES)}")
    return given


@journal.command()
@click.option(
    "--older", "age", type=AGE, metavar="DURATION", required=True,
    help="Only runs whose last record is older than this: 90d, 12h.",
)  # fmt: skip
@click.option(
    "--status", metavar="LIST", default=",".join(_STATUSES), show_default=True,
    callback=_statuses, help="Only ended runs with these statuses.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only list the runs.")
@parameters.journal_option
@parameters.format_option()
@pass_options(RunOptions)
def prune(age: float, status: list[str], dry_run: bool, options: RunOptions) -> None:
    """Remove old runs that nothing needs any more, with their children and payloads.

    It asks nothing, for a job of every night. Runs that have not ended, are driven, have an open
    request, or continue as a run that has not ended, stay. `chartloop runs rm` removes those.
    """
    opened = open_journal(options)
    rows = sync.by_hand(retention.old_runs(opened, sync.by_hand(opened.now()) - age, status))
    ids = [row.run_id for row in rows]
    with progress_bar("removing", len(ids)) as advance:
        for part in () if dry_run else retention.in_parts(ids):
            sync.by_hand(opened.remove(part))
            for _ in part:
                advance()
    if options.is_json:
        console.result(console.as_json({"removed": [] if dry_run else ids, "chosen": ids}))
        return
    for run_id in ids if dry_run else ():
        console.result(console.plain(run_id))
    would = "would be removed" if dry_run else "removed"
    console.say(f"{say_count(len(ids), 'run')} {would}" if ids else "nothing to remove")
    say_freed([] if dry_run else rows)


class _Tally:
    """What was done with each run."""

    def __init__(self, done: str) -> None:
        self._done = done
        self._new, self._known = 0, 0
        self._refused: list[tuple[str, ChartloopError]] = []
        self.shared: dict[SharedPart, list[str]] = {"schedules": [], "limits": []}
        self.resting: dict[str, list[str]] = {"run": [], "schedule": []}
        """The runs and schedules that an import has brought in and that no worker takes."""

    def count(self, put: Put) -> None:
        self._new += put.new
        self._known += put.every - put.new
        self.resting["run"] += put.resting

    def refuse(self, run_id: str, error: ChartloopError) -> None:
        self._refused.append((run_id, error))

    def tell(self, *, as_json: bool, file: str = "", go_on: bool = False) -> int:
        """Say what was done; returns the exit code. `file` is that of an import."""
        if as_json:
            refused = [{"run": run_id, "why": str(e.message)} for run_id, e in self._refused]
            counts = {self._done: self._new, "known": self._known, **self.shared}
            data = {**counts, "refused": refused}
            if file:
                data["resting"] = self.resting["run"]
                data["resting_schedules"] = self.resting["schedule"]
            console.result(console.as_json(data))
        else:
            known = f", {self._known} were there" if self._known else ""
            console.say(f"{say_count(self._new, 'run')} {self._done}{known}")
            for what, names in self.shared.items():
                if names:
                    text = f"{say_count(len(names), what[:-1])} {self._done}: {', '.join(names)}"
                    console.say(console.plain(text))
            if self.shared["schedules"] and go_on:
                console.say(
                    "workers of either journal start the runs of its schedules: pause them in one, "
                    "`chartloop schedule pause NAME`", "yellow",
                )  # fmt: skip
        for _, error in self._refused:
            say_error(error)
        counts = [say_count(len(names), what) for what, names in self.resting.items() if names]
        if counts:
            verb = "rests" if sum(map(len, self.resting.values())) == 1 else "rest"
            line = shlex.join(["chartloop", "journal", "import", file, "--go-on"])
            text = f"{' and '.join(counts)} {verb}: `{line}` lets them go on"
            console.say(console.plain(text))
        return 1 if self._refused else 0


def _choose(opened: Journal, names: tuple[str, ...], options: ExportOptions) -> list[str]:
    """The runs that are wanted, the oldest first, without their children."""
    before = None if options.older is None else sync.by_hand(opened.now()) - options.older
    filter = journal_pages.RunFilter(machine=options.machine, updated_to=before)

    async def every() -> list[str]:
        return [row.run_id async for row in retention.every_run(opened, filter)][::-1]

    if not names:
        return sync.by_hand(every())
    named = [find_run(opened, name).run_id.partition(journals.CHILD_MARK)[0] for name in names]
    rows = [find_run(opened, name) for name in dict.fromkeys(named)]
    return [row.run_id for row in rows if filter.fits(row)]
