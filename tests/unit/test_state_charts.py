"""State diagrams: what is taken of them, and what is refused at its place."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.core.errors import SpecError
from chartloop.interchange.documents import Read, flowcharts, read
from chartloop.interchange.import_chart import import_chart
from chartloop.interchange.verify import verify
from tests.mermaid import Oracle


class Taken(NamedTuple):
    """A document, and its boxes and arrows in order."""

    id: str
    text: str
    boxes: list[str]
    """`id`, or `id "label"` where they differ; `(id)` is a pill, `{id}` a diamond."""
    arrows: list[str]
    """`source > target: label`."""
    notes: tuple[str, ...] = ()


class Refused(NamedTuple):
    """A document, the line that is refused, and what is said of it."""

    id: str
    text: str
    line: int
    message: str


DIAGRAMS = [
    Taken("one-arrow", "A --> B", ["A", "B"], ["A > B: "]),
    Taken("text", "A --> B: go on", ["A", "B"], ["A > B: go on"]),
    Taken("no-blanks", "A-->B:go", ["A", "B"], ["A > B: go"]),
    Taken(
        "start-and-end", "[*] --> A\nA --> [*]: done",
        ['([*] start "Start")', "A", '([*] end "End")'],
        ["[*] start > A: ", "A > [*] end: done"],
    ),
    Taken("described", "A: Plan it\nA --> B", ['A "Plan it"', "B"], ["A > B: "]),
    Taken("described-twice", "A: Plan\nA: it", ['A "Plan/it"'], []),
    Taken("breaks", "A: Plan<br/>it #quot;x#quot;", ['A "Plan/it "x""'], []),
    Taken("as", 'state "Plan it" as A\nA --> B', ['A "Plan it"', "B"], ["A > B: "]),
    Taken("alone", "A", ["A"], []),
    Taken("declared", "state B\nA --> B", ["B", "A"], ["A > B: "]),
    Taken("choice", "state ok <<choice>>\nA --> ok\nok --> B: yes", ["{ok}", "A", "B"], ["ok > B: yes", "A > ok: "]),
    Taken(
        "inside", "A --> W\nstate W {\n[*] --> X\nX --> Y\n}\nW --> B: stop",
        ["A", "X", "Y", "B"], ["A > X: ", "X > Y: ", "X > B: stop", "Y > B: stop"],
        ("the frame of a state with states inside is left out (line 3)",),
    ),
    Taken(
        "inside-ends", "state W {\n[*] --> X\nX --> [*]: ok\n}\nW --> B",
        ["X", '(W[*] end "W end")', "B"], ["X > W[*] end: ok", "W[*] end > B: "],
        ("the frame of a state with states inside is left out (line 2)",),
    ),
    Taken(
        "inside-inside", 'A --> W\nstate W {\n[*] --> V\nstate "V v" as V {\n[*] --> X\n}\n}\nV --> B: v\nW --> B: w',
        ["A", "X", "B"], ["A > X: ", "X > B: v", "X > B: w"],
        ("the frame of a state with states inside is left out (lines 3, 5)",),
    ),
    Taken(
        "mentioned-before", "A --> X\nstate W {\nX --> Y\nY --> W\n[*] --> Y\n}",
        ["A", "X", "Y"], ["A > X: ", "X > Y: ", "Y > Y: "],
        ("the frame of a state with states inside is left out (line 3)",),
    ),
    Taken("note", "A --> B\nnote right of A: as a text", ["A", "B"], ["A > B: "], ("note on `A`: as a text (line 3)",)),
    Taken(
        "long-note", "A --> B\nnote left of A\n  B --> C\n  more\nend note",
        ["A", "B"], ["A > B: "], ("note on `A`: B --> C more (line 6)",),
    ),
    Taken("comment", "%% no\nA --> B\n  %% no", ["A", "B"], ["A > B: "]),
    Taken(
        "looks", "classDef hot fill:#f00\nA:::hot --> B\nclass A hot\nhide empty description\nstyle A fill:red",
        ["A", "B"], ["A > B: "],
        (
            "`classDef` is left out (line 2)", "a class (`:::`) is left out (line 3)", "`class` is left out (line 4)",
            "`hide empty description` is left out (line 5)", "`style` is left out (line 6)",
        ),
    ),
    Taken("a-note-starts-as-an-id", "notes --> classy", ["notes", "classy"], ["notes > classy: "]),
]  # fmt: skip

WRONG_LINES = [
    Refused("fork", "state f <<fork>>", 2, "a fork is not taken"),
    Refused("join", "A --> B\nstate j [[join]]", 3, "a join is not taken"),
    Refused("history", "state h <<history>>", 2, "this kind of state is not taken"),
    Refused("parallel", "state W {\n[*] --> X\n--\n[*] --> Y\n}", 4, "a state with several parts at once (`--`) is not taken"),
    Refused("click", 'A --> B\nclick A "https://x"', 3, "a click is not taken"),
    Refused("floating-note", 'note "x" as N', 2, "a note that belongs to no state is not taken"),
    Refused("other-arrow", "A ==> B", 2, "`A ==> B` is not a line that is taken"),
    Refused("words", "some words", 2, "`some words` is not a line that is taken"),
    Refused("other-line", "A --> B\nA --> B --> C", 3, "`A --> B --> C` is not a line that is taken"),
    Refused("open-state", "A --> B\nstate W {\nX --> Y", 3, "`W` is never closed"),
    Refused("open-note", "A --> B\nnote right of A\ntext", 3, "the note is never closed"),
    Refused("closed-twice", "A --> B\n}", 3, "`}` closes no state"),
    Refused("nothing-inside", "state W {\n}", 2, "`W` has no states inside"),
    Refused("starts-twice", "state W {\n[*] --> X\n[*] --> Y\n}", 4, "`W` starts twice"),
    Refused("starts-nowhere", "A --> W\nstate W {\nX --> Y\n}", 2, "nothing says where `W` starts"),
    Refused("starts-at-itself", "A --> W\nstate W {\n[*] --> W\nX --> Y\n}", 2, "`W` starts at `W`, which is not inside it"),
    Refused("starts-outside", "A --> V\nstate W {\nX --> Y\nstate V {\n[*] --> W\nZ\n}\n}", 2, "`V` starts at `W`, which is not inside it"),
    Refused("in-two", "state W {\nX --> Y\n}\nstate V {\nZ --> X\n}", 6, "`X` is in `W` and in `V`"),
    Refused("two-directions", "direction UP", 2, "`direction UP` is not a line that is taken"),
]  # fmt: skip


def diagram(text: str) -> Read:
    (found,) = flowcharts(f"stateDiagram-v2\n{text}\n", file="x.mmd")
    return read(found)


def holds(made: Read, case: Taken) -> None:
    """What is read is what the case says, and the machine that is made of it draws it."""
    chart = made.reading.chart
    marks = {"pill": "({})", "diamond": "{{{}}}", "rect": "{}"}
    labels = {box.id: box.label.replace("\n", "/") for box in chart.boxes}
    texts = {name: name if label == name else f'{name} "{label}"' for name, label in labels.items()}
    assert [marks[box.shape].format(texts[box.id]) for box in chart.boxes] == case.boxes
    assert [f"{a.source} > {a.target}: {a.label}" for a in chart.arrows] == case.arrows
    assert tuple(str(note) for note in made.reading.notes) == case.notes
    assert len(made.reading.arrow_lines) == len(case.arrows)
    assert verify(made.found, import_chart(made).machine).holds


@pytest.mark.parametrize("case", DIAGRAMS, ids=lambda case: case.id)
def test_a_line_of_a_state_diagram_is_taken(case: Taken) -> None:
    holds(diagram(case.text), case)


@pytest.mark.slow("starts Mermaid")
@pytest.mark.node("mermaid")
@pytest.mark.parametrize("case", DIAGRAMS, ids=lambda case: case.id)
def test_mermaid_draws_the_same_states(mermaid: Oracle, case: Taken) -> None:
    answer = mermaid.read(f"stateDiagram-v2\n{case.text}\n")
    assert not answer.refused
    ends = ("stateStart", "stateEnd")
    drawn = {name for name, _, shape in answer.nodes if shape not in ends} - answer.groups
    boxes = diagram(case.text).reading.chart.boxes
    assert drawn == {box.id for box in boxes if "[*]" not in box.id}


@pytest.mark.parametrize("case", WRONG_LINES, ids=lambda case: case.id)
def test_any_other_line_of_a_state_diagram_is_refused_at_its_place(case: Refused) -> None:
    with pytest.raises(SpecError) as refused:
        diagram(case.text)
    (finding,) = refused.value.findings
    assert (finding.code, finding.place.line, finding.message) == ("CL420", case.line, case.message)
    assert finding.hint


def test_a_deep_or_wide_document_is_bounded() -> None:
    with pytest.raises(SpecError, match="nested more than 60 deep"):
        diagram("\n".join(f"state S{n} {{" for n in range(100)))
    inner = "\n".join(f"S{n}" for n in range(2_000))
    ways = "\n".join(f"W --> S1 : e{n}" for n in range(2_000))
    with pytest.raises(SpecError, match="more than 20,000 transitions together"):
        diagram(f"state W {{\n{inner}\n}}\n{ways}")


@pytest.mark.parametrize(
    "others",
    [
        "A --> B\nB --> A",
        "Begin --> A",
        "Begin --> A\nEntry --> [*]",
        "state W {\n[*] --> Init\nInit --> [*]\n}\nW --> A",
    ],
)
def test_a_run_starts_where_the_document_says(others: str) -> None:
    for text in (f"{others}\n[*] --> A", f"[*] --> A\n{others}"):
        made = import_chart(diagram(text))
        assert made.machine.spec.start == "start"
