"""The text of a graph in DOT: statements, attributes in a stable order, quotes.

Belongs here: the grammar of DOT. Never: what a picture looks like (`view.dot.write`).

Source: https://graphviz.org/doc/info/lang.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_PLAIN = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*|-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)")
_KEYWORDS = frozenset({"node", "edge", "graph", "digraph", "subgraph", "strict"})
_QUOTE = re.compile(r'((?:\\{2})*)\\?"')
"""A quotation mark with the backslashes before it; one that is escaped stays so."""


class Html(str):
    """An HTML-like label, with its angle brackets: whoever makes one escapes what is in it."""

    __slots__ = ()


class Digraph:
    """A directed graph that is being written. Every value is plain text, unless it is `Html`."""

    def __init__(
        self, graph: Mapping[str, str], node: Mapping[str, str], edge: Mapping[str, str]
    ) -> None:
        """The attributes that hold for the whole, for every node and for every edge."""
        given = (("graph", graph), ("node", node), ("edge", edge))
        self._lines = [f"\t{kind}{_listed(style)}\n" for kind, style in given]

    def attr(self, **attributes: str) -> None:
        """Attributes of the whole."""
        self._lines.append(f"\t{_assigned(sorted(attributes.items()))}\n")

    def node(self, name: str, **attributes: str) -> None:
        """A node."""
        self._lines.append(f"\t{quoted(name)}{_listed(attributes)}\n")

    def edge(self, tail: str, head: str, **attributes: str) -> None:
        """An edge."""
        self._lines.append(f"\t{quoted(tail)} -> {quoted(head)}{_listed(attributes)}\n")

    @property
    def source(self) -> str:
        """The text."""
        return "".join(["digraph {\n", *self._lines, "}\n"])


def quoted(value: str) -> str:
    """A value as DOT reads it back."""
    if isinstance(value, Html):
        return value
    if _PLAIN.fullmatch(value) and value.lower() not in _KEYWORDS:
        return value
    escaped = _QUOTE.sub(r'\1\\"', value)
    return f'"{escaped}"'


def _assigned(attributes: Iterable[tuple[str, str]]) -> str:
    return " ".join(f"{quoted(n)}={quoted(v)}" for n, v in attributes)


def _listed(attributes: Mapping[str, str]) -> str:
    """What stands in brackets: the label first."""
    ordered = sorted(attributes.items(), key=lambda item: (item[0] != "label", item[0]))
    return f" [{_assigned(ordered)}]" if ordered else ""
