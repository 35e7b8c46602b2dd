"""Validation of data by a schema: the only import of `jsonschema-rs`.

Every keyword of 2020-12 is checked, `format` included (`FORMATS`). Nothing is fetched: a `$ref`
refers to a part of the schema, or to the metaschemas in the library.

Patterns are bounded by their size and their backtracking, data by its depth. The depth is lower if
each level can be matched in several ways, because these multiply. The patterns of a server's schema
never backtrack: see `ServerSchema`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from chartloop.language.json_schema.walk import subschemas

DEEPEST = 100
"""The most levels of valid data."""
FAULTS = 5
"""The most faults of a reply that are reported at once."""
_SHOWN = 200
"""The most characters of a fault's message."""
_BACKTRACKS = 100_000
"""The most backtracking steps of a pattern; after them the text does not match."""
_PATTERN_SIZE = 1_000_000
"""The largest compiled pattern, in bytes."""
_PATTERNS = 100
"""The most patterns of a server's schema."""
_PATTERNS_SIZE, _LEAST_SIZE = 2_000_000, 50_000
"""The bytes that the compiled patterns of a server's schema share, and the least that each gets:
the time of a match grows with them."""
DIALECTS: Mapping[str, str] = {
    "http://json-schema.org/draft-04/schema": "Draft4Validator",
    "http://json-schema.org/draft-06/schema": "Draft6Validator",
    "http://json-schema.org/draft-07/schema": "Draft7Validator",
    "https://json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "https://json-schema.org/draft/2020-12/schema": "Draft202012Validator",
}
"""The dialects that a schema may name as its `$schema`, with their classes."""
NEWEST = "https://json-schema.org/draft/2020-12/schema"

FORMATS = frozenset(
    "date date-time time duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri-reference"
    " uri-template iri iri-reference uuid json-pointer relative-json-pointer regex".split()
)
"""The formats that are checked: those of 2020-12. Any other is only a hint for the model."""


class Fault(NamedTuple):
    """A violation of a schema."""

    path: tuple[str | int, ...]
    """The path in the data."""
    message: str
    """The actual value and the requirement of the schema."""
    keyword: str
    """The violated keyword; empty if there is none."""

    def __str__(self) -> str:
        where = at(self.path) or "the reply"
        keyword = f" (`{self.keyword}`)" if self.keyword else ""
        return f"{where}: {self.message}{keyword}"


def at(path: Sequence[str | int]) -> str:
    """A path in common notation: ``sources[0].url``."""
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out


class UnusableSchemaError(ValueError):
    """The library cannot compile a schema."""


class Validator:
    """A compiled schema."""

    __slots__ = ("_compiled", "deepest", "schema")

    def __init__(self, schema: Mapping[str, Any], deepest: int = DEEPEST) -> None:
        self.schema = schema
        self.deepest = deepest
        self._compiled = self._compile(schema)

    def _compile(self, schema: Mapping[str, Any]) -> Any:
        import jsonschema_rs  # noqa: PLC0415 - takes 60 ms, needed only with schemas

        limits = jsonschema_rs.FancyRegexOptions(
            backtrack_limit=_BACKTRACKS, size_limit=_PATTERN_SIZE
        )
        return _compiled(jsonschema_rs.Draft202012Validator, schema, limits)

    def faults(self, data: Any) -> tuple[Fault, ...]:
        """The violations of the schema by JSON data: at most `FAULTS`."""
        if too_deep(data, self.deepest):
            return (Fault((), f"nested deeper than {self.deepest} levels", ""),)
        try:
            json.dumps(data, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return (Fault((), "a text in it holds half of a character", ""),)
        if self._compiled.is_valid(data):
            return ()
        return tuple(_fault(error) for error in islice(self._compiled.iter_errors(data), FAULTS))

    def __deepcopy__(self, memo: object) -> Validator:
        return self  # it is never changed

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.schema, self.deepest))


class ServerSchema(Validator):
    """A compiled schema that an MCP server wrote: in the dialect that it names.

    Its patterns are matched in linear time, so that no text of a server can stop the process; one
    that needs backtracking is an `UnusableSchemaError`.
    """

    __slots__ = ("patterns",)
    patterns: int
    """The number of its patterns."""

    def _compile(self, schema: Mapping[str, Any]) -> Any:
        import jsonschema_rs  # noqa: PLC0415

        self.patterns = sum(
            ("pattern" in inner) + len(inner.get("patternProperties", ()))
            for _, inner in subschemas(schema)
        )
        if self.patterns > _PATTERNS:
            raise UnusableSchemaError(f"it has {self.patterns:,} patterns, over {_PATTERNS}")
        size = min(_PATTERN_SIZE, max(_LEAST_SIZE, _PATTERNS_SIZE // (self.patterns or 1)))
        made = getattr(jsonschema_rs, DIALECTS[dialect_of(schema)])
        if dialect_of(schema) == NEWEST:  # it may name one that is not known
            schema = {name: value for name, value in schema.items() if name != "$schema"}
        try:
            return _compiled(made, schema, jsonschema_rs.RegexOptions(size_limit=size))
        except UnusableSchemaError as error:
            text = str(error)
            if text.endswith(('is not a "regex"', "is not valid regex")):
                pattern = text.rpartition(" is not ")[0]
                text = f"the pattern {pattern} backtracks, looks around, or is too large"
                raise UnusableSchemaError(text) from None
            raise


def dialect_of(schema: Mapping[str, Any]) -> str:
    """The dialect of a schema, by its `$schema`; 2020-12 if that is missing or not known."""
    named = str(schema.get("$schema", "")).removesuffix("#")
    return named if named in DIALECTS else NEWEST


def meta_fault(schema: Any, dialect: str = NEWEST) -> Fault | None:
    """The deepest violation of a dialect's metaschema by a schema; None if it is valid."""
    import jsonschema_rs  # noqa: PLC0415

    made = getattr(jsonschema_rs, DIALECTS[dialect])
    validator = made({"$ref": dialect}, validate_formats=True, retriever=_refuse)
    faults = [_fault(error) for error in validator.iter_errors(schema)]
    return max(faults, key=lambda fault: len(fault.path), default=None)


def _compiled(made: Any, schema: Mapping[str, Any], patterns: Any) -> Any:
    try:
        return made(
            dict(schema), validate_formats=True, retriever=_refuse, pattern_options=patterns
        )
    except (ValueError, RecursionError) as error:
        text = getattr(error, "message", None) or str(error)
        raise UnusableSchemaError(_shorten(text.partition("\n")[0])) from None


def _refuse(uri: str) -> Any:
    raise ValueError(f"`{uri}` is not fetched")


def _fault(error: Any) -> Fault:
    path = tuple(cast(Sequence[str | int], error.instance_path))
    schema_path = cast(Sequence[str | int], error.schema_path)
    keyword = next((p for p in reversed(schema_path) if isinstance(p, str)), "")
    text = str(error.message)
    if keyword == "const":
        text = f"{json.dumps(error.instance, ensure_ascii=False)} came, and {text}"
    return Fault(path, _shorten(text), keyword)


def _shorten(text: str) -> str:
    """Cut the middle of a long text, because its end states the requirement."""
    if len(text) <= _SHOWN:
        return text
    return f"{text[: _SHOWN // 2]}…{text[-_SHOWN // 2 :]}"


def too_deep(data: Any, most: int) -> bool:
    """Whether data has more than `most` levels."""
    level = [data]
    for _ in range(most + 1):
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        return list(cast(Mapping[str, Any], value).values())
    return cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else ()
