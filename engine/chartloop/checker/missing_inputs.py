"""Actions that come before what they need: a model call with nothing to send, `work` with no tasks.

An action says on its `ActionSpec` what it needs and what it leaves in a run. A state whose action
needs something, and that no path leads to from a state that leaves it, never has it. What a caller
may give at the start (a conversation, tasks) makes such a finding a warning.

Here: what one action needs of another. Never: the fields of a single action.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chartloop.checker.check_context import CheckContext
from chartloop.core.specs import Supply
from chartloop.language.spec import StateSpec


def check_supplies(context: CheckContext) -> None:
    """Each state whose action needs what nothing before it leaves.

    Nothing is said where a part of the file could not be read: it may be there.
    """
    if context.broken:
        return
    for supply, missing in _MISSING.items():
        if supply in context.brought or _of_the_file(context, supply):
            continue
        for name in _lacking(context, supply):
            code, said, hint = missing
            context.say(code, ("states", name, "do"), said.format(name), hint=hint)


_MISSING: Mapping[Supply, tuple[str, str, str]] = {
    "conversation": (
        "CL342",
        "`{}` calls the model with an empty conversation: the task of the run is not sent",
        "put a state with `do: receive` before it, or show `{{ run.task }}` in `instructions`",
    ),
    "tasks": (
        "CL344",
        "`{}` always fails: the file has no tasks, and nothing before it adds one",
        "list some under `tasks`, add them with `enqueue`, or write `tasks: []`: the caller does",
    ),
    "checkpoint": (
        "CL345",
        "`{}` always fails: no `checkpoint` comes before it on any path",
        "put a state with `do: checkpoint` before it",
    ),
}
"""For each supply: the code, what is said of a state that lacks it, and the cure."""


def _of_the_file(context: CheckContext, supply: Supply) -> bool:
    """Whether the file itself brings it, with no action."""
    spec = context.spec
    if supply == "tasks":
        return spec.tasks is not None or context.has_key("tasks")
    if supply == "conversation":
        return bool(spec.memory) or (
            spec.instructions is not None and bool(spec.instructions.reads)
        )
    return False


def _lacking(context: CheckContext, supply: Supply) -> list[str]:
    """The states that need it and never have it when a run first comes to them.

    Of several, one after the other, the first: what it leaves is there for the next.
    """
    states, onward = context.spec.states, context.successors
    sources = [n for n, s in states.items() if _leaves(s, supply)]
    having = behind(onward, sources)
    needing = {n for n, s in states.items() if s.action is not None and s.action.needs == supply}
    lacking = (needing & context.reached) - having
    starts = {context.spec.start, *context.starts} & states.keys()
    ahead = {n: set[str]() if n in lacking else to for n, to in onward.items()}
    return context.in_order(lacking & (starts | behind(ahead, starts)))


def _leaves(state: StateSpec, supply: Supply) -> bool:
    """Whether its action leaves the supply, whatever was there before."""
    action = state.action
    if action is None or action.needs == supply:
        return False
    return supply in action.supplies or not action.is_builtin


def behind(onward: Mapping[str, set[str]], states: Iterable[str]) -> set[str]:
    """The states that a run may come to after one of these."""
    found, pending = set[str](), [*states]
    while pending:
        new = onward.get(pending.pop(), set[str]()) - found
        found |= new
        pending += new
    return found
