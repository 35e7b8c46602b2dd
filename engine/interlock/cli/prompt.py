"""The prompt of `interlock step`: a run in the hands of a person.

Each command is a method `do_<name>` that takes the rest of the line. What it cannot do it says,
and the prompt goes on. It works piped too: a script of commands gives a readable transcript.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from interlock.cli import out, words
from interlock.cli.drive import Interrupts
from interlock.cli.faults import kind_of
from interlock.cli.options import PAIR
from interlock.cli.records import lines_of, records_table
from interlock.cli.standing import standing
from interlock.cli.table import Row, table
from interlock.cli.values import answer_data, read_value
from interlock.core.errors import InterlockError, LimitError, RunError, nearest
from interlock.run.events import Delta, Event

if TYPE_CHECKING:
    from interlock.api import Run
    from interlock.core.records import Record

HELP = (
    ("do, next, Enter", "do the action at hand"),
    ("why [N]", "everything that was looked at for the newest record, or for record N"),
    ("facts [WORD]", "what guards read now; those with WORD in their name"),
    ("set NAME VALUE", "change a limit or variable: set limits.steps 20"),
    ("back [N]", "take back the newest record, or N of them, as a new run"),
    ("run", "go on to the end, or to a question"),
    ("run to STATE", "go on until the run is at a state"),
    ("answer EVENT [NAME=VALUE]", "answer the question that the run waits with"),
    ("draw [FILE]", "the flowchart, here or into a file"),
    ("records", "what has been recorded"),
    ("help", "this list"),
    ("quit", "leave; the run can be resumed"),
)
ALIASES = {"": "do", "n": "do", "next": "do", "q": "quit", "exit": "quit", "?": "help", "h": "help"}
_MARKS = ("[]", "<>", "()")
"""What stands round the name of a state in the flowchart's text."""


class Prompt:
    """One run and the person who steps it. `read` gives the next line, or raises EOFError."""

    def __init__(self, run: Run, read: Callable[[str], str]) -> None:
        self.run = run
        self._read = read
        self._streamed = False
        self._left = False

    def loop(self) -> None:
        """Read and obey until the person leaves."""
        self._show()
        while not self._left:
            try:
                line = self._read(f"{self.run.machine.name}> ")
            except EOFError:
                break
            self.obey(line)

    def obey(self, line: str) -> None:
        """One command. What is wrong with it is said."""
        word, _, rest = line.strip().partition(" ")
        command = getattr(self, f"do_{ALIASES.get(word, word)}", None)
        if command is None:
            known = [n.removeprefix("do_") for n in dir(self) if n.startswith("do_")]
            out.result(f"there is no command `{out.plain(word)}`: {nearest(word, known)}")
            return
        try:
            command(rest.strip())
        except InterlockError as error:
            code = kind_of(error).code
            out.result(f"error{f'[{code}]' if code else ''}: {out.plain(error.message)}")
            if error.hint:
                out.result(f" = help: {out.plain(error.hint)}")

    # going on -------------------------------------------------------------------------------

    def do_do(self, rest: str) -> None:
        """One record."""
        if rest:
            raise RunError("`do` takes nothing", hint="`run to STATE` does several")
        if self.run.ended:
            raise RunError("the run has ended", hint="`back` takes its last record back")
        if self.run.status == "paused" and not self.run.result.events:
            self.run.resume()
        if self._step() is None:
            raise RunError("the run waits", hint="`answer EVENT` goes on")
        self._show()

    def do_run(self, rest: str) -> None:
        """Records until the end, a question, or a state."""
        word, _, goal = rest.partition(" ")
        states = self.run.machine.spec.states
        if rest and (word != "to" or not goal):
            raise RunError(f"`run {rest}` says not where to", hint="run to STATE")
        if goal and goal not in states:
            raise RunError(f"there is no state `{goal}`", hint=nearest(goal, states))
        with Interrupts() as interrupts:
            while not interrupts.count and self._step() is not None:
                if self.run.state == goal:
                    break
        self._show()

    def do_answer(self, rest: str) -> None:
        """Answer the wait, and go on from it."""
        events, hint = self.run.result.events, "answer EVENT, or answer EVENT note='use 3'"
        if not events:  # kept for later it would be forgotten, and the action at hand be done
            raise RunError("the run waits for nothing", hint="`do` does the action at hand")
        if not rest.strip():
            raise RunError(f"say which: {', '.join(events)}", hint=hint)
        try:
            event, *fields = shlex.split(rest)
        except ValueError as error:
            raise RunError(f"this cannot be read: {error}", hint=hint) from None
        state = self.run.machine.spec.states.get(self.run.state)
        edge = (
            next((e for e in state.edges_of("on") if e.trigger == event), None) if state else None
        )
        pairs = [PAIR.convert(f, None, None) for f in fields if "=" in f]
        if len(pairs) < len(fields):
            raise RunError("data are given as NAME=VALUE", hint="answer fix note='use 3'")
        self.run.send(event, answer_data(event, dict(edge.data) if edge else {}, pairs, None))
        self._step()
        self._show()

    def do_back(self, rest: str) -> None:
        """Take records back; the run goes on as a fork with an id of its own."""
        count = self._number(rest or "1")
        self.run.back(count)
        out.result(
            f"back before the last {'record' if count == 1 else f'{count} records'};"
            f" now run {self.run.id}"
        )
        self._show()

    def do_set(self, rest: str) -> None:
        """Change a limit or variable; it is recorded as an edit."""
        name, _, text = rest.partition(" ")
        spec = self.run.machine.spec
        if "." not in name:
            name = f"{'limits' if name in spec.limits else 'vars'}.{name}"
        root, _, field = name.partition(".")
        declared = {"limits": spec.limits, "vars": spec.vars}.get(root, {}).get(field)
        if not text.strip():
            raise LimitError("a value is missing", hint="set limits.steps 20")
        value = text.strip()
        self.run.set(name, read_value(declared.type, value) if declared else value)
        out.result(f"{name} = {value}")

    def _step(self) -> Record | None:
        """One record, with the model's words as they come."""
        self._streamed = False
        stop = self.run.listen(self._hear)
        try:
            record = self.run.step()
        except KeyboardInterrupt:
            out.result("\nstopped in the middle of the action: `do` begins it again")
            return None
        finally:
            stop()
            if self._streamed:
                out.result()
        if record is not None:
            self._tell(record)
        return record

    def _hear(self, event: Event) -> None:
        if isinstance(event, Delta):
            sys.stdout.write(out.style(out.plain(event.text), "dim"))
            sys.stdout.flush()
            self._streamed = True

    def _tell(self, record: Record) -> None:
        chart = self.run.machine.chart
        action = words.action_of(chart, record) or record.kind
        said = words.outcome_of(record)
        path = " → ".join(words.path_of(chart, record))
        why = words.because(chart, record)
        line = f"{record.seq}  {action}: {said}" if said else f"{record.seq}  {action}"
        line += (f"  → {path}" if path else "") + (f"  because {why}" if why else "")
        for part in out.fitted(out.plain(line), sys.stdout):
            out.result(part)

    # looking --------------------------------------------------------------------------------

    def do_why(self, rest: str) -> None:
        """The tables of a decision."""
        for line in lines_of(self.run.why(self._number(rest) if rest else None)):
            out.result(line)

    def do_facts(self, rest: str) -> None:
        """Facts and their values."""
        from interlock.run.result import say_facts

        pairs = say_facts(self.run.facts, self.run.machine.spec.roots)
        rows = [Row(pair) for pair in pairs if rest in pair[0]]
        if not rows:
            raise RunError(f"no fact has `{rest}` in its name", hint="`facts` lists them all")
        for line in table(rows):
            out.result(line)

    def do_records(self, rest: str) -> None:
        """The records as a table."""
        for line in records_table(self.run.machine.chart, self.run.records):
            out.result(line)

    def do_draw(self, rest: str) -> None:
        """The flowchart as text, or into a file."""
        picture = self.run.draw()
        if rest:
            out.result(f"{picture.save(rest)} is written")
            return
        here = tuple(f"{opening}{self.run.state}{closing}" for opening, closing in _MARKS)
        for line in picture.text().rstrip("\n").split("\n"):
            at = line.removeprefix("• ").startswith(here)
            out.result(out.style(f"▶ {line}", bold=True) if at else line)

    def do_help(self, rest: str) -> None:
        """The commands."""
        for line in table([Row(pair) for pair in HELP], indent="  "):
            out.result(line)

    def do_quit(self, rest: str) -> None:
        """Leave."""
        self._left = True

    def _show(self) -> None:
        for line in standing(self.run):
            out.result(line)
        out.result()

    def _number(self, text: str) -> int:
        if not text.isdecimal():
            raise RunError(f"`{out.plain(text)}` is no number")
        return int(text)


def reader() -> Callable[[str], str]:
    """Reads lines: with editing and history on a terminal, else with an echo."""
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):
            import_module("readline")  # gives `input` its keys and its history
        return input

    def read(prompt: str) -> str:
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        out.result(f"{prompt}{line.rstrip()}")
        return line

    return read
