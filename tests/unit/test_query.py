"""Queries in Python: what they say, what they take for granted, what limits change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop import AgentStop, Context, action, load
from chartloop.analysis.proofs.query import EFFORT, QueryFault, Questions
from tests.exploring import built

CHECKED = Path(__file__).parents[1] / "cases" / "check"

MACHINE = """chartloop: 1
machine: m
model: {name: scripted}
tools: [poke]
limits: {steps: 9, side: {type: int, value: null}}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: run.steps >= limits.side, to: aside}
states:
  ask: {do: infer, failed: sorry, next: [{when: len(last.tool_calls) > 0, to: act}, {to: fork}]}
  act: {do: call_tools, next: ask}
  fork: {all: [left, right]}
  left: {ask: "Q?", when: whim(1), then: stopped, else: tell}
  right: {ask: "Q?", when: whim(2), then: stopped, else: tell}
  tell: {do: tool, with: {name: poke}, next: wait}
  wait: {on: {yes: done, no: ask}, within: 1m, expired: late}
  aside: {do: nothing, next: return}
  sorry: {stop: error, next: report}
  report: {do: report, next: over}
  over: {end: by_reason}
  stopped: {stop: custom, next: report}
  late: {stop: user_unresponsive, next: report}
  done: {stop: completed}
"""


class Case(NamedTuple):
    """A query, and whether it holds."""

    text: str
    holds: bool
    cancels: bool = True


CASES = [
    Case("reach tell", True), Case("avoid tell", False), Case("reach aside", True),
    Case("never tell before ask", True), Case("never tell before act", False),
    Case("never tell before left", True), Case("never tell before right", True),
    Case("always ask before wait", True), Case("never wait after stopped", True),
    Case("never act after done", True), Case("never ask after wait", False),
    Case("always state:report after stopped", True), Case("always state:report after late", True),
    Case("always state:report after ask", False), Case("never tool:poke before tell", False),
    Case("always tool:poke after tell", False), Case("reach event:no", True),
    Case("never event:no before wait", True), Case("always over after sorry", True),
    Case("never action:report before action:infer", True), Case("reach guard_error", True),
    Case("never stopped before fork.all.0", False), Case("reach rules.0", True),
    Case("never reason:steps_limit after reason:completed", True), Case("reach ask.failed", True),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text.replace(" ", "-"))
def test_a_query(case: Case) -> None:
    found = built(MACHINE).query(case.text, cancels=case.cancels)
    assert found.holds is case.holds, str(found)
    assert bool(found) is case.holds


def test_an_answer_prints_and_is_plain_data() -> None:
    found = built(MACHINE).query("never tell before act")
    assert str(found).splitlines()[0] == "no: `tell` can happen with no `act` before it"
    assert found.witness[0] == "ask"
    assert found.witness[-1] == "tell"
    assert json.loads(json.dumps(found.to_dict()))["holds"] is False
    assert any("at any moment, for `user_requested`" in said for said in found.assumptions)


TICKET = """chartloop: 1
machine: m
model: {name: scripted}
tools: [poke]
limits: {steps: 9}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  ask: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: wait}]}
  act: {do: call_tools, next: ask}
  wait: {on: {yes: tell}, within: 1m, expired: late}
  tell: {do: report, next: done}
  late: {stop: user_unresponsive}
  done: {stop: completed}
"""


class Shown(NamedTuple):
    """A query of `TICKET`: the run that shows it, and what is said of it."""

    text: str
    witness: list[str]
    said: str


SHOWN = [
    # tools may ask to stop for any reason, which would lead to each of these at once
    Shown("reach done", ["ask", "wait", "tell", "done"], "`done` can be reached"),
    Shown("avoid late", ["ask", "wait", "late"], "`late` can happen"),
    # what ends with no state of the file is said by the end that the engine makes
    Shown(
        "reach steps_limit", ["ask", "end-completed"],
        "reason `steps_limit` can be reached, by rule `rules.0`",
    ),
    Shown(
        "always tell after ask", ["ask", "end-completed"],
        "a run can end with no `tell` after `ask`, by rule `rules.0`",
    ),
    Shown("reach rules.0", ["ask", "end-completed"], "`rules.0` can be reached"),
    # nothing leads there but what somebody asks for
    Shown(
        "reach user_requested", ["ask", "end-completed"],
        "reason `user_requested` can be reached, by a stop from outside",
    ),
    Shown(
        "reach token_limit", ["ask", "act", "end-completed"],
        "reason `token_limit` can be reached, where a tool or an action asks to stop",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", SHOWN, ids=lambda case: case.text.replace(" ", "-"))
def test_a_run_that_shows_it_is_an_ordinary_one_where_there_is_one(case: Shown) -> None:
    found = built(TICKET).query(case.text)
    assert (list(found.witness), found.reason) == (case.witness, case.said)


def test_without_stops_from_outside() -> None:
    machine = built(MACHINE)
    assert "by a stop from outside" in machine.query("reach user_requested").reason
    without = machine.query("reach user_requested", cancels=False)
    assert "where a tool or an action asks to stop" in without.reason
    assert "it is not stopped from outside" in without.assumptions


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("never done before llm_inference", "yes: `llm_inference` comes before `done` on every path"),
        ("reach done", "yes: `done` can be reached\n  user_message → llm_inference → done"),
        ("reach completed", "yes: reason `completed` can be reached\n  user_message"),
        ("reach user_requested", "stop from outside"),
        ("never error before llm_inference", "where an action fails\n  user_message"),
        ("avoid guard_error", "no: reason `guard_error` can happen, where a guard cannot be evaluated"),
        ("avoid retry_limit", "where a tool or an action asks to stop\n  user_message → llm_inference"),
        ("avoid user_unresponsive", "where a tool or an action asks to stop"),
    ],
)  # fmt: skip
def test_what_no_rule_or_edge_raises_is_raised_where_it_can_be(text: str, said: str) -> None:
    """A tool asks to stop when it has been called, no sooner; then the answer says so."""
    assert said in str(load("agent").query(text))


def test_an_answer_is_for_every_limit_unless_one_is_given() -> None:
    machine = built(MACHINE)
    assert machine.query("avoid aside").holds is False
    assert machine.questions(limits={"side": "off"}).ask("avoid aside").holds is True
    assert machine.questions(limits={"side": 3}).ask("avoid aside").holds is False


@pytest.mark.parametrize(
    ("text", "least"), [("reach act", 2), ("reach wait", 2), ("reach tell", 2), ("reach done", 2)]
)
def test_what_no_run_comes_to_within_its_limit_of_actions(text: str, least: int) -> None:
    """`ask` is one action and `tell` another; a rule that holds stops before any edge is taken."""
    machine = built(TICKET)
    for steps in range(1, 5):
        assert machine.questions(limits={"steps": steps}).ask(text).holds is (steps >= least)
    assert machine.query(text).holds is True
    # a tool may ask to stop for `completed`, with no action more; else `tell` comes before `done`
    within = machine.questions(limits={"steps": 2}).ask("reach done")
    assert "where a tool or an action asks to stop" in within.reason


def test_a_name_that_two_things_have() -> None:
    with pytest.raises(QueryFault, match="`report` is a state and an action") as caught:
        built(MACHINE).query("reach report")
    assert caught.value.hint == "write `state:report` or `action:report`"


def test_a_name_that_nothing_has() -> None:
    with pytest.raises(QueryFault, match="nothing that is called `tel`") as caught:
        built(MACHINE).query("reach tel")
    assert "did you mean `tell`?" in caught.value.hint


def test_document_004_would_stop_after_a_memory_update() -> None:
    """Its table has no case for it. As written it never comes to one: `check` says that (CL304)."""
    written = (CHECKED / "CL304-hidden-document-004-as-written.yaml").read_text("utf-8")
    asked = "when: len(last.tool_calls) > 0, then: tool, else: complete}"
    assert asked in written
    chosen = "next: [{when: last.wants_memory, to: memory_update}, {when: len(last.tool_calls) > 0, to: tool}, complete]}"
    machine = load(written.replace(asked, chosen))
    assert [f.code for f in machine.findings] == []
    stopped = machine.query("never reason:unknown after action:update_memory", cancels=False)
    assert stopped.holds is False
    assert stopped.witness[-1] == "stop"


@action
def give_up(_: Context) -> None:
    """An action of an application, which asks to stop as it likes."""
    raise AgentStop("enough", reason="completed")


OWN = """chartloop: 1
machine: own
states:
  try: {do: give_up, next: over}
  over: {ask: Late?, when: run.steps >= 9, then: done, else: end}
  end: {stop: custom}
  done: {stop: completed}
"""


def test_an_action_of_an_application_may_ask_to_stop_for_any_reason() -> None:
    machine = load(OWN, actions=[give_up])
    assert machine.query("never done before try").holds is True
    assert machine.query("never done before over").witness == ("try", "done")
    run = machine.start()
    assert run.run().path[-1] == "done"


def test_a_caller_may_stop_for_any_reason_and_a_bound_holds_there_too() -> None:
    """A query leaves out what a caller names; a bound counts what is done behind it."""
    text = """chartloop: 1
machine: named
states:
  wait: {on: {go: end}, within: 1h, expired: end}
  end: {end: completed}
  late: {stop: cost_limit, next: report}
  report: {do: report, next: end}
"""
    machine = built(text)
    assert machine.query("avoid state:report").holds is True
    assert machine.bound()["actions"].value == 1
    run = machine.start()
    run.cancel("cost_limit")
    assert run.run().steps == 1


PENDING = """chartloop: 1
machine: m
limits: {{steps: 1}}
rules:
  - {{when: run.steps >= limits.steps, signal: token_limit}}
{more}
states:
  a: {{do: nothing, next: {to}}}
  stopped: {{stop: no_progress}}
"""
WINS = [
    pytest.param("", "stopped", id="a-state-stops"),
    pytest.param("  - {when: run.steps >= 2, stop: no_progress}", "a", id="a-later-rule-stops"),
]


@pytest.mark.parametrize(("more", "to"), WINS)
def test_a_reason_that_a_rule_signals_can_be_what_a_run_ends_for(more: str, to: str) -> None:
    machine = built(PENDING.format(more=more, to=to))
    assert machine.run("x").reason == "token_limit"
    said = "reason `token_limit` can happen, by rule `rules.0`, which signals it"
    assert machine.query("avoid token_limit").reason == said
    assert machine.query("reach rules.0").holds is True
    assert machine.query("avoid rules.0").holds is False


class Unless(NamedTuple):
    """A query of `ASKED`, and the stops from outside for which its answer is another."""

    text: str
    unless: tuple[str, ...]
    said: str


ASKED = """chartloop: 1
machine: m
states:
  ask: {on: {yes: pay, no: done}}
  pay: {do: nothing, next: paid}
  paid: {stop: custom, next: thank}
  thank: {do: report, next: over}
  over: {end: by_reason}
  done: {stop: completed}
"""
UNLESS = [
    Unless("avoid health_critical", ("health_critical",), "unless a caller stops the run for it"),
    Unless("never thank before pay", ("custom",), "unless a caller stops the run for `custom`"),
    Unless("never pay before event:yes", (), "event `yes` comes before `pay` on every path"),
]


@pytest.mark.parametrize("case", UNLESS, ids=lambda case: case.text.replace(" ", "-"))
def test_an_answer_says_which_stops_from_outside_would_change_it(case: Unless) -> None:
    machine = built(ASKED)
    found = machine.query(case.text)
    assert (found.holds, found.unless) == (True, case.unless)
    assert found.reason.endswith(case.said)
    assert machine.query(case.text, cancels=False).unless == ()
    for reason in case.unless:
        run = machine.start("x")
        run.cancel(reason)
        run.run()
        assert "pay" not in run.result.path


SETTLED = """chartloop: 1
machine: m
limits: {{steps: 9}}
vars: {{n: 0}}

states:
  a: {{do: nothing, next: choose}}
  choose: {{ask: "Q?", when: {guard}, then: done, else: last}}
  last: {{do: nothing, next: done}}
  done: {{stop: completed}}
"""


@pytest.mark.parametrize(
    ("guard", "fails"),
    [
        ("vars.n > 0", False), ("run.visits.a > 1 and not last.ok", False),
        ("10 / vars.n > 2", True), ("whim(1)", True),
        ("vars.n % 3 == 0", False), ("vars.n // limits.steps > 1", True),
    ],
)  # fmt: skip
def test_a_guard_fails_only_where_it_can(guard: str, fails: bool) -> None:
    machine = built(SETTLED.format(guard=guard))
    assert machine.query("avoid guard_error").holds is not fails
    always = machine.query("always done after choose", cancels=False)
    assert always.holds is not fails
    assert ("where a guard cannot be evaluated" in always.reason) is fails


PUT_OFF = """
chartloop: 1
machine: put_off
limits: {few: 1, steps: 3}
rules:
  - {when: run.visits.go_on >= limits.few, stop: custom, before: [go_on]}
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  begin: {do: nothing, next: go_on}
  go_on: {do: continue_run, next: work}
  work: {do: nothing, next: go_on}
"""


@pytest.mark.parametrize("rule", ["rules.0", "rules.1"])
def test_a_rule_whose_stop_is_put_off_has_happened(rule: str) -> None:
    """The run goes on behind it, so that what comes later comes after the rule."""
    answer = built(PUT_OFF).query(f"never edge:work.next.0 after edge:{rule}")
    assert not answer.holds


WHILE = """
chartloop: 1
machine: while_it_goes_on
rules:
  - {when: signals.continued, %s}
  - {when: run.visits.go_on >= 2, stop: steps_limit}
states:
  go_on: {do: continue_run, with: {times: 9}, next: work}
  work: {do: nothing, next: %s}
"""


@pytest.mark.parametrize("what", ["signal: custom", "stop: custom"])
@pytest.mark.parametrize("then", ["go_on", "work"])
def test_a_rule_that_holds_while_a_continuation_is_in_force_may_raise(what: str, then: str) -> None:
    machine = built(WHILE % (what, then))
    raised = machine.query("reach reason:custom")
    assert raised.holds
    assert machine.query("reach edge:rules.0").holds
    run = machine.start("t")
    run.run(until="work")
    assert run.facts.signals.top == "custom"


LOSING = """
chartloop: 1
machine: losing
limits: {steps: 1}
rules:
  - {when: run.steps >= limits.steps, stop: custom}
  - {when: run.steps >= 1, stop: steps_limit, to: wrap}
states:
  work: {do: nothing, next: work}
  wrap: {stop: highest, next: report}
  report: {do: report, next: over}
  over: {end: by_reason}
"""


@pytest.mark.parametrize("then", ["state:wrap", "action:report", "edge:report.next.0"])
def test_a_rule_that_holds_has_happened_even_if_another_stops_the_run(then: str) -> None:
    """`rules.0` raises its reason, and `rules.1` wins: its `steps_limit` has the higher priority."""
    assert not built(LOSING).query(f"never {then} after rules.0")


@pytest.mark.parametrize(
    "text", ["never state:tell before act", "each tool:poke after its own accept"]
)
def test_a_search_that_takes_too_long_has_no_answer(text: str) -> None:
    found = Questions(built(MACHINE).chart, effort=20).ask(text)
    assert found.holds is None
    assert found.reason == "the search looked at 20 events and was not done"


def test_a_query_of_500_rules_stays_far_below_its_effort() -> None:
    rules = "".join(
        f"  - {{when: vars.n + run.steps >= {n} and usage.llm_calls > {n % 7}, stop: custom}}\n"
        for n in range(500)
    )
    machine = built(f"""
chartloop: 1
machine: many
vars: {{n: 0}}
rules:
{rules}
states:
  a: {{do: receive, next: b}}
  b: {{do: infer, set: {{vars.n: vars.n + 1}}, next: [{{when: last.text == "x", to: b}}, {{to: done}}]}}
  done: {{stop: completed}}
""")
    assert Questions(machine.chart, effort=EFFORT // 10).ask("never done before b").holds
