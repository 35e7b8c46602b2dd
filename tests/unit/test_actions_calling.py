"""`call_tools`, `call_tool`, `tool`, `update_memory` and the tools that every machine may list."""

from __future__ import annotations

import json
import threading
from typing import Any, NamedTuple

import pytest

from chartloop.actions.declare import tool_spec
from chartloop.run.journal import MemoryJournal
from chartloop.run.sync import by_hand
from tests.talks import call, calls, outcomes, provider_says, talk, written

END = "  z: {stop: completed}\n"
WORK = "tools: [one, two, bad]\nstates:\n  a: {do: infer, next: b}\n  b: {do: %s, next: z}\n" + END


def one() -> int:
    """One."""
    return 1


def two() -> int:
    """Two."""
    return 2


def bad() -> int:
    """Fails."""
    raise ValueError("odd")


TOOLS = [tool_spec(f) for f in (one, two, bad)]


class TestCallTools:
    def test_all_calls_are_made_and_answered_in_order(self) -> None:
        run = talk(WORK % "call_tools", [calls("two", "one", "two")], TOOLS)
        run.run()
        (outcome,) = outcomes(run, "b")
        assert [(r["name"], r["ok"], r["result"], r["content"]) for r in outcome.result] == [
            ("two", True, 2, "2"), ("one", True, 1, "1"), ("two", True, 2, "2")
        ]  # fmt: skip
        assert [m["role"] for m in run.messages] == ["assistant", "tool", "tool", "tool"]
        assert provider_says([{"role": "user", "content": "x"}, *run.messages]) is None
        assert run.facts.usage.tool_calls == 3
        assert run.facts.usage.calls == {"one": 1, "two": 2, "bad": 0}
        assert run.facts.progress.recent == ("infer", "two", "one")
        written(run)

    def test_they_are_made_at_once(self) -> None:
        meeting = threading.Barrier(2, timeout=20)
        tools = [tool_spec(lambda: meeting.wait() * 0, name=n) for n in ("one", "two")]
        body = WORK.replace(", bad", "") % "call_tools"
        run = talk(body, [calls("one", "two")], tools)
        run.run()
        assert run.facts.errors.total == 0

    def test_a_tool_that_fails_is_told_and_counted_and_the_action_is_ok(self) -> None:
        run = talk(WORK % "call_tools", [calls("bad", "one", "bad")], TOOLS)
        assert run.run().reason == "completed"
        (outcome,) = outcomes(run, "b")
        assert outcome.ok
        assert [m["content"] for m in outcome.messages] == [
            "error: ValueError: odd",
            "1",
            "error: ValueError: odd",
        ]
        assert (run.facts.errors.total, run.facts.errors.consecutive, run.facts.errors.rate) == (
            2,
            0,
            0.0,
        )
        assert run.facts.errors.last is not None
        assert run.facts.errors.last.to_tuple()[:3] == (
            "RECOVERABLE",
            "bad: error: ValueError: odd",
            "b",
        )
        assert [e["message"] for e in run.result.errors] == ["bad: error: ValueError: odd"] * 2

    @pytest.mark.parametrize("action", ["call_tools", "call_tool"])
    def test_on_error_fail_makes_the_action_fail(self, action: str) -> None:
        body = (WORK % action).replace(
            f"do: {action}", f"do: {action}, with: {{on_error: fail}}, failed: next"
        )
        run = talk(body, [calls("bad")], TOOLS)
        run.run()
        (outcome,) = outcomes(run, "b")
        assert outcome.error is not None
        assert (outcome.ok, outcome.error.category) == (False, "RECOVERABLE")
        assert "ValueError: odd" in outcome.error.message
        assert (run.facts.errors.total, run.facts.errors.consecutive) == (1, 1)
        assert provider_says([{"role": "user", "content": "x"}, *run.messages]) is None

    def test_arguments_that_do_not_fit_are_told(self) -> None:
        def add(a: int) -> int:
            return a + 1

        body = (
            "tools: [add]\nstates:\n  a: {do: infer, next: b}\n  b: {do: call_tools, next: z}\n"
            + END
        )
        run = talk(body, [call("add", a="x")], [tool_spec(add)])
        run.run()
        (outcome,) = outcomes(run, "b")
        assert outcome.ok
        assert "`a`" in outcome.tool_errors[0] or "a:" in outcome.tool_errors[0]

    def test_only_tools_that_the_state_allows(self) -> None:
        body = (WORK % "call_tools").replace("do: call_tools", "do: call_tools, allow: [one]")
        run = talk(body, [calls("one", "two")], TOOLS)
        run.run()
        assert [r["ok"] for r in outcomes(run, "b")[0].result] == [True, False]
        assert run.facts.usage.tool_calls == 1

    def test_without_calls_there_is_nothing_to_do(self) -> None:
        run = talk(WORK % "call_tools", ["no calls"], TOOLS)
        assert run.run().reason == "completed"
        assert outcomes(run, "b")[0].result == []

    def test_each_paid_call_has_an_intent_and_all_but_the_last_a_result(self) -> None:
        journal = MemoryJournal()
        free = tool_spec(two, effect="local", blocking=False)  # which so does not end last
        tools = [tool_spec(one), free, tool_spec(bad)]
        run = talk(WORK % "call_tools", [calls("one", "two", "bad")], tools, journal=journal)
        run.run()
        _, *notes = [e for e in _events(journal, run.id) if e.record is None]
        paid = {f"{run.id}/a/0/call_0_{number}" for number in (0, 2)}
        assert {e.data["key"] for e in notes if e.type == "intent"} == paid
        # the one that ends last is in the record, which follows
        assert len([e for e in notes if e.type == "result" and e.data["key"] in paid]) == 1
        assert len(notes) == 3


def _events(journal: MemoryJournal, run_id: str) -> Any:
    return by_hand(journal.events(run_id))


class TestCallTool:
    def test_the_first_is_made_and_the_others_are_dropped_on_the_record(self) -> None:
        run = talk(WORK % "call_tool", [calls("one", "two", "bad")], TOOLS)
        run.run()
        (outcome,) = outcomes(run, "b")
        assert [r["name"] for r in outcome.result] == ["one"]
        assert [c.name for c in outcome.dropped] == ["two", "bad"]
        (asked, reply) = run.messages
        assert [c["function"]["name"] for c in asked["tool_calls"]] == ["one"]
        assert reply["content"] == "1"
        assert provider_says([{"role": "user", "content": "x"}, *run.messages]) is None
        assert (run.facts.usage.tool_calls, run.facts.usage.messages) == (1, 2)
        assert written(run)[-1].outcome == outcome

    def test_a_single_call_drops_nothing(self) -> None:
        run = talk(WORK % "call_tool", [calls("one")], TOOLS)
        run.run()
        (outcome,) = outcomes(run, "b")
        assert (outcome.dropped, outcome.rewrite) == ((), None)

    def test_replies_that_are_there_already_stay(self) -> None:
        body = (
            "tools: [one, two]\nstates:\n  a: {do: infer, next: b}\n  b: {do: call_tool, next: c}\n  c: {do: call_tool, next: z}\n"
            + END
        )
        run = talk(body, [calls("one", "two")], TOOLS)
        run.run()
        assert outcomes(run, "c")[0].result == []
        assert len(run.messages) == 2


class TestTool:
    BODY = (
        "vars: {who: Ann}\nstates:\n  a: {do: tool, with: {name: greet, arguments: %s}, failed: next, next: z}\n"
        + END
    )

    @staticmethod
    def greet(name: str, times: int = 1) -> dict[str, Any]:
        if times == 0:
            raise ValueError("never")
        return {"said": f"hello {name}" * times}

    def test_it_is_called_without_a_model(self) -> None:
        run = talk(self.BODY % "{name: '{{ vars.who }}', times: '2'}", (), [tool_spec(self.greet)])
        run.run()
        assert outcomes(run, "a")[0].result == {"said": "hello Annhello Ann"}
        assert run.facts.usage.calls == {"greet": 1} | {
            n: 0 for n in run.facts.usage.calls if n != "greet"
        }
        assert run.messages == ()

    @pytest.mark.parametrize(
        ("arguments", "kind"),
        [
            ("{}", "arguments"),
            ("{name: x, times: x}", "arguments"),
            ("{name: x, times: '0'}", "tool"),
        ],
    )
    def test_what_goes_wrong_fails_the_action(self, arguments: str, kind: str) -> None:
        run = talk(self.BODY % arguments, (), [tool_spec(self.greet)])
        run.run()
        (outcome,) = outcomes(run, "a")
        assert outcome.error is not None
        assert (outcome.ok, outcome.error.category, outcome.error.kind) == (
            False,
            "RECOVERABLE",
            kind,
        )
        assert run.facts.errors.total == 1


MEMORY = (
    "tools: [core_memory_append, core_memory_replace, one]\nmemory: {notes: {value: old, limit: 12}, other: ''}\nstates:\n  a: {do: infer, next: b}\n  b: {do: %s, failed: next, next: z}\n"
    + END
)


class Edit(NamedTuple):
    """Memory calls, what the block holds afterwards, and how many failed."""

    id: str
    asked: list[dict[str, Any]]
    notes: str
    errors: int = 0


def append(content: str, block: str = "notes") -> dict[str, Any]:
    return {"name": "core_memory_append", "arguments": {"block_name": block, "content": content}}


def swap(old: str, new: str, block: str = "notes") -> dict[str, Any]:
    arguments = {"block_name": block, "old_content": old, "new_content": new}
    return {"name": "core_memory_replace", "arguments": arguments}


EDITS = [
    Edit("append", [append("new")], "old\nnew"),
    Edit("append twice", [append("a"), append("b")], "old\na\nb"),
    Edit("up to the limit", [append("12345678")], "old\n12345678"),
    Edit("over the limit", [append("123456789")], "old", 1),
    Edit("replace", [swap("old", "new")], "new"),
    Edit("replace what the call before wrote", [append("x"), swap("x", "y")], "old\ny"),
    Edit("remove", [swap("old", "")], ""),
    Edit("what is not there", [swap("nope", "x")], "old", 1),
    Edit("nothing by something", [swap("", "x")], "old", 1),
    Edit("over the limit by replacing", [swap("old", "x" * 13)], "old", 1),
    Edit("no such block", [append("x", "note")], "old", 1),
    Edit("one of two", [append("x", "nope"), append("y")], "old\ny", 1),
]


@pytest.mark.parametrize("action", ["update_memory", "call_tools"])
@pytest.mark.parametrize("case", EDITS, ids=lambda case: case.id)
def test_the_models_memory_tools(case: Edit, action: str) -> None:
    run = talk(MEMORY % action, [{"text": "", "tool_calls": case.asked}], TOOLS)
    assert run.run().reason == "completed"
    assert run.facts.memory["notes"] == case.notes
    assert run.facts.errors.total == case.errors
    assert len(outcomes(run, "b")[0].messages) == len(case.asked)
    written(run)


def test_a_block_that_is_not_there_is_named_with_the_nearest() -> None:
    run = talk(MEMORY % "update_memory", [{"text": "", "tool_calls": [append("x", "note")]}], TOOLS)
    run.run()
    assert "did you mean `notes`?" in outcomes(run, "b")[0].tool_errors[0]


def test_update_memory_leaves_other_calls_to_others() -> None:
    body = (MEMORY % "update_memory").replace(
        "next: z}", "next: c}\n  c: {do: call_tools, next: z}"
    )
    run = talk(body, [{"text": "", "tool_calls": [append("x"), {"name": "one"}]}], TOOLS)
    run.run()
    assert [r["name"] for r in outcomes(run, "b")[0].result] == ["core_memory_append"]
    assert [r["name"] for r in outcomes(run, "c")[0].result] == ["one"]
    assert provider_says([{"role": "user", "content": "x"}, *run.messages]) is None


class With(NamedTuple):
    """An `update_memory` that says itself what to do."""

    id: str
    fields: str
    notes: str
    ok: bool = True


WITHS = [
    With("append", "block: notes, append: 'n{{ run.steps }}'", "old\nn0"),
    With("replace", "block: notes, old: ol, new: c", "cd"),
    With("over the limit", "block: notes, append: '123456789'", "old", False),
    With("what is not there", "block: notes, old: nope, new: c", "old", False),
]


@pytest.mark.parametrize("case", WITHS, ids=lambda case: case.id)
def test_update_memory_from_the_file(case: With) -> None:
    body = (
        f"memory: {{notes: {{value: old, limit: 12}}}}\nstates:\n  a: {{do: update_memory, with: {{{case.fields}}}, failed: next, next: z}}\n"
        + END
    )
    run = talk(body)
    run.run()
    (outcome,) = outcomes(run, "a")
    assert (outcome.ok, run.facts.memory["notes"]) == (case.ok, case.notes)
    assert run.facts.progress.stalled_steps == (0 if case.ok else 1)


def test_send_message_is_a_partial_result() -> None:
    body = (
        "tools: [send_message]\nstates:\n  a: {do: infer, next: b}\n  b: {do: call_tools, next: z}\n"
        + END
    )
    result = talk(body, [call("send_message", message="hi")]).run()
    assert result.partial == ("hi",)


class Search(NamedTuple):
    """A query, and the messages that it finds, by number from 1."""

    query: str
    limit: int
    found: list[int]


@pytest.mark.parametrize(
    "case", [Search("apple", 5, [3, 1]), Search("APPLE pear", 5, [3, 1]), Search("nothing", 5, []), Search("apple", 1, [3]), Search("apple", -5, [3]), Search("", 5, [])],
    ids=lambda case: f"{case.query}-{case.limit}",
)  # fmt: skip
def test_conversation_search(case: Search) -> None:
    body = (
        "tools: [conversation_search]\nstates:\n  a: {do: infer, next: b}\n  b: {do: call_tools, next: z}\n"
        + END
    )
    said = [{"role": "user", "content": t} for t in ("an apple", "a plum", "apple and pear")]
    run = talk(
        body, [call("conversation_search", query=case.query, limit=case.limit)], messages=said
    )
    run.run()
    (found,) = outcomes(run, "b")[0].result
    assert [hit["index"] + 1 for hit in found["result"]] == case.found
    assert found["content"].startswith(f"{case.found[0]}. user:" if case.found else "Nothing")
    json.dumps(found)
