"""Faults in a JSON Schema, each with its place, for findings when a file is loaded.

A schema is refused if it violates the metaschema of 2020-12, if a keyword would be ignored
silently (a misspelt one, one of an older draft or of OpenAPI), if a `$ref` has no target in the
schema, and if validating a reply could take for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, cast

from chartloop.core.errors import nearest
from chartloop.language.json_schema.cost import deepest_data
from chartloop.language.json_schema.validator import (
    FORMATS,
    Fault,
    UnusableSchemaError,
    Validator,
    meta_fault,
    too_deep,
)
from chartloop.language.json_schema.walk import MANY, NAMED, ONE, Place, resolve, subschemas
from chartloop.language.yaml.document import short

DEEPEST = 100
"""The most levels of a schema."""
MOST = 10_000
"""The most subschemas of a schema."""

KEYWORDS = frozenset(
    "type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength"
    " minLength pattern maxItems minItems uniqueItems maxContains minContains maxProperties"
    " minProperties required dependentRequired format $schema $id $ref $anchor $dynamicRef"
    " $dynamicAnchor $comment title description default deprecated readOnly writeOnly examples"
    " contentEncoding contentMediaType example discriminator".split()
) | ONE | MANY | NAMED  # fmt: skip
"""The keywords of 2020-12, the older `definitions`, which a `$ref` may refer to, and two
annotations of OpenAPI that do not affect validation."""

_ELSEWHERE: Mapping[str, str] = {
    "nullable": "OpenAPI's: write `type: [string, \"null\"]`",
    "dependencies": "of an older draft: write `dependentRequired` or `dependentSchemas`",
    "additionalItems": "of an older draft: write `prefixItems` and `items`",
    "$recursiveRef": "of an older draft: write `$dynamicRef` or `$ref`",
    "$recursiveAnchor": "of an older draft: write `$dynamicAnchor`",
    "id": "of an older draft: write `$id`",
    "extends": "of an older draft: write `allOf`",
    "disallow": "of an older draft: write `not`",
    "divisibleBy": "of an older draft: write `multipleOf`",
    "$vocabulary": "for metaschemas only: remove it",
}  # fmt: skip
"""Keywords that a validator of 2020-12 ignores, with their equivalents."""
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


_WANTED = "takes a JSON Schema: `{type: object, properties: {...}}`"
_TYPES = "array boolean integer null number object string".split()


class SchemaFault(NamedTuple):
    """A fault in a schema, with its path and its cure."""

    path: tuple[str | int, ...]
    message: str
    hint: str = ""
    key: bool = False
    """Whether the fault is the key itself, not its value."""


def schema_faults(schema: Any) -> list[SchemaFault]:
    """The faults of a schema, without those that only follow from another."""
    if not isinstance(schema, Mapping) or not schema:
        return [SchemaFault((), _WANTED)]
    if too_deep(schema, DEEPEST):
        return [SchemaFault((), f"is nested deeper than {DEEPEST} levels")]
    given = cast(Mapping[str, Any], schema)
    if not any(_close(word, KEYWORDS) or word in _ELSEWHERE for word in given):
        return [SchemaFault((), _WANTED)]
    inner = list(subschemas(given))
    if len(inner) > MOST:
        return [SchemaFault((), f"holds {len(inner):,} schemas; at most {MOST:,} are read")]
    faults = [fault for place in inner for fault in _odd_words(place)]
    if not faults and (broken := meta_fault(given)) is not None:
        faults = [_none(given, broken)]
    faults = faults or [fault for place in inner for fault in _bad_refs(given, place)]
    return faults or _unusable(given)


def _none(schema: Mapping[str, Any], broken: Fault) -> SchemaFault:
    """The fault of a schema that violates the metaschema."""
    if broken.path[-1:] == ("type",):
        named = resolve(schema, "/".join(["#", *map(str, broken.path)]))
        hint = nearest(str(named), _TYPES, otherwise=f"the types are {', '.join(_TYPES)}")
        return SchemaFault(broken.path, f"`{short(str(named))}` is not a type of JSON Schema", hint)
    message = f"is not what JSON Schema takes here: {broken.message}"
    return SchemaFault(broken.path, f"`{broken.path[-1]}` {message}" if broken.path else message)


def _unusable(schema: Mapping[str, Any]) -> list[SchemaFault]:
    deepest = deepest_data(schema)
    if deepest < 1:
        hint = "each `anyOf` and `$ref` inside another multiplies the ways: name the case instead"
        return [SchemaFault((), "has too many ways to read one reply", hint)]
    try:
        Validator(schema)
    except UnusableSchemaError as error:
        return [SchemaFault((), f"cannot be used: {error}")]
    return []


def _odd_words(place: Place) -> Iterator[SchemaFault]:
    """The faults of keywords and formats that would be ignored silently."""
    path, schema = place
    for word, value in schema.items():
        if word in _ELSEWHERE:
            yield SchemaFault((*path, word), f"`{word}` is {_ELSEWHERE[word]}", key=True)
        elif word not in KEYWORDS and (close := _close(word, KEYWORDS)):
            message = f"`{short(word)}` is not a keyword of JSON Schema"
            hint = f"did you mean `{close}`? Your own keywords start with `x-`"
            yield SchemaFault((*path, word), message, hint, key=True)
        elif word == "format" and isinstance(value, str) and value not in FORMATS:
            if close := _close(value, FORMATS):
                message = f"`{short(value)}` is not a format of JSON Schema"
                yield SchemaFault((*path, word), message, f"did you mean `{close}`?")
        elif word == "$schema" and value != _DRAFT:
            yield SchemaFault((*path, word), "only draft 2020-12 is read", f"write `{_DRAFT}`")


def _close(word: str, known: frozenset[str]) -> str | None:
    """The known word that is close to a misspelt one; None for one that may be an annotation."""
    if word.startswith(("x-", "X-")) or len(word) > 40:
        return None
    folded = {k.lower(): k for k in sorted(known)}
    close = get_close_matches(word.lower(), folded, n=1, cutoff=0.74)
    return folded[close[0]] if close else None


def _bad_refs(root: Mapping[str, Any], place: Place) -> Iterator[SchemaFault]:
    path, schema = place
    for word in ("$ref", "$dynamicRef"):
        ref = schema.get(word)
        if not isinstance(ref, str) or ref.startswith(_DRAFT.removesuffix("/schema")):
            continue
        ids = (str(s["$id"]) for _, s in subschemas(root) if "$id" in s)
        if not ref.startswith("#") and ref not in ids:
            text, hint = f"`{short(ref)}` is outside of the schema", "nothing is fetched: copy it"
            yield SchemaFault((*path, word), text, hint + " under `$defs`")
        elif ref.startswith("#/") and "$id" not in root and resolve(root, ref) is None:
            names = [f"#/$defs/{name}" for name in root.get("$defs", ())]
            close = get_close_matches(ref, names, n=1)
            hint = f"did you mean `{close[0]}`?" if close else "define it under `$defs`"
            yield SchemaFault((*path, word), f"there is no `{short(ref)}`", hint)
