"""Narrowing: the facts that cannot be None once an expression is true, or false.

It applies from left to right within a text, and from the guard of an edge to the states after it.

Source: `docs/language.md`, "Expressions"
"""

from __future__ import annotations

from collections.abc import Sequence

from chartloop.language.expression.tree import (
    INVERSE,
    MIRROR,
    Choice,
    Compare,
    Const,
    Fact,
    Link,
    Logic,
    Node,
    Not,
    is_none,
    path_of,
)

Known = frozenset[str]
NOTHING: Known = frozenset()
FAILED: Known = frozenset({"last.error", "errors.last"})
"""The facts of a failure: if the last action failed, there was one."""

_COUNTS_OF_FAILURES = frozenset({"errors.consecutive", "errors.total", "errors.retries"})


def paths_not_none(node: Node, *, holds: bool) -> Known:
    """The paths that cannot be None when the expression is true (`holds`) or false."""
    match node:
        case Fact(path="last.ok") if not holds:
            return FAILED
        case Not(part=part):
            return paths_not_none(part, holds=not holds)
        case Logic(op=op, parts=parts):
            each = [paths_not_none(part, holds=holds) for part in parts]
            if (op == "and") == holds:
                return NOTHING.union(*each)
            return each[0].intersection(*each)  # it is unknown which part decides
        case Choice(test=test, then=then, other=other):
            taken = paths_not_none(test, holds=True) | paths_not_none(then, holds=holds)
            return taken & (paths_not_none(test, holds=False) | paths_not_none(other, holds=holds))
        case Compare(first=first, links=links):
            return _of_chain(first, links, holds)
        case _:
            return NOTHING


def _of_chain(first: Node, links: Sequence[Link], holds: bool) -> Known:
    if not holds and len(links) > 1:
        return NOTHING
    known, left = NOTHING, first
    for link in links:
        known |= _of_link(left, link, holds)
        left = link.right
    return known


def _of_link(left: Node, link: Link, holds: bool) -> Known:
    path = path_of(left)
    if is_none(link.right):
        is_known = path is not None and (link.op == "is not") == holds
        if path == "last.error" and is_known:
            return FAILED
        return frozenset({path}) if is_known and path else NOTHING
    known: set[str] = set()
    if link.absent is not None and link.absent != holds:
        sides = (left, link.right)
        known.update(p for s in sides if s.type.nullable and (p := path_of(s)) is not None)
    if link.op in INVERSE:
        op = link.op if holds else INVERSE[link.op]
        if _at_least_one(left, op, link.right) or _at_least_one(link.right, MIRROR[op], left):
            known.add("errors.last")
    return frozenset(known)


def _at_least_one(counter: Node, op: str, bound: Node) -> bool:
    """Whether the comparison implies that there was a failure."""
    if not isinstance(counter, Fact) or counter.path not in _COUNTS_OF_FAILURES:
        return False
    if isinstance(bound, Fact):
        # a limit of 0 failures would stop every run at its start: limits count from 1
        return bound.is_limit and op in (">=", ">", "==")
    if not isinstance(bound, Const):
        return False
    match op:
        case ">=" | "==":
            return bound.value > 0
        case ">":
            return bound.value >= 0
        case "!=":
            return bound.value == 0
        case _:
            return False
