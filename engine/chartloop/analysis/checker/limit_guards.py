"""Limits that nothing reads, and guards that the model's settings leave without effect.

Source: design "language", sections 6 and 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, cast

from chartloop.analysis.checker.check_context import CheckContext, guards_of
from chartloop.language.expression import Expression
from chartloop.language.spec import Given, MachineSpec
from chartloop.language.template.template import Template
from chartloop.language.yaml.reading import Path


def check_limits(context: CheckContext) -> None:
    """Find limits without a reader, costs without a price, a context without a window."""
    limits, model = list(context.spec.limits), context.spec.model
    # those that an unreadable text seems to name, even misspelt, may be used there
    words = [w.split(".") for w in context.unread.words if "." in w]
    named = [name for root, name, *_ in words if get_close_matches(root, ["limits"])]
    used = _used(context.spec) | {c for n in named for c in get_close_matches(n, limits, n=1)}
    for name in limits:
        if name not in used:
            message = f"limit `{name}` is declared but nothing reads it: it is not enforced"
            hint = f"add a rule such as `{{when: ... >= limits.{name}, stop: ...}}`, or remove it"
            context.say("CL315", ("limits", name), message, hint=hint, key=True)
    if model.get("name", "scripted") != "scripted":
        return
    if "input_cost_per_token" not in model or "output_cost_per_token" not in model:
        for path, fact in _read(context.spec, "usage.cost"):
            message = "this cannot be enforced: the model's price is not known"
            hint = "give `input_cost_per_token` and `output_cost_per_token` under `model`"
            context.say("CL318", path, message, hint=hint, of=fact)
    if "context_window" not in model:
        for path, fact in list(_read(context.spec, "usage.context_"))[:1]:
            message = f"`{fact}` stays 0: the model's window is not known"
            hint = "write `context_window` under `model`"
            context.say("CL323", path, message, hint=hint, of=fact)


def _used(spec: MachineSpec) -> set[str]:
    """The limits that something reads, in the machine or in a child with the same limit."""
    reads = {fact for e in _expressions(spec) for fact in e.reads}
    named = {name for t in _templates(spec) for name in t.reads}
    reads |= named.union(*(spec.define[n].reads for n in named & spec.define.keys()))
    used = {fact.split(".")[1] for fact in reads if fact.startswith("limits.")}
    for child in spec.machines.values():
        used |= _used(child) & child.limits.keys()
    return used | (set(spec.limits) if "limits" in reads else set())


def _expressions(spec: MachineSpec) -> Iterator[Expression]:
    yield from (guard for _, guard in guards_of(spec))
    values: list[Any] = [rule.warn_at for rule in spec.rules]
    for state in spec.states.values():
        values += [state.within, state.warn_at, *(a.value for a in state.set)]
        values += [a.value for e in state.edges for a in e.set]
        values += [e for given in state.args.values() for e in _expressions_in(given)]
    if spec.on_error is not None:
        values += [a.value for a in spec.on_error.set]
    values += spec.output.values() if isinstance(spec.output, dict) else [spec.output]
    yield from (value for value in values if isinstance(value, Expression))


def _expressions_in(given: Given) -> Iterator[Expression]:
    if isinstance(given.value, Expression):
        yield given.value
    elif given.kind == "values":
        for inner in given.value.values():
            yield from _expressions_in(inner)
    elif given.kind == "fields":
        for fields in given.value.values():
            for inner in fields.values():
                yield from _expressions_in(inner)


def _templates(spec: MachineSpec) -> Iterator[Template]:
    for state in spec.states.values():
        for given in state.args.values():
            yield from _templates_in(given.value)


def _templates_in(value: object) -> Iterator[Template]:
    if isinstance(value, Template):
        yield value
    elif isinstance(value, Given):
        yield from _templates_in(value.value)
    elif isinstance(value, dict):
        for inner in cast(dict[str, object], value).values():
            yield from _templates_in(inner)
    elif isinstance(value, list):
        for inner in cast(list[object], value):
            yield from _templates_in(inner)


def reads_of_guards(spec: MachineSpec) -> Iterator[tuple[Path, str]]:
    """Yield every fact that a guard reads, with its place."""
    yield from ((path, fact) for path, guard in guards_of(spec) for fact in sorted(guard.reads))


def _read(spec: MachineSpec, start: str) -> Iterator[tuple[Path, str]]:
    """Yield the places of guards that read a fact with this prefix, and the fact."""
    for path, guard in guards_of(spec):
        fact = next((f for f in sorted(guard.reads) if f.startswith(start)), "")
        if fact:
            yield path, fact
