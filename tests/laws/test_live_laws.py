"""What holds for every picture of a run: it is well formed, and nothing moves or means anything."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop.core.phase import ENDINGS
from chartloop.pictures.dot.engine import Engine
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, RuleLine, one_line
from chartloop.pictures.live.live_picture import LivePicture
from chartloop.pictures.live.outline import Outline
from chartloop.pictures.live.plan import Planner
from chartloop.pictures.live.progress import Standing
from chartloop.pictures.live.run_picture import RunPicture
from tests.laws.test_view_laws import HOSTILE, charts, ids, labels

PYGRAPHVIZ = pytest.mark.extra(  # noqa: S610 - no Django
    "pygraphviz", install='pip install -e ".[diagrams]"'
)
EVIL = [
    *HOSTILE,
    *("</style>", "<style>*{display:none}</style>", "]]>", "<![CDATA[", "<!--", "-->", "&#60;script&#62;"),
    *("}*{fill:url(https://example.com)}", "a{b", "/*", "*/", "@import 'x'", "o NOW", "x0000 ", " x0000 "),
    *("שלום", "\u200fע", "onload=alert(1)", "javascript:alert(1)", "x" * 2_000, "<TABLE>", "\\N", "\\G"),
]  # fmt: skip
evil = st.one_of(labels, st.lists(st.sampled_from(EVIL), max_size=3).map("".join))
edges = st.one_of(st.just(""), st.sampled_from(["e.next.0", "e.then", "on_error", *EVIL[:6]]), evil)
counts = st.integers(0, 10**12)
ENGINES: list[Engine] = ["dot", "pygraphviz"] if shutil.which("dot") else ["pygraphviz"]
engines = st.sampled_from(ENGINES)
"""Both that are here: `dot` starts ten times as fast."""
hows: st.SearchStrategy[str] = st.sampled_from(["", *(phase.name for phase in ENDINGS)])


@st.composite
def painted(draw: st.DrawFn) -> tuple[Flowchart, Standing]:
    """Any chart, and any standing in it or beside it."""
    chart = draw(charts())
    boxes = tuple(
        replace(box, label=draw(st.one_of(st.just(box.label), evil))) for box in chart.boxes
    )
    arrows = tuple(
        replace(arrow, id=draw(edges), label=draw(st.one_of(st.just(arrow.label), evil)))
        for arrow in chart.arrows
    )
    rules = tuple(
        RuleLine(draw(edges), draw(evil), "stop", draw(evil))
        for _ in range(draw(st.integers(0, 2)))
    )
    if rules:
        boxes += (Box("rules-1", "after every step\nx", role="rules", origin="rule"),)
    chart = Flowchart(draw(evil), boxes, arrows, rules)
    return chart, draw(standings(chart))


@st.composite
def standings(draw: st.DrawFn, chart: Flowchart) -> Standing:
    names = st.one_of(st.sampled_from([box.id for box in chart.boxes] or [""]), ids)
    taken = st.dictionaries(
        st.one_of(st.sampled_from([arrow.id for arrow in chart.arrows] or [""]), edges), counts
    )
    return Standing(
        draw(names), draw(st.dictionaries(names, counts, max_size=6)), draw(st.one_of(st.none(), taken)),
        draw(hows), draw(evil), draw(edges),
        draw(st.dictionaries(names, st.integers(1, 10**6), max_size=3)), draw(evil),
    )  # fmt: skip


def element(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - our own


def nothing_runs(root: ET.Element) -> None:
    """No element, attribute or address that a browser would run or fetch."""
    for part in root.iter():
        tag = part.tag.rpartition("}")[2]
        assert tag in {"svg", "style", "g", "title", "desc", "a", "text", "tspan", "path", "polygon",
                       "polyline", "ellipse"}  # fmt: skip
        for name in part.attrib:
            plain = name.rpartition("}")[2]
            assert not plain.startswith("on")
            assert plain not in {"href", "src"}


@pytest.mark.slow("tries hundreds of examples for seconds")
@PYGRAPHVIZ
@settings(max_examples=40)
@given(painted(), st.data(), engines)
def test_a_painted_picture_is_whole_and_nothing_in_it_runs_or_moves(
    given: tuple[Flowchart, Standing], data: st.DataObject, engine: Engine
) -> None:
    chart, standing = given
    picture = LivePicture(chart, prefix="own-", engine=engine)
    before, after = element(picture.svg(standing)), picture.svg(data.draw(standings(chart)))
    root = element(after)
    nothing_runs(root)
    names = [part.attrib["id"] for part in root.iter() if "id" in part.attrib]
    assert all(name.startswith("own-") for name in names)
    assert len(names) == len(set(names))
    places = [[dict(part.attrib) for part in moment.iter()] for moment in (before, root)]
    assert places[0] == places[1]
    changes = picture.changes(standing)
    assert set(changes.texts) <= set(names)
    assert not set("<>&\"'\\@/") & set(changes.style)
    for rule in changes.style.split("}")[:-1]:
        selectors, _, declared = rule.partition("{")
        assert re.fullmatch(
            r"translate:0 -2px|[a-z-]+:[#a-z0-9.-]+(;[a-z-]+:[#a-z0-9.-]+)*", declared
        )
        for selector in selectors.split(","):
            assert re.fullmatch(r"#own-[\w-]+[ .a-z]*", selector)
            assert selector[1:].partition(".")[0].partition(" ")[0] in names


@pytest.mark.slow("tries hundreds of examples for seconds")
@PYGRAPHVIZ
@settings(max_examples=25)
@given(painted(), engines)
def test_a_picture_of_one_moment_is_whole_and_nothing_in_it_runs(
    given: tuple[Flowchart, Standing], engine: Engine
) -> None:
    nothing_runs(element(RunPicture(*given, engine=engine).svg()))


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(painted())
def test_an_outline_has_a_line_for_each_box_and_arrow(given: tuple[Flowchart, Standing]) -> None:
    chart, standing = given
    plan = Planner(chart).plan(standing)
    text = Outline(chart).text(plan)
    body = text.rpartition("\n\n")[2] if (one_line(chart.title) or plan.caption) else text
    drawn = [arrow for arrow in chart.arrows if arrow.source in {box.id for box in chart.boxes}]
    rules = sum(box.label.strip("\n").count("\n") for box in chart.boxes if box.role == "rules")
    assert len(body.rstrip("\n").split("\n")) == max(1, len(chart.boxes) + len(drawn) + rules)
    assert body.count("▶ ") >= bool(plan.now)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(painted())
def test_a_plan_says_nothing_of_what_is_not_in_the_chart(given: tuple[Flowchart, Standing]) -> None:
    chart, standing = given
    plan = Planner(chart).plan(standing)
    names = {box.id for box in chart.boxes}
    assert plan.visited <= names
    assert plan.now in names | {""}
    assert set(plan.counts) <= set(range(len(chart.arrows)))
    for place in plan.counts:
        assert chart.arrows[place].id
    assert len(plan.badge) <= 24
    assert len(plan.caption) <= 60


@PYGRAPHVIZ
def test_five_hundred_states_are_drawn_and_painted() -> None:
    names = [f"state_{n}" for n in range(500)]
    boxes = tuple(Box(name, f"{name}\n<b>&amp;") for name in names)
    ahead = (Arrow(a, b, id=f"{a}.next.0") for a, b in pairwise(names))
    back = (
        Arrow(names[n], names[n - 9], "again", id=f"{names[n]}.else") for n in range(9, 500, 10)
    )
    arrows = (*ahead, *back)
    picture = LivePicture(Flowchart("Many", boxes, arrows), engine="pygraphviz", timeout=100)
    taken = {arrow.id: n for n, arrow in enumerate(arrows, start=1)}
    svg = picture.svg(Standing("state_250", dict.fromkeys(names[:250], 3), taken, caption="there"))
    root = element(svg)
    assert sum(1 for part in root.iter() if part.attrib.get("class") == "node") == 500
    assert sum(1 for part in root.iter() if (part.text or "").startswith("×")) == len(arrows)
