"""What may be said of a picture: how rules are drawn, which part is shown, which way it goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict, get_args

from chartloop.core.errors import refuse_unknown
from chartloop.view.flowchart import Direction, Flowchart, RuleDrawing
from chartloop.view.focus import around as around_state


class DrawOptions(TypedDict, total=False):
    """What is drawn of a machine; see `Machine.draw`."""

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
