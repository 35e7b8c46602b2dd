"""The places of a report's values in a chart, and a chart with the values in its labels.

Belongs here: the box, arrow or list line of each value; the labels for formats that only know
charts. Never: a format, a colour, the source of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from chartloop.pictures.flowchart import Arrow, Box, Flowchart, RuleLine
from chartloop.pictures.from_graph import rule_boxes
from chartloop.pictures.live.progress import Meter
from chartloop.pictures.report.cells import CELLS, full_cells, word


def place_meters(chart: Flowchart, meters: Mapping[str, Meter]) -> dict[str, Meter]:
    """The meters by the element that shows them. In a chain a rule is shown by its decision."""
    found = dict(meters)
    boxes = {box.id: box for box in chart.boxes}
    for arrow in chart.arrows:
        if arrow.kind == "rule" and arrow.id in found and boxes[arrow.source].role == "decision":
            found[arrow.source] = found.pop(arrow.id)
    return found


def listed_rules(chart: Flowchart) -> dict[str, list[RuleLine]]:
    """The rules that are lines of a box, by box id; other rules have an arrow."""
    boxes = rule_boxes(chart)
    drawn = {arrow.id for arrow in chart.arrows if arrow.kind == "rule"}
    found: dict[str, list[RuleLine]] = {}
    for line in chart.rules:
        if line.id in boxes and line.id not in drawn:
            found.setdefault(boxes[line.id], []).append(line)
    return found


def add_meters(chart: Flowchart, meters: Mapping[str, Meter]) -> Flowchart:
    """The chart with each value and a bar of ten characters under its label."""
    found, lists = place_meters(chart, meters), listed_rules(chart)
    boxes = tuple(_box(box, found, lists.get(box.id, [])) for box in chart.boxes)
    arrows = tuple(_arrow(arrow, found) for arrow in chart.arrows)
    return replace(chart, boxes=boxes, arrows=arrows)


def _box(box: Box, meters: Mapping[str, Meter], lines: list[RuleLine]) -> Box:
    if not lines:
        return replace(box, label=_with(box.label, meters.get(box.id)))
    head = box.label.strip("\n").split("\n")[0]
    rules = (_with(f"{line.text} → {line.does}", meters.get(line.id), "· ") for line in lines)
    return replace(box, label="\n".join((head, *rules)))


def _arrow(arrow: Arrow, meters: Mapping[str, Meter]) -> Arrow:
    if arrow.kind != "rule":
        return arrow
    return arrow.saying(_with(arrow.words, meters.get(arrow.id)))


def _with(label: str, meter: Meter | None, sign: str = "") -> str:
    if meter is None or not meter.text.strip():
        return label
    full = 0 if meter.share is None else full_cells(meter.share)
    bar = "" if meter.share is None else f" {'█' * full}{'░' * (CELLS - full)}"
    return f"{label}\n{sign}{meter.text}{word(meter.share)}{bar}"
