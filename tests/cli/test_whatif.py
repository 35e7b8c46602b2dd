"""`chartloop whatif` and `chartloop stats`: questions to recorded runs, on the command line."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import ASK, Shell, Terminal

LOOP = """\
chartloop: 1
machine: loop
model: {name: scripted}
limits: {steps: 8, tokens: 1000, patience: 10m}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.total_tokens >= limits.tokens, stop: token_limit}
  - {when: run.working >= limits.patience, stop: time_limit}
states:
  begin: {do: receive, next: think}
  think:
    do: infer
    next:
      - {when: usage.llm_calls >= 5, to: done}
      - {to: think}
  done: {stop: completed}
"""
REPLY = "{text: hello, usage: {prompt_tokens: 90, completion_tokens: 10, cost: 0.25}}"


@pytest.fixture
def runs(sh: Shell, tmp_path: Path) -> Shell:
    """Three runs of a loop that makes five calls, in the journal of a folder."""
    (tmp_path / "loop.yaml").write_text(LOOP)
    (tmp_path / "replies.yaml").write_text(f"replies: [{', '.join([REPLY] * 5)}]")
    (tmp_path / "three.yaml").write_text(f"replies: [{', '.join([REPLY] * 3)}]")
    for name, script, limit in (("one", "replies", 8), ("two", "replies", 8), ("low", "three", 4)):
        done = sh(
            "run", "loop.yaml", "x", "--script", f"{script}.yaml", "--run-id", name,
            "--limit", f"steps={limit}",
        )  # fmt: skip
        assert done.code in (0, 3), done.err
    return sh


def asked(sh: Shell, *words: str) -> Any:
    return json.loads(sh(*words, "--format", "json").out)


# whatif -------------------------------------------------------------------------------------


@pytest.mark.slow("starts processes for seconds")
def test_in_a_narrow_terminal_nothing_is_lost_but_why_a_run_stopped(
    runs: Shell, tmp_path: Path
) -> None:
    del runs
    words = ["whatif", "loop.yaml", "--limit", "steps=4"]
    with Terminal(*words, cwd=tmp_path, columns=80) as shown:
        lines = shown.expect("answers lost: 2").splitlines()
        shown.wait()
    assert max(len(line) for line in lines) <= 80
    assert any("lost: hello" in line for line in lines)


def test_a_sweep_without_an_end(runs: Shell) -> None:
    done = runs("whatif", "loop.yaml", "--limit", "steps=4..")
    assert done.code == 2
    assert "`steps=4..` lacks one of its ends" in done.err
    assert "write `steps=LOW..HIGH`" in done.err


def test_the_verdicts_and_what_is_saved(runs: Shell) -> None:
    done = runs("whatif", "loop.yaml", "--limit", "steps=4")
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    assert "what if steps=4: 2 of 3 runs of loop change" in text
    assert "stops earlier 2 67% −4 −400 −1.00 2" in text
    assert "sure of the end of 3 of 3 runs (100%), and of 100% of their records" in text
    assert "lost: hello" in text


def test_as_json(runs: Shell) -> None:
    told = asked(runs, "whatif", "loop.yaml", "one", "--limit", "steps=4")
    assert told["verdicts"]["stops earlier"] == 1
    assert told["lost"] == ["one"]
    assert told["limits"] == {"steps": "4"}
    (run,) = told["runs"]
    assert (run["run_id"], run["verdict"], run["record"]) == ("one", "stops earlier", 4)
    assert run["saved"]["tokens"] == 200
    assert run["sure"]


def test_a_sweep_has_a_row_for_each_value(runs: Shell) -> None:
    told = asked(runs, "whatif", "loop.yaml", "--limit", "steps=3..7:2", "--limit", "tokens=900")
    assert [point["limits"]["steps"] for point in told["points"]] == ["3", "5", "7"]
    assert [len(point["lost"]) for point in told["points"]] == [2, 2, 0]
    done = runs("whatif", "loop.yaml", "--limit", "steps=2..6")
    rows = [line.split() for line in done.out.splitlines() if line.startswith("steps=")]
    assert [row[0] for row in rows] == [f"steps={n}" for n in range(2, 7)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("steps=2..4", "tokens=1..9"), "only one limit can be swept"),
        (("steps=9..4",), "has no values"),
        (("steps=1..100000:1",), "has 100,000 values"),
        (("steps=1..x",), "limit `steps` is int: `x` is not"),
        (("stepz=1..4",), "no limit `stepz`"),
    ],
)
def test_what_is_no_sweep(runs: Shell, given: tuple[str, ...], said: str) -> None:
    words = [word for pair in given for word in ("--limit", pair)]
    done = runs("whatif", "loop.yaml", *words)
    assert done.code in (1, 2)
    assert said in done.err


def test_a_sweep_of_durations_takes_round_steps(runs: Shell) -> None:
    told = asked(runs, "whatif", "loop.yaml", "--limit", "patience=1m..10m:3m")
    assert [p["limits"]["patience"] for p in told["points"]] == ["1m", "4m", "7m", "10m"]


@pytest.mark.parametrize(
    ("limit", "gate", "code"),
    [
        ("steps=4", "lost", 1), ("steps=8", "lost", 0), ("steps=8", "changed", 1),
        ("steps=4", "unsure", 0), ("steps=8", "unsure", 1),
    ],
)  # fmt: skip
def test_a_gate_for_a_pipeline(runs: Shell, limit: str, gate: str, code: int) -> None:
    assert runs("whatif", "loop.yaml", "--limit", limit, "--fail-on", gate).code == code


def test_an_edited_file(runs: Shell) -> None:
    Path("edited.yaml").write_text(LOOP.replace("llm_calls >= 5", "llm_calls >= 3"))
    text = " ".join(runs("whatif", "edited.yaml").out.split())
    assert "what if it had been this machine: 2 of 3 runs of loop change" in text
    assert "saved for sure: 4 model calls, 400 tokens, 1.00 USD" in text
    assert "answers lost" not in text.partition("sure of")[2]


def test_runs_that_cannot_be_asked_are_reported_and_passed_over(runs: Shell) -> None:
    with sqlite3.connect(".chartloop/journal.db") as file:
        file.execute("UPDATE event SET data = '{' WHERE run_id = 'two' AND seq = 2")
    Path("other.yaml").write_text(LOOP.replace("machine: loop", "machine: other"))
    runs("run", "other.yaml", "x", "--script", "replies.yaml", "--run-id", "foreign")
    done = runs("whatif", "loop.yaml", "one", "two", "foreign", "--limit", "steps=4")
    assert done.code == 0
    assert "run `two` is skipped" in done.err
    assert "run `foreign` is skipped: it is a run of `other`, not of `loop`" in done.err
    assert "1 of 1 run of loop change" in done.out
    told = asked(runs, "whatif", "loop.yaml", "one", "two", "foreign", "--limit", "steps=4")
    assert {one["run_id"] for one in told["unread"]} == {"two", "foreign"}


def test_an_export_is_asked_as_a_journal_is(runs: Shell) -> None:
    exported = runs("journal", "export", "one", "--to", "-").out
    Path("one.jsonl").write_text(exported)
    told = asked(runs, "whatif", "loop.yaml", "one.jsonl", "--limit", "steps=4")
    assert told["lost"] == ["one"]


@pytest.mark.parametrize(
    ("was", "own", "says"),
    [
        ("do: receive", "do: mine", "`mine` is your own action"),
        ("do: infer", "do: infer\n    with: {output: Mine}", "`Mine` is your own class"),
        ("do: receive", "do: run_machine, with: {machine: kid}", "`mine` is your own action"),
    ],
    ids=("an-action", "a-class", "an-action-of-a-child"),
)
def test_what_is_ones_own_is_needed_to_decide_again(
    runs: Shell, was: str, own: str, says: str
) -> None:
    kid = (
        "machines:\n  kid:\n    states:\n      a: {do: mine, next: b}\n      b: {stop: completed}\n"
    )
    kid = kid if "kid" in own else ""
    Path("own.yaml").write_text(LOOP.replace(was, own).replace("states:", f"{kid}states:", 1))
    done = runs("whatif", "own.yaml", "--limit", "steps=4")
    assert done.code == 2
    assert says in done.err
    assert "--tools FILE" in done.err


@pytest.mark.slow("takes seconds")
def test_a_bar_for_many_runs_on_a_terminal(runs: Shell, tmp_path: Path) -> None:
    for number in range(20):
        runs("run", "loop.yaml", "x", "--script", "replies.yaml", "--run-id", f"n{number}")
    with Terminal("whatif", "loop.yaml", "--limit", "steps=4", cwd=tmp_path) as terminal:
        terminal.expect("deciding again")
        terminal.expect("stops earlier")


# stats --------------------------------------------------------------------------------------


def test_the_figures(runs: Shell) -> None:
    done = runs("stats", "loop.yaml")
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    assert "loop: 3 runs" in text
    assert "completed 2 67%" in text
    assert "steps_limit 1 33%" in text
    assert "run.steps ≥ limits.steps 4, 8 75% 75% 100% 100%" in text
    assert "stops 33%" in text


def test_without_a_machine_each_is_told_by_itself(runs: Shell) -> None:
    Path("other.yaml").write_text(LOOP.replace("machine: loop", "machine: other"))
    runs("run", "other.yaml", "x", "--script", "replies.yaml")
    told = asked(runs, "stats")
    assert {(one["machine"], one["runs"]) for one in told} == {("loop", 3), ("other", 1)}
    (only,) = asked(runs, "stats", "one")
    assert (only["machine"], only["runs"]) == ("loop", 1)


def test_as_csv_no_cell_is_a_formula(runs: Shell) -> None:
    rows = list(csv.reader(io.StringIO(runs("stats", "loop.yaml", "--format", "csv").out)))
    assert rows[0] == ["machine", "table", "row", "measure", "value"]
    assert ["loop", "state", "think", "actions", "13"] in rows
    assert ["loop", "reason", "completed", "runs", "2"] in rows


@pytest.mark.slow("takes seconds")
@pytest.mark.extra("matplotlib", install='pip install -e ".[plots]"')  # noqa: S610 - no Django
def test_plots_of_one_machine_on_a_page_of_several_in_folders(runs: Shell) -> None:
    assert runs("stats", "loop.yaml", "--plot", "page.svg").code == 0
    drawn = Path("page.svg").read_text()
    assert "a dot: a run" in drawn
    assert "actions × mean" in drawn
    assert "3.25  (13 × 0.25)" in drawn
    assert "Why runs stop" in Path("page.svg").read_text()
    assert runs("stats", "loop.yaml", "--plot", "page.png").code == 0
    assert Path("page.png").read_bytes().startswith(b"\x89PNG")
    Path("other.yaml").write_text(LOOP.replace("machine: loop", "machine: other"))
    runs("run", "other.yaml", "x", "--script", "replies.yaml")
    done = runs("stats", "--plot", "all.svg")
    assert (done.code, "name one MACHINE" in done.err) == (2, True)
    assert runs("stats", "--plot", "plots").code == 0
    assert {p.parent.name for p in Path("plots").glob("*/reasons.svg")} == {"loop", "other"}


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.extra("matplotlib", install='pip install -e ".[plots]"')  # noqa: S610 - no Django
def test_a_pipe_that_closes_leaves_the_plot(runs: Shell) -> None:
    assert runs("stats", "loop.yaml").code == 0
    command = [sys.executable, "-m", "chartloop", "stats", "loop.yaml", "--plot", "page.svg"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.close()
    assert Path("page.svg").stat().st_size > 0


def test_another_form_of_picture_is_refused(runs: Shell) -> None:
    done = runs("stats", "loop.yaml", "--plot", "page.gif")
    assert done.code == 2
    assert ".svg, a .png or a folder" in done.err


def test_a_wait_is_counted_by_its_answers(sh: Shell) -> None:
    sh("run", *ASK, "--run-id", "asked", "--no-input")
    sh("answer", "asked", "ok")
    sh("resume", "asked", "--no-input")
    rows = {line.split()[0]: line.split() for line in sh("stats").out.splitlines() if line.strip()}
    assert rows["wait"][1] == "1", rows["wait"]
