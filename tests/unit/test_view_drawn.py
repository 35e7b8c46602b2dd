"""Pictures in characters, as they look, and one state with what is round it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop import load
from chartloop.pictures.flowchart import Arrow, Box, Flowchart
from chartloop.pictures.picture import Picture
from chartloop.pictures.text.cells import size
from chartloop.pictures.text.draw import MOST, draw
from chartloop.pictures.text.neighborhood import Note, neighbourhood
from tests.following import Reader

LOOP = Flowchart(
    "A loop",
    (
        Box("ask", "Question", entry=True),
        Box("think", "Model thinks"),
        Box("wanted", "Tool calls?", "diamond", "decision"),
        Box("use", "Use the tools"),
        Box("done", "Answer", "pill", "completed"),
        Box("over", "STOP:\nLimit", "rect", "stop"),
    ),
    (
        Arrow("ask", "think"),
        Arrow("think", "wanted"),
        Arrow("think", "think", "retry ≤ 2", kind="retry"),
        Arrow("wanted", "use", "Yes", "y", number=1),
        Arrow("wanted", "over", "spent", "s", number=2),
        Arrow("wanted", "done", "No", "n", number=3),
        Arrow("use", "think"),
    ),
)

DRAWN = """\
A loop

┌───────────────┐
│ ● Question    │
└──┬────────────┘
   ├◀──────────────────────────────────────────────╮
┌──▼────────────┐                                  │
│ Model thinks  ├─ retry ≤ 2 ──────────────────────┤
└──┬────────────┘                                  │
   │                                               │
 ╱─▼───────────╲                ┌───────────────┐  │
<  Tool calls?  >─ 2 · spent ──▶│ ■ STOP: Limit │  │
 ╲─┬───────────╱                └───────────────┘  │
   │                            ╭───────────────╮  │
   ├ 3 · No ───────────────────▶│ ✓ Answer      │  │
   │                            ╰───────────────╯  │
   │ 1 · Yes                                       │
┌──▼────────────┐                                  │
│ Use the tools ├──────────────────────────────────╯
└───────────────┘
"""


def test_a_loop_as_it_looks() -> None:
    drawing = draw(LOOP, width=80)
    assert drawing is not None
    assert drawing.text() == DRAWN
    assert Picture(LOOP).text(80) == DRAWN


def test_where_a_run_is_has_a_heavy_border_and_a_mark() -> None:
    for state, border in (("think", "┏━━▼"), ("wanted", " ╱━▼━")):
        drawing = draw(LOOP, here=state)
        assert drawing is not None
        assert f"{border}━━" in drawing.text()
        area = drawing.areas[state]
        row = "".join(span.text for span in drawing.lines[area.top + 1])
        assert "▶ " in row[area.left : area.right]


def test_a_narrow_terminal_gets_a_narrow_picture_or_the_outline() -> None:
    narrow = draw(LOOP, width=36)
    assert narrow is not None
    assert max(size(line) for line in narrow.text().splitlines()) <= 36
    assert len(list(Reader(narrow).arrows())) == len(LOOP.arrows)
    assert draw(LOOP, width=16) is None
    assert Picture(LOOP).text(16) == Picture(LOOP).outline()


def test_a_chart_nobody_could_follow_is_an_outline() -> None:
    boxes = tuple(Box(f"s{n}", "x") for n in range(MOST + 1))
    large = Picture(Flowchart(boxes=boxes, arrows=(Arrow("s0", "s1"),)))
    assert large.drawing() is None
    assert large.text() == large.outline()


def test_five_hundred_states_are_drawn_where_that_is_asked_for() -> None:
    count = 500
    boxes = tuple(Box(f"s{n}", f"State {n}") for n in range(count))
    ahead = [Arrow(f"s{n}", f"s{n + 1}") for n in range(count - 1)]
    back = [Arrow(f"s{n}", f"s{n // 2}", "again") for n in range(0, count, 25)]
    chart = Flowchart("", boxes, (*ahead, *back))
    drawing = draw(chart, width=200)
    assert drawing is not None
    assert len(list(Reader(drawing).arrows())) == len(chart.arrows)


class Text(NamedTuple):
    """A text, and how many columns it takes."""

    id: str
    text: str
    columns: int


@pytest.mark.parametrize(
    "case",
    [
        Text("ascii", "abc", 3),
        Text("chinese", "状态", 4),
        Text("emoji", "🎉", 2),
        Text("accent", "e\u0301", 1),
        Text("arabic", "مرحبا", 5),
        Text("family", "👨\u200d👩\u200d👧", 2),
        Text("heart", "❤\ufe0f", 2),
        Text("skin", "👍🏽", 2),
        Text("flag", "🇩🇪", 2),
        Text("two-flags", "🇩🇪🇫🇷", 4),
        Text("nothing-to-stand-on", "\u0301a", 2),
        Text("hangul", "각", 2),
    ],
    ids=lambda case: case.id,
)
def test_the_columns_of_a_text(case: Text) -> None:
    assert size(case.text) == case.columns


# one state ----------------------------------------------------------------------------------


def test_a_neighbourhood_as_it_looks() -> None:
    notes = {"y": Note("✗", "0 against 0"), "s": Note("✓", "9 against 9"), "n": Note("·")}
    assert neighbourhood(LOOP, "wanted", width=60, notes=notes).text() == (
        "   ╭── [think]\n"
        " ╱━▼━━━━━━━━━━━━━━━━━━━━━━╲\n"
        "<  ▶ wanted · Tool calls?  >\n"
        " ╲━┯━━━━━━━━━━━━━━━━━━━━━━╱\n"
        "   ├─ ✗ 1 · Yes ───▶ [use]     0 against 0\n"
        "   ├─ ✓ 2 · spent ─▶ [over]    9 against 9\n"
        "   ╰─ · 3 · No ────▶ (done)\n"
    )


def test_many_ways_in_are_counted() -> None:
    chart = load("moderator").draw().chart
    shown = neighbourhood(chart, "monitor").text()
    assert "├── and 2 more\n" in shown
    assert shown.startswith("   ╭── (start)\n")


def test_a_return_says_where_it_leads() -> None:
    chart = load("agent").draw().chart
    shown = neighbourhood(chart, "prune").text()
    assert "return ─▶ where the run was going" in shown
    assert "╭── (before llm_inference)  usage.context_ratio" in shown


def test_an_unknown_state_is_an_error() -> None:
    with pytest.raises(KeyError):
        neighbourhood(LOOP, "nowhere")


def test_a_run_is_drawn_with_where_it_is_and_how_often_it_went_which_way() -> None:
    run = load("executive").start("x", script=["hello"] * 20)
    run.run()
    shown = run.draw(look="live").text(90)
    assert "stopped by a limit at stop_limit: steps_limit · 50 steps" in shown.replace("\n", " ")
    assert "─ No ×1 ───▶┃ ▶ ■ Terminating: Max Turns ┃" in shown
    assert "├ Else ×10 ──" in shown
    assert "▶ stop_limit: Terminating: Max Turns Reached" in run.draw(look="live").text(20)
