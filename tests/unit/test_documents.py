"""The flowcharts of documents: found, chosen, read; and the labels that are read in quotes."""

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
from chartloop.interchange.quote_labels import read_and_quote

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
    (found,) = flowcharts("# A\n\n  ```mermaid\n  graph TD\n    A[f(x)] -> B\n  ```\n", file="x.md")
    with pytest.raises(SpecError) as refused:
        read(found)
    place = refused.value.findings[0].place
    assert (str(place), place.text) == ("x.md:5:8", "    A[f(x)] -> B")


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


# --------------------------------------------------------------------------------------- quotes


class Bare(NamedTuple):
    """A line that Mermaid refuses for a label without quotes, and how it is read."""

    id: str
    line: str
    quoted: str


BARE = [
    Bare("parentheses", "A[f(x)] --> B", 'A["f(x)"] --> B'),
    Bare("brackets-in-braces", "A{x [y]?} -->|no| B", 'A{"x [y]?"} -->|no| B'),
    Bare("quotes-in-a-label", 'A[say "x"] --> B', 'A["say #quot;x#quot;"] --> B'),
    Bare("braces-in-a-circle", "A((a {b}))", 'A(("a {b}"))'),
    Bare("two-labels", "A[f(x)] --> B(g[y])", 'A["f(x)"] --> B("g[y]")'),
    Bare("class-behind", "A[f(x)]:::hot & C", 'A["f(x)"]:::hot & C'),
    Bare("pipes", "A -->|f(x)| B", 'A -->|"f(x)"| B'),
    Bare("text-of-a-link", "A -. v1.2 .-> B", 'A -. "v1.2" .-> B'),
    Bare("typographic-quotes", "A[“f(x)”] --> B", 'A["“f(x)”"] --> B'),
    Bare("a-pipe-between-pipes", "A -->|a | b| B", 'A -->|"a | b"| B'),
    Bare("a-box-in-the-middle", "A[Load] --> B{valid()?} --> C[Save]", 'A[Load] --> B{"valid()?"} --> C[Save]'),
    Bare("equal-brackets-at-both-ends", "A([f()]) --> B{g()} --> C(h)", 'A(["f()"]) --> B{"g()"} --> C(h)'),
    Bare("an-arrow-in-a-label", "A[if x[0] --> y] --> B", 'A["if x[0] --> y"] --> B'),
    Bare("brackets-at-both-ends-of-a-label", "A[(x) and (y)] --> B", 'A["(x) and (y)"] --> B'),
]  # fmt: skip


@pytest.mark.parametrize("case", BARE, ids=lambda case: case.id)
def test_a_label_is_read_in_quotes_and_its_line_listed(case: Bare) -> None:
    written = f"flowchart TD\n  A --> B\n  {case.line}\n  B --> C\n"
    with pytest.raises(SpecError):
        read_mermaid(written)
    reading, quoted = read_and_quote(written)
    assert quoted == ((3, f"  {case.line}", f"  {case.quoted}"),)
    assert reading.chart == read_mermaid(written.replace(case.line, case.quoted))


OTHER_MISTAKES = [
    "A[] --> B", 'A[""] --> B', "A -->|| B", "A[x --> B", "A[Load --> B[Save]", "A[“f(x)] --> B[”",
    'A["say "x" now"] --> B', "A --> end", "A --> end[Finish]", "A; x--> B", "A -> B", "A => B",
    "A → B", "A –> B", "A -->> B", "A --> B %% note", "class A, B hot", "Step One --> B",
    "A --> Step Two", "style A fill:rgb(1,2,3)", "subgraph s",
]  # fmt: skip


@pytest.mark.parametrize("line", OTHER_MISTAKES)
def test_no_other_mistake_is_mended(line: str) -> None:
    written = f"flowchart TD\n  {line}\n"
    with pytest.raises(SpecError) as read_as_it_is:
        read_mermaid(written)
    with pytest.raises(SpecError) as refused:
        read_and_quote(written)
    assert str(refused.value) == str(read_as_it_is.value)


UNCLEAR = [
    "Z[A[x] --> B[y]] --> C[f()]",
    "A[array[0] --> B[x] --> C[f()]",
    'A((("say #quot;hi#quot; now"))) --> B(x) & C[\\if x[0] -> y List[str]\\]',
]


@pytest.mark.parametrize("line", UNCLEAR)
def test_a_line_that_may_be_meant_in_two_ways_is_refused_at_its_place(line: str) -> None:
    (found,) = flowcharts(f"flowchart TD\n  A --> B\n  {line}\n", file="x.mmd")
    with pytest.raises(SpecError) as refused:
        read(found)
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
def test_the_help_of_a_label_proposes_the_quotes(line: str, cure: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_mermaid(f"flowchart TD\n  {line}\n")
    assert refused.value.findings[0].hint == f"put the label in quotes: {cure}"


@pytest.mark.parametrize(
    ("title", "quoted"), [("s[Plan (x)]", 's["Plan (x)"]'), ("My Group (1)", '"My Group (1)"')]
)
def test_the_title_of_a_subgraph_keeps_its_id(title: str, quoted: str) -> None:
    text = f"graph TD\nsubgraph {title}\nA\nend\n"
    with pytest.raises(SpecError):
        read_mermaid(text)
    reading, lines = read_and_quote(text)
    assert lines == ((2, f"subgraph {title}", f"subgraph {quoted}"),)
    assert reading == read_flowchart(text.replace(title, quoted))


def test_several_lines_are_quoted_one_after_the_other() -> None:
    _, quoted = read_and_quote("graph TD\nA[f(x)] --> B\nB --> C\nC[g(y)]\n" + "D[h()]\n" * 100)
    assert [line for line, _, _ in quoted] == [2, *range(4, 105)]


def test_a_fault_that_is_left_has_its_place_in_the_line_as_it_was_written() -> None:
    for text, line, column in (
        ("graph TD\nA[f(x)] --> B\nB -> C", 3, 3),
        ("graph TD\nA[f(x)] --> B\nB[g(y)] -> C[h()]", 3, 4),
    ):
        with pytest.raises(SpecError) as refused:
            read_and_quote(text)
        place = refused.value.findings[0].place
        assert (place.line, place.column) == (line, column)
        assert place.text == text.split("\n")[line - 1]


def test_what_mermaid_reads_is_left_alone() -> None:
    text = 'flowchart TD\nA[“x”] -- No--> B["→ ->"]\n'
    assert read_and_quote(text) == (read_flowchart(text), ())


@pytest.mark.parametrize(
    "text",
    ["", "sequenceDiagram\nA->>B: x", "flowchart TD\nA@{ shape: [ }", "flowchart TD\n🎉"],
)
def test_what_quotes_do_not_help_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(SpecError) as quoted:
        read_and_quote(text)
    with pytest.raises(SpecError) as read_as_it_is:
        read_mermaid(text)
    assert str(quoted.value) == str(read_as_it_is.value)


@pytest.mark.slow("takes seconds")
@pytest.mark.timeout(60)
def test_attempts_are_bounded() -> None:
    with pytest.raises(SpecError):
        read_and_quote("flowchart TD\n" + "A[f(x)]\n" * 12_500)
    for line in ("A -- " + "a -- " * 10_000, "A[(x] " * 300 + "]", "A[" * 900, "A -> " * 380):
        with suppress(SpecError):
            read_and_quote(f"flowchart TD\n{line}\n")
