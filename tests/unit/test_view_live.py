"""The live picture: laid out once, painted from what a run counted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest

from chartloop import load
from chartloop.core.errors import ChartloopError, RunError, SetupError
from chartloop.extras import install
from chartloop.pictures.flowchart import Arrow, Box, Flowchart
from chartloop.pictures.live.colours import width
from chartloop.pictures.live.live_picture import LivePicture
from chartloop.pictures.live.plan import Planner, say_times
from chartloop.pictures.live.progress import Standing
from chartloop.pictures.picture import Picture
from chartloop.run.progress import standing_of, status_of

SVG = "{http://www.w3.org/2000/svg}"
PYGRAPHVIZ = pytest.mark.extra(  # noqa: S610 - no Django
    "pygraphviz", install='pip install -e ".[diagrams]"'
)
DOT = pytest.mark.system("dot", install="apt-get install graphviz")
CHART = Flowchart(
    "Two turns",
    (
        Box("a", "A", role="hub"),
        Box("b", "Is b\ngood?", "diamond", "decision"),
        Box("done", "Done"),
    ),
    (
        Arrow("a", "b", id="a.next.0"),
        Arrow("b", "a", "No", id="b.else"),
        Arrow("b", "done", "Yes", id="b.then"),
    ),
)
AT_B = Standing("b", {"a": 2, "b": 2}, {"a.next.0": 2, "b.else": 1}, caption="running at b")
DONE = Standing(
    "done", {"a": 2, "b": 2, "done": 1}, {"a.next.0": 2, "b.else": 1, "b.then": 1},
    how="done", reason="completed", caption="stopped for completed",
)  # fmt: skip


def element(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - our own


def live(chart: Flowchart = CHART, prefix: str | None = "p-") -> LivePicture:
    return LivePicture(chart, prefix=prefix, engine="pygraphviz")


def said(svg: str) -> dict[str, str]:
    """The texts that a moment filled in, by the id of their box or arrow."""
    found = (e for e in element(svg).iter(f"{SVG}tspan") if e.text)
    return {e.attrib["id"].removesuffix("-said"): e.text or "" for e in found}


def style_of(svg: str) -> str:
    (style,) = element(svg).iter(f"{SVG}style")
    return style.text or ""


def rule(style: str, selector: str) -> str:
    """The last declarations for a selector, which are those that count."""
    found = [line for line in style.split("}") if selector in line.partition("{")[0].split(",")]
    return found[-1].partition("{")[2] if found else ""


def positions(svg: str) -> list[tuple[str, ...]]:
    """Where everything stands: all coordinates, in order."""
    names = ("d", "points", "x", "y", "cx", "cy", "rx", "ry", "transform", "viewBox", "width")
    return [tuple(e.attrib.get(n, "") for n in names) for e in element(svg).iter()]


@PYGRAPHVIZ
def test_a_moment_says_where_the_run_is_and_what_it_took() -> None:
    svg = live().svg(AT_B)
    assert said(svg) == {
        "p-chart": "running at b", "p-node-b": "● NOW", "p-edge-a-b-0": "×2", "p-edge-b-a-0": "×1",
    }  # fmt: skip
    style = style_of(svg)
    assert "fill:#fde68a" in rule(style, "#p-node-b.node polygon")
    assert "stroke:#2563eb" in rule(style, "#p-node-a.node polygon")
    assert rule(style, "#p-node-done.node polygon") == ""
    twice, once = rule(style, "#p-edge-a-b-0.edge path"), rule(style, "#p-edge-b-a-0.edge path")
    assert twice != once
    assert rule(style, "#p-edge-b-done-0.edge path") == ""


@PYGRAPHVIZ
def test_nothing_moves_from_moment_to_moment() -> None:
    picture = live()
    assert positions(picture.svg(Standing())) == positions(picture.svg(AT_B))
    assert positions(picture.svg(DONE)) == positions(picture.svg(AT_B))


class End(NamedTuple):
    """How a run ended, what its last box says, and its fill."""

    id: str
    standing: Standing
    badge: str
    fill: str


@PYGRAPHVIZ
@pytest.mark.parametrize(
    "case",
    [
        End("natural", DONE, "✓ completed", "#c8e6c9"),
        End(
            "limit", DONE._replace(how="limited", reason="steps_limit"), "■ steps_limit", "#ffedd5"
        ),
        End(
            "human",
            DONE._replace(how="stopped", reason="user_requested"),
            "□ user_requested",
            "#ede9fe",
        ),
        End("error", DONE._replace(how="failed", reason="guard_error"), "✗ guard_error", "#ffcdd2"),
        End("long", DONE._replace(how="limited", reason="x" * 90), f"■ {'x' * 13}…", "#ffedd5"),
        End("no-reason", DONE._replace(how="failed", reason=""), "✗ error", "#ffcdd2"),
    ],
    ids=lambda case: case.id,
)
def test_the_end_shows_how_the_run_ended(case: End) -> None:
    svg = live().svg(case.standing)
    assert said(svg)["p-node-done"] == case.badge
    assert f"fill:{case.fill}" in rule(style_of(svg), "#p-node-done.node polygon")


@PYGRAPHVIZ
def test_two_pictures_on_one_page_share_no_id_and_no_rule() -> None:
    first, other = live(prefix=None), live(prefix=None)
    ids = [
        {e.attrib["id"] for e in element(picture.svg(AT_B)).iter() if "id" in e.attrib}
        for picture in (first, other)
    ]
    assert not ids[0] & ids[1]
    for picture in (first, other):
        selectors = re.findall(r"([^{}]+)\{[^}]*\}", picture.changes(AT_B).style)
        assert selectors
        for selector in (one for group in selectors for one in group.split(",")):
            assert selector.startswith(f"#{picture.prefix}")


@PYGRAPHVIZ
def test_what_changes_can_be_put_into_a_picture_that_is_on_a_page() -> None:
    picture = live()
    changes = picture.changes(AT_B)
    svg = picture.svg(AT_B)
    assert f'<style id="p-style">{changes.style}</style>' in svg
    assert {name.removesuffix("-said"): text for name, text in changes.texts.items()} == said(svg)


@PYGRAPHVIZ
def test_a_run_of_which_nobody_counted_anything_fades_nothing() -> None:
    style = live().changes(Standing("b")).style
    assert "opacity:0" not in style
    assert "#p-node-b.node" in style


def test_a_run_that_ended_where_nothing_is_drawn_ended_in_the_list_of_rules() -> None:
    machine = load("agent")
    run = machine.start("x", script=["Hello."], limits={"steps": 1})
    run.run()
    plan = Planner(machine.draw().chart).plan(standing_of(run.session))
    assert (run.state, plan.now, plan.badge) == ("end-completed", "rules-1", "■ steps_limit")
    assert plan.caption == "stopped by a limit at user_message: steps_limit · 1 step"


def test_without_its_list_of_rules_the_line_under_the_title_says_it() -> None:
    machine = load("agent")
    run = machine.start("x", script=["Hello."], limits={"steps": 1})
    run.run()
    plan = Planner(machine.draw(rules="none").chart).plan(standing_of(run.session))
    assert (plan.now, plan.caption) == (
        "user_message",
        "stopped by a limit at user_message: steps_limit · 1 step",
    )


def test_the_status_region_shows_the_status() -> None:
    machine = load("agent")
    run = machine.start("x", script=["Hello."])
    run.advance()
    planner = Planner(machine.draw(region="status").chart)
    assert planner.plan(status_of(run.session)).now == "running"
    run.run()
    plan = planner.plan(status_of(run.session))
    assert (plan.now, plan.how, plan.counted) == ("completed", "done", False)


def test_an_edge_that_several_arrows_draw_is_counted_for_none_of_them() -> None:
    boxes = tuple(Box(name, name) for name in "abc")
    arrows = (Arrow("a", "c", id="on_error"), Arrow("b", "c", id="on_error"))
    plan = Planner(Flowchart("", boxes, arrows)).plan(
        Standing("c", {"a": 1, "c": 3}, {"on_error": 3})
    )
    assert plan.counts == {0: 0}


def test_an_arrow_back_is_counted_by_its_edge() -> None:
    boxes = (Box("fix", "Fix"), Box("rules-1", "rules", role="rules", origin="rule"))
    arrow = Arrow("fix", "rules-1", "return", "fix.next.0→think", "return")
    plan = Planner(Flowchart("", boxes, (arrow,))).plan(
        Standing("fix", {"fix": 2}, {"fix.next.0": 2})
    )
    assert plan.counts == {0: 2}


@pytest.mark.parametrize(
    ("times", "text"),
    [
        (0, ""),
        (1, "×1"),
        (9_999, "×9999"),
        (10_000, "×10k"),
        (9_999_999, "×9999k"),
        (10**7, "×10M"),
    ],
)
def test_a_count_fits_into_its_room(times: int, text: str) -> None:
    assert say_times(times) == text


@PYGRAPHVIZ
def test_a_label_like_the_text_of_a_room_stays() -> None:
    chart = Flowchart(
        "o how the run stands in a few words",
        (Box("a", "o NOW\no NOW"), Box("b", "o stopped by a reason")),
        (Arrow("a", "b", "x0000", id="a.next.0"), Arrow("a", "b", "x0000")),
    )
    root = element(live(chart).svg(Standing("a", {"a": 1}, {"a.next.0": 3}, caption="here")))
    texts = [" ".join("".join(e.itertext()).split()) for e in root.iter(f"{SVG}text")]
    assert sorted(text for text in texts if text) == sorted(
        ["o how the run stands in a few words", "here", "o NOW", "o NOW", "● NOW",
         "o stopped by a reason", "x0000 ×3", "x0000"]
    )  # fmt: skip


@DOT
@PYGRAPHVIZ
def test_every_engine_leaves_the_same_rooms() -> None:
    chart = load("agent").draw().chart
    run = load("agent").start("x", script=["Hello."])
    run.run()
    standing = standing_of(run.session)
    texts = [
        said(LivePicture(chart, prefix="p-", engine=engine).svg(standing))
        for engine in ("dot", "pygraphviz")
    ]
    assert texts[0] == texts[1]
    assert texts[0]["p-node-done"] == "✓ completed"


@PYGRAPHVIZ
def test_a_png_is_painted_too() -> None:
    picture = live()
    before, after = picture.png(AT_B), picture.png(DONE)
    assert before.startswith(b"\x89PNG")
    assert before != after


def sitting(svg: str) -> dict[str, float]:
    """How far below the middle of its box the only line of each label stands."""
    found: dict[str, float] = {}
    for node in element(svg).iter(f"{SVG}g"):
        lines = [float(text.attrib["y"]) for text in node.iter(f"{SVG}text")]
        if node.get("class") == "node" and len(lines) == 1:
            shapes = [e for e in node.iter() if e.tag in (f"{SVG}path", f"{SVG}polygon")]
            written = " ".join(e.attrib.get("d", "") + e.attrib.get("points", "") for e in shapes)
            heights = [float(y) for y in re.findall(r",(-?[\d.]+)", written)]
            name = node.attrib["id"].rpartition("-")[2]
            found[name] = round(lines[0] - (min(heights) + max(heights)) / 2, 1)
    return found


@PYGRAPHVIZ
def test_a_picture_that_stays_as_it_is_keeps_no_room(tmp_path: Path) -> None:
    """Labels sit in their boxes as in the plain picture; where the run is there is a badge."""
    picture = live()
    plain, still = sitting(Picture(CHART).svg()), picture.still(AT_B)
    at_rest = sitting(still)
    assert at_rest
    assert max(abs(at_rest[name] - plain[name]) for name in at_rest) < 1
    assert "NOW" in still
    assert "×" in still
    assert "<style" not in still
    saved = picture.save(tmp_path / "a.svg", AT_B).read_text("utf-8")
    assert saved == still
    assert picture.svg(AT_B) != still, "the one that is painted keeps its rooms"


@PYGRAPHVIZ
def test_a_layout_that_failed_is_not_tried_again_at_every_step() -> None:
    picture = LivePicture(CHART, engine="pygraphviz", timeout=0.01)
    errors: list[ChartloopError] = []
    for _ in range(2):
        with pytest.raises(RunError, match="did not lay the chart out") as failed:
            picture.svg(AT_B)
        errors.append(failed.value)
    assert errors[0] is errors[1]


def test_without_graphviz_there_is_an_outline_and_what_to_install() -> None:
    picture = LivePicture(CHART, engine="mermaid")
    lines = picture.text(AT_B).splitlines()
    assert lines[:2] == ["Two turns", "running at b"]
    assert "▶ b: Is b good?  ● NOW" in lines
    assert "      ×2 → b" in lines
    assert lines[-1] == f"For a picture: {install('diagrams')}"
    with pytest.raises(SetupError, match="there is no Graphviz"):
        picture.svg(AT_B)


@pytest.mark.parametrize("most", [1, 20, 200, 201, 10_000, 10**9])
def test_an_arrow_that_is_taken_more_often_is_no_thinner_and_never_wider_than_a_label(
    most: int,
) -> None:
    """A share of the most in pictures of many runs: their logarithms would all be alike."""
    widths = [width(max(1, most * part // 10), most) for part in range(11)]
    assert widths == sorted(widths)
    assert widths[0] >= 1
    assert widths[-1] < 4.5
    if most > 200:
        assert widths[-1] > 2 * widths[1]
