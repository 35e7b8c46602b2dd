"""A chart as DOT, the language of Graphviz, written and quoted by the library `graphviz`.

Belongs here: colours, fonts and margins of the plain picture, escapes of DOT. Never: running
Graphviz (`engine`), reading files. Other pictures of a chart have their own `Dress`.
"""

from __future__ import annotations

import html
import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, Protocol

from chartloop.core.visible import cut
from chartloop.pictures.dot.layout import as_reached, effort, panels, pulling, stands_above
from chartloop.pictures.flowchart import (
    COLOUR,
    Arrow,
    Box,
    Flowchart,
    Role,
    Shape,
    one_line,
    printable,
)
from chartloop.pictures.ids import safe_ids

FONT = "Inter,Helvetica,Arial,sans-serif"
BOLD = f"{FONT} Bold"
"""The bold font: Graphviz selects a weight by font name only."""
INK = "#1e293b"

_LONG = 60
"""The longest line that is not broken, in characters. Of lists of rules: `from_graph.LISTED`."""
_TIP = 1_000
"""The most characters of a tooltip. Graphviz refuses a text of 16,384 bytes; a character may take
four of them, and a backslash is written four times."""

_GRAPH = MappingProxyType(
    {
        "newrank": "true",
        "nodesep": ".28",
        "ranksep": ".42",
        "pad": ".35",
        "splines": "spline",
        "remincross": "true",
        "outputorder": "edgesfirst",
        "labelloc": "t",
        "labeljust": "l",
        "fontname": BOLD,
        "fontsize": "18",
        "fontcolor": INK,
    }
)
_NODE = MappingProxyType(
    {
        "shape": "box",
        "style": "rounded,filled",
        "fontname": FONT,
        "fontsize": "11",
        "fontcolor": INK,
        "penwidth": "1.2",
        "margin": "0.16,0.09",
        "height": ".4",
    }
)
_EDGE = MappingProxyType(
    {
        "fontname": FONT,
        "fontsize": "11",
        "fontcolor": "#475569",
        "color": "#64748b",
        "arrowsize": ".65",
    }
)


class Paint(NamedTuple):
    """The fill and the border of a box."""

    fill: str
    border: str


PAINTS: Mapping[Role, Paint] = MappingProxyType(
    {
        "completed": Paint("#c8e6c9", "#16a34a"),
        "stop": Paint("#ffcdd2", "#dc2626"),
        "start": Paint("#e1f5ff", "#0284c7"),
        "end": Paint("#e1f5ff", "#0284c7"),
        "hub": Paint("#fff9c4", "#a16207"),
        "decision": Paint("#f5f3ff", "#8b5cf6"),
        "action": Paint("#f8fafc", "#7c8aa0"),
        "rules": Paint("#ffffff", "#7c8aa0"),
    }
)

_DOT = MappingProxyType(
    {
        "label": "",
        "shape": "point",
        "width": ".1",
        "color": PAINTS["start"].border,
        "tooltip": "start",
    }
)
"""The dot that leads to a box where a run starts."""

_TIGHT = "0.07,0.04"


def _form(shape: str, *, margin: str = "0.16,0.09") -> Mapping[str, str]:
    return MappingProxyType({"shape": shape, "style": "filled", "margin": margin})


_SHAPES: Mapping[Shape, Mapping[str, str]] = MappingProxyType(
    {
        "rect": {"style": "filled"},
        "pill": {"style": "rounded,filled"},
        "diamond": {**_form("diamond", margin=_TIGHT), "width": "1.6", "height": "1.0"},
        "round": {},
        "circle": _form("circle"),
        "subroutine": {"style": "filled", "peripheries": "2"},
        "hexagon": _form("hexagon"),
        "flag": _form("rarrow"),
        "cylinder": _form("cylinder"),
        "ellipse": _form("ellipse"),
        "double_circle": _form("doublecircle", margin=_TIGHT),
        "lean_right": _form("parallelogram", margin=_TIGHT),
        "lean_left": {**_form("polygon", margin=_TIGHT), "sides": "4", "skew": "-.4"},
        "trapezoid": _form("trapezium", margin=_TIGHT),
        "inverted_trapezoid": _form("invtrapezium", margin=_TIGHT),
        "bang": _form("star", margin=_TIGHT),
        "bolt": _form("larrow"),
        "bow_tie": _form("cds"),
        "brace": _form("plain"),
        "braces": _form("plain"),
        "browser": _form("tab"),
        "bucket": _form("invtrapezium", margin=_TIGHT),
        "card": {"style": "filled,diagonals"},
        "cloud": _form("oval"),
        "console": _form("tab"),
        "crossed_circle": _form("Mcircle", margin=_TIGHT),
        "datastore": _form("underline"),
        "delay": _form("rpromoter"),
        "display": _form("cds", margin="0.16,0.16"),
        "divided_rect": _form("component"),
        "document": _form("note"),
        "documents": {**_form("note"), "peripheries": "2"},
        "filled_circle": _form("circle"),
        "flipped_triangle": _form("invtriangle", margin=_TIGHT),
        "folder": _form("folder"),
        "fork": {"style": "filled", "penwidth": "3"},
        "framed_circle": _form("doublecircle", margin=_TIGHT),
        "hourglass": _form("Mdiamond", margin=_TIGHT),
        "lined_cylinder": _form("cylinder"),
        "lined_document": _form("note"),
        "lined_rect": _form("component"),
        "lying_cylinder": _form("cylinder"),
        "paper_tape": _form("signature"),
        "pentagon": _form("house", margin=_TIGHT),
        "person": _form("egg"),
        "right_brace": _form("plain"),
        "sloped_rect": _form("polygon"),
        "small_circle": _form("circle"),
        "stacked_rect": _form("box3d"),
        "tagged_document": _form("note"),
        "tagged_rect": _form("tab"),
        "text": _form("plain"),
        "triangle": _form("triangle", margin=_TIGHT),
        "window": _form("Msquare"),
    }
)
"""The nearest shape that Graphviz has."""


Style = Mapping[str, str]
"""DOT attributes. A value is plain text, whatever its characters, unless it is `Html`."""


class Html(str):
    """An HTML-like label with its angle brackets; its maker escapes the texts in it."""

    __slots__ = ()


class Dress:
    """The plain look of a chart's parts. Other pictures override methods of it."""

    def title(self, chart: Flowchart) -> Style:
        """The attributes of the graph, its title included."""
        return title_style(chart)

    def box(self, box: Box) -> Style:
        """The attributes of a box."""
        return box_style(box)

    def arrow(self, arrow: Arrow) -> Style:
        """The attributes of an arrow."""
        return arrow_style(arrow)


PLAIN = Dress()


class Tuning(NamedTuple):
    """What one layout of a chart has otherwise than the first: `clear` tries some."""

    apart: tuple[float, float] | None = None
    """Inches between boxes of a row, and between rows."""
    weights: Mapping[str, int] = MappingProxyType({})
    """Of single arrows, by their ids in the SVG."""
    turned: bool = False
    """Whether every second loop at one box is drawn at its other side."""


AS_IS = Tuning()
_EVEN = tuple("02468")
"""How the id ends of the first of several arrows between two boxes, of the third, and so on."""


class _Digraph(Protocol):
    """The part of `graphviz.Digraph` used here; the library has no types."""

    def attr(self, kw: str | None = None, **attributes: str) -> None: ...
    def node(self, name: str, **attributes: str) -> None: ...
    def edge(self, tail_name: str, head_name: str, **attributes: str) -> None: ...
    @property
    def source(self) -> str: ...


def to_dot(
    chart: Flowchart, *, prefix: str = "", dress: Dress = PLAIN, tuning: Tuning = AS_IS
) -> str:
    """The chart as DOT text. Equal charts and prefixes give equal texts.

    In the SVG a box has the id `node-<box>` and an arrow `edge-<from>-<to>-<n>`, where n counts the
    parallel arrows from 0; `prefix` precedes each, so that several pictures can share a page.
    `dress` decides how boxes and arrows look, `tuning` changes where they stand.
    """
    graph, nohtml = _door()

    def never_html(style: Style) -> dict[str, str]:
        return {n: v if isinstance(v, Html) else nohtml(v) for n, v in style.items()}

    named = svg_ids(chart, prefix)
    ids = safe_ids(box.id for box in chart.boxes)
    whole = never_html(dress.title(chart))
    graph.attr(id=named.chart, rankdir=chart.direction.upper(), **effort(chart), **whole)
    if tuning.apart is not None:
        graph.attr(nodesep=f"{tuning.apart[0]:g}", ranksep=f"{tuning.apart[1]:g}")
    reached = as_reached(chart)
    for box in reached:
        name = ids[box.id]
        graph.node(name, id=named.boxes[box.id], **never_html(dress.box(box)))
        if box.entry:
            dot, way = entry_ids(named.boxes[box.id])
            graph.node(f"{name}-entry", id=dot, **_DOT)
            graph.edge(f"{name}-entry", name, id=way, color=_DOT["color"], tooltip="start")
    for panel in panels(chart):
        above = stands_above(panel, chart)  # its topmost node is the dot that leads to it, if any
        top = f"{ids[above.id]}-entry" if above.entry else ids[above.id]
        graph.edge(ids[panel.id], top, style="invis", weight="0")
    pull = pulling(chart, reached)
    for arrow, name in zip(chart.arrows, named.arrows, strict=True):
        ends = ids[arrow.source], ids[arrow.target]
        weight = str(tuning.weights.get(name, pull(arrow)))
        style = {"weight": weight, **never_html(dress.arrow(arrow))}
        if tuning.turned and arrow.source == arrow.target and not name.endswith(_EVEN):
            style |= {"tailport": "w", "headport": "w"}
        graph.edge(*ends, id=name, **style)
    return graph.source


class SvgIds(NamedTuple):
    """The ids of a chart's parts in its SVG."""

    prefix: str
    """The prefix of each, without characters that an id cannot have."""
    chart: str
    boxes: Mapping[str, str]
    """By the id of the box."""
    arrows: tuple[str, ...]
    """In the order of the chart's arrows."""


def svg_ids(chart: Flowchart, prefix: str) -> SvgIds:
    """The ids that `to_dot` gives the parts of this chart."""
    prefix = re.sub(r"[^\w-]", "_", prefix, flags=re.ASCII)
    ids = safe_ids(box.id for box in chart.boxes)
    between: Counter[tuple[str, str]] = Counter()
    arrows: list[str] = []
    for arrow in chart.arrows:
        ends = ids[arrow.source], ids[arrow.target]
        arrows.append(f"{prefix}edge-{ends[0]}-{ends[1]}-{between[ends]}")
        between[ends] += 1
    boxes = {box: f"{prefix}node-{name}" for box, name in ids.items()}
    return SvgIds(prefix, f"{prefix}chart", boxes, tuple(arrows))


def entry_ids(box: str) -> tuple[str, str]:
    """The ids of the dot where a run starts and of its arrow, from the id of the box after it."""
    return f"{box}-entry", f"{box}-enter"


def _door() -> tuple[_Digraph, Callable[[str], str]]:
    """An empty graph, and the function that keeps a text from being taken for HTML."""
    import graphviz  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - only when drawing

    graph = graphviz.Digraph(graph_attr=dict(_GRAPH), node_attr=dict(_NODE), edge_attr=dict(_EDGE))
    return graph, graphviz.nohtml


def title_style(chart: Flowchart) -> dict[str, str]:
    """The title in the plain picture."""
    title = one_line(chart.title)
    label = dot_text(f"{in_lines(title)}\n ", left=True)
    side = {"labeljust": "r"} if _reads_leftwards(title) else {}
    return {"label": label, "tooltip": dot_tip(title), **side} if title else {}


def _reads_leftwards(text: str) -> bool:
    """Whether a text is written from right to left, judged by its first letter."""
    ways = (unicodedata.bidirectional(sign) for sign in text)
    return next((way for way in ways if way in ("L", "R", "AL")), "L") != "L"


def inked_rules(box: Box, inks: Iterable[str], rest: str) -> Html:
    """The label of a box of rules with each rule in its own colour, or `rest` without one."""
    title, *lines = box.label.strip("\n").split("\n")
    rows, left = [html_text(title)], iter(inks)
    ink = ""
    for line in lines:
        ink = ink or next(left, rest)
        rows.append(f'<FONT COLOR="{ink}">{html_text(line)}</FONT>')
        ink = "" if "→" in line else ink  # a long rule continues in the next line
    broken = '<BR ALIGN="LEFT"/>'
    return Html(f"<{broken.join(rows)}{broken}>")


def box_style(box: Box) -> dict[str, str]:
    """The attributes of a box in the plain picture."""
    paint = PAINTS[box.role]
    fill = (box.fill or "").lower()
    style = {
        "label": dot_text(in_lines(box.label)),
        "tooltip": dot_tip(box.label),
        "fillcolor": fill if COLOUR.fullmatch(fill) else paint.fill,
        "color": paint.border,
        **_SHAPES[box.shape],
    }
    if box.role in ("start", "end"):
        style |= {"fontname": BOLD, "penwidth": "1.8"}
    if box.role == "rules":
        style["style"] = "rounded,filled,dashed"
        style["label"] = dot_text(box.label, left="\n" in box.label)
    return style


def as_shown(chart: Flowchart, *, dress: Dress = PLAIN) -> Flowchart:
    """The chart that a reader of the picture sees: each box in the shape that Graphviz draws.

    Two shapes that are drawn alike become one here, so that comparing tells what a picture hides.
    """
    return replace(chart, boxes=tuple(replace(b, shape=_seen(b, dress)) for b in chart.boxes))


def _seen(box: Box, dress: Dress) -> Shape:
    style = {**_NODE, **dress.box(box)}
    form = style["shape"], "rounded" in style["style"]
    return _SEEN.get(form, box.shape)


_SEEN: Mapping[tuple[str, bool], Shape] = MappingProxyType(
    {("box", False): "rect", ("box", True): "pill", ("diamond", False): "diamond"}
)
"""The shapes that machines have, by the form and the corners in the picture."""


def arrow_style(arrow: Arrow) -> dict[str, str]:
    """The attributes of an arrow in the plain picture."""
    style = {"style": "dashed"} if arrow.kind in ("rule", "return") else {}
    if one_line(arrow.drawn_text):
        tip = dot_tip(arrow.tip)
        lines = in_lines(arrow.drawn_text).strip().splitlines()
        padded = "\n".join(f" {line.strip()} " for line in lines)
        style |= {"label": dot_text(padded), "tooltip": tip, "labeltooltip": tip}
    return style


def in_lines(text: str, *, narrowest: int = _LONG * 3 // 4) -> str:
    """A text with its long lines broken, at spaces if there are any.

    The longer a line, the longer its parts, so that a page of text becomes a block rather than a
    column; `narrowest` is the least width of a part, in characters.
    """
    lines: list[str] = []
    for line in printable(text).split("\n"):
        width = max(narrowest, round((5 * len(line)) ** 0.5))
        short = len(line) <= _LONG
        lines += [line] if short else textwrap.wrap(line, width, break_on_hyphens=False)
    return "\n".join(lines)


def dot_text(text: str, *, left: bool = False) -> str:
    """A text with entities and escapes disabled; `left` aligns its lines at the left."""
    plain = printable(text).strip("\n").replace("&", "&amp;").replace("\\", "\\\\")
    return plain.replace("\n", "\\l") + "\\l" if left else plain.replace("\n", "\\n")


def html_text(text: str) -> str:
    """A text escaped for an `Html` label."""
    # the parser of such labels drops a text that is only `]`
    return html.escape(printable(text)).replace("\\", "\\\\").replace("]", "&#93;")


def dot_tip(text: str) -> str:
    """A text for tooltips, in which Graphviz expands escapes twice; a very long one is cut."""
    tip = printable(text).strip("\n")
    tip = cut(tip, _TIP)
    return tip.replace("&", "&amp;").replace("\\", "\\" * 4)
