"""`chartloop runs`, `show`, `why`: what is recorded, found and explained."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from contextlib import closing
from typing import NamedTuple

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.run.copies import PART
from chartloop.run.journal import RunRow
from chartloop.run.recorded import RecordedRun, read_export
from chartloop.run.sync import by_hand
from tests.cli.shell import ADD, ASK, Shell

ROW = [
    "run",
    "tenant",
    "machine",
    "priority",
    "status",
    "phase",
    "state",
    "at",
    "task",
    "message",
    "reason",
    "steps",
    "created",
    "duration",
    "updated",
    "wait",
    "question",
    "answers",
    "due",
    "tokens",
    "cost",
    "parked",
    "moved_to",
    "successor",
]
"""The public shape. Source: design "language", section 11."""


@pytest.fixture
def full(sh: Shell) -> Shell:
    """A journal with three runs."""
    sh("run", *ADD, "--run-id", "abc1", "--agent", "ann", "--session", "s1")
    sh("run", *ADD, "--run-id", "abd2", "--limit", "steps=2", "--agent", "bob")
    sh("run", *ASK, "--run-id", "wait3", "--session", "s1")
    return sh


def ids(sh: Shell, *filters: str) -> list[str]:
    return [r["run"] for r in sh("runs", "--format", "json", *filters).json]


def test_the_newest_run_is_first(full: Shell) -> None:
    told = full("runs", "--format", "json").json
    assert [list(row) for row in told] == [ROW] * 3
    assert [row["run"] for row in told] == ["wait3", "abd2", "abc1"]
    assert [row["reason"] for row in told] == [None, "steps_limit", "completed"]
    assert [row["status"] for row in told] == ["paused", "completed", "completed"]
    shown = full("runs").out.splitlines()
    assert " ".join(shown[0].split()).startswith("run task phase ended with, or asks")
    assert " ".join(shown[1].split()).startswith("wait3 What is 6 * 7? ? waits for someone")


def test_filters(full: Shell) -> None:
    assert ids(full, "--machine", "adder") == ["abd2", "abc1"]
    assert ids(full, "--status", "paused") == ["wait3"]
    assert ids(full, "--agent", "ann") == ["abc1"]
    assert ids(full, "--session", "s1") == ["wait3", "abc1"]
    assert ids(full, "--session", "s1", "--machine", "adder") == ["abc1"]
    assert ids(full, "--limit", "1") == ["wait3"]
    assert "--limit" in full("runs", "--limit", "2").err
    assert ids(full, "--machine", "other") == []


class Filter(NamedTuple):
    """Options, and the runs that they leave."""

    id: str
    options: str
    found: str


@pytest.mark.parametrize(
    "case",
    [
        Filter("waiting", "--waiting", "wait3"),
        Filter("waiting-of-a-machine", "--waiting --machine adder", ""),
        Filter("reason", "--reason steps_limit", "abd2"),
        Filter("reason-that-none-has", "--reason error", ""),
        Filter("begun-lately", "--since 1d", "wait3 abd2 abc1"),
        Filter("begun-in-between", "--since 100d --older 30d", "old"),
        Filter("not-active-for-long", "--older 100d", "older"),
    ],
    ids=lambda case: case.id,
)
def test_more_filters(full: Shell, case: Filter) -> None:
    aged(full, "older", 400)
    aged(full, "old", 40)
    assert ids(full, *case.options.split()) == case.found.split()


def test_what_waits_says_what_it_asks(full: Shell) -> None:
    [row] = full("runs", "--waiting", "--format", "json").json
    assert (row["question"], row["wait"]) == ("Is forty-one right?", "3")
    assert row["due"] > row["updated"]
    fields = {"count": "int", "note": "str", "sure": "bool"}
    assert row["answers"] == {"ok": {}, "fix": fields, "abort": {}}
    assert (row["tokens"] > 0, row["cost"]) == (True, None)


class Name(NamedTuple):
    """How a run is named, and which is meant."""

    id: str
    name: str
    means: str
    says: str = ""


NAMES = [
    Name("id", "abd2", "abd2"),
    Name("prefix", "abc", "abc1"),
    Name("last", "last", "wait3"),
    Name("several", "ab", "", "several runs start with `ab`: abd2, abc1"),
    Name("none", "abx1", "", "did you mean `abc1`?"),
    Name("far-off", "zzzzzz", "", "`chartloop runs` lists them"),
    Name("empty", "", "", "there is no run ``"),
    Name("pattern", "ab%", "", "there is no run `ab%`"),
]


@pytest.mark.parametrize("case", NAMES, ids=lambda case: case.id)
def test_a_run_is_named_by_id_prefix_or_last(full: Shell, case: Name) -> None:
    done = full("show", case.name, "--format", "json")
    if case.means:
        assert done.json["run"] == case.means
    else:
        assert done.code == 2
        assert case.says in done.err


def test_show(full: Shell) -> None:
    told = full("show", "abc1", "--format", "json").json
    assert [r["seq"] for r in told["records"]] == [0, 1, 2, 3, 4]
    assert told["kind"] == "natural"
    lines = [" ".join(line.split()) for line in full("show", "abc1").out.splitlines()]
    assert "run abc1 of adder (Adds)" in lines
    assert "ended ✓ done at done" in lines
    assert "path receive → think → act → think → done" in lines
    assert any(x.endswith(" act len(last.tool_calls) > 0") for x in lines)
    waits = full("show", "wait3").out.splitlines()
    assert "waits Is forty-one right?" in [" ".join(line.split()) for line in waits]


PARENT = """\
chartloop: 1
machine: p
machines: {c: {states: {z: {stop: completed}}}}
states:
  a: {do: run_machine, with: {machine: c}, next: b}
  b: {do: run_machines, with: {machine: c, each: '["m", "n"]'}, next: z}
  z: {stop: completed}
"""


def test_show_one_state_with_how_its_guards_came_out(sh: Shell) -> None:
    sh("run", *ADD, "--run-id", "r")
    assert sh("show", "r", "--state", "think").out == (
        "   ╭── [receive]\n"
        "   ├── [act]\n"
        "┏━━▼━━━━━━━━━━━┓\n"
        "┃ ▶ think      ┃\n"
        "┃   does infer ┃\n"
        "┗━━┯━━━━━━━━━━━┛\n"
        "   ├─ ✗ tool calls ─▶ [act]     0 against 0\n"
        "   ╰─ ✓ ────────────▶ (done)\n"
    )
    assert "did you mean `think`?" in sh("show", "r", "--state", "thikn").err
    assert sh("show", "r", "--state", "think", "--format", "json").code == 2


def test_show_names_the_children(sh: Shell) -> None:
    sh.write("p.yaml", PARENT)
    assert sh("run", "p.yaml", "--run-id", "r").code == 0
    shown = sh("show", "r").out.splitlines()
    assert [" ".join(line.split()) for line in shown if line.startswith("child")] == [
        "child r/a/0 of c: done",
        "child r/b/1/1 of c: done",
        "child r/b/1/2 of c: done",
    ]
    assert "child" not in sh("show", "r/a/0").out


def test_show_needs_no_tools_of_ones_own(full: Shell) -> None:
    (full.folder / "tools.py").unlink()
    (full.folder / "adder.yaml").unlink()
    assert full("show", "abc1").code == 0
    assert full("why", "abc1").code == 0
    assert full("replay", "abc1").code == 0


def test_a_path_and_a_table_fit_their_columns(full: Shell) -> None:
    table = full("show", "abc1").out.split("\n\n")[1]
    assert max(len(line) for line in table.splitlines()) <= 100


def test_show_says_what_failed_once_and_with_its_category(sh: Shell) -> None:
    sh.write("fails.yaml", "replies: [{error: {category: CRITICAL, message: no such key}}]\n")
    sh("run", *ADD[:4], "--script", "fails.yaml")
    lines = [" ".join(line.split()) for line in sh("show", "last").out.splitlines()]
    assert "ended ✗ failed at think: error" in lines
    assert "error CRITICAL: no such key (step 2, think)" in lines


def test_a_narrow_terminal_gets_fewer_columns(full: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "52")
    lines = full("runs").out.splitlines()
    assert lines[0].split() == ["run", "task", "phase", "started"]
    assert max(map(len, lines)) <= 52


# why ----------------------------------------------------------------------------------------


def test_why_shows_every_rule_and_edge_with_values_and_margins(full: Shell) -> None:
    out = full("why", "abc1", "--record", "2").out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "record 2 of run abc1: step at think"
    assert "✗ run.steps >= limits.steps 2 against 20 18 stop: steps_limit" in lines
    assert "✗ usage.total_tokens >= limits.tokens 60 against 1,000 940 stop: token_limit" in lines
    assert "✓ len(last.tool_calls) > 0 1 against 0 act" in lines
    assert "· otherwise done" in lines
    assert lines[-1] == "led to think → act, running"
    assert max(map(len, out.splitlines())) <= 100


def test_why_of_a_stop(full: Shell) -> None:
    lines = [" ".join(line.split()) for line in full("why", "abd2").out.splitlines()]
    assert "■ run.steps >= limits.steps 2 against 2 stop: steps_limit" in lines
    assert lines[-1].endswith(", ■ stopped by a limit: steps_limit")


def test_why_as_json(full: Shell) -> None:
    told = full("why", "abc1", "--record", "2", "--format", "json").json
    assert [row["kind"] for row in told["looked_at"]] == ["rule", "rule", "rule", "edge", "edge"]
    assert told["looked_at"][0]["atoms"][0]["margin"] == "18"
    assert told["taken"] == ["think.next.0"]


def test_why_of_a_record_that_is_not_there(full: Shell) -> None:
    done = full("why", "abc1", "--record", "9")
    assert done.code == 2
    assert "records are numbered 0 to 4" in done.err


def test_a_guard_of_many_parts_is_shown_part_by_part(sh: Shell) -> None:
    guard = "run.steps >= 1 and (usage.total_tokens >= 4 or len(last.text) > 100) and run.steps < limits.steps"
    sh.write(
        "wide.yaml", (sh.folder / "looper.yaml").read_text().replace('last.text == "enough"', guard)
    )
    sh.write("one.yaml", "replies: [hm]\n")
    assert sh("run", "wide.yaml", "x", "--script", "one.yaml").code == 0
    out = sh("why", "last").out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "✓ run.steps >= 1 2 against 1" in lines
    assert "✗ len(last.text) > 100 2 against 100" in lines
    assert max(map(len, out.splitlines())) <= 100


# rm, export ---------------------------------------------------------------------------------


def aged(sh: Shell, run_id: str, days: float) -> None:
    """A run whose last record is so old."""
    at = time.time() - days * 86_400
    journal = SqliteJournal(sh.folder / ".chartloop" / "journal.db")
    row = RunRow(run_id, "adder", "", status="completed", created=at, updated=at)
    by_hand(journal.create(row))
    by_hand(journal.close())


def test_rm_removes_the_older_ones(full: Shell) -> None:
    aged(full, "old", 40)
    aged(full, "older", 400)
    refused = full("runs", "rm", "--older", "30d")
    assert (refused.code, refused.out) == (2, "")
    assert "this would remove 2 runs: confirm with --yes" in refused.err
    assert "older" in ids(full)
    assert full("runs", "rm", "--older", "100d", "--yes", "--format", "json").json == {
        "removed": ["older"]
    }
    assert "1 run removed" in full("runs", "rm", "--older", "30d", "--yes").err
    assert ids(full) == ["wait3", "abd2", "abc1"]
    assert "nothing to remove" in full("runs", "rm", "--older", "30d", "--yes").err


def test_rm_by_name_and_filter(full: Shell) -> None:
    assert full("runs", "rm", "abc", "--yes").code == 0
    assert ids(full) == ["wait3", "abd2"]
    assert full("runs", "rm", "nope", "--yes").code == 2
    assert (
        "1 run (1 of them not ended)"
        in full("runs", "rm", "--older", "0s", "--status", "paused").err
    )
    assert full("runs", "rm", "--older", "0s", "--machine", "adder", "--yes").code == 0
    assert ids(full) == ["wait3"]


def test_export_is_the_row_and_every_record(full: Shell) -> None:
    lines = [json.loads(x) for x in full("journal", "export", "abc1", "--to", "-").out.splitlines()]
    assert lines[0]["run"] == "abc1"
    assert [x["seq"] for x in lines if "seq" in x] == [0, 1, 2, 3, 4]
    assert lines[1]["data"]["task"] == "What is 2 + 3?"


def test_a_run_that_was_changed_is_named_by_replay_doctor_and_export(full: Shell) -> None:
    whole = full("replay", "abc1")
    assert whole.code == 0
    assert re.search(r"5 records as written, digest [0-9a-f]{16}$", whole.out, re.MULTILINE)
    chain = full("replay", "abc1", "--format", "json").json["chain"]
    assert (len(chain["digest"]), chain["records"], chain["fault"]) == (64, 5, "")
    assert "3 runs checked, 0 changed since written" in full("doctor").out
    exported = full("journal", "export", "abc1", "--to", "-").out
    assert chain["digest"] in exported.splitlines()[0]
    records = [line for line in exported.splitlines() if not line.startswith(PART)]
    assert chain["digest"] in records[-1]

    path = full.folder / ".chartloop" / "journal.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "UPDATE event SET data = replace(data, '2 + 3', '2 + 4') "
            "WHERE run_id = 'abc1' AND record = 0"
        )
    fault = "record 0 or a note before it was changed"
    changed = full("replay", "abc1")
    assert changed.code == 1
    assert "5 records, all decided as they were recorded" in changed.out
    assert f"changed since it was written: {fault}" in changed.out
    assert full("replay", "abd2").code == 0
    doctor = full("doctor")
    assert doctor.code == 1
    assert "3 runs checked, 1 changed since written" in doctor.out
    assert f"run `abc1`: {fault}" in doctor.out
    again = full("journal", "export", "abc1", "--to", "-")
    assert (again.code, again.out) == (1, "")
    assert fault in again.err

    edited = exported.replace("2 + 3", "2 + 4")
    (full.folder / "edited.jsonl").write_text(edited)
    (full.folder / "whole.jsonl").write_text(exported)
    assert "record 0 was changed" in full("stats", "edited.jsonl").err
    assert "was changed" not in full("stats", "whole.jsonl").err


# journals that cannot be read ---------------------------------------------------------------


def test_a_damaged_journal_is_named_and_left_alone(sh: Shell) -> None:
    (sh.folder / "bad.db").write_text("this is not a journal at all, whatever its name says\n" * 99)
    before = (sh.folder / "bad.db").read_bytes()
    for args in (("runs",), ("show", "last"), ("run", *ADD)):
        done = sh(*args, "--journal", "bad.db")
        assert done.code == 2
        assert "error[CL608]: " in done.err
        assert "bad.db" in done.err
    assert (sh.folder / "bad.db").read_bytes() == before


# tools that are not here --------------------------------------------------------------------

BY_NAME = """\
chartloop: 1
machine: by_name
limits: {answer: 1h}
machines:
  child:
    states:
      sum: {do: tool, with: {name: add, arguments: {a: 1, b: 1}}, next: done}
      done: {end: completed}
states:
  sum: {do: tool, with: {name: add, arguments: {a: 2, b: 3}}, next: wait}
  wait: {on: {ok: done}, within: limits.answer, expired: done}
  done: {stop: completed}
"""


def test_a_tool_that_only_a_state_names_is_not_needed_to_look(sh: Shell) -> None:
    sh.write("by_name.yaml", BY_NAME)
    assert sh("run", "by_name.yaml", "--tools", "tools.py", "--run-id", "r").code == 4
    for args in (("show", "r"), ("why", "r"), ("replay", "r"), ("answer", "r", "ok")):
        done = sh(*args)
        assert (done.code, "error" in done.err) == (0, False), done.err
    assert sh("resume", "r").code == 2  # to go on, they are
    assert sh("resume", "r", "--tools", "tools.py").code == 0


def test_what_export_prints_is_read_as_a_recorded_run(full: Shell) -> None:
    text = (
        full("journal", "export", "abc1", "--to", "-").out
        + full("journal", "export", "abd2", "--to", "-").out
    )
    one, two = read_export(text, "both.jsonl")
    assert isinstance(one, RecordedRun)
    assert (one.run_id, one.row.reason) == ("abc1", "completed")
    assert [r.seq for r in one.records] == list(range(len(one.records)))
    assert isinstance(two, RecordedRun)
    assert two.row.reason == "steps_limit"
