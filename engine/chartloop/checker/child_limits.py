"""Checks the data that a machine gives its children: states, variables, limits.

Source: design "language", section 8 ("Children").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from chartloop.checker.check_context import CheckContext, Embedding
from chartloop.core.errors import LimitError, nearest
from chartloop.core.specs import ActionSpec, Supply
from chartloop.language.expression import Expression
from chartloop.language.expression.operators import assignable
from chartloop.language.spec import Given, MachineSpec, StateSpec
from chartloop.language.values import limit_value, var_value
from chartloop.language.yaml.document import short
from chartloop.language.yaml.reading import Path


class _Use(NamedTuple):
    """One child that a state runs, with its arguments."""

    path: Path
    child: MachineSpec
    given: Mapping[str, Given]


def check_children(context: CheckContext) -> None:
    """Find arguments that a child does not have, and `run_machines` with nothing to run."""
    for state in context.spec.states.values():
        for use in _uses(context.spec, state):
            _start(context, use)
            _values(context, use, "vars", use.child.vars)
            _values(context, use, "limits", use.child.limits)
            _memory(context, use)
        if state.action is not None and state.traits.runs == "several":
            _several(context, state, state.action)


def _uses(spec: MachineSpec, state: StateSpec) -> Iterator[_Use]:
    if state.traits.runs not in ("one", "several"):
        return
    path: Path = ("states", state.name, "with")
    if (use := _use(spec, path, state.args)) is not None:
        yield use
    several: Mapping[str, Mapping[str, Given]] = (
        state.args["children"].value if "children" in state.args else {}
    )
    for name, given in several.items():
        if (use := _use(spec, (*path, "children", name), given)) is not None:
            yield use


def _use(spec: MachineSpec, path: Path, given: Mapping[str, Given]) -> _Use | None:
    name = given["machine"].value if "machine" in given else ""
    child = spec.machines.get(name)
    return None if child is None else _Use(path, child, given)


def starts_of(spec: MachineSpec, name: str) -> Iterator[str]:
    """Yield the states at which a machine starts a child of this name, other than its start."""
    for state in spec.states.values():
        for use in _uses(spec, state):
            start = use.given.get("start")
            if start is not None and spec.machines.get(name) is use.child:
                yield str(start.value)


def embedding_in(spec: MachineSpec, name: str) -> Embedding:
    """Return how a machine runs a child of this name: its start states and shared data."""
    shared = frozenset[Supply]()
    for state in spec.states.values():
        for use in _uses(spec, state):
            if spec.machines.get(name) is use.child and "share" in state.args:
                words = cast("list[str]", state.args["share"].value)
                shared |= frozenset(_SHARES[word] for word in words if word in _SHARES)
    return Embedding(frozenset(starts_of(spec, name)), shared)


_SHARES: Mapping[str, Supply] = {"messages": "conversation", "queue": "tasks"}
"""The supply that a child gets by each word of `share`."""


def _start(context: CheckContext, use: _Use) -> None:
    start = use.given.get("start")
    if start is not None and start.value not in use.child.states:
        message = f"`{use.child.name}` has no state `{short(start.value)}`"
        context.say(
            "CL301", (*use.path, "start"), message, hint=nearest(start.value, use.child.states)
        )


def _values(context: CheckContext, use: _Use, field: str, known: Mapping[str, Any]) -> None:
    values: Mapping[str, Given] = use.given[field].value if field in use.given else {}
    kind, code = ("variable", "CL103") if field == "vars" else ("limit", "CL103")
    for name, value in values.items():
        path = (*use.path, field, name)
        if name not in known:
            message = f"`{use.child.name}` has no {kind} `{short(name)}`"
            context.say(code, path, message, hint=nearest(name, known), key=True)
        elif problem := _misfit(use.child, field, name, value):
            context.say("CL404", path, problem)


def _misfit(child: MachineSpec, field: str, name: str, given: Given) -> str:
    """Why a child's variable or limit cannot have a value; empty if it can."""
    own = (child.vars if field == "vars" else child.limits)[name].type
    if isinstance(given.value, Expression):
        type = given.value.type
        fits = type.kind in ("any", "none") or assignable(type.without_none(), own.without_none())
        return "" if fits else f"`{name}` of `{child.name}` is {own}, and this is {type}"
    try:
        (var_value if field == "vars" else limit_value)(child, name, given.value)
    except LimitError as error:
        return error.message
    return ""


def _memory(context: CheckContext, use: _Use) -> None:
    blocks: Mapping[str, Any] = use.given["memory"].value if "memory" in use.given else {}
    for name in blocks:
        if name not in use.child.memory:
            message = f"`{use.child.name}` has no memory block `{short(name)}`"
            hint = nearest(name, use.child.memory)
            context.say("CL103", (*use.path, "memory", name), message, hint=hint, key=True)


def _several(context: CheckContext, state: StateSpec, action: ActionSpec) -> None:
    args, path = state.args, ("states", state.name, "with")
    both = {"machine", "each"} & args.keys()
    if len(both) == 1:
        (one,) = both
        other = "each" if one == "machine" else "machine"
        context.say("CL403", path, f"`{one}` also needs `{other}`", key=True)
    elif not both and "children" not in args:
        message = f"`{action.name}` has nothing to run"
        hint = "give `children: {name: {machine: ...}}`, or `machine` and `each`"
        context.say("CL403", ("states", state.name, "do"), message, hint=hint)
