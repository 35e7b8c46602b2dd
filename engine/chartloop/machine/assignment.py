"""`save` and `set`: the assignment of variables.

Source: docs/language.md, "States" (`set`, `save`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from chartloop.core.errors import Category
from chartloop.core.facts import Facts
from chartloop.core.format import json_text
from chartloop.core.outcome import Outcome
from chartloop.core.types import ANY, Type, accepts
from chartloop.core.visible import cut
from chartloop.language.expression import Expression, GuardFailed
from chartloop.language.spec import Assign, MachineSpec, Save, StateSpec

_ABSENT = object()


def template_names(spec: MachineSpec, facts: Facts, reads: frozenset[str]) -> dict[str, Any]:
    """Return the values that a template may read: fact sections, and definitions that it names.

    Raises `GuardFailed` if a definition cannot be evaluated.
    """
    names: dict[str, Any] = facts.to_mapping()
    del names["marks"]
    for name in reads & spec.define.keys():
        names[name] = spec.define[name].value(facts)
    return names


def saved_values(
    spec: MachineSpec, state: StateSpec, outcome: Outcome, facts: Facts
) -> tuple[Outcome, Mapping[str, Any]]:
    """Return the assignments of a state's `save`, or a failed outcome if one is impossible.

    A reply that calls tools has no data yet: variables that would be saved from it keep their
    values.
    """
    out: dict[str, Any] = {}
    # whether the model called tools instead of returning data
    calls = outcome.reply is not None and outcome.reply.tool_calls
    result: object = outcome.result
    waits = bool(calls) and isinstance(result, Mapping) and "data" not in result
    for save in state.save:
        if waits and _reads_data(save):
            continue
        if save.template is not None:
            try:
                names = template_names(spec, facts, save.template.reads)
                value: Any = save.template.render({**names, "result": outcome.result})
            except (ValueError, GuardFailed) as error:
                return _cannot(outcome, f"save {save.target}: {error}"), {}
        else:
            value = _part(outcome.result, save.path or ())
            if value is _ABSENT:
                path = "result" + "".join(
                    f".{p}" if isinstance(p, str) else f"[{p}]" for p in save.path or ()
                )
                return _cannot(outcome, f"save {save.target}: there is no `{path}`"), {}
        name = save.target.removeprefix("vars.")
        type = spec.vars[name].type
        wanted: Type = (type.of or ANY) if save.append else type
        if not accepts(wanted, value):
            return _cannot(
                outcome, f"save {save.target}: {_brief(value)} is not of type {wanted}"
            ), {}
        if save.append:
            value = (*out.get(save.target, facts.vars[name]), value)
        out[save.target] = value
    return outcome, out


def _reads_data(save: Save) -> bool:
    if save.template is not None:
        return "result.data" in save.template.text
    return (save.path or ())[:1] == ("data",)


def _part(value: Any, path: tuple[str | int, ...]) -> Any:
    for part in path:
        if isinstance(value, (list, tuple)):
            items = cast(Sequence[Any], value)
            value = items[part] if isinstance(part, int) and part < len(items) else _ABSENT
        elif isinstance(value, Mapping):
            value = cast(Mapping[str | int, Any], value).get(part, _ABSENT)
        else:
            return _ABSENT
    return value


def _cannot(outcome: Outcome, message: str) -> Outcome:
    failure = Outcome.failure(Category.RECOVERABLE, message, kind="save")
    return outcome.replace(ok=False, error=failure.error)


def _brief(value: Any) -> str:
    return cut(json_text(value))


def set_values(assigns: tuple[Assign, ...], facts: Facts, oracle: Any) -> dict[str, Any]:
    """Return the assignments of a `set`. All right-hand sides read the old values."""
    out: dict[str, Any] = {}
    for one in assigns:
        value = one.value.value(facts, oracle) if isinstance(one.value, Expression) else one.value
        if one.append:
            name = one.target.removeprefix("vars.")
            value = (*out.get(one.target, facts.vars[name]), value)
        out[one.target] = value
    return out
