"""What a run knows of its machine: enough to be drawn and decided by.

Imported by: api.run
"""

from __future__ import annotations

from typing import Protocol

from interlock.core.facts import Facts
from interlock.language.spec import MachineSpec
from interlock.machine.build import Chart
from interlock.view.flowchart import Direction, RuleDrawing
from interlock.view.picture import Picture


class OfMachine(Protocol):
    """What a run uses of its machine. `Machine` is one."""

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
