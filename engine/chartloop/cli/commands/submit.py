"""`chartloop submit`: start runs that workers drive."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from chartloop.cli import console, parameters
from chartloop.cli.error_report import MisuseError
from chartloop.cli.journal_access import open_journal, say_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import load_machine
from chartloop.cli.options import RunOptions, option, pass_options
from chartloop.cli.progress_bar import progress_bar
from chartloop.core.units import say_count
from chartloop.run.requests import StoredRequest
from chartloop.run.tenants import in_tenant

with at_first_use(__name__):
    from chartloop.cli import inputs as task_inputs
    from chartloop.cli import run_factory
    from chartloop.run import lease as leases
    from chartloop.run import sync

if TYPE_CHECKING:
    from chartloop.cli.inputs import Job
    from chartloop.run.journal import Journal


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SubmitOptions(RunOptions):
    """The options of `submit`."""

    inputs: str | None = option(
        "--inputs",
        type=click.Path(exists=True, dir_okay=False, allow_dash=True),
        metavar="FILE.jsonl",
        help="Submit a run for each line of a file; - is stdin.",
    )
    key: str = option(
        "--key",
        metavar="TEXT",
        default="",
        help="Names this submit: repeated with the same lines, it submits what is missing.",
    )


@click.command(
    epilog="""\b
Examples:
  chartloop submit machine.yaml "Sum 1 to 10." --tools tools.py
  chartloop submit machine.yaml --inputs tasks.jsonl --key monday
  chartloop submit machine.yaml "Now." --priority 1

\b
Each run is recorded, and due: a worker takes it up, `chartloop worker`. A submit that is repeated
with the same machine, lines and key submits nothing twice, and what is missing after a crash.
"""
)
@parameters.machine_argument
@click.argument("task", default="", required=False)
@parameters.options_of(SubmitOptions)
@parameters.tools_option
@parameters.value_options
@parameters.define_option
@parameters.trust_option
@parameters.journal_option
@parameters.name_options
@parameters.priority_option
@parameters.options_of(SubmitOptions, "if_exists")
@parameters.require_option("--require-bound")
@parameters.format_option()
@pass_options(SubmitOptions)
def submit(machine: str, task: str, options: SubmitOptions) -> None:
    """Start runs that workers drive, one or one for each line of a file.

    MACHINE is a file or the name of a shipped machine. TASK is the text of the task.
    """
    if options.inputs is not None and (task or options.run_id):
        raise click.UsageError("--inputs holds the tasks: leave TASK and --run-id out")
    loaded = load_machine(machine, options)
    jobs = (
        [task_inputs.Job(1, task)]
        if options.inputs is None
        else task_inputs.read_jobs(options.inputs)
    )
    journal = open_journal(options, make=True)
    ids, new = list[str](), 0
    with progress_bar("submitting", len(jobs)) as advance:
        for job in jobs:
            name = options.run_id or _run_id(loaded.hash, job, options.key)
            run_id = in_tenant(options.tenant, name)
            if options.key and not options.run_id:
                named = (options.tenant, loaded.name, options.key, job.line)
                sync.by_hand(_claim(journal, named, run_id))
            each = replace(options, run_id=run_id, if_exists=options.if_exists or "use")
            new += run_factory.submit_run(loaded, job, each, journal)
            ids.append(run_id)
            advance()
    marked, warning = sync.by_hand(journal.restored()) if new else 0.0, ""
    if marked:
        warning = (
            f"{leases.say_restored(marked)}: {'it' if new == 1 else 'they'} may have been "
            "submitted before; `chartloop journal migrate --go-on` says that clients may repeat"
        )
    if options.is_json:
        more = {"warnings": [warning]} if warning else {}
        console.result(console.as_json({"submitted": new, "runs": ids, **more}))
        return
    known = len(ids) - new
    again = f", {known} submitted before" if known else ""
    console.say(f"{say_count(new, 'run')} submitted{again}")
    if known and options.run_id:
        console.say("that id is taken: choose another --run-id for a new run", "yellow")
    elif known:
        given = f"another --key than `{options.key}`" if options.key else "`--key TEXT`"
        what = "the same task" if len(ids) == 1 else "the same tasks"
        console.say(console.plain(f"with {given} {what} would be submitted again"), "yellow")
    if warning:
        console.say(warning, "yellow")
    if not sync.by_hand(journal.workers()):
        console.say("no worker is there: `chartloop worker` drives them", "yellow")
    say_journal(journal)


async def _claim(
    journal: Journal, named: tuple[str | int | None, ...], run_id: str
) -> None:  # fmt: skip
    """Let a line of this key be that of a run. `MisuseError` if another content came before."""
    text = console.as_json(named, indent=None)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    key = f"submit-{digest[:32]}"
    order = StoredRequest(key, run_id, "submit", run_id, await journal.now(), {}, {})
    kept = await journal.place_request(order)
    if kept.run_id != run_id:
        raise MisuseError(
            f"line {named[-1]} was submitted with this --key before, with another machine or task: "
            f"run `{kept.run_id}`",
            hint="give another --key for another order; a key is repeated with the same lines",
        )


def _run_id(machine: str, job: Job, key: str) -> str:
    """The id of a line's run: the same for the same line, so that it is submitted once."""
    text = console.as_json([machine, key, job._asdict()], indent=None)
    return (
        base64.b32encode(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())[:12]
        .decode()
        .lower()
    )
