"""Parts of the shapes of a machine file: scalars, names, and the base of all mappings.

Belongs here: kinds of value. Never: a key of the language.
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
"""Tags of unions. No key of a file is written so, which keeps them apart in a location."""

Text = Annotated[str, Strict()]
Flag = Annotated[bool, Strict()]
Name = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": NAME, "maxLength": LONGEST_NAME})
]
"""A name of the file's own. Whether it is a good one is said by `language.file.shape`, which keeps
a bad one for what follows: no one wants an unknown state on top of a bad name."""


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
"""A value that YAML writes on one line: an expression, a quantity or a constant."""
FINITE = BeforeValidator(_finite)
"""Makes a float of a number, and refuses what is none."""
Data = Annotated[JsonValue, WithJsonSchema({})]
"""Anything."""


class Shape(BaseModel):
    """A mapping of the language: known keys only."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, hide_input_in_errors=True)


def kind_of(value: Any) -> str:
    """The tag of a value in a union of scalar, mapping and list."""
    if isinstance(value, Mapping):
        return MAPPING
    return LIST if isinstance(value, list) else SCALAR
