"""The public `Diff` of two machines: in words, as data, as pictures.

Source:       the issue "Pictures", 3
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from chartloop.analysis.versions.diff.change import GROUPS, Change, Way
from chartloop.analysis.versions.diff.compare import Comparison, compare
from chartloop.analysis.versions.diff.consent import Consent, consent
from chartloop.analysis.versions.diff.diff_picture import ReviewPicture
from chartloop.analysis.versions.diff.merge import Merged, focus, merge
from chartloop.core.reports import Part, Report
from chartloop.core.text_table import Line, Span
from chartloop.core.units import say_count
from chartloop.language.file.keys import Group
from chartloop.pictures.flowchart import one_line
from chartloop.pictures.of_machine import OfMachine

FORMAT = 1
"""The version of the JSON shape: fields are added, never renamed."""


_COLOURS = {"+": "green", "−": "red", "~": "yellow"}
_VERDICTS: tuple[tuple[str, tuple[Way, Way]], ...] = (
    ("stops", ("sooner", "later")),
    ("waits", ("longer", "shorter")),
)
"""The effects that a verdict sums up."""


@dataclass(frozen=True)
class Diff(Report):
    """The changes that turn one machine into the other.

        changes = diff(load("old.yaml"), load("new.yaml"))
        print(changes.verdict)
        changes.picture().save("diff.svg")

    Truthy if the machines differ.
    """

    before: OfMachine
    after: OfMachine
    names: tuple[str, str] = ("", "")
    """The names of the two: files, revisions."""
    recorded: tuple[Consent, ...] = ()
    """The effect on recorded calls, if they were looked at: `studies.review.recorded_calls`."""
    _comparison: Comparison | None = field(default=None, repr=False, compare=False)

    @cached_property
    def comparison(self) -> Comparison:
        """The changes, and the pairs of corresponding parts."""
        return self._comparison or compare(self.before.spec, self.after.spec)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Every difference, in order of display."""
        return self.comparison.changes

    @cached_property
    def consent(self) -> tuple[Consent, ...]:
        """The effect on the calls that wait for a person, the loosened sentences first."""
        return (*consent(self.before.spec, self.after.spec), *self.recorded)

    @property
    def loosened(self) -> bool:
        """Whether calls may be executed with fewer answers, or whether that is not known."""
        return any(one.kind == "loosened" for one in self.consent)

    @property
    def same(self) -> bool:
        """Whether both files describe the same machine."""
        return not self.changes

    def __bool__(self) -> bool:
        return not self.same

    @property
    def groups(self) -> Mapping[Group, tuple[Change, ...]]:
        """The changes by heading, without empty headings."""
        groups: dict[Group, tuple[Change, ...]] = {}
        for group in GROUPS:
            if changes := tuple(c for c in self.changes if c.group == group):
                groups[group] = changes
        return groups

    @property
    def verdict(self) -> str:
        """A summary in one line."""
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
        for verb, both in _VERDICTS:
            if effects := [way for way in both if way in ways]:
                message += f"; {verb} {' and '.join(effects)}"
        kinds = dict.fromkeys(one.kind for one in self.consent if one.kind != "changed")
        return f"{message}; consent {' and '.join(kinds)}" if kinds else message

    def parts(self) -> Iterator[Part]:
        """The verdict, the two names, and every difference with its place, by heading."""
        yield Line(self.verdict, "green bold" if self.same else "bold")
        if self.same:
            return
        if any(self.names):
            before, after = self.names
            yield from (Line(f"− {before}", "red"), Line(f"+ {after}", "green"))
        for group in GROUPS:
            found = (*self.sentences(group), *self.groups.get(group, ()))
            if found:
                yield from (Line(""), Line(group, "bold"))
            for change in found:
                sign = Span(change.sign, f"{_COLOURS[change.sign]} bold")
                place = where(change, self.files)
                suffix = ("  ", Span(f"({place})", "dim", whole=True)) if place else ()
                yield Line.of("  ", sign, " ", *_mark_code(say(change)), *suffix)

    def sentences(self, group: Group) -> tuple[Consent, ...]:
        """The sentences that come first under a heading: those on consent under its own."""
        return self.consent if group == "Consent" else ()

    def text(self) -> str:
        """Return the lines as one text that ends with a newline."""
        return f"{self}\n"

    @property
    def files(self) -> tuple[str, str]:
        """The files of both machines, as in places."""
        return self.before.spec.file, self.after.spec.file

    def to_dict(self) -> dict[str, Any]:
        """Return the public JSON shape, which docs/review.md describes."""
        return {
            "format": FORMAT,
            "same": self.same,
            "verdict": self.verdict,
            "before": _machine(self.before, self.names[0]),
            "after": _machine(self.after, self.names[1]),
            "changes": [change.to_dict() for change in self.changes],
            "consent": [one.to_dict() for one in self.consent],
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
        """Both flowcharts merged into one."""
        before, after = self.before.draw().chart, self.after.draw().chart
        drawn = self.comparison.drawn
        return merge(before, after, self.comparison.pairs, drawn, title=self.title)

    def picture(self, *, full: bool = False, prefix: str | None = None) -> ReviewPicture:
        """Return both flowcharts as one: the changes and their neighbours or, if `full`, all.

        A change in a child machine is only in the words: the child has its own flowchart.
        """
        merged = self.merged_chart if full else focus(self.merged_chart)
        return ReviewPicture(merged, prefix=prefix)

    @property
    def changes_picture(self) -> bool:
        """Whether the flowcharts differ: not every difference shows in them."""
        marks = (*self.merged_chart.boxes.values(), *self.merged_chart.arrows.values())
        return any(marked.mark != "same" for marked in marks)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """The notebook view: the words, and the focus picture if the flowcharts differ."""
        text = self.text()
        return self.picture().bundle(text) if self.changes_picture else {"text/plain": text}


def _mark_code(text: str) -> list[Span]:
    """Split a text into plain spans and code spans, at backticks."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # unbalanced: the file has backticks of its own
        return [Span(text)]
    return [Span(f"`{p}`", "code") if n % 2 else Span(p) for n, p in enumerate(parts)]


def _count(number: int) -> str:
    return say_count(number, "difference")


def say(change: Change | Consent) -> str:
    """Return a change in one line without control characters."""
    return one_line(str(change))


def where(change: Change | Consent, files: tuple[str, str] = ("", "")) -> str:
    """Return the place of a change: ``old.yaml:3 → new.yaml:5``, or its only side.

    If both sides are in `files`, which the reader knows, only lines are given: ``line 3 → 5``.
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
    """Compare two machines. The result is truthy if they differ.

        print(diff(load("old.yaml"), load("new.yaml")))

    `names` are the names of the two in words and pictures: files, revisions. Files that differ only
    in comments, order of keys or notation are the same machine.
    """
    return Diff(before, after, names)
