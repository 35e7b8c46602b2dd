"""The report picture: in each decision and for each rule what it reads, against its bound."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast, get_args
from xml.etree import ElementTree as ET

import pytest

from chartloop import Run, load
from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, RuleLine
from chartloop.pictures.live.colours import TAKEN, badge_ink
from chartloop.pictures.live.progress import Meter, Standing
from chartloop.pictures.report.cells import AMBER_CELL, EMPTY_CELL, GREEN_CELL, RED_CELL, bar
from chartloop.pictures.report.run_picture import Look, RunPicture
from chartloop.run.progress import meters_of, standing_of
from chartloop.testing import ManualClock
from tests.cases.moderating import REFUSED, moderated, upto

DOT = pytest.mark.system("dot", install="apt-get install graphviz")
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"


class Share(NamedTuple):
    """A share of a bound, and the cells of its bar."""

    share: float
    colour: str
    full: int


@pytest.mark.parametrize(
    "case",
    [
        Share(0.0, GREEN_CELL, 0),
        Share(0.09, GREEN_CELL, 0),
        Share(0.1, GREEN_CELL, 1),
        Share(0.799, GREEN_CELL, 7),
        Share(0.8, AMBER_CELL, 8),
        Share(0.999, AMBER_CELL, 9),
        Share(1.0, RED_CELL, 10),
        Share(25.0, RED_CELL, 10),
        Share(-1.0, GREEN_CELL, 0),
    ],
    ids=lambda case: str(case.share),
)
def test_a_bar_has_ten_cells(case: Share) -> None:
    cells = re.findall(r'BGCOLOR="([^"]+)"', bar(case.share))
    assert cells == [case.colour] * case.full + [EMPTY_CELL] * (10 - case.full)


def moderator() -> Run:
    """The moderator at its wait for a person, 100 seconds into it."""
    clock = ManualClock(1_700_000_000)
    run = upto(moderated(REFUSED, REFUSED, REFUSED, clock=clock), "user_responds")
    clock.set(clock.now() + 100)
    return run


def test_what_decisions_rules_and_waits_read() -> None:
    meters = meters_of(moderator().session)
    assert meters["check_tokens"] == Meter("0 / 1,000,000", 0.0)
    assert meters["check_errors"] == Meter("3 / 3", 1.0)
    assert meters["check_error_rate"].text.endswith(" / 20%")
    assert meters["error_category"] == Meter("RECOVERABLE")
    assert meters["user_responds"].text == "waiting 1 min 40 s of 5 min"
    assert meters["user_responds"].share == pytest.approx(1 / 3)
    assert "check_magnitude" not in meters  # nothing has been improved yet
    assert "check_queue" not in meters  # it asks for no more and no less
    assert meters["improvements_identified"] == Meter("0")
    assert "monitor" not in meters


def test_of_several_bounds_the_nearest_is_shown() -> None:
    machine = load(
        "chartloop: 1\nmachine: m\nlimits: {a: 10, b: 4}\nvars: {x: 3, y: 3}\nstates:\n"
        "  a: {do: nothing, next: q}\n"
        "  q: {ask: Q, when: vars.x >= limits.a or vars.y >= limits.b, then: z, else: a}\n"
        "  z: {stop: completed}\n"
    )
    assert meters_of(machine.start("x").session)["q"] == Meter("3 / 4", 0.75)


def test_a_guard_of_the_callers_own_is_not_asked_for_a_picture() -> None:
    from chartloop import guard  # noqa: PLC0415 - beside the guard that uses it

    @guard
    def enough() -> bool:
        """Whether it is enough."""
        raise AssertionError("a picture asks nobody")

    machine = load(
        "chartloop: 1\nmachine: m\nlimits: {a: 10}\nstates:\n  a: {do: nothing, next: q}\n"
        "  q: {ask: Q, when: enough() or run.steps >= limits.a, then: z, else: a}\n  z: {stop: completed}\n",
        guards=[enough],
    )
    assert meters_of(machine.start("x").session)["q"] == Meter("0 / 10", 0.0)


def words(svg: str, id: str) -> str:
    """The texts of a box or an arrow."""
    root = ET.fromstring(svg)  # noqa: S314 - our own
    parts = (e for e in root.iter(f"{SVG}g") if "class" in e.attrib)
    (group,) = (e for e in parts if e.attrib["id"].endswith(id))
    return " ".join(" ".join(t.text or "" for t in group.iter(f"{SVG}text")).split())


@DOT
def test_the_picture_says_it_where_it_is_decided() -> None:
    svg = moderator().draw(look="report").svg()
    assert words(svg, "-node-check_tokens") == "Token Usage ≥ 1,000,000? 0 / 1,000,000"
    assert words(svg, "-node-user_responds") == "User Responds? ● NOW waiting 1 min 40 s of 5 min"
    assert words(svg, "-edge-check_errors-error_category-0") == "Yes ×1"
    assert words(svg, "-edge-error_category-stop_critical-0") == "CRITICAL"
    assert "times taken" in words(svg, "-chart")


@DOT
@pytest.mark.parametrize("rules", ["box", "chain", "none"])
def test_rules_have_their_values_in_a_box_and_in_a_chain(rules: str) -> None:
    run = load("agent").start("x", script=["Hello."], limits={"steps": 4})
    run.advance()
    run.advance()
    chart = run.machine.draw(rules=rules, facts=run.facts).chart  # pyright: ignore[reportArgumentType]
    svg = RunPicture(chart, standing_of(run.session), meters=meters_of(run.session)).svg()
    if rules == "box":
        assert "run.steps >= limits.steps (4) → stop: steps_limit 1 / 4" in words(
            svg, "-node-rules_1"
        )
        assert words(svg, "-edge-rules_2-prune-0").startswith(
            "usage.context_ratio >= limits.context"
        )
    elif rules == "chain":
        assert words(svg, "-node-rules_1_1") == "run.steps >= limits.steps (4) 1 / 4"
    else:
        assert "rules_1" not in svg


@DOT
def test_a_run_that_a_rule_stopped_ends_in_its_box() -> None:
    run = load("agent").start("x", script=["Hello."], limits={"steps": 1})
    run.run()
    assert words(run.draw(look="report").svg(), "-node-rules_1").endswith("■ steps_limit")


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
            Box("rules-1", "after every step\nx", role="rules", origin="rule"),
        ),
        (Arrow("a", "a", hostile, "a.else"),),
        (rule,),
    )
    standing = Standing("a", {"a": 1}, {"a.else": 2}, caption=hostile)
    meters = {"a": Meter(hostile, 0.5), "rules.0": Meter(hostile, 2.0)}
    svg = RunPicture(chart, standing, meters=meters).svg()
    assert words(svg, "-node-a") == f"{hostile} ● NOW {hostile}"
    assert words(svg, "-edge-a-a-0") == f"{hostile} ×2"
    assert words(svg, "-node-rules_1").count(hostile) == 2 + 1  # guard, reason and value


def test_each_look_as_text() -> None:
    run = load("agent").start("x", script=["Hello."], clock=ManualClock(0))
    run.run()
    plain, live, report = (run.draw(look=look) for look in get_args(Look))
    assert "✓ completed" not in plain.text()
    assert len({plain.text(), live.text(), report.text()}) == 3
    assert live.text().startswith("Step-based agent: done at done · 2 steps\n")
    assert "done ✓ completed" in live.text()
    assert "no tool calls ×1" in live.text()
    assert "▶ done  ✓ completed\n" in live.outline()
    assert "▶ done  ✓ completed\n" in report.outline()


@pytest.mark.parametrize("form", ["text", "outline", "mermaid"])
def test_a_report_in_characters_has_its_values(form: str) -> None:
    run = load("agent").start("x", script=["Hello."], clock=ManualClock(0), limits={"steps": 4})
    run.run()
    live, report = (getattr(run.draw(look=look), form)() for look in ("live", "report"))
    for said in ("· 2 / 4 █████░░░░░", "0.04% / 95% ░░░░░░░░░░"):
        assert said in report
        assert said not in live


def test_a_decision_in_characters_has_its_value() -> None:
    drawn = moderator().draw(look="report").mermaid()
    assert '{"Consecutive<br/>Errors ≥ 3?<br/>3 / 3 · reached ██████████"}' in drawn
    assert '{"Error<br/>Category?<br/>RECOVERABLE"}' in drawn
    chain = load("agent").start("x", script=["Hello."]).draw(look="report", rules="chain")
    assert "<br/>0 / 50 ░░░░░░░░░░" in chain.mermaid()


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
    assert "▶ Running ● NOW" in run.draw(look="report", region="status").text()


# the pictures of the page -------------------------------------------------------------------


@DOT
@pytest.mark.parametrize("name", ["live", "report"])
def test_the_pictures_of_the_page_are_drawn_from_what_runs(name: str) -> None:
    """The same boxes, arrows and words; where they stand is up to a version of Graphviz."""
    drawing = runpy.run_path(str(PICTURES / "draw.py"))
    run = cast(Callable[[], Run], drawing["pictured"])()
    fresh = cast(Callable[[Run], str], drawing[name])(run)
    committed = (PICTURES / f"{name}.svg").read_text("utf-8")
    assert told(committed) == told(fresh), "draw them anew: python docs/pictures/draw.py"


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
