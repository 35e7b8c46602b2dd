"""Facts after an input: the arithmetic of a run, pure.

`fold` is called once a step, so sections are built by position and only where something
changed. Nothing here decides anything; see `machine.evolve`.

Source: design "language", section 6; 000 `ExecutionMetrics`, 003 "Monitoring".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol, TypeVar, cast

from chartloop.core.amounts import problem_with
from chartloop.core.errors import StatusError
from chartloop.core.facts import (
    FACTS,
    RECENT,
    SEEN,
    ErrorFacts,
    Facts,
    Failure,
    LastFacts,
    Marks,
    ProgressFacts,
    QueueFacts,
    RunFacts,
    Task,
    ToolCall,
    UsageFacts,
)
from chartloop.core.outcome import NOTHING_SPENT, Outcome
from chartloop.core.plain import plain
from chartloop.core.specs import ActionSpec
from chartloop.core.tokens import estimate_messages
from chartloop.core.types import Type

_BY_NAME = frozenset({"memory", "limits", "vars"})
"""The sections that are mappings: what the file names."""
T = TypeVar("T")


class _New(Protocol):
    def __call__(self, made: type[T], fields: tuple[Any, ...], /) -> T: ...


new: _New = cast(Any, tuple).__new__
"""What the constructor of a named tuple calls, at half its price: all fields, in their order.

Only for what every step makes anew.
"""
MOST = 1.7976931348623157e308
"""The greatest float: JSON has no infinity."""


def fold(  # noqa: PLR0913  called once, with what one step came to
    facts: Facts, outcome: Outcome, *, state: str, action: ActionSpec, started: float, at: float,
    saved: Mapping[str, Any], messages: int, stopping: bool = False,
) -> Facts:  # fmt: skip
    """The facts after an action has finished. Once the run is `stopping` nothing is work.

    `saved` are the assignments of the state's `save`; `messages` is how many the conversation
    has now. Times are seconds since the epoch; a reading below an earlier one counts as that.
    `run.visits` is a copy of its own, which the decision that follows counts up in place.
    Raises `StatusError` for an outcome that would make a fact fall that only grows.
    """
    reply, changes, tasks = outcome.reply, outcome.changes, outcome.queue
    if outcome.spent is not NOTHING_SPENT and (wrong := problem_with(outcome.spent)):
        raise StatusError(f"an action cannot have used {wrong}")
    if changes and (fell := falling(facts, changes)):
        raise StatusError(f"`{fell}` only grows: no action can set it back")
    run, usage, errors, progress, last, queue, signals, memory, limits, vars_, marks = facts
    before, progress_at, paused_at, worked, work_failed, seen, last_calls, has_queue = marks
    now = max(at, before)
    work = action.work and not stopping
    if outcome.progressed:
        progress_at = now
    # where nobody drove the run, it was killed, or a person took their time
    run = _stepped(run, now, min(started, now) - before if started > before else 0.0)
    moved = False
    if changes or saved:
        changed = {**changes, **saved}
        moved = not all(_same(lookup(facts, name), value) for name, value in changed.items())
        _, _, _, progress, _, queue, _, memory, _, vars_, _ = assign(facts, changed)
    if tasks is not None:
        queue, moved, has_queue = queued(queue, tasks), True, True
    usage = _used(usage, outcome, messages)
    in_trouble = errors.consecutive or errors.retries
    if not outcome.ok or outcome.tool_errors or outcome.forgiven or (work and in_trouble):
        errors = _erred(errors, outcome, state, work)
    stalled, _, repeats, recent, cycles, improving, improvements, magnitude = progress
    if reply is not None:
        calls = _fingerprints(reply.tool_calls)
        repeats = repeats + 1 if calls and calls == last_calls else 0
        last_calls = calls
        if fresh := [c for c in calls if c not in seen]:
            moved, seen = True, (*seen, *fresh)[-SEEN:]
    if work:
        worked, work_failed = worked + 1, work_failed + (not outcome.ok)
        stalled = 0 if moved else stalled + 1
        recent = (*recent, *(outcome.spent.tools or (action.name,)))[-RECENT:]
    if work or tasks is not None:
        rate = _rate(queue, worked, work_failed, has_queue)
        if rate != errors.rate:
            errors = errors._replace(rate=rate)
    progress = new(
        ProgressFacts,
        (stalled, now - progress_at, repeats, recent, cycles, improving, improvements, magnitude),
    )
    last = _newest(last, outcome, state, action.name)
    marks = new(
        Marks, (now, progress_at, paused_at, worked, work_failed, seen, last_calls, has_queue)
    )
    return new(
        Facts, (run, usage, errors, progress, last, queue, signals, memory, limits, vars_, marks)
    )


def _newest(last: LastFacts, outcome: Outcome, state: str, name: str) -> LastFacts:
    _, _, _, _, _, answer, text, finish_reason, tool_calls, wants_memory, dropped = last
    reply, error = outcome.reply, outcome.error
    if reply is not None:
        text, finish_reason, tool_calls, wants_memory, _ = reply
        dropped = 0
    if outcome.dropped:
        dropped = len(outcome.dropped)
    if error is not None:
        error = error._replace(state=state)
    return new(LastFacts, (
        state, name, outcome.ok, error, outcome.result, answer,
        text, finish_reason, tool_calls, wants_memory, dropped
    ))  # fmt: skip


def _stepped(run: RunFacts, now: float, undriven: float) -> RunFacts:
    """One step more, at that time. `undriven` are seconds in which nobody drove the run."""
    (
        id, machine, agent, session, task, status, paused_from, steps, visits, _, _, idle, begun,
        continuations, depth,
    ) = run  # fmt: skip
    elapsed = now - begun
    idle += undriven
    return new(RunFacts, (
        id, machine, agent, session, task, status, paused_from, steps + 1, dict(visits), elapsed,
        elapsed - idle, idle, begun, continuations, depth
    ))  # fmt: skip


def tick(facts: Facts, at: float) -> Facts:
    """The facts when only time has passed: before an answer, a resume, a stop, an edit ..."""
    run, marks = facts.run, facts.marks
    now = max(marks.now, at)
    idle = run.idle
    if marks.paused_at is not None:
        idle += now - max(marks.paused_at, run.started_at)
    elapsed = now - run.started_at
    return facts._replace(
        run=run._replace(elapsed=elapsed, idle=idle, working=elapsed - idle),
        progress=facts.progress._replace(stalled_for=now - marks.progress_at),
        marks=marks._replace(now=now, paused_at=None if marks.paused_at is None else now),
    )


def _same(before: Any, after: Any) -> bool:
    # a list that was read back from a journal is the tuple that it was before
    if before == after or isinstance(after, str):
        return before == after
    return plain(before) == plain(after)


def _used(usage: UsageFacts, outcome: Outcome, messages: int) -> UsageFacts:
    """What an action spent, and the size of the conversation after it."""
    rewrite, added, spent = outcome.rewrite, outcome.messages, outcome.spent
    if (
        spent is NOTHING_SPENT and messages == usage.messages and rewrite is None
        and outcome.context_tokens is None and outcome.prunable is None
    ):  # fmt: skip
        return usage
    (
        llm_calls, tool_calls, calls, prompt, completion, _, cost, _, context, window, _, prunable
    ) = usage  # fmt: skip
    asked, sent, written, paid, _, tools = spent
    if tools:
        calls = {**calls, **{n: calls.get(n, 0) + k for n, k in tools.items()}}
        tool_calls += sum(tools.values())
    if paid is not None:
        cost = min((cost or 0.0) + paid, MOST)
    if outcome.context_tokens is not None:
        context = outcome.context_tokens
    elif rewrite is not None:
        context = estimate_messages((*rewrite, *added))
    elif added:
        context += estimate_messages(added)
    if outcome.prunable is not None:
        prunable = outcome.prunable
    elif added or rewrite is not None:
        prunable = messages > 2
    prompt += sent
    completion += written
    return new(UsageFacts, (
        llm_calls + asked, tool_calls, calls, prompt, completion, prompt + completion, cost,
        messages, context, window, context / window if window else 0.0, prunable
    ))  # fmt: skip


def _erred(errors: ErrorFacts, outcome: Outcome, state: str, work: bool) -> ErrorFacts:
    total, consecutive, retries, last = (
        errors.total,
        errors.consecutive,
        errors.retries,
        errors.last,
    )
    if outcome.tool_errors:
        total += len(outcome.tool_errors)
        last = Failure("RECOVERABLE", outcome.tool_errors[-1], state, "tool")
    if not outcome.ok and outcome.error is not None:
        total += 1
        last = outcome.error._replace(state=state)
    if work:
        consecutive = 0 if outcome.ok else consecutive + 1
        retries = 0 if outcome.ok else retries
    if outcome.forgiven:
        consecutive, retries = 0, retries + 1
    return ErrorFacts(total, consecutive, errors.rate, retries, last)


def _rate(queue: QueueFacts, work: int, failed: int, has_queue: bool) -> float:
    if has_queue:
        known = queue.done + queue.failed + queue.size
        return queue.failed / known if known else 0.0
    return failed / work if work else 0.0


def _fingerprints(calls: tuple[ToolCall, ...]) -> tuple[int, ...]:
    # crc32, not hash(): the fingerprints stand in snapshots and must be the same in every process
    return tuple([
        zlib.crc32(f"{c.name}\0{c.arguments}".encode(errors="surrogatepass")) for c in calls
    ])  # fmt: skip


def queued(queue: QueueFacts, tasks: Sequence[Task]) -> QueueFacts:
    """The facts of a queue that holds these tasks. The one that was begun stands first."""
    waiting = sum(1 for task in tasks if task.kind == "primary" or task.cycle)
    current = tasks[0] if tasks and tasks[0].attempts else None
    primary = any(task.kind == "primary" for task in tasks)
    return queue._replace(size=waiting, primary_done=not primary, current=current)


def named(tasks: Sequence[Task], taken: Iterable[str], queue: QueueFacts) -> tuple[Task, ...]:
    """Tasks with ids of their own: one without, or with one that is taken, gets `task_<n>`.

    That is the first number that is free, and beyond as many as the queue has seen go.
    """
    ids = set(taken)
    own = {task.id for task in tasks} - ids
    free = (
        name for n in count(queue.done + queue.failed + 1) if (name := f"task_{n}") not in ids | own
    )
    made: list[Task] = []
    for task in tasks:
        name = task.id if task.id and task.id not in ids else next(free)
        ids.add(name)
        made.append(task._replace(id=name))
    return tuple(made)


def lookup(facts: Facts, name: str) -> Any:
    """The value of a dotted fact, limit, variable or memory block."""
    root, _, field = name.partition(".")
    section = getattr(facts, root)
    if root in _BY_NAME:
        return section.get(field)
    head, _, rest = field.partition(".")
    value = getattr(section, head)
    return value.get(rest) if rest and isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def falling(facts: Facts, changes: Mapping[str, Any]) -> str:
    """The first of these changes by which a fact would fall that only grows; empty: none does."""
    for name, value in changes.items():
        spec = FACTS.get(name)
        if spec is not None and _falls(spec.type, lookup(facts, name), value):
            return name
    return ""


def _falls(type: Type, before: Any, after: Any) -> bool:
    if type.kind == "map" and type.of is not None:
        of = type.of
        return any(_falls(of, count, after.get(key)) for key, count in before.items())
    return type.grows and before is not None and not (after is not None and after >= before)


def assign(facts: Facts, values: Mapping[str, Any]) -> Facts:
    """The facts with dotted names set: ``vars.plan``, ``memory.persona``, ``queue.size``."""
    by_root: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        root, _, field = name.partition(".")
        by_root.setdefault(root, {})[field] = value
    changed: dict[str, Any] = {}
    for root, fields in by_root.items():
        section = getattr(facts, root)
        changed[root] = {**section, **fields} if root in _BY_NAME else section._replace(**fields)
    return facts._replace(**changed)
