"""The schema of a tool in a request: what each provider takes, and what a model is told instead."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import load
from chartloop.api.tool_lock import lock_tools
from chartloop.language.json_schema.sent import sent_schema, sent_tools
from chartloop.language.json_schema.validator import Validator, meta_fault
from chartloop.testing import LoopbackServer
from tests.mcp_peers import OBJECT, machine, put_machine, put_server
from tests.tool_loop import needs_litellm

A, B = {"type": "string"}, {"type": "integer"}
FIELDS: dict[str, Any] = {"type": "object", "properties": {"a": A, "b": B}}
EITHER = [{"required": ["a"]}, {"required": ["b"]}]
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
DRAFT = "http://json-schema.org/draft-%s/schema#"


class Case(NamedTuple):
    """A schema, what a provider gets of it, and the keywords that are lost."""

    id: str
    given: dict[str, Any]
    sent: dict[str, Any]
    lost: tuple[str, ...] = ()
    provider: str = "openai"


@pytest.mark.parametrize(
    "case",
    [
        Case("as-it-is", FIELDS, FIELDS),
        Case("no-properties", OBJECT, EMPTY),
        Case("no-type", {}, EMPTY),
        Case("any-of", {**FIELDS, "anyOf": EITHER}, FIELDS, ("anyOf",)),
        Case("any-of-anthropic", {**FIELDS, "anyOf": EITHER}, FIELDS, ("anyOf",), "anthropic"),
        Case("any-of-unknown", {**FIELDS, "anyOf": EITHER}, FIELDS, ("anyOf",), "somebody"),
        Case("any-of-at-home", {**FIELDS, "anyOf": EITHER}, {**FIELDS, "anyOf": EITHER}, (), "ollama_chat"),
        Case("not-and-enum", {**FIELDS, "not": {}, "enum": [{}]}, FIELDS, ("not", "enum")),
        Case(
            "fields-of-the-parts",
            {"type": "object", "oneOf": [{"properties": {"a": A}, "required": ["a"]}, {"properties": {"b": B}}]},
            FIELDS, ("oneOf",),
        ),
        Case(
            "all-of-merges",
            {"type": "object", "allOf": [{"properties": {"a": A}, "required": ["a"]}, {"$ref": "#/$defs/b"}],
             "$defs": {"b": {"properties": {"b": B}, "required": ["b"]}}},
            {**FIELDS, "required": ["a", "b"], "$defs": {"b": {"properties": {"b": B}, "required": ["b"]}}},
        ),
        Case(
            "kinds",
            {"type": "object", "oneOf": [{"properties": {"kind": {"const": "x"}, "a": A}}, {"properties": {"kind": {"const": "y"}}}]},
            {"type": "object", "properties": {"kind": {"anyOf": [{"const": "x"}, {"const": "y"}]}, "a": A}}, ("oneOf",),
        ),
        Case("ref-to-a-choice", {"$ref": "#/$defs/x", "$defs": {"x": {**FIELDS, "anyOf": EITHER}}},
             {**FIELDS, "$defs": {"x": {**FIELDS, "anyOf": EITHER}}}, ("anyOf",)),
        Case("all-of-with-more", {**FIELDS, "allOf": [{"minProperties": 1}]}, FIELDS, ("allOf",)),
        Case("ref", {"$ref": "#/$defs/x", "$defs": {"x": FIELDS}}, {**FIELDS, "$defs": {"x": FIELDS}}),
        Case("ref-to-itself", {"$ref": "#", "type": "object"}, EMPTY),
        Case(
            "array-of-anything", {"type": "object", "properties": {"a": {"type": ["array", "null"]}}},
            {"type": "object", "properties": {"a": {"type": ["array", "null"], "items": {}}}},
        ),
        Case(
            "pair-of-draft-07",
            {"$schema": DRAFT % "07", "type": "object", "properties": {"a": {"type": "array", "items": [A, B], "additionalItems": B}}},
            {"type": "object", "properties": {"a": {"type": "array", "prefixItems": [A, B], "items": B}}},
        ),
        Case(
            "bound-of-draft-04",
            {"$schema": DRAFT % "04", "type": "object",
             "properties": {"a": {"minimum": 3, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}}},
            {"type": "object", "properties": {"a": {"exclusiveMinimum": 3, "maximum": 9}}},
        ),
        Case("inside-it-may-choose", {"type": "object", "properties": {"a": {"anyOf": [A, B]}}},
             {"type": "object", "properties": {"a": {"anyOf": [A, B]}}}),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_a_schema_is_fitted_to_its_provider(case: Case) -> None:
    before = repr(case.given)
    sent = sent_schema(case.given, case.provider)
    assert (sent.schema, tuple(sent.lost)) == (case.sent, case.lost)
    assert repr(case.given) == before
    assert meta_fault(sent.schema) is None
    assert sent_schema(sent.schema, case.provider).schema == sent.schema


def _both(own: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", **own, **more}


PARTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({}, optional={
    "properties": st.dictionaries(st.sampled_from("abc"), st.sampled_from([A, B, {"type": "array"}, {}])),
    "required": st.lists(st.sampled_from("abc"), unique=True),
})  # fmt: skip
SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.builds(
    _both, PARTS,
    st.fixed_dictionaries({}, optional={
        "allOf": st.lists(PARTS, min_size=1, max_size=3),
        "not": st.just({"required": ["a", "b", "c"]}), "minProperties": st.integers(0, 2),
    }),
)  # fmt: skip
DATA = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["x", 1, [], None]))


@given(SCHEMAS, DATA)
def test_what_a_schema_allows_is_allowed_in_a_request(
    schema: dict[str, Any], data: dict[str, Any]
) -> None:
    sent = sent_schema(schema, "openai")
    whole, fitted = (not Validator(one).faults(data) for one in (schema, sent.schema))
    assert fitted or not whole
    if not sent.lost:
        assert fitted == whole


def test_a_lost_condition_is_told_in_words() -> None:
    tool: dict[str, Any] = {
        "type": "function",
        "function": {
            "name": "find",
            "description": "Find.",
            "parameters": {**FIELDS, "anyOf": EITHER},
        },
    }
    (sent,) = sent_tools([tool], "openai")
    assert sent["function"]["description"] == (
        "Find.\n\nThe arguments must also match this JSON Schema: "
        '{"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}'
    )
    assert tool["function"]["description"] == "Find."


@needs_litellm
@pytest.mark.extra("mcp", install='pip install -e ".[mcp]"')  # noqa: S610 - no Django
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_provider_gets_what_it_takes(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", "not-a-key")
    put_server(tmp_path, [
        {"name": "bare", "inputSchema": OBJECT},
        {"name": "any", "inputSchema": {**FIELDS, "anyOf": EITHER}},
    ])  # fmt: skip
    text = machine().replace("{name: scripted}", f"{{name: {provider}/loopback}}")
    path = put_machine(tmp_path, text)
    lock_tools(path).write()
    wrong: dict[str, Any] = {"text": "", "tool_calls": [{"name": "calc__any", "arguments": {}}]}
    with LoopbackServer([wrong, "done"]) as server:
        address = server.url if provider == "openai" else server.messages_url
        run = load(path).start("go", settings={"api_base": address})
        assert run.run().reason == "completed"
        tools = server.requests[0].body["tools"]
    functions = [tool.get("function", tool) for tool in tools]
    schemas = {f["name"]: f.get("parameters") or f["input_schema"] for f in functions}
    assert schemas["calc__bare"] == EMPTY
    assert schemas["calc__any"] == FIELDS
    assert '{"anyOf": ' in next(f for f in functions if f["name"] == "calc__any")["description"]
    (refused,) = [m["content"] for m in run.messages if m["role"] == "tool"]
    assert "is not valid under any of the schemas" in refused  # chartloop holds it against all
