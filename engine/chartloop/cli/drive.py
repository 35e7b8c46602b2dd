"""Driving a run from a terminal: its view, its questions, Ctrl-C and the report at its end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from chartloop.cli import console, costs
from chartloop.cli.ask import ask, can_ask
from chartloop.cli.error_report import INTERRUPTED, exit_code
from chartloop.cli.journal_access import line_for, say_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.views import view_for
from chartloop.core.approvals import ACCEPT, DENY, EDIT
from chartloop.core.errors import ChartloopError, Driven, Fenced
from chartloop.core.text_table import Line
from chartloop.core.units import say_elapsed
from chartloop.run.events import Recorded
from chartloop.ui.view_model.text import lacks_task, last_failure, outcome_lines

with at_first_use(__name__):
    from chartloop.scenarios import outside_events
    from chartloop.ui.view_model import text as run_text

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.cli.options import RunOptions
    from chartloop.cli.script import Script
    from chartloop.cli.views import View
    from chartloop.core.facts import RunFacts
    from chartloop.run.events import Event
    from chartloop.run.result import Result

ONCE = "stopping before the next action; Ctrl-C again stops now"
SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
"""Sent by Ctrl-C, by `kill` and service managers, and by a terminal that closes."""


class Interrupts:
    """A `Cancel` for Ctrl-C: the first stops the run before its next action, the second at once.

    SIGTERM and SIGHUP do the same, unless the process ignores them already, as under `nohup`.
    """

    def __init__(self) -> None:
        self.count = 0
        self.view: View | None = None
        self._before: dict[int, Any] = {}

    def is_requested(self, run: RunFacts) -> bool:
        return self.count > 0

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            handled = (
                number for number in SIGNALS
                if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN
            )  # fmt: skip
            self._before = {number: signal.signal(number, self._caught) for number in handled}
        return self

    def __exit__(self, *exc: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before = {}

    def _caught(self, signum: int, frame: FrameType | None) -> None:
        if signum == getattr(signal, "SIGHUP", None):
            nowhere = os.open(os.devnull, os.O_WRONLY)  # the terminal of these streams has closed
            for fd in (1, 2):
                with contextlib.suppress(OSError):
                    if os.isatty(fd):
                        os.dup2(nowhere, fd)
            os.close(nowhere)
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt
        if self.view is None or not self.view.notify(ONCE):
            console.say(f"\n{ONCE}")


def drive(
    run: Run, options: RunOptions, interrupts: Interrupts, script: Script | None = None, *,
    view: View | None = None, ask: Callable[[Run], bool] = ask,
) -> Result:  # fmt: skip
    """Drive a run until it ends, or waits and nobody answers at the terminal.

    `view`: the one that fits the options, by default. `ask` asks the question of a wait.
    """
    view = interrupts.view = view or view_for(run, options)
    asks = "rest" if can_ask(options) else "decline" if options.in_memory else "stay"
    run.session.ports.questions = asks

    def see(event: Event) -> None:
        view.see(event)
        if asks == "stay" and isinstance(event, Recorded) and event.position.form is not None:
            _say_question(run, options, view)

    stop = run.listen(see)
    left = script.events if script is not None else []
    try:
        while True:
            with interrupts, _open_view(view):
                left = outside_events.play(run, left)
            if run.ended or interrupts.count or not run.result.events or not can_ask(options):
                break
            if not ask(run):
                break
    except KeyboardInterrupt:
        leave_now(run, options)
    except ChartloopError as error:  # the caller reports it; here only how to continue
        elsewhere = isinstance(error, (Driven, Fenced))  # another process drives it
        if run.session.head and not options.in_memory and not elsewhere:
            console.say(f"run {run.id} can continue:  {line_for('resume', run.id, options)}")
        raise
    finally:
        stop()
        interrupts.view = None
    return run.result


def _say_question(run: Run, options: RunOptions, view: View) -> None:
    """Print the question of an MCP server and the commands that answer it. The run stays open."""
    if (question := run.question) is None:
        return
    lines = [
        question.text,
        *question.about.splitlines(),
        *(line.text for line in _commands_to_answer(run, options)),
    ]
    if question.due is not None:
        left = max(0.0, question.due - run.session.ports.clock.now())
        lines.append(f"without an answer within {say_elapsed(left)} the server gets `cancel`")
    text = "\n".join(console.plain(line) for line in lines)
    if not view.notify(text):
        console.say(text)


@contextlib.contextmanager
def _open_view(view: View) -> Generator[None]:
    """Open the view; send what tools print on stdout to stderr, away from the results."""
    with contextlib.redirect_stdout(sys.stderr):
        view.open()
        try:
            yield
        finally:
            view.close()


def leave_now(run: Run, options: RunOptions) -> None:
    """End the process at once: an action may hang in a thread that cannot be stopped.

    Nothing recorded is lost: the journal survives a kill at any moment.
    """
    console.say("\nstopped in the middle of an action; everything before it is recorded")
    if run.session.head and not options.in_memory:
        console.say(f"continue with:  {line_for('resume', run.id, options)}")
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(INTERRUPTED)


def tell(run: Run, options: RunOptions, interrupts: Interrupts | None = None) -> int:
    """Print the result of a run on stdout and the reason on stderr; return the exit code."""
    result = run.result
    _print(run, result, options)
    for line in outcome_lines(result):
        for part in console.wrap_to_terminal(console.plain(line.text), sys.stderr):
            console.say(part, line.colour)
    console.say(costs.calls_and_cost(result.facts, run.session.tally.failed_calls), "dim")
    say_journal(run.session.journal, run.id)
    for line in (
        _commands_to_retry(run, result, options)
        if run.ended
        else _commands_to_go_on(run, result, options)
    ):
        console.say(console.plain(line.text), line.colour)
    stopped = interrupts is not None and interrupts.count > 0
    if stopped and (not run.ended or result.reason == "user_requested"):
        return INTERRUPTED
    return exit_code(result)


def _print(run: Run, result: Result, options: RunOptions) -> None:
    if options.format == "json":
        console.result(console.as_json(result.to_dict()))
    elif options.format == "jsonl":
        console.result(console.as_json({"event": "result", **result.to_dict()}, indent=None))
    else:
        if result.reason is None:  # a run that has not ended has no result yet
            return
        texts, output = [*result.partial], result.output
        if run.machine.spec.output is not None:  # the file says what the result is: that alone
            for text in texts:
                console.say(console.plain(text))
            texts = []
        if output is not None:
            text = output if isinstance(output, str) else console.as_json(output)
            texts += [text] if not texts or text != texts[-1] else []
        for text in texts:
            console.result(text)


# the commands to run next ---------------------------------------------------------------


def _commands_to_retry(run: Run, result: Result, options: RunOptions) -> Iterator[Line]:
    """The command that tries a failed run again; nothing for a run that did not fail."""
    if result.kind != "error" or options.in_memory or lacks_task(result):
        return
    if last_failure(result) is None:
        yield Line(f"see why:  {line_for('why', run.id, options)}")
        return
    yield Line(f"try again from there:  {line_for('retry', run.id, options)}")


def _commands_to_go_on(run: Run, result: Result, options: RunOptions) -> Iterator[Line]:
    """The commands that answer and resume a run that has not ended."""
    if options.in_memory:
        yield Line("the run was kept in memory only: it is gone")
        return
    if not result.events:
        yield Line(f"continue with:  {line_for('resume', run.id, options)}")
        return
    yield from _commands_to_answer(run, options)
    yield Line(f"then:  {line_for('resume', run.id, options)}")


def _commands_to_answer(run: Run, options: RunOptions) -> Iterator[Line]:
    """The commands that answer the question of a run, one for each event, with its fields."""
    wait, calls = "", ()
    if (question := run.question) is not None:
        wait, calls = question.wait, question.calls
        about = question.begin()._replace(text="")
        how = line_for("show", run.id, options, "--question")
        yield from (Line(text) for _, text in run_text.question_lines(about, question.rest, how))
    yield Line("answer with:")
    for event, fields in run.answers.items():
        given = [
            f"{name}={str(type).upper()}" for name, type in fields.items() if not type.nullable
        ]
        if event == EDIT and calls:  # a field that is easier to write by the number of a call
            given = [
                *(one for one in given if not one.startswith("calls=")),
                "1.arguments.NAME=VALUE",
            ]
        yield Line(f"  {line_for('answer', run.id, options, event, *given, '--wait', wait)}")
    if len(calls) > 1:
        each = " ".join(f"{n}={ACCEPT if n == 1 else DENY}" for n in range(1, len(calls) + 1))
        yield Line(f"`accept {each}` decides on each call by itself")
    if calls:
        yield Line('`deny note="why"` tells the model why')
