"""`approve`: calls that somebody must approve, and nothing that goes round it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from chartloop import Run, load, tool
from chartloop.adapters.model.scripted import Scripted
from chartloop.api import examine
from chartloop.core.errors import AheadError, AnswerError
from chartloop.language.dump import canonical
from chartloop.run.journal import InboxMessage, MemoryJournal
from chartloop.run.question import LONGEST
from chartloop.run.sync import by_hand
from chartloop.testing.clock import ManualClock

DONE: list[str] = []


@tool
def buy(x: int) -> str:
    """Buy."""
    DONE.append(f"buy {x}")
    return f"bought {x}"


@tool(effect="pure")
def look(x: int) -> str:
    """Look."""
    DONE.append(f"look {x}")
    return f"saw {x}"


TOOLS = [buy, look]
TEXT = """chartloop: 1
machine: buyer
model: {name: scripted}
tools: [look, buy]
limits: {steps: 40}
approve: {tools: [buy], by: the editor, within: 10m, ask: "For {{ run.task }}:"}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


def calls(*asked: tuple[str, int], ids: str = "c") -> dict[str, Any]:
    """A reply that calls these."""
    each = [
        {"id": f"{ids}{n}", "name": name, "arguments": {"x": x}}
        for n, (name, x) in enumerate(asked)
    ]
    return {"text": "", "tool_calls": each}


def told(run: Any) -> dict[str, str]:
    """What the model read of each call, by id; each is answered once."""
    replies = [m for m in run.messages if m["role"] == "tool"]
    asked = [c["id"] for m in run.messages for c in m.get("tool_calls", ())]
    assert sorted(m["tool_call_id"] for m in replies) == sorted(asked)
    return {m["tool_call_id"]: m["content"] for m in replies}


def waiting(*replies: Any, text: str = TEXT, **more: Any) -> Any:
    """A run that has come to its wait."""
    run = load(text, tools=TOOLS).start("a report", script=list(replies), **more)
    run.run()
    assert run.state == "approve"
    return run


def test_the_question_shows_every_call_that_is_approved() -> None:
    run = waiting(calls(("buy", 1), ("look", 2), ("buy", 3)), "done")
    calls_shown = '  1. buy {"x": 1}\n  2. buy {"x": 3}'
    assert run.result.question == f"For a report:\n(for the editor)\n{calls_shown}"
    assert DONE == []


def test_an_approval_carries_out_the_calls_and_is_recorded_with_who_gave_it() -> None:
    run = waiting(calls(("buy", 1), ("look", 2)), "done")
    run.send("accept", {"by": "eve"})
    assert run.run().reason == "completed"
    assert sorted(DONE) == ["buy 1", "look 2"]
    assert told(run) == {"c0": "bought 1", "c1": "saw 2"}
    (answer,) = [r for r in run.records if r.kind == "answer"]
    assert (answer.input.event, dict(answer.input.data)) == ("accept", {"by": "eve"})
    assert run.replay().same


def test_what_is_denied_is_told_to_the_model_with_the_note_and_the_rest_is_done() -> None:
    run = waiting(calls(("buy", 1), ("look", 2)), "done")
    run.send("deny", {"by": "eve", "note": "too dear"})
    result = run.run()
    assert DONE == ["look 2"]
    assert told(run) == {
        "c0": "error: `buy` was not approved: it was denied: too dear",
        "c1": "saw 2",
    }
    assert (result.errors, result.facts.approvals.denied) == ((), 1)


def test_silence_denies() -> None:
    script = [calls(("buy", 1)), "done"]
    run = load(TEXT, tools=TOOLS).start("x", script=script, clock=ManualClock())
    assert run.run().reason == "completed"
    assert DONE == []
    assert told(run) == {"c0": "error: `buy` was not approved: no answer came in time"}


def test_who_answers_must_say_it() -> None:
    run = waiting(calls(("buy", 1)), "done")
    with pytest.raises(AnswerError, match="by"):
        run.send("accept")


def test_a_reply_that_needs_no_approval_does_not_wait() -> None:
    run = load(TEXT, tools=TOOLS).start("x", script=[calls(("look", 1)), "done"])
    assert run.run().reason == "completed"
    assert DONE == ["look 1"]
    assert "approve" not in run.result.path


def test_an_approval_is_good_for_one_time() -> None:
    run = waiting(calls(("buy", 1)), calls(("buy", 1)), "done")
    run.send("accept", {"by": "eve"})
    run.run()
    assert run.state == "approve"  # the same call, by the same id, is asked for again
    assert DONE == ["buy 1"]


def test_calls_that_come_after_the_question_are_not_approved_with_it() -> None:
    """A detour asks the model again between the answer and the calls: its calls are other calls."""
    rule = "  - {when: last.answer is not None and run.visits.aside == 0, to: aside}\nstates:\n"
    aside = "  aside: {do: infer, next: return}\n  done:"
    text = TEXT.replace("states:\n", rule).replace("  done:", aside)
    run = waiting(calls(("buy", 1)), calls(("buy", 1000)), "done", text=text)
    run.send("accept", {"by": "eve"})
    run.run()
    assert "aside" in run.result.path
    assert DONE == []
    read = [m["content"] for m in run.messages if m["role"] == "tool"]
    assert read == ["error: `buy` was not approved: nobody was asked"]


def test_the_question_is_about_the_calls_whatever_a_detour_asked_before_it() -> None:
    rule = "  - {when: run.visits.act == 1 and run.visits.aside == 0, to: aside}\nstates:\n"
    aside = "  aside: {do: ask_user, with: {text: Do you like cats?}, next: return}\n  done:"
    text = TEXT.replace("states:\n", rule).replace("  done:", aside)
    run = waiting(calls(("buy", 1)), "done", text=text)
    assert "aside" in run.result.path
    assert run.question.text.endswith('buy {"x": 1}')


def test_an_approval_outlives_a_resume() -> None:
    journal = MemoryJournal()
    machine = load(TEXT, tools=TOOLS)
    run = machine.start("x", script=[calls(("buy", 1)), "done"], journal=journal, run_id="one")
    run.run()
    run.send("accept", {"by": "eve"})
    again = machine.open("one", journal=journal, model=Scripted(["unused", "done"]))
    assert again.run().reason == "completed"
    assert DONE == ["buy 1"]


def test_the_first_call_alone_is_asked_where_only_it_is_carried_out() -> None:
    text = TEXT.replace("call_tools", "call_tool")
    run = load(text, tools=TOOLS).start("x", script=[calls(("look", 1), ("buy", 2)), "done"])
    assert run.run().reason == "completed"
    assert DONE == ["look 1"]


def test_the_file_holds_the_short_form() -> None:
    machine = load(TEXT, tools=TOOLS)
    data = json.loads(canonical(machine.spec))
    assert list(data["states"]) == ["ask", "think", "act", "done"]
    assert data["approve"] == {
        "tools": ["buy"], "by": "the editor", "ask": "For {{ run.task }}:", "within": "10m"
    }  # fmt: skip
    again = load(canonical(machine.spec), tools=TOOLS)
    assert again.spec == machine.spec
    assert again.hash == machine.hash


def test_it_is_drawn_bounded_and_proven_as_the_states_that_it_stands_for() -> None:
    machine = load(TEXT, tools=TOOLS)
    assert list(machine.spec.states) == [
        "ask", "think", "act", "approve", "act_approved", "act_others", "done"
    ]  # fmt: skip
    for query in ("never tool:buy before state:approve", "never tool:buy before event:accept"):
        assert machine.query(query).holds is True, query
    assert machine.query("never tool:look before state:approve").holds is False
    assert machine.bound()["actions"].value is not None
    assert not machine.findings


def test_rules_at_a_calling_state_are_those_of_the_states_that_carry_out() -> None:
    text = TEXT.replace("stop: steps_limit}", "stop: steps_limit, at: [act]}")
    machine = load(text, tools=TOOLS)
    assert machine.spec.rules[0].at == ("act_approved", "act_others")
    assert load(canonical(machine.spec), tools=TOOLS).spec == machine.spec


class Fault(NamedTuple):
    """A change of the file, and what is found."""

    id: str
    old: str
    new: str
    code: str
    says: str


FAULTS = [
    Fault("misspelt-tool", "tools: [buy]", "tools: [bui]", "CL405", "did you mean `buy`"),
    Fault("misspelt-key", "within: 10m", "witin: 10m", "CL201", "within"),
    Fault("no-tools", "tools: [buy], by", "tools: [], by", "CL203", ""),
    Fault("goes-round-it", "  done:", "  other: {do: tool, with: {name: buy, arguments: {x: '1'}}, next: done}\n  done:", "CL338", "`other` calls `buy` itself"),
    Fault("in-a-child", "states:\n  ask", "machines: {c: {tools: [buy], model: {name: scripted}, states: {t: {do: infer, next: a}, a: {do: call_tools, next: z}, z: {stop: completed}}}}\nstates:\n  ask", "CL339", "child machine `c`"),
    Fault("nothing-to-approve", "do: call_tools, next", "do: call_tools, allow: [look], next", "CL340", "there is nothing to approve"),
    Fault("a-name-that-is-taken", "  done:", "  approve: {do: nothing, next: done}\n  done:", "CL417", "`approve`"),
    Fault("expired-without-within", "within: 10m", "expired: done", "CL207", "`within`"),
    Fault("to-the-wait", "act: {do: call_tools, next: think}", "act: {do: call_tools, next: approve}", "CL301", "unknown state `approve`"),
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_what_is_wrong_with_it_is_said(fault: Fault) -> None:
    text = TEXT.replace(fault.old, fault.new)
    assert text != TEXT
    found = [f for f in examine(text, tools=TOOLS).findings if f.code == fault.code]
    assert found
    assert fault.says in found[0].render()


# consent to what was shown --------------------------------------------------------------------


def test_an_answer_ahead_never_opens_a_gate() -> None:
    run = load(TEXT, tools=TOOLS).start("t", script=[calls(("buy", 3)), "end"])
    run.step()
    with pytest.raises(AheadError, match="no call was shown yet"):
        run.send("accept", {"by": "eve"}, ahead="approve")
    assert run.run().kind == "waiting"
    assert DONE == []


def test_an_answer_kept_ahead_of_a_gate_is_dropped() -> None:
    journal = MemoryJournal()
    run = load(TEXT, tools=TOOLS).start("t", script=[calls(("buy", 3)), "end"], journal=journal)
    run.step()
    old = {"kind": "answer", "event": "accept", "data": {"by": "eve"}, "ahead": "approve"}
    by_hand(journal.send(run.id, InboxMessage("old", run.session.ports.clock.now(), old)))
    assert run.run().kind == "waiting"
    assert DONE == []
    dropped = next(record for record in run.records if record.kind == "drop")
    assert "which it was given ahead of" in str(dropped.to_dict())


HIDDEN = 'chair \u202e\u200b\x9b2J", "usd": 1\n' + " " * 300 + "\n" * 200


@tool
def order(item: str, usd: float) -> str:
    """Order."""
    DONE.append(f"order {item} {usd}")
    return "ordered"


def ordered(item: str, **more: Any) -> Run:
    """A run that asks whether to order this."""
    text = TEXT.replace("[look, buy]", "[order]").replace("[buy]", "[order]")
    call = {"name": "order", "arguments": {"item": item, "usd": 900001}}
    run = load(text, tools=[order]).start("t", script=[{"tool_calls": [call]}, "end"], **more)
    run.run()
    return run


def test_nothing_in_an_argument_hides_or_moves_another() -> None:
    question = ordered(HIDDEN).question
    assert question is not None
    line = question.text.splitlines()[-1]
    shown = json.loads(line.removeprefix("  order "))
    assert shown == {"item": HIDDEN, "usd": 900001}  # canonical JSON: what is read is what is sent
    assert len(question.text.splitlines()) == 3
    assert line.isprintable()
    assert r"\u202e\u200b\u009b2J" in line


@pytest.mark.parametrize("by", ["", " ", "\u200b", "\u3164\n"])
def test_somebody_without_a_name_does_not_answer(by: str) -> None:
    run = ordered("chair")
    with pytest.raises(AnswerError, match="`by` of `accept` is empty"):
        run.send("accept", {"by": by})


def test_what_is_too_long_to_be_shown_is_accepted_by_who_opened_it() -> None:
    run = ordered("x" * 12_000)
    question = run.question
    assert question is not None
    assert question.rest == len(question.text) - LONGEST
    row = by_hand(run.session.journal.row(run.id))
    assert row is not None
    assert row.question is not None
    assert (len(row.question.text), row.question.rest) == (LONGEST, question.rest)
    with pytest.raises(AnswerError, match="more characters of the question were not shown"):
        run.send("accept", {"by": "eve"}, shown="")
    with pytest.raises(AnswerError, match="asks something else"):
        run.send("accept", {"by": "eve"}, shown="0" * 16)
    run.send("accept", {"by": "eve"}, shown=question.digest)
    assert run.run().kind == "natural"


REVIEW = """chartloop: 1
machine: review
model: {name: scripted}
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: look}
  look: {ask: "Send this?\\n\\n{last.text}", on: {yes: done, no: think}}
  done: {stop: completed}
"""


def test_a_reply_within_what_is_asked_stays_in_its_line() -> None:
    inside = REVIEW.replace("Send this?\\n\\n{last.text}", "Send '{last.text}'?")
    run = load(inside).start("t", script=["Dear customer,\n\nwe are sorry."])
    run.run()
    assert run.question is not None
    assert run.question.text == "Send 'Dear customer, we are sorry.'?"
    assert run.question.about == "Dear customer,\n\nwe are sorry."


LONG = "Dear customer,\n\n" + "we are sorry. " * 60 + "\n\nYours"


@pytest.mark.parametrize(
    ("reply", "text", "about"),
    [
        ("Dear customer,\n\nwe are sorry.", "Send this?\n\nDear customer,\n\nwe are sorry.", ""),
        ("Sorry.", "Send this?\n\nSorry.", ""),
        (LONG, "Send this?", LONG),
        ("f(\n  1)", "Send this?", "f(\n  1)"),
        ("pay \u202e001\nnow", "Send this?\n\npay \\u202e001\nnow", ""),
    ],
    ids=["lines", "short", "long", "indented", "turned"],
)
def test_the_newest_reply_is_read_whole_and_once(reply: str, text: str, about: str) -> None:
    run = load(REVIEW).start("t", script=[reply])
    run.run()
    assert run.question is not None
    assert (run.question.text, run.question.about) == (text, about)


# who answers ----------------------------------------------------------------------------------


FOUR_EYES = TEXT.replace("by: the editor", "not_by: submitter")


@pytest.mark.parametrize("by", ["eve", " EVE", "Eve "])
def test_who_submitted_a_run_cannot_accept_its_calls(by: str) -> None:
    machine = load(FOUR_EYES, tools=TOOLS)
    run = machine.start("t", script=[calls(("buy", 3)), "end"], submitter="Eve")
    run.run()
    assert run.submitter == "Eve"
    with pytest.raises(AnswerError, match="`Eve` submitted the run"):
        run.send("accept", {"by": by})
    run.send("accept", {"by": "ann"})
    assert run.run().kind == "natural"
    assert DONE == ["buy 3"]
    assert run.replay().same


def test_who_submitted_a_run_may_withdraw_its_calls() -> None:
    machine = load(FOUR_EYES, tools=TOOLS)
    run = machine.start("t", script=[calls(("buy", 3)), "end"], submitter="eve")
    run.run()
    run.send("deny", {"by": "eve", "note": "not now"})
    assert run.run().kind == "natural"
    assert DONE == []


def test_a_run_that_does_not_say_who_submitted_it_is_not_accepted() -> None:
    run = load(FOUR_EYES, tools=TOOLS).start("t", script=[calls(("buy", 3)), "end"])
    run.run()
    with pytest.raises(AnswerError, match="does not say who submitted it") as raised:
        run.send("accept", {"by": "ann"})
    assert "started with `submitter`" in raised.value.hint


def test_a_child_is_submitted_by_who_submitted_its_parent() -> None:
    child = "\n".join("  " + line for line in FOUR_EYES.splitlines()[2:])
    text = f"""chartloop: 1
machine: parent
machines:
 buyer:
{child}
states:
  go: {{do: run_machine, with: {{machine: buyer, task: t}}, next: done}}
  done: {{stop: completed}}
"""
    run = load(text, tools=TOOLS).start("t", script=[calls(("buy", 3)), "end"], submitter="eve")
    run.run()
    with pytest.raises(AnswerError, match="`eve` submitted the run"):
        run.send("accept", {"by": "eve"})
    run.send("accept", {"by": "ann"})
    assert run.run().kind == "natural"
    assert DONE == ["buy 3"]


def test_four_eyes_are_written_as_they_were_read() -> None:
    spec = load(FOUR_EYES, tools=TOOLS).spec
    assert load(canonical(spec), tools=TOOLS).spec == spec
