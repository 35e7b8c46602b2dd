"""The facts and texts that decide where a run goes: guards, `set` and actions read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from chartloop.language.expression import Expression
from chartloop.language.spec import Assign, Given, MachineSpec
from chartloop.language.template.template import Template
from chartloop.studies.simulation.assumptions import family_of


def facts_read(spec: MachineSpec) -> frozenset[str]:
    """The facts that a guard, a `set` or a field of a simulated action reads."""
    return frozenset(name for part in expressions(spec) for name in part.reads)


def expressions(spec: MachineSpec) -> Iterator[Expression | Template]:
    """The guards, the assignments, and the fields of actions that a simulation executes."""
    yield from (rule.when for rule in spec.rules)
    for edge in (*spec.edges(), *([spec.on_error] if spec.on_error is not None else ())):
        yield from _in((edge.when, edge.set))
    for state in spec.states.values():
        yield from _in((state.of, state.within, state.set))
        if state.action is not None and family_of(state) in ("pure", "work"):
            yield from _in(state.args)


def _in(value: Any) -> Iterator[Expression | Template]:
    if isinstance(value, Expression | Template):
        yield value
    elif isinstance(value, Assign | Given):
        yield from _in(value.value)
    elif isinstance(value, Mapping):
        for inner in cast("Mapping[str, Any]", value).values():
            yield from _in(inner)
    elif isinstance(value, list | tuple):
        for inner in cast("list[Any]", value):
            yield from _in(inner)


def reads_texts(spec: MachineSpec) -> bool:
    """Whether the text of a reply may decide where a run goes."""
    parsed = any(state.traits.reads_reply for state in spec.states.values())
    return parsed or "last.text" in facts_read(spec)
