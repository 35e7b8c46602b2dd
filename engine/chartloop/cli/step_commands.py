"""The commands of a stepped run, shared by the prompt and the full screen.

Each command is a method `do_<name>` that takes the rest of the line and shows its result on the
`StepDisplay`. Errors are shown there too. Never here: reading lines, writing to a terminal.

Source: docs/stepping.md, "The prompt"
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from chartloop.cli import console
from chartloop.cli.value_options import answer_data
from chartloop.core.errors import ChartloopError, LimitError, RunError, nearest
from chartloop.core.text_table import Line, Row
from chartloop.run.events import Delta, Event
from chartloop.run.loop import is_action
from chartloop.run.record_text import call_lines
from chartloop.run.result import say_facts
from chartloop.ui.view_model.build import record_view
from chartloop.ui.view_model.orders import Fork, Set
from chartloop.ui.view_model.perform import perform, toggle_breakpoint
from chartloop.ui.view_model.step_display import StepDisplay
from chartloop.ui.view_model.table import table_lines
from chartloop.ui.view_model.text import record_lines

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.core.facts import Facts
    from chartloop.core.records import Record


class Command(NamedTuple):
    """One line of `help`."""

    written: str
    about: str


_WAIT, _SHOWN = "--wait", "--shown"
"""The options of `answer` for the id of a wait and for the digest of an opened question."""
COMMANDS = (
    Command("do, next, Enter", "do the current action"),
    Command("run", "continue to the end, a question or a breakpoint"),
    Command("run to STATE", "continue until the run reaches a state, or a guard holds"),
    Command("answer EVENT [NAME=VALUE]", "answer the question of a waiting run"),
    Command("question", "the question to its end; a long one takes an answer after that"),
    Command("back [N]", "take back the newest record, or N of them, as a new run"),
    Command("fork [N]", "continue as a new run with the records before N; this run stays as it is"),
    Command("set NAME VALUE", "change a limit or variable: set limits.steps 20"),
    Command("break [STATE|GUARD]", "set a breakpoint for `run`, or remove it; alone: list them"),
    Command("why [N]", "everything that was evaluated for the newest record, or for record N"),
    Command("facts [WORD]", "what guards read now; those with WORD in their name"),
    Command("records", "what has been recorded"),
    Command("draw [FILE]", "the flowchart, here or into a file"),
    Command("help", "this list"),
    Command("quit", "leave; the run can be resumed"),
)
ALIASES = {
    "": "do", "n": "do", "next": "do", "exit": "quit", "?": "help", "h": "help",
    # the keys of the full screen
    "s": "do", "r": "run", "t": "run to", "a": "answer", "b": "back", "w": "why", "m": "draw",
    "e": "set", "f": "fork", "k": "break", "d": "draw", "q": "quit",
}  # fmt: skip
"""Aliases of commands. The keys of the full screen mean the same at the prompt."""


class StoppedInside(Exception):
    """The user stopped the current action before it ended."""


Stepper = Callable[["Run"], "Record | None"]
"""Advances a run by one record. Raises `StoppedInside` if the user stops the action."""


class Commands:
    """The commands of one stepped run."""

    def __init__(self, run: Run, display: StepDisplay, step: Stepper) -> None:
        self.run = run
        self.left = False
        self.display, self._step_once = display, step
        self._opened = ""
        """The digest of the long question that `question` printed."""
        self.before: Facts | None = None
        """The facts before the newest record; None unless a command made that record."""

    def execute(self, line: str) -> bool:
        """Execute one command; return whether it succeeded. Errors are shown."""
        word, _, rest = line.strip().partition(" ")
        named, _, first = ALIASES.get(word, word).partition(" ")
        command, rest = getattr(self, f"do_{named}", None), f"{first} {rest}"
        if command is None:
            known = [n.removeprefix("do_") for n in dir(self) if n.startswith("do_")]
            self._say(f"there is no command `{console.plain(word)}`: {nearest(word, known)}", "red")
            return False
        try:
            command(rest.strip())
        except ChartloopError as error:
            code = error.code
            self._say(f"error{f'[{code}]' if code else ''}: {console.plain(error.message)}", "red")
            if error.hint:
                self._say(f" = help: {console.plain(error.hint)}")
            return False
        return True

    # continuing -------------------------------------------------------------------------------

    def do_do(self, rest: str) -> None:
        """Do the current action, and the records that come before it."""
        if rest:
            raise RunError("`do` takes no argument", hint="`run to STATE` does several actions")
        if self.run.ended:
            raise RunError("the run has ended", hint="`back` takes its last record back")
        if self.run.status == "paused" and not self.run.result.events:
            self.run.resume()
        record = self._step()
        if record is None:
            raise RunError("the run waits", hint="`answer EVENT` continues")
        while record is not None and not is_action(record) and self.run.status != "paused":
            record = self._step()
        self.show()

    def do_run(self, rest: str) -> None:
        """Continue to the end, a question, a breakpoint or a state."""
        word, _, goal = rest.partition(" ")
        if rest and (word != "to" or not goal):
            raise RunError(f"`run {rest}` is not understood", hint="`run`, or `run to STATE`")
        stops = self.run.breakpoints
        with stops.until(goal or None):
            watch = stops.watch(self.run.session.reached)
            while not self.display.wants_to_stop() and not (watch and watch()):
                if self._step() is None:
                    break
        if stops.hit and stops.hit != goal:
            self._say(f"stopped at the breakpoint `{console.plain(stops.hit)}`", "yellow")
        self.show()

    def do_answer(self, rest: str) -> None:
        """Answer the question, and continue from it."""
        events, hint = self.run.result.events, "answer EVENT, or answer EVENT note='use 3'"
        wait = ""
        if not events:  # without a wait, the step below would do the current action
            raise RunError("the run waits for nothing", hint="`do` does the current action")
        if not rest.strip():
            raise RunError(f"name the event: {', '.join(events)}", hint=hint)
        try:
            event, *fields = shlex.split(rest)
        except ValueError as error:
            raise RunError(f"this cannot be read: {error}", hint=hint) from None
        shown = self._opened
        while event in (_WAIT, _SHOWN):
            option = event
            value, event, *fields = [*fields, "", ""]
            fields = [field for field in fields if field]
            wait, shown = (value, shown) if option == _WAIT else (wait, value)
        pairs = [
            (name.strip(), text) for name, sign, text in (f.partition("=") for f in fields) if sign
        ]
        if len(pairs) < len(fields) or not all(name for name, _ in pairs):
            raise RunError("a field is written NAME=VALUE", hint="answer fix note='use 3'")
        fields_of_event = self.run.answers.get(event, {})
        question = self.run.question
        calls = question.calls if question is not None else ()
        data = answer_data(event, fields_of_event, pairs, calls=calls)
        self.run.send(event, data, wait=wait, shown=shown)
        self._opened = ""
        self._step()
        self.show()

    def do_question(self, rest: str) -> None:
        """Print the question to its end. A long one takes an answer after that."""
        if (asked := self.run.question) is None:
            raise RunError("the run waits for nothing", hint="`do` does the current action")
        for line in (*asked.text.splitlines(), *asked.about.splitlines()):
            self._say(console.plain(line))
        self._opened = asked.digest if asked.rest else ""

    def do_back(self, rest: str) -> None:
        """Take records back. The run continues as a fork with a new id."""
        count = self._number(rest or "1")
        self.run.back(count)
        self.before = None
        what = "record" if count == 1 else f"{count} records"
        self._say(f"back before the last {what}; now run {self.run.id}")
        self.show()

    def do_fork(self, rest: str) -> None:
        """Continue as a new run; this one stays in the journal."""
        old = self.run
        self.run = perform(old, Fork(self._number(rest) if rest else None))
        self._say(f"run {old.id} stays as it is; now run {self.run.id}")
        self.show()

    def do_set(self, rest: str) -> None:
        """Change a limit or variable, recorded as an edit."""
        name, _, text = rest.partition(" ")
        spec = self.run.machine.spec
        if "." not in name:
            name = f"{'limits' if name in spec.limits else 'vars'}.{name}"
        if not text.strip():
            raise LimitError("a value is missing", hint="set limits.steps 20")
        value, before = text.strip(), self.run.facts
        perform(self.run, Set(name, value))
        self.before = before
        self._say(console.plain(f"{name} = {value}"))

    def do_break(self, rest: str) -> None:
        """Set or remove a breakpoint; without an argument, list them."""
        stops = self.run.breakpoints
        if not rest:
            texts = ", ".join(point.text for point in stops)
            self._say(f"stops at: {console.plain(texts)}" if texts else "there is no breakpoint")
        elif (point := toggle_breakpoint(self.run, rest)) is None:
            self._say(f"the breakpoint `{console.plain(rest)}` is removed")
        else:
            what = {"state": "before the state", "guard": "when this holds:"}.get(point.kind, "at")
            self._say(f"`run` stops {what} `{console.plain(rest)}`")

    def _step(self) -> Record | None:
        """Advance by one record, showing the model's text as it arrives."""
        before, heard = self.run.facts, False

        def hear(event: Event) -> None:
            nonlocal heard
            if isinstance(event, Delta):
                self.display.hear(console.plain(event.text))
                heard = True

        stop = self.run.listen(hear)
        try:
            record = self._step_once(self.run)
        except StoppedInside:
            self._say("stopped in the middle of the action: `do` starts it again", "yellow")
            return None
        finally:
            stop()
            if heard:
                self.display.hear("\n")
        if record is not None:
            self.before = before
            self._show_record(record)
        return record

    def _show_record(self, record: Record) -> None:
        done = record_view(self.run.machine.chart, record)
        line = f"{done.seq}  {done.action or done.kind}"
        line += f": {done.outcome}" if done.outcome else ""
        line += f"  → {' → '.join(done.path)}" if done.path else ""
        line += f"  because {done.because}" if done.because else ""
        self._say(console.plain(line), "red" if done.failed else "")
        asked = self.before.last.tool_calls if self.before is not None else ()
        for call in call_lines(record, asked):
            self._say(console.plain(f"   {call}"), "dim")

    # inspecting -----------------------------------------------------------------------------

    def do_why(self, rest: str) -> None:
        """Show the tables of a decision."""
        explanation = self.run.why(self._number(rest) if rest else None)
        self._lines(explanation.lines(self.display.width))

    def do_facts(self, rest: str) -> None:
        """Show facts and their values."""
        pairs = say_facts(self.run.facts, self.run.machine.spec.roots)
        rows = [Row(pair) for pair in pairs if rest in pair[0]]
        if not rows:
            raise RunError(f"no fact has `{rest}` in its name", hint="`facts` lists them all")
        self._lines(table_lines(rows, width=self.display.width))

    def do_records(self, rest: str) -> None:
        """Show the records as a table."""
        chart = self.run.machine.chart
        records = [record_view(chart, record) for record in self.run.records]
        self._lines(record_lines(records, self.display.width))

    def do_draw(self, rest: str) -> None:
        """Show the flowchart in characters, or write it to a file."""
        picture = self.run.draw(look="live")
        if rest:
            self._say(f"{picture.save(rest)} is written")
        else:
            self.display.look(picture, self.run.state)

    def do_help(self, rest: str) -> None:
        """List the commands."""
        rows = [Row((c.written, c.about)) for c in COMMANDS]
        self._lines(table_lines(rows, width=self.display.width, indent="  "))

    def do_quit(self, rest: str) -> None:
        """Leave the run."""
        self.left = True

    def show(self) -> None:
        """Show the status of the run."""
        self.display.stand(self.run)

    def _say(self, text: str, colour: str = "") -> None:
        self.display.say(Line(text, colour))

    def _lines(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self.display.say(line)

    def _number(self, text: str) -> int:
        if not text.isdecimal():
            raise RunError(f"`{console.plain(text)}` is not a number")
        return int(text)
