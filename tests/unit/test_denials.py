"""A denied call is a decision: what it counts as, by the rules that its run began with.

Every kind of denial × what a denial could touch × the rules before and since. Columns without a row
here, and why: `usage.*` counts executed calls, and no denied one is; a scenario's expectations and a
simulated world read the same facts and results; an MCP tool's result is that of its run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from chartloop import load, stats, tool
from chartloop.api import Machine, Run
from chartloop.core.records import Record
from chartloop.machine.evolve import RULES
from chartloop.pictures.live.progress import Standing
from chartloop.run.journal import CHILD_MARK, MemoryJournal
from chartloop.run.progress import standing_of
from chartloop.run.record_text import outcome_of
from chartloop.run.sync import by_hand
from chartloop.testing.clock import ManualClock

OLD = 2
"""The last rules by which a denial was an error."""
SAID = "error: `buy` was not approved: it was denied: too dear"
LATE = "error: `buy` was not approved: no answer came in time"


@tool
def buy(x: int) -> str:
    """Buy."""
    return f"bought {x}"


@tool
def lost(x: int) -> str:
    """Buy from somebody who does not answer."""
    raise TimeoutError("no answer")


TEXT = """
chartloop: 1
machine: buyer
model: {name: scripted}
tools: [buy, lost]
limits: {steps: 40}
approve: {tools: [buy, lost], within: 10m, edit: true}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: ACTION, next: hold}
  hold: {ask: "Go on?", on: {go: think}}
  done: {stop: completed}
"""
FAILS = TEXT.replace(
    "{do: ACTION, next: hold}",
    "{do: call_tools, with: {on_error: fail}, retry: {times: 1, base: 0.01s}, failed: hold, next: think}",
)
PARENT = """
chartloop: 1
machine: parent
model: {name: scripted}
limits: {steps: 40}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  go: {do: run_machine, with: {machine: buyer, task: "Buy."}, next: hold}
  hold: {ask: "Go on?", on: {go: done}}
  done: {stop: completed}
machines:
  buyer:
    model: {name: scripted}
    tools: [buy]
    approve: {tools: [buy], within: 10m}
    states:
      ask: {do: receive, next: think}
      think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
      act: {do: call_tools, next: hold}
      hold: {ask: "Go on?", on: {go: think}}
      done: {stop: completed}
"""
AGENT = """
chartloop: 1
machine: parent
model: {name: scripted}
tools: [buyer]
approve: {tools: [buyer], within: 10m}
limits: {steps: 40}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: hold}
  hold: {ask: "Go on?", on: {go: think}}
  done: {stop: completed}
machines:
  buyer:
    about: Buys things.
    model: {name: scripted}
    states: {ask: {do: receive, next: say}, say: {do: infer, next: done}, done: {stop: completed}}
"""


@dataclass(frozen=True)
class Kind:
    """One way in which calls are denied, and how many of them."""

    id: str
    asked: tuple[tuple[str, int], ...]
    answers: tuple[tuple[str, dict[str, Any]], ...]
    denied: int
    said: str = SAID
    failed: int = 0
    """Calls that fail under any rules."""
    action: str = "call_tools"
    text: str = TEXT
    made: tuple[tuple[str, int], ...] = ()
    """The executed calls, by tool."""


NOTE = {"note": "too dear"}
BUY = ("buy", 1)
MIXED = {"calls": {"c0": "accept", "c1": {"decision": "deny", **NOTE}}}
KINDS = [
    Kind("one", (BUY,), (("deny", NOTE),), 1),
    Kind("first-only", (BUY, BUY), (("deny", NOTE),), 1, action="call_tool"),
    Kind("some", (BUY, ("buy", 2)), (("accept", MIXED),), 1, made=(("buy", 1),)),
    Kind("all", (BUY, ("buy", 2)), (("deny", NOTE),), 2),
    Kind("expired", (BUY,), (), 1, said=LATE),
    Kind(
        "with-an-edit", (BUY, ("buy", 2)),
        (("edit", {"calls": {"c0": {"arguments": {"x": 7}}}}), ("accept", MIXED)), 1,
        made=(("buy", 1),),
    ),
    Kind("in-doubt", (("lost", 1),), (("accept", {}), ("fail", {})), 0, failed=1, made=(("lost", 1),),
         said="error: a person says that this call was not carried out"),
    Kind("agent-as-a-tool", (("buyer", 1),), (("deny", NOTE),), 1, text=AGENT,
         said=SAID.replace("buy", "buyer")),
]  # fmt: skip


class Kept(MemoryJournal):
    """A journal whose logs a test may alter."""

    def log_of(self, run_id: str) -> Any:
        return self._log(run_id)


def machine_of(text: str) -> Machine:
    return load(text, tools=[buy, lost])


def begun(kind: Kind, rules: int | None, text: str = "") -> Run:
    """A run that began under these rules, at its question; past its time if nobody answers."""
    journal = Kept()
    calls = [
        {"id": f"c{n}", "name": name, "arguments": {"x": x} if name != "buyer" else {"task": "x"}}
        for n, (name, x) in enumerate(kind.asked)
    ]
    machine = machine_of((text or kind.text).replace("ACTION", kind.action))
    script = [{"text": "", "tool_calls": calls}, "Well.", "Well."]
    run = machine.start("x", script=script, journal=journal, run_id="r")
    run.run()
    for name in (row.run_id for row in by_hand(journal.rows())):
        log = journal.log_of(name)  # as a version with these rules has left it
        record = log.events[0].record
        assert record is not None
        data = {name: value for name, value in record.input.data.items() if name != "rules"}
        given = record.input.replace(data=data | ({} if rules is None else {"rules": rules}))
        log.events[0] = log.events[0].replace(record=record.replace(input=given))
    late: Any = {} if kind.answers else {"clock": ManualClock(time.time() + 601)}
    return machine.open("r", journal=journal, script=script[1:], **late)


def denied(kind: Kind, rules: int | None, text: str = "") -> Run:
    """The same run, after the denial."""
    run = begun(kind, rules, text)
    for event, data in kind.answers:
        run.send(event, data)
        run.run()
    if not kind.answers:
        run.run()
    return run


def outcomes(run: Run) -> Iterator[Record]:
    yield from (r for r in run.records if r.outcome is not None and r.outcome.result)


CELLS = [(kind, rules) for kind in KINDS for rules in (OLD, RULES)]


@pytest.mark.parametrize(
    ("kind", "rules"), CELLS, ids=[f"{kind.id}-rules-{rules}" for kind, rules in CELLS]
)
def test_what_a_denial_counts_as(kind: Kind, rules: int) -> None:
    run = denied(kind, rules)
    facts, result = run.facts, run.result
    errors = kind.failed + (kind.denied if rules == OLD else 0)
    decided = kind.denied if rules != OLD else 0
    if kind.failed:  # the action fails, and no edge takes that: the run ends
        assert (facts.last.ok, facts.errors.total, facts.approvals.denied) == (False, 2, 0)
        assert run.messages[-1]["content"] == kind.said
        return
    # facts
    assert run.state == "hold"
    assert facts.approvals.denied == facts.last.denied == decided
    assert (facts.errors.total, facts.errors.consecutive, facts.errors.retries) == (errors, 0, 0)
    assert (facts.errors.last is None) == (errors == 0)
    assert facts.errors.rate == 0
    assert (facts.last.ok, facts.last.error) == (True, None)
    assert facts.usage.tool_calls == len(kind.made)
    assert {n: c for n, c in facts.usage.calls.items() if c} == dict(kind.made)
    # what the model reads, and the result of the action: the same under any rules
    read = [m["content"] for m in run.messages if m["role"] == "tool"]
    held = [one for one in facts.last.result if not one["ok"]]
    assert [text for text in read if "not approved" in text] == [kind.said] * kind.denied
    assert [one["content"] for one in held] == [kind.said] * kind.denied
    # the record, and every face that counts failures
    (record,) = [r for r in outcomes(run) if (r.outcome and r.outcome.spent.tools) or _says(r)]
    assert record.outcome is not None
    assert len(record.outcome.tool_errors) == len(record.failures) == errors
    assert len(record.outcome.denied) == decided
    of = 1 if kind.action == "call_tool" else len(kind.asked)
    word = "failed" if rules == OLD else "denied"
    assert outcome_of(record).startswith(f"{kind.denied} of {of} calls {word}: ")
    assert kind.said.removeprefix("error: ") in outcome_of(record)
    assert len(result.errors) == errors
    standing: Standing = standing_of(run.session)
    assert sum(standing.failed.values()) == errors
    (line,) = stats(machine_of(kind.text.replace("ACTION", kind.action)), [run]).failures
    assert (line.category, line.times) == ("tool" if rules == OLD else "denied", kind.denied)
    called = [call for step in run.trace() for call in step.calls]
    assert sum(not call.ok for call in called) == kind.denied
    assert run.replay().same
    # a new reply sets `last.denied` back, and nothing sets the counter back
    run.send("go")
    run.run()
    assert (run.facts.last.denied, run.facts.approvals.denied) == (0, decided)


def _says(record: Record) -> bool:
    outcome = record.outcome
    return outcome is not None and bool(outcome.tool_errors or outcome.denied)


@pytest.mark.parametrize("rules", [OLD, RULES])
@pytest.mark.parametrize("kind", [k for k in KINDS if k.text is TEXT and k.action == "call_tools"],
                         ids=lambda k: k.id)  # fmt: skip
def test_a_denial_fails_no_action_that_fails_on_errors(kind: Kind, rules: int) -> None:
    run = denied(kind, rules, FAILS)
    if rules == OLD or kind.failed:  # and `failed` was taken
        assert run.state == "hold"
        assert not run.facts.last.ok
        assert run.facts.errors.consecutive >= 1
        assert run.facts.approvals.denied == 0
    else:
        assert (run.state, run.result.reason) == ("done", "completed")
        assert (run.facts.errors.total, run.facts.errors.retries) == (0, 0)
        assert run.facts.approvals.denied == kind.denied


@pytest.mark.parametrize("rules", [OLD, RULES])
def test_a_denial_in_a_child_is_a_fact_of_the_child(rules: int) -> None:
    kind = Kind("child", (BUY,), (("deny", NOTE), ("go", {})), 1, text=PARENT)
    run = denied(kind, rules)
    assert (run.state, run.facts.last.ok) == ("hold", True)
    assert (run.facts.errors.total, run.facts.approvals.denied) == (0, 0)
    (child,) = [row for row in by_hand(run.session.journal.rows()) if CHILD_MARK in row.run_id]
    records = by_hand(run.session.journal.records(child.run_id))
    told = [record.outcome for record in records if _says(record)]
    old = rules == OLD
    assert [(len(one.tool_errors), len(one.denied)) for one in told if one] == [(old, not old)]


@pytest.mark.parametrize(("number", "errors"), [(None, 1), (1, 1), (2, 1), (3, 0)])
def test_the_rules_are_those_of_the_start(number: int | None, errors: int) -> None:
    run = denied(KINDS[0], number)
    assert (run.facts.errors.total, run.facts.approvals.denied) == (errors, 1 - errors)


def test_a_fork_keeps_the_rules_of_its_run() -> None:
    run = denied(KINDS[0], OLD)
    fork = run.fork(at=4)
    fork.run()
    fork.send("deny")
    fork.run()
    assert (fork.facts.errors.total, fork.facts.approvals.denied) == (1, 0)


def test_a_rule_over_denials_ends_a_run_that_is_denied_again_and_again() -> None:
    rule = "rules: [{when: approvals.denied >= 3, stop: no_progress}, "
    text = TEXT.replace("rules: [", rule).replace("next: hold", "next: think")
    text = text.replace('  hold: {ask: "Go on?", on: {go: think}}\n', "")
    asked = [{"tool_calls": [{"name": "buy", "arguments": {"x": n}}]} for n in range(9)]
    run = load(text.replace("ACTION", "call_tools"), tools=[buy, lost]).start("x", script=asked)
    while run.run().status != "completed":
        run.send("deny")
    assert (run.result.reason, run.facts.usage.llm_calls) == ("no_progress", 3)
    assert "approvals.denied >= 3 (3 against 3)" in str(run.result.signals)


@pytest.mark.parametrize("fact", ["approvals.denied", "errors.total"])
def test_a_bound_holds_for_calls_that_are_refused(fact: str) -> None:
    """No call is executed, and the way over the refusals is taken all the same."""
    text = TEXT.replace("next: hold", f"next: [{{when: {fact} >= 2, to: late}}, {{to: done}}]")
    text = text.replace('hold: {ask: "Go on?", on: {go: think}}', "late: {do: infer, next: done}")
    text = text.replace("{when: len(last.tool_calls) > 0, to: act}, {to: done}", "{to: act}")
    machine = load(text.replace("ACTION", "call_tools"), tools=[buy, lost])
    name = "buy" if fact == "approvals.denied" else "nothing_like_it"
    asked = {"tool_calls": [{"name": name, "arguments": {"x": n}} for n in range(2)]}
    run = machine.start("x", script=[asked, "Well."])
    if run.run().status == "paused":
        run.send("deny")
        run.run()
    assert (run.state, run.facts.usage.llm_calls) == ("done", 2)
    most = machine.bound()["requests"].value
    assert most is not None
    assert most >= 2
