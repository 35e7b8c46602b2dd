"""Facts after an input: the arithmetic of a run, pure.

`fold` is called once a step, so sections are built by position and only where something
changed. Nothing here decides anything; see `machine.evolve`.

Source: design "language", section 6; 000 `ExecutionMetrics`, 003 "Monitoring".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from interlock.core.facts import (
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
from interlock.core.outcome import NOTHING_SPENT, Outcome
from interlock.core.plain import plain
from interlock.core.specs import ActionSpec
from interlock.core.tokens import estimate_messages

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
    """
    run, usage, errors, progress, last, queue, signals, memory, limits, vars_, marks = facts
    now = max(at, marks.now)
    elapsed = now - run.started_at
    idle = run.idle
    if started > marks.now:  # nobody drove the run: it was killed, or a person took their time
        idle += min(started, now) - marks.now
    work, name = action.work and not stopping, action.name
    run = RunFacts(
        run.id, run.machine, run.agent, run.session, run.task, run.status, run.paused_from,
        run.steps + 1, dict(run.visits), elapsed, elapsed - idle, idle, run.started_at,
        run.continuations, run.depth,
    )  # fmt: skip
    calls = _fingerprints(outcome.reply.tool_calls) if outcome.reply is not None else None
    moved = False
    if outcome.changes or saved:
        changed = {**outcome.changes, **saved}
        moved = not all(_same(lookup(facts, name), value) for name, value in changed.items())
        _, _, _, progress, _, queue, _, memory, _, vars_, _ = assign(facts, changed)
    if outcome.queue is not None:
        queue, moved = queued(queue, outcome.queue), True
    if (
        outcome.spent is not NOTHING_SPENT or messages != usage.messages
        or outcome.rewrite is not None or outcome.context_tokens is not None
        or outcome.prunable is not None
    ):  # fmt: skip
        usage = _used(usage, outcome, messages)
    failed = not outcome.ok
    in_trouble = errors.consecutive or errors.retries
    if failed or outcome.tool_errors or outcome.forgiven or (work and in_trouble):
        errors = _erred(errors, outcome, state, work)
    worked, work_failed = marks.work + work, marks.work_failed + (work and failed)
    if work or outcome.queue is not None:
        has_queue = marks.has_queue or outcome.queue is not None
        rate = _rate(queue, worked, work_failed, has_queue)
        if rate != errors.rate:
            errors = errors._replace(rate=rate)
    seen, last_calls, repeats = marks.seen, marks.last_calls, progress.repeats
    if calls is not None:
        repeats = repeats + 1 if calls and calls == last_calls else 0
        last_calls = calls
        if fresh := [c for c in calls if c not in seen]:
            moved, seen = True, (*seen, *fresh)[-SEEN:]
    progress_at = now if outcome.progressed else marks.progress_at
    progress = ProgressFacts(
        (0 if moved else progress.stalled_steps + 1) if work else progress.stalled_steps,
        now - progress_at, repeats,
        (*progress.recent, *_recent(name, outcome))[-RECENT:] if work else progress.recent,
        progress.cycles, progress.improving, progress.improvements, progress.magnitude,
    )  # fmt: skip
    reply = outcome.reply
    error = outcome.error._replace(state=state) if outcome.error is not None else None
    last = (
        LastFacts(
            state, name, outcome.ok, error, outcome.result, last.answer,
            last.text, last.finish_reason, last.tool_calls, last.wants_memory,
        )
        if reply is None
        else LastFacts(
            state, name, outcome.ok, error, outcome.result, last.answer,
            reply.text, reply.finish_reason, reply.tool_calls, reply.wants_memory,
        )
    )  # fmt: skip
    marks = Marks(
        now, progress_at, marks.paused_at, worked, work_failed, seen, last_calls,
        marks.has_queue or outcome.queue is not None,
    )  # fmt: skip
    return Facts(run, usage, errors, progress, last, queue, signals, memory, limits, vars_, marks)


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
    return before == after or plain(before) == plain(after)


def _used(usage: UsageFacts, outcome: Outcome, messages: int) -> UsageFacts:
    spent = outcome.spent
    calls = usage.calls
    if spent.tools:
        calls = {**calls, **{n: calls.get(n, 0) + k for n, k in spent.tools.items()}}
    cost = usage.cost
    if spent.cost is not None:
        cost = min((cost or 0.0) + spent.cost, MOST)
    tokens = outcome.context_tokens
    if tokens is None:
        if outcome.rewrite is not None:
            tokens = estimate_messages((*outcome.rewrite, *outcome.messages))
        else:
            tokens = usage.context_tokens + (
                estimate_messages(outcome.messages) if outcome.messages else 0
            )
    window = usage.context_window
    prunable = outcome.prunable
    if prunable is None:
        changed = bool(outcome.messages) or outcome.rewrite is not None
        prunable = messages > 2 if changed else usage.prunable
    prompt = usage.prompt_tokens + spent.prompt_tokens
    completion = usage.completion_tokens + spent.completion_tokens
    return UsageFacts(
        usage.llm_calls + spent.llm_calls, usage.tool_calls + sum(spent.tools.values()), calls,
        prompt, completion, prompt + completion, cost, messages, tokens, window,
        tokens / window if window else 0.0, prunable,
    )  # fmt: skip


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


def _recent(action: str, outcome: Outcome) -> tuple[str, ...]:
    return tuple(outcome.spent.tools) or (action,)


def _fingerprints(calls: tuple[ToolCall, ...]) -> tuple[int, ...]:
    # crc32, not hash(): the fingerprints stand in snapshots and must be the same in every process
    return tuple(
        zlib.crc32(f"{c.name}\0{c.arguments}".encode(errors="surrogatepass")) for c in calls
    )


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
    if isinstance(section, Mapping):
        return section.get(field)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    head, _, rest = field.partition(".")
    value = getattr(section, head)
    return value.get(rest) if rest and isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def assign(facts: Facts, values: Mapping[str, Any]) -> Facts:
    """The facts with dotted names set: ``vars.plan``, ``memory.persona``, ``queue.size``."""
    by_root: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        root, _, field = name.partition(".")
        by_root.setdefault(root, {})[field] = value
    changed: dict[str, Any] = {}
    for root, fields in by_root.items():
        section = getattr(facts, root)
        changed[root] = (
            {**section, **fields} if isinstance(section, Mapping) else section._replace(**fields)
        )
    return facts._replace(**changed)
