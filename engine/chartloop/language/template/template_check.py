"""The check of a template: a whitelist over its syntax tree, and the types of the facts it reads.

Allowed are output, `if`, one level of `for`, the filters of `filters`, comparisons, `and`, `or`,
`not`, `in`, `x if y else z`, `+ - / //` and `~`, fields, subscripts and lists. Anything that can
call, import, define, multiply or reach a private name is refused, and so is a fact that does not
exist.

The tree is Jinja2's. Its nodes are recognised by class name, so that only `template` imports
Jinja2; their `lineno` is the number of a token, which gives each fault its exact place.

Belongs here: the rules for trees. Never: Jinja2, rendering.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, cast

from chartloop.core.errors import nearest
from chartloop.core.types import ANY, BOOL, COUNT, STR, Type, list_of, struct, type_of
from chartloop.language.expression.narrow import FAILED
from chartloop.language.expression.words import DOUBT, word_fault
from chartloop.language.template.filters import FILTERS
from chartloop.language.text_fault import TextFault

MAX_NODES = 3_000
"""The most nodes of a template's tree. A piece of plain text is one."""
MAX_DEPTH = 40
"""The deepest nesting of nodes. Each compiles to at most two brackets; Python allows 200."""

TESTS = ("defined", "none")
"""The words that may follow `is`."""
LOOP = struct({"index": COUNT, "index0": COUNT, "first": BOOL, "last": BOOL, "length": COUNT})
"""The fields of `loop` inside a `for`. `index` counts from 1."""

_OPERATORS = frozenset("Not Add Sub Div FloorDiv Neg Pos".split())
_WORDS = {"Add": "+", "Sub": "-", "Div": "/", "FloorDiv": "//", "Neg": "-", "Pos": "+"}
_CHAIN = ("Name", "Getattr", "Getitem")
_ORDERS = frozenset({"lt", "lteq", "gt", "gteq"})
_NEED_VALUE = frozenset({"percent", "round"})
"""The filters that fail for None."""
_FAILURES = frozenset({"errors.total", "errors.consecutive", "errors.retries"})
_DEFAULT = 'write `| default("")`'
_SIGNS = {"Mul": "*", "Mod": "%", "Pow": "**"}
_REFUSED = {
    "Assign": "`{% set %}`", "AssignBlock": "`{% set %}`", "Block": "`{% block %}`",
    "Call": "a call", "CallBlock": "`{% call %}`", "Dict": "a map in braces",
    "Extends": "`{% extends %}`", "FilterBlock": "`{% filter %}`",
    "FromImport": "`{% from %}`", "Import": "`{% import %}`", "Include": "`{% include %}`",
    "Macro": "`{% macro %}`", "Mod": "`%`", "Mul": "`*`", "Pow": "`**`",
    "Scope": "`{% autoescape %}`", "Slice": "a slice", "With": "`{% with %}`",
}  # fmt: skip
_HINT = "compute it in an action, save it into a variable and read that"
_NAMES = {"str": "a text", "int": "a number", "float": "a number", "enum": "a text"}


class TemplateFault(TextFault):
    """A template cannot be used.

    `code` is CL103 for a fact that does not exist, CL111 or CL114 for a misspelt word, else CL406.
    """


class Moment(NamedTuple):
    """What is known of the facts whenever a template is rendered."""

    present: frozenset[str] = frozenset()
    """The facts that are not None."""
    absent: frozenset[str] = frozenset()
    """The facts that are None."""
    typed: Mapping[str, Type] = {}
    """Types that replace those of the facts: of the last result and answer."""
    written: Mapping[str, object] = {}
    """The values that nothing changes."""


class Doubt(NamedTuple):
    """A part of a readable template that may fail, or always does."""

    kind: Literal["value", "index"]
    """`value`: it is None or missing; `index`: what the file writes out does not have it."""
    certain: bool
    """Whether every rendering fails there."""
    message: str
    hint: str
    offset: int
    width: int


class Token(NamedTuple):
    """A token of a template with its offset."""

    text: str
    offset: int


class _Value(NamedTuple):
    """The type of an expression and, if it is a chain of names, the path of the fact."""

    type: Type
    fact: str = ""


class Checker:
    """Checks one template's tree: collects the facts it reads and raises the first fault.

    Without `names`, every fact counts as existing, and only the whitelist is applied. With a
    `moment`, it also collects `doubts`: the values that may be None or missing where they are
    needed.
    """

    def __init__(
        self, tokens: Sequence[Token], names: Mapping[str, Type] | None,
        moment: Moment | None = None,
    ) -> None:  # fmt: skip
        self.reads: set[str] = set()
        self.doubts: dict[str, Doubt] = {}
        """By the fact that is None or missing: each is reported once."""
        self._tokens = tokens
        self._names = names
        self._moment = moment
        self._present = moment.present if moment is not None else frozenset[str]()
        self._sure = True
        """Whether every rendering evaluates the current part."""
        self._lenient = False
        """Whether a missing value is tested for, or replaced: `is defined`, `| default`."""
        self._local: dict[str, Type] = {}

    def check(self, tree: Any) -> None:
        """Raise `TemplateFault` for the first thing that is not allowed."""
        stack = [(tree, 0)]
        count = 0
        while stack:
            node, depth = stack.pop()
            count += 1
            if count > MAX_NODES or depth > MAX_DEPTH:
                what = f"more than {MAX_NODES:,} parts or {MAX_DEPTH} levels"
                raise self._fault(what, node)
            stack += [(child, depth + 1) for child in node.iter_child_nodes()]
        self._body(tree.body)

    # Statements

    def _body(self, nodes: Sequence[Any]) -> None:
        for node in nodes:
            match _kind(node):
                case "Output":
                    for part in node.nodes:
                        self._value(part)
                case "If":
                    self._value(node.test)
                    with self._only_if(node.test):
                        self._body(node.body)
                    with self._only_if(node.test, holds=False):
                        self._body(node.elif_)
                        self._body(node.else_)
                case "For":
                    self._for(node)
                case _:
                    raise self._unknown(node)

    def _for(self, node: Any) -> None:
        if "loop" in self._local:
            raise self._fault("a `for` inside a `for`", node)
        if node.recursive:
            raise self._fault("`recursive`", node)
        # The names that a `for` binds, with their types.
        element = self._element(node.iter)
        pairs = _kind(node.iter) == "Filter" and node.iter.name == "items"
        types = (STR, element) if pairs else (element,)
        target = node.target
        names: list[Any] = list(target.items) if _kind(target) == "Tuple" else [target]
        if len(names) != len(types) or any(_kind(name) != "Name" for name in names):
            hint = "write `for item in list` or `for key, value in map | items`"
            raise self._fault("loop variables that do not fit the loop", node, hint)
        for name in names:
            self._public(name.name, name)
        self._local = {name.name: type for name, type in zip(names, types, strict=True)}
        with self._only_if(None):
            if node.test is not None:
                self._value(node.test)
            self._local["loop"] = LOOP
            with self._only_if(node.test):
                self._body(node.body)
            self._local = {"loop": ANY}
            self._body(node.else_)
        self._local = {}

    @contextmanager
    def _only_if(self, test: Any, *, holds: bool = True) -> Generator[None]:
        """Check parts that are evaluated only if a test holds, or does not."""
        before = self._sure, self._present
        self._sure = False
        if test is not None:
            self._present |= self._implied(test, holds=holds)
        yield
        self._sure, self._present = before

    def _implied(self, node: Any, *, holds: bool) -> frozenset[str]:
        """The facts that are not None if a test holds, or does not.

        ``a.b?`` stands for a part that is there, perhaps as None.
        """
        nothing = frozenset[str]()
        match kind := _kind(node):
            case "Not":
                return self._implied(node.node, holds=not holds)
            case "And" | "Or":
                sides = [self._implied(side, holds=holds) for side in (node.left, node.right)]
                return sides[0] | sides[1] if (kind == "And") == holds else sides[0] & sides[1]
            case "Test":
                path = _path(node.node)
                if node.name == "none" and not holds:
                    return self._implied(node.node, holds=True)
                if node.name == "none":
                    return nothing
                return frozenset({*_holders(path), f"{path}?"}) if holds else nothing
            case "Compare":
                return self._implied_by_comparison(node, holds=holds)
            case _:
                path = _path(node)
                if path == "last.error" if holds else path == "last.ok":
                    return FAILED
                return frozenset({path}) - {""} if holds else nothing

    def _implied_by_comparison(self, node: Any, *, holds: bool) -> frozenset[str]:
        path, first = _path(node.expr), node.ops[0]
        if len(node.ops) > 1 or _kind(first.expr) != "Const":
            return frozenset()
        value = first.expr.value
        if value is None:
            given = first.op == ("ne" if holds else "eq")
            return self._implied(node.expr, holds=True) if given and path else frozenset()
        failures = path in _FAILURES and isinstance(value, int)
        some = holds and ((first.op == "gt" and value >= 0) or (first.op == "gteq" and value > 0))
        return frozenset({"errors.last"}) if failures and some else frozenset()

    def _element(self, node: Any) -> Type:
        type = self._value(node)
        if type.kind in ("list", "any"):
            return type.of or ANY
        if type.kind == "map" or type.keyed:
            return STR
        raise self._fault(f"a loop over {_a(type)}", node, "loop over a list or a map")

    # Expressions

    def _value(self, node: Any) -> Type:
        """The type of an expression. If it is a fact, its path is added to `reads`."""
        return self._needed(node, "")

    def _chain(self, node: Any) -> _Value:
        match _kind(node):
            case "Name":
                return self._name(node)
            case "Getattr":
                self._public(node.attr, node)
                return self._below(node, node.attr)
            case "Getitem":
                return self._item(node)
            case _:
                return _Value(self._compound(node))

    def _compound(self, node: Any) -> Type:
        match kind := _kind(node):
            case "TemplateData":
                return STR
            case "Const":
                return type_of(node.value)
            case "Filter":
                return self._filter(node)
            case "Test":
                return self._test(node)
            case "And" | "Or":
                self._value(node.left)
                with self._only_if(node.left, holds=kind == "And"):
                    self._value(node.right)
                return ANY
            case "CondExpr":
                return self._either(node)
            case "Concat" | "List" | "Tuple":
                self._parts(node)
                return STR if kind == "Concat" else list_of(ANY)
            case "Compare":
                return self._compare(node)
            case _ if kind in _OPERATORS:
                for part in node.iter_child_nodes():
                    self._needed(part, f"`{_WORDS[kind]}`" if kind in _WORDS else "")
                return ANY
            case _:
                raise self._unknown(node)

    def _compare(self, node: Any) -> Type:
        """Check a comparison: a quoted word must be a possible value of the other side."""
        order = node.ops[0].op in _ORDERS
        left = self._needed(node.expr, "a comparison" if order else "")
        for operand in node.ops:
            order = operand.op in _ORDERS
            needs = "a comparison" if order else "`in`" if operand.op in ("in", "notin") else ""
            right = self._needed(operand.expr, needs)
            if operand.op in ("eq", "ne"):
                self._word(left, operand.expr)
                self._word(right, node.expr)
            elif operand.op in ("in", "notin"):
                listed = operand.expr.items if _kind(operand.expr) in ("List", "Tuple") else ()
                for item in listed:
                    self._word(left, item)
                if right.kind == "list" and right.of is not None:
                    self._word(right.of, node.expr)
            left = right
        return BOOL

    def _word(self, type: Type, node: Any) -> None:
        if _kind(node) != "Const" or not isinstance(node.value, str):
            return
        wrong = word_fault(type, node.value)
        if wrong is not None and wrong.code != DOUBT:
            raise TemplateFault(wrong.code, wrong.message, wrong.hint, *self._span(node))

    def _parts(self, node: Any) -> None:
        for part in node.iter_child_nodes():
            self._value(part)

    def _name(self, node: Any) -> _Value:
        name = node.name
        self._public(name, node)
        if name in self._local:
            return _Value(self._local[name])
        if self._names is None:
            return _Value(ANY, name)
        if name not in self._names:
            raise self._missing(name, nearest(name, [*self._names, *self._local]), node)
        return _Value(self._names[name], name)

    def _item(self, node: Any) -> _Value:
        index = node.arg.node if _kind(node.arg) == "Neg" else node.arg
        if _kind(index) in _REFUSED:
            raise self._unknown(index)
        if _kind(index) != "Const":
            return self._check_index(node)
        if not isinstance(index.value, (int, str)):
            hint = 'write `[0]`, `[vars.i]` or `["key"]`; go through all with `{% for %}`'
            raise self._fault("such a subscript", index, hint)
        if isinstance(index.value, str):
            return self._below(node, index.value)
        base = self._needed(node.node, f"`[{index.value}]`")
        if base.kind not in ("list", "any"):
            what = f"a number as subscript of {_a(base)}"
            raise self._fault(what, node, "only lists have places")
        fact = _path(node.node)
        held = self._moment.written.get(fact) if self._moment is not None else None
        length = len(cast("list[object]", held)) if isinstance(held, (list, tuple)) else None
        needed = index.value + (index is node.arg)
        if length is not None and length < needed and not self._lenient:
            sign = "" if index is node.arg else "-"
            message = f"`{fact}[{sign}{index.value}]` is past the end: `{fact}` has {length}, "
            message += "and nothing in the file changes it"
            hint = f"read an index below {length}" if length else "test that it is not empty"
            self._doubt("index", fact, node, message, hint, certain=True)
        return _Value(base.of or ANY)

    def _check_index(self, node: Any) -> _Value:
        """The value of a list element at a computed index."""
        base = self._needed(node.node, "a computed subscript")
        index = self._needed(node.arg, "a computed subscript")
        if index.kind not in ("int", "any"):
            hint = "an index is a whole number"
            raise self._fault(f"{_a(index)} as index", node.arg, hint)
        if base.kind not in ("list", "any"):
            hint = 'only lists have places; a map is read by `["key"]`'
            raise self._fault(f"a computed subscript of {_a(base)}", node, hint)
        return _Value(base.of or ANY)

    def _below(self, node: Any, name: str) -> _Value:
        """The field `name` of the struct or map before it."""
        base = self._chain(node.node)
        fact = f"{base.fact}.{name}" if base.fact else ""
        type = base.type
        self._not_none(base, node.node, f"`{name}`")
        if type.kind == "struct":
            field = type.field(name)
            prefix = f"{base.fact}." if base.fact else ""
            known = [prefix + field for field, _ in type.fields]
            if field is None and self._moment is None:
                raise self._missing(prefix + name, nearest(prefix + name, known), node)
            there = self._lenient or {fact, f"{fact}?"} & self._present
            if (field is None or field.optional) and not there:
                verb = "has" if field is None else "may have"
                holder = f"`{base.fact}`" if base.fact else "the element"
                message = f"{holder} {verb} no `{name}` here"
                hint = (nearest(prefix + name, known) if field is None else "") or _DEFAULT
                kind = "index" if fact.startswith("vars.") else "value"
                self._doubt(kind, fact, node, message, hint, certain=field is None)
            moment = self._moment or Moment()
            type = moment.typed.get(fact)
            if isinstance(held := moment.written.get(fact), Mapping):
                items = cast("Mapping[str, object]", held).items()
                type = struct({name: type_of(value) for name, value in items}, keyed=True)
            return _Value(type or field or ANY, fact)
        if type.kind not in ("map", "any"):
            what = f"`.{name}` of {_a(type)}"
            raise self._fault(what, node, "only records and maps have fields")
        return _Value(type.of or ANY, fact)

    def _filter(self, node: Any) -> Type:
        spec = FILTERS.get(node.name)
        if spec is None:
            hint = nearest(node.name, FILTERS, otherwise=f"known: {', '.join(FILTERS)}")
            raise self._fault(f"the filter `{node.name}`", node, hint)
        before, self._lenient = self._lenient, node.name == "default" and _kind(node.node) in _CHAIN
        base = self._needed(node.node, f"`{node.name}`" if node.name in _NEED_VALUE else "")
        self._lenient = before
        self._arguments(node, spec.args, spec.needed)
        match spec.gives:
            case Type():
                return spec.gives
            case "same":
                return base if all(self._value(a).kind == base.kind for a in node.args[:1]) else ANY
            case "pairs":
                return list_of(base.of or ANY)
            case "element":
                return base.of or ANY

    def _arguments(self, node: Any, names: Sequence[str], needed: int) -> None:
        given = [*names[: len(node.args)], *(k.key for k in node.kwargs)]
        too_many = len(node.args) > len(names) or node.dyn_args or node.dyn_kwargs
        known = set(given) <= set(names) and len(set(given)) == len(given)
        if too_many or not known or len(given) < needed:
            takes = ", ".join(f"`{name}`" for name in names) or "no arguments"
            what = f"these arguments of `{node.name}`"
            raise self._fault(what, node, f"it takes {takes}")
        for argument in (*node.args, *(k.value for k in node.kwargs)):
            self._value(argument)

    def _test(self, node: Any) -> Type:
        if node.name not in TESTS:
            hint = "only `is defined` and `is none`, each with `not`; else compare with `==`"
            raise self._fault(f"the test `is {node.name}`", node, hint)
        before, self._lenient = self._lenient, _kind(node.node) in _CHAIN
        self._value(node.node)
        self._lenient = before
        return BOOL

    def _either(self, node: Any) -> Type:
        if node.expr2 is None:
            raise self._fault("an `if` without `else`", node, "write `x if y else z`")
        self._value(node.test)
        with self._only_if(node.test):
            first = self._value(node.expr1)
        with self._only_if(node.test, holds=False):
            second = self._value(node.expr2)
        return first if first == second else ANY

    # Doubts

    def _needed(self, node: Any, by: str) -> Type:
        """The type of an expression. If `by` is given, that fails for None."""
        value = self._chain(node)
        if value.fact:
            self.reads.add(value.fact)
        if by:
            self._not_none(value, node, by)
        return value.type

    def _not_none(self, value: _Value, node: Any, by: str) -> None:
        """Doubt a value that may be None where something needs it."""
        moment, fact = self._moment, value.fact
        if moment is None or self._lenient or not fact or fact in self._present:
            return
        if fact in moment.absent or value.type.nullable:
            certain = fact in moment.absent
            is_none = "is always None" if certain else "may be None"
            message = f"`{fact}` {is_none} here, and {by} needs a value"
            hint = f"test it first: `{{% if {fact} %}}`, or {_DEFAULT}"
            self._doubt("value", fact, node, message, hint, certain=certain)

    def doubt_of(self, fault: TemplateFault) -> Iterator[Doubt]:
        """Yield the doubt where checking ended, unless only a word is not one of those expected."""
        if fault.code == "CL406" and not self._lenient:
            what = fault.message.removeprefix("a template may not have ")
            yield Doubt(
                "value", self._sure, f"here this is {what}", fault.hint, fault.offset, fault.width
            )

    def _doubt(
        self, kind: Literal["value", "index"], fact: str, node: Any, message: str, hint: str, *,
        certain: bool,
    ) -> None:  # fmt: skip
        certain = certain and self._sure
        if fact not in self.doubts or certain > self.doubts[fact].certain:
            self.doubts[fact] = Doubt(kind, certain, message, hint, *self._span(node))

    # Faults

    def _public(self, name: str, node: Any) -> None:
        if name.startswith("_"):
            raise self._fault(f"the private name `{name}`", node)

    def _unknown(self, node: Any) -> TemplateFault:
        kind = _kind(node)
        hint = f"filters do what functions do: {', '.join(FILTERS)}" if kind == "Call" else _HINT
        return self._fault(_REFUSED.get(kind, f"`{kind.lower()}`"), node, hint)

    def _fault(self, what: str, node: Any, hint: str = _HINT) -> TemplateFault:
        return TemplateFault("CL406", f"a template may not have {what}", hint, *self._span(node))

    def _missing(self, fact: str, hint: str, node: Any) -> TemplateFault:
        return TemplateFault("CL103", f"unknown fact `{fact}`", hint, *self._span(node))

    def _span(self, node: Any) -> tuple[int, int]:
        """Offset and width of a chain of names, of an operator, or of a node's first word."""
        while node.lineno is None:
            node = next(node.iter_child_nodes())
        start = end = node.lineno
        kind = _kind(node)
        if kind in ("Getattr", "Getitem"):
            base = node
            while _kind(base) in ("Getattr", "Getitem", "Call", "Filter") and base.node is not None:
                base = base.node
            start, end = base.lineno, node.lineno + 1
            while self._token(node.lineno).text == "[" and self._token(end).text != "]":
                end += 1
        elif kind == "Call":
            return self._span(node.node)
        elif kind in _SIGNS:
            start = node.right.lineno
            while start > 0 and self._token(start).text != _SIGNS[kind]:
                start -= 1
            end = start
        first, last = self._token(start), self._token(end)
        return first.offset, last.offset + len(last.text.rstrip()) - first.offset

    def _token(self, number: int) -> Token:
        return self._tokens[min(max(0, number), len(self._tokens) - 1)]


def _kind(node: Any) -> str:
    return type(node).__name__


def _a(type: Type) -> str:
    return _NAMES.get(type.kind, f"a {type.kind}")


def _path(node: Any) -> str:
    """The dotted path of a chain of names and texts; empty for anything else."""
    match _kind(node):
        case "Name":
            return str(node.name)
        case "Getattr":
            above = _path(node.node)
            return f"{above}.{node.attr}" if above else ""
        case "Getitem" if _kind(node.arg) == "Const" and isinstance(node.arg.value, str):
            above = _path(node.node)
            return f"{above}.{node.arg.value}" if above else ""
        case _:
            return ""


def _holders(path: str) -> Iterator[str]:
    """Yield what contains a fact: for ``a.b.c`` ``a.b`` and ``a``."""
    while path := path.rpartition(".")[0]:
        yield path
