"""Child machines that a model calls as tools: arguments, results, waits, budgets, crashes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import coverage, load, tool
from chartloop.api import Machine, Run
from chartloop.core.errors import SpecError
from chartloop.core.specs import MEMORY_TOOLS
from chartloop.run.journal import MemoryJournal
from chartloop.run.sync import by_hand
from chartloop.scenarios import recording, run_scenario
from chartloop.testing import CrashAt, Crashed, ManualClock

DESK = """\
chartloop: 1
machine: desk
model: {name: scripted, context_window: 1_000}
tools: [researcher, checker, note]
limits: {steps: 20, tokens: 9_000}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.total_tokens >= limits.tokens, stop: token_limit}
output: last.text
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, with: {at_most: 4}, next: think}
  done: {stop: completed}
machines:
  researcher:
    about: Looks up one question, and gives facts with their sources.
    model: {name: scripted, context_window: 1_000}
    limits: {tokens: 2_000}
    inputs: {task: {}, depth: {}, memory.notes: {}}
    vars: {depth: 1}
    memory: {notes: {value: "", limit: 20}}
    output: {facts: last.text, depth: vars.depth}
    rules:
      - {when: usage.total_tokens >= limits.tokens, stop: token_limit}
    states:
      question: {do: receive, next: think}
      think: {do: infer, next: done}
      done: {stop: completed}
  checker:
    title: Has a person check a claim.
    model: {name: scripted, context_window: 1_000}
    vars: {verdict: ""}
    output: vars.verdict
    states:
      claim: {do: receive, next: judge}
      judge: {ask: "Is it true?", on: {true: good, false: bad}}
      good: {do: nothing, set: {vars.verdict: '"true"'}, next: done}
      bad: {do: nothing, set: {vars.verdict: '"false"'}, next: done}
      done: {stop: completed}
"""


@tool(effect="pure")
def note(text: str) -> str:
    """Note something."""
    NOTED.append(text)
    return "noted"


NOTED: list[str] = []


def call(name: str, id: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "id": id, "arguments": arguments}


def asked(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [*calls]}


BOTH = asked(call("researcher", "a", task="price"), call("researcher", "b", task="size", depth=3))
REPLIES = [BOTH, "49 USD", "40 cm", "It costs 49 USD."]


def desk(text: str = DESK) -> Machine:
    return load(text, tools=[note])


def started(*script: Any, text: str = DESK, **options: Any) -> Run:
    return desk(text).start("What?", script=[*script], clock=ManualClock(), **options)


def replies_read(run: Run) -> dict[str, str]:
    """What the model read, by the id of its call."""
    return {str(m["tool_call_id"]): str(m["content"]) for m in run.messages if m["role"] == "tool"}


def children(run: Run) -> dict[str, str]:
    """How the run's children stand, by what their ids have after the run's."""
    rows = by_hand(run.session.journal.rows(prefix=f"{run.id}/"))
    return {row.run_id.removeprefix(run.id): row.reason or row.status for row in rows}


def test_a_model_sees_what_a_child_is_for_and_what_it_takes() -> None:
    shown = {t["function"]["name"]: t["function"] for t in desk().chart.offered_at("think")}
    assert shown["researcher"] == {
        "name": "researcher",
        "description": "Looks up one question, and gives facts with their sources.",
        "parameters": {
            "type": "object",
            "properties": {
                "task": {"type": "string"}, "depth": {"type": "integer", "default": 1},
                "memory_notes": {"type": "string"},
            },
            "additionalProperties": False, "required": ["task"],
        },
    }  # fmt: skip
    assert shown["checker"]["parameters"]["required"] == ["task"]
    assert shown["checker"]["description"] == "Has a person check a claim."


def test_the_calls_of_a_reply_are_children_of_their_own() -> None:
    run = started(*REPLIES)
    result = run.run()
    assert (result.output, str(result.reason)) == ("It costs 49 USD.", "completed")
    assert children(run) == {"/act/2/1": "completed", "/act/2/2": "completed"}
    assert replies_read(run) == {
        "a": '{"facts": "49 USD", "depth": 1}', "b": '{"facts": "40 cm", "depth": 3}',
    }  # fmt: skip
    usage = run.facts.usage
    assert (usage.llm_calls, usage.tool_calls, usage.calls["researcher"]) == (4, 2, 2)
    assert run.replay().same
    (act,) = [step for step in run.trace() if step.state == "act"]
    assert [len(child) for child in act.inside] == [2, 2]
    assert [(c.name, c.ok) for c in act.calls] == [("researcher", True), ("researcher", True)]


def test_a_question_of_a_child_pauses_the_step_and_keeps_what_is_done() -> None:
    NOTED.clear()
    calls = asked(call("researcher", "a", task="x"), call("checker", "b", task="y"),
                  call("note", "c", text="z"))  # fmt: skip
    run = started(calls, "facts", "Done.")
    run.run()
    question = run.question
    assert question is not None
    assert (question.text, question.run, run.state) == ("Is it true?", f"{run.id}/act/2/2", "act")
    run.send("false")
    assert run.run().output == "Done."
    assert replies_read(run)["b"] == "false"
    assert NOTED == ["z"]
    assert run.facts.usage.llm_calls == 3
    assert run.replay().same


@pytest.mark.parametrize("before", [True, False])
def test_after_a_crash_at_any_write_no_call_is_made_again(before: bool) -> None:
    whole = CrashAt(MemoryJournal())
    wanted = started(*REPLIES, journal=whole).run().output
    for write in range(5, whole.writes + 1):
        journal = MemoryJournal()
        run = started(*REPLIES, journal=CrashAt(journal, write, before=before), run_id="r")
        with pytest.raises(Crashed):
            run.run()
        again = desk().open("r", journal=journal, script=REPLIES, clock=ManualClock())
        assert again.run().output == wanted, write
        assert len(children(again)) == 2, write
        assert again.facts.usage.llm_calls == 4, write


class Reply(NamedTuple):
    """A call that gives no output, and what the model reads."""

    arguments: dict[str, Any]
    script: list[Any]
    reads: str


USED = {"text": "long", "usage": {"prompt_tokens": 3_000, "completion_tokens": 10}}
WITHOUT: dict[str, Reply] = {
    "no-task": Reply({}, [], "error: the arguments of `researcher` are wrong: "),
    "wrong-type": Reply({"task": "x", "depth": "deep"}, [], "error: the arguments of"),
    "unknown": Reply({"task": "x", "width": 1}, [], "error: the arguments of"),
    "too-long": Reply({"task": "x", "memory_notes": "n" * 30}, [], "error: "),
    "limit": Reply({"task": "x"}, [USED], "error: `researcher` stopped for `token_limit`"),
    "failure": Reply(
        {"task": "x"}, [{"error": {"category": "CRITICAL", "message": "no credit"}}],
        "error: `researcher` stopped for `error`: no credit",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WITHOUT)
def test_the_model_reads_why_a_call_gave_nothing(case: str) -> None:
    arguments, script, reads = WITHOUT[case]
    run = started(asked(call("researcher", "a", **arguments)), *script, "Sorry.")
    assert run.run().output == "Sorry."
    assert replies_read(run)["a"].startswith(reads)
    assert run.facts.errors.total == 1


def test_a_child_that_reached_a_limit_tells_what_it_had() -> None:
    run = started(asked(call("researcher", "a", task="x")), USED, "Sorry.")
    run.run()
    assert replies_read(run)["a"].endswith('It had so far: {"facts": "long", "depth": 1}')


def test_children_share_what_is_left_and_are_asked_before_each_starts() -> None:
    six = asked(*(call("researcher", str(n), task="x") for n in range(4)))
    big = {"text": "long", "usage": {"prompt_tokens": 1_900, "completion_tokens": 10}}
    run = started(six, *[big] * 4, "Done.", limits={"tokens": 4_000})
    run.run()
    read = replies_read(run)
    assert sum("which it shares with other children, is spent" in text for text in read.values())
    assert run.facts.usage.total_tokens < 4_000 + 2 * 1_910


HELD = DESK.replace(
    "limits: {steps: 20", "approve: {tools: [researcher], by: eve, edit: true}\nlimits: {steps: 20"
)


def test_a_person_approves_a_child_with_its_arguments() -> None:
    run = started(BOTH, "49 USD", "It costs 49 USD.", text=HELD)
    run.run()
    question = run.question
    assert question is not None
    assert [held["name"] for held in question.calls] == ["researcher", "researcher"]
    assert children(run) == {}
    decided = {"a": "accept", "b": {"decision": "deny", "note": "not now"}}
    run.send("accept", {"by": "eve", "calls": decided})
    assert run.run().output == "It costs 49 USD."
    assert [*children(run).values()] == ["completed"]
    assert "not now" in replies_read(run)["b"]


def test_the_approval_of_a_child_holds() -> None:
    inner = """\
    tools: [note]
    approve: {tools: [note], by: eve}
    states:
      question: {do: receive, next: think}
      think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
      act: {do: call_tools, next: think}
      done: {stop: completed}
  checker:"""
    old = DESK[DESK.index("    states:\n      question") : DESK.index("  checker:") + 10]
    NOTED.clear()
    script = (asked(call("researcher", "a", task="x")), asked(call("note", "n", text="hi")), "ok",
              "Done.")  # fmt: skip
    run = started(*script, text=DESK.replace(old, inner))
    run.run()
    question = run.question
    assert question is not None
    assert [held["name"] for held in question.calls] == ["note"]
    assert NOTED == []
    run.send("accept", {"by": "eve"})
    assert run.run().output == "Done."
    assert NOTED == ["hi"]


def test_the_deadline_of_the_step_ends_children_in_their_own_way() -> None:
    text = DESK.replace("at_most: 4}, next", "at_most: 4}, within: 30s, expired: done, next")
    run = started(BOTH, {"text": "49 USD", "delay": 10}, {"text": "40 cm", "delay": 60}, text=text)
    run.run()
    assert sorted(children(run).values()) == ["completed", "time_limit"]
    read = replies_read(run)
    assert read["a"] == '{"facts": "49 USD", "depth": 1}'
    assert read["b"].startswith("error: `researcher` stopped for `time_limit`")


def test_a_move_takes_the_children_of_a_call_along() -> None:
    journal = MemoryJournal()
    calls = asked(call("researcher", "a", task="x"), call("checker", "b", task="y"))
    run = started(calls, "facts", "Done.", journal=journal, run_id="r")
    run.run()
    text = DESK.replace("act:", "send:").replace("to: act", "to: send")
    changed = desk(text.replace("steps: 20", "steps: 30") + "renamed: {act: send}\n")
    moved = changed.open("r", journal=journal, changed=True, script=[calls, "facts", "Done."])
    moved.send("true")
    assert moved.run().output == "Done."
    assert moved.id != "r"
    assert sorted(children(moved)) == ["/send/2/1", "/send/2/2"]
    assert moved.facts.usage.llm_calls == 3


class Fault(NamedTuple):
    """An edit of the file, and the finding."""

    edit: tuple[str, str]
    code: str
    says: str


FAULTS = {
    "itself": Fault(("    about: Looks", "    machines: {desk: '{here}'}\n    about: Looks"), "CL409", "would run itself"),
    "named-by-an-action": Fault(("act: {do: call_tools, with: {at_most: 4}", "act: {do: tool, with: {name: checker}"), "CL405", "`checker` is a child machine"),
    "data": Fault(("limits: {steps: 20", "data: {checker: {from: untrusted}}\nlimits: {steps: 20"), "CL405", "`checker` is a child machine"),
    "a-tool-of-the-same-name": Fault(("  checker:", "  note:"), "CL204", "`note` is a child machine, and another tool"),
    "no-task": Fault(("inputs: {task: {}, depth", "inputs: {depth"), "CL363", "`act` gives `researcher` no task"),
    "never-called": Fault(("tools: [researcher, checker, note]", "tools: [researcher, note]"), "CL353", "child machine `checker` is declared"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_a_mistake_is_a_finding(tmp_path: Path, case: str) -> None:
    edit, code, says = FAULTS[case]
    path = tmp_path / "desk.yaml"
    path.write_text(DESK.replace(edit[0], edit[1].replace("{here}", path.name)))
    try:
        found = load(path, tools=[note]).findings
    except SpecError as error:
        found = error.findings
    assert [one.code for one in found if says in one.message] == [code], [*map(str, found)]


def test_the_bound_counts_the_most_calls_of_a_reply() -> None:
    found = desk().bound()
    one = found.children["researcher"]
    assert one["requests"] == 1
    assert found["requests"].value == 47  # 9.5 rounds of `think` and four calls
    first = DESK.replace("do: call_tools, with: {at_most: 4}", "do: call_tool")
    assert desk(first).bound()["requests"].value == 19


def test_a_child_without_a_bound_is_unbounded() -> None:
    waiting = desk().bound()["waiting"]
    assert (waiting.value, waiting.why) == (
        None, "in its child `checker`: nothing bounds how long `judge` waits",
    )  # fmt: skip


def test_a_recording_of_a_run_with_children_plays_alike(tmp_path: Path) -> None:
    NOTED.clear()
    (tmp_path / "desk.yaml").write_text(DESK)
    calls = asked(*BOTH["tool_calls"], call("checker", "c", task="y"), call("note", "d", text="z"))
    run = started(calls, "49 USD", "40 cm", "Fine.")
    run.run()
    run.send("true")
    run.run()
    made = recording(run, desk(), named="desk.yaml", journal=run.session.journal)
    made.save(tmp_path / "desk.scenario.yaml")
    report = run_scenario(tmp_path / "desk.scenario.yaml", tools=[note])
    assert report.passed, report.problems
    assert report.result is not None
    assert report.result.output == "Fine."


STAND_IN = """\
machine: desk.yaml
task: What?
replies:
  - tool_calls: [{name: researcher, arguments: {task: price}}]
  - Fine.
tools: {researcher: ["49 USD"]}
expect: {reason: completed, output: Fine.}
"""


def test_a_scenario_may_give_results_in_place_of_a_child(tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text(DESK)
    (tmp_path / "desk.scenario.yaml").write_text(STAND_IN)
    report = run_scenario(tmp_path / "desk.scenario.yaml", tools=[note])
    assert report.passed, report.problems


def test_coverage_counts_the_children_that_were_called() -> None:
    run = started(*REPLIES)
    run.run()
    measured = coverage(desk(), run)
    assert str(measured.figures["child"]) == "1/2"
    (helper,) = (one for one in measured.inside if one.machine == "researcher")
    assert helper.runs == 2


def test_a_memory_tool_names_the_blocks_of_its_machine() -> None:
    chart = load("agent").chart
    (asks,) = (n for n, s in chart.spec.states.items() if s.action and s.action.name == "infer")
    shown = {t["function"]["name"]: t["function"]["parameters"] for t in chart.offered_at(asks)}
    for name in MEMORY_TOOLS:
        assert shown[name]["properties"]["block_name"]["enum"] == [*chart.spec.memory]
    assert "enum" not in str(chart.spec.registry.tools["core_memory_read"].parameters)
