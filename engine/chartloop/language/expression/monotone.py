"""Monotonicity of expressions, and the proof that a guard is a budget.

`sign` tells whether an expression only rises (+1), only falls (-1) or stays (0) as one fact grows
while all others stay; None if none of these can be shown. False counts as less than True, and None
as less than any value. The result is conservative: it always holds.

A guard is a *budget* if it must become true, and stay true, as long as the run continues. Proofs
that a loop ends rely on budgets.

- A disjunction is a budget if one part is.
- A conjunction is a budget only if each part is, because any other part may keep it false. A test
  that a limit or a counter is not None is ignored: if it fails, the limit is off.
- A comparison is a budget if one side grows without bound, by counters that only grow, and the
  other does not. ``min(run.steps, 3) >= 5`` grows with `run.steps`, but is not a budget.

Source: `docs/language.md`, "Expressions"
"""

from __future__ import annotations

from collections.abc import Iterable

from chartloop.language.expression.tree import (
    INVERSE,
    ORDER,
    Arith,
    Call,
    Choice,
    Compare,
    Const,
    Each,
    Fact,
    Link,
    Local,
    Logic,
    Negative,
    Node,
    Not,
    Opaque,
    children,
    facts_of,
    is_none,
    walk,
)

Sign = int | None


def join(signs: Iterable[Sign]) -> Sign:
    """The sign of a value that moves with each of these signs."""
    joined: Sign = 0
    for sign in signs:
        if sign is None or (joined and sign and sign != joined):
            return None
        joined = joined or sign
    return joined


def flip(sign: Sign) -> Sign:
    """The sign of the opposite."""
    return None if sign is None else -sign


def sign(node: Node, fact: str) -> Sign:
    """The sign with which the expression moves as `fact` grows."""
    match node:
        case Fact():
            return _of_fact(node, fact)
        case Const() | Local():
            return 0
        case Logic(parts=parts):
            return join(sign(part, fact) for part in parts)
        case Not(part=part) | Negative(part=part):
            return flip(sign(part, fact))
        case Compare(first=first, links=links):
            lefts = (first, *(link.right for link in links))
            return join(_of_link(a, link, fact) for a, link in zip(lefts, links, strict=False))
        case Arith():
            return _of_arithmetic(node, fact)
        case Choice():
            return _of_choice(node, fact)
        case Call():
            return _of_call(node, fact)
        case Each():
            return _of_each(node, fact)
        case Opaque():
            return None
        case _:
            return _still(children(node), fact)


def _still(nodes: Iterable[Node], fact: str) -> Sign:
    return 0 if all(sign(n, fact) == 0 for n in nodes) else None


def _of_fact(node: Fact, fact: str) -> Sign:
    if node.path == fact:
        ordered = node.type.numeric or node.type.kind in ("duration", "bool")
        return 1 if ordered else None
    related = node.path.startswith(f"{fact}.") or fact.startswith(
        (f"{node.path}.", f"{node.path}[")
    )
    return None if related else 0


def _of_link(left: Node, link: Link, fact: str) -> Sign:
    if is_none(link.right):
        presence = _presence(left, fact)
        return presence if link.op == "is not" else flip(presence)
    a, b = sign(left, fact), sign(link.right, fact)
    if link.op in ORDER:
        return join((a, flip(b)) if link.op in (">=", ">") else (flip(a), b))
    return 0 if a == b == 0 else None


def _presence(node: Node, fact: str) -> Sign:
    """The sign of ``node is not None``, with None as less than any value."""
    if isinstance(node, Fact) and node.path == fact:
        return 1
    return 0 if sign(node, fact) == 0 else None


def _of_arithmetic(node: Arith, fact: str) -> Sign:
    left, right = node.left, node.right
    a, b = sign(left, fact), sign(right, fact)
    if a == b == 0:
        return 0
    match node.op:
        case "+":
            return join((a, b))
        case "-":
            return join((a, flip(b)))
        case "*":
            return join((_product_sign(a, right), _product_sign(b, left)))
        case "/":
            return _of_quotient(node, a, b)
        case "//" if _whole(node):
            return _of_quotient(node, a, b)
        case _:
            return None


def _product_sign(moving: Sign, factor: Node) -> Sign:
    """The sign of a product as one side moves and the other is `factor`."""
    if moving == 0:
        return 0
    if factor.type.nonneg:
        return moving
    if isinstance(factor, Const):
        return flip(moving)
    return None


def _of_quotient(node: Arith, a: Sign, b: Sign) -> Sign:
    if b == 0:
        return _product_sign(a, node.right)
    if node.left.type.nonneg and node.right.type.nonneg:
        return join((a, flip(b)))
    return None


def _of_choice(node: Choice, fact: str) -> Sign:
    test = sign(node.test, fact)
    branches = join((sign(node.then, fact), sign(node.other, fact)))
    if test == 0:
        return branches
    then, other = node.then, node.other
    if not (isinstance(then, Const) and isinstance(other, Const)):
        return None
    if not (isinstance(then.value, int | float) and isinstance(other.value, int | float)):
        return None
    if then.value == other.value:
        return 0
    return test if then.value > other.value else flip(test)


def _of_call(node: Call, fact: str) -> Sign:
    signs = [sign(arg, fact) for arg in node.args]
    if not any(s != 0 for s in signs):
        return 0
    match node.name:
        case "min" | "max":
            return join(signs) if len(signs) > 1 else None
        case "round":
            return signs[0]
        case "abs" if node.args[0].type.nonneg:
            return signs[0]
        case _:
            return None


def _of_each(node: Each, fact: str) -> Sign:
    element = sign(node.element, fact)
    conditions = join(sign(c, fact) for c in node.conditions)
    if element == conditions == 0:
        return _still((node.source,), fact)
    if sign(node.source, fact) != 0:
        return None
    match node.name:
        case "any":
            return join((element, conditions))
        case "all":
            return join((element, flip(conditions)))
        case "count" if node.element.type.kind == "bool":
            return join((element, conditions))
        case "count":
            return conditions
        case _:
            return element if conditions == 0 else None


def never_falls(node: Node) -> bool:
    """Whether the value cannot fall during a run, because only counters move it, and only up."""
    return _steady(node, 1) and any(not f.is_limit for f in facts_of(node).values())


def _steady(node: Node, way: int) -> bool:
    if any(isinstance(n, Opaque) for n in walk(node)):
        return False
    return all(
        fact.is_limit or (fact.type.grows and sign(node, path) in (0, way))
        for path, fact in facts_of(node).items()
    )


def climbs(node: Node, way: int = 1) -> bool:
    """Whether the value goes beyond any bound, up (1) or down (-1), as the run continues."""
    match node:
        case Fact(type=type_):
            return way == 1 and type_.grows
        case Negative(part=part):
            return climbs(part, -way)
        case Arith(op="+" | "-" as op, left=left, right=right):
            other = way if op == "+" else -way
            return (climbs(left, way) and _steady(right, other)) or (
                _steady(left, way) and climbs(right, other)
            )
        case Arith(op="*", left=left, right=right):
            return _climbs_scaled(left, right, way) or _climbs_scaled(right, left, way)
        case Arith(op="/" | "//" as op, left=left, right=right) if op == "/" or _whole(node):
            # dividing by a limit of 0 raises and stops the run, so the bound still holds
            fixed = isinstance(right, Fact) and right.is_limit and right.type.nonneg
            return climbs(left, way) if fixed else _climbs_scaled(left, right, way)
        case Call(name="min" | "max" as name, args=args) if len(args) > 1:
            if (name == "max") == (way == 1):
                return any(climbs(a, way) for a in args) and all(_steady(a, way) for a in args)
            return all(climbs(a, way) for a in args)
        case Call(name="round", args=args):
            return climbs(args[0], way)
        case _:
            return False


def _whole(node: Node) -> bool:
    return node.type.kind == "int"


def _climbs_scaled(node: Node, factor: Node, way: int) -> bool:
    if not isinstance(factor, Const) or not factor.value:
        return False
    return climbs(node, way if factor.value > 0 else -way)


def is_budget(node: Node, *, holds: bool = True) -> bool:
    """Whether the expression must become `holds`, and stay so, as long as the run continues."""
    match node:
        case Not(part=part):
            return is_budget(part, holds=not holds)
        case Logic(op=op, parts=parts):
            if (op == "and") != holds:
                return any(is_budget(part, holds=holds) for part in parts)
            telling = [part for part in parts if not _only_presence(part, holds)]
            return bool(telling) and all(is_budget(part, holds=holds) for part in telling)
        case Compare(first=first, links=links):
            lefts = (first, *(link.right for link in links))
            outgrowing = (_outgrows(a, link, holds) for a, link in zip(lefts, links, strict=False))
            return all(outgrowing) if holds else any(outgrowing)
        case _:
            return False


def _only_presence(node: Node, holds: bool) -> bool:
    if not isinstance(node, Compare) or len(node.links) != 1 or not is_none(node.links[0].right):
        return False
    fact = node.first
    tests = (node.links[0].op == "is not") == holds
    return tests and isinstance(fact, Fact) and (fact.is_limit or fact.type.grows)


def _outgrows(left: Node, link: Link, holds: bool) -> bool:
    if link.op not in ORDER:
        return False
    op = link.op if holds else INVERSE[link.op]
    high, low = (left, link.right) if op in (">=", ">") else (link.right, left)
    return (climbs(high, 1) and _steady(low, -1)) or (_steady(high, 1) and climbs(low, -1))
