"""Which atoms of a guard decide it: those without which it would have come out otherwise.

An atom decides when the value of the whole guard would be the other one, were the atom's value the
other one and those of all other atoms as they were. Of ``a and b`` with both true, both decide;
with ``a`` false and ``b`` true only ``a`` does; with both false neither. An atom that has no value
by itself, as the second half of ``x is not None and x.y > 3`` where ``x`` is None, never decides,
and is in no one's way: the others are taken to decide if they do for one of its values.

Seen with both values, each time deciding, an atom has shown that it matters: for guards in which
no atom depends on another this is masking MC/DC (the condition coverage of DO-178C, and of GCC's
``-fcondition-coverage``) without its short circuit: what was not evaluated has its value here.

Belongs here: the structure of one guard. Never: facts, runs, counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chartloop.language.expression.tree import Choice, Compare, Logic, Node, Not

Value = bool | None
"""None: the atom, or a part of the guard, has no value."""


class Leaf(NamedTuple):
    """The atom of that number."""

    number: int


class Inverse(NamedTuple):
    """``not part``."""

    part: Shape


class Joined(NamedTuple):
    """``a and b``, ``a or b``; the links of ``a < b < c`` are joined by `and`."""

    all: bool
    parts: tuple[Shape, ...]


class Chosen(NamedTuple):
    """``then if test else other``."""

    test: Shape
    then: Shape
    other: Shape


Shape = Leaf | Inverse | Joined | Chosen


def shape_of(root: Node) -> Shape:
    """How the value of a guard comes of those of its atoms, numbered as `reading.atoms` does."""
    return _shape(root, iter(range(10_000)))


def _shape(node: Node, numbers: Iterator[int]) -> Shape:
    match node:
        case Logic(op=op, parts=parts):
            return Joined(op == "and", tuple(_shape(part, numbers) for part in parts))
        case Not(part=part):
            return Inverse(_shape(part, numbers))
        case Choice(test=test, then=then, other=other):
            first, asked = _shape(then, numbers), _shape(test, numbers)
            return Chosen(asked, first, _shape(other, numbers))
        case Compare(links=links) if len(links) > 1:
            return Joined(True, tuple(Leaf(next(numbers)) for _ in links))
        case _:
            return Leaf(next(numbers))


def value_of(shape: Shape, values: Sequence[Value]) -> Value:
    """The value of a part; None where that depends on what has none."""
    match shape:
        case Leaf(number=number):
            return values[number]
        case Inverse(part=part):
            found = value_of(part, values)
            return None if found is None else not found
        case Joined(all=whole, parts=parts):
            found_all = [value_of(part, values) for part in parts]
            if (not whole) in found_all:
                return not whole
            return None if None in found_all else whole
        case Chosen(test=test, then=then, other=other):
            found = value_of(test, values)
            if found is not None:
                return value_of(then if found else other, values)
            one, two = value_of(then, values), value_of(other, values)
            return one if one == two else None


def deciding(shape: Shape, values: Sequence[Value]) -> Iterator[tuple[int, bool]]:
    """The atoms that decide, each with its value."""
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
            asked = value_of(test, values)
            one, two = value_of(then, values), value_of(other, values)
            if one is None or one is not two:
                yield from deciding(test, values)
            if asked is not False:
                yield from deciding(then, values)
            if asked is not True:
                yield from deciding(other, values)
