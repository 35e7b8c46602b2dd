"""Compilation of checked trees: one function for an expression, or for all rules of a machine.

The code is built only from checked nodes, never from text, and has no builtins but those of
`runtime`. It reads the facts, calls an oracle for registered guards, and does nothing else. It may
raise `GUARD_ERRORS`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence

from chartloop.language.expression.runtime import NAMES, Function
from chartloop.language.expression.tree import (
    Arith,
    Call,
    Choice,
    Compare,
    Const,
    Each,
    Element,
    Fact,
    Field,
    Indexed,
    Items,
    Link,
    Local,
    Logic,
    Method,
    Negative,
    Node,
    Not,
    Opaque,
    Pairs,
    Step,
    walk,
)


def function(node: Node) -> Function:
    """Compile one expression to a function of the facts and an oracle."""
    emitter = _Emitter([node])
    return _build(emitter, emitter.result(node))


def together(nodes: Sequence[Node]) -> Function:
    """Compile several expressions to one function that returns their values as a tuple."""
    emitter = _Emitter(nodes)
    return _build(emitter, ast.Tuple([emitter.result(node) for node in nodes], ast.Load()))


def operands(nodes: Sequence[Node]) -> Function:
    """Compile the sides of a comparison to one function that returns the compared values."""
    emitter = _Emitter(nodes)
    return _build(emitter, ast.Tuple([emitter.side(node) for node in nodes], ast.Load()))


def _build(emitter: _Emitter, result: ast.expr) -> Function:
    body: list[ast.stmt] = [
        ast.Assign([ast.Name(f"s_{root}", ast.Store())], _attribute(_load("f"), root))
        for root in sorted(emitter.shared)
    ]
    body.append(ast.Return(result))
    args = ast.arguments([], [ast.arg("f"), ast.arg("ask")], None, [], [], None, [])
    define = ast.FunctionDef("guard", args, body, [], None)
    module = ast.fix_missing_locations(ast.Module([define], []))
    names = dict(NAMES)
    exec(compile(module, "<guard>", "exec", dont_inherit=True), names)  # noqa: S102
    return names["guard"]


_OPERATORS: dict[str, ast.cmpop] = {
    "==": ast.Eq(), "!=": ast.NotEq(), "<": ast.Lt(), "<=": ast.LtE(), ">": ast.Gt(),
    ">=": ast.GtE(), "in": ast.In(), "not in": ast.NotIn(), "is": ast.Is(), "is not": ast.IsNot(),
}  # fmt: skip
_ARITHMETIC: dict[str, ast.operator] = {
    "+": ast.Add(), "-": ast.Sub(), "*": ast.Mult(),
    "/": ast.Div(), "//": ast.FloorDiv(), "%": ast.Mod(),
}  # fmt: skip


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _attribute(base: ast.expr, name: str) -> ast.expr:
    return ast.Attribute(base, name, ast.Load())


def _call(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(_load(name), list(args), [])


def _none_test(side: ast.expr, op: str) -> ast.expr:
    return ast.Compare(side, [_OPERATORS[op]], [ast.Constant(None)])


def _is_computed(node: Node) -> bool:
    """Whether the value results from arithmetic, so that it may be too large."""
    match node:
        case Arith():
            return True
        case Negative(part=part):
            return _is_computed(part)
        case Choice(then=then, other=other):
            return _is_computed(then) or _is_computed(other)
        case Call(name="abs" | "min" | "max" | "round", args=args):
            return any(_is_computed(arg) for arg in args)
        case Each(name="sum"):
            return True
        case _:
            return False


class _Emitter:
    """Emits checked nodes as Python's syntax tree."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        reads = (n for node in nodes for n in walk(node) if isinstance(n, Fact))
        uses = Counter(fact.steps[0].name for fact in reads)
        self.shared = frozenset(root for root, times in uses.items() if times > 1)
        """The sections that are read more than once, and so are fetched once at the start."""

    def result(self, node: Node) -> ast.expr:
        """Emit a value that leaves the expression, with a check of numeric bounds."""
        if node.type.kind == "int" and _is_computed(node):
            return _call("_whole", self.emit(node))
        return self.side(node)

    def side(self, node: Node) -> ast.expr:
        """Emit a value that is compared, with a check that it is finite."""
        if node.type.kind in ("float", "duration", "fraction") and _is_computed(node):
            return _call("_finite", self.emit(node))
        return self.emit(node)

    def emit(self, node: Node) -> ast.expr:
        """Emit any node."""
        match node:
            case Const(value=value):
                return ast.Constant(value)
            case Fact(steps=steps):
                return self._fact(steps)
            case Local(name=name):
                return _load(f"v_{name}")
            case Field(base=base, step=step):
                return _step(self.emit(base), step)
            case Element(base=base, key=key):
                return _call("_nth", self.emit(base), ast.Constant(key))
            case Indexed(base=base, at=at):
                return _call("_element_at", self.emit(base), self.result(at))
            case Logic(op=op, parts=parts):
                joined = ast.And() if op == "and" else ast.Or()
                return ast.BoolOp(joined, [self.emit(part) for part in parts])
            case Not(part=part):
                return ast.UnaryOp(ast.Not(), self.emit(part))
            case Compare():
                return self._compare(node)
            case _:
                return self._value(node)

    def _value(self, node: Node) -> ast.expr:
        match node:
            case Arith(op=op, left=left, right=right):
                return ast.BinOp(self.emit(left), _ARITHMETIC[op], self.emit(right))
            case Negative(part=part):
                return ast.UnaryOp(ast.USub(), self.emit(part))
            case Choice(test=test, then=then, other=other):
                return ast.IfExp(self.emit(test), self.emit(then), self.emit(other))
            case Items(items=items):
                return ast.List([self.result(item) for item in items], ast.Load())
            case Pairs(keys=keys, items=items):
                values = [self.result(item) for item in items]
                return ast.Dict([ast.Constant(key) for key in keys], values)
            case Call(name=name, args=args):
                return self._function(name, args)
            case Method(base=base, name=name, args=args):
                method = _attribute(self.emit(base), name)
                return ast.Call(method, [self.emit(arg) for arg in args], [])
            case Each():
                return self._each(node)
            case Opaque(name=name, args=args):
                arguments = ast.Tuple([self.result(arg) for arg in args], ast.Load())
                return _call("ask", ast.Constant(name), arguments)
            case _:
                raise AssertionError(node)

    def _fact(self, steps: tuple[Step, ...]) -> ast.expr:
        root = steps[0].name
        value = _load(f"s_{root}") if root in self.shared else _attribute(_load("f"), root)
        for step in steps[1:]:
            value = _step(value, step)
        return value

    def _function(self, name: str, args: tuple[Node, ...]) -> ast.expr:
        if name in ("min", "max"):
            sides = [self.side(arg) for arg in args]
            return _call(f"_{name}", *([_call("_few", *sides)] if len(sides) == 1 else sides))
        return _call(f"_{name}", *(self.emit(arg) for arg in args))

    def _compare(self, node: Compare) -> ast.expr:
        lefts = (node.first, *(link.right for link in node.links))
        pairs = list(zip(lefts, node.links, strict=False))
        if any(link.absent is not None or _by_parts(left, link) for left, link in pairs):
            parts = [self._link(left, link) for left, link in pairs]
            return parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)
        return ast.Compare(
            self.side(node.first),
            [_OPERATORS[link.op] for link in node.links],
            [self._right(link) for link in node.links],
        )

    def _right(self, link: Link) -> ast.expr:
        right = self.side(link.right)
        listed = link.op in ("in", "not in") and link.right.type.kind == "list"
        return _call("_few", right) if listed and not isinstance(link.right, Items) else right

    def _link(self, left: Node, link: Link) -> ast.expr:
        a, b = self.side(left), self._right(link)
        if _by_parts(left, link):
            same = _call("_alike", a, b)
            return same if link.op == "==" else ast.UnaryOp(ast.Not(), same)
        comparison = ast.Compare(a, [_OPERATORS[link.op]], [b])
        if link.absent is None:
            return comparison
        maybe = [side for side, node in ((a, left), (b, link.right)) if node.type.nullable]
        if link.absent:
            return ast.BoolOp(ast.Or(), [*(_none_test(side, "is") for side in maybe), comparison])
        return ast.BoolOp(ast.And(), [*(_none_test(side, "is not") for side in maybe), comparison])

    def _each(self, node: Each) -> ast.expr:
        conditions = [self.emit(condition) for condition in node.conditions]
        element = self.emit(node.element)
        if node.name == "count":
            if node.element.type.kind == "bool":
                conditions.append(element)
            element = ast.Constant(1)
        target = ast.Name(f"v_{node.var}", ast.Store())
        loop = ast.comprehension(target, _call("_few", self.emit(node.source)), conditions, 0)
        name = "_sum" if node.name == "count" else f"_{node.name}"
        start: list[ast.expr] = []
        if node.name == "sum" and node.type.kind != "int":
            start.append(ast.Constant(0.0))
        return _call(name, ast.GeneratorExp(element, [loop]), *start)


def _by_parts(left: Node, link: Link) -> bool:
    return link.op in ("==", "!=") and left.type.kind in ("list", "map")


def _step(base: ast.expr, step: Step) -> ast.expr:
    if step.counter:
        return ast.Call(_attribute(base, "get"), [ast.Constant(step.name), ast.Constant(0)], [])
    if step.keyed:
        return ast.Subscript(base, ast.Constant(step.name), ast.Load())
    return _attribute(base, step.name)
