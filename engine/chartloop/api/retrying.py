"""Trying a run again from where it failed: reads what the plan needs, and carries it out.

Belongs here: the fork, the raised limits, the outcome that is kept. Never: the decision what to
keep (`run.retry`), driving.

Source: docs/stuck.md, "Try it again".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from chartloop.api.run import Run
from chartloop.core.errors import FollowedError, StatusError
from chartloop.core.units import say_count, say_number
from chartloop.core.visible import short
from chartloop.language.values import limit_value
from chartloop.run.journal import CHILD_MARK, Event, Journal, MemoryJournal, WholeRun
from chartloop.run.loop import leave, record
from chartloop.run.renaming import as_now
from chartloop.run.retry import RetryPlan, is_enough, plan_retry
from chartloop.run.succession import followed_error, follows_as
from chartloop.run.sync import wait

if TYPE_CHECKING:
    from chartloop.api.machine import Machine

PAGE = 64
"""The newest events that are read at first."""
CHILDREN = 1_000
"""The most children whose calls are counted."""


def retry_plan(run: Run, *, again: bool = False) -> RetryPlan:
    """What trying the run again would keep and do again.

    It is refused if the run was tried again before, unless `again` says to do it all the same.
    """

    async def plan() -> RetryPlan:
        session = run.session
        row = await session.journal.row(run.id) or session.row
        head, size = session.head, PAGE
        tail: list[Event] = []
        while head and not is_enough(tail) and len(tail) < head:
            tail = await session.journal.events(run.id, max(0, head - size), min(size, head))
            size *= 4
        names = session.names
        tail = [
            event if event.record is None else event.replace(record=as_now(event.record, *names))
            for event in tail
        ]
        children = await session.journal.rows(
            parent=run.id, prefix=f"{run.id}{CHILD_MARK}", limit=CHILDREN
        )
        plan = plan_retry(
            run.machine.chart, row, tail, kind=run.result.kind,
            facts=session.position.facts, children=children, now=session.ports.clock.now(),
        )  # fmt: skip
        if (before := await followed(session.journal, run.id, row.successor)) is None:
            return plan
        plan = plan._replace(successor=before.successor, tried=before.message)
        if again or plan.refusal:
            return plan
        return plan._replace(refusal=plan.tried[:1].upper() + plan.tried[1:], hint=before.hint)

    return wait(plan(), suspends=run.suspends)


def check_retry(
    run: Run, plan: RetryPlan, limits: Mapping[str, Any], confirmed: str
) -> dict[str, Any]:
    """The checked values of the limits to raise. Raises `StatusError` unless it may be done.

    `confirmed` is the `digest` of the plan that somebody agreed to. `FollowedError` if the run was
    tried again before.
    """
    if plan.refusal:
        what = plan.refusal[0].lower() + plan.refusal[1:]
        if plan.successor:
            raise FollowedError(what, hint=plan.hint, successor=plan.successor)
        raise StatusError(what, hint=plan.hint)
    missing = [limit for limit in plan.limits if limit.name not in limits]
    if missing and len(missing) == len(plan.limits):
        wanted = ", ".join(f"{limit.name}: {limit.raised}" for limit in missing)
        raise StatusError(
            "a limit stopped the run, and would stop it again", hint=f"raise it: {wanted}"
        )
    checked = {name: limit_value(run.machine.spec, name, value) for name, value in limits.items()}
    if confirmed != plan.digest:
        what = "these calls would be made again" if plan.calls else "this is the plan"
        hint = "; ".join(plan.explain()[1:]) + f"; confirm with `{plan.digest}`"
        raise StatusError(f"{what}, and nobody has agreed to that", hint=hint)
    return checked


def retry_run(
    run: Run, plan: RetryPlan, limits: Mapping[str, Any], *, run_id: str | None = None
) -> Run:
    """The fork that a plan makes, with limits raised; it is not driven yet.

    It is made in memory and written in one transaction, so that no process leaves half of one.
    `FollowedError` if somebody else has tried the run again since the plan was made.
    """
    session, machine = run.session, cast("Machine", run.machine)
    journal = session.journal

    async def made() -> Run:
        now = await journal.now()
        draft = MemoryJournal(now=lambda: now)
        # a run of an older machine is read by its text, and its fork is of the new one
        await draft.put_blob(await journal.blob(session.row.machine_hash) or "")
        before = session.row.replace(follows="")
        await draft.create_whole([WholeRun(before, await journal.events(run.id))])
        old = machine.open(run.id, journal=draft, changed=True)
        fork = await old.afork(plan.at, run_id=run_id)
        for name, value in limits.items():
            await fork.aset(f"limits.{name}", value)
        # not behind an approval: its answer is asked for again, and comes first
        if plan.keeps_outcome and fork.session.row.fork_seq == plan.at:
            (last,) = await journal.records(run.id, plan.at, 1)
            given = as_now(last, *session.names).input
            with fork.session.turn:  # its outcome once more, under the limits of now
                await fork.session.become_driver()
                try:
                    await record(fork.session, given.replace(opaque=()))
                finally:
                    await leave(fork.session)
        (row,) = await draft.rows(parent=run.id)
        await journal.put_blob(machine.canonical())
        follows = follows_as("attempt", "" if plan.refusal else plan.successor)
        row = row.replace(follows=follows, created=now)
        try:
            await journal.create_whole([WholeRun(row, _asking(plan, await draft.events(fork.id)))])
        except FollowedError as error:
            raise await followed(journal, run.id, error.successor) or error from error
        return machine.open(fork.id, journal=journal)

    return wait(made(), suspends=run.suspends)


def _asking(plan: RetryPlan, events: Sequence[Event]) -> list[Event]:
    """The events of another attempt, which asks about the calls in doubt of the one before."""
    keys = {doubt.key for doubt in plan.doubts}
    return [
        event.replace(data={**event.data, "ask": True})
        if event.type == "in_doubt" and event.data.get("key") in keys
        else event
        for event in events
    ]


async def followed(journal: Journal, run_id: str, successor: str) -> FollowedError | None:
    """The error for a run that another one follows, with what that one has paid.

    None if it is gone.
    """
    if (row := await journal.row(successor)) is None:
        return None
    made, cost = Counter[str](), 0.0
    for one in await journal.records(successor, row.fork_seq or 0):
        if (done := one.outcome) is not None:
            made["the model"] += done.spent.llm_calls + done.unanswered
            made.update({short(name): count for name, count in done.spent.tools.items()})
            cost += done.spent.cost or 0.0
    paid = [f"{say_count(count, 'call')} of {name}" for name, count in made.items() if count]
    paid += [f"${say_number(cost)}"] if cost else []
    return followed_error("attempt", run_id, row, f"; made there: {', '.join(paid) or 'no call'}")
