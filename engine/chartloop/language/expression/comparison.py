"""Comparisons: the types of their sides, and the result if a limit is off or a fact is None.

- While a limit is off, ``fact >= limits.x`` is false and ``fact < limits.x`` is true; the latter
  is allowed only for a fact that grows. Any other comparison needs a `None` test.
- ``fact >= x`` is false while the fact is None: an unknown cost has not reached a limit.
- Both sides must have matching types; a text literal must be a word that the fact can have.

Source: `docs/language.md`, "Expressions"
"""

from __future__ import annotations

import ast
from typing import Any

from chartloop.core.types import BOOL, Type
from chartloop.core.units import parse_fraction
from chartloop.language.expression import operators
from chartloop.language.expression.check_context import Context
from chartloop.language.expression.fit import duration_text
from chartloop.language.expression.monotone import never_falls
from chartloop.language.expression.names import bare_word, resolves
from chartloop.language.expression.tree import (
    ORDER,
    Compare,
    Const,
    Fact,
    Items,
    Link,
    Node,
    facts_of,
    is_none,
    path_of,
)
from chartloop.language.expression.words import word_fault

_OPS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
}  # fmt: skip


def compare(ctx: Context, node: ast.Compare) -> Node:
    """Check a chain of comparisons."""
    places = [node.left, *node.comparators]
    for at, place in enumerate(places):
        if isinstance(place, ast.Name) and not resolves(ctx, place.id):
            partner = places[at - 1] if at else places[1]
            if isinstance(partner, ast.Name) and not resolves(ctx, partner.id):
                continue
            if ctx.expr(partner).type.kind in ("str", "enum"):
                raise bare_word(ctx, place)
    sides = [ctx.expr(place) for place in places]
    links: list[Link] = []
    for i, op in enumerate(node.ops):
        pair = _Pair(
            ctx, _OPS[type(op)], (sides[i], sides[i + 1]), (places[i], places[i + 1]), node
        )
        links.append(Link(pair.op, sides[i + 1], pair.check()))
    return Compare(BOOL, ctx.source.slice(node), sides[0], tuple(links))


class _Pair:
    """The two sides of one comparison."""

    def __init__(
        self,
        ctx: Context,
        op: str,
        sides: tuple[Node, Node],
        places: tuple[ast.expr, ast.expr],
        whole: ast.Compare,
    ) -> None:
        self.ctx = ctx
        self.op = op
        self.left, self.right = sides
        self.places = places
        self.whole = whole

    def check(self) -> bool | None:
        """Check the sides; return the result if a side is None, or None if neither can be."""
        if self.op in ("is", "is not"):
            if not is_none(self.right):
                raise self.ctx.fault(
                    "CL102", f"`{self.op}` tests only for None", self.whole, "write `==` or `!=`"
                )
            if path_of(self.left) is None and not self.left.type.nullable:
                raise self.ctx.fault(
                    "CL104", "this is never None", self.places[0], "test a fact for None"
                )
            return None
        for side, place in zip((self.left, self.right), self.places, strict=True):
            if is_none(side):
                test = "is" if self.op == "==" else "is not"
                raise self.ctx.fault("CL102", "None is not compared", place, f"write `{test} None`")
            if side.type.kind == "any":
                self.ctx.require(side, place)
        absent = self._absence()
        if self.op in ("in", "not in"):
            self._membership()
        else:
            self._likeness(self.left, self.right)
        return absent

    def _absence(self) -> bool | None:
        if not (self.left.type.nullable or self.right.type.nullable):
            return None
        if self.op not in ORDER:
            for side, place in zip((self.left, self.right), self.places, strict=True):
                if side.type.nullable:
                    raise self.ctx.absent(side, place)
        # in every ordering one side is the high one
        high, low = (0, 1) if self.op in (">=", ">") else (1, 0)
        sides = (self.left, self.right)
        above, below = sides[high], sides[low]
        if _is_limit(above) and above.type.nullable:
            if not below.type.nullable:
                self._refuse_falling(above, below, self.places[high])
                return True
            raise self.ctx.absent(below, self.places[low])
        if below.type.nullable and not _is_limit(below):
            raise self.ctx.absent(below, self.places[low])
        path = path_of(above) or ""
        if above.type.nullable and (not path or path.startswith("fleet.")):  # None: no budget
            raise self.ctx.absent(above, self.places[high])
        return False

    def _refuse_falling(self, limit: Node, fact: Node, place: ast.expr) -> None:
        """Refuse ``fact < limits.x``, which is true while the limit is off, unless `fact` grows."""
        if never_falls(fact):
            return
        if all(part.is_limit for part in facts_of(fact).values()):
            raise self.ctx.absent(limit, place)
        raise self.ctx.fault(
            "CL109",
            f"`{limit.text}` may be off, and `{fact.text}` can fall",
            place,
            f"test it first: `{limit.text} is not None and ...`",
        )

    def _membership(self) -> None:
        left, right = self.left.type, self.right.type
        if right.kind in ("str", "enum", "map"):
            if left.kind in ("str", "enum"):
                return
            message = f"`{self.left.text}` is {left}; text is looked for in {right}"
            raise self.ctx.fault("CL104", message, self.places[0])
        if right.kind != "list":
            hint = "the right side is a list, map or text"
            raise self.ctx.fault("CL104", f"nothing is `in` {right}", self.places[1], hint)
        if isinstance(self.right, Items):
            for item in self.right.items:
                self.ctx.require(item, self.places[1])
                self._likeness(self.left, item)
        elif right.of is not None:
            if right.of.kind == "any":
                self.ctx.require(self.right._replace(type=right.of), self.places[1])
            self._likeness(self.left, self.right._replace(type=right.of))

    def _likeness(self, left: Node, right: Node) -> None:
        fits = operators.have_order if self.op in ORDER else operators.comparable
        if not fits(left.type, right.type):
            what = "ordered against" if left.type.kind == right.type.kind else "compared with"
            literal = right if isinstance(right, Const) else left
            message = f"{left.type} is not {what} {right.type}"
            raise self.ctx.fault("CL104", message, self._place_of(literal), _cure(left, right))
        for side, literal in ((left, right), (right, left)):
            if isinstance(literal, Const):
                value: Any = literal.value
                if side.type.kind == "fraction" and not isinstance(value, str) and value > 1:
                    raise self.ctx.fault(
                        "CL104",
                        f"a fraction is compared with {literal.text}: it is between 0 and 1",
                        self._place_of(literal),
                        f"write `{value / 100:g}`, or compare with a limit of `{value:g}%`",
                    )
                if isinstance(value, str) and (wrong := word_fault(side.type, value)):
                    self.ctx.wrong_word(wrong, self._place_of(literal))
        known = [_known_words(left.type), _known_words(right.type)]
        if (
            all(known)
            and "enum" in (left.type.kind, right.type.kind)
            and not set(known[0]) & set(known[1])
        ):
            shown = " and ".join(" | ".join(words[:8]) for words in known)
            raise self.ctx.fault("CL111", f"{shown} have no word in common", self.whole)

    def _place_of(self, literal: Node) -> ast.expr:
        """The place of a literal, also inside a list; the whole comparison for any other node."""
        if isinstance(literal, Const):
            for place in self.places:
                for node in (place, *(place.elts if isinstance(place, ast.List) else ())):
                    if self.ctx.source.slice(node) == literal.text:
                        return node
        return self.whole


def _known_words(type: Type) -> tuple[str, ...]:
    """The only words that a text or enum can be; empty if there may be others."""
    if type.kind == "str" and type.words is not None and type.words.of == "all":
        return type.words.known
    return type.values if type.kind == "enum" else ()


def _is_limit(node: Node) -> bool:
    return isinstance(node, Fact) and node.is_limit


def _cure(left: Node, right: Node) -> str:
    """The text to write in place of a literal of the wrong type."""
    for fact, literal in ((left, right), (right, left)):
        if not isinstance(literal, Const):
            continue
        value: Any = literal.value
        kind = fact.type.kind
        if kind == "duration" and (text := duration_text(value)):
            return f'write `duration("{text}")`'
        if kind == "fraction" and isinstance(value, str) and parse_fraction(value) is not None:
            return f"write `{parse_fraction(value):g}`, or compare with a limit of `{value}`"
        if fact.type.numeric and isinstance(value, str) and _is_number(value):
            return f"write `{value}` without quotes"
        if kind == "bool" and isinstance(value, str) and value.lower() in ("true", "false"):
            return f"write `{value.capitalize()}` without quotes"
        if kind in ("str", "enum") and literal.type.numeric:
            return f'write `"{value}"` in quotes'
    if "duration" in (left.type.kind, right.type.kind):
        return 'durations are compared with durations: `duration("24h")`, or a limit of `24h`'
    if "list" in (left.type.kind, right.type.kind):
        return "use `in`, `len(...)`, or `any(... for x in ...)`"
    return "compare like with like"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
