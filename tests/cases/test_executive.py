"""Document 001, "Agent Architecture Flow & Termination Logic": `machines/executive.yaml`.

The sandbox is the real one. What the flowchart draws is compared in `tests/golden/test_diagrams.py`;
every edge is taken by `tests/scenarios/executive_*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import Run, load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.testing import CrashAt, Crashed, ManualClock, MemoryJournal

pytestmark = pytest.mark.extra("pydantic_monty", install='pip install -e ".[sandbox]"')  # noqa: S610 - no Django

GO_ON = "<PLAN>go on</PLAN>"
FINISHED = "<STATE_UPDATE>\nStatus: Finished\n</STATE_UPDATE>"


def code(text: str, update: str = "") -> str:
    """A reply with code in it."""
    return f"<PLAN>try it</PLAN>\n```python\n{text}\n```\n{update}"


def ran(*replies: str, **options: Any) -> Run:
    """A run with these replies, driven to its end."""
    given: dict[str, Any] = {"clock": ManualClock(1000), **options}
    run = load("executive").start("Find x.", script=list(replies), **given)
    run.run()
    return run


def asked(run: Run) -> list[Mapping[str, str]]:
    """What each turn's prompt said, by role."""
    prompts = [r.outcome.prompt for r in run.records if r.outcome and r.outcome.prompt]
    return [{m["role"]: m["content"] for m in prompt} for prompt in prompts]


def visits(run: Run, state: str) -> int:
    """How often a state was entered."""
    return run.facts.run.visits[state]


# Start, Init ------------------------------------------------------------------------------------


def test_state_constitution_and_evidence_are_initialised() -> None:
    run = ran(FINISHED, vars={"constitution": "Be exact."})
    (first,) = asked(run)
    assert first["system"].startswith("Be exact.\n")
    assert "Task: Find x." in first["user"]
    assert "Status: Running" in first["user"]
    assert first["user"].rstrip().endswith("Evidence:")


def test_an_agent_that_starts_again_initialises_them_again() -> None:
    run = ran(code("print(1)"), "<PLAN>[FINALIZE]</PLAN>")
    assert run.facts.vars["evidence"]
    after = run.next("Find y.", script=[GO_ON, FINISHED])
    result = after.run()
    assert "Turn 1" not in asked(after)[0]["user"]
    assert (result.reason, visits(after, "call_llm")) == ("completed", 2)


def test_the_constitution_that_it_comes_with_and_the_form_of_an_answer() -> None:
    system = asked(ran(FINISHED))[0]["system"]
    assert system.startswith("You work carefully")
    for word in ("<PLAN>", "```python", "<STATE_UPDATE>", "[FINALIZE]", "Finished", "60 seconds"):
        assert word in system


# Termination Conditions -------------------------------------------------------------------------


class Ending(NamedTuple):
    """Replies, and how the run must end."""

    id: str
    replies: tuple[str, ...]
    reason: str
    turns: int
    state: str = "stop_success"
    limits: Mapping[str, Any] = {}


ENDINGS = [
    Ending("status-finished", (GO_ON, FINISHED), "completed", 2),
    Ending("status-finished-with-a-full-stop", (FINISHED.replace("Finished", "Finished."),), "completed", 1),
    Ending("tags-in-small-letters", ("<plan>[finalize]</plan>",), "completed", 1),
    Ending("status-finalized", (FINISHED.replace("Finished", "Finalized"),), "completed", 1),
    Ending("status-in-small-letters", (FINISHED.lower().replace("state_update", "STATE_UPDATE"),), "completed", 1),
    Ending("status-after-code", (code("x = 1", FINISHED),), "completed", 1),
    Ending("finalize-in-plan", (GO_ON, "<PLAN>[FINALIZE] it is 7</PLAN>"), "completed", 2),
    Ending("finalize-with-code-that-fails", (code("1 / 0").replace("try it", "[FINALIZE]"),), "completed", 1),
    Ending("finalize-outside-the-plan", ("[FINALIZE]" + GO_ON,) * 2, "steps_limit", 2, "stop_limit", {"turns": 2}),
    Ending("finished-outside-the-update", ("Status: Finished" + GO_ON,) * 2, "steps_limit", 2, "stop_limit", {"turns": 2}),
    Ending("finished-with-code-that-fails", (code("1 / 0", FINISHED), FINISHED), "completed", 2),
    Ending("max-turns-of-ten", (GO_ON,) * 10, "steps_limit", 10, "stop_limit"),
    Ending("max-turns-of-one", (GO_ON,), "steps_limit", 1, "stop_limit", {"turns": 1}),
    Ending("max-turns-of-none", (), "steps_limit", 0, "stop_limit", {"turns": 0}),
    Ending("finished-in-the-last-turn", (GO_ON, FINISHED), "completed", 2, "stop_success", {"turns": 2}),
]  # fmt: skip


@pytest.mark.parametrize("case", ENDINGS, ids=lambda case: case.id)
def test_how_it_terminates(case: Ending) -> None:
    run = ran(*case.replies, limits=dict(case.limits))
    assert (run.result.reason, run.state) == (case.reason, case.state)
    assert visits(run, "call_llm") == case.turns
    assert run.replay().same


def test_the_status_becomes_finished_for_either_word() -> None:
    for word in ("Finished", "Finalized"):
        run = ran(FINISHED.replace("Finished", word))
        assert run.facts.vars["progress"] == "Finished"
        assert run.status == "completed"


def test_the_limit_of_turns_is_looked_at_before_each_turn() -> None:
    run = ran(GO_ON, GO_ON, limits={"turns": 2})
    assert visits(run, "turn_start") == 3
    assert [r.next for r in run.records if "turn_start.else" in r.taken] == ["stop_limit"]


# The "Updates" Mechanism ------------------------------------------------------------------------


UPDATE = "<STATE_UPDATE>\nCurrent Approach: by hand\nStatus: Almost\n</STATE_UPDATE>"


class Update(NamedTuple):
    """One turn, and the state that it leaves: approach, status, the run's own status."""

    id: str
    reply: str
    approach: str
    progress: str
    status: str


UPDATES = [
    Update("no-code", UPDATE, "by hand", "Almost", "running"),
    Update("code-that-succeeds", code("x = 1", UPDATE), "by hand", "Almost", "running"),
    Update("code-that-raises", code("1 / 0", UPDATE), "", "Debugging", "debugging"),
    Update("code-that-is-none", code("x = = 1", UPDATE), "", "Debugging", "debugging"),
    Update("no-update", GO_ON, "", "Running", "running"),
    Update("an-update-that-says-nothing", "<STATE_UPDATE></STATE_UPDATE>", "", "Running", "running"),
    Update("an-update-without-its-end", UPDATE.replace("</STATE_UPDATE>", ""), "", "Running", "running"),
    Update("only-the-approach", "<STATE_UPDATE>\nCurrent Approach: by hand\n</STATE_UPDATE>", "by hand", "Running", "running"),
    Update("empty-content", "", "", "Running", "running"),
]  # fmt: skip


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: case.id)
def test_what_a_turn_leaves(case: Update) -> None:
    run = load("executive").start("Find x.", script=[case.reply], clock=ManualClock(1000))
    while run.state != "save_turn":
        run.advance()
    held = run.facts.vars
    assert (held["approach"], held["progress"], run.status) == (
        case.approach, case.progress, case.status,
    )  # fmt: skip


class Fences(NamedTuple):
    """The blocks of a reply, the code that is run, and the warning."""

    id: str
    reply: str
    runs: str
    warned: str = ""


FENCES = [
    Fences("one", code("x = 1"), "x = 1"),
    Fences("two", code("x = 1") + "\n" + code("y = 2"), "x = 1", "the reply has 2 `python` blocks, the first was read"),
    Fences("without-a-language", "```\nx = 1\n```", "", "the reply has no `python` block, and 1 other block: not read"),
    Fences("of-another-language", "```json\n{}\n```\n```\n1\n```", "", "the reply has no `python` block, and 2 other blocks: not read"),
    Fences("code-and-another", "```json\n{}\n```\n" + code("x = 1"), "x = 1"),
    Fences("none", "x = 1", ""),
]  # fmt: skip


@pytest.mark.parametrize("case", FENCES, ids=lambda case: case.id)
def test_what_is_code(case: Fences) -> None:
    run = ran(case.reply, FINISHED)
    assert visits(run, "run_code") == bool(case.runs)
    (first, *_) = [r.outcome for r in run.records if r.state == "parse_response" and r.outcome]
    assert first.result["code"] == case.runs
    assert first.warnings == ((f"`vars.code`: {case.warned}",) if case.warned else ())
    assert [w for w in run.result.warnings if "vars.code" in w] == list(first.warnings)


def test_code_that_takes_too_long_forces_debugging_and_what_it_printed_is_evidence() -> None:
    run = load("executive").start(
        "Find x.", script=[code("print('so far')\nwhile True: pass", UPDATE), FINISHED],
        limits={"code_time": 2.0},
    )  # fmt: skip
    while run.state != "save_turn":
        run.advance()
    assert (run.facts.vars["progress"], run.status) == ("Debugging", "debugging")
    run.run()
    assert (
        "Turn 1: the code failed.\nso far\npython took too long: stopped after 2.0 s"
        in (asked(run)[1]["user"])
    )


def test_debugging_sticks_until_an_update_succeeds() -> None:
    run = load("executive").start(
        "Find x.", script=[code("1 / 0"), code("y"), code("x = 1"), FINISHED], clock=ManualClock(1)
    )
    seen: dict[int, set[str]] = {}
    while run.advance() is not None:
        seen.setdefault(visits(run, "call_llm"), set()).add(run.status)
    assert seen[1] == {"running", "debugging"}
    assert seen[2] == {"debugging"}  # the whole of the next turn
    assert seen[3] == {"debugging", "running"}
    assert run.status == "completed"


# Code Execution ---------------------------------------------------------------------------------


class Evidence(NamedTuple):
    """Code, and what the next turn is told of it."""

    id: str
    text: str
    told: tuple[str, ...]


EVIDENCE = [
    Evidence("stdout", "print('out')", ("Turn 1: the code ran.\nout\n",)),
    Evidence("stderr", "import sys\nprint('err', file=sys.stderr)", ("Turn 1: the code ran.\nerr\n",)),
    Evidence("nothing", "x = 1", ("Turn 1: the code ran.\n",)),
    Evidence("exception", "print('out')\n1 / 0", ("Turn 1: the code failed.\nout\n", "ZeroDivisionError: division by zero")),
    Evidence("both-and-exception", "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1 / 0", ("out\nerr\nTraceback", "ZeroDivisionError")),
    Evidence("syntax", "x = = 1", ("Turn 1: the code failed.\n", "SyntaxError")),
    Evidence("restricted-files", "open('/etc/passwd')", ("Turn 1: the code failed.\n", "Error")),
    Evidence("restricted-packages", "import subprocess", ("Turn 1: the code failed.\n", "Error")),
]  # fmt: skip


@pytest.mark.parametrize("case", EVIDENCE, ids=lambda case: case.id)
def test_what_code_prints_and_raises_is_fed_back(case: Evidence) -> None:
    _, second = asked(ran(code(case.text), FINISHED))
    for text in case.told:
        assert text in second["user"]


def test_evidence_of_every_turn_is_kept_and_variables_live_on() -> None:
    run = ran(code("x = 41"), code("print(x + 1)"), FINISHED)
    last = asked(run)[-1]["user"]
    assert "Turn 1: the code ran.\n" in last
    assert "Turn 2: the code ran.\n42\n" in last
    assert run.result.output["evidence"] == list(run.facts.vars["evidence"])


def test_the_time_limit_of_code_is_sixty_seconds() -> None:
    machine = load("executive")
    assert machine.spec.limits["code_time"].value == 60.0
    assert str(getattr(machine.spec.states["run_code"].within, "text", "")) == "limits.code_time"


def test_the_model_that_it_names_is_gemini() -> None:
    assert load("executive").spec.model["name"].startswith("gemini/")


# Save Turn to Store -----------------------------------------------------------------------------


def test_every_turn_is_written_to_the_store(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    ran(GO_ON, FINISHED, journal=journal, run_id="r")
    kept = load("executive").open("r", journal=journal)
    saved = [r for r in kept.records if r.state == "save_turn"]
    assert len(saved) == 2
    assert kept.facts.vars["progress"] == "Finished"


def test_a_run_that_is_killed_goes_on_with_the_turn_that_was_saved() -> None:
    journal, replies = MemoryJournal(), [code("x = 41"), code("print(x + 1)"), FINISHED]
    machine = load("executive")
    with pytest.raises(Crashed):
        machine.run("Find x.", script=replies, journal=CrashAt(journal, 14), run_id="r", clock=ManualClock(1000))  # fmt: skip
    run = machine.open("r", journal=journal, script=replies, clock=ManualClock(2000))
    assert visits(run, "save_turn") >= 1
    result = run.run()
    assert result.reason == "completed"
    assert result.output["evidence"][-1] == "Turn 2: the code ran.\n42\n"


# what the document is silent about --------------------------------------------------------------


def test_a_model_call_that_fails_ends_the_run_with_its_error() -> None:
    run = ran({"error": {"category": "CRITICAL", "message": "no such key"}})  # pyright: ignore[reportArgumentType]  a scripted failure
    assert (run.result.reason, run.result.kind) == ("error", "error")
    assert run.result.errors[0]["message"] == "no such key"


def test_a_failed_call_is_made_once_more_and_is_no_turn() -> None:
    busy = {"error": {"category": "TRANSIENT", "message": "busy"}}
    run = load("executive").start("Find x.", script=[GO_ON, busy, FINISHED], clock=ManualClock())
    assert run.run().reason == "completed"
    assert (visits(run, "call_llm"), visits(run, "parse_response")) == (3, 2)
    again = load("executive").start("Find x.", script=[GO_ON, busy, busy], clock=ManualClock())
    assert again.run().reason == "error"
