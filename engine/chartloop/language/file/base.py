"""Building blocks of the shapes: scalars, names, and the base of all mappings.

Belongs here: kinds of values. Never: a key of the language.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    JsonValue,
    PlainValidator,
    Strict,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

NAME = r"^[a-z][a-z0-9_]*$"
LONGEST_NAME = 64

MAPPING, LIST, SCALAR = "<mapping>", "<list>", "<scalar>"
"""The tags of unions. No key of a file can have this form, so they are unique in a location."""

Text = Annotated[str, Strict()]
Flag = Annotated[bool, Strict()]
Name = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": NAME, "maxLength": LONGEST_NAME})
]
"""A name that the file declares. `language.file.shape` reports an invalid one but keeps it, so that
it does not become an unknown name as well."""


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, (Mapping, list)):
        raise PydanticCustomError("scalar_type", "one value on one line")
    return value


def _finite(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PydanticCustomError("float_type", "a number")
    if not math.isfinite(value):
        raise PydanticCustomError("finite_number", "a number that is not infinite")
    return float(value)


Scalar = Annotated[
    bool | int | float | str,
    PlainValidator(_scalar),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]
"""A single YAML value: an expression, a quantity or a constant."""
FINITE = BeforeValidator(_finite)
"""Converts a number to a float, and refuses anything else and infinities."""
Data = Annotated[JsonValue, WithJsonSchema({})]
"""Any JSON data."""


class Shape(BaseModel):
    """A mapping of the language, with known keys only."""

    # a shape that is part of another one needs no validator of its own
    model_config = ConfigDict(
        extra="forbid", populate_by_name=True, hide_input_in_errors=True, defer_build=True
    )


def kind_of(value: Any) -> str:
    """The tag of a value in a union of scalar, mapping and list."""
    if isinstance(value, Mapping):
        return MAPPING
    return LIST if isinstance(value, list) else SCALAR
