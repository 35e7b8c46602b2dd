"""Validation of data by a schema: the only import of `jsonschema-rs`.

Every keyword of 2020-12 is checked, `format` included (`FORMATS`). Nothing is fetched: a `$ref`
refers to a part of the schema, or to the metaschemas in the library.

Patterns are bounded by their size and their backtracking, data by its depth. The depth is lower if
each level can be matched in several ways, because these multiply.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

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
        self._compiled = _compile(schema)

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
        return (Validator, (self.schema, self.deepest))


def meta_fault(schema: Any) -> Fault | None:
    """The deepest violation of the metaschema of 2020-12 by a schema; None if it is valid."""
    import jsonschema_rs  # noqa: PLC0415 - takes 60 ms, needed only with schemas

    meta = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    validator = jsonschema_rs.Draft202012Validator(meta, validate_formats=True, retriever=_refuse)
    faults = [_fault(error) for error in validator.iter_errors(schema)]
    return max(faults, key=lambda fault: len(fault.path), default=None)


def _compile(schema: Mapping[str, Any]) -> Any:
    import jsonschema_rs  # noqa: PLC0415

    limits = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS, size_limit=_PATTERN_SIZE)
    try:
        return jsonschema_rs.Draft202012Validator(
            dict(schema), validate_formats=True, retriever=_refuse, pattern_options=limits
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
