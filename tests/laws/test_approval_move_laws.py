"""Whatever moves, forks, answers and drives a run in any order: one approval pays once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import load, tool
from chartloop.api import Machine, Run
from chartloop.core.errors import ChartloopError
from chartloop.core.facts import ToolCall
from chartloop.run.journal import MemoryJournal, RunRow
from chartloop.run.journal_pages import RunFilter
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.run.sync import by_hand
from chartloop.testing.clock import ManualClock

PAID: list[int] = []


@tool
def refund(usd: int) -> str:
    """Refund."""
    PAID.append(usd)
    return "done"


FIRST = """chartloop: 1
machine: gate
model: {name: any}
tools: [refund]
approve: {tools: [refund]}
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""
VERSIONS: Sequence[Machine] = [
    load(text, tools=[refund])
    for text in (
        FIRST,
        FIRST.replace("steps: 20", "steps: 25"),  # asks the same
        FIRST.replace("tools: [refund]}", 'tools: [refund], ask: "Really?"}'),
    )
]
BY_HASH = {machine.hash: machine for machine in VERSIONS}


class Refunds:
    """A model that asks for a refund, and ends once that has an outcome."""

    suspends = False

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing can be missing."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        return None

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        if any(message["role"] == "tool" for message in request.messages):
            return ModelReply("Refunded.")
        return ModelReply(tool_calls=(ToolCall("c", "refund", '{"usd": 49}'),))


class Desk:
    """The runs of a journal, and the approvals that a person has given."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.accepted = 0
        self.ports: Any = {"model": Refunds(), "clock": ManualClock()}
        VERSIONS[0].start("Refund me", journal=self.journal, run_id="r", **self.ports).run()

    def rows(self) -> list[RunRow]:
        return sorted(by_hand(self.journal.rows()), key=lambda row: (row.created, row.run_id))

    def open(self, row: RunRow, version: int | None) -> Run:
        machine = BY_HASH[row.machine_hash] if version is None else VERSIONS[version]
        return machine.open(row.run_id, journal=self.journal, changed=True, **self.ports)

    def do(self, what: str, which: int, version: int | None) -> None:
        rows = self.rows()
        row = rows[which % len(rows)]
        try:
            run = self.open(row, version)
            match what:
                case "answer":
                    self.accepted += run.send("accept").new
                case "run":
                    run.run()
                case "advance":
                    run.advance()
                case _:
                    run.fork()
        except ChartloopError:  # refused: nothing has happened
            return


acts = st.sampled_from(["answer", "run", "advance", "fork"])
orders = st.tuples(acts, st.integers(0, 5), st.sampled_from([None, 0, 1, 2]))


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(st.lists(orders, max_size=14))
def test_a_paid_call_is_made_at_most_once_for_each_approval(
    said: list[tuple[str, int, int | None]],
) -> None:
    PAID.clear()
    desk = Desk()
    for order in said:
        desk.do(*order)
        assert len(PAID) <= desk.accepted, order
    for row in desk.rows():  # and nothing was left behind that anybody could still drive on
        desk.do("run", desk.rows().index(row), None)
    assert len(PAID) <= desk.accepted
    waiting = by_hand(desk.journal.page(RunFilter(waiting=True))).rows
    assert not any(row.moved_to for row in waiting)
    for row in desk.rows():
        own = BY_HASH[row.machine_hash].open(row.run_id, journal=desk.journal, **desk.ports)
        assert own.replay().same
