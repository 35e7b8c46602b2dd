"""Laws of the merged picture: nothing of either chart is lost, and what is drawn reads back."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chartloop.analysis.versions.diff.diff import Diff
from chartloop.analysis.versions.diff.mermaid import MOST
from chartloop.api import Machine, lifecycle
from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.machine.build import Chart
from chartloop.pictures.compare.difference import differences
from chartloop.pictures.flowchart import one_line
from chartloop.pictures.focus import HIDDEN
from chartloop.pictures.ids import safe_ids
from tests.laws.test_review_laws import changed, nodes, spec_of
from tests.strategies import machines

Data = Any
OTHERS = ("s0", "done", "stopped", "another label", "vars.n > 7", "act", 3, ...)


@st.composite
def edits(draw: st.DrawFn) -> tuple[Data, Data]:
    """A machine, and one that was edited a little or is another."""
    before = draw(machines())
    if draw(st.integers(0, 4)) == 0:
        return before, draw(machines())
    after = before
    for _ in range(draw(st.integers(0, 5))):
        found = [at for at in nodes(after) if at[0] in ("states", "rules", "limits")]
        tried = changed(after, draw(st.sampled_from(found)), draw(st.sampled_from(OTHERS)))
        after = tried if spec_of(tried) is not None else after
    return before, after


def diff_of(pair: tuple[Data, Data]) -> Diff:
    one, other = (spec_of(data) for data in pair)
    assume(one is not None and other is not None)
    assert one is not None
    assert other is not None
    return Diff(
        Machine(Chart(one, lifecycle())), Machine(Chart(other, lifecycle())), ("old", "new")
    )


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(edits())
def test_nothing_of_either_chart_is_lost(pair: tuple[Data, Data]) -> None:
    made = diff_of(pair)
    merged = made.merged_chart
    before, after = made.before.draw().chart, made.after.draw().chart
    ids = [box.id for box in merged.chart.boxes]
    assert len(ids) == len(set(ids))
    assert {arrow.source for arrow in merged.chart.arrows} <= set(ids)
    assert {arrow.target for arrow in merged.chart.arrows} <= set(ids)
    box_marks = Counter(merged.of_box(box).mark for box in merged.chart.boxes)
    arrow_marks = Counter(merged.of_arrow(arrow).mark for arrow in merged.chart.arrows)
    for marks, old, new in (
        (box_marks, before.boxes, after.boxes),
        (arrow_marks, before.arrows, after.arrows),
    ):
        assert marks.total() - marks["removed"] == len(new)
        assert marks.total() - marks["added"] == len(old)
    now = {box.id for box in merged.chart.boxes if merged.of_box(box).mark != "removed"}
    assert now == {box.id for box in after.boxes}
    kept = [a for a in merged.chart.arrows if merged.of_arrow(a).mark != "removed"]
    assert kept == list(after.arrows)
    if differences(before, after):
        assert made.changes_picture
    if made.same:
        assert not made.changes_picture


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(edits())
def test_the_focus_keeps_what_changed(pair: tuple[Data, Data]) -> None:
    made = diff_of(pair)
    merged, picture = made.merged_chart, made.picture()
    shown = {box.id for box in picture.chart.boxes} - {HIDDEN}
    assert {box.id for box in merged.chart.boxes if merged.of_box(box).mark != "same"} <= shown
    drawn = set(picture.chart.arrows)
    assert {a for a in merged.chart.arrows if merged.of_arrow(a).mark != "same"} <= drawn
    assert len(shown) + picture.merged.hidden == len(merged.chart.boxes)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(edits(), st.booleans())
def test_mermaid_text_reads_back(pair: tuple[Data, Data], full: bool) -> None:
    picture = diff_of(pair).picture(full=full)
    text = picture.mermaid()
    assert len(text) < MOST
    plain = re.sub(r":::\w+$|^\s*(?:classDef|linkStyle).*$|^%%.*$", "", text, flags=re.MULTILINE)
    found = read_mermaid(plain)
    ids = safe_ids(box.id for box in picture.chart.boxes)
    assert [box.id for box in found.boxes] == [ids[box.id] for box in picture.chart.boxes]
    ends = [(ids[a.source], ids[a.target]) for a in picture.chart.arrows]
    assert [(a.source, a.target) for a in found.arrows] == ends
    for box, read in zip(picture.chart.boxes, found.boxes, strict=True):
        assert one_line(box.label).partition("\n")[0].split()[0] in read.label


@pytest.mark.slow("tries hundreds of examples for seconds")
@pytest.mark.system("dot", install="apt-get install graphviz")
@settings(max_examples=25)
@given(edits())
def test_the_svg_has_every_box_and_arrow(pair: tuple[Data, Data]) -> None:
    picture = diff_of(pair).picture(prefix="p-")
    root = ET.fromstring(picture.svg())  # noqa: S314 - ours
    names = Counter(element.get("id", "") for element in root.iter())
    ids = safe_ids(box.id for box in picture.chart.boxes)
    assert all(names[f"p-node-{ids[box.id]}"] == 1 for box in picture.chart.boxes)
    assert sum(n for name, n in names.items() if name.startswith("p-edge-")) == len(
        picture.chart.arrows
    )
