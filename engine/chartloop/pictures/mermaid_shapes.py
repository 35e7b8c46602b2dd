"""The names of Mermaid's box shapes, and the shapes of charts that they stand for.

Belongs here: the table. Never: how a shape is drawn (`pictures.dot`), or the grammar of brackets.

Source: mermaid 12.3, `shapes.ts` and `flow.jison`
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from chartloop.pictures.flowchart import Shape


class Names(NamedTuple):
    """Mermaid's names of a shape."""

    short: str
    """The name that we write in `@{ shape: ... }`."""
    others: str = ""
    """The other names that it has there, separated by spaces."""
    bracket: str = ""
    """Mermaid's internal name of a box that has this shape by its brackets."""


NAMES: Mapping[Shape, Names] = MappingProxyType(
    {
        "rect": Names("rect", "proc process rectangle", "square"),
        "round": Names("rounded", "event", "round"),
        "pill": Names("stadium", "terminal pill"),
        "subroutine": Names("fr-rect", "subprocess subproc framed-rectangle subroutine"),
        "cylinder": Names("cyl", "db database cylinder"),
        "circle": Names("circle", "circ"),
        "ellipse": Names("", "", "ellipse"),
        "flag": Names("odd"),
        "diamond": Names("diam", "decision diamond question choice"),
        "hexagon": Names("hex", "hexagon prepare"),
        "lean_right": Names("lean-r", "lean-right in-out", "lean_right"),
        "lean_left": Names("lean-l", "lean-left out-in", "lean_left"),
        "trapezoid": Names("trap-b", "priority trapezoid-bottom trapezoid"),
        "inverted_trapezoid": Names(
            "trap-t", "manual trapezoid-top inv-trapezoid", "inv_trapezoid"
        ),
        "double_circle": Names("dbl-circ", "double-circle", "doublecircle"),
        "datastore": Names("datastore", "data-store"),
        "folder": Names("folder", "directory"),
        "bucket": Names("bucket"),
        "console": Names("console"),
        "browser": Names("browser"),
        "person": Names("person"),
        "bang": Names("bang"),
        "cloud": Names("cloud"),
        "text": Names("text"),
        "card": Names("notch-rect", "card notched-rectangle"),
        "lined_rect": Names("lin-rect", "lined-rectangle lined-process lin-proc shaded-process"),
        "small_circle": Names("sm-circ", "start small-circle"),
        "framed_circle": Names("fr-circ", "stop framed-circle"),
        "fork": Names("fork", "join"),
        "hourglass": Names("hourglass", "collate"),
        "brace": Names("brace", "comment brace-l"),
        "right_brace": Names("brace-r"),
        "braces": Names("braces"),
        "bolt": Names("bolt", "com-link lightning-bolt"),
        "document": Names("doc", "document"),
        "delay": Names("delay", "half-rounded-rectangle"),
        "lying_cylinder": Names("h-cyl", "das horizontal-cylinder"),
        "lined_cylinder": Names("lin-cyl", "disk lined-cylinder"),
        "display": Names("curv-trap", "curved-trapezoid display"),
        "divided_rect": Names("div-rect", "div-proc divided-rectangle divided-process"),
        "triangle": Names("tri", "extract triangle"),
        "window": Names("win-pane", "internal-storage window-pane"),
        "filled_circle": Names("f-circ", "junction filled-circle"),
        "pentagon": Names("notch-pent", "loop-limit notched-pentagon"),
        "flipped_triangle": Names("flip-tri", "manual-file flipped-triangle"),
        "sloped_rect": Names("sl-rect", "manual-input sloped-rectangle"),
        "documents": Names("docs", "documents st-doc stacked-document"),
        "stacked_rect": Names("st-rect", "procs processes stacked-rectangle"),
        "bow_tie": Names("bow-rect", "stored-data bow-tie-rectangle"),
        "crossed_circle": Names("cross-circ", "summary crossed-circle"),
        "tagged_document": Names("tag-doc", "tagged-document"),
        "tagged_rect": Names("tag-rect", "tagged-rectangle tag-proc tagged-process"),
        "paper_tape": Names("flag", "paper-tape"),
        "lined_document": Names("lin-doc", "lined-document"),
    }
)

UNDOCUMENTED = frozenset(
    "state note composite icon anchor bpmn-start bpmn-intermediate bpmn-boundary bpmn-end"
    " bpmn-gateway bpmn-activity bpmn-data bpmn-data-store bpmn-annotation".split()
)
"""Undocumented names from Mermaid's other kinds of chart."""

_SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        name: shape
        for shape, names in NAMES.items()
        for name in (names.short, *names.others.split())
        if name
    }
)
_OF_BRACKETS: Mapping[str, Shape] = MappingProxyType(
    {names.bracket: shape for shape, names in NAMES.items() if names.bracket}
)


def is_shape(name: str) -> bool:
    """Whether `@{ shape: ... }` accepts this name."""
    return name in _SHAPES or name in UNDOCUMENTED


def shape_names() -> list[str]:
    """The documented names that `@{ shape: ... }` accepts."""
    return list(_SHAPES)


def shape_of(name: str) -> Shape | None:
    """The shape with this Mermaid name; None for a name from another kind of chart."""
    if not name:
        return "rect"
    return _OF_BRACKETS.get(name) or _SHAPES.get(name)
