"""The live machines: `transitions` with lean events and guards that are objects.

A region is a flat `transitions.Machine` without models. What moves is a throwaway cursor that
is handed to the event; the machine itself is shared by all runs and threads and never changes
once built. Lean means: no callbacks, no per-call logging, guards called directly. A
differential test drives the same definition through the stock classes and must see the same
transitions.

Only door to `transitions`, with `machine.build`. Facts about the library: its guards compare
with `== True`, import dotted strings and add keys when read; see the tests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from transitions import Machine as StockMachine
from transitions.core import Condition, Event, State, Transition

from chartloop.core.facts import Facts
from chartloop.language.expression import Expression
from chartloop.language.spec import Edge, Rule, StateSpec

logging.getLogger("transitions").setLevel(logging.WARNING)


class Answers:
    """Asks registered Python guards, or repeats what they said, and keeps a list of it."""

    __slots__ = ("ask", "given", "known")

    def __init__(
        self, ask: Callable[[str, tuple[Any, ...]], bool] | None, given: tuple[bool, ...]
    ) -> None:
        self.ask = ask
        self.given: list[bool] = [*given] if ask is None else []
        self.known: list[tuple[str, tuple[Any, ...]]] = []
        """Which guard was asked what, in the order of `given`."""

    def __call__(self, name: str, args: tuple[Any, ...]) -> bool:
        if self.ask is not None:
            self.given.append(bool(self.ask(name, args)))
        elif len(self.known) >= len(self.given):
            raise LookupError(f"the record holds no answer of guard `{name}`")
        self.known.append((name, args))
        return self.given[len(self.known) - 1]

    def said(self, name: str, args: tuple[Any, ...]) -> bool:
        """What this guard answered to these arguments: for saying why, nobody is asked twice.

        `LookupError` when it was not asked that.
        """
        for n in reversed(range(len(self.known))):
            if self.known[n] == (name, args):
                return self.given[n]
        raise LookupError(f"guard `{name}` was not asked that")


class Cursor:
    """What a decision moves: state and status of one run, for as long as one `evolve` takes."""

    __slots__ = (
        "branch", "facts", "failed", "oracle", "raised", "retrying", "returning", "state",
        "status", "verdicts",
    )  # fmt: skip

    def __init__(self, state: str, status: str, facts: Facts, oracle: Answers) -> None:
        self.state = state
        self.status = status
        self.facts = facts
        self.oracle = oracle
        self.verdicts: Sequence[bool] = ()
        self.raised = ""
        """The highest reason that was raised before this decision's rules."""
        self.branch: int | None = None
        self.returning = ""
        self.retrying = False
        self.failed = False


class Guard:
    """What stands in a transition's conditions. Called with `EventData` by the stock path."""

    __slots__ = ("__name__",)

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, event_data: Any) -> bool:
        return self.holds(event_data.model)

    def holds(self, cursor: Cursor) -> bool:
        """Whether the transition may be taken."""
        raise TypeError(f"{type(self).__name__} decides nothing")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}>"


class Holds(Guard):
    """An expression of the file is true."""

    __slots__ = ("expression", "fn")

    def __init__(self, expression: Expression) -> None:
        super().__init__(expression.text)
        self.expression = expression
        self.fn = expression.fn

    def holds(self, cursor: Cursor) -> bool:
        return self.fn(cursor.facts, cursor.oracle)


class Is(Guard):
    """An expression of the file has a value."""

    __slots__ = ("expression", "fn", "value")

    def __init__(self, expression: Expression, value: Any) -> None:
        super().__init__(f"{expression.text} == {value!r}")
        self.expression = expression
        self.fn = expression.fn
        self.value = value

    def holds(self, cursor: Cursor) -> bool:
        return self.fn(cursor.facts, cursor.oracle) == self.value


class RuleHolds(Guard):
    """A rule held when all rules were looked at, before `check` was fired."""

    __slots__ = ("expression", "number")

    def __init__(self, expression: Expression, number: int) -> None:
        super().__init__(expression.text)
        self.expression = expression
        self.number = number

    def holds(self, cursor: Cursor) -> bool:
        return cursor.verdicts[self.number]


class Raised(Guard):
    """One of these reasons is the highest that was raised other than by a rule."""

    __slots__ = ("reasons",)

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = frozenset(reasons)
        super().__init__("raised: " + ", ".join(sorted(self.reasons)))

    def holds(self, cursor: Cursor) -> bool:
        return cursor.raised in self.reasons


class InBranch(Guard):
    """This branch of a fork is being walked."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__(f"branch {number + 1}")
        self.number = number

    def holds(self, cursor: Cursor) -> bool:
        return cursor.branch == self.number


class Returning(Guard):
    """The interrupted edge leads there."""

    __slots__ = ("target",)

    def __init__(self, target: str) -> None:
        super().__init__(f"was going to {target}")
        self.target = target

    def holds(self, cursor: Cursor) -> bool:
        return cursor.returning == self.target


class Retrying(Guard):
    """The action failed, is done again for that, and an attempt is left."""

    __slots__ = ()

    def holds(self, cursor: Cursor) -> bool:
        return cursor.retrying


class Failed(Guard):
    """The action failed."""

    __slots__ = ()

    def holds(self, cursor: Cursor) -> bool:
        return cursor.failed


class GuardCondition(Condition):
    """A condition that only takes guards: a string would be imported and called."""

    def __init__(self, func: Any, target: bool = True) -> None:
        if not isinstance(func, Guard):
            raise TypeError(f"only a guard may stand in a condition, not {func!r}")
        super().__init__(func, target)

    def check(self, event_data: Any) -> bool:
        return bool(cast(Any, self).func(event_data))


class GuardedTransition(Transition):
    """One way on in the live machine: what the picture draws and the run takes.

    `origin` is the id of the edge or rule that it comes from (one rule is on many states);
    `kind` says what it is; `set` and `stop` happen when it is taken, `message` goes with `stop`.
    """

    condition_cls = GuardCondition
    source: str
    dest: str | None

    def __init__(
        self, source: str, dest: str | None, *args: Any, origin: str = "", kind: str = "advance",
        edge: Edge | None = None, rule: Rule | None = None, by: str = "file", **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(source, cast(Any, dest), *args, **more)
        self.origin = origin
        self.kind = kind
        self.edge = edge
        self.rule = rule
        self.by = by
        self.set = edge.set if edge is not None else ()
        self.stop = edge.stop if edge is not None else ""
        self.message = edge.message if edge is not None else None
        stock = cast(Any, self)
        self.guards: tuple[Guard, ...] = tuple(c.func for c in stock.conditions)
        self.holds = tuple(g.holds for g in self.guards)
        if stock.prepare or stock.before or stock.after:
            raise TypeError("callbacks are no part of a machine: effects happen in actions")

    @property
    def is_edge(self) -> bool:
        """Whether it is a way of the state's own, not one that a rule or signal opens."""
        return self.kind not in ("rule", "raised")

    @property
    def forks(self) -> bool:
        """Whether it is a branch of an `all`: all of them are taken, whatever else holds."""
        return any(isinstance(guard, InBranch) for guard in self.guards)


class LeanEvent(Event):
    """Fires on a cursor: the first transition whose guards all hold, in order."""

    def __init__(self, name: str, machine: Any) -> None:
        super().__init__(name, machine)
        self.trigger_name = name
        self._attribute: str = machine.attribute
        self._found = cast("dict[str, list[GuardedTransition]]", cast(Any, self).transitions)

    def at(self, state: str) -> Sequence[GuardedTransition]:
        """What a state may do at this event, in order."""
        # .get: subscripting this defaultdict would add the key and hide a later error
        return self._found.get(state, ())

    @property
    def all(self) -> Iterator[GuardedTransition]:
        """Every transition of this event, state by state."""
        for found in list(self._found.values()):
            yield from found

    def choose(self, cursor: Cursor) -> GuardedTransition | None:
        """The transition that would be taken; nothing moves."""
        for transition in self._found.get(getattr(cursor, self._attribute), ()):
            for holds in transition.holds:
                if not holds(cursor):
                    break
            else:
                return transition
        return None

    def trigger(self, cursor: Cursor) -> GuardedTransition | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take the first transition that may be taken; None when there is none."""
        transition = self.choose(cursor)
        if transition is not None and transition.dest is not None:
            setattr(cursor, self._attribute, transition.dest)
        return transition


class Node(State):
    """A state of the live machine, with what the file says about it (None: the engine's own)."""

    def __init__(self, name: str, *args: Any, spec: StateSpec | None = None, **more: Any) -> None:
        super().__init__(name, *args, **more)
        self.spec = spec


class Region(StockMachine):
    """One flat machine. `attribute` is what it moves on a cursor: ``state`` or ``status``."""

    transition_cls = GuardedTransition
    event_cls = LeanEvent
    state_cls = Node

    def __init__(self, attribute: str, states: Sequence[Node], initial: str) -> None:
        self.attribute = attribute
        super().__init__(
            model=None, states=list(states), initial=initial, auto_transitions=False,
            send_event=True, queued=False, model_attribute=attribute, ignore_invalid_triggers=True,
        )  # fmt: skip
        self.nodes = cast("dict[str, Node]", cast(Any, self).states)
        self.triggers = cast("dict[str, LeanEvent]", cast(Any, self).events)

    def add(self, trigger: str, source: str, dest: str | None, **more: Any) -> None:
        """One transition. States are checked here: the library does so only when it fires."""
        for name in (source, dest):
            if name is not None and name not in self.nodes:
                raise ValueError(f"no state `{name}` in this machine")
        if trigger not in self.triggers:
            self.triggers[trigger] = cast(Any, self.event_cls)(trigger, self)
        made = GuardedTransition(source, dest, **more)
        cast(Any, self.triggers[trigger]).add_transition(made)

    def transitions(self, trigger: str | None = None) -> Iterator[GuardedTransition]:
        """The live transitions, in the order in which each state tries them."""
        for name, event in self.triggers.items():
            if trigger is None or name == trigger:
                yield from event.all
