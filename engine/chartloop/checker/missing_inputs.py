"""Actions that lack an input: a model call with nothing to send, `work` without tasks.

An `ActionSpec` declares the supply that its action needs and those that it leaves in a run. A state
whose action needs a supply never has it if no path leads there from a state that leaves it. Where a
caller may give the supply at the start (a conversation, tasks), the finding is a warning.

Belongs here: what one action needs from another. Never: the fields of a single action.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chartloop.checker.check_context import CheckContext
from chartloop.core.specs import Supply
from chartloop.language.spec import StateSpec


def check_supplies(context: CheckContext) -> None:
    """Find states whose action needs a supply that nothing before it leaves.

    Skipped if a part of the file could not be read: the supply may be there.
    """
    if context.broken:
        return
    for supply, missing in _MISSING.items():
        if supply in context.shared or _of_the_file(context, supply):
            continue
        for name in _lacking(context, supply):
            code, message, hint = missing
            context.say(code, ("states", name, "do"), message.format(name), hint=hint)


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
"""For each supply: the code, message and hint for a state that lacks it."""


def _of_the_file(context: CheckContext, supply: Supply) -> bool:
    """Whether the file itself gives the supply, without an action."""
    spec = context.spec
    if supply == "tasks":
        return spec.tasks is not None or context.has_key("tasks")
    if supply == "conversation":
        return bool(spec.memory) or (
            spec.instructions is not None and bool(spec.instructions.reads)
        )
    return False


def _lacking(context: CheckContext, supply: Supply) -> list[str]:
    """The states that never have the supply when a run first reaches them, but need it.

    Of several in a row only the first, because the others follow from it.
    """
    states, onward = context.spec.states, context.successors
    sources = [n for n, s in states.items() if _leaves(s, supply)]
    supplied = behind(onward, sources)
    consumers = {n for n, s in states.items() if s.action is not None and s.action.needs == supply}
    lacking = (consumers & context.reached) - supplied
    starts = {context.spec.start, *context.starts} & states.keys()
    ahead = {n: set[str]() if n in lacking else to for n, to in onward.items()}
    return context.in_order(lacking & (starts | behind(ahead, starts)))


def _leaves(state: StateSpec, supply: Supply) -> bool:
    """Whether a state's action leaves the supply, whatever was there before."""
    action = state.action
    if action is None or action.needs == supply:
        return False
    return supply in action.supplies or not action.is_builtin


def behind(onward: Mapping[str, set[str]], states: Iterable[str]) -> set[str]:
    """Return the states that a run may reach after one of these."""
    seen, pending = set[str](), [*states]
    while pending:
        new = onward.get(pending.pop(), set[str]()) - seen
        seen |= new
        pending += new
    return seen
