"""`each TOOL after its own EVENT`: `approve` proves it, and nothing else does."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from chartloop import api, load, tool
from chartloop.analysis.proofs.query import QueryFault
from tests.gated import built_gated

ASSUMED = "the tool's function is called by runs only, not by your own code"
ASKED = "each tool:buy after its own accept"


def machine(act: str, *, head: str = "", think: str = "infer", more: str = "") -> str:
    """A loop of a model and its calls, with the states that execute them."""
    return f"""chartloop: 1
machine: m
model: {{name: scripted}}
tools: [buy, look]
limits: {{steps: 40}}
{head}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
  think: {{do: {think}, next: [{{when: len(last.tool_calls) > 0, to: act}}, {{to: done}}]}}
  {act}
  {more}
  done: {{stop: completed}}
"""


ACT = "act: {do: call_tools, next: think}"
APPROVE = "approve: {tools: [buy], within: 1h}"
DO_IT = "do_it: {do: call_tools, next: think}"
CHILD = "machines: {{c: {{tools: [buy], {}model: {{name: scripted}}, states: {{t: {{do: infer, next: a}}, a: {{do: call_tools, next: z}}, z: {{stop: completed}}}}}}}}"
RUNS = "act: {do: run_machine, with: {machine: c, task: x}, next: think}"
NO = "no: tool `buy` can be executed with no event `accept` of its own"
SHOWS = "yes: `approve` shows the arguments of each call of tool `buy`"
ONCE = ", and executes the call once, after its own `accept`"
APPROVED = SHOWS + ONCE
WHEN = 'approve: {tools: [buy], when: call.arguments.call == "x"}'

NO_CALL = "yes: no path leads to tool `buy`"
LOOSE = "unknown: event `accept` comes before each tool `buy` on every path, but only `approve: {tools: [buy]}` ties"


class Case(NamedTuple):
    """A machine, and what is said of each call of `buy`."""

    id: str
    text: str
    says: str
    path: str = ""
    asked: str = ASKED


CASES = [
    # what `approve` makes
    Case("approve", machine(ACT, head=APPROVE), APPROVED),
    Case("the-first-call-only", machine(ACT.replace("tools", "tool"), head=APPROVE), APPROVED),
    Case("two-calling-states", machine(ACT, head=APPROVE, more="more: {do: infer, next: act2}\n  act2: {do: call_tools, next: done}"), APPROVED),
    Case("silence-asks-again", machine(ACT, head=APPROVE.replace("1h", "1h, expired: act")), APPROVED),
    Case("a-detour-asks-the-model", machine(ACT, head=APPROVE, more="aside: {do: infer, next: return}").replace("rules: [", "rules: [{when: run.steps == 3, to: aside}, "), APPROVED),
    Case("tasks-cannot-have-it", machine("act: {do: work, failed: next, next: think}", head=f"{APPROVE}\ntasks: [{{text: x, by: {{tool: buy}}}}]"), NO_CALL),
    Case("another-answer", machine(ACT, head=APPROVE), "no: tool `buy` can be executed with no event `deny` of its own: `approve` executes what is answered with `accept`", "think → act → approve → act_approved", "each tool:buy after its own deny"),
    Case("another-tool", machine(ACT, head=APPROVE), "no: tool `look` can be executed with no event `accept` of its own", "think → act → act_others", "each look after its own event:accept"),
    Case("some-of-them", machine(ACT, head=APPROVE), SHOWS + " with `len(call.arguments.call) > 3`" + ONCE, asked="each tool:buy when len(call.arguments.call) > 3 after its own accept"),
    Case("put-by-hand-too", machine(ACT, head=APPROVE, more="mine: {do: ask_approval, with: {tools: [buy], wait: ok}, next: ok}\n  ok: {on: {accept: act}}"), "unknown: event `accept` comes before each tool `buy` on every path, but `mine` puts the question to a wait of the file"),
    # its keys
    Case("edit", machine(ACT, head="approve: {tools: [buy], edit: true}"), f"{SHOWS}, again once a person changed them{ONCE}"),
    Case("when", machine(ACT, head=WHEN), NO + ": `approve` holds back only those with `call.arguments.call == \"x\"`; ask `each tool:buy when", "think → act → act_others"),
    Case("asked-when", machine(ACT, head=WHEN), f"{SHOWS} with `(call.arguments.call == 'x')`{ONCE}", asked="each tool:buy when (call.arguments.call  == 'x') after its own accept"),
    Case("asked-for-others", machine(ACT, head=WHEN), NO + ": `approve` holds back only those with `call.arguments.call == \"x\"`; not one with `call = \"y\"`", "think → act → act_others", asked='each tool:buy when call.arguments.call == "y" after its own accept'),
    Case("remember", machine(ACT, head="approve: {tools: [buy], remember: true}"), NO + ": an answer with `remember` is also for later calls", "think → act → act_others"),
    # no gate at all
    Case("no-gate", machine(ACT), NO, "think → act"),
    Case("not-shown", machine(ACT, think="infer, allow: [look]"), NO_CALL),
    Case("not-carried-out", machine("act: {do: call_tools, allow: [look], next: think}"), NO_CALL),
    Case("by-the-file", machine("act: {do: tool, with: {name: buy, arguments: {call: x}}, next: done}"), NO, "think → act"),
    Case("by-the-file-past-approve", machine(ACT, head=APPROVE, more="pay: {do: tool, with: {name: buy, arguments: {call: x}}, next: done}").replace("to: done", "to: pay"), NO, "think → pay"),
    Case("by-a-task", machine("act: {do: work, failed: next, next: think}", head="tasks: [x]"), NO, "think → act"),
    Case("after-a-stop", machine("act: {do: nothing, next: think}", head="on_stop: last", more="last: {do: call_tools, next: over}\n  over: {end: by_reason}"), NO, "think → last → over"),
    # gates of the file
    Case("by-hand", machine("act: {ask: 'OK?', on: {accept: do_it, deny: done}}", more=DO_IT), LOOSE),
    Case("silence-is-consent", machine("act: {ask: 'OK?', on: {accept: do_it, deny: done}, within: 1h, expired: do_it}", more=DO_IT), NO, "think → act → do_it"),
    Case("deny-leads-to-it", machine("act: {ask: 'OK?', on: {accept: do_it, deny: do_it}}", more=DO_IT), NO, "think → act → do_it"),
    Case("one-answer-for-two-replies", machine("act: {ask: 'OK?', on: {accept: do_it, deny: done}}", more="do_it: {do: call_tools, next: more}\n  more: {do: infer, next: again}\n  again: {do: call_tools, next: think}"), NO, "think → act → do_it → more → again"),
    Case("asked-before-the-reply", machine("act: {do: call_tools, next: done}", more="ask: {on: {accept: think}}").replace("machine: m\n", "machine: m\nstart: ask\n"), NO, "ask → think → act"),
    Case("one-answer-for-two-payments", machine("act: {ask: 'OK?', on: {accept: one, deny: done}}", more="one: {do: tool, with: {name: buy, arguments: {call: x}}, next: two}\n  two: {do: tool, with: {name: buy, arguments: {call: x}}, next: done}"), NO, "think → act → one → two"),
    # children
    Case("in-a-child", machine(RUNS, head=CHILD.format("")), "no: child machine `c`: tool `buy` can be executed with no event `accept` of its own: t → a"),
    Case("in-a-child-that-asks", machine(RUNS, head=CHILD.format("approve: {tools: [buy]}, ")), "yes: child machine `c`: `approve` shows"),
    Case("in-a-child-but-not-in-this", machine(RUNS, head=f"{APPROVE}\n{CHILD.format('')}"), "no: child machine `c`: tool `buy` can"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_each_call(case: Case) -> None:
    loaded = built_gated(case.text)
    found = loaded.query(case.asked)
    assert str(found).startswith(case.says)
    assert " → ".join(found.witness) == case.path
    assert (case.says == NO_CALL) == (ASSUMED not in found.assumptions)


@tool
def refund(order: str, usd: float) -> str:
    """Pay a customer back."""
    return f"{usd} for {order}"


class Gate(NamedTuple):
    """The condition of a gate, the calls that are asked about, and the answer."""

    id: str
    gate: str
    asked: str
    says: str
    arguments: dict[str, Any] | None = None


OWN_ACCEPT = "no: tool `refund` can be executed with no event `accept` of its own: `approve` holds back only those with"
USD = "call.arguments.usd"
ORDER = "call.arguments.order"
GATES = [
    Gate("wider", f"{USD} > 50", f"{USD} > 100", "yes: `approve` shows the arguments"),
    Gate("narrower", f"{USD} > 1000", f"{USD} > 100", f"{OWN_ACCEPT} `{USD} > 1000`; not one with `usd = 500`", {"order": "", "usd": 500}),
    Gate("not-empty-by-its-length", f"len({ORDER}) > 0", f'{ORDER} != ""', "yes: `approve` shows the arguments"),
    Gate("not-empty-by-its-text", f'{ORDER} != ""', f"len({ORDER}) > 0", "yes: `approve` shows the arguments"),
    Gate("words-by-their-length", f"len({ORDER}) >= 4", f'{ORDER} in ["gift", "order"]', "yes: `approve` shows the arguments"),
    Gate("a-word-of-another-length", f"len({ORDER}) == 4", f'{ORDER} in ["gift", "order"]', f"{OWN_ACCEPT} `len({ORDER}) == 4`; not one with `order = \"order\"`"),
    Gate("none", "", f"{USD} > 100", "yes: `approve` shows the arguments"),
    Gate("none-is-asked", f"{USD} > 100", "", f"{OWN_ACCEPT} `{USD} > 100`; ask `each tool:refund when {USD} > 100 after its own accept`; not one with `usd = 50`", {"order": "", "usd": 50}),
    Gate("every-call", f"{USD} > 5 or {USD} <= 5", "", "yes: `approve` shows the arguments"),
    Gate("a-definition", f"strict or {USD} > 100", f"{USD} > 100 or vars.most > 501", "yes: `approve` shows the arguments"),
    Gate("a-definition-is-asked", f"{USD} > 100", "strict", f"unknown: `approve` holds back the calls with `{USD} > 100`: it may depend on `vars.most`"),
    Gate("a-variable", f"{USD} > vars.most", f"{USD} > 100", f"unknown: `approve` holds back the calls with `{USD} > vars.most`: it may depend on `vars.most`"),
    Gate("a-variable-in-both", f"{USD} > vars.most or {USD} > 9", f"{USD} > vars.most", "yes: `approve` shows the arguments"),
    Gate("a-variable-for-smaller-ones", f"{USD} > 1000 or {USD} > 100 and vars.most > 5", f"{USD} > 10", OWN_ACCEPT),
]  # fmt: skip


@pytest.mark.parametrize("where", ["machine", "child"])
@pytest.mark.parametrize("case", GATES, ids=lambda case: case.id)
def test_each_call_that_meets_a_condition(case: Gate, where: str) -> None:
    body = {
        "model": {"name": "scripted"}, "tools": ["refund"], "vars": {"most": 100},
        "define": {"strict": "vars.most > 500"},
        "approve": {"tools": ["refund"], **({"when": case.gate} if case.gate else {})},
        "states": {
            "think": {"do": "infer", "next": "act"}, "act": {"do": "call_tools", "next": "done"},
            "done": {"stop": "completed"},
        },
    }  # fmt: skip
    text: dict[str, Any] = {"chartloop": 1, "machine": "m", **body}
    if where == "child":
        runs = {"do": "run_machine", "with": {"machine": "c", "task": "x"}, "next": "done"}
        text = {
            **text,
            "machines": {"c": body},
            "states": {"run": runs, "done": {"stop": "completed"}},
        }
        text |= {"tools": [], "model": {"name": "scripted"}}
        del text["approve"]
    when = f"when {case.asked} " if case.asked else ""
    found = load(json.dumps(text), tools=[refund]).query(
        f"each tool:refund {when}after its own accept"
    )
    assert str(found).replace("child machine `c`: ", "").startswith(case.says)
    assert case.arguments is None or found.arguments == case.arguments
    assert (found.holds is False) == (found.arguments is not None)


def test_a_condition_is_read_by_the_machine_that_makes_the_call() -> None:
    """What the machine that asks has defined may not be there in its child, or mean less."""
    child = {
        "model": {"name": "scripted"}, "tools": ["refund"],
        "approve": {"tools": ["refund"], "when": f"{USD} > 100"},
        "states": {
            "think": {"do": "infer", "next": "act"}, "act": {"do": "call_tools", "next": "done"},
            "done": {"stop": "completed"},
        },
    }  # fmt: skip
    text = {
        "chartloop": 1, "machine": "m", "vars": {"most": 1}, "machines": {"c": child},
        "define": {"strict": "vars.most > 500"},
        "states": {
            "run": {"do": "run_machine", "with": {"machine": "c", "task": "x"}, "next": "done"},
            "done": {"stop": "completed"},
        },
    }  # fmt: skip
    asking = load(json.dumps(text), tools=[refund])
    assert asking.query(f"each tool:refund when {USD} > 500 after its own accept")
    for word in ("strict", "vars.most > 5"):
        found = asking.query(f"each tool:refund when {word} after its own accept")
        assert found.holds is None
        assert f"`{word}` is not a condition here" in found.reason


def test_without_the_tools_the_condition_of_the_gate_is_the_only_one_that_is_known() -> None:
    """Nothing is known of the arguments, so other conditions are not compared."""
    text = machine(ACT, head=f"approve: {{tools: [buy], when: {USD} > 100}}")
    questions = api.examine(text, assume=True).machine
    assert questions is not None
    assert questions.query(f"each tool:buy when ({USD} > 100) after its own accept")
    for when in ("", f"when {USD} > 200 "):
        found = questions.query(f"each tool:buy {when}after its own accept")
        assert found.holds is None
        assert "ask with that very condition" in found.reason


def test_the_answer_is_plain_data_and_lists_what_it_takes_for_granted() -> None:
    found = built_gated(machine(ACT, head=APPROVE)).query(ASKED)
    assert json.loads(json.dumps(found.to_dict())) == {
        "query": ASKED, "holds": True, "reason": found.reason, "witness": [], "edges": [],
        "assumptions": [ASSUMED, "a call that is tried again after a failure or a crash is the same call"],
        "unless": [], "arguments": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("each think after its own accept", "has no tool `think`"),
        ("each tool:by after its own accept", "did you mean `buy`"),
        ("each buy after its own acept", "did you mean `accept`"),
        ("each buy after its own state:think", "has no event `state:think`"),
        ("each buy after accept", "each TOOL after its own EVENT"),
        ("each buy when after its own accept", "each TOOL after its own EVENT"),
        ("each buy when call. > 1 after its own accept", "is not a condition"),
        (
            "each buy when call.arguments.cal == 'x' after its own accept",
            "did you mean `call.arguments.call`",
        ),
        (
            "each buy when call.arguments.call > 1 after its own accept",
            "is not a condition: str is not",
        ),
    ],
)
def test_what_is_no_such_query(text: str, says: str) -> None:
    with pytest.raises(QueryFault, match=says):
        built_gated(machine(ACT)).query(text)
