"""What if: the verdicts, and where they stop being sure."""

from __future__ import annotations

from typing import Any

import pytest

from chartloop import stats, sweep, whatif
from chartloop.actions.declare import action, guard
from chartloop.api import Machine, Run, load
from chartloop.core.errors import LimitError
from chartloop.core.outcome import Outcome, Spent
from chartloop.run.context import Context
from chartloop.run.journal import MemoryJournal, RunRow
from chartloop.run.recorded import RecordedRun
from chartloop.studies.whatif.verdict import RunVerdict, Verdict
from chartloop.testing.clock import ManualClock
from tests.support import failure, machine

LOOP = """
limits: {steps: 10, tokens: 1000, cost: 5.0}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.total_tokens >= limits.tokens, stop: token_limit}
  - {when: usage.cost >= limits.cost, stop: cost_limit}
states:
  work: {do: act, next: [{when: run.visits.work >= 5, to: done}, {to: work}]}
  done: {stop: completed}
"""
PAID = Outcome(spent=Spent(1, 60, 40, 0.5, tools={"x": 2}), result="said")


def one(machine: Machine, run: Any, **limits: Any) -> RunVerdict:
    (judged,) = whatif(machine, run, limits=limits).runs
    return judged


def ran(body: str, said: Any = None, **options: Any) -> tuple[Machine, Run]:
    made = machine(body, said)
    options.setdefault("clock", ManualClock(1000))
    run = made.start("t", **options)
    run.run()
    return made, run


# the verdicts -------------------------------------------------------------------------------


def test_the_same_limits_change_nothing() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5})
    judged = one(made, run)
    assert (judged.verdict, judged.record) == (Verdict.SAME, None)
    assert (judged.reason, judged.kind) == ("completed", "natural")


def test_a_lower_limit_stops_earlier_and_saves_what_came_after() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5})
    judged = one(made, run, steps=2)
    assert judged.verdict is Verdict.EARLIER
    assert (judged.record, judged.reason, judged.kind) == (2, "steps_limit", "limit")
    saved = judged.saved
    assert (saved.actions, saved.llm_calls, saved.tool_calls, saved.tokens) == (3, 3, 6, 300)
    assert saved.usd == pytest.approx(1.5)
    assert judged.lost
    assert not judged.at_risk


def test_a_run_without_a_price_saves_no_known_cost() -> None:
    made, run = ran(LOOP, {"work": [Outcome(spent=Spent(1, 60, 40))] * 5})
    assert one(made, run, steps=2).saved.usd is None


def test_a_run_that_stopped_at_a_limit_is_not_lost() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5}, limits={"steps": 4})
    judged = one(made, run, steps=2)
    assert (judged.verdict, judged.was, judged.lost) == (Verdict.EARLIER, "steps_limit", False)


def test_a_higher_limit_goes_on_where_the_record_ends() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5}, limits={"steps": 3})
    judged = one(made, run, steps=8)
    assert (judged.verdict, judged.record, judged.state) == (Verdict.LATER, 3, "work")
    assert not judged.verdict.sure
    assert judged.known_records == 3


def test_a_limit_that_would_have_let_it_finish_wins_an_answer() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5}, limits={"steps": 5})
    judged = one(made, run, steps=6)
    assert (judged.verdict, judged.reason) == (Verdict.OTHERWISE, "completed")
    assert judged.won


def test_another_limit_may_stop_it_at_the_same_record() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5}, limits={"steps": 3})
    judged = one(made, run, steps=8, tokens=300)
    assert (judged.verdict, judged.record, judged.reason) == (Verdict.OTHERWISE, 3, "token_limit")


def test_a_limit_that_a_decision_reads_leads_elsewhere() -> None:
    body = """
limits: {many: 3}
states:
  work: {do: act, next: enough}
  enough: {ask: Enough?, when: run.steps >= limits.many, then: more, else: work}
  more: {do: act, next: done}
  done: {stop: completed}
"""
    made, run = ran(body)
    judged = one(made, run, many=2)
    assert (judged.verdict, judged.record, judged.state) == (Verdict.ELSEWHERE, 2, "more")
    assert judged.edge == "enough.then"
    assert judged.at_risk


def test_a_limit_of_a_run_stays_unless_it_is_asked_about() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5}, limits={"steps": 4})
    judged = one(made, run, tokens=900)
    assert (judged.verdict, judged.was) == (Verdict.SAME, "steps_limit")


def test_a_limit_can_be_switched_off() -> None:
    body = LOOP.replace("tokens: 1000", "tokens: {type: int, value: 1000}")
    made, run = ran(body, {"work": [PAID] * 5})
    assert one(made, run, tokens="off").verdict is Verdict.SAME
    with pytest.raises(LimitError, match="cannot be switched off"):
        whatif(made, run, limits={"steps": "off"})
    with pytest.raises(LimitError, match="no limit `stepz`"):
        whatif(made, run, limits={"stepz": 3})


# where it stops being sure ------------------------------------------------------------------


def test_an_action_that_is_told_the_limit_might_do_something_else() -> None:
    body = """
limits: {steps: 6}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
model: {name: scripted}
instructions: "You have {{ limits.steps }} steps."
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: done}
  done: {stop: completed}
"""
    made, run = ran(body, script=["hello"])
    judged = one(made, run, steps=5)
    assert (judged.verdict, judged.record, judged.state) == (Verdict.UNKNOWN, 2, "think")
    assert judged.because == "`instructions` reads `limits.steps`"


def test_a_share_of_a_limit_is_followed_through_variables() -> None:
    body = """
limits: {steps: 6}
vars: {left: 0}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
model: {name: scripted}
states:
  ask: {do: receive, set: {vars.left: limits.steps - 1}, next: think}
  think: {do: prompt, with: {user: "{{ vars.left }} left"}, next: done}
  done: {stop: completed}
"""
    made, run = ran(body, script=["hello"])
    judged = one(made, run, steps=5)
    assert judged.verdict is Verdict.UNKNOWN
    assert judged.because == "`with` of `think` reads `vars.left`"


WAITS = """
limits: {patience: 60s}
states:
  wait: {ask: Ok?, on: {yes: done, no: other}, within: limits.patience, expired: late}
  other: {do: act, next: done}
  late: {stop: user_unresponsive}
  done: {stop: completed}
"""


def answered(after: float) -> tuple[Machine, Run]:
    made, clock = machine(WAITS), ManualClock(1000)
    run = made.start("t", clock=clock, journal=MemoryJournal())
    run.advance()
    clock.advance(after)
    if after < 60:
        run.send("yes")
    run.run()
    return made, run


def test_an_answer_that_would_have_come_too_late() -> None:
    made, run = answered(30)
    judged = one(made, run, patience="20s")
    assert (judged.verdict, judged.reason) == (Verdict.OTHERWISE, "user_unresponsive")
    assert one(made, run, patience="40s").verdict is Verdict.SAME


def test_a_wait_that_would_not_have_expired() -> None:
    made, run = answered(60)
    assert run.result.reason == "user_unresponsive"
    judged = one(made, run, patience="2m")
    assert judged.verdict is Verdict.UNKNOWN
    assert "would not have expired yet" in judged.because


def test_a_wait_that_would_have_expired_sooner() -> None:
    """The run goes the same way; how much sooner is said, and not a word where it is the same."""
    made, run = answered(60)
    judged = one(made, run, patience="20s")
    assert judged.verdict is Verdict.SAME
    assert judged.note == "the wait at `wait` would have expired 40 s sooner"
    assert one(made, run, patience="60s").note == ""


@action(effect="pure")
def slow(ctx: Context) -> None:
    """Takes ten seconds."""
    ctx.ports.clock.advance(10)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  simulated here


SLOW = """chartloop: 1
machine: slow
limits: {time: 30s, patience: 20s}
rules: [{when: run.working >= limits.time, stop: time_limit}]
states:
  work: {do: slow, within: limits.patience, failed: other, next: work}
  other: {do: nothing, next: done}
  done: {stop: completed}
"""


def test_a_deadline_in_the_midst_of_an_action_stops_it_all_the_same() -> None:
    made = load(SLOW, actions=[slow])
    run = made.start("t", clock=ManualClock(1000))
    run.run()
    assert (run.result.reason, run.result.steps) == ("time_limit", 3)
    judged = one(made, run, time="15s")
    assert (judged.verdict, judged.record, judged.reason) == (Verdict.EARLIER, 2, "time_limit")
    assert one(made, run, time="25s").verdict is Verdict.SAME


def test_what_comes_of_an_action_that_would_have_been_cut_off_is_not_known() -> None:
    made = load(SLOW, actions=[slow])
    run = made.start("t", clock=ManualClock(1000))
    run.run()
    judged = one(made, run, patience="4s")
    assert (judged.verdict, judged.record) == (Verdict.UNKNOWN, 1)
    assert judged.because == "`work` took 10 s and would have been cut off after 4 s"
    assert one(made, run, patience="11s").verdict is Verdict.SAME


@guard
def fine(n: int) -> bool:
    """Whether it is."""
    return n < 9


@guard
def good(n: int) -> bool:
    """Whether it is."""
    return n > 0


GUARDED = """chartloop: 1
machine: guarded
limits: {many: 5}
states:
  work: {do: nothing, next: [{when: fine(run.steps), to: again}, {to: done}]}
  again:
    do: nothing
    next:
      - {when: "run.steps >= limits.many and good(run.steps)", to: done}
      - {when: fine(run.steps), to: work}
      - {to: done}
  done: {stop: completed}
"""


def test_a_guard_that_would_be_asked_what_it_was_not_asked() -> None:
    made = load(GUARDED, guards=[fine, good])
    run = made.start("t")
    run.run()
    assert one(made, run, many=5).verdict is Verdict.SAME
    judged = one(made, run, many=2)
    assert judged.verdict is Verdict.UNKNOWN
    assert judged.because == "guard `good` would be asked what it was not asked then"


def test_answers_of_guards_are_found_by_what_is_asked() -> None:
    made = load(GUARDED, guards=[fine, good])
    run = made.start("t", limits={"many": 2})
    run.run()
    # `good` is not asked any more: its recorded answer comes first, and is not taken for `fine`'s
    judged = one(made, run, many=9)
    assert judged.verdict is Verdict.UNKNOWN
    assert "guard `fine`" in judged.because


# inputs from outside ------------------------------------------------------------------------


def test_an_edit_by_hand_holds_from_there_on() -> None:
    made = machine(LOOP, {"work": [PAID] * 5})
    run = made.start("t", limits={"steps": 3})
    for _ in range(3):
        run.advance()
    run.set("limits.steps", 20)
    run.run()
    assert run.result.reason == "completed"
    judged = one(made, run, steps=5)
    assert judged.verdict is Verdict.SAME
    assert judged.note == "record 3 set limits.steps to 20"
    assert one(made, run, steps=2).verdict is Verdict.EARLIER


def test_a_stop_from_outside_is_an_input_like_others() -> None:
    made = machine(LOOP, {"work": [PAID] * 5})
    run = made.start("t", journal=MemoryJournal())
    for _ in range(3):
        run.advance()
    run.cancel()
    run.run()
    assert one(made, run, steps=8).was == "user_requested"
    assert one(made, run, steps=8).verdict is Verdict.SAME
    assert one(made, run, steps=2).verdict is Verdict.EARLIER


def test_retries_count_as_the_steps_that_they_are() -> None:
    body = LOOP.replace("{do: act,", "{do: act, retry: {times: 2, base: 5s},")
    made, run = ran(body, {"work": [failure(), failure(), PAID, PAID, PAID]})
    judged = one(made, run, steps=2)
    assert (judged.verdict, judged.reason) == (Verdict.EARLIER, "steps_limit")
    assert judged.saved.waiting == pytest.approx(10.0)  # the first back-off came before
    judged = one(made, run, steps=1)
    assert judged.saved.waiting == pytest.approx(15.0)


def test_time_that_a_run_was_paused_is_no_work() -> None:
    body = LOOP.replace("cost: 5.0", "time: 30s").replace(
        "usage.cost >= limits.cost, stop: cost_limit",
        "run.working >= limits.time, stop: time_limit",
    )
    made, clock = machine(body), ManualClock(1000)
    run = made.start("t", clock=clock, journal=MemoryJournal())
    run.advance()
    run.pause()
    run.run()
    clock.advance(3_600)
    run.resume()
    run.run()
    assert one(made, run, time="10s").verdict is Verdict.SAME


# epilogues, children, versions --------------------------------------------------------------


def test_an_epilogue_is_taken_to_cost_what_it_did() -> None:
    body = LOOP.replace("rules:", "on_stop: sum_up\nrules:", 1).replace(
        "done: {stop: completed}", "done: {stop: completed, next: sum_up}\n"
        "  sum_up: {do: keep, next: over}\n  over: {end: by_reason}",
    )  # fmt: skip
    made, run = ran(body, {"work": [PAID] * 5, "sum_up": [PAID]})
    judged = one(made, run, steps=3)
    assert (judged.verdict, judged.state, judged.epilogue) == (Verdict.EARLIER, "sum_up", True)
    assert judged.saved.llm_calls == 2  # not the third, which the report made


CHILD = """chartloop: 1
machine: parent
model: {name: scripted}
limits: {tokens: 1000, steps: 9}
rules:
  - {when: usage.total_tokens >= limits.tokens, stop: token_limit}
  - {when: run.steps >= limits.steps, stop: steps_limit}
machines:
  helper:
    model: {name: scripted}
    limits: {tokens: 500}
    rules: [{when: usage.total_tokens >= limits.tokens, stop: token_limit}]
    states:
      ask: {do: receive, next: think}
      think: {do: infer, next: done}
      done: {stop: completed}
states:
  begin: {do: nothing, next: help}
  help: {do: run_machine, with: {machine: helper, task: x}, next: think}
  think: {do: infer, next: done}
  done: {stop: completed}
"""


def test_what_a_child_spent_is_its_parents() -> None:
    made = load(CHILD)
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "cost": 0.25}
    script = [{"text": "a", "usage": usage}, {"text": "b", "usage": usage}]
    run = made.start("t", script=script)
    run.run()
    judged = one(made, run, steps=1)
    assert judged.verdict is Verdict.EARLIER
    assert (judged.saved.tokens, judged.saved.usd) == (240, pytest.approx(0.5))


@pytest.mark.parametrize(
    ("tokens", "sure"),
    [(900, True), (121, True), (120, False), (60, False)],
    ids=["far-from-it", "one-below", "reached", "less"],
)
def test_a_child_that_comes_near_neither_rest_of_a_limit_does_what_it_did(
    tokens: int, sure: bool
) -> None:
    made = load(CHILD)
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    script = [{"text": "a", "usage": usage}, {"text": "b", "usage": usage}]
    run = made.start("t", script=script)
    run.run()
    judged = one(made, run, tokens=tokens)
    if sure:
        assert judged.verdict.sure, str(judged)
        return
    assert judged.verdict is Verdict.UNKNOWN
    assert judged.because == "its child `helper` is given what is left of `limits.tokens`"


def test_a_changed_file_is_followed_as_far_as_it_decides_alike() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5})
    again = machine(LOOP.replace("run.visits.work >= 5", "run.visits.work >= 4"))
    judged = one(again, run)
    assert (judged.verdict, judged.record, judged.reason) == (Verdict.EARLIER, 4, "completed")
    assert not judged.lost
    assert judged.saved.tokens == 100
    assert one(made, run).verdict is Verdict.SAME


def test_a_changed_file_that_gives_an_action_something_else_is_not_sure() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5})
    del made
    again = machine(LOOP.replace("do: act", "do: keep"))
    judged = one(again, run)
    assert (judged.verdict, judged.record) == (Verdict.UNKNOWN, 1)
    assert judged.because == "`work` does another action"


LABELLED = """chartloop: 1
machine: m
model: {name: scripted}
instructions: "{{ run.task }}"
start: think
states:
  think: {label: Think, do: infer, next: done}
  done: {stop: completed}
"""


@pytest.mark.parametrize(
    ("name", "renamed"),
    [("think", ""), ("ponder", "renamed: {think: ponder}\n"), ("ponder", "")],
    ids=["same-name", "declared", "undeclared"],
)
def test_other_inputs_are_seen_whatever_the_state_is_called_now(name: str, renamed: str) -> None:
    run = load(LABELLED).start("t", script=["Hello."])
    run.run()
    text = LABELLED.replace("think", name) + renamed
    assert one(load(text), run).verdict is Verdict.SAME
    judged = one(load(text.replace("do: infer", "do: infer, with: {temperature: 0.9}")), run)
    assert judged.verdict is Verdict.UNKNOWN
    assert judged.because == f"`{name}` gives its action something else"


APPROVED = """chartloop: 1
machine: m
model: {name: scripted}
memory: {human: x}
tools: [core_memory_append]
approve: {tools: [core_memory_append]%s}
limits: {steps: 9}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, done]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""


def test_another_approval_is_followed_by_the_states_that_it_makes() -> None:
    run = load(APPROVED % "").start("t", script=["Hello."])
    run.run()
    assert one(load(APPROVED % ", by: the owner"), run).verdict is Verdict.SAME


def test_a_way_that_stands_elsewhere_is_the_same_way() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5})
    first = LOOP.replace("rules:\n", "rules:\n  - {when: run.steps > 900, stop: custom}\n")
    assert first != LOOP
    assert one(machine(first), run).verdict is Verdict.SAME
    assert one(machine(first), run, steps=2).reason == "steps_limit"
    assert made.name == "m"


def test_a_rename_that_the_file_does_not_say_is_said() -> None:
    _, run = ran(LOOP, {"work": [PAID] * 5})
    judged = one(machine(LOOP.replace("work", "labour")), run)
    assert judged.verdict is Verdict.SAME
    assert judged.note == "`work` is taken for `labour`, which `renamed` does not say"


def test_what_is_said_of_where_the_record_ends() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5}, limits={"steps": 3})
    judged = one(made, run, steps=8)
    assert str(judged) == (
        "goes on at record 3 to `work`, where it stopped for `steps_limit`:"
        " `work` would do `act` next, and nothing is recorded of it"
    )
    text = str(whatif(made, run, limits={"steps": 8}))
    assert "what comes next was never recorded: 1 run at work" in text


def test_renamed_states_are_read_under_their_new_names() -> None:
    _, run = ran(LOOP, {"work": [PAID] * 5})
    again = machine(LOOP.replace("work", "labour") + "renamed: {work: labour}\n")
    assert one(again, run).verdict is Verdict.SAME
    judged = one(again, run, steps=2)
    assert (judged.verdict, judged.record) == (Verdict.EARLIER, 2)


def test_a_record_that_was_changed_is_not_blamed_on_the_limits() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5})
    records = list(run.records)
    records[3] = records[3].replace(next="done")
    row = RunRow("r", made.name, made.hash, status="completed", reason="completed")
    judged = one(made, RecordedRun(row, tuple(records), made.canonical()), steps=9)
    assert judged.verdict is Verdict.UNKNOWN
    assert judged.because.startswith("record 3 is not decided as it was recorded")
    sooner = one(made, RecordedRun(row, tuple(records), made.canonical()), steps=2)
    assert sooner.verdict is Verdict.EARLIER


# many runs ----------------------------------------------------------------------------------


def test_a_run_of_another_machine_is_reported_and_passed_over() -> None:
    made, run = ran(LOOP)
    foreign = RecordedRun(RunRow("f", "other"), tuple(run.records), "")
    found = whatif(made, [run, foreign], limits={"steps": 2})
    assert len(found.runs) == 1
    assert str(found.unread[0]) == ("run `f` is skipped: it is a run of `other`, not of `m`")


@pytest.mark.parametrize(
    "broken",
    [
        {"limits": 3}, {"limits": {"steps": "many"}}, {"vars": [1]}, {"messages": 5},
        {"tasks": [{"odd": 1}]}, {"memory": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_a_record_that_no_engine_wrote_is_passed_over(broken: dict[str, Any]) -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5})
    first = run.records[0]
    odd = first.replace(input=first.input.replace(data=broken))
    row = RunRow("r", "m", made.hash, status="completed", reason="completed")
    recorded = RecordedRun(row, (odd, *run.records[1:]), made.canonical())
    found = whatif(made, [recorded, run], limits={"tokens": 900})
    assert len(found.runs) + len(found.unread) == 2
    assert found.runs[-1].verdict is Verdict.SAME
    assert stats(made, [recorded, run]).runs in (1, 2)


def test_a_machine_that_nobody_kept_is_taken_to_be_this_one_and_said() -> None:
    made, run = ran(LOOP)
    unknown = RecordedRun(RunRow("f", "m", "0" * 64, status="completed", reason="completed"),
                          tuple(run.records), "")  # fmt: skip
    found = whatif(made, [unknown], limits={"steps": 2})
    assert found.assumed == 1
    assert "was not kept" in str(found)


def test_a_sweep_is_the_same_question_for_each_value() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5})
    swept = sweep(made, run, "steps", range(1, 7))
    assert [len(p.lost) for p in swept.points] == [1, 1, 1, 1, 1, 0]
    assert [p.savings.tokens for p in swept.points] == [400, 300, 200, 100, 0, 0]
    for point, steps in zip(swept.points, range(1, 7), strict=True):
        assert point.runs == whatif(made, run, limits={"steps": steps}).runs
    with pytest.raises(LimitError, match="no value of `steps`"):
        sweep(made, run, "steps", [])


def html(shown: Any) -> str:
    """What a notebook is given."""
    return shown._repr_mimebundle_()["text/html"]


def test_what_it_says() -> None:
    made, run = ran(LOOP, {"work": [PAID] * 5})
    found = whatif(made, run, limits={"steps": 2})
    text = str(found)
    assert "what if steps=2: 1 of 1 run of m change" in text
    assert "sure of the end of 1 of 1 run (100%)" in text
    assert "answers lost: 1" in text
    assert repr(found) == "<WhatIf what if steps=2: 1 of 1 run of m change, 100% sure>"
    assert "stops for steps_limit" in html(found)
    assert found.to_dict()["verdicts"]["stops earlier"] == 1
    assert str(whatif(made, [], limits={"steps": 2})) == "what if steps=2: no runs of m"
    assert str(sweep(made, [], "steps", [1, 2])) == "steps of m, over 0 runs"
    assert "no runs of m" in html(whatif(made, []))
