"""Bounds and answers that can be drawn: the witness of a proof on the picture of its machine.

Belongs here: which part of a witness is drawn, and the results with their machine. Never: proofs
(`proofs`), colours (`pictures.witness`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from chartloop.analysis.proofs.bound import Bound
from chartloop.analysis.proofs.bound.bound import WORDS
from chartloop.analysis.proofs.query import Answer, Questions
from chartloop.core.errors import SetupError, nearest, refuse_unknown
from chartloop.core.facts import Facts
from chartloop.core.html_table import Cell, Tone, bundle, details_element, image, line, table
from chartloop.pictures.flowchart import Direction, Flowchart, RuleDrawing
from chartloop.pictures.focus import around as around_state

if TYPE_CHECKING:
    from chartloop.pictures.of_machine import OfMachine
    from chartloop.pictures.witness import WitnessPicture

_TONES: Mapping[bool | None, Tone] = {True: "good", False: "bad", None: "warn"}


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

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """The notebook view: the figures, and the run with the most actions."""
        if not self.figures:
            return bundle(line(str(self), "warn"), str(self))
        rows = [
            (
                WORDS[n],
                Cell(f.amount, ("" if f.value is not None else "warn" if f.unit else "bad")),
                f.reason,
            )
            for n, f in self.figures.items()
        ]
        assumed = details_element(
            f"{len(self.assumptions)} assumptions", table([(text,) for text in self.assumptions])
        )
        head = line(f"{self.machine}, at worst", "strong")
        html = f"{head}{table(rows, right=(1,))}{assumed}"
        return bundle(html + _image(self.draw(), "the run with the most actions"), str(self))


@dataclass(frozen=True, repr=False)
class DrawnAnswer(Answer):
    """An answer with its machine: `draw` shows the witness."""

    of: OfMachine = field(kw_only=True, compare=False, repr=False)

    def draw(self, *, rules: RuleDrawing = "box") -> WitnessPicture:
        """The witness on the picture of the machine; only the machine if there is none."""
        text = f"{self.query}: {self.word}\n{self.reason}"
        edges = Counter(self.edges) if self.witness else None
        return _picture(self.of, rules, {}, Counter(self.witness), edges, frozenset(), False, text)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """The notebook view: the text, and the picture if there is a witness."""
        html = table([(Cell(self.word, _TONES[self.holds]), Cell(self.query, "code"), self.reason)])
        if self.witness:
            html += line(" → ".join(self.witness)) + _image(self.draw(), self.reason)
        return bundle(html, str(self))


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


def _image(picture: WitnessPicture, caption: str) -> str:
    """A picture for a page; if it cannot be drawn, the reason and the text form."""
    formats = picture.bundle()
    if "image/svg+xml" in formats:
        return image(formats["image/svg+xml"], caption)
    return line(formats["text/plain"], "code")


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


def arrange_chart(
    chart: Flowchart, direction: Direction, around: str | None, hops: int
) -> Flowchart:
    """The chart in a direction, around a state. `RunError` if either is unknown."""
    refuse_unknown("direction", direction, get_args(Direction))
    part = chart if around is None else around_state(chart, around, hops=hops)
    return replace(part, direction=direction)
