"""States within states, flattened to a chart: a machine is in one state at a time.

A transition to a state with states inside leads to the one that is entered first. One from it
leaves each of the states inside, after their own; if it waits for the inside to end, it leaves the
ends alone.

Belongs here: what nested states mean. Never: how they are written (`state_diagram`).

Source:       www.w3.org/TR/scxml, sections 3.3 and 3.13 (transitions of compound states)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from chartloop.interchange.mermaid.diagram import MOST_LINKS
from chartloop.interchange.mermaid.read import Note, Reading
from chartloop.pictures.flowchart import Arrow, Box, Direction, Flowchart, Role, Shape

DEEPEST = 60
"""The most states around a state."""

Kind = Literal["state", "start", "end", "choice"]

_LOOKS: dict[Kind, tuple[Shape, Role]] = {
    "state": ("rect", "action"),
    "start": ("pill", "start"),
    "end": ("pill", "end"),
    "choice": ("diamond", "decision"),
}


@dataclass(slots=True)
class Part:
    """One state of a document."""

    id: str
    line: int
    within: str = ""
    """The state around it; empty at the top."""
    kind: Kind = "state"
    label: str = ""
    """Empty: its id."""
    first: str = ""
    """The state that is entered first, if there are states inside."""


class Way(NamedTuple):
    """One transition of a document."""

    source: str
    target: str
    label: str
    line: int
    at: int
    """Its offset in the text, for errors."""
    done: bool = False
    """Taken when what is inside its source has ended."""


class NestedError(Exception):
    """A transition that no chart can hold. The message says what is wrong."""

    def __init__(self, message: str, hint: str, at: int) -> None:
        super().__init__(message)
        self.hint = hint
        self.at = at


@dataclass(slots=True)
class Nested:
    """A document of states within states."""

    title: str = ""
    parts: dict[str, Part] = field(default_factory=dict[str, Part])
    ways: list[Way] = field(default_factory=list[Way])
    notes: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """What is not kept, with the lines."""
    direction: Direction = "tb"

    def reading(self) -> Reading:
        """The chart of the innermost states. Raises `NestedError`."""
        inside: dict[str, list[Part]] = defaultdict(list)
        for part in self.parts.values():
            inside[part.within].append(part)
        leaves = [part for part in self.parts.values() if part.id not in inside]
        drawn: dict[str, list[tuple[int, Arrow, int]]] = defaultdict(list)
        waiting = {way.source for way in self.ways if way.done}
        count = 0
        for way in self.ways:
            target = self._entered(way, inside)
            for depth, source in self._left(way, inside, waiting):
                drawn[source].append((depth, Arrow(source, target, way.label), way.line))
                count += 1
            if count > MOST_LINKS:
                message = f"the states have more than {MOST_LINKS:,} transitions together"
                raise NestedError(message, "split the document", way.at)
        arrows = [a for leaf in leaves for a in sorted(drawn[leaf.id], key=lambda one: one[0])]
        boxes = tuple(Box(p.id, p.label or p.id, *_LOOKS[p.kind]) for p in leaves)
        groups = [part.line for part in self.parts.values() if part.id in inside]
        if groups:
            self.notes["the frame of a state with states inside is left out"] += groups
        return Reading(
            Flowchart(self.title, boxes, tuple(a for _, a, _ in arrows), direction=self.direction),
            tuple(Note(text, tuple(lines)) for text, lines in self.notes.items()),
            {part.id: part.line for part in leaves},
            tuple(line for _, _, line in arrows),
            shapes=False,
        )

    def _entered(self, way: Way, inside: Mapping[str, list[Part]]) -> str:
        """The innermost state in which a transition ends."""
        name = way.target
        while name in inside:
            first = self.parts[name].first
            if not first:
                hint = f"write `[*] --> STATE` within `{name}`"
                raise NestedError(f"nothing says where `{name}` starts", hint, way.at)
            if first == name or not self.is_in(first, name):
                message = f"`{name}` starts at `{first}`, which is not inside it"
                raise NestedError(message, "let it start at a state inside", way.at)
            name = first
        return name

    def is_in(self, name: str, other: str) -> bool:
        """Whether a state is another one, or inside it."""
        while name and name != other:
            name = self.parts[name].within
        return name == other

    def _left(
        self, way: Way, inside: Mapping[str, list[Part]], waiting: set[str]
    ) -> Iterator[tuple[int, str]]:
        """The innermost states that a transition leaves, with how far out it is written."""
        if way.done:
            yield from ((1, part.id) for part in inside[way.source] if part.kind == "end")
            return
        todo = [(0, way.source)]
        while todo:
            depth, name = todo.pop()
            if name not in inside:
                yield depth, name
            todo += [
                (depth + 1, part.id)
                for part in reversed(inside.get(name, ()))
                if part.kind != "end" or name not in waiting
            ]
