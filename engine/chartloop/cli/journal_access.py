"""Access to recorded runs: finding a run by name, and opening it with its own machine.

The machine of a run is its canonical text, which the journal stores by hash. A file that has
changed or gone since does not affect a recorded run.

The first record holds the options of the start, under `cli`, so that `resume` need not repeat them.
Options that could run code or send a key elsewhere must be given again.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from chartloop.cli import console
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import locate, own_of, refuse_untrusted
from chartloop.core.durability import Durability, known_durability
from chartloop.core.errors import (
    SetupError,
    UnknownRunError,
    nearest,
)

with at_first_use(__name__):
    from chartloop.adapters.journal import opening as journal_opening
    from chartloop.adapters.journal import sqlite
    from chartloop.api import plugins as api_plugins
    from chartloop.api import stored_run
    from chartloop.run import journal as journals
    from chartloop.run import redact, sync

if TYPE_CHECKING:
    from chartloop.api import Machine, Run
    from chartloop.cli.options import RunOptions
    from chartloop.core.specs import PluginSpec
    from chartloop.run.journal import Journal, RunRow

LAST = "last"
WAIT = 30.0
"""Seconds that another process may lock the journal."""

# the journal --------------------------------------------------------------------------------


def wanted_durability() -> Durability | None:
    """The value of `CHARTLOOP_DURABILITY`; None for the default. Raises `SetupError`."""
    wanted = os.environ.get("CHARTLOOP_DURABILITY")
    return known_durability(wanted, source="CHARTLOOP_DURABILITY") if wanted else None


R = TypeVar("R", bound="RunOptions")


def open_journal(options: RunOptions, *, make: bool = False) -> Journal:
    """Open the journal of the options. Without `make`, a missing journal is an error."""
    if options.in_memory:
        memory = journals.MemoryJournal()
        memory.redactor = redact.Redactor()
        return memory
    where = journal_at(options.journal)
    plugins: list[PluginSpec] = []
    if options.plugins and "://" in where:
        plugins = [
            plugin for one in api_plugins.load_plugins(options.plugins) for plugin in one.plugins
        ]
    try:
        journal = journal_opening.journal_of(
            where, make=make, durability=wanted_durability(), plugins=plugins, wait=WAIT
        )
    except UnknownRunError as missing:
        hint = _elsewhere(where) or "`chartloop run` makes one; or name another with --journal"
        raise UnknownRunError(missing.message, hint=hint) from None
    close_later(journal)
    return journal


def journal_at(given: str | None) -> str:
    """The journal that a user wrote, a path or a URL, or else the default one's path."""
    return given or display_path(sqlite.default_journal_path(Path.cwd()))


def _elsewhere(name: str) -> str:
    """A hint that names the nearest journal above, if not this one; empty if there is none."""
    others = [o for o in sqlite.journals_above(Path.cwd()) if name not in (display_path(o), str(o))]
    return f"there is one further up: --journal {shlex.quote(str(others[0]))}" if others else ""


def close_later(journal: Journal) -> None:
    """Close the journal when the command ends."""
    if (context := click.get_current_context(silent=True)) is not None:
        context.call_on_close(lambda: sync.by_hand(journal.close()))


def display_path(path: str | Path) -> str:
    """The path relative to the current folder if it is inside, else unchanged."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith(os.pardir) else relative


def name_of(journal: Journal) -> str:
    """The location of the journal for messages: a short path, a URL, or `memory`."""
    return journal.name if journal.path is None else display_path(journal.path)


def find_run(journal: Journal, name: str) -> RunRow:
    """Find a run by id or unique prefix; `last` is the newest. Raises `UnknownRunError`."""
    if name == LAST:
        newest = sync.by_hand(journal.rows(children=False, limit=1))
        if not newest:
            hint = _elsewhere(journal.name)
            raise UnknownRunError(f"there are no runs in {name_of(journal)}", hint=hint)
        return newest[0]
    if (row := sync.by_hand(journal.row(name))) is not None:
        return row
    is_child = journals.CHILD_MARK in name
    matches = sync.by_hand(journal.rows(prefix=name, children=is_child, limit=9)) if name else []
    if len(matches) == 1:
        return matches[0]
    if matches:
        listed = ", ".join(r.run_id for r in matches[:8]) + (" ..." if len(matches) > 8 else "")
        raise UnknownRunError(f"several runs start with `{name}`: {listed}", hint="type more of it")
    known = [r.run_id for r in sync.by_hand(journal.rows(children=is_child, limit=200))]
    listed = _elsewhere(journal.name) or "`chartloop runs` lists them"
    hint = nearest(name, known, otherwise=listed)
    raise UnknownRunError(f"there is no run `{name}` in {name_of(journal)}", hint=hint)


# the machine --------------------------------------------------------------------------------


def machine_of(
    journal: Journal, row: RunRow, options: RunOptions, *, to_run: bool = False
) -> Machine:
    """Load the machine that the run was started with, from the journal.

    Reading a run does not need its own tools, actions and guards, because their results are
    recorded. With `to_run` they are required.
    """
    if not to_run:
        return stored_run.machine_to_read(journal, row, own_of(options))
    begun = stored_run.recall_start(journal, stored_run.top_row(journal, row))
    tools: list[str] = begun.get("tools", [])
    if tools and not options.tools:
        raise SetupError(
            f"run `{row.run_id}` was started with your own tools, which are Python code",
            hint=f"give them again: {' '.join(f'--tools {shlex.quote(t)}' for t in tools)}",
        )
    machine = stored_run.machine_to_drive(journal, row, own_of(options))
    refuse_untrusted(machine, options)
    return machine


# the run ------------------------------------------------------------------------------------


def remember(run: Run, machine: str, options: RunOptions) -> None:
    """Put the options of the start into the first record, before it is written."""
    begun = run.session.begun
    if begun is None:
        return
    kept = {
        "machine": str(locate(machine).absolute()),
        "script": str(Path(options.script).absolute()) if options.script else None,
        "model": options.model, "api_base": options.api_base,
        "tools": [str(Path(t).absolute()) if Path(t).is_file() else t for t in options.tools],
        "clock": options.clock if options.clock != "system" else None,
        "notify": getattr(run.session.ports.notifier, "shown", None),
    }  # fmt: skip
    run.session.begun = stored_run.begun_with(begun, kept)


def as_before(journal: Journal, row: RunRow, options: R) -> R:
    """Complete the options of this call by those that the run was started with.

    Except `--tools`, which runs code, `--api-base`, which receives keys, and `--notify`, whose
    address may be a secret and is not stored.
    """
    before = stored_run.recall_start(journal, stored_run.top_row(journal, row))
    if (webhook := before.get("notify")) and not options.notify:
        console.say(
            f"this run sent its notices to {webhook}; give --notify again, or they are only logged"
        )
    script = options.script
    if not (script or options.model or options.api_base):
        script = before.get("script")
        if script and not Path(script).is_file():
            raise SetupError(f"the script of this run is gone: {script}", hint="give --script FILE")
        if (base := before.get("api_base")) and not script:
            hint = f"give it again: --api-base {shlex.quote(base)}, or another with --model"
            raise SetupError(f"run `{row.run_id}` was started with its own server", hint=hint)
    clock = before.get("clock", options.clock) if options.clock == "system" else options.clock
    return replace(options, script=script, model=options.model or before.get("model"), clock=clock)


def resume_line(journal: Journal, row: RunRow, options: RunOptions) -> str:
    """The command that resumes a recorded run, with the options that must be given again.

    For a child run it names the top run, through which children are resumed.
    """
    row = stored_run.top_row(journal, row)
    before = stored_run.recall_start(journal, row)
    tools: Iterable[str] = options.tools or before.get("tools", ())
    plugins = options.plugins or tuple(api_plugins.recall_plugins(journal, row.run_id))
    base = options.api_base or (None if before.get("script") else before.get("api_base"))
    repeated = replace(
        options, tools=tuple(display_path(t) for t in tools), plugins=plugins, api_base=base
    )
    return line_for("resume", row.run_id, repeated)


def line_for(verb: str, run_id: str, options: RunOptions, *rest: str) -> str:
    """A command line for a run, with the options that must be given again."""
    words = ["chartloop", verb, run_id, *rest]
    if options.journal and not os.environ.get("CHARTLOOP_JOURNAL"):
        words += ["--journal", redact.Redactor().text(options.journal)]
    if verb in ("resume", "retry"):
        for tools in options.tools:
            words += ["--tools", tools]
        for plugin in options.plugins:
            words += ["--plugin", plugin]
        if options.api_base:
            words += ["--api-base", options.api_base]
        words += ["--trust"] if options.trust else []
    return shlex.join(words)


def ago(at: float, now: float) -> str:
    """A timestamp as ``3 min ago``; after a day, as a date."""
    seconds = now - at
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min ago"
    if seconds < 86_400:
        return f"{seconds / 3600:.0f} h ago"
    return moment(at)


def moment(at: float) -> str:
    """A timestamp in local time: ``2026-03-01 14:30``."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def say_journal(journal: Journal, run_id: str = "") -> None:
    """Print the run id and the location of its journal on stderr."""
    where = name_of(journal)
    kept = "kept in memory only" if journal.durability is None else f"journal {where}"
    if journal.durability == "power":
        kept += ", kept through the loss of power"
    console.say(f"run {run_id} · {kept}" if run_id else kept, "dim")
