"""A live picture for a notebook: an image that follows its theme, and text without Graphviz.

The picture is an HTML image that contains the SVG: so an untrusted notebook shows it too, although
JupyterLab does not draw SVG there, and pictures cannot disturb each other. A PNG would have to be
laid out and drawn again: half a second for 45 states, compared with 1 ms.

Source: docs/notebook.md, "A picture that follows the run"
"""

from __future__ import annotations

import re
from typing import Any

from chartloop.core.errors import ChartloopError
from chartloop.core.html_table import image
from chartloop.pictures.flowchart import one_line
from chartloop.pictures.live.live_picture import LivePicture
from chartloop.pictures.live.progress import Standing


def live_bundle(
    picture: LivePicture, standing: Standing, *, height: float | None = None
) -> dict[str, Any]:
    """A live picture for a notebook; if it cannot be drawn, text with the reason.

    `height` is the most pixels that it is high: of a larger one the part around the current state.
    """
    text = picture.text(standing)
    try:
        svg = picture.svg(standing, "auto")
    except ChartloopError as error:  # no Graphviz, or a chart that it cannot lay out in time
        return {"text/plain": text if picture.engine == "mermaid" else f"{text}\n{error}\n"}
    if height is not None:
        svg = part_around(svg, picture.ids.boxes.get(picture.box(standing), ""), height)
    return {"text/html": on_page(svg, describe_picture(picture, standing)), "text/plain": text}


_SIZE = re.compile(
    r'width="[\d.]+pt"\s+height="[\d.]+pt"\s+viewBox="0\.00 0\.00 ([\d.]+) ([\d.]+)"'
)
_MOVED = re.compile(r'transform="scale\([^)]*\) rotate\([^)]*\) translate\([-\d.]+ ([-\d.]+)\)"')
_PIXELS = 4 / 3
"""Pixels of a point."""
_READABLE = 0.75
"""The least scale of a picture that is made smaller, at which labels have 11 pixels."""


def part_around(svg: str, box: str, height: float) -> str:
    """The SVG at most `height` pixels high: smaller while readable, else the part around a box.

    `box` is the id of its element; without one, the top is shown.
    """
    size, moved = _SIZE.search(svg), _MOVED.search(svg)
    if size is None or moved is None:
        return svg
    wide, high = float(size[1]), float(size[2])
    scale = min(1.0, max(_READABLE, height / (high * _PIXELS)))
    seen = min(high, height / (_PIXELS * scale))
    group = re.search(rf'<g id="{re.escape(box)}" class="node">(.*?)</g>', svg, re.DOTALL)
    ys = [float(y) for y in re.findall(r"[\d.],(-?[\d.]+)", group[1])] if box and group else []
    middle = (min(ys) + max(ys)) / 2 + float(moved[1]) if ys else 0.0
    top = max(0.0, min(high - seen, middle - seen / 2))
    window = (
        f'width="{wide * scale:.2f}pt" height="{seen * scale:.2f}pt"'
        f' viewBox="0 {top:.2f} {wide:.2f} {seen:.2f}"'
    )
    return f"{svg[: size.start()]}{window}{svg[size.end() :]}"


_THEMES = (
    ("dark", '[data-jp-theme-light="false"] .cl-live,.vscode-dark .cl-live,.dark .cl-live'),
    ("light", '[data-jp-theme-light="true"] .cl-live,.vscode-light .cl-live,.light .cl-live'),
)
"""The selectors of notebook themes: JupyterLab, VS Code and marimo."""
_FOLLOW = "".join(f"{where}{{color-scheme:{theme}}}" for theme, where in _THEMES)


def on_page(svg: str, alt: str) -> str:
    """An adaptive SVG as an image that follows the theme of the notebook.

    If the style is removed, as in an untrusted notebook, it follows the system's theme.
    """
    return f'<div class="cl-live"><style>{_FOLLOW}</style>{image(svg, alt)}</div>'


def describe_picture(picture: LivePicture, standing: Standing) -> str:
    """A picture in words, for screen readers: the machine, its status, the states it entered."""
    title = one_line(picture.chart.title) or "a machine"
    entered = [state for state, times in standing.visits.items() if times]
    way = f"; it went through {', '.join(entered[:_NAMED])}" if entered else ""
    more = f" and {len(entered) - _NAMED} more" if len(entered) > _NAMED else ""
    return f"Flowchart of {title}: {standing.caption}{way}{more}"


_NAMED = 12
"""The most states that a description names."""
