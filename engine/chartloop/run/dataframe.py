"""Rows of plain data as a pandas frame. The only import of pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chartloop.core.errors import SetupError


def frame(rows: Sequence[dict[str, Any]], index: str) -> Any:
    """A frame with a row for each mapping; `index` is the name of a column."""
    try:
        import pandas  # noqa: ICN001, PLC0415 # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise SetupError("pandas is not installed", hint="pip install pandas") from None
    library: Any = pandas
    return library.DataFrame(rows).set_index(index) if rows else library.DataFrame()
