"""Expressions: the text, the type, the facts read, and a function that evaluates it.

Everything besides text and type is derived from the checked tree on first use, so that loading a
file compiles nothing.

Source: `docs/language.md`, "Expressions"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Literal

from chartloop.core.errors import ChartloopError
from chartloop.core.facts import Facts
from chartloop.core.types import Type
from chartloop.language.expression import atoms as reading
from chartloop.language.expression import compile as code
from chartloop.language.expression import monotone, operators
from chartloop.language.expression.atoms import Atom, Bound, Probe, Reading
from chartloop.language.expression.check import Checker
from chartloop.language.expression.narrow import paths_not_none
from chartloop.language.expression.runtime import GUARD_ERRORS, Function, Oracle, no_oracle
from chartloop.language.expression.scope import ExpressionFault, Scope
from chartloop.language.expression.syntax import read
from chartloop.language.expression.tree import (
    Arith,
    Call,
    Compare,
    Const,
    Each,
    Element,
    Fact,
    Field,
    Items,
    Node,
    Opaque,
    Pairs,
    facts_of,
    walk,
)

Direction = Literal["+", "-", "", "?"]


class GuardFailed(ChartloopError):
    """An expression could not be evaluated, so it is neither true nor false. The run stops."""

    def __init__(self, text: str, cause: Exception) -> None:
        self.text = text
        self.cause = cause
        super().__init__(f"`{text}` could not be evaluated: {type(cause).__name__}: {cause}")

    def __reduce__(self) -> tuple[type[GuardFailed], tuple[str, Exception]]:
        return (GuardFailed, (self.text, self.cause))


@dataclass(frozen=True)
class Expression:
    """A checked expression. Expressions are equal if text and type are."""

    text: str
    type: Type
    root: Node = field(compare=False, repr=False)
    doubts: tuple[ExpressionFault, ...] = field(default=(), compare=False, repr=False)
    """Faults that are only warnings."""

    def __reduce__(self) -> tuple[type[Expression], tuple[str, Type, Node]]:
        return (Expression, (self.text, self.type, self.root))

    @cached_property
    def fn(self) -> Function:
        """The compiled function ``(facts, oracle) -> value``. It may raise `GUARD_ERRORS`."""
        return code.function(self.root)

    def value(self, facts: Facts, oracle: Oracle = no_oracle) -> Any:
        """Evaluate the expression. Raises `GuardFailed` if `fn` raises."""
        try:
            return self.fn(facts, oracle)
        except GUARD_ERRORS as error:
            raise GuardFailed(self.text, error) from error

    @cached_property
    def reads(self) -> frozenset[str]:
        """The facts that it reads, through definitions too.

        ``usage.total_tokens``, ``run.visits.plan``, ``errors.last`` (for its fields as well).
        """
        return frozenset(facts_of(self.root))

    @cached_property
    def opaque(self) -> tuple[str, ...]:
        """The names of the registered Python guards that it calls, each once."""
        names = (node.name for node in walk(self.root) if isinstance(node, Opaque))
        return tuple(dict.fromkeys(names))

    @cached_property
    def constant(self) -> bool:
        """Whether it reads no fact and calls no guard."""
        return not self.reads and not self.opaque

    @cached_property
    def may_fail(self) -> bool:
        """Whether evaluating it may raise; False only if it certainly cannot."""
        return may_fail(self.root)

    @cached_property
    def ops(self) -> frozenset[str]:
        """The comparison operators in it."""
        compares = (node for node in walk(self.root) if isinstance(node, Compare))
        return frozenset(link.op for compare in compares for link in compare.links)

    @cached_property
    def kind(self) -> Literal["budget", "signal"]:
        """`budget` if it must become true as the run continues, else `signal`: see `monotone`."""
        return "budget" if monotone.is_budget(self.root) else "signal"

    @cached_property
    def bounds(self) -> tuple[Bound, ...]:
        """Its atoms of the form ``fact >= bound``."""
        return reading.bounds(self.root)

    def direction(self, fact: str) -> Direction:
        """The direction in which it moves as the fact grows and all other facts stay.

        ``+``: it can only become true, or rise; ``-``: only false, or fall; empty: the fact has
        no influence; ``?``: none of these can be shown.
        """
        sign = monotone.sign(self.root, fact)
        return "?" if sign is None else ("", "+", "-")[sign]

    def implies(self, holds: bool) -> frozenset[str]:
        """The dotted facts that cannot be None when it is true (`holds`) or false."""
        return paths_not_none(self.root, holds=holds)

    @cached_property
    def atoms(self) -> tuple[Atom, ...]:
        """The comparisons and boolean facts that it consists of, in the order of the text."""
        return tuple(reading.atoms(self.root))

    @cached_property
    def _probes(self) -> tuple[Probe, ...]:
        return tuple(Probe(atom) for atom in self.atoms)

    def readings(self, facts: Facts, oracle: Oracle = no_oracle) -> tuple[Reading, ...]:
        """The reading of each atom, in the order of the text; each is evaluated separately."""
        return tuple(probe.read(facts, oracle) for probe in self._probes)


def parse(text: str, scope: Scope, *, want: Type | None = None) -> Expression:
    """Parse and check an expression in a scope.

    `want` is the required type, `BOOL` for a guard; None accepts any.

    Raises `ExpressionFault` with one of the codes CL101 to CL113 or CL209.
    """
    try:
        tree, source = read(text)
        checker = Checker(scope, source, known=scope.known)
        checked = checker.top(tree, want)
    except RecursionError:
        raise ExpressionFault("CL107", "nested too deeply", width=len(text)) from None
    return Expression(
        text.strip(), operators.fill_empty_types(checked.type), checked, tuple(checker.doubts)
    )


def fuse(expressions: Sequence[Expression]) -> Callable[[Any, Oracle], tuple[Any, ...]]:
    """Compile several expressions into one function.

    It returns their values in order, or raises the error of the first that fails.
    """
    return code.together([expression.root for expression in expressions])


def widen(facts: Facts, **extra: Any) -> Any:
    """Add values for a scope's `extra` roots to the facts, for `fn` and `value`."""
    return SimpleNamespace(**facts.to_mapping(), **extra)


_DIVIDING = ("/", "//", "%")
_DEEPEST: Mapping[str, int] = {"vars": 2, "limits": 2}
"""The depth of paths with declared types, for roots whose items have one."""


def may_fail(root: Node) -> bool:
    """Whether evaluating the tree may raise one of `GUARD_ERRORS`."""
    return any(fails_itself(node) for node in walk(root))


def fails_itself(node: Node) -> bool:
    """Whether evaluating the node may raise, given the values of its parts."""
    match node:
        case Const():
            return False
        case _ if node.type.kind == "any":
            return True
        case Opaque() | Element() | Each():
            return True
        case Field(step=step):
            return step.keyed
        case Arith(op=op, right=right):
            divides = op in _DIVIDING and not (isinstance(right, Const) and right.value)
            return divides or node.type.kind != "int"
        case Fact(path=path, steps=steps):
            typed = len(steps) <= _DEEPEST.get(path.partition(".")[0], len(steps))
            return not typed or any(s.keyed and not s.counter for s in steps[2:])
        case Call(name="min" | "max", args=args):
            return len(args) == 1
        case Compare(links=links):
            return any(k.op in ("in", "not in") and not _written_out(k.right) for k in links)
        case _:
            return False


def _written_out(node: Node) -> bool:
    """Whether a node is a literal list or map, or a text."""
    return isinstance(node, (Items, Pairs)) or node.type.kind in ("str", "enum")
