"""A machine as a plain statechart: the record from which XState and SCXML are written.

An exported machine has the events of the live one: `advance` when an action is done, `expired`
when a deadline has passed, the events of the file, and before each of them `check`, which tries the
rules. Rules that apply everywhere are written once, on a parent of the states that evaluate rules.
These states have no `check` of their own, so the priority that both languages give to children
never matters; a state with extra rules (`at`, `before`) has the whole list itself, in order.

Belongs here: the exported records. Never: reading them from a machine, or a format.

Source:       docs/language.md, sections 4 and 5
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CHECK = "check"
"""The event that tries the rules."""
PARENT = "under-rules"
"""The parent of the states that evaluate rules. Names in a machine file have no hyphen."""


@dataclass(frozen=True, slots=True)
class Action:
    """An effect of entering a state or of taking a transition."""

    name: str
    """The action of a state, or `chartloop.set`, `chartloop.status`, `chartloop.stop`."""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Its parameters, as plain data."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A guard with its name in the export."""

    name: str
    """An identifier in any language, unique in its statechart."""
    text: str
    """An expression of the file, or a description of one of the engine's own guards."""
    edge: str
    """The id of its edge or rule."""
    to: str = ""
    """For the return from a detour: its target."""
    before: tuple[str, ...] = ()
    """For a rule: it holds only when one of these states is about to be entered."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One transition."""

    event: str
    """Empty: taken immediately."""
    target: str
    edge: str
    """The id of the edge or rule of the machine."""
    kind: str = "advance"
    label: str = ""
    """As shown in the picture."""
    guard: str = ""
    """The name of its predicate; empty if the transition is unconditional."""
    actions: tuple[Action, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """For an event of the file: the fields of the answer and their types."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The longest stay in a state."""

    text: str
    seconds: float | None
    """None if it is known only when the state is entered."""


@dataclass(frozen=True, slots=True)
class Node:
    """One state."""

    name: str
    label: str
    job: str
    """`act`, `wait`, `decide`, `fork`, `pass` or `end`."""
    about: str = ""
    actions: tuple[Action, ...] = ()
    """On entry, in order."""
    transitions: tuple[Transition, ...] = ()
    """In the order in which they are tried, event by event."""
    checks: tuple[Transition, ...] = ()
    """The transitions tried at `check`; empty if the parent's list suffices."""
    deadline: Deadline | None = None
    ruled: bool = False
    """Whether rules are evaluated here: not at ends, nor in states reached only by a stop."""

    @property
    def rests(self) -> bool:
        """Whether a machine stays here until an event; otherwise it continues immediately."""
        return self.job in ("act", "wait", "end")


@dataclass(frozen=True, slots=True)
class Statechart:
    """One region: its states, and the rules common to all states that evaluate rules."""

    name: str
    title: str
    about: str
    start: str
    nodes: tuple[Node, ...]
    checks: tuple[Transition, ...] = ()
    """The common rules, on the parent; empty if no parent is needed."""
    predicates: tuple[Predicate, ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    """Every rule of the file, including those that only raise a signal and lead nowhere."""

    @property
    def under(self) -> tuple[Node, ...]:
        """The states below `PARENT`."""
        return tuple(node for node in self.nodes if self.checks and node.ruled)

    @property
    def beside(self) -> tuple[Node, ...]:
        """The states outside `PARENT`."""
        return tuple(node for node in self.nodes if not (self.checks and node.ruled))
