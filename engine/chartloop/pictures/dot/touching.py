"""Where a laid-out picture misleads: a line on a box that is not its own, or on another's label.

Belongs here: the geometry of an SVG by Graphviz. Never: mending it (`clear`), running Graphviz.

Source: docs/pictures.md, "A line touches only its own boxes"
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil, dist, hypot
from typing import NamedTuple

Point = tuple[float, float]

NEAR = 3.0
"""Points from a border within which a line reads as lying on it."""
_APART = 3.0
"""Points between two samples of a line."""
_LEAVING = 14.0
"""Points from its ends within which a line is near its own boxes."""

_GROUP = re.compile(r'(?=<g id="[^"]*" class="(?:graph|node|edge)")')
_CLASS = re.compile(r'<g id="([^"]*)" class="(node|edge)"')
_TITLE = re.compile(r"<title>([^<]*)</title>")
_POLYGON = re.compile(r'<polygon [^>]*?points="([^"]*)"')
_PATH = re.compile(r'<path [^>]*?\bd="([^"]*)"')
_ELLIPSE = re.compile(r'<ellipse [^>]*?cx="([^"]*)" cy="([^"]*)" rx="([^"]*)" ry="([^"]*)"')
_TEXT = re.compile(
    r'<text text-anchor="(\w+)" x="([^"]*)" y="([^"]*)"[^>]*?font-size="([^"]*)"[^>]*>([^<]*)<'
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_NARROW, _WIDE = frozenset("ijlItfr.,:;'!|()[] \u00a0·"), frozenset("mwMW%@→")


class Touch(NamedTuple):
    """A place where a picture could be misread."""

    line: str
    """The SVG id of the arrow; of the arrow whose label it is, where a label lies on something."""
    on: str
    """The SVG id of the box, or of the arrow whose label or head is touched."""
    kind: str
    """`box`, `border` (along its own), `head`, `label`, `label on box`, `label on label`."""


class _Shape(NamedTuple):
    id: str
    corners: tuple[Point, ...]
    left: float
    top: float
    right: float
    bottom: float
    upright: bool = False
    """Whether it is the box of its sides, so that no corner needs looking at."""

    def near(self, point: Point, reach: float) -> bool:
        """Whether a point is inside, or less than `reach` from the border."""
        x, y = point
        if not (
            self.left - reach < x < self.right + reach
            and self.top - reach < y < self.bottom + reach
        ):
            return False
        if self.upright:
            return True
        sides = list(zip(self.corners, (*self.corners[1:], self.corners[0]), strict=True))
        crossed = sum(
            (a[1] > y) != (b[1] > y) and x < (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1]) + a[0]
            for a, b in sides
        )
        return crossed % 2 == 1 or any(_away(point, a, b) < reach for a, b in sides)

    def meets(self, other: _Shape, slack: float) -> bool:
        """Whether the two overlap by more than `slack`, as upright boxes."""
        return (
            self.left + slack < other.right
            and other.left + slack < self.right
            and self.top + slack < other.bottom
            and other.top + slack < self.bottom
        )


class _Line(NamedTuple):
    id: str
    ends: tuple[str, str]
    pieces: tuple[_Shape, ...]
    """Its curves and its head as points close to each other; the sides are those of the curve."""
    label: _Shape | None

    def nears(self, shape: _Shape, reach: float, *, far: float = 0) -> bool:
        """Whether a point of it is near a shape, of those more than `far` from its ends."""
        first, last = self.pieces[0].corners[0], self.pieces[-1].corners[-1]
        return any(
            shape.near(point, reach)
            for piece in self.pieces
            if piece.meets(shape, -reach)
            for point in piece.corners
            if not far or min(dist(point, first), dist(point, last)) > far
        )


def touches(svg: str) -> list[Touch]:
    """Every place where a line of an SVG by Graphviz touches what is not its own."""
    boxes, lines = _read(svg)
    found = [touch for line in lines for touch in _of_line(line, boxes)]
    found += [
        Touch(line.id, other.id, "head")
        for other in lines
        for line in lines
        if not {other.ends[1]} & {*line.ends} and line.nears(other.pieces[-1], 1)
    ]
    labels = [(line, line.label) for line in lines if line.label is not None]
    for at, (line, label) in enumerate(labels):
        found += [Touch(line.id, b.id, "label on box") for b in boxes.values() if label.meets(b, 1)]
        found += [
            Touch(line.id, other.id, "label on label")
            for other, text in labels[at + 1 :]
            if label.meets(text, 1)
        ]
        inside = _rectangle(
            line.id, label.left + 1, label.top + 2, label.right - 1, label.bottom - 2
        )
        found += [
            Touch(other.id, line.id, "label")
            for other in lines
            if other is not line and other.nears(inside, 0.5)
        ]
    return found


def _of_line(line: _Line, boxes: dict[str, _Shape]) -> Iterator[Touch]:
    for title, box in boxes.items():
        if title not in line.ends:
            if line.nears(box, NEAR):
                yield Touch(line.id, box.id, "box")
        elif line.ends[0] != line.ends[1] and line.nears(box, NEAR, far=_LEAVING):
            yield Touch(line.id, box.id, "border")


def _read(svg: str) -> tuple[dict[str, _Shape], list[_Line]]:
    """The boxes by their names in the DOT text, and the lines."""
    boxes: dict[str, _Shape] = {}
    lines: list[_Line] = []
    for part in _GROUP.split(svg):
        group, title = _CLASS.match(part), _TITLE.search(part)
        if group is None or title is None:
            continue
        name = html.unescape(title[1])
        if group[2] == "node":
            if (shape := _shape(group[1], part)) is not None:
                boxes[name] = shape
        elif (path := _PATH.search(part)) is not None:
            source, _, target = name.partition("->")
            ends = source.partition(":")[0], target.partition(":")[0]
            pieces = [_of_corners(group[1], curve) for curve in _curves(_pairs(path[1]))]
            if (head := _POLYGON.search(part)) is not None:
                pieces.append(_of_corners(group[1], _pairs(head[1])[:-1]))
            lines.append(_Line(group[1], ends, tuple(pieces), _label(group[1], part)))
    return boxes, lines


def _shape(id: str, part: str) -> _Shape | None:
    if (found := _POLYGON.search(part)) is not None:
        corners = _pairs(found[1])[:-1]  # none: graphviz draws a box without size as a point
        return _of_corners(id, corners) if corners else None
    if (found := _ELLIPSE.search(part)) is not None:
        x, y, rx, ry = map(float, found.groups())
        return _rectangle(id, x - rx, y - ry, x + rx, y + ry)
    if (found := _PATH.search(part)) is not None:  # rounded: its corners are left out
        corners = _pairs(found[1])
        return _of_corners(id, corners)._replace(upright=True) if corners else None
    return None


def _label(id: str, part: str) -> _Shape | None:
    """The room of a label; widths are estimated, since an SVG does not say them."""
    rooms: list[_Shape] = []
    for anchor, x_text, y_text, size_text, words in _TEXT.findall(part):
        x, y, size = float(x_text), float(y_text), float(size_text)
        words = html.unescape(words)
        width = size * sum(
            0.3 if c in _NARROW else 0.85 if c in _WIDE else 0.67 if c.isupper() else 0.54
            for c in words.strip(" \u00a0")
        )
        pad = size * 0.28 * (len(words) - len(words.lstrip(" \u00a0")))
        left = x - width / 2 if anchor == "middle" else x + pad
        if width:
            rooms.append(_rectangle(id, left, y - size * 0.75, left + width, y + size * 0.2))
    if not rooms:
        return None
    return _rectangle(
        id, min(r.left for r in rooms), min(r.top for r in rooms),
        max(r.right for r in rooms), max(r.bottom for r in rooms),
    )  # fmt: skip


def _rectangle(id: str, left: float, top: float, right: float, bottom: float) -> _Shape:
    corners = ((left, top), (right, top), (right, bottom), (left, bottom))
    return _Shape(id, corners, left, top, right, bottom, upright=True)


def _of_corners(id: str, corners: Sequence[Point]) -> _Shape:
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    upright = len(set(xs)) == 2 and len(set(ys)) == 2
    return _Shape(id, tuple(corners), min(xs), min(ys), max(xs), max(ys), upright)


def _pairs(text: str) -> list[Point]:
    numbers = [float(one) for one in _NUMBER.findall(text)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _curves(controls: Sequence[Point]) -> Iterator[list[Point]]:
    """The cubic curves of a path, each as points close to each other."""
    for at in range(0, len(controls) - 3, 3):
        a, b, c, d = controls[at : at + 4]
        length = sum(dist(p, q) for p, q in pairwise((a, b, c, d)))
        count = max(2, ceil(length / _APART))
        yield [
            (
                u**3 * a[0] + 3 * u * u * t * b[0] + 3 * u * t * t * c[0] + t**3 * d[0],
                u**3 * a[1] + 3 * u * u * t * b[1] + 3 * u * t * t * c[1] + t**3 * d[1],
            )
            for t, u in ((step / count, 1 - step / count) for step in range(count + 1))
        ]


def _away(point: Point, a: Point, b: Point) -> float:
    """The distance of a point from a side."""
    (x, y), (ax, ay), (bx, by) = point, a, b
    length = hypot(bx - ax, by - ay)
    if not length:
        return dist(point, a)
    share = max(0.0, min(1.0, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length**2))
    return hypot(x - ax - share * (bx - ax), y - ay - share * (by - ay))
