"""A decision: where a run continues one input, and why.

`evolve` gives one with every position. Without tracing it holds only what it costs nothing to
hold; with `trace=True` it also holds what was evaluated, from which `machine.explain` makes
the table of every rule and edge. It is recomputed on demand by replay and never stored.
"""

from __future__ import annotations

from typing import Any, Literal

from chartloop.core.facts import Facts, Failure
from chartloop.core.html_table import Cell, bundle, pairs
from chartloop.core.reasons import NO_SIGNALS, StopSignals
from chartloop.core.records import Input
from chartloop.core.values import Value


class Look(Value, frozen=True, gc=False):
    """One moment of a decision: the rules, or the edges of one state, that were evaluated.

    Of kind `status` it is the region next to the states: `state` is the status then.
    """

    kind: Literal["rules", "edges", "status"]
    state: str
    trigger: str
    facts: Facts
    rules: tuple[int, ...] = ()
    taken: str = ""
    """The origin of what was taken; empty when nothing was."""
    raised: str = ""
    oracle: Any = None


class Decision(Value, frozen=True, gc=False):
    """Where to go and why."""

    state: str
    """Where the run was."""
    input: Input
    taken: tuple[str, ...] = ()
    """Ids of the edges and rules that were taken, in order."""
    path: tuple[str, ...] = ()
    """The states that were entered, in order."""
    signals: StopSignals = NO_SIGNALS
    """Signals that this decision raised."""
    winner: str = ""
    """The reason that the run stops for, when it stops here."""
    warnings: tuple[str, ...] = ()
    next: str = ""
    status: str = ""
    looks: tuple[Look, ...] = ()
    """The guards that were evaluated; only when traced."""
    opaque: tuple[bool, ...] = ()
    """The results of registered guards, in order."""
    unsaved: Failure | None = None
    """Why an action that succeeded has failed after all: its result could not be saved."""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The notebook view: where the run was, what was taken, and where that led."""
        shown = pairs(
            (
                ("at", Cell(self.state, "code")),
                ("input", f"{self.input.kind} {self.input.event}".strip()),
                ("taken", Cell("\n".join(self.taken), "code")),
                ("path", Cell(" → ".join(self.path), "code")),
                ("signals", "\n".join(map(str, self.signals))),
                ("warnings", "\n".join(self.warnings)),
                ("stopped for", Cell(self.winner, "code")),
                ("next", Cell(self.next, "code")),
                ("status", self.status),
            )
        )
        stopped = f", stopped for {self.winner}" if self.winner else ""
        led = " → ".join((self.state, *self.path)) if self.path else f"stays at {self.next}"
        return bundle(shown, f"{self.input.kind}: {led}, {self.status}{stopped}")
