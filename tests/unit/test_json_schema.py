"""Replies held against a JSON Schema: every keyword of 2020-12 at its boundary, hostile schemas,
the types of guards, classes."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from chartloop import Machine, SpecError, check, load
from chartloop.core.types import ANY, BOOL, FLOAT, INT, STR, Type, enum_of, list_of, map_of, struct
from chartloop.language.json_schema.cost import deepest_data
from chartloop.language.json_schema.faults import schema_faults
from chartloop.language.json_schema.reply import BrokenReplyError, ReplySchema
from chartloop.language.json_schema.typed import type_of_schema
from chartloop.language.json_schema.validator import FORMATS, Validator


class Row(NamedTuple):
    """A keyword: the last data that satisfies it, and the first that breaks it."""

    keyword: str
    schema: dict[str, Any]
    fits: Any
    breaks: Any


REF = {"$defs": {"A": {"type": "integer"}}}
ROWS = [
    Row("type", {"type": "integer"}, 1, "1"),
    Row("type", {"type": "integer"}, 1.0, 1.5),
    Row("type", {"type": "integer"}, 0, False),
    Row("type", {"type": ["string", "null"]}, None, 1),
    Row("enum", {"enum": ["a", 1, None]}, None, "b"),
    Row("const", {"const": {"a": 1}}, {"a": 1}, {"a": 2}),
    Row("multipleOf", {"multipleOf": 0.01}, 19.99, 19.999),
    Row("maximum", {"maximum": 1}, 1, 1.0000001),
    Row("exclusiveMaximum", {"exclusiveMaximum": 1}, 0.9999999, 1),
    Row("minimum", {"minimum": 0}, 0, -1),
    Row("exclusiveMinimum", {"exclusiveMinimum": 0}, 1, 0),
    Row("maxLength", {"maxLength": 2}, "\U0001f600b", "abc"),
    Row("minLength", {"minLength": 2}, "ab", "a"),
    Row("pattern", {"pattern": "^a+$"}, "aa", "ab"),
    Row("pattern", {"pattern": "^(?!b)"}, "a", "b"),
    Row("maxItems", {"maxItems": 1}, [1], [1, 2]),
    Row("minItems", {"minItems": 1}, [1], []),
    Row("uniqueItems", {"uniqueItems": True}, [1, "1"], [{"a": 1}, {"a": 1.0}]),
    Row("contains", {"contains": {"const": 1}}, [0, 1], [0]),
    Row("maxContains", {"contains": {"const": 1}, "maxContains": 1}, [1], [1, 1]),
    Row("minContains", {"contains": {"const": 1}, "minContains": 2}, [1, 1], [1]),
    Row("maxProperties", {"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 1}),
    Row("minProperties", {"minProperties": 1}, {"a": 1}, {}),
    Row("required", {"required": ["a"]}, {"a": None}, {"b": 1}),
    Row("dependentRequired", {"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}),
    Row("properties", {"properties": {"a": {"type": "string"}}}, {"a": "x"}, {"a": 1}),
    Row("properties", {"properties": {"a": False}}, {}, {"a": 1}),
    Row("patternProperties", {"patternProperties": {"^a": {"type": "string"}}}, {"b": 1}, {"ab": 1}),
    Row("additionalProperties", {"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, {"b": 1}),
    Row("additionalProperties", {"additionalProperties": {"type": "integer"}}, {"b": 1}, {"b": ""}),
    Row("propertyNames", {"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}),
    Row("items", {"items": {"type": "integer"}}, [1], [1, "a"]),
    Row("prefixItems", {"prefixItems": [{"type": "integer"}], "items": False}, [1], [1, 2]),
    Row("allOf", {"allOf": [{"minimum": 1}, {"maximum": 2}]}, 2, 3),
    Row("anyOf", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, "a"),
    Row("oneOf", {"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 1, 2),
    Row("not", {"not": {"const": 1}}, 2, 1),
    Row("then", {"if": {"minimum": 1}, "then": {"maximum": 5}}, 0, 6),
    Row("else", {"if": {"minimum": 1}, "else": {"const": 0}}, 0, -1),
    Row("dependentSchemas", {"dependentSchemas": {"a": {"required": ["b"]}}}, {"b": 1}, {"a": 1}),
    Row("unevaluatedProperties", {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
    Row("unevaluatedItems", {"prefixItems": [{}], "unevaluatedItems": False}, [1], [1, 2]),
    Row("$ref", {**REF, "properties": {"a": {"$ref": "#/$defs/A"}}}, {"a": 1}, {"a": "a"}),
    Row("$anchor", {"$defs": {"A": {"$anchor": "here", "type": "null"}}, "$ref": "#here"}, None, 1),
    Row("$dynamicRef", {"$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}, "type": "object"}, {"a": {}}, {"a": 1}),
    Row("definitions", {"definitions": {"A": {"type": "null"}}, "$ref": "#/definitions/A"}, None, 1),
    Row("format", {"format": "email"}, "a@b.example", "zz"),
    Row("format", {"format": "date"}, "2024-02-29", "2023-02-29"),
]  # fmt: skip


def reply_machine(schema: Any, **more: Any) -> str:
    fields = json.dumps({"output": schema, **more})
    return (
        "chartloop: 1\nmachine: m\nmodel: {name: scripted}\nstates:\n  q: {do: receive, next: t}\n"
        f"  t:\n    do: infer\n    with: {fields}\n    next: d\n  d: {{stop: completed}}\n"
    )


def loaded(schema: Any, **more: Any) -> Machine:
    return load(reply_machine(schema, **more))


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.keyword}-{n}" for n, row in enumerate(ROWS)])
def test_a_keyword_at_its_boundary(row: Row) -> None:
    machine = loaded({"properties": {"x": row.schema}, **_definitions(row.schema)})
    kept = machine.run("x", script=[json.dumps({"x": row.fits})])
    assert str(kept.reason) == "completed"
    assert kept.facts.last.text
    broken = machine.run("x", script=[json.dumps({"x": row.breaks})])
    assert str(broken.reason) == "error"
    [error] = broken.errors
    assert error["category"] == "RECOVERABLE"
    assert error["message"].startswith("the reply does not fit the schema: x")


def _definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """A pointer leads from the root: what it leads to is moved there."""
    return {word: schema[word] for word in ("$defs", "definitions") if word in schema}


EXAMPLES = {
    "date": ("2024-02-29", "2023-02-29"), "date-time": ("2024-01-01T00:00:00Z", "2024-01-01"),
    "time": ("10:00:00Z", "25:00:00Z"), "duration": ("P1DT2H", "1d"), "email": ("a@b.example", "zz"),
    "idn-email": ("\xfc@b.example", "zz"), "hostname": ("a.example", "-a"), "idn-hostname": ("\xfc.example", "-a"),
    "ipv4": ("1.2.3.4", "1.2.3.400"), "ipv6": ("::1", "g"), "uri": ("https://a.example", "zz"),
    "uri-reference": ("a/b", "\\\\"), "uri-template": ("{a}", "{"), "iri": ("https://\xfc.example", "zz"),
    "iri-reference": ("\xfc", "\\\\"), "uuid": ("123e4567-e89b-12d3-a456-426614174000", "x"),
    "json-pointer": ("/a", "a"), "relative-json-pointer": ("0/a", "/a"), "regex": ("^a$", "("),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_format_is_asserted(name: str) -> None:
    fits, breaks = EXAMPLES[name]
    validator = Validator({"format": name})
    assert not validator.faults(fits)
    assert validator.faults(breaks)[0].keyword == "format"


class Bad(NamedTuple):
    """A schema that a file may not ask for, and the finding."""

    id: str
    schema: Any
    code: str
    says: str
    hint: str = ""


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


def doubling(levels: int) -> dict[str, Any]:
    defs: dict[str, Any] = {"d0": {"type": "integer"}}
    for n in range(1, levels + 1):
        below = {"$ref": f"#/$defs/d{n - 1}"}
        defs[f"d{n}"] = {"anyOf": [below, {"allOf": [below]}]}
    return {"$defs": defs, "$ref": f"#/$defs/d{levels}"}


BAD = [
    Bad("a-number", 5, "CL413", "takes a JSON Schema"),
    Bad("empty", {}, "CL413", "takes a JSON Schema"),
    Bad("typo", {"properties": {"a": {"minimun": 1}}}, "CL413", "`minimun` is not a keyword", "did you mean `minimum`?"),
    Bad("letters", {"tpye": "integer"}, "CL413", "`tpye` is not a keyword", "did you mean `type`?"),
    Bad("case", {"type": "array", "minitems": 1}, "CL413", "`minitems` is not", "did you mean `minItems`?"),
    Bad("type", {"type": "strin"}, "CL413", "`strin` is not a type", "`string`"),
    Bad("minimum", {"properties": {"a": {"minimum": "x"}}}, "CL413", "JSON Schema takes here"),
    Bad("required", {"required": "a"}, "CL413", "JSON Schema takes here"),
    Bad("items", {"items": [{}]}, "CL413", "JSON Schema takes here"),
    Bad("pattern", {"pattern": "("}, "CL413", "JSON Schema takes here"),
    Bad("format", {"format": "emial"}, "CL413", "`emial` is not a format", "did you mean `email`?"),
    Bad("nullable", {"type": "string", "nullable": True}, "CL413", "`nullable` is OpenAPI's"),
    Bad("dependencies", {"dependencies": {"a": ["b"]}}, "CL413", "older draft"),
    Bad("draft", {"$schema": "http://json-schema.org/draft-07/schema#", "type": "null"}, "CL413", "only draft 2020-12"),
    Bad("dangling", {"$defs": {"Hit": {}}, "$ref": "#/$defs/Hti"}, "CL413", "there is no `#/$defs/Hti`", "did you mean `#/$defs/Hit`?"),
    Bad("remote", {"$ref": "http://127.0.0.1:9/x.json"}, "CL413", "outside of the schema", "nothing is fetched"),
    Bad("file", {"$ref": "file:///etc/hostname"}, "CL413", "outside of the schema"),
    Bad("neighbour", {"$ref": "other.json#/A"}, "CL413", "outside of the schema"),
    Bad("anchor", {"$ref": "#nowhere"}, "CL413", "cannot be used"),
    Bad("huge-pattern", {"pattern": "(a{1000}){1000}"}, "CL413", "cannot be used"),
    Bad("doubling", doubling(40), "CL413", "too many ways"),
    Bad("unknown-class", "Answer", "CL414", "unknown class `Answer`", "--tools"),
]  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_a_schema_that_is_none_is_a_finding(case: Bad) -> None:
    found = [f for f in check(reply_machine(case.schema)) if f.is_error]
    assert [f.code for f in found] == [case.code]
    assert case.says in found[0].message
    assert case.hint in found[0].hint
    assert found[0].place.line == 8


def test_the_place_is_that_of_the_misspelt_word() -> None:
    text = reply_machine({"type": "object", "properties": {"a": {"minimun": 1}}})
    [found] = check(text)
    line = text.splitlines()[found.place.line - 1]
    assert line[found.place.column - 1 :].startswith('"minimun"')


def test_a_schema_that_is_deep_or_large_is_refused() -> None:
    assert [f.message for f in schema_faults(nested(5_000))] == ["is nested deeper than 100 levels"]
    properties: dict[str, Any] = {f"p{n}": {} for n in range(20_000)}
    many = {"properties": properties}
    assert "holds 20,001 schemas" in schema_faults(many)[0].message
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5_000)}
    defs = {"$defs": {**chain, "d5000": {}}, "$ref": "#/$defs/d0"}
    assert schema_faults(defs)[0].message == "has too many ways to read one reply"


def test_words_of_ones_own_are_taken() -> None:
    own: Any = {
        "type": "object",
        "x-order": ["a"],
        "propertyOrdering": ["a"],
        "example": {},
        "discriminator": {},
    }
    assert schema_faults(own) == []


def test_a_schema_that_leads_to_itself_is_read() -> None:
    tree = {
        "$defs": {
            "T": {"properties": {"of": {"items": {"$ref": "#/$defs/T"}}, "n": {"type": "integer"}}}
        },
        "$ref": "#/$defs/T",
    }
    assert schema_faults(tree) == []
    asked = ReplySchema(tree)
    data: dict[str, Any] = {"n": 1}
    for _ in range(40):
        data = {"n": 1, "of": [data]}
    assert asked.data_of(data) == data
    for _ in range(20):
        data = {"n": 1, "of": [data]}
    with pytest.raises(BrokenReplyError, match="nested deeper than 100 levels"):
        asked.data_of(data)


def test_where_ways_multiply_less_deep_data_is_read() -> None:
    """Four ways at each level: without a bound a reply of 40 levels would never be read."""
    ways = [{"properties": {"of": {"$ref": "#/$defs/T"}, name: {"const": 0}}} for name in "abcd"]
    schema = {"$defs": {"T": {"anyOf": ways}}, "$ref": "#/$defs/T"}
    assert 5 < deepest_data(schema) < 20
    data: dict[str, Any] = dict.fromkeys("abcd", 1)
    for _ in range(40):
        data = {"of": data}
    with pytest.raises(BrokenReplyError, match="nested deeper"):
        ReplySchema(schema).data_of(data)


def test_a_pattern_is_not_tried_for_ever() -> None:
    schema = ReplySchema({"pattern": r"^(a|aa)+\1$"})
    with pytest.raises(BrokenReplyError, match="pattern"):
        schema.data_of("a" * 5_000 + "!")


@pytest.mark.parametrize(
    "text", ['{"x": "\\ud800"}', "[" * 3_000 + "]" * 3_000, "[" * 200 + "]" * 200]
)
def test_odd_data_breaks_any_schema(text: str) -> None:
    result = loaded({"type": ["object", "array"], "properties": {"x": {"maxLength": 5}}}).run(
        "x", script=[text]
    )
    assert str(result.reason) == "error"


def test_at_most_five_faults_are_said_and_long_ones_are_cut() -> None:
    schema = ReplySchema({"items": {"maxLength": 1}})
    with pytest.raises(BrokenReplyError) as raised:
        schema.data_of(["x" * 100_000] * 50)
    assert str(raised.value).count("maxLength") == 5
    assert len(str(raised.value)) < 1_500


class Typed(NamedTuple):
    """A schema and the type of what satisfies it."""

    id: str
    schema: Any
    type: Type


N = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
N_TYPE = struct({"n": INT}, keyed=True)
TYPED = [
    Typed("ref", {"$defs": {"N": N}, "$ref": "#/$defs/N"}, N_TYPE),
    Typed("optional", {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, STR.maybe()),
    Typed("optional-ref", {"$defs": {"N": N}, "anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}, struct({"n": INT}, keyed=True, nullable=True)),
    Typed("types", {"type": ["number", "null"]}, FLOAT.maybe()),
    Typed("union", {"anyOf": [{"type": "string"}, {"type": "integer"}]}, ANY),
    Typed("numbers", {"anyOf": [{"type": "number"}, {"type": "integer"}]}, FLOAT),
    Typed("const", {"const": "a", "type": "string"}, enum_of("a")),
    Typed("consts", {"oneOf": [{"const": "a"}, {"const": "b"}]}, enum_of("a", "b")),
    Typed("enum", {"enum": ["a", "b", None]}, enum_of("a", "b").maybe()),
    Typed("enum-of-numbers", {"enum": [1, 2]}, INT),
    Typed("all-of", {"allOf": [N, {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}]}, struct({"n": INT, "b": BOOL}, keyed=True)),
    Typed("all-of-one", {"$defs": {"N": N}, "allOf": [{"$ref": "#/$defs/N"}], "description": "x"}, N_TYPE),
    Typed("list", {"type": "array", "items": {"$ref": "#/$defs/N"}, "$defs": {"N": N}}, list_of(N_TYPE)),
    Typed("map", {"type": "object", "additionalProperties": {"type": "integer"}}, map_of(INT)),
    Typed("itself", {"$ref": "#"}, ANY),
    Typed("nothing", {"description": "x"}, ANY),
]  # fmt: skip


@pytest.mark.parametrize("case", TYPED, ids=lambda case: case.id)
def test_the_type_of_a_schema(case: Typed) -> None:
    assert type_of_schema(case.schema) == case.type


def test_a_guard_reads_a_nested_answer() -> None:
    schema = {
        **REF,
        "$defs": {"N": N},
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/N"}},
        "required": ["a"],
    }
    text = reply_machine(schema).replace(
        "next: d\n  d", "next: [{when: last.result.data.a.m > 0, to: d}, {to: d}]\n  d"
    )
    with pytest.raises(SpecError, match="has no `m`"):
        load(text)
