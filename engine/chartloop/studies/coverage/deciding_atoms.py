"""The atoms of a guard that decide its value.

An atom decides if flipping its value, with all other atoms unchanged, flips the value of the guard.
In ``a and b`` with both true, both decide; with ``a`` false and ``b`` true only ``a`` does; with
both false neither. An atom without a value, like the second half of ``x is not None and x.y > 3``
where ``x`` is None, never decides; another atom decides if it does for one of its values.

An atom is fully covered once it has decided with each of its values. Where no atom depends on
another, this is masking MC/DC (the condition coverage of DO-178C, and of GCC's
``-fcondition-coverage``) without the short circuit: atoms after it are evaluated here too.

Belongs here: the structure of one guard. Never: facts, runs, counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chartloop.language.expression.tree import Choice, Compare, Logic, Node, Not

Value = bool | None
"""The value of an atom or of a part of a guard; None where it has none."""


class Leaf(NamedTuple):
    """An atom, by its number."""

    number: int


class Inverse(NamedTuple):
    """``not part``."""

    part: Shape


class Joined(NamedTuple):
    """``a and b`` or ``a or b``; the links of ``a < b < c`` are joined by `and`."""

    all: bool
    parts: tuple[Shape, ...]


class Chosen(NamedTuple):
    """``then if test else other``."""

    test: Shape
    then: Shape
    other: Shape


Shape = Leaf | Inverse | Joined | Chosen


def shape_of(root: Node) -> Shape:
    """The structure of a guard over its atoms, numbered as in `reading.atoms`."""
    return _shape(root, iter(range(10_000)))


def _shape(node: Node, numbers: Iterator[int]) -> Shape:
    match node:
        case Logic(op=op, parts=parts):
            return Joined(op == "and", tuple(_shape(part, numbers) for part in parts))
        case Not(part=part):
            return Inverse(_shape(part, numbers))
        case Choice(test=test, then=then, other=other):
            first, condition = _shape(then, numbers), _shape(test, numbers)
            return Chosen(condition, first, _shape(other, numbers))
        case Compare(links=links) if len(links) > 1:
            return Joined(True, tuple(Leaf(next(numbers)) for _ in links))
        case _:
            return Leaf(next(numbers))


def value_of(shape: Shape, values: Sequence[Value]) -> Value:
    """The value of a part; None where it depends on an atom without a value."""
    match shape:
        case Leaf(number=number):
            return values[number]
        case Inverse(part=part):
            value = value_of(part, values)
            return None if value is None else not value
        case Joined(all=whole, parts=parts):
            results = [value_of(part, values) for part in parts]
            if (not whole) in results:
                return not whole
            return None if None in results else whole
        case Chosen(test=test, then=then, other=other):
            condition = value_of(test, values)
            if condition is not None:
                return value_of(then if condition else other, values)
            one, two = value_of(then, values), value_of(other, values)
            return one if one == two else None


def deciding(shape: Shape, values: Sequence[Value]) -> Iterator[tuple[int, bool]]:
    """Yield the numbers of the atoms that decide, each with its value."""
    match shape:
        case Leaf(number=number):
            if (value := values[number]) is not None:
                yield number, value
        case Inverse(part=part):
            yield from deciding(part, values)
        case Joined(all=whole, parts=parts):
            against = [value_of(part, values) is (not whole) for part in parts]
            for number, part in enumerate(parts):
                if not any(against[:number]) and not any(against[number + 1 :]):
                    yield from deciding(part, values)
        case Chosen(test=test, then=then, other=other):
            condition = value_of(test, values)
            one, two = value_of(then, values), value_of(other, values)
            if one is None or one is not two:
                yield from deciding(test, values)
            if condition is not False:
                yield from deciding(then, values)
            if condition is not True:
                yield from deciding(other, values)
