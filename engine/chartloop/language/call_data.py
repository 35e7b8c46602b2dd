"""The arguments of a tool call as data: what a condition on `call` reads, in runs and proofs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from chartloop.core.specs import ToolSpec


def arguments_got(tool: ToolSpec, text: str) -> dict[str, Any] | None:
    """The arguments that a tool gets for this JSON text; None if it refuses them.

    A default in the schema of a server is not among them: the server may fill in another.
    """
    try:
        parsed = tool.parse(text)
    except Exception:  # noqa: BLE001  the application's own types may raise anything
        return None
    gets = as_json(parsed)
    return gets if tool.server else {**gets, **defaults_of(tool), **gets}


def defaults_of(tool: ToolSpec) -> dict[str, Any]:
    """The defaults of a tool's arguments as data; of a function also those that no schema holds."""
    fields: Mapping[str, Any] = tool.parameters.get("properties", {})
    said: dict[str, Any] = {
        n: f["default"] for n, f in fields.items() if isinstance(f, Mapping) and "default" in f
    }
    own = inspect.signature(tool.call).parameters.values()
    return said | as_json({
        p.name: p.default for p in own if p.name in fields and p.default is not p.empty
    })  # fmt: skip


def as_json(parsed: Mapping[str, Any]) -> dict[str, Any]:
    """Parsed arguments as JSON data, by the names that JSON gives them."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415

    def plain(value: Any) -> Any:
        return f"<{type(value).__name__}>"

    return {
        n: _number(v) if isinstance(v, Decimal)
        else to_jsonable_python(v, by_alias=True, fallback=plain)
        for n, v in parsed.items()
    }  # fmt: skip


def _number(value: Decimal) -> float | str:
    """A `Decimal` as a number, or as a text if no float has all its digits."""
    near = float(value)
    exact = not value.is_finite() or Decimal(repr(near)) == value
    return near if exact else str(value)
