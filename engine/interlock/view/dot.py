"""A chart as Graphviz text, and Graphviz itself: the only door to it.

Belongs here: colours, fonts and margins of the drawn picture, escapes of DOT, and running an
engine: `dot` on PATH, else pygraphviz, whose wheels carry Graphviz. Both in a process of their
own, which ends when its time is up. Never: reading files, the network, HTML-like labels.

Imports:      view.flowchart, view.mermaid (ids)
Imported by:  view.picture
Source:       design "traps" (pictures); design "look", `plain.png`
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

from interlock.core.errors import RunError, SetupError
from interlock.view.flowchart import Arrow, Box, Flowchart, Role, Shape, one_line, printable
from interlock.view.mermaid import COLOUR, safe_ids

Engine = Literal["dot", "pygraphviz", "mermaid"]
"""What draws: `mermaid` when there is no Graphviz, and whoever shows the picture must draw it."""

INSTALL = 'pip install "interlock[diagrams]"'

_FONT = "Inter,Helvetica,Arial,sans-serif"
_BOLD = f"{_FONT} Bold"
_INK = "#1e293b"

_GRAPH = MappingProxyType(
    {
        "rankdir": "TB",
        "newrank": "true",
        "nodesep": ".28",
        "ranksep": ".42",
        "pad": ".35",
        "splines": "spline",
        "remincross": "true",
        "outputorder": "edgesfirst",
        "labelloc": "t",
        "labeljust": "l",
        "fontname": _BOLD,
        "fontsize": "18",
        "fontcolor": _INK,
    }
)
_NODE = MappingProxyType(
    {
        "shape": "box",
        "style": "rounded,filled",
        "fontname": _FONT,
        "fontsize": "11",
        "fontcolor": _INK,
        "penwidth": "1.2",
        "margin": "0.16,0.09",
        "height": ".4",
    }
)
_EDGE = MappingProxyType(
    {
        "fontname": _FONT,
        "fontsize": "9",
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
        "hub": Paint("#fff9c4", "#ca8a04"),
        "decision": Paint("#f5f3ff", "#8b5cf6"),
        "action": Paint("#f8fafc", "#94a3b8"),
        "rules": Paint("#ffffff", "#94a3b8"),
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
"""What leads into a box where a run starts."""

_SHAPES: Mapping[Shape, Mapping[str, str]] = MappingProxyType(
    {
        "rect": {},
        "pill": {},
        "diamond": {
            "shape": "diamond",
            "style": "filled",
            "width": "1.6",
            "height": "1.0",
            "margin": "0.07,0.04",
        },
        "round": {},
        "circle": {"shape": "circle", "style": "filled"},
        "subroutine": {"style": "filled", "peripheries": "2"},
        "hexagon": {"shape": "hexagon", "style": "filled"},
        "flag": {"shape": "rarrow", "style": "filled"},
    }
)


class _Digraph(Protocol):
    """What is used of `graphviz.Digraph`, which brings no types of its own."""

    def attr(self, kw: str | None = None, **attributes: str) -> None: ...
    def node(self, name: str, **attributes: str) -> None: ...
    def edge(self, tail_name: str, head_name: str, **attributes: str) -> None: ...
    @property
    def source(self) -> str: ...


def to_dot(chart: Flowchart, *, prefix: str = "") -> str:
    """The chart in the language of Graphviz. Equal charts and prefixes give equal texts.

    In the SVG a box has the id `node-<box>` and an arrow `edge-<from>-<to>-<n>`, n counting from
    0 among the arrows between the same two; `prefix` stands in front of each, so that several
    pictures can share a page.
    """
    graph, nohtml = _door()

    def never_html(style: Mapping[str, str]) -> dict[str, str]:
        return {name: nohtml(value) for name, value in style.items()}

    prefix = re.sub(r"[^\w-]", "_", prefix, flags=re.ASCII)
    ids = safe_ids(box.id for box in chart.boxes)
    graph.attr(id=f"{prefix}chart", **never_html(_title_style(chart)))
    for box in _as_reached(chart):
        name = ids[box.id]
        graph.node(name, id=f"{prefix}node-{name}", **never_html(_box_style(box)))
        if box.entry:
            graph.node(f"{name}-entry", **_DOT)
            graph.edge(f"{name}-entry", name, color=_DOT["color"], tooltip="start")
    for panel in _panels(chart):
        graph.edge(ids[panel.id], _top(chart.boxes[0], ids), style="invis", weight="0")
    between: Counter[tuple[str, str]] = Counter()
    for arrow in chart.arrows:
        ends = ids[arrow.source], ids[arrow.target]
        name = f"{prefix}edge-{ends[0]}-{ends[1]}-{between[ends]}"
        between[ends] += 1
        graph.edge(*ends, id=name, **never_html(_arrow_style(arrow)))
    return graph.source


def _as_reached(chart: Flowchart) -> list[Box]:
    """The boxes in the order in which they are reached, breadth first.

    Graphviz keeps to the order of declaration where it can: so stops gather on one side and ways
    back on the other, wherever a file has its states.
    """
    boxes = {box.id: box for box in chart.boxes}
    ahead: dict[str, list[str]] = {}
    for arrow in chart.arrows:
        ahead.setdefault(arrow.source, []).append(arrow.target)
    reached: dict[str, Box] = {}
    for first in (*list(boxes)[:1], *(box.id for box in _panels(chart)), *boxes):
        waiting = [first]
        for name in waiting:
            if name not in reached:
                reached[name] = boxes[name]
                waiting += ahead.get(name, ())
    return list(reached.values())


def _top(box: Box, ids: Mapping[str, str]) -> str:
    """What is drawn first of a box: the dot that leads to it, or itself."""
    return f"{ids[box.id]}-entry" if box.entry else ids[box.id]


def _panels(chart: Flowchart) -> list[Box]:
    """Where what rules do begins; an arrow may lead back there from a detour."""
    led_to = {arrow.target for arrow in chart.arrows if arrow.kind != "return"}
    return [box for box in chart.boxes if box.role == "rules" and box.id not in led_to]


def _door() -> tuple[_Digraph, Callable[[str], str]]:
    """An empty graph, and what keeps a text from being taken for HTML."""
    import graphviz  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - only when drawing

    graph = graphviz.Digraph(graph_attr=dict(_GRAPH), node_attr=dict(_NODE), edge_attr=dict(_EDGE))
    return graph, graphviz.nohtml


def _title_style(chart: Flowchart) -> dict[str, str]:
    title = one_line(chart.title)
    return {"label": _label(f"{title}\n "), "tooltip": _tooltip(title)} if title else {}


def _box_style(box: Box) -> dict[str, str]:
    paint = PAINTS[box.role]
    fill = (box.fill or "").lower()
    style = {
        "label": _label(box.label),
        "tooltip": _tooltip(box.label),
        "fillcolor": fill if COLOUR.fullmatch(fill) else paint.fill,
        "color": paint.border,
        **_SHAPES[box.shape],
    }
    if box.role in ("start", "end"):
        style |= {"fontname": _BOLD, "penwidth": "1.8"}
    if box.role == "rules":
        style["style"] = "rounded,filled,dashed"
        style["label"] = _label(box.label, left="\n" in box.label)
    return style


def _arrow_style(arrow: Arrow) -> dict[str, str]:
    style = {"style": "dashed"} if arrow.kind in ("rule", "return") else {}
    if one_line(arrow.shown):
        tip = _tooltip(arrow.shown)
        padded = "\n".join(f" {line.strip()} " for line in arrow.shown.strip().splitlines())
        style |= {"label": _label(padded), "tooltip": tip, "labeltooltip": tip}
    return style


def _label(text: str, *, left: bool = False) -> str:
    """A text in which Graphviz sees no entity and no escape; `left`: its lines as in a list."""
    plain = printable(text).strip("\n").replace("&", "&amp;").replace("\\", "\\\\")
    return plain.replace("\n", "\\l") + "\\l" if left else plain.replace("\n", "\\n")


def _tooltip(text: str) -> str:
    """The same for tooltips, which Graphviz reads for escapes twice."""
    return printable(text).strip("\n").replace("&", "&amp;").replace("\\", "\\" * 4)


def find_engine() -> Engine:
    """What is here to draw with."""
    if shutil.which("dot"):
        return "dot"
    return "pygraphviz" if importlib.util.find_spec("pygraphviz") else "mermaid"


def render(
    source: str, form: Literal["svg", "png"], *, engine: Engine, timeout: float = 30.0
) -> bytes:
    """The picture of a DOT text, laid out within `timeout` seconds.

    SetupError: there is no such engine, or it failed. RunError: it took too long.
    """
    command = _command(engine, form)
    try:
        done = subprocess.run(
            command, input=source.encode(), capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        raise RunError(
            f"Graphviz did not lay the chart out within {timeout:g} s",
            hint="save it as `.mmd` or `.dot` and draw it elsewhere, or draw a smaller machine",
        ) from None
    except OSError as error:
        raise SetupError(f"`{command[0]}` cannot be started: {error}", hint=INSTALL) from None
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise SetupError(
            f"{engine} drew nothing: {said[-1] if said else 'it gave no reason'}",
            hint=f"see whether it is installed whole; or {INSTALL}",
        )
    return _for_pages(done.stdout) if form == "svg" else done.stdout


# `string=`: a text that is no graph would otherwise be taken for the name of a file.
_PYGRAPHVIZ = (
    "import sys, pygraphviz\n"
    "graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode())\n"
    "sys.stdout.buffer.write(graph.draw(format=sys.argv[1], prog='dot'))"
)


def _command(engine: Engine, form: str) -> list[str]:
    if engine == "dot" and (program := shutil.which("dot")):
        return [program, f"-T{form}"]
    if engine == "pygraphviz" and importlib.util.find_spec("pygraphviz"):
        return [sys.executable, "-P", "-c", _PYGRAPHVIZ, form]
    missing = "there is no Graphviz" if engine == "mermaid" else f"{engine} is not installed"
    raise SetupError(f"{missing}: {form.upper()} cannot be drawn", hint=INSTALL)


def _for_pages(svg: bytes) -> bytes:
    """The SVG with what browsers and scripts look for.

    Graphviz writes the weight of a font into its name, where no browser finds it, and some
    versions write the hyphens of an id as codes. Neither text can stand in a label: there
    quotes are written as codes.
    """
    svg = svg.replace(
        f'font-family="{_BOLD}"'.encode(), f'font-family="{_FONT}" font-weight="bold"'.encode()
    )
    return re.sub(rb' id="[^"]*"', lambda found: found.group().replace(b"&#45;", b"-"), svg)
