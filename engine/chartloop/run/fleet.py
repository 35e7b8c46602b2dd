"""Limits across runs: what all runs of a journal, tenant, agent or session may spend together.

    reserve ─▶ intent ─▶ call ─▶ settle: what was used
       │          └─ its driver dies: in doubt, and spent at its worst case
       └─ its driver dies: released

A limit for a day or in all is a budget: a model call reserves the most that it can use before its
intent is written, and settles what it did use. A limit for a minute is a bucket that leaks: at most
a sixtieth of it at once, and in any sixty seconds no more than the limit. So a call for more than a
sixtieth, of tokens, waits until the bucket is empty, and those after it wait the longer.

A reservation is released only while no intent stands. The driver that takes a run over settles what
the earlier one had reserved, in the transaction that fences it.

Belongs here: the arithmetic, the port, and that of a journal in memory. Never: tables, prices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from chartloop.core.units import say_count

What = Literal["cost", "tokens", "requests"]
"""What a limit counts, by the words of a machine's `limits`; `cost` in USD."""
Per = Literal["minute", "day", "all"]
"""The time that a limit is for. A day is one of UTC."""
WHATS: tuple[What, ...] = ("cost", "tokens", "requests")
PERS: tuple[Per, ...] = ("minute", "day", "all")
FLEET, TENANT, AGENT, SESSION, MODEL = "fleet", "tenant:", "agent:", "session:", "model:"
"""How scopes begin. `fleet` is all runs of the journal."""
BUSY = 2.0
"""Seconds before a call asks again that fits once calls in flight have used less than the most."""
DAY = 86_400.0


class FleetLimit(NamedTuple):
    """A limit, and how much of it is used."""

    scope: str
    """``fleet``, ``tenant:NAME``, ``agent:NAME``, ``session:NAME`` or ``model:NAME``."""
    what: What
    per: Per
    most: float
    used: float = 0.0
    """What was used in the period; of a minute's, how full the bucket is."""
    held: float = 0.0
    """What calls in flight have reserved."""
    at: float = 0.0
    """When it was counted, on the journal's clock."""

    @property
    def name(self) -> str:
        """The limit in words: ``fleet: cost per day``."""
        return f"{self.scope}: {self.what} {'in all' if self.per == 'all' else f'per {self.per}'}"

    @property
    def burst(self) -> float:
        """The size of a minute's bucket."""
        return max(1.0, self.most // 60)

    @property
    def rate(self) -> float:
        """How much leaks from a minute's bucket in a second."""
        return (self.most - self.burst + 1) / 60

    @property
    def left(self) -> float:
        """What is neither used nor reserved."""
        return max(0.0, self.most - self.used - self.held)

    def later(self, now: float) -> FleetLimit:
        """The same limit at a later time."""
        if self.per == "minute":
            used = max(0.0, self.used - max(0.0, now - self.at) * self.rate)
            return self._replace(used=used, at=max(self.at, now))
        if self.per == "day" and now // DAY > self.at // DAY:
            return self._replace(used=0.0, at=now)
        return self._replace(at=max(self.at, now))

    def wait(self, amount: float) -> float:
        """Seconds until a minute's bucket takes an amount; 0 if it does now."""
        over = self.used + min(amount, self.burst) - self.burst
        return math.ceil(over / self.rate * 1000) / 1000 if over > 0 else 0.0

    def reserve(self, amount: float) -> FleetLimit:
        """The limit after a reservation."""
        if self.per == "minute":
            return self._replace(used=self.used + amount)
        return self._replace(held=self.held + amount)

    def settle(self, amount: float, used: float, *, doubted: bool = False) -> FleetLimit:
        """The limit after the call of a reservation. `doubted`: it was settled at its worst."""
        if self.per == "minute" or doubted:
            return self._replace(used=max(0.0, self.used + used - amount))
        return self._replace(held=max(0.0, self.held - amount), used=self.used + used)

    def say(self, amount: float) -> str:
        """An amount of what it counts, in words: ``1.25 USD``, ``3 requests``."""
        if self.what == "cost":
            return f"{amount:,.6f}".rstrip("0").rstrip(".") + " USD"
        return say_count(round(amount), self.what.removesuffix("s"))


class Reservation(NamedTuple):
    """The most that a model call may use, from each limit of its scopes."""

    run_id: str
    epoch: int
    head: int
    """The number of the run's next event: its intent has this one or a later."""
    key: str
    """The key of the call's intent."""
    scopes: Sequence[str]
    amounts: Mapping[str, float]
    """The most of each `What`."""


class Reserved(NamedTuple):
    """The answer to a reservation: it is made, unless a limit stands against it."""

    by: FleetLimit | None = None
    """The limit that stands against it."""
    wait: float = 0.0
    """Seconds after which to ask again; 0 if the limit is spent."""


class Doubt(NamedTuple):
    """A call that may have been made by a driver that died: it counts at its worst case."""

    run_id: str
    key: str
    amounts: Mapping[str, float]


class Fleet(Protocol):
    """The journal's operations on limits across runs. All times are those of its clock."""

    async def limits(self) -> list[FleetLimit]:
        """All limits, as they stand now, by scope."""
        ...

    async def set_limit(self, limit: FleetLimit, *, only_new: bool = False) -> bool:
        """Set a limit. What an earlier one of the same scope, what and per has counted stays.

        With `only_new` an earlier one stays whole: False, with nothing written.

        A new one begins with what is `used` already, counted `at` a time; by default now.
        """
        ...

    async def remove_limit(self, scope: str, what: What, per: Per) -> bool:
        """Remove a limit. False if there is none."""
        ...

    async def reserve(self, reservation: Reservation) -> Reserved:
        """Reserve from every limit of the scopes, or from none; each names only what it limits.

        `Fenced` if another driver has the run.
        """
        ...

    async def settle_call(
        self, run_id: str, key: str, used: Mapping[str, float], *, head: int | None = None
    ) -> bool:
        """Replace what a call has reserved by what it used; what `used` lacks is used whole.

        `head`: that of its reservation; without it, a call in doubt. False if there is none.
        """
        ...

    async def doubts(self) -> list[Doubt]:
        """The calls in doubt that count at their worst case."""
        ...


def ask(
    limits: Iterable[FleetLimit], amounts: Mapping[str, float], now: float
) -> tuple[Reserved, list[FleetLimit]]:
    """The answer to a reservation, and the limits after it; none if it is not made."""
    after, answer = list[FleetLimit](), Reserved()
    for limit in limits:
        amount = amounts.get(limit.what)
        if amount is None:
            continue
        limit = limit.later(now)
        wait = limit.wait(amount) if limit.per == "minute" else 0.0
        if limit.per != "minute" and limit.used + limit.held + amount > limit.most + 1e-9:
            if limit.used + amount > limit.most + 1e-9:
                return Reserved(limit), []
            wait = BUSY
        if wait > answer.wait:
            answer = Reserved(limit, wait)
        after.append(limit.reserve(amount))
    return answer, [] if answer.wait else after


def sent_keys(intents: Iterable[tuple[int, str]], head: int) -> frozenset[str]:
    """The keys of the intents that were written after a reservation."""
    return frozenset(key for seq, key in intents if seq >= head)


class _Held(NamedTuple):
    """One limit's part of a reservation."""

    run_id: str
    head: int
    key: str
    limit: tuple[str, str, str]
    amount: float
    doubt: bool = False


class MemoryFleet:
    """The limits of a journal in memory."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._limits: dict[tuple[str, str, str], FleetLimit] = {}
        self._reserved: list[_Held] = []

    async def limits(self) -> list[FleetLimit]:
        return [limit.later(self._now()) for _, limit in sorted(self._limits.items())]

    async def set_limit(self, limit: FleetLimit, *, only_new: bool = False) -> bool:
        if only_new and limit[:3] in self._limits:
            return False
        new = limit._replace(held=0.0, at=limit.at or self._now())
        known = self._limits.get(limit[:3], new)
        self._limits[limit[:3]] = known.later(self._now())._replace(most=limit.most)
        return True

    async def remove_limit(self, scope: str, what: What, per: Per) -> bool:
        return self._limits.pop((scope, what, per), None) is not None

    def check_driver(self, run_id: str, head: int, epoch: int) -> None:
        """Raise `Fenced` if another driver has the run."""
        raise NotImplementedError

    async def reserve(self, reservation: Reservation) -> Reserved:
        run_id, epoch, head, key, scopes, amounts = reservation
        self.check_driver(run_id, head, epoch)
        limits = [limit for limit in self._limits.values() if limit.scope in scopes]
        answer, after = ask(limits, amounts, self._now())
        for limit in after:
            self._limits[limit[:3]] = limit
            held = _Held(run_id, head, key, limit[:3], amounts[limit.what])
            self._reserved.append(held)
        return answer

    async def settle_call(
        self, run_id: str, key: str, used: Mapping[str, float], *, head: int | None = None
    ) -> bool:
        found = [
            one for one in self._reserved
            if (one.run_id, one.key) == (run_id, key)
            and (one.doubt if head is None else one.head == head)
        ]  # fmt: skip
        for one in found:
            self._reserved.remove(one)
            self._settle(one, used.get(one.limit[1], one.amount))
        return bool(found)

    def _settle(self, one: _Held, used: float) -> None:
        if (limit := self._limits.get(one.limit)) is not None:
            limit = limit.later(self._now()).settle(one.amount, used, doubted=one.doubt)
            self._limits[one.limit] = limit

    def intents(self, run_id: str, start: int) -> Iterable[tuple[int, str]]:
        """The intents of a run from an event on: their numbers and keys."""
        raise NotImplementedError

    def close_reservations(self, run_id: str, *, removed: bool = False) -> None:
        """Settle what earlier drivers of a run have reserved: whole if an intent stands."""
        found = [one for one in self._reserved if one.run_id == run_id]
        intents = [*self.intents(run_id, min(one.head for one in found))] if found else []
        for one in found:
            sent = one.doubt or one.key in sent_keys(intents, one.head)
            if not one.doubt:
                self._settle(one, one.amount if sent else 0.0)
            self._reserved.remove(one)
            if sent and not removed:
                self._reserved.append(one._replace(doubt=True))

    async def doubts(self) -> list[Doubt]:
        found = [
            (one.run_id, one.key, one.limit[1], one.amount) for one in self._reserved if one.doubt
        ]
        return doubts_of(found)


def doubts_of(rows: Iterable[tuple[str, str, str, float]]) -> list[Doubt]:
    """Doubts from their parts: run, key, what, and the amount."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for run_id, key, what, amount in rows:
        amounts = found.setdefault((run_id, key), {})
        amounts[what] = max(amount, amounts.get(what, 0.0))
    return [Doubt(*of, amounts) for of, amounts in sorted(found.items())]
