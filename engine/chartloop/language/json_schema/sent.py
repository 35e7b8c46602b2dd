"""A tool's schema in the form that a provider takes.

A provider refuses the whole request for one tool whose schema it does not take, and so every
request of a conversation. The lock and the validation of arguments keep the schema as the server
wrote it; only requests have this form, and it is made only here.

- An object at the top, with `properties`; an array has `items`; all of it in the dialect 2020-12.
- OpenAI and Anthropic, and what stands in front of them, take no `anyOf`, `oneOf`, `allOf`, `not`
  or `enum` at the top. The properties of their parts move up; what gets lost is told in words.

Source: OpenAI "Function calling" and Anthropic "Tool use", the supported schemas.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from chartloop.language.json_schema.validator import NEWEST, dialect_of
from chartloop.language.json_schema.walk import children, resolve

TAKES_ALL = frozenset({
    "ollama", "ollama_chat", "hosted_vllm", "vllm", "llamafile", "lm_studio", "scripted",
})  # fmt: skip
"""The providers, by litellm's names, that take any keyword at the top: they compile the schema, or
write it into the prompt."""
_REFUSED = ("anyOf", "oneOf", "allOf", "not", "enum")
_MERGED = frozenset({"type", "properties", "required", "title", "description", "$ref"})
"""The keywords that a part of `allOf` may have to be merged without a loss."""
_LONGEST = 2_000
"""The most characters of a lost condition, as JSON, that the description of a tool repeats."""


class Sent(NamedTuple):
    """A schema for a request."""

    schema: dict[str, Any]
    lost: dict[str, Any]
    """The conditions at the top that the provider does not take, by keyword."""


def sent_schema(schema: Mapping[str, Any], provider: str) -> Sent:
    """A tool's schema as a provider takes it. Arguments are held against the schema itself."""
    top: dict[str, Any] = _newest(schema, dialect_of(schema))
    top.pop("$schema", None)
    lost: dict[str, Any] = {}
    if provider not in TAKES_ALL:
        whole: list[Mapping[str, Any]] = []
        if isinstance(top.get("$ref"), str):
            whole = [_followed(schema, {"$ref": top.pop("$ref")})]
            top = {**whole[0], **top}
        lost = {word: top.pop(word) for word in _REFUSED if word in top}
        parts = [_followed(schema, part) for part in lost.get("allOf", ())]
        whole = [schema, *whole, *parts]
        named = [pair for part in whole[::-1] for pair in part.get("properties", {}).items()]
        fields = dict(named)
        if parts and all(part.keys() <= _MERGED for part in parts):
            if all(fields[name] == one for name, one in named):
                del lost["allOf"]
        ways: dict[str, list[Any]] = {}
        for word in ("anyOf", "oneOf"):
            for part in lost.get(word, ()):
                for name, one in _followed(schema, part).get("properties", {}).items():
                    known = ways.setdefault(name, [])
                    known += [] if one in known else [one]
        for name, ones in ways.items():
            fields.setdefault(name, ones[0] if len(ones) == 1 else {"anyOf": ones})
        top["properties"] = {n: _newest(one, dialect_of(schema)) for n, one in fields.items()}
        needed = [name for part in whole for name in part.get("required", ())]
        if needed:
            top["required"] = list(dict.fromkeys(needed))
    return Sent({"type": "object", "properties": {}, **top}, lost)


def sent_tools(tools: Iterable[Mapping[str, Any]], provider: str) -> list[dict[str, Any]]:
    """Tools in the format of chat APIs, as a provider takes them."""
    fitted: list[dict[str, Any]] = []
    for tool in tools:
        function = dict(tool["function"])
        function["parameters"], lost = sent_schema(function["parameters"], provider)
        if lost and len(text := json.dumps(lost, ensure_ascii=False)) <= _LONGEST:
            words = f"The arguments must also match this JSON Schema: {text}"
            function["description"] = "\n\n".join(filter(None, (function["description"], words)))
        fitted.append({**tool, "function": function})
    return fitted


def _followed(root: Mapping[str, Any], part: Any) -> dict[str, Any]:
    """A part of a schema, in place of a `$ref` to it."""
    for _ in range(10):
        if not isinstance(part, Mapping):
            return {}
        given = cast("Mapping[str, Any]", part)
        if not isinstance(ref := given.get("$ref"), str) or not ref.startswith("#"):
            break
        part = resolve(root, ref)
    else:
        return {}
    return _newest(given, dialect_of(root))


def _newest(schema: Any, dialect: str) -> Any:
    """A schema in the words of 2020-12, each array with `items`."""
    if not isinstance(schema, Mapping):
        return schema
    out = dict(cast("Mapping[str, Any]", schema))
    for path, inner in children(out):
        at: Any = out
        for key in path[:-1]:
            at[key] = at = dict(at[key]) if isinstance(at[key], Mapping) else list(at[key])
        at[path[-1]] = _newest(inner, dialect)
    if dialect != NEWEST:
        if isinstance(out.get("items"), list):
            out["prefixItems"], out["items"] = out["items"], out.pop("additionalItems", {})
        for side in ("minimum", "maximum"):  # draft-04: a flag beside the bound
            word = f"exclusive{side.title()}"
            if isinstance(flag := out.get(word), bool):
                del out[word]
                if flag and side in out:
                    out[word] = out.pop(side)
    kind = out.get("type")
    if "array" in (kind if isinstance(kind, list) else [kind]):
        out.setdefault("items", {})
    return out
