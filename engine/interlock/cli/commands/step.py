"""`interlock step`: a machine by hand."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from interlock.cli import completion, options, out
from interlock.cli.how import How

if TYPE_CHECKING:
    from interlock.cli.prompt import Prompt


@click.command(
    epilog="""\b
Examples:
  interlock step agent "What is 2 + 2?" --script replies.yaml
  interlock step my.yaml "Sort these" --tools tools.py --to review

\b
At the prompt: Enter does the action at hand, `why` shows what was looked at, `set limits.steps 5`
changes a limit, `back` takes a record back, `run` goes on to the end, `help` lists the rest.
The run is recorded: after `quit`, `interlock resume` goes on.
"""
)
@options.machine_argument
@click.argument("task", default="", required=False)
@click.option(
    "--to", metavar="STATE", shell_complete=completion.states, help="First run to this state."
)
@options.model_options
@options.tools_option
@options.value_options
@options.define_option
@options.trust_option
@options.journal_option
@options.memory_option
@options.name_options
def step(machine: str, task: str, to: str | None, **given: Any) -> None:
    """Run a machine by hand, step by step.

    A prompt that shows where the run is, what comes next and what would be decided after it.
    """
    from interlock.cli.faults import INTERRUPTED, exit_code
    from interlock.cli.loading import load_machine
    from interlock.cli.prompt import Prompt, reader
    from interlock.cli.starting import script_of, start
    from interlock.cli.stored import line_for, open_journal, remember, say_journal

    how = How.of(given)
    loaded = load_machine(machine, how)
    script = script_of(how)
    given_task = sys.stdin.read() if task == "-" else task
    run = start(loaded, given_task, how, lambda: open_journal(how, make=True), script=script)
    remember(run, machine, how)
    say_journal(run.session.journal, run.id)
    if script is not None and script.events:
        out.say("the script's events are yours to send: `answer EVENT`", "dim")
    prompt = Prompt(run, reader())
    run.step()
    if to is not None:
        prompt.obey(f"run to {to}")
    left = _loop(prompt)
    run = prompt.commands.run
    if not run.ended and not how.in_memory:
        out.say(f"go on with:  {line_for('resume', run.id, how)}")
    code = exit_code(run.result) if run.ended else 0
    raise click.exceptions.Exit(INTERRUPTED if left else code)


def _loop(prompt: Prompt) -> bool:
    """Read and obey; whether Ctrl-C ended it."""
    try:
        prompt.loop()
    except KeyboardInterrupt:
        out.say()
        return True
    return False
