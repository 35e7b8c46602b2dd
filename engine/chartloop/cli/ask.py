"""Asking the question of a wait at the terminal: its events as choices, data field by field.

While the user thinks, the wait may expire or another process may answer. Both are polled for; the
first of the three counts.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chartloop.cli import console
from chartloop.cli.costs import fields_of
from chartloop.cli.late import at_first_use
from chartloop.cli.value_options import answer_data, read_value
from chartloop.core.approvals import ACCEPT, DENY, EDIT, argument_rows, arguments_shown
from chartloop.core.errors import AnswerError, WaitError
from chartloop.core.types import STR, Type, accepts
from chartloop.core.units import say_count, say_elapsed
from chartloop.core.visible import visible_json

with at_first_use(__name__):
    from chartloop.run import sync
    from chartloop.ui.view_model import asking

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.cli.options import RunOptions
    from chartloop.run.question import Question

LAST = "."
"""The line that ends a text of several lines."""
PASTE = 0.05
"""Seconds within which the next line of a paste arrives."""
LOOK = 0.25
"""Seconds between two polls of the clock and the inbox."""
_YES = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


class Overtaken(Exception):
    """The question no longer needs an answer: it expired, or another process answered."""


def can_ask(options: RunOptions) -> bool:
    """Whether a question can be asked at a terminal."""
    return not options.no_input and sys.stdin.isatty() and sys.stderr.isatty()


def ask(run: Run) -> bool:
    """Ask the question of a run and send the answer. False if nothing is asked or answered."""
    question = run.question
    if question is None:
        return False
    forget_typed()
    console.say()
    shown = question.begin()
    console.say(f"{console.plain(shown.text)}  (wait {console.plain(question.wait)})", "cyan")
    if shown.about:
        console.say(console.plain(shown.about))
    if question.rest and not _opened(run, question):
        return False
    if any(row["long"] for call in question.calls for row in argument_rows(call)):
        console.say(console.plain(question.folded()))  # what is short has scrolled away
    follows = {answer.event: answer.next for answer in asking.answer_views(run, question)}
    for number, event in enumerate(question.answers, 1):
        fields = fields_of({n: t.without_none() for n, t in question.fields(event).items()})
        then = f"   → {follows[event]}" if follows.get(event) else ""
        console.say(console.plain(f"  {number}  {event}{f'   {fields}' if fields else ''}{then}"))
    if (due := run.session.position.wake_at) is not None:
        left = due - run.session.ports.clock.now()
        console.say(f"  no answer within {say_elapsed(max(0.0, left))} counts as expired", "dim")
    try:
        return _ask_and_send(run, question)
    except Overtaken:
        console.say()
        return True
    except WaitError as error:  # another answer came first, or the wait expired meanwhile
        console.say(f"  {console.plain(error.message)}", "red")
        return True
    except (EOFError, KeyboardInterrupt):
        console.say()
        return False


def reply(run: Run) -> bool:
    """Ask the question of a run in a conversation: a text that is typed answers the wait.

    That is so where just one of its events takes a text, and no tool call waits; ``/EVENT`` gives
    another one. Every other question is asked as by `ask`. False if it is left waiting.
    """
    question = run.question
    events = {} if question is None else {n: question.fields(n) for n in question.answers}
    needed = {
        event: [n for n, t in fields.items() if not t.nullable] for event, fields in events.items()
    }
    spoken = [
        (event, names[0]) for event, names in needed.items()
        if len(names) == 1 and events[event][names[0]].kind == "str"
    ]  # fmt: skip
    if question is None or question.calls or question.rest or len(spoken) != 1:
        return ask(run)
    shown, (event, name) = question.begin(), spoken[0]
    if shown.text.strip() != run.facts.last.text.strip():
        console.say(console.plain(f"{shown.text}\n{shown.about}".rstrip()), "cyan")
    others = [f"/{other}" for other in events if other != event]
    if others:
        console.say(f"(or {', '.join(others)})", "dim")
    try:
        text = _read_text("you> ", _over(run))
        word = text.strip()
        if word.startswith("/") and (word not in others or needed[word[1:]]):
            return ask(run)
        event, data = (word[1:], {}) if word in others else (event, {name: text})
        run.send(event, data, wait=question.wait, shown=question.digest)
    except Overtaken:
        console.say()
    except WaitError as error:  # another answer came first, or the wait expired meanwhile
        console.say(f"  {console.plain(error.message)}", "red")
    except (EOFError, KeyboardInterrupt):
        console.say()
        return False
    return True


def _opened(run: Run, question: Question) -> bool:
    """Whether the user lets the rest of a long question be shown, which an answer needs."""
    console.say(f"  {say_count(question.rest, 'character')} more follow", "yellow")
    try:
        word = read_line("show them (y), or leave it waiting (Enter): ", _over(run)).strip()
    except (Overtaken, EOFError, KeyboardInterrupt):
        console.say()
        return False
    if _YES.get(word.lower()) is not True:
        return False
    console.say(console.plain(f"{question.text}\n{question.about}".rstrip()))
    return True


def forget_typed() -> None:
    """Discard typed-ahead input, so that it cannot answer a question that was not shown yet."""
    with contextlib.suppress(OSError, ValueError, termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _ask_and_send(run: Run, question: Question) -> bool:
    over, events = _over(run), tuple(question.answers)
    while True:
        word = read_line("answer (number or name, empty to leave it waiting): ", over).strip()
        if not word:
            return False
        event = events[int(word) - 1] if word.isdecimal() and 0 < int(word) <= len(events) else word
        if event not in events:
            console.say(f"  `{console.plain(word)}` is not one of them", "red")
            continue
        data = {
            name: value
            for name, type in question.fields(event).items()
            if (value := _field(name, type, over)) is not None
        }
        try:
            if question.calls and (pairs := _decisions(event, question.calls, over)):
                data |= answer_data(event, {}, pairs, calls=question.calls)
            run.send(event, data, wait=question.wait, shown=question.digest)
        except WaitError:
            raise
        except AnswerError as error:
            console.say(f"  {console.plain(error.message)}", "red")
            continue
        return True


def _decisions(
    event: str, calls: Sequence[Mapping[str, Any]], over: Callable[[], bool]
) -> list[tuple[str, str]]:
    """Ask which of the calls are accepted, or what to change in which; empty decides all alike."""
    numbers = [str(number) for number in range(1, len(calls) + 1)]
    if event == ACCEPT and len(calls) > 1:
        words = read_line("  which calls (1 3; empty for all): ", over).split()
        told = [(n, ACCEPT if n in words else DENY) for n in numbers] if words else []
        for number in (n for n, word in told.copy() if word == DENY):
            if (note := _field(f"note on {number}", STR.maybe(), over)) is not None:
                told.append((f"{number}.note", note))
        return told
    if event != EDIT:
        return []
    number = "1"
    while len(calls) > 1 and (number := read_line("  which call: ", over).strip()) not in numbers:
        console.say(f"  there is no call `{console.plain(number)}`", "red")
    changes: list[tuple[str, str]] = []
    for name, value in arguments_shown(calls[int(number) - 1]).items():
        if text := read_line(f"  {console.plain(name)} [{visible_json(value)}]: ", over).strip():
            changes.append((f"{number}.arguments.{name}", text))
    return changes


def _field(name: str, type: Type, over: Callable[[], bool]) -> Any:
    while True:
        optional = ", empty to leave it out" if type.nullable else ""
        text = _read_text(f"  {name} ({type.without_none()}{optional}): ", over)
        if type.nullable and not text.strip():
            return None
        value = _YES.get(text.strip().lower(), text) if type.kind == "bool" else text
        value = read_value(type, value) if isinstance(value, str) else value
        if accepts(type, value):
            return value
        console.say(f"  that is not of type {type}", "red")


def _read_text(prompt: str, over: Callable[[], bool]) -> str:
    """Read a typed line, or, if several lines were pasted, all lines up to `LAST`."""
    lines = [read_line(prompt, over).removesuffix("\n")]
    if not _more_came():
        return lines[0]
    console.say(f"  several lines: `{LAST}` on its own line ends them", "dim")
    while (line := read_line("", over).removesuffix("\n")) != LAST:
        lines.append(line)
    return "\n".join(lines)


def _more_came() -> bool:
    """Whether more input follows at once, as it does for a paste."""
    return bool(select.select([sys.stdin], [], [], PASTE)[0])


def rest_of_paste() -> str:
    """The lines that follow a line at once. Where editing ended, they may come in one piece."""
    pieces: list[bytes] = []
    while _more_came() and (piece := os.read(sys.stdin.fileno(), 65_536)):
        pieces.append(piece)
    return b"".join(pieces).decode(errors="replace")


def _over(run: Run) -> Callable[[], bool]:
    """Return a function that says whether the question has expired or a message has arrived."""
    session, due = run.session, run.session.position.wake_at

    def message_ids() -> set[str]:
        """Messages in the inboxes of the run and of the child that asks."""
        question, journal = run.question, session.journal
        runs = {run.id, question.run if question is not None else run.id}
        inboxes = [sync.wait(journal.inbox(name), suspends=run.suspends) for name in runs]
        return {message.msg_id for messages in inboxes for message in messages}

    early = message_ids()

    def over() -> bool:
        if due is not None and session.ports.clock.now() >= due:
            return True
        return bool(message_ids() - early)

    return over


def read_line(prompt: str, over: Callable[[], bool]) -> str:
    """Read a line from the terminal. Raises `Overtaken` once `over()`, and EOFError at its end."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    while not select.select([sys.stdin], [], [], LOOK)[0]:
        if over():
            raise Overtaken
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line
