"""`resume_at`: where the next run of a conversation may begin, and what every proof makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chartloop import Machine, diff, load, tool
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import examine
from chartloop.core.errors import RunError

FILE = """\
chartloop: 1
machine: m
model: {name: scripted, context_window: 1000}
tools: [mail]
data: {mail: {sends: out}}
inputs: {task: {from: trusted}}
vars: {note: ""}
limits: {steps: 9}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
resume_at: [review]
states:
  ask: {do: receive, set: {vars.note: '""'}, next: think}
  think: {do: infer, allow: [], save: {vars.note: result.text}, next: done}
  review: {do: receive, next: judge}
  judge: {do: infer, allow: [], next: send}
  send: {do: tool, with: {name: mail, arguments: {text: "{{ vars.note }}"}}, next: done}
  done: {stop: completed}
"""
ALONE = FILE.replace("resume_at: [review]\n", "")
SHORT = "".join(
    line
    for line in ALONE.splitlines(True)
    if line.split(":")[0].strip() not in ("review", "judge", "send")
)


@tool
def mail(text: str) -> str:
    """Send."""
    return text


def machine(text: str = FILE) -> Machine:
    return load(text, tools=[mail])


def test_the_next_run_begins_there() -> None:
    first = machine().start("One.", script=["A plan."])
    first.run()
    after = first.next("Two.", start="review", script=["Fine."])
    result = after.run()
    assert result.path == ("review", "judge", "send", "done")
    assert [m["content"] for m in after.messages] == ["One.", "A plan.", "Two.", "Fine."]
    assert after.replay().same


def test_a_run_from_a_journal_goes_on_there(tmp_path: Path) -> None:
    journal = SqliteJournal(f"{tmp_path}/j.db")
    first = machine().start("One.", script=["A plan."], journal=journal)
    first.run()
    after = machine().start(
        "Two.", continues=first.id, start="review", script=["Fine."], journal=journal
    )
    after.run()
    assert machine().open(after.id, journal=journal).result.path[0] == "review"


@pytest.mark.parametrize(
    ("text", "start", "said", "hint"),
    [
        (FILE, "judge", "machine `m` does not let a run begin at `judge`", "its `resume_at` lists `review`"),
        (FILE, "nowhere", "machine `m` does not let a run begin at `nowhere`", "its `resume_at` lists `review`"),
        (SHORT, "think", "machine `m` does not let a run begin at `think`", "its `resume_at` lists no state"),
    ],
)  # fmt: skip
def test_another_state_is_refused(text: str, start: str, said: str, hint: str) -> None:
    first = examined(text).start("One.", script=["A plan.", "B", "C"])
    first.run()
    with pytest.raises(RunError, match=said) as error:
        first.next("Two.", start=start)
    assert error.value.hint == hint


def examined(text: str) -> Machine:
    report = examine(text, tools=[mail])
    assert report.machine is not None
    return report.machine


NEVER = SHORT.replace("states:", "continues: never\nstates:", 1)


def test_a_file_may_allow_no_next_run(tmp_path: Path) -> None:
    journal = SqliteJournal(f"{tmp_path}/j.db")
    first = load(NEVER, tools=[mail]).start("One.", script=["A plan.", "B"], journal=journal)
    first.run()
    again = "no run of machine `m` continues another: its file says `continues: never`"
    with pytest.raises(RunError, match=again):
        first.next("Two.")
    for branch in (False, True):
        with pytest.raises(RunError, match=again):
            first.machine.start(
                "Two.", continues=first.id, journal=journal, script=[], branch=branch
            )


def test_no_next_run_begins_at_a_state() -> None:
    both = examine(FILE.replace("resume_at:", "continues: never\nresume_at:"), tools=[mail])
    assert "CL304" in [f.code for f in both.findings]
    assert "continues" in str(diff(examined(SHORT), examined(NEVER)))


def test_only_what_continues_begins_there() -> None:
    with pytest.raises(RunError, match="only a run that continues another begins at `review`"):
        machine().start("One.", start="review")
    assert machine().start("One.", start="ask", script=[""]).state == "ask"


def test_what_only_leads_on_from_there_is_reached() -> None:
    assert [f.code for f in examine(FILE, tools=[mail]).findings] == []
    assert {f.code for f in examine(ALONE, tools=[mail]).findings} >= {"CL304"}
    unknown = examine(FILE.replace("[review]", "[revew]"), tools=[mail]).findings
    assert "CL301" in [f.code for f in unknown]


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        ("never judge", False), ("never judge before think", False), ("never tool:mail", False),
        ("never tool:mail before judge", True), ("never think before ask", True),
        ("never review before judge", False), ("never judge before review", True),
        ("no flow untrusted to mail", True), ("no flow input:task to mail", False),
    ],
)  # fmt: skip
def test_queries_take_it_as_an_entry(query: str, holds: bool) -> None:
    found = machine().query(query)
    assert found.holds is holds, found.reason
    if query == "never judge":
        assert found.witness == ("review", "judge")


def test_its_flow_begins_with_what_the_run_before_left() -> None:
    found = machine().query("no flow input:task to mail")
    assert found.reason.endswith("→ `vars.note` after `think` → in the next run tool `mail`")


def test_bounds_and_certificates_count_from_it(tmp_path: Path) -> None:
    longest = machine().bound().to_dict()["bounds"]["actions"]
    assert (longest["value"], longest["witness"]["path"][0]) == (3, "review")
    run = machine().start("One.", script=["A plan."], journal=tmp_path / "j.db")
    run.run()
    assert run.certificate is not None
    assert run.certificate["bounds"]["actions"]["value"] == 3


def test_it_is_written_back_compared_and_drawn() -> None:
    made = machine()
    assert load(made.canonical(), tools=[mail]).spec.resume_at == ("review",)
    assert "resume_at" in str(diff(examined(SHORT), made))
    boxes = {box.id: box for box in made.draw().chart.boxes}
    assert [name for name, box in boxes.items() if box.entry] == ["ask", "review"]
