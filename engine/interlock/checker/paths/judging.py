"""What an expression may be worth where each of its facts may be anything in a range.

Conservative: what it says to be true or false is so in every run in which the expression can
be evaluated. One that raises stops the run, which is no way on.

Imported by:  checker.paths.turning, checker.paths.routes, checker.bound
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from interlock.checker.paths.values import (
    INF,
    MAYBE,
    NO,
    YES,
    Range,
    Truth,
    Value,
    Word,
    corners,
    either,
    number,
    of_plain,
    of_type,
    outward,
)
from interlock.language.expression.tree import (
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

Known = Callable[[Fact], Value | None]
"""What is known of a fact; None: only its type."""


def judge(node: Node, known: Known) -> Value:
    """What the expression may be worth."""
    match node:
        case Const(value=value):
            return of_plain(value)
        case Fact():
            found = known(node)
            return of_type(node.type) if found is None else found
        case Logic(op=op, parts=parts):
            return _logic(op, [truth(judge(part, known)) for part in parts])
        case Not(part=part):
            found = truth(judge(part, known))
            return Truth(found.false, found.true)
        case Compare():
            return _compare(node, known)
        case Arith():
            return _arith(node, number(judge(node.left, known)), number(judge(node.right, known)))
        case Negative(part=part):
            inner = number(judge(part, known))
            return Range(-inner.high, -inner.low)
        case Choice():
            return _choice(node, known)
        case Call(name=name, args=args):
            return _call(name, args, known)
        case Each(name="count"):
            return Range(0, INF)
        case _:
            return of_type(node.type)


def truth(value: Value) -> Truth:
    """The value as a yes-or-no."""
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


def _arith(node: Arith, a: Range, b: Range) -> Value:
    match node.op:
        case "+":
            return outward(a.low + b.low, a.high + b.high)
        case "-":
            return outward(a.low - b.high, a.high - b.low)
        case "*":
            return corners(a, b, _times)
        case "/" if b.low > 0 or b.high < 0:
            return corners(a, b, _over)
        case "//" if b.low > 0 and not math.isinf(b.low):
            found = corners(a, b, _over)
            floor = math.floor(found.low) if math.isfinite(found.low) else found.low
            return Range(floor, found.high)
        case "%" if b.low > 0 and a.low >= 0:
            return Range(0, min(a.high, b.high))
        case _:
            return of_type(node.type)


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def _over(a: float, b: float) -> float:
    return 0 if a == 0 or (math.isinf(b) and not math.isinf(a)) else a / b


def _call(name: str, args: Sequence[Node], known: Known) -> Value:
    if name == "len":
        fixed = args[0]
        size = len(fixed.items) if isinstance(fixed, Items) else None
        return Range(0, INF) if size is None else Range(size, size)
    found = [judge(arg, known) for arg in args]
    if not found or not all(isinstance(f, Range) for f in found):
        return Range()
    ranges = [number(f) for f in found]
    if name in ("min", "max") and len(ranges) > 1:
        pick = min if name == "min" else max
        return Range(pick(r.low for r in ranges), pick(r.high for r in ranges))
    one = ranges[0]
    if name == "abs":
        low = 0 if one.low <= 0 <= one.high else min(abs(one.low), abs(one.high))
        return Range(low, max(abs(one.low), abs(one.high)))
    if name == "round" and len(args) == 1:
        return Range(one.low - 1, one.high + 1)
    return Range()


def surely(value: Value) -> bool | None:
    """True or False where it is one of them in every run; None where it may be either."""
    found = truth(value)
    return None if found.true == found.false else found.true
