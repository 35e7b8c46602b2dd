"""Mermaid text becomes a chart, or an error that says where and how to mend it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop.core.errors import SpecError
from chartloop.interchange.mermaid.read import read_flowchart, read_mermaid
from chartloop.pictures.flowchart import Flowchart, Role, Shape

SOURCES = Path(__file__).parents[1] / "cases" / "sources"


class Document(NamedTuple):
    id: str
    boxes: int
    arrows: int
    roles: dict[Role, int]


DOCUMENTS = [
    Document("seed000_execution_flow", 8, 7, {"start": 1, "end": 1, "action": 6}),
    Document(
        "seed000_executor_loop",
        28,
        39,
        {"start": 1, "end": 1, "action": 7, "decision": 12, "stop": 6, "completed": 1},
    ),
    Document("seed001_repaired", 16, 18, {"start": 1, "end": 2, "action": 9, "decision": 4}),
    Document(
        "seed002_should_stop",
        8,
        8,
        {"start": 1, "hub": 1, "decision": 3, "action": 1, "stop": 1, "completed": 1},
    ),
    Document(
        "seed003_verbatim",
        45,
        66,
        {"start": 1, "end": 1, "hub": 1, "stop": 11, "completed": 1, "decision": 18, "action": 12},
    ),
    Document(
        "seed004_execution_flow",
        10,
        11,
        {"start": 1, "completed": 1, "stop": 1, "decision": 3, "action": 4},
    ),
    Document(
        "seed004_step_determination",
        6,
        7,
        {"decision": 2, "action": 2, "stop": 1, "completed": 1},
    ),
]


def roles_of(chart: Flowchart) -> dict[Role, int]:
    return dict(Counter(box.role for box in chart.boxes))


@pytest.mark.parametrize("case", DOCUMENTS, ids=lambda case: case.id)
def test_the_charts_of_the_documents_are_read_whole(case: Document) -> None:
    chart = read_mermaid((SOURCES / f"{case.id}.mmd").read_text(encoding="utf-8"))
    assert (len(chart.boxes), len(chart.arrows)) == (case.boxes, case.arrows)
    assert roles_of(chart) == case.roles


def test_one_document_forgot_the_quotes_of_a_label_and_is_refused_where_mermaid_refuses_it() -> (
    None
):
    text = (SOURCES / "seed001_verbatim.mmd").read_text(encoding="utf-8")
    with pytest.raises(SpecError) as refused:
        read_mermaid(text, file="seed001_verbatim.mmd")
    (found,) = refused.value.findings
    assert str(found.place) == "seed001_verbatim.mmd:8:42"
    assert found.place.text[found.place.column - 1] == "("
    assert "`(` needs quotes in a label" in found.message
    assert '`["Call LLM (Gemini)"]`' in found.hint


class Form(NamedTuple):
    id: str
    text: str
    boxes: list[tuple[str, str, Shape]]
    arrows: list[tuple[str, str, str]]


AB: list[tuple[str, str, Shape]] = [("A", "A", "rect"), ("B", "B", "rect")]
ABC: list[tuple[str, str, Shape]] = [*AB, ("C", "C", "rect")]

FORMS = [
    Form("rect", "A[a label]", [("A", "a label", "rect")], []),
    Form("round", "A(a label)", [("A", "a label", "round")], []),
    Form("pill", "A([a label])", [("A", "a label", "pill")], []),
    Form("diamond", "A{a label}", [("A", "a label", "diamond")], []),
    Form("circle", "A((a label))", [("A", "a label", "circle")], []),
    Form("subroutine", "A[[a label]]", [("A", "a label", "subroutine")], []),
    Form("hexagon", "A{{a label}}", [("A", "a label", "hexagon")], []),
    Form("flag", "A>a label]", [("A", "a label", "flag")], []),
    Form("quoted", 'A{"a (b) [c] {d} | e"}', [("A", "a (b) [c] {d} | e", "diamond")], []),
    Form("quoted-over-lines", 'A["a\n  b"]', [("A", "a\nb", "rect")], []),
    Form("markdown-string", 'A["`a **b**`"]', [("A", "a **b**", "rect")], []),
    Form("break-tags", "A[a<br/>b<br>c<BR />d]", [("A", "a\nb\nc\nd", "rect")], []),
    Form("written-break", r"A[a\nb]", [("A", "a\nb", "rect")], []),
    Form("less-than", "A{Magnitude<br/>< 10%?}", [("A", "Magnitude\n< 10%?", "diamond")], []),
    Form("codes", 'A["#quot;#35;#lt;b&gt;#9829;"]', [("A", '"#<b>♥', "rect")], []),
    Form("a-code-is-read-once", 'A["#amp;lt;"]', [("A", "&lt;", "rect")], []),
    Form("bare-box", "A", [("A", "A", "rect")], []),
    Form("later-label-counts", "A --> B\nA{x}", [("A", "x", "diamond"), AB[1]], [("A", "B", "")]),
    Form("id-with-signs", "a-b.c/d --> é1", [("a-b.c/d", "a-b.c/d", "rect"), ("é1", "é1", "rect")], [("a-b.c/d", "é1", "")]),
    Form("arrow", "A --> B", AB, [("A", "B", "")]),
    Form("arrow-without-spaces", "A-->B", AB, [("A", "B", "")]),
    Form("long-arrow", "A ----> B", AB, [("A", "B", "")]),
    Form("dotted", "A -.-> B", AB, [("A", "B", "")]),
    Form("thick", "A ==> B", AB, [("A", "B", "")]),
    Form("label-in-pipes", "A -->|Yes, Fix| B", AB, [("A", "B", "Yes, Fix")]),
    Form("quoted-label-in-pipes", 'A -->|"a | b"| B', AB, [("A", "B", "a | b")]),
    Form("pipes-with-spaces", "A --> |x| B", AB, [("A", "B", "x")]),
    Form("label-in-the-arrow", "A -- a - b --> B", AB, [("A", "B", "a - b")]),
    Form("quoted-label-in-the-arrow", 'A -- "x --> y" --> B', AB, [("A", "B", "x --> y")]),
    Form("label-in-a-dotted-arrow", "A -. x .-> B", AB, [("A", "B", "x")]),
    Form("label-in-a-thick-arrow", "A == x ==> B", AB, [("A", "B", "x")]),
    Form("number-of-trial-is-no-label", 'A -->|"2 · x"| B', AB, [("A", "B", "x")]),
    Form("chain", "A --> B -->|x| C", ABC, [("A", "B", ""), ("B", "C", "x")]),
    Form("fan-out", "A --> B & C", ABC, [("A", "B", ""), ("A", "C", "")]),
    Form("fan-in", "A & B --> C", ABC, [("A", "C", ""), ("B", "C", "")]),
    Form("parallel", "A -->|x| B\nA -->|x| B", AB, [("A", "B", "x"), ("A", "B", "x")]),
    Form("loop", "A --> A", AB[:1], [("A", "A", "")]),
    Form("arrow-on-the-next-line", "A\n  --> B", AB, [("A", "B", "")]),
    Form("box-on-the-next-line", "A -->\n  B", AB, [("A", "B", "")]),
    Form("semicolons", "A;B;A-->B;", AB, [("A", "B", "")]),
    Form("windows-lines", "A\r\nB\r\n", AB, []),
    Form("comments", "%% A --> X\nA\n  %% more\nB", AB, []),
    Form("directive", "%%{init: {\n'theme': 'dark'}}%%\nA --> B", AB, [("A", "B", "")]),
    Form("class-in-the-box", "A:::hot --> B", AB, [("A", "B", "")]),
    Form("what-is-not-kept", 'A --> B\nlinkStyle 0 stroke:red\nclick A "http://x;y"', AB, [("A", "B", "")]),
    Form("descriptions", "accDescr: a; b\naccDescr {\n A --> X\n}\nA\nB", AB, []),
]  # fmt: skip


@pytest.mark.parametrize("case", FORMS, ids=lambda case: case.id)
def test_every_form_is_read(case: Form) -> None:
    chart = read_mermaid(f"flowchart TD\n{case.text}\n")
    assert [(box.id, box.label, box.shape) for box in chart.boxes] == case.boxes
    assert [(arrow.source, arrow.target, arrow.label) for arrow in chart.arrows] == case.arrows


@pytest.mark.parametrize(
    "first",
    ["flowchart TD\n", "graph LR\n", "flowchart\n", "graph TB;", "\n\n%% note\n  graph TD\n"],
)
def test_every_first_line_is_read(first: str) -> None:
    assert [box.id for box in read_mermaid(f"{first}A-->B").boxes] == ["A", "B"]


def test_the_number_of_trial_is_kept() -> None:
    chart = read_mermaid('flowchart TD\nA -->|"12 · x"| B\nA -->|"3 ·"| B\nA -->|"12 x"| B')
    assert [arrow.number for arrow in chart.arrows] == [12, 3, None]
    assert [arrow.drawn_text for arrow in chart.arrows] == ["12 · x", "3 ·", "12 x"]


@pytest.mark.parametrize(
    ("text", "fill"),
    [
        ("style A fill:#FFCDD2,stroke:#333", "#ffcdd2"),
        ("style A stroke:#333, fill: pink", "pink"),
        ("style A fill:#abc;", "#abc"),
        ("style A stroke:#333", None),
        ("style A fill:not-a-colour1", None),
        ("classDef hot fill:#c8e6c9\nclass A hot", "#c8e6c9"),
        ("classDef hot,cold fill:#c8e6c9\nA:::cold", "#c8e6c9"),
        ("class B hot\nclassDef hot fill:#c8e6c9", None),
        ("classDef hot fill:red\nclass A hot\nstyle A fill:blue", "blue"),
    ],
)
def test_fills(text: str, fill: str | None) -> None:
    (box,) = read_mermaid(f"flowchart TD\nA\n{text}\n").boxes
    assert box.fill == fill


def test_a_style_alone_makes_a_box_and_a_class_does_not() -> None:
    chart = read_mermaid("flowchart TD\nstyle A fill:red\nclass B hot")
    assert [box.id for box in chart.boxes] == ["A"]


@pytest.mark.parametrize(
    "text",
    ["---\ntitle: The chart\n---\nflowchart TD\nA", "flowchart TD\naccTitle: The chart\nA"],
)
def test_the_title(text: str) -> None:
    assert read_mermaid(text).title == "The chart"


class Loss(NamedTuple):
    """Something that a chart of states has no room for, and the chart that is left."""

    id: str
    text: str
    notes: list[str]
    boxes: list[str]
    arrows: list[tuple[str, str]]


FRAME = "the frame of a group is left out, its boxes stay (line 2)"
LOSSES = [
    Loss("nothing", "A --> B", [], ["A", "B"], [("A", "B")]),
    Loss("no-head", "A --- B", ["a link without a head becomes an arrow (line 2)"], ["A", "B"], [("A", "B")]),
    Loss("two-heads", "A <-->|x| B", ["a link with points at both ends becomes two arrows (line 2)"], ["A", "B"], [("A", "B"), ("B", "A")]),
    Loss("cross-and-circle", "A --x B\nB o--o A", ["a link with a cross or a circle becomes an arrow (lines 2, 3)"], ["A", "B"], [("A", "B"), ("B", "A")]),
    Loss("halves", "A x-- t --o B", ["a link whose halves do not fit becomes an arrow (line 2)"], ["A", "B"], [("A", "B")]),
    Loss("thick-and-dotted", "A ==> B -.-> C", ["a thick link becomes a plain arrow (line 2)", "a dotted link becomes a plain arrow (line 2)"], ["A", "B", "C"], [("A", "B"), ("B", "C")]),
    Loss("invisible", "A ~~~ B", ["an invisible link only places boxes, and is left out (line 2)"], ["A", "B"], []),
    Loss("swallowed", "A -- No--> B", ["the `o` before an arrow is read as a part of the arrow (line 2)"], ["A", "B"], [("A", "B")]),
    Loss("group", "subgraph g\nA\nend", ["the frame of a group is left out, its boxes stay (line 2)"], ["A"], []),
    Loss("arrow-from-a-group", "subgraph g [T]\nA\nend\ng --> B", ["an arrow from the group `g` comes from where it ends: `A` (line 5)", FRAME], ["A", "B"], [("A", "B")]),
    Loss("arrow-to-a-group", "B --> g\nsubgraph g [T]\nA --> C\nend", ["an arrow to the group `g` leads to where it starts: `A` (line 2)", FRAME.replace("2", "3")], ["B", "A", "C"], [("B", "A"), ("A", "C")]),
    Loss("arrow-to-an-empty-group", "B --> g\nsubgraph g [T]\nend", ["the group `g` is empty and has arrows: it becomes a box (line 3)", FRAME.replace("2", "3")], ["B", "T"], [("B", "g")]),
    Loss("styled-group", "subgraph g\nA\nend\nstyle g fill:red", ["the frame of a group is left out, its boxes stay (line 2)"], ["A"], []),
    Loss("collapsed-group", "subgraph g\nA\nend\ng@{ view: collapsed }", ["the frame of a group is left out, its boxes stay (line 2)", "a collapsed group is drawn open"], ["A"], []),
    Loss("icon", 'A@{ icon: "x", label: "L" }', ["`A` shows a picture, which is left out (line 2)"], ["L"], []),
    Loss("picture-without-a-label", 'A@{ img: "u" }', ["`A` shows a picture, which is left out (line 2)"], [""], []),
    Loss("undocumented-shape", "A@{ shape: note }", ["the shape `note` of another kind of chart becomes a box (line 2)"], ["A"], []),
    Loss("tags", "A[<b>x</b>]", ["tags in a label are left out, but for breaks (line 2)"], ["x"], []),
    Loss("markdown", 'A["`**x**`"]', ["Markdown in a label stays as it is written (line 2)"], ["**x**"], []),
    Loss("styles", "A\nstyle A fill:red,stroke:blue", ["of styles only the fill is kept"], ["A"], []),
    Loss("click", "A\nclick A call f()", ["clicks are left out"], ["A"], []),
    Loss("link-style", "A --> B\nlinkStyle 0 stroke:red", ["styles of links are left out"], ["A", "B"], [("A", "B")]),
    Loss("description", "A\naccDescr: x", ["the description is left out"], ["A"], []),
    Loss("an-id-of-a-link", "A e1@--> B\ne1 --> C", [], ["A", "B", "C", "e1"], [("A", "B"), ("e1", "C")]),
]  # fmt: skip


@pytest.mark.parametrize("case", LOSSES, ids=lambda case: case.id)
def test_what_is_not_kept_is_noted(case: Loss) -> None:
    reading = read_flowchart(f"flowchart TD\n{case.text}\n")
    assert [str(note) for note in reading.notes] == case.notes
    assert [box.label for box in reading.chart.boxes] == case.boxes
    assert [(a.source, a.target) for a in reading.chart.arrows] == case.arrows


def test_what_the_head_sets_is_noted_too() -> None:
    text = "---\ntitle: T\nconfig: {theme: dark}\n---\nflowchart BR\nA" + "\nA --> A" * 501
    assert [str(note) for note in read_flowchart(text).notes] == [
        "the direction `BR` is left out: the chart goes down",
        "of the front matter only the title is kept",
        "Mermaid draws more than 500 arrows only where `maxEdges` is raised",
    ]


def test_many_lines_are_counted() -> None:
    (note,) = read_flowchart("flowchart TD\n" + "A --- B\n" * 9).notes
    assert str(note).endswith("(lines 2, 3, 4, 5, 6 and 4 more)")


class Refusal(NamedTuple):
    id: str
    text: str
    at: tuple[int, int]
    says: str


REFUSALS = [
    Refusal("nothing", "", (1, 1), "not a Mermaid flowchart"),
    Refusal("another-diagram", "sequenceDiagram\nA->>B: x", (1, 1), "not a Mermaid flowchart"),
    Refusal("direction", "flowchart XY\nA", (1, 11), "direction"),
    Refusal("sign-in-a-label", "flowchart TD\n  A[f(x)]", (2, 6), "`(` needs quotes in a label"),
    Refusal("quote-in-a-label", 'flowchart TD\nA[say "x"]', (2, 7), '`"` needs quotes in a label'),
    Refusal("open-quote", 'flowchart TD\nA["x', (2, 3), "never closed"),
    Refusal("open-label", "flowchart TD\nA[x", (2, 2), "never closed"),
    Refusal("wrong-bracket", "flowchart TD\nA([x]", (2, 5), "`]` needs quotes in a label"),
    Refusal("empty-label", 'flowchart TD\nA[""]', (2, 5), "empty"),
    Refusal("label-without-a-box", "flowchart TD\n[x]", (2, 1), "where the id of a box belongs"),
    Refusal("keyword", "flowchart TD\nA --> end", (2, 7), "`end` is a keyword"),
    Refusal("arrow-to-nothing", "flowchart TD\nA -->", (2, 6), "the end of the text"),
    Refusal("text-without-an-end", "flowchart TD\nA -- x\nB", (2, 3), "never ends"),
    Refusal("text-in-a-dotted-arrow", "flowchart TD\nA -. v1.2 .-> B", (2, 8), "cannot read"),
    Refusal("two-statements", "flowchart TD\nA B", (2, 3), "where the statement should end"),
    Refusal("comment-behind", "flowchart TD\nA --> B %% x", (2, 9), "where the statement should end"),
    Refusal("no-such-shape", "flowchart TD\nA@{shape: x}", (2, 2), "no shape `x`"),
    Refusal("no-such-shape-but-nearly", "flowchart TD\nA@{shape: diamnd}", (2, 2), "no shape `diamnd`"),
    Refusal("no-yaml", "flowchart TD\nA@{shape: [}", (2, 2), "is not YAML"),
    Refusal("no-such-link", "flowchart TD\nA --> B\nlinkStyle 1 stroke:red", (3, 1), "no link 1"),
    Refusal("group-without-a-name", "flowchart TD\nsubgraph\nA\nend", (4, 1), "without a name"),
    Refusal("group-without-an-end", "flowchart TD\nsubgraph x\nA", (3, 2), "where `end` belongs"),
    Refusal("end-without-a-group", "flowchart TD\nA\nend", (3, 1), "closes no subgraph"),
    Refusal("front-matter", "---\ntitle: [\n---\nflowchart TD\nA", (2, 9), "not YAML"),
    Refusal("another-kind-of-chart", "flowchart TD\nA[C4Container]", (2, 3), "another kind of chart"),
    Refusal("code-outside", "flowchart TD\n#35; --> B", (2, 1), "`#` is not allowed outside"),
    Refusal("behind-a-comment", "%% x\nflowchart TD\n%% y\nA -->", (4, 6), "the id of a box"),
    Refusal("behind-windows-lines", "flowchart TD\r\nA\r\nA -->\r\n", (3, 6), "the id of a box"),
    Refusal("style-of-nothing", "flowchart TD\nstyle", (2, 6), "the id of a box belongs"),
    Refusal("class-without-a-name", "flowchart TD\nA:::", (2, 5), "the name of a class"),
    Refusal("open-directive", "%%{init: {}\nflowchart TD", (1, 1), "never closed"),
    Refusal("too-large", "x" * 1_000_001, (1, 1), "larger than 1 MB"),
    Refusal(
        "too-many-arrows",
        f"flowchart TD\nA{' & A' * 200} --> B{' & B' * 200}",
        (2, 1608),
        "more than 20,000 arrows",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.id)
def test_what_cannot_be_read_is_refused_at_its_place(case: Refusal) -> None:
    with pytest.raises(SpecError) as refused:
        read_mermaid(case.text)
    (found,) = refused.value.findings
    assert found.code == "CL412"
    assert case.says in found.message
    assert (found.place.line, found.place.column) == case.at


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize(
    "text",
    [
        "%%{\n" * 250_000,
        "flowchart TD\nA -. " + "." * 900_000,
        "flowchart TD\nA -- " + "-" * 900_000,
        "flowchart TD\nA" + " -- t --> B" * 80_000,
        "flowchart TD\n" + "accDescr {\n}" * 60_000 + "[",
        "flowchart TD\nA" + " & A" * 200_000 + " --> B",
        "flowchart TD\nA" + " " * 900_000 + "B",
        'flowchart TD\nA["' + "<br " * 200_000 + '"',
        "---\n" + "a\n" * 400_000,
        "flowchart TD\n" + "subgraph a\n" * 80_000,
        "flowchart TD\n" + "\n " * 450_000 + "[",
        "flowchart TD\n" + "1,:" * 300_000 + "[",
        "flowchart TD\n" + "1,:" * 300_000 + "[\ndirection TB",
        "flowchart TD\nA(- " + "~~ " * 300_000,
        "flowchart TD\nA[/ " + "/ " * 450_000,
        "flowchart TD\n" + "é1" * 400_000 + "[",
        "flowchart TD\n" + "%% x\n" * 190_000 + "[",
        "flowchart TD\n" + "\n \n" * 300_000 + "%% x\n[",
        "flowchart TD\nA[" + "<a" * 450_000,
        "flowchart TD\nstyle" + ":x" * 450_000 + ";",
        "flowchart TD\n" + "A e1@--> B\n" * 30_000,
        "flowchart TD\nA@{ " + "a" * 900_000,
        "flowchart TD\nA@{ a: " + "[" * 900_000 + "}",
        "---\na: " + "[" * 900_000 + "\n---\nflowchart TD",
    ],
    ids=[
        "directives", "dots", "dashes", "links", "descriptions", "and", "spaces", "breaks", "front",
        "groups", "blank-lines", "signs", "signs-and-direction", "ellipse", "slant", "letters",
        "comments", "blanks-and-comments", "tags", "styles", "link-ids", "data", "deep-data",
        "deep-front",
    ],
)  # fmt: skip
@pytest.mark.timeout(60)
def test_hostile_texts_take_no_more_than_their_length(text: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_mermaid(text)
    assert len(str(refused.value)) < 1_000
