"""The task queue: `enqueue`, `work`, `apply_fix`.

A tool, one model call or a child machine does a task. Its result may be a *report*: a mapping with
`metrics` (numbers by name, for `measure`), and with `tasks` and `improvements` to add.

Primary tasks come first. When none is left, all known improvements start together, as one
improvement cycle.

Source: 003 "Task Queue", "Quality Thresholds", "Apply User Fix"; 000 `task_context`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple, cast

from chartloop.actions.annotations import Field
from chartloop.actions.declare import action
from chartloop.actions.infer import complete, request_messages
from chartloop.actions.run_machines import GRACE, drive, outcome_of, waiting
from chartloop.actions.run_tool import run_tool
from chartloop.core.conversation import user
from chartloop.core.errors import Category, ModelError, TaskError, nearest
from chartloop.core.facts import CUT_SHORT, EMPTY, Failure, QueueFacts, Task, ToolCall
from chartloop.core.fold import name_tasks
from chartloop.core.outcome import Blocked, Outcome, Spent
from chartloop.core.specs import Effect
from chartloop.core.traits import BY_FIELDS, ActionTraits, Count
from chartloop.core.types import ANY, COUNTER, STR, list_of, struct
from chartloop.run.children import ChildStart
from chartloop.run.context import Context
from chartloop.run.doubts import settle
from chartloop.run.exceptions import outcome_of_call
from chartloop.run.sanitize import cut_text, read_json, sound_data
from chartloop.run.tracing import around_tool

KEPT = "work"
"""The key of `Position.kept` for the reports of tasks, a `TaskReports`."""
RECENT_RESULTS = 3
"""The number of task results that are kept for the strategy `essentials`."""


class TaskReports(NamedTuple):
    """The merged reports of the tasks so far."""

    metrics: Mapping[str, float] = EMPTY
    """The newest value of each metric."""
    before: Mapping[str, float] = EMPTY
    """The values when the current improvement cycle started."""
    cycle: int = 0
    """The number of the improvement cycle that started last; 0 before the first."""
    results: tuple[str, ...] = ()
    """The texts of the newest results, oldest first."""


def reports_of(ctx: Context) -> TaskReports:
    """The reports of the tasks of the run so far."""
    return TaskReports(**ctx.kept.get(KEPT, EMPTY))


# the queue ----------------------------------------------------------------------------------


_FIELDS = ("id", "text", "kind", "acceptance", "by")
_KINDS = ("primary", "improvement")
NO_QUEUE = QueueFacts()
_DOERS = ("tool", "prompt", "machine")


def tasks_of(
    data: Any, taken: Iterable[str], queue: QueueFacts = NO_QUEUE, *, kind: str = "primary"
) -> tuple[Task, ...]:
    """Make tasks from a text, a mapping, or a list of either, for a queue with these `taken` ids.

    A task without an id gets `task_<n>` with the next free number. Raises `TaskError`.
    """
    entries = cast("list[Any]", data) if isinstance(data, (list, tuple)) else [data]
    tasks = [_task(entry, number, kind) for number, entry in enumerate(entries)]
    there = frozenset(taken)
    ids = set(there)
    for number, task in enumerate(tasks):
        if task.id in ids:
            problem = f": there is a task `{task.id}` already"
            raise _task_error(number, problem, "give it another `id`")
        ids |= {task.id} - {""}
    return name_tasks(tasks, there, queue)


def _task_error(number: int, problem: str, hint: str) -> TaskError:
    return TaskError(f"task {number + 1}{problem}", hint=hint, number=number)


def _task(entry: Any, number: int, kind: str) -> Task:
    if not isinstance(entry, (str, Mapping)):
        word = type(entry).__name__
        hint = "write `{text: what is to be done}`"
        raise _task_error(number, f" is {word}, neither a text nor a mapping", hint)
    entries: Mapping[str, Any] = {"text": entry} if isinstance(entry, str) else cast(Any, entry)
    fields: dict[str, Any] = {"id": "", "acceptance": "", "kind": kind, "by": None, **entries}
    by: Any = fields.pop("by") or {}
    if problem := _field_problem(fields):
        raise _task_error(number, *problem)
    if not _is_doer(by):
        hint = "write `by: {tool: its_name}`"
        raise _task_error(number, ": `by` is one of `tool`, `prompt`, `machine`", hint)
    return Task(**fields, by=cast("dict[str, Any]", by))


def _field_problem(fields: Mapping[str, Any]) -> tuple[str, str] | None:
    """The error in the fields of a task, with its cure; None if there is none."""
    if unknown := [key for key in fields if key not in _FIELDS]:
        word = str(unknown[0])
        return f" has `{word}`; a task has {', '.join(_FIELDS)}", nearest(word, _FIELDS)
    if wrong := [name for name, value in fields.items() if not isinstance(value, str)]:
        return f": `{wrong[0]}` must be a text", "put it in quotes"
    if not fields.get("text", "").strip():
        return " has no text", "`text` says what is to be done"
    if (kind := fields["kind"]) not in _KINDS:
        return f": a task is `primary` or an `improvement`, not `{kind}`", nearest(kind, _KINDS)
    return None


def _is_doer(by: Any) -> bool:
    """Whether `by` is valid: empty, or a tool, prompt or machine with a text."""
    if not isinstance(by, Mapping):
        return False
    doers = cast("Mapping[str, Any]", by)
    return len(doers) <= 1 and all(k in _DOERS and isinstance(v, str) for k, v in doers.items())


def _not_tasks(value: Any) -> str | None:
    try:
        tasks_of(value, ())
    except TaskError as error:
        return f"tasks, but {error.message}"
    return None


_ADDED = {"added": list_of(STR)}


@action(
    work=False, effect="pure", traits=BY_FIELDS, result=struct(_ADDED, keyed=True),
    changes="queue.*", supplies="tasks",
    example="""\
add:
  do: enqueue
  with: {tasks: vars.steps}
  next: work""",
    reads=(),
)  # fmt: skip
def enqueue(ctx: Context, tasks: Annotated[Any, Field(check=_not_tasks)]) -> Outcome:
    """Adds tasks at the end of the queue.

    Args:
        tasks: A text, a mapping with `text`, or a list of them.
    """
    try:
        added = tasks_of(tasks, (task.id for task in ctx.queue), ctx.facts.queue)
    except TaskError as error:
        return Outcome.failure(Category.RECOVERABLE, error.message, kind="tasks")
    ids = [task.id for task in added]
    return Outcome(result={"added": ids}, queue=(*ctx.queue, *added) if added else None)


# the work -----------------------------------------------------------------------------------


class Attempt(NamedTuple):
    """An attempt at a task: its effects and its result."""

    outcome: Outcome
    """The failure, or the usage, messages and changes of the task, but not its result."""
    text: str = ""
    result: Any = None


@action(
    traits=ActionTraits(
        asks="task", calls="task", runs="task", fails="by_world",
        counts=(Count("queue.done", 1, 1, on="ok"), Count("queue.failed", 0, 1, on="failed")),
    ),
    result=struct({"task": STR, "text": STR, "result": ANY}, keyed=True),
    intents="own", changes=("queue.*", "memory.*"), needs="tasks",
    supplies=("conversation", "tasks"),
)  # fmt: skip
async def work(
    ctx: Context, attempts: Annotated[int, Field(type=COUNTER)] = 3
) -> Outcome | Blocked:
    """Does the next task of the queue, by its tool, its prompt or its machine.

    A failed task stays first, so that a wait or a person's fix applies to it.

    Args:
        attempts: How often a task may fail before it is given up; default 3.
    """
    queue, known = _ready(ctx.queue, reports_of(ctx), await _task_with_child(ctx))
    if not queue or not _waits(queue[0]):
        return Outcome.failure(Category.RECOVERABLE, "the queue is empty", kind="no_task")
    task = queue[0]
    begun = Outcome(kept={KEPT: known._asdict()})
    ctx.so_far = partial(_fail_task, ctx, begun, _failure("cut off"), queue, attempts)
    doubt = _Doubt(ctx, task, begun, queue, attempts)
    name = task.by.get("tool")
    about = {"state": ctx.state.name, "action": "work", **({"tool": name} if name else {})}
    if doubt.tool is not None and doubt.tool.effect is Effect.PAID:
        await ctx.host.note_restored(ctx.key, about)
    if doubt.exists and (settled := doubt.settle()) is not None:
        return settled
    ctx.at_end = doubt.cut
    if "machine" not in task.by:  # a child records its own calls
        await ctx.intent(ctx.key, about)
    attempt = await _attempt(ctx, task)
    if isinstance(attempt, Blocked):
        return attempt
    if attempt.outcome.in_doubt:
        await ctx.host.note_unknown({"left": "said"}, ctx.key)
        if (settled := doubt.settle(attempt.outcome.error)) is not None:
            return settled
    outcome = _merge_attempt(ctx, attempt, queue, known, attempts)
    return await _at_deadline(ctx, outcome) if outcome.timed_out else outcome


@action(
    work=False, effect="pure", traits=BY_FIELDS, result=struct({"note": STR, **_ADDED}, keyed=True),
    changes=("queue.*", "errors.consecutive", "errors.retries"),
    supplies=("conversation", "tasks"),
    reads="answer",
)  # fmt: skip
def apply_fix(ctx: Context) -> Outcome:
    """Puts the answer's `note` into the conversation and its `tasks` first in the queue.

    Resets `errors.consecutive`.
    """
    answer: Mapping[str, Any] = ctx.facts.last.answer or {}
    note = str(answer.get("note", ""))
    more: Any = answer.get("tasks") or answer.get("task") or []
    try:
        added = tasks_of(more, (task.id for task in ctx.queue), ctx.facts.queue)
    except TaskError as error:
        return Outcome.failure(Category.RECOVERABLE, f"the answer's {error.message}", kind="tasks")
    return Outcome(
        result={"note": note, "added": [task.id for task in added]},
        messages=(user(note),) if note else (),
        queue=(*added, *ctx.queue) if added else None,
        forgiven=True,
    )


class _Doubt:
    """The treatment of a task whose tool may have been carried out: it is not tried again."""

    def __init__(
        self, ctx: Context, task: Task, begun: Outcome, queue: tuple[Task, ...], attempts: int
    ) -> None:
        self.ctx, self.begun, self.queue, self.attempts = ctx, begun, queue, attempts
        self.tool = ctx.machine.registry.tools.get(str(task.by.get("tool", "")))

    @property
    def exists(self) -> bool:
        """Whether the call of the task is in doubt, or somebody has decided on it."""
        host, key = self.ctx.host, self.ctx.key
        return self.tool is not None and (host.doubt(key) is not None or key in host.calls.decided)

    def settle(self, failure: Failure | None = None) -> Outcome | Blocked | None:
        """The wait for who decides, or the failure of the task; None: it is tried again."""
        ctx = self.ctx
        job, now = ctx.host.jobs[ctx.state.name], ctx.ports.clock.now()
        settled = settle(ctx.host, job, ctx.key, now, self.tool)
        if settled is None or isinstance(settled, Blocked):
            return settled
        error, attempts = failure or settled.error, 1 if settled.in_doubt else self.attempts
        assert error is not None
        return _fail_task(ctx, settled.replace(kept=self.begun.kept), error, self.queue, attempts)

    async def cut(self) -> Blocked | None:
        """The wait for a decision on a call that the deadline cut in two; None: the task fails."""
        host, key, tool = self.ctx.host, self.ctx.key, self.tool
        if tool is None or tool.effect is not Effect.PAID or key not in host.calls.pending:
            return None
        await host.note_unknown({"left": "cut"}, key)
        settled = self.settle()
        if isinstance(settled, Outcome):
            self.ctx.so_far = lambda: settled
        return settled if isinstance(settled, Blocked) else None


def _merge_attempt(
    ctx: Context, attempt: Attempt, queue: tuple[Task, ...], known: TaskReports, attempts: int
) -> Outcome:
    """The outcome of an attempt at the first task of the queue."""
    task, rest = queue[0], queue[1:]
    outcome, text, result = attempt
    outcome = outcome.replace(kept={KEPT: known._asdict()})
    if outcome.error is not None:
        return _fail_task(ctx, outcome, outcome.error, queue, attempts)
    try:
        metrics, more = _report(result, task, rest, ctx.facts.queue)
    except TaskError as error:
        failure = _failure(f"the report of `{task.id}`: {error.message}", kind="report")
        return _fail_task(ctx, outcome, failure, queue, attempts)
    reports = known._replace(
        metrics={**known.metrics, **metrics},
        results=(*known.results, cut_text(text)[:2000])[-RECENT_RESULTS:],
    )
    return outcome.replace(
        result={"task": task.id, "text": text, "result": result},
        queue=(*rest, *more),
        kept={KEPT: reports._asdict()},
        changes={**outcome.changes, "queue.done": ctx.facts.queue.done + 1},
        progressed=True,
    )


async def _task_with_child(ctx: Context) -> str:
    """The id of the task whose child run exists and must be continued; empty if there is none."""
    if not any("machine" in task.by for task in ctx.queue):
        return ""
    runs = {row.run_id for row in await ctx.host.find_children()}
    return next((task.id for task in ctx.queue if f"{ctx.host.place}/{task.id}" in runs), "")


def _ready(
    queue: Sequence[Task], known: TaskReports, begun: str
) -> tuple[tuple[Task, ...], TaskReports]:
    """The queue in the order of work, after starting an improvement cycle if one is due."""
    at_hand = [task for task in queue if task.id == begun] or queue
    if queue and not any(map(_waits, at_hand)):
        number = known.cycle + 1
        known = known._replace(cycle=number, before=known.metrics)
        queue = [task if _waits(task) else task.replace(cycle=number) for task in queue]
    # the sort is stable, so equal tasks keep their order
    return tuple(
        sorted(
            queue,
            key=lambda t: (t.id != begun, not _waits(t), not t.attempts, t.kind != "primary"),
        )
    ), known


def _waits(task: Task) -> bool:
    return task.kind == "primary" or task.cycle > 0


def _failure(text: str, category: str = Category.RECOVERABLE, kind: str = "task") -> Failure:
    return Failure(str(category), text, "", kind)


def _fail_task(
    ctx: Context, outcome: Outcome, error: Failure, queue: Sequence[Task], attempts: int
) -> Outcome:
    task, *rest = queue
    tried = task.replace(attempts=task.attempts + 1)
    given_up = tried.attempts >= attempts
    again = "given up" if given_up else f"attempt {tried.attempts} of {attempts}"
    failure = error.replace(message=f"task `{task.id}` failed ({again}): {error.message}")
    failed = {"queue.failed": ctx.facts.queue.failed + 1} if given_up else {}
    return outcome.replace(
        ok=False, error=failure, queue=tuple(rest) if given_up else (tried, *rest),
        changes={**outcome.changes, **failed}, result={"task": task.id, "given_up": given_up},
    )  # fmt: skip


async def _at_deadline(ctx: Context, failed: Outcome) -> Outcome:
    """Wait for the deadline, before which a child was stopped, and return its failure.

    Otherwise the next task would start before the time limit is reached, and fail at once.
    """
    ctx.so_far = lambda: failed
    left = 0.0 if ctx.deadline is None else ctx.deadline - ctx.ports.clock.now()
    await ctx.ports.clock.sleep(max(left, 0.0))
    return failed


def _report(
    result: Any, task: Task, rest: Sequence[Task], queue: QueueFacts
) -> tuple[Mapping[str, float], tuple[Task, ...]]:
    """The metrics and the new tasks that a result reports."""
    if not isinstance(result, Mapping):
        return EMPTY, ()
    report = cast("Mapping[str, Any]", result)
    metrics = cast("Mapping[str, float]", report.get("metrics") or EMPTY)
    if not isinstance(metrics, Mapping) or not all(map(_is_number, metrics.values())):  # pyright: ignore[reportUnnecessaryIsInstance]  a tool may write anything
        raise TaskError("`metrics` must be numbers by name")
    taken = [task.id, *(other.id for other in rest)]
    more = tasks_of(report.get("tasks") or [], taken, queue)
    taken += [other.id for other in more]
    better = tasks_of(report.get("improvements") or [], taken, queue, kind="improvement")
    return metrics, (*more, *better)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _failed_attempt(text: str, *more: str, **named: str) -> Attempt:
    return Attempt(Outcome(ok=False, error=_failure(text, *more, **named)))


async def _attempt(ctx: Context, task: Task) -> Attempt | Blocked:
    match list(task.by.items()) or [("prompt", "")]:
        case [("tool", str(name))]:
            return await _by_tool(ctx, task, name)
        case [("prompt", str(text))]:
            return await _by_prompt(ctx, task, text)
        case [("machine", str(name))]:
            return await _by_machine(ctx, task, name)
        case _:
            return _failed_attempt("a task is done by one of `tool`, `prompt`, `machine`")


async def _by_tool(ctx: Context, task: Task, name: str) -> Attempt:
    spec = ctx.machine.registry.tools.get(name)
    if spec is None:
        return _failed_attempt(f"there is no tool `{name}`", Category.CRITICAL)
    if ctx.machine.approve is not None and name in ctx.machine.approve.tools:
        return _failed_attempt(f"`{name}` needs an approval, which a task cannot have")
    given = spec.for_task(task.text, task.id, task.acceptance)
    try:
        arguments = spec.parse(json.dumps(given, ensure_ascii=False))
    except ValueError as error:
        return _failed_attempt(str(error), kind="arguments")
    with around_tool(ctx.ports.tracer, ToolCall("", name, ""), spec) as trace:
        result = await run_tool(ctx, spec, arguments, ctx.key)
        trace(result)
    outcome = Outcome(
        ok=result.ok, error=None if result.ok else _failure(result.text, result.category),
        spent=Spent(tools={name: 1}), changes=result.changes, signals=result.signals,
        in_doubt=result.in_doubt, unknown=int(result.in_doubt),
        partial=result.partial, progressed=result.progressed,
    )  # fmt: skip
    return Attempt(outcome, result.text, result.text if result.result is None else result.result)


async def _by_prompt(ctx: Context, task: Task, text: str) -> Attempt:
    message = "\n\n".join(part for part in (text, task.text, done_when(task)) if part)
    request = user(message)
    try:
        made = await complete(ctx, (*request_messages(ctx), request))
    except ModelError as error:
        return Attempt(outcome_of_call(error))
    outcome = Outcome(
        messages=(request, made.reply.message), spent=made.spent, warnings=made.warnings,
        context_tokens=made.spent.prompt_tokens + made.spent.completion_tokens,
    )  # fmt: skip
    text = made.reply.text
    shown = text if not made.reply.tool_calls else None  # a call that nobody was shown is no result
    if missing := _missing(shown, cut_short=made.reply.finish_reason in CUT_SHORT):
        kept = outcome.messages if text.strip() else ()  # the next attempt reads what was cut off
        return Attempt(outcome.replace(ok=False, error=missing, messages=kept))
    return Attempt(outcome, text, _as_report(text))


async def _by_machine(ctx: Context, task: Task, name: str) -> Attempt | Blocked:
    if name not in ctx.machine.machines:
        return _failed_attempt(f"there is no child machine `{name}`", Category.CRITICAL)
    note = "\n\n".join(part for part in (task.text, done_when(task)) if part)
    (child,) = await drive(ctx, {task.id: ChildStart(name, note)}, grace=GRACE)
    if not child.ended:
        return waiting([child])
    outcome, result = await outcome_of(ctx, child), child.result
    output = result.output if result.output is not None else result.facts.last.text
    replied = result.output is not None or result.facts.last.finish_reason
    missing = _missing(output if replied else None, cut_short=result.facts.marks.cut_short)
    if outcome.error is None and missing is not None:
        return Attempt(outcome.replace(ok=False, error=missing))
    return Attempt(outcome, output if isinstance(output, str) else json.dumps(output), output)


def _missing(result: object, *, cut_short: bool) -> Failure | None:
    """The failure of a task that has nothing to show, or only the beginning of it."""
    if cut_short:
        return _failure("its reply was cut off", kind="reply")
    if isinstance(result, str) and not result.strip():
        return _failure("there is no result: the reply is empty", kind="reply")
    return None


def done_when(task: Task) -> str:
    """The acceptance criteria of a task as a sentence; empty if it has none."""
    return f"It is done when: {task.acceptance}" if task.acceptance else ""


def _as_report(text: str) -> Any:
    """A reply's data if it is a JSON object, which may be a report; else its text."""
    try:
        data = read_json(text)
    except ValueError:
        return text
    return sound_data(data) if isinstance(data, dict) else text
