"""The difference of two machines as one thing to ask: in words, as data, as pictures.

Source:       the issue "Pictures", 3
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from chartloop.core.text_table import Line, Span, text_of
from chartloop.core.units import say_count
from chartloop.versions.diff.change import GROUPS, Change, Group, Way
from chartloop.versions.diff.compare import Comparison, compare
from chartloop.versions.diff.diff_picture import ReviewPicture
from chartloop.versions.diff.merge import Merged, focus, merge
from chartloop.view.flowchart import one_line
from chartloop.view.of_machine import OfMachine

FORMAT = 1
"""The version of the JSON shape: fields are added, never renamed."""


_COLOURS = {"+": "green", "−": "red", "~": "yellow"}
_TOLD: tuple[tuple[str, tuple[Way, Way]], ...] = (
    ("stops", ("sooner", "later")),
    ("waits", ("longer", "shorter")),
)
"""What a verdict says of the effects."""


@dataclass(frozen=True)
class Diff:
    """The changes that turn one machine into the other.

        found = diff(load("old.yaml"), load("new.yaml"))
        print(found.verdict)
        found.picture().save("diff.svg")

    True where the machines differ.
    """

    before: OfMachine
    after: OfMachine
    names: tuple[str, str] = ("", "")
    """How the two are called: files, revisions."""
    _comparison: Comparison | None = field(default=None, repr=False, compare=False)

    @cached_property
    def comparison(self) -> Comparison:
        """The changes, and which thing of one machine is which of the other."""
        return self._comparison or compare(self.before.spec, self.after.spec)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Every difference, in the order in which they are shown."""
        return self.comparison.changes

    @property
    def same(self) -> bool:
        """Whether both files mean the same machine, however they are written."""
        return not self.changes

    def __bool__(self) -> bool:
        return not self.same

    @property
    def groups(self) -> Mapping[Group, tuple[Change, ...]]:
        """The changes under the headings that they are shown under."""
        found: dict[Group, tuple[Change, ...]] = {}
        for group in GROUPS:
            if changes := tuple(c for c in self.changes if c.group == group):
                found[group] = changes
        return found

    @property
    def verdict(self) -> str:
        """A summary in a line."""
        name = self.after.name
        if self.same:
            same = self.before.canonical() == self.after.canonical()
            return f"{name}: the same machine" + ("" if same else ", written differently")
        words = [change for change in self.changes if change.only_words]
        real = len(self.changes) - len(words)
        if not real:
            return f"{name}: does the same; {_count(len(words))} of words"
        message = f"{name}: {_count(real)}" + (f" and {len(words)} of words" if words else "")
        ways = {e.way for change in self.changes for e in change.effects}
        for verb, both in _TOLD:
            if found := [way for way in both if way in ways]:
                message += f"; {verb} {' and '.join(found)}"
        return message

    def lines(self, width: int = 0) -> list[Line]:
        """The verdict, the two names, then every difference with its place, under its heading.

        Sentences, of any width.
        """
        return [*self._lines()]

    def _lines(self) -> Iterator[Line]:
        yield Line(self.verdict, "green bold" if self.same else "bold")
        if self.same:
            return
        if any(self.names):
            before, after = self.names
            yield from (Line(f"− {before}", "red"), Line(f"+ {after}", "green"))
        for group, changes in self.groups.items():
            yield from (Line(""), Line(group, "bold"))
            for change in changes:
                sign = Span(change.sign, f"{_COLOURS[change.sign]} bold")
                place = where(change, self.files)
                found = ("  ", Span(f"({place})", "dim", whole=True)) if place else ()
                yield Line.of("  ", sign, " ", *_mark_code(say(change)), *found)

    def text(self) -> str:
        """The lines as one text, with a newline at its end."""
        return f"{text_of(self.lines())}\n"

    @property
    def files(self) -> tuple[str, str]:
        """The files of both machines, as places name them."""
        return self.before.spec.file, self.after.spec.file

    def __str__(self) -> str:
        return text_of(self.lines())

    def to_dict(self) -> dict[str, Any]:
        """The public JSON shape; docs/review.md describes it."""
        return {
            "format": FORMAT,
            "same": self.same,
            "verdict": self.verdict,
            "before": _machine(self.before, self.names[0]),
            "after": _machine(self.after, self.names[1]),
            "changes": [change.to_dict() for change in self.changes],
        }

    # pictures -------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """The heading of the pictures."""
        name = self.after.spec.title or self.after.name
        before, after = self.names
        return f"{name}: {before} → {after}" if before and after and before != after else name

    @cached_property
    def merged_chart(self) -> Merged:
        """Both flowcharts as one."""
        before, after = self.before.draw().chart, self.after.draw().chart
        return merge(before, after, self.comparison.pairs, self.changes, title=self.title)

    def picture(self, *, full: bool = False, prefix: str | None = None) -> ReviewPicture:
        """Both flowcharts as one: what changed and what touches it, or all of it.

        A change in a child machine is in the words only: the child has its own flowchart.
        """
        merged = self.merged_chart if full else focus(self.merged_chart)
        return ReviewPicture(merged, prefix=prefix)

    @property
    def changes_picture(self) -> bool:
        """Whether the flowcharts differ at all: not every difference can be seen in them."""
        marks = (*self.merged_chart.boxes.values(), *self.merged_chart.arrows.values())
        return any(marked.mark != "same" for marked in marks)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """What a notebook shows: the words, and the focus picture where the flowcharts differ."""
        text = self.text()
        return self.picture().bundle(text) if self.changes_picture else {"text/plain": text}


def _mark_code(text: str) -> list[Span]:
    """What stands between backticks, apart from the rest."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # the file has some of its own
        return [Span(text)]
    return [Span(f"`{p}`", "code") if n % 2 else Span(p) for n, p in enumerate(parts)]


def _count(number: int) -> str:
    return say_count(number, "difference")


def say(change: Change) -> str:
    """A change in one line that may be shown anywhere."""
    return one_line(str(change))


def where(change: Change, files: tuple[str, str] = ("", "")) -> str:
    """Where a change is: ``old.yaml:3 → new.yaml:5``, or the only side that there is.

    The names of `files` are known to whoever reads it, and left out: ``line 3 → 5``.
    """
    sides = [(s, f) for s, f in zip((change.before, change.after), files, strict=True) if s]
    placed = [(side.place, known) for side, known in sides if side.place.line]
    if placed and all(place.file == known for place, known in placed):
        return f"line {' → '.join(dict.fromkeys(str(place.line) for place, _ in placed))}"
    return " → ".join(dict.fromkeys(f"{place.file}:{place.line}" for place, _ in placed))


def _machine(machine: OfMachine, name: str) -> dict[str, Any]:
    return {
        "name": machine.name, "file": name or machine.spec.file, "hash": machine.hash,
        "states": len(machine.spec.states),
    }  # fmt: skip


def diff(before: OfMachine, after: OfMachine, *, names: tuple[str, str] = ("", "")) -> Diff:
    """The changes that turn `before` into `after`; true if the two differ.

        print(diff(load("old.yaml"), load("new.yaml")))

    `names` are what the two are called in words and pictures: files, revisions. Files that differ
    only in comments, order of keys or ways of writing are the same machine.
    """
    return Diff(before, after, names)
