"""`chartloop worker`: drive the runs of a journal that are due."""

from __future__ import annotations

import asyncio
import signal
import threading
from dataclasses import dataclass

import click

from chartloop.adapters.schedule.opening import SCHEDULES, ScheduleName
from chartloop.cli import console, parameters
from chartloop.cli.error_report import LIMIT, OK
from chartloop.cli.late import at_first_use
from chartloop.cli.options import option, pass_options
from chartloop.cli.server_options import ServerOptions, grace_option, server_options
from chartloop.core.units import say_count

with at_first_use(__name__):
    from chartloop.adapters.journal import opening as journal_opening
    from chartloop.adapters.schedule import opening as schedules
    from chartloop.cli import run_factory
    from chartloop.hosting import health as health_server
    from chartloop.hosting import idle as idleness
    from chartloop.hosting import machines
    from chartloop.hosting import runs as hosted_runs
    from chartloop.hosting import workers as hosted_workers


def _address(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """A port of this computer, or an address and a port."""
    if value is None:
        return None
    host, port = value.rpartition(":")[::2]
    if not port.isdecimal() or int(port) > 65_535:
        raise click.BadParameter(f"`{value}` is not a port: `8081`, or `0.0.0.0:8081`")
    return host.strip("[]") or "127.0.0.1", int(port)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WorkerOptions(ServerOptions):
    """The options of `worker`."""

    machines: tuple[str, ...] = option(
        "--machines",
        multiple=True,
        metavar="FOLDER",
        type=click.Path(exists=True, file_okay=False),
        help="Drive only runs of the machine files in this folder, as they are now. Repeatable."
        " Default: every run whose tools are here, with its machine from the journal.",
    )
    concurrency: int = option(
        "--concurrency",
        type=click.IntRange(1, 1000),
        metavar="N",
        default=20,
        show_default=True,
        help="Drive this many runs at once.",
    )
    until_idle: bool = option(
        "--until-idle",
        is_flag=True,
        help="End when nothing that it can do is due, run or tick, and no run is being driven: for"
        " cron. Runs that go on by themselves within a minute are waited for. Exit code 3: others"
        " rest for a time, which is said.",
    )
    schedule: ScheduleName | None = option(
        "--schedule",
        type=click.Choice(SCHEDULES),
        help="Who delivers the runs that are due: the journal's own table, or DBOS in a PostgreSQL"
        " database. Default: what `chartloop journal migrate --schedule` has prepared the journal"
        " for.",
    )
    health: tuple[str, int] | None = option(
        "--health",
        metavar="[ADDRESS:]PORT",
        callback=_address,
        help="Answer /livez, /readyz and /metrics there, for probes and Prometheus, without a"
        " token."
        " Default address: 127.0.0.1.",
    )


@click.command(
    epilog="""\b
Examples:
  chartloop worker --tools tools.py
  chartloop worker --machines machines/ --concurrency 50 --grace 60
  chartloop worker --until-idle

\b
Submit runs with `chartloop submit`, and look at them with `chartloop runs --watch`. Start as many
workers as you like on one journal: each due run is claimed by one of them. You may kill a worker at
any moment; another one takes its runs up. SIGTERM: claim no more, end the step, hand back.
"""
)
@parameters.options_of(WorkerOptions)
@grace_option(25.0)
@server_options
@pass_options(WorkerOptions)
def worker(options: WorkerOptions) -> int:
    """Drive the runs of a journal that are due, until SIGTERM."""
    settings = run_factory.server_settings(
        options, face="chartloop worker", concurrency=options.concurrency
    )
    journal = journal_opening.journal_of(settings.journal)
    runs = hosted_runs.Runs(settings, journal, machines.Machines(settings, journal))
    with journal_opening.at_start():  # what may not be done is refused before anything is
        workers = hosted_workers.Workers(
            runs, lambda _, __: None, schedules.engine_of(journal, options.schedule)
        )
        health, notifier = health_server.Health(workers), health_server.Notifier()
        stopped = threading.Event()
        probes = (
            None if options.health is None else health_server.HealthServer(health, *options.health)
        )
        for one in (signal.SIGINT, signal.SIGTERM):  # before others can see that it is there
            signal.signal(one, lambda _, __: stopped.set())
        asyncio.run(workers.keep())
    workers.start()
    idle = idleness.Idle(workers)
    console.say(f"worker {workers.id} drives up to {options.concurrency} runs at once", "dim")
    if probes is not None:
        console.say(f"probes and metrics at http://{probes.host}:{probes.port}", "dim")
    notifier.tell("READY=1")
    while not stopped.wait(
        hosted_workers.POLL if options.until_idle else notifier.every or hosted_workers.AGAIN
    ):
        # a signal that another thread got is handled when this one wakes up
        if notifier.every is not None and health.alive().ok:
            notifier.tell("WATCHDOG=1")
        if options.until_idle and idle.reached():
            break
    notifier.tell("STOPPING=1")
    going = say_count(len(workers.driven), "run")
    console.say(f"claims no more; {going} may end a step, within {options.grace:g} s", "dim")
    workers.stop()
    if probes is not None:
        probes.close()
    console.say(f"{say_count(workers.finished.total(), 'run')} finished here", "dim")
    left = [*idle.left()] if options.until_idle and not stopped.is_set() else []
    for line in left:
        console.say(line, "yellow")
    return LIMIT if left else OK
