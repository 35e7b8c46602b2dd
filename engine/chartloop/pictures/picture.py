"""Pictures of a chart: in a notebook, in a file, in any format.

Belongs here: the choice of program and file for each format. Never: the formats themselves, each of
which has its own module. Everything is drawn on demand.

Source: docs/pictures.md
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property, partial
from operator import methodcaller
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, get_args

from chartloop.core.errors import ChartloopError, RunError, refuse_unknown
from chartloop.core.html_table import image
from chartloop.extras import install
from chartloop.pictures.dot.accessible import add_description
from chartloop.pictures.dot.clear import Clear, lay_out
from chartloop.pictures.dot.engine import Engine, find_engine, render
from chartloop.pictures.dot.theme import Theme, adaptive, to_dark
from chartloop.pictures.dot.write import PLAIN, Dress, svg_ids, to_dot
from chartloop.pictures.flowchart import Flowchart, one_line
from chartloop.pictures.mermaid import to_mermaid, too_large
from chartloop.pictures.save import save
from chartloop.pictures.text.draw import MOST, WIDTH, Drawing, draw
from chartloop.pictures.text.outline import to_outline

_SMALL = 60
"""The most boxes for which a notebook gets a PNG too, since some do not show SVG. A larger picture
is sent again as an image in HTML: a PNG of it would take megabytes."""


class Picture:
    """One chart, in any format. A notebook displays it.

    `engine` draws SVG and PNG: `dot` or `pygraphviz`, by default the first that is installed. With
    `mermaid`, the default if neither is installed, notebooks get Mermaid text. `prefix` precedes
    every id in the SVG; by default it is a hash of the chart. `timeout` limits each drawing, in
    seconds.
    """

    def __init__(
        self,
        chart: Flowchart,
        *,
        prefix: str | None = None,
        engine: Engine | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.chart = chart
        self._prefix = prefix
        self._engine: Engine | None = engine
        self._timeout = timeout
        self._theme: Theme = "light"
        self._scale = 1.0
        self._dress: Dress = PLAIN
        """How boxes and arrows look, in DOT, SVG and PNG."""
        self._stays = False
        """Whether everything stands where the plain picture has it."""

    def __repr__(self) -> str:
        chart = self.chart
        return (
            f"<Picture {one_line(chart.title)!r}: "
            f"{len(chart.boxes)} boxes, {len(chart.arrows)} arrows>"
        )

    @property
    def engine(self) -> Engine:
        """The program that draws SVG and PNG; `mermaid` without Graphviz."""
        return self._engine or find_engine()

    @cached_property
    def prefix(self) -> str:
        """The prefix of every id in the SVG; equal charts have equal ones."""
        if self._prefix is not None:
            return self._prefix
        return f"m{hashlib.sha256(self.mermaid().encode()).hexdigest()[:8]}-"

    def mermaid(self) -> str:
        """Mermaid text."""
        return to_mermaid(self.chart)

    def dot(self) -> str:
        """DOT, the language of Graphviz."""
        return to_dot(self.chart, prefix=self.prefix, dress=self._dress)

    def text(self, width: int = WIDTH) -> str:
        """A picture in characters, at most `width` columns wide.

        For a chart that is wider, or too large to follow its lines, the outline instead.
        """
        drawn = self.drawing(width=width)
        return self.outline() if drawn is None else drawn.text()

    def drawing(self, *, width: int = WIDTH, here: str = "") -> Drawing | None:
        """The picture in characters, with the box of each; None if `text` would be an outline.

        `here` is the id of the box where a run is.
        """
        return draw(self.chart, width=width, here=here) if len(self.chart.boxes) <= MOST else None

    def outline(self) -> str:
        """A line for each box and each arrow: for logs, screen readers and searches."""
        return to_outline(self.chart)

    def svg(self) -> str:
        """An `<svg>` element, for a file or a page. Errors: see `pictures.dot.engine.render`."""
        return self._svg

    def png(self) -> bytes:
        """A PNG image. Errors: see `pictures.dot.engine.render`."""
        return self._png

    @cached_property
    def _laid_out(self) -> Clear:
        """The layout, which PNG takes from SVG."""
        draw = partial(
            lay_out, self.chart, self.prefix, engine=self.engine, timeout=self._timeout,
            recolour=to_dark if self._theme == "dark" else str,
        )  # fmt: skip
        like = draw().tuning if self._stays else None
        return draw(dress=self._dress, like=like)

    @cached_property
    def _svg(self) -> str:
        drawn = self._laid_out.svg
        element = drawn[drawn.index("<svg") :]
        svg = add_description(element, self.chart, prefix=self.prefix, outline=self.outline())
        return (
            adaptive(svg, svg_ids(self.chart, self.prefix).chart) if self._theme == "auto" else svg
        )

    @cached_property
    def _png(self) -> bytes:
        source, scale = self._laid_out.source, self._scale
        return render(source, "png", engine=self.engine, timeout=self._timeout, scale=scale)

    def with_theme(self, theme: Theme) -> Self:
        """A copy with a theme: `light`, `dark`, or `auto`, an SVG that follows its page.

        Only SVG and PNG have themes; an `auto` PNG is light. RunError: there is no such theme.
        """
        refuse_unknown("theme", theme, get_args(Theme))
        other = copy(self)
        other._theme = theme
        for drawn in ("_svg", "_png", "_laid_out"):
            vars(other).pop(drawn, None)
        return other

    def at_scale(self, scale: float) -> Self:
        """A copy whose PNG has `scale` times the pixels each way: 2 for a sharp screen.

        RunError: the scale is not from 0.1 to 10.
        """
        if not 0.1 <= scale <= 10:
            raise RunError(f"no picture has the scale {scale:g}", hint="take one from 0.1 to 10")
        other = copy(self)
        other._scale = scale
        vars(other).pop("_png", None)
        return other

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file, in the format of its suffix; returns the path.

        The write is atomic. RunError: no such format, or the file cannot be written.
        """
        return save(path, {suffix: partial(write, self) for suffix, write in _FORMATS.items()})

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return self.bundle()

    def bundle(self) -> dict[str, Any]:
        """The notebook view: SVG, PNG if it is small, text; Mermaid without Graphviz."""
        return self._bundle(self.text())

    def _bundle(self, text: str) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/plain": text}
        if self.engine == "mermaid":
            bundle["text/plain"] += f"\nFor a picture: {install('diagrams')}\n"
            chart = self.mermaid()
            return bundle if too_large(chart) else bundle | {"text/vnd.mermaid": chart}
        try:
            bundle["image/svg+xml"] = self.svg()
            if len(self.chart.boxes) <= _SMALL:
                bundle["image/png"] = base64.b64encode(self.png()).decode()
            else:
                bundle["text/html"] = image(self.svg(), self.chart.title)
        except ChartloopError as error:  # Graphviz failed: show the text, with the reason
            bundle["text/plain"] += f"\n{error}\n"
        return bundle


# by name, so that a subclass can override each method
_FORMATS: Mapping[str, Callable[[Picture], str | bytes]] = MappingProxyType(
    {
        ".svg": methodcaller("svg"),
        ".png": methodcaller("png"),
        ".mmd": methodcaller("mermaid"),
        ".mermaid": methodcaller("mermaid"),
        ".dot": methodcaller("dot"),
        ".gv": methodcaller("dot"),
        ".txt": methodcaller("text"),
    }
)
