"""`approve` decides each call by itself: per-call answers, `edit`, `when`, `remember`."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from chartloop import load, tool
from chartloop.core.errors import AnswerError, SpecError
from chartloop.language.dump import canonical
from chartloop.run.journal import MemoryJournal
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock

DONE: list[tuple[str, float]] = []


@tool
def buy(item: str, usd: float = 500) -> str:
    """Buy."""
    if item == "nothing":
        raise ValueError("there is nothing to buy")
    DONE.append((item, usd))
    return f"bought {item}"


@tool
def send(to: str) -> str:
    """Send."""
    DONE.append((to, 0))
    return f"sent to {to}"


@tool(effect="pure")
def look(text: str) -> str:
    """Look."""
    return f"saw {text}"


HEAD = """chartloop: 1
machine: buyer
model: {{name: scripted}}
tools: [look, buy, send]
limits: {{steps: 40, free: 100.0}}
vars: {{strict: true}}
approve: {{tools: [buy], by: the boss{more}}}
rules:
  - {{when: run.steps >= limits.steps, stop: steps_limit}}
  - {{when: limits.free < 0 or vars.strict == (limits.free < 0), stop: steps_limit}}
states:
  ask: {{do: receive, next: think}}
  think: {{do: infer, next: [{{when: len(last.tool_calls) > 0, to: act}}, {{to: done}}]}}
  act: {{do: call_tools, next: think}}
  done: {{stop: completed}}
"""


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


def call(id: str, item: str, usd: float | str | None = None, name: str = "buy") -> dict[str, Any]:
    arguments = {"item": item} | ({} if usd is None else {"usd": usd})
    return {"id": id, "name": name, "arguments": arguments}


def start(*turns: list[dict[str, Any]], more: str = "", **given: Any) -> Any:
    """A run whose model asks for these calls, turn by turn; driven to its first rest."""
    script: list[Any] = [*({"text": "", "tool_calls": calls} for calls in turns), "done"]
    machine = load(HEAD.format(more=more), tools=[buy, send, look])
    run = machine.start("a report", script=script, **given)
    run.run()
    return run


def replies(run: Any) -> dict[str, str]:
    return {m["tool_call_id"]: m["content"] for m in run.messages if m["role"] == "tool"}


class Decided(NamedTuple):
    """An answer to a question about calls `a` and `b`, and what it executes and tells."""

    id: str
    event: str
    data: dict[str, Any]
    done: list[str]
    told: dict[str, str]


DENIED = "error: `buy` was not approved: it was denied"


@pytest.mark.parametrize(
    "case",
    [
        Decided("all", "accept", {}, ["x", "y"], {"a": "bought x", "b": "bought y"}),
        Decided("none", "deny", {"note": "no"}, [], {"a": f"{DENIED}: no", "b": f"{DENIED}: no"}),
        Decided(
            "one", "accept", {"calls": {"a": "accept", "b": "deny"}}, ["x"],
            {"a": "bought x", "b": DENIED},
        ),
        Decided(
            "each-denied-for-its-own-reason", "deny",
            {"note": "no", "calls": {"a": {"decision": "deny", "note": "dear"}, "b": "deny"}}, [],
            {"a": f"{DENIED}: dear", "b": f"{DENIED}: no"},
        ),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_one_answer_decides_each_call(case: Decided) -> None:
    run = start([call("a", "x", 1), call("b", "y", 2)])
    run.send(case.event, {"by": "eve", **case.data})
    run.run()
    assert sorted(item for item, _ in DONE) == case.done  # calls of one reply run at once
    assert replies(run) == case.told
    assert run.facts.usage.tool_calls == len(case.done)


class Refused(NamedTuple):
    """An answer that is not taken, and why."""

    id: str
    event: str
    data: dict[str, Any]
    why: str


@pytest.mark.parametrize(
    "case",
    [
        Refused("unknown-call", "accept", {"calls": {"c": "accept"}}, "no call `c` waits"),
        Refused("one-left-out", "accept", {"calls": {"a": "accept"}}, "nothing is decided for `b`"),
        Refused("accepts-none", "accept", {"calls": {"a": "deny", "b": "deny"}}, "accepts no call"),
        Refused("denies-one", "deny", {"note": "", "calls": {"a": "accept", "b": "deny"}},
                "`deny` accepts a call"),
        Refused("other-word", "accept", {"calls": {"a": "yes", "b": "deny"}}, "neither accepted"),
        Refused("not-a-word", "accept", {"calls": {"a": 1, "b": "deny"}}, "neither accepted"),
        Refused("no-object", "accept", {"calls": ["a"]}, "`calls` of `accept` is map"),
        Refused("other-field", "accept", {"calls": {"a": {"decision": "accept", "x": 1},
                "b": "deny"}}, "takes no `x`"),
        Refused("note-of-an-accepted", "accept", {"calls": {"a": {"decision": "accept",
                "note": "x"}, "b": "deny"}}, "takes no `note`"),
        Refused("no-changes-allowed", "accept", {"calls": {"a": {"result": "x"}, "b": "deny"}},
                "this gate takes no `result`"),
        Refused("no-memory", "accept", {"calls": {"a": {"decision": "accept", "remember": True},
                "b": "deny"}}, "this gate takes no `remember`"),
        Refused("edits-nothing", "edit", {"calls": {}}, "`edit` only changes arguments"),
        Refused("edits-and-accepts", "edit", {"calls": {"a": {"arguments": {"item": "z"}},
                "b": "accept"}}, "`edit` only changes arguments"),
        Refused("accepts-what-it-changes", "accept", {"calls": {"a": {"arguments": {"item": "z"}},
                "b": "accept"}}, "`accept` changes a call"),
        Refused("no-edit-event", "edit", {"calls": {}}, "does not take `edit`"),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_an_answer_that_contradicts_the_question_is_refused(case: Refused) -> None:
    more = EDIT if "edits" in case.id or "what-it-changes" in case.id else ""
    run = start([call("a", "x", 1), call("b", "y", 2)], more=more)
    with pytest.raises(AnswerError) as error:
        run.send(case.event, {"by": "eve", **case.data})
    assert case.why in str(error.value)
    assert run.status == "paused"


def test_two_calls_with_one_id_are_decided_by_themselves() -> None:
    run = start([call("a", "x", 1), call("a", "y", 2)])
    first, second = (one["key"] for one in run.question.calls)
    run.send("accept", {"by": "eve", "calls": {first: "deny", second: "accept"}})
    run.run()
    assert DONE == [("y", 2)]


# edit ---------------------------------------------------------------------------------------

EDIT = ", edit: true"


def test_changed_arguments_are_asked_again_as_changed_and_executed_as_accepted() -> None:
    run = start([call("a", "x", 1), call("b", "y", 2)], more=EDIT)
    run.send("edit", {"by": "eve", "calls": {"a": {"arguments": {"item": "z", "usd": 3}}}})
    run.run()
    assert run.state == "approve"
    assert DONE == []
    assert '"z"' in run.question.text
    assert "changed by eve" in run.question.text
    assert run.question.calls[0]["edited_by"] == "eve"
    run.send("accept", {"by": "bob", "calls": {"a": "accept", "b": "deny"}})
    run.run()
    assert DONE == [("z", 3)]
    told = '[executed with other arguments, by eve: {"item": "z", "usd": 3}]\nbought z'
    assert replies(run) == {"a": told, "b": DENIED}
    asked = next(m for m in run.messages if m.get("tool_calls"))
    assert asked["tool_calls"][0]["function"]["arguments"] == '{"item": "x", "usd": 1}'


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"item": "z", "usd": "x"}, "usd"),
        ({"usd": 3}, "item"),
        ({"item": "z", "more": 3}, "more"),
        ([1], "is not an object"),
    ],
)
def test_changed_arguments_fit_the_schema_of_the_tool(arguments: Any, why: str) -> None:
    run = start([call("a", "x", 1)], more=EDIT)
    with pytest.raises(AnswerError) as error:
        run.send("edit", {"by": "eve", "calls": {"a": {"arguments": arguments}}})
    assert why in str(error.value)


def test_a_person_may_answer_in_the_tools_place() -> None:
    journal = MemoryJournal()
    run = start([call("a", "x", 1), call("b", "y", 2)], more=EDIT, journal=journal)
    run.send("accept", {"by": "eve", "calls": {"a": {"result": {"paid": 7}}, "b": "accept"}})
    run.run()
    assert DONE == [("y", 2)]
    told = "[not executed: eve answered in the tool's place]\n" + '{"paid": 7}'
    assert replies(run)["a"] == told
    events = by_hand(journal.events(run.id))
    assert [e.data["key"].rpartition("/")[2] for e in events if "tool" in e.data] == ["b"]
    assert run.facts.usage.tool_calls == 1


def test_a_changed_call_that_the_tool_refuses_is_told_to_the_model() -> None:
    run = start([call("a", "x", 1)], more=EDIT)
    run.send("edit", {"by": "eve", "calls": {"a": {"arguments": {"item": "nothing"}}}})
    run.run()
    run.send("accept", {"by": "eve"})
    run.run()
    assert replies(run)["a"].endswith("error: ValueError: there is nothing to buy")


# when ---------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """A call, and whether the gate holds it back."""

    id: str
    when: str
    usd: float | str | None
    held: bool


@pytest.mark.parametrize(
    "case",
    [
        Judged("below", "call.arguments.usd > 100", 100, held=False),
        Judged("above", "call.arguments.usd > 100", 100.5, held=True),
        Judged("as-the-tool-gets-it", "call.arguments.usd > 100", "50", held=False),
        Judged("as-the-tool-gets-it-above", "call.arguments.usd > 100", "5000", held=True),
        Judged("default", "call.arguments.usd > 100", None, held=True),
        Judged("default-below", "call.arguments.usd > 1000", None, held=False),
        Judged("by-a-limit", "call.arguments.usd > limits.free", 99, held=False),
        Judged("between", "call.arguments.usd >= 10 and call.arguments.usd < 50", 49, held=True),
        Judged("by-name", 'call.name == "buy" and vars.strict', 99, held=True),
        Judged("undecidable", "call.arguments.usd / (limits.free - 100) > 1", 99, held=True),
    ],
    ids=lambda case: case.id,
)
def test_when_decides_which_calls_are_held_back(case: Judged) -> None:
    run = start([call("a", "x", case.usd)], more=f", when: '{case.when}'")
    assert (run.state == "approve") is case.held
    assert bool(DONE) is not case.held


def test_calls_that_need_no_approval_are_executed_beside_a_denial() -> None:
    run = start([call("a", "x", 50), call("b", "y", 500)], more=", when: call.arguments.usd > 100")
    assert [one["key"] for one in run.question.calls] == ["b"]
    run.send("deny", {"by": "eve", "note": ""})
    run.run()
    assert DONE == [("x", 50)]


def test_a_changed_call_is_held_again_only_if_the_gate_says_so() -> None:
    more = EDIT + ", when: call.arguments.usd > 100"
    run = start([call("a", "x", 500), call("b", "y", 600)], more=more)
    changed = {
        "a": {"arguments": {"item": "x", "usd": 50}},
        "b": {"arguments": {"item": "y", "usd": 700}},
    }
    run.send("edit", {"by": "eve", "calls": changed})
    run.run()
    assert [one["key"] for one in run.question.calls] == ["b"]
    run.send("accept", {"by": "bob"})
    run.run()
    assert sorted(DONE) == [("x", 50), ("y", 700)]


def test_when_decides_again_before_execution() -> None:
    """Between the question and the calls somebody lowers what is free."""
    run = start(
        [call("a", "x", 50), call("b", "y", 500)], more=", when: call.arguments.usd > limits.free"
    )
    run.set("limits.free", 10.0)
    run.send("accept", {"by": "eve"})
    run.run()
    assert DONE == [("y", 500)]
    assert replies(run)["a"] == "error: `buy` was not approved: nobody was asked"


@pytest.mark.parametrize(
    ("when", "why"),
    [
        ("call.arguments.usdd > 1", "did you mean `call.arguments.usd`?"),
        ("call.args.usd > 1", "`call` has no `args`"),
        ("call.arguments.usd", "CL106"),
        ("call.arguments.item > 1", "CL104"),
        ("cal.arguments.usd > 1", "unknown fact"),
        ('call.name == "bay"', "CL111"),
    ],
)
def test_a_wrong_condition_is_a_finding(when: str, why: str) -> None:
    with pytest.raises(SpecError) as error:
        start([], more=f", when: {when}")
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("when", "codes"),
    [
        ("run.steps < 0", ["CL340"]),
        ("call.arguments.usd >= 10 and call.arguments.usd < 50", []),
        ("call.arguments.usd > limits.free", []),
    ],
)
def test_a_condition_that_never_holds_is_warned_of_and_no_other(
    when: str, codes: list[str]
) -> None:
    machine = load(HEAD.format(more=f", when: {when}"), tools=[buy, send, look])
    assert [one.code for one in machine.findings] == codes


# remember -----------------------------------------------------------------------------------

REMEMBER = ", remember: true"


def test_an_equal_call_passes_where_the_answer_says_so() -> None:
    run = start([call("a", "x", 1)], [call("b", "x", 1.0), call("c", "y", 1)], more=REMEMBER)
    run.send("accept", {"by": "eve", "remember": True})
    run.run()
    assert [one["key"] for one in run.question.calls] == ["c"]
    run.send("deny", {"by": "eve", "note": ""})
    run.run()
    assert DONE == [("x", 1), ("x", 1)]


def test_nothing_is_remembered_unasked() -> None:
    run = start([call("a", "x", 1)], [call("b", "x", 1)], more=REMEMBER)
    run.send("accept", {"by": "eve"})
    run.run()
    assert run.state == "approve"


def test_what_is_remembered_ends_with_the_run() -> None:
    run = start([call("a", "x", 1)], [call("b", "x", 1)], more=REMEMBER, journal=MemoryJournal())
    run.send("accept", {"by": "eve", "remember": True})
    while run.state != "think":
        run.step()
    fork = run.fork()
    fork.run()
    assert fork.state == "approve"
    run.run()
    assert DONE == [("x", 1), ("x", 1)]


@pytest.mark.parametrize(
    ("old", "new", "asks"),
    [
        ("steps: 40", "steps: 41", False),
        ("by: the boss", "by: the chief", True),
        ("remember: true", "remember: true, when: call.arguments.usd > 0", True),
    ],
    ids=["another-limit", "another-approver", "another-condition"],
)
def test_a_move_keeps_what_is_remembered_if_the_gate_is_unchanged(
    old: str, new: str, asks: bool
) -> None:
    journal = MemoryJournal()
    turns = [call("a", "x", 1)], [call("b", "y", 1)], [call("c", "x", 1)]
    script: list[Any] = [*({"text": "", "tool_calls": calls} for calls in turns), "done"]
    text = HEAD.format(more=REMEMBER)
    run = load(text, tools=[buy, send, look]).start("t", script=script, journal=journal, run_id="r")
    run.run()
    run.send("accept", {"by": "eve", "remember": True})
    run.run()  # waits for `b`
    changed = load(text.replace(old, new), tools=[buy, send, look])
    moved = changed.open("r", journal=journal, changed=True, script=script)
    moved.run()
    assert moved.id != "r"
    moved.send("deny", {"by": "eve", "note": ""})
    moved.run()
    assert (moved.status == "paused") is asks
    assert len(DONE) == (1 if asks else 2)


def test_a_fork_between_an_answer_and_its_calls_asks_again() -> None:
    """A detour between the two changes nothing of that."""
    text = HEAD.format(more="").replace(
        "  - {when: run.steps",
        "  - {when: run.visits.act == 1, to: aside, before: [act]}\n  - {when: run.steps",
    )
    text += "  aside: {do: nothing, next: return}\n"
    reply = {"text": "", "tool_calls": [call("a", "x", 1)]}
    journal = MemoryJournal()
    run = load(text, tools=[buy, send, look]).start("t", script=[reply, "done"], journal=journal)
    run.run()
    run.send("accept", {"by": "eve"})
    while run.state != "act_approved":
        run.step()
    fork = run.fork()
    fork.run()
    run.run()
    assert fork.state == "approve"
    assert DONE == [("x", 1)]


# known before it runs -----------------------------------------------------------------------


GATED = HEAD.format(more=f"{EDIT}, remember: true, within: 1h, when: call.arguments.usd > 100")


def test_every_edge_and_rule_of_a_gated_machine_can_be_taken() -> None:
    """By a call that needs no answer, each answer, silence, and another start."""
    machine = load(GATED, tools=[buy, send, look])

    def edited(usd: float) -> dict[str, Any]:
        return {"by": "eve", "calls": {"a": {"arguments": {"item": "x", "usd": usd}}}}

    answers: tuple[tuple[str, dict[str, Any]], ...] = (
        ("accept", {"by": "eve", "remember": True}), ("deny", {"by": "eve", "note": "no"}),
        ("edit", edited(1)), ("edit", edited(300)), ("", {}),
    )  # fmt: skip
    script: list[Any] = [{"text": "", "tool_calls": [call("a", "x", 200)]}, *["done"] * 2]
    runs = [machine.start("t", script=script, clock=ManualClock()) for _ in answers]
    for run, (event, data) in zip(runs, answers, strict=True):
        while run.status != "paused":
            run.advance()
        if event:
            run.send(event, data)
        run.run()
    cheap: list[Any] = [{"text": "", "tool_calls": [call("a", "x", 1)]}, "done"]
    given: tuple[dict[str, Any], ...] = ({}, {"limits": {"steps": 1}}, {"vars": {"strict": False}})
    runs += [machine.start("t", script=cheap, clock=ManualClock(), **more) for more in given]
    for run in runs:
        run.run()
    taken = {id for run in runs for record in run.records for id in record.taken}
    spec = machine.spec
    assert {edge.id for edge in spec.edges()} | {rule.id for rule in spec.rules} <= taken


def test_the_file_keeps_what_it_says_of_a_gate() -> None:
    written = canonical(load(GATED, tools=[buy, send, look]).chart.spec)
    again = canonical(load(written, tools=[buy, send, look]).chart.spec)
    assert again == written
    approve = json.loads(written)["approve"]
    assert approve["when"] == "call.arguments.usd > 100"
    assert approve["edit"] is approve["remember"] is True


def test_the_calls_of_a_child_are_decided_through_its_parent() -> None:
    parent = """chartloop: 1
machine: parent
model: {name: scripted}
machines:
  child:
    model: {name: scripted}
    tools: [buy]
    approve: {tools: [buy], by: the boss, edit: true}
    states:
      think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
      act: {do: call_tools, next: think}
      done: {stop: completed}
states:
  ask: {do: receive, next: child}
  child: {do: run_machine, with: {machine: child}, next: done}
  done: {stop: completed}
"""
    reply = {"text": "", "tool_calls": [call("a", "x", 1), call("b", "y", 2)]}
    run: Any = load(parent, tools=[buy]).start("t", script=[reply, "done"])
    run.run()
    assert [one["key"] for one in run.question.calls] == ["a", "b"]
    with pytest.raises(AnswerError, match="nothing is decided for `b`"):
        run.send("accept", {"by": "eve", "calls": {"a": "accept"}})
    run.send("accept", {"by": "eve", "calls": {"a": "deny", "b": "accept"}})
    assert run.run().reason == "completed"
    assert DONE == [("y", 2)]
