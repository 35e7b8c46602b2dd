"""The least value that fits a JSON schema: short texts, small counts, required parts only.

Every value is checked by the project's validator before it is returned. For a schema whose value
is not found there is an error that names the keyword in the way.

Makes plain JSON values. Does not make random ones, or replies of a model.

Source: JSON Schema 2020-12
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from importlib import import_module
from itertools import count, islice
from typing import Any, cast

from chartloop.language.json_schema.validator import UnusableSchemaError, Validator
from chartloop.language.json_schema.walk import resolve

TRIES = 200
"""The most values that are tried for one part of a schema."""
DEEPEST = 12
"""The most levels of parts within parts; a deeper schema has no least value here."""
OF_FORMAT: Mapping[str, str] = {
    "date": "2000-01-01", "date-time": "2000-01-01T00:00:00Z", "time": "00:00:00Z",
    "duration": "P1D", "email": "a@b.c", "idn-email": "a@b.c", "hostname": "a", "idn-hostname": "a",
    "ipv4": "1.1.1.1", "ipv6": "::", "uri": "a:b", "iri": "a:b",
    "uuid": "00000000-0000-0000-0000-000000000000", "relative-json-pointer": "0",
}  # fmt: skip
"""The least text of each format that the empty text does not have."""
_TYPE_OF = {
    "properties": "object", "required": "object", "minProperties": "object", "items": "array",
    "prefixItems": "array", "minItems": "array", "contains": "array", "minLength": "string",
    "pattern": "string", "format": "string", "minimum": "number", "exclusiveMinimum": "number",
    "maximum": "number", "exclusiveMaximum": "number", "multipleOf": "number",
}  # fmt: skip
"""The type that a schema without `type` probably means, by a keyword in it."""
Schema = Mapping[str, Any]


class NoLeastValueError(ValueError):
    """No value that fits was found; the message says which part of the schema is in the way."""


def least_value(schema: Schema) -> Any:
    """The least value that fits a schema. `NoLeastValueError` if none is found."""
    try:
        return _least(schema, schema, DEEPEST)
    except (UnusableSchemaError, re.error, RecursionError) as error:
        raise NoLeastValueError(str(error)) from None


_EXHAUSTED = frozenset(
    "type properties required additionalProperties enum const items minItems maxItems minLength "
    "maxLength minimum maximum title description default examples".split()
)
"""The keywords for which a value is found if there is one."""


def why_nothing_fits(schema: Schema) -> str:
    """Why no value fits a schema; empty if one does, or if that is not known."""
    try:
        least_value(schema)
    except NoLeastValueError as error:
        return str(error) if _is_plain(schema, DEEPEST - 1) else ""
    return ""


def _is_plain(part: Any, levels: int) -> bool:
    if not isinstance(part, Mapping):
        return True
    schema = cast("Schema", part)
    inner = [*schema.get("properties", {}).values(), schema.get("items")]
    inner.append(schema.get("additionalProperties"))
    return (
        levels > 0 and schema.keys() <= _EXHAUSTED and all(_is_plain(p, levels - 1) for p in inner)
    )


def _least(part: Any, root: Schema, levels: int) -> Any:
    """The first candidate for a part of a schema that fits it."""
    if levels < 0:
        raise NoLeastValueError("its parts are nested too deeply")
    if not isinstance(part, Mapping):
        if part is False:
            raise NoLeastValueError("`false` allows no value")
        return ""
    schema = cast("Schema", part)
    named = {word: root[word] for word in ("$defs", "definitions") if word in root}
    validator = Validator({**named, **schema})
    why = ""
    for value in islice(_candidates(schema, root, levels), TRIES):
        if isinstance(value, NoLeastValueError):
            why = why or str(value)
        elif not (faults := validator.faults(value)):
            return value
        else:
            why = why or f"no value was found for {faults[0]}"
    raise NoLeastValueError(why or "no value was found")


def _candidates(schema: Schema, root: Schema, levels: int) -> Iterator[Any]:
    """Values that may fit, the least first; an error stands for a part that has none."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if listed is not None:
        yield from listed
        return
    joins = ("$ref", "allOf", "anyOf", "oneOf", "if")
    if (word := next((word for word in joins if word in schema), "")) != "":
        rest = {name: value for name, value in schema.items() if name != word}
        for more in _parts_of(word, schema, root):
            try:
                yield _least(_merged(rest, more), root, levels - 1)
            except NoLeastValueError as error:
                yield error
        return
    kind = schema.get("type") or next((_TYPE_OF[k] for k in schema if k in _TYPE_OF), "string")
    for one in cast("list[str]", kind) if isinstance(kind, list) else [kind]:
        match one:
            case "null":
                yield None
            case "boolean":
                yield from (False, True)
            case "integer" | "number":
                yield from _numbers(schema, whole=one == "integer")
            case "array":
                yield from _arrays(schema, root, levels)
            case "object":
                yield from _objects(schema, root, levels)
            case _:
                yield from _texts(schema)
    yield from schema.get("examples", ())


def _parts_of(word: str, schema: Schema, root: Schema) -> Iterator[Schema]:
    """The schemas, one of which holds beside the rest of a schema with this keyword."""
    match word:
        case "$ref":
            yield resolve(root, schema[word]) or {}
        case "allOf":
            whole: Schema = {}
            for part in schema[word]:
                whole = _merged(whole, part)
            yield whole
        case "if":
            yield schema.get("else", {})
            yield _merged(schema["if"], schema.get("then", {}))
        case "oneOf" if "not" not in schema:
            for part in schema[word]:
                others = [other for other in schema[word] if other is not part]
                yield _merged(part, {"not": {"anyOf": others}} if others else {})
        case _:
            yield from schema[word]


def _merged(one: Schema, other: Any) -> dict[str, Any]:
    """Both schemas in one, as far as keywords can be joined; the validator decides."""
    out = dict(one)
    for name, value in cast("Schema", other if isinstance(other, Mapping) else {}).items():
        have = out.get(name)
        match name:
            case "properties" | "$defs" if have is not None:
                parts = {n: _merged(have[n], v) if n in have else v for n, v in value.items()}
                out[name] = {**have, **parts}
            case "required" if have is not None:
                out[name] = list(dict.fromkeys((*have, *value)))
            case "enum" if have is not None:
                out[name] = [one for one in have if one in value]
            case "allOf" if have is not None:
                out[name] = [*have, *value]
            case _ if have is not None and name.startswith(("min", "exclusiveMin")):
                out[name] = max(have, value)
            case _ if have is not None and name.startswith(("max", "exclusiveMax")):
                out[name] = min(have, value)
            case _:
                out[name] = value
    return out


def _numbers(schema: Schema, *, whole: bool) -> Iterator[Any]:
    """0, then the numbers next to each bound, in steps of `multipleOf`."""
    step = Fraction(str(schema.get("multipleOf", 1)))
    lows = [Fraction(str(schema[w])) for w in ("minimum", "exclusiveMinimum") if w in schema]
    highs = [Fraction(str(schema[w])) for w in ("maximum", "exclusiveMaximum") if w in schema]
    found = [Fraction(0)]
    for bound in (*lows, *highs):
        near = bound // step * step
        found += [bound, near, near + step, near - step]
    if lows and highs:
        found.append((max(lows) + min(highs)) / 2)
    found += [number * step for number in (Fraction(1), Fraction(-1))]
    for number in sorted(dict.fromkeys(found), key=lambda n: (abs(n), n < 0)):
        if number.denominator == 1:
            yield int(number)
        elif not whole:
            yield float(number)


def _texts(schema: Schema) -> Iterator[str]:
    """The least text of the format or the pattern, then fillings of the least length."""
    length = int(schema.get("minLength", 0))
    if "pattern" in schema:
        for times in range(max(1, length) + 2):
            yield _of_pattern(schema["pattern"], times)
    base = OF_FORMAT.get(str(schema.get("format", "")), "")
    yield base
    yield "a" * (length - len(base)) + base
    yield from ("a" * number for number in range(length, length + 3))


def _arrays(schema: Schema, root: Schema, levels: int) -> Iterator[Any]:
    first: list[Any] = []
    try:
        for part in schema.get("prefixItems", ()):
            first.append(_least(part, root, levels - 1))
        fewest, items = int(schema.get("minItems", 0)), schema.get("items", {})
        yield first[:fewest]
        needed = int(schema.get("minContains", 1)) if "contains" in schema else 0
        for part, most in ((schema.get("contains", {}), needed), (items, fewest)):
            for _ in range(max(0, most - len(first) if part is items else most)):
                unlike = {"not": {"enum": first}} if schema.get("uniqueItems") and first else {}
                first.append(_least(_merged({**unlike}, part), root, levels - 1))
        yield first
    except NoLeastValueError as error:
        yield NoLeastValueError(f"an item: {error}")


def _objects(schema: Schema, root: Schema, levels: int) -> Iterator[Any]:
    properties = cast("Schema", schema.get("properties", {}))
    beyond = schema.get("additionalProperties", True)
    least = int(schema.get("minProperties", 0))
    names: list[str] = list(schema.get("required", ()))
    for name in names:  # grows while it is walked
        names += [n for n in schema.get("dependentRequired", {}).get(name, ()) if n not in names]
    free: Iterable[str] = (f"a{number}" for number in count()) if beyond is not False else ()
    more = (name for name in (*properties, *islice(free, least)) if name not in names)
    names += islice(more, max(0, least - len(names)))
    out: dict[str, Any] = {}
    for name in names:
        try:
            out[name] = _least(properties.get(name, beyond), root, levels - 1)
        except NoLeastValueError as error:
            yield NoLeastValueError(f"`{name}`: {error}")
            return
    yield out


# patterns -----------------------------------------------------------------------------------

_PLAIN = "aA0_-. @/:"
"""The characters that are tried first."""


def _of_pattern(pattern: str, times: int) -> str:
    """The shortest text of a pattern in which what may be repeated stands up to `times` times."""
    return _shortest(import_module("re._parser").parse(pattern), times)  # there is no public one


def _shortest(parsed: Any, times: int) -> str:
    out = ""
    for op, given in parsed:
        match str(op):
            case "LITERAL":
                out += chr(given)
            case "IN" | "NOT_LITERAL" | "ANY":
                out += _character(str(op), given)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, inner = given
                out += _shortest(inner, times) * max(least, min(times, int(most)))
            case "SUBPATTERN":
                out += _shortest(given[-1], times)
            case "BRANCH":
                out += min((_shortest(one, times) for one in given[1]), key=len)
            case _:  # an anchor or a look-around: the validator decides
                pass
    return out


def _character(op: str, given: Any) -> str:
    """A character of a class: a plain one if possible."""
    if op == "ANY":
        return "a"
    parts: list[Any] = [("NEGATE", 0), ("LITERAL", given)] if op == "NOT_LITERAL" else given
    named = [(str(word), value) for word, value in parts]
    tests = [part for part in named if part[0] != "NEGATE"]
    lows: list[int] = [v[0] if word == "RANGE" else v for word, v in tests if word != "CATEGORY"]

    def fits(number: int, word: str, value: Any) -> bool:
        if word == "CATEGORY":
            name = str(value).removeprefix("CATEGORY_")
            kind = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[name.removeprefix("NOT_")]
            return bool(re.fullmatch(kind, chr(number))) is not name.startswith("NOT_")
        return value[0] <= number <= value[1] if word == "RANGE" else number == value

    wanted, tried = len(tests) == len(named), [*map(ord, _PLAIN), *lows]
    found = (n for n in tried if any(fits(n, *test) for test in tests) is wanted)
    return chr(next(found, ord("a")))
