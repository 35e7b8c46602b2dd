"""Conversion of a run's values to plain JSON data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from chartloop.core.values import Value


def plain(value: object) -> Any:
    """Convert mappings, values and named tuples to dicts, and other collections to lists."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in cast(Mapping[object, object], value).items()}
    if isinstance(value, Value):
        return plain(value.to_mapping())
    if isinstance(value, tuple) and hasattr(value, "_asdict"):  # pyright: ignore[reportUnknownArgumentType]
        return plain(cast(Any, value)._asdict())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in cast(Iterable[object], value)]
    return value
