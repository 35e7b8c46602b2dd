"""The context that the parts of the checker share: the scope, known paths, and faults.

Belongs here: the state of one parse, and the checks that every part needs. Never: the rules of one
kind of expression.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod

from chartloop.core.types import Type
from chartloop.language.expression.scope import ExpressionFault, Scope
from chartloop.language.expression.syntax import Source
from chartloop.language.expression.tree import Fact, Node, path_of
from chartloop.language.expression.words import DOUBT, WordFault

ABSENT = "CL105"
"""The code of a value that may be None where it is needed."""


class Context(ABC):
    """The state of checking one text."""

    def __init__(self, scope: Scope, source: Source, known: frozenset[str]) -> None:
        self.scope = scope
        self.source = source
        self.known = known
        """The paths that cannot be None at this point of the text."""
        self.local: tuple[str, Type] | None = None
        """The variable of the current comprehension; None outside of one."""
        self.inside = False
        """Whether this text, or the use of this definition, is inside a comprehension."""
        self.doubts: list[ExpressionFault] = []
        """Faults that are only warnings."""

    @abstractmethod
    def expr(self, node: ast.expr) -> Node:
        """Check one expression, whatever it is."""

    @abstractmethod
    def truth(self, node: ast.expr) -> Node:
        """Check an expression that must be true or false."""

    @abstractmethod
    def inline(self, name: str, node: ast.expr) -> Node:
        """Check a definition in place of its name."""

    def knowing(self, node: ast.expr, known: frozenset[str]) -> Node:
        """Check an expression with more known paths."""
        before, self.known = self.known, self.known | known
        checked = self.expr(node)
        self.known = before
        return checked

    def fault(self, code: str, message: str, node: ast.expr, hint: str = "") -> ExpressionFault:
        """A fault at a node of this text."""
        return self.source.fault(code, message, node, hint=hint)

    def wrong_word(self, wrong: WordFault, node: ast.expr) -> None:
        """Refuse a quoted word, or note a doubt about it."""
        fault = self.fault(wrong.code, wrong.message, node, wrong.hint)
        if wrong.code != DOUBT:
            raise fault
        self.doubts.append(fault)

    def settle(self, checked: Node) -> Node:
        """The node, without None in its type if its path cannot be None here."""
        if checked.type.nullable and path_of(checked) in self.known:
            return checked._replace(type=checked.type.without_none())
        return checked

    def value(self, node: ast.expr) -> Node:
        """Check an expression that must have a known type without None."""
        checked = self.expr(node)
        self.require(checked, node)
        return checked

    def require(self, value: Node, node: ast.expr) -> None:
        """Refuse a node that may be None or has an unknown type."""
        if value.type.kind == "any":
            raise self.fault(
                "CL110",
                f"the type of `{self.source.slice(node)}` is not known",
                node,
                "save it into a typed variable and read that",
            )
        if value.type.kind == "none":
            raise self.fault("CL104", "None has no value here", node, "test with `x is not None`")
        if value.type.nullable:
            raise self.absent(value, node)

    def absent(self, value: Node, node: ast.expr) -> ExpressionFault:
        """The fault for a value that is used although it may be None."""
        if isinstance(value, Fact) and value.is_limit:
            return self.fault(
                "CL109",
                f"`{value.path}` may be off",
                node,
                f"compare it as `fact >= {value.path}`, or test `{value.path} is not None and ...`",
            )
        hint = ""
        if (path := path_of(value)) is not None:
            hint = f"test it first: `{path} is not None and ...`"
        return self.fault(ABSENT, f"`{self.source.slice(node)}` may be None", node, hint)
