"""Reports: what a result says, as lines, tables and groups, rendered once for every reader.

A result gives its `parts`; a terminal's lines, `str()`, the notebook's HTML and IPython's text are
made of them here. Empty lines part the text; HTML has its own margins.

Belongs here: what a report consists of, and its renderings. Never: what a result says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any, ClassVar, NamedTuple

from chartloop.core import html_table
from chartloop.core.text_table import Cell, Line, Row, lay_out, text_of


class Note(NamedTuple):
    """A sentence. Wrapped in text, with its further lines indented."""

    text: str
    colour: str = ""


class Table(NamedTuple):
    """Rows under a head. A row is painted in its colour; cells have their own in HTML only."""

    rows: Sequence[Row]
    head: Sequence[str] = ()
    right: Collection[int] = ()
    """The right-aligned columns."""
    spare: Sequence[int] = ()
    """The columns that text drops, one by one, where it is too narrow for them."""
    optional: Collection[int] = ()
    """The columns that are left out if no row has more than a dot in them."""
    indent: str = ""

    def filled(self) -> Table:
        """The table without its empty `optional` columns."""
        at = [
            n for n, _ in enumerate(self.rows[0].cells if self.rows else self.head)
            if n not in self.optional or any(row.cells[n].strip("·") for row in self.rows)
        ]  # fmt: skip
        new = {old: n for n, old in enumerate(at)}
        return self._replace(
            rows=[row._replace(cells=tuple(row.cells[n] for n in at)) for row in self.rows],
            head=[self.head[n] for n in at] if self.head else (),
            right={new[n] for n in self.right if n in new},
            spare=[new[n] for n in self.spare if n in new], optional=(),
        )  # fmt: skip


class Group(NamedTuple):
    """Parts under a title."""

    title: str | Line
    parts: Sequence[Part]
    folded: str = ""
    """The title under which a notebook folds them away; empty if it does not."""


class Terminal(NamedTuple):
    """Parts that only text has."""

    parts: Sequence[Part]


class Notebook(NamedTuple):
    """Parts that only HTML has: text says them otherwise, or leaves them out."""

    parts: Sequence[Part]


class Illustration(NamedTuple):
    """A picture, for notebooks only: it is drawn when one asks."""

    formats: Callable[[], Mapping[str, Any]]
    """Returns the picture's MIME bundle."""
    caption: str


Part = Line | Note | Table | Group | Terminal | Notebook | Illustration


def pairs(items: Iterable[tuple[str, str]], *, indent: str = "") -> Table:
    """A table of names and values, without the rows whose value is empty."""
    return Table([Row((Cell(name, "bold"), text)) for name, text in items if text], indent=indent)


def more(line: Line, parts: Sequence[Part]) -> tuple[Part, Part]:
    """The rest of a list: text has only the line, a notebook unfolds the parts."""
    return Terminal([line]), Notebook([Group(line, parts, folded=line.text)])


def text_lines(parts: Iterable[Part], width: int) -> list[Line]:
    """The parts as lines; tables and notes are laid out in `width` columns."""
    lines: list[Line] = []
    for part in parts:
        match part:
            case Line():
                lines.append(part)
            case Note():
                wrapped = wrap(part.text, width, subsequent_indent="  ")
                lines += [Line(text, part.colour) for text in wrapped]
            case Table():
                table = part.filled() if part.optional else part
                head = [Row(tuple(table.head), "dim")] if table.head and table.rows else []
                lines += lay_out(
                    [*head, *table.rows], width=width, right=table.right, spare=table.spare,
                    indent=table.indent,
                )  # fmt: skip
            case Group():
                title = part.title
                lines.append(Line(title, "bold") if isinstance(title, str) else title)
                lines += text_lines(part.parts, width)
            case Terminal():
                lines += text_lines(part.parts, width)
            case Notebook() | Illustration():
                pass
    return lines


def html_of(parts: Iterable[Part]) -> str:
    """The parts as HTML that is complete in a notebook without trust."""
    html: list[str] = []
    for part in parts:
        match part:
            case Line():
                html += [html_table.line(part.text, part.colour, part.spans)] if part.text else []
            case Note():
                html.append(html_table.line(part.text, part.colour))
            case Table():
                table = part.filled() if part.optional else part
                html += (
                    [html_table.table(table.rows, table.head, table.right)] if table.rows else []
                )
            case Group():
                title = Line(part.title, "bold") if isinstance(part.title, str) else part.title
                inside = html_of(part.parts)
                if part.folded:
                    html.append(html_table.details_element(part.folded, inside))
                else:
                    html += [html_table.line(title.text, title.colour), inside]
            case Notebook():
                html.append(html_of(part.parts))
            case Terminal():
                pass
            case Illustration():
                formats = part.formats()
                if svg := formats.get("image/svg+xml"):
                    html.append(html_table.image(svg, part.caption))
                else:  # it cannot be drawn: the reason, and its text form
                    html.append(html_table.line(formats["text/plain"], "code"))
    return "".join(html)


class Shown:
    """What a notebook shows as HTML; a viewer without HTML gets its text."""

    __slots__ = ()

    def parts(self) -> Iterable[Part]:
        """The content, in order."""
        raise NotImplementedError

    def plain_text(self) -> str:
        """The text for viewers without HTML."""
        return str(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {"text/html": html_of(self.parts()), "text/plain": self.plain_text()}


class Report(Shown):
    """A result that prints as its parts, in a terminal, by `print` and in a notebook."""

    __slots__ = ()

    WIDEST: ClassVar[int] = 100
    """The columns of its printed form."""

    def lines(self, width: int | None = None, **how: Any) -> list[Line]:
        """The parts as coloured lines, for a terminal of `width` columns; `how` is for `parts`."""
        parts: Callable[..., Iterable[Part]] = self.parts
        return text_lines(parts(**how), self.WIDEST if width is None else width)

    def plain_text(self) -> str:
        """The lines in `WIDEST` columns, without colours."""
        return text_of(self.lines())

    def __str__(self) -> str:
        return self.plain_text()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.plain_text())
