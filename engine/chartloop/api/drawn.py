"""Bounds and answers that can be drawn: the witness of a proof on the picture of its machine.

Belongs here: which part of a witness is drawn, and the results with their machine. Never: proofs
(`proofs`), colours (`pictures.witness`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from chartloop.analysis.proofs.bound import Bound
from chartloop.analysis.proofs.bound.bound import WORDS
from chartloop.analysis.proofs.query import Answer, Questions
from chartloop.core.errors import SetupError, nearest, refuse_unknown
from chartloop.core.facts import Facts
from chartloop.core.reports import Illustration, Part
from chartloop.pictures.flowchart import Direction, Flowchart, RuleDrawing
from chartloop.pictures.focus import around as around_state

if TYPE_CHECKING:
    from chartloop.pictures.of_machine import OfMachine
    from chartloop.pictures.witness import WitnessPicture


@dataclass(frozen=True, repr=False)
class DrawnBound(Bound):
    """A bound with its machine: `draw` shows the run that reaches a figure."""

    of: OfMachine = field(kw_only=True, compare=False, repr=False)

    def draw(self, figure: str = "actions", *, rules: RuleDrawing = "box") -> WitnessPicture:
        """The run that reaches a figure, on the picture of the machine with these limits.

        The edges taken are blue, with their counts. The arrow that closes a loop is red, with the
        sign of infinity if nothing bounds that loop. `figure` is one of `figures`.
        """
        if figure not in self.figures:
            hint = self.unknown or nearest(figure, self.figures)
            raise SetupError(f"there is no bound on `{figure}` to draw", hint=hint)
        chosen = self.figures[figure]
        witness = chosen.witness
        states = Counter(witness.path)
        for loop, times in witness.loops:
            states.update(dict.fromkeys(loop, times))
        uncut = chosen.value is None and not chosen.unit and bool(witness.loops)
        message = f"{WORDS[chosen.resource]}: {chosen.text}"
        path = (states, witness.edges, frozenset(witness.closing), uncut, message)
        return _picture(self.of, rules, self.limits, *path)

    def parts(self) -> Iterator[Part]:
        """The figures; for a notebook also the run with the most actions."""
        yield from super().parts()
        if self.figures:
            yield Illustration(lambda: self.draw().bundle(), "the run with the most actions")


@dataclass(frozen=True, repr=False)
class DrawnAnswer(Answer):
    """An answer with its machine: `draw` shows the witness."""

    of: OfMachine = field(kw_only=True, compare=False, repr=False)

    def draw(self, *, rules: RuleDrawing = "box") -> WitnessPicture:
        """The witness on the picture of the machine; only the machine if there is none."""
        text = f"{self.query}: {self.word}\n{self.reason}"
        edges = Counter(self.edges) if self.witness else None
        return _picture(self.of, rules, {}, Counter(self.witness), edges, frozenset(), False, text)

    def parts(self, *, titled: bool = False) -> Iterator[Part]:
        """The answer; for a notebook also its picture, if there is a witness."""
        yield from super().parts(titled=titled)
        if self.witness:
            yield Illustration(lambda: self.draw().bundle(), self.reason)


class DrawnQuestions(Questions):
    """Queries of a machine whose answers can be drawn."""

    def __init__(self, machine: OfMachine, limits: Mapping[str, Any]) -> None:
        super().__init__(machine.chart, limits)
        self._machine = machine

    def ask(self, text: str, *, cancels: bool = True) -> DrawnAnswer:
        """The answer to a query. `QueryFault` for an invalid one."""
        return DrawnAnswer(**_values(super().ask(text, cancels=cancels)), of=self._machine)


def drawn_bound(bound: Bound, machine: OfMachine) -> DrawnBound:
    """A bound, with its machine."""
    return DrawnBound(**_values(bound), of=machine)


def _values(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


def _picture(
    machine: OfMachine, rules: RuleDrawing, limits: Mapping[str, Any], *path: Any
) -> WitnessPicture:
    from chartloop.pictures.witness import (  # noqa: PLC0415 - a bound is proven at each start
        WitnessPath,
        WitnessPicture,
    )

    facts = Facts(limits={**{n: x.value for n, x in machine.spec.limits.items()}, **limits})
    return WitnessPicture(machine.draw(rules=rules, facts=facts).chart, WitnessPath(*path))


class DrawOptions(TypedDict, total=False):
    """Options for drawing a machine; see `Machine.draw`."""

    rules: RuleDrawing
    all: bool
    region: str
    direction: Direction
    around: str | None
    hops: int
    scale: float


def arrange_chart(
    chart: Flowchart, direction: Direction, around: str | None, hops: int
) -> Flowchart:
    """The chart in a direction, around a state. `RunError` if either is unknown."""
    refuse_unknown("direction", direction, get_args(Direction))
    part = chart if around is None else around_state(chart, around, hops=hops)
    return replace(part, direction=direction)
