"""The table of commands, their help, and the handling of errors.

A command's module is imported when the command is called. The table holds the lines that
``chartloop --help`` shows, so that help imports no command; a test checks them against the modules.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Any, NamedTuple

import click

from chartloop.cli import console
from chartloop.cli.error_report import ERROR, INTERRUPTED, PIPE, say_error, say_fault
from chartloop.cli.options import common_options, keep_common
from chartloop.core.errors import ChartloopError, nearest


class Entry(NamedTuple):
    """One command with a line of description. Its module in `commands` has its name."""

    name: str
    about: str


SECTIONS: tuple[tuple[str, tuple[Entry, ...]], ...] = (
    ("Getting started", (
        Entry("new", "Write a folder with your own machine, tool and test."),
        Entry("info", "List what machine files can use: machines, actions, facts, schema."),
        Entry("doctor", "Check the installation and say how to fix what is missing."),
    )),
    ("Machines", (
        Entry("tools", "Lock the tools that the MCP servers of a machine offer."),
        Entry("check", "Find every mistake of a machine file, before anything runs."),
        Entry("bound", "Show what a run of a machine can cost at worst, before it runs."),
        Entry("query", "Ask which paths a run of a machine can take, and which never."),
        Entry("draw", "Draw a machine as a flowchart."),
        Entry("test", "Run scenarios: scripted runs with expectations."),
    )),
    ("Changes and documents", (
        Entry("diff", "Show what differs between two machines, in words and pictures."),
        Entry("review", "Write one comment on every machine that a change touches."),
        Entry("import", "Write the skeleton of a machine that has the shape of a chart."),
        Entry("verify", "Compare a machine with the chart of a document."),
    )),
    ("Runs", (
        Entry("run", "Run a machine, once or over a file of tasks."),
        Entry("chat", "Talk with a machine: message by message, replies as they arrive."),
        Entry("step", "Run a machine by hand, step by step."),
        Entry("resume", "Continue an interrupted, paused or answered run."),
        Entry("answer", "Answer the question of a waiting run."),
        Entry("link", "Make a link that lets one person answer the question of a run, once."),
        Entry("enqueue", "Add tasks at the end of the queue of a run."),
        Entry("pause", "Ask a run to pause before its next action."),
        Entry("cancel", "Ask a run to stop before its next action."),
        Entry("submit", "Start runs that workers drive, one or one for each line of a file."),
        Entry("schedule", "Start runs at given times, by workers."),
        Entry("worker", "Drive the runs of a journal that are due, until SIGTERM."),
        Entry("limits", "List, set and remove what the runs of a journal may spend together."),
        Entry("serve", "Serve machines and runs over HTTP."),
        Entry("mcp", "Offer machines as tools to other agents, over the Model Context Protocol."),
    )),
    ("Inspect and analyse", (
        Entry("runs", "List and remove recorded runs."),
        Entry("journal", "Migrate, export, import and prune a journal."),
        Entry("show", "Show a run: its result, its records, its path."),
        Entry("why", "Show why a run took its path."),
        Entry("retry", "Try runs that failed again, from where they failed."),
        Entry("fork", "Start a new run from a record of an old one."),
        Entry("coverage", "Show which parts of a machine its runs have covered."),
        Entry("replay", "Decide the records of a run again, and compare."),
        Entry("stats", "Show what recorded runs have in common."),
        Entry("whatif", "Show what recorded runs would have done under different limits."),
        Entry("upgrade", "Show which recorded runs can continue with a changed file."),
        Entry("record", "Write a scenario that plays what a recorded run did."),
    )),
)  # fmt: skip

COMMANDS = {entry.name: entry for _, entries in SECTIONS for entry in entries}

EPILOG = """\b
Try it, with no key and no network:
  chartloop new hello && cd hello
  chartloop run machine.yaml "How long is this?" --tools tools.py --script replies.yaml

\b
Exit codes: 0 natural end, 1 error, 2 nothing was started: the command line is wrong, or what it
names (a file, a port, a key, an extra, the journal), 3 stopped by a limit, 4 waits for a person,
5 cancelled, or not answered in time, 6 another process drives the run, 130 Ctrl-C, SIGTERM or
SIGHUP.

\b
Completion of commands, machines, runs and states, for bash (zsh and fish alike):
  eval "$(_CHARTLOOP_COMPLETE=bash_source chartloop)"
"""


class ReaderGone(Exception):
    """The reader of stdout has closed the pipe, as `head` does after its lines."""


class App(click.Group):
    """The group of all commands; each is imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        name = f"{entry.name}_" if iskeyword(entry.name) else entry.name
        return getattr(import_module(f"chartloop.cli.commands.{name}"), name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = nearest(args[0], COMMANDS, otherwise="`chartloop --help` lists them")
            ctx.fail(f"there is no command `{console.plain(args[0])}`: {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(len(name) for name in COMMANDS)
        for title, entries in SECTIONS:
            with formatter.section(title):
                formatter.write_dl([(e.name.ljust(longest), e.about) for e in entries])

    # both convert a broken pipe before click does, which would exit with its own code

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        try:
            return super().make_context(*args, **more)
        except BrokenPipeError as error:
            raise ReaderGone from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error

    def main(self, args: Sequence[str] | None = None, *rest: Any, **more: Any) -> Any:
        """Run a command, report its error, and exit with the code that the help documents."""
        standalone = more.pop("standalone_mode", True)
        console.fit_streams()
        # kept open in a process of our own, which prints its last lines through them
        console.open_doors()
        try:
            code = _run_guarded(
                lambda: super(App, self).main(args, *rest, standalone_mode=False, **more)
            )
        finally:
            if not standalone:
                console.close_doors()
        if standalone:
            sys.exit(code)
        return code


def _run_guarded(work: Any) -> int:
    try:
        code = work()
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except (ReaderGone, BrokenPipeError):
        null = os.open(os.devnull, os.O_WRONLY)  # for what is buffered
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return PIPE
    except ChartloopError as error:
        return say_error(error)
    except OSError as error:
        console.say(
            f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        )
        return ERROR
    except Exception as error:  # noqa: BLE001  the last resort: an internal error is reported without a traceback
        return say_fault(error)


@click.group(
    cls=App, epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=False, no_args_is_help=True,
)  # fmt: skip
@common_options
@click.version_option(package_name="chartloop", message="chartloop %(version)s")
@click.pass_context
def app(ctx: click.Context, **common: Any) -> None:
    """LLM agents as explicit state machines.

    Write a machine in YAML; check it, draw it, run it, and ask why it stopped. Most
    commands take --tools, --plugin, --journal and --format, before or after their own name.
    """
    keep_common(ctx, common)
