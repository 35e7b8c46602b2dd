"""Replies that are asked for again, replies with too many calls, and what no gate let pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
import yaml

from chartloop import check, diff, load, tool
from chartloop.actions import builtin
from chartloop.actions.infer import MOST_KEPT
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.records import Record
from chartloop.language.file.schema import schema
from chartloop.run.journal import MemoryJournal
from chartloop.testing import LoopbackServer
from tests.tool_loop import needs_litellm

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "maximum": 5}},
    "required": ["n"],
}
BAD, WORSE, GOOD = "no json", '{"n": 9}', '{"n": 3}'


def asking(more: str = "", top: str = "", state: str = "") -> str:
    return f"""chartloop: 1
machine: m
model: {{name: scripted}}
limits: {{calls: 9}}
rules:
  - {{when: usage.llm_calls >= limits.calls, stop: token_limit}}
{top}states:
  q: {{do: receive, next: t}}
  t:
    do: infer
    with: {{output: {json.dumps(SCHEMA)}{more}}}
{state}    next: d
  d: {{stop: completed}}
"""


class Asked(NamedTuple):
    """A script, how often may be asked again, and what comes of it."""

    id: str
    script: list[Any]
    more: str
    reason: str
    calls: int
    state: str = ""
    limits: dict[str, int] | None = None


BUSY = {"error": {"category": "TRANSIENT", "message": "busy"}}
RETRY = "    retry: {times: 2, base: 0s, on: [TRANSIENT]}\n"
ASKED = [
    Asked("never-by-default", [BAD], "", "error", 1),
    Asked("mended-at-once", [BAD, GOOD], ", repair: 1", "completed", 2),
    Asked("mended-at-last", [BAD, WORSE, GOOD], ", repair: 2", "completed", 3),
    Asked("never-mended", [BAD, WORSE, BAD], ", repair: 2", "error", 3),
    Asked("zero", [BAD], ", repair: 0", "error", 1),
    Asked("good-at-once", [GOOD], ", repair: 2", "completed", 1),
    Asked("a-spent-budget-is-not-asked-again", [BAD, WORSE], ", repair: 5", "token_limit", 2, limits={"calls": 2}),
    Asked("not-kept", [BAD, WORSE, GOOD], ", repair: 2, keep: false", "completed", 3),
    Asked("beside-a-retry", [BUSY, BAD, BUSY, WORSE, GOOD], ", repair: 2", "completed", 3, RETRY),
    Asked("each-has-its-own-number", [BAD, BUSY, WORSE, BUSY, BUSY], ", repair: 3", "error", 2, RETRY),
    Asked("then-a-retry", [BAD, WORSE, GOOD], ", repair: 1", "completed", 3, "    retry: {times: 1, base: 0s, on: [RECOVERABLE]}\n"),
]  # fmt: skip


CORRECTED: dict[str, tuple[Any, str]] = {
    "no-json": (
        "It is about chairs.",
        "Your reply was not JSON. It began with `It is about chairs.`.",
    ),
    "empty": ({"text": "  "}, "Your reply was not JSON. It was empty."),
    "cut-off": (
        {"text": '{"n": 1', "finish_reason": "length"},
        "Your reply was cut off before its end.\nReply shorter",
    ),
    "other-data": ('{"n": 9}', "Your reply does not fit the schema: n: "),
}


@pytest.mark.parametrize("case", CORRECTED)
def test_a_correction_says_what_was_wrong_and_what_is_asked_for(case: str) -> None:
    broken, says = CORRECTED[case]
    run = load(asking(", repair: 1")).start("x", script=[broken, GOOD])
    assert run.run().success
    told = str(next(m["content"] for m in run.result.messages if "Reply" in str(m["content"])))
    assert told.startswith(says)
    assert json.loads(told.rpartition("\n")[2]) == SCHEMA
    assert run.replay().same


@pytest.mark.parametrize("case", ASKED, ids=lambda case: case.id)
def test_a_broken_reply_is_asked_for_again(case: Asked) -> None:
    machine = load(asking(case.more, state=case.state))
    begun = machine.start("x", script=case.script, limits=case.limits or {})
    result = begun.run()
    assert str(result.reason) == case.reason
    assert result.facts.usage.llm_calls == case.calls
    assert begun.replay().same
    assert [Record.from_dict(r.seq, r.to_dict()) for r in begun.records] == [*begun.records]
    most = machine.bound()["requests"].value
    assert most is not None
    assert len([c for c in case.script if c is not BUSY]) <= most


@needs_litellm
def test_the_model_is_told_what_was_wrong() -> None:
    with LoopbackServer([BAD, WORSE, GOOD]) as server:
        text = asking(", repair: 2").replace(
            "name: scripted", f"name: openai/loopback, api_base: {server.url}, timeout: 20s"
        )
        result = load(text).run("x")
    assert str(result.reason) == "completed", result.errors
    told, *last = server.requests[-1].body["messages"]
    assert told["role"] == "system"  # a server of one's own does not show the schema
    assert [m["role"] for m in last] == ["user", "assistant", "user", "assistant", "user"]
    assert "not JSON" in last[2]["content"]
    assert "n: 9 is greater than the maximum of 5 (`maximum`)" in last[4]["content"]


def test_nothing_of_it_stays_where_the_reply_is_not_kept() -> None:
    result = load(asking(", repair: 2, keep: false")).run("x", script=[BAD, WORSE, GOOD])
    assert [m["role"] for m in result.messages] == ["user"]


@pytest.mark.parametrize("keep", [True, False])
def test_a_prompt_is_sent_again_with_what_was_wrong(keep: bool) -> None:
    text = asking(", repair: 1").replace(
        "next: t}",
        f"next: p}}\n  p: {{do: prompt, with: {{user: How many?, keep: {str(keep).lower()}}}, next: t}}",
    )
    result = load(text).run("x", script=[BAD, GOOD])
    assert str(result.reason) == "completed"
    assert (result.messages[-1]["content"] == GOOD) == keep


def test_a_call_that_was_paid_is_not_paid_again_after_a_crash(tmp_path: Path) -> None:
    """Each attempt is a record: what is on the record is not asked for again."""
    machine = load(asking(", repair: 2"))
    journal = SqliteJournal(tmp_path / "j.db")
    first = machine.start("x", script=[BAD, WORSE, GOOD], journal=journal)
    first.advance()
    first.advance()
    result = machine.open(first.id, journal=journal, script=[BAD, WORSE, GOOD]).run()
    assert str(result.reason) == "completed"
    assert result.facts.usage.llm_calls == 3


def test_it_is_drawn_and_counted() -> None:
    machine = load(asking(", repair: 2"))
    assert "ask again ≤ 2" in machine.draw().mermaid()
    assert machine.bound()["requests"].value == 3
    longer = load(asking(", repair: 4"))
    assert longer.bound()["requests"].value == 5
    assert "repair" in str(diff(machine, longer))


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (", repair: 11", "CL404", "a number from 0 to 10"),
        (", repair: -1", "CL404", "a number from 0 to 10"),
        (", repair: true", "CL404", "a number from 0 to 10"),
        (', repair: "2"', "CL404", "a number from 0 to 10"),
    ],
)
def test_how_often_is_a_number(more: str, code: str, says: str) -> None:
    [found] = check(asking(more))
    assert (found.code, says in found.message) == (code, True)


def test_it_goes_with_a_schema() -> None:
    text = asking(", repair: 2").replace(f"output: {json.dumps(SCHEMA)}, ", "")
    [found] = [f for f in check(text) if f.is_error]
    assert (found.code, found.message) == ("CL403", "`repair` goes with `output`")


# calls of one reply -------------------------------------------------------------------------------

CALLING = """chartloop: 1
machine: m
model: {name: scripted}
tools: [look]
limits: {calls: 5, steps: 20}
rules:
  - {when: usage.tool_calls >= limits.calls, stop: token_limit}
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  q: {do: receive, next: t}
  t: {do: infer, next: [{when: len(last.tool_calls) > 0, to: c}, {to: d}]}
  c: {do: call_tools, next: t}
  d: {stop: completed}
"""


def replies(count: int) -> list[dict[str, Any]]:
    calls = [{"name": "look", "arguments": {"x": n}, "id": f"c{n}"} for n in range(count)]
    return [{"text": "", "tool_calls": calls}]


class Many(NamedTuple):
    """So many calls in one reply, what `call_tools` says, and how many are executed."""

    id: str
    calls: int
    says: str
    done: int


MANY = [
    Many("as-many-as-may-be", 32, "", 32),
    Many("one-more", 33, "", 32),
    Many("five-hundred", 500, "", 32),
    Many("fewer", 10, ", with: {at_most: 3}", 3),
    Many("more", 40, ", with: {at_most: 40}", 40),
]


@pytest.mark.parametrize("case", MANY, ids=lambda case: case.id)
def test_only_so_many_calls_of_one_reply_are_carried_out(case: Many) -> None:
    done: list[int] = []

    @tool
    def look(x: int) -> int:
        """Look."""
        done.append(x)
        return x

    machine = load(CALLING.replace("do: call_tools", f"do: call_tools{case.says}"), tools=[look])
    begun = machine.start("x", script=replies(case.calls), limits={"calls": 1})
    result = begun.run()
    over = case.calls - case.done
    assert sorted(done) == list(range(case.done))
    assert result.facts.usage.tool_calls == case.done
    assert result.facts.last.calls_dropped == over
    told = [m for m in result.messages if m["role"] == "tool"]
    kept = min(case.calls, MOST_KEPT)
    assert [m["tool_call_id"] for m in told] == [f"c{n}" for n in range(kept)]
    assert sum("not executed" in m["content"] for m in told) == kept - case.done
    assert any("were executed" in w for w in result.warnings) == bool(over)
    assert [len(r.input.outcome.dropped) for r in begun.records if r.input.outcome] == [
        0,
        case.calls - kept,
        kept - case.done,
    ]
    assert begun.replay().same


def test_the_cap_is_in_the_bound() -> None:
    @tool
    def look(x: int) -> int:
        """Look."""
        return x

    assert load(CALLING, tools=[look]).bound()["tool_calls"].value == 5 - 1 + 32
    fewer = CALLING.replace("do: call_tools", "do: call_tools, with: {at_most: 3}")
    assert load(fewer, tools=[look]).bound()["tool_calls"].value == 5 - 1 + 3


def test_a_guard_reads_how_many_were_left_out() -> None:
    text = CALLING.replace(
        "c: {do: call_tools, next: t}",
        "c: {do: call_tools, next: [{when: last.calls_dropped > 0, to: d}, {to: t}]}",
    )
    text = text.replace("calls: 5", "calls: 500")

    @tool
    def look(x: int) -> int:
        """Look."""
        return x

    assert str(load(text, tools=[look]).run("x", script=replies(40)).reason) == "completed"


@pytest.mark.parametrize("value", ["0", "1001", "true", "x"])
def test_the_cap_is_a_number(value: str) -> None:
    @tool
    def look(x: int) -> int:
        """Look."""
        return x

    text = CALLING.replace("do: call_tools", f"do: call_tools, with: {{at_most: {value}}}")
    [found] = [f for f in check(text, tools=[look]) if f.is_error]
    assert (found.code, "from 1 to 1,000" in found.message) == ("CL404", True)


# what no gate let pass ----------------------------------------------------------------------------

GATED = """chartloop: 1
machine: m
model: {name: scripted}
limits: {steps: 9}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  q: {do: receive, next: t}
  t: {do: infer, next: ok}
  ok: {ask: "Print?", on: {yes: d, no: n}}
  d: {stop: completed}
  n: {stop: user_requested}
"""


class Held(NamedTuple):
    """How far a run comes, and whether it has a result."""

    id: str
    send: str
    limits: dict[str, int]
    output: str | None


HELD = [
    Held("waits", "", {}, None),
    Held("cut-short", "", {"steps": 2}, None),
    Held("refused", "no", {}, None),
    Held("let-pass", "yes", {}, "secret"),
]


@pytest.mark.parametrize("case", HELD, ids=lambda case: case.id)
def test_without_a_natural_end_there_is_no_output(case: Held) -> None:
    run = load(GATED).start("x", script=["secret"], limits=case.limits)
    result = run.run()
    if case.send:
        run.send(case.send)
        result = run.run()
    assert result.output == case.output
    assert result.to_dict()["output"] == case.output
    assert result.facts.last.text == "secret"


def test_a_run_that_was_cancelled_or_failed_has_no_output() -> None:
    run = load(GATED).start("x", script=["secret"])
    run.run()
    run.cancel("user_requested")
    assert run.run().output is None
    failing = load(GATED.replace("next: ok}", "next: f}\n  f: {do: infer, next: ok}"))
    script: list[Any] = ["secret", {"error": {"category": "CRITICAL", "message": "no"}}]
    assert failing.run("x", script=script).output is None


def test_what_the_file_declares_stays() -> None:
    declared = load(GATED.replace("states:", "output: last.text\nstates:"))
    assert declared.run("x", script=["secret"], limits={"steps": 2}).output == "secret"


# shorthands ---------------------------------------------------------------------------------------

SHORT = """chartloop: 1
machine: m
model: openai/gpt-4o
states:
  q: {do: receive, next: t}
  t: {do: infer, retry: 3, next: d}
  d: {stop: completed}
"""


def test_a_shorthand_means_the_long_form() -> None:
    long = SHORT.replace("openai/gpt-4o", "{name: openai/gpt-4o}").replace(
        "retry: 3", "retry: {times: 3}"
    )
    short, whole = load(SHORT), load(long)
    assert short.hash == whole.hash
    assert short.spec == whole.spec
    assert "the same machine" in str(diff(short, whole))


def test_editors_know_the_shorthands() -> None:
    jsonschema.validate(yaml.safe_load(SHORT), schema(builtin().actions.values()))


@pytest.mark.parametrize("value", ["0", "101", "3.5", "true", "[3]", '"3"'])
def test_a_shorthand_is_checked(value: str) -> None:
    [found] = check(SHORT.replace("retry: 3", f"retry: {value}"))
    assert found.code == "CL203"
    assert found.place.line == 6


def test_of_a_script_nobody_hears_that_tokens_were_estimated() -> None:
    assert load(SHORT).run("x", script=["Hello."]).warnings == ()


def test_the_memory_journal_keeps_them_too() -> None:
    journal = MemoryJournal()
    result = load(asking(", repair: 1")).run("x", script=[BAD, GOOD], journal=journal)
    assert result.output == GOOD
