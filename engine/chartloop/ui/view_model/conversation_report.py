"""The conversation of a run as a report: lines for a terminal, folds for a notebook.

Belongs here: the words and order of its lines. Never: which items there are
(`conversation_view`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chartloop.api import Run
from chartloop.core.phase import PHASES
from chartloop.core.reports import Group, Note, Part, Report
from chartloop.core.text_table import Line
from chartloop.ui.view_model.conversation_view import Item, Text, page_of, talk_of

LONGEST = 1_000
"""The characters of a text that are shown."""
_TITLES = {
    "task": "Task", "message": "To the model", "reply": "Model", "failure": "Failed",
    "question": "Asks", "prompt": "Prompt", "memory": "Memory", "cut": "Shortened",
}  # fmt: skip
_COLOURS = {"task": "cyan", "answer": "cyan", "question": "yellow", "failure": "red"}
_SIGNS = {True: "✓", False: "✗", None: "…"}


def conversation(run: Run, limit: int = 50) -> Conversation:
    """What was asked, said, called and answered in a run: its newest items, the oldest first.

    In a notebook each call, with its arguments and result, is a fold. `print` shows it as text.
    """
    page = page_of(talk_of(run), None, limit, longest=LONGEST)
    return Conversation(page.items, more=page.before is not None)


class Conversation(Report):
    """Items of a run's conversation. Prints, and shows itself in a notebook."""

    __slots__ = ("items", "more")

    def __init__(self, items: tuple[Item, ...], *, more: bool) -> None:
        self.items = items
        self.more = more
        """Whether there are older items."""

    def parts(self) -> Iterator[Part]:
        """The items, in order."""
        if self.more:
            yield Line("… older messages are left out", "dim")
        for item in self.items:
            yield from _parts(item)


def _parts(item: Item) -> Iterator[Part]:
    number, about = f"#{item.seq}", item.state if item.kind != "reply" else item.who
    media = [Line(f"  {part.about}", "dim") for part in item.parts]
    if (call := item.call) is not None:
        sign = "–" if call.ok is None and not item.open else _SIGNS[call.ok]
        title = f"{number} {sign} {call.line}"
        inside: list[Part] = []
        if "…" in call.line:  # it does not say all of them
            inside += [Line("  arguments", "dim"), *_notes(call.arguments)]
        if call.result is not None:
            inside += [Line("  result", "dim"), *_notes(call.result, "" if call.ok else "red")]
        inside += [Line(f"  {part.about}", "dim") for part in call.parts]
        inside += [Line(f"  child run {child.run}", "dim") for child in call.children]
        yield Group(Line(title, "" if call.ok is not False else "red"), inside, folded=title)
        return
    if (child := item.child) is not None:
        title = f"{number} child {child.machine}, {PHASES[child.phase].marked}: {child.run}"
        yield Group(Line(title), list(_notes(child.output)), folded=title)
        return
    title = _TITLES.get(item.kind, "")
    if item.kind == "answer":
        title, about = f"{item.who or 'Somebody'} answered {item.state}", ""
    elif item.kind == "task" and item.who:
        title = f"Task of {item.who}"
    head = " · ".join(filter(None, (f"{number} {title}", about)))
    yield Line(head, _COLOURS.get(item.kind, "bold"))
    if item.reasoning is not None:
        thoughts = list(_notes(item.reasoning, "dim"))
        yield Group(Line("  reasoning", "dim"), thoughts, folded="Reasoning")
    yield from _notes(item.text, "red" if item.kind == "failure" else "")
    yield from media


def _notes(text: Text, colour: str = "") -> Iterable[Part]:
    for line in text.text.split("\n"):
        yield Note(f"  {line}", colour)
    if text.rest:
        yield Line(f"  … {text.rest:,} characters more", "dim")
