"""The scope of an expression at one place of a file, and its faults.

Belongs here: the input and the error of the package. Never: parsing, typing, files. A fault has an
offset in its own text only, which the loader turns into a place.

Source: `docs/language.md`, "Expressions"; `docs/checks.md`
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
    """The struct types by root: ``run``, ``usage``, ..., ``limits``, ``vars``, ``memory``. The
    fields of a `keyed` struct are items of a mapping, those of others are attributes."""
    defines: Mapping[str, str] = field(default_factory=dict[str, str])
    """The texts under `define`, which are inlined and typed where they are used."""
    guards: Mapping[str, GuardSpec] = field(default_factory=dict[str, GuardSpec])
    """The registered Python predicates, which are opaque."""
    known: frozenset[str] = frozenset()
    """The dotted facts that cannot be None at this place."""
    typed: Mapping[str, Type] = field(default_factory=dict[str, Type])
    """Types that replace those of the roots: ``{"last.result": T, "last.answer": T}``."""
    extra: Mapping[str, Type] = field(default_factory=dict[str, Type])
    """Additional roots of any type: ``result`` in `save`. See `widen` for their values."""

    def narrow(self, known: Iterable[str]) -> Scope:
        """The scope with more facts known not to be None."""
        return replace(self, known=self.known.union(known))


class ExpressionFault(Exception):
    """A fault in the text of an expression.

    `code` is one of `core.codes`. `offset`, from 0, and `width` are in characters of the whole
    text, leading blanks included.
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
