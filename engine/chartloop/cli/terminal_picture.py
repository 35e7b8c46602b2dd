"""Colours and width of pictures in characters.

Belongs here: which colour shows what. Never: how a picture is drawn (`pictures.text`).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from chartloop.cli import console

if TYPE_CHECKING:
    from chartloop.pictures.text.canvas import Span

_COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "stop": "red", "completed": "green", "decision": "magenta", "start": "cyan", "end": "cyan",
        "hub": "yellow", "rules": "dim", "line": "dim", "dim": "dim", "held": "green",
    }
)  # fmt: skip
"""The colour of each kind of span, by default none. Shapes differ too, not only colours."""


def columns() -> int | None:
    """The columns of the terminal; None if stdout is not one."""
    return shutil.get_terminal_size().columns if console.is_terminal(sys.stdout) else None


def colour_lines(lines: Iterable[Iterable[Span]]) -> list[str]:
    """The lines of a drawing, in colour if stdout takes colours."""
    return [
        "".join(
            console.style(s.text, _COLOURS.get(s.kind, ""), bold=s.kind == "title") for s in spans
        ).rstrip()
        for spans in lines
    ]
