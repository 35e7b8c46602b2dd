"""`chartloop step`: run a machine by hand."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.error_report import INTERRUPTED, exit_code
from chartloop.cli.journal_access import line_for, open_journal, remember, say_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import load_machine
from chartloop.cli.options import RunOptions, pass_options
from chartloop.extras import install

with at_first_use(__name__):
    from chartloop.cli import ask, drive, live_view, run_factory, step_screen
    from chartloop.cli import prompt as prompts
    from chartloop.run import loop, sync
    from chartloop.ui.tui import app as full_screen
    from chartloop.ui.view_model import build
    from chartloop.ui.view_model import text as run_text

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.cli.prompt import Prompt


@click.command(
    epilog="""\b
Examples:
  chartloop step agent "What is 2 + 2?" --script replies.yaml
  chartloop step my.yaml "Sort these" --tools tools.py --to review

\b
On the full screen (extra: `tui`): s runs the next action, r continues, t runs to a state,
a answers, b takes a record back, m shows the whole picture, p pauses, ? lists the rest.

\b
Without it, or with --plain, there is a prompt: Enter runs the next action, `why` shows the
evaluation, `set limits.steps 5` changes a limit, `back` takes a record back, `run` runs to the
end, `help` lists the rest. On the screen, type the same commands after `:`.

\b
The run is recorded: after `quit`, `chartloop resume` continues it.
"""
)
@parameters.machine_argument
@click.argument("task", default="", required=False)
@click.option(
    "--to", metavar="STATE", shell_complete=completion.states, help="Run to this state first."
)
@click.option(
    "--plain", is_flag=True, help="Use the line-by-line prompt instead of the full screen."
)
@parameters.start_options
@pass_options(RunOptions)
def step(machine: str, task: str, to: str | None, plain: bool, options: RunOptions) -> None:
    """Run a machine by hand, step by step.

    A full screen or a prompt shows where the run is, the next action and the decision that would
    follow.
    """
    at_screen = _has_screen(plain=plain)
    echo = live_view.Echo()
    if at_screen and task != "-":
        echo.off()  # keys typed before the screen opens would stay on the terminal
    try:
        code = _step(machine, task, to, at_screen, options)
    finally:
        echo.on()
    raise click.exceptions.Exit(code)


def _step(machine: str, task: str, to: str | None, at_screen: bool, options: RunOptions) -> int:
    """Start the run, step it, and say how to continue; return the exit code."""
    loaded = load_machine(machine, options)
    script = run_factory.script_of(options)
    given_task = sys.stdin.read() if task == "-" else task
    run = run_factory.start(
        loaded, given_task, options, lambda: open_journal(options, make=True), script=script
    )
    remember(run, machine, options)
    say_journal(run.session.journal, run.id)
    if script is not None and script.events:
        console.say("the script's events are yours to send: `answer EVENT`", "dim")
    run.advance()
    left, run = _on_screen(run, to, options) if at_screen else _at_prompt(run, to)
    sync.wait(loop.leave(run.session), suspends=run.suspends)
    if not run.ended and not options.in_memory:
        console.say(f"continue with:  {line_for('resume', run.id, options)}")
    elif at_screen:
        for line in run_text.standing_lines(build.standing_of(run), console.width()):
            console.say(line.text, line.colour)
    code = exit_code(run.result) if run.ended else 0
    return INTERRUPTED if left else code


def _has_screen(*, plain: bool) -> bool:
    """Whether a full screen can be shown here. Prints how to install textual if only that lacks."""
    if plain or not (sys.stdin.isatty() and console.is_terminal(sys.stdout)):
        return False
    if find_spec("textual") is None:
        console.say(f"a full screen needs textual:  {install('tui')}", "dim")
        return False
    return True


def _on_screen(run: Run, to: str | None, options: RunOptions) -> tuple[bool, Run]:
    """Step on a full screen; return whether Ctrl-C ended it, and the current run."""
    stepping = step_screen.StepControls(run)
    app = full_screen.StepApp(stepping)
    if to is not None:
        app.worker.order(f"run to {to}")
    ask.forget_typed()
    app.run()
    if not app.rested:
        drive.leave_now(stepping.run, options)
    if app.crash is not None:
        raise app.crash
    return False, stepping.run


def _at_prompt(run: Run, to: str | None) -> tuple[bool, Run]:
    """Step at the prompt; return whether Ctrl-C ended it, and the current run."""
    prompt = prompts.Prompt(run, prompts.reader())
    if to is not None:
        prompt.execute(f"run to {to}")
    left = _loop(prompt)
    return left, prompt.commands.run


def _loop(prompt: Prompt) -> bool:
    """Run the prompt; return whether Ctrl-C ended it."""
    try:
        prompt.loop()
    except KeyboardInterrupt:
        console.say()
        return True
    return False
