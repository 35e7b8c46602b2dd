"""Steps: the finished actions of a run and its current one, in the form of document 004.

A view computed from the records on demand and never stored. Belongs here: an action's type of
step, its input and its output. Never: deciding anything.

Source: 004 "Execution Step", "Step Types", "Step Status", `execution-step->hash`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from chartloop.core.conversation import arguments_of, open_calls
from chartloop.core.facts import ToolCall
from chartloop.core.outcome import Outcome
from chartloop.core.plain import plain
from chartloop.core.records import Record
from chartloop.core.traits import StepType
from chartloop.language.spec import StateSpec
from chartloop.machine.build import Chart
from chartloop.run.journal import Journal
from chartloop.run.session import Session

StepStatus = Literal["pending", "running", "completed", "failed"]


class Step(NamedTuple):
    """One action of a run. Times in seconds, `timestamp` since 1970-01-01 UTC.

    Source: 004 `execution-step`.
    """

    id: str
    """Also the action's idempotency key."""
    agent_id: str
    """The agent's id, or the machine's name if it has none."""
    number: int
    """From 1, as in `run.steps`, except that the steps of a child that shares the conversation
    count one by one."""
    timestamp: float
    """When it started; for the current step, when its state was entered."""
    type: StepType
    """`user-message`, `llm-inference`, `tool-call`, `memory-update` or `system`."""
    input: Any = None
    """The input, in the form of the step's type; for several tool calls, a list. For a `system`
    step, or a memory update that the file itself makes, the output once it is known, else None."""
    output: Any = None
    """The output, in the form of the step's type; None unless it is completed. A memory update
    that failed keeps its `operation` and `block_name`, with the `error`."""
    status: StepStatus = "pending"
    """`pending`, `running`, `completed` or `failed`."""
    duration: float | None = None
    error: str | None = None
    metadata: Mapping[str, Any] = {}
    """`state` and `action`; for a finished step `record`, and `run` if a child did it; the
    `category` of a failure, `warnings`, and the names of `dropped` calls."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return plain(self)


async def steps_of(session: Session, records: Sequence[Record]) -> tuple[Step, ...]:
    """The finished steps of a run, and its current one if it has not ended.

    The steps of a child that shares the conversation count as this run's: they replace the step
    that ran the child.
    """
    failures = {e["step"]: e for e in session.tally.errors}
    history = _History(session.chart, session.run_id, failures)
    done: list[Step] = []
    for record in records:
        if (step := history.finish_step(record)) is not None:
            done += await _inside(session.journal, session.chart, record, step) or [step]
    done = [step._replace(number=n) for n, step in enumerate(done, 1)]
    history.number = len(done)
    position = session.position
    state = session.chart.spec.states.get(position.state)
    if not records or position.ended or state is None or state.action is None:
        return tuple(done)
    current = history.begin_step(state, position.entered_at)
    busy = session.turn.is_held and position.status != "paused"
    return (*done, current._replace(status="running") if busy else current)


async def _inside(journal: Journal, chart: Chart, record: Record, step: Step) -> list[Step]:
    """The steps of the child that a step ran in this run's conversation; empty for other steps."""
    state, outcome = chart.spec.states[record.state], record.input.outcome
    result: Any = None if outcome is None else outcome.result
    shared = state.args.get("share")
    if not isinstance(result, Mapping) or shared is None or "messages" not in shared.value:
        return []
    result = cast("Mapping[str, Any]", result)
    run_id, name = str(result.get("run", "")), str(state.args["machine"].value)
    if not run_id or name not in chart.spec.machines:
        return []
    inner = _History(chart.child(name), run_id, {}, step.agent_id)
    out: list[Step] = []
    for made in await journal.records(run_id):
        if (done := inner.finish_step(made)) is not None:
            out.append(done._replace(metadata={**done.metadata, "run": run_id}))
    return out


class _History:
    """The part of the records so far that the next step depends on."""

    def __init__(
        self, chart: Chart, run_id: str, failures: Mapping[int, Mapping[str, Any]], agent: str = ""
    ) -> None:
        self.chart = chart
        self.run_id = run_id
        self.given_agent = agent
        self.agent = agent or chart.name
        self.task = ""
        self.number = 0
        self.calls: tuple[ToolCall, ...] = ()
        """The calls of the newest reply that have not been made."""
        self.done = 0
        """The number of actions so far, part of a step's id."""
        self.unsaved = failures
        """Failures by step: an action may succeed although its result cannot be saved."""

    def begin_step(self, state: StateSpec, at: float) -> Step:
        """The step of a state's action, before it is executed."""
        action = "" if state.action is None else state.action.name
        kind, carried = state.traits.step, state.calls
        calls = self.calls[:1] if carried == "first" else self.calls
        tools = self.chart.spec.registry.tools
        if carried == "first" and any(c.name in tools and tools[c.name].memory for c in calls):
            kind = "memory-update"
        content: Any = None
        if kind == "user-message":
            content = {"content": self.task}
        elif kind == "llm-inference":
            content = {}
        elif kind == "tool-call":
            content = (
                {"tool_name": state.named_tool}
                if carried == "named"
                else _one([_call(call) for call in calls])
            )
        elif kind == "memory-update" and carried != "none":
            content = _one([_change(call) for call in calls])
        return Step(
            f"{self.run_id}/{state.name}/{self.done}", self.agent, self.number + 1, at,
            kind, content, metadata={"state": state.name, "action": action},
        )  # fmt: skip

    def finish_step(self, record: Record) -> Step | None:
        """The finished step of a record; None if the record has no action."""
        given, state = record.input, self.chart.spec.states.get(record.state)
        if given.kind == "start":
            self.agent = self.given_agent or given.data.get("agent") or self.agent
            self.task = given.data.get("task", "")
            given_messages = given.data.get("messages", ())
            self.calls = open_calls(given_messages, self.chart.spec.wire_names)
        if given.outcome is None or state is None:
            return None
        step = self.begin_step(state, given.started)
        if step.type == "user-message" and not self.task:  # the run has no task
            step = step._replace(type="system", input={"action": step.metadata["action"]})
        self.number += 1
        self.done += 1
        if given.outcome.reply is not None:
            self.calls = given.outcome.reply.tool_calls
        elif step.type in ("tool-call", "memory-update") and given.outcome.ok:
            self.calls = ()
        more = {
            "record": record.seq, "warnings": [*given.outcome.warnings],
            "dropped": [call.name for call in given.outcome.dropped],
        }  # fmt: skip
        step = step._replace(
            duration=max(0.0, given.at - given.started),
            metadata={**step.metadata, **{k: v for k, v in more.items() if v != []}},
        )
        return self._close_step(step, given.outcome, state)

    def _close_step(self, step: Step, outcome: Outcome, state: StateSpec) -> Step:
        told = outcome.tool_errors or outcome.denied
        unsaved = None if told else self.unsaved.get(step.number)
        if outcome.ok and unsaved is None:
            output = _output(step, outcome, state)
            given = output if step.input is None else step.input
            step = step._replace(status="completed", input=given, output=output)
            # a tool call says in its output whether it failed; a memory update has no such field
            if step.type != "memory-update" or not told:
                return step
            error = next(one["error"] for one in _all(output) if "error" in one)
            metadata = {**step.metadata, "category": "RECOVERABLE"}
            return step._replace(status="failed", error=error, metadata=metadata)
        error = unsaved or {}
        if outcome.error is not None:
            error = {"category": outcome.error.category, "message": outcome.error.message}
        metadata = {**step.metadata, "category": error.get("category")}
        return step._replace(status="failed", error=error.get("message"), metadata=metadata)


def _output(step: Step, outcome: Outcome, state: StateSpec) -> Any:
    """The output of a step, in the form of document 004."""
    result = outcome.result
    match step.type:
        case "user-message":
            return {
                "message_id": step.id, "content": result["text"], "timestamp": step.timestamp,
            }  # fmt: skip
        case "llm-inference" if outcome.reply is not None:
            spent = outcome.spent
            usage = {
                "prompt_tokens": spent.prompt_tokens, "completion_tokens": spent.completion_tokens,
                "total_tokens": spent.prompt_tokens + spent.completion_tokens,
            }  # fmt: skip
            return {
                "content": outcome.reply.text,
                "tool_calls": [_call(call) for call in outcome.reply.tool_calls],
                "usage": usage, "finish_reason": outcome.reply.finish_reason,
            }  # fmt: skip
        case "tool-call" if state.calls == "named":
            return {**step.input, "status": "completed", "result": result, "error": None}
        case "tool-call":
            # not strict: a deadline may have ended it before every call was done
            return _one(
                [_call_with_result(a, r) for a, r in zip(_all(step.input), result, strict=False)]
            )
        case "memory-update" if isinstance(result, list):
            results = cast(list[Mapping[str, Any]], result)
            asked = zip(_all(step.input), results, strict=False)
            return _one([r["result"] if r["ok"] else _failed_change(a, r) for a, r in asked])
        case _:
            return result


def _failed_change(change: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: change[name] for name in ("operation", "block_name") if name in change}
    return {**kept, "error": result["content"].removeprefix("error: ")}


def _call_with_result(call: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    status, error = ("completed", None) if result["ok"] else ("failed", result["content"])
    value = result["result"] or result["content"]
    return {**call, "status": status, "result": value, "error": error}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"tool_name": call.name, "arguments": arguments_of(call)}


def _change(call: ToolCall) -> dict[str, Any]:
    """The change that a memory tool asks for: `operation`, and its arguments."""
    arguments, operation = arguments_of(call), call.name.rpartition("_")[2]
    if not isinstance(arguments, dict):
        return {"operation": operation, "arguments": arguments}
    return {"operation": operation, **cast(dict[str, Any], arguments)}


def _one(items: list[Any]) -> Any:
    return items[0] if len(items) == 1 else items


def _all(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else [value]
