"""Each source document has a page: all its names stand there, ours exist, differences are current."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chartloop import load
from chartloop.core.facts import FACTS as KNOWN
from chartloop.testing import ManualClock
from tests.cases.test_lines import document
from tests.talks import call

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {
    "000": "geist.md", "001": "executive.md", "002": "stop-conditions.md", "003": "moderator.md",
    "004": "gerbil.md",
}  # fmt: skip


def page(number: str) -> str:
    """The page of a document."""
    return (DOCS / "documents" / PAGES[number]).read_text("utf-8")


def test_the_differences_are_those_that_are_tested(tmp_path: Path) -> None:
    for name in PAGES.values():
        (tmp_path / name).write_text((DOCS / "documents" / name).read_text("utf-8"), "utf-8")
    command = (sys.executable, str(DOCS / "documents_table.py"), str(tmp_path))
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    for number, name in PAGES.items():
        assert (tmp_path / name).read_text("utf-8") == page(number), (
            "run: python docs/documents_table.py"
        )
        assert page(number).count(" | ") > 10


NAMES = {
    # classes, their fields and methods, reasons, endpoints
    "000": (
        r"^class (\w+)", r"^    ([a-z_]+): [A-Z\w]", r"^    ([A-Z_]+) = ", r"^    def (_?[a-z]\w+)",
        r"POST (/agent/\w+)", r"post\(\"(/agent/[\w/]+)\"", r"self\.([a-z_]+) = ",
    ),
    # what stands in code
    "001": (r"`([^`\n]+)`",),
    # classes of PHP, their methods, values of reasons
    "002": (
        r"(?<![\w.])((?:[A-Z][a-z]+){2,})(?![\w ]*\w\.)", r"\b([a-z]+[A-Z]\w+\(\))",
        r"^\w+ \| (\w+) \| \d", r"^\| (\w+) \| (?:error|\w+_\w+|completed|unknown) \|",
    ),
    "003": (r"StopReason\.([A-Z_]+)", r"ErrorCategory\.([A-Z]+)", r"\b([a-z]+(?:_[a-z]+)+\(\))"),
    # structures, functions, statuses
    "004": (
        r"\(defstruct ([\w-]+)", r"^- `\(([\w>?!-]+)", r"\(def \S+ \(([\w>!-]+)", r"`(:[\w-]+)`",
        r"^ +\(?([a-z][\w-]*)\)? +; ", r"^\((register-\S+)", r"\b([\w-]+-set!)",
    ),
}  # fmt: skip
"""How names stand in each document."""
NOT_NAMES = {
    "000": {"agent", "conditions", "request"},  # parameters, and the instance's own
    "001": set[str](),
    # words that ran together in the text that we have
    "002": {
        "ImplementCanProvideCancellationSignal", "TheStopSignals", "TheUseCooperativeCancellation",
        "ThewasForceStopped",
    },
    "003": set[str](),
    "004": set[str](),
}  # fmt: skip


def names(number: str) -> set[str]:
    """The names of a document."""
    text = "\n".join(document(number))
    if number == "000":  # its sketches of other products are not its own
        text = re.sub(r"(?s)## Stopping Condition Patterns.*?## Proposed Architecture", "", text)
        text = re.sub(r"(?s)#### Claude SDK Pattern.*?## Migration Path", "", text)
    found = {m for way in NAMES[number] for m in re.findall(way, text, re.MULTILINE)}
    return found - NOT_NAMES[number]


@pytest.mark.parametrize("number", PAGES)
def test_every_name_of_the_document_stands_on_its_page(number: str) -> None:
    found = names(number)
    assert len(found) > 8
    text = page(number)
    assert sorted(name for name in found if name.removesuffix("()").strip('"') not in text) == []


def test_what_is_said_of_python_is_there() -> None:
    """Expressions over `run`, `result`, `step`, `machine` are evaluated on a finished run."""
    machine = load("agent")
    run = machine.start(
        "Go.", script=[call("send_message", message="x"), "Done."], clock=ManualClock()
    )
    known: dict[str, Any] = {"machine": machine, "run": run, "result": run.run(), "load": load}
    known |= {"step": run.history[0]}
    said = {
        code
        for number in PAGES
        for code in re.findall(r"`((?:run|result|step|machine)\.[^`]*)`", page(number))
        if "..." not in code and not code.startswith(FACTS) and not ACTS.search(code)
    }
    assert len(said) > 40
    for code in sorted(said):
        eval(code, dict(known))  # noqa: S307  the pages' own code


FACTS = ("run.elapsed", "run.visits", "run.started_at", "run.steps >=")
"""Facts, as a file names them."""
ACTS = re.compile(r"\.(run|step|set|cancel|next)\(|run\.(machine\.)?start")


def test_facts_of_a_file_that_pages_name_are_there() -> None:
    roots = {name.partition(".")[0] for name in KNOWN}
    for number in PAGES:
        for code in re.findall(r"`([a-z]+\.[a-z_.]+)`", page(number)):
            root = code.partition(".")[0]
            if root in roots - {"run", "memory"}:
                name = ".".join(code.split(".")[:2])
                assert name in KNOWN or code.startswith("errors."), (number, code)


def test_no_page_names_a_document_by_its_number() -> None:
    """A stranger has no numbers: a page links to the document's page."""
    for path in sorted(DOCS.rglob("*.md")):
        text = path.read_text("utf-8")
        assert not re.search(r"[Dd]ocument 00\d", text), path
