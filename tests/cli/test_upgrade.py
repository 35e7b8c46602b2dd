"""`chartloop upgrade`, and going on with a changed file: verdicts, state maps, messages, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.shell import Shell

DESK = """\
chartloop: 1
machine: desk
limits: {steps: 10}
vars: {drafts: 0}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  topic: {do: receive, next: draft}
  draft: {do: nothing, set: {vars.drafts: vars.drafts + 1}, next: approve}
  approve: {ask: "Publish it?", on: {yes: done, no: draft}}
  done: {stop: completed}
"""
NEW = DESK.replace("draft:", "write:").replace("next: draft}", "next: write}").replace(
    "no: draft", "no: write"
).replace("yes: done", "yes: second").replace(
    "  done:", '  second: {ask: "You too?", on: {yes: done}}\n  done:'
)  # fmt: skip


@pytest.fixture
def desk(sh: Shell) -> Shell:
    """Two runs of `desk.yaml`: `ended` is over, `waits` waits at `approve`."""
    sh.write("desk.yaml", DESK)
    sh.write("new.yaml", NEW)
    for name in ("ended", "waits"):
        sh("run", "desk.yaml", "A fair", "--run-id", name, "--no-input")
    sh("answer", "ended", "yes")
    sh("resume", "ended")
    return sh


def test_the_summary_then_the_table_then_each_run(desk: Shell) -> None:
    done = desk("upgrade", "desk.yaml", "new.yaml")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0] == "desk: 2 runs, 1 needs a state map, 1 unsafe"
    assert [line.split()[0] for line in lines[2:5]] == ["verdict", "unsafe", "needs"]
    assert "needs a state map: waits" in lines
    assert "  renamed  draft: write" in lines
    assert "edge `approve.on.yes` leads to `second` instead of `done` (desk.yaml:10" in done.out
    assert "cure     the run is over" in done.out


def test_json_says_all_of_it(desk: Shell) -> None:
    told = desk("upgrade", "-", "new.yaml", "--format", "json").json
    assert (told["machine"], told["all_go_on"], told["renamed"]) == (
        "desk",
        False,
        {"draft": "write"},
    )
    runs = {run["run"]: run for run in told["runs"]}
    assert (runs["waits"]["verdict"], runs["waits"]["goes_on"]) == ("map", False)
    assert runs["ended"]["cause"] | {"what": ""} == {
        "what": "", "cure": "the run is over: it is read with the machine that it was started with",
        "record": 3, "file": "new.yaml", "line": 10, "column": 43,
    }  # fmt: skip


def test_the_map_is_written_and_then_the_run_may_go_on(desk: Shell) -> None:
    told = desk("upgrade", "desk.yaml", "new.yaml", "--unfinished", "--write-map", "-")
    assert (told.code, told.out) == (1, "renamed:\n  draft: write\n")
    desk("upgrade", "desk.yaml", "new.yaml", "--write-map", "map.yaml")
    assert Path("map.yaml").read_text() == told.out
    desk.write("new.yaml", NEW + told.out)
    done = desk("upgrade", "desk.yaml", "new.yaml", "waits", "--write-map", "-")
    assert (done.code, done.out) == (0, "")
    assert "no run needs a state map" in done.err


def test_going_on_takes_answers_along_and_keeps_where_it_comes_from(desk: Shell) -> None:
    desk.write("new.yaml", NEW + "renamed: {draft: write}\n")
    desk("answer", "waits", "yes")
    done = desk("resume", "waits", "--machine", "new.yaml", "--use-new-file", "--no-input", "--format", "json")  # fmt: skip
    assert (done.code, done.json["state"]) == (4, "second")
    assert "run waits continues as run" in done.err
    assert "ahead: state `second` added" in done.err
    lines = desk("journal", "export", done.json["run"], "--to", "-").out.splitlines()
    first = json.loads(lines[1])
    assert first["data"]["upgraded"]["run"] == "waits"
    assert first["data"]["upgraded"]["verdict"] == "safe"
    assert not any('"draft"' in line for line in lines[2:])
    assert desk("replay", done.json["run"]).code == 0
    assert "waits, from record 3, with a changed file: safe" in desk("show", done.json["run"]).out


def test_a_changed_file_is_refused_with_its_verdict(desk: Shell) -> None:
    plain = desk("resume", "waits", "--machine", "new.yaml")
    assert plain.code == 1
    assert "needs a state map: `draft` is `write` now" in plain.err
    assert "put `renamed: {draft: write}` into new.yaml" in plain.err
    desk.write("new.yaml", DESK.replace("steps: 10", "steps: 9"))
    plain = desk("resume", "waits", "--machine", "new.yaml")
    assert "safe: every record is decided as it was" in plain.err
    assert "add --use-new-file" in plain.err
    desk.write("new.yaml", DESK.replace("steps: 10", "steps: 2"))
    told = desk("resume", "waits", "--machine", "new.yaml", "--use-new-file")
    assert "unsafe: record 2 at draft" in told.err
    assert "`chartloop fork waits --at 2 --machine new.yaml` starts before it" in told.err
    made = desk("fork", "waits", "--at", "2", "--machine", "new.yaml", "--format", "json")
    assert made.json["state"] == "draft"
    assert desk("replay", made.json["run"]).code == 0
    assert desk("fork", "waits", "--machine", "new.yaml").code == 1


def test_runs_of_other_machines_are_passed_over(desk: Shell) -> None:
    desk.write(
        "other.yaml",
        "chartloop: 1\nmachine: other\nstates: {a: {do: receive, next: z}, z: {stop: completed}}\n",
    )
    desk("run", "other.yaml", "x", "--run-id", "foreign")
    desk.write("new.yaml", DESK.replace("steps: 10", "steps: 9"))
    done = desk("upgrade", "desk.yaml", "new.yaml", "waits", "foreign")
    assert done.code == 0
    assert done.out.startswith("desk: 1 run, 1 safe")
    assert "run `foreign` is skipped: it is of another machine, `other`" in done.err
    nothing = desk("upgrade", "other.yaml", "new.yaml", "waits")
    assert (nothing.code, nothing.out) == (0, "desk: no recorded runs to judge\n")


def test_an_export_is_judged_as_a_journal(desk: Shell) -> None:
    Path("two.jsonl").write_text(
        desk("journal", "export", "waits", "--to", "-").out
        + desk("journal", "export", "ended", "--to", "-").out
    )
    done = desk("upgrade", "desk.yaml", "new.yaml", "two.jsonl")
    assert done.out.startswith("desk: 2 runs, 1 needs a state map, 1 unsafe")
    Path("bad.jsonl").write_text(Path("two.jsonl").read_text() + '{"seq": 9}\n')
    told = desk("upgrade", "desk.yaml", "new.yaml", "bad.jsonl", "--format", "json")
    assert [run["run"] for run in told.json["runs"]] == ["waits"]
    assert [one["run"] for one in told.json["passed_over"]] == ["ended"]
    assert "run `ended` is skipped" in told.err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("upgrade", "nothing.yaml", "new.yaml"), "nothing.yaml"),
        (("upgrade", "desk.yaml", "bad.yaml"), "bad.yaml cannot be compared"),
        (("upgrade", "desk.yaml", "new.yaml", "nobody"), "there is no run `nobody`"),
        (("upgrade", "-", "-"), "-"),
        (("upgrade", "desk.yaml", "own.yaml"), "`typeset` is your own action"),
        (("upgrade", "-", "class.yaml"), "`Topic` is your own class"),
        (
            ("upgrade", "desk.yaml", "new.yaml", "--write-map", "no/such/folder"),
            "cannot be written",
        ),
    ],
    ids=("no-file", "no-machine", "no-run", "no-new-file", "an-action", "a-class", "no-folder"),
)
def test_what_cannot_be_read(desk: Shell, args: tuple[str, ...], says: str) -> None:
    desk.write("own.yaml", DESK.replace("do: nothing", "do: typeset"))
    asks = DESK.replace("do: nothing", "do: infer, with: {output: Topic}")
    desk.write("class.yaml", asks.replace("limits:", "model: {name: scripted}\nlimits:", 1))
    desk.write("bad.yaml", "chartloop: 1\nmachine: desk\nstates: {a: {do: receive, next: b}}\n")
    done = desk(*args)
    assert done.code == 2
    assert says in done.err


def test_of_many_runs_the_worst_are_listed(desk: Shell) -> None:
    done = desk("upgrade", "desk.yaml", "new.yaml", "--first", "1")
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["verdict", "unsafe"]
    assert lines[4].startswith("and 1 more run: 1 needs a state map")
    assert "and 1 more verdict with other reasons" in lines
    assert len(desk("upgrade", "desk.yaml", "new.yaml", "--format", "json").json["runs"]) == 2


# a run moves once ---------------------------------------------------------------------------------

GATE = """\
chartloop: 1
machine: gate
model: {name: scripted}
tools: [refund]
approve: {tools: [refund], by: the lead}
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""
TOOLS = '''\
from pathlib import Path
from chartloop import tool


@tool
def refund(usd: float) -> str:
    """Refund."""
    with Path("refunds.log").open("a") as log:
        log.write(f"{usd}\\n")
    return "done"
'''
REPLIES = "replies:\n  - tool_calls: [{name: refund, arguments: {usd: 49}}]\n  - Refunded.\n"
MOVE = ("resume", "g1", "--machine", "gate2.yaml", "--use-new-file", "--tools", "tools.py", "--no-input")  # fmt: skip


@pytest.fixture
def gate(sh: Shell) -> Shell:
    """The run `g1` of `gate.yaml` waits for an approval; `gate2.yaml` asks the same."""
    sh.write("gate.yaml", GATE)
    sh.write("gate2.yaml", GATE.replace("steps: 20", "steps: 25"))
    sh.write("tools.py", TOOLS)
    sh.write("replies.yaml", REPLIES)
    done = sh(
        "run", "gate.yaml", "Refund me", "--tools", "tools.py", "--script", "replies.yaml",
        "--run-id", "g1", "--no-input",
    )  # fmt: skip
    assert done.code == 4
    return sh


def refunds() -> int:
    log = Path("refunds.log")
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_deploy_script_that_is_given_three_times_pays_once(gate: Shell) -> None:
    assert gate("answer", "g1", "accept", "by=eve").code == 0
    first, *again = [gate(*MOVE, "--format", "json") for _ in range(3)]
    assert [done.code for done in (first, *again)] == [0, 0, 0]
    assert {done.json["run"] for done in again} == {first.json["run"]}
    assert all(f"was moved before: it continues as run {first.json['run']}" in d.err for d in again)
    assert refunds() == 1
    old = gate("resume", "g1", "--tools", "tools.py", "--no-input")
    assert (old.code, refunds()) == (1, 1)
    assert f"error[CL623]: run `g1` continues as run `{first.json['run']}`" in old.err
    gate.write("gate3.yaml", GATE.replace("steps: 20", "steps: 30"))
    other = gate(*(arg.replace("gate2", "gate3") for arg in MOVE))
    assert (other.code, refunds()) == (1, 1)
    assert f"chartloop resume {first.json['run']}` continues it" in other.err
    assert "or back to the one before" in other.err


def test_a_moved_run_takes_no_message_and_is_in_no_list_of_waiting_runs(gate: Shell) -> None:
    done = gate(*MOVE, "--format", "json")
    assert done.code == 4
    new = done.json["run"]
    for args in (
        ("answer", "g1", "accept", "by=eve"), ("pause", "g1"), ("cancel", "g1"),
        ("enqueue", "g1", "x"),
    ):  # fmt: skip
        refused = gate(*args)
        assert refused.code == 1, args
        assert f"error[CL623]: run `g1` continues as run `{new}`" in refused.err, args
    assert [row["run"] for row in gate("runs", "--waiting", "--format", "json").json] == [new]
    rows = {row["run"]: row for row in gate("runs", "--format", "json").json}
    assert (rows["g1"]["status"], rows["g1"]["moved_to"]) == ("moved", new)
    assert rows[new]["moved_to"] is None
    moved = next(line for line in gate("runs").out.splitlines() if line.startswith("g1"))
    assert "→ moved to another" in moved
    assert f"now {new}" in moved
    assert f"→ moved to another run at approve: {new}" in gate("show", "g1").out
    assert gate("replay", "g1").code == 0
    told = gate(
        "upgrade", "-", "gate2.yaml", "--unfinished", "--tools", "tools.py", "--format", "json"
    )
    assert [run["run"] for run in told.json["runs"]] == [new]
    assert "1 not ended" in gate("doctor").out


def test_an_answer_to_another_question_stays_behind_and_that_is_said(gate: Shell) -> None:
    gate.write("gate2.yaml", GATE.replace("by: the lead", 'by: the lead, ask: "Really?"'))
    assert gate("answer", "g1", "accept", "by=eve").code == 0
    done = gate(*MOVE, "--format", "json")
    assert (done.code, refunds()) == (4, 0)
    assert "the answer `accept` stays behind: the new file does not ask the same" in done.err


def test_forks_pay_nothing_until_they_are_answered_anew(gate: Shell) -> None:
    assert gate("answer", "g1", "accept", "by=eve").code == 0
    for number, file in enumerate(((), ("--machine", "gate2.yaml", "--tools", "tools.py")) * 2):
        assert gate("fork", "g1", *file, "--run-id", f"f{number}").code == 0
        assert gate("resume", f"f{number}", "--tools", "tools.py", "--no-input").code == 4
    assert refunds() == 0
    waiting = gate("runs", "--waiting", "--format", "json").json
    assert {row["run"] for row in waiting} == {"g1", "f0", "f1", "f2", "f3"}
    assert gate("answer", "f1", "accept", "by=eve").code == 0
    assert gate("resume", "f1", "--tools", "tools.py", "--no-input").code == 0
    assert refunds() == 1
