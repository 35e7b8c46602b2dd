"""The check of an expression against a required type, and its error messages.

Literals are compared with the type element by element, so that ``[]``, ``0.95`` for a fraction and
``{"id": run.id}`` for a struct are accepted.
"""

from __future__ import annotations

import ast
from typing import Any

from chartloop.core.errors import nearest
from chartloop.core.types import ANY, Type
from chartloop.core.units import parse_duration, parse_fraction, write_duration
from chartloop.language.expression.check_context import Context
from chartloop.language.expression.operators import assignable
from chartloop.language.expression.scope import ExpressionFault
from chartloop.language.expression.tree import Choice, Const, Items, Node, Pairs


def fit(ctx: Context, node: Node, place: ast.expr, want: Type) -> None:
    """Refuse an expression that does not fit the type `want`."""
    if _fits(node, want):
        return
    if want.kind == "bool" and node.type.kind not in ("bool", "any", "none"):
        raise ctx.fault(
            "CL106",
            f"this is {node.type}, not true or false",
            place,
            _as_truth(node),
        )
    given = node._replace(type=node.type.without_none())
    if node.type.kind == "any" or (node.type.nullable and _fits(given, want)):
        ctx.require(node, place)
    raise _misfit(ctx, node, place, want)


def _fits(node: Node, want: Type) -> bool:
    match node:
        case Const(value=value) if value is not None:
            return _literal_fits(value, node.type, want)
        case Choice(then=then, other=other):
            return _fits(then, want) and _fits(other, want)
        case Items(items=items) if want.kind == "list":
            return all(_fits(item, want.of or ANY) for item in items)
        case Pairs(items=items) if want.kind == "map":
            return all(_fits(item, want.of or ANY) for item in items)
        case Pairs(keys=keys, items=items) if want.kind == "struct":
            given = dict(zip(keys, items, strict=True))
            fields = dict(want.fields)
            return given.keys() <= fields.keys() and all(
                _fits(given[name], inner) if name in given else inner.nullable
                for name, inner in want.fields
            )
        case _:
            return assignable(node.type, want)


def _literal_fits(value: Any, have: Type, want: Type) -> bool:
    if want.kind == "fraction" and have.numeric:
        return value <= 1
    if want.kind == "enum" and have.kind == "str":
        return value in want.values
    return assignable(have, want)


def _as_truth(node: Node) -> str:
    if node.type.kind in ("list", "map", "str"):
        return f"compare it: `len({node.text}) > 0`"
    if node.type.numeric:
        return f"compare it: `{node.text} > 0`"
    return "compare it with something"


def duration_text(value: object) -> str:
    """A literal as a duration in the notation of files; empty if it cannot be one."""
    if isinstance(value, str):
        return value if parse_duration(value) is not None else ""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        return ""
    return write_duration(value)


def _misfit(ctx: Context, node: Node, place: ast.expr, want: Type) -> ExpressionFault:
    code, message, hint = "CL104", f"this is {node.type}, where {want} is wanted", ""
    value: Any = node.value if isinstance(node, Const) else None
    if want.kind == "fraction" and node.type.numeric and value is not None:
        message = f"{node.text} is not a fraction: fractions are numbers up to 1"
        hint = f"write `{value / 100:g}`"
    elif want.kind == "fraction" and isinstance(value, str) and parse_fraction(value) is not None:
        hint = f"write `{parse_fraction(value):g}`"
    elif want.kind == "duration" and (text := duration_text(value)):
        hint = f'write `duration("{text}")`'
    elif want.kind == "enum" and isinstance(value, str):
        code, message = "CL111", f'"{value}" is not a value that it can have'
        hint = nearest(value, want.values)
    elif want.kind == "int" and node.type.numeric:
        hint = f"write `round({node.text})`"
    return ctx.fault(code, message, place, hint)
