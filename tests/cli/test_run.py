"""`chartloop run`: what it prints where, its exit codes, its options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.shell import ADD, ADDER, ADDS, ASK, Shell, program

RESULT = [
    "run", "machine", "reason", "kind", "success", "forced", "status", "phase", "state", "steps", "usage",
    "elapsed", "output", "question", "wait", "signals", "warnings", "errors", "partial", "path",
    "timeline", "profile", "metadata", "last_activity", "moved_to",
]  # fmt: skip
"""The public shape. Source: design "language", section 11."""


def test_only_the_result_is_on_stdout(sh: Shell) -> None:
    done = sh("run", *ADD)
    assert done.out == "It is 5.\n"
    assert done.code == 0
    assert "Done at" in done.err
    assert f"run {sh.last()} · journal .chartloop/journal.db" in done.err
    assert "2 model calls, 135 tokens, cost unknown" in done.err
    assert "adding\n" in done.err  # what a tool prints is not a result


def test_json_has_the_public_shape(sh: Shell) -> None:
    told = sh("run", *ADD, "--format", "json").json
    assert list(told) == RESULT
    assert told["path"] == ["receive", "think", "act", "think", "done"]
    assert told["usage"]["calls"] == {"add": 1}
    assert (told["output"], told["kind"], told["success"]) == ("It is 5.", "natural", True)


def test_json_lines_are_the_events_and_then_the_result(sh: Shell) -> None:
    done = sh("run", *ADD, "--format", "jsonl", "-v")
    events = [line["event"] for line in done.lines]
    assert events[0] == "recorded"
    assert events[-1] == "result"
    assert list(done.lines[-1]) == ["event", *RESULT]
    recorded = [line for line in done.lines if line["event"] == "recorded"]
    assert [r["seq"] for r in recorded] == [0, 1, 2, 3, 4]
    assert "".join(x["text"] for x in done.lines if x["event"] == "delta") == "Let me add.It is 5."
    assert "  3  act  call_tools ok  → think" in done.err


def test_verbose_says_a_line_for_each_record(sh: Shell) -> None:
    err = sh("run", *ADD, "-v").err
    assert "  2  think  infer ok, calls add  → act  (len(last.tool_calls) > 0)\n" in err
    assert "  4  think  infer ok  → done\n" in err


class End(NamedTuple):
    """A run that ends in some way, and its exit code."""

    id: str
    args: tuple[str, ...]
    code: int
    kind: str


ENDS = [
    End("natural", ADD, 0, "natural"),
    End("limit", (*ADD, "--limit", "steps=2"), 3, "limit"),
    End("limit-of-tokens", (*ADD, "--limit", "tokens=60"), 3, "limit"),
    End("waits", (*ASK, "--no-input"), 4, "waiting"),
    End("person", (*ASK, "--clock", "simulated"), 5, "human"),
    End("error", ("adder.yaml", "x", "--tools", "tools.py", "--script", "fails.yaml"), 1, "error"),
]


@pytest.mark.parametrize("case", ENDS, ids=lambda case: case.id)
def test_the_exit_code_is_that_of_the_kind(sh: Shell, case: End) -> None:
    sh.write("fails.yaml", "replies: [{error: {category: CRITICAL, message: no such key}}]\n")
    done = sh("run", *case.args, "--format", "json")
    assert (done.json["kind"], done.code) == (case.kind, case.code)


def test_a_definition_may_be_replaced(sh: Shell) -> None:
    done = sh("run", *ADD, "--define", "long=run.steps >= 3", "--format", "json")
    assert (done.json["reason"], done.code) == ("time_limit", 3)


def test_the_task_may_come_from_stdin(sh: Shell) -> None:
    told = sh("run", "adder.yaml", "-", *ADD[2:], stdin="two and\nthree\n")
    assert told.code == 0
    assert "task    two and" in sh("show", "last").out


def test_the_task_keeps_what_a_shell_gave_it(sh: Shell) -> None:
    sh("run", "adder.yaml", "--tools", "tools.py", "--script", "adds.yaml", "--", "--help me")
    assert "--help me" in sh("show", "last").out


def test_values_are_read_by_their_types(sh: Shell) -> None:
    given = ("--limit", "tokens=5_000", "--var", "approach=12", "--var", "tries=7")
    assert sh("run", *ADD, *given, "--run-id", "typed", "--agent", "a", "--session", "s").code == 0
    first = sh("show", "typed", "--format", "json").json["records"][0]["data"]
    assert first["limits"] == {"tokens": 5000}
    assert first["vars"] == {"approach": "12", "tries": 7}
    assert (first["agent"], first["session"]) == ("a", "s")


def test_a_run_in_memory_leaves_nothing(sh: Shell) -> None:
    done = sh("run", *ADD, "--in-memory")
    assert "kept in memory only" in done.err
    assert not (sh.folder / ".chartloop").exists()
    waits = sh("run", *ASK, "--in-memory")
    assert waits.code == 4
    assert "it is gone" in waits.err


def test_a_run_id_is_given_once(sh: Shell) -> None:
    assert sh("run", *ADD, "--run-id", "mine").code == 0
    again = sh("run", *ADD, "--run-id", "mine")
    assert again.code == 1
    assert "there is a run `mine` already" in again.err


def test_another_journal(sh: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    sh("run", *ASK, "--journal", "deep/er/j.db", "--run-id", "there")
    assert sh("runs", "--journal", "deep/er/j.db", "--format", "json").json[0]["run"] == "there"
    assert sh("runs", "--format", "json").json == []
    monkeypatch.setenv("CHARTLOOP_JOURNAL", "deep/er/j.db")
    assert sh("runs", "--format", "json").json[0]["run"] == "there"


def test_what_is_recorded_survives_what_was_asked_for(
    sh: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "kept through the loss of power"
    assert said not in sh("run", *ADD).err
    monkeypatch.setenv("CHARTLOOP_DURABILITY", "power")
    assert said in sh("run", *ASK, "--run-id", "asks").err
    assert sh("pause", "asks").code == 0
    assert said in " ".join(sh("doctor").out.split())
    assert said not in sh("run", *ADD, "--in-memory").err
    monkeypatch.setenv("CHARTLOOP_DURABILITY", "disk")
    wrong = sh("run", *ADD)
    assert (
        wrong.code,
        "CHARTLOOP_DURABILITY` is 'disk', which is not one of: process, power" in wrong.err,
    ) == (2, True)


def test_the_nearest_folder_with_a_journal_is_used(
    sh: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    sh("run", *ADD, "--run-id", "above")
    (sh.folder / "below").mkdir()
    monkeypatch.chdir(sh.folder / "below")
    assert sh("runs", "--format", "json").json[0]["run"] == "above"


def test_a_wait_says_the_lines_that_answer_it(sh: Shell) -> None:
    done = sh("run", *ASK, "--run-id", "w", "--journal", "j.db")
    assert done.code == 4
    assert done.out == ""
    assert "Is forty-one right?" in done.err
    assert (
        "  chartloop answer w fix note=STR count=INT sure=BOOL --wait 3 --journal j.db\n"
        in done.err
    )
    assert "  chartloop answer w abort --wait 3 --journal j.db\n" in done.err
    assert "then:  chartloop resume w --journal j.db\n" in done.err


def test_partial_results_are_results(sh: Shell) -> None:
    sh.write(
        "hi.yaml",
        """\
replies:
  - tool_calls: [{name: send_message, arguments: {message: working on it}}]
  - done
""",
    )
    assert sh("run", "agent", "x", "--script", "hi.yaml").out == "working on it\ndone\n"


REPORTS = """\
chartloop: 1
machine: reports
model: {name: scripted}
vars: {urgency: 0}
output: {urgency: vars.urgency}
states:
  mail: {do: receive, next: read}
  read: {do: infer, with: {output: {type: object, properties: {urgency: {type: integer}}, required: [urgency]}}, save: {vars.urgency: result.data.urgency}, next: told}
  told: {do: report, with: {partial: true}, next: done}
  done: {stop: completed}
"""


def test_with_an_output_stdout_has_nothing_else(sh: Shell) -> None:
    sh.write("reports.yaml", REPORTS)
    sh.write("four.yaml", "replies: ['{\"urgency\": 4}']\n")
    done = sh("run", "reports.yaml", "x", "--script", "four.yaml", "--run-id", "r1")
    assert json.loads(done.out) == {"urgency": 4}
    assert "# Report: reports" in done.err
    again = sh("resume", "r1")
    assert json.loads(again.out) == {"urgency": 4}
    as_json = sh("run", "reports.yaml", "x", "--script", "four.yaml", "--format", "json").json
    assert as_json["partial"][0].startswith("# Report: reports")


# scripts ------------------------------------------------------------------------------------


def test_a_script_may_send_events(sh: Shell) -> None:
    events = "events:\n  - {after: 3, send: fix, data: {note: no, count: 2, sure: true}}\n"
    sh.write(
        "all.yaml", (sh.folder / "guesses.yaml").read_text() + events + "  - {after: 5, send: ok}\n"
    )
    told = sh("run", "asker.yaml", "q", "--script", "all.yaml", "--format", "json").json
    assert told["reason"] == "completed"
    assert told["path"].count("wait") == 2


class Script(NamedTuple):
    """A script that is wrong, and what is said of it."""

    id: str
    text: str
    says: str
    where: str = ""


SCRIPTS = [
    Script("too-few", "replies: [Let me think.]\n", "the script has too few replies"),
    Script("left-over", ADDS + "  - never\n", "1 reply was never asked for"),
    Script("syntax", "replies: [\n", "error[CL001]"),
    Script("key", "reply: []\n", "did you mean `replies`?", "bad.yaml:1:1"),
    Script(
        "no-mapping", "just text\n", "a script is a mapping", "write `replies: [...]`, or a list"
    ),
    Script("reply", "replies: [{txt: x}]\n", "unknown field `txt`: did you mean `text`?"),
    Script(
        "event",
        "replies: []\nevents:\n  - {send: x}\n",
        "`events.0` lacks the key `after`",
        "bad.yaml:3:5",
    ),
    Script("event-key", "events: [{aftr: 1, send: x}]\n", "did you mean `after`?", "bad.yaml:1:11"),
    Script(
        "event-of-two",
        "events: [{after: 1, send: x, cancel: y}]\n",
        "an event has one of `send`, `cancel`",
        "bad.yaml:1:10",
    ),
    Script("tag", "!!python/object/apply:os.system [ls]\n", "CL003"),
]


@pytest.mark.parametrize("case", SCRIPTS, ids=lambda case: case.id)
def test_a_script_that_is_wrong(sh: Shell, case: Script) -> None:
    sh.write("bad.yaml", case.text)
    sh.write("plain.yaml", ADDER.replace("len(last.tool_calls) > 0", 'last.finish_reason == "x"'))
    machine = "looper.yaml" if case.id == "too-few" else "adder.yaml"
    done = sh("run", machine, "x", "--tools", "tools.py", "--script", "bad.yaml")
    assert case.says in done.err
    assert case.where in done.err
    assert done.code == 1


def test_a_run_that_broke_off_can_go_on(sh: Shell) -> None:
    sh.write("short.yaml", "replies: [hm]\n")
    done = sh("run", "looper.yaml", "x", "--script", "short.yaml", "--run-id", "r")
    assert done.code == 1
    assert "run r can continue:  chartloop resume r" in done.err
    sh.write("short.yaml", "replies: [hm, enough]\n")
    assert sh("resume", "r").out == "enough\n"


def test_a_run_that_was_cut_short_may_leave_replies(sh: Shell) -> None:
    assert sh("run", *ADD, "--limit", "steps=2").code == 3


# findings -----------------------------------------------------------------------------------


def test_a_file_with_mistakes_shows_all_of_them_and_runs_nothing(sh: Shell) -> None:
    sh.write(
        "bad.yaml", ADDER.replace("run.steps >= l", "run.stps >= l").replace("to: done", "to: dne")
    )
    done = sh("run", "bad.yaml", "x", *ADD[2:])
    assert done.code == 1
    assert done.out == ""
    assert "did you mean `run.steps`?" in done.err
    assert "did you mean `done`?" in done.err
    assert " --> bad.yaml:19:14\n19 |       - {to: dne}\n   |              ^^^\n" in done.err
    assert done.err.endswith(f"\n\n{done.err.count('error[')} errors in bad.yaml\n")


TRUST = """\
chartloop: 1
machine: far
model: {name: openai/x, api_base: "http://127.0.0.1:9/v1"}
limits: {steps: 5}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  think: {do: infer, next: done}
  done: {stop: completed}
"""


def test_a_file_that_names_a_host_must_be_trusted(sh: Shell) -> None:
    sh.write("far.yaml", TRUST)
    sh.write("one.yaml", "replies: [hello]\n")
    refused = sh("run", "far.yaml", "x", "--script", "one.yaml")
    assert refused.code == 2
    assert (
        "error[CL324]: far.yaml sends the conversation to the host `http://127.0.0.1:9/v1`"
        in refused.err
    )
    assert "--trust" in refused.err
    assert sh("run", "far.yaml", "x", "--script", "one.yaml", "--trust").out == "hello\n"


def test_a_real_process_gives_the_same(sh: Shell) -> None:
    done = program("run", *ADD, "--format", "json", cwd=sh.folder)
    assert done.code == 0
    assert done.json["path"] == sh("run", *ADD, "--format", "json").json["path"]


# nothing is left of what could not begin -----------------------------------------------------


class Fault(NamedTuple):
    """A command that fails before the first record."""

    id: str
    args: tuple[str, ...]
    says: str


FAULTS = [
    Fault("model", ("run", "adder.yaml", "x", "--tools", "tools.py"), "names no model"),
    Fault("limit", ("run", *ADD, "--limit", "stps=3"), "did you mean `steps`?"),
    Fault("variable", ("run", *ADD, "--var", "tries=many"), "`tries`"),
    Fault("script", ("run", *ADD[:-1], "bad.yaml"), "unknown field `txt`"),
    Fault("step", ("step", *ADD, "--limit", "stps=3"), "did you mean `steps`?"),
    Fault("inputs", ("run", *ADD[:1], *ADD[2:], "--inputs", "in.jsonl"), "no limit `stps`"),
]


@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.id)
def test_what_cannot_begin_leaves_no_journal(sh: Shell, case: Fault) -> None:
    sh.write("adder.yaml", ADDER.replace("model: {name: scripted}\n", ""))
    sh.write("bad.yaml", "replies: [{txt: x}]\n")
    sh.write("in.jsonl", '{"task": "x", "limits": {"stps": 3}}\n')
    done = sh(*case.args)
    assert done.code != 0
    assert case.says in done.err + done.out
    assert not (sh.folder / ".chartloop").exists()


def test_files_go_with_the_task(sh: Shell, tmp_path: Path) -> None:
    picture, table = tmp_path / "a.gif", tmp_path / "t.csv"
    picture.write_bytes(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;")
    table.write_text("x,y\n1,2\n")
    done = sh("run", *ADD, "--file", str(picture), "--file", str(table))
    assert (done.code, done.out) == (0, "It is 5.\n")
    told = sh("show", "last", "--format", "json").json
    assert [part["type"] for part in told["records"][0]["data"]["files"]] == ["image_url", "text"]
    assert sh("replay", "last").code == 0


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("gone.png", None, "cannot be read"),
        ("empty.png", b"", "is empty"),
        ("a.bin", b"\0\1", "is not a kind of file that models read"),
    ],
    ids=["gone", "empty", "odd"],
)
def test_a_file_that_cannot_be_sent_is_named_before_the_run(
    sh: Shell, tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = sh("run", *ADD, "--file", str(tmp_path / name))
    assert done.code != 0
    assert said in done.err
    assert "help:" in done.err
    assert not sh("runs").out.count("completed")


GIVES_UP = """\
chartloop: 1
machine: triage
model: {name: scripted}
tools: [give_up]
limits: {steps: 9}
vars: {urgency: 0, seen: 0}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  mail: {do: receive, next: read}
  read: {do: infer, next: act}
  act: {do: call_tools, next: done}
  done: {stop: completed}
"""
STOPS = '''\
from chartloop import AgentStop, tool


@tool(effect="pure")
def give_up(why: str) -> str:
    """Give up."""
    raise AgentStop(why, reason=None if why == "lost" else "completed")
'''


@pytest.mark.parametrize(
    ("why", "output", "code", "out"),
    [
        ("lost", "vars.urgency", 3, ""),  # nothing was saved: 0 is no result
        ("lost", "{u: vars.urgency, s: vars.seen}", 3, ""),
        ("lost", "run.steps", 3, "3\n"),
        ("found", "vars.urgency", 0, "0\n"),
    ],
)
def test_giving_up_is_no_success_and_start_values_are_no_result(
    sh: Shell, why: str, output: str, code: int, out: str
) -> None:
    sh.write("m.yaml", GIVES_UP + f"output: {output}\n")
    sh.write("t.py", STOPS)
    reply = f"[{{tool_calls: [{{name: give_up, arguments: {{why: {why}}}}}]}}]"
    sh.write("r.yaml", reply)
    done = sh("run", "m.yaml", "Down!", "--tools", "t.py", "--script", "r.yaml")
    assert (done.code, done.out) == (code, out), done.err
