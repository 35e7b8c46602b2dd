"""What others know of a machine: enough to decide by it, to compare it and to draw it."""

from __future__ import annotations

from typing import Protocol

from chartloop.core.facts import Facts
from chartloop.language.spec import MachineSpec
from chartloop.machine.build import Chart
from chartloop.view.flowchart import Direction, RuleDrawing
from chartloop.view.picture import Picture


class OfMachine(Protocol):
    """What runs and comparisons use of a machine. `Machine` is one."""

    chart: Chart

    @property
    def name(self) -> str:
        """The machine's name."""
        ...

    @property
    def spec(self) -> MachineSpec:
        """What its file says."""
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
        direction: Direction = "tb", around: str | None = None, hops: int = 1,
        facts: Facts | None = None,
    ) -> Picture:  # fmt: skip
        """Its picture, with the limits of the facts."""
        ...
