"""What facts can be: ranges, words, and what always holds between them.

A `World` is open about limits and variables, which a caller may give: a limit counts as what the
file says only in a world that is `valued`.

Imported by: proof.formula, proof.solver
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from interlock.language.expression.tree import (
    Arith,
    Call,
    Choice,
    Const,
    Each,
    Fact,
    Negative,
    Node,
)

Range = tuple[float, float]
ANYTHING: Range = (-inf, inf)
AT_MOST_ONE = frozenset({"errors.rate"})
"""Shares of a whole."""
AT_MOST = (
    ("usage.prompt_tokens", "usage.total_tokens"),
    ("usage.completion_tokens", "usage.total_tokens"),
    ("run.working", "run.elapsed"),
    ("run.idle", "run.elapsed"),
)
"""Pairs of facts of which the first is never above the second: `core.fold` adds them up so."""


@dataclass(frozen=True)
class World:
    """The facts of one machine, as far as they are known before a run."""

    words: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Texts that can only be one of a few words: ``last.action``, ``last.state``."""
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Values of limits that count as fixed, by path; of one that is off there is none."""

    def value(self, fact: Fact) -> Any:
        """The fixed value of a limit; None when it is not fixed."""
        return self.limits.get(fact.path)

    def range(self, node: Node) -> Range:
        """Between which numbers the value of a node lies."""
        low, high = self._range(node)
        return (max(low, 0.0) if node.type.nonneg else low, high)

    def _range(self, node: Node) -> Range:
        match node:
            case Const(value=bool()):
                return ANYTHING
            case Const(value=int() | float() as value):
                return value, value
            case Fact(path=path):
                fixed = self.value(node)
                if isinstance(fixed, int | float):
                    return fixed, fixed
                return (0.0, 1.0) if path in AT_MOST_ONE else ANYTHING
            case Negative(part=part):
                low, high = self.range(part)
                return -high, -low
            case Arith():
                return self._arithmetic(node)
            case Choice(then=then, other=other):
                return _hull((self.range(then), self.range(other)))
            case Call(name=name, args=args):
                return self._call(name, args)
            case Each(name="count"):
                return 0.0, inf
            case _:
                return ANYTHING

    def _call(self, name: str, args: tuple[Node, ...]) -> Range:
        ranges = [self.range(arg) for arg in args]
        match name:
            case "len":
                return 0.0, inf
            case "abs":
                low, high = ranges[0]
                ends = (abs(low), abs(high))
                return (0.0 if low <= 0 <= high else min(ends)), max(ends)
            case "round":
                return ranges[0][0] - 1, ranges[0][1] + 1
            case "min" if len(ranges) > 1:
                return min(r[0] for r in ranges), min(r[1] for r in ranges)
            case "max" if len(ranges) > 1:
                return max(r[0] for r in ranges), max(r[1] for r in ranges)
            case _:
                return ANYTHING

    def _arithmetic(self, node: Arith) -> Range:
        (a, b), (c, d) = self.range(node.left), self.range(node.right)
        match node.op:
            case "+":
                found = (a + c, b + d)
            case "-":
                found = (a - d, b - c)
            case "*":
                found = _hull([(_times(x, y),) * 2 for x in (a, b) for y in (c, d)])
            case "/" if c > 0:
                found = _hull([(_over(x, y),) * 2 for x in (a, b) for y in (c, d)])
            case "%" if c > 0:
                found = (0.0, d - 1 if node.type.kind == "int" else d)
            case _:
                return ANYTHING
        return found if node.type.kind == "int" else _wider(found)


def _hull(ranges: Any) -> Range:
    return min(r[0] for r in ranges), max(r[1] for r in ranges)


def _times(x: float, y: float) -> float:
    return 0.0 if x == 0 or y == 0 else x * y


def _over(x: float, y: float) -> float:
    if abs(x) == inf:
        return x if y != inf else 0.0
    return x / y


def _wider(found: Range) -> Range:
    """A range with room for what adding and multiplying floats rounds away."""
    low, high = found
    return low - abs(low) * 1e-9 - 1e-12, high + abs(high) * 1e-9 + 1e-12
