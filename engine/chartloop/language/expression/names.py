"""Names: facts, definitions, comprehension variables, fields and elements.

A name is a fact only if the scope declares it. The error for an unknown name suggests the nearest.

Source: `docs/language.md`, "Expressions"; `docs/reference/facts.md`
"""

from __future__ import annotations

import ast
from difflib import get_close_matches

from chartloop.core.errors import nearest
from chartloop.core.types import ANY
from chartloop.language.expression.check_context import Context
from chartloop.language.expression.scope import ExpressionFault
from chartloop.language.expression.tree import (
    Element,
    Fact,
    Field,
    Indexed,
    Local,
    Node,
    Step,
)

_SPELLED = {
    "true": "True", "false": "False", "null": "None", "none": "None", "nil": "None",
    "TRUE": "True", "FALSE": "False", "NULL": "None", "undefined": "None",
}  # fmt: skip


def name(ctx: Context, node: ast.Name) -> Node:
    """A bare name: a comprehension variable, an extra root or a definition."""
    refuse_private(ctx, node.id, node)
    if ctx.local and ctx.local[0] == node.id:
        return ctx.settle(Local(ctx.local[1], node.id, node.id))
    if (extra := ctx.scope.extra.get(node.id)) is not None:
        return ctx.settle(Fact(extra, node.id, node.id, (Step(node.id, keyed=False),)))
    if node.id in ctx.scope.roots:
        fields = [f"{node.id}.{n}" for n, _ in ctx.scope.roots[node.id].fields]
        raise ctx.fault(
            "CL103",
            f"`{node.id}` is a group of facts, not a fact",
            node,
            nearest("", fields, otherwise="" if fields else "nothing is declared under it"),
        )
    if node.id in ctx.scope.defines:
        return ctx.inline(node.id, node)
    raise unknown_name(ctx, node)


def attribute(ctx: Context, node: ast.Attribute) -> Node:
    """``usage.total_tokens``, ``run.visits.plan``, ``errors.last.category``."""
    refuse_private(ctx, node.attr, node)
    return _down(ctx, node.value, node.attr, node)


def subscript(ctx: Context, node: ast.Subscript) -> Node:
    """``vars.list[0]``, ``vars.list[vars.i]``, ``vars.map["k"]``, ``run.visits["continue"]``."""
    key = _constant_key(node.slice)
    if key is None:
        # the index counts from 0, and a negative one is out of range
        base, index = ctx.value(node.value), ctx.value(node.slice)
        if base.type.kind != "list":
            hint = 'a map is read by a key that is written out: `["key"]`'
            message = f"{base.type} has no element by a computed key"
            raise ctx.fault("CL102", message, node.slice, hint if base.type.kind == "map" else "")
        if index.type.kind != "int":
            hint = f"write `round({index.text})`" if index.type.numeric else ""
            message = f"an index is a whole number, not {index.type}"
            raise ctx.fault("CL104", message, node.slice, hint)
        return Indexed(base.type.of or ANY, ctx.source.slice(node), base, index)
    if isinstance(key, str) and _is_root(ctx, node.value):
        return _down(ctx, node.value, key, node)
    base = ctx.value(node.value)
    if isinstance(key, str) and base.type.kind in ("struct", "map"):
        return _member(ctx, base, key, node)
    if isinstance(key, int) and base.type.kind == "list":
        element = Element(base.type.of or ANY, ctx.source.slice(node), base, key)
        return ctx.settle(element)
    kind = "number" if isinstance(key, int) else "text"
    raise ctx.fault("CL104", f"{base.type} has no element by a {kind}", node.slice)


def _constant_key(node: ast.expr) -> int | str | None:
    """The value of a literal subscript; None for a computed one."""
    key, sign = node, 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        key, sign = node.operand, -1
    if isinstance(key, ast.Constant):
        if type(key.value) is int and key.value < 2**31:
            return sign * key.value
        if isinstance(key.value, str) and sign == 1:
            return key.value
    return None


def _is_root(ctx: Context, node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Name)
        and node.id in ctx.scope.roots
        and not (ctx.local and ctx.local[0] == node.id)
        and node.id not in ctx.scope.extra
    )


def _down(ctx: Context, base: ast.expr, field: str, node: ast.expr) -> Node:
    if isinstance(base, ast.Name) and _is_root(ctx, base):
        struct = ctx.scope.roots[base.id]
        field_type = struct.field(field)
        if field_type is None:
            fields = [n for n, _ in ctx.scope.roots[base.id].fields]
            elsewhere = [f for f in _homes(ctx, field) if not f.startswith(f"{base.id}.")]
            hint = _closest(base.id, field, fields)
            if elsewhere:
                here = f" {hint[0].upper()}{hint[1:]}" if hint.startswith("known:") else ""
                hint = f"did you mean `{elsewhere[0]}`?{here}"
            if not hint and base.id in ("limits", "vars", "memory"):
                hint = f"declare it under `{base.id}`"
            raise ctx.fault("CL103", f"unknown fact `{base.id}.{field}`", node, hint)
        path = f"{base.id}.{field}"
        field_type = ctx.scope.typed.get(path, field_type)
        steps = (Step(base.id, keyed=False), Step(field, struct.keyed))
        return ctx.settle(Fact(field_type, ctx.source.slice(node), path, steps))
    return _member(ctx, ctx.value(base), field, node)


def _member(ctx: Context, base: Node, field: str, node: ast.expr) -> Node:
    above = base.type
    if above.kind == "struct":
        field_type, keyed = above.field(field), above.keyed
        if field_type is None:
            raise ctx.fault(
                "CL103",
                f"`{base.text}` has no `{field}`",
                node,
                _closest(base.text, field, [n for n, _ in above.fields]),
            )
    elif above.kind == "map":
        field_type, keyed = above.of or ANY, True
    else:
        raise _no_fields(ctx, base, field, node)
    text = ctx.source.slice(node)
    if isinstance(base, Fact) and field_type.grows:
        # each item of a map of counters is a fact of its own
        path = f"{base.path}.{field}"
        return ctx.settle(Fact(field_type, text, path, (*base.steps, Step(field, keyed, keyed))))
    return ctx.settle(Field(field_type, text, base, Step(field, keyed)))


def _no_fields(ctx: Context, base: Node, field: str, node: ast.expr) -> ExpressionFault:
    hint = ""
    if field in ("length", "size", "count"):
        hint = f"write `len({base.text})`"
    elif base.type.kind in ("str", "list"):
        hint = "its methods are called: `startswith endswith lower upper strip`"
    return ctx.fault("CL103", f"{base.type} has no `{field}`", node, hint)


def refuse_private(ctx: Context, word: str, node: ast.expr) -> None:
    """Refuse a name that starts with an underscore, declared or not."""
    if word.startswith("_"):
        raise ctx.fault("CL102", f"`{word}` is private: names start with a letter", node)


def resolves(ctx: Context, word: str) -> bool:
    """Whether a bare name means something here."""
    scope = ctx.scope
    return (
        word in scope.roots
        or word in scope.defines
        or word in scope.extra
        or (ctx.local is not None and ctx.local[0] == word)
    )


def bare_word(ctx: Context, node: ast.Name) -> ExpressionFault:
    """The fault for a bare word where a text is meant; a fact of that name is suggested first."""
    if node.id in _SPELLED or _homes(ctx, node.id):
        return unknown_name(ctx, node)
    return ctx.fault("CL113", f"`{node.id}` is a bare word", node, f"write '\"{node.id}\"'")


def unknown_name(ctx: Context, node: ast.Name) -> ExpressionFault:
    """The fault for an undeclared name."""
    word, scope = node.id, ctx.scope
    if word in _SPELLED:
        hint = f"write `{_SPELLED[word]}`"
    elif homes := _homes(ctx, word):
        hint = f"did you mean `{homes[0]}`?"
    else:
        known = [*scope.roots, *scope.defines, *scope.extra, *_facts(ctx)]
        if ctx.local:
            known.append(ctx.local[0])
        fields = {f.partition(".")[2]: f for f in _facts(ctx)}
        close = get_close_matches(word, [*known, *fields], n=1)
        if close:
            hint = f"did you mean `{fields.get(close[0], close[0])}`?"
        else:
            hint = f"`chartloop info facts` lists them; text is quoted: '\"{word}\"'"
    return ctx.fault("CL103", f"unknown fact `{word}`", node, hint)


def _closest(base: str, field: str, fields: list[str]) -> str:
    """A hint with the closest field, else with the known ones."""
    close = get_close_matches(field, fields, n=1)
    if not close:
        # a word of the name, misspelt: `usage.tokenz` for `usage.total_tokens`
        words = {word for name in fields for word in name.split("_")}
        alike = get_close_matches(field, words, n=1, cutoff=0.7)
        inside = [name for name in fields if alike and alike[0] in name.split("_")]
        close = get_close_matches(field, inside, n=1, cutoff=0.0)
    if close:
        return f"did you mean `{base}.{close[0]}`?"
    return nearest("", [f"{base}.{name}" for name in fields])


def _homes(ctx: Context, field: str) -> list[str]:
    """The facts of all roots with this field name."""
    return [f for f in _facts(ctx) if f.partition(".")[2] == field]


def _facts(ctx: Context) -> list[str]:
    return [f"{root}.{n}" for root, struct in ctx.scope.roots.items() for n, _ in struct.fields]
