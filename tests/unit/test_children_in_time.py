"""Children under a deadline: what is left of them, what a retry may take, how many there are."""

from __future__ import annotations

from textwrap import indent
from typing import Any, NamedTuple

import pytest

from chartloop import Run, SpecError, load
from chartloop.adapters.clock import SystemClock
from chartloop.testing import ManualClock

KID = """
machines:
  kid:
    model: {name: scripted, context_window: 100}
    output: {text: last.text}
    states:
      a: {do: receive, next: b}
      b: {do: infer, next: z}
      z: {stop: completed}
"""
HEAD = f"chartloop: 1\nmachine: m\nmodel: {{name: scripted, context_window: 100}}\n{KID}"
THREE = (
    HEAD
    + """
vars: {answers: {type: "map[any]", value: {}}, late: 0}
output: {answers: vars.answers, late: vars.late}
states:
  ask:
    do: run_machines
    with: {machine: kid, each: '["a", "b", "c"]'}
    within: 2s
    save: {vars.answers: result.outputs}
    expired: {to: judge, set: {vars.answers: last.result.outputs, vars.late: 'count(c.status == "late" for c in last.result.children)'}}
    next: done
  judge: {ask: Any?, when: 'any(c.status == "completed" for c in last.result.children)', then: done, else: none}
  none: {stop: no_progress}
  done: {stop: completed}
"""
)


def reply(text: str, delay: str) -> dict[str, Any]:
    return {"text": text, "delay": delay}


def statuses(run: Run) -> list[str]:
    """How the children of the last action ended."""
    result: Any = run.records[-1].outcome.result  # pyright: ignore[reportOptionalMemberAccess]
    return [child["status"] for child in result["children"]]


class Case(NamedTuple):
    """The replies of three children that have two seconds, and what is left of them."""

    id: str
    script: list[Any]
    statuses: str
    answers: dict[str, Any]
    reason: str = "completed"


CASES = [
    Case("all-in-time", ["x", "", "z"], "completed completed completed",
         {"1": {"text": "x"}, "2": {"text": ""}, "3": {"text": "z"}}),
    Case("an-empty-answer-is-no-late-one", [reply("x", "0.1s"), reply("", "0.1s"), reply("z", "9s")],
         "completed completed late", {"1": {"text": "x"}, "2": {"text": ""}, "3": None}),
    Case("all-late", [reply("x", "9s")] * 3, "late late late", {"1": None, "2": None, "3": None}, "no_progress"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("real", [False, True], ids=["simulated", "real"])
def test_what_finished_children_found_survives_the_deadline(case: Case, real: bool) -> None:
    """On a simulated clock children take turns; on a real one they work at the same time."""
    text = THREE.replace("2s", "500ms") if real else THREE
    clock = SystemClock() if real else ManualClock()
    run = load(text).start("t", script=case.script, clock=clock)
    result = run.run()
    assert statuses(run) == case.statuses.split()
    assert result.output == {"answers": case.answers, "late": case.statuses.count("late")}
    assert result.reason == case.reason
    assert run.replay().same


def test_the_one_child_that_is_late_says_so() -> None:
    run = load(
        HEAD
        + """
states:
  ask: {do: run_machine, with: {machine: kid, task: x}, within: 2s, expired: judge, next: done}
  judge: {of: last.result.status, cases: {late: late}, else: done}
  late: {stop: time_limit}
  done: {stop: completed}
"""
    ).start(script=[reply("x", "9s")], clock=ManualClock())
    assert run.run().reason == "time_limit"


def test_a_misspelt_status_is_found_where_the_file_is_loaded() -> None:
    with pytest.raises(SpecError, match="late"):
        load(THREE.replace('c.status == "late"', 'c.status == "latte"'))


def test_the_edge_of_the_deadline_says_what_it_carries() -> None:
    assert "after 2 s,<br/>with the results so far" in load(THREE).draw().mermaid()


def test_the_first_that_ends_well_leaves_the_others_stopped() -> None:
    fields = "children: {a: {machine: kid, start: b}, b: {machine: kid, task: x}}, wait_for: any"
    text = THREE.replace("""machine: kid, each: '["a", "b", "c"]'""", fields)
    run = load(text).start("t", script=["x", "y"], clock=ManualClock())
    run.run()
    assert statuses(run) == ["completed", "stopped"]


BUDGET = """limits: {tokens: 40}
RULES: [{when: usage.total_tokens >= limits.tokens, stop: token_limit}]
"""


def test_a_child_for_which_nothing_is_left_is_unstarted() -> None:
    """Sixteen work at once: what they spend leaves nothing for the others."""
    budget = BUDGET.replace("RULES", "rules")
    text = THREE.replace("machines:", f"{budget}machines:", 1).replace(
        "    output: {text", f"{indent(budget, '    ')}    output: {{text"
    )
    text = text.replace('["a", "b", "c"]', str(["a"] * 20).replace("'", '"')).replace("2s", "60s")
    used = {"text": "x", "usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    run = load(text).start("t", script=[used] * 20)
    run.run()
    found = statuses(run)
    assert found[-1] == "unstarted"
    assert set(found) <= {"completed", "stopped", "unstarted"}
    assert run.result.output["answers"]["20"] is None


# retries ----------------------------------------------------------------------------------------

RETRIED = """
tasks: [{text: one%s}]
states:
  s: {do: %s, retry: {times: 1, base: 1s}, within: 1500ms, failed: bad, next: done}
  bad: {stop: no_progress}
  done: {stop: completed}
"""
FAILS = {"error": {"category": "TRANSIENT", "message": "no"}, "delay": "0.9s"}


@pytest.mark.parametrize("pause", [False, True], ids=["at-once", "paused"])
@pytest.mark.parametrize(
    ("by", "action"),
    [("", "infer"), ("", "work"), (", by: {machine: kid}", "work"), ("", "run_machine, with: {machine: kid, task: x}")],
    ids=["model", "work", "work-by-a-child", "child"],
)  # fmt: skip
def test_an_attempt_has_its_whole_time(by: str, action: str, pause: bool) -> None:
    """Neither the back-off nor a pause before an attempt is part of its time."""
    clock = ManualClock()
    run = load(HEAD + RETRIED % (by, action)).start(
        "t", script=[FAILS, reply("x", "0.9s")], clock=clock
    )
    if pause:
        run.step()
        run.pause()
        run.advance()
        clock.advance(60)
        run.resume()
    assert run.run().reason == "completed"


def test_a_cut_off_attempt_says_how_long_it_took() -> None:
    run = load(HEAD + RETRIED % ("", "run_machine, with: {machine: kid, task: x}")).start(
        script=[FAILS, reply("x", "9s")], clock=ManualClock()
    )
    run.run()
    error = run.facts.errors.last
    assert error is not None
    assert error.message == "s took too long: stopped after 1.5 s"


def test_the_time_of_a_child_that_asks_counts_from_its_own_start() -> None:
    """Nothing drives the run for a day before its child starts; then an answer has an hour."""
    clock = ManualClock()
    run = load(
        HEAD.replace("b: {do: infer, next: z}", "b: {ask: Ok?, on: {yes: z}}").replace(
            "model: {name: scripted, context_window: 100}\n    output: {text: last.text}", "output: {a: run.steps}"
        )
        + """
states:
  s: {do: nothing, next: t}
  t: {do: run_machine, with: {machine: kid, task: x}, within: 1h, expired: late, next: done}
  late: {stop: time_limit}
  done: {stop: completed}
"""
    ).start(clock=clock)  # fmt: skip
    run.step()
    clock.advance(86_400)
    while run.question is None:
        run.advance()
    clock.advance(3_000)
    run.send("yes")
    assert run.run().reason == "completed"


# how many ---------------------------------------------------------------------------------------

LIST = (
    HEAD
    + """
limits: {few: 2}
vars: {topics: {type: "list[str]", value: []}}
rules: [{when: run.steps >= limits.few * 10, stop: steps_limit}]
states:
  plan:
    do: infer
    with: {output: {type: object, required: [topics], properties: {topics: {type: array, %s items: {type: string}}}}}
    save: {vars.topics: result.data.topics}
    next: ask
  ask: {do: run_machines, with: {machine: kid, each: vars.topics%s}, next: done}
  done: {stop: completed}
"""
)


@pytest.mark.parametrize(
    ("schema", "most", "requests"),
    [("", "", 1_001), ("", ", most: 3", 4), ("", ", most: limits.few", 3), ("maxItems: 5,", "", 6),
     ("maxItems: 5,", ", most: 3", 4), ("maxItems: 2,", ", most: 3", 3)],
)  # fmt: skip
def test_the_bound_knows_how_many_children_there_are(schema: str, most: str, requests: int) -> None:
    bound = load(LIST % (schema, most)).bound()
    assert bound["requests"].value == requests
    assumed = [a for a in bound.assumptions if "`vars.topics` has at most" in a]
    assert bool(assumed) == (schema != "" and requests in (3, 6))


@pytest.mark.parametrize(
    "writes",
    ['set: {vars.topics: {append: "\\"x\\""}}, ', "save: {vars.topics: {append: last.text}}, "],
    ids=["appended", "saved"],
)
def test_a_list_that_grows_elsewhere_is_bounded_by_no_schema(writes: str) -> None:
    writes = writes.replace("last.text", "result.text")
    text = (LIST % ("maxItems: 5,", "")).replace(
        "  done: {", f"  more: {{do: infer, {writes}next: done}}\n  done: {{", 1
    ).replace("each: vars.topics}, next: done", "each: vars.topics}, next: more")  # fmt: skip
    assert load(text).bound()["requests"].value == 1_002


def test_items_beyond_most_are_left_out_with_a_warning() -> None:
    script = ['{"topics": ["a", "b", "c", "d"]}', "x", "y", "z"]
    run = load(LIST % ("", ", most: 3")).start(script=script, clock=ManualClock())
    result = run.run()
    assert statuses(run) == ["completed"] * 3
    assert "`each` has 4 items; the first 3 were run" in result.warnings


@pytest.mark.parametrize(
    ("fields", "says"),
    [("machine: kid, each: vars.topics, most: 0", "from 1"), ("children: {a: {machine: kid}}, most: 2", "goes with `each`")],
)  # fmt: skip
def test_a_most_that_says_nothing_is_refused(fields: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        load((LIST % ("", "")).replace("machine: kid, each: vars.topics", fields))
