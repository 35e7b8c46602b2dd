"""Trying a run again from where it failed: reads what the plan needs, and carries it out.

Belongs here: the fork, the raised limits, the outcome that is kept. Never: the decision what to
keep (`run.retry`), driving.

Source: docs/stuck.md, "Try it again".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from chartloop.api.run import Run, new_run_id
from chartloop.core.errors import StatusError
from chartloop.language.values import limit_value
from chartloop.run.journal import CHILD_MARK, Event
from chartloop.run.loop import leave, record
from chartloop.run.renaming import as_now
from chartloop.run.retry import RetryPlan, is_enough, plan_retry
from chartloop.run.sync import wait

if TYPE_CHECKING:
    from chartloop.api.machine import Machine

PAGE = 64
"""The newest events that are read at first."""
CHILDREN = 1_000
"""The most children whose calls are counted."""


def retry_plan(run: Run) -> RetryPlan:
    """What trying the run again would keep and do again."""

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
        return plan_retry(
            run.machine.chart, row, tail, kind=run.result.kind,
            facts=session.position.facts, children=children, now=session.ports.clock.now(),
        )  # fmt: skip

    return wait(plan(), suspends=run.suspends)


def check_retry(
    run: Run, plan: RetryPlan, limits: Mapping[str, Any], confirmed: str
) -> dict[str, Any]:
    """The checked values of the limits to raise. Raises `StatusError` unless it may be done.

    `confirmed` is the `digest` of the plan that somebody agreed to.
    """
    if plan.refusal:
        raise StatusError(plan.refusal[0].lower() + plan.refusal[1:], hint=plan.hint)
    if plan.needs_confirmation and confirmed != plan.digest:
        what = "these calls would be made again" if plan.calls else "a call is in doubt"
        hint = "; ".join(plan.explain()[1:]) + f"; confirm with `{plan.digest}`"
        raise StatusError(f"{what}, and nobody has agreed to that", hint=hint)
    missing = [limit for limit in plan.limits if limit.name not in limits]
    if missing and len(missing) == len(plan.limits):
        wanted = ", ".join(f"{limit.name}: {limit.raised}" for limit in missing)
        raise StatusError(
            "a limit stopped the run, and would stop it again", hint=f"raise it: {wanted}"
        )
    return {name: limit_value(run.machine.spec, name, value) for name, value in limits.items()}


def retry_run(
    run: Run, plan: RetryPlan, limits: Mapping[str, Any], *, run_id: str | None = None
) -> Run:
    """The fork that a plan makes, with limits raised; it is not driven yet.

    With the id of a fork that was begun before, by a process that died, it is finished.
    """
    journal, fork_id = run.session.journal, run_id or new_run_id()

    async def made() -> Run:
        fork: Run
        if await journal.row(fork_id) is None:
            fork = await run.afork(plan.at, run_id=fork_id)
        else:
            fork = cast("Machine", run.machine).open(fork_id, journal=journal)
        session = fork.session
        begun = session.tally.records - (session.row.fork_seq or 0)
        if not begun:
            for name, value in limits.items():
                await fork.aset(f"limits.{name}", value)
        # not behind an approval: its answer is asked for again, and comes first
        is_next = session.row.fork_seq == plan.at and begun <= len(limits)
        if plan.keeps_outcome and is_next:
            (last,) = await journal.records(run.id, plan.at, 1)
            given = as_now(last, *run.session.names).input
            with session.turn:  # its outcome once more, under the limits of now
                await session.become_driver()
                try:
                    await record(session, given.replace(opaque=()))
                finally:
                    await leave(session)
        return fork

    return wait(made(), suspends=run.suspends)
