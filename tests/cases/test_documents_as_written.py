"""What the checker finds in the documents by itself, held to the documents' own text.

The machines in `check/` that carry a document's number say what the document says before anybody
mended it. Here each is held against the text: its flowchart against the document's, what it
declares against the lines that declare it. That the checker finds the fault is said here, too.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from chartloop.api import examine
from chartloop.interchange.documents import flowcharts
from chartloop.interchange.verify import verify
from tests.exploring import built

HERE = Path(__file__).parent
SOURCES = HERE / "sources"


def case(name: str) -> str:
    """The text of a machine in `check/`."""
    return (HERE / "check" / name).read_text("utf-8")


def document(name: str) -> str:
    """The text of a document, or of its flowchart."""
    return (SOURCES / name).read_text("utf-8")


def found_in(text: str) -> dict[str, str]:
    """What the checker says, by the place that it says it of."""
    return {f.at: f.code for f in examine(text).findings}


def differing(text: str, name: str) -> list[str]:
    """How the flowchart of a document differs from that of a machine."""
    (drawn,) = flowcharts(document(name), file=name)
    return [d.text for d in verify(drawn, built(text)).undeclared]


def test_001_as_drawn_is_stuck_once_it_debugs() -> None:
    """The chart has no arrow out of "Set Status = Debugging"."""
    drawn = case("CL305-hidden-document-001-as-drawn.yaml")
    assert differing(drawn, "001_bb8e222742d55083.txt") == []
    assert found_in(drawn) == {"states.set_debug": "CL305"}


def test_002_gives_two_reasons_one_priority() -> None:
    """Its table gives `steps_limit` and `user_requested` the number 2."""
    listed = case("CL336-hidden-document-002-as-written.yaml")
    rows = re.findall(r"^\w+ \| (\w+) \| (\d)", document("002_7b9fc34e91e6be93.txt"), re.MULTILINE)
    declared = yaml.safe_load(listed)["reasons"]
    assert {name: reason["priority"] for name, reason in declared.items()} == {
        name: int(priority) for name, priority in rows
    }
    assert len(rows) == 10
    assert found_in(listed) == {
        "reasons.user_requested.priority": "CL336",
        "rules.3.when": "CL352",  # the machine that we wrote round its reasons never backs off
    }


def test_004_as_written_never_updates_the_memory_and_would_stop_after_it() -> None:
    """Its rules for the next step name neither; what comes after an update is "Unknown"."""
    text = document("004_47c1d4b1f2207c19.txt")
    rules = text[text.index("### Step Determination Logic") : text.index("## API Reference")]
    assert "`:memory-update`" in text
    assert "memory" not in rules.lower()
    chosen = case("CL304-hidden-document-004-as-written.yaml")
    assert differing(chosen, "seed004_step_determination.mmd") == [
        "node user_message added",  # the flowchart of the rules begins at the decision
        "node memory_update added",  # the step that they do not name
        "edge last → llm removed",  # "No history": there is a message when it is first asked
        *(f"edge {step} → last added" for step in ("user_message", "llm", "tool", "memory_update")),
    ]
    assert found_in(chosen)["states.memory_update"] == "CL304"
    assert found_in(chosen)["states.last.else"] == "CL328"


def test_000_declares_three_things_that_its_code_never_reads() -> None:
    """Each stands where it is declared, and elsewhere only where an example gives it a value."""
    text = document("000_9d43e8d10d44b707.txt")
    declared = case("CL335-hidden-document-000-as-written.yaml")
    assert re.findall(r".*USER_INTERRUPT.*", text) == ['    USER_INTERRUPT = "user_interrupt"']
    for name in ("max_total_errors", "warn_at_token_percentage"):
        lines = re.findall(rf".*{name}.*", text)
        assert [line for line in lines if not re.match(rf"\s+{name}(: \w+ = |=)", line)] == []
        assert sum(": " in line for line in lines) == 1
    assert found_in(declared) == {
        "limits.max_total_errors": "CL315",
        "limits.warn_at_token_percentage": "CL315",
        "reasons.user_interrupt": "CL335",
    }
