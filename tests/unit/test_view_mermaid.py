"""The Mermaid text that charts are written as."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.pictures.flowchart import Arrow, Box, Direction, Flowchart
from chartloop.pictures.ids import safe_ids
from chartloop.pictures.mermaid import WIDE, escape, to_mermaid


def test_a_chart_is_written_box_by_box_arrow_by_arrow() -> None:
    chart = Flowchart(
        title='The "chart"',
        boxes=(
            Box("start", "Task Execution\nIn Progress", "pill", "start", "#e1f5ff"),
            Box("check", "Tokens\n≥ 1,000,000?", "diamond", "decision"),
            Box("work", "Work", entry=True),
            Box("end", "STOP:\nToken Limit", "rect", "stop", "#ffcdd2"),
            Box("rules-1", "after every step", role="rules", origin="rule"),
        ),
        arrows=(
            Arrow("start", "check"),
            Arrow("check", "end", "Yes"),
            Arrow("check", "work", "No", number=2),
            Arrow("rules-1", "end", "run.steps >= 3", kind="rule"),
        ),
    )
    assert to_mermaid(chart) == (
        "flowchart TD\n"
        "    accTitle: The #quot;chart#quot;\n"
        "    accDescr: Flowchart of 5 boxes and 4 arrows. "
        "Starts at: Task Execution In Progress; Work. Ends at: STOP: Token Limit.\n"
        '    start(["Task Execution<br/>In Progress"])\n'
        '    check{"Tokens<br/>≥ 1,000,000?"}\n'
        '    work["Work"]\n'
        '    end_1["STOP:<br/>Token Limit"]\n'
        '    rules_1["after every step"]\n'
        "    start --> check\n"
        '    check -->|"Yes"| end_1\n'
        '    check -->|"2 · No"| work\n'
        '    rules_1 -.->|"run.steps >= 3"| end_1\n'
        "    style start fill:#e1f5ff\n"
        "    style work stroke-width:3px\n"
        "    style end_1 fill:#ffcdd2\n"
        "    style rules_1 stroke-dasharray:5 4\n"
    )


@pytest.mark.parametrize(
    ("direction", "written"), [("tb", "TD"), ("lr", "LR"), ("bt", "BT"), ("rl", "RL")]
)
def test_a_direction_is_written_and_read_back(direction: Direction, written: str) -> None:
    chart = Flowchart(boxes=(Box("a", "A"),), direction=direction)
    text = to_mermaid(chart)
    assert text.startswith(f"flowchart {written}\n")
    assert read_mermaid(text).direction == direction


def test_lists_of_rules_get_room_for_their_lines() -> None:
    """Else Mermaid breaks them at 200 pixels, into a column of words."""
    rules = Box("rules-1", "after every step\nrun.steps >= 3 → stop", role="rules", origin="rule")
    text = to_mermaid(Flowchart(boxes=(rules,), direction="lr"))
    assert text.splitlines()[:2] == [WIDE, "flowchart LR"]
    assert [box.label for box in read_mermaid(text).boxes] == [rules.label]


def test_an_empty_chart() -> None:
    assert to_mermaid(Flowchart()) == "flowchart TD\n"


def test_a_fill_that_is_no_colour_is_not_written() -> None:
    chart = Flowchart(boxes=(Box("a", "a", fill="red;click a call x()"), Box("b", "b", fill="Red")))
    assert [line for line in to_mermaid(chart).splitlines() if "style" in line] == [
        "    style b fill:red"
    ]


class Label(NamedTuple):
    id: str
    label: str
    written: str


# Each was given to Mermaid 10.9, 11.17 or 12.3, which drew another text, or nothing, without the code.
LABELS = [
    Label("plain", "STOP:\nToken Limit", "STOP:<br/>Token Limit"),
    Label("quotes", 'say "x"', "say #quot;x#quot;"),
    Label("code", "#35;", "#35;35;"),
    Label("entity", "a &lt; b", "a #amp;lt; b"),
    Label("tag", "<b>x</b>", "#lt;b>x#lt;/b>"),
    Label("markdown", "`**x**`", "#96;**x**#96;"),
    Label("written-break", r"a\nb", "a#92;nb"),
    Label("directive", "%%{init: {}}%%", "#37;#37;{init: {}}#37;#37;"),
    Label("percent", "95%", "95%"),
    Label("formula", "$$x$$", "#36;#36;x#36;#36;"),
    Label("price", "$5", "$5"),
    Label("icon", "fa:fa-bell", "fa#58;fa-bell"),
    Label("another-chart", "C4Container", "#67;4Container"),
    Label("direction", "direction TB", "#100;irection TB"),
    Label("like-a-style", "style x:#fff;", "style x#58;#35;fff;"),
    Label("own-marks", "ﬂ°°35¶ß", "#64258;°°35#182;ß"),
    Label("empty", "", "#160;"),
    Label("blank", " \n ", "#160;"),
    Label("control", "a\x1b[31mb\x00", "a\ufffd[31mb\ufffd"),
    Label("half-a-pair", "a\ud800", "a\ufffd"),
    Label("turned-round", "a\u202eb", "a\ufffdb"),
    Label("breaks", "a\r\nb\rc\u2028d", "a<br/>b<br/>c<br/>d"),
]  # fmt: skip


@pytest.mark.parametrize("case", LABELS, ids=lambda case: case.id)
def test_labels_say_what_the_chart_says(case: Label) -> None:
    assert escape(case.label) == case.written


def test_a_label_that_looks_numbered_is_not_read_as_a_number() -> None:
    chart = Flowchart(
        boxes=(Box("a", "a"),), arrows=(Arrow("a", "a", "2 · x"), Arrow("a", "a", number=2))
    )
    assert to_mermaid(chart).splitlines()[2:] == [
        '    a -->|"#50; · x"| a',
        '    a -->|"2 ·"| a',
    ]


@pytest.mark.parametrize(
    "name", ["end", "graph", "subgraph", "class", "call", "style", "default", "direction", "v", "o"]
)
def test_keywords_are_never_ids(name: str) -> None:
    assert safe_ids([name]) == {name: f"{name}_1"}


def test_ids_are_unique_and_those_that_may_stay_do() -> None:
    names = ["a-b", "a_b", "a.b", "end", "end_1", "", "é", "x y", "a" * 90]
    ids = safe_ids(names)
    assert ids["a_b"] == "a_b"
    assert ids["end_1"] == "end_1"
    assert len(set(ids.values())) == len(names)
