"""The fold of inputs into facts: the arithmetic of a run, pure.

`fold` runs once per step. Where it leads is decided by `machine.evolve`, which calls it.

Source: docs/reference/facts.md; 000 `ExecutionMetrics`, 003 "Monitoring".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, filterfalse
from typing import Any

from chartloop.core.errors import StatusError
from chartloop.core.facts import (
    CUT_SHORT,
    FACTS,
    PARTS,
    RECENT,
    SEEN,
    ApprovalFacts,
    ErrorFacts,
    Facts,
    Failure,
    QueueFacts,
    Task,
    ToolCall,
    UsageFacts,
    parts_of,
)
from chartloop.core.outcome import NOTHING_SPENT, Outcome, problem_with
from chartloop.core.plain import plain
from chartloop.core.specs import ActionSpec
from chartloop.core.transcript import Conversation, estimate_messages
from chartloop.core.types import Type

_BY_NAME = frozenset({"memory", "limits", "vars"})
"""The sections that are mappings, with keys from the file."""
MOST = 1.7976931348623157e308
"""The largest float, because JSON has no infinity."""


def fold(  # noqa: PLR0913  one caller, which passes all parts of a step
    facts: Facts, outcome: Outcome, *, state: str, action: ActionSpec, started: float, at: float,
    saved: Mapping[str, Any], messages: Conversation, stopping: bool = False,
) -> Facts:  # fmt: skip
    """Return the facts after an action has finished. While `stopping`, no action counts as work.

    `saved` are the assignments of the state's `save`, `messages` is the conversation after the
    action. Times are seconds since the epoch; a clock that went back counts as standing still.
    `run.visits` is a fresh copy, which the decision that follows updates in place.
    Raises `StatusError` if the outcome would lower a fact that only grows; one of a `sound` action
    never does.
    """
    spent, reply, error = outcome.spent, outcome.reply, outcome.error
    if not action.sound and spent is not NOTHING_SPENT and (wrong := problem_with(spent)):
        raise StatusError(f"an action cannot have used {wrong}")
    if outcome.changes and (fell := falling(facts, outcome.changes)):
        raise StatusError(f"`{fell}` only grows: no action can set it back")
    marks, last = facts.marks, facts.last
    work, moved = action.work and not stopping, outcome.queue is not None
    if outcome.changes or saved:
        changed = {**outcome.changes, **saved}
        moved = moved or not all(_same(lookup(facts, n), value) for n, value in changed.items())
        new = assign(facts, changed)
        facts = facts.replace(
            queue=new.queue, progress=new.progress, memory=new.memory, vars=new.vars
        )
    queue, progress, errors = facts.queue, facts.progress, facts.errors
    if outcome.queue is not None:
        queue = queue_facts(queue, outcome.queue)

    now = max(at, marks.now)
    # no process drove the run: it was killed, or waited for a person
    undriven = min(started, now) - marks.now if started > marks.now else 0.0
    elapsed, idle = now - facts.run.started_at, facts.run.idle + undriven
    run = facts.run.replace(
        steps=facts.run.steps + 1, visits=dict(facts.run.visits), elapsed=elapsed,
        working=elapsed - idle, idle=idle,
    )  # fmt: skip

    # calls of a reply beyond the most that are read, then those that its action did not execute
    dropped = len(outcome.dropped) + (last.calls_dropped if reply is None else 0)
    denied = len(outcome.denied)
    calls, seen, repeats = marks.last_calls, marks.seen, progress.repeats
    if reply is not None:
        last = last.replace(
            text=reply.text, finish_reason=reply.finish_reason, model=reply.model,
            tool_calls=reply.tool_calls, wants_memory=reply.wants_memory,
        )  # fmt: skip
        calls = tuple(map(_fingerprint, reply.tool_calls))
        repeats = repeats + 1 if calls and calls == marks.last_calls else 0
        if unseen := tuple(filterfalse(seen.__contains__, calls)):
            seen, moved = (*seen, *unseen)[-SEEN:], True
    last = last.replace(
        state=state, action=action.name, ok=outcome.ok, result=outcome.result,
        error=None if error is None else error.replace(state=state), calls_dropped=dropped,
        denied=denied + (last.denied if reply is None else 0),
    )  # fmt: skip
    marks = marks.replace(
        now=now, progress_at=now if outcome.progressed else marks.progress_at,
        work=marks.work + work, work_failed=marks.work_failed + (work and not outcome.ok),
        seen=seen, last_calls=calls, cut_short=outcome.cut_short
        or (marks.cut_short if reply is None else reply.finish_reason in CUT_SHORT),
        has_queue=marks.has_queue or outcome.queue is not None,
    )  # fmt: skip

    stalled_for = now - marks.progress_at
    if work:
        progress = progress.replace(
            stalled_steps=0 if moved else progress.stalled_steps + 1, stalled_for=stalled_for,
            repeats=repeats,
            recent=(*progress.recent, *(spent.tools or (action.name,)))[-RECENT:],
        )  # fmt: skip
    else:
        progress = progress.replace(stalled_for=stalled_for, repeats=repeats)

    in_trouble = errors.consecutive or errors.retries
    if not outcome.ok or outcome.tool_errors or outcome.forgiven or in_trouble:
        errors = _count_errors(errors, outcome, state, work)
    if work or outcome.queue is not None:
        failed, of = marks.work_failed, marks.work
        if marks.has_queue:
            failed, of = queue.failed, queue.done + queue.failed + queue.size
        rate = failed / of if of else 0.0
        if rate != errors.rate:
            errors = errors.replace(rate=rate)
    return facts.replace(
        run=run, usage=used(facts.usage, outcome, messages), errors=errors,
        approvals=ApprovalFacts(facts.approvals.denied + denied) if denied else facts.approvals,
        progress=progress, last=last, queue=queue, marks=marks,
    )  # fmt: skip


def _fingerprint(call: ToolCall) -> int:
    # crc32 instead of hash(): snapshots hold the fingerprints, so all processes must agree
    return zlib.crc32(f"{call.name}\0{call.arguments}".encode(errors="surrogatepass"))


def tick(facts: Facts, at: float) -> Facts:
    """The facts after time has passed and nothing else: before an answer, a resume, an edit ..."""
    run, marks = facts.run, facts.marks
    now = max(marks.now, at)
    idle = run.idle
    if marks.paused_at is not None:
        idle += now - max(marks.paused_at, run.started_at)
    elapsed = now - run.started_at
    return facts.replace(
        run=run.replace(elapsed=elapsed, idle=idle, working=elapsed - idle),
        progress=facts.progress.replace(stalled_for=now - marks.progress_at),
        marks=marks.replace(now=now, paused_at=None if marks.paused_at is None else now),
    )


def _same(before: Any, after: Any) -> bool:
    # a tuple comes back from a journal as a list
    if before == after or isinstance(after, str):
        return before == after
    return plain(before) == plain(after)


def used(usage: UsageFacts, outcome: Outcome, messages: Conversation) -> UsageFacts:
    """The usage after an action, with the size of the conversation."""
    spent, calls, tool_calls, cost = outcome.spent, usage.calls, usage.tool_calls, usage.cost
    context, prunable = outcome.context_tokens, outcome.prunable
    same = not outcome.held_messages and outcome.rewrite is None
    if outcome.unknown:
        usage = usage.replace(unknown_calls=usage.unknown_calls + outcome.unknown)
    if same and spent is NOTHING_SPENT and context is None and prunable is None:
        return usage
    if spent.tools:
        calls = {**calls}
        for name, times in spent.tools.items():
            calls[name] = calls.get(name, 0) + times
            tool_calls += times
    if spent.cost is not None:
        cost = min((cost or 0.0) + spent.cost, MOST)
    length, window = len(messages), usage.context_window
    if context is None and outcome.rewrite is None:  # the size before it may have been counted
        context = usage.context_tokens + estimate_messages(outcome.held_messages)
    elif context is None:
        context = messages.tokens
    if prunable is None:
        prunable = usage.prunable if same else length > 2
    sent = usage.prompt_tokens + spent.prompt_tokens
    written = usage.completion_tokens + spent.completion_tokens
    after = usage.replace(
        llm_calls=usage.llm_calls + spent.llm_calls,
        tool_calls=tool_calls, calls=calls,
        prompt_tokens=sent, completion_tokens=written, total_tokens=sent + written, cost=cost,
        messages=length, context_tokens=context, context_ratio=context / window if window else 0.0,
        prunable=prunable,
    )  # fmt: skip
    if not any(parts_of(spent)):
        return after
    return after.replace(**{name: getattr(usage, name) + getattr(spent, name) for name in PARTS})


def _count_errors(errors: ErrorFacts, outcome: Outcome, state: str, work: bool) -> ErrorFacts:
    total, last = errors.total, errors.last
    consecutive, retries = errors.consecutive, errors.retries
    if outcome.tool_errors:
        total += len(outcome.tool_errors)
        last = Failure("RECOVERABLE", outcome.tool_errors[-1], state, "tool")
    if not outcome.ok and outcome.error is not None:
        total += 1
        last = outcome.error.replace(state=state)
    if work:
        consecutive = 0 if outcome.ok else consecutive + 1
        retries = 0 if outcome.ok else retries
    if outcome.forgiven:
        consecutive, retries = 0, retries + 1
    return ErrorFacts(total, consecutive, errors.rate, retries, last)


def queue_facts(queue: QueueFacts, tasks: Sequence[Task]) -> QueueFacts:
    """The facts of a queue that holds these tasks. A started task comes first."""
    waiting = sum(1 for task in tasks if task.kind == "primary" or task.cycle)
    current = tasks[0] if tasks and tasks[0].attempts else None
    primary = any(task.kind == "primary" for task in tasks)
    return queue.replace(size=waiting, primary_done=not primary, current=current)


def name_tasks(tasks: Sequence[Task], taken: Iterable[str], queue: QueueFacts) -> tuple[Task, ...]:
    """Give each task a unique id: a missing or taken id becomes `task_<n>`.

    `n` is the first free number above the count of finished tasks.
    """
    ids = set(taken)
    own = {task.id for task in tasks} - ids
    free = (
        name for n in count(queue.done + queue.failed + 1) if (name := f"task_{n}") not in ids | own
    )
    named: list[Task] = []
    for task in tasks:
        name = task.id if task.id and task.id not in ids else next(free)
        ids.add(name)
        named.append(task.replace(id=name))
    return tuple(named)


def lookup(facts: Facts, name: str) -> Any:
    """The value of a fact, limit, variable or memory block by its dotted name."""
    root, _, field = name.partition(".")
    section = getattr(facts, root)
    if root in _BY_NAME:
        return section.get(field)
    head, _, rest = field.partition(".")
    value = getattr(section, head)
    return value.get(rest) if rest and isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


def falling(facts: Facts, changes: Mapping[str, Any]) -> str:
    """The first change that would lower a fact that only grows; empty if there is none."""
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
        changed[root] = {**section, **fields} if root in _BY_NAME else section.replace(**fields)
    return facts.replace(**changed)
