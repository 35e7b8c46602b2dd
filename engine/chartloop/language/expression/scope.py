"""The names that an expression may use at one place of a file, and how a fault in it is reported.

Belongs here: the two values that callers of the package give and get. Never: reading text,
typing, files. A fault knows only its own text; the loader turns its offset into a place.

Source:       design "language", sections 3 and 9
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from chartloop.core.specs import GuardSpec
from chartloop.core.types import Type


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that an expression may use, with their types, at one place."""

    roots: Mapping[str, Type]
    """Struct types by root: ``run``, ``usage``, ..., ``limits``, ``vars``, ``memory``. The
    fields of a `keyed` struct are items of a mapping, those of others attributes."""
    defines: Mapping[str, str] = field(default_factory=dict[str, str])
    """Texts under `define`: inlined, and typed in place."""
    guards: Mapping[str, GuardSpec] = field(default_factory=dict[str, GuardSpec])
    """Registered Python predicates; opaque."""
    known: frozenset[str] = frozenset()
    """Dotted facts that cannot be None at this place."""
    typed: Mapping[str, Type] = field(default_factory=dict[str, Type])
    """Types that replace those of the roots: ``{"last.result": T, "last.answer": T}``."""
    extra: Mapping[str, Type] = field(default_factory=dict[str, Type])
    """More roots, of any type: ``result`` in `save`. See `widen` for their values."""

    def narrow(self, known: Iterable[str]) -> Scope:
        """The scope with more facts known not to be None."""
        return replace(self, known=self.known.union(known))


class ExpressionFault(Exception):
    """Something is wrong with the text of an expression.

    `code` is one of `core.codes`. `offset` and `width` count characters of the whole text that
    was given, leading blanks included; `offset` starts at 0.
    """

    def __init__(
        self, code: str, message: str, *, hint: str = "", offset: int = 0, width: int = 1
    ) -> None:
        self.code = code
        self.message = message
        self.hint = hint
        self.offset = offset
        self.width = width
        super().__init__(f"{code}: {message}" + (f" ({hint})" if hint else ""))
