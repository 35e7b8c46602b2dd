"""Parts of a chart: some of its boxes, the arrows between them, and the count of hidden boxes.

Belongs here: the neighbourhood of a box, and the note about hidden boxes. Never: the choice of the
box.

Source: the issue "Pictures", 3 (focus view)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from chartloop.core.errors import RunError, nearest
from chartloop.pictures.flowchart import Box, Flowchart

HIDDEN = "hidden-note"
"""The id of the box that counts hidden boxes. No state has a hyphen in its name."""


def around(chart: Flowchart, state: str, *, hops: int = 1) -> Flowchart:
    """A box, and those at most `hops` arrows away from it, in either direction.

    `RunError`: the chart has no such box, or `hops` is less than 0.
    """
    known = [box.id for box in chart.boxes]
    if state not in known:
        hint = nearest(state, known, otherwise="names are those of the states in the file")
        raise RunError(f"there is no state `{state[:80]}` in the picture", hint=hint)
    if hops < 0:
        raise RunError(f"a neighbourhood of {hops} arrows is empty", hint="0 is the state alone")
    shown = near(chart, state, hops)
    hidden = len(chart.boxes) - len(shown)
    return chart if hidden <= 1 else part(chart, shown, f"… {hidden} boxes hidden")


def near(chart: Flowchart, name: str, hops: int = 1) -> set[str]:
    """The ids of a box and of those at most `hops` arrows away from it.

    The search ends at a box of rules, since that is connected to every way to stop.
    """
    rules = {box.id for box in chart.boxes if box.role == "rules"}
    beside: dict[str, set[str]] = {}
    for arrow in chart.arrows:
        beside.setdefault(arrow.source, set()).add(arrow.target)
        beside.setdefault(arrow.target, set()).add(arrow.source)
    reached = last = {name}
    for _ in range(hops):
        last = {
            box for one in last if one == name or one not in rules for box in beside.get(one, ())
        } - reached
        if not last:
            break
        reached = reached | last
    return reached


def part(chart: Flowchart, shown: Collection[str], note: str = "") -> Flowchart:
    """The chart of these boxes alone; a `note` gets its own box."""
    boxes = [box for box in chart.boxes if box.id in shown]
    arrows = tuple(a for a in chart.arrows if a.source in shown and a.target in shown)
    led_to = {arrow.target for arrow in arrows}
    top = next((box for box in boxes if box.id not in led_to), None)
    boxes = boxes if top is None else [top, *(box for box in boxes if box is not top)]
    if note:
        boxes.append(Box(HIDDEN, note, "text", "rules", origin="rule"))
    return replace(chart, boxes=tuple(boxes), arrows=arrows)
