"""Checks the data that a machine gives its children: states, variables, limits.

Source: docs/language.md, "Child machines".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast

from chartloop.analysis.checker.check_context import (
    CheckContext,
    Embedding,
    listed,
    ranges_of,
    taken,
)
from chartloop.analysis.checker.missing_inputs import lacking_states
from chartloop.analysis.checker.waits import endless_waits
from chartloop.core.errors import LimitError, nearest
from chartloop.core.facts import FACTS, Facts
from chartloop.core.fold import lookup
from chartloop.core.specs import ActionSpec, Supply
from chartloop.core.types import ANY
from chartloop.core.visible import short
from chartloop.language.child_tools import cells_of
from chartloop.language.expression import Expression
from chartloop.language.expression.operators import assignable
from chartloop.language.intervals.evaluate import judge, surely
from chartloop.language.spec import Given, MachineSpec, StateSpec
from chartloop.language.values import limit_value, var_value
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
            child, start = use.child, use.given.get("start")
            if start is not None and start.value not in child.states:
                message = f"`{child.name}` has no state `{short(start.value)}`"
                hint = nearest(start.value, child.states)
                context.say("CL301", (*use.path, "start"), message, hint=hint)
            items = _items(context, use)
            _task(context, state, use, items)
            _waits_for_ever(context, state, use)
            _values(context, use, "vars", child.vars)
            for number, item in enumerate(items or ()):
                given = {n: Given("constant", one) for n, one in item.get("vars", {}).items()}
                path = (*use.path, "each", number)
                _values(
                    context, _Use(path, child, {"vars": Given("values", given)}), "vars", child.vars
                )
            _values(context, use, "limits", child.limits)
            _stopped_at_once(context, use)
            for name in use.given["memory"].value if "memory" in use.given else ():
                if name not in child.memory:
                    message = f"`{child.name}` has no memory block `{short(name)}`"
                    hint = nearest(name, child.memory)
                    context.say("CL103", (*use.path, "memory", name), message, hint=hint, key=True)
        if state.action is not None and state.traits.runs == "several":
            _several(context, state, state.action)


def _uses(spec: MachineSpec, state: StateSpec) -> Iterator[_Use]:
    if state.traits.runs == "calls":
        for name in spec.children_of(state):
            if (child := spec.machines.get(name)) is not None:
                given = {cell: Given("constant", None) for cell in cells_of(child).values()}
                given["machine"] = Given("constant", name)
                yield _Use(("tools", spec.tools.index(name)), child, given)
        return
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


def embedding_in(spec: MachineSpec, name: str) -> Embedding:
    """Return how a machine runs a child of this name: its start states, and what it is given."""
    shared, given = frozenset[Supply](), frozenset[str]()
    for state in spec.states.values():
        for use in _uses(spec, state):
            if (child := use.child) is not spec.machines.get(name):
                continue
            words = cast("list[str]", state.args["share"].value if "share" in state.args else [])
            shared |= frozenset(_SHARES[word] for word in words if word in _SHARES)
            values = {root: use.given[root].value for root in _GIVEN if root in use.given}
            values |= {"vars": child.vars} if "each" in use.given else {}
            values |= {"memory": child.memory} if "memory" in words else {}
            given |= frozenset(f"{root}.{key}" for root in values for key in values[root] or ())
    return Embedding(frozenset(spec.starts_of(name)), shared, given)


_GIVEN = ("vars", "memory", "limits")
"""The fields with which a state gives a child values of its own."""


_SHARES: Mapping[str, Supply] = {"messages": "conversation", "queue": "tasks"}
"""The supply that a child gets by each word of `share`."""


def _items(context: CheckContext, use: _Use) -> list[Mapping[str, Any]] | None:
    """The task and variables that `task` or `each` gives each child; None if they are not known."""
    given = [use.given[field].value for field in ("task", "each") if field in use.given]
    for values in context.constant(given):
        items = [one for value in values for one in listed(value)]
        made: list[Any] = [one if isinstance(one, Mapping) else {"task": one} for one in items]
        return made if all(isinstance(one.get("vars", {}), Mapping) for one in made) else None
    return None


def _task(
    context: CheckContext, state: StateSpec, use: _Use, items: list[Mapping[str, Any]] | None
) -> None:
    """Report a child without a task that begins by receiving it."""
    shares: Any = state.args["share"].value if "share" in state.args else ()
    if context.broken or "messages" in shares or items is None:
        return
    if state.traits.screens is not None:  # its text is the task
        return
    given = [use.given[field] for field in ("task", "each") if field in use.given]
    tasks = [item.get("task", "") for item in items]
    if given and all(not isinstance(task, str) or task.strip() for task in tasks):
        return
    name = str(use.given["machine"].value)
    start = use.given.get("start")
    starts = [use.child.start if start is None else str(start.value)]
    onward = taken(context.chart.child(name), {})
    for receiver in sorted(lacking_states(use.child.states, onward, starts, "task")):
        message = f"`{state.name}` gives `{name}` no task, and its `{receiver}` receives one: "
        hint = "give it `task`, or write `optional: true` where it receives"
        if state.traits.runs == "calls":
            hint = f"list `task` under the `inputs` of `{name}`: a model gives only what these list"
        certain = all(not getattr(one.value, "reads", ()) for one in given)
        code, when = ("CL363", "always fails") if certain else ("CL364", "fails as written")
        context.say(code, use.path, f"{message}that {when}", hint=hint, key=True)


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


def _several(context: CheckContext, state: StateSpec, action: ActionSpec) -> None:
    args, path = state.args, ("states", state.name, "with")
    both = {"machine", "each"} & args.keys()
    if len(both) == 1:
        (one,) = both
        other = "each" if one == "machine" else "machine"
        context.say("CL403", path, f"`{one}` also needs `{other}`", key=True)
    elif both:
        each, at = args["each"].value, (*path, "each")
        type = (each.type.of if isinstance(each, Expression) else None) or ANY
        if type.kind not in ("any", "str", "enum", "map", "struct"):
            message = f"each item of `each` is {type}, and neither a text nor `{{task, vars}}`: "
            message += f"`{state.name}` always fails, unless the list is empty"
            if not context.has_finding_at(at):
                hint = "make them texts, the tasks of the children"
                context.say("CL364", at, message, hint=hint)
    elif "children" not in args:
        message = f"`{action.name}` has nothing to run"
        hint = "give `children: {name: {machine: ...}}`, or `machine` and `each`"
        context.say("CL403", ("states", state.name, "do"), message, hint=hint)


def _stopped_at_once(context: CheckContext, use: _Use) -> None:
    """Report limits with which a rule stops the child before its first action."""
    given: Mapping[str, Given] = use.given["limits"].value if "limits" in use.given else {}
    known = {name: lookup(Facts(), name) for name, row in FACTS.items() if row.type.grows}
    for name, limit in given.items():
        with suppress(LimitError):  # an unfit one has a finding
            for value in context.constant(limit.value) if name in use.child.limits else ():
                known[f"limits.{name}"] = limit_value(use.child, name, value)
    for rule in use.child.rules if given else ():
        if rule.kind == "stop" and not rule.at and not rule.before:
            name = next((n for n in given if f"limits.{n}" in rule.when.reads), "")
            if name and surely(judge(rule.when.root, ranges_of(known))):
                message = f"`{rule.when.text}` stops `{use.child.name}` before its first action"
                hint = "set the limit higher: at 0 nothing is done"
                context.say("CL347", (*use.path, "limits", name), message, hint=hint)


def _waits_for_ever(context: CheckContext, state: StateSpec, use: _Use) -> None:
    """Report a deadline for a child that may wait for a person without one of its own."""
    if state.within is None:
        return
    wait = next(endless_waits(use.child), None)
    if wait is not None:
        message = f"`{state.name}` has a deadline, and `{wait.name}` of `{use.child.name}` waits "
        message += "without one: if no answer comes, the child is cut off and its work is lost"
        hint = f"give `{wait.name}` a shorter `within`, and `expired`"
        context.say("CL331", ("states", state.name, "within"), message, hint=hint)
