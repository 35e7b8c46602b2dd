"""Actions that lack an input: a model call with nothing to send, `work` without tasks.

An `ActionSpec` declares the supply that its action needs and those that it leaves in a run. A state
whose action needs a supply never has it if no path leads there from a state that leaves it. Where a
caller may give the supply at the start (a conversation, tasks), the finding is a warning.

Belongs here: what one action needs from another. Never: the fields of a single action.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chartloop.checker.certain_failures import as_written
from chartloop.checker.check_context import CheckContext
from chartloop.core.specs import Supply
from chartloop.language.expression import Expression
from chartloop.language.intervals.evaluate import judge, surely
from chartloop.language.spec import StateSpec
from chartloop.machine.regions import Holds, RuleHolds


def check_supplies(context: CheckContext) -> None:
    """Find states whose action needs a supply that nothing before it leaves.

    Skipped if a part of the file could not be read: the supply may be there.
    """
    if context.broken:
        return
    states, starts = context.spec.states, {context.spec.start, *context.starts}
    taken: Mapping[str, set[str]] | None = None
    for supply, missing in _MISSING.items():
        if supply in context.shared or _of_the_file(context, supply):
            continue
        consumers = {n for n in context.reached if states[n].needs == supply}
        if not consumers:
            continue
        code, message, hint = missing
        lacking = lacking_states(states, context.successors, starts, supply) & consumers
        for name in context.in_order(lacking):
            context.say(code, ("states", name, "do"), message.format(name), hint=hint)
        if not consumers <= lacking:
            taken = taken or _taken_as_written(context)
            written = lacking_states(states, taken, starts, supply)
            for name in context.in_order((written & consumers) - lacking):
                message = (
                    f"`{name}` fails unless a caller changes variables or limits: as written, "
                )
                message += f"no path brings a {_CALLED[supply]}"
                context.say("CL364", ("states", name, "do"), message, hint=hint)


_CALLED: Mapping[Supply, str] = {
    "conversation": "message to send", "tasks": "task", "checkpoint": "checkpoint",
    "reply": "reply to read",
}  # fmt: skip

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
    "reply": (
        "CL363",
        "`{}` always fails: it requires a part of a reply, and no model call comes before it",
        "put a state with `do: infer` before it, or leave `required` out",
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


def lacking_states(
    states: Mapping[str, StateSpec], onward: Mapping[str, set[str]], starts: Iterable[str],
    supply: Supply,
) -> set[str]:  # fmt: skip
    """The states that never have the supply when a run first reaches them, but need it.

    Of several in a row only the first, because the others follow from it.
    """
    first = set(starts) & states.keys()
    reached = first | behind(onward, first)
    sources = [n for n in reached if _leaves(states[n], supply)]
    lacking = {n for n in reached if states[n].needs == supply} - behind(onward, sources)
    ahead = {n: set[str]() if n in lacking else to for n, to in onward.items()}
    return lacking & (first | behind(ahead, first))


def _leaves(state: StateSpec, supply: Supply) -> bool:
    """Whether a state's action leaves the supply, whatever was there before."""
    action = state.action
    if action is None or action.needs == supply:
        return False
    instead = supply == "task" and "conversation" in action.supplies
    return supply in action.supplies or instead or not action.is_builtin


def _taken_as_written(context: CheckContext) -> Mapping[str, set[str]]:
    """For each state, those that it leads to with the limits and variables of the file."""
    known = as_written(context)
    verdicts: dict[Expression, bool | None] = {}
    out: dict[str, set[str]] = {}
    decided: set[str] = set()
    """The states of which an earlier edge always holds."""
    for t in context.chart.step.transitions():
        read = [g.expression for g in t.guards if isinstance(g, (Holds, RuleHolds))]
        for guard in read:
            if guard not in verdicts:
                verdicts[guard] = surely(judge(guard.root, known))
        passed = t.kind == "advance" and t.source in decided
        never = passed or any(verdicts[guard] is False for guard in read)
        if t.dest is not None and t.dest in context.spec.states and not never:
            out.setdefault(t.source, set()).add(t.dest)
        if t.kind == "advance" and len(read) == len(t.guards) and all(map(verdicts.get, read)):
            decided.add(t.source)
    return out


def behind(onward: Mapping[str, set[str]], states: Iterable[str]) -> set[str]:
    """Return the states that a run may reach after one of these."""
    seen, pending = set[str](), [*states]
    while pending:
        new = onward.get(pending.pop(), set[str]()) - seen
        seen |= new
        pending += new
    return seen
