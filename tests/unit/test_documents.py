"""The flowcharts of documents: found, chosen, read; and what is repaired in them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop.core.errors import SetupError, SpecError
from chartloop.interchange.documents import (
    choose_chart,
    flowcharts,
    read,
    read_document,
)
from chartloop.interchange.mermaid.read import read_flowchart, read_mermaid
from chartloop.interchange.repair import LARGEST, repair_text

TWO = """\
# The system

Words.

## Main loop

```mermaid
flowchart TD
  A --> B
```

```mermaid
sequenceDiagram
  A->>B: x
```

Recovery
--------

- a list

    ~~~~ Mermaid theme
    ---
    title: Again
    ---
    %% about
    graph LR
      C --> D
    ~~~~

```python
# flowchart TD
```
"""


def test_the_flowcharts_of_a_document_are_found_with_line_and_heading() -> None:
    found = flowcharts(TWO, file="x.md")
    assert [(f.number, f.line, f.last_line, f.column, f.heading) for f in found] == [
        (1, 8, 9, 0, "Main loop"),
        (2, 23, 28, 4, "Recovery"),
    ]
    assert [f.text.split("\n")[0] for f in found] == ["flowchart TD", "---"]
    assert read(found[1]).reading.lines == {"C": 28, "D": 28}
    assert read(found[1]).reading.chart.title == "Again"


class Fenced(NamedTuple):
    id: str
    text: str
    lines: list[int]


FENCES = [
    Fenced("longer-fence", "````mermaid\ngraph TD\n```\nA\n````", [2]),
    Fenced("never-closed", "x\n```mermaid\ngraph TD\nA", [3]),
    Fenced("quoted", "> ```mermaid\n> graph TD\n> A --> B\n> ```", [2]),
    Fenced("in-braces", "```{.mermaid}\ngraph TD\nA\n```\n```{mermaid}\ngraph TD\nB\n```", [2, 6]),
    Fenced("in-capitals", "``` MERMAID title=x\ngraph TD\nA\n```", [2]),
    Fenced("another-language", "```mermaids\ngraph TD\n```\n```\ngraph TD\n```", []),
    Fenced("within-another-fence", "````md\n```mermaid\ngraph TD\nA\n```\n````", []),
    Fenced("windows-lines", "x\r\n```mermaid\r\ngraph TD\r\nA\r\n```\r\n", [3]),
    Fenced("a-chart-alone", "\n%% c\nflowchart TD\nA", [1]),
    Fenced("inline-code", "``` mermaid graph ```\ngraph", []),
    Fenced("empty", "```mermaid\n```", []),
    Fenced("nothing", "", []),
]


@pytest.mark.parametrize("case", FENCES, ids=lambda case: case.id)
def test_fences(case: Fenced) -> None:
    assert [found.line for found in flowcharts(case.text, file="x.md")] == case.lines


def test_a_mermaid_file_is_one_chart_whatever_is_in_it() -> None:
    (found,) = flowcharts("no chart", file="x.mmd")
    with pytest.raises(SpecError, match="not a Mermaid flowchart"):
        read(found)


def test_which_chart_is_meant_is_asked_or_said() -> None:
    found = flowcharts(TWO, file="x.md")
    for wanted, number in [("1", 1), ("2", 2), ("main LOOP", 1), ("recov", 2)]:
        assert choose_chart(found, wanted).number == number
    assert choose_chart(found[:1]).number == 1
    with pytest.raises(SetupError, match="has 2 charts: which one do you want") as asked:
        choose_chart(found, file="x.md")
    assert "say --chart N" in asked.value.hint
    assert '1: lines 8 to 9, under "Main loop"' in asked.value.hint
    assert '2: lines 23 to 28, under "Recovery"' in asked.value.hint
    for wanted in ("3", "0", "elsewhere", "o"):
        with pytest.raises(SetupError, match="chart `"):
            choose_chart(found, wanted)
    with pytest.raises(SetupError, match="has no Mermaid flowchart"):
        choose_chart([])


def test_what_is_wrong_in_a_chart_is_said_with_the_place_in_the_document() -> None:
    (found,) = flowcharts("# A\n\n  ```mermaid\n  graph TD\n    A[f(x)]\n  ```\n", file="x.md")
    with pytest.raises(SpecError) as refused:
        read(found)
    place = refused.value.findings[0].place
    assert (str(place), place.text) == ("x.md:5:8", "    A[f(x)]")


def test_a_document_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.md").write_bytes("é".encode("latin-1"))
    (tmp_path / "large.md").write_bytes(b"x" * 4_000_001)
    (tmp_path / "mark.md").write_bytes("\ufeffgraph TD\nA".encode())
    for name, said in [("latin.md", "not UTF-8"), ("large.md", "larger"), ("no.md", "cannot read")]:
        with pytest.raises(SetupError, match=said):
            read_document(tmp_path / name)
    with pytest.raises(SetupError, match="cannot read"):
        read_document(tmp_path)
    assert read_document(tmp_path / "mark.md") == "graph TD\nA"


# -------------------------------------------------------------------------------------- repairs


class Mistake(NamedTuple):
    """A line that Mermaid refuses, and what it becomes."""

    id: str
    line: str
    mended: str


MISTAKES = [
    Mistake("parentheses", "A[f(x)] --> B", 'A["f(x)"] --> B'),
    Mistake("brackets-in-braces", "A{x [y]?} -->|no| B", 'A{"x [y]?"} -->|no| B'),
    Mistake("quotes-in-a-label", 'A[say "x"] --> B', 'A["say #quot;x#quot;"] --> B'),
    Mistake("braces-in-a-circle", "A((a {b}))", 'A(("a {b}"))'),
    Mistake("two-labels", "A[f(x)] --> B(g[y])", 'A["f(x)"] --> B("g[y]")'),
    Mistake("class-behind", "A[f(x)]:::hot & C", 'A["f(x)"]:::hot & C'),
    Mistake("pipes", "A -->|f(x)| B", 'A -->|"f(x)"| B'),
    Mistake("empty-pipes", "A -->|| B", "A --> B"),
    Mistake("text-of-a-link", "A -. v1.2 .-> B", 'A -. "v1.2" .-> B'),
    Mistake("typographic-quotes", "A[“f(x)”] --> B", 'A["f(x)"] --> B'),
    Mistake("typographic-quotes-in-braces", "A{“f(x)”}", 'A{"f(x)"}'),
    Mistake("empty-label", "A[] --> B", 'A[" "] --> B'),
    Mistake("empty-quotes", 'A[""] --> B', 'A[" "] --> B'),
    Mistake("end-as-a-target", "A --> end", 'A --> end_["end"]'),
    Mistake("end-with-a-label", "A --> end[Finish]", "A --> end_[Finish]"),
    Mistake("end-at-the-front", "end[Finish]", "end_[Finish]"),
    Mistake("graph-as-an-id", "A --> graph", 'A --> graph_["graph"]'),
    Mistake("x-at-the-link", "A; x--> B", "A; x --> B"),
    Mistake("short-arrow", "A -> B", "A --> B"),
    Mistake("fat-arrow", "A => B", "A ==> B"),
    Mistake("arrow-sign", "A → B", "A --> B"),
    Mistake("dash-of-a-word-processor", "A –> B", "A --> B"),
    Mistake("sequence-arrow", "A -->> B", "A --> B"),
    Mistake("comment-behind", "A --> B %% note", "A --> B"),
    Mistake("spaces-in-a-list", "class A, B hot", "class A,B hot"),
    Mistake("label-not-closed", "A --> B[x", 'A --> B["x"]'),
    Mistake("id-of-two-words", "Step One --> B", 'Step_One["Step One"] --> B'),
    Mistake("id-of-two-words-with-a-label", "Step One[x] --> B", "Step_One[x] --> B"),
    Mistake("target-of-two-words", "A --> Step Two", 'A --> Step_Two["Step Two"]'),
    Mistake("a-pipe-between-pipes", "A -->|a | b| B", 'A -->|"a | b"| B'),
    Mistake("a-box-in-the-middle", "A[Load] --> B{valid()?} --> C[Save]", 'A[Load] --> B{"valid()?"} --> C[Save]'),
    Mistake("equal-brackets-at-both-ends", "A([f()]) --> B{g()} --> C(h)", 'A(["f()"]) --> B{"g()"} --> C(h)'),
    Mistake("an-arrow-in-a-label", "A[if x[0] --> y] --> B", 'A["if x[0] --> y"] --> B'),
    Mistake("not-closed-before-an-arrow", "A[Load --> B[Save]", 'A["Load"] --> B[Save]'),
    Mistake("brackets-at-both-ends-of-a-label", "A[(x) and (y)] --> B", 'A["(x) and (y)"] --> B'),
    Mistake("style-with-brackets", "style A fill:rgb(1,2,3),stroke:red", "style A stroke:red"),
    Mistake("style-with-brackets-alone", "style A fill:rgb(1,2,3)", "style A opacity:1"),
]  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case.id)
def test_a_mistake_is_mended_and_listed(case: Mistake) -> None:
    written = f"flowchart TD\n  A --> B\n  {case.line}\n  B --> C\n"
    with pytest.raises(SpecError):
        read_mermaid(written)
    text, (repair,) = repair_text(written)
    assert text.split("\n")[2].strip() == case.mended
    assert (repair.line, repair.before, repair.after) == (3, case.line, case.mended)
    assert repair.what
    read_mermaid(text)


UNCLEAR = [
    "Z[A[x] --> B[y]] --> C[f()]",
    "A[array[0] --> B[x] --> C[f()]",
    'A((("say #quot;hi#quot; now"))) --> B(x) & C[\\if x[0] -> y List[str]\\]',
]


@pytest.mark.parametrize("line", UNCLEAR)
def test_a_line_that_may_be_meant_in_two_ways_is_refused_at_its_place(line: str) -> None:
    (found,) = flowcharts(f"flowchart TD\n  A --> B\n  {line}\n", file="x.mmd")
    with pytest.raises(SpecError) as refused:
        read(found, repair=True)
    (finding,) = refused.value.findings
    assert (finding.code, finding.place.line) == ("CL412", 3)
    assert "put the label in quotes" in finding.hint


@pytest.mark.parametrize(
    ("line", "cure"),
    [
        ("A[Load] --> B{valid()?} --> C[Save]", '`{"valid()?"}`'),
        ("A(Load (csv)) --> B(x)", '`("Load (csv)")`'),
        ("A([f()]) --> B([g])", '`(["f()"])`'),
        ("A -->|f(x)| B -->|y| C", '`|"f(x)"|`'),
    ],
)
def test_the_help_of_a_label_proposes_the_repair(line: str, cure: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_mermaid(f"flowchart TD\n  {line}\n")
    assert refused.value.findings[0].hint == f"put the label in quotes: {cure}"


def test_the_title_of_a_subgraph_keeps_its_id() -> None:
    text, _ = repair_text("graph TD\nsubgraph s[Plan (x)]\nA\nend\nB --> s\n")
    assert text.split("\n")[1] == 'subgraph s["Plan (x)"]'


def test_several_mistakes_are_mended_one_after_the_other() -> None:
    text, repairs = repair_text("graph TD\nA[f(x)] -> B\nB --> end\nsubgraph s\nend\nC[g(y)]")
    assert read_mermaid(text)
    assert [repair.line for repair in repairs] == [2, 3, 6]


def test_a_first_line_a_title_and_a_last_line() -> None:
    text, _ = repair_text("graph TD\nsubgraph My Group (1)\nA\nend\n")
    assert text == 'graph TD\nsubgraph "My Group (1)"\nA\nend\n'
    assert repair_text("flowchart LR A --> B")[0] == "flowchart LR;A --> B"
    text, (repair,) = repair_text("flowchart TD\nsubgraph s\nA")
    assert repair.what == "a subgraph that is not closed"
    assert read_flowchart(text).notes


def test_what_mermaid_reads_is_left_alone() -> None:
    text = 'flowchart TD\nA[“x”] -- No--> B["→ ->"]\n'
    assert repair_text(text) == (text, ())


@pytest.mark.parametrize(
    "text",
    ["", "sequenceDiagram\nA->>B: x", "flowchart TD\nA@{ shape: [ }", "flowchart TD\n🎉"],
)
def test_what_cannot_be_mended_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(SpecError) as mended:
        repair_text(text)
    with pytest.raises(SpecError) as read_as_it_is:
        read_mermaid(text)
    assert str(mended.value) == str(read_as_it_is.value)


@pytest.mark.slow("takes seconds")
@pytest.mark.timeout(60)
def test_repairs_are_bounded() -> None:
    with pytest.raises(SpecError):
        repair_text("flowchart TD\n" + "A[f(x)]\n" * (LARGEST // 8 + 1))
    with pytest.raises(SpecError):
        repair_text("flowchart TD\n" + "A[f(x)]\n" * 400)
    for line in ("A -- " + "a -- " * 10_000, "A[(x] " * 300 + "]", "A[" * 900, "A -> " * 380):
        with suppress(SpecError):
            repair_text(f"flowchart TD\n{line}\n")
