"""One model call under the limits across runs: reserved before its intent, settled after it.

Belongs here: which limits a run is under, what they leave, its waits, and its stop when a budget is
spent. Never:
the most that a call can use (`actions.infer`), the arithmetic (`run.fleet`).
"""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import anyio

from chartloop.core.errors import ModelError
from chartloop.core.facts import FleetFacts
from chartloop.core.position import RETRY
from chartloop.core.reasons import AgentStop
from chartloop.run.fleet import (
    AGENT,
    FLEET,
    MODEL,
    SESSION,
    TENANT,
    FleetLimit,
    Reservation,
    What,
)
from chartloop.run.tenants import MARK, tenant_of

if TYPE_CHECKING:
    from chartloop.run.context import Context
    from chartloop.run.journal import Journal
    from chartloop.run.session import Session

T = TypeVar("T")

FLEET_WAIT = "fleet-limit"
"""Why an action is blocked whose model call waits for a limit across runs."""
FRESH = 1.0
"""Seconds that a process believes what it has read about which limits there are."""
SHORT = 1.0
"""Seconds that a call waits in place, all in all. A longer wait is recorded, and the run rests."""
LONG = 60.0
"""Seconds that a run stays with its driver for another attempt of an action."""
LARGEST = 1e15
"""The most that a fact says is left: a larger number is not stored."""
_REASONS: Mapping[What, str] = {
    "cost": "cost_limit", "tokens": "token_limit", "requests": "stop_requested",
}  # fmt: skip
_known: WeakKeyDictionary[Journal, tuple[float, list[FleetLimit]]] = WeakKeyDictionary()


class CallIntent(NamedTuple):
    """The intent of a model call: its key, and what writes it; None if it is written."""

    key: str
    write: Callable[[], Awaitable[None]] | None = None


class CallLater(Exception):
    """A model call that has to wait until `at`, on the run's clock."""

    def __init__(self, at: float) -> None:
        self.at = at
        super().__init__(f"a limit across runs asks to wait until {at}")


async def limits_of(session: Session, *models: str) -> list[FleetLimit]:
    """The limits that calls of a run are under, as they stood at most `FRESH` seconds ago."""
    journal = session.journal
    at, limits = _known.get(journal, (0.0, None))
    if limits is None or time.monotonic() > at:
        limits = await journal.limits()
        _known[journal] = time.monotonic() + FRESH, limits
    return (
        [limit for limit in limits if limit.scope in scopes_of(session, models)] if limits else []
    )


def waits_long(session: Session) -> bool:
    """Whether a run waits for a limit, or for its next attempt for longer than `LONG` seconds.

    Its worker may drive another one meanwhile.
    """
    position = session.position
    if position.blocked_on not in (FLEET_WAIT, RETRY) or position.wake_at is None:
        return False
    in_place = LONG if position.blocked_on == RETRY else 0.0
    return position.wake_at > session.ports.clock.now() + in_place


def forget_limits() -> None:
    """Read anew which limits there are, before the next call."""
    _known.clear()


def scopes_of(session: Session, models: Sequence[str]) -> list[str]:
    """The scopes of a run's calls. A child counts for the agent whose run began it.

    Two tenants may name a session alike, so its scope has the tenant.
    """
    top = session
    while top.above is not None:
        top = top.above
    run = session.position.facts.run
    if session.begun is not None and session.position.status == "idle":  # its start is decided now
        given = session.begun.data
        run = run.replace(agent=given.get("agent", ""), session=given.get("session", ""))
    named = [FLEET, AGENT + (run.agent or top.chart.name), *(MODEL + name for name in models)]
    of = ""
    if tenant := tenant_of(session.run_id):
        named.append(TENANT + tenant)
        of = tenant + MARK
    return [*named, SESSION + of + run.session] if run.session else named


def models_of(session: Session) -> tuple[set[str], Sequence[str]]:
    """The models that the states of a run ask, and those that step in for one that fails."""
    settings = {**session.chart.spec.model, **session.ports.settings}
    asking = [s for s in session.chart.spec.states.values() if s.asks_model != "never"]
    names = {
        str(s.args["model"].value if "model" in s.args else settings.get("name")) for s in asking
    }
    return names, settings.get("fallbacks") or ()


async def standing_against(session: Session) -> list[str]:
    """The limits, in words, that keep a run waiting now."""
    scopes = scopes_of(session, [name for names in models_of(session) for name in names])
    return [
        limit.name for limit in await session.journal.limits()
        if limit.scope in scopes and (limit.wait(1.0) if limit.per == "minute" else limit.held)
    ]  # fmt: skip


async def fleet_facts(session: Session) -> FleetFacts:
    """What the limits across runs leave for the next model call of a run, read now.

    Limits of a model count where all calls of the machine ask for the same one.
    """
    if given := session.ports.fleet:
        return given[min(session.tally.records, len(given) - 1)]
    names, fallbacks = models_of(session)
    scopes = scopes_of(session, [*names, *fallbacks] if len(names) == 1 else [])
    limits = [limit for limit in await session.journal.limits() if limit.scope in scopes]
    left = {
        what: min((x.left for x in limits if x.what == what and x.per != "minute"), default=None)
        for what in ("cost", "tokens")
    }
    waits = (x.wait(1.0) for x in limits if x.what == "requests" and x.per == "minute")
    cost, tokens = left["cost"], left["tokens"]
    return FleetFacts(
        None if cost is None else min(cost, LARGEST),
        None if tokens is None else int(min(tokens, LARGEST)),
        max(waits, default=None),
    )


async def under_limits(
    ctx: Context, most: Mapping[What, float], models: Sequence[str],
    intent: CallIntent, call: Callable[[], Awaitable[tuple[T, Mapping[str, float]]]],
) -> T:  # fmt: skip
    """Reserve the `most` that a call can use, write its intent, make it, and settle it.

    Raises `CallLater` if it has to wait, `AgentStop` if a budget does not allow it.
    """
    session, journal = ctx.host, ctx.host.journal
    key, begin = intent
    head = await _reserve(ctx, most, models, intent)
    used: Mapping[str, float] | None = dict.fromkeys(most, 0.0)  # until its intent is written
    try:
        if begin is not None:
            await begin()
        used = None
        made, used = await call()
    except (Exception, CancelledError) as error:
        if isinstance(error, ModelError) and error.spent is not None:
            used = used_of(
                error.spent.prompt_tokens + error.spent.completion_tokens, error.spent.cost
            )
        elif isinstance(error, ModelError) and error.status is not None:  # refused, so not billed
            used = {"cost": 0.0, "tokens": 0.0}
        if session.owned:  # else it is unknown whether its intent stands
            with anyio.CancelScope(shield=True) if journal.suspends else nullcontext():
                await journal.settle_call(session.run_id, key, used, head=head)
        raise
    await journal.settle_call(session.run_id, key, used, head=head)
    return made


def used_of(tokens: int, cost: float | None) -> dict[str, float]:
    """What a call has used; without a cost, the most that it could cost."""
    return {"tokens": float(tokens), **({} if cost is None else {"cost": cost})}


async def _reserve(
    ctx: Context, most: Mapping[What, float], models: Sequence[str], intent: CallIntent
) -> int:
    """Reserve from the limits, and return the number that the intent has at least."""
    session, clock, slept = ctx.host, ctx.ports.clock, 0.0
    scopes = scopes_of(session, models)
    while True:
        head = session.head - (intent.write is None)
        given = Reservation(session.run_id, session.epoch, head, intent.key, scopes, {**most})
        by, wait = await session.journal.reserve(given)
        if by is None:
            return head
        if not wait:
            amount = most[by.what]
            message = (
                f"{by.name}: {by.say(by.left)} of {by.say(by.most)} left, and this call may take "
                f"{by.say(amount)}"
            )
            context = {"scope": by.scope, "per": by.per, "left": by.left, "limit": by.most}
            raise AgentStop(message, reason=_REASONS[by.what], context=context, source=by.scope)
        if slept + wait > SHORT and not ctx.gone:
            raise CallLater(clock.now() + wait)
        slept += wait
        await clock.sleep(wait)
