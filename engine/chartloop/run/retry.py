"""Trying a run again from where it failed: what is kept, and which calls would be made again.

A retry is a fork below the step at which the run failed, which is then driven. Attempts at that
step that follow each other count as one failure: the fork leaves all of them out, so that it has
its retries again. A step that succeeded and after which a limit stopped the run is kept: its
recorded outcome is decided again under the raised limit, so no call of it is made again.

Belongs here: the decision, pure. Never: forking, driving (`api.retrying`), a face.

Source: docs/stuck.md, "Try it again".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from chartloop.core.facts import EMPTY, Facts
from chartloop.core.outcome import Outcome
from chartloop.core.plain import plain
from chartloop.core.position import IN_DOUBT
from chartloop.core.reasons import ResultKind
from chartloop.core.records import Record
from chartloop.core.specs import Effect, ToolSpec
from chartloop.core.units import say_count, say_number, write_duration
from chartloop.core.visible import short
from chartloop.machine.build import Chart
from chartloop.machine.guard_text import say_value, type_at
from chartloop.machine.in_doubt import policy
from chartloop.run.calls import Begun, begun_in
from chartloop.run.journal import CHILD_MARK, Event, RunRow

CLOCK_FACTS = ("run.elapsed", "run.working")
"""Facts that a clock moves. `run.elapsed` goes on while nothing drives the run."""


class CallAgain(NamedTuple):
    """Calls of one kind that the retry would make again."""

    kind: Literal["model", "tool", "machine"]
    name: str
    """The name of the model, the tool or the child machine; empty for an unknown model."""
    state: str
    times: int
    failed: int
    """Of these, those that gave no answer: what they cost is not known."""
    tokens: int
    cost: float | None
    """USD that they cost before; None if it is not known."""
    run: str = ""
    """The child run that did it before; a retry starts another one."""


class CallInDoubt(NamedTuple):
    """A paid call that was begun, and of which nobody knows whether it was carried out."""

    key: str
    state: str
    name: str
    """The tool, or the action that made it."""
    at: float
    """When it was begun, in seconds since the epoch."""
    then: Literal["retry", "ask"] = "retry"
    """How the new run treats it."""


class LimitReached(NamedTuple):
    """A limit that would stop the retry as it stopped the run."""

    name: str
    """Without ``limits.``"""
    fact: str
    used: str
    """In words: ``20 of 20``."""
    raised: Any
    """A value with room for as much again, as a file would write it."""


class RetryPlan(NamedTuple):
    """What trying a run again would keep, and what it would do again."""

    run: str
    kind: ResultKind
    """How the run ended."""
    at: int
    """The first record that the fork leaves out."""
    failed: int
    """The record at which it failed: the one to look at."""
    state: str
    """The state in which the retry starts."""
    kept: int
    """Finished actions that are kept."""
    attempts: int
    """How often the failed step was tried; 0 if no step failed."""
    error: Mapping[str, Any] | None
    """The failure: its category, message, state, kind and step; None without one."""
    keeps_outcome: bool
    """Whether the outcome of the newest step is kept, and only decided again."""
    calls: tuple[CallAgain, ...] = ()
    doubts: tuple[CallInDoubt, ...] = ()
    limits: tuple[LimitReached, ...] = ()
    refusal: str = ""
    """Why there is nothing to try again; empty if there is."""
    hint: str = ""
    successor: str = ""
    """The newest run that follows this one: another attempt, or the next message."""
    tried: str = ""
    """How it stands, and what was paid there; empty if there is no such run."""

    @property
    def cost(self) -> float | None:
        """What the calls cost before, in USD; None if that of one of them is not known."""
        known = [call.cost for call in self.calls if call.cost is not None]
        return sum(known) if len(known) == len(self.calls) else None

    @property
    def tokens(self) -> int:
        """The tokens of these calls."""
        return sum(call.tokens for call in self.calls)

    @property
    def needs_confirmation(self) -> bool:
        """Whether somebody has to agree: it makes calls again, or it is not known what was done."""
        return bool(self.calls or self.doubts or self.tried)

    @property
    def digest(self) -> str:
        """What is agreed to: other calls, limits or attempts have another digest."""
        limits = [(one.name, one.fact not in CLOCK_FACTS and one.used) for one in self.limits]
        shown = repr((self.run, self.at, self.calls, self.doubts, limits, self.tried))
        return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def explain(self) -> list[str]:
        """The plan in lines, for people."""
        if self.refusal:
            return [self.refusal]
        steps = say_count(self.kept, "finished step")
        where = (
            f"goes on after `{self.state}`" if self.keeps_outcome else f"starts at `{self.state}`"
        )
        lines = [f"{steps} kept; it {where}, in a new run"]
        lines += [f"Before: {self.tried}"] if self.tried else []
        lines += [f"Again: {_say_call(call)}" for call in self.calls]
        if not self.calls:
            lines.append("No call is made a second time")
        elif len(self.calls) > 1:
            known = sum(call.cost or 0.0 for call in self.calls)
            least = "" if self.cost is not None else "at least "
            spent = _say_spent(self.tokens, known)
            lines.append(f"In all: {least}{spent}")
        lines += [
            f"In doubt: {doubt.name} at `{doubt.state}` was begun, and may have been carried out; "
            + ("it is made again" if doubt.then == "retry" else "the new run asks about it first")
            for doubt in self.doubts
        ]
        lines += [
            f"Limit reached: `limits.{limit.name}`, {limit.used}; {limit.raised} would do"
            for limit in self.limits
        ]
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for HTTP and the command line."""
        return {
            **plain(self), "cost": self.cost, "tokens": self.tokens, "digest": self.digest,
            "needs_confirmation": self.needs_confirmation, "lines": self.explain(),
        }  # fmt: skip


def plan_retry(
    chart: Chart, row: RunRow, tail: Sequence[Event], *, kind: ResultKind, facts: Facts,
    children: Sequence[RunRow] = (), now: float = 0.0,
) -> RetryPlan:  # fmt: skip
    """The plan for a run.

    `tail` are its newest events, in order: `is_enough` says whether they reach back far enough.
    `facts` are those at its end, `children` the rows of its children.
    """
    records = [event.record for event in tail if event.record is not None]
    refused = _refusal(row, kind)
    if refused is None and (not records or _stop_of(records).seq == 0):
        refused = "The run stopped before its first step", "start it again, with other limits"
    if refused is not None:
        state = records[-1].state if records else row.state
        end = records[-1].seq + 1 if records else 0
        return RetryPlan(
            row.run_id, kind, end, max(0, end - 1), state, facts.run.steps, 0, None,
            keeps_outcome=False, refusal=refused[0], hint=refused[1],
        )  # fmt: skip
    stop = _stop_of(records)
    first, newest, attempts = _failures(records, stop)
    at, done = first.seq, newest.outcome
    left_out = [one for one in records if one.seq >= at]
    acted = sum(one.kind == "step" for one in left_out)
    keeps = kind == "limit" and done is not None and done.ok
    step = facts.run.steps - acted + 1
    error: Mapping[str, Any] | None = None
    if done is not None and done.error is not None:
        error = {
            "category": done.error.category, "message": done.error.message,
            "state": done.error.state or newest.state, "kind": done.error.kind,
            "step": step + attempts - 1,
        }  # fmt: skip
    calls: list[CallAgain] = []
    begun = [] if keeps else [*begun_in(_left_out(tail, at)).values()]
    if done is not None and not keeps:
        below = f"{row.run_id}{CHILD_MARK}{newest.state}{CHILD_MARK}{step + attempts - 2}"
        own = [one for one in children if one.run_id == below or one.run_id.startswith(f"{below}/")]
        calls = [*_calls_of(newest.state, done, own), *_effects(chart, newest, begun, facts)]
    limits = tuple(_limits(chart, facts, now)) if kind == "limit" else ()
    return RetryPlan(
        row.run_id, kind, at, newest.seq, first.state, facts.run.steps - acted + keeps, attempts,
        error, keeps, tuple(calls), tuple(_doubts(chart, begun, facts)), limits,
    )  # fmt: skip


def is_enough(tail: Sequence[Event]) -> bool:
    """Whether the newest events of an ended run hold its failure and the step before that."""
    records = [event.record for event in tail if event.record is not None]
    if not records or records[0].seq == 0:
        return bool(records)
    signals = [record for record in records if record.signals]
    if not signals:
        return False
    first, _, _ = _failures(records, _stop_of(records))
    return first.seq > records[0].seq


def _refusal(row: RunRow, kind: ResultKind) -> tuple[str, str] | None:
    if row.moved_to:
        return f"The run continues as run {row.moved_to}", "try that one again"
    if not row.ended:
        return "The run has not ended", "`resume` or an answer drives it on"
    if kind == "natural":
        return "The run is done: nothing failed", "`fork` makes another one of its steps"
    if CHILD_MARK in row.run_id:
        whole = f"try {row.parent} again"
        return "This run is a part of another one, which would not hear of it", whole
    return None


def _stop_of(records: Sequence[Record]) -> Record:
    """The record that stopped the run: what follows is its epilogue."""
    ended = next((record for record in records if record.signals), None)
    later = [record for record in records if ended is not None and record.seq >= ended.seq]
    # a signal that `continue_run` put off is followed by work
    stops = [record for record in later if record.signals]
    return stops[-1] if stops else records[-1]


def _failures(records: Sequence[Record], stop: Record) -> tuple[Record, Record, int]:
    """The first and the newest of the failures that led to the stop, and their number.

    Without a failure, the record that stopped the run, twice.
    """
    at = next(place for place, record in enumerate(records) if record.seq == stop.seq)
    if stop.outcome is None or stop.outcome.ok:
        return stop, stop, 0
    first, attempts = stop, 1
    for record in reversed(records[:at]):
        outcome = record.outcome
        asked = record.kind == "blocked" and record.input.data.get("on") == IN_DOUBT
        if asked and record.state == stop.state:
            first = record  # what was decided then is decided again
        if outcome is None and (record.aside or record.state == stop.state):
            continue  # a pause, the wait of a back-off
        if outcome is None or record.state != stop.state or outcome.ok:
            break
        first, attempts = record, attempts + 1
    return first, stop, attempts


def _calls_of(state: str, done: Outcome, children: Sequence[RunRow]) -> Iterator[CallAgain]:
    """The calls of the model and the children of a failed step."""
    spent = done.spent
    tokens = spent.prompt_tokens + spent.completion_tokens
    below = sum(child.tokens or 0 for child in children)
    calls = spent.llm_calls + done.unanswered
    if calls and (not children or tokens > below):
        name = done.reply.model if done.reply is not None else ""
        yield CallAgain(
            "model", name, state, calls, done.unanswered, tokens - below,
            None if done.unanswered or children else spent.cost,
        )  # fmt: skip
    for child in children:
        yield CallAgain(
            "machine", child.machine, state, 1, int(child.status == "error"), child.tokens or 0,
            child.cost if child.tokens else None, child.run_id,
        )  # fmt: skip


def _left_out(tail: Sequence[Event], at: int) -> Sequence[Event]:
    """The events after record `at - 1`."""
    for place, event in enumerate(tail):
        if event.record is not None and event.record.seq >= at - 1:
            return tail[place + (event.record.seq < at) :]
    return tail


def _effects(
    chart: Chart, failed: Record, begun: Sequence[Begun], facts: Facts
) -> Iterator[CallAgain]:
    """The calls of tools and own actions that a failed step began, by their intents.

    A call that may be repeated with its key has no intent: the state and the reply name it.
    """
    counts: dict[tuple[str, str], list[bool]] = {}
    for call in begun:
        if call.standing in ("done", "failed") and _has_effect(chart, call):
            counts.setdefault((call.name, call.state), []).append(call.standing == "failed")
    state = chart.spec.states.get(failed.state)
    action = None if state is None else state.action
    if state is not None and action is not None:
        ok = failed.outcome is not None and failed.outcome.ok
        if action.effect is Effect.LOCAL and not action.is_builtin:
            counts[action.name, state.name] = [not ok]
        batch = action.traits.calls in ("all", "first")
        tools: Mapping[str, ToolSpec] = chart.tools_at(state.name) if batch else EMPTY
        for call in facts.last.tool_calls:
            if (tool := tools.get(call.name)) and tool.effect is Effect.LOCAL and not tool.machine:
                counts.setdefault((tool.name, state.name), []).append(False)
    for (name, where), failures in counts.items():
        yield CallAgain("tool", name, where, len(failures), sum(failures), 0, 0.0)


def _has_effect(chart: Chart, call: Begun) -> bool:
    """Whether a call is one of a tool with effects, or of an own action."""
    if call.tool:
        tool = chart.spec.registry.tools.get(call.tool)
        return tool is None or tool.effect is Effect.PAID
    state = chart.spec.states.get(call.state)
    return state is None or state.action is None or "model" not in state.action.uses


def _doubts(chart: Chart, begun: Sequence[Begun], facts: Facts) -> Iterator[CallInDoubt]:
    """The calls whose outcome is not known, with what the retry does about each."""
    for call in begun:
        state = chart.spec.states.get(call.state)
        tool = chart.spec.registry.tools.get(call.tool)
        if call.standing != "unknown":
            continue
        again = False
        if state is not None and state.action is not None:
            rules = facts.marks.rules
            again = policy(chart.spec, state, state.action, tool, rules=rules) == "retry"
        yield CallInDoubt(call.key, call.state, call.name, call.at, "retry" if again else "ask")


def _limits(chart: Chart, facts: Facts, now: float) -> Iterator[LimitReached]:
    """The limits that are reached, each with a value that leaves as much room again."""
    named: set[str] = set()
    for guard in chart.spec.guards():
        bounds = {bound.text: bound for bound in guard.bounds}
        for reading in guard.readings(facts) if bounds else ():
            bound = bounds.get(reading.text)
            name = "" if bound is None else bound.bound_text.removeprefix("limits.")
            if bound is None or name == bound.bound_text or name in named:
                continue
            left, right = reading.left, reading.right
            limit = chart.spec.limits.get(name)
            if limit is None or not _is_number(left) or not _is_number(right):
                continue
            if bound.fact == "run.elapsed":
                left = max(left, now - facts.run.started_at)
            if left < right or (bound.strict and left == right):
                continue
            named.add(name)
            type = type_at(chart.spec.roots, bound.fact)
            used = f"{say_value(left, type)} of {say_value(right, type)}"
            yield LimitReached(name, bound.fact, used, _raised(limit.type.kind, left, right))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _raised(kind: str, used: float, limit: float) -> Any:
    """A limit with room for as much as the old one gave, as a file would write it."""
    more = used + limit if limit else used + 1
    match kind:
        case "duration":
            return write_duration(float(round(more)) if more >= 1 else more)
        case "fraction":
            return min(1.0, more)
        case "int":
            return int(more)
        case _:
            return more


def _say_call(call: CallAgain) -> str:
    what = {"model": "model call", "tool": "call", "machine": "child run"}[call.kind]
    child = call.run.rsplit(CHILD_MARK, 1)[-1]
    own = f" `{short(child)}`" if child and not child.isdecimal() else ""
    name = f" of {short(call.name)}" if call.name else ""
    text = f"{say_count(call.times, what)}{own}{name} at `{call.state}`"
    if call.failed:
        text += ", which failed" if call.failed == call.times else f", {call.failed} of them failed"
    return text if call.kind == "tool" else f"{text}: {_say_spent(call.tokens, call.cost)}"


def _say_spent(tokens: int, cost: float | None) -> str:
    price = "cost not known" if cost is None else f"${say_number(cost)}"
    return f"{say_count(tokens, 'token')}, {price}" if tokens else price
