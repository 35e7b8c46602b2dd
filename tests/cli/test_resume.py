"""`chartloop resume`, `answer`, `pause`, `cancel`, `fork`, `replay`: from one process to another."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from chartloop import load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api.stored_run import begun_with
from chartloop.cli.journal_access import resume_line
from chartloop.cli.options import RunOptions
from chartloop.run.journal import MemoryJournal, RunRow
from chartloop.run.ports import ModelReply
from chartloop.run.sync import by_hand
from tests.cli.shell import ADD, ADDER, ASK, ASKER, Shell, slowly, started, until

SLOW = ("looper.yaml", "x", "--script", "slow.yaml")


def state_of(sh: Shell, run: str = "r") -> dict[str, Any]:
    """The row of a run."""
    return next(r for r in sh("runs", "--format", "json").json if r["run"] == run)


def begin(sh: Shell, *args: str, steps: int = 2) -> subprocess.Popen[str]:
    """A run in a process of its own, once it has done so many steps."""
    going = started("run", *args, "--run-id", "r", cwd=sh.folder)
    until(lambda: state_of(sh)["steps"] >= steps)
    return going


# answers ------------------------------------------------------------------------------------


def test_an_answer_and_then_on(sh: Shell) -> None:
    sh("run", *ASK, "--run-id", "r")
    sent = sh("answer", "r", "fix", "note=use 3", "count=2", "sure=true", "--format", "json")
    assert sent.code == 0
    assert sent.json["sent"]["data"] == {"note": "use 3", "count": 2, "sure": True}
    assert "the answer is kept for run r, which takes it when it continues\n" in sent.err
    assert "continue with:  chartloop resume r\n" in sent.err
    again = sh("resume", "r")
    assert again.code == 4
    assert "Is forty-two right?" in again.err
    assert sh("answer", "r", "ok").code == 0
    done = sh("resume", "last", "--format", "json")
    assert done.code == 0
    assert done.json["path"].count("wait") == 2
    assert done.json["usage"]["llm_calls"] == 2  # none was made twice


class Answer(NamedTuple):
    """An answer that is not taken, and what is said of it."""

    id: str
    args: tuple[str, ...]
    says: str


ANSWERS = [
    Answer("event", ("fx",), "`wait` does not take `fx`"),
    Answer("event-hint", ("fx",), "it takes `fix`, `ok`, `abort`"),
    Answer("missing", ("fix", "note=x"), "`fix` needs `count` (int)"),
    Answer(
        "type",
        ("fix", "note=x", "count=two", "sure=true"),
        "`count` of `fix` is int: `two` is not",
    ),
    Answer("field", ("fix", "nte=x"), "`fix` has no field `nte`"),
    Answer("field-hint", ("fix", "nte=x"), "did you mean `note`?"),
    Answer("no-pair", ("fix", "note"), "`note` is not NAME=VALUE"),
]


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case.id)
def test_an_answer_that_is_not_taken(sh: Shell, case: Answer) -> None:
    sh("run", *ASK, "--run-id", "r")
    done = sh("answer", "r", *case.args)
    assert done.code == 2
    assert case.says in done.err
    assert sh("resume", "r").code == 4  # it waits as before


PARENT = """\
chartloop: 1
machine: parent
states:
  b: {do: run_machine, with: {machine: child}, next: done}
  done: {stop: completed}
machines:
  child:
    states:
      q: {ask: "Sure?", on: {yes: done}}
      done: {stop: completed}
"""


def test_after_an_answer_to_a_child_the_parent_goes_on(sh: Shell) -> None:
    sh.write("parent.yaml", PARENT)
    assert sh("run", "parent.yaml", "--run-id", "p", "--no-input").code == 4
    assert "continue with:  chartloop resume p\n" in sh("answer", "p/b/0", "yes").err
    assert sh("resume", "p").code == 0


def test_an_answer_that_is_delivered_twice(sh: Shell) -> None:
    sh("run", *ASK, "--run-id", "r")
    answer = ("answer", "r", "fix", "note=n", "count=1", "sure=false", "--key", "m1")
    assert sh(*answer, "--format", "json").json["new"]
    twice = sh(*answer, "--format", "json")
    assert not twice.json["new"]
    assert "delivered before: it is ignored" in twice.err


def test_a_second_answer_is_refused_and_opens_no_later_gate(sh: Shell) -> None:
    sh("run", *ASK, "--run-id", "r")
    assert sh("answer", "r", "fix", "note=x", "count=1", "sure=true").code == 0
    second = sh("answer", "r", "ok")
    assert second.code == 2
    assert "error[CL616]: wait 3 was answered already, with `fix` at " in second.err
    done = sh("resume", "r", "--format", "json")
    assert (done.code, done.json["path"].count("wait")) == (4, 2)
    assert done.json["wait"] != "3"
    late = sh("answer", "r", "ok", "--wait", "3")
    assert late.code == 2
    assert f"it asks now, as wait {done.json['wait']}: Is forty-two right?" in late.err
    assert sh("answer", "r", "ok", "--wait", done.json["wait"]).code == 0
    assert sh("resume", "r").code == 0


def test_an_answer_ahead_names_its_state_and_the_record_says_so(sh: Shell) -> None:
    sh("run", *ASK, "--run-id", "r")
    for state, says in (("wait", "`wait` asks now"), ("wit", "not a state that waits")):
        refused = sh("answer", "r", "ok", "--ahead", state)
        assert refused.code == 2
        assert f"error[CL617]: {says}" in refused.err or says in refused.err
    sh("answer", "r", "fix", "note=x", "count=1", "sure=true")
    both = sh("answer", "r", "ok", "--ahead", "wait", "--wait", "3")
    assert both.code == 2


def test_a_cancel_for_a_reason_that_the_machine_does_not_have(sh: Shell) -> None:
    sh("run", *ASK, "--run-id", "r")
    assert "no stop reason" not in sh("cancel", "r", "--reason", "stop_requested").err
    sent = sh("cancel", "r", "--reason", "user_request")
    assert sent.code == 0
    assert "Raised from outside.\n" in sh("resume", "r").err
    assert (
        "the machine has no stop reason `user_request`: it stops as `custom` does; "
        "did you mean `user_requested`?\n"
    ) in sent.err


def test_nothing_can_be_sent_to_a_run_that_has_ended(sh: Shell) -> None:
    sh("run", *ADD, "--run-id", "r")
    assert "the run waits for nothing" in sh("answer", "r", "ok").err
    for verb in ("pause", "cancel"):
        done = sh(verb, "r")
        assert done.code == 1
        assert "error[CL601]: run `r` has ended (done)" in done.err


ENDS = [
    (("--run-id", "r"), 0),
    (("--run-id", "r", "--limit", "steps=2"), 3),
    (("--run-id", "r", "--script", "fails.yaml"), 1),
]


@pytest.mark.parametrize(("args", "code"), ENDS)
def test_resuming_a_run_that_has_ended_tells_its_result_again(
    args: tuple[str, ...], code: int, sh: Shell
) -> None:
    sh.write("fails.yaml", "replies: [{error: {category: CRITICAL, message: no key}}]\n")
    ended = sh("run", *ADD, *args, "--format", "json")
    assert ended.code == code
    before = (sh.folder / ".chartloop/journal.db").read_bytes()
    again = sh("resume", "r", "--format", "json")
    assert again.code == code
    shown = sh("show", "r", "--format", "json").json
    assert again.json == {name: shown[name] for name in again.json}
    assert again.json["reason"] == ended.json["reason"]
    assert again.json["output"] == ended.json["output"]
    assert "run r had ended before: nothing was done" in again.err
    assert (sh.folder / ".chartloop/journal.db").read_bytes() == before
    assert sh("resume", "r").out == (f"{ended.json['output']}\n" if code == 0 else "")


# from outside -------------------------------------------------------------------------------


def test_cancel_from_another_process(sh: Shell) -> None:
    going = begin(sh, *SLOW, "--format", "json")
    sent = sh("cancel", "r", "--message", "not needed")
    assert sent.code == 0
    out, _ = going.communicate(timeout=20)
    told = json.loads(out)
    assert told["reason"] == "user_requested"
    assert told["signals"][0]["message"] == "not needed"
    assert going.returncode == 5


def test_pause_from_another_process_and_resume_here(sh: Shell) -> None:
    going = begin(sh, *SLOW)
    assert sh("pause", "r").code == 0
    _, err = going.communicate(timeout=20)
    assert going.returncode == 4
    assert "continue with:  chartloop resume r" in err
    assert state_of(sh)["status"] == "paused"
    assert "is paused already" in sh("pause", "r").err
    sh.write("slow.yaml", "replies: [hm, hm, hm, hm, hm, hm, hm, enough]\n")  # read anew
    done = sh("resume", "r", "--format", "json")
    assert done.code == 0
    assert done.json["usage"]["llm_calls"] == 8


def test_a_pause_that_nobody_took_does_not_stop_who_resumes(sh: Shell) -> None:
    going = begin(sh, *SLOW)
    going.kill()
    going.communicate()
    sent = sh("pause", "r")
    assert "continue with:  chartloop resume r" in sent.err  # its driver is gone: nobody takes it
    sh.write("slow.yaml", "replies: [hm, hm, hm, hm, hm, hm, hm, enough]\n")
    assert sh("resume", "r").code == 0


def test_a_message_during_a_long_action_waits_for_its_end(sh: Shell) -> None:
    sh.write("slow.yaml", slowly("60s"))
    going = begin(sh, *SLOW, steps=1)
    until_called(sh)
    sent = sh("pause", "r")
    assert "a process drives it, and takes this after the current action" in sent.err
    assert "continue with" not in sent.err
    going.kill()
    going.communicate()


def until_called(sh: Shell) -> None:
    """Wait until the run `r` is in the middle of a model call."""
    journal = SqliteJournal(sh.folder / ".chartloop" / "journal.db")
    until(lambda: by_hand(journal.events("r"))[-1].type == "intent")
    by_hand(journal.close())


# interruptions ------------------------------------------------------------------------------


def test_ctrl_c_once_stops_before_the_next_action(sh: Shell) -> None:
    going = begin(sh, *SLOW, "--format", "json", steps=1)
    until_called(sh)
    going.send_signal(signal.SIGINT)
    out, err = going.communicate(timeout=20)
    assert "stopping before the next action; Ctrl-C again stops now" in err
    told = json.loads(out)
    assert (told["kind"], told["reason"]) == ("human", "user_requested")
    assert told["usage"]["llm_calls"] == 1  # the call at hand was finished and recorded
    assert going.returncode == 130


def test_ctrl_c_twice_stops_now(sh: Shell) -> None:
    sh.write("slow.yaml", slowly("60s"))
    going = begin(sh, *SLOW, steps=1)
    until_called(sh)
    going.send_signal(signal.SIGINT)
    assert going.stderr is not None
    while "Ctrl-C again stops now" not in going.stderr.readline():
        pass
    going.send_signal(signal.SIGINT)
    out, err = going.communicate(timeout=10)
    assert out == ""
    assert "continue with:  chartloop resume r\n" in err
    assert going.returncode == 130
    assert state_of(sh)["status"] == "running"
    sh.write("slow.yaml", "replies: [enough]\n")
    again = sh("resume", "r", "--format", "json")
    assert again.code == 0
    assert any("started before an interruption" in w for w in again.json["warnings"])


def test_a_killed_run_goes_on_from_its_last_record(sh: Shell) -> None:
    sh.write("slow.yaml", "replies:\n" + "  - {text: hm, delay: 300ms}\n" * 5 + "  - enough\n")
    going = begin(sh, *SLOW, steps=3)
    going.kill()
    going.communicate()
    before = sh("show", "r", "--format", "json").json
    done = sh("resume", "r", "--format", "json")
    assert done.code == 0
    assert done.json["usage"]["llm_calls"] == 6
    assert done.json["path"][: len(before["path"])] == before["path"]
    after = sh("show", "r", "--format", "json").json["records"]
    assert after[: len(before["records"])] == before["records"]


# how it was started -------------------------------------------------------------------------


def test_tools_are_code_and_must_be_said_again(sh: Shell) -> None:
    sh("run", *ADD, "--run-id", "first")
    made = sh("fork", "first", "--at", "3", "--run-id", "second")
    assert made.out == "second\n"
    refused = sh("resume", "second")
    assert refused.code == 2
    assert f"give them again: --tools {sh.folder}/tools.py" in refused.err
    assert sh("resume", "second", "--tools", "tools.py").out == "It is 5.\n"


def test_a_script_that_is_gone_is_named(sh: Shell) -> None:
    sh("run", *ASK, "--run-id", "r")
    (sh.folder / "guesses.yaml").unlink()
    done = sh("resume", "r")
    assert done.code == 2
    assert "the script of this run is gone" in done.err


def test_a_run_that_was_killed_before_its_first_record(sh: Shell) -> None:
    journal = SqliteJournal(sh.folder / ".chartloop" / "journal.db")
    by_hand(journal.create(RunRow("r", machine="adder", created=1.0, updated=1.0)))
    by_hand(journal.close())
    done = sh("resume", "r")
    assert done.code == 1
    assert "stopped before its first record" in " ".join(done.err.split())
    assert "with the same --run-id" in " ".join(done.err.split())


def test_the_next_message_to_a_run_that_ended(sh: Shell) -> None:
    sh("run", *ADD, "--run-id", "first")
    refused = sh("resume", "first")
    assert "--continue first" in " ".join(refused.err.split())
    done = sh("run", *ADD, "--run-id", "second", "--continue", "first", "--format", "json")
    assert done.code == 0
    assert done.json["steps"] == 4
    shown = sh("show", "second")
    assert "parent first" in " ".join(shown.out.split())
    assert "from record" not in shown.out
    told = sh("show", "second", "--format", "json").json["records"][0]["data"]["messages"]
    assert told[0]["role"] == "user"


def test_a_parent_goes_with_one_task_and_a_journal(sh: Shell) -> None:
    sh("run", *ADD, "--run-id", "first")
    for more in (("--in-memory",), ("--inputs", "tasks.jsonl")):
        sh.write("tasks.jsonl", '{"task": "x"}\n')
        machine, _, *rest = ADD
        assert sh("run", machine, *rest, "--continue", "first", *more).code == 2
    sh("run", *ASK, "--run-id", "waits")
    done = sh("run", *ASK, "--continue", "waits")
    assert done.code == 1
    assert "has not ended" in " ".join(done.err.split())


def test_the_line_that_goes_on_names_the_server_that_must_be_said_again() -> None:
    journal = MemoryJournal()
    run = load(ASKER).start("x", script=["6"], journal=journal, run_id="r")
    begun = run.session.begun
    assert begun is not None
    before = {"model": "openai/x", "api_base": "http://h/v1", "tools": ["a.py"]}
    run.session.begun = begun_with(begun, before)
    run.advance()
    row = by_hand(journal.row("r"))
    assert row is not None
    line = "chartloop resume r --tools a.py --api-base "
    assert resume_line(journal, row, RunOptions()) == f"{line}http://h/v1"
    assert resume_line(journal, row, RunOptions(api_base="http://i/v1")) == f"{line}http://i/v1"
    shown = resume_line(journal, row, RunOptions(journal="shop://ann:s3cret@db/x"))
    assert "s3cret" not in shown
    assert "--journal 'shop://«redacted:url-password»@db/x'" in shown


def test_a_server_must_be_said_again(sh: Shell) -> None:
    sh("run", *ASK, "--run-id", "r")
    done = sh("resume", "r", "--api-base", "http://127.0.0.1:9/v1", "--script", "guesses.yaml")
    assert done.code == 2
    assert "--script takes the place of a model" in done.err


def test_the_machine_is_the_recorded_one_unless_told_otherwise(sh: Shell) -> None:
    sh("run", *ADD, "--run-id", "a")
    sh("fork", "a", "--at", "3", "--run-id", "b")
    same = ADDER.replace("# nothing", "") + "# a comment changes nothing\n"
    sh.write("adder.yaml", same)
    assert sh("resume", "b", "--machine", "adder.yaml", "--tools", "tools.py").code == 0
    sh("fork", "a", "--at", "3", "--run-id", "c")
    sh.write("adder.yaml", ADDER.replace("steps: 20", "steps: 4"))
    refused = sh("resume", "c", "--machine", "adder.yaml", "--tools", "tools.py")
    assert refused.code == 1
    assert (
        "error[CL605]: adder.yaml is not the machine that run `c` was started with" in refused.err
    )
    assert "--use-new-file" in refused.err
    told = sh(
        "resume",
        "c",
        "--machine",
        "adder.yaml",
        "--tools",
        "tools.py",
        "--use-new-file",
        "--format",
        "json",
    )
    assert told.json["reason"] == "steps_limit"
    assert f"run c continues as run {told.json['run']}, with the new file" in told.err
    old = state_of(sh, "c")  # the old one stands where it stood
    assert (old["status"], old["moved_to"]) == ("moved", told.json["run"])
    assert sh("replay", told.json["run"]).code == 0


def test_a_new_file_that_decides_otherwise_is_refused(sh: Shell) -> None:
    sh("run", *ADD, "--run-id", "a")
    sh("fork", "a", "--at", "4", "--run-id", "b")
    sh.write("adder.yaml", ADDER.replace("steps: 20", "steps: 2"))
    done = sh("resume", "b", "--machine", "adder.yaml", "--tools", "tools.py", "--use-new-file")
    assert done.code == 1
    assert "record 2 at think" in done.err
    assert "chartloop fork b --at 2 --machine adder.yaml" in done.err


# fork and replay ----------------------------------------------------------------------------


def test_a_fork_begins_where_it_is_told(sh: Shell) -> None:
    sh("run", *ADD, "--run-id", "a")
    made = sh("fork", "a", "--at", "3", "--format", "json").json
    assert made == {"run": made["run"], "parent": "a", "at": 3, "state": "act"}
    row = state_of(sh, made["run"])
    assert (row["status"], row["state"], row["steps"], row["reason"]) == ("running", "act", 2, None)
    assert "a, from record 3" in sh("show", made["run"]).out
    assert state_of(sh, "a")["status"] == "completed"


@pytest.mark.parametrize("at", ["0", "6", "99"])
def test_a_fork_at_no_record(sh: Shell, at: str) -> None:
    sh("run", *ADD, "--run-id", "a")
    assert sh("fork", "a", "--at", at).code in (1, 2)
    assert len(sh("runs", "--format", "json").json) == 1


def test_replay_is_the_same_until_the_machine_changes(sh: Shell) -> None:
    sh("run", *ADD, "--run-id", "a")
    same = sh("replay", "a")
    decided, stored = same.out.splitlines()
    assert (same.code, decided) == (0, "5 records, all decided as they were recorded")
    assert stored.startswith("5 records as written, digest ")
    sh.write("adder.yaml", ADDER.replace("steps: 20", "steps: 2"))
    other = sh("replay", "a", "--machine", "adder.yaml", "--tools", "tools.py")
    assert other.code == 1
    assert "2 of 5 records decided as recorded, then:" in other.out
    told = sh(
        "replay", "a", "--machine", "adder.yaml", "--tools", "tools.py", "--format", "json"
    ).json
    assert told["same"] is False
    assert told["differences"][0]["seq"] == 2


def test_a_run_is_taken_once_what_it_needs_is_loaded(sh: Shell) -> None:
    """A model's library may take a minute to load. The lease says that something is being done."""
    journal = SqliteJournal(".chartloop/journal.db")
    text = "chartloop: 1\nmachine: m\nmodel: {name: scripted}\nstates:\n  w: {ask: Go?, on: {yes: t}}\n  t: {do: infer, next: z}\n  z: {stop: completed}\n"  # fmt: skip
    load(text).start(script=["x"], journal=journal, run_id="r").run()
    sh("answer", "r", "yes")
    before = by_hand(journal.row("r"))
    done = sh("resume", "r", "--no-input")
    assert done.code == 2
    assert "error[CL607]: machine `m` is scripted" in done.err
    assert by_hand(journal.row("r")) == before  # not even its epoch
    assert by_hand(journal.lease("r")) is None
    by_hand(journal.close())


def test_components_are_loaded_off_the_event_loop_and_before_the_lease() -> None:
    """An event loop drives many runs: each has a lease to honour while one loads its model."""

    class Slow:
        suspends = True

        def prepare(self, settings: Mapping[str, Any]) -> None:
            seen.append((threading.current_thread().name, by_hand(journal.lease("r"))))

        def context_window(self, settings: Mapping[str, Any]) -> int | None:
            return None

        async def complete(self, request: Any, on_text: Any = None) -> ModelReply:
            seen.append(("model", by_hand(journal.lease("r")) is not None))
            return ModelReply("Done.")

    seen: list[tuple[str, Any]] = []
    journal = MemoryJournal()
    text = "chartloop: 1\nmachine: m\nmodel: {name: any}\nstates:\n  w: {ask: Go?, on: {yes: t}}\n  t: {do: infer, next: z}\n  z: {stop: completed}\n"  # fmt: skip
    machine = load(text)
    machine.start(script=["x"], journal=journal, run_id="r").run()
    run = machine.open("r", journal=journal, model=Slow())
    run.send("yes")
    assert run.run().reason == "completed"
    assert seen[0][0] != "chartloop"  # the thread of the event loop
    assert [lease for _, lease in seen] == [None, True]
