"""Evaluation of an expression over the possible values of its facts.

Conservative: a result of true or false holds in every run in which the expression can be
evaluated. An expression that raises stops the run, so it takes no edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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
    is_none,
)
from chartloop.language.intervals.arithmetic import (
    absolute,
    arithmetic,
    extreme,
    negative,
    round_range,
)
from chartloop.language.intervals.interval import (
    INF,
    MAYBE,
    NO,
    YES,
    Other,
    Range,
    Truth,
    Value,
    Word,
    either,
    number,
    of_plain,
    of_type,
)

Known = Callable[[Fact], Value | None]
"""The known values of a fact; None: only its type is known."""
_SHARES = frozenset({"errors.rate"})
"""The facts that lie between 0 and 1."""


def judge(node: Node, known: Known) -> Value:
    """The values that the expression may have."""
    found = _judge(node, known)
    if isinstance(found, Range) and node.type.nonneg and found.low < 0:
        return found._replace(low=0)
    return found


def _judge(node: Node, known: Known) -> Value:
    match node:
        case Const(value=value):
            return of_plain(value)
        case Fact(path=path):
            found = known(node)
            if found is None and path in _SHARES:
                return Range(0, 1)
            return of_type(node.type) if found is None else found
        case Logic(op=op, parts=parts):
            return _logic(op, [truth(judge(part, known)) for part in parts])
        case Not(part=part):
            found = truth(judge(part, known))
            return Truth(found.false, found.true)
        case Compare():
            return _compare(node, known)
        case Arith() | Negative():
            return _judge_arithmetic(node, known)
        case Choice():
            return _choice(node, known)
        case Call(name=name, args=args):
            return _call(name, args, known)
        case Items(items=items):
            return Other(size=len(items))
        case Each(name="count"):
            return Range(0, INF)
        case _:
            return of_type(node.type)


def truth(value: Value) -> Truth:
    """The value as a truth value."""
    return value if isinstance(value, Truth) else MAYBE


def _logic(op: str, parts: Sequence[Truth]) -> Truth:
    if op == "and":
        return Truth(all(p.true for p in parts), any(p.false for p in parts))
    return Truth(any(p.true for p in parts), all(p.false for p in parts))


def _choice(node: Choice, known: Known) -> Value:
    test = truth(judge(node.test, known))
    branches = [b for b, may in ((node.then, test.true), (node.other, test.false)) if may]
    return either(judge(branch, known) for branch in branches or (node.then, node.other))


# comparisons --------------------------------------------------------------------------------


def _compare(node: Compare, known: Known) -> Truth:
    left, parts = node.first, list[Truth]()
    for link in node.links:
        parts.append(_link(judge(left, known), link, judge(link.right, known)))
        left = link.right
    return _logic("and", parts)


def _link(a: Value, link: Link, b: Value) -> Truth:
    if is_none(link.right) and link.op in ("is", "is not"):
        found = Truth(a.none, a.some)
        return found if link.op == "is" else Truth(found.false, found.true)
    present = _present(a, link.op, b) if a.some and b.some else Truth(False, False)
    if not (a.none or b.none) or link.absent is None:
        return present if a.some and b.some else MAYBE
    return Truth(present.true or link.absent, present.false or not link.absent)


def _present(a: Value, op: str, b: Value) -> Truth:
    if isinstance(a, Range) and isinstance(b, Range):
        return _order(a, op, b) if op in ORDER else _equal(a, op, b)
    if isinstance(a, Word) and isinstance(b, Word) and op in ("==", "!="):
        return YES if (a.text == b.text) == (op == "==") else NO
    return MAYBE


def _order(a: Range, op: str, b: Range) -> Truth:
    if op in ("<", "<="):
        a, b, op = b, a, MIRROR[op]
    if op == ">":
        return Truth(a.high > b.low, a.low <= b.high)
    return Truth(a.high >= b.low, a.low < b.high)


def _equal(a: Range, op: str, b: Range) -> Truth:
    if op not in ("==", "!="):
        return MAYBE
    meet = a.low <= b.high and b.low <= a.high
    same = a.low == a.high == b.low == b.high and math.isfinite(a.low)
    found = Truth(meet, not same)
    return found if op == "==" else Truth(found.false, found.true)


# arithmetic ---------------------------------------------------------------------------------


def _judge_arithmetic(node: Arith | Negative, known: Known) -> Value:
    """The range of an arithmetic node. None adds nothing, because arithmetic with None raises."""
    if isinstance(node, Negative):
        inner = number(judge(node.part, known))
        return negative(inner) if inner.some else Range()
    left, right = number(judge(node.left, known)), number(judge(node.right, known))
    if not (left.some and right.some):
        return Range()
    return arithmetic(node.op, left, right, whole=node.type.kind == "int")


def _call(name: str, args: Sequence[Node], known: Known) -> Value:
    if name == "len":
        fixed = args[0]
        found = Other(size=len(fixed.items)) if isinstance(fixed, Items) else judge(fixed, known)
        size = found.size if isinstance(found, Other) else None
        return Range(0, INF) if size is None else Range(size, size)
    found = [judge(arg, known) for arg in args]
    if not all(isinstance(f, Range) and f.some for f in found):
        return Range()
    ranges = [number(f) for f in found]
    match name, args:
        case "min" | "max", (_, _, *_):
            return extreme(name, ranges)
        case "abs", _:
            return absolute(ranges[0])
        case "round", (_,):
            return round_range(ranges[0], None)
        case "round", (_, Const(value=int() as places)):
            return round_range(ranges[0], places)
        case _:
            return Range()


def surely(value: Value) -> bool | None:
    """True or False if the value is the same in every run; None if it may be either."""
    found = truth(value)
    return None if found.true == found.false else found.true
