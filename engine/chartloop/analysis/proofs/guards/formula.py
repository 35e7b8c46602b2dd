"""Guards as formulas: the typed tree, turned into literals joined by `and` and `or`.

A literal is about a *term*: a fact, or the value of arithmetic, `len` or a text function. Sums of
whole numbers are expanded exactly; any other computed value is a term of its own, so that nothing
depends on the rounding of floats. The answer of a registered guard is unknown at each call. A fact
that may be None has a literal for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import gcd
from typing import Any, NamedTuple, TypeAlias

from chartloop.analysis.proofs.guards.domains import Ends, World
from chartloop.language.expression.atoms import VERDICTS, is_number
from chartloop.language.expression.tree import (
    INVERSE,
    Arith,
    Choice,
    Compare,
    Const,
    Each,
    Element,
    Fact,
    Field,
    Items,
    Link,
    Logic,
    Negative,
    Node,
    Not,
    Opaque,
    Pairs,
    children,
    facts_of,
    is_none,
    walk,
)


class Sum(NamedTuple):
    """``a*x + b*y + ... <= most``, or ``<`` if `strict`."""

    parts: tuple[tuple[str, int], ...]
    most: float | Fraction
    strict: bool


class Word(NamedTuple):
    """A text equals this word, or does not."""

    term: str
    word: str
    same: bool


class Truth(NamedTuple):
    """A term that is true or false."""

    term: str
    holds: bool


class Join(NamedTuple):
    """Formulas of which all (`every`) or at least one must hold."""

    every: bool
    parts: tuple[Formula, ...]


Formula: TypeAlias = Sum | Word | Truth | Join
TRUE = Join(True, ())
FALSE = Join(False, ())


class Term(NamedTuple):
    """The domain of a term."""

    whole: bool
    range: Ends
    words: frozenset[str] | None
    facts: frozenset[str]
    plain: bool
    """Whether it is a single fact and not computed."""


class Terms:
    """Turns trees into formulas and collects their terms."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.known: dict[str, Term] = {}
        self._formulas: dict[tuple[int, bool], Formula] = {}

    def formula(self, node: Node, *, holds: bool) -> Formula:
        """The formula for an expression to be true (`holds`) or false. Cached by node."""
        formula = self._formulas.get((id(node), holds))
        if formula is None:
            formula = self._formulas[id(node), holds] = self._formula(node, holds)
        return formula

    def _formula(self, node: Node, holds: bool) -> Formula:
        match node:
            case Const(value=bool() as value):
                return TRUE if value == holds else FALSE
            case Fact() if isinstance(value := self.world.value(node), bool):
                return TRUE if value == holds else FALSE
            case Not(part=part):
                return self.formula(part, holds=not holds)
            case Logic(op=op, parts=parts):
                return join((op == "and") == holds, [self.formula(p, holds=holds) for p in parts])
            case Choice():
                return self._choice(node, lambda part: self.formula(part, holds=holds))
            case Compare(first=first, links=links):
                lefts = (first, *(link.right for link in links))
                pairs = zip(lefts, links, strict=False)
                return join(holds, [self._link(a, link, holds) for a, link in pairs])
            case _:
                return TRUE if _free(node) else Truth(self._atom("", node), holds)

    def _choice(self, node: Choice, of: Callable[[Node], Formula]) -> Formula:
        yes = join(True, [self.formula(node.test, holds=True), of(node.then)])
        no = join(True, [self.formula(node.test, holds=False), of(node.other)])
        return join(False, [yes, no])

    def _atom(self, relation: str, *nodes: Node) -> str:
        """The name of what is true or false: a node, or its relation, alone or to another."""
        first, *others = (key(node, self.world) for node in nodes)
        name = f"{first}{relation}{''.join(others)}"
        facts = frozenset(path for node in nodes for path in facts_of(node))
        plain = isinstance(nodes[-1], Fact) and not others
        self.known.setdefault(name, Term(False, (0, 1), None, facts, plain))
        return name

    # comparisons ----------------------------------------------------------------------------

    def _link(self, left: Node, link: Link, holds: bool) -> Formula:
        right = link.right
        if _free(left) or _free(right):
            return TRUE
        if is_none(right):
            return self._none(left, (link.op == "is") == holds)
        comparison = self._compare(left, link.op, right, holds)
        if link.absent is None:
            return comparison
        sides = (left, right)
        absent = [self._none(side, link.absent == holds) for side in sides]
        nullable = [f for f, side in zip(absent, sides, strict=True) if side.type.nullable]
        return join(link.absent != holds, [*nullable, comparison])

    def _none(self, node: Node, absent: bool) -> Formula:
        """The formula for a value to be None, or not. A fixed limit never is."""
        if isinstance(node, Fact) and self.world.value(node) is not None:
            return FALSE if absent else TRUE
        if not node.type.nullable and not isinstance(node, Fact | Field | Element):
            return FALSE if absent else TRUE
        return Truth(self._atom(" is None", node), absent)

    def _compare(self, left: Node, op: str, right: Node, holds: bool) -> Formula:
        if isinstance(left, Choice):
            return self._choice(left, lambda part: self._compare(part, op, right, holds))
        if isinstance(right, Choice):
            return self._choice(right, lambda part: self._compare(left, op, part, holds))
        if op in ("in", "not in"):
            return self._membership(left, right, (op == "in") == holds)
        if is_number(left) and is_number(right):
            return self._numbers(left, op if holds else INVERSE[op], right)
        if op in ("==", "!="):
            same = (op == "==") == holds
            if left.type.kind == "bool":
                pairs = [
                    [self.formula(left, holds=a), self.formula(right, holds=a == same)]
                    for a in (True, False)
                ]
                return join(False, [join(True, pair) for pair in pairs])
            return self._texts(left, right, same)
        return Truth(self._atom(f" {op} ", left, right), holds)

    def _texts(self, left: Node, right: Node, same: bool) -> Formula:
        a, b = self._constant(left), self._constant(right)
        if a is not None and b is not None:
            return TRUE if (a == b) == same else FALSE
        fixed, other = (a, right) if a is not None else (b, left)
        if isinstance(fixed, str) and other.type.kind in ("str", "enum"):
            name, plain = key(other, self.world), isinstance(other, Fact)
            words = frozenset(other.type.values) if other.type.kind == "enum" else None
            if isinstance(other, Fact):
                words = self.world.words.get(other.path, words)
            term = Term(False, (0, 0), words, frozenset(facts_of(other)), plain)
            self.known.setdefault(name, term)
            return Word(name, fixed, same)
        first, second = sorted((left, right), key=lambda n: key(n, self.world))
        return Truth(self._atom(" == ", first, second), same)

    def _membership(self, left: Node, right: Node, inside: bool) -> Formula:
        fixed: Any = self._constant(right)
        if isinstance(right, Items):
            items: Sequence[Node] = right.items
        elif isinstance(fixed, list | tuple):
            items = [Const(left.type, repr(v), v) for v in fixed]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        else:
            return Truth(self._atom(" in ", left, right), inside)
        op = "==" if inside else "!="
        return join(not inside, [self._compare(left, op, item, True) for item in items])

    def _constant(self, node: Node) -> Any:
        if isinstance(node, Const):
            return node.value
        return self.world.value(node) if isinstance(node, Fact) else None

    # numbers --------------------------------------------------------------------------------

    def _numbers(self, left: Node, op: str, right: Node) -> Formula:
        parts, rest = _add(self._linear(left), self._linear(right), -1)
        return _order({name: times for name, times in parts.items() if times}, op, -rest)

    def _linear(self, node: Node) -> Linear:
        """A node as a linear sum: the factor of each term, and the constant."""
        match node:
            case Const(value=int() | float() as value):
                return {}, value
            case Fact() if isinstance(fixed := self.world.value(node), int | float):
                return {}, fixed
            case Negative(part=part) if part.type.kind == "int":
                return _add(_ZERO, self._linear(part), -1)
            case Arith(op="+" | "-" as op) if node.type.kind == "int":
                sign = 1 if op == "+" else -1
                return _add(self._linear(node.left), self._linear(node.right), sign)
            case Arith(op="*") if node.type.kind == "int":
                both = self._linear(node.left), self._linear(node.right)
                for sum_, (parts, times) in (both, both[::-1]):
                    if not parts and isinstance(times, int):
                        return _add(_ZERO, sum_, times)
            case _:
                pass
        name = key(node, self.world)
        if name not in self.known:
            facts, whole = frozenset(facts_of(node)), node.type.kind == "int"
            plain = isinstance(node, Fact)
            self.known[name] = Term(whole, self.world.range(node), None, facts, plain)
        return {name: 1}, 0


Linear: TypeAlias = tuple[dict[str, int], float]
_ZERO: Linear = {}, 0


def _add(one: Linear, other: Linear, times: int) -> Linear:
    """One sum and some times another."""
    parts = dict(one[0])
    for name, number in other[0].items():
        parts[name] = parts.get(name, 0) + number * times
    return parts, one[1] + other[1] * times


def _order(parts: dict[str, int], op: str, bound: float | Fraction) -> Formula:
    if not parts:
        return TRUE if VERDICTS[op](0, bound) else FALSE
    shared = gcd(*parts.values())
    if shared > 1:
        parts = {n: times // shared for n, times in parts.items()}
        bound = Fraction(bound) / shared
    up = tuple(sorted(parts.items()))
    down = tuple((name, -times) for name, times in up)
    match op:
        case "<=" | "<":
            return Sum(up, bound, op == "<")
        case ">=" | ">":
            return Sum(down, -bound, op == ">")
        case "==":
            return Join(True, (Sum(up, bound, False), Sum(down, -bound, False)))
        case _:
            return Join(False, (Sum(up, bound, True), Sum(down, -bound, True)))


def join(every: bool, parts: Iterable[Formula]) -> Formula:
    """Join formulas with `and` (`every`) or `or`, and simplify."""
    absorbing, neutral = (FALSE, TRUE) if every else (TRUE, FALSE)
    out: list[Formula] = []
    for part in parts:
        if part == absorbing:
            return absorbing
        if isinstance(part, Join) and part.every == every:
            out += part.parts
        elif part != neutral:
            out.append(part)
    return out[0] if len(out) == 1 else Join(every, tuple(out)) if out else neutral


def _free(node: Node) -> bool:
    """Whether it calls a registered guard, which may answer differently each time."""
    return any(isinstance(n, Opaque) for n in walk(node))


def key(node: Node, world: World) -> str:
    """A name for a tree; trees that differ only in blanks or definitions share it."""
    match node:
        case Const(value=value):
            return repr(value)
        case Fact(path=path):
            fixed = world.value(node)
            return path if fixed is None else repr(fixed)
        case Field(base=base, step=step):
            return f"{key(base, world)}.{step.name}"
        case Element(base=base, key=at):
            return f"{key(base, world)}[{at!r}]"
        case Compare(links=links):
            ops = " ".join(link.op for link in links)
            inner = ", ".join(key(c, world) for c in children(node))
            return f"compare {ops}({inner})"
        case Each(name=name, var=var):
            inner = ", ".join(key(c, world) for c in children(node))
            return f"{name} {var}({len(node.conditions)}: {inner})"
        case Pairs(keys=keys, items=items):
            inner = (f"{k!r}: {key(i, world)}" for k, i in zip(keys, items, strict=True))
            return "{" + ", ".join(inner) + "}"
        case _:
            what = getattr(node, "op", "") or getattr(node, "name", "")
            inner = ", ".join(key(c, world) for c in children(node))
            return f"{type(node).__name__} {what}({inner})"
