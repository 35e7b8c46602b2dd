"""The direction of a change to a guard: whether it still holds wherever it held.

`Shift` compares two typed trees: the second is never below the first (+1), never above it (-1), the
same (0), or unknown (None); False counts as less than True. It works like `expression.monotone`,
which examines the growth of a fact; this examines the growth of a number in the text. A sign is
always correct; None may mean that the proof was too hard.

A *loosened* guard (+1) holds wherever it held, and perhaps elsewhere too.

Source: `docs/language.md`, "Expressions"
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from chartloop.language.expression.atoms import is_number
from chartloop.language.expression.monotone import Sign, flip, join
from chartloop.language.expression.tree import (
    MIRROR,
    ORDER,
    Arith,
    Call,
    Choice,
    Compare,
    Const,
    Each,
    Fact,
    Items,
    Link,
    Logic,
    Negative,
    Node,
    Not,
    facts_of,
)

_RISES = frozenset({">=", ">"})
_WRITING = ("type", "text")
"""The fields of a node that follow from the others, or only concern its notation."""


@lru_cache(4_096)
def plain(text: str) -> str:
    """Normalise the notation of an expression: blanks, quotes, needless parentheses."""
    try:
        return ast.unparse(ast.parse(text.strip(), mode="eval"))
    except (SyntaxError, ValueError, RecursionError):
        return " ".join(text.split())


@dataclass(frozen=True)
class Shift:
    """A comparison of trees of two machines, each with the limits of its own file."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    rewritten: Callable[[str], str] = str
    """Rewrites a text of the first machine with the state names of the second."""

    def of(self, a: Node, b: Node) -> Sign:
        """The sign of the change from `a` to `b`, at any facts."""
        if self._same(a, b):
            return 0
        if (moved := self._of_numbers(a, b)) is not None:
            return moved
        match a, b:
            case (Logic(), _) | (_, Logic()):
                return self._of_logic(a, b)
            case (Not(part=one), Not(part=other)) | (Negative(part=one), Negative(part=other)):
                return flip(self.of(one, other))
            case Compare(), Compare():
                return self._of_compare(a, b)
            case Arith(), Arith():
                return self._of_arithmetic(a, b)
            case Choice(), Choice() if self._same(a.test, b.test):
                return join((self.of(a.then, b.then), self.of(a.other, b.other)))
            case Call(), Call() if a.name == b.name in ("min", "max"):
                return self._pairwise(a.args, b.args)
            case Each(), Each():
                return self._of_each(a, b)
            case _:
                return None

    def _same(self, a: Any, b: Any) -> bool:
        """Whether two trees are equal, and so are the values of the limits that they read.

        Not the texts: a name under `define` stands for a tree that may have changed.
        """
        match a, b:
            case (Fact(), Fact()):
                name = b.path.removeprefix("limits.")
                moved = b.is_limit and self.before.get(name) != self.after.get(name)
                return not moved and self.rewritten(a.path) == b.path
            case (Const(), Const()):
                return (type(a.value), a.value) == (type(b.value), b.value)
            case (tuple(), tuple()):
                one, other = cast("tuple[Any, ...]", a), cast("tuple[Any, ...]", b)
                named = getattr(one, "_fields", ())
                telling = [at for at in range(len(one)) if not named or named[at] not in _WRITING]
                alike = type(one) is type(other) and len(one) == len(other)
                return alike and all(self._same(one[at], other[at]) for at in telling)
            case _:
                return bool(a == b)

    def _pairwise(self, ones: Sequence[Node], others: Sequence[Node]) -> Sign:
        if len(ones) != len(others):
            return None
        return join(self.of(*pair) for pair in zip(ones, others, strict=True))

    # numbers --------------------------------------------------------------------------------

    def _of_numbers(self, a: Node, b: Node) -> Sign:
        """The sign for two bounds made of numbers and limits; None for other nodes."""
        one, other = number_of(a, self.before), number_of(b, self.after)
        if one is None or other is None:
            return None
        return (other > one) - (other < one)

    def _of_arithmetic(self, a: Arith, b: Arith) -> Sign:
        if a.op != b.op:
            return None
        left, right = self.of(a.left, b.left), self.of(a.right, b.right)
        match a.op:
            case "+":
                return join((left, right))
            case "-":
                return join((left, flip(right)))
            case "*" if left == 0:
                return _scale_sign(right, b.left)
            case "*" if right == 0:
                return _scale_sign(left, b.right)
            case "/" if right == 0:
                return _scale_sign(left, b.right)
            case _:
                return None

    # logic ----------------------------------------------------------------------------------

    def _of_logic(self, a: Node, b: Node) -> Sign:
        """The sign for `and` and `or`: a further part tightens an `and` and loosens an `or`."""
        ops = {node.op for node in (a, b) if isinstance(node, Logic)}
        if len(ops) > 1:
            return None
        (op,) = ops
        ones, others = _parts(a), _parts(b)
        for part in tuple(ones):
            if like := next((o for o in others if self._same(part, o)), None):
                ones.remove(part)
                others.remove(like)
        if len(ones) == len(others):
            return self._pairwise(ones, others)
        if ones and others:
            return None
        more: Sign = 1 if op == "or" else -1
        return more if others else flip(more)

    def _of_each(self, a: Each, b: Each) -> Sign:
        if (a.name, a.var) != (b.name, b.var) or not self._same(a.source, b.source):
            return None
        if a.name in ("any", "all") and not (a.conditions or b.conditions):
            return self.of(a.element, b.element)
        return None

    # comparisons ----------------------------------------------------------------------------

    def _of_compare(self, a: Compare, b: Compare) -> Sign:
        if len(a.links) != len(b.links):
            return None
        if len(a.links) == 1:
            return self._of_link(a.first, a.links[0], b.first, b.links[0])
        firsts = (a.first, *(link.right for link in a.links))
        others = (b.first, *(link.right for link in b.links))
        return join(
            self._of_link(one, x, other, y)
            for one, x, other, y in zip(firsts, a.links, others, b.links, strict=False)
        )

    def _of_link(self, a: Node, x: Link, b: Node, y: Link) -> Sign:
        if x.op in ORDER and y.op in ORDER and (x.op in _RISES) != (y.op in _RISES):
            b, y = y.right, Link(MIRROR[y.op], b, y.absent)  # `5 <= x` is `x >= 5`
        if x.op == y.op and x.op in ("in", "not in"):
            return self._of_membership(a, x, b, y)
        if x.op not in ORDER or y.op not in ORDER or x.absent != y.absent:
            return None
        left, right = self.of(a, b), self.of(x.right, y.right)
        moved = join((left, flip(right)) if x.op in _RISES else (flip(left), right))
        if x.op == y.op or moved is None:
            return moved
        strict: Sign = -1 if y.op in (">", "<") else 1
        apart = (left == 0 and self._of_numbers(x.right, y.right)) or (
            right == 0 and self._of_numbers(a, b)
        )
        # a different bound matters more than whether it is inclusive
        return moved if apart else join((moved, strict))

    def _of_membership(self, a: Node, x: Link, b: Node, y: Link) -> Sign:
        one, other = _words(x.right), _words(y.right)
        if not self._same(a, b) or one is None or other is None:
            return None
        growth: Sign = 0 if one == other else 1 if one < other else -1 if other < one else None
        return growth if x.op == "in" else flip(growth)


def _parts(node: Node) -> list[Node]:
    return list(node.parts) if isinstance(node, Logic) else [node]


def _scale_sign(moved: Sign, factor: Node) -> Sign:
    if moved == 0 or factor.type.nonneg:
        return moved
    if isinstance(factor, Const) and isinstance(factor.value, (int, float)):
        return moved if factor.value >= 0 else flip(moved)
    return None


def _words(node: Node) -> frozenset[Any] | None:
    """The values of a literal list; None for any other node."""
    if not isinstance(node, Items):
        return None
    values = [item.value for item in node.items if isinstance(item, Const)]
    return frozenset(values) if len(values) == len(node.items) else None


_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}  # fmt: skip


def number_of(node: Node, limits: Mapping[str, Any]) -> float | None:
    """The value of a literal, a limit, or arithmetic of these; None for any other node."""
    if not is_number(node):
        return None
    if not all(fact.is_limit for fact in facts_of(node).values()):
        return None
    value: Any = None
    match node:
        case Const(value=value):
            pass
        case Fact(path=path):
            value = limits.get(path.removeprefix("limits."))
        case Negative(part=part):
            inner = number_of(part, limits)
            value = None if inner is None else -inner
        case Arith(op=op, left=left, right=right) if op in _ARITHMETIC:
            one, other = number_of(left, limits), number_of(right, limits)
            if one is not None and other is not None and (op != "/" or other):
                value = _ARITHMETIC[op](one, other)
        case _:
            pass
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
