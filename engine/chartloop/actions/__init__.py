"""The built-in actions and tools, which every machine may name.

Each family has a module. An action is a function from a context and the fields of `with` to an
`Outcome`; files are checked against the `ActionSpec` next to it.

The registry is imported on first use, so that a module of tools which imports `tool` does not
load the families.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chartloop.actions.registry import builtin, own_sources, with_own

__all__ = ["builtin", "own_sources", "with_own"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module `chartloop.actions` has no attribute `{name}`")
    value = getattr(import_module("chartloop.actions.registry"), name)
    globals()[name] = value
    return value
