"""`chartloop run --inputs`: many runs of one machine at once, with their total.

No new run is started once the total budget is spent; running ones finish. The runs share one
journal and one event loop, and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TextIO

import click

from chartloop.cli import console, costs
from chartloop.cli.error_report import (
    BY_KIND,
    ERROR,
    HUMAN,
    INTERRUPTED,
    LIMIT,
    OK,
    WAITING,
)
from chartloop.cli.inputs import Job, Totals, read_jobs, read_totals, sum_spending
from chartloop.cli.journal_access import open_journal, say_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import load_machine
from chartloop.cli.printing import Line, Row, print_lines, print_table
from chartloop.cli.progress_bar import BatchProgress
from chartloop.core.errors import ChartloopError
from chartloop.core.units import say_count, say_number
from chartloop.ui.view_model.text import last_failure

with at_first_use(__name__):
    from chartloop.cli import drive, run_factory
    from chartloop.run import sync

if TYPE_CHECKING:
    from chartloop.api import Machine, Run
    from chartloop.cli.drive import Interrupts
    from chartloop.cli.options import RunCommandOptions, RunOptions
    from chartloop.cli.script import Script
    from chartloop.run.journal import Journal

_HEAD = ("line", "run", "kind", "reason", "steps", "tokens", "cost", "output")
_WORST_FIRST = (ERROR, LIMIT, WAITING, HUMAN)
_COLOURS = {"natural": "green", "error": "red", "limit": "yellow", "waiting": "cyan"}


@dataclass
class Done:
    """One line of the file with its run, or the error that prevented the run."""

    job: Job
    run: Run | None = None
    error: ChartloopError | None = None

    @property
    def kind(self) -> str:
        """The kind of the run's result; `error` if it could not run."""
        return "error" if self.error is not None or self.run is None else self.run.result.kind

    def to_dict(self) -> dict[str, Any]:
        """The result of the run as plain data, with its line and task."""
        data: dict[str, Any] = {"line": self.job.line, "task": self.job.task}
        if self.run is not None and self.run.session.head:
            data |= self.run.result.to_dict()
        return data | ({"error": self.error.message} if self.error is not None else {})


@dataclass
class Batch:
    """The runs of one file and their progress."""

    machine: Machine
    options: RunCommandOptions
    journal: Callable[[], Journal]
    """Returns the journal, which is opened for the first run that can start."""
    jobs: Sequence[Job]
    bounds: Totals
    script: Script | None
    interrupts: Interrupts
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    """The stream for results; `sys.stdout` is redirected to stderr while runs are driven."""
    started: list[Done] = field(default_factory=list[Done])
    finished: int = 0
    begun: float = field(default_factory=time.monotonic)
    unread: bool = False
    """Whether the reader of the results has closed the pipe."""

    def totals(self) -> Totals:
        """The spending of all runs so far, including those still running."""
        return sum_spending(d.run.facts for d in self.started if d.run is not None)

    @property
    def unstarted_jobs(self) -> Sequence[Job]:
        """The jobs that were not started."""
        return self.jobs[len(self.started) :]

    def next(self) -> Done | None:
        """Take the next job. None when none is left, a total is reached or the batch is stopped."""
        stopped = self.interrupts.count or self.unread or not self.unstarted_jobs
        if stopped or self.totals().limits_reached(self.bounds):
            return None
        done = Done(self.unstarted_jobs[0])
        self.started.append(done)
        return done

    async def work(self) -> None:
        """Run jobs one after another, until `next` gives none."""
        while (done := self.next()) is not None:
            try:
                job = done.job
                more = {"limits": job.limits, "vars": job.vars}
                done.run = run_factory.start(
                    self.machine, job.task, self.options, self.journal, cancel=self.interrupts,
                    script=self.script, more=more,
                )  # fmt: skip
                # no one watches a single run of a batch
                done.run.session.ports.questions = "decline"
                await done.run.arun()
            except ChartloopError as error:
                done.error = error
            self.finished += 1
            try:
                self._say(done)
            except BrokenPipeError:
                self.unread = True
                # no one reads the results of the runs in progress, and they would cost money
                for going in self.started:
                    if going.run is not None and not going.run.ended:
                        with contextlib.suppress(ChartloopError):
                            await going.run.apause()

    def _say(self, done: Done) -> None:
        if self.options.format == "jsonl":
            line = console.as_json({"event": "result", **done.to_dict()}, indent=None)
            console.result(line, self.stdout)
            self.stdout.flush()
        if self.options.verbose:
            cause = done.error.message if done.error is not None else done.kind
            console.say(console.plain(f"line {done.job.line}: {cause}"))
        elif console.is_terminal(sys.stderr):
            totals, running = self.totals(), len(self.started) - self.finished
            ended = [done for done in self.started if done.error or (done.run and done.run.ended)]
            progress = BatchProgress(
                self.finished, len(self.jobs), running,
                sum(done.kind == "error" for done in ended), int(totals.tokens or 0), totals.cost,
                time.monotonic() - self.begun,
            )  # fmt: skip
            console.repaint(progress.line((console.columns(sys.stderr) or 80) - 1))


def run_all(source: str, options: RunCommandOptions) -> int:
    """Run every line of the file, print the results and return the exit code."""
    if options.run_id:
        raise click.UsageError("--run-id names one run: leave it out with --inputs")
    bounds, jobs = read_totals(options.totals), read_jobs(str(options.inputs))
    machine, script = load_machine(source, options), run_factory.script_of(options)
    if script is not None and script.events:
        raise click.UsageError("a script with `events` belongs to one run: leave --inputs")
    interrupts, opened = drive.Interrupts(), cache(partial(_shared_journal, options))
    batch = Batch(
        machine, replace(options, no_input=True), opened, jobs, bounds, script, interrupts
    )
    try:
        with interrupts, contextlib.redirect_stdout(sys.stderr):
            sync.wait(_all(batch, options.concurrency), suspends=True)
    except KeyboardInterrupt:
        _leave_now(batch)
    if console.is_terminal(sys.stderr) and not options.verbose:
        console.repaint("")
    _print(batch)
    if opened.cache_info().currsize:
        say_journal(opened())
    return _exit_code(batch)


def _shared_journal(options: RunOptions) -> Journal:
    """Open a journal for many runs on one event loop: appends of a tick share a transaction."""
    journal = open_journal(options, make=True)
    return getattr(journal, "grouped", journal)


async def _all(batch: Batch, concurrency: int) -> None:
    import anyio  # noqa: PLC0415  asyncio comes with it

    async with anyio.create_task_group() as group:
        for _ in range(min(concurrency, len(batch.jobs))):
            group.start_soon(batch.work)


def _leave_now(batch: Batch) -> None:
    """End the process at once; see `drive.leave_now`."""
    going = [d.run.id for d in batch.started if d.run is not None and not d.run.ended]
    runs = say_count(len(going), "run")
    console.say(f"\nstopped in the middle of {runs}; what is recorded is kept")
    for run_id in going[:5]:
        console.say(f"  chartloop resume {run_id}")
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(INTERRUPTED)


def _print(batch: Batch) -> None:
    total, limits_reached = batch.totals(), batch.totals().limits_reached(batch.bounds)
    data = {
        "started": len(batch.started), "not_started": [job.line for job in batch.unstarted_jobs],
        "total": total._asdict(), "reached": limits_reached if batch.unstarted_jobs else [],
    }  # fmt: skip
    match batch.options.format:
        case "json":
            console.result(console.as_json({**data, "runs": [d.to_dict() for d in batch.started]}))
        case "jsonl":
            console.result(console.as_json({"event": "total", **data}, indent=None))
        case _:
            rows = [_row(done) for done in batch.started]
            print_table(rows, _HEAD, right={0, 4, 5, 6})
            print_lines([Line(""), Line(_summary(batch, total))])
    if batch.unstarted_jobs and limits_reached:
        lines = say_count(len(batch.unstarted_jobs), "line")
        console.say(
            f"{lines} not started: the total of {', '.join(limits_reached)} is spent", "yellow"
        )
    if batch.bounds.cost is not None and total.cost is None:
        console.say(
            "the total cost could not be enforced: the model's price is not known", "yellow"
        )


def _summary(batch: Batch, total: Totals) -> str:
    kinds = [d.kind for d in batch.started]
    counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in BY_KIND if kind in kinds)
    cost = "cost unknown" if total.cost is None else costs.say_cost(total.cost)
    steps, tokens = int(total.steps or 0), int(total.tokens or 0)
    used = f"{say_count(steps, 'step')}, {say_count(tokens, 'token')}, {cost}"
    return f"{len(kinds)} of {len(batch.jobs)} run: {counted or 'none'}; {used}"


def _row(done: Done) -> Row:
    line, colour = str(done.job.line), _COLOURS.get(done.kind, "")
    if done.run is None or done.error is not None:
        cause = done.error.message if done.error is not None else ""
        name = done.run.id if done.run is not None else ""
        return Row((line, name, "error", "", "", "", "", _first_line(cause)), colour)
    result = done.run.result
    usage = result.facts.usage
    cost = "?" if usage.cost is None else costs.say_cost(usage.cost)
    output = result.output
    if output is not None and not isinstance(output, str):
        output = console.as_json(output, indent=None)
    failure = last_failure(result)
    cause = failure["message"] if failure is not None else result.question or (output or "")
    return Row(
        (
            line, done.run.id, result.kind, str(result.reason or result.state), str(result.steps),
            say_number(usage.total_tokens), cost, _first_line(cause),
        ),
        colour,
    )  # fmt: skip


def _first_line(text: str) -> str:
    first = text.strip().split("\n")[0]
    return first if len(first) <= 60 else first[:59] + "…"


def _exit_code(batch: Batch) -> int:
    """The worst exit code: an error, then a limit (also the total), a wait, a cancel."""
    if batch.interrupts.count:
        return INTERRUPTED
    codes = {BY_KIND[d.kind] for d in batch.started} | (
        {LIMIT} if batch.unstarted_jobs else set[int]()
    )
    return next((code for code in _WORST_FIRST if code in codes), OK)
