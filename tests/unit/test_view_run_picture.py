"""The picture of one moment of a run, in every format."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import cast, get_args
from xml.etree import ElementTree as ET

import pytest

from chartloop import Run, load
from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, RuleLine
from chartloop.pictures.live.colours import TAKEN, badge_ink
from chartloop.pictures.live.progress import Standing
from chartloop.pictures.live.run_picture import Look, RunPicture
from chartloop.testing import ManualClock
from tests.cases.moderating import REFUSED, moderated, upto

DOT = pytest.mark.system("dot", install="apt-get install graphviz")
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"


def moderator() -> Run:
    """The moderator at its wait for a person, 100 seconds into it."""
    clock = ManualClock(1_700_000_000)
    run = upto(moderated(REFUSED, REFUSED, REFUSED, clock=clock), "user_responds")
    clock.set(clock.now() + 100)
    return run


def words(svg: str, id: str) -> str:
    """The texts of a box or an arrow."""
    root = ET.fromstring(svg)  # noqa: S314 - our own
    parts = (e for e in root.iter(f"{SVG}g") if "class" in e.attrib)
    (group,) = (e for e in parts if e.attrib["id"].endswith(id))
    return " ".join(" ".join(t.text or "" for t in group.iter(f"{SVG}text")).split())


@DOT
def test_the_picture_shows_the_place_and_the_path() -> None:
    svg = moderator().draw(look="live").svg()
    assert words(svg, "-node-check_tokens") == "Token Usage ≥ 1,000,000?"
    assert words(svg, "-node-user_responds") == "User Responds? ● NOW"
    assert words(svg, "-edge-check_errors-error_category-0") == "Yes ×1"
    assert words(svg, "-edge-error_category-stop_critical-0") == "CRITICAL"


@DOT
@pytest.mark.parametrize("rules", ["box", "chain", "none"])
def test_rules_are_in_a_box_or_in_a_chain(rules: str) -> None:
    run = load("agent").start("x", script=["Hello."], limits={"steps": 4})
    run.advance()
    run.advance()
    svg = run.draw(look="live", rules=rules).svg()  # pyright: ignore[reportArgumentType]
    if rules == "box":
        assert "run.steps >= limits.steps (4) → stop: steps_limit" in words(svg, "-node-rules_1")
        assert words(svg, "-edge-rules_2-prune-0").startswith(
            "usage.context_ratio >= limits.context"
        )
    elif rules == "chain":
        assert words(svg, "-node-rules_1_1") == "run.steps >= limits.steps (4)"
    else:
        assert "rules_1" not in svg


@DOT
def test_a_run_that_a_rule_stopped_ends_in_its_box() -> None:
    run = load("agent").start("x", script=["Hello."], limits={"steps": 1})
    run.run()
    assert words(run.draw(look="live").svg(), "-node-rules_1").endswith("■ steps_limit")


@DOT
@pytest.mark.parametrize(
    "hostile", ['a & b < c > "d" \\N \\G <TABLE> ]]> </style> שלום 🎉', "]", "[", "]]>", "&amp;"]
)
def test_whatever_a_label_says_is_shown(hostile: str) -> None:
    rule = RuleLine("rules.0", hostile, "stop", hostile)
    chart = Flowchart(
        hostile,
        (
            Box("a", hostile, "diamond", "decision"),
            Box("rules-1", f"after every step\n{hostile}", role="rules", origin="rule"),
        ),
        (Arrow("a", "a", hostile, "a.else"),),
        (rule,),
    )
    standing = Standing("a", {"a": 1}, {"a.else": 2}, caption=hostile)
    svg = RunPicture(chart, standing).svg()
    assert words(svg, "-node-a") == f"{hostile} ● NOW"
    assert words(svg, "-edge-a-a-0") == f"{hostile} ×2"
    assert words(svg, "-node-rules_1") == f"after every step {hostile}"


def test_each_look_as_text() -> None:
    run = load("agent").start("x", script=["Hello."], clock=ManualClock(0))
    run.run()
    plain, live = (run.draw(look=look) for look in get_args(Look))
    assert "✓ completed" not in plain.text()
    assert live.text().startswith("Step-based agent: done at done · 2 steps\n")
    assert "done ✓ completed" in live.text()
    assert "no tool calls ×1" in live.text()
    assert "▶ done  ✓ completed\n" in live.outline()


def test_badge_and_counts_have_their_colours_where_there_is_no_style() -> None:
    dot = moderator().draw(look="live").dot()
    assert f'COLOR="{badge_ink("")}"><B>● NOW</B>' in dot
    assert f'No <FONT COLOR="{TAKEN}"><B>×3</B>' in dot


def test_as_mermaid_it_is_the_chart_with_the_moment_written_into_it() -> None:
    run = load("agent").start("x", script=["Hello."], clock=ManualClock(0))
    run.run()
    chart = read_mermaid(run.draw(look="live").mermaid())
    boxes = {box.id: box for box in chart.boxes}
    assert boxes["done"].label == "done\n✓ completed"
    assert boxes["done"].fill == "#c8e6c9"
    assert boxes["tool_call"].fill == "#fcfdfe"
    labels = {(arrow.source, arrow.target): arrow.label for arrow in chart.arrows}
    assert labels["user_message", "llm_inference"] == "×1"
    assert labels["llm_inference", "done"] == "no tool calls ×1"
    assert labels["llm_inference", "tool_call"] == "tool calls"


def test_the_status_region_has_a_look_too() -> None:
    run = load("agent").start("x", script=["Hello."])
    run.advance()
    assert "▶ Running ● NOW" in run.draw(look="live", region="status").text()


# the pictures of the pages ------------------------------------------------------------------


@DOT
def test_the_picture_of_the_page_is_drawn_from_what_runs() -> None:
    """The same boxes, arrows and words; where they stand is up to a version of Graphviz."""
    drawing = runpy.run_path(str(PICTURES / "draw.py"))
    run = cast(Callable[[], Run], drawing["pictured"])()
    fresh = cast(Callable[[Run], str], drawing["live"])(run)
    committed = (PICTURES / "live.svg").read_text("utf-8")
    assert told(committed) == told(fresh), "draw it again: python docs/pictures/draw.py"


def told(svg: str) -> dict[str, str]:
    """The words of every part that has an id."""
    root = ET.fromstring(svg)  # noqa: S314 - our own
    return {
        group.attrib["id"]: " ".join(" ".join(group.itertext()).split())
        for group in root.iter(f"{SVG}g")
        if group.attrib.get("class") in ("node", "edge")
    }


@DOT
def test_the_moving_picture_of_the_readme_is_a_run_that_was_approved() -> None:
    drawing = runpy.run_path(str(PICTURES / "hero.py"))
    fresh = cast(Callable[[object], str], drawing["draw"])(drawing["moments"]())
    committed = (PICTURES / "hero.svg").read_text("utf-8")
    assert told(committed) == told(fresh), "draw it anew: python docs/pictures/hero.py"
    assert beside(committed) == beside(fresh), "draw it anew: python docs/pictures/hero.py"
    assert "May it call buy_report?" in beside(committed)
    assert beside(committed)[-2] == "Demand for lithium rises by 12 % a year."
    assert len(committed.encode()) < 300_000
    assert (
        re.search(r"<script|<a |href=|url\(|@import|<image", committed) is None
    )  # a forge drops it
    assert "prefers-color-scheme:dark" in committed.replace(" ", "")
    assert "prefers-reduced-motion" in committed


def beside(svg: str) -> list[str]:
    """What stands beside the pictures."""
    root = ET.fromstring(svg)  # noqa: S314 - our own
    return [
        text.text or ""
        for text in root.iter(f"{SVG}text")
        if text.attrib.get("class") in ("did", "new") or text.attrib.get("font-size") == "13"
    ]
