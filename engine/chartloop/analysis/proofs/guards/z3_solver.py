"""z3, imported only here: questions that intervals do not settle, within a bound on the work.

Whole numbers become integers, other numbers reals, texts strings. An expression that z3 cannot
express (a loop over a list, upper and lower case) becomes a free variable, the same one wherever
the same text stands. The work is bounded by z3's own counter, so that the answer does not depend on
the speed of the computer; a timeout covers what z3 does not count.

Reals do not round: a proof about fractions may be wrong in the last digit of a float.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from importlib.util import find_spec
from math import inf
from typing import Any

from chartloop.analysis.proofs.guards.domains import AT_MOST, World
from chartloop.analysis.proofs.guards.formula import key
from chartloop.analysis.proofs.guards.prover import Claim
from chartloop.language.expression.tree import (
    Arith,
    Call,
    Choice,
    Compare,
    Const,
    Fact,
    Link,
    Logic,
    Method,
    Negative,
    Node,
    Not,
    Opaque,
    is_none,
    walk,
)

WORK = 300_000
"""z3's own units, for one question: some tenths of a second."""
MILLISECONDS = 2_000
LARGEST = 400
"""The most nodes of a question; a larger one stays open."""
QUESTIONS = 500
"""The most questions for one check."""


def solver() -> Z3 | None:
    """Return the solver if the extra `prove` is installed."""
    return Z3() if find_spec("z3") is not None else None


class Unsupported(Exception):
    """The question has a part that z3 cannot express."""


class Z3:
    """A solver for at most `QUESTIONS` questions about guards."""

    def __init__(self) -> None:
        self._left = QUESTIONS

    @cached_property
    def _z3(self) -> Any:
        # z3 is large, and only needed for questions that intervals leave open
        import z3  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

        return z3

    def possible(self, claims: Sequence[Claim], world: World) -> bool | None:
        """Whether the claims can hold together; None if it takes too long."""
        size = sum(1 for c in claims for _ in walk(c.node))
        if self._left <= 0 or size > LARGEST:
            return None
        self._left -= 1
        question = _Question(self._z3, world)
        try:
            assertions = [question.claim(c) for c in claims]
        except Unsupported:
            return None
        context = self._z3.Solver()
        context.set("rlimit", WORK)
        context.set("timeout", MILLISECONDS)
        context.add(*assertions, *question.always())
        verdict = context.check()
        if verdict == self._z3.unsat:
            return False
        return True if verdict == self._z3.sat else None


class _Question:
    """One question in z3's terms. A fact is the same variable wherever it stands."""

    def __init__(self, z3: Any, world: World) -> None:
        self.z3 = z3
        self.world = world
        self.facts: dict[str, Any] = {}
        self.ranges: list[Any] = []

    def claim(self, claim: Claim) -> Any:
        truth = self.truth(claim.node)
        return truth if claim.holds else self.z3.Not(truth)

    def always(self) -> list[Any]:
        """The relations that always hold between the facts of the question."""
        out = list(self.ranges)
        for less, more in AT_MOST:
            if less in self.facts and more in self.facts:
                out.append(self.facts[less] <= self.facts[more])
        return out

    # true or false --------------------------------------------------------------------------

    def truth(self, node: Node) -> Any:
        z3 = self.z3
        if any(isinstance(n, Opaque) for n in walk(node)) and not isinstance(node, Logic | Not):
            raise Unsupported
        match node:
            case Const(value=bool() as value):
                return z3.BoolVal(value)
            case Not(part=part):
                return z3.Not(self.truth(part))
            case Logic(op=op, parts=parts):
                joined = [self.truth(p) for p in parts]
                return z3.And(*joined) if op == "and" else z3.Or(*joined)
            case Choice(test=test, then=then, other=other):
                return z3.If(self.truth(test), self.truth(then), self.truth(other))
            case Compare(first=first, links=links):
                lefts = (first, *(link.right for link in links))
                pairs = zip(lefts, links, strict=False)
                return z3.And(*[self.link(a, link) for a, link in pairs])
            case Method(base=base, name="startswith" | "endswith" as name, args=args):
                test = z3.PrefixOf if name == "startswith" else z3.SuffixOf
                return test(self.value(args[0]), self.value(base))
            case Fact() if isinstance(fixed := self.world.value(node), bool):
                return z3.BoolVal(fixed)
            case _:
                return self.variable(node, "bool")

    def link(self, left: Node, link: Link) -> Any:
        z3, right = self.z3, link.right
        if is_none(right):
            absent = self.absent(left)
            return absent if link.op == "is" else z3.Not(absent)
        comparison = self.compare(left, link.op, right)
        if link.absent is None:
            return comparison
        absent = z3.Or(*[self.absent(n) for n in (left, right) if n.type.nullable])
        return z3.Or(absent, comparison) if link.absent else z3.And(z3.Not(absent), comparison)

    def absent(self, node: Node) -> Any:
        if isinstance(node, Fact) and self.world.value(node) is not None:
            return self.z3.BoolVal(False)
        return self.z3.Bool(f"{key(node, self.world)} is None")

    def compare(self, left: Node, op: str, right: Node) -> Any:
        z3 = self.z3
        if op in ("in", "not in"):
            inside = self.membership(left, right)
            return inside if op == "in" else z3.Not(inside)
        if left.type.kind == "bool" and op in ("==", "!="):
            same = self.truth(left) == self.truth(right)
            return same if op == "==" else z3.Not(same)
        if left.type.kind in ("list", "map", "any", "struct"):
            first, second = sorted(key(n, self.world) for n in (left, right))
            same = z3.Bool(f"{first} == {second}")
            return same if op == "==" else z3.Not(same)
        a, b = self.value(left), self.value(right)
        match op:
            case "==":
                return a == b
            case "!=":
                return a != b
            case "<":
                return a < b
            case "<=":
                return a <= b
            case ">":
                return b < a
            case _:
                return b <= a

    def membership(self, left: Node, right: Node) -> Any:
        items = getattr(right, "items", None)
        if isinstance(items, tuple):
            matches = [self.compare(left, "==", item) for item in items]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            return self.z3.Or(*matches)
        if right.type.kind in ("str", "enum"):
            return self.z3.Contains(self.value(right), self.value(left))
        return self.z3.Bool(f"{key(left, self.world)} in {key(right, self.world)}")

    # values ---------------------------------------------------------------------------------

    def value(self, node: Node) -> Any:
        z3 = self.z3
        fixed: Any = node.value if isinstance(node, Const) else None
        if isinstance(node, Fact):
            fixed = self.world.value(node)
        if fixed is not None:
            return self.constant(fixed)
        match node:
            case Negative(part=part):
                return -self.value(part)
            case Choice(test=test, then=then, other=other):
                return z3.If(self.truth(test), self.value(then), self.value(other))
            case Arith(op="+" | "-" | "*" as op, left=left, right=right):
                a, b = self.value(left), self.value(right)
                return a + b if op == "+" else a - b if op == "-" else a * b
            case Arith(op="/", left=left, right=right):
                return self._real(left) / self._real(right)  # by 0: anything
            case Arith(op="//" | "%" as op, left=left, right=Const(value=int() as by)) if (
                by > 0 and _whole(left)
            ):
                return self.value(left) / by if op == "//" else self.value(left) % by
            case Call(name="min" | "max" as name, args=args) if len(args) > 1:
                return reduce(lambda a, b: _extreme(z3, name, a, b), map(self.value, args))
            case Call(name="abs", args=args):
                inner = self.value(args[0])
                return z3.If(inner < 0, -inner, inner)
            case _:
                return self.variable(node, node.type.kind)

    def _real(self, node: Node) -> Any:
        value = self.value(node)
        return self.z3.ToReal(value) if value.is_int() else value

    def constant(self, value: Any) -> Any:
        z3 = self.z3
        if isinstance(value, bool):
            return z3.BoolVal(value)
        if isinstance(value, int):
            return z3.IntVal(value)
        if isinstance(value, float):
            top, bottom = value.as_integer_ratio()
            return z3.Q(top, bottom)
        if isinstance(value, str):
            return z3.StringVal(value)
        raise Unsupported

    def variable(self, node: Node, kind: str) -> Any:
        """A free variable within the range of a node, named after its text."""
        z3, name = self.z3, key(node, self.world)
        if name in self.facts:
            return self.facts[name]
        match kind:
            case "bool":
                variable = z3.Bool(name)
            case "int":
                variable = z3.Int(name)
            case "float" | "fraction" | "duration":
                variable = z3.Real(name)
            case "str" | "enum":
                variable = z3.String(name)
            case _:
                raise Unsupported
        self.facts[name] = variable
        self._within(node, kind, variable)
        return variable

    def _within(self, node: Node, kind: str, variable: Any) -> None:
        if kind in ("str", "enum"):
            words = frozenset(node.type.values) or None
            words = self.world.words.get(name_of(node), words)
            if words:
                self.ranges.append(self.z3.Or(*[variable == w for w in sorted(words)]))
        elif kind != "bool":
            low, high = self.world.range(node)
            if low > -inf:
                self.ranges.append(variable >= self.constant(low if kind != "int" else int(low)))
            if high < inf:
                self.ranges.append(variable <= self.constant(high if kind != "int" else int(high)))


def name_of(node: Node) -> str:
    """The path of a fact; empty for any other node."""
    return node.path if isinstance(node, Fact) else ""


def _whole(node: Node) -> bool:
    return node.type.kind == "int"


def _extreme(z3: Any, name: str, a: Any, b: Any) -> Any:
    return z3.If(a <= b, a, b) if name == "min" else z3.If(a <= b, b, a)
