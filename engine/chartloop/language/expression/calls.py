"""Calls: the functions and string methods of the language, comprehensions, registered guards.

A call is allowed only if its name is in a table here, even if Python has the function.

Source: `docs/language.md`, "Expressions"
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from chartloop.core.errors import nearest
from chartloop.core.specs import GuardSpec
from chartloop.core.types import BOOL, COUNT, STR, Type
from chartloop.core.units import parse_duration
from chartloop.language.expression import operators
from chartloop.language.expression.check_context import Context
from chartloop.language.expression.fit import fit
from chartloop.language.expression.names import refuse_private, resolves
from chartloop.language.expression.narrow import paths_not_none
from chartloop.language.expression.tree import Call, Const, Each, Method, Node, Opaque, walk
from chartloop.language.expression.words import prefix_fault

_EACH = ("any", "all", "count", "sum")
_METHODS: dict[str, tuple[int, Type]] = {
    "startswith": (1, BOOL),
    "endswith": (1, BOOL),
    "lower": (0, STR),
    "upper": (0, STR),
    "strip": (0, STR),
}
_ELSEWHERE = {
    "int": "numbers mix freely; `round(x)` gives a whole number",
    "float": "numbers mix freely, and `/` never cuts",
    "str": "texts are built in templates",
    "bool": "write the comparison out",
    "size": "write `len(...)`",
    "length": "write `len(...)`",
    "filter": "write `any(... for x in ... if ...)`",
    "has": "write `x is not None`",
    "contains": 'write `"word" in x`',
    "includes": 'write `"word" in x`',
    "startsWith": "write `startswith`",
    "endsWith": "write `endswith`",
    "trim": "write `strip`",
    "toLowerCase": "write `lower`",
    "toUpperCase": "write `upper`",
    "get": 'write `x.name`, or test `"name" in x` first',
}


def call(ctx: Context, node: ast.Call) -> Node:
    """Check a call of a function, method, comprehension or guard."""
    if node.keywords:
        raise ctx.fault("CL102", "arguments have no names here", node.keywords[0].value)
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            raise ctx.fault("CL102", "`*` does not spread arguments here", arg)
    if isinstance(node.func, ast.Attribute):
        return _method(ctx, node, node.func)
    if not isinstance(node.func, ast.Name):
        raise ctx.fault("CL102", "only a function can be called, by its name", node.func)
    word = node.func.id
    refuse_private(ctx, word, node.func)
    if word in _EACH:
        return _each(ctx, node, word)
    if (function := _FUNCTIONS.get(word)) is not None:
        return function(ctx, node, word)
    if (guard := ctx.scope.guards.get(word)) is not None:
        return _opaque(ctx, node, guard)
    known = [*_FUNCTIONS, *_EACH, *ctx.scope.guards]
    hint = _ELSEWHERE.get(word) or nearest(word, known)
    raise ctx.fault("CL108", f"there is no function `{word}`", node.func, hint)


def _method(ctx: Context, node: ast.Call, func: ast.Attribute) -> Node:
    word = func.attr
    refuse_private(ctx, word, func)
    base = ctx.value(func.value)
    signature = _METHODS.get(word)
    if signature is None or base.type.kind not in ("str", "enum"):
        hint = _ELSEWHERE.get(word) or "texts have `startswith endswith lower upper strip`"
        raise ctx.fault("CL108", f"{base.type} has no method `{word}`", func, hint)
    wanted, result = signature
    args = tuple(ctx.value(arg) for arg in node.args)
    if len(args) != wanted or any(arg.type.kind not in ("str", "enum") for arg in args):
        takes = "one text" if wanted else "nothing"
        raise ctx.fault("CL104", f"`{word}` takes {takes}", node)
    if args and isinstance(args[0], Const):
        if wrong := prefix_fault(base.type, word, args[0].value):
            ctx.wrong_word(wrong, node.args[0])
    return Method(result, ctx.source.slice(node), base, word, args)


def _arguments(ctx: Context, node: ast.Call, least: int, most: int) -> tuple[Node, ...]:
    if not least <= len(node.args) <= most:
        count = str(least) if least == most else f"{least} to {most}"
        raise ctx.fault("CL104", f"this takes {count} values, not {len(node.args)}", node)
    return tuple(ctx.value(arg) for arg in node.args)


def _len(ctx: Context, node: ast.Call, word: str) -> Node:
    args = _arguments(ctx, node, 1, 1)
    if args[0].type.kind not in ("str", "enum", "list", "map"):
        raise ctx.fault("CL104", f"{args[0].type} has no length", node.args[0])
    return Call(COUNT, ctx.source.slice(node), word, args)


def _extreme(ctx: Context, node: ast.Call, word: str) -> Node:
    args = _arguments(ctx, node, 1, 40)
    if len(args) == 1:
        type = args[0].type.of
        if args[0].type.kind != "list" or type is None or not _measurable(type):
            raise ctx.fault(
                "CL104", f"`{word}` takes numbers or durations, or a list of them", node
            )
        return Call(type, ctx.source.slice(node), word, args)
    type = operators.common(args)
    if not _measurable(type):
        raise ctx.fault("CL104", f"`{word}` takes numbers, or durations", node)
    if word == "max" and any(arg.type.nonneg for arg in args):
        type = Type(type.kind, nonneg=True)
    return Call(type, ctx.source.slice(node), word, args)


def _measurable(type: Type) -> bool:
    return (type.numeric or type.kind == "duration") and not type.nullable


def _abs(ctx: Context, node: ast.Call, word: str) -> Node:
    args = _arguments(ctx, node, 1, 1)
    if not _measurable(args[0].type):
        raise ctx.fault("CL104", f"`abs` takes a number or a duration, not {args[0].type}", node)
    return Call(Type(args[0].type.kind, nonneg=True), ctx.source.slice(node), word, args)


def _round(ctx: Context, node: ast.Call, word: str) -> Node:
    args = _arguments(ctx, node, 1, 2)
    if not args[0].type.numeric:
        raise ctx.fault("CL104", f"`round` takes a number, not {args[0].type}", node)
    if len(args) == 2:
        places = args[1]
        value = places.value if isinstance(places, Const) else None
        # Python computes a power of ten from it, which could take for ever
        if type(value) is not int or not 0 <= value <= 15:
            raise ctx.fault("CL104", "`round` takes 0 to 15 places, written out", node.args[1])
    kind = "int" if len(args) == 1 or args[0].type.kind == "int" else "float"
    return Call(Type(kind, nonneg=args[0].type.nonneg), ctx.source.slice(node), word, args)


def _duration(ctx: Context, node: ast.Call, word: str) -> Node:
    args = _arguments(ctx, node, 1, 1)
    text = args[0].value if isinstance(args[0], Const) else None
    seconds = parse_duration(text) if isinstance(text, str) else None
    if seconds is None:
        raise ctx.fault(
            "CL209",
            f"`{args[0].text}` is not a duration, written out",
            node.args[0],
            f'write `{word}("24h")`, `{word}("1h30m")` or `{word}("250ms")`',
        )
    return Const(Type("duration", nonneg=True), ctx.source.slice(node), seconds)


_FUNCTIONS: dict[str, Callable[[Context, ast.Call, str], Node]] = {
    "len": _len,
    "min": _extreme,
    "max": _extreme,
    "abs": _abs,
    "round": _round,
    "duration": _duration,
}


def _each(ctx: Context, node: ast.Call, word: str) -> Node:
    if len(node.args) != 1 or not isinstance(node.args[0], (ast.GeneratorExp, ast.ListComp)):
        raise ctx.fault(
            "CL102",
            f"`{word}` goes through a list",
            node,
            f"write `{word}(... for x in ...)`",
        )
    comprehension = node.args[0]
    loop = comprehension.generators[0]
    if len(comprehension.generators) != 1 or ctx.inside:
        raise ctx.fault("CL102", "only one list is gone through at a time", node)
    if loop.is_async or not isinstance(loop.target, ast.Name):
        raise ctx.fault("CL102", "`for` takes one name", node)
    var = loop.target.id
    refuse_private(ctx, var, loop.target)
    if resolves(ctx, var):
        raise ctx.fault("CL102", f"`{var}` already means something here", loop.target)
    source = ctx.value(loop.iter)
    if source.type.kind != "list" or any(isinstance(n, Each) for n in walk(source)):
        raise ctx.fault("CL104", f"`{word}` goes through a list, not {source.type}", loop.iter)
    return _through(ctx, node, (word, var), source)


def _through(ctx: Context, node: ast.Call, names: tuple[str, str], source: Node) -> Node:
    word, var = names
    comprehension = node.args[0]
    assert isinstance(comprehension, (ast.GeneratorExp, ast.ListComp))
    element_type = operators.fill_empty_types(source.type).of or STR
    before = ctx.known
    ctx.local, ctx.inside = (var, element_type), True
    conditions: list[Node] = []
    for place in comprehension.generators[0].ifs:
        condition = ctx.truth(place)
        ctx.known |= paths_not_none(condition, holds=True)
        conditions.append(condition)
    element, type = _RESULTS[word](ctx, comprehension.elt)
    ctx.local, ctx.inside, ctx.known = None, False, before
    text = ctx.source.slice(node)
    return Each(type, text, word, var, source, element, tuple(conditions))


def _check_truth(ctx: Context, node: ast.expr) -> tuple[Node, Type]:
    return ctx.truth(node), BOOL


def _check_countable(ctx: Context, node: ast.expr) -> tuple[Node, Type]:
    value = ctx.expr(node)
    if value.type.kind == "bool":
        ctx.require(value, node)
    return value, COUNT


def _check_summable(ctx: Context, node: ast.expr) -> tuple[Node, Type]:
    value = ctx.value(node)
    if not _measurable(value.type):
        raise ctx.fault("CL104", f"`sum` adds numbers or durations, not {value.type}", node)
    kind = "float" if value.type.kind == "fraction" else value.type.kind
    return value, Type(kind, nonneg=value.type.nonneg)


_RESULTS: dict[str, Callable[[Context, ast.expr], tuple[Node, Type]]] = {
    "any": _check_truth,
    "all": _check_truth,
    "count": _check_countable,
    "sum": _check_summable,
}


def _opaque(ctx: Context, node: ast.Call, guard: GuardSpec) -> Node:
    params = guard.params
    if params is not None and len(node.args) != len(params):
        raise ctx.fault(
            "CL104", f"`{guard.name}` takes {len(params)} values, not {len(node.args)}", node
        )
    args: list[Node] = []
    for at, place in enumerate(node.args):
        value = ctx.expr(place)
        if params is not None:
            fit(ctx, value, place, params[at])
        args.append(value)
    return Opaque(BOOL, ctx.source.slice(node), guard.name, tuple(args))
