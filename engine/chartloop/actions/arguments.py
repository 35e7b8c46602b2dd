"""Schemas and validation of tool arguments, and of literal data in a file.

Parsing a model's text gives keyword arguments or a `ValueError` with a text for the model: the
argument, the fault, the value.

Belongs here: the only use of pydantic by actions, imported when the first tool is declared.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NotRequired

from chartloop.actions.signature import Parameter
from chartloop.core.errors import SetupError
from chartloop.core.specs import TypeSpec
from chartloop.core.visible import cut
from chartloop.language.call_data import as_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter

LONGEST = 1_000_000
"""The most characters of arguments that are read."""
DIGITS = 400
"""The most digits of an integer that are read."""
SHOWN = 80
"""The most characters of a wrong value, or of its path, that the model is shown."""
_NO_NUMBER = "NaN and infinity are not numbers here"
FAULTS = 10
"""The most faults that are reported at once."""


class Arguments(NamedTuple):
    """The arguments of a tool: their schema for the model, and their parser."""

    schema: dict[str, Any]
    """JSON Schema without titles, which refuses unknown properties, in the strict-mode subset."""
    parse: Callable[[str], dict[str, Any]]
    """JSON text to keyword arguments, without defaults for missing ones. Raises `ValueError`."""


def arguments_of(tool: str, parameters: Sequence[Parameter], place: str) -> Arguments:
    """The arguments of a tool with these parameters.

    Raises:
        SetupError: if JSON or JSON Schema cannot express the type of a parameter.
    """
    try:
        adapter = _adapter(_shape(tool, parameters))
        schema = _tidy(adapter.json_schema())
    except Exception as error:
        raise SetupError(*_blame_parameter(parameters, place, error)) from error
    for p in parameters:
        if not p.required and (default := _plain(p.default)) is not None:
            schema["properties"][p.name]["default"] = default[0]
    return Arguments(schema, partial(_parse, tool, [p.name for p in parameters], adapter))


def data_check(parameter: Parameter, place: str) -> Callable[[Any], str | None]:
    """A check of literal data by a parameter's type, which is read on first use."""

    @cache
    def adapter() -> TypeAdapter[Any]:
        try:
            return _adapter(parameter.annotation)
        except Exception as error:
            raise SetupError(*_blame_parameter([parameter], place, error)) from error

    def check(value: Any) -> str | None:
        try:
            adapter().validate_python(value)
        except ValueError as error:
            return "other data: " + "; ".join(_faults(error))
        return None

    return check


def is_described(thing: object) -> bool:
    """Whether this is a pydantic model or dataclass. Does not import pydantic."""
    if not isinstance(thing, type) or thing.__module__.partition(".")[0] == "pydantic":
        return False
    return "__pydantic_core_schema__" in vars(thing) or "__pydantic_validator__" in vars(thing)


def type_spec(source: type) -> TypeSpec:
    """The spec of a class that a file may name: its schema and its validator."""
    adapted: Callable[[], TypeAdapter[Any]] = cache(partial(_adapter, source))

    @cache
    def schema() -> dict[str, Any]:
        try:
            return adapted().json_schema()
        except Exception as error:
            message = f"class `{source.__name__}` cannot be given as JSON: {_first_line(error)}"
            raise SetupError(message) from error

    def make(data: Any) -> Any:
        adapter = adapted()
        try:
            instance = adapter.validate_json(json.dumps(data))
            return json.loads(adapter.dump_json(instance, by_alias=True))
        except Exception as error:  # noqa: BLE001 - whatever a class's own validators raise
            raise ValueError("; ".join(_faults(error))) from None

    return TypeSpec(source.__name__, source, schema, make)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - takes 60 ms, needed only by declared tools

    return TypeAdapter(annotation)


def _shape(tool: str, parameters: Iterable[Parameter]) -> Any:
    """A TypedDict of the parameters: unlike a model, it allows every name and adds no defaults."""
    from pydantic import ConfigDict, Field  # noqa: PLC0415
    from typing_extensions import TypedDict  # noqa: PLC0415 - pydantic requires this one

    fields: dict[str, Any] = {}
    for p in parameters:
        annotation = (
            Annotated[p.annotation, Field(description=p.about)] if p.about else p.annotation
        )
        fields[p.name] = annotation if p.required else NotRequired[annotation]
    shape: Any = TypedDict(tool, fields)  # pyright: ignore[reportArgumentType]
    shape.__pydantic_config__ = ConfigDict(extra="forbid")
    return shape


def _blame_parameter(parameters: Iterable[Parameter], place: str, error: Exception) -> tuple[str]:
    """The error message for the first parameter without a JSON Schema."""
    for p in parameters:
        try:
            _adapter(p.annotation).json_schema()
        except Exception as own:  # noqa: BLE001 - whatever a type's own hooks raise
            return (f"{place}: parameter `{p.name}` cannot be given as JSON: {_first_line(own)}",)
    return (f"{place}: the parameters cannot be given as JSON: {_first_line(error)}",)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _plain(default: Any) -> tuple[Any] | None:
    """A default as JSON data, in a tuple; None if it is not JSON."""
    try:
        return (json.loads(json.dumps(default, allow_nan=False)),)
    except (TypeError, ValueError, RecursionError):
        return None


_OPEN = ("properties", "$defs", "patternProperties")
"""The keys whose values map arbitrary names to schemas."""
_LITERAL = ("const", "default", "enum", "examples", "required")


def _tidy(schema: Any) -> Any:
    """Remove pydantic's titles from a schema, and refuse unknown properties on every level."""
    if isinstance(schema, list):
        return [_tidy(s) for s in schema]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():  # pyright: ignore[reportUnknownVariableType]
        if key in _OPEN:
            out[key] = {name: _tidy(s) for name, s in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        elif key != "title":
            out[key] = value if key in _LITERAL else _tidy(value)
    if "properties" in out:
        out.setdefault("additionalProperties", False)
    return out


def _parse(tool: str, takes: Sequence[str], adapter: TypeAdapter[Any], text: str) -> dict[str, Any]:
    try:
        data = _read(text.strip() or "{}")
    except RecursionError:
        raise ValueError(f"The arguments of `{tool}` are nested too deeply.") from None
    except ValueError as error:
        raise ValueError(f"The arguments of `{tool}` cannot be read: {error}.") from None
    try:
        parsed = adapter.validate_json(data)
        # a type may read the text "NaN" as a number, for which no condition of a gate holds
        faults = [f"{n}: {_NO_NUMBER}" for n, v in as_json(parsed).items() if _plain(v) is None]
    except Exception as error:  # noqa: BLE001 - whatever a type's own validators raise
        faults = _faults(error, takes)
    else:
        if not faults:
            return parsed
    listed = "\n".join(f"- {fault}" for fault in faults)
    message = f"The arguments of `{tool}` are wrong. Correct them and call it again:\n{listed}"
    raise ValueError(message) from None


def _read(text: str) -> bytes:
    """Encode the text of a JSON object, more strictly than `json`: no duplicate keys, no NaN ..."""
    if len(text) > LONGEST:
        raise ValueError(f"they are {len(text):,} characters long; at most {LONGEST:,} are read")
    value = _DECODER.decode(text)
    if not isinstance(value, dict):
        excerpt = _json_excerpt(value)
        raise ValueError(f"they must be a JSON object, not {excerpt}")  # noqa: TRY004 - see `parse`
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        half = text[error.start : error.end].encode("ascii", "backslashreplace").decode()
        raise ValueError(f"`{half}` is half of a character") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"{_json_excerpt(key)} is given twice")
    return out


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def _int(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits; at most {DIGITS} are read")
    return int(digits)


def _float(digits: str) -> float:
    if math.isinf(value := float(digits)):
        raise ValueError(f"{_cut_text(digits, SHOWN)} is too large a number")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_constant=_refuse, parse_int=_int, parse_float=_float
)


def _faults(error: Exception, takes: Sequence[str] | None = None) -> list[str]:
    """The faults of a validation, one a line; `takes` are the tool's arguments."""
    from pydantic import ValidationError  # noqa: PLC0415

    if not isinstance(error, ValidationError):
        return [_cut_text(_first_line(error) or type(error).__name__, 4 * SHOWN)]
    errors = error.errors(include_url=False, include_context=False)
    faults = [_fault(e["type"], e["loc"], e["msg"], e["input"], takes) for e in errors[:FAULTS]]
    rest = len(errors) - FAULTS
    return [*faults, f"and {rest} more"] if rest > 0 else faults


def _fault(
    kind: str, loc: tuple[Any, ...], message: str, got: Any, takes: Sequence[str] | None
) -> str:
    where = _cut_text(".".join(map(str, loc)), SHOWN) or "the data"
    if kind == "missing":
        return f"{where}: is missing"
    if kind == "json_invalid":
        return message
    if kind == "extra_forbidden" and len(loc) == 1 and takes is not None:
        return f"{where}: there is no such argument; known: {', '.join(takes) or 'none'}"
    return f"{where}: {_cut_text(message, 4 * SHOWN)}; got {_json_excerpt(got)}"


def _json_excerpt(value: Any) -> str:
    """The start of a value as JSON."""
    try:
        return _cut_text(json.dumps(value, default=str, ensure_ascii=False), SHOWN)
    except (TypeError, ValueError, RecursionError):
        return _cut_text(type(value).__name__, SHOWN)


def _cut_text(text: str, most: int) -> str:
    """Cut a text to at most `most` characters, and replace what UTF-8 cannot encode."""
    whole = cut(text, most)
    return whole.encode("utf-8", "replace").decode()
