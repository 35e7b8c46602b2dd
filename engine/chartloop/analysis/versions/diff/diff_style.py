"""The look of a merged chart in Graphviz: additions green, removals red, changes amber.

The old label is struck through above the new. Signs (+ − ~) repeat the colours, for people who
cannot tell these apart. Labels are HTML-like, so every text of a file passes `escape_label`.

Belongs here: colours and labels. Never: finding changes (`merge`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from chartloop.analysis.versions.diff.change import differing
from chartloop.analysis.versions.diff.merge import Line, Mark, Marked, Merged, Note
from chartloop.core.visible import cut
from chartloop.pictures.dot.write import (
    BOLD,
    FONT,
    Dress,
    Html,
    Style,
    arrow_style,
    box_style,
    dot_tip,
    html_text,
    in_lines,
)
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, one_line, printable
from chartloop.pictures.focus import HIDDEN


class Ink(NamedTuple):
    """The colours of a mark."""

    line: str
    fill: str
    text: str
    sign: str


INKS: Mapping[Mark, Ink] = MappingProxyType(
    {
        "added": Ink("#166534", "#dcfce7", "#14532d", "+"),
        "removed": Ink("#b91c1c", "#fee2e2", "#7f1d1d", "−"),
        "changed": Ink("#92400e", "#fef3c7", "#1e293b", "~"),
        "same": Ink("#858e9b", "#ffffff", "#5b6472", ""),
    }
)
_OLD = "#b91c1c"
_SMALL = "9"
_WIDE = 30
"""The most characters of a note on one line."""
_LONG = 90
"""The most characters of a note."""
_LINE = 60
"""The most characters of a label on one line."""
_LISTED = 84
"""The most characters of a rule on one line of its box."""


_CLOSE = {"nodesep": ".2", "ranksep": ".22"}
"""The distances of the focus view: short, so that distant changes are visible at once."""
_BESIDE = {"fontsize": "9.5", "height": ".3"}
_BESIDE_DIAMOND = {"width": "1.2", "height": ".72"}
"""The smaller size of unchanged boxes in the focus view."""


class ReviewDress(Dress):
    """The look of one merged chart."""

    def __init__(self, merged: Merged) -> None:
        self.merged = merged

    def title(self, chart: Flowchart) -> Style:
        return {**super().title(chart), **(_CLOSE if self.merged.hidden else {})}

    def box(self, box: Box) -> Style:
        marked = self.merged.of_box(box)
        ink = INKS[marked.mark]
        style = dict(box_style(box))
        if box.id == HIDDEN:
            return style | {
                "label": Html(f"<{escape_label(box.label)}>"), "shape": "plaintext", "style": "",
                "fontcolor": INKS["same"].text, "fontname": FONT,
            }  # fmt: skip
        style |= {"fillcolor": ink.fill, "color": ink.line, "fontcolor": ink.text}
        style |= {"fontname": FONT, "penwidth": "1" if marked.mark == "same" else "2.2"}
        style["style"] = _lines(style.get("style", "rounded,filled"), marked.mark)
        style["label"] = Html(f"<{_box_label(box, marked)}>")
        style["tooltip"] = dot_tip(_tip(marked, box.label))
        if self.merged.hidden and marked.mark == "same":
            style |= _BESIDE | (_BESIDE_DIAMOND if box.shape == "diamond" else {})
        return style

    def arrow(self, arrow: Arrow) -> Style:
        marked = self.merged.of_arrow(arrow)
        ink = INKS[marked.mark]
        style = dict(arrow_style(arrow))
        style |= {"color": ink.line, "fontcolor": ink.line if marked.mark != "same" else ink.text}
        if marked.mark != "same":
            style |= {"penwidth": "2", "arrowsize": ".8"}
        if marked.mark == "removed":
            style["style"] = "dashed"
        if label := _arrow_label(arrow, marked):
            style["label"] = Html(f"<{label}>")
        tip = dot_tip(_tip(marked, arrow.tip))
        return style | {"tooltip": tip, "labeltooltip": tip}


def _lines(style: str, mark: Mark) -> str:
    return f"{style},dashed" if mark == "removed" and "dashed" not in style else style


def _tip(marked: Marked, label: str) -> str:
    text = one_line(label)
    if marked.mark == "same":
        return text or " "
    was = f" (was: {one_line(marked.old)})" if marked.old else ""
    notes = "; ".join(_describe_note(note) for note in marked.notes)
    return f"{marked.mark}: {text}{was}{'; ' if notes else ''}{notes}"


def _describe_note(note: Note) -> str:
    name = f"{note.name}: " if note.name else ""
    return f"{name}{one_line(note.old)} → {one_line(note.new)}"


# labels -------------------------------------------------------------------------------------


def escape_label(text: str) -> str:
    """Escape a text for an HTML-like label. Never empty, because Graphviz refuses an empty tag."""
    return html_text(text) or "&#160;"


def _with_breaks(text: str) -> str:
    """A text with HTML line breaks."""
    return "<BR/>".join(escape_label(line) for line in _rows(text))


def _rows(text: str) -> list[str]:
    """The lines of a text, with very long ones broken."""
    return in_lines(printable(text).strip("\n"), narrowest=_LINE).split("\n")


def _small(text: str, colour: str) -> str:
    return f'<FONT POINT-SIZE="{_SMALL}" COLOR="{colour}">{text}</FONT>'


def _struck(text: str) -> str:
    """A struck-through text, line by line: Graphviz draws no strike across a break."""
    return "<BR/>".join(f"<S>{escape_label(line)}</S>" for line in _rows(text))


def _box_label(box: Box, marked: Marked) -> str:
    if marked.lines:
        return _rules(box, marked)
    now = _with_breaks(box.label)
    rows = [now]
    match marked.mark:
        case "added":
            rows.append(_small("<B>+ added</B>", INKS["added"].line))
        case "removed":
            rows.append(_small("<B>− removed</B>", INKS["removed"].line))
        case "changed":
            rows = [_small(_struck(marked.old), _OLD)] if marked.old else []
            rows.append(f"<B>{now}</B>" if marked.old else now)
            rows += [_note(note) for note in marked.notes]
        case "same":
            pass
    return "<BR/>".join(rows)


def _note(note: Note) -> str:
    """A note: its name, the old value struck through, the new value."""
    colour = INKS["changed"].line
    if not note.name:
        return _small(f"<B>~ was </B><S>{escape_label(note.old)}</S>", colour)
    if not (note.old or note.new):
        return _small(f"<B>~ {escape_label(note.name)}</B>", colour)
    old, new = differing(note.old, note.new)
    if len(old) + len(new) + len(note.name) <= _WIDE:
        was = f"<S>{escape_label(old)}</S> " if old else ""
        now = escape_label(new) if new else "gone"
        return _small(f"<B>~ {escape_label(note.name)}</B> {was}<B>{now}</B>", colour)
    rows = [f"<B>~ {escape_label(note.name)}</B>"]
    rows += [f"<S>{line}</S>" for line in _wrap_text(old)] if old else []
    rows += [f"<B>{line}</B>" for line in _wrap_text(new)] if new else []
    return "<BR/>".join(_small(row, colour) for row in rows)


def _wrap_text(text: str) -> Iterator[str]:
    """Yield a text in short lines, shortened if long."""
    text = cut(text, _LONG)
    yield from (escape_label(line) for line in textwrap.wrap(text, _WIDE, break_on_hyphens=False))


def _rules(box: Box, marked: Marked) -> str:
    """The label of a box of rules: its title and a left-aligned line for each rule."""
    left = '<BR ALIGN="LEFT"/>'
    title = f"{_with_breaks(box.label)}{left}"
    return title + left.join(row for line in marked.lines for row in _rule(line)) + left


def _rule(line: Line) -> Iterable[str]:
    ink = INKS[line.mark]
    rows: list[str] = []
    if line.old:
        rows += [f'<FONT COLOR="{_OLD}">− <S>{row}</S></FONT>' for row in _wrap_rule(line.old)]
    text = [*_wrap_rule(line.text)]
    if line.mark == "removed":
        text = [f"<S>{row}</S>" for row in text]
    if line.mark != "same":
        text = [
            f"<B>{ink.sign} {text[0]}</B>" if line.mark != "removed" else f"{ink.sign} {text[0]}",
            *text[1:],
        ]
    colour = ink.line if line.mark != "same" else ink.text
    return [*rows, *(f'<FONT COLOR="{colour}">{row}</FONT>' for row in text)]


def _wrap_rule(text: str) -> list[str]:
    return [escape_label(row) for row in textwrap.wrap(text, _LISTED, break_on_hyphens=False)] or [
        "&#160;"
    ]


def _arrow_label(arrow: Arrow, marked: Marked) -> str:
    text = arrow.drawn_text.strip()
    rows = [f"&#160;{escape_label(line)}&#160;" for line in _rows(text)] if text else []
    sign = INKS[marked.mark].sign
    match marked.mark:
        case "same":
            pass
        case "changed":
            if marked.old:
                rows = [f"<B>{row}</B>" for row in rows]
                was = f'<FONT COLOR="{_OLD}">{_struck(marked.old)}</FONT>'
                rows.insert(0, f"&#160;{was}&#160;")
            rows += [f"&#160;{_note(note)}&#160;" for note in marked.notes]
            rows[0] = f"&#160;<B>{sign}</B>{rows[0]}" if rows else f"<B>{sign}</B>"
        case _:
            rows = rows or ["&#160;"]
            rows = [f"&#160;<B>{sign}</B>{rows[0]}", *rows[1:]]
    return "<BR/>".join(rows)


__all__ = ["BOLD", "INKS", "ReviewDress", "escape_label"]
