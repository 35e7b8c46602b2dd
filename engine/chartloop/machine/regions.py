"""The live machines: `transitions` with lean events and guards that are objects.

A region is a flat `transitions.Machine` without models. An event moves a temporary cursor; the
machine itself is shared by all runs and threads. Lean means: no callbacks, no logging per call,
guards called directly. A differential test drives the same definition through the stock classes and
must see the same transitions.

One truth: an event decides by its own `transitions` and their `conditions`, and pictures are drawn
from the same objects. After `Region.close`, every change through the library's interface, or to one
of these objects, raises `ClosedChartError`.

The only module that imports `transitions`. The library compares guards with `== True`, imports
dotted strings and adds keys on reading; see the tests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Any, ClassVar, cast

from transitions import Machine as StockMachine
from transitions.core import Condition, Event, State, Transition

from chartloop.core.errors import ClosedChartError
from chartloop.core.facts import Facts
from chartloop.language.expression import Expression, no_oracle
from chartloop.language.spec import Edge, Rule, StateSpec

logging.getLogger("transitions").setLevel(logging.WARNING)


class Answers:
    """The answers of registered Python guards: asked and recorded, or replayed."""

    __slots__ = ("ask", "given", "known")

    def __init__(
        self, ask: Callable[[str, tuple[Any, ...]], bool] | None, given: tuple[bool, ...]
    ) -> None:
        self.ask = ask
        self.given: list[bool] = [*given] if ask is None else []
        self.known: list[tuple[str, tuple[Any, ...]]] = []
        """The guard and arguments of each call, in the order of `given`."""

    def __call__(self, name: str, args: tuple[Any, ...]) -> bool:
        if self.ask is not None:
            self.given.append(bool(self.ask(name, args)))
        elif len(self.known) >= len(self.given):
            raise LookupError(f"the record holds no answer of guard `{name}`")
        self.known.append((name, args))
        return self.given[len(self.known) - 1]

    def recall(self, name: str, args: tuple[Any, ...]) -> bool:
        """Return the latest answer of a guard to these arguments, without calling it again.

        Raises `LookupError` if there is none.
        """
        for n in reversed(range(len(self.known))):
            if self.known[n] == (name, args):
                return self.given[n]
        raise LookupError(f"guard `{name}` was not asked that")


NO_ANSWERS = Answers(no_oracle, ())
"""The answers where no Python guard is registered."""


class Configuration:
    """The state that live machines move and guards read: of one run, during one `evolve`."""

    state: str
    status: str
    facts: Facts
    oracle: Answers
    branch: int | None
    retrying: bool
    failed: bool
    # defaults on the class, because most decisions never read them
    verdicts: Sequence[bool] = ()
    raised = ""
    """The highest reason that was raised before this decision's rules."""
    returning = ""


class Closable:
    """A part of a live machine, which can be changed until it is closed."""

    __slots__ = ()
    closed: ClassVar[bool] = False  # a closed instance has an attribute of its own: True

    def __setattr__(self, name: str, value: Any) -> None:
        self.refuse_if_closed(name, "set")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self.refuse_if_closed(name, "deleted")
        super().__delattr__(name)

    def refuse_if_closed(self, name: str, verb: str) -> None:
        """Raise `ClosedChartError` if it is closed."""
        if self.closed:
            what = f"`{name}` of {self!r} cannot be {verb}: the chart is closed"
            raise ClosedChartError(what, hint=HOW_TO_CHANGE)

    def shut(self) -> None:
        """Refuse every later change."""
        object.__setattr__(self, "closed", True)

    def add_callback(self, trigger: str, func: object) -> None:
        """Refuse a callback, closed or not: lean events call none."""
        what = f"`{trigger}` of {self!r} takes no callback: effects happen in actions"
        raise ClosedChartError(what, hint=HOW_TO_CHANGE)


HOW_TO_CHANGE = "change the machine's file and load it: that gives a new chart and a new picture"


def _while_open(method: Callable[..., Any]) -> Any:
    """Wrap a method of the library so that it fails once the machine is closed."""

    @wraps(method)
    def changing(self: Closable, *args: Any, **more: Any) -> Any:
        self.refuse_if_closed(method.__name__, "called")
        return method(self, *args, **more)

    return changing


class Guard:
    """The content of a transition's condition. Stock events call it with `EventData`."""

    __slots__ = ("__name__",)

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, name):  # each attribute is set once, by `__init__`
            raise ClosedChartError(f"`{name}` of {self!r} cannot be set", hint=HOW_TO_CHANGE)
        super().__setattr__(name, value)

    def __call__(self, event_data: Any) -> bool:
        return self.holds(event_data.model)

    def holds(self, cursor: Configuration) -> bool:
        """Whether the transition may be taken."""
        raise TypeError(f"{type(self).__name__} decides nothing")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}>"


class Holds(Guard):
    """Holds if an expression of the file is true."""

    __slots__ = ("expression", "fn")

    def __init__(self, expression: Expression) -> None:
        super().__init__(expression.text)
        self.expression = expression
        self.fn = expression.fn

    def holds(self, cursor: Configuration) -> bool:
        return self.fn(cursor.facts, cursor.oracle)


class Is(Guard):
    """Holds if an expression of the file has a value."""

    __slots__ = ("expression", "fn", "value")

    def __init__(self, expression: Expression, value: Any) -> None:
        super().__init__(f"{expression.text} == {value!r}")
        self.expression = expression
        self.fn = expression.fn
        self.value = value

    def holds(self, cursor: Configuration) -> bool:
        return self.fn(cursor.facts, cursor.oracle) == self.value


class RuleHolds(Guard):
    """Holds if a rule held when all rules were evaluated, before `check` was fired."""

    __slots__ = ("expression", "number")

    def __init__(self, expression: Expression, number: int) -> None:
        super().__init__(expression.text)
        self.expression = expression
        self.number = number

    def holds(self, cursor: Configuration) -> bool:
        return cursor.verdicts[self.number]


class Raised(Guard):
    """Holds if one of these reasons is the highest that was raised other than by a rule."""

    __slots__ = ("reasons",)

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = frozenset(reasons)
        super().__init__("raised: " + ", ".join(sorted(self.reasons)))

    def holds(self, cursor: Configuration) -> bool:
        return cursor.raised in self.reasons


class InBranch(Guard):
    """Holds while this branch of a fork is being walked."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__(f"branch {number + 1}")
        self.number = number

    def holds(self, cursor: Configuration) -> bool:
        return cursor.branch == self.number


class Returning(Guard):
    """Holds if the edge that a detour interrupted leads to `target`."""

    __slots__ = ("target",)

    def __init__(self, target: str) -> None:
        super().__init__(f"was going to {target}")
        self.target = target

    def holds(self, cursor: Configuration) -> bool:
        return cursor.returning == self.target


class Retrying(Guard):
    """Holds if the action failed and is retried."""

    __slots__ = ()

    def holds(self, cursor: Configuration) -> bool:
        return cursor.retrying


class Failed(Guard):
    """Holds if the action failed."""

    __slots__ = ()

    def holds(self, cursor: Configuration) -> bool:
        return cursor.failed


class GuardCondition(Closable, Condition):
    """A condition that accepts only guards: the library would import and call a string."""

    def __init__(self, func: Any, target: bool = True) -> None:
        if not isinstance(func, Guard):
            raise TypeError(f"only a guard is allowed in a condition, not {func!r}")
        if not target:
            raise TypeError(f"a guard says what must hold: {func!r} is not allowed under `unless`")
        super().__init__(func, target)
        self.guard: Guard = func
        self.holds = func.holds
        self.shut()

    def check(self, event_data: Any) -> bool:
        return bool(self.guard(event_data))


class GuardedTransition(Closable, Transition):
    """One transition of the live machine, which the picture draws and the run takes.

    `origin` is the id of its edge or rule (one rule is on many states) and `kind` its kind; `set`
    and `stop` take effect when it is taken, and `message` goes with `stop`.
    """

    condition_cls = GuardCondition
    source: str
    dest: str | None
    conditions: Sequence[GuardCondition]

    def __init__(
        self, source: str, dest: str | None, *args: Any, origin: str = "", kind: str = "advance",
        edge: Edge | None = None, rule: Rule | None = None, by: str = "file", **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(source, cast(Any, dest), *args, **more)
        self.origin = origin
        self.ids = (origin,)
        """What a record says was taken; the records of all runs share it."""
        self.kind = kind
        self.edge = edge
        self.rule = rule
        self.by = by
        self.set = edge.set if edge is not None else ()
        self.stop = edge.stop if edge is not None else ""
        self.message = edge.message if edge is not None else None
        stock = cast(Any, self)
        if stock.prepare or stock.before or stock.after:
            raise TypeError("callbacks are not part of a machine: effects happen in actions")

    def close(self) -> None:
        """Freeze its guards."""
        guards = tuple(self.conditions)
        self.conditions = guards  # pyright: ignore[reportIncompatibleVariableOverride]
        _close_lists(self, "prepare", "before", "after")
        self.shut()

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The guards of its conditions, in order."""
        return tuple([condition.guard for condition in self.conditions])

    @property
    def is_edge(self) -> bool:
        """Whether it belongs to the state itself, not to a rule or signal."""
        return self.kind not in ("rule", "raised")

    @property
    def of_failure(self) -> bool:
        """Whether only a failure of the action can take it."""
        return self.diverts or self.kind == "retry"

    @property
    def diverts(self) -> bool:
        """Whether it leads a failure to another state than a success."""
        return self.kind in ("failed", "error")

    @property
    def forks(self) -> bool:
        """Whether it is a branch of an `all`, of which every one is taken."""
        return any(isinstance(guard, InBranch) for guard in self.guards)


class LeanEvent(Closable, Event):
    """An event that takes the first transition whose conditions all hold, on a cursor."""

    transitions: Mapping[str, Sequence[GuardedTransition]]

    def __init__(self, name: str, machine: Any) -> None:
        super().__init__(name, machine)
        self.trigger_name = name
        self._attribute: str = machine.attribute

    add_transition: Any = _while_open(Event.add_transition)

    def close(self) -> None:
        """Freeze its transitions."""
        for transition in self.all:
            transition.close()
        frozen = MappingProxyType({n: tuple(t) for n, t in self.transitions.items()})
        self.transitions = frozen  # pyright: ignore[reportIncompatibleVariableOverride]
        self.shut()

    def at(self, state: str) -> Sequence[GuardedTransition]:
        """The transitions of a state at this event, in order."""
        # .get, because subscripting the library's defaultdict adds the key and hides errors
        return self.transitions.get(state, ())

    @property
    def all(self) -> Iterator[GuardedTransition]:
        """Every transition of this event, state by state."""
        for transitions in list(self.transitions.values()):
            yield from transitions

    def choose(self, cursor: Configuration) -> GuardedTransition | None:
        """Return the transition that would be taken, without moving the cursor."""
        for transition in self.transitions.get(getattr(cursor, self._attribute), ()):
            for condition in transition.conditions:
                if not condition.holds(cursor):
                    break
            else:
                return transition
        return None

    def trigger(self, cursor: Configuration) -> GuardedTransition | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take the first transition whose guards hold. Returns None if there is none."""
        transition = self.choose(cursor)
        if transition is not None and transition.dest is not None:
            setattr(cursor, self._attribute, transition.dest)
        return transition


class Node(Closable, State):
    """A state of the live machine, with its spec (None for an end of the engine)."""

    def __init__(self, name: str, *args: Any, spec: StateSpec | None = None, **more: Any) -> None:
        super().__init__(name, *args, **more)
        self.spec = spec

    def close(self) -> None:
        """Freeze it."""
        _close_lists(self, "on_enter", "on_exit")
        self.shut()


class Region(Closable, StockMachine):
    """One flat machine. `attribute` is the cursor's attribute that it moves: a state or status."""

    transition_cls = GuardedTransition
    event_cls = LeanEvent
    state_cls = Node

    def __init__(self, attribute: str, states: Sequence[Node], initial: str) -> None:
        self.attribute = attribute
        super().__init__(
            model=None, states=list(states), initial=initial, auto_transitions=False,
            send_event=True, queued=False, model_attribute=attribute, ignore_invalid_triggers=True,
        )  # fmt: skip

    add_model: Any = _while_open(StockMachine.add_model)
    add_ordered_transitions: Any = _while_open(StockMachine.add_ordered_transitions)
    add_states: Any = _while_open(StockMachine.add_states)
    add_transition: Any = _while_open(StockMachine.add_transition)
    remove_model: Any = _while_open(StockMachine.remove_model)
    remove_transition: Any = _while_open(StockMachine.remove_transition)

    def close(self) -> None:
        """Freeze the machine and all of its parts: every later change is refused."""
        for part in (*self.triggers.values(), *self.nodes.values()):
            part.close()
        stock = cast(Any, self)
        stock.states, stock.events = MappingProxyType(stock.states), MappingProxyType(stock.events)
        _close_lists(
            self, "models", "_before_state_change", "_after_state_change", "_prepare_event",
            "_finalize_event", "_on_exception", "_on_final",
        )  # fmt: skip
        self.shut()

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The states by name, in file order."""
        return cast(Any, self).states

    @property
    def triggers(self) -> Mapping[str, LeanEvent]:
        """The events by name."""
        return self.events  # pyright: ignore[reportReturnType]  each is of `event_cls`

    def add(self, trigger: str, source: str, dest: str | None, **more: Any) -> None:
        """Add a transition. Checks the states, which the library does only when it fires."""
        for name in (source, dest):
            if name is not None and name not in self.nodes:
                raise ValueError(f"no state `{name}` in this machine")
        if trigger not in self.triggers:
            cast(Any, self).events[trigger] = self.event_cls(trigger, self)
        self.triggers[trigger].add_transition(cast(Any, self.transition_cls)(source, dest, **more))

    def transitions(self, trigger: str | None = None) -> Iterator[GuardedTransition]:
        """Yield the live transitions, in the order in which each state tries them."""
        for name, event in self.triggers.items():
            if trigger is None or name == trigger:
                yield from event.all


def _close_lists(part: object, *names: str) -> None:
    """Turn lists of the library into tuples."""
    for name in names:
        setattr(part, name, tuple(getattr(part, name)))
