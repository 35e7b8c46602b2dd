"""Mermaid itself, in a node process that lives as long as the tests: what it reads of a chart.

Belongs here: the way to the process, and its answers beside ours in one form. Never: a test.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from chartloop.core.errors import SpecError
from chartloop.interchange.mermaid.diagram import Diagram, Link
from chartloop.interchange.mermaid.grammar import parse
from chartloop.interchange.mermaid.read import says
from chartloop.interchange.mermaid.source import Source

_SCRIPT = Path(__file__).with_name("node") / "oracle.mjs"


class Answer(NamedTuple):
    """What a reader makes of a chart; `refused` is empty where it reads it."""

    refused: str
    nodes: tuple[tuple[str, str, str], ...] = ()
    """Id, text and shape."""
    edges: tuple[tuple[str, str, str, str, str], ...] = ()
    """Ends, text, head and stroke."""
    groups: frozenset[str] = frozenset()
    owners: frozenset[tuple[str, str]] = frozenset()
    """What is in which group."""

    @property
    def without_cause(self) -> Answer:
        """The same, whatever words a refusal has."""
        return self._replace(refused="refused" if self.refused else "")


class Oracle:
    """The process. `read` asks it for one chart."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["node", str(_SCRIPT)],
            cwd=_SCRIPT.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def read(self, text: str) -> Answer:
        """What Mermaid makes of a chart."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the oracle has no pipes")
        process.stdin.write(json.dumps(text) + "\n")
        process.stdin.flush()
        said: dict[str, Any] = json.loads(process.stdout.readline())
        if "refused" in said:
            return Answer(said["refused"] or "refused")
        return Answer(
            "",
            tuple((n["id"], _plain(n["text"]), n["shape"]) for n in said["nodes"]),
            tuple(
                (e["source"], e["target"], _plain(e["text"]), e["head"], e["stroke"])
                for e in said["edges"]
            ),
            frozenset(said["groups"]),
            frozenset((part, group) for part, group in said["owners"]),
        )

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(10)
        if self._process.stdout is not None:
            self._process.stdout.close()


def ours(text: str) -> Answer:
    """What our reader makes of a chart, before it becomes a chart of states."""
    try:
        diagram = parse(Source(text, ""))
    except SpecError as refused:
        return Answer(str(refused))
    return _answer(diagram)


def _answer(diagram: Diagram) -> Answer:
    return Answer(
        "",
        tuple((v.id, _plain(says(v.text)), v.shape) for v in diagram.vertices.values()),
        tuple(
            (link.source, link.target, _said(link), link.drawn.head, link.drawn.stroke)
            for link in diagram.links
        ),
        frozenset(diagram.groups),
        frozenset(diagram.owners.items()),
    )


def _said(link: Link) -> str:
    return _plain(says(link.text.text)) if link.text else ""


def _plain(text: str) -> str:
    """A text without what white space a page would not show."""
    return " ".join(text.split())
