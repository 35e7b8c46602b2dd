"""A conversation at a terminal: messages, replies as they arrive, questions in their place.

Each message is a run that continues the one before. A machine that asks for its messages itself
keeps one run: what is typed answers its wait. Replies are on stdout, everything else on stderr.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from chartloop.api.caller_values import wants_task
from chartloop.cli import console
from chartloop.cli.ask import read_line, reply, rest_of_paste
from chartloop.cli.drive import Interrupts, drive, tell
from chartloop.cli.error_report import INTERRUPTED, exit_code
from chartloop.cli.journal_access import (
    as_before,
    find_run,
    line_for,
    machine_of,
    open_journal,
    remember,
)
from chartloop.cli.machine_loader import load_machine
from chartloop.cli.prompt import read_edited
from chartloop.cli.run_factory import go_on, script_of, start
from chartloop.cli.views import Quiet
from chartloop.core.approvals import arguments_shown
from chartloop.core.visible import visible_json
from chartloop.run.events import Delta, Event, Recorded
from chartloop.run.record_text import outcome_of
from chartloop.ui.view_model.text import outcome_lines

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.cli.options import RunOptions
    from chartloop.core.records import Record

YOU = "you> "
HOW = "Ctrl-D leaves; Ctrl-C stops a reply, twice at once"


class Transcript(Quiet):
    """A view: the text of replies as it arrives, and a line for each tool call and failure."""

    def __init__(self) -> None:
        self._out = sys.stdout  # while a run is driven, `sys.stdout` is that of its tools
        self._streamed = ""

    def see(self, event: Event) -> None:
        if isinstance(event, Delta):
            self._streamed += event.text
            self._out.write(console.plain(event.text))
            self._out.flush()
        elif isinstance(event, Recorded):
            self._end(event.record)

    def _end(self, record: Record) -> None:
        """End the streamed text, and show what the record has besides."""
        outcome, streamed = record.outcome, self._streamed
        self._streamed = ""
        if streamed and not streamed.endswith("\n"):
            console.result(stream=self._out)
        if outcome is None:
            return
        if outcome.reply is not None:
            text = outcome.reply.text
            if text.strip() and text.strip() != streamed.strip():
                console.result(console.plain(text), self._out)
            self._out.flush()
            for call in outcome.reply.tool_calls:
                given = {"name": call.name, "arguments": call.arguments}
                pairs = arguments_shown(given).items()
                words = ", ".join(f"{name}={visible_json(value)}" for name, value in pairs)
                console.say(f"· {console.plain(f'{call.name}({words})')}", "dim")
        for error in (*outcome.tool_errors, *outcome.denied):
            console.say(f"  {console.plain(error)}", "red")
        if not outcome.ok:
            console.say(f"· {console.plain(outcome_of(record))}", "red")


def converse(source: str, text: str, options: RunOptions, continues: str | None) -> int:
    """Hold a conversation until the user leaves it; return the exit code of its last run."""
    interrupts, script = Interrupts(), script_of(options)
    machine = load_machine(source, options)
    run = None if continues is None else _open(continues, options, interrupts)
    if text and run is not None and not run.ended:
        raise click.UsageError(f"run `{run.id}` waits for an answer: leave MESSAGE out")
    if console.is_terminal(sys.stdin):
        console.say(HOW, "dim")
    code, takes_task, first = 0, wants_task(machine.spec, machine.canonical()), True
    while True:
        if run is None or run.ended:
            if not text and (takes_task or not first):
                text = read_message() if takes_task else ""
                if not text:
                    break
            own = options if run is None else replace(options, var=(), memory=(), tasks=None)
            own = own if first else replace(own, run_id=None, branch=False)
            run = start(
                machine, text, own, partial(open_journal, options, make=True),
                cancel=interrupts, script=script, continues=run,
            )  # fmt: skip
            remember(run, source, options)
        interrupts.count, text, first = 0, "", False
        drive(run, options, interrupts, script, view=Transcript(), ask=reply)
        if not run.ended:
            return tell(run, options, interrupts)
        _show_end(run)
        code = INTERRUPTED if interrupts.count else exit_code(run.result)
        if script is not None:
            used = run.facts.usage.llm_calls + run.session.tally.failed_calls
            script.replies = script.replies[used:]
    if run is not None and not options.in_memory:
        console.say(f"continue with:  {line_for('chat', source, options, '--continue', run.id)}")
    return code


def _open(id: str, options: RunOptions, interrupts: Interrupts) -> Run:
    """The run of a conversation that goes on: one that has ended, or that waits."""
    journal = open_journal(options)
    row = find_run(journal, id)
    options = options if row.ended else as_before(journal, row, options)
    machine = machine_of(journal, row, options, to_run=not row.ended)
    if row.ended:
        return machine.open(row.run_id, journal=journal)
    return go_on(machine, row.run_id, options, journal, cancel=interrupts)


def read_message() -> str:
    """Read the next message; a paste of several lines is one. Empty if the user leaves."""
    try:
        while True:
            typed = console.is_terminal(sys.stdin)
            if typed and console.is_terminal(sys.stdout):
                line = read_edited(YOU)
            elif typed:  # the prompt must not be among the replies
                line = read_line(YOU, lambda: False).removesuffix("\n")
            else:  # a pipe may bring several lines at once, of which only the first is waited for
                if not (line := sys.stdin.readline()):
                    return ""
                console.say(console.plain(YOU + line.removesuffix("\n")))
            if text := f"{line}\n{rest_of_paste() if typed else ''}".strip():
                return text
    except (EOFError, KeyboardInterrupt):
        console.say()
        return ""


def _show_end(run: Run) -> None:
    """Show what the replies did not: a result of another form, and a stop that is not natural."""
    result = run.result
    if result.output is not None and result.output != result.facts.last.text:
        output = result.output
        console.result(output if isinstance(output, str) else console.as_json(output))
    if result.kind != "natural":
        for line in outcome_lines(result):
            console.say(console.plain(line.text), line.colour)
