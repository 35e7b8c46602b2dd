"""Bounds and answers that can be looked at: the witness of a proof on the picture of its machine.

Belongs here: what of a witness is drawn, and the values that know their machine. Never: proofs
(`checker`), colours (`view.witness`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypedDict, get_args

from chartloop.core.errors import SetupError, nearest, refuse_unknown
from chartloop.core.facts import Facts
from chartloop.core.html_table import Cell, Tone, bundle, details_element, image, line, table
from chartloop.proofs.bound import Bound
from chartloop.proofs.bound.bound import WORDS, Figure
from chartloop.proofs.query import Answer, Questions
from chartloop.view.flowchart import Direction, Flowchart, RuleDrawing
from chartloop.view.focus import around as around_state
from chartloop.view.of_machine import OfMachine
from chartloop.view.witness import Way, WayPicture

_TONES: Mapping[bool | None, Tone] = {True: "good", False: "bad", None: "warn"}


@dataclass(frozen=True, repr=False)
class DrawnBound(Bound):
    """A bound that knows its machine: `draw` shows the run that comes to a figure."""

    of: OfMachine = field(kw_only=True, compare=False, repr=False)

    def draw(self, figure: str = "actions", *, rules: RuleDrawing = "box") -> WayPicture:
        """The run that comes to a figure, on the picture of the machine with these limits.

        What it takes is blue, with how often; the arrow that closes a loop is red, and has the sign
        of infinity where nothing cuts that loop. `figure` is one of `figures`.
        """
        if figure not in self.figures:
            hint = self.unknown or nearest(figure, self.figures)
            raise SetupError(f"there is no bound on `{figure}` to draw", hint=hint)
        shown = self.figures[figure]
        witness = shown.witness
        states = Counter(witness.path)
        for loop, times in witness.loops:
            states.update(dict.fromkeys(loop, times))
        uncut = shown.value is None and not shown.unit and bool(witness.loops)
        message = f"{WORDS[shown.resource]}: {shown.text}"
        way = Way(states, witness.edges, frozenset(witness.closing), uncut, message)
        return _picture(self.of, way, rules, self.limits)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """The notebook view: the figures, and the run with the most actions."""
        if not self.figures:
            return bundle(line(str(self), "warn"), str(self))
        rows = [(WORDS[n], Cell(f.amount, _tone(f)), f.reason) for n, f in self.figures.items()]
        assumed = details_element(
            f"{len(self.assumptions)} assumptions", table([(said,) for said in self.assumptions])
        )
        head = line(f"{self.machine}, at worst", "strong")
        shown = f"{head}{table(rows, right=(1,))}{assumed}"
        return bundle(shown + _image(self.draw(), "the run with the most actions"), str(self))


@dataclass(frozen=True, repr=False)
class DrawnAnswer(Answer):
    """An answer that knows its machine: `draw` shows the run that it speaks of."""

    of: OfMachine = field(kw_only=True, compare=False, repr=False)

    def draw(self, *, rules: RuleDrawing = "box") -> WayPicture:
        """The run that shows it; where none is needed for that, the machine as it is."""
        text = f"{self.query}: {self.word}\n{self.reason}"
        way = Way(Counter(self.witness), Counter(self.edges) if self.witness else None, said=text)
        return _picture(self.of, way, rules, {})

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """The notebook view: the text, and the picture if there is a witness."""
        shown = table(
            [(Cell(self.word, _TONES[self.holds]), Cell(self.query, "code"), self.reason)]
        )
        if self.witness:
            shown += line(" → ".join(self.witness)) + _image(self.draw(), self.reason)
        return bundle(shown, str(self))


class DrawnQuestions(Questions):
    """Questions to a machine whose answers can be drawn."""

    def __init__(self, machine: OfMachine, limits: Mapping[str, Any]) -> None:
        super().__init__(machine.chart, limits)
        self._machine = machine

    def ask(self, text: str, *, cancels: bool = True) -> DrawnAnswer:
        """The answer. `QueryFault` for what is not a query of this machine."""
        return DrawnAnswer(**_values(super().ask(text, cancels=cancels)), of=self._machine)


def drawn_bound(found: Bound, machine: OfMachine) -> DrawnBound:
    """A bound of a machine, with the machine."""
    return DrawnBound(**_values(found), of=machine)


def _values(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


def _tone(figure: Figure) -> Tone:
    return "" if figure.value is not None else "warn" if figure.unit else "bad"


def _image(picture: WayPicture, said: str) -> str:
    """A picture for a page; where it cannot be drawn, why, and what the text format has of it."""
    made = picture.bundle()
    if "image/svg+xml" in made:
        return image(made["image/svg+xml"], said)
    return line(made["text/plain"], "code")


def _picture(
    machine: OfMachine, way: Way, rules: RuleDrawing, limits: Mapping[str, Any]
) -> WayPicture:
    facts = Facts(limits={**{n: x.value for n, x in machine.spec.limits.items()}, **limits})
    return WayPicture(machine.draw(rules=rules, facts=facts).chart, way)


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
    """The chart in this direction, around this state. `RunError`: an unknown direction or state."""
    refuse_unknown("direction", direction, get_args(Direction))
    shown = chart if around is None else around_state(chart, around, hops=hops)
    return replace(shown, direction=direction)
