"""Which atoms decide a guard: a table, and brute force."""

from __future__ import annotations

import re
from itertools import product
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from chartloop.core.types import BOOL, INT, struct
from chartloop.language.expression import Expression, Scope, parse
from chartloop.language.expression.runtime import no_oracle
from chartloop.studies.coverage.deciding_atoms import Value, deciding, shape_of, value_of

SCOPE = Scope({"f": struct({**dict.fromkeys("abcd", BOOL), "x": INT})})


def guard_of(text: str) -> Expression:
    """A guard over `a` to `d`, which are yes or no, and the number `x`."""
    return parse(re.sub(r"\b([abcdx])\b", r"f.\1", text), SCOPE, want=BOOL)


class Case(NamedTuple):
    """A guard, the values of its atoms, and those that decide."""

    id: str
    guard: str
    values: tuple[Value, ...]
    decide: set[int]


CASES = [
    Case("one-atom-always", "a", (True,), {0}),
    Case("one-under-not", "not a", (False,), {0}),
    Case("and-both-true", "a and b", (True, True), {0, 1}),
    Case("and-one-false", "a and b", (False, True), {0}),
    Case("and-both-false", "a and b", (False, False), set()),
    Case("or-both-false", "a or b", (False, False), {0, 1}),
    Case("or-one-true", "a or b", (False, True), {1}),
    Case("or-both-true", "a or b", (True, True), set()),
    Case("masked-by-the-other-half", "a and b or c", (True, True, True), set()),
    Case("inner-and-decides", "a and b or c", (True, False, False), {1, 2}),
    Case("not-over-or", "not (a or b) and c", (False, False, True), {0, 1, 2}),
    Case("choice-then", "b if a else c", (True, True, False), {0, 1}),  # in the order of the text
    Case("choice-other", "b if a else c", (True, False, False), {1, 2}),
    Case("choice-test-makes-no-difference", "b if a else c", (True, True, True), {0}),
    Case("links-of-a-chain", "1 < x < 3", (True, False), {1}),
    Case("no-value-stands-in-nobodys-way", "a and b", (False, None), {0}),
    Case("no-value-never-decides", "a or b", (None, False), {1}),
    Case("no-value-of-another-part", "(a or b) and c", (None, False, True), {1, 2}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_which_atoms_decide(case: Case) -> None:
    guard = guard_of(case.guard)
    assert len(guard.atoms) == len(case.values)
    found = dict(deciding(shape_of(guard.root), case.values))
    assert set(found) == case.decide
    assert all(case.values[number] is value for number, value in found.items())


@pytest.mark.parametrize(
    "text",
    [
        "a", "not a", "a and b and c", "a or b or c", "a and (b or c)", "not (a and b) or not c",
        "b if a else c", "(b and d) if a else not c", "not (a or b and c)", "a and b or c and d",
    ],
)  # fmt: skip
def test_an_atom_decides_when_the_guard_would_come_out_otherwise(text: str) -> None:
    guard = guard_of(text)
    shape = shape_of(guard.root)
    for values in product((True, False), repeat=len(guard.atoms)):
        found = {number for number, _ in deciding(shape, values)}
        for number in range(len(values)):
            turned = [not v if n == number else v for n, v in enumerate(values)]
            otherwise = value_of(shape, values) is not value_of(shape, turned)
            assert (number in found) == otherwise, (values, number)


@pytest.mark.parametrize("text", ["a and b", "a or b", "not (a and b) or c", "b if a else c"])
def test_without_a_value_it_may_be_either(text: str) -> None:
    guard = guard_of(text)
    shape, count = shape_of(guard.root), len(guard.atoms)
    for values in product((True, False, None), repeat=count):
        found = {number for number, _ in deciding(shape, values)}
        wholes = [
            whole
            for whole in product((True, False), repeat=count)
            if all(v in (None, w) for v, w in zip(values, whole, strict=True))
        ]
        some = {n for whole in wholes for n, _ in deciding(shape, whole)}
        assert found == {n for n in some if values[n] is not None}, values


def test_the_value_of_a_shape_is_that_of_the_guard() -> None:

    guard = guard_of("not (a and b) or (c if d else a)")
    shape = shape_of(guard.root)
    names = [atom.text for atom in guard.atoms]
    for given in product((True, False), repeat=4):
        facts = dict(zip("abcd", given, strict=True))
        values = [facts[name[-1]] for name in names]
        read = SimpleNamespace(f=SimpleNamespace(**facts))
        assert value_of(shape, values) is guard.fn(read, no_oracle)
