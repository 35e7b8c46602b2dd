"""Printing results: lines that are cleaned, wrapped and coloured, or data as JSON.

Belongs here: layout and colour. Never: the content (`lines` and `to_dict` of the result).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from chartloop.cli import console
from chartloop.core.text_table import Line, Row, Span
from chartloop.ui.view_model.table import table_lines

if TYPE_CHECKING:
    from chartloop.cli.options import RunOptions

__all__ = ["Line", "Row", "paint", "print_lines", "print_result", "print_table", "say_lines"]

_KEPT = "\0"
"""Stands for a non-breaking space; cleaned texts never contain it."""


class Result(Protocol):
    """The result of a command, as text and data."""

    @property
    def lines(self) -> Callable[..., Iterable[Line]]:
        """Returns the lines of the text; the first argument is the most columns of a line."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        ...


def print_result(
    result: Result, options: RunOptions, *, added: Mapping[str, Any] = {}, **how: Any
) -> None:
    """Print a result as text, or as JSON together with `added`, by `--format`.

    `how` is passed to the `lines` of the result.
    """
    if options.is_json:
        console.result(console.as_json({**result.to_dict(), **added}))
    else:
        print_lines(result.lines(console.width(), **how))


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines on stdout in colour, wrapped to the width of the terminal."""
    for line in lines:
        for part in paint(line, sys.stdout):
            console.result(part)


def say_lines(lines: Iterable[Line]) -> None:
    """Print lines on stderr in colour, wrapped to the width of the terminal."""
    for line in lines:
        for part in paint(line, sys.stderr):
            console.say(part)


def print_table(
    rows: Sequence[Row],
    head: Sequence[str] = (),
    *,
    right: Collection[int] = (),
    spare: Sequence[int] = (),
) -> None:
    """Print a table, as wide as the terminal; see `lay_out` for `right` and `spare`."""
    print_lines(table_lines(rows, head, width=console.width(), right=right, spare=spare))


def paint(line: Line, stream: TextIO) -> list[str]:
    """Clean and colour a line, and wrap it if the stream is a terminal."""
    spans = [_clean(span, stream) for span in line.spans or (Span(line.text, line.colour),)]
    parts = console.wrap_to_terminal("".join(span.text for span in spans), stream)
    if len(parts) == 1:
        painted = ["".join(_style(span.text, span.colour, stream) for span in spans)]
    else:
        painted = [*_paint_wrapped(parts, spans, stream)]
    return [part.replace(_KEPT, " ") for part in painted]


def _clean(span: Span, stream: TextIO) -> Span:
    text, colour = console.plain(span.text), span.colour
    if colour == "code" and console.is_terminal(stream):
        text, colour = text.removeprefix("`").removesuffix("`"), "bold"
    return Span(text.replace(" ", _KEPT) if span.whole else text, colour)


def _paint_wrapped(parts: list[str], spans: list[Span], stream: TextIO) -> Iterator[str]:
    """Colour the parts of a wrapped line. Wrapping changes only spaces, so the order is kept."""
    colours = (span.colour for span in spans for char in span.text if not char.isspace())
    for part in parts:
        runs: list[Span] = []
        for char in part:
            before = runs[-1].colour if runs else ""
            colour = before if char.isspace() else next(colours)
            if runs and colour == before:
                runs[-1] = Span(runs[-1].text + char, colour)
            else:
                runs.append(Span(char, colour))
        yield "".join(_style(run.text, run.colour, stream) for run in runs)


def _style(text: str, colour: str, stream: TextIO) -> str:
    return console.style(text, "" if colour == "code" else colour, stream=stream)
