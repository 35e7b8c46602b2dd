"""Checks the data that a machine gives its children: states, variables, limits.

Source: docs/language.md, "Child machines".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from chartloop.analysis.checker.check_context import (
    CheckContext,
    Embedding,
    ranges_of,
    successors_of,
)
from chartloop.analysis.checker.missing_inputs import lacking_states
from chartloop.analysis.checker.waits import endless_waits
from chartloop.core.errors import LimitError, nearest
from chartloop.core.facts import FACTS, Facts
from chartloop.core.fold import lookup
from chartloop.core.specs import ActionSpec, Supply
from chartloop.core.types import ANY, type_of
from chartloop.core.visible import short
from chartloop.language.child_tools import cells_of
from chartloop.language.expression import Expression
from chartloop.language.expression.operators import assignable
from chartloop.language.expression.tree import Fact, Items
from chartloop.language.intervals.evaluate import judge, surely
from chartloop.language.intervals.interval import Value, of_plain
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
            _task(context, state, use)
            _stopped_at_once(context, use)
            _waits_for_ever(context, state, use)
            _values(context, use, "vars", child.vars)
            for number, item in enumerate(_items(context, use)):
                each = use._replace(path=(*use.path, "each", number), given={"vars": item})
                _values(context, each, "vars", child.vars)
            _values(context, use, "limits", child.limits)
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
    """Return how a machine runs a child of this name: its start states and shared data."""
    shared = frozenset[Supply]()
    for state in spec.states.values():
        for use in _uses(spec, state):
            if spec.machines.get(name) is use.child and "share" in state.args:
                words = cast("list[str]", state.args["share"].value)
                shared |= frozenset(_SHARES[word] for word in words if word in _SHARES)
    return Embedding(frozenset(spec.starts_of(name)), shared)


_SHARES: Mapping[str, Supply] = {"messages": "conversation", "queue": "tasks"}
"""The supply that a child gets by each word of `share`."""


def _task(context: CheckContext, state: StateSpec, use: _Use) -> None:
    """Report a child without a task that begins by receiving it."""
    shares: Any = state.args["share"].value if "share" in state.args else ()
    if context.broken or "messages" in shares:
        return
    if state.traits.screens is not None:  # its text is the task
        return
    given = [use.given[field] for field in ("task", "each") if field in use.given]
    tasks = [task for one in given for task in _tasks_of(context, one)]
    if given and all(tasks):
        return
    name = str(use.given["machine"].value)
    start = use.given.get("start")
    starts = [use.child.start if start is None else str(start.value)]
    onward = successors_of(context.chart.child(name))
    for receiver in sorted(lacking_states(use.child.states, onward, starts, "task")):
        message = f"`{state.name}` gives `{name}` no task, and its `{receiver}` receives one: "
        hint = "give it `task`, or write `optional: true` where it receives"
        if state.traits.runs == "calls":
            hint = f"list `task` under the `inputs` of `{name}`: a model gives only what these list"
        certain = all(not getattr(one.value, "reads", ()) for one in given)
        code, when = ("CL363", "always fails") if certain else ("CL364", "fails as written")
        context.say(code, use.path, f"{message}that {when}", hint=hint, key=True)


def _tasks_of(context: CheckContext, given: Given) -> list[Any]:
    """The tasks that a field gives its children, or True for one that is not known."""
    value = context.constant(given.value)
    if not value:
        return [True]
    items = cast("list[Any]", value[0] if isinstance(value[0], (list, tuple)) else value)
    tasks: list[Any] = [
        _field(one, "task", "") if isinstance(one, Mapping) else one for one in items
    ]
    return [not isinstance(task, str) or task.strip() for task in tasks] or [True]


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


def _items(context: CheckContext, use: _Use) -> Iterator[Given]:
    """The variables that each item of a list gives a child, if they are written out."""
    each = use.given.get("each")
    value = context.constant(each.value) if each is not None else ()
    for item in value[0] if value else ():
        given: Any = _field(item, "vars", {}) if isinstance(item, Mapping) else {}
        if isinstance(given, Mapping):
            items = cast("Mapping[str, Any]", given).items()
            yield Given("values", {name: Given("constant", one) for name, one in items})


def _field(item: Any, name: str, otherwise: Any) -> Any:
    return item.get(name, otherwise)


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
        each = args["each"].value
        type = (each.type if isinstance(each, Expression) else type_of(each)).of or ANY
        if type.kind in ("any", "str", "enum", "map", "struct"):
            return
        # such items start no child
        root = each.root if isinstance(each, Expression) else None
        filled = bool(root.items) if isinstance(root, Items) else root is None and bool(each)
        message = f"each item of `each` is {type}, and neither a text nor `{{task, vars}}`: "
        code, effect = ("CL363", "") if filled else ("CL364", ", unless the list is empty")
        hint = "make them texts, the tasks of the children"
        message += f"`{state.name}` always fails{effect}"
        context.say(code, (*path, "each"), message, hint=hint)
    elif "children" not in args:
        message = f"`{action.name}` has nothing to run"
        hint = "give `children: {name: {machine: ...}}`, or `machine` and `each`"
        context.say("CL403", ("states", state.name, "do"), message, hint=hint)


def _stopped_at_once(context: CheckContext, use: _Use) -> None:
    """Report limits with which a rule stops the child before its first action."""
    given: Mapping[str, Given] = use.given["limits"].value if "limits" in use.given else {}
    limits = {f"limits.{name}": _limit(context, use.child, name, given[name]) for name in given}
    first = Facts()

    def known(fact: Fact) -> Value | None:
        if fact.path in FACTS and fact.type.grows:
            return of_plain(lookup(first, fact.path))
        return limits.get(fact.path)

    for rule in use.child.rules if limits else ():
        if rule.kind == "stop" and not rule.at and not rule.before:
            name = next((n for n in given if f"limits.{n}" in rule.when.reads), "")
            if name and surely(judge(rule.when.root, known)):
                message = f"`{rule.when.text}` stops `{use.child.name}` before its first action"
                hint = "set the limit higher: at 0 nothing is done"
                context.say("CL347", (*use.path, "limits", name), message, hint=hint)


def _limit(context: CheckContext, child: MachineSpec, name: str, given: Given) -> Value | None:
    """A limit that a state gives its child, as far as the file fixes it."""
    if isinstance(given.value, Expression):
        return judge(given.value.root, ranges_of(context.fixed))
    try:
        return of_plain(limit_value(child, name, given.value))
    except LimitError:
        return None


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
