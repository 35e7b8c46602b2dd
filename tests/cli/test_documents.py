"""`chartloop import` and `chartloop verify`, tried as somebody with a document would."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop import SpecError, load
from tests.cli.shell import Shell

SOURCES = Path(__file__).parents[1] / "cases" / "sources"
AGENT = str(SOURCES / "001_bb8e222742d55083.txt")
MODERATOR = str(SOURCES / "003_43f73522fa938641.txt")

FLOW = """\
# The loop

```mermaid
flowchart TD
    Start([Start]) --> Work[Do the work]
    Work --> Enough{Enough?}
    Enough -- Yes --> Done([Done])
    Enough -- No --> Work
```

# Another

```mermaid
flowchart TD
    A[f(x)] --> end
```
"""


@pytest.fixture(autouse=True)
def flow(sh: Shell) -> Path:
    """A document with two flowcharts, of which Mermaid refuses the second."""
    path = sh.folder / "FLOW.md"
    path.write_text(FLOW)
    return path


# import -------------------------------------------------------------------------------------


def test_a_document_becomes_a_machine_that_draws_it_and_can_be_stepped(sh: Shell) -> None:
    done = sh("import", AGENT, "-o", "agent.yaml", "--name", "agent")
    assert done.code == 0
    assert "note: line 17 is read with quotes around a label" in done.err
    assert "- ConstructPrompt --> CallLLM[Call LLM (Gemini)]" in done.err
    assert '+ ConstructPrompt --> CallLLM["Call LLM (Gemini)"]' in done.err
    assert "agent.yaml: agent, 16 states, 12 TODO" in done.err
    checked = sh("check", "agent.yaml", "--format", "json")
    assert (checked.json["machine"], checked.json["findings"]) == ("agent", [])
    assert "# Note: line 17 is read with quotes" in (sh.folder / "agent.yaml").read_text()
    verified = sh("verify", AGENT, "agent.yaml")
    assert verified.code == 0
    assert "note: line 17 is read with quotes around a label" in verified.err
    stepped = sh("step", "agent.yaml", "x", "--in-memory", stdin="\nanswer no\nquit\n")
    assert "steps_limit" in stepped.out + stepped.err


def test_the_file_says_where_everything_came_from(sh: Shell) -> None:
    assert sh("import", "FLOW.md", "-o", "m.yaml", "--chart", "1").code == 0
    assert (
        (sh.folder / "m.yaml").read_text()
        == """\
# A skeleton, imported from FLOW.md, lines 4 to 8.
# It draws the document's flowchart, and can be stepped by hand: chartloop step FILE
# Each TODO is something left to say. `do: nothing` wants an action. What is under
# `on` is asked of a person, until the state decides by `when`, `of` or guards.
chartloop: 1
machine: the_loop
title: The loop
source: FLOW.md

states:
  start: {label: Start, shape: pill, next: work}  # line 5
  work:  # line 5
    label: Do the work
    do: nothing  # TODO: what is done here
    next: enough
  enough:  # line 6
    ask: "Enough?"
    on:  # TODO: who decides
      yes: {to: done, label: "Yes"}
      no: {to: work, label: "No"}
  done: {label: Done, stop: completed}  # line 7
"""
    )


def test_which_chart_is_asked_for_or_said(sh: Shell) -> None:
    asked = sh("import", "FLOW.md")
    assert asked.code == 2
    assert "FLOW.md has 2 charts: which one do you want?" in asked.err
    assert '1: lines 4 to 8, under "The loop"; 2: lines 14 to 15, under "Another"' in " ".join(
        asked.err.split()
    )
    assert sh("import", "FLOW.md", "--chart", "the loop").out.startswith("# A skeleton")
    assert "no chart `3`" in sh("import", "FLOW.md", "--chart", "3").err


def test_what_mermaid_refuses_is_refused_with_its_cure(sh: Shell) -> None:
    done = sh("import", "FLOW.md", "--chart", "2", "-o", "m.yaml")
    assert done.code == 1
    assert "FLOW.md:15:8" in done.err
    assert 'put the label in quotes: `["f(x)"]`' in done.err
    assert not (sh.folder / "m.yaml").exists()


def test_a_label_that_needs_quotes_is_read_with_them_and_listed(sh: Shell) -> None:
    (sh.folder / "x.mmd").write_text("graph TD\n  A[f(x)] --> B\n")
    done = sh("import", "x.mmd")
    assert done.code == 0
    note = "note: line 2 is read with quotes around a label; Mermaid refuses it without\n"
    assert done.err.startswith(f'{note}  - A[f(x)] --> B\n  + A["f(x)"] --> B\n')
    assert load(done.out).spec.states
    told = sh("import", "x.mmd", "--format", "json").json
    quoted = [{"line": 2, "before": "  A[f(x)] --> B", "after": '  A["f(x)"] --> B'}]
    assert told["quoted"] == quoted
    (sh.folder / "x.yaml").write_text(done.out)
    assert sh("verify", "x.mmd", "x.yaml", "--format", "json").json["quoted"] == quoted


def test_a_file_that_is_there_is_written_over_only_by_force(sh: Shell) -> None:
    (sh.folder / "m.yaml").write_text("mine")
    done = sh("import", "FLOW.md", "--chart", "1", "-o", "m.yaml")
    assert (done.code, (sh.folder / "m.yaml").read_text()) == (2, "mine")
    assert "--force overwrites it" in done.err
    assert sh("import", "FLOW.md", "--chart", "1", "-o", "m.yaml", "--force").code == 0
    assert (sh.folder / "m.yaml").read_text() != "mine"
    assert [p.name for p in sh.folder.glob(".m.yaml*")] == []


@pytest.mark.parametrize("name", ["FLOW.md", "./FLOW.md", "link.md"])
def test_a_document_is_never_written_over(sh: Shell, name: str) -> None:
    (sh.folder / "link.md").symlink_to("FLOW.md")
    done = sh("import", "FLOW.md", "--chart", "1", "-o", name, "--force")
    assert (done.code, (sh.folder / "FLOW.md").read_text()) == (2, FLOW)
    assert "is the document itself" in done.err


@pytest.mark.slow("takes seconds")
def test_a_chart_that_no_file_can_hold(sh: Shell) -> None:
    chart = "".join(f"  n{n}[{'word ' * 80}{n}] --> n{n + 1}\n" for n in range(2_200))
    (sh.folder / "large.mmd").write_text(f"flowchart TD\n{chart}")
    done = sh("import", "large.mmd", "-o", "large.yaml")
    assert done.code == 2
    assert "the flowchart is too large for one machine: 2,201 boxes" in done.err
    assert "<text>" not in done.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("no.md",), "cannot read no.md"),
        (("FLOW.md", "--chart", "1", "--name", "My Machine"), "cannot name a machine"),
        (("FLOW.md", "--chart", "1", "-o", "no/m.yaml"), "there is no folder `no`"),
        (("empty.md",), "empty.md has no Mermaid flowchart"),
        (("bare.mmd",), "the flowchart has no box"),
    ],
)
def test_what_cannot_be_imported(sh: Shell, arguments: tuple[str, ...], says: str) -> None:
    (sh.folder / "empty.md").write_text("# Nothing\n")
    (sh.folder / "bare.mmd").write_text("flowchart TD\n")
    done = sh("import", *arguments)
    assert done.code == 2
    assert says in " ".join(done.err.split())


GROUPED = """\
flowchart TD
  ask[Ask] --> tools
  subgraph tools [Tools]
    search[Search]
    memory[Memory] --> store[Store]
  end
  tools --> act[Act] --> done([Done])
"""


def test_an_import_for_programs(sh: Shell) -> None:
    (sh.folder / "x.mmd").write_text("graph LR\nA[(db)] --> B\nA --> B\nC\n")
    told = sh("import", "x.mmd", "--format", "json").json
    assert (told["machine"], told["states"], told["file"]) == ("x", 3, None)
    assert told["deviations"] == ["shape of db: cylinder became rect"]
    assert told["unreached"] == ["c"]
    assert [note["text"] for note in told["not_kept"]] == [
        "a machine has no direction: `chartloop draw --direction lr` draws it that way"
    ]
    assert "ignore" not in told["text"]
    with pytest.raises(SpecError, match="state `c` is never reached"):
        load(told["text"])


def test_an_import_accepts_no_fault_of_the_document(sh: Shell) -> None:
    (sh.folder / "x.mmd").write_text("graph TD\nA --> B\nC --> D\nD --> C\n")
    done = sh("import", "x.mmd", "-o", "x.yaml")
    assert done.code == 0
    assert "no arrow leads to `c`, `d`" in done.err
    checked = sh("check", "x.yaml")
    assert checked.code == 1
    assert "CL304" in checked.out + checked.err


def test_an_imported_group_with_arrows_is_whole(sh: Shell) -> None:
    (sh.folder / "x.mmd").write_text(GROUPED)
    assert sh("import", "x.mmd", "-o", "x.yaml").code == 0
    assert sh("check", "x.yaml").code == 0
    assert sh("verify", "x.mmd", "x.yaml").code == 0
    ways = {(a.source, a.target) for a in load(sh.folder / "x.yaml").draw().chart.arrows}
    assert {("ask", "search"), ("ask", "memory"), ("search", "act"), ("store", "act")} <= ways


# verify -------------------------------------------------------------------------------------


def test_a_machine_that_is_its_document(sh: Shell) -> None:
    done = sh("verify", MODERATOR, "moderator")
    assert done.code == 0
    assert "moderator is the flowchart of" in done.out


def test_a_machine_that_is_its_document_but_for_what_it_declares(sh: Shell) -> None:
    done = sh("verify", AGENT, "executive")
    assert done.code == 0
    assert ":26: edge set_debug → save_turn added: accepted, the document draws no" in done.out
    assert "but for what it declares: 16 boxes, 18 arrows" in done.out


def imported(sh: Shell) -> Path:
    sh("import", "FLOW.md", "--chart", "1", "-o", "m.yaml")
    return sh.folder / "m.yaml"


def test_a_difference_is_found_with_its_line(sh: Shell) -> None:
    file = imported(sh)
    text = file.read_text()
    file.write_text(text.replace('no: {to: work, label: "No"}', 'no: {to: work, label: "Never"}'))
    done = sh("verify", "FLOW.md", "m.yaml", "--chart", "1")
    assert done.code == 1
    assert 'FLOW.md:8: label of edge enough → work: "No" became "Never"' in done.out
    assert "1 difference that the_loop does not declare" in done.out


def test_a_difference_may_be_declared_and_must_then_be_there(sh: Shell) -> None:
    file = imported(sh)
    declared = 'deviations: [{difference: "edge work → done added", reason: a short cut}]\nstates:'
    text = file.read_text().replace("states:", declared)
    file.write_text(text)
    done = sh("verify", "FLOW.md", "m.yaml", "--chart", "1")
    assert done.code == 1
    assert "edge work → done added: declared, and not there" in done.out
    way = "on: {on_it: {to: enough, label: ' '}, out: {to: done, label: ' '}}"
    file.write_text(text.replace("do: nothing  # TODO: what is done here\n    next: enough", way))
    told = sh("verify", "FLOW.md", "m.yaml", "--chart", "1", "--format", "json").json
    assert told["holds"] is True
    assert told["accepted"] == [
        {"difference": "edge work → done added", "reason": "a short cut", "line": 5}
    ]
    assert (told["undeclared"], told["stale"]) == ([], [])
    assert told["chart"] == {"number": 1, "heading": "The loop", "first_line": 4, "last_line": 8}


@pytest.mark.parametrize(
    "arguments",
    [
        ("FLOW.md", "agent"),
        ("FLOW.md", "agent", "--chart", "2"),
        ("no.md", "agent"),
        ("FLOW.md", "no.yaml", "--chart", "1"),
        ("FLOW.md", "broken.yaml", "--chart", "1"),
    ],
)
def test_what_cannot_be_compared_is_no_difference(sh: Shell, arguments: tuple[str, ...]) -> None:
    (sh.folder / "broken.yaml").write_text("chartloop: 1\nmachine: x\nstates: {}\n")
    assert sh("verify", *arguments).code == 2


# other charts -------------------------------------------------------------------------------


STATES = """\
# A machine

> ```mermaid
> stateDiagram-v2
>     [*] --> Work
>     Work --> Work : again
>     Work --> [*] : done
>     state both <<fork>>
> ```
"""


def test_a_state_diagram_of_a_document_is_refused_at_its_line_and_then_imported(sh: Shell) -> None:
    (sh.folder / "STATES.md").write_text(STATES)
    refused = sh("import", "STATES.md")
    assert (refused.code, refused.err.splitlines()[:2]) == (
        1,
        ["error[CL420]: a fork is not taken", " --> STATES.md:8:7"],
    )
    assert sh("verify", "STATES.md", "agent").code == 2
    (sh.folder / "STATES.md").write_text(STATES.replace(">     state both <<fork>>\n", ""))
    assert sh("import", "STATES.md", "-o", "m.yaml").code == 0
    same = sh("verify", "STATES.md", "m.yaml")
    assert same.out == "a_machine is the state diagram of STATES.md: 3 boxes, 3 arrows\n"
    text = (sh.folder / "m.yaml").read_text()
    assert "# It draws the document's chart, and can be stepped by hand" in text
    (sh.folder / "m.yaml").write_text(text.replace("again: work", "again: end"))
    assert sh("verify", "STATES.md", "m.yaml").out.startswith("✗ STATES.md:6: ")


CREW = "researcher:\n  role: Researcher\n  goal: Find out\n  backstory: You read.\n"


@pytest.mark.parametrize(
    ("args", "code"),
    [("check", 1), ("run", 1), ("import", 1), ("verify", 2), ("draw", 1), ("step", 1)],
)
def test_a_file_of_another_framework_is_called_by_its_name(sh: Shell, args: str, code: int) -> None:
    (sh.folder / "agents.yaml").write_text(CREW)
    more = ["agent"] if args == "verify" else []
    done = sh(args, "agents.yaml", *more)
    assert done.code == code
    said = done.out + done.err
    assert "error[CL422]: this is a file of agents of CrewAI, not a machine" in said
    assert "docs/coming-from.md#files-of-crewai-google-adk-and-agent-framework" in said
    assert "unknown key" not in said


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.mmd", "flowchart TD\n  A[Load] --> B\n"),
        ("b.mmd", "---\ntitle: B\n---\nstateDiagram-v2\n  A --> B: x\n"),
    ],
)
def test_a_chart_is_no_machine(sh: Shell, name: str, text: str) -> None:
    (sh.folder / name).write_text(text)
    done = sh("check", name)
    assert done.code == 1
    said = done.out + done.err
    assert f"error[CL422]: this is a Mermaid chart, not a machine\n --> {name}:1" in said
    assert "`chartloop import` makes a machine of it" in said


class Diagram(NamedTuple):
    """A file of another tool, and what it is called."""

    name: str
    text: str
    said: str
    line: int = 1


BPMN = '<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL"/>\n'
DIAGRAMS = [
    Diagram("bare.scxml", "<scxml/>\n", "an SCXML document"),
    Diagram(
        "states.scxml",
        '<?xml version="1.0"?>\n<!-- of <us> -->\n<sc:scxml xmlns:sc="http://www.w3.org/2005/07/scxml"/>\n',
        "an SCXML document",
    ),
    Diagram("process.bpmn", f'<?xml version="1.0"?>\n{BPMN}', "a BPMN diagram"),
    Diagram("process.xml", BPMN, "a BPMN diagram"),
    Diagram("board.drawio", '<mxfile host="app.diagrams.net"><diagram/></mxfile>\n', "a draw.io diagram"),
    Diagram("board.xml", "<mxGraphModel><root/></mxGraphModel>\n", "a draw.io diagram"),
    Diagram("other.xml", '<?xml version="1.0"?>\n<svg/>\n', "an XML document"),
    Diagram("states.puml", "\n@startuml\n[*] --> A\n@enduml\n", "a PlantUML diagram"),
    Diagram("states.dot", "digraph { a -> b }\n", "a Graphviz graph"),
    Diagram("strict.gv", "strict digraph G {\n  a -> b\n}\n", "a Graphviz graph"),
    Diagram(
        "light.json",
        '{\n\t"id": "light",\n\t"initial": "green",\n\t"states": {"green": {"on": {"GO": "red"}}, "red": {}}\n}\n',
        "a machine of XState",
        3,
    ),
    Diagram(
        "steps.json",
        '{"Comment": "x",\n "StartAt": "A", "States": {"A": {"Type": "Pass", "End": true}}}\n',
        "a state machine of AWS Step Functions",
        2,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", DIAGRAMS, ids=lambda case: case.name)
@pytest.mark.parametrize(("args", "code"), [("check", 1), ("import", 1), ("verify", 2)])
def test_a_diagram_of_another_tool_is_called_by_its_name(
    sh: Shell, args: str, code: int, case: Diagram
) -> None:
    (sh.folder / case.name).write_text(case.text)
    more = ["agent"] if args == "verify" else []
    done = sh(args, case.name, *more)
    said = done.out + done.err
    assert done.code == code
    message = f"error[CL422]: this is {case.said}, not a machine\n --> {case.name}:{case.line}"
    assert message in said
    assert "draw its states as a Mermaid chart: `chartloop import` makes a machine of that" in said
    assert said.count("error[") == 1


NO_DIAGRAM = [
    ("README.md", "<!-- a --> <p>\n\n# Of `<scxml>` and digraphs\n"),
    ("notes.md", "digraphs are two letters\n"),
]


@pytest.mark.parametrize(("name", "text"), NO_DIAGRAM)
def test_a_document_without_a_chart_is_none_of_another_tool(
    sh: Shell, name: str, text: str
) -> None:
    (sh.folder / name).write_text(text)
    done = sh("import", name)
    assert done.code == 2
    assert f"{name} has no Mermaid flowchart" in done.err
