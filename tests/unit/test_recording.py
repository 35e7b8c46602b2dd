"""A recorded run becomes a scenario that is decided as the run was, or says where it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import AgentStop, ToolResult, load, tool
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import RunError, SetupError
from chartloop.language.yaml.reading import read
from chartloop.run.journal import MemoryJournal
from chartloop.scenarios import load_scenario, recording, run_scenario
from chartloop.scenarios.model_requests import Request, miss, scenario_requests
from chartloop.scenarios.model_requests import read as read_requests
from chartloop.scenarios.text import scenario_text
from chartloop.testing import ManualClock
from tests.scenarios.test_shipped import SHIPPED

SHOP = """
chartloop: 1
machine: shop
title: Looks things up and asks
model: {name: scripted}
tools: [price, buy]
limits: {steps: 30, time: 1h, patience: 1d}
vars: {mood: calm}
memory: {persona: Terse.}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: run.working >= limits.time, stop: time_limit}
states:
  task: {do: receive, next: think}
  think:
    do: infer
    retry: {times: 2, base: 1s, on: [TRANSIENT]}
    next:
      - {when: len(last.tool_calls) > 0, to: look_up}
      - {to: confirm}
  look_up: {do: call_tools, next: think}
  confirm:
    ask: Buy it?
    on:
      yes: {to: bought, data: {note: str}}
      no: refused
    within: limits.patience
    expired: left
  bought: {stop: completed}
  refused: {stop: user_requested}
  left: {stop: user_unresponsive}
"""


@tool
def price(item: str) -> Any:
    """What an item costs.

    Args:
        item: What to look up.
    """
    if item == "gold":
        raise AgentStop("never gold", reason="stop_requested")
    if item == "tea":
        return ToolResult("It costs 3.", result={"cost": 3}, progressed=True, partial=("tea: 3",))
    if item == "odd":
        return {"error": "data", "delay": 3}
    return {"bread": 2.5, "milk": None}[item]


@tool
def buy(item: str) -> str:
    """Buys an item.

    Args:
        item: What to buy.
    """
    return f"{item} bought,\nas you wished"


def call(*items: str, name: str = "price") -> dict[str, Any]:
    return {"text": "", "tool_calls": [{"name": name, "arguments": {"item": i}} for i in items]}


def shop(*replies: Any, **options: Any) -> Any:
    machine = load(SHOP, tools=[price, buy])
    return machine.start("Buy bread.", script=list(replies), clock=ManualClock(), **options)


def to_the_question(run: Any) -> None:
    """As far as the wait: a simulated clock would go on to its deadline at once."""
    while not run.ended and run.state != "confirm":
        run.advance()


@pytest.mark.slow("records the run of every shipped scenario")
@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.name.split(".")[0])
def test_the_run_of_every_shipped_scenario_is_recorded_as_it_was(path: Path) -> None:
    report = run_scenario(path)
    assert report.run is not None
    made = recording(report.run, report.run.machine)
    assert (made.differences, made.lacks) == ((), ())
    assert read(made.text, "").data == made.keys


REPLIES = {
    "tools": [call("bread"), "Buy?"],
    "several tools at once": [call("bread", "milk", "tea"), "Buy?"],
    "a tool that fails": [call("silver"), "Buy?"],
    "a tool that is not there": [call("bread", name="prize"), "Buy?"],
    "arguments that do not fit": [call(), {"tool_calls": [{"name": "price", "arguments": "{"}]}, "?"],
    "a tool that asks to stop": [call("gold")],
    "a result that looks like a form": [call("odd"), "Buy?"],
    "texts of several lines": [call("bread", name="buy"), "  Buy?\n\n- yes\n- no\n"],
    "a refusal": [{"refusal": "I will not.", "usage": {"prompt_tokens": 9, "completion_tokens": 3}}],
    "failed calls": [{"error": {"category": "TRANSIENT", "message": "rate", "kind": "x"}}, "Buy?"],
    "all calls failed": [{"error": {"category": "TRANSIENT", "message": "rate"}}] * 3,
    "usage and cost": [{"text": "Buy?", "usage": {"prompt_tokens": 9, "cost": 0.25}}],
    "cache and reasoning": [
        {
            "text": "Buy?",
            "reasoning": "Bread is cheap.",
            "usage": {
                "prompt_tokens": 9, "completion_tokens": 5, "cached_tokens": 4,
                "cache_write_tokens": 2, "reasoning_tokens": 3,
            },
        }
    ],
    "a length stop": [{"text": "Buy", "finish_reason": "length"}],
    "a slow reply": [{"text": "Buy?", "delay": "90s"}],
    "a reply that is too late": [{"text": "Buy?", "delay": "2h"}],
    "odd characters": ['"quoted" \u202eright\x00 to # left: 🛒 {x}', ],
}  # fmt: skip


@pytest.mark.parametrize("replies", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("answer", ["yes", "no", None])
def test_what_the_world_said_is_said_again(
    tmp_path: Path, replies: list[Any], answer: str | None
) -> None:
    run = shop(*replies)
    to_the_question(run)
    if answer and not run.ended:
        run.session.ports.clock.advance(90)
        run.send(answer, {"note": "good"} if answer == "yes" else {})
    run.run()
    made = recording(run, run.machine, named="shop.yaml")
    assert (made.differences, made.lacks) == ((), ())
    (tmp_path / "shop.yaml").write_text(SHOP)
    report = run_scenario(made.save(tmp_path / "it.scenario.yaml"), tools=[price, buy])
    assert report.passed, str(report)


def test_what_came_from_outside_comes_again() -> None:
    run = shop("Buy?", limits={"steps": 9}, vars={"mood": "bold"}, memory={"persona": "Kind."},
               messages=[{"role": "user", "content": "Before."}], agent="ann", session="s1")  # fmt: skip
    run.advance()
    run.advance()
    run.pause()
    run.advance()
    run.set("limits.steps", 7)
    run.resume()
    to_the_question(run)
    run.session.ports.clock.advance(7200)
    run.send("yes", {"note": "good"})
    run.run()
    made = recording(run, run.machine)
    assert (made.differences, made.lacks) == ((), ())
    assert made.keys["events"] == [
        {"after": 1, "pause": True},
        {"after": 1, "set": {"limits.steps": 7}},
        {"after": 1, "resume": True},
        {"after": 2, "at": "confirm", "send": "yes", "data": {"note": "good"}, "delay": "2h"},
    ]
    said = {"task", "limits", "vars", "memory", "messages", "agent", "session"}
    assert said <= set(made.keys)


def test_a_cancel_is_an_event() -> None:
    run = shop("Buy?")
    run.advance()
    run.cancel("user_requested")
    run.run()
    made = recording(run, run.machine)
    assert made.same
    assert made.keys["events"] == [{"after": 0, "cancel": "user_requested"}]


def test_children_are_recorded_from_their_own_runs() -> None:
    run = load("team").start("Write.", script=["A plan.", "Done.", "Good.", "x", "y", "z"])
    run.run()
    made = recording(run, run.machine)
    assert (made.differences, made.lacks) == ((), ())


WORKS = """
chartloop: 1
machine: works
title: Has its tasks done by another machine
model: {name: scripted}
machines: {agent: agent}
limits: {steps: 20}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  do_it:
    do: work
    next: [{when: queue.size > 0, to: do_it}, {to: done}]
  done: {stop: completed}
"""


def test_a_task_that_a_machine_does_is_recorded_from_its_run() -> None:
    tasks = [{"text": "One.", "by": {"machine": "agent"}}, {"text": "Two."}]
    run = load(WORKS).start(script=["First.", "Second."], tasks=tasks, clock=ManualClock())
    run.run()
    made = recording(run, run.machine)
    assert (made.differences, made.lacks) == ((), ())
    assert made.keys["replies"] == ["First.", "Second."]


def test_a_run_in_a_file_is_recorded_as_one_in_memory(tmp_path: Path) -> None:
    runs = [
        shop(call("bread"), "Buy?", journal=journal)
        for journal in (MemoryJournal(), SqliteJournal(tmp_path / "j.db"))
    ]
    texts: list[str] = []
    for run in runs:
        run.run()
        texts.append(recording(run, run.machine).text.replace(run.id, "ID"))
    assert texts[0] == texts[1]


def test_a_run_that_has_not_ended_is_refused() -> None:
    run = shop("Buy?")
    with pytest.raises(RunError, match="cannot be recorded"):
        recording(run, run.machine)
    run.advance()
    with pytest.raises(RunError, match="has not ended: it is running at `task`"):
        recording(run, run.machine)
    to_the_question(run)
    with pytest.raises(RunError, match="waits at `confirm`, and not for ever"):
        recording(run, run.machine)


def test_a_run_that_waits_for_ever_is_recorded_as_it_waits() -> None:
    endless = SHOP.replace(", patience: 1d", "").replace("    within: limits.patience\n", "")
    endless = endless.replace("    expired: left\n", "").replace("  left:", "  # left:")
    machine = load(endless, tools=[price, buy])
    run = machine.start("Buy.", script=["Buy?"], clock=ManualClock())
    assert run.run().kind == "waiting"
    made = recording(run, machine)
    assert made.same
    assert made.keys["expect"]["kind"] == "waiting"


def test_another_machine_is_refused_or_differs() -> None:
    run = shop(call("bread"), "Buy?")
    run.run()
    with pytest.raises(RunError, match="cannot decide record"):
        recording(run, load("agent"))


def test_what_the_record_does_not_hold_is_said() -> None:
    """An action of the application's own may call the model more than once."""
    run = shop("Buy?")
    run.run()
    records = run.session.journal._logs[run.id].events
    at = next(n for n, e in enumerate(records) if e.record and e.record.state == "think")
    record = records[at].record
    spent = record.outcome.spent.replace(llm_calls=2)
    outcome = record.outcome.replace(spent=spent)
    records[at] = records[at].replace(
        record=record.replace(input=record.input.replace(outcome=outcome))
    )
    made = recording(run, run.machine)
    assert not made.same
    assert made.lacks == (
        "record 2 at `think`: 2 model calls, of which the record holds what came of them",
    )
    assert "# Not on the record: record 2" in made.text


# secrets --------------------------------------------------------------------------------------


def test_secrets_are_hidden_and_what_the_caller_names() -> None:
    key = "sk-" + "a1B2" * 8
    run = shop(call("bread"), f"Ask bob@example.org, the key is {key}")
    run.run()
    made = recording(run, run.machine, redact=[r"[\w.]+@[\w.]+"])
    assert made.same
    assert key not in made.text
    assert "bob@" not in made.text
    assert "«redacted»" in made.text
    with pytest.raises(SetupError, match=r"`\(` is not a pattern"):
        recording(run, run.machine, redact=["("])


# requests -------------------------------------------------------------------------------------


def recorded_shop(folder: Path) -> Path:
    run = shop(call("bread"), "Buy?")
    run.run()
    made = recording(run, run.machine, named="shop.yaml")
    (folder / "shop.yaml").write_text(SHOP)
    return made.save(folder / "it.scenario.yaml")


def test_a_machine_that_asks_otherwise_misses_with_the_nearest_request(tmp_path: Path) -> None:
    path = recorded_shop(tmp_path)
    assert run_scenario(path, tools=[price, buy]).passed
    (tmp_path / "shop.yaml").write_text(SHOP.replace("Terse.", "Chatty."))
    report = run_scenario(path, tools=[price, buy])
    assert not report.passed
    said = str(report)
    assert "model call 1 asks what was not recorded; nearest to it is its own, request 1" in said
    assert "Terse." in said
    assert "Chatty." in said
    assert "help: record the run again" in said or "record the run again" in said


def test_a_call_that_is_left_out_is_near_the_one_after_it(tmp_path: Path) -> None:
    path = recorded_shop(tmp_path)
    direct = SHOP.replace("task: {do: receive, next: think}", "task: {do: receive, next: think2}")
    direct = direct.replace("  look_up:", "  think2: {do: receive, next: think}\n  look_up:")
    (tmp_path / "shop.yaml").write_text(direct)
    report = run_scenario(path, tools=[price, buy])
    assert "model call 1 asks what was not recorded" in str(report)


def test_without_requests_nothing_is_compared(tmp_path: Path) -> None:
    run = shop(call("bread"), "Buy?")
    run.run()
    made = recording(run, run.machine, named="shop.yaml", requests=False)
    assert "requests" not in made.keys
    (tmp_path / "shop.yaml").write_text(SHOP.replace("Terse.", "Chatty."))
    assert run_scenario(made.save(tmp_path / "it.scenario.yaml"), tools=[price, buy]).passed


MESSAGES = st.fixed_dictionaries({"user": st.text(max_size=9)})


@pytest.mark.slow("records the run of every shipped scenario")
@given(st.lists(st.tuples(st.lists(MESSAGES, max_size=4), st.lists(st.text("ab"), max_size=2))))
def test_requests_are_read_as_they_were_written(given_: list[Any]) -> None:
    requests = [Request(tuple(messages), tuple(tools)) for messages, tools in given_]
    assert read_requests(scenario_requests(requests)) == tuple(requests)


def test_the_nearest_request_is_named() -> None:
    recorded = [Request(({"user": "one"}, {"user": "two"})), Request(({"user": "three"},))]
    error = miss(Request(({"user": "three"}, {"user": "four"})), 0, recorded)
    assert "nearest to it is request 2" in error.message
    assert "≠               user: four" in error.message


# text -----------------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    [
        "yes",
        "1",
        "1.0",
        "null",
        "~",
        "a: b",
        "a #b",
        "- a",
        "\n",
        " \n",
        "a\n\nb\n\n",
        "a \nb",
        "1e3",
    ]
)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXT
    | st.floats(allow_nan=False, allow_infinity=False, width=32),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.slow("records the run of every shipped scenario")
@given(st.dictionaries(TEXT.filter(bool), DATA, min_size=1, max_size=5))
def test_the_text_of_a_scenario_is_read_as_what_was_written(keys: dict[str, Any]) -> None:
    text = scenario_text(keys, head=["What it is.\n# two"])
    document = read(text, "it")
    assert not document.findings
    assert document.data == keys


def test_a_file_of_the_shop_reads_well(tmp_path: Path) -> None:
    path = recorded_shop(tmp_path)
    assert load_scenario(path).requests[0].tools == ("price", "buy")
    shown = path.read_text().split("\n", 1)[1]
    assert shown == EXPECTED


EXPECTED = """\
machine: shop.yaml
task: Buy bread.
replies:
  - {tool_calls: [{name: price, arguments: {item: bread}}]}
  - Buy?
tools: {price: [2.5]}
requests:
  - {messages: [{system: "<persona>\\nTerse.\\n</persona>"}, {user: Buy bread.}], tools: [price, buy]}
  - keeps: 2
    messages: [{assistant: "", calls: ['price({"item": "bread"})']}, {tool: "2.5"}]
    tools: [price, buy]
expect:
  reason: user_unresponsive
  kind: human
  path: [task, think, look_up, think, confirm, left]
"""
