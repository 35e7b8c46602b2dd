"""The least value of a schema: a table of ordinary schemas, and those that have no value."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.language.json_schema.least_value import NoLeastValueError, least_value
from chartloop.language.json_schema.validator import FORMATS, Validator


class Case(NamedTuple):
    """A schema and its least value."""

    id: str
    schema: dict[str, Any]
    value: Any


def one(**properties: Any) -> dict[str, Any]:
    """An object with these properties, all required."""
    return {"type": "object", "properties": properties, "required": [*properties]}


TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
NODE = one(
    value={**WHOLE, "minimum": 1}, next={"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}
)
INNER = {
    "a": one(b={"$ref": "#/$defs/b"}),
    "b": {"type": "array", "items": {"$ref": "#/$defs/c"}, "minItems": 1},
    "c": {"enum": ["x"]},
}
CASES = [
    Case("enum", {"enum": ["refund", "question"]}, "refund"),
    Case("const", {"const": 3}, 3),
    Case("nullable", {"type": ["null", "integer"]}, None),
    Case("nullable-text", {"type": ["string", "null"]}, ""),
    Case("boolean", {"type": "boolean"}, False),
    Case("nothing-said", {}, ""),
    Case("min-length", {**TEXT, "minLength": 3}, "aaa"),
    Case("pattern", {**TEXT, "pattern": r"^[A-Z]{3}-\d{4}$"}, "AAA-0000"),
    Case("pattern-and-length", {**TEXT, "pattern": "^(foo|ba)+$", "minLength": 5}, "bababa"),
    Case("pattern-negated", {**TEXT, "pattern": "[^a-z]"}, "A"),
    Case("pattern-classes", {**TEXT, "pattern": r"^\S+@\S+\.\w{2,}$"}, "a@a.aa"),
    Case("format-and-length", {**TEXT, "format": "email", "minLength": 12}, "aaaaaaaa@b.c"),
    Case("a-text-by-its-keywords", {"minLength": 1}, "a"),
    Case("minimum", {**WHOLE, "minimum": 7}, 7),
    Case("exclusive-minimum", {**WHOLE, "exclusiveMinimum": 10}, 11),
    Case("exclusive-bounds", {**NUMBER, "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
    Case("maximum-below-zero", {**WHOLE, "maximum": -4}, -4),
    Case("multiple", {**WHOLE, "minimum": 7, "multipleOf": 5}, 10),
    Case("multiple-of-a-part", {**NUMBER, "multipleOf": 0.01, "minimum": 0.015}, 0.02),
    Case("not", {**WHOLE, "not": {"const": 0}}, 1),
    Case("array", {"type": "array"}, []),
    Case("min-items", {"type": "array", "items": {**WHOLE, "minimum": 2}, "minItems": 2}, [2, 2]),
    Case("unique-items", {"type": "array", "items": TEXT, "minItems": 3, "uniqueItems": True}, ["", "a", "aa"]),
    Case("contains", {"type": "array", "contains": {"const": 7}, "minItems": 2}, [7, ""]),
    Case("prefix-items", {"prefixItems": [TEXT, WHOLE], "minItems": 2, "items": False}, ["", 0]),
    Case("nested-ref", {"$defs": INNER, **one(a={"$ref": "#/$defs/a"}), "additionalProperties": False}, {"a": {"b": ["x"]}}),
    Case("a-ref-to-itself", {"$defs": {"node": NODE}, "$ref": "#/$defs/node"}, {"value": 1, "next": None}),
    Case("any-of", {"anyOf": [{**TEXT, "minLength": 2}, WHOLE]}, "aa"),
    Case("one-of", {"oneOf": [{**WHOLE, "multipleOf": 3}, {**WHOLE, "multipleOf": 5}]}, 3),
    Case("one-of-objects", {"oneOf": [one(kind={"const": "a"}), one(kind={"const": "b"})]}, {"kind": "a"}),
    Case("all-of", {"allOf": [one(a=WHOLE), one(b={**TEXT, "minLength": 1})]}, {"a": 0, "b": "a"}),
    Case("if-then", {**one(k={"enum": [1]}), "if": one(k={"const": 1}), "then": {"required": ["v"]}}, {"k": 1, "v": ""}),
    Case("optional-is-left-out", {"type": "object", "properties": {"a": WHOLE}}, {}),
    Case("no-other-properties", {**one(x=WHOLE), "additionalProperties": False}, {"x": 0}),
    Case("required-and-not-described", {**one(a=TEXT), "required": ["a", "b"], "additionalProperties": {"type": "boolean"}}, {"a": "", "b": False}),
    Case("min-properties", {"type": "object", "additionalProperties": WHOLE, "minProperties": 1}, {"a0": 0}),
    Case("dependent", {**one(a=WHOLE), "dependentRequired": {"a": ["b"]}}, {"a": 0, "b": ""}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_least_value_of_a_schema(case: Case) -> None:
    assert least_value(case.schema) == case.value
    assert not Validator(case.schema).faults(case.value)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_has_a_value(name: str) -> None:
    schema = {"type": "string", "format": name}
    assert not Validator(schema).faults(least_value(schema))


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({**WHOLE, "minimum": 3, "maximum": 2}, "minimum"),
        ({**TEXT, "pattern": "^a$", "minLength": 4}, "minLength"),
        ({**TEXT, "pattern": r"^(?=.*\d)(?=.*[a-z]).{8}$"}, "pattern"),
        ({**TEXT, "pattern": "("}, 'is not a "regex"'),
        (one(x=False), "`x`: `false` allows no value"),
        (one(a=one(b={**WHOLE, "minimum": 1, "maximum": 0})), "`a`: `b`: no value was found"),
        ({"$defs": {"n": one(n={"$ref": "#/$defs/n"})}, "$ref": "#/$defs/n"}, "nested too deeply"),
    ],
)
def test_a_schema_without_a_value_says_why(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(NoLeastValueError, match=why):
        least_value(schema)


_LEAVES = st.sampled_from([case.schema for case in CASES if "$defs" not in case.schema])
_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(lambda parts: one(**parts)),
        st.tuples(inner, st.integers(0, 2)).map(lambda t: {"type": "array", "items": t[0], "minItems": t[1]}),
        st.lists(inner, min_size=1, max_size=3).map(lambda some: {"anyOf": some}),
    ),
    max_leaves=6,
)  # fmt: skip


@given(_SCHEMAS)
def test_schemas_of_such_parts_have_a_value_that_fits(schema: dict[str, Any]) -> None:
    assert not Validator(schema).faults(least_value(schema))
