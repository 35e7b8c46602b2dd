"""The flowcharts of the documents, imported: drawn as they were, with nothing to declare."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop.core.errors import SetupError
from chartloop.interchange.documents import Read, flowcharts, read
from chartloop.interchange.import_chart import import_chart
from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.interchange.verify import verify
from chartloop.pictures.compare.difference import differences

CASES = Path(__file__).parents[1] / "cases"
DOCUMENTS = [
    *sorted((CASES / "sources").glob("*.mmd")),
    CASES / "sources" / "001_bb8e222742d55083.txt",
    CASES / "sources" / "003_43f73522fa938641.txt",
]
FORMS = sorted((CASES / "mermaid").glob("*/read_*.mmd"))


def read_from(path: Path) -> Read:
    (found,) = flowcharts(path.read_bytes().decode(), file=path.name)
    return read(found)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_a_document_that_is_imported_is_drawn_as_it_was(path: Path) -> None:
    document = read_from(path)
    made = import_chart(document)
    assert differences(document.reading.chart, made.machine.draw(rules="none").chart) == ()
    assert (made.deviations, made.unreached, made.machine.findings) == ((), (), ())
    assert [q.line for q in document.quoted] == {
        "seed001_verbatim": [8], "001_bb8e222742d55083": [17],
    }.get(path.stem, [])  # fmt: skip


@pytest.mark.parametrize("path", FORMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_any_flowchart_is_imported_and_is_its_document_afterwards(path: Path) -> None:
    document = read_from(path)
    try:
        made = import_chart(document)
    except SetupError:
        assert document.reading.chart.boxes == ()
    else:
        verdict = verify(document.found, made.machine)
        assert verdict.holds
        assert all(d.reason for d in verdict.accepted)


class Kind(NamedTuple):
    """A chart that is odd in some way, and what its machine has."""

    id: str
    text: str
    states: dict[str, str]
    """The job of each state."""
    start: str
    unreached: tuple[str, ...] = ()


KINDS = [
    Kind("no-start", "A[Go] --> B[Stay]\nB --> A", {"go": "act", "stay": "act"}, "go"),
    Kind("several-starts", "A[One] --> C[Two]\nB([Start]) --> C", {"one": "act", "two": "end", "start": "pass"}, "start", ("one",)),
    Kind("one-box", "A", {"a": "end"}, "a"),
    Kind("a-loop-on-itself", "A[Again] --> A", {"again": "act"}, "again"),
    Kind("parallel-arrows", "A[x] --> B[y]\nA --> B", {"x": "wait", "y": "end"}, "x"),
    Kind("equal-labels", "A[Work] --> B[Work]\nB --> C[Work]", {"work": "act", "work_2": "act", "work_3": "end"}, "work"),
    Kind("an-empty-label", 'A[" "] --> B', {"a": "act", "b": "end"}, "a"),
    Kind("an-island", "A --> B\nC --> D\nD --> C", {"a": "act", "b": "end", "c": "act", "d": "act"}, "a", ("c", "d")),
    Kind("ids-that-are-no-names", "1 --> return\nreturn --> true\ntrue --> é日", {"state_1": "act", "state_return": "act", "state_true": "act", "e": "end"}, "state_1"),
    Kind("words-of-the-language", "A[Go] --> next[Next] --> B[Return]", {"go": "act", "state_next": "act", "state_return": "end"}, "go"),
    Kind("camels", "CheckTokens --> HTTPCall --> node3[Save Report]", {"check_tokens": "act", "http_call": "act", "save_report": "end"}, "check_tokens"),
    Kind("a-stop-that-leads-back", "A --> B[STOP]\nB --> A\nstyle B fill:#ffcdd2", {"a": "act", "stop": "act"}, "a"),
    Kind("a-stop-with-a-report", "A --> B[STOP] --> C[Report]\nstyle B fill:#ffcdd2", {"a": "act", "stop": "pass", "report": "end"}, "a"),
    Kind("a-hub", "A[Hub] --> B\nA --> C\nstyle A fill:#fff9c4", {"hub": "wait", "b": "end", "c": "end"}, "hub"),
    Kind("a-diamond-at-the-end", "A --> B{Sure?}", {"a": "act", "sure": "end"}, "a"),
]  # fmt: skip


@pytest.mark.parametrize("case", KINDS, ids=lambda case: case.id)
def test_what_becomes_of_boxes(case: Kind) -> None:
    (found,) = flowcharts(f"flowchart TD\n{case.text}", file="x.mmd")
    made = import_chart(read(found))
    spec = made.machine.spec
    assert {name: state.job for name, state in spec.states.items()} == case.states
    assert (spec.start, made.unreached) == (case.start, case.unreached)
    assert verify(found, made.machine).holds


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ("# Alpha\n## Diagram\n{}", "alpha"),
        ("# Alpha\n## The loop\n{}", "the_loop"),
        ("# Diagram\n{}", "diagram"),
        ("{}", "my_file"),
        ("# 2 go\n{}", "machine_2_go"),
    ],
)
def test_a_machine_is_called_what_the_document_calls_it(document: str, name: str) -> None:
    text = document.format("```mermaid\ngraph TD\nA\n```\n")
    (found,) = flowcharts(text, file="docs/my-file.md")
    assert import_chart(read(found)).machine.name == name


def test_five_hundred_boxes() -> None:
    lines = [f"n{n}[Step {n}] --> n{(n * 7) % 500}" for n in range(500)]
    (found,) = flowcharts("flowchart TD\n" + "\n".join(lines), file="x.mmd")
    made = import_chart(read(found))
    assert len(made.machine.spec.states) == 500
    assert verify(found, made.machine).holds


def test_a_label_that_no_label_can_be_is_declared() -> None:
    (found,) = flowcharts('flowchart TD\nA["a path: C:#92;new"] --> B', file="x.mmd")
    made = import_chart(read(found))
    (deviation,) = made.machine.spec.deviations
    assert deviation.reason == "a label cannot hold this text as it is"
    assert verify(found, made.machine).holds


def test_every_shape_that_we_name_is_read_back() -> None:
    text = (CASES / "mermaid" / "shape_names" / "read_1.mmd").read_text("utf-8")
    assert len({box.shape for box in read_mermaid(text).boxes}) == 53
