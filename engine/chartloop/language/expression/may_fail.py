"""Whether evaluating a checked tree may raise.

True unless it surely cannot: a registered guard is Python, a divisor may be zero, an index may be
out of range, a float may grow too large, and a value of no declared type may be anything.

Source: `runtime.GUARD_ERRORS`
"""

from __future__ import annotations

from collections.abc import Mapping

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
    walk,
)

_DIVIDING = ("/", "//", "%")
_DEEPEST: Mapping[str, int] = {"vars": 2, "limits": 2}
"""Roots whose items have declared types, and how many steps of a fact stay among them."""


def may_fail(root: Node) -> bool:
    """Whether evaluating the tree may raise one of `GUARD_ERRORS`."""
    return any(_fails(node) for node in walk(root))


def _fails(node: Node) -> bool:
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
    """Whether what is looked through is a short list of the file's own, or a text."""
    return isinstance(node, (Items, Pairs)) or node.type.kind in ("str", "enum")
