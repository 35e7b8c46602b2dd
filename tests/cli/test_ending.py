"""What is said of a run when it rests: why, what failed last, and what to do next."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.core.units import say_count
from tests.cli.shell import ADD, ADDER, ASK, Shell

BUSY = "{error: {category: TRANSIENT, message: upstream is busy}}"
WRONG = "{error: {category: CRITICAL, message: no such key}}"
LONG = "{error: {category: RECOVERABLE, message: the context is too long}}"


class Failure(NamedTuple):
    """A call that fails, and what is said about it."""

    id: str
    reply: str
    error: str
    cure: str


@pytest.mark.parametrize(
    "case",
    [
        Failure(
            "transient", BUSY, "TRANSIENT at `think`, step 2: upstream is busy",
            "the same may work later; `retry` at `think` tries again by itself",
        ),
        Failure("recoverable", LONG, "RECOVERABLE at `think`, step 2", "something has to change"),
        Failure("critical", WRONG, "CRITICAL at `think`, step 2: no such key", "fix that first: a key, a quota"),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_a_failing_provider_is_named_with_what_to_do(sh: Shell, case: Failure) -> None:
    sh.write("fails.yaml", f"replies: [{case.reply}]\n")
    done = sh("run", *ADD[:4], "--script", "fails.yaml", "--run-id", "r")
    assert done.code == 1
    assert f"Last error: {case.error}" in done.err
    assert f" = help: {case.cure}" in done.err
    assert done.err.count("no such key") <= 1
    assert "1 model call failed\n" in done.err
    assert "try again from there:  chartloop retry r --tools tools.py\n" in done.err


@pytest.mark.parametrize(("limit", "stands"), [("70", "near"), ("60", "near"), ("50", "past")])
def test_a_warning_says_whether_a_bound_is_near_or_passed(
    sh: Shell, limit: str, stands: str
) -> None:
    done = sh("run", *ADD, "--limit", f"tokens={limit}")
    said = f"usage.total_tokens is at 60, {stands} its bound limits.tokens ({limit})."
    assert f"Warning: {said}\n" in done.err


def test_a_run_without_a_task_is_told_to_have_one(sh: Shell) -> None:
    sh.write("none.yaml", "replies: []\n")
    done = sh("run", "adder.yaml", "--tools", "tools.py", "--script", "none.yaml")
    assert done.code == 1
    assert ' = help: say what it is to do: `chartloop run MACHINE "TASK"`\n' in done.err
    assert "try again" not in done.err


def test_the_commands_that_try_again_do(sh: Shell) -> None:
    sh.write("fails.yaml", f"replies: [{BUSY}]\n")
    sh("run", *ADD[:4], "--script", "fails.yaml", "--run-id", "r")
    sh.write("fails.yaml", "replies: [It is 5.]\n")
    again = sh("fork", "r", "--at", "2")
    assert again.code == 0
    assert f"continue with:  chartloop resume {again.out.strip()} --tools " in again.err
    done = sh("resume", "last", "--tools", "tools.py")
    assert (done.code, done.out) == (0, "It is 5.\n")


def test_what_was_no_failed_action_is_to_be_asked_why(sh: Shell) -> None:
    guard = "{when: 10 // (run.steps - 2) > 3, stop: custom}"
    sh.write("adder.yaml", ADDER.replace("rules:\n", f"rules:\n  - {guard}\n"))
    done = sh("run", *ADD, "--run-id", "r")
    assert done.code == 1
    assert "guard_error" in done.err
    assert "see why:  chartloop why r\n" in done.err
    assert "try again" not in done.err


def test_calls_that_failed_are_counted_beside_the_others(sh: Shell) -> None:
    retry = ADDER.replace("do: infer\n", "do: infer\n    retry: {times: 2, base: 1ms}\n")
    sh.write("adder.yaml", retry)
    sh.write("busy.yaml", f"replies: [{BUSY}, It is 5.]\n")
    done = sh("run", *ADD[:4], "--script", "busy.yaml")
    assert done.code == 0
    assert "1 model call, 1 more failed, " in done.err
    assert "Last error" not in done.err
    assert "1 model call, 1 more failed, " in " ".join(sh("show", "last").out.split())


def test_a_batch_says_what_failed(sh: Shell) -> None:
    sh.write("fails.yaml", f"replies: [{WRONG}]\n")
    sh.write("tasks.jsonl", '{"task": "x"}\n')
    done = sh("run", "adder.yaml", "--tools", "tools.py", "--script", "fails.yaml", "--inputs", "tasks.jsonl")  # fmt: skip
    assert "no such key" in done.out
    assert "1 of 1 run: 1 error; 2 steps, 0 tokens" in done.out


def test_an_end_that_raises_its_own_reason_is_not_named_twice(sh: Shell) -> None:
    done = sh("run", *ADD)
    assert "Raised by" not in done.err
    assert "Raised by rules.0: run.steps >= limits.steps (1 against 1).\n" in (
        sh("run", *ADD, "--limit", "steps=1").err
    )


def test_one_of_a_thing_is_said_as_one(sh: Shell) -> None:
    assert "after 1 step and" in sh("run", *ADD, "--limit", "steps=1", "--run-id", "r").err
    assert "1 step, no model calls" in " ".join(sh("show", "r").out.split())
    assert "after 1 step\n" in sh("fork", "r", "--at", "2").err
    sh.write("one.yaml", "chartloop: 1\nmachine: one\nstates:\n  a: {end: completed}\n")
    assert sh("check", "one.yaml").out.startswith("one.yaml: one, 1 state, 0 rules: no mistakes\n")
    assert [say_count(n, "rule") for n in (0, 1, 2, 1204)] == [
        "0 rules", "1 rule", "2 rules", "1,204 rules",
    ]  # fmt: skip


@pytest.mark.parametrize("verb", ["run", "resume"])
def test_a_run_that_waits_says_its_warnings(sh: Shell, verb: str) -> None:
    sh.write("guesses.yaml", 'replies: ["", ""]\n')
    done = sh("run", *ASK, "--run-id", "r")
    if verb == "resume":
        sh("answer", "r", "fix", "note=x", "count=1", "sure=true")
        done = sh("resume", "r")
    assert done.code == 4
    said = "Warning: the model gave an empty reply: neither text nor tool calls.\n"
    assert said in done.err


def test_an_error_that_the_file_ends_as_completed_says_so(sh: Shell) -> None:
    sh.write(
        "ends.yaml",
        "chartloop: 1\nmachine: ends\nstates:\n  a: {do: nothing, next: e}\n"
        "  e: {stop: error, next: g}\n  g: {end: completed}\n",
    )
    done = sh("run", "ends.yaml", "x")
    assert "Gave up (`error`, an error that the file ends as completed) at `g`" in done.err
