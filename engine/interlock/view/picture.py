"""A chart that can be looked at: in a notebook, in a file, in any of the formats.

Belongs here: which format is drawn with what, and where it is written. Never: how a format is
written; each has its own module. Nothing is drawn before it is asked for.

Imports:      view.mermaid, view.dot, view.text
Imported by:  api, cli, notebook
Source:       design "architecture", section 2 (`Picture`); "traps" (pictures and notebooks)
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from interlock.core.errors import RunError
from interlock.view.dot.engine import Engine, find_engine, render
from interlock.view.dot.write import to_dot
from interlock.view.flowchart import Flowchart, one_line
from interlock.view.mermaid.write import to_mermaid
from interlock.view.text import to_text

_SMALL = 60
"""Boxes up to which a notebook gets a PNG too, for where it may not show SVG."""


class Picture:
    """One chart, in whatever format is asked for. Shows itself in a notebook.

    `engine` chooses what draws SVG and PNG: `dot` or `pygraphviz`; left out, the first that is
    here. With `mermaid`, which is also what is left where neither is here, notebooks get Mermaid
    text. `prefix` stands in front of every id in the SVG, and is made from the chart when left
    out. `timeout` bounds each drawing, in seconds.
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

    def __repr__(self) -> str:
        chart = self.chart
        return (
            f"<Picture {one_line(chart.title)!r}: "
            f"{len(chart.boxes)} boxes, {len(chart.arrows)} arrows>"
        )

    @property
    def engine(self) -> Engine:
        """What draws SVG and PNG here; `mermaid` when there is no Graphviz."""
        return self._engine or find_engine()

    @cached_property
    def prefix(self) -> str:
        """What stands in front of every id in the SVG; equal charts have equal ones."""
        if self._prefix is not None:
            return self._prefix
        return f"m{hashlib.sha256(self.mermaid().encode()).hexdigest()[:8]}-"

    def mermaid(self) -> str:
        """Mermaid text."""
        return to_mermaid(self.chart)

    def dot(self) -> str:
        """Text in the language of Graphviz."""
        return to_dot(self.chart, prefix=self.prefix)

    def text(self) -> str:
        """An outline in characters."""
        return to_text(self.chart)

    def svg(self) -> str:
        """An `<svg>` element, for a file or for a page. Errors: see `view.dot.engine.render`."""
        return self._svg

    def png(self) -> bytes:
        """A PNG image. Errors: see `view.dot.engine.render`."""
        return self._png

    @cached_property
    def _svg(self) -> str:
        drawn = self._drawn("svg").decode()
        return drawn[drawn.index("<svg") :]

    @cached_property
    def _png(self) -> bytes:
        return self._drawn("png")

    def _drawn(self, form: Literal["svg", "png"]) -> bytes:
        return render(self.dot(), form, engine=self.engine, timeout=self._timeout)

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file, in the format that its suffix names; returns the path.

        The file is whole or as it was before. RunError: no such format, or it cannot be written.
        """
        path = Path(path)
        write = _FORMATS.get(path.suffix.lower())
        if write is None:
            raise RunError(
                f"`{path.name}` does not say which format is meant",
                hint=f"end it with one of {' '.join(_FORMATS)}",
            )
        content = write(self)
        try:
            write_whole(path, content.encode() if isinstance(content, str) else content)
        except OSError as error:
            raise RunError(f"`{path}` cannot be written: {error.strerror or error}") from None
        return path

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """What a notebook shows: SVG, PNG where it is small, text; Mermaid without Graphviz."""
        bundle: dict[str, Any] = {"text/plain": self.text()}
        if self.engine == "mermaid":
            return bundle | {"text/vnd.mermaid": self.mermaid()}
        bundle["image/svg+xml"] = self.svg()
        if len(self.chart.boxes) <= _SMALL:
            bundle["image/png"] = base64.b64encode(self.png()).decode()
        return bundle


_FORMATS: Mapping[str, Callable[[Picture], str | bytes]] = MappingProxyType(
    {
        ".svg": Picture.svg,
        ".png": Picture.png,
        ".mmd": Picture.mermaid,
        ".mermaid": Picture.mermaid,
        ".dot": Picture.dot,
        ".gv": Picture.dot,
        ".txt": Picture.text,
    }
)


def write_whole(path: Path, content: bytes) -> None:
    """Put a finished file in the place of the one that was there, or leave that as it is."""
    path = path.resolve()
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with unfinished.open("xb") as file:
            file.write(content)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
