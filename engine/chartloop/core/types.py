"""The types of the guard language, for facts, limits, variables and results.

A type is a small frozen value. Durations and fractions are floats at run time but have their own
types here, so that `run.elapsed >= 5` is refused when the file is loaded.

Source: docs/language.md, "Limits and variables" and "Expressions".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, cast

Kind = Literal[
    "bool",
    "int",
    "float",
    "str",
    "duration",
    "fraction",
    "none",
    "list",
    "map",
    "struct",
    "enum",
    "any",
]

NUMERIC: frozenset[str] = frozenset({"int", "float", "fraction"})


@dataclass(frozen=True, slots=True)
class Words:
    """The words that a text is expected to be one of. At run time it may be any text.

    `of` is the source of the words. With ``all`` no other word has a meaning; with ``file`` the
    file writes these words, and a caller may pass others; with ``outside`` they are the usual
    words of a provider or a module of tools.
    """

    known: tuple[str, ...]
    what: str
    """The kind of thing that they name, for messages: ``tool``, ``state``."""
    of: Literal["all", "file", "outside"] = "all"


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value, as far as it is known before the run."""

    kind: Kind
    of: Type | None = None
    """The type of the elements of a list or the values of a map."""
    fields: tuple[tuple[str, Type], ...] = ()
    """The fields of a struct, in order."""
    keyed: bool = False
    """Whether a struct's fields are items of a mapping instead of attributes."""
    values: tuple[str, ...] = ()
    """The words of an enum."""
    nullable: bool = False
    nonneg: bool = False
    """Whether it is never negative, so that products and quotients stay monotonic."""
    grows: bool = False
    """Whether it never falls during a run, so that a guard `fact >= bound` is a budget."""
    optional: bool = field(default=False, compare=False)
    """For a field of a struct: whether the value may lack it. Types are equal without this."""
    words: Words | None = field(default=None, compare=False)
    """The words that a text is compared with. Types are equal without them."""

    def __str__(self) -> str:
        text = {
            "list": f"list[{self.of}]",
            "map": f"map[{self.of}]",
            "enum": " | ".join(self.values) or "enum",
            "struct": "{" + ", ".join(n for n, _ in self.fields) + "}",
            "none": "None",
        }.get(self.kind, self.kind)
        return f"{text} | None" if self.nullable else text

    @property
    def numeric(self) -> bool:
        """Whether arithmetic with plain numbers is defined for it."""
        return self.kind in NUMERIC

    def field(self, name: str) -> Type | None:
        """The type of a field of a struct, or None."""
        return next((t for n, t in self.fields if n == name), None)

    def without_none(self) -> Type:
        """The type without None, as after an `is not None` test."""
        return replace(self, nullable=False) if self.nullable else self

    def maybe(self) -> Type:
        """The type with None allowed."""
        return self if self.nullable else replace(self, nullable=True)


BOOL = Type("bool")
INT = Type("int")
FLOAT = Type("float")
STR = Type("str")
DURATION = Type("duration")
FRACTION = Type("fraction")
NONE = Type("none")
ANY = Type("any")
COUNT = Type("int", nonneg=True)
"""A number of things: an int that is never negative."""
COUNTER = Type("int", nonneg=True, grows=True)
"""A count that never falls during a run."""


def word_of(known: Iterable[str], what: str, of: Literal["all", "file", "outside"] = "all") -> Type:
    """The type of a text that should be one of the `known` words; `what` is what they name."""
    return Type("str", words=Words(tuple(dict.fromkeys(known)), what, of))


def list_of(element: Type) -> Type:
    """The type of a list whose elements all have one type."""
    return Type("list", of=element)


def map_of(value: Type) -> Type:
    """The type of a mapping from strings to values of one type."""
    return Type("map", of=value)


def enum_of(*values: str) -> Type:
    """The type of a text that is one of a few words."""
    return Type("enum", values=values)


def struct(fields: Mapping[str, Type], *, keyed: bool = False, nullable: bool = False) -> Type:
    """The type of a value with named fields; `keyed` if it is a mapping, not an object."""
    return Type("struct", fields=tuple(fields.items()), keyed=keyed, nullable=nullable)


_SIMPLE = {t.kind: t for t in (BOOL, INT, FLOAT, STR, DURATION, FRACTION, ANY)}


def parse_type(text: str) -> Type | None:
    """Parse ``int``, ``list[str]``, ``map[float]`` as in a file; None if the text is not a type.

    The elements of a bare ``list`` or ``map`` are `any`.
    """
    text = text.strip()
    if text in _SIMPLE:
        return _SIMPLE[text]
    for kind, make in (("list", list_of), ("map", map_of)):
        if text == kind:
            return make(ANY)
        if text.startswith(kind + "[") and text.endswith("]") and text.count("[") <= 8:
            inner = parse_type(text[len(kind) + 1 : -1])
            return make(inner) if inner is not None else None
    return None


def type_of(value: object) -> Type:
    """The type of a plain value. The elements of an empty list or map are `any`."""
    if value is None:
        return NONE
    for kind, type in ((bool, BOOL), (int, INT), (float, FLOAT), (str, STR)):
        if isinstance(value, kind):
            return type
    if isinstance(value, (list, tuple)):
        return list_of(_common(cast(Sequence[object], value)))
    if isinstance(value, Mapping):
        return map_of(_common(cast(Mapping[str, object], value).values()))
    return ANY


def _common(values: Iterable[object]) -> Type:
    types = {type_of(v) for v in values}
    return types.pop() if len(types) == 1 else ANY


def accepts(wanted: Type, value: object) -> bool:
    """Whether a plain value fits the declared type. An int fits a float."""
    if value is None:
        return wanted.nullable or wanted.kind in ("any", "none")
    match wanted.kind:
        case "any":
            return True
        case "bool":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float" | "duration" | "fraction":
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return number and not (isinstance(value, float) and math.isnan(value))
        case "str":
            return isinstance(value, str)
        case "enum":
            return value in wanted.values
        case "list":
            element = wanted.of or ANY
            return isinstance(value, (list, tuple)) and all(
                accepts(element, v) for v in cast(Sequence[object], value)
            )
        case "map":
            element = wanted.of or ANY
            return isinstance(value, Mapping) and all(
                isinstance(k, str) and accepts(element, v)
                for k, v in cast(Mapping[object, object], value).items()
            )
        case "struct":
            return isinstance(value, Mapping) and all(
                t.nullable or n in value for n, t in wanted.fields
            )
        case "none":
            return False
