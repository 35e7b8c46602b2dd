"""The registry of built-in actions and tools, and an application's own beside them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from chartloop.actions import approval as approving
from chartloop.actions import call_tools as calling
from chartloop.actions import checkpoints as monitoring
from chartloop.actions import code, control, tasks
from chartloop.actions import infer as talking
from chartloop.actions import parse as reading
from chartloop.actions import prune as pruning
from chartloop.actions import report as reporting
from chartloop.actions import run_machines as children
from chartloop.actions.builtin_tools import TOOLS
from chartloop.actions.declare import ATTRIBUTE, specs_of
from chartloop.core.specs import ActionSpec, Registry, TypeSpec


@cache
def builtin() -> Registry:
    """The registry that every file starts with."""
    families = (
        talking, calling, approving, reading, code, control, tasks, monitoring, pruning,
        reporting, children,
    )  # fmt: skip
    actions = {a.name: a for family in families for a in family.ACTIONS}
    return Registry(actions, specs_of(TOOLS).tools, {})


def with_own(own: Registry) -> Registry:
    """The built-in registry with an application's own entries, which win over it."""
    base = builtin()
    return Registry(
        {**base.actions, **own.actions}, {**base.tools, **own.tools},
        {**base.guards, **own.guards}, tuple(own.tools), own.types,
    )  # fmt: skip


def own_sources(registry: Registry) -> tuple[object, ...]:
    """What an application added, as pickle can carry it: `specs_of` reads it again.

    Of a decorated function the function, by its name; of anything else its spec.
    """
    base = builtin()
    known = {id(spec) for entries in _entries(base) for spec in entries.values()}
    own = [s for entries in _entries(registry) for s in entries.values() if id(s) not in known]
    return tuple(_source(spec) for spec in own)


def _entries(registry: Registry) -> tuple[Mapping[str, Any], ...]:
    return registry.actions, registry.tools, registry.guards, registry.types


def _source(spec: Any) -> object:
    if isinstance(spec, TypeSpec):
        return spec.source
    function = spec.run if isinstance(spec, ActionSpec) else spec.call
    return function if hasattr(function, ATTRIBUTE) else spec
