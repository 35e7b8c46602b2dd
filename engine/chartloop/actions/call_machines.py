"""Child machines that the model calls as tools, beside the other calls of a reply.

Each call has its own child, with the id ``<run>/<state>/<step>/<number of the call>``. When the
action is done again, after a kill or a question, the child goes on from its own records. The model
reads the child's output, or why there is none.

Source: docs/agents-as-tools.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chartloop.actions.run_machines import (
    GRACE,
    drive,
    failure_of_child,
    outcome_of,
    result_data,
    waiting,
)
from chartloop.core.outcome import Blocked, Outcome, ToolResult
from chartloop.language.child_tools import fill
from chartloop.run.children import Child, ChildStart
from chartloop.run.context import Context
from chartloop.run.sanitize import cut_text, text_for_model


class ChildCalls:
    """The calls of child machines by one action."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.waits: Blocked | None = None
        """What the action waits for: a question of a child; None if it does not wait."""
        self._children: list[Child] = []

    async def make(
        self, calls: Mapping[int, tuple[str, Mapping[str, Any]]]
    ) -> dict[int, ToolResult]:
        """Run the children of so many calls, as far as they can go now.

        `calls` are machines and arguments by the number of the call in its reply, from 0. Returns
        the results of those that are done.
        """
        done, starts = dict[int, ToolResult](), dict[str, ChildStart]()
        for number, (machine, arguments) in calls.items():
            filled = fill(self.ctx.machine.machines[machine], arguments)
            starts[str(number + 1)] = ChildStart(machine, **filled._asdict())
        if not starts:
            return done
        self._children = await drive(self.ctx, starts, grace=GRACE)
        if unfinished := [child for child in self._children if not child.ended]:
            self.waits = waiting(unfinished)
        results = zip(starts, self._children, strict=True)
        return done | {int(number) - 1: _reply(child) for number, child in results if child.ended}

    async def counted(self, outcome: Outcome) -> Outcome:
        """Add to the action's outcome what its children used, signalled and left."""
        if not self._children:
            return outcome
        own = await outcome_of(self.ctx, *self._children)
        outcome = outcome.replace(
            spent=own.spent.plus(outcome.spent), unanswered=outcome.unanswered + own.unanswered,
            unknown=outcome.unknown + own.unknown,
            warnings=(*outcome.warnings, *own.warnings), partial=(*outcome.partial, *own.partial),
            signals=(*outcome.signals, *own.signals),
            progressed=outcome.progressed or own.progressed,
        )  # fmt: skip
        if not own.timed_out:
            return outcome
        return outcome.replace(ok=False, error=own.error, timed_out=True)


def _reply(child: Child) -> ToolResult:
    """What the model reads of a child that has ended."""
    result, name = child.result, child.given.machine
    output = result.output if result.output is not None else result.facts.last.text
    text, data = text_for_model(output) if output else "", result_data(child)
    if result.success:
        return ToolResult(text or "done", result=data)
    refused = "" if child.refused is None else child.refused.message
    failure = failure_of_child(result, name, refused)
    said = f"error: {failure.message}" + (f"\nIt had so far: {text}" if text else "")
    return ToolResult(cut_text(said), ok=False, result=data, category=failure.category)
