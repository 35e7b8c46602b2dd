"""The types of operators: their operands and results, without texts and places.

Durations and fractions are floats at run time but distinct types here. Arithmetic keeps `nonneg`,
so that products and quotients stay monotonic.

Source: `docs/language.md`, "Expressions"
"""

from __future__ import annotations

from functools import reduce

from chartloop.core.types import ANY, DURATION, Type, enum_of, list_of, map_of
from chartloop.language.expression.tree import Const, Node

EMPTY_LIST = Type("list")
EMPTY_MAP = Type("map")
"""The types of empty literals, which fit a list or map of anything."""

_INT = {False: Type("int"), True: Type("int", nonneg=True)}
_FLOAT = {False: Type("float"), True: Type("float", nonneg=True)}
_DURATION = {False: DURATION, True: Type("duration", nonneg=True)}


def arithmetic(op: str, left: Type, right: Type) -> Type | None:
    """The type of ``left op right``; None if it is undefined. Neither type may be nullable."""
    nonneg = right.nonneg if op == "%" else left.nonneg and right.nonneg and op != "-"
    if left.numeric and right.numeric:
        whole = left.kind == right.kind == "int" and op != "/"
        return (_INT if whole else _FLOAT)[nonneg]
    if left.kind == right.kind == "duration":
        if op in ("+", "-", "%"):
            return _DURATION[nonneg]
        return _FLOAT[nonneg] if op in ("/", "//") else None
    if left.kind == "duration" and right.numeric and op in ("*", "/"):
        return _DURATION[nonneg]
    if left.numeric and right.kind == "duration" and op == "*":
        return _DURATION[nonneg]
    return None


def comparable(left: Type, right: Type) -> bool:
    """Whether ``==`` is defined for these types, of which neither is None or `any`."""
    if left.numeric and right.numeric:
        return True
    if {left.kind, right.kind} <= {"str", "enum"}:
        return True
    if left.kind in ("list", "map") and left.kind == right.kind:
        return left.of is None or right.of is None or comparable(left.of, right.of)
    return left.kind == right.kind and left.kind in ("bool", "duration")


def have_order(left: Type, right: Type) -> bool:
    """Whether ``<`` can compare values of these types."""
    if left.numeric and right.numeric:
        return True
    return left.kind == right.kind and left.kind in ("duration", "str")


def words_of(node: Node) -> Type:
    """The type of a node; a quoted text counts as an enum of one word."""
    if isinstance(node, Const) and isinstance(node.value, str):
        return enum_of(node.value)
    return node.type


def unify(left: Type, right: Type) -> Type | None:
    """The common type for the branches of a choice; None if there is none."""
    if left == right:
        return left
    if left.kind == "none" or right.kind == "none":
        return (right if left.kind == "none" else left).maybe()
    common_type = _unify(left.without_none(), right.without_none())
    return common_type.maybe() if common_type and (left.nullable or right.nullable) else common_type


def _unify(left: Type, right: Type) -> Type | None:
    nonneg = left.nonneg and right.nonneg
    if left.numeric and right.numeric:
        return Type(left.kind if left.kind == right.kind else "float", nonneg=nonneg)
    if left.kind == right.kind == "duration":
        return _DURATION[nonneg]
    if left.kind == right.kind == "enum":
        return enum_of(*dict.fromkeys((*left.values, *right.values)))
    if {left.kind, right.kind} == {"str", "enum"}:
        return Type("str")
    if left.kind == right.kind and left.kind in ("list", "map"):
        if left.of is None or right.of is None:
            return right if left.of is None else left
        of = unify(left.of, right.of)
        return None if of is None else Type(left.kind, of=of)
    return left if left == right else None


def common(items: tuple[Node, ...]) -> Type:
    """The common type of the elements of a literal; `any` if there is none."""
    return reduce(lambda a, b: unify(a, b) or ANY, (item.type for item in items))


def fill_empty_types(type: Type) -> Type:
    """Replace the missing element type of an empty literal by `any`."""
    if type.kind in ("list", "map"):
        inner = ANY if type.of is None else fill_empty_types(type.of)
        return type if inner == type.of else (list_of if type.kind == "list" else map_of)(inner)
    return type


def assignable(have: Type, want: Type) -> bool:
    """Whether a value of type `have` fits the declared type `want`."""
    if want.kind == "any":
        return True
    if have.kind == "none":
        return want.nullable
    if have.nullable and not want.nullable:
        return False
    match want.kind:
        case "float":
            return have.numeric
        case "fraction":
            return have.kind in ("fraction", "float")
        case "str":
            return have.kind in ("str", "enum")
        case "enum":
            return have.kind == "enum" and set(have.values) <= set(want.values)
        case "list" | "map":
            return have.kind == want.kind and (
                have.of is None or assignable(have.of, want.of or ANY)
            )
        case "struct":
            return (
                have.kind == "struct"
                and have.keyed == want.keyed
                and all(
                    (field := have.field(name)) is not None and assignable(field, inner)
                    for name, inner in want.fields
                )
            )
        case _:
            return have.kind == want.kind
