"""The interface of a machine for runs, comparisons and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from chartloop.core.facts import Facts
from chartloop.language.spec import MachineSpec
from chartloop.machine.build import Chart
from chartloop.pictures.flowchart import Direction, RuleDrawing

if TYPE_CHECKING:
    from chartloop.pictures.picture import Picture


class OfMachine(Protocol):
    """The part of a machine that runs and comparisons use. `Machine` is one."""

    chart: Chart

    @property
    def name(self) -> str:
        """The machine's name."""
        ...

    @property
    def spec(self) -> MachineSpec:
        """The content of its file."""
        ...

    @property
    def hash(self) -> str:
        """The hash of its canonical text."""
        ...

    def canonical(self) -> str:
        """Its canonical text."""
        ...

    def draw(
        self, *, rules: RuleDrawing = "box", all: bool = False, region: str = "state",
        direction: Direction = "tb", around: str | None = None, hops: int = 1, scale: float = 1.0,
        facts: Facts | None = None,
    ) -> Picture:  # fmt: skip
        """Its picture, with the limits of the facts."""
        ...
