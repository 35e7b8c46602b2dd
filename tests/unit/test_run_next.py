"""A next message to a run that is over: a new run with `parent`, as language section 5 says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chartloop.actions.declare import tool_spec
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Machine, Run, StartOptions
from chartloop.core.errors import LimitError, MachineChangedError, SetupError, StatusError
from chartloop.core.outcome import Outcome
from chartloop.run.journal import MemoryJournal
from chartloop.run.ports import ModelReply
from chartloop.run.sync import by_hand
from chartloop.testing.clock import ManualClock
from tests.support import start
from tests.talks import Listening, calls, machine

END = "  z: {stop: completed}\n"
CHAT = (
    "limits: {steps: 9}\nvars: {seen: 0, list: {type: 'list[str]', value: []}}\nmemory: {human: nobody}\n"
    "rules:\n  - {when: run.steps >= limits.steps, stop: steps_limit}\n"
    "states:\n  a: {do: receive, next: b}\n  b: {do: infer, next: c}\n"
    "  c: {do: update_memory, with: {block: human, append: '{{ run.task }}'}, set: {vars.seen: vars.seen + 1, vars.list: {append: run.task}}, next: z}\n"
    + END
)
TOOLS = (
    "tools: [one]\nlimits: {steps: 2}\nrules:\n  - {when: run.steps >= limits.steps, stop: steps_limit}\n"
    "states:\n  a: {do: receive, next: b}\n  b: {do: infer, next: [{when: len(last.tool_calls) > 0, to: c}, {to: z}]}\n  c: {do: call_tools, next: b}\n"
    + END
)


def said(run: Run) -> list[Any]:
    return [(m["role"], m["content"]) for m in run.messages]


def finished(made: Machine, journal: Any = None, **options: Any) -> Run:
    run = made.start(
        "first", script=["one"], clock=ManualClock(), journal=journal, run_id="r", **options
    )
    run.run()
    return run


class TestNext:
    def test_conversation_memory_and_variables_are_carried_over(self) -> None:
        run = finished(machine(CHAT), agent="ann", session="s")
        after = run.next("second", script=["two"], run_id="n")
        assert (after.id, after.parent, after.status) == ("n", "r", "idle")
        after.run()
        assert said(after) == [
            ("user", "first"), ("assistant", "one"), ("user", "second"), ("assistant", "two"),
        ]  # fmt: skip
        assert (after.facts.vars["seen"], after.facts.vars["list"]) == (2, ("first", "second"))
        assert after.facts.memory["human"].split() == ["nobody", "first", "second"]
        assert (after.facts.run.agent, after.facts.run.session) == ("ann", "s")

    def test_counters_begin_at_zero(self) -> None:
        run = finished(machine(CHAT))
        after = run.next("second", script=["two"])
        assert after.facts.run.steps == after.facts.usage.total_tokens == 0
        after.run()
        old, new = run.facts, after.facts
        assert (new.run.steps, new.usage.llm_calls, new.run.visits["a"]) == (3, 1, 1)
        assert new.run.started_at > 0
        assert (old.run.steps, old.usage.llm_calls) == (3, 1)
        assert after.result.reason == "completed"

    def test_it_is_a_run_of_its_own_in_the_same_journal(self) -> None:
        journal = MemoryJournal()
        run = finished(machine(CHAT), journal)
        before = run.records
        after = run.next("second", script=["two"], run_id="n")
        after.run()
        row = by_hand(journal.row("n"))
        assert row is not None
        assert (row.parent, row.fork_seq, row.machine_hash) == ("r", None, run.machine.hash)
        assert run.records == before
        assert after.replay().same

    def test_what_is_given_wins(self) -> None:
        run = finished(machine(CHAT), limits={"steps": 5})
        after = run.next("second", script=["two"], limits={"steps": 7}, vars={"seen": 40})
        after.run()
        assert (after.facts.limits["steps"], after.facts.vars["seen"]) == (7, 41)
        again = run.next("second", script=["two"], branch=True)
        again.run()
        assert again.facts.limits["steps"] == 9  # the file's: limits are not part of the memory

    def test_the_components_are_those_of_the_run_unless_others_are_given(self) -> None:
        model, clock = Listening(ModelReply("one"), ModelReply("two")), ManualClock()
        run = machine(CHAT).start("first", model=model, clock=clock)
        run.run()
        after = run.next("second")
        after.run()
        assert (after.result.output, after.session.ports.clock) == ("two", clock)
        assert [m["content"] for m in model.asked[1].messages][1:] == ["first", "one", "second"]
        assert run.next("third", script=["three"], branch=True).run().output == "three"

    def test_a_run_of_a_run_of_a_run(self) -> None:
        run = finished(machine(CHAT))
        for n in range(3):
            run = run.next(f"more {n}", script=[f"reply {n}"])
            run.run()
        assert run.facts.vars["seen"] == 4
        assert len(run.messages) == 8

    def test_calls_that_nobody_answered_are_mended(self) -> None:
        """The run was cut between a reply and its calls: a provider refuses that conversation."""
        made = machine(TOOLS, [tool_spec(lambda: 1, name="one")])
        run = made.start("first", script=[calls("one")], clock=ManualClock())
        assert run.run().reason == "steps_limit"
        model = Listening(ModelReply("two"))  # it refuses what a provider refuses
        after = run.next("second", model=model)
        after.run()
        assert [m["role"] for m in model.asked[0].messages] == [
            "user", "assistant", "tool", "user",
        ]  # fmt: skip

    def test_after_an_error_too(self) -> None:
        run = start(
            "states:\n  a: {do: act, next: z}\n" + END, {"a": [Outcome.failure("CRITICAL", "no")]}
        )
        assert run.run().kind == "error"
        assert run.next("again").parent == run.id

    def test_a_run_that_is_not_over_is_refused(self) -> None:
        run = machine(CHAT).start("first", script=["one"], clock=ManualClock())
        run.advance()
        with pytest.raises(StatusError, match="has not ended") as caught:
            run.next("second")
        assert "send" in caught.value.hint


class TestParent:
    def test_by_id_from_a_journal(self) -> None:
        made, journal = machine(CHAT), MemoryJournal()
        finished(made, journal)
        after = made.start(
            "second", continues="r", script=["two"], journal=journal, clock=ManualClock()
        )
        after.run()
        assert (after.parent, after.facts.vars["seen"]) == ("r", 2)
        assert len(after.messages) == 4

    def test_by_id_without_a_journal(self) -> None:
        with pytest.raises(SetupError, match="journal"):
            machine(CHAT).start("second", continues="r", script=["two"])

    def test_of_another_machine_by_id(self) -> None:
        journal = MemoryJournal()
        finished(machine(CHAT), journal)
        other = machine(CHAT.replace("limits: {steps: 9}", "limits: {steps: 8}"))
        with pytest.raises(MachineChangedError):
            other.start("second", continues="r", script=["two"], journal=journal)

    def test_of_another_machine_as_a_run(self) -> None:
        """What both have is carried over; the rest is this machine's own."""
        run = finished(machine(CHAT))
        other = machine(
            "vars: {seen: 0, own: 7}\nstates:\n  a: {do: receive, next: b}\n  b: {do: infer, next: z}\n"
            + END
        )
        after = other.start("second", continues=run, script=["two"], clock=ManualClock())
        after.run()
        assert after.facts.vars == {"seen": 1, "own": 7}
        assert dict(after.facts.memory) == {}
        assert (len(after.messages), after.parent) == (4, "r")

    def test_a_variable_of_another_type_is_an_error(self) -> None:
        run = finished(machine(CHAT))
        other = machine("vars: {list: 0}\nstates:\n  a: {do: receive, next: z}\n" + END)
        with pytest.raises(LimitError, match="list"):
            other.start("second", continues=run)

    def test_run_and_arun_take_it_too(self) -> None:
        made = machine(CHAT)
        run = finished(made)
        assert made.run("second", continues=run, script=["two"], clock=ManualClock()).steps == 3

        async def inside() -> None:
            more = StartOptions(continues=run, branch=True, script=["two"], clock=ManualClock())
            result = await made.arun("second", **more)
            assert len(result.messages) == 4

        asyncio.run(inside())

    def test_from_a_file_and_after_another_process(self, tmp_path: Path) -> None:
        made = machine(CHAT)
        journal = SqliteJournal(tmp_path / "journal.db")
        finished(made, journal)
        after = made.start(
            "second",
            continues="r",
            script=["two"],
            journal=journal,
            run_id="n",
            clock=ManualClock(),
        )
        after.run()
        again = made.open("n", journal=journal, clock=ManualClock())
        assert (again.parent, again.facts.vars["seen"], again.facts.vars["list"]) == (
            "r", 2, ("first", "second"),
        )  # fmt: skip
        assert said(again) == said(after)
        assert again.replay().same
        by_hand(journal.close())
