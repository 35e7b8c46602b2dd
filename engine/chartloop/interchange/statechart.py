"""A machine as a plain statechart: the record that XState and SCXML are written from.

An exported machine has the events of the live one: `advance` when an action is done, `expired`
when a time is over, those of the file, and before each of them `check`, at which rules are
tried. Rules that hold everywhere are written once, at a parent of the states where rules are looked
at. These take no `check` of their own, so the priority that both languages give to children
never comes into play; a state with more rules than the others (`at`, `before`) has the whole
list itself, in order.

Belongs here: what is exported. Never: how it is read off a machine, or a format.

Source:       design "language", sections 4 and 5
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CHECK = "check"
"""The event at which rules are tried."""
PARENT = "under-rules"
"""The parent of the states where rules are evaluated. No name of a file has a hyphen."""


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that is done on entering a state or on taking a way."""

    name: str
    """The action of a state, or `chartloop.set`, `chartloop.status`, `chartloop.stop`."""
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Plain data."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A guard under the name that the export gives it."""

    name: str
    """A word that any language takes as the name of a field, unique in its statechart."""
    text: str
    """An expression of the file, or words for a guard of the engine's own."""
    edge: str
    """The id of the edge or rule that it is at."""
    to: str = ""
    """For a way back from a detour: where it leads."""
    before: tuple[str, ...] = ()
    """For a rule: it holds only when one of these states is about to be entered."""


@dataclass(frozen=True, slots=True)
class Way:
    """One transition."""

    event: str
    """Empty: taken at once."""
    target: str
    edge: str
    """The id of the edge or rule of the machine."""
    kind: str = "advance"
    label: str = ""
    """As the picture shows it."""
    guard: str = ""
    """The name of its predicate; empty for one that always holds."""
    deeds: tuple[Deed, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """For an event of the file: the fields of the answer, with their types."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """How long a state may last."""

    text: str
    seconds: float | None
    """None where it is known only when the state is entered."""


@dataclass(frozen=True, slots=True)
class Node:
    """One state."""

    name: str
    label: str
    job: str
    """`act`, `wait`, `decide`, `fork`, `pass` or `end`."""
    about: str = ""
    deeds: tuple[Deed, ...] = ()
    """On entering it, in order."""
    ways: tuple[Way, ...] = ()
    """In the order of trial, event by event."""
    checks: tuple[Way, ...] = ()
    """What it tries at `check`; empty where its parent's list says it all."""
    deadline: Deadline | None = None
    ruled: bool = False
    """Whether rules are evaluated here: not at ends, nor where only a stop leads."""

    @property
    def rests(self) -> bool:
        """Whether a machine stays here until an event; else it continues at once."""
        return self.job in ("act", "wait", "end")


@dataclass(frozen=True, slots=True)
class Statechart:
    """One region: its states, and the rules that hold wherever any are looked at."""

    name: str
    title: str
    about: str
    start: str
    nodes: tuple[Node, ...]
    checks: tuple[Way, ...] = ()
    """Empty where the parent of states under rules is not needed."""
    predicates: tuple[Predicate, ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    """Every rule of the file, also those that only raise a signal and so lead nowhere."""

    @property
    def under(self) -> tuple[Node, ...]:
        """The states below the parent that tries the rules."""
        return tuple(node for node in self.nodes if self.checks and node.ruled)

    @property
    def beside(self) -> tuple[Node, ...]:
        """The states that have no such parent."""
        return tuple(node for node in self.nodes if not (self.checks and node.ruled))
