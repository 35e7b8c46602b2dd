"""The model's replies and the tools' results in one record, as a script writes them.

A record holds the outcome of an action. It is read backwards here: to the reply, or the results,
that the same action turns into this outcome. Built-in tools and actions that only compute are not
scripted: they run again.

Belongs here: one record. Never: the order of records, children, files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, cast

from chartloop.actions import builtin
from chartloop.actions.prune import SUMMARY
from chartloop.actions.screen import NO_VERDICT
from chartloop.core.conversation import open_calls
from chartloop.core.facts import PARTS, ToolCall
from chartloop.core.outcome import Outcome, Reply, Spent
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.core.specs import Effect
from chartloop.core.units import write_duration
from chartloop.language.spec import MachineSpec
from chartloop.run.sanitize import text_for_model as as_text

Scripted = Any
"""A reply or a result as a script writes it."""

LATE = 1.0
"""Seconds past its deadline at which a scripted answer comes, if the recorded one was cut off."""
_ATTEMPT = re.compile(r"task `[^`]*` failed \((?:given up|attempt \d+ of \d+)\): ")
_FORMS = ({"error", "category", "progressed"}, {"stop", "reason"}, {"returns"}, {"delay", "result"})
"""The keys of mappings that a script does not read as data."""


class ToolOutput(NamedTuple):
    """One result of a tool."""

    tool: str
    result: Scripted


class Answers(NamedTuple):
    """The replies and results in one record, in order."""

    replies: tuple[Scripted, ...] = ()
    results: tuple[ToolOutput, ...] = ()
    unknown: str = ""
    """A description of answers that the record does not hold; empty if it holds all."""


NOTHING = Answers()


def answers_in(record: Record, before: Position, spec: MachineSpec) -> Answers:
    """The answers of the model and the tools to the action of a record.

    `before` is the position before the record.
    """
    outcome, state = record.outcome, spec.states.get(record.state)
    if outcome is None or state is None or state.action is None:
        return NOTHING
    took = max(0.0, record.input.at - record.input.started)
    if state.traits.screens is not None:
        outcome = _as_said(outcome, by_model=state.calls == state.traits.runs == "none")
    if state.traits.runs in ("one", "several"):
        return NOTHING  # the records of the children hold it
    match state.calls:
        case "all" | "first":
            calls = open_calls(before.messages, spec.wire_names)
            calls = calls[:1] if state.calls == "first" else calls
            allowed = spec.offered(state)
            own = {name for name in allowed if not _runs(name)}.difference(spec.children_of(state))
            return Answers(results=tuple(_results(outcome, calls, own, took)))
        case "named":
            name = state.named_tool
            return Answers(results=tuple(_single(name, outcome, took, outcome.result)))
        case "task" if outcome.spent.tools:
            (name,) = outcome.spent.tools
            result = cast("Mapping[str, Any]", outcome.result).get("result")
            return Answers(results=tuple(_single(name, outcome, took, result)))
        case _:
            return _of_model(outcome, took)


def _as_said(outcome: Outcome, *, by_model: bool) -> Outcome:
    """The outcome with the answer that its result was made from, whether that fitted or not."""
    result = outcome.result
    if not isinstance(result, Mapping):
        return outcome
    said: Any = cast("Mapping[str, Any]", result)["said"]
    unfit = outcome.error is not None and outcome.error.kind == NO_VERDICT
    error = None if unfit else outcome.error
    return outcome.replace(
        result=said, reply=Reply(said) if by_model and isinstance(said, str) else None,
        rewrite=None, ok=outcome.ok or unfit, error=error, signals=(),
    )  # fmt: skip


# the model ----------------------------------------------------------------------------------


def _of_model(outcome: Outcome, took: float) -> Answers:
    calls = outcome.spent.llm_calls + outcome.unanswered
    if not calls:
        return NOTHING
    if calls > 1:
        return Answers(unknown=f"{calls} model calls, of which the record holds what came of them")
    if outcome.unanswered:
        return Answers((_failure(outcome, took),))
    if outcome.error is not None and outcome.error.kind == "refusal":
        fields = {"usage": _usage(outcome.spent), "delay": _delay(took)}
        given = {name: value for name, value in fields.items() if value}
        return Answers(({"refusal": outcome.error.message, **given},))
    reply = outcome.reply or _reply_of(outcome)
    if reply is None:
        return Answers(unknown="a reply of the model, of which the record holds what came of it")
    return Answers((_reply(reply, outcome, took),))


def _reply_of(outcome: Outcome) -> Reply | None:
    """The reply of an action that keeps it elsewhere in its outcome: a summary, a task."""
    if outcome.rewrite:
        text = str(outcome.rewrite[0].get("content", ""))
        return Reply(text.removeprefix(SUMMARY)) if text.startswith(SUMMARY) else None
    if outcome.messages and outcome.messages[-1].get("role") == "assistant":
        return Reply(str(outcome.messages[-1].get("content", "")))
    return None


def _reply(reply: Reply, outcome: Outcome, took: float) -> Scripted:
    out: dict[str, Any] = {"text": reply.text} if reply.text or not reply.tool_calls else {}
    if reply.tool_calls:
        out["tool_calls"] = [
            {"name": call.name, "arguments": _arguments(call.arguments), "id": call.id}
            for call in reply.tool_calls
        ]
    if reply.finish_reason != ("tool_calls" if reply.tool_calls else "stop"):
        out["finish_reason"] = reply.finish_reason
    if usage := _usage(outcome.spent):
        out["usage"] = usage
    if delay := _delay(took):
        out["delay"] = delay
    return out["text"] if set(out) == {"text"} else out


def _arguments(text: str) -> Any:
    """The arguments of a call as a mapping if that gives the same text again, else as text."""
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        return text
    same = isinstance(data, dict) and json.dumps(data, ensure_ascii=False) == text
    return cast("Any", data) if same else text


def _usage(spent: Spent) -> dict[str, Any]:
    if spent.estimated:  # the provider sent no usage; a replay estimates it again
        usage: dict[str, Any] = {}
    else:
        usage = {
            "prompt_tokens": spent.prompt_tokens,
            "completion_tokens": spent.completion_tokens,
            **{name: count for name in PARTS if (count := getattr(spent, name))},
        }
    return usage if spent.cost is None else {**usage, "cost": spent.cost}


def _failure(outcome: Outcome, took: float) -> Scripted:
    if outcome.timed_out or outcome.error is None:
        return {"text": "", "delay": write_duration(took + LATE)}
    error = outcome.error
    failure = {"category": error.category, "message": _ATTEMPT.sub("", error.message, count=1)}
    kind = {"kind": error.kind} if error.kind else {}
    lag = {"delay": delay} if (delay := _delay(took)) else {}
    return {"error": {**failure, **kind}, **lag}


# tools --------------------------------------------------------------------------------------


def _results(
    outcome: Outcome, calls: Sequence[ToolCall], own: AbstractSet[str], took: float
) -> Iterator[ToolOutput]:
    """The results of a batch. Its delay goes with the first: the calls run at the same time."""
    done = {str(call["id"]): call for call in cast("list[Mapping[str, Any]]", outcome.result or [])}
    delay, extra = took, _extras(outcome)
    for call in (call for call in calls if call.name in own):
        entry = done.get(call.id)
        if entry is None:
            if outcome.timed_out:  # it was in flight when the deadline came
                yield ToolOutput(call.name, {"delay": write_duration(took + LATE), "result": None})
        elif entry["ok"] or not str(entry["content"]).startswith("error: The arguments of `"):
            # the tool itself was called, which invalid arguments prevent
            text, result = str(entry["content"]), entry.get("result")
            made = _result(outcome, _CallResult(call.name, entry["ok"], text, result), extra)
            yield ToolOutput(call.name, _after(delay, made))
            delay, extra = 0.0, {}


def _runs(tool: str) -> bool:
    """Whether a scenario runs a tool instead of scripting it: it is built in and only computes."""
    known = builtin().tools.get(tool)
    return known is not None and known.effect is Effect.PURE


def _single(name: str, outcome: Outcome, took: float, result: Any) -> Iterator[ToolOutput]:
    """The result of a tool that a state calls directly, without a model."""
    if _runs(name):
        return
    if outcome.timed_out:
        yield ToolOutput(name, {"delay": write_duration(took + LATE), "result": None})
        return
    text, extra = as_text(result), _extras(outcome)
    if outcome.error is not None:
        text = _ATTEMPT.sub("", outcome.error.message, count=1)
        if outcome.error.category != "RECOVERABLE":
            extra = {"category": outcome.error.category, **extra}
    call = _CallResult(name, outcome.ok, text, result)
    yield ToolOutput(name, _after(took, _result(outcome, call, extra)))


class _CallResult(NamedTuple):
    """The recorded result of one call."""

    tool: str
    ok: bool
    text: str
    result: Any


def _result(outcome: Outcome, call: _CallResult, extra: Mapping[str, Any]) -> Scripted:
    """The shortest scripted form that gives the same text, data and signal."""
    name, ok, text, result = call
    signal = next((s for s in outcome.signals if s.source == name and s.message == text), None)
    if signal is not None:
        reason = {} if signal.reason == "stop_requested" else {"reason": str(signal.reason)}
        return {"stop": signal.message, **reason}
    plain = {n: v for n, v in extra.items() if n in ("category", "progressed")}
    if not ok and text.startswith("error: ") and plain == extra:
        return {"error": text.removeprefix("error: "), **plain}
    if ok and not extra and as_text(result) == text and not _looks_special(result):
        return result
    data = {} if result is None else {"result": result}
    return {"returns": {"text": text, **({} if ok else {"ok": False}), **data, **extra}}


def _looks_special(result: Any) -> bool:
    keys = set(cast("Mapping[str, Any]", result)) if isinstance(result, Mapping) else None
    return bool(keys) and any(keys <= form for form in _FORMS)


def _extras(outcome: Outcome) -> dict[str, Any]:
    """What tools returned besides their texts; for several calls it goes with the first."""
    out: dict[str, Any] = {}
    changes = {n: v for n, v in outcome.changes.items() if n.startswith("memory.")}
    if changes and not any(map(_runs, outcome.spent.tools)):
        out["changes"] = changes
    if outcome.partial:
        out["partial"] = list(outcome.partial)
    if outcome.progressed:
        out["progressed"] = True
    return out


# time ---------------------------------------------------------------------------------------


def _after(took: float, result: Scripted) -> Scripted:
    return {"delay": delay, "result": result} if (delay := _delay(took)) else result


def _delay(took: float) -> Any:
    """The duration of an action, rounded to a hundredth of a second; None if that is 0."""
    return write_duration(round(took, 2)) if took >= 0.005 else None
