"""`chartloop record`: write a recorded run as a scenario for tests."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chartloop import catalog
from chartloop.cli import console, parameters
from chartloop.cli.error_report import ERROR, OK
from chartloop.cli.journal_access import find_run, machine_of, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import locate, seen_machine
from chartloop.cli.options import RunOptions, option, pass_options
from chartloop.cli.printing import say_lines
from chartloop.core.errors import MachineChangedError, RunError, SetupError

with at_first_use(__name__):
    from chartloop.api import stored_run
    from chartloop.run import recorded, sync
    from chartloop.scenarios import runner
    from chartloop.scenarios.recorder import record as recording

if TYPE_CHECKING:
    from chartloop.run.journal import RunRow
    from chartloop.scenarios.recorder.record import Recording


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RecordOptions(RunOptions):
    """The options of `record`."""

    output: str | None = option(
        "-o",
        "--output",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="The scenario file: NAME.scenario.yaml. Default: stdout.",
    )
    file: str | None = option(
        "--machine",
        metavar="FILE",
        help="The machine file that the scenario names. Default: the file that the run was started"
        " with.",
    )
    redact: tuple[str, ...] = option(
        "--redact",
        multiple=True,
        metavar="PATTERN",
        help="Hide text that matches this regular expression, in addition to secrets. Repeatable.",
    )
    force: bool = option("--force", is_flag=True, help="Overwrite an existing file.")


@click.command(
    epilog="""\b
Examples:
  chartloop record last -o tests/refund.scenario.yaml
  chartloop record 3kf --machine machine.yaml --redact '[\\w.]+@[\\w.]+'
  chartloop record last > order.scenario.yaml

\b
Before the scenario is written it is played, and each decision is compared with the run. What a
scenario cannot express is reported, with the first record that differs; the exit code is then 1.
Secrets are hidden as in journals. `requests` holds the requests to the model: a machine that sends
different ones fails the scenario, and the report shows the nearest request.
"""
)
@parameters.run_argument
@parameters.options_of(RecordOptions)
@parameters.tools_option
@parameters.journal_option
@parameters.format_option()
@pass_options(RecordOptions)
def record(run: str, options: RecordOptions) -> None:  # fmt: skip
    """Write a scenario that plays what a recorded run did."""
    _refuse_to_lose(options.output, force=options.force)
    journal = open_journal(options)
    row = find_run(journal, run)
    found = sync.by_hand(recorded.read_run(journal, row))
    if isinstance(found, recorded.Unread):
        raise RunError(f"run `{row.run_id}` cannot be recorded: {found.why}")
    machine = machine_of(journal, row, options)
    source = (
        options.file
        or stored_run.recall_start(journal, row).get("machine")
        or _shipped_machine(row)
    )
    named = _machine_name(
        source, row, options, Path(options.output).parent if options.output else Path()
    )
    made = recording.recording(
        found,
        machine,
        named=named,
        journal=journal,
        redact=options.redact,
    )
    if options.output is not None:
        made.save(options.output)
    _report(made, options.output, options)
    raise click.exceptions.Exit(OK if made.same else ERROR)


def _refuse_to_lose(output: str | None, *, force: bool) -> None:
    if output is None:
        return
    if not output.endswith(runner.SUFFIX):
        message = f"`{console.plain(output)}` would not be found as a scenario"
        raise click.UsageError(f"{message}: end its name with {runner.SUFFIX}")
    if Path(output).exists() and not force:
        raise SetupError(f"`{output}` exists already", hint="--force overwrites it")


def _shipped_machine(row: RunRow) -> str:
    """The name of the shipped machine of a run whose journal names no machine file."""
    if row.machine not in catalog.shipped_machines():
        message = f"the journal does not say from which file run `{row.run_id}` was started"
        raise SetupError(message, hint="name the file of its machine: --machine FILE")
    return row.machine


def _machine_name(source: str, row: RunRow, options: RunOptions, folder: Path) -> str:
    """The machine as the scenario names it. `MachineChangedError` if the file has changed."""
    path = locate(source)
    if seen_machine(str(path), options).hash != row.machine_hash:
        raise MachineChangedError(
            f"`{console.plain(source)}` is not the machine"
            f" that run `{row.run_id}` was started with",
            hint="a scenario plays the file as it is: give one that is the same with --machine,"
            " or record a run of this one",
        )
    shipped = {where.resolve(): name for name, where in catalog.shipped_machines().items()}
    return shipped.get(path.resolve()) or Path(os.path.relpath(path, folder)).as_posix()


def _report(made: Recording, output: str | None, options: RunOptions) -> None:
    if options.is_json:
        console.result(console.as_json({**made.to_dict(), "file": output}))
        return
    if output is None:
        console.result(made.text.rstrip("\n"))
    say_lines(made.lines())
    if output is not None:
        tools = "".join(f" --tools {shlex.quote(source)}" for source in options.tools)
        console.say(f"play it with:  chartloop test {output}{tools}")
