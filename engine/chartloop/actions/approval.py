"""Approval of tool calls: the question to a person, and the check of each call before it is made.

An approval covers exactly the calls that were shown, by id, name and arguments. Later calls need
their own approval, unless their arguments equal those of a call that was accepted to be remembered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from chartloop.actions.annotations import Field
from chartloop.actions.declare import action
from chartloop.actions.run_tool import failed_result, parsed_arguments
from chartloop.core.approvals import (
    ACCEPT,
    DENY,
    EDIT,
    NO_REQUEST,
    as_given,
    call_line,
    keyed,
    open_held,
    shown,
)
from chartloop.core.conversation import arguments_of, open_calls
from chartloop.core.facts import EMPTY, Facts, ToolCall
from chartloop.core.outcome import Outcome, ToolResult
from chartloop.core.position import APPROVAL, REMEMBERED
from chartloop.core.specs import GuardSpec, ToolSpec
from chartloop.core.traits import BY_FIELDS
from chartloop.core.types import ANY, STR, list_of, struct
from chartloop.language.call_data import arguments_got, defaults_of
from chartloop.language.expression import Expression, widen
from chartloop.language.spec import Approve
from chartloop.run.context import Context
from chartloop.run.sanitize import text_for_model

CALL = struct({"id": STR, "name": STR, "arguments": STR}, keyed=True)


@action(work=False, effect="pure", traits=BY_FIELDS, result=list_of(CALL), reads="reply")
def ask_approval(
    ctx: Context, *, tools: Annotated[Sequence[str], Field("data")],
    wait: Annotated[str, Field("data")] = "", by: Annotated[str, Field("data")] = "",
    text: str = "", first: Annotated[bool, Field("data", ANY)] = False,
    when: Annotated[Expression | None, Field("data", ANY)] = None,
    edited: Annotated[bool, Field("data", ANY)] = False,
) -> Outcome:  # fmt: skip
    """Lists the open calls that need an approval; the key `approve` adds it.

    It writes the question. With `edited`, it lists the calls of the last question again, as its
    answer changed them.

    Args:
        tools: The tools whose calls need an approval.
        wait: The wait that takes the answer.
        by: Who may answer.
        text: The text above the calls.
        first: Whether only the first call will be executed.
        when: The guard over `call` that holds calls back.
        edited: Whether to list the calls that an answer changed.
    """
    gate = Gate(ctx, when)
    request: dict[str, Any]
    if edited:
        held = [gate.judged(one) for one in open_held(gate.request) if gate.holds(shown(one))]
        now = {one["key"]: one for one in held}
        calls = [now.get(one["key"], one) for one in gate.request["calls"]]
        request = {**gate.request, "calls": calls}
    else:
        open_ = keyed(open_calls(ctx.messages, ctx.machine.wire_names))
        held = [
            gate.judged({"key": key, **call.to_mapping()})
            for key, call in (open_[:1] if first else open_)
            if call.name in tools and gate.holds(call)
        ]
        if gate.edit:
            held = [{**one, "schema": dict(gate.known[one["name"]].parameters)} for one in held]
        request = {
            "wait": wait, "edit": gate.edit, "remember": gate.remember, "calls": held,
            "decisions": {},
        }  # fmt: skip
    request |= {
        "answer": "", "asked": [h["key"] for h in held],
        "text": question(held, by, text) if held else "",
    }  # fmt: skip
    return Outcome(result=[shown(one).to_mapping() for one in held], kept={APPROVAL: request})


def question(held: Sequence[Mapping[str, Any]], by: str, text: str) -> str:
    """The question for the person, with every call in full: one line each, numbered if several."""
    what = "this" if len(held) == 1 else "all of these"
    head = text or f"May {what} be executed?"
    who = [f"(for {by})"] if by else []
    lines = [head, *who]
    for number, one in enumerate(held, 1):
        place = f"{number}. " if len(held) > 1 else ""
        lines.append(f"  {place}{call_line({**one, 'arguments': shown(one).arguments})}")
        if "edited" in one:
            editor = " ".join(one["edited_by"].split()) or "a person"
            lines.append(f"    (changed by {editor})")
    return "\n".join(lines)


class Cleared(NamedTuple):
    """A call that may be executed."""

    call: ToolCall
    """With the arguments that a person accepted: the model's own, or those written instead."""
    note: str = ""
    """What the model reads above the result, if a person changed the call."""


_NO_GATE = Approve(())


class Gate:
    """The approvals at the current step: which calls are held back, and what was decided."""

    def __init__(self, ctx: Context, when: Expression | None) -> None:
        approve = ctx.machine.approve or _NO_GATE
        self.ctx = ctx
        self.when = when
        self.who = [approve.tools, approve.by, approve.not_by]
        self.edit = approve.edit
        self.remember = approve.remember
        self.denied: set[str] = set()
        """The keys, in the log, of calls that were denied, or not answered in time."""
        self.tools = frozenset(approve.tools)
        self.request: Mapping[str, Any] = ctx.kept.get(APPROVAL, EMPTY) if self.tools else EMPTY
        self.held = {one["key"]: one for one in self.request.get("calls", ())}
        self.known = ctx.machine.registry.tools
        known = ctx.kept.get(REMEMBERED, EMPTY)
        self.marks: Sequence[str] = known["marks"] if known.get("run") == ctx.run_id else ()

    @property
    def kept_after_use(self) -> Mapping[str, Any]:
        """The kept data after all calls: each approval is used only once, unless remembered."""
        if not self.request:
            return EMPTY
        used: dict[str, Any] = {APPROVAL: NO_REQUEST}
        decided = self.request.get("decisions", EMPTY).items()
        new = [
            self._mark(shown(self.held[key])) for key, one in decided
            if one["decision"] == ACCEPT and one.get("remember")
        ]  # fmt: skip
        marks = [*dict.fromkeys(filter(None, (*self.marks, *new)))]
        return used | {REMEMBERED: {"run": self.ctx.run_id, "marks": marks}} if marks else used

    def judged(self, held: Mapping[str, Any]) -> dict[str, Any]:
        """A held call with the arguments that its tool gets, frozen for the question."""
        return {**held, **(_frozen(self.known.get(held["name"]), shown(held)) or EMPTY)}

    def holds(self, call: ToolCall) -> bool:
        """Whether a call needs an approval: see `is_held`."""
        if call.name not in self.tools or (
            self.remember and self.marks and self._mark(call) in self.marks
        ):
            return False
        spec, guards = self.known.get(call.name), self.ctx.machine.registry.guards
        return is_held(spec, call, self.ctx.facts, self.when, guards)

    def clear(self, key: str, call: ToolCall) -> Cleared | ToolResult:
        """Decide on a call right before it is made: the call to make, or the result instead."""
        if call.name not in self.tools:
            return Cleared(call)
        held = self.held.get(key)
        if held is None or any(held[name] != text for name, text in call.to_mapping().items()):
            if self.holds(call):
                return self._refuse(call, "nobody was asked")
            found = parsed_arguments(self.known[call.name], call)
            return found if isinstance(found, ToolResult) else Cleared(call)
        decision: Mapping[str, Any] = self.request["decisions"].get(key, EMPTY)
        by, word = decision.get("by") or "a person", decision.get("decision")
        if word == ACCEPT and "result" in decision:
            text = text_for_model(decision["result"])
            note = f"[not executed: {by} answered in the tool's place]"
            return ToolResult(f"{note}\n{text}", result=decision["result"])
        now = shown(held)
        if word == ACCEPT or (word == EDIT and not self.holds(now)):
            given = call if "edited" not in held else shown({**held, "runs": held["edited"]})
            if word == ACCEPT:
                spec = self.known.get(call.name)
                same = (one for one in (given, now) if _is_frozen(spec, one, held))
                if (now := next(same, None)) is None:
                    return self._refuse(call, "its tool would get other arguments than were shown")
            note = f"[executed with other arguments, by {held.get('edited_by') or 'a person'}: "
            return Cleared(now, f"{note}{given.arguments}]" if "edited" in held else "")
        late = self.request.get("answer") == "expired"
        if (word == DENY or late) and self.ctx.facts.marks.rules > 2:
            self.denied.add(f"{self.ctx.key}/{key}")
        if word == DENY:
            note = decision.get("note", "")
            return self._refuse(call, "it was denied" + (f": {note}" if note else ""))
        return self._refuse(call, "no answer came in time" if late else "nobody was asked")

    def _refuse(self, call: ToolCall, why: str) -> ToolResult:
        return failed_result(f"`{call.name}` was not approved: {why}")

    def _mark(self, call: ToolCall) -> str:
        """The digest that an equal call has under the same gate and schema; empty if invalid."""
        spec = self.known.get(call.name)
        if spec is None or (arguments := arguments_got(spec, call.arguments)) is None:
            return ""
        when = self.when.text if self.when is not None else ""
        parts = [call.name, dict(spec.parameters), self.who, when, arguments]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def is_held(
    tool: ToolSpec | None, call: ToolCall, facts: Facts, when: Expression | None,
    guards: Mapping[str, GuardSpec],
) -> bool:  # fmt: skip
    """Whether a call waits under a gate with this condition.

    One that cannot be judged does. One with wrong arguments does not: it is answered with what is
    wrong, and is never made.
    """
    if tool is None:
        return True
    if (arguments := arguments_got(tool, call.arguments)) is None:
        return False
    if when is None:
        return True
    known = widen(facts, call={"name": call.name, "arguments": arguments})
    try:
        return when.value(known, lambda n, args: guards[n].call(*args)) is not False
    except Exception:  # noqa: BLE001  a missing argument, or whatever a Python guard raises
        return True


def _frozen(spec: ToolSpec | None, call: ToolCall) -> dict[str, Any] | None:
    """What a person is shown of a call, see `core.approvals`; None if its arguments are wrong."""
    if spec is None:
        return {}
    given, gets = arguments_of(call), arguments_got(spec, call.arguments)
    if gets is None:
        return None
    defaults: list[str] = []
    runs = as_given(given if isinstance(given, dict) else {}, gets, defaults)
    left = {n: v for n, v in defaults_of(spec).items() if n not in gets}
    found = {"runs": None if _same(runs, given) else runs, "defaults": defaults, "left_out": left}
    return {name: value for name, value in found.items() if value}


def _is_frozen(spec: ToolSpec | None, call: ToolCall, held: Mapping[str, Any]) -> bool:
    """Whether the tool gets from this call what was shown of a held one, whatever was upgraded."""
    now = _frozen(spec, call)
    return now is not None and _same(
        [now.get("left_out"), now.get("runs", arguments_of(call))],
        [held.get("left_out"), arguments_of(shown(held))],
    )


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: ``true`` is not ``1``."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
