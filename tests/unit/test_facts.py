"""Every fact: what changes it. One case for each row of the table, and the table itself."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, cast

import pytest

from chartloop.core.facts import FACTS, Facts, Task, ToolCall, sections
from chartloop.core.fold import lookup
from chartloop.core.outcome import Blocked, Outcome, Reply, Spent
from chartloop.core.reasons import REASONS, StopSignal
from chartloop.core.types import accepts
from chartloop.testing.clock import ManualClock
from tests.support import OK, Said, failure, start

LINE = "tools: [conversation_search]\nvars: {n: 0, x: 0}\nmemory: {b: ''}\nmodel: {name: none, context_window: 200}\nstates:\n  a: {do: act, failed: next, next: b}\n  b: {do: act, failed: next, next: c}\n  c: {do: keep, failed: next, next: d}\n  d: {do: act, failed: next, next: z}\n  z: {stop: completed}\n"


def reply(
    *names: str, arguments: str = "{}", memory: bool = False, text: str = "t", model: str = "a"
) -> Outcome:
    """A model's reply that asks for these calls."""
    asked = tuple(ToolCall(str(n), name, arguments) for n, name in enumerate(names))
    said = Reply(text, "tool_calls" if names else "stop", asked, memory, model)
    return Outcome(
        reply=said,
        spent=Spent(1, 20, 5, 0.25),
        messages=({"role": "assistant", "content": "x" * 80},),
    )


def spent(
    prompt: int, completion: int, cached_tokens: int = 0, cache_write_tokens: int = 0,
    reasoning_tokens: int = 0,
) -> Outcome:  # fmt: skip
    used = Spent(1, prompt, completion, cached_tokens=cached_tokens)
    more = {"cache_write_tokens": cache_write_tokens, "reasoning_tokens": reasoning_tokens}
    return Outcome(spent=used.replace(**more))


def changed(**values: Any) -> Outcome:
    return Outcome(changes={name.replace("__", "."): value for name, value in values.items()})


USER = {"role": "user", "content": "x" * 40}
T1, T2 = Task("1", "one"), Task("2", "two", "improvement")


class Case(NamedTuple):
    """What actions come to, one after the other, and a fact after the start and after each."""

    fact: str
    said: list[Outcome]
    seen: list[Any]


CASES = [
    Case("run.steps", [OK, failure(), OK, OK], [0, 1, 2, 3, 4]),
    Case("run.status", [OK, OK, OK, OK], ["running", "running", "running", "running", "completed"]),
    Case("run.visits.b", [OK, OK], [0, 1, 1]),
    Case("run.continuations", [OK, Outcome(continued=1)], [0, 0, 1]),
    Case("run.task", [OK], ["task", "task"]),
    Case("run.machine", [OK], ["m", "m"]),
    Case("run.depth", [OK], [0, 0]),
    Case("usage.llm_calls", [reply(), OK, OK, reply()], [0, 1, 1, 1, 2]),
    Case("usage.prompt_tokens", [reply(), reply()], [0, 20, 40]),
    Case("usage.completion_tokens", [reply(), reply()], [0, 5, 10]),
    Case("usage.total_tokens", [reply(), reply()], [0, 25, 50]),
    Case("usage.cost", [OK, reply(), OK, reply()], [None, None, 0.25, 0.25, 0.5]),
    Case("usage.cost", [Outcome(spent=Spent(1, 5, 5, None)), Outcome(spent=Spent(1, 5, 5, 0.0))], [None, None, 0.0]),
    Case("usage.unknown_calls", [Outcome(unknown=2), OK], [0, 2, 2]),
    Case("usage.tool_calls", [Outcome(spent=Spent(tools={"x": 2, "y": 1})), OK], [0, 3, 3]),
    Case("usage.calls.x", [Outcome(spent=Spent(tools={"x": 2})), Outcome(spent=Spent(tools={"x": 1, "y": 1}))], [None, 2, 3]),
    Case("usage.messages", [reply(), Outcome(messages=(USER,)), OK, Outcome(rewrite=(USER,))], [0, 1, 2, 2, 1]),
    Case("usage.context_tokens", [Outcome(messages=(USER,)), Outcome(messages=(USER,)), Outcome(context_tokens=100), Outcome(rewrite=(USER,))], [0, 14, 28, 100, 14]),
    Case("usage.context_ratio", [Outcome(context_tokens=100), OK], [0, 0.5, 0.5]),
    Case("usage.context_window", [OK], [200, 200]),
    Case("usage.prunable", [Outcome(messages=(USER,)), Outcome(messages=(USER, USER)), Outcome(prunable=False), Outcome(messages=(USER,))], [False, False, True, False, True]),
    Case("errors.total", [failure(), Outcome(tool_errors=("a", "b")), failure(), OK], [0, 1, 3, 4, 4]),
    Case("errors.consecutive", [failure(), failure(), OK, OK], [0, 1, 2, 2, 0]),
    Case("errors.consecutive", [failure(), OK, failure(), failure()], [0, 1, 0, 0, 1]),
    Case("errors.consecutive", [failure(), Outcome(tool_errors=("a",))], [0, 1, 0]),
    Case("errors.consecutive", [failure(), failure(), Outcome(forgiven=True)], [0, 1, 2, 0]),
    Case("errors.rate", [failure(), OK, failure(), OK], [0, 1, 0.5, 0.5, 1 / 3]),
    Case("errors.rate", [failure(), Outcome(queue=(T1,)), OK], [0, 1, 0, 0]),
    Case("errors.rate", [Outcome(queue=(), changes={"queue.done": 3, "queue.failed": 1}), failure()], [0, 0.25, 0.25]),
    Case("errors.retries", [Outcome(forgiven=True), Outcome(forgiven=True), Outcome(forgiven=True), OK], [0, 1, 1, 2, 0]),
    Case("errors.last.message", [failure(message="p"), OK, OK, Outcome(tool_errors=("q",))], [None, "p", "p", "p", "q"]),
    Case("errors.last.category", [failure("CRITICAL"), Outcome(tool_errors=("q",))], [None, "CRITICAL", "RECOVERABLE"]),
    Case("errors.last.state", [OK, failure()], [None, None, "b"]),
    Case("approvals.denied", [Outcome(denied=("a", "b")), OK, Outcome(denied=("c",), tool_errors=("d",))], [0, 2, 2, 3]),
    Case("errors.total", [Outcome(denied=("a", "b")), Outcome(denied=("c",), tool_errors=("d",))], [0, 0, 1]),
    Case("errors.last.message", [Outcome(denied=("a",))], [None, None]),
    Case("progress.stalled_steps", [OK, OK, OK, changed(vars__n=1)], [0, 1, 2, 2, 0]),
    Case("progress.stalled_steps", [OK, changed(vars__n=0)], [0, 1, 2]),
    Case("progress.stalled_steps", [OK, changed(memory__b="x")], [0, 1, 0]),
    Case("progress.stalled_steps", [OK, Outcome(queue=(T1,))], [0, 1, 0]),
    Case("progress.stalled_steps", [reply("x"), reply("x"), OK, reply("x", arguments='{"a": 1}')], [0, 0, 1, 1, 0]),
    Case("progress.stalled_steps", [reply(), failure()], [0, 1, 2]),
    Case("progress.repeats", [reply("x"), reply("x"), OK, reply("x")], [0, 0, 1, 1, 2]),
    Case("progress.repeats", [reply("x"), reply("x"), OK, reply("y")], [0, 0, 1, 1, 0]),
    Case("usage.cached_tokens", [spent(5, 1, cached_tokens=2), OK, spent(5, 1, cached_tokens=3)], [0, 2, 2, 5]),
    Case("usage.cache_write_tokens", [spent(5, 1, cache_write_tokens=2), OK, spent(5, 1)], [0, 2, 2, 2]),
    Case("usage.reasoning_tokens", [spent(5, 4, reasoning_tokens=4), OK, spent(5, 4, reasoning_tokens=1)], [0, 4, 4, 5]),
    Case("progress.repeats", [reply(), reply()], [0, 0, 0]),
    Case("progress.repeats", [reply("x"), reply("x"), OK, reply()], [0, 0, 1, 1, 0]),
    Case("progress.recent", [OK, Outcome(spent=Spent(tools={"x": 2, "y": 1})), OK, OK], [(), ("act",), ("act", "x", "y"), ("act", "x", "y"), ("act", "x", "y", "act")]),
    Case("progress.cycles", [Outcome(changes={"progress.cycles": 2})], [0, 2]),
    Case("progress.improving", [Outcome(changes={"progress.improving": True})], [False, True]),
    Case("progress.improvements", [Outcome(changes={"progress.improvements": 3})], [0, 3]),
    Case("progress.magnitude", [Outcome(changes={"progress.magnitude": 0.05})], [None, 0.05]),
    Case("last.state", [OK, OK], ["", "a", "b"]),
    Case("last.action", [OK, OK, OK], ["", "act", "act", "keep"]),
    Case("last.ok", [failure(), OK], [True, False, True]),
    Case("last.error.message", [failure(message="p"), OK], [None, "p", None]),
    Case("last.result", [Outcome(result=[1]), OK], [None, [1], None]),
    Case("last.text", [reply(text="p"), OK, OK, reply(text="q")], ["", "p", "p", "p", "q"]),
    Case("last.finish_reason", [reply("x"), OK, OK, reply()], ["", "tool_calls", "tool_calls", "tool_calls", "stop"]),
    Case("last.tool_calls", [reply("x"), OK, OK, reply()], [(), (ToolCall("0", "x", "{}"),), (ToolCall("0", "x", "{}"),), (ToolCall("0", "x", "{}"),), ()]),
    Case("last.model", [reply(), OK, OK, reply(model="b")], ["", "a", "a", "a", "b"]),
    Case("last.wants_memory", [reply("x", memory=True), OK, OK, reply("x")], [False, True, True, True, False]),
    Case("last.calls_dropped", [Outcome(dropped=(ToolCall("1", "x", "{}"),)), OK, reply("x")], [0, 1, 1, 0]),
    Case("last.denied", [Outcome(denied=("a", "b")), OK, reply("x")], [0, 2, 2, 0]),
    Case("queue.size", [Outcome(queue=(T1, T2)), Outcome(queue=(T2,)), Outcome(queue=(T2.replace(cycle=1),))], [0, 1, 0, 1]),
    Case("queue.done", [Outcome(changes={"queue.done": 1})], [0, 1]),
    Case("queue.failed", [Outcome(changes={"queue.failed": 1})], [0, 1]),
    Case("queue.primary_done", [Outcome(queue=(T1, T2)), Outcome(queue=(T2,))], [True, False, True]),
    Case("queue.current.text", [Outcome(queue=(T1,)), Outcome(queue=(T1.replace(attempts=1),)), Outcome(queue=())], [None, None, "one", None]),
    Case("vars.n", [changed(vars__n=5)], [0, 5]),
    Case("memory.b", [changed(memory__b="x")], ["", "x"]),
]  # fmt: skip


def fact(facts: Facts, name: str) -> Any:
    value: Any = facts
    for part in name.split("."):
        if isinstance(value, dict):
            value = cast(dict[str, Any], value).get(part)
        else:
            value = None if value is None else getattr(value, part)
    return value


def test_what_changes_it(subtests: pytest.Subtests) -> None:
    for number, case in enumerate(CASES):
        with subtests.test(f"{case.fact}-{number}"):
            said = zip("abcd", case.said, strict=False)
            given: Said = {state: [outcome] for state, outcome in said}
            run = start(LINE, given)
            run.advance()
            seen = [fact(run.facts, case.fact)]
            for _ in case.said:
                run.advance()
                seen.append(fact(run.facts, case.fact))
            assert seen == [pytest.approx(v) if isinstance(v, float) else v for v in case.seen]


def test_a_cost_beyond_all_numbers_is_not_believed() -> None:
    run = start(LINE, {s: [Outcome(spent=Spent(cost=1e308))] for s in "abcd"})
    run.run()
    assert run.facts.usage.cost is None
    assert json.loads(json.dumps(run.result.to_dict(), allow_nan=False))


class TestTime:
    """The facts that only a clock changes."""

    def test_elapsed_working_idle_and_stalled_for(self) -> None:
        clock = ManualClock(100)
        body = "states:\n  a: {do: act, next: b}\n  b: {do: act, next: w}\n  w: {on: {yes: c}}\n  c: {do: act, next: z}\n  z: {stop: completed}\n"
        run = start(body, {"b": [Outcome(progressed=True)]}, clock=clock)
        seen: list[tuple[float, ...]] = []
        for move in (0, 5, 7, 20, 1):
            clock.advance(move)
            if run.state == "w":
                run.send("yes", {})
            run.advance()
            facts = run.facts
            seen.append(
                (facts.run.elapsed, facts.run.working, facts.run.idle, facts.progress.stalled_for)
            )
        assert run.facts.run.started_at == 100
        assert seen == [
            (0, 0, 0, 0),
            (5, 0, 5, 5),
            (12, 0, 12, 0),
            (32, 0, 32, 20),
            (33, 0, 33, 21),
        ]

    def test_paused_from(self) -> None:
        run = start("states:\n  a: {do: act, status: debugging, next: z}\n  z: {stop: completed}\n")
        run.advance()
        run.pause()
        run.advance()
        assert run.facts.run.paused_from == "debugging"
        run.resume()
        run.advance()
        assert run.facts.run.paused_from == ""


def test_a_task_that_was_done_begins_stalled_for_again() -> None:
    clock = ManualClock()
    run = start(LINE, {"b": [Outcome(progressed=True)]}, clock=clock)
    seen: list[float] = []
    for _ in range(4):
        run.advance()
        seen.append(run.facts.progress.stalled_for)
        clock.advance(10)
    assert seen == [0, 10, 0, 10]


def test_the_facts_of_the_start() -> None:
    run = start(LINE, run_id="r", agent="me", session="s")
    run.advance()
    assert (run.facts.run.id, run.facts.run.agent, run.facts.run.session) == ("r", "me", "s")


def test_the_last_answer() -> None:
    run = start("states:\n  w: {on: {fix: {to: z, data: {note: str}}}}\n  z: {stop: completed}\n")
    run.advance()
    assert run.facts.last.answer is None
    run.send("fix", {"note": "x"})
    run.advance()
    assert run.facts.last.answer == {"note": "x"}


def test_the_signals() -> None:
    body = (
        "rules:\n  - {when: run.steps == 1, signal: custom}\n  - {when: run.steps == 2, signal: error_rate}\n"
        + LINE
    )
    run = start(body, {"c": [Outcome(continued=1)]})
    seen: list[tuple[Any, ...]] = []
    while run.advance() is not None:
        seen.append(run.facts.signals.to_tuple())
    assert seen[:4] == [
        (0, None, (), "completed", False),
        (1, "custom", ("custom",), "completed", False),
        (2, "error_rate", ("custom", "error_rate"), "error", False),
        (2, "error_rate", ("custom", "error_rate"), "error", True),
    ]
    assert run.facts.signals.continued is False  # the work of `d` began: they were put off
    assert len(run.session.position.suppressed) == 2


def test_a_blocked_action_is_no_step() -> None:
    run = start(LINE, {"a": [Blocked(None, "child")]})
    run.advance()
    run.advance()
    assert (run.facts.run.steps, run.facts.run.status) == (0, "paused")


class TestTable:
    """`FACTS` and the sections agree."""

    def test_every_field_of_a_section_is_a_row_and_every_row_a_field(self) -> None:
        facts = Facts()
        fields = {
            f"{root}.{name}"
            for root in sections()
            for name in getattr(facts, root).__struct_fields__
        }
        assert fields == set(FACTS)
        assert set(sections()) == set(Facts.__struct_fields__) - {
            "memory",
            "limits",
            "vars",
            "marks",
        }

    def test_the_first_value_is_of_the_type_of_its_row(self, subtests: pytest.Subtests) -> None:
        for name, row in FACTS.items():
            with subtests.test(name):
                value = lookup(Facts(), name)
                assert accepts(row.type, value), (value, row.type)
                assert row.about.endswith(".") or row.about
                assert (value is None) <= row.type.nullable or row.type.kind == "any"

    def test_every_row_has_a_case(self) -> None:
        elsewhere = {
            "run.id", "run.agent", "run.session", "run.started_at", "run.elapsed", "run.working", "run.idle", "run.paused_from",
            "progress.stalled_for", "last.answer", *(f for f in FACTS if f.startswith(("signals.", "fleet."))),
        }  # fmt: skip
        shown = {
            name
            for case in CASES
            for name in FACTS
            if case.fact == name or case.fact.startswith(f"{name}.")
        }
        assert shown | elsewhere == set(FACTS)

    def test_what_grows_never_falls_in_any_case(self, subtests: pytest.Subtests) -> None:
        for number, case in enumerate(CASES):
            if case.fact in FACTS and FACTS[case.fact].type.grows:
                with subtests.test(f"{case.fact}-{number}"):
                    numbers = [v for v in case.seen if v is not None]
                    assert numbers == sorted(numbers)


def test_a_signal_of_a_tool_is_counted_with_the_others() -> None:
    raised = Outcome(signals=(StopSignal(REASONS["custom"]),))
    run = start(LINE, {"a": [raised]})
    run.run()
    assert run.facts.signals.reasons == ("custom",)


def test_nothing_is_work_in_an_epilogue() -> None:
    body = (
        "rules:\n  - {when: errors.consecutive >= 2, stop: error_threshold, to: r}\nstates:\n"
        "  a: {do: act, failed: next, next: a}\n  r: {do: act, next: e}\n  e: {end: by_reason}\n"
    )
    facts = start(body, {"a": [failure(), failure()], "r": [OK]}).run().facts
    assert facts.run.steps == 3
    assert (facts.errors.consecutive, facts.errors.rate) == (2, 1.0)
    assert facts.progress.recent == ("act", "act")
