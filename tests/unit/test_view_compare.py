"""Differences between two charts, in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.pictures.compare.difference import differences
from chartloop.pictures.flowchart import Arrow, Box, Flowchart

SOURCES = Path(__file__).parents[1] / "cases" / "sources"


def document(name: str) -> Flowchart:
    return read_mermaid((SOURCES / f"{name}.mmd").read_text(encoding="utf-8"))


def said(a: Flowchart, b: Flowchart) -> list[str]:
    return [str(difference) for difference in differences(a, b)]


def renamed(chart: Flowchart, names: dict[str, str]) -> Flowchart:
    """The same chart under other ids, last box and last arrow first."""
    boxes = tuple(replace(box, id=names[box.id]) for box in reversed(chart.boxes))
    arrows = tuple(
        replace(arrow, source=names[arrow.source], target=names[arrow.target])
        for arrow in reversed(chart.arrows)
    )
    return replace(chart, boxes=boxes, arrows=arrows)


def numbered(chart: Flowchart) -> Flowchart:
    return renamed(chart, {box.id: f"s{at}" for at, box in enumerate(chart.boxes)})


EXECUTIVE = {
    "Start": "start",
    "Init": "init",
    "TurnStart": "turn_start",
    "StopLimit": "stop_limit",
    "ConstructPrompt": "construct_prompt",
    "CallLLM": "call_llm",
    "ParseResp": "parse_response",
    "ExecuteCode": "has_code",
    "RunCode": "run_code",
    "LogicOnly": "logic_only",
    "ExecResult": "succeeded",
    "UpdateState": "update_state",
    "SetDebug": "set_debug",
    "SaveTurn": "save_turn",
    "CheckTerm": "check_termination",
    "StopSuccess": "stop_success",
}


def test_the_declared_deviation_of_the_executive_is_said_in_the_words_of_its_file() -> None:
    drawn = document("seed001_repaired")
    machine = renamed(drawn, EXECUTIVE)
    forgotten = Arrow("set_debug", "save_turn")
    assert said(drawn, replace(machine, arrows=(forgotten, *machine.arrows))) == [
        "edge set_debug → save_turn added"
    ]


@pytest.mark.parametrize("name", sorted(path.stem for path in SOURCES.glob("*.mmd")))
def test_every_document_equals_itself_under_other_ids(name: str) -> None:
    if name == "seed001_verbatim":
        return
    assert said(document(name), numbered(document(name))) == []


def chart(text: str) -> Flowchart:
    return read_mermaid(f"flowchart TD\n{text}")


MONITOR = """
start([Start]) --> monitor[Monitor]
monitor --> check{Tokens?}
check -->|Yes| stop1[STOP]
check -->|No| again{Errors?}
again -->|Yes| stop2[STOP]
again -->|No| monitor
stop1 --> report[Report]
stop2 --> report
"""


def changed(*edits: tuple[str, str]) -> Flowchart:
    text = MONITOR
    for before, after in edits:
        assert text.count(before) == 1
        text = text.replace(before, after)
    return chart(text)


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ([], []),
        ([("stop2 --> report", "")], ["edge stop2 → report removed"]),
        (
            [("again -->|No| monitor", "again -->|No| monitor\nagain -->|No| monitor")],
            ["edge again → monitor added"],
        ),
        (
            [("again -->|No| monitor", "again -->|No| check")],
            ["edge again → monitor removed", "edge again → check added"],
        ),
        (
            [("check -->|Yes|", "check -->|No|"), ("check -->|No| again", "check -->|Yes| again")],
            [
                'label of edge check → stop1: "Yes" became "No"',
                'label of edge check → again: "No" became "Yes"',
            ],
        ),
        ([("{Tokens?}", "{Tokens ≥ 5?}")], ['label of check: "Tokens?" became "Tokens ≥ 5?"']),
        ([("[Monitor]", "{Monitor}")], ["shape of monitor: rect became diamond"]),
        ([("start([Start])", "start([Begin])")], ['label of start: "Start" became "Begin"']),
        (
            [("stop1 --> report[Report]", "stop1 --> note[Say so] --> report[Report]")],
            [
                "node note added",
                "edge stop1 → report removed",
                "edge stop1 → note added",
                "edge note → report added",
            ],
        ),
        (
            [("stop1 --> report[Report]", "stop1 & stop2 --> report[Report]")],
            ["edge stop2 → report added"],
        ),
        ([("{Tokens?}", "{Tokens<br/>?}")], ['label of check: "Tokens?" became "Tokens ?"']),
        ([("[Report]", '["  Report\n"]')], []),
        ([("start([Start])", "start([Start]) & start")], ["edge start → monitor added"]),
        (
            [("start([Start]) --> monitor[Monitor]", "monitor[Monitor]")],
            ["node start removed", "edge start → monitor removed"],
        ),
    ],
    ids=lambda value: None if isinstance(value, list) else str(value),
)
def test_each_change_is_said_and_nothing_else(
    edits: list[tuple[str, str]], words: list[str]
) -> None:
    assert said(chart(MONITOR), changed(*edits)) == words


def test_of_two_boxes_with_one_label_the_right_one_is_found_by_its_place() -> None:
    drawn = document("seed003_verbatim")
    machine = numbered(drawn)
    place = {box.id: f"s{at}" for at, box in enumerate(drawn.boxes)}
    twice = [box.id for box in drawn.boxes if "Diminishing" in box.label]
    assert len(twice) == 2
    for name in twice:
        arrows = tuple(arrow for arrow in machine.arrows if arrow.source != place[name])
        assert said(drawn, replace(machine, arrows=arrows)) == [
            f"edge {place[name]} → {place['GenerateReport']} removed"
        ]


def test_fills_are_compared_where_the_first_chart_gives_any() -> None:
    plain = chart("a[A] --> b[B]")
    filled = chart("a[A] --> b[B]\nstyle a fill:#E1F5FF")
    assert said(plain, filled) == []
    assert said(filled, plain) == ["fill of a: #e1f5ff became none"]
    assert said(filled, chart("x[A] --> y[B]\nstyle x fill:#e1f5ff\nstyle y fill:red")) == [
        "fill of y: none became red"
    ]


def test_what_a_document_does_not_draw_is_no_difference() -> None:
    a = Flowchart(boxes=(Box("a", "A"),), arrows=(Arrow("a", "a", "x"),))
    b = Flowchart(
        title="T",
        boxes=(Box("a", "A", role="hub", entry=True, origin="engine", about="text"),),
        arrows=(Arrow("a", "a", "x", "a.next.0", "retry", 3),),
    )
    assert differences(a, b) == ()


def test_parallel_arrows_are_counted() -> None:
    two, one = chart("a --> b\na --> b"), chart("a --> b")
    assert said(two, one) == ["edge a → b removed"]
    assert said(one, two) == ["edge a → b added"]


def test_against_nothing_everything_is_said() -> None:
    assert said(Flowchart(), chart("a[A] --> b[B]")) == [
        "node a added",
        "node b added",
        "edge a → b added",
    ]
    assert said(chart("a[A] --> b[B]"), Flowchart()) == [
        "node a removed",
        "node b removed",
        "edge a → b removed",
    ]
    assert said(Flowchart(), Flowchart()) == []


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("boxes", "step"), [(200, 1), (60, 7), (40, 3)], ids=["ring", "rings", "braid"]
)
def test_charts_in_which_all_boxes_look_alike_are_compared_in_time(boxes: int, step: int) -> None:
    ring = Flowchart(
        boxes=tuple(Box(f"s{n}", "x") for n in range(boxes)),
        arrows=tuple(
            Arrow(f"s{n}", f"s{(n + ahead) % boxes}") for n in range(boxes) for ahead in (1, step)
        ),
    )
    turned = renamed(ring, {f"s{n}": f"t{(n * 7 + 3) % boxes}" for n in range(boxes)})
    assert len({box.id for box in turned.boxes}) == boxes
    assert differences(ring, turned) == ()
    assert len(differences(ring, replace(turned, arrows=turned.arrows[1:]))) == 1


def test_boxes_that_nothing_tells_apart_are_not_tried_one_after_the_other() -> None:
    boxes = tuple(Box(f"s{n}", "x") for n in range(30))
    arrows = (Arrow("s3", "s5"), Arrow("s8", "s7"), Arrow("s7", "s9"), Arrow("s1", "s1"))
    before = Flowchart(boxes=boxes, arrows=(*arrows, Arrow("s5", "s4")))
    after = Flowchart(boxes=boxes[::-1], arrows=(*arrows, Arrow("s5", "s8")))
    assert len(differences(before, after)) == 2
