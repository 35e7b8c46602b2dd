"""A decision: where a run goes after one input, and why.

`evolve` returns one with every position. With `trace=True` it also says where it looked, for the
table of `machine.explain`; without, only what comes at no cost. A record keeps its result (edges,
signals, next state, status, warnings), not its path and looks: these are computed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from chartloop.core.facts import Facts, Failure
from chartloop.core.reasons import NO_SIGNALS, StopSignals
from chartloop.core.records import Input, Record
from chartloop.core.reports import Part, Shown, pairs
from chartloop.core.text_table import Cell
from chartloop.core.values import Value


class Look(Value, frozen=True, gc=False):
    """One evaluation within a decision: of the rules, or of the edges of one state.

    It has the facts, not the verdicts: an explanation evaluates the guards on them again. For the
    kind `status`, it is a move of the status region, and `state` is a status.
    """

    kind: Literal["rules", "edges", "status"]
    state: str
    trigger: str
    facts: Facts
    rules: tuple[int, ...] = ()
    taken: str = ""
    """The id of the edge or rule that was taken; empty if none was."""
    oracle: Any = None


class Decision(Shown, Value, frozen=True, gc=False):
    """Where a run goes after an input, and why."""

    state: str
    """The state before the input."""
    input: Input
    taken: tuple[str, ...] = ()
    """The ids of the edges and rules that were taken, in order."""
    path: tuple[str, ...] = ()
    """The states that were entered, in order."""
    signals: StopSignals = NO_SIGNALS
    """The signals that this decision raised."""
    winner: str = ""
    """The reason for which the run stops; empty if it does not."""
    warnings: tuple[str, ...] = ()
    next: str = ""
    status: str = ""
    looks: tuple[Look, ...] = ()
    """The evaluations, if the decision was traced."""
    opaque: tuple[bool, ...] = ()
    """The results of registered guards, in order."""
    unsaved: Failure | None = None
    """The failure of `save` after an action that succeeded."""

    def parts(self) -> Iterator[Part]:
        """The state before, the edges taken, and the state after."""
        yield pairs(
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

    def plain_text(self) -> str:
        """The decision in one line."""
        stopped = f", stopped for {self.winner}" if self.winner else ""
        led = " → ".join((self.state, *self.path)) if self.path else f"stays at {self.next}"
        return f"{self.input.kind}: {led}, {self.status}{stopped}"


def moved(decision: Decision) -> bool:
    """Whether the run entered a state or began to wait: a wait after it has a new id."""
    return bool(decision.path) or decision.input.kind == "blocked"


def record_of(decision: Decision, seq: int, wake_at: float | None) -> Record:
    """The record of a decision, with the results of the guards that were called."""
    input = decision.input
    return Record(
        seq, decision.state, input.replace(opaque=decision.opaque) if decision.opaque else input,
        decision.taken, decision.signals, decision.next, decision.status, wake_at,
        decision.warnings,
    )  # fmt: skip
