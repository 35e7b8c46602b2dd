"""`chartloop schedule`: runs that are started at given times, by workers."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from chartloop.cli import console, parameters
from chartloop.cli.error_report import MisuseError
from chartloop.cli.journal_access import open_journal, say_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import load_machine
from chartloop.cli.options import AGE, RUN_ID, RunOptions, option, pass_options
from chartloop.cli.printing import Row, print_table
from chartloop.core.units import write_duration

with at_first_use(__name__):
    from chartloop.adapters import cron as cron_times
    from chartloop.cli import inputs as task_inputs
    from chartloop.cli import run_factory
    from chartloop.hosting import cron_orders, ticks
    from chartloop.run import cron as cron_jobs
    from chartloop.run import sync
    from chartloop.ui.view_model import fleet_view

if TYPE_CHECKING:
    from chartloop.run.cron import CronSchedule, Missed, Overlap


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ScheduleOptions(RunOptions):
    """The options of `schedule add`."""

    cron: str = option(
        "--cron",
        metavar="FIELDS",
        default="",
        help="When: minute, hour, day of the month, month, day of the week. `0 9 * * 1-5` is at"
        " nine on"
        " working days. Needs the extra `cron`.",
    )
    timezone: str = option(
        "--timezone",
        metavar="ZONE",
        default="UTC",
        show_default=True,
        help="The time zone of --cron, such as Europe/Berlin.",
    )
    every: float | None = option(
        "--every",
        type=AGE,
        metavar="DURATION",
        help="In place of --cron: 15m, 1d. The first time is that long after now.",
    )
    inputs: str | None = option(
        "--inputs",
        type=click.Path(exists=True, dir_okay=False, allow_dash=True),
        metavar="FILE.jsonl",
        help="Each time a run for each line of a file, as it is now; - is stdin.",
    )
    missed: Missed = option(
        "--missed",
        type=click.Choice(["last", "skip", "all"]),
        default="last",
        show_default=True,
        help="What is started later of the times at which no worker was there: the last, none, or"
        " all,"
        " but not more than the last 100.",
    )
    overlap: Overlap = option(
        "--overlap",
        type=click.Choice(["skip", "allow"]),
        default="skip",
        show_default=True,
        help="What becomes of a time at which a run of the time before has not ended.",
    )


@click.group(
    epilog="""\b
Examples:
  chartloop schedule add report machine.yaml "Yesterday's numbers." --cron "0 9 * * 1-5" \\
      --timezone Europe/Berlin --tools tools.py
  chartloop schedule add poll machine.yaml --every 15m --inputs tasks.jsonl
  chartloop schedule list
  chartloop schedule pause report

\b
The schedules are in the journal, and any `chartloop worker` or `chartloop serve` on it starts their
runs. Each tick is submitted once, however many workers there are.
"""
)
def schedule() -> None:
    """Start runs at given times, by workers."""


@schedule.command()
@click.argument("name", type=RUN_ID)
@parameters.machine_argument
@click.argument("task", default="", required=False)
@parameters.options_of(ScheduleOptions)
@parameters.tools_option
@parameters.value_options
@parameters.define_option
@parameters.trust_option
@parameters.journal_option
@parameters.name_options
@parameters.priority_option
@parameters.require_option("--require-bound")
@parameters.format_option()
@pass_options(ScheduleOptions)
def add(name: str, machine: str, task: str, options: ScheduleOptions) -> None:
    """Add a schedule, with the machine as it is now.

    MACHINE is a file or the name of a shipped machine. A changed file changes no schedule: remove
    it and add it again.
    """
    if bool(options.cron.strip()) == (options.every is not None):
        raise click.UsageError('say when, either --cron "0 9 * * 1-5" or --every 15m')
    if options.every is not None and (options.every < 1 or options.every % 1):
        raise click.UsageError("--every is a number of whole seconds: 30s, 15m, 1d")
    if (options.every or 0) > _LONGEST:
        raise click.UsageError(f"--every is at most {write_duration(_LONGEST)}")
    if options.every is not None and options.timezone != "UTC":
        raise click.UsageError("--timezone goes with --cron")
    if options.missed == "all" and options.overlap == "skip":
        raise click.UsageError("--missed all starts runs at once: it needs --overlap allow")
    if options.run_id or (options.inputs is not None and task):
        raise click.UsageError("leave --run-id out, and TASK with --inputs")
    loaded = load_machine(machine, options)
    jobs = (
        [task_inputs.Job(1, task)]
        if options.inputs is None
        else task_inputs.read_jobs(options.inputs)
    )
    own = [{"limits": job.limits, "vars": job.vars} for job in jobs]
    starts = [
        {"task": job.task, **run_factory.start_values(loaded, options, more)}
        for job, more in zip(jobs, own, strict=True)
    ]
    journal = open_journal(options, make=True)
    now = sync.by_hand(journal.now()) // 1
    new = cron_jobs.CronSchedule(
        name, loaded.name, loaded.hash, (*starts,), now, now, " ".join(options.cron.split()),
        options.timezone, options.every or 0.0, options.missed, options.overlap,
        version=secrets.randbits(48),
    )  # fmt: skip
    new = new.replace(next=cron_times.next_tick(new, now))
    drafts = [ticks.draft(loaded, start, cron_jobs.tick_id(new, now, 0), now) for start in starts]
    new = new.replace(plugins=drafts[0].plugins)
    for text in dict.fromkeys(text for each in drafts for text in each.texts):
        sync.by_hand(journal.put_blob(text))
    known: CronSchedule | None = None
    while known is None and not sync.by_hand(journal.put_cron(None, new)):  # one may go meanwhile
        known = {one.name: one for one in sync.by_hand(journal.cron_schedules())}.get(name)
    if known is not None and any(getattr(known, part) != getattr(new, part) for part in _GIVEN):
        raise MisuseError(
            f"there is a schedule `{name}` already, with another content",
            hint=f"`chartloop schedule remove {name}` removes it, or choose another name",
        )
    if options.is_json:
        console.result(console.as_json(_as_data(known or new, "", "")))
        return
    first = f"starts its first run at {cron_times.local_time(new, new.next)}"
    console.say(f"schedule {name} {'is there already: it stays as it is' if known else first}")
    if not sync.by_hand(journal.workers()):
        console.say("no worker is there: `chartloop worker` starts and drives its runs", "yellow")
    say_journal(journal)


_LONGEST = 36_500 * 86_400.0
_GIVEN = ("machine_hash", "starts", "cron", "timezone", "every", "missed", "overlap")
"""What two schedules of a name have in common if they are the same order."""


@schedule.command("list")
@parameters.journal_option
@parameters.format_option()
@pass_options(RunOptions)
def list_(options: RunOptions) -> None:
    """List the schedules, with the next tick and the runs of the last."""
    journal = open_journal(options)
    schedules = sync.by_hand(journal.cron_schedules())
    workers = sync.by_hand(journal.workers())
    rows, troubles, data = list[Row](), list[str](), list[dict[str, Any]]()
    for one in schedules:
        runs = [sync.by_hand(journal.row(run_id)) for run_id in one.runs]
        found = [row.reason or row.status for row in runs if row is not None]
        status = ", ".join(dict.fromkeys(found)) or ("removed" if runs else "")
        trouble = fleet_view.what_all_lack(workers, one.needs)
        if trouble:
            troubles.append(f"no worker can start the runs of {one.name}: {trouble}")
        elif one.note:
            troubles.append(f"{one.name}: {one.note}")
        when = one.cron or f"every {write_duration(one.every)}"
        when += "" if one.timezone == "UTC" else f" {one.timezone}"
        coming = "paused" if one.paused else cron_times.local_time(one, one.next)
        last = cron_times.local_time(one, one.last) if one.last else ""
        newest = one.runs[-1] if one.runs else ""
        colour = "red" if trouble else "dim" if one.paused else ""
        rows.append(Row((one.name, one.machine, when, coming, last, newest, status), colour))
        data.append(_as_data(one, status, trouble))
    if options.is_json:
        console.result(console.as_json(data))
        return
    if rows:
        head = ("schedule", "machine", "when", "next", "last", "its run", "status")
        shown = len(head) if any(one.last for one in schedules) else 4
        print_table([Row(row.cells[:shown], row.colour) for row in rows], head[:shown])
    else:
        console.say("no schedules: `chartloop schedule add` adds one")
    for trouble in troubles:
        console.say(console.plain(trouble), "yellow")
    if rows and not workers:
        console.say("no worker is there: `chartloop worker` starts and drives the runs", "yellow")


def _as_data(one: CronSchedule, status: str, trouble: str) -> dict[str, Any]:
    """A schedule as JSON data."""
    return {
        "name": one.name, "machine": one.machine, "hash": one.machine_hash, "cron": one.cron,
        "timezone": one.timezone, "every_seconds": one.every, "missed": one.missed,
        "overlap": one.overlap, "paused": one.paused, "runs_each_time": len(one.starts),
        "next": None if one.paused else cron_jobs.say_tick(one.next),
        "last": cron_jobs.say_tick(one.last) if one.last else None, "runs": [*one.runs],
        "status": status, "note": one.note, "lacks": trouble,
    }  # fmt: skip


def _changing(verb: str, about: str) -> None:
    """Add a command that changes a schedule of a name."""

    @schedule.command(verb, help=about)
    @click.argument("name")
    @parameters.journal_option
    @parameters.format_option()
    @pass_options(RunOptions)
    def command(name: str, options: RunOptions) -> None:
        cron_orders.change_schedule(open_journal(options), name, cron_orders.CHANGES[verb])
        if options.is_json:
            console.result(console.as_json({"schedule": name, "done": verb}))
        else:
            console.say(f"schedule {name}: {verb} done")


_changing("pause", "Start no runs of a schedule until it is resumed.")
_changing("resume", "Let a paused schedule go on. What it missed meanwhile is not started.")
_changing("remove", "Remove a schedule. Its runs stay.")
