"""A merged chart as Mermaid, which GitHub draws in a comment on a pull request.

The old label is struck through above the new, and signs repeat the colours. The text stays within
the limits of Mermaid: a chart with more characters or arrows is cut at a whole box, and another box
gives the number of those left out.

Belongs here: classes, lines and bounds. Never: finding changes (`merge`), escapes
(`pictures.mermaid`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from chartloop.analysis.versions.diff.change import differing
from chartloop.analysis.versions.diff.diff_style import INKS
from chartloop.analysis.versions.diff.merge import Line, Mark, Marked, Merged, Note
from chartloop.core.visible import cut
from chartloop.pictures.flowchart import Arrow, Box, one_line
from chartloop.pictures.focus import HIDDEN
from chartloop.pictures.ids import safe_ids
from chartloop.pictures.mermaid import ARROWS, BRACKETS, MOST, WAYS, WIDE, escape

_LONGEST = 2_000
"""The most characters of one label."""

_WIDTHS: Mapping[Mark, str] = MappingProxyType(
    {
        "added": "stroke-width:3px",
        "removed": "stroke-width:3px,stroke-dasharray:6 4",
        "changed": "stroke-width:3px",
        "same": "stroke-width:1px",
    }
)
_LINE = {"same": "#858e9b"}
_WORDS = {"same": "#5b6472"}
_LABELS: Mapping[Mark, str] = MappingProxyType(
    {"added": "#14532d", "removed": "#7f1d1d", "changed": "#78350f", "same": "#4b5563"}
)
"""The colours of text on arrows: dark, because Mermaid writes it on grey."""
_NOTE = 60
"""The most characters of a note's old and of its new value."""


def to_review_mermaid(merged: Merged, *, most: int = MOST) -> str:
    """Write the chart as Mermaid text of fewer than `most` characters, ending with a newline.

    It has at most as many arrows as Mermaid draws.
    """
    boxes, arrows = list(merged.chart.boxes), list(merged.chart.arrows)
    while True:
        text = _write_flowchart(merged, boxes, arrows, cut=len(merged.chart.boxes) - len(boxes))
        if (len(text) < most and len(arrows) <= ARROWS) or not boxes:
            return text
        # with half of the boxes, a complete graph has a quarter of the arrows
        share = min(most / len(text), (ARROWS / max(1, len(arrows))) ** 0.5)
        keep = max(0, min(len(boxes) - 1, int(len(boxes) * share) - 1))
        boxes = _changed_first(merged, boxes)[:keep]
        kept = {box.id for box in boxes}
        boxes = [box for box in merged.chart.boxes if box.id in kept]
        arrows = [arrow for arrow in arrows if {arrow.source, arrow.target} <= kept]


def _changed_first(merged: Merged, boxes: list[Box]) -> list[Box]:
    """Sort changed boxes before unchanged ones."""
    return sorted(boxes, key=lambda box: merged.of_box(box).mark == "same")


def _write_flowchart(merged: Merged, boxes: list[Box], arrows: list[Arrow], *, cut: int) -> str:
    ids = safe_ids(box.id for box in boxes)
    listed = any(merged.of_box(box).lines for box in boxes)
    lines = [*([WIDE] if listed else []), f"flowchart {WAYS[merged.chart.direction]}"]
    if title := one_line(merged.chart.title):
        lines.append(f"    accTitle: {escape(title[:200])}")
        lines.append(f"    accDescr: {escape(_summary(merged))}")
    lines += [f"    {_node(box, ids[box.id], merged.of_box(box))}" for box in boxes]
    if cut:
        message = f"{cut} more boxes do not fit into this picture: see the full one"
        lines.append(f'    cut_off["{escape(message)}"]:::note')
    lines += [f"    {_link(arrow, ids, merged.of_arrow(arrow))}" for arrow in arrows]
    lines += [f"    {line}" for line in _styles(merged, arrows)]
    return "\n".join(lines) + "\n"


def _summary(merged: Merged) -> str:
    """The text for screen readers: the numbers of added, removed and changed parts."""
    parts = [merged.of_box(box).mark for box in merged.chart.boxes]
    parts += [merged.of_arrow(arrow).mark for arrow in merged.chart.arrows]
    counts = Counter(mark for mark in parts if mark != "same")
    message = ", ".join(f"{times} {mark}" for mark, times in sorted(counts.items()))
    return f"Boxes and arrows: {message or 'none changed'}."


def _styles(merged: Merged, arrows: list[Arrow]) -> Iterator[str]:
    for mark, ink in INKS.items():
        line, words = _LINE.get(mark, ink.line), _WORDS.get(mark, "#1e293b")
        yield f"classDef {mark} fill:{ink.fill},stroke:{line},color:{words},{_WIDTHS[mark]}"
    yield f"classDef note fill:none,stroke:none,color:{_WORDS['same']}"
    for mark, ink in INKS.items():
        numbers = [str(n) for n, arrow in enumerate(arrows) if merged.of_arrow(arrow).mark == mark]
        if numbers:
            colour = _LINE.get(mark, ink.line)
            style = f"stroke:{colour},color:{_LABELS[mark]},{_WIDTHS[mark]}"
            yield f"linkStyle {','.join(numbers)} {style}"


def _node(box: Box, name: str, marked: Marked) -> str:
    opening, closing = BRACKETS.get(box.shape, BRACKETS["rect"])
    kind = "note" if box.id == HIDDEN else marked.mark
    return f'{name}{opening}"{_box_label(box, marked)}"{closing}:::{kind}'


def _box_label(box: Box, marked: Marked) -> str:
    rows = [_escape_short(box.label)]
    if marked.lines:
        rows += [row for line in marked.lines for row in _rule(line)]
        alike = sum(line.mark == "same" for line in marked.lines)
        rows += [f"… {alike} more as before"] if alike else []
    elif marked.mark == "changed":
        rows = [_struck(marked.old), f"<b>{rows[0]}</b>"] if marked.old else rows
        rows += [_note(note) for note in marked.notes]
    elif marked.mark != "same":
        rows.append(f"<b>{INKS[marked.mark].sign} {marked.mark}</b>")
    return "<br/>".join(rows)


def _escape_short(text: str) -> str:
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return escape(text)


def _struck(text: str) -> str:
    return f"<s>{_escape_short(text)}</s>"


def _note(note: Note) -> str:
    if not note.name:
        return f"~ was {_struck(note.old)}"
    old, new = differing(note.old, note.new)
    was = f" {_struck(cut(old, _NOTE))}" if old else ""
    now = f" {_escape_short(cut(new, _NOTE))}" if new else " gone" if old else ""
    return f"~ {_escape_short(note.name)}{was}{now}"


def _rule(line: Line) -> Iterator[str]:
    if line.old:
        yield f"− {_struck(line.old)}"
    match line.mark:
        case "removed":
            yield f"− {_struck(line.text)}"
        case "same":
            return
        case _:
            yield f"<b>{INKS[line.mark].sign} {_escape_short(line.text)}</b>"


def _link(arrow: Arrow, ids: Mapping[str, str], marked: Marked) -> str:
    dashed = arrow.kind in ("rule", "return") or marked.mark == "removed"
    label = _link_label(arrow, marked)
    text = f'|"{label}"|' if label else ""
    return f"{ids[arrow.source]} {'-.->' if dashed else '-->'}{text} {ids[arrow.target]}"


def _link_label(arrow: Arrow, marked: Marked) -> str:
    now = _escape_short(arrow.words) if one_line(arrow.words) else ""
    if arrow.number is not None:
        now = f"{arrow.number} · {now}".strip()
    match marked.mark:
        case "same":
            return now
        case "changed":
            rows = [_struck(marked.old)] if marked.old else []
            rows += [now] if now else []
            return "<br/>".join([*rows, *(_note(note) for note in marked.notes)])
        case mark:
            return f"{INKS[mark].sign}#160;{now}"  # `+ now` would be a list to Mermaid
