"""Child machines: `run_machine`, `run_machines`.

A child is one step of its parent: a box in the picture, a record in the log. It has its own file,
conversation and log. Its usage counts as the parent's, and of each budget that both name it gets
at most what the parent has left.

Source: docs/parallel.md; 000 "Subprocess Support"; 004 "Multi-agent
coordination", "Parallel step execution".
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict, cast

import anyio

from chartloop.actions.annotations import Field, Name, Texts, Values
from chartloop.actions.declare import action
from chartloop.core.errors import Category, LimitError
from chartloop.core.facts import Failure
from chartloop.core.fold import name_tasks
from chartloop.core.outcome import COUNTS, NOTHING_SPENT, Blocked, Outcome, Spent
from chartloop.core.position import CHILD
from chartloop.core.reasons import StopSignal
from chartloop.core.traits import RUNS_CHILD
from chartloop.core.types import (
    ANY,
    BOOL,
    COUNT,
    DURATION,
    STR,
    list_of,
    map_of,
    struct,
    word_of,
)
from chartloop.core.units import say_count
from chartloop.machine.child_budget import AT_ONCE
from chartloop.run.children import SHARED, STATUSES, Child, ChildStart, InOrder, calls_of
from chartloop.run.context import Context
from chartloop.run.exceptions import stop_with_parent, too_long
from chartloop.run.result import Result
from chartloop.run.sanitize import cut_text
from chartloop.run.session import StopRequest
from chartloop.run.shared_budget import SharedBudget, say_unbegun

MOST = 1_000
"""The most children of one action."""
GRACE = 0.25
"""Seconds before the deadline of an action at which a child is stopped that must end itself before
the action is cut off."""


class _Named(TypedDict):
    """The machine of a child."""

    machine: Annotated[
        str, Name("machine"), Field(about="A name under `machines`, or of a shipped machine.")
    ]


_Limits = Annotated[Mapping[str, Any], Values, Field(about="Limits that replace its own.")]


class _One(_Named, total=False):
    """The start of one child."""

    task: Annotated[str, Field(about="Its task.")]
    start: Annotated[str, Field("name", about="The state where it starts; default: its own.")]
    vars: Annotated[Mapping[str, Any], Values, Field(about="First values of its variables.")]
    memory: Annotated[Mapping[str, str], Texts, Field(about="First values of its memory blocks.")]
    limits: _Limits


def _is_share(value: Any) -> str | None:
    words = cast("list[Any]", value) if isinstance(value, list) else [None]
    return None if all(word in SHARED for word in words) else f"a list of {', '.join(SHARED)}"


class _Sharing(_One, total=False):
    """The start of a child that may share parts of the run.

    Args:
        share: Parts of this run that it shares and changes: a list of `messages`, `memory`,
            `queue`.
    """

    share: Annotated[Any, Field("data", check=_is_share)]


def _is_count(value: Any) -> str | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return None if whole and 1 <= value <= MOST else f"a number from 1 to {MOST:,}"


def _is_item(entry: Any) -> bool:
    types = {"task": str, "vars": Mapping}
    return isinstance(entry, str) or (
        isinstance(entry, Mapping)
        and all(
            name in types and isinstance(value, types[name])
            for name, value in cast("Mapping[str, Any]", entry).items()
        )
    )


def _bad_item(each: Iterable[Any]) -> str:
    wrong = next((n for n, one in enumerate(each, 1) if not _is_item(one)), 0)
    return f"item {wrong} of `each` is neither a text nor {_ITEM}" if wrong else ""


_ITEM = "{task: text, vars: mapping}"


def _not_items(value: Any) -> str | None:
    return ((bad := _bad_item(value)) and f"a list of tasks, but {bad}") or None


class _Several(TypedDict, total=False):
    """The start of several children.

    Args:
        children: Children by name, each with the fields of `run_machine`.
        machine: With `each`: the machine.
        each: A child for each item: a text is its task, or `{task, vars}`.
        most: The most items of `each` that get a child; further ones are left out.
        wait_for: `any`: the first that ends well stops the others; default `all`.
    """

    children: Annotated[Any, Field("fields", fields=_One)]
    machine: Annotated[str, Name("machine")]
    each: Annotated[list[Any], Field(check=_not_items)]
    most: Annotated[int, Field(needs="each", check=_is_count)]
    wait_for: Annotated[Literal["all", "any"], Field(type=STR)]
    limits: _Limits


_RESULT = {
    "run": STR, "machine": STR, "reason": STR, "kind": STR, "success": BOOL, "forced": BOOL,
    "status": word_of(STATUSES, "status of a child"), "state": STR, "steps": COUNT,
    "tokens": COUNT, "elapsed": DURATION,
    "usage": map_of(ANY), "output": ANY, "text": STR, "signals": list_of(ANY),
    "warnings": list_of(STR), "errors": list_of(ANY),
}  # fmt: skip
_ALL = {
    "children": list_of(struct({"name": STR, **_RESULT}, keyed=True)),
    "outputs": map_of(ANY),
}


@action(
    traits=RUNS_CHILD, effect="local", result=struct(_RESULT, keyed=True), suspends=False,
    fields=_Sharing, changes=("memory.*", "queue.*"), supplies=("conversation", "tasks"),
    example="""\
review:
  do: run_machine
  with:
    machine: reviewer
    task: "Review: {{ vars.text }}"
    vars: {strict: vars.score < 3}
    limits: {tokens: 5_000}
  save: {vars.verdict: result.output}
  next: work""",
    reads=(),
)  # fmt: skip
async def run_machine(ctx: Context, machine: str, **fields: Any) -> Outcome | Blocked:
    """Runs a child machine to its end; fails if the child ends in an error."""
    start = _child_start(machine, fields)
    try:
        (child,) = await drive(ctx, {"": start})
    except LimitError as error:
        return _bad_fields(error)
    if not child.ended:
        return waiting([child])
    outcome = await outcome_of(ctx, child)
    return await _merge_shared(child, outcome.replace(result=result_data(child)))


@action(
    traits=replace(RUNS_CHILD, runs="several"), effect="local", result=struct(_ALL, keyed=True),
    suspends=False, fields=_Several,
    example="""\
check_all:
  do: run_machines
  with: {machine: reviewer, each: vars.claims}
  save: {vars.verdicts: result.outputs}
  next: work""",
    reads=(),
)  # fmt: skip
async def run_machines(
    ctx: Context, wait_for: str = "all", each: Sequence[Any] = (), most: int | None = None,
    **fields: Any,
) -> Outcome | Blocked:  # fmt: skip
    """Runs child machines concurrently; they share what the parent has left."""
    items = each if most is None else each[: max(most, 0)]
    try:
        starts = {n: _child_start(f["machine"], f) for n, f in fields.get("children", {}).items()}
        starts |= _child_starts(items, fields)
        children = await drive(ctx, starts, first=wait_for == "any")
    except (LimitError, _BadItem) as error:
        return _bad_fields(error)
    if unfinished := [child for child in children if not child.ended]:
        return waiting(unfinished)
    outcome = await _merge(ctx, dict(zip(starts, children, strict=True)), wait_for)
    if len(items) == len(each):
        return outcome
    note = f"`each` has {say_count(len(each), 'item')}; the first {len(items):,} were run"
    return outcome.replace(warnings=(*outcome.warnings, note))


def _child_start(machine: str, fields: Mapping[str, Any]) -> ChildStart:
    shared: dict[str, Any] = {name: value for name, value in fields.items() if name != "machine"}
    if "share" in shared:
        shared["share"] = tuple(shared["share"])
    return ChildStart(machine, **shared)


class _BadItem(ValueError):
    """An item of `each` that is not a valid start of a child."""


def _child_starts(each: Sequence[Any], fields: Mapping[str, Any]) -> dict[str, ChildStart]:
    """The start of a child for each item: a text is its task, a mapping has `task` and `vars`."""
    if len(each) > MOST:
        raise _BadItem(f"`each` has {len(each):,} items; at most {MOST:,} children are run at once")
    if bad := _bad_item(each):
        raise _BadItem(bad)
    limits, out = fields.get("limits", {}), dict[str, ChildStart]()
    for number, item in enumerate(each, 1):
        entry: Any = {"task": item} if isinstance(item, str) else item
        out[str(number)] = _child_start(fields["machine"], {**entry, "limits": limits})
    return out


def _bad_fields(error: Exception) -> Outcome:
    text = error.message if isinstance(error, LimitError) else str(error)
    return Outcome.failure(Category.CRITICAL, cut_text(text), kind="with")


# driving ------------------------------------------------------------------------------------


async def drive(
    ctx: Context, starts: Mapping[str, ChildStart], *, first: bool = False, grace: float = 0.0
) -> list[Child]:
    """Drive children as far as they can go now. Their names are the suffixes of their ids.

    With `first`, the first that ends without an error stops the others. Their deadline is `grace`
    seconds before the action's.
    """
    await ctx.settle()  # the record before has called for them
    ports, order = ctx.ports, None
    if ports.model is not None:
        order = InOrder(ports.model, ctx.facts.usage.llm_calls + ctx.failed_calls)
    children = [
        Child(
            ctx, start, f"{ctx.host.place}/{name}" if name else ctx.host.place, order, grace=grace
        )
        for name, start in starts.items()
    ]
    for child in children:
        await child.open(len(children))
        if order is not None and child.session.head:
            order.pass_over(await calls_of(child.session))
    if len(children) > 1:
        shared = SharedBudget(ctx.machine, ctx.facts)
        for child in children:
            child.share(shared)
            shared.budgets(child.session.chart.spec)
        for child in children:
            shared.count(child.session.run_id, child.session.position.facts)
    active = [child for child in children if not child.ended]
    if first and _any_succeeded(children):  # a crash came before the others were stopped
        for child in active:
            child.give_up()
    if ports.clock.suspends and len(active) > 1:
        await _at_once(active, first)
    else:
        await _in_turns(active, first)
    return children


async def _in_turns(children: Sequence[Child], first: bool) -> None:
    """Step the children in turn, because simulated time can wait for only one of them."""
    active = list(children)
    while active:
        active = [child for child in active if await child.step()]
        if first and _any_succeeded(children):
            active = [child for child in children if child.give_up()]
            first = False


async def _at_once(children: Sequence[Child], first: bool) -> None:
    places = anyio.CapacityLimiter(AT_ONCE)

    async def one(child: Child) -> None:
        async with places:
            await child.drive()
        if first and _any_succeeded(children):
            for other in children:
                other.give_up()

    await _all(one, children)
    if first and _any_succeeded(children):  # a child that waited has not yet seen that it must stop
        await _all(one, [child for child in children if not child.ended])


async def _all(do: Callable[[Child], Coroutine[Any, Any, None]], children: Iterable[Child]) -> None:
    async with anyio.create_task_group() as group:
        for child in children:
            group.start_soon(do, child)


def _any_succeeded(children: Iterable[Child]) -> bool:
    return any(child.ended_well for child in children)


# outcomes -----------------------------------------------------------------------------------


def waiting(children: Sequence[Child]) -> Blocked:
    """Block the action while its children wait, with the first question that takes an answer."""
    questions = [child.asks for child in children]
    question = next((q for q in questions if q.events), questions[0])
    closing = all(q.closing for q in questions)
    question = question.replace(closing=closing, waiting=len(questions))
    times = [at for child in children if (at := child.wake_at) is not None]
    return Blocked(min(times, default=None), CHILD, question.to_data())


async def outcome_of(ctx: Context, *children: Child) -> Outcome:
    """The outcome of ended children for their parent, without a result."""
    results, request = [child.result for child in children], await ctx.host.find_any_stop_request()
    for child in children:  # another run of it must not repeat these
        for key, why in child.session.calls.unknown.items():
            await ctx.host.note_unknown({**why, "warned": True}, key)
    outcome = Outcome(
        spent=_total_spent(results),
        unanswered=sum(child.session.tally.failed_calls for child in children),
        unknown=sum(result.facts.usage.unknown_calls for result in results),
        warnings=tuple(
            f"{child.result.machine}: {warning}"
            for child in children if child.refused is None
            for warning in child.result.warnings
        ),
        partial=tuple(part for r in results for part in r.partial),
        signals=_requested_stop(ctx, request, children),
        progressed=any(r.facts.marks.progress_at > r.facts.run.started_at for r in results),
    )  # fmt: skip
    if any(child.cut_off for child in children):
        at = max(ctx.ports.clock.now(), ctx.deadline or 0.0)
        begun = [r.facts.run.started_at for r in results if r.facts.run.started_at]
        error = too_long(ctx.state.name, at - min(begun, default=ctx.now))
        signals = outcome.signals or stop_with_parent(ctx)
        return outcome.replace(ok=False, error=error, timed_out=True, signals=signals)
    failed = next((r for r in results if r.kind == "error"), None)
    if failed is None:
        return outcome
    return outcome.replace(ok=False, error=failure_of_child(failed, failed.machine))


def _requested_stop(
    ctx: Context, request: StopRequest | None, children: Iterable[Child]
) -> tuple[StopSignal, ...]:
    """The requested stop of the run as a signal, if it has stopped a child."""
    if request is None or not any(child.stopped_by_parent for child in children):
        return ()
    return (StopSignal(ctx.machine.reason(request.reason), request.message, {}, request.source),)


def failure_of_child(result: Result, name: str, why: str = "") -> Failure:
    """Why a child of this name stopped: `why`, or its highest signal, or its last failure."""
    last, top = result.facts.errors.last, result.signals.highest
    why = why or (top.message if top is not None else "") or (last.message if last else "")
    category = last.category if last is not None else str(Category.RECOVERABLE)
    said = f"`{name}` stopped for `{result.reason}`" + (f": {why}" if why else "")
    return Failure(category, cut_text(said), "", "child")


def _total_spent(results: Iterable[Result]) -> Spent:
    total = NOTHING_SPENT
    for usage in (result.facts.usage for result in results):
        total = total.plus(
            Spent(
                cost=usage.cost,
                tools={name: count for name, count in usage.calls.items() if count},
                **{name: getattr(usage, name) for name in COUNTS},
            )
        )
    return total


def result_data(child: Child) -> dict[str, Any]:
    """A child's result for its parent's record. Path and times are only in the child's log."""
    result = child.result
    data = result.to_dict()
    for name in ("path", "question", "partial", "timeline", "profile"):
        del data[name]
    text, tokens = result.facts.last.text, result.facts.usage.total_tokens
    return {**data, "status": child.status, "tokens": tokens, "text": text}


async def _merge_shared(child: Child, outcome: Outcome) -> Outcome:
    """Add the child's changes to the shared parts of the run."""
    share, position = child.given.share, child.session.position
    facts, changes = position.facts, dict(outcome.changes)
    if "messages" in share:
        added, whole = child.own_messages()
        cut = facts.marks.cut_short
        outcome = outcome.replace(messages=added, rewrite=whole, cut_short=cut)
    if "memory" in share:
        own = child.ctx.facts.memory
        changes |= {f"memory.{n}": v for n, v in facts.memory.items() if own.get(n, v) != v}
    if "queue" in share:
        before, own = child.ctx.facts.queue, facts.queue
        now = before.replace(done=before.done + own.done, failed=before.failed + own.failed)
        changes |= {"queue.done": now.done, "queue.failed": now.failed}
        late = name_tasks(
            await child.tasks_added_meanwhile(), (task.id for task in position.queue), now
        )
        outcome = outcome.replace(queue=(*position.queue, *late))
    return outcome.replace(changes=changes)


async def _merge(ctx: Context, children: Mapping[str, Child], wait_for: str) -> Outcome:
    outcome = await outcome_of(ctx, *children.values())
    if wait_for == "any" and _any_succeeded(children.values()) and not outcome.timed_out:
        outcome = outcome.replace(ok=True, error=None)
    unbegun = [child.refused for child in children.values() if child.refused is not None]
    if unbegun:
        note = say_unbegun(len(unbegun), len(children), unbegun[0])
        outcome = outcome.replace(warnings=(*outcome.warnings, note))
    results = {name: result_data(child) for name, child in children.items()}
    data = {
        "children": [{"name": name, **result} for name, result in results.items()],
        "outputs": {
            name: result["output"] if result["status"] in ("completed", "error") else None
            for name, result in results.items()
        },
    }
    return outcome.replace(result=data)
