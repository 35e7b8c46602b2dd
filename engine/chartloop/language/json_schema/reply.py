"""The form of a model's reply: a JSON Schema, and the Python class that it may come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from chartloop.language.json_schema.cost import deepest_data
from chartloop.language.json_schema.validator import Validator


class BrokenReplyError(ValueError):
    """A reply that is not what was asked for; its text says what is wrong, for the model too."""


@dataclass(frozen=True)
class ReplySchema:
    """A schema that replies are held against. Compiled when the file is loaded."""

    schema: Mapping[str, Any]
    name: str = ""
    """The class that the schema is of, as the file names it."""
    make: Callable[[Any], Any] | None = field(default=None, compare=False)
    """Makes an object of the class from valid data, and JSON data of it. Raises `ValueError`."""

    @cached_property
    def validator(self) -> Validator:
        """The compiled schema."""
        return Validator(self.schema, deepest_data(self.schema))

    def canonical(self) -> Any:
        """The schema as data of the canonical text."""
        return {"class": self.name, "schema": self.schema} if self.name else self.schema

    def data_of(self, data: Any) -> Any:
        """The data of a reply. Raises `BrokenReplyError` where it breaks schema or class."""
        if faults := self.validator.faults(data):
            raise BrokenReplyError("; ".join(map(str, faults)))
        if self.make is None:
            return data
        try:
            made = self.make(data)
        except ValueError as error:
            raise BrokenReplyError(str(error)) from error
        return data if self.validator.faults(made) else made
