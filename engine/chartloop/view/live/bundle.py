"""A painted picture for a notebook: an image that follows its theme, and text where there is none.

The picture is an image with its SVG inside, in HTML: so it is shown in a notebook that is not
trusted too, where JupyterLab draws no SVG, and no two pictures can disturb each other. A PNG would
have to be laid out and drawn anew: half a second for 45 states, where this takes 1 ms.

Source: design "traps" (pictures and notebooks)
"""

from __future__ import annotations

from typing import Any

from chartloop.core.errors import ChartloopError
from chartloop.core.html_table import image
from chartloop.view.flowchart import one_line
from chartloop.view.live.live_picture import LivePicture
from chartloop.view.live.progress import Standing


def live_bundle(picture: LivePicture, standing: Standing) -> dict[str, Any]:
    """A painted picture for a notebook; text with what is missing where it cannot be drawn."""
    text = picture.text(standing)
    try:
        svg = picture.svg(standing, "auto")
    except ChartloopError as error:  # no Graphviz, or a chart that it cannot lay out in time
        return {"text/plain": text if picture.engine == "mermaid" else f"{text}\n{error}\n"}
    return {"text/html": on_page(svg, describe_picture(picture, standing)), "text/plain": text}


_THEMES = (
    ("dark", '[data-jp-theme-light="false"] .cl-live,.vscode-dark .cl-live,.dark .cl-live'),
    ("light", '[data-jp-theme-light="true"] .cl-live,.vscode-light .cl-live,.light .cl-live'),
)
"""How notebooks name the themes that they are in: of JupyterLab, VS Code and marimo."""
_FOLLOW = "".join(f"{where}{{color-scheme:{theme}}}" for theme, where in _THEMES)


def on_page(svg: str, alt: str) -> str:
    """An adaptive SVG as an image that goes by the theme of the notebook.

    Where the style is taken out, as of a notebook that is not trusted, it goes by the system's.
    """
    return f'<div class="cl-live"><style>{_FOLLOW}</style>{image(svg, alt)}</div>'


def describe_picture(picture: LivePicture, standing: Standing) -> str:
    """A picture in words, for screen readers: the machine, its status, the states it entered."""
    title = one_line(picture.chart.title) or "a machine"
    entered = [state for state, times in standing.visits.items() if times]
    way = f"; it went through {', '.join(entered[:_NAMED])}" if entered else ""
    more = f" and {len(entered) - _NAMED} more" if len(entered) > _NAMED else ""
    return f"Flowchart of {title}: {standing.said}{way}{more}"


_NAMED = 12
"""States that a description names."""
