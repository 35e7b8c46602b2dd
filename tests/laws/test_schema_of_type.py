"""Whatever a type accepts satisfies the schema that programs outside are told."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.types import (
    ANY,
    BOOL,
    DURATION,
    FLOAT,
    FRACTION,
    INT,
    NONE,
    STR,
    Type,
    accepts,
    enum_of,
    list_of,
    map_of,
    struct,
)
from chartloop.language.json_schema.of_type import schema_of_type
from chartloop.language.json_schema.validator import Validator, meta_fault

_NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
LEAVES: list[tuple[Type, st.SearchStrategy[Any]]] = [
    (BOOL, st.booleans()), (INT, st.integers()), (FLOAT, _NUMBERS | st.integers()),
    (STR, _TEXTS), (DURATION, _NUMBERS), (FRACTION, _NUMBERS), (NONE, st.none()),
    (ANY, st.none() | st.integers() | _TEXTS), (enum_of("a", "b"), st.sampled_from(["a", "b"])),
]  # fmt: skip
Pair = tuple[Type, st.SearchStrategy[Any]]


def wider(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    """Lists, maps, structs and what may be missing, of smaller types."""
    return st.one_of(
        inner.map(lambda p: (list_of(p[0]), st.lists(p[1], max_size=3))),
        inner.map(lambda p: (map_of(p[0]), st.dictionaries(_TEXTS, p[1], max_size=3))),
        inner.map(lambda p: (p[0].maybe(), p[1] | st.none())),
        st.tuples(inner, inner).map(
            lambda both: (
                struct({"x": both[0][0], "y": both[1][0]}),
                st.fixed_dictionaries({"x": both[0][1], "y": both[1][1]}),
            )
        ),
    )


TYPES = st.recursive(st.sampled_from(LEAVES), wider, max_leaves=5)


@given(st.data())
def test_what_a_type_accepts_satisfies_its_schema(data: st.DataObject) -> None:
    type, values = data.draw(TYPES)
    schema, value = schema_of_type(type), data.draw(values)
    assert meta_fault(schema) is None
    assert accepts(type, value)
    assert Validator(schema).faults(value) == ()


@given(st.data())
def test_a_schema_refuses_a_value_of_another_kind(data: st.DataObject) -> None:
    type, _ = data.draw(st.sampled_from(LEAVES))
    value = data.draw(st.one_of(*(values for _, values in LEAVES)))
    whole = isinstance(value, float) and value.is_integer()  # to JSON Schema an integer
    if not accepts(type, value) and not whole:
        assert Validator(schema_of_type(type)).faults(value)
