"""Splitting a large chart into pages, with marks where an arrow continues on another page.

Belongs here: page sizes, the boxes of each page, the marks. Never: a layout or a format: the caller
decides whether a part fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, NamedTuple

from chartloop.pictures.flowchart import Arrow, Box, Flowchart, one_line

Paper = Literal["a4", "letter", "phone"]


class Room(NamedTuple):
    """The size of a page without its margins, in points."""

    width: float
    height: float


PAPERS: Mapping[Paper, Room] = MappingProxyType(
    {"a4": Room(523, 770), "letter": Room(540, 720), "phone": Room(300, 560)}
)
"""Paper with margins of half an inch; an upright phone."""
SMALLEST = 8 / 11
"""The smallest scale of a picture: letters of 11 points shrink to 8, which are still legible."""
_LONGEST = 30
"""The most characters of a label in a mark."""
_NARROW = 24
"""The least room for a title, in characters."""

Fits = Callable[[Flowchart], bool]


def fitting(room: Room, width: float, height: float) -> bool:
    """Whether a picture of this size fits while it stays legible."""
    return width * SMALLEST <= room.width and height * SMALLEST <= room.height


def shorten_title(chart: Flowchart, room: Room) -> Flowchart:
    """The chart with a title no wider than the page, with room for the page number."""
    most = max(_NARROW, round(room.width / 13))
    return replace(chart, title=_brief(one_line(chart.title), most))


def split(chart: Flowchart, fits: Fits) -> tuple[Flowchart, ...]:
    """The chart in parts that each fit; a box that is too large has a part of its own.

    The boxes are in the order in which a run may reach them. Equal charts give equal parts.
    """
    if len(chart.boxes) < 2 or fits(chart):
        return (chart,)
    # Depth first, so that successors are on the same page or the next.
    ahead: dict[str, list[str]] = {}
    for arrow in chart.arrows:
        ahead.setdefault(arrow.source, []).append(arrow.target)
    found: dict[str, None] = {}
    for first in chart.boxes:
        waiting = [first.id]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = None
                waiting += reversed(ahead.get(name, []))
    order, pages = list(found), list[tuple[str, ...]]()
    while order:
        count = _most(chart, order, pages, fits)
        pages.append(tuple(order[:count]))
        order = order[count:]
    page_of = {name: n for n, names in enumerate(pages, 1) for name in names}
    return tuple(_page(chart, names, page_of, len(pages)) for names in pages)


def _most(
    chart: Flowchart, order: Sequence[str], pages: Sequence[tuple[str, ...]], fits: Fits
) -> int:
    """How many of the next boxes fit on one page. A binary search, since each try is a layout."""
    known = {name: n for n, names in enumerate(pages, 1) for name in names}
    here = len(pages) + 1

    def holds(count: int) -> bool:
        later = dict.fromkeys(order[count:], here + 1)
        page_of = {**known, **dict.fromkeys(order[:count], here), **later}
        return fits(_page(chart, tuple(order[:count]), page_of, here + 1))

    low, high = 1, min(2, len(order))
    while high < len(order) and holds(high):
        low, high = high, min(2 * high, len(order))
    if holds(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _page(
    chart: Flowchart, names: Sequence[str], page_of: Mapping[str, int], count: int
) -> Flowchart:
    """The chart of one page, with marks for arrows to and from other pages."""
    here = page_of[names[0]]
    boxes = {box.id: box for box in chart.boxes}
    marks, arrows = dict[str, Box](), list[Arrow]()
    for arrow in chart.arrows:
        ends = page_of[arrow.source], page_of[arrow.target]
        if ends == (here, here):
            arrows.append(arrow)
        elif ends[0] == here:
            box, page = boxes[arrow.target], ends[1]
            text = f"on page {page}\n{_short_name(box)}"
            mark = Box(f"on-{page}-{box.id}", text, "display", "hub", origin="page")
            marks[mark.id] = mark
            arrows.append(replace(arrow, target=mark.id))
    incoming = [*_incoming(chart, boxes, page_of, here)]
    shown = (*(box for box in chart.boxes if box.id in names), *marks.values())
    title = f"{one_line(chart.title)} ({here} of {count})".strip()
    return replace(
        chart, title=title, boxes=(*(mark for mark, _ in incoming), *shown),
        arrows=(*(arrow for _, arrow in incoming), *arrows),
    )  # fmt: skip


def _incoming(
    chart: Flowchart, boxes: Mapping[str, Box], page_of: Mapping[str, int], here: int
) -> Iterator[tuple[Box, Arrow]]:
    """A mark, with its arrow, for each box to which boxes of other pages lead."""
    found: dict[str, dict[str, int]] = {}
    for arrow in chart.arrows:
        page = page_of[arrow.source]
        if page != here == page_of[arrow.target]:
            found.setdefault(arrow.target, {})[arrow.source] = page
    for target, sources in found.items():
        pages = sorted(set(sources.values()))
        several = "s" if len(pages) > 1 else ""
        message = f"from page{several} {', '.join(map(str, pages))}"
        named = [_short_name(boxes[name]) for name in sources]
        message += f"\n{named[0]}" if len(named) == 1 else f"\n{len(named)} boxes"
        mark = Box(f"from-{target}", message, "display", "hub", origin="page")
        yield mark, Arrow(mark.id, target, kind="return")


def _brief(text: str, most: int = _LONGEST) -> str:
    """A text cut to at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _short_name(box: Box) -> str:
    return _brief(
        one_line(box.label.split("\n")[0] if box.role == "rules" else box.label) or box.id
    )
