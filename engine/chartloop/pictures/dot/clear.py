"""A layout in which no line touches what is not its own, as far as Graphviz gives one.

Graphviz routes a line round boxes, but lets it run along their borders and over labels. So its
picture is looked at, and laid out again with other distances and weights until nothing touches,
or the tries are used up: then the best of them is taken. Equal charts give equal pictures.

Belongs here: what is tried, and how often. Never: what a touch is (`touching`).

Source: docs/pictures.md, "A line touches only its own boxes"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from chartloop.core.errors import ChartloopError
from chartloop.pictures.dot.engine import Engine, render
from chartloop.pictures.dot.touching import Touch, touches
from chartloop.pictures.dot.write import AS_IS, PLAIN, Dress, Tuning, to_dot
from chartloop.pictures.flowchart import Flowchart

_APART = ((0.42, 0.42), (0.6, 0.6), (0.5, 0.8))
_WEIGHTS = (4, 0, 8)
"""Of the arrows that touch something: heavier ones are straighter, lighter ones give way."""
_ROUNDS = 3
_LARGE, _HUGE = 60, 200
"""Arrows from which on one round is made, and none: each try takes as long as the first layout."""


class Clear(NamedTuple):
    """The best layout that was found."""

    source: str
    """Its DOT text."""
    svg: str
    tuning: Tuning
    touches: tuple[Touch, ...] = ()
    """What still touches in it."""


def lay_out(
    chart: Flowchart,
    prefix: str,
    *,
    engine: Engine,
    timeout: float,
    dress: Dress = PLAIN,
    recolour: Callable[[str], str] = str,
    like: Tuning | None = None,
) -> Clear:
    """The layout of a chart in which the fewest lines touch something that is not their own.

    `recolour` changes the DOT text, and moves nothing; `timeout` is that of each layout. With
    `like`, the tuning of another layout of the chart, nothing stands elsewhere than there.
    Errors: see `pictures.dot.engine.render`.
    """
    arrows = len(chart.arrows)

    def attempt(tuning: Tuning) -> Clear:
        source = recolour(to_dot(chart, prefix=prefix, dress=dress, tuning=tuning))
        svg = render(source, "svg", engine=engine, timeout=timeout).decode()
        return Clear(source, svg, tuning, tuple(touches(svg)) if arrows < _HUGE else ())

    if like is not None:
        return attempt(like)
    best = attempt(AS_IS)
    for _ in range(_ROUNDS if arrows < _LARGE else 1):
        before = best
        for tuning in _others(best.tuning, best.touches):
            if not best.touches:
                return best
            try:
                tried = attempt(tuning)
            except ChartloopError:  # the first layout is there, and stays
                return best
            if len(tried.touches) < len(best.touches):
                best = tried
        if best is before:
            break
    return best


def _others(tuned: Tuning, touches: tuple[Touch, ...]) -> list[Tuning]:
    """What is tried next: more room; then loops turned, and other weights, where lines touch."""
    lines = dict.fromkeys(touch.line for touch in touches)
    spacings = [apart for apart in _APART if apart != tuned.apart]
    more_room = [tuned._replace(apart=apart) for apart in spacings]
    return [*more_room, tuned._replace(turned=True)] + [
        tuned._replace(apart=apart, weights={**tuned.weights, **dict.fromkeys(lines, weight)})
        for apart in (tuned.apart, *spacings[:2])
        for weight in _WEIGHTS
    ]
