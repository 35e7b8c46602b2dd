"""Runs built from command-line options: their model, clock, script and notifier."""

from __future__ import annotations

import getpass
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from chartloop.adapters.notify.log import LogNotifier
from chartloop.cli import IS_PROGRAM, console
from chartloop.cli.journal_access import find_run, name_of, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import own_of, tasks_of
from chartloop.cli.value_options import figures_of, values_of
from chartloop.run.requests import start_order
from chartloop.testing.clock import ManualClock

with at_first_use(__name__):
    from chartloop.adapters import clock as clocks
    from chartloop.adapters.model import scripted
    from chartloop.adapters.notify import webhook
    from chartloop.adapters.tracer import otel, sdk
    from chartloop.api import wiring
    from chartloop.cli import script as scripts
    from chartloop.hosting import begin as beginning
    from chartloop.hosting import machines, own_processes, settings
    from chartloop.hosting import runs as hosted_runs
    from chartloop.hosting import workers as hosted_workers
    from chartloop.run import journal as journals
    from chartloop.run import sync

if TYPE_CHECKING:
    from chartloop.api import Machine, PortOptions, Run
    from chartloop.cli.inputs import Job
    from chartloop.cli.options import RunOptions
    from chartloop.cli.script import Script
    from chartloop.cli.server_options import ServerOptions
    from chartloop.language.spec import MachineSpec
    from chartloop.run.journal import Journal
    from chartloop.run.ports import Cancel, Clock, Notifier
    from chartloop.run.tracing import Tracer


def clock_of(options: RunOptions, *, not_before: float = 0.0) -> Clock:
    """The clock of `--clock`. A simulated one starts now, or at `not_before` if that is later."""
    if options.clock == "simulated":
        return ManualClock(max(time.time(), not_before))
    return clocks.SystemClock()


def script_of(options: RunOptions) -> Script | None:
    """The script of `--script`; None without the option."""
    if options.script is None:
        return None
    if options.model or options.api_base:
        raise click.UsageError("--script takes the place of a model: leave --model and --api-base")
    return scripts.read_script(options.script)


def start(
    machine: Machine, task: str | Sequence[Any], options: RunOptions,
    journal: Callable[[], Journal], *,
    cancel: Cancel | None = None, script: Script | None = None, continues: Run | None = None,
    more: Mapping[str, Any] | None = None,
) -> Run:  # fmt: skip
    """Start a run. `more` holds what overrides the options: limits, variables, components.

    The journal is opened last, so that a run that cannot start (a missing key, say) creates no
    file.
    """
    clock, more = clock_of(options), more or {}
    own = more.get("components", {})
    if not own:
        _announce(machine, script)
    run = machine.start(
        task, **{**_components(options, script, clock), **own}, clock=clock, cancel=cancel,
        run_id=options.run_id, if_exists=options.if_exists or "refuse", continues=continues,
        branch=options.branch,
        **start_values(machine, options, more),
    )  # fmt: skip
    opened = journal()
    # as in `Machine.start`: on an event loop the appends of one tick share a transaction
    run.session.journal = getattr(opened, "grouped", opened) if run.suspends else opened
    run.session.holder.face = _face()
    return run


def start_values(
    machine: Machine, options: RunOptions, more: Mapping[str, Any]
) -> dict[str, Any]:  # fmt: skip
    """What the options start a run with, as JSON data. `more` overrides limits and variables."""
    spec = machine.spec
    limits = values_of({n: x.type for n, x in spec.limits.items()}, options.limit)
    variables = values_of({n: v.type for n, v in spec.vars.items()}, options.var)
    return {
        "limits": {**limits, **more.get("limits", {})},
        "vars": {**variables, **more.get("vars", {})},
        "memory": dict(options.memory), "tasks": tasks_of(spec, options),
        "agent": options.agent, "session": options.session,
        "submitter": own_name(spec, options.submitter), "tenant": options.tenant,
        "priority": options.priority,
        "require_bound": figures_of(options.required) if options.required else None,
    }  # fmt: skip


def submit_run(machine: Machine, job: Job, options: RunOptions, journal: Journal) -> bool:
    """Start the run that the options name, and make it due. False if it was submitted before.

    Both have the run's key: what a crash in between left undone is done by a repetition.
    """
    never = {"model": scripted.Scripted([])}  # a worker has the model, and its key
    more = {"limits": job.limits, "vars": job.vars, "components": never}

    def begin() -> None:
        own = replace(options, if_exists="refuse")  # it is never driven on from here
        run = start(machine, job.task, own, lambda: journal, more=more)
        run.advance()
        hosted_runs.release(run)

    begun = beginning.begin_once(journal, str(options.run_id), begin)
    if not begun and options.if_exists == "refuse":
        raise journals.duplicate_run_error(str(options.run_id))
    row = find_run(journal, str(options.run_id))
    order = start_order(row.run_id, sync.by_hand(journal.now()), machines.needs_of(journal, row))
    return sync.by_hand(journal.place_request(order)) is order


def own_name(spec: MachineSpec, given: str | None) -> str:
    """Who submits a run or makes a link; the process's user where a gate depends on it."""
    if given is not None or not spec.needs_submitter:
        return given or ""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return ""


def _face() -> str:
    """The name of this program, for the error of a process that wants to drive the same run."""
    context = click.get_current_context(silent=True)
    return f"chartloop {context.info_name}" if context is not None else "chartloop"


def go_on(
    machine: Machine, run_id: str, options: RunOptions, journal: Journal, *,
    cancel: Cancel | None = None, script: Script | None = None, not_before: float = 0.0,
) -> Run:  # fmt: skip
    """Open a run of the journal to drive it."""
    _announce(machine, script)
    clock = clock_of(options, not_before=not_before)
    components = _components(options, script, clock)
    run = machine.open(
        run_id,
        journal=journal,
        clock=clock,
        cancel=cancel,
        take_over=options.take_over,
        **components,
    )
    run.session.holder.face = _face()
    return run


def components_of(options: RunOptions) -> PortOptions:
    """The components of every run of a server. Each run plays the script from its first reply."""
    if options.clock != "system":
        raise click.UsageError("a server has the clock of the system: leave --clock out")
    script = script_of(options)
    if script is not None and script.events:
        raise click.UsageError("a server's script has replies only: leave its `events` out")
    components = _components(options, None, clock_of(options))
    if script is not None:
        components["script"] = script.replies
    return cast("PortOptions", components)


def server_settings(
    options: ServerOptions, *, host: str = "127.0.0.1", port: int = 0,
    face: str = "chartloop serve", concurrency: int | None = None,
) -> settings.Settings:  # fmt: skip
    """The settings of an HTTP or MCP server, or of a worker with a `concurrency`.

    Opens its journal. In a process that was started to drive one run, drives it and raises `Exit`.
    """
    apart = os.environ.pop(own_processes.APART, "")
    if options.ask_to and not options.notify:
        raise click.UsageError("--ask-to goes with --notify URL, where its links are posted")
    journal = open_journal(options, make=True)
    if not apart:
        console.say(f"journal {name_of(journal)}", "dim")
    is_program = click.get_current_context().obj == IS_PROGRAM
    made = settings.Settings(
        machines=tuple(Path(folder) for folder in options.machines),
        journal=journal,
        tools=own_of(options),
        components=components_of(options),
        workers=1 if apart else options.workers,
        grace=options.grace,
        serves=concurrency is None,
        limits=settings.Limits() if concurrency is None else settings.Limits(at_once=concurrency),
        command=own_processes.own_command() if is_program else (),
        trust=options.trust,
        tokens=() if options.token_file is None else settings.read_tokens(Path(options.token_file)),
        host=host,
        port=port,
        names=options.names,
        proxies=options.proxies,
        url=options.url,
        ask_to=options.ask_to,
        face=face,
    )
    if apart:
        runs = hosted_runs.Runs(made, journal, machines.Machines(made, journal))
        alone = hosted_workers.Workers(runs, lambda _, __: None, only_one=apart)
        raise click.exceptions.Exit(alone.drive_one())
    return made


def _announce(machine: Machine, script: Script | None) -> None:
    """Print a note before litellm is imported, which takes a few seconds."""
    real = script is None and "model" in wiring.uses_of(machine.spec)
    if real and "litellm" not in sys.modules and console.is_terminal(sys.stderr):
        console.say("loading litellm ...", "dim")


def _components(options: RunOptions, script: Script | None, clock: Clock) -> dict[str, Any]:
    """The model, notifier and tracer that the options name."""
    components: dict[str, Any] = {"notifier": _notifier(options)}
    if script is not None:
        components["script"] = script.model(clock)
    else:
        components["model"] = options.model
        components["settings"] = {"api_base": options.api_base} if options.api_base else None
    if click.BOOL(os.environ.get("CHARTLOOP_OTEL") or "no"):
        components["tracer"] = _tracer()
    return {name: value for name, value in components.items() if value}


_TRACER = "chartloop.tracer"
"""The key of the command's tracer in click's `meta`: all runs of a command share one."""


def _tracer() -> Tracer:
    """The tracer of this command. It is flushed when the command ends, for at most `AT_EXIT` s."""
    context = click.get_current_context()
    if _TRACER not in context.meta:
        sdk.configure()
        tracer = context.meta[_TRACER] = otel.OpenTelemetry()

        def finish() -> None:
            if not tracer.flush(otel.AT_EXIT):
                message = f"telemetry: not everything was exported within {otel.AT_EXIT:.0f} s"
                console.say(message, "yellow")

        context.call_on_close(finish)
    return context.meta[_TRACER]


class TerminalNotifier:
    """A notifier that logs each notice and prints it on stderr."""

    suspends = False

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        """Print it."""
        await LogNotifier().notify(text, data)
        console.say(f"notice: {console.plain(text)}")


def _notifier(options: RunOptions) -> Notifier:
    """The webhook of `--notify`, else the terminal."""
    if options.notify is None:
        return TerminalNotifier()
    variable = "CHARTLOOP_NOTIFY_SECRET"
    secret_env = variable if os.environ.get(variable) else ""
    return webhook.WebhookNotifier(options.notify, secret_env=secret_env)
