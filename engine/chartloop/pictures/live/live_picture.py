"""The live picture: a chart that is laid out once and repainted for every moment of a run.

Belongs here: the painter, and its text without Graphviz. Never: a run, a notebook, a thread; the
caller decides when to repaint.

Source: docs/notebook.md, "A picture that follows the run"
"""

from __future__ import annotations

import secrets
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, NamedTuple

from chartloop.core.errors import ChartloopError
from chartloop.extras import install
from chartloop.pictures.dot.accessible import add_description
from chartloop.pictures.dot.clear import Clear, lay_out
from chartloop.pictures.dot.engine import Engine, find_engine, render
from chartloop.pictures.dot.theme import adaptive, dark_attributes, dark_mode_rules, dark_rules
from chartloop.pictures.dot.write import Dress, svg_ids
from chartloop.pictures.flowchart import Flowchart
from chartloop.pictures.live.css import Css
from chartloop.pictures.live.live_style import LiveDress, PaintedDress
from chartloop.pictures.live.outline import Outline
from chartloop.pictures.live.plan import Planner, say_times
from chartloop.pictures.live.progress import Standing
from chartloop.pictures.live.slots import Slots, slot_id
from chartloop.pictures.save import save
from chartloop.pictures.text.outline import to_outline

PageTheme = Literal["light", "auto"]
"""The theme of a picture on a page: light, or dark if its reader prefers that."""


class Changes(NamedTuple):
    """The changes to a picture on a page: its style, and its texts by id."""

    style: str
    """The whole text of the picture's only `<style>`, whose id is `<prefix>style`."""
    texts: dict[str, str]
    """Plain text by element id. Every other element whose id ends in `-said` is empty."""


class LivePicture:
    """A chart that shows where a run is: `picture.svg(standing)`.

    It is laid out once, at the first drawing; a repaint only edits strings. `prefix` precedes every
    id in the SVG: pictures on one page need different ones, and get them by default. `engine` and
    `timeout` are those of `Picture`.
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
        self.prefix = f"live{secrets.token_hex(4)}-" if prefix is None else prefix
        self.ids = svg_ids(chart, self.prefix)
        self._engine: Engine | None = engine
        self._timeout = timeout
        self._planner = Planner(chart)
        self._outline = Outline(chart)

    @property
    def engine(self) -> Engine:
        """The program that lays the picture out; `mermaid` without Graphviz."""
        return self._engine or find_engine()

    @property
    def _slots(self) -> Slots:
        """The layout. A failure is cached too, since it may have taken the whole timeout."""
        layout = self._laid_out
        if isinstance(layout, ChartloopError):
            raise layout.with_traceback(None)
        return layout

    @cached_property
    def _laid_out(self) -> Slots | ChartloopError:
        try:
            drawn = self._lay_out(LiveDress(self.chart)).svg
            arrows = zip(self.chart.arrows, self.ids.arrows, strict=True)
            counted = [name for arrow, name in arrows if arrow.id]
            return Slots(self._add_outline(drawn), self.ids, counted)
        except ChartloopError as error:
            return error

    def _add_outline(self, drawn: str) -> str:
        """The element with the chart's outline as its description; texts describe the moment."""
        element, outline = drawn[drawn.index("<svg") :], to_outline(self.chart)
        return add_description(element, self.chart, prefix=self.prefix, outline=outline)

    @cached_property
    def _css(self) -> Css:
        return Css(self.chart, self.ids, self._slots)

    @cached_property
    def _dark(self) -> str:
        """The dark rules for parts that no moment paints."""
        return dark_attributes(self._slots.fill("", {}), self.ids.chart)

    def changes(self, standing: Standing, theme: PageTheme = "light") -> Changes:
        """The style and the texts of a moment, for a picture already on a page."""
        plan = self._planner.plan(standing)
        style = self._css.style(plan)
        if theme == "auto":
            style += dark_mode_rules(self._dark + dark_rules(style))
        texts = {slot_id(self.ids.chart): plan.caption} if plan.caption else {}
        texts |= {slot_id(self.ids.boxes[name]): note for name, note in plan.failed.items()}
        if plan.now:
            texts[slot_id(self.ids.boxes[plan.now])] = plan.badge
        for place, times in plan.counts.items():
            if times:
                texts[slot_id(self.ids.arrows[place])] = say_times(times)
        return Changes(style, texts)

    def box(self, standing: Standing) -> str:
        """The id of the box where a run is, or died; empty if that is not drawn."""
        now, by = self._planner.plan(standing).now, standing.by
        return by if not now and standing.how and by in self.ids.boxes else now

    def svg(self, standing: Standing, theme: PageTheme = "light") -> str:
        """An `<svg>` element of a moment, which `changes` can repaint.

        Errors: see `pictures.dot.engine.render`.
        """
        return self._slots.fill(*self.changes(standing, theme))

    def still(self, standing: Standing, theme: PageTheme = "light") -> str:
        """An `<svg>` element of a moment that will not be repainted.

        It is laid out for this moment, without room for the texts of others.
        """
        dress = PaintedDress(self.chart, self._planner.plan(standing))
        svg = self._add_outline(self._lay_out(dress).svg)
        return adaptive(svg, self.ids.chart) if theme == "auto" else svg

    def png(self, standing: Standing, scale: float = 1.0) -> bytes:
        """A PNG image of a moment, with `scale` times the pixels each way."""
        source = self._lay_out(PaintedDress(self.chart, self._planner.plan(standing))).source
        return render(source, "png", engine=self.engine, timeout=self._timeout, scale=scale)

    def _lay_out(self, dress: Dress) -> Clear:
        return lay_out(
            self.chart, self.prefix, engine=self.engine, timeout=self._timeout, dress=dress
        )

    def text(self, standing: Standing) -> str:
        """A moment in characters, with a hint at the installation if Graphviz is missing."""
        drawn = self._outline.text(self._planner.plan(standing))
        if self.engine != "mermaid":
            return drawn
        return f"{drawn}\nFor a picture: {install('diagrams')}\n"

    def save(self, path: str | Path, standing: Standing) -> Path:
        """Write a moment to a file: `.svg`, `.png` or `.txt`. Errors: see `Picture.save`."""
        draw = {".svg": self.still, ".png": self.png, ".txt": self.text}
        return save(path, {suffix: partial(write, standing) for suffix, write in draw.items()})
