"""The registry of built-in actions and tools, and its extension by an application's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import chartloop.actions
from chartloop.actions.declare import ATTRIBUTE, specs_of
from chartloop.core.errors import SetupError
from chartloop.core.specs import ActionSpec, Registry, TypeSpec

FIRST = (
    "infer", "call_tools", "approval", "parse", "code", "control", "tasks", "checkpoints", "prune",
    "report", "run_machines",
)  # fmt: skip
"""The modules whose actions come first in the schema, in this order; then the others by name."""


@cache
def builtin() -> Registry:
    """The registry of the built-in actions and tools: what the modules of this folder declare."""
    there = sorted(module.name for module in iter_modules(chartloop.actions.__path__))
    names = dict.fromkeys((*FIRST, *there))
    found = specs_of(import_module(f"{chartloop.actions.__name__}.{name}") for name in names)
    for action in found.actions.values():
        check_traits(action)
    return Registry(found.actions, found.tools)


def with_own(own: Registry) -> Registry:
    """The built-in registry with an application's own entries, which take precedence."""
    base = builtin()
    for action in own.actions.values():
        if action.declares is not None:
            check_traits(action)
    return replace(
        own, actions={**base.actions, **own.actions}, tools={**base.tools, **own.tools},
        guards={**base.guards, **own.guards}, own_tools=tuple(own.tools),
    )  # fmt: skip


def own_sources(registry: Registry) -> tuple[object, ...]:
    """An application's additions in a form that can be pickled; `specs_of` reads them back.

    A decorated function stands for itself, anything else is its spec.
    """
    base = builtin()
    known = {id(spec) for entries in _entries(base) for spec in entries.values()}
    own = [s for entries in _entries(registry) for s in entries.values() if id(s) not in known]
    kept = [Registry(plugins=registry.plugins)] if registry.plugins else []
    return (*(_source(spec) for spec in own if not getattr(spec, "server", "")), *kept)


def _entries(registry: Registry) -> tuple[Mapping[str, Any], ...]:
    return registry.actions, registry.tools, registry.guards, registry.types


def _source(spec: Any) -> object:
    if isinstance(spec, TypeSpec):
        return spec.source
    function = spec.run if isinstance(spec, ActionSpec) else spec.call
    return function if hasattr(function, ATTRIBUTE) else spec


# traits -------------------------------------------------------------------------------------


def check_traits(action: ActionSpec) -> None:
    """Refuse an action without traits, or with traits that contradict its spec.

    Proofs rely on the traits, so a missing or wrong one must be noticed at once.

    Raises:
        SetupError: for the first trait that is missing or wrong.
    """
    if action.declares is None:
        raise SetupError(
            f"action `{action.name}` does not declare its traits",
            hint="write `traits=ActionTraits(asks=..., calls=..., runs=..., fails=...)`",
        )
    for trait, why in _misfits(action):
        trait_value = getattr(action.declares, trait)
        raise SetupError(
            f"action `{action.name}` declares `{trait}` as {trait_value!r}, but {why}",
            hint="`chartloop.core.traits` says what each trait means",
        )


def _misfits(action: ActionSpec) -> Iterator[tuple[str, str]]:
    traits, model = action.traits, "model" in action.uses | action.may_use
    named = {arg.names for each in action.args for arg in (each, *each.fields)}
    if model != (traits.asks != "never"):
        yield "asks", f"it {'uses' if model else 'does not use'} the model"
    if ("tool" in named) != (traits.calls == "named"):
        yield "calls", f"{'a' if 'tool' in named else 'no'} field names a tool"
    if ("machine" in named) != (traits.runs in ("one", "several")):
        yield "runs", f"{'a' if 'machine' in named else 'no'} field names a machine"
    if action.may_wait != (traits.waits is not None or traits.runs != "none"):
        yield "waits", f"`may_wait` is {action.may_wait}"
    if ("run.continuations" in action.changes) != bool(traits.continues):
        yield "continues", "`changes` contradicts `run.continuations`"
    yield from _lost_fields(action)
    steps = {
        "llm-inference": (traits.asks != "never", "asks the model"),
        "tool-call": (traits.calls != "none", "calls tools"),
        "memory-update": (traits.calls == "memory", "edits memory"),
    }
    met, what = steps.get(traits.step, (True, ""))
    if not met:
        yield "step", f"that is for an action that {what}"


def _lost_fields(action: ActionSpec) -> Iterator[tuple[str, str]]:
    """The traits that name a missing field, each with the problem."""
    traits = action.traits
    fields = {
        "asks_if": traits.asks_if and traits.asks_if[0], "waits": traits.waits and traits.waits[0],
        "continues": traits.continues, "adopts": traits.adopts,
        "screens": traits.screens and traits.screens[0],
    }  # fmt: skip
    for trait, field in fields.items():
        if field and action.arg(field) is None:
            yield trait, f"it has no field `{field}`"
