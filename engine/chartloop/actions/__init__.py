"""The actions and tools that every machine may name.

One file per family. An action is a function from a context and the fields of `with` to an
`Outcome`; the description next to it is what files are checked against.

The registry is loaded when it is first asked for: a module of tools that imports `tool` loads
none of the families.
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
