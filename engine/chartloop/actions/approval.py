"""Approval of tool calls: the question to a person, and the check of the answer.

An approval covers exactly the calls that were shown, by id, name and arguments. Later calls need
their own approval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chartloop.actions.run_tool import failed_result
from chartloop.core.conversation import open_calls
from chartloop.core.facts import EMPTY, ToolCall
from chartloop.core.outcome import Outcome, ToolResult
from chartloop.core.position import APPROVAL
from chartloop.core.specs import ActionSpec, ArgSpec, Effect
from chartloop.core.traits import ActionTraits
from chartloop.core.types import STR, list_of, struct
from chartloop.run.context import Context

CALL = struct({"id": STR, "name": STR, "arguments": STR}, keyed=True)


def ask_approval(
    ctx: Context, *, tools: Sequence[str], wait: str, by: str = "", text: str = "",
    first: bool = False,
) -> Outcome:  # fmt: skip
    """List the open calls of these tools, and write the question whether to execute them."""
    open_ = open_calls(ctx.messages, ctx.machine.wire_names)
    calls = [call for call in (open_[:1] if first else open_) if call.name in tools]
    data = [call.to_mapping() for call in calls]
    asked = {"calls": data, "wait": wait, "text": question(calls, by, text) if calls else ""}
    return Outcome(result=data, kept={APPROVAL: asked})


def question(calls: Sequence[ToolCall], by: str, text: str) -> str:
    """The question for the person, with every call in full."""
    what = "this" if len(calls) == 1 else "all of these"
    head = text or f"May {what} be executed?"
    who = [f"(for {by})"] if by else []
    return "\n".join([head, *who, *(f"  {call.name} {call.arguments}" for call in calls)])


class Approvals:
    """The approvals of the current step: which calls may be executed."""

    def __init__(self, ctx: Context) -> None:
        approve = ctx.machine.approve
        self.tools = frozenset(approve.tools) if approve is not None else frozenset[str]()
        self.request: Mapping[str, Any] = ctx.kept.get(APPROVAL, EMPTY) if self.tools else EMPTY

    @property
    def kept_after_use(self) -> Mapping[str, Any]:
        """The kept data after all calls: each approval is used only once."""
        return {APPROVAL: {"calls": [], "wait": ""}} if self.request else EMPTY

    def refusal(self, call: ToolCall) -> ToolResult | None:
        """The reply to a call that was not approved; None for a call that may be made."""
        if call.name not in self.tools:
            return None
        covered = call.to_mapping() in self.request.get("calls", ())
        answer = str(self.request.get("answer", "")) if covered else ""
        if answer == "accept":
            return None
        why = {"deny": "it was denied", "expired": "no answer came in time"}.get(
            answer, "nobody was asked"
        )
        note = str(self.request.get("note", "")) if answer == "deny" else ""
        return failed_result(
            f"`{call.name}` was not approved: {why}" + (f": {note}" if note else "")
        )


ACTIONS = (
    ActionSpec(
        "ask_approval",
        ask_approval,
        (
            ArgSpec(
                "tools", "data", list_of(STR), required=True,
                about="The tools whose calls need an approval.",
            ),
            ArgSpec("wait", "data", STR, about="The wait that takes the answer."),
            ArgSpec("by", "data", STR, about="Who may answer."),
            ArgSpec("text", "text", STR, about="The text above the calls."),
            ArgSpec("first", "data", about="Whether only the first call will be executed."),
        ),
        result=list_of(CALL),
        work=False,
        effect=Effect.PURE,
        suspends=False,
        declares=ActionTraits(
            asks="never", calls="none", runs="none", fails="by_fields", step="system", family="pure"
        ),
        about="Lists the open calls that need an approval; the key `approve` adds it.",
    ),
)  # fmt: skip
