"""A laid-out SVG with slots for its style, badges, counts and caption.

Belongs here: finding the placeholders of `live_style`, by the ids of their boxes and arrows, and
filling them. Never: the texts.

A placeholder is always the last text of its box or arrow, so that no label is taken for one.

Laid out once, the picture is repainted on stable ids.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping

from chartloop.pictures.dot.write import SvgIds
from chartloop.pictures.live.live_style import BADGE, CAPTION, COMPLETED, COUNT, FAILURES, REASON

_PARTS = re.compile(r'(?=<g id="[^"]*" class="(?:graph|node|edge)")')
_ID = re.compile(r'<g id="([^"]*)"')
_TEXT = re.compile(r"<text ([^>]*)>([^<]*)</text>")
_SHAPE = re.compile(r"<(path|polygon|ellipse|polyline) ")
_CAPTION = 'font-size="11.00" font-weight="normal"'
_BADGE = 'font-size="9.00" font-weight="bold"'
_COUNT = 'font-weight="bold"'
_Y = re.compile(r'(<text [^>]*? y=")([^"]*)"')
_LOWER = 5.0
"""Points by which a label moves down to the middle of its box: Graphviz left room for a badge."""
RAISED = 2.0
"""Points by which label and badge move up again in a box that has one."""

_ROOMS = (BADGE, REASON, COMPLETED, FAILURES, f"{COUNT} ", CAPTION)


class Slots:
    """An SVG with slots that can be filled repeatedly. Nothing else of it changes."""

    def __init__(self, svg: str, ids: SvgIds, counted: Iterable[str]) -> None:
        """`counted` are the ids of the arrows with a placeholder."""
        self.shapes: dict[str, tuple[str, ...]] = {}
        """The SVG elements that draw the box or arrow of each id."""
        self._places: dict[str, int] = {}
        # Graphviz puts a letter before the ids of tooltips: let them start like all others
        svg = svg.replace(f'id="a_{ids.prefix}', f'id="{ids.prefix}a-')
        first, *parts = _PARTS.split(svg)
        self._pieces: list[str] = [f'{first}<style id="{ids.prefix}style">', "", "</style>\n"]
        looks = {ids.chart: _CAPTION, **dict.fromkeys(ids.boxes.values(), _BADGE)}
        looks |= dict.fromkeys(counted, _COUNT)
        for part in parts:
            named = _ID.match(part)
            name = named[1] if named else ""
            self.shapes[name] = tuple(dict.fromkeys(_SHAPE.findall(part)))
            if name in looks:
                lowered = (
                    _Y.sub(lambda y: f'{y[1]}{float(y[2]) + _LOWER:.2f}"', part)
                    if looks[name] is _BADGE
                    else part
                )
                self._cut_slot(lowered, slot_id(name), looks[name])
            else:
                self._pieces.append(part)

    def _cut_slot(self, part: str, slot: str, look: str) -> None:
        """Turn the last text of a part that ends with a placeholder into a slot."""
        texts = [text for text in _TEXT.finditer(part) if text[2].endswith(_ROOMS)]
        text = texts[-1]
        room = next(room for room in _ROOMS if text[2].endswith(room))
        self._places[slot] = len(self._pieces) + 1
        self._pieces += [
            f'{part[: text.start(2)]}{text[2].removesuffix(room)}<tspan id="{slot}" {look}>',
            "",
            f"</tspan>{part[text.end(2) :]}",
        ]

    def fill(self, style: str, texts: Mapping[str, str]) -> str:
        """The SVG with this style and these texts, by the ids of their slots."""
        pieces = self._pieces.copy()
        pieces[1] = style
        for slot, text in texts.items():
            if (place := self._places.get(slot)) is not None:
                pieces[place] = html.escape(text)
        return "".join(pieces)


def slot_id(part: str) -> str:
    """The id of a slot, from the id of its box, its arrow or the chart."""
    return f"{part}-said"
