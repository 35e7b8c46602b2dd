"""The plain record that every picture is drawn from: boxes and arrows in a stable order.

Belongs here: charts, and the characters that their texts may hold. Never: a file format, a layout,
the graph or the machine behind it: a chart may also be read from a document.

Source: docs/pictures.md; the fills are those of 003
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from chartloop.core.units import say_count
from chartloop.core.visible import cut

Shape = Literal[
    "rect", "diamond", "pill",
    "round", "circle", "subroutine", "hexagon", "flag", "cylinder", "ellipse", "double_circle",
    "lean_right", "lean_left", "trapezoid", "inverted_trapezoid",
    "bang", "bolt", "bow_tie", "brace", "braces", "browser", "bucket", "card", "cloud", "console",
    "crossed_circle", "datastore", "delay", "display", "divided_rect", "document", "documents",
    "filled_circle", "flipped_triangle", "folder", "fork", "framed_circle", "hourglass",
    "lined_cylinder", "lined_document", "lined_rect", "lying_cylinder", "paper_tape", "pentagon",
    "person", "right_brace", "sloped_rect", "small_circle", "stacked_rect", "tagged_document",
    "tagged_rect", "text", "triangle", "window",
]  # fmt: skip
"""Machines are drawn with the first three; the others occur in documents."""

Role = Literal["start", "end", "stop", "completed", "hub", "decision", "action", "rules"]
"""The role of a box in its chart, which decides its colours. `rules` is a box of rules."""

RuleDrawing = Literal["none", "box", "chain"]

Direction = Literal["tb", "lr", "bt", "rl"]
"""Where a chart runs: down, right, up or left. A picture in characters always runs down."""

FILLS: Mapping[Role, str] = MappingProxyType(
    {
        "start": "#e1f5ff",
        "end": "#e1f5ff",
        "stop": "#ffcdd2",
        "completed": "#c8e6c9",
        "hub": "#fff9c4",
    }
)
"""The fills of the source documents, which give none for the other roles."""

BRIEF = 36
"""The most characters in a line of a shortened guard."""

COLOUR = re.compile(r"#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})|[a-z]{3,30}", re.ASCII)
"""A fill that is safe to write into a style, in lower case."""


@dataclass(frozen=True, slots=True)
class Box:
    """One box of a chart."""

    id: str
    """Unique in its chart: the name of a state, or the id in a document."""
    label: str
    """The text that people read, with real newlines."""
    shape: Shape = "rect"
    role: Role = "action"
    fill: str | None = None
    """The colour that a document gives the box: `#rrggbb` or the name of a colour; else None."""
    entry: bool = False
    """A run starts here although the box is not a pill: a small dot leads to it."""
    origin: str = "file"
    """`file`, `engine` for a state that the engine adds, `rule` for a box that is not a state."""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """One arrow of a chart. Two boxes may have several between them, with equal labels too."""

    source: str
    target: str
    label: str = ""
    id: str = ""
    """The edge of the machine that it draws, such as `check_tokens.then`; empty in documents."""
    kind: str = "advance"
    number: int | None = None
    """The order of evaluation, if a box has several guarded edges."""
    guard: str = ""
    """The whole guard; `else` for the edge taken if no guard before it held. Empty without a
    guard, and in documents."""
    unlabelled: bool = False
    """The file gives no label for the guard, so pictures show the guard itself."""

    @property
    def words(self) -> str:
        """The label, or the guard, shortened to two lines; both for an event: `go [total > 3]`."""
        return self._with(brief(self.guard)) if self.unlabelled else self.label

    @property
    def drawn_text(self) -> str:
        """The words as drawn, after the number: `2 · tool calls`."""
        return self._add_number(self.words)

    @property
    def whole(self) -> str:
        """The drawn text without shortening, for formats that have room for it."""
        return self._add_number(self._with(self.guard) if self.unlabelled else self.label)

    @property
    def tip(self) -> str:
        """The text of a tooltip, with label and guard: `Yes: run.steps >= limits.steps (50)`."""
        is_labelled = bool(self.unlabelled or not self.guard)
        return self.whole if is_labelled else f"{self.whole}: {self.guard}"

    def saying(self, label: str) -> Arrow:
        """A copy with another label, which is drawn instead of the guard."""
        return replace(self, label=label, unlabelled=False)

    def _with(self, guard: str) -> str:
        return f"{self.label} [{guard}]" if self.label else guard

    def _add_number(self, words: str) -> str:
        number = "" if self.number is None else f"{self.number} ·"
        return f"{number} {words}" if number and words else number or words


@dataclass(frozen=True, slots=True)
class RuleLine:
    """One stop rule or detour of a machine, in words."""

    id: str
    text: str
    """The guard as written in the file."""
    kind: str
    """`stop`, `signal` or `detour`."""
    reason: str = ""
    to: str = ""
    """The state it leads to; empty for a rule that only raises its signal."""
    at: tuple[str, ...] = ()
    """The states after whose actions alone it is evaluated; empty for all."""
    before: tuple[str, ...] = ()
    """The states before whose entry alone it is evaluated; empty for all."""

    @property
    def does(self) -> str:
        """Its effect besides leading to a state: `stop: steps_limit`; may be empty."""
        return f"{self.kind}: {self.reason}" if self.reason else ""


@dataclass(frozen=True, slots=True)
class Flowchart:
    """A chart: boxes and arrows, each in a stable order. Equal charts give equal pictures."""

    title: str = ""
    boxes: tuple[Box, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    rules: tuple[RuleLine, ...] = ()
    direction: Direction = "tb"


_ENDS: frozenset[Role] = frozenset({"stop", "completed", "end"})
_NAMED = 5


def summary(chart: Flowchart) -> str:
    """A description for people who cannot see the chart: its size, its starts and its ends."""
    leaving = {arrow.source for arrow in chart.arrows}
    states = [box for box in chart.boxes if box.role != "rules"]
    starts = [box for box in states if box.entry or box.role == "start"]
    ends = [box for box in states if box.role in _ENDS and box.id not in leaving]
    boxes, arrows = len(chart.boxes), len(chart.arrows)
    size = f"{boxes:,} {'box' if boxes == 1 else 'boxes'} and {say_count(arrows, 'arrow')}"
    ways = [("Starts at", starts), ("Ends at", ends)]
    sentences = (f"{verb}: {_names(boxes)}." for verb, boxes in ways if boxes)
    return " ".join((f"Flowchart of {size}.", *sentences))


def _names(boxes: Sequence[Box]) -> str:
    names = [shorten(box.label) or box.id for box in boxes[:_NAMED]]
    more = len(boxes) - len(names)
    return "; ".join([*names, *([f"{more} more"] if more else [])])


def visited_part(
    chart: Flowchart, visits: Mapping[str, int], taken: Mapping[str, int]
) -> Flowchart:
    """The part of a chart that a run visited, with counts from two on.

    `visits` counts the entries of each state, `taken` how often each edge was taken, by id.
    """
    boxes = tuple(
        replace(box, label=_add_count(box.label, visits[box.id]))
        for box in chart.boxes
        if visits.get(box.id)
    )
    ids = {box.id for box in boxes}
    arrows = tuple(
        replace(arrow.saying(_add_count(arrow.words, taken[arrow.id])), number=None)
        for arrow in chart.arrows
        if taken.get(arrow.id) and {arrow.source, arrow.target} <= ids
    )
    return Flowchart(chart.title, boxes, arrows, direction=chart.direction)


def _add_count(label: str, times: int) -> str:
    return label if times < 2 else f"{label} ×{times:,}".strip()


# Characters that a picture cannot hold: controls, lone surrogates, and the marks that override the
# direction of writing, with which a label could read differently from what it says.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_BREAKS = re.compile(r"\r\n?|[\v\f\u2028\u2029\x85]")


def printable(text: str) -> str:
    """The text with newlines unified, and `\ufffd` for every character that cannot be drawn."""
    return _UNPRINTABLE.sub("\ufffd", _BREAKS.sub("\n", text).replace("\t", " "))


def brief(guard: str) -> str:
    """A guard shortened to two lines: enough to distinguish it from its neighbours."""
    return "\n".join(
        textwrap.wrap(one_line(guard), BRIEF, max_lines=2, placeholder=" …", break_on_hyphens=False)
    )


def shorten(text: str, most: int = 60) -> str:
    """The words of a text on one line, cut to at most `most` characters."""
    text = one_line(text)
    return cut(text, most)


def one_line(text: str) -> str:
    """The words of a text with single spaces between them, as labels are compared."""
    return " ".join(printable(text).split())
