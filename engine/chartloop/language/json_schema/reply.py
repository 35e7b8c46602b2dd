"""Structured replies: a JSON Schema, and the Python class that it may come from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from chartloop.language.json_schema.cost import deepest_data
from chartloop.language.json_schema.validator import Validator

MOST_SHOWN = 8_000
"""The most characters of a schema that is written out for a model; of a longer one the fields."""


class BrokenReplyError(ValueError):
    """A reply violates its schema or class. The message is also for the model."""


def in_words(schema: Mapping[str, Any]) -> str:
    """What a reply must be, for a model that may not have been shown its schema."""
    text = json.dumps(schema, ensure_ascii=False)
    if len(text) <= MOST_SHOWN:
        return f"JSON that fits this schema:\n{text}"
    fields = ", ".join(f"`{name}`" for name in schema.get("properties", ()))
    return f"a JSON object with the fields {fields}" if fields else "JSON"


@dataclass(frozen=True)
class ReplySchema:
    """The schema of a structured reply."""

    schema: Mapping[str, Any]
    name: str = ""
    """The name of the class in the file; empty for a schema in the file."""
    make: Callable[[Any], Any] | None = field(default=None, compare=False)
    """Validates data by the class, and returns JSON data. Raises `ValueError`."""

    @cached_property
    def validator(self) -> Validator:
        """The compiled schema."""
        return Validator(self.schema, deepest_data(self.schema))

    def canonical(self) -> Any:
        """The schema as data for the canonical text."""
        return {"class": self.name, "schema": self.schema} if self.name else self.schema

    def data_of(self, data: Any) -> Any:
        """Validate the data of a reply. Raises `BrokenReplyError` if schema or class refuse it."""
        if faults := self.validator.faults(data):
            raise BrokenReplyError("; ".join(map(str, faults)))
        if self.make is None:
            return data
        try:
            converted = self.make(data)
        except ValueError as error:
            raise BrokenReplyError(str(error)) from error
        return data if self.validator.faults(converted) else converted
