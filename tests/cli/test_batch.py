"""`chartloop run --inputs`: many runs, one budget."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.cli.inputs import TOTALS, Totals, read_totals, sum_spending
from chartloop.core.facts import Facts, RunFacts, UsageFacts
from tests.cli.shell import ADD, Shell, started, until

MANY = (ADD[0], *ADD[2:], "--inputs", "in.jsonl")


def tasks(sh: Shell, *lines: object) -> None:
    sh.write("in.jsonl", "\n".join(json.dumps(line) for line in lines) + "\n")


def test_a_table_of_all_runs(sh: Shell) -> None:
    tasks(sh, *({"task": f"task {n}"} for n in range(5)))
    done = sh("run", *MANY, "--concurrency", "3")
    assert done.code == 0
    rows = [line.split() for line in done.out.splitlines()[1:6]]
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5"]
    assert all(row[2:7] == ["natural", "completed", "4", "135", "?"] for row in rows)
    assert "5 of 5 run: 5 natural; 20 steps, 675 tokens, cost unknown" in done.out
    assert "█" not in done.err
    listed = sh("runs", "--format", "json").json
    assert {row[1] for row in rows} == {r["run"] for r in listed}


def test_each_line_has_values_of_its_own(sh: Shell) -> None:
    tasks(
        sh,
        {"task": "a"},
        {"task": "b", "limits": {"steps": 2}},
        {"task": "c", "vars": {"tries": 9}},
    )
    told = sh("run", *MANY, "--format", "json", "--limit", "tokens=5000").json
    assert [r["reason"] for r in told["runs"]] == ["completed", "steps_limit", "completed"]
    assert [r["line"] for r in told["runs"]] == [1, 2, 3]
    third = sh("show", told["runs"][2]["run"], "--format", "json").json["records"][0]["data"]
    assert third["vars"] == {"tries": 9}
    assert third["limits"] == {"tokens": 5000}


def test_no_run_is_started_once_the_total_is_spent(sh: Shell) -> None:
    tasks(sh, *({"task": str(n)} for n in range(6)))
    done = sh("run", *MANY, "--concurrency", "1", "--total-limit", "tokens=200,cost=5")
    assert done.code == 3
    assert "2 of 6 run: 2 natural; 8 steps, 270 tokens" in done.out
    assert "4 lines not started: the total of tokens is spent" in done.err
    assert "the total cost could not be enforced" in done.err
    told = sh(
        "run", *MANY, "--concurrency", "1", "--total-limit", "steps=1", "--format", "json"
    ).json
    assert told["not_started"] == [2, 3, 4, 5, 6]
    assert told["reached"] == ["steps"]
    assert told["total"] == {"tokens": 135, "cost": None, "steps": 4}


def test_running_ones_finish(sh: Shell) -> None:
    tasks(sh, *({"task": str(n)} for n in range(6)))
    told = sh(
        "run", *MANY, "--concurrency", "3", "--total-limit", "steps=1", "--format", "json"
    ).json
    assert 1 <= len(told["runs"]) <= 3
    assert {r["kind"] for r in told["runs"]} == {"natural"}


class Worst(NamedTuple):
    """What the lines come to, and the exit code of all."""

    id: str
    lines: tuple[object, ...]
    code: int


OK: dict[str, object] = {"task": "x"}
CUT: dict[str, object] = {"task": "x", "limits": {"steps": 2}}
BAD: dict[str, object] = {"task": "x", "limits": {"stps": 2}}


@pytest.mark.parametrize(
    "case",
    [
        Worst("all-well", (OK, OK), 0),
        Worst("one-cut", (OK, CUT), 3),
        Worst("an-error-is-worse", (CUT, BAD, OK), 1),
    ],
    ids=lambda case: case.id,
)
def test_the_exit_code_is_that_of_the_worst(sh: Shell, case: Worst) -> None:
    tasks(sh, *case.lines)
    assert sh("run", *MANY).code == case.code


def test_a_line_that_cannot_run_takes_nobody_with_it(sh: Shell) -> None:
    tasks(sh, OK, BAD, OK)
    done = sh("run", *MANY, "-v")
    assert "machine `adder` has no limit `stps`" in done.out
    assert "3 of 3 run: 2 natural, 1 error" in done.out
    assert "line 2: machine `adder` has no limit `stps`" in done.err


def test_json_lines_come_as_runs_finish(sh: Shell) -> None:
    tasks(sh, OK, CUT)
    lines = sh("run", *MANY, "--format", "jsonl").lines
    assert [x["event"] for x in lines] == ["result", "result", "total"]
    assert lines[-1]["started"] == 2


def test_runs_that_wait_are_listed_with_their_question(sh: Shell) -> None:
    tasks(sh, OK)
    done = sh("run", "asker.yaml", "--script", "guesses.yaml", "--inputs", "in.jsonl")
    assert done.code == 4
    assert "Is forty-one right?" in done.out


def test_bad_lines_are_all_named_and_nothing_runs(sh: Shell) -> None:
    sh.write("in.jsonl", '{"tsk": "x"}\n\n[1]\n{"task": 3}\n{"vars": []}\nnope\n{"task": "fine"}\n')
    done = sh("run", *MANY)
    assert done.code == 2
    for said in (
        "in.jsonl:1: unknown field `tsk`: did you mean `task`?", "in.jsonl:3: not a JSON object",
        "in.jsonl:4: `task` must be a text", "in.jsonl:5: `vars` must be an object", "in.jsonl:6: ",
    ):  # fmt: skip
        assert said in done.err
    assert sh("runs", "--format", "json").json == []


class Unfit(NamedTuple):
    """Arguments that do not go with many runs, and what is said of them."""

    id: str
    args: tuple[str, ...]
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Unfit("total", ("--total-limit", "money=3"), "--total-limit has no `money`"),
        Unfit("half-a-token", ("--total-limit", "tokens=1.5"), "cannot be `1.5`"),
        Unfit("below-zero", ("--total-limit", "cost=-1"), "cannot be `-1`"),
        Unfit("no-end", ("--total-limit", "cost=inf"), "cannot be `inf`"),
        Unfit("run-id", ("--run-id", "x"), "--run-id names one run"),
        Unfit("task", ("a task",), "leave TASK out"),
        Unfit("concurrency", ("--concurrency", "0"), "0 is not in the range"),
    ],
    ids=lambda case: case.id,
)
def test_options_that_do_not_fit(sh: Shell, case: Unfit) -> None:
    tasks(sh, OK)
    done = sh("run", *MANY, *case.args)
    assert done.code == 2
    assert case.says in done.err


def test_the_lines_may_come_from_stdin(sh: Shell) -> None:
    done = sh("run", *MANY[:-1], "-", stdin='{"task": "x"}\n')
    assert "1 of 1 run" in done.out
    assert sh("run", *MANY[:-1], "-", stdin="\n").code == 2


def test_ctrl_c_stops_all_before_their_next_action(sh: Shell) -> None:
    tasks(sh, *({"task": str(n)} for n in range(6)))
    sh.write("slow.yaml", "replies:\n" + "  - {text: hm, delay: 1s}\n" * 9)
    args = ("looper.yaml", "--script", "slow.yaml", "--inputs", "in.jsonl", "--concurrency", "2")
    going = started("run", *args, "--format", "json", cwd=sh.folder)
    until(lambda: len(sh("runs", "--status", "running", "--format", "json").json) == 2)
    going.send_signal(2)
    out, err = going.communicate(timeout=20)
    assert "stopping before the next action" in err
    told = json.loads(out)
    assert [r["reason"] for r in told["runs"]] == ["user_requested", "user_requested"]
    assert told["not_started"] == [3, 4, 5, 6]
    assert going.returncode == 130


# laws ---------------------------------------------------------------------------------------

amounts = st.integers(0, 10**9)


@given(st.lists(st.tuples(amounts, amounts, st.none() | st.floats(0, 1e6))))
def test_what_is_spent_is_the_sum(runs: list[tuple[int, int, float | None]]) -> None:
    total = sum_spending(
        Facts(RunFacts(steps=s), UsageFacts(total_tokens=t, cost=c)) for s, t, c in runs
    )
    assert total.steps == sum(s for s, _, _ in runs)
    assert total.tokens == sum(t for _, t, _ in runs)
    costs = [c for _, _, c in runs if c is not None]
    assert total.cost == (pytest.approx(sum(costs)) if costs else None)  # unknown is not 0


@given(st.tuples(*[st.none() | amounts] * 3), st.tuples(*[amounts] * 3))
def test_a_bound_is_spent_when_it_is_reached(
    bounds: tuple[int | None, ...], own: tuple[int, ...]
) -> None:
    limits_reached = Totals(*own).limits_reached(Totals(*bounds))
    assert limits_reached == [
        name
        for name, bound, value in zip(TOTALS, bounds, own, strict=True)
        if bound is not None and value >= bound
    ]


@given(st.dictionaries(st.sampled_from(TOTALS), amounts))
def test_bounds_are_read_as_they_are_written(bounds: dict[str, int]) -> None:
    text = ",".join(f"{name}={value}" for name, value in bounds.items())
    found = read_totals([text] if text else [])
    assert {n: v for n, v in found._asdict().items() if v is not None} == bounds
