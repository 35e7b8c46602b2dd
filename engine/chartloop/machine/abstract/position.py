"""Abstract positions and moves: the nodes and edges of the graph that proofs walk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from chartloop.language.spec import Assign

FROM_OUTSIDE = frozenset({"outside", "caller"})
"""The kinds of routes for a stop from outside: for `user_requested`, or by a caller that names
another reason."""
UNDRAWN = FROM_OUTSIDE | {"start", "stop", "resume"}
"""The kinds of routes without an edge, rule or signal, which records and pictures do not show."""


class TooLarge(Exception):
    """The machine has too many paths for an answer in reasonable time."""


Reached = tuple[tuple[str, float], ...]
"""Counters, each with a value that it has reached."""


class Target(NamedTuple):
    """The destination of a move, before entering it."""

    state: str
    fork: bool = False
    """Whether it leads into the branches of the state's `all`, not into the state."""
    stop: bool = False
    attempt: int = 0
    set: tuple[Assign, ...] = ()


class Branch(NamedTuple):
    """The progress of a walk through the branches of a fork."""

    fork: str
    number: int
    best: str = ""
    """The highest stop that earlier branches have reached; empty if none."""


class Place(NamedTuple):
    """A state, with everything else that decides where a run goes from it."""

    state: str
    returns: tuple[tuple[str, Target], ...] = ()
    """The detours that have not returned: the rule, and where it interrupted the run."""
    attempt: int = 0
    continued: bool = False
    stopping: bool = False
    skip: str = ""
    """The latest detour, which is not made again before an action."""
    branch: Branch | None = None
    stops: tuple[str, ...] | None = None
    """The rules that may stop the run here; None unless a stop is decided here."""
    raised: tuple[str, ...] = ()
    """The reasons, other than those of rules, for which the run may stop here."""
    ok: bool | None = None
    """Whether the last action succeeded; None where guards may not depend on it."""
    reached: Reached = ()
    """The values that counters have reached, as earlier decisions imply."""


@dataclass(slots=True)
class Route:
    """One move. `state` and `outcome` are those of the action or wait that ends with it."""

    source: int
    dest: int
    origin: str
    """The id of the edge or rule, as in records and pictures."""
    kind: str
    state: str = ""
    outcome: str = ""
    gates: Mapping[str, float] = field(default_factory=dict[str, float])
    after: Mapping[str, float] = field(default_factory=dict[str, float])
    wait: tuple[float, float] = (0.0, 0.0)
    """The seconds of a back-off: by the file, and at most if the provider asks for more."""
    entry: str = ""
    """Of a route from the first place: the state at which the run begins."""


class Move(NamedTuple):
    """A transition of the state itself, before rules are considered."""

    origin: str
    kind: str
    target: Target | None
    """None: back from a detour."""
    gates: Mapping[str, float] = {}
    wait: tuple[float, float] = (0.0, 0.0)
    into: str = ""
    """The state for `before` rules."""
    reached: Reached = ()
    """The values that counters must have reached."""


def join_gates(*every: Mapping[str, float]) -> dict[str, float]:
    """Return gates that are open only if all of these are."""
    out: dict[str, float] = {}
    for gates in every:
        for counter, at in gates.items():
            out[counter] = min(at, out.get(counter, at))
    return out


def highest(*every: Reached) -> Reached:
    """Return the highest value of each counter."""
    out: dict[str, float] = {}
    for counter, at in (pair for reached in every for pair in reached):
        out[counter] = max(at, out.get(counter, at))
    return tuple(sorted(out.items()))


def add_counts(counts: dict[str, float], more: Mapping[str, float]) -> None:
    """Add counts to `counts`, in place."""
    for counter, amount in more.items():
        counts[counter] = counts.get(counter, 0) + amount


def is_closed(gates: Mapping[str, float]) -> bool:
    """Whether a stop rule always holds."""
    return "" in gates
