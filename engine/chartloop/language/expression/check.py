"""The checker: from Python's syntax tree to the checked tree, or to the first fault.

This is an allowlist: an expression is allowed because its kind is in `_KINDS`, a name because the
scope declares it, a call because its function is in a table. Everything else is refused here,
before anything is compiled.

Source: `docs/language.md`, "Expressions"
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from chartloop.core.types import BOOL, FLOAT, INT, NONE, STR, Type
from chartloop.language.expression import calls, comparison, names, operators
from chartloop.language.expression.check_context import Context
from chartloop.language.expression.fit import fit
from chartloop.language.expression.narrow import paths_not_none
from chartloop.language.expression.scope import ExpressionFault, Scope
from chartloop.language.expression.syntax import (
    MAX_DEPTH,
    MAX_INLINED,
    MAX_NODES,
    Source,
    read,
)
from chartloop.language.expression.tree import (
    Arith,
    Choice,
    Const,
    Items,
    Logic,
    Negative,
    Node,
    Not,
    Pairs,
)

_MAX_INT = 2**63 - 1


class Checker(Context):
    """Checks one text, and the definitions that it uses in place."""

    def __init__(
        self,
        scope: Scope,
        source: Source,
        *,
        known: frozenset[str] = frozenset(),
        above: Checker | None = None,
    ) -> None:
        super().__init__(scope, source, known)
        self.within: tuple[str, ...] = above.within if above else ()
        self.inside = above.inside if above else False
        self._depth = above._depth if above else 0
        self._nodes = 0
        self._inlined = above._inlined if above else [0]

    def top(self, node: ast.expr, want: Type | None) -> Node:
        """Check the whole text, against the required type."""
        texts = want is not None and want.kind in ("str", "enum")
        if texts and isinstance(node, ast.Name) and not names.resolves(self, node.id):
            raise names.bare_word(self, node)
        checked = self.expr(node)
        if want is not None:
            fit(self, checked, node, want)
        return checked

    def expr(self, node: ast.expr) -> Node:
        """Check one expression, whatever it is."""
        self._nodes += 1
        self._depth += 1
        if self._nodes > MAX_NODES:
            raise self.fault("CL107", f"more than {MAX_NODES} parts", node, _CURE)
        if self._depth > MAX_DEPTH:
            raise self.fault("CL107", f"nested more than {MAX_DEPTH} levels deep", node, _CURE)
        kind = _KINDS.get(type(node))
        if kind is None:
            what, hint = _NAMES.get(type(node), ("this", ""))
            if isinstance(node, ast.Set) and isinstance(node.elts[0], ast.Set):
                what, hint = "`{{ }}`", "an expression is not a template: write the fact alone"
            raise self.fault("CL102", f"{what} is not part of the language", node, hint)
        checked = kind(self, node)
        self._depth -= 1
        return checked

    def truth(self, node: ast.expr) -> Node:
        """Check an expression that must be true or false."""
        checked = self.expr(node)
        fit(self, checked, node, BOOL)
        return checked

    def inline(self, name: str, node: ast.expr) -> Node:
        """Check a definition in place of its name, where its faults are reported."""
        if name in self.within:
            circle = " → ".join((*self.within[self.within.index(name) :], name))
            raise self.fault("CL112", f"`{name}` is defined by itself: {circle}", node)
        try:
            tree, source = read(self.scope.defines[name])
            checker = Checker(self.scope, source, known=self.known, above=self)
            checker.within = (*self.within, name)
            checked = checker.expr(tree)
            self.doubts += [self._at_name(name, doubt, node) for doubt in checker.doubts]
        except ExpressionFault as fault:
            if fault.code == "CL112":
                raise self.fault(fault.code, fault.message, node, fault.hint) from None
            raise self._at_name(name, fault, node) from None
        self._inlined[0] += checker._nodes
        if self._inlined[0] > MAX_INLINED:
            raise self.fault("CL107", f"more than {MAX_INLINED:,} parts, written out", node)
        return checked

    def _at_name(self, name: str, fault: ExpressionFault, node: ast.expr) -> ExpressionFault:
        """A fault inside a definition, placed where the definition is used."""
        return self.fault(fault.code, f"in `{name}`: {fault.message}", node, fault.hint)


_CURE = "name parts of it under `define`, or compute it in an action"


def _constant(ctx: Checker, node: ast.Constant) -> Node:
    value: Any = node.value
    text = ctx.source.slice(node)
    match value:
        case None:
            return Const(NONE, text, None)
        case bool():
            return Const(BOOL, text, value)
        case int():
            if value > _MAX_INT:
                raise ctx.fault("CL107", "a whole number has at most 64 bits", node)
            return Const(Type("int", nonneg=True), text, value)
        case float():
            if value == float("inf"):
                raise ctx.fault("CL107", f"{text} is too large for a number", node)
            return Const(Type("float", nonneg=True), text, value)
        case str():
            if any("\ud800" <= sign <= "\udfff" for sign in value):
                raise ctx.fault("CL101", "half of a character pair is not a character", node)
            return Const(STR, text, value)
        case _:
            raise ctx.fault("CL102", f"`{text}` is not a value of this language", node)


def _logic(ctx: Checker, node: ast.BoolOp) -> Node:
    op = "and" if isinstance(node.op, ast.And) else "or"
    before = ctx.known
    parts: list[Node] = []
    for place in node.values:
        part = ctx.truth(place)
        ctx.known |= paths_not_none(part, holds=op == "and")
        parts.append(part)
    ctx.known = before
    return Logic(BOOL, ctx.source.slice(node), op, tuple(parts))


def _unary(ctx: Checker, node: ast.UnaryOp) -> Node:
    text = ctx.source.slice(node)
    match node.op:
        case ast.Not():
            return Not(BOOL, text, ctx.truth(node.operand))
        case ast.USub():
            part = ctx.value(node.operand)
        case ast.Invert():
            raise ctx.fault("CL102", "`~` is not an operator here", node, "write `not`")
        case _:
            raise ctx.fault("CL102", "`+` before a value means nothing", node, "leave it out")
    if part.type.kind not in ("int", "float", "fraction", "duration"):
        raise ctx.fault("CL104", f"`-` of {part.type} is not defined", node)
    if isinstance(part, Const) and part.type.numeric:
        return Const(INT if part.type.kind == "int" else FLOAT, text, -part.value)
    kind = part.type.kind if part.type.kind != "fraction" else "float"
    return Negative(Type(kind), text, part)


def _choice(ctx: Checker, node: ast.IfExp) -> Node:
    test = ctx.truth(node.test)
    then = ctx.knowing(node.body, paths_not_none(test, holds=True))
    other = ctx.knowing(node.orelse, paths_not_none(test, holds=False))
    result_type = operators.unify(operators.words_of(then), operators.words_of(other))
    if result_type is None:
        message = f"one side is {then.type}, the other {other.type}"
        raise ctx.fault("CL104", message, node, "give both sides one type")
    return Choice(result_type, ctx.source.slice(node), test, then, other)


_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
_OTHERWISE: dict[type[ast.operator], str] = {
    ast.BitAnd: "write `and`",
    ast.BitOr: "write `or`",
    ast.BitXor: "write `!=` between two conditions",
    ast.Pow: "multiply, or compute it in an action",
}


def _arithmetic(ctx: Checker, node: ast.BinOp) -> Node:
    op = _ARITHMETIC.get(type(node.op))
    if op is None:
        hint = _OTHERWISE.get(type(node.op), "compute it in an action")
        raise ctx.fault("CL102", "this operator is not part of the language", node, hint)
    left, right = ctx.value(node.left), ctx.value(node.right)
    result_type = operators.arithmetic(op, left.type, right.type)
    if result_type is None:
        if {left.type.kind, right.type.kind} & {"str", "enum", "list", "map"}:
            hint = "texts and lists are built in templates, `append` and actions"
            message = f"`{op}` of {left.type} and {right.type}: texts and lists cannot grow here"
            raise ctx.fault("CL102", message, node, hint)
        hint = "durations go with durations, or times a number"
        message = f"`{op}` of {left.type} and {right.type} is not defined"
        raise ctx.fault("CL104", message, node, hint)
    return Arith(result_type, ctx.source.slice(node), op, left, right)


def _list(ctx: Checker, node: ast.List) -> Node:
    items: list[Node] = []
    for place in node.elts:
        if isinstance(place, ast.Name) and not names.resolves(ctx, place.id):
            raise names.bare_word(ctx, place)
        items.append(ctx.expr(place))
    result_type = operators.EMPTY_LIST
    if items:
        result_type = Type("list", of=operators.common(tuple(items)))
    return Items(result_type, ctx.source.slice(node), tuple(items))


def _map(ctx: Checker, node: ast.Dict) -> Node:
    keys: list[str] = []
    for key, value in zip(node.keys, node.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            raise ctx.fault("CL102", "the keys of a map are quoted texts", key or value)
        _constant(ctx, key)
        if key.value in keys:
            raise ctx.fault("CL102", f"the key `{key.value}` appears twice", key)
        keys.append(key.value)
    items = tuple(ctx.expr(value) for value in node.values)
    result_type = Type("map", of=operators.common(items)) if items else operators.EMPTY_MAP
    return Pairs(result_type, ctx.source.slice(node), tuple(keys), items)


_KINDS: dict[type[ast.expr], Callable[[Checker, Any], Node]] = {
    ast.Constant: _constant,
    ast.Name: names.name,
    ast.Attribute: names.attribute,
    ast.Subscript: names.subscript,
    ast.BoolOp: _logic,
    ast.UnaryOp: _unary,
    ast.IfExp: _choice,
    ast.BinOp: _arithmetic,
    ast.Compare: comparison.compare,
    ast.Call: calls.call,
    ast.List: _list,
    ast.Dict: _map,
}

_NAMES: dict[type[ast.expr], tuple[str, str]] = {
    ast.Tuple: ("a tuple", "write numbers as 1_000_000, and lists in `[...]`"),
    ast.Set: ("a set", "write a list: `[...]`"),
    ast.Lambda: ("a lambda", ""),
    ast.NamedExpr: ("`:=`", "name the part under `define`"),
    ast.JoinedStr: ("an f-string", "texts are built in templates"),
    ast.GeneratorExp: ("a bare comprehension", "write `any(... for x in ...)`"),
    ast.ListComp: ("a bare comprehension", "write `any(... for x in ...)`"),
    ast.SetComp: ("a bare comprehension", "write `any(... for x in ...)`"),
    ast.DictComp: ("a bare comprehension", "write `any(... for x in ...)`"),
    ast.Starred: ("`*`", ""),
    ast.Slice: ("a slice", "an index is one whole number: `vars.list[0]`"),
    ast.Await: ("`await`", ""),
    ast.Yield: ("`yield`", ""),
    ast.YieldFrom: ("`yield`", ""),
}
