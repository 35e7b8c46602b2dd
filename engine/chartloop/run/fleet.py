"""Limits across runs: what all runs of a journal, tenant, agent or session may spend together.

    reserve ─▶ intent ─▶ call ─▶ settle: what was used
       │          └─ no answer, or its driver dies: in doubt, and spent at its worst case
       └─ its driver dies: released

A limit for a day or in all is a budget: a model call reserves the most that it can use before its
intent is written, and settles what it did use. A limit for a minute is a bucket that leaks: at most
a sixtieth of it at once, and in any sixty seconds no more than the limit. So a call for more than a
sixtieth, of tokens, waits until the bucket is empty, and those after it wait the longer.

A reservation belongs to the day in which it was made, and to one edition of its limit: one that is
removed and set again is another edition. A call that is settled later changes no figure of another
day or edition. In a minute's bucket it changes what has not leaked since.

A reservation is released only while no intent stands. The driver that takes a run over settles what
the earlier one had reserved, in the transaction that fences it. It does the same for the children
of the run, which the run may never take up again.

Belongs here: the arithmetic, the port, and that of a journal in memory. Never: tables, prices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Literal, NamedTuple, Protocol

from chartloop.core.units import say_count

What = Literal["cost", "tokens", "requests"]
"""What a limit counts, by the words of a machine's `limits`; `cost` in USD."""
Per = Literal["minute", "day", "all"]
"""The time that a limit is for. A day is one of UTC."""
WHATS: tuple[What, ...] = ("cost", "tokens", "requests")
PERS: tuple[Per, ...] = ("minute", "day", "all")
NOTHING: Mapping[str, float] = dict.fromkeys(WHATS, 0.0)
"""The usage of a call that was not made."""
FLEET, TENANT, AGENT, SESSION, MODEL = "fleet", "tenant:", "agent:", "session:", "model:"
"""How scopes begin. `fleet` is all runs of the journal."""
BUSY = 2.0
"""Seconds before a call asks again that fits once calls in flight have used less than the most."""
DAY = 86_400.0
FOREVER = 1e300
"""When a reservation from a limit in all counts no longer. A database needs a number."""


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
    """What calls in flight have reserved in the period."""
    at: float = 0.0
    """When it was counted, on the journal's clock."""
    in_doubt: float = 0.0
    """How much of `used` calls in doubt have reserved; 0 of a minute's."""
    edition: str = ""
    """Distinguishes it from an earlier limit of the same scope, what and per."""

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
        """The same limit at a later time. A day that has begun does not end by a clock set back."""
        if self.per == "minute":
            used = max(0.0, self.used - max(0.0, now - self.at) * self.rate)
            at = now if now < self.at - 60 else max(self.at, now)  # else nothing leaks for long
            return self._replace(used=used, at=at)
        if self.per == "day" and now // DAY > self.at // DAY:
            return self._replace(used=0.0, held=0.0, in_doubt=0.0, at=now)
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

    @property
    def until(self) -> float:
        """When what is reserved now counts no longer; of a minute's, when it will have leaked."""
        if self.per == "minute":
            return self.at + self.used / self.rate
        return (self.at // DAY + 1) * DAY if self.per == "day" else FOREVER

    def settle(self, held: Held, used: float | None) -> FleetLimit:
        """The limit after the call of a reservation of its edition; None: it is in doubt now."""
        spent, left = held.amount if used is None else used, held.until - self.at
        more = spent - held.amount
        if self.per == "minute":
            level = left * self.rate
            more = max(0.0, level + more) - max(0.0, level)
            return self._replace(used=max(0.0, self.used + more))
        if left <= 0:
            return self
        if held.doubt:
            doubted = max(0.0, self.in_doubt - held.amount)
            return self._replace(used=max(0.0, self.used + more), in_doubt=doubted)
        doubted = self.in_doubt + (held.amount if used is None else 0.0)
        return self._replace(
            held=max(0.0, self.held - held.amount), used=self.used + spent, in_doubt=doubted
        )

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


class Held(NamedTuple):
    """One limit's part of a reservation."""

    run_id: str
    head: int
    key: str
    scope: str
    what: str
    per: str
    edition: str
    amount: float
    until: float
    """Until when it counts: `FleetLimit.until`."""
    doubt: bool = False

    @property
    def of(self) -> tuple[str, ...]:
        """The limit, by scope, what, per and edition."""
        return self[3:7]


class Doubt(NamedTuple):
    """A call that may have been made: it counts at its worst case, with all its attempts."""

    run_id: str
    key: str
    amounts: Mapping[str, float]


class Fleet(Protocol):
    """The journal's operations on limits across runs. All times are those of its clock."""

    async def limits(self) -> list[FleetLimit]:
        """All limits, as they stand now, by scope."""
        ...

    async def set_limit(self, limit: FleetLimit, *, only_new: bool = False) -> bool:
        """Set a limit. What one of the same scope, what and per has counted stays.

        With `only_new` an earlier one stays whole: False, with nothing written.

        A new one begins with what is `used` already, counted `at` a time; by default now.
        """
        ...

    async def remove_limit(self, scope: str, what: What, per: Per) -> bool:
        """Remove a limit: one that is set later is another edition. False if there is none."""
        ...

    async def reserve(self, reservation: Reservation) -> Reserved:
        """Reserve from every limit of the scopes, or from none; each names only what it limits.

        `Fenced` if another driver has the run.
        """
        ...

    async def settle_call(
        self, run_id: str, key: str, used: Mapping[str, float] | None, *, head: int | None = None
    ) -> bool:
        """Replace what a call has reserved by what it used; what `used` lacks is used whole.

        None: nobody knows, so the call is in doubt. `head`: that of its reservation; without it, a
        call in doubt, with all its attempts. False if there is none.
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


def settled(
    limits: dict[tuple[str, ...], FleetLimit], found: Iterable[Held],
    used: Mapping[str, float] | None,
) -> dict[tuple[str, ...], FleetLimit]:  # fmt: skip
    """The limits that change when calls settle what they used, by `Held.of`.

    Attempts of one call have used it together: it is counted as the newest one's.
    """
    after, given = dict[tuple[str, ...], FleetLimit](), used or {}
    found = sorted(found)
    newest = {(one.run_id, one.key, one.of): one.head for one in found}
    for one in found:
        if (limit := after.get(one.of, limits.get(one.of))) is not None:
            spent = given.get(one.what, one.amount)
            if one.what in given and newest[one.run_id, one.key, one.of] != one.head:
                spent = 0.0
            after[one.of] = limit.settle(one, None if used is None else spent)
    return after


class MemoryFleet:
    """The limits of a journal in memory."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._limits: dict[tuple[str, str, str], FleetLimit] = {}
        self._reserved: list[Held] = []
        self._editions = count()

    async def limits(self) -> list[FleetLimit]:
        return [limit.later(self._now()) for _, limit in sorted(self._limits.items())]

    async def set_limit(self, limit: FleetLimit, *, only_new: bool = False) -> bool:
        if only_new and limit[:3] in self._limits:
            return False
        new = limit._replace(
            held=0.0, at=limit.at or self._now(), in_doubt=0.0, edition=str(next(self._editions))
        )
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
        if after:  # an earlier call of the same intent had no answer
            call, place = (run_id, head, key), -1 - next(self._editions)
            self._reserved = [
                one._replace(head=place) if one[:3] == call else one for one in self._reserved
            ]
        for limit in after:
            self._limits[limit[:3]] = limit
            of = (*limit[:3], limit.edition)
            self._reserved.append(Held(run_id, head, key, *of, amounts[limit.what], limit.until))
        return answer

    async def settle_call(
        self, run_id: str, key: str, used: Mapping[str, float] | None, *, head: int | None = None
    ) -> bool:
        found = [
            one for one in self._reserved
            if (one.run_id, one.key) == (run_id, key)
            and (one.doubt if head is None else one.head == head)
        ]  # fmt: skip
        return self._settle(found, used)

    def _settle(self, found: Sequence[Held], used: Mapping[str, float] | None) -> bool:
        if used is None:
            found = [one for one in found if not one.doubt]
        now = self._now()
        limits = {(*of, limit.edition): limit.later(now) for of, limit in self._limits.items()}
        after = settled(limits, found, used).values()
        self._limits.update({limit[:3]: limit for limit in after})
        self._reserved = [one for one in self._reserved if one not in found]
        if used is None:
            self._reserved += [one._replace(doubt=True) for one in found]
        return bool(found)

    def _log(self, run_id: str) -> Any:
        """The row and the events of a run."""
        raise NotImplementedError

    def close_reservations(self, run_id: str, *, removed: bool = False) -> None:
        """Settle what earlier drivers of a run and its children have reserved, and fence these.

        It counts whole if an intent stands, and is in doubt unless the run is removed.
        """
        below = [one for one in self._reserved if f"{one.run_id}/".startswith(f"{run_id}/")]
        for name in {one.run_id for one in below if not one.doubt} - {run_id}:
            log = self._log(name)
            log.row = log.row.replace(epoch=log.row.epoch + 1)
        for one in below:
            if one.doubt:
                continue
            events = self._log(one.run_id).events[one.head :]
            sent = any(e.type == "intent" and e.data["key"] == one.key for e in events)
            self._settle([one], None if sent else NOTHING)
        if removed:
            names = {one.run_id for one in below}
            self._settle([one for one in self._reserved if one.run_id in names], {})

    async def doubts(self) -> list[Doubt]:
        return doubts_of(one for one in self._reserved if one.doubt)


def doubts_of(found: Iterable[Held]) -> list[Doubt]:
    """The calls in doubt, with what their attempts have reserved from the limit that held most."""
    sums: dict[tuple[str, str], dict[tuple[str, ...], float]] = {}
    for one in found:
        of = sums.setdefault((one.run_id, one.key), {})
        of[one.of] = of.get(one.of, 0.0) + one.amount
    doubts = list[Doubt]()
    for call, by in sorted(sums.items()):
        amounts = dict[str, float]()
        for (_, what, *_), amount in by.items():
            amounts[what] = max(amount, amounts.get(what, 0.0))
        doubts.append(Doubt(*call, amounts))
    return doubts
