"""Where a run may be, and one move from there: the nodes and arcs that proofs walk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from chartloop.language.spec import Assign

FROM_OUTSIDE = frozenset({"outside", "caller"})
"""Kinds of routes by which someone stops a run from outside: as everybody can, with
`user_requested`, or as a caller that names another reason."""
UNDRAWN = FROM_OUTSIDE | {"start", "stop", "resume"}
"""Kinds of routes that are no edge, rule or signal: records and pictures have nothing for them."""


class TooLarge(Exception):
    """The machine has too many ways for an answer in the time that there is."""


Reached = tuple[tuple[str, float], ...]
"""Counters, each with a value that it is at or above from here on."""


class Target(NamedTuple):
    """Where a move leads, before it is known what it finds there."""

    state: str
    fork: bool = False
    """Not into the state, but into the branches of its `all`."""
    stop: bool = False
    attempt: int = 0
    set: tuple[Assign, ...] = ()


class Branch(NamedTuple):
    """Where a walk through the branches of a fork stands."""

    fork: str
    number: int
    best: str = ""
    """Of the stops that earlier branches came to the one that will be entered."""


class Place(NamedTuple):
    """A state, with what else decides where a run goes from it."""

    state: str
    returns: tuple[tuple[str, Target], ...] = ()
    """The detours that have not returned: rule, and where it interrupted the run."""
    attempt: int = 0
    continued: bool = False
    stopping: bool = False
    skip: str = ""
    """The detour that has just been made: it is not made again before an action."""
    branch: Branch | None = None
    stops: tuple[str, ...] | None = None
    """A stop is decided here, by one of these rules or a signal."""
    raised: tuple[str, ...] = ()
    """The reasons of the signals, beside those of rules, that may stop it here."""
    ok: bool | None = None
    """Whether the last action succeeded, as far as a decision may ask for it."""
    reached: Reached = ()
    """The values that counters have reached, as far as a decision has shown."""


@dataclass(slots=True)
class Route:
    """One move. `state` and `outcome` say which action or wait ends with it."""

    source: int
    dest: int
    origin: str
    """The id of the edge or rule, as records and pictures have it; of several `also`."""
    kind: str
    state: str = ""
    outcome: str = ""
    gates: Mapping[str, float] = field(default_factory=dict[str, float])
    after: Mapping[str, float] = field(default_factory=dict[str, float])
    wait: tuple[float, float] = (0.0, 0.0)
    """Seconds that a retry waits: by the file, and at most, where the provider asks for more."""


class Move(NamedTuple):
    """A way of the state's own, before rules have been looked at."""

    origin: str
    kind: str
    target: Target | None
    """None: back from a detour."""
    gates: Mapping[str, float] = {}
    wait: tuple[float, float] = (0.0, 0.0)
    into: str = ""
    """The state that `before` rules read."""
    reached: Reached = ()
    """It is only taken once counters have come to this."""


def join_gates(*found: Mapping[str, float]) -> dict[str, float]:
    """The gates that are passed only when all of these are."""
    out: dict[str, float] = {}
    for gates in found:
        for counter, at in gates.items():
            out[counter] = min(at, out.get(counter, at))
    return out


def highest(*found: Reached) -> Reached:
    """The highest that each counter has come to."""
    out: dict[str, float] = {}
    for counter, at in (pair for reached in found for pair in reached):
        out[counter] = max(at, out.get(counter, at))
    return tuple(sorted(out.items()))


def more_of(counts: dict[str, float], more: Mapping[str, float]) -> None:
    """Count more."""
    for counter, amount in more.items():
        counts[counter] = counts.get(counter, 0) + amount


def is_closed(gates: Mapping[str, float]) -> bool:
    """Whether a stop rule always holds."""
    return "" in gates
