"""Atoms: the comparisons and boolean facts that a guard consists of, with their readings.

An atom is one link of a comparison, a bool operand, or an `any` or `all`. Atoms explain why a guard
held or not: each has its values and the margin until it changes, and is evaluated separately, even
if the guard did not evaluate it.

Source: `docs/language.md`, "Expressions"
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from chartloop.core.types import BOOL
from chartloop.language.expression.compile import operands
from chartloop.language.expression.monotone import climbs
from chartloop.language.expression.runtime import GUARD_ERRORS, Oracle, alike
from chartloop.language.expression.tree import (
    INVERSE,
    MIRROR,
    ORDER,
    Choice,
    Compare,
    Fact,
    Link,
    Logic,
    Node,
    Not,
    facts_of,
)


class Bound(NamedTuple):
    """An atom of the form ``fact >= bound``."""

    fact: str
    """The dotted fact. Its side may be arithmetic over it, if that only grows."""
    bound_text: str
    """The text of the other side: ``limits.tokens``, ``50``."""
    strict: bool
    """Whether it is ``>`` instead of ``>=``."""
    text: str
    """The text of the atom."""
    grows: bool = False
    """Whether the fact never falls during a run."""
    decides: bool = False
    """Whether the guard is true whenever the atom is, because no `and` restricts it."""


class Reading(NamedTuple):
    """The value of an atom, with the values of its sides."""

    text: str
    holds: bool | None
    """None if it could not be evaluated; `error` holds the reason."""
    left: Any = None
    """The left side, or the value of an atom without sides."""
    right: Any = None
    margin: float | None = None
    """The distance until the atom changes: bound - fact, negative beyond the bound. None unless
    it compares a number with a bound."""
    share: float | None = None
    """The used share of the bound: fact / bound, at least 0."""
    error: str = ""


class Atom(NamedTuple):
    """A part of a guard with a truth value of its own."""

    text: str
    left: Node
    link: Link | None
    way: int
    """1 if the atom can only make the guard true, -1 under a `not`, 0 if it can do both."""
    decides: bool
    """Whether the guard is true whenever the atom changes in that direction."""

    @property
    def node(self) -> Node:
        """The atom as an expression of its own."""
        if self.link is None:
            return self.left
        return Compare(BOOL, self.text, self.left, (self.link,))


def atoms(node: Node, way: int = 1, *, decides: bool = True) -> Iterator[Atom]:
    """The atoms of an expression, in the order of its text."""
    match node:
        case Logic(op=op, parts=parts):
            alone = decides and (op == "or") == (way == 1)
            for part in parts:
                yield from atoms(part, way, decides=alone)
        case Not(part=part):
            yield from atoms(part, -way, decides=decides)
        case Choice(test=test, then=then, other=other):
            yield from atoms(then, way, decides=False)
            yield from atoms(test, 0, decides=False)
            yield from atoms(other, way, decides=False)
        case Compare(links=links):
            yield from _links(node, way, decides and (len(links) == 1 or way == -1))
        case _ if node.type.kind == "bool":
            yield Atom(node.text, node, None, way, decides)
        case _:
            return


def _links(node: Compare, way: int, decides: bool) -> Iterator[Atom]:
    left = node.first
    for link in node.links:
        alone = len(node.links) == 1
        text = node.text if alone else f"{_side(left)} {link.op} {_side(link.right)}"
        yield Atom(text, left, link, way, decides)
        left = link.right


def _side(node: Node) -> str:
    loose = isinstance(node, Choice | Logic | Not | Compare)
    return f"({node.text})" if loose else node.text


def _reads_only_limits(node: Node) -> bool:
    return all(fact.is_limit for fact in facts_of(node).values())


def _sides(atom: Atom) -> tuple[Node, str, Node] | None:
    """The fact, operator and bound of an ordering; None for another atom.

    The bound is the side that only reads limits and literals, else the right side.
    """
    if atom.link is None or atom.link.op not in ORDER:
        return None
    left, op, right = atom.left, atom.link.op, atom.link.right
    if not (is_number(left) and is_number(right)) or (
        _reads_only_limits(left) and _reads_only_limits(right)
    ):
        return None
    return (right, MIRROR[op], left) if _reads_only_limits(left) else (left, op, right)


def is_number(node: Node) -> bool:
    """Whether it is a number, or a duration, which is one of seconds."""
    return node.type.numeric or node.type.kind == "duration"


def bounds(node: Node) -> tuple[Bound, ...]:
    """The atoms of the form ``fact >= bound``, with those under a `not` inverted."""
    result: list[Bound] = []
    for atom in atoms(node):
        sides = _sides(atom)
        if sides is None or atom.way == 0:
            continue
        side, op, bound = sides
        op = op if atom.way == 1 else INVERSE[op]
        fact = _single_fact(side)
        if fact is not None and op in (">=", ">"):
            strict, grows = op == ">", fact.type.grows
            result.append(Bound(fact.path, bound.text, strict, atom.text, grows, atom.decides))
    return tuple(result)


def _single_fact(side: Node) -> Fact | None:
    if isinstance(side, Fact):
        return side
    facts = [f for f in facts_of(side).values() if not f.is_limit]
    return facts[0] if len(facts) == 1 and climbs(side) else None


VERDICTS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt,
    "==": alike, "!=": lambda a, b: not alike(a, b),
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
    "is": operator.is_, "is not": operator.is_not,
}  # fmt: skip


class Probe:
    """A compiled atom, which can be read from facts."""

    def __init__(self, atom: Atom) -> None:
        self._atom = atom
        self._sides = _sides(atom)
        sides = [atom.left] if atom.link is None else [atom.left, atom.link.right]
        self._fetch = operands(sides)
        self._maybe = operands([side for side in sides if side.type.nullable])

    def read(self, facts: Any, oracle: Oracle) -> Reading:
        """Evaluate the atom. The reading contains the error, if there is one."""
        text, link = self._atom.text, self._atom.link
        try:
            values = self._fetch(facts, oracle)
            if link is None:
                return Reading(text, values[0], values[0])
            left, right = values
            holds = self._verdict(link, left, right)
        except GUARD_ERRORS as error:
            if link is not None and link.absent is not None and None in self._maybe(facts, oracle):
                return Reading(text, link.absent)
            return Reading(text, None, error=f"{type(error).__name__}: {error}")
        if holds is None:
            empty = self._atom.left if left is None else link.right
            return Reading(text, None, left, right, error=f"`{empty.text}` is None")
        return Reading(text, holds, left, right, *self._room(left, right))

    def _verdict(self, link: Link, left: Any, right: Any) -> bool | None:
        if link.op not in ("is", "is not") and (left is None or right is None):
            return link.absent
        return VERDICTS[link.op](left, right)

    def _room(self, left: Any, right: Any) -> tuple[float | None, float | None]:
        """The margin and the share; None without a bound."""
        if self._sides is None or left is None or right is None:
            return None, None
        fact, bound = (left, right) if self._sides[0] is self._atom.left else (right, left)
        return bound - fact, max(0.0, fact / bound) if bound > 0 else None
