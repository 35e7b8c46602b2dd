"""Calls whose outcome is not known: every way there, and every way to go on.

The table is the test. A cell runs a payment that becomes unknown in one way, goes on in another,
and looks at four things: what was paid, what the model reads, what the run counts, and what it
warns of. A cell that cannot occur says why.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from chartloop import Context, Machine, OutcomeUnknown, Run, load, upgrade
from chartloop.actions.declare import tool_spec
from chartloop.adapters.journal.opening import journal_of
from chartloop.api.retrying import check_retry, retry_plan, retry_run
from chartloop.core.errors import AnswerError
from chartloop.core.transcript import NO_REPLY, NOT_KNOWN
from chartloop.run.sync import wait
from chartloop.testing import Crashed, ManualClock

WITHIN = "150ms"
LONGER = 0.5

HEAD = """\
chartloop: 1
machine: m
{policy}tools: [pay]
limits: {{steps: 20}}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
"""
CHAT = (
    HEAD
    + """\
  q: {{do: receive, next: think}}
  think: {{do: infer, next: [{{when: len(last.tool_calls) > 0, to: act}}, {{to: done}}]}}
  act: {{do: call_tools, {more}next: think}}
  done: {{stop: completed}}
"""
)
STEP = (
    HEAD
    + """\
  q: {{do: receive, next: act}}
  act: {{do: tool, with: {{name: pay, arguments: {{usd: 5}}}}, {more}next: done}}
  done: {{stop: completed}}
"""
)
PAY = {"tool_calls": [{"name": "pay", "arguments": {"usd": 5}}]}
SHAPES = {"chat": CHAT, "step": STEP}
POLICIES = {"default": "tell", "tell": "tell", "ask": "ask", "fail": "fail"}


class Till:
    """A till, and the way in which its first payment becomes unknown."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.paid = 0
        self.keys: list[str] = []

    def pay(self, usd: int) -> str:
        """Pay.

        Args:
            usd: How much.
        """
        self.paid += 1
        if self.paid == 1:
            match self.way:
                case "kill" | "cancel" | "taken over":
                    raise Crashed("in the call")
                case "within" | "parent":
                    time.sleep(LONGER)
                case "timeout":
                    raise TimeoutError("no answer")
                case "connection":
                    raise ConnectionError("reset by peer")
                case "says so":
                    raise OutcomeUnknown("the bank does not say")
                case _:
                    pass
        return f"paid {usd}"


WAYS = ("kill", "taken over", "within", "cancel", "timeout", "connection", "says so", "restored")
ON = ("goes on", "retry:", "failed edge", "edge back", "next message", "retry", "fork", "back")
CANNOT = {
    ("cancel", "retry:"): "a stop is no failure: nothing is tried again",
    ("cancel", "failed edge"): "a stop takes no edge of its state",
    ("cancel", "edge back"): "a stop takes no edge of its state",
    ("cancel", "goes on"): "the run has ended",
    ("step", "next message"): "it runs the file from its start: another payment, asked for there",
}


def cells() -> Iterator[Any]:
    for shape in SHAPES:
        for way in WAYS:
            for on in ON:
                if (way, on) in CANNOT or (shape, on) in CANNOT:
                    continue
                for policy in POLICIES:
                    yield pytest.param(shape, way, on, policy, id=f"{shape}-{way}-{on}-{policy}")


def text_of(shape: str, way: str, on: str, policy: str) -> str:
    more = f"within: {WITHIN}, " if way == "within" else ""
    if on == "retry:":
        more += "retry: {times: 3, on: [TRANSIENT, RECOVERABLE, CRITICAL]}, "
    if on == "edge back":
        more += "failed: act, "
    if on == "failed edge":
        more += "failed: think, " if shape == "chat" else "failed: done, "
    given = "" if policy == "default" else f"in_doubt: {policy}\n"
    return SHAPES[shape].format(policy=given, more=more)


def start(shape: str, way: str, on: str, policy: str, where: str) -> tuple[Machine, Run, Till]:
    """A run whose payment has become unknown."""
    till = Till(way)
    blocking = way in ("within", "parent")
    pay = tool_spec(till.pay, blocking=blocking)
    machine = load(text_of(shape, way, on, policy), tools=[pay])
    first = where if way != "restored" else f"{where}.lost"
    run = machine.start("t", run_id="r", journal=journal_of(first), script=script())
    if way == "restored":
        run.advance()
        while run.session.position.state != "act":
            run.step()
        back_up(first, where)
    with suppress(Crashed):
        run.run()
    assert till.paid == 1
    if way in ("kill", "cancel", "taken over"):
        run = machine.open("r", journal=journal_of(where), script=script(), take_over=True)
        if way == "cancel":
            run.cancel()
        run.run()
    if way == "restored":
        wait(journal_of(where).mark_restored(), suspends=False)
        run = machine.open("r", journal=journal_of(where), script=script(), take_over=True)
        run.run()
    return machine, run, till


def back_up(journal: str, to: str) -> None:
    """Copy a journal while it is in use, as docs/production.md says."""
    with closing(sqlite3.connect(journal)) as source, closing(sqlite3.connect(to)) as copy:
        source.backup(copy)


def script() -> list[Any]:
    return [PAY, *["done"] * 9]


def told(run: Run) -> list[str]:
    """What the model reads of its calls."""
    sent = run.session.position.messages.sendable()
    return [str(m["content"]) for m in sent if m["role"] == "tool"]


@pytest.mark.parametrize(("shape", "way", "on", "policy"), [*cells()])
def test_an_unknown_call_is_never_paid_again_unasked(
    shape: str, way: str, on: str, policy: str, tmp_path: Path
) -> None:
    machine, run, till = start(shape, way, on, policy, str(tmp_path / "j.db"))
    asked = run.result.kind == "waiting"
    assert asked == (POLICIES[policy] == "ask" and way != "cancel")
    match on:
        case "fork" | "back" if way == "cancel" or not asked:
            records = run.records
            at = next(r.seq for r in records if r.state == "act")
            run = run.fork(at) if on == "fork" else run.back(len(records) - at)
            run.run()
        case "fork":
            run = run.fork()
            run.run()
        case "retry" if run.ended and run.result.kind != "natural":
            plan = retry_plan(run)
            assert plan.doubts or plan.state != "act"
            assert plan.needs_confirmation or plan.state != "act"
            check_retry(run, plan, {}, plan.digest)
            run = retry_run(run, plan, {})
            run = machine.open(run.id, journal=run.session.journal, script=script())
            run.run()
        case "next message" if run.ended:
            run = run.next("And?", script=["yes"])
            run.run()
        case _:
            pass
    assert till.paid == 1
    if run.result.kind == "waiting":
        assert "not known whether `pay`" in str(run.result.question)
        return
    texts = told(run)
    assert not any(NO_REPLY in text for text in texts)
    if shape == "chat" and on != "back":
        assert any(NOT_KNOWN in text for text in texts)
    if on != "next message":
        assert run.facts.usage.unknown_calls >= 1
        assert run.facts.usage.calls.get("pay", 0) >= 1
        assert any("pay" in warning for warning in run.result.warnings)
        assert run.replay().same


def test_a_person_decides_in_a_fork_on_a_call_that_its_original_made(tmp_path: Path) -> None:
    machine, run, till = start("chat", "kill", "", "ask", str(tmp_path / "j.db"))
    fork = run.fork(next(r.seq for r in run.records if r.state == "act"))
    fork = machine.open(fork.id, journal=run.session.journal, script=script())
    assert fork.run().kind == "waiting"
    fork.send("retry")
    assert fork.run().reason == "completed"
    assert till.paid == 2
    assert fork.replay().same


# a late result --------------------------------------------------------------------------------


def test_a_call_that_returns_after_its_deadline_settles_its_doubt(tmp_path: Path) -> None:
    """While its run still lives; the model was told that it is not known."""
    till = Till("within")
    pay = tool_spec(till.pay)

    def rest(seconds: float) -> str:
        """Wait."""
        time.sleep(seconds)
        return "waited"

    text = text_of("chat", "within", "failed edge", "default").replace("[pay]", "[pay, rest]")
    text = text.replace("within: 150ms", "within: 300ms")
    waits = {"tool_calls": [{"name": "rest", "arguments": {"seconds": 0.15}}]}
    machine = load(text, tools=[pay, tool_spec(rest, effect="pure")])
    run = machine.start(
        "t",
        run_id="r",
        journal=journal_of(str(tmp_path / "j.db")),
        script=[PAY, waits, waits, waits, "done"],
    )
    assert run.run().reason == "completed"
    events = wait(run.session.journal.events("r"), suspends=True)
    types = [event.type for event in events]
    assert types.index("in_doubt") < types.index("result")
    late = events[types.index("result")].data
    assert (late["text"], late["late"]) == ("paid 5", True)
    assert run.session.calls.unknown == {}
    assert till.paid == 1
    assert run.replay().same


# tasks ----------------------------------------------------------------------------------------

TASKS = """\
chartloop: 1
machine: m
{policy}tools: [pay]
tasks: [{{text: "5", by: {{tool: pay}}}}]
limits: {{steps: 9}}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
  act: {{do: work, {more}failed: act, next: [{{when: queue.size > 0, to: act}}, {{to: done}}]}}
  done: {{stop: completed}}
"""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("way", [way for way in WAYS if way != "cancel"])
def test_a_task_whose_payment_is_unknown_is_not_tried_again(
    way: str, policy: str, tmp_path: Path
) -> None:
    SHAPES["tasks"] = TASKS
    _, run, till = start("tasks", way, "", policy, str(tmp_path / "j.db"))
    del SHAPES["tasks"]
    assert (run.result.kind == "waiting") == (POLICIES[policy] == "ask")
    if run.result.kind == "waiting":
        return
    assert (till.paid, run.facts.queue.failed) == (1, 1)
    assert run.facts.usage.unknown_calls == 1


# who decides ----------------------------------------------------------------------------------

GATED = CHAT.replace("limits:", "approve: {{tools: [pay], by: boss{gate}}}\nlimits:")


def gated(where: str, gate: str, **given: Any) -> tuple[Machine, Run, Till]:
    """A run that was killed in a payment which somebody had accepted."""
    till = Till("kill")
    text = GATED.format(policy="", more="", gate=gate)
    machine = load(text, tools=[tool_spec(till.pay, blocking=False)])
    run = machine.start("t", run_id="r", journal=where, script=script(), submitter="eve", **given)
    while run.question is None:
        run.advance()
    run.send("accept", {"by": "ann"})
    with suppress(Crashed):
        run.run()
    assert till.paid == 1
    run = machine.open("r", journal=where, script=script(), take_over=True, **given)
    return machine, run, till


def test_a_person_of_the_gate_decides_on_its_call(tmp_path: Path) -> None:
    _, run, till = gated(str(tmp_path / "j.db"), ", not_by: submitter")
    assert run.run().kind == "waiting"
    question = run.question
    assert question is not None
    assert "boss" in question.text
    assert '"usd": 5' in question.text
    assert {event: [*fields] for event, fields in question.answers.items()} == {
        "retry": ["by"],
        "fail": ["by"],
    }
    with pytest.raises(AnswerError, match="needs `by`"):
        run.send("retry")
    with pytest.raises(AnswerError, match="submitted the run"):
        run.send("retry", {"by": "Eve"})
    run.send("retry", {"by": "ann"})
    assert run.run().reason == "completed"
    answers = [record.input for record in run.records if record.kind == "answer"]
    assert [(one.event, one.data["by"]) for one in answers] == [("accept", "ann"), ("retry", "ann")]
    assert till.paid == 2
    assert "paid 5" in told(run)
    assert run.replay().same


def test_a_call_in_doubt_that_nobody_decides_on_stays_unknown(tmp_path: Path) -> None:
    """For as long as an approval may take; then the model is told, and the run goes on."""
    clock = ManualClock()
    _, run, till = gated(str(tmp_path / "j.db"), ", within: 1h", clock=clock)
    began = clock.now()
    assert run.run().reason == "completed"
    assert clock.now() - began == pytest.approx(3600, abs=5)
    assert [record.kind for record in run.records if record.state.startswith("act_approved")][
        -3:
    ] == ["blocked", "expired", "step"]
    assert till.paid == 1
    assert any(NOT_KNOWN in text for text in told(run))
    assert run.replay().same


def test_all_waits_of_one_action_have_the_time_of_one(tmp_path: Path) -> None:
    """`retry`, killed again, asked again: `bound` counts `within` once."""
    clock = ManualClock()
    machine, run, till = gated(str(tmp_path / "j.db"), ", within: 1h", clock=clock)
    began = clock.now()
    assert run.advance() is not None
    assert run.question is not None
    due = run.question.due
    assert due == pytest.approx(began + 3600, abs=5)
    clock.set(began + 1000)
    till.paid = 0
    run.send("retry", {"by": "ann"})
    with suppress(Crashed):
        run.run()
    again = machine.open(
        "r", journal=run.session.journal, script=script(), take_over=True, clock=clock
    )
    assert again.advance() is not None
    assert again.question is not None
    assert again.question.due == due


def test_a_time_limit_ends_the_wait(tmp_path: Path) -> None:
    clock, till = ManualClock(), Till("kill")
    text = STEP.format(policy="in_doubt: ask\n", more="").replace(
        "steps: 20}\nrules: [",
        "steps: 20, time: 8s}\nrules: [{when: run.elapsed >= limits.time, stop: time_limit}, ",
    )
    machine = load(text, tools=[tool_spec(till.pay, blocking=False)])
    run = machine.start("t", run_id="r", journal=str(tmp_path / "j.db"), clock=clock)
    began = clock.now()
    with suppress(Crashed):
        run.run()
    run = machine.open("r", journal=str(tmp_path / "j.db"), clock=clock, take_over=True)
    assert run.run().reason == "time_limit"
    assert clock.now() - began == pytest.approx(8, abs=0.1)
    assert till.paid == 1


# children -------------------------------------------------------------------------------------


CHILD = """\
chartloop: 1
machine: top
limits: {{steps: 9}}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
  q: {{do: receive, next: go}}
  go: {{do: run_machine, with: {{machine: m}}, {more}next: done}}
  done: {{stop: completed}}
machines:
  m:
    {policy}tools: [pay]
    states:
      act: {{do: tool, with: {{name: pay, arguments: {{usd: 5}}}}, {inner}next: fin}}
      fin: {{stop: completed}}
"""
RETRY = "retry: {times: 2, on: [TRANSIENT, RECOVERABLE, CRITICAL]}, "


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("on", ["goes on", "retry:", "retry", "fork"])
@pytest.mark.parametrize("way", ["kill", "taken over", "within", "timeout", "parent"])
def test_a_payment_of_a_child_is_not_repeated_by_its_parent(
    way: str, on: str, policy: str, tmp_path: Path
) -> None:
    """Not by its `retry:`, nor by a fork or another try, which run the child anew."""
    till, where = Till(way), str(tmp_path / "j.db")
    more = "within: 200ms, " if way == "parent" else ""
    given = "" if policy == "default" else f"in_doubt: {policy}\n    "
    text = CHILD.format(
        policy=given, more=more + (RETRY if on == "retry:" else ""),
        inner=f"within: {WITHIN}, " if way == "within" else "",
    )  # fmt: skip
    machine = load(text, tools=[tool_spec(till.pay, blocking=way in ("within", "parent"))])
    run = machine.start("t", run_id="r", journal=journal_of(where))
    with suppress(Crashed):
        run.run()
    if way in ("kill", "taken over"):
        run = machine.open("r", journal=journal_of(where), take_over=True)
        run.run()
    if on == "fork":
        records = run.records
        run = run.fork(next(r.seq for r in records if r.state == "go"))
        run.run()
    elif on == "retry" and run.ended:
        plan = retry_plan(run)
        assert plan.doubts
        run = retry_run(run, plan, {})
        run.run()
    assert till.paid == 1
    if run.result.kind == "waiting":
        assert on == "retry" or POLICIES[policy] == "ask"
        assert run.result.events == ("retry", "fail")
        return
    assert run.facts.usage.unknown_calls >= 1
    assert any("pay" in warning for warning in run.result.warnings)


# a changed file -------------------------------------------------------------------------------

HALF = """\
chartloop: 1
machine: desk
model: {name: scripted}
tools: [pay, kid]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: act}
  act: {do: call_tools, with: {at_most: 3}, next: say}
  say: {do: infer, next: done}
  done: {stop: completed}
machines:
  kid: {about: Asks., inputs: {task: {}}, output: 1, states: {w: {ask: "Ok?", on: {ok: done}}, done: {stop: completed}}}
"""
CHANGES = {
    "fewer calls": ("at_most: 3", "at_most: 1"),
    "without its tool": ("tools: [pay, kid]", "tools: [kid]"),
    "not allowed here": ("act: {do: call_tools,", "act: {do: call_tools, allow: [kid],"),
    "the first only": ("do: call_tools, with: {at_most: 3}", "do: call_tool"),
    "behind an approval": ("tools: [pay, kid]", "tools: [pay, kid]\napprove: {tools: [pay]}"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_step_has_finished_outlives_a_changed_file(change: str, tmp_path: Path) -> None:
    """Or the upgrade is unsafe: the model is never told that a paid call was not executed."""
    till = Till("")
    made = [{"name": "kid", "arguments": {"task": "x"}}, *PAY["tool_calls"]]
    answers = [{"tool_calls": made}, "ok"]
    pay = tool_spec(till.pay)
    old = load(HALF, tools=[pay])
    run = old.start("hi", run_id="r", journal=journal_of(str(tmp_path / "j.db")), script=answers)
    assert run.run().kind == "waiting"
    new = load(HALF.replace(*CHANGES[change]), tools=[pay])
    if not upgrade(new, old, run).verdicts[0].goes_on:
        return
    run = new.open("r", journal=run.session.journal, changed=True, script=answers)
    run.send("ok")
    assert run.run().reason == "completed"
    assert told(run) == ["1", "paid 5"]
    assert till.paid == 1


# keys -----------------------------------------------------------------------------------------


class Bank:
    """A tool that notes the key of each call, and fails as it is told."""

    def __init__(self, *fails: BaseException) -> None:
        self.fails, self.keys = [*fails], list[str]()

    def pay(self, ctx: Context, usd: int) -> str:
        """Pay.

        Args:
            usd: How much.
        """
        self.keys.append(ctx.key)
        if self.fails:
            raise self.fails.pop(0)
        return "paid"


KEPT = [
    (shape, on)
    for shape in SHAPES
    for on in ("crash", "retry:", "decision", "fork", "retry")
    if (shape, on) != ("chat", "retry:")  # its failure is in the conversation: it is not repeated
]


@pytest.mark.parametrize(("shape", "on"), KEPT)
def test_a_call_keeps_its_key_as_long_as_its_reply_is_kept(
    shape: str, on: str, tmp_path: Path
) -> None:
    bank = Bank(Crashed("now") if on in ("crash", "decision") else ValueError("no"))
    where = journal_of(str(tmp_path / "j.db"))
    on_error = "with: {on_error: fail}, " if shape == "chat" else ""
    again = "retry: {times: 2, base: 1ms, on: [RECOVERABLE]}, " if on == "retry:" else ""
    policy = "in_doubt: ask\n" if on == "decision" else "in_doubt: retry\n"
    text = SHAPES[shape].format(policy=policy, more=on_error + again)
    tools = [tool_spec(bank.pay, blocking=False)]
    machine = load(text, tools=tools)
    run = machine.start("t", run_id="r", journal=where, script=script())
    with suppress(Crashed):
        run.run()
    match on:
        case "crash" | "decision":
            run = machine.open("r", journal=where, script=script(), take_over=True)
            run.run()
            if on == "decision":
                run.send("retry")
                run.run()
        case "fork":
            run = run.fork(next(r.seq for r in run.records if r.state == "act"))
            run.run()
        case "retry":
            run = retry_run(run, retry_plan(run), {})
            machine.open(run.id, journal=where, script=script()).run()
        case _:
            pass
    assert len(bank.keys) == 2
    assert len({*bank.keys}) == 1


def test_a_call_keeps_its_key_in_the_run_that_replaces_its_own(tmp_path: Path) -> None:
    """A file that changed while the call waited for its next attempt."""
    bank, clock, where = Bank(ValueError("no")), ManualClock(), journal_of(str(tmp_path / "j.db"))
    text = STEP.format(policy="", more="retry: {times: 2, base: 1h, on: [RECOVERABLE]}, ")
    tools = [tool_spec(bank.pay, blocking=False)]
    run = load(text, tools=tools).start("t", run_id="r", journal=where, clock=clock)
    while not bank.keys:
        run.advance()
    changed = load(text.replace("next: done", "next: fin").replace("done:", "fin:"), tools=tools)
    moved = changed.open("r", journal=where, clock=clock, changed=True)
    assert moved.run().reason == "completed"
    assert moved.id != "r"
    assert len(bank.keys) == 2
    assert len({*bank.keys}) == 1


def test_an_edge_back_with_other_fields_makes_another_call(tmp_path: Path) -> None:
    """A list of payments: one whose outcome is not known does not hold up the next."""
    bank = Bank(TimeoutError("no answer"))
    text = (
        HEAD.format(policy="").replace("limits:", "vars: {n: 1}\nlimits:")
        + """\
  q: {do: receive, next: act}
  act:
    do: tool
    with: {name: pay, arguments: {usd: "{{ vars.n }}"}}
    failed: more
    next: more
  more: {do: set, with: {vars.n: vars.n + 1}, next: [{when: vars.n < 4, to: act}, {to: done}]}
  done: {stop: completed}
"""
    )
    run = load(text, tools=[tool_spec(bank.pay)]).start(
        "t", journal=journal_of(str(tmp_path / "j.db"))
    )
    assert run.run().reason == "completed"
    assert len(bank.keys) == len({*bank.keys}) == 3
    assert run.facts.usage.unknown_calls == 1


def test_two_calls_never_share_a_key(tmp_path: Path) -> None:
    """Not two of one reply, nor equal ones of two replies, nor one state twice."""
    bank = Bank()
    twice = {"tool_calls": [*PAY["tool_calls"], *PAY["tool_calls"]]}
    machine = load(CHAT.format(policy="", more=""), tools=[tool_spec(bank.pay)])
    run = machine.start(
        "t", journal=journal_of(str(tmp_path / "j.db")), script=[twice, PAY, PAY, "done"]
    )
    assert run.run().reason == "completed"
    assert len(bank.keys) == len({*bank.keys}) == 4
