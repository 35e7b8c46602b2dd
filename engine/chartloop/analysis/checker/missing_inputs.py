"""What one action needs from another: inputs that nothing leaves, and results that nothing uses.

An `ActionSpec` declares the supply that its action needs and those that it leaves in a run. A state
whose action needs a supply never has it if no path leads there from a state that leaves it. What a
state leaves is for nothing if no state behind it uses that. Where a caller may give the supply (a
conversation or tasks, also while the run waits), the finding is a warning.

Belongs here: what one action needs from another. Never: the fields of a single action.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from chartloop.analysis.checker.check_context import CheckContext, reads_of, taken
from chartloop.core.digraph import Digraph
from chartloop.core.specs import Supply
from chartloop.language.spec import StateSpec
from chartloop.language.yaml.reading import Path

Thing = Supply | Literal["calls", "prompt"]
"""What an action leaves for another: a supply, tool calls, or the prompt of the next model call."""


def check_supplies(context: CheckContext) -> None:
    """Find states whose action needs what nothing before it leaves, or leaves it for nothing.

    Skipped if a part of the file could not be read: the other action may be there.
    """
    if context.broken:
        return
    for thing in _MISSING:
        if thing not in context.shared and not _of_the_file(context, thing):
            _lacking(context, thing)
    if not context.own_code:
        spec = context.spec
        for number, name in enumerate(spec.tools if not spec.memory else ()):
            tool = spec.registry.tools.get(name)
            if tool is not None and tool.memory and not context.starts:
                text = f"`{name}` has nothing to edit: the file has no `memory`"
                hint = "add a block: `memory: {notes: ''}`, or take the tool off the list"
                context.say("CL371", ("tools", number), text, hint=hint)
        _demanded_calls(context)
        for thing, (message, hint) in _FOR_NOTHING.items():
            if thing not in context.shared:
                for path in _unused(context, thing):
                    context.say("CL370", path, message.format(*path[-2:]), hint=hint)


def _lacking(context: CheckContext, thing: Thing) -> None:
    """Report the states that lack the thing on every path, or on those of the file as written."""
    states, starts = context.spec.states, {context.spec.start, *context.starts}
    consumers = {n for n in context.reached if _needs(states[n], thing)}
    if not consumers:
        return
    code, message, hint = _MISSING[thing]
    without = taken(context.chart, _NO_TASKS) if thing == "tasks" else None
    lacking = lacking_states(states, context.successors, starts, thing, without) & consumers
    for name in context.in_order(lacking):
        context.say(code, ("states", name, "do"), message.format(name), hint=hint)
    if consumers <= lacking or thing == "calls":  # without a call it succeeds
        return
    written = lacking_states(states, taken(context.chart, context.fixed), starts, thing, without)
    for name in context.in_order((written & consumers) - lacking):
        message = f"`{name}` fails unless a caller changes variables or limits: as written, "
        message += f"no path brings a {_CALLED[thing]}"
        context.say("CL364", ("states", name, "do"), message, hint=hint)


_CALLED: Mapping[Thing, str] = {
    "task": "task", "conversation": "message to send", "tasks": "task", "checkpoint": "checkpoint",
    "reply": "reply to read", "calls": "reply with tool calls",
}  # fmt: skip

_MISSING: Mapping[Thing, tuple[str, str, str]] = {
    "task": (
        "CL363",
        "`{}` receives a task, and `inputs` does not list `task`: it always fails",
        "list `task`, or write `optional: true` where it receives",
    ),
    "conversation": (
        "CL342",
        "`{}` calls the model with an empty conversation: the task of the run is not sent",
        "put a state with `do: receive` before it, or show `{{ run.task }}` in `instructions`",
    ),
    "tasks": (
        "CL344",
        "`{}` has no task to do: the file lists none, and nothing before it adds one",
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
    "calls": (
        "CL371",
        "`{}` has no tool calls to execute: no model call comes before it",
        "put a state with `do: infer` before it",
    ),
}
"""For each thing: the code, message and hint for a state that lacks it."""
_FOR_NOTHING: Mapping[Thing, tuple[str, str]] = {
    "tasks": (
        "`{}` leaves tasks that nothing works on",
        "lead to a state with `do: work`",
    ),
    "checkpoint": (
        "`{}` keeps values that nothing restores",
        "lead to a state with `do: restore`, or remove it",
    ),
    "prompt": (
        "`{}` prepares a prompt, and no model call follows that it is for",
        "lead to a state with `do: infer`, or remove it",
    ),
}
"""For each thing: the message and hint for what leaves it where nothing uses it."""
_NO_TASKS = {
    "queue.size": 0, "queue.done": 0, "queue.failed": 0, "queue.primary_done": True,
    "queue.current": None,
}  # fmt: skip
"""The facts of a queue to which no task was ever added."""


_GIVEN = {"task", "messages"}
"""The inputs of which either can be received."""


def _of_the_file(context: CheckContext, supply: Thing) -> bool:
    """Whether the file itself gives the supply, without an action."""
    spec = context.spec
    if supply == "task":
        return not context.alone or spec.inputs is None or bool(_GIVEN & spec.inputs.keys())
    if supply == "tasks":
        return spec.tasks is not None or context.has_key("tasks")
    if supply == "calls":  # a file without a model call works on the conversation of its caller
        return all(state.asks_model == "never" for state in spec.states.values())
    if supply == "conversation":
        return bool(spec.memory) or (
            spec.instructions is not None and bool(spec.instructions.reads)
        )
    return False


def lacking_states(
    states: Mapping[str, StateSpec], graph: Digraph[str], starts: Iterable[str], thing: Thing,
    without: Digraph[str] | None = None,
) -> set[str]:  # fmt: skip
    """The states that never have the thing when a run first reaches them, but need it.

    Of several in a row only the first, because the others follow from it. `without`: where states
    may lead as long as nothing left the thing.
    """
    first = set(starts) & states.keys()
    reached = graph.onward(*first)
    sources = [n for n in reached if _leaves(states[n], thing)]
    lacking = {n for n in reached if _needs(states[n], thing)} - graph.behind(*sources)
    ahead = (e for e in (without or graph).edges if e[0] not in lacking and graph.has_edge(*e))
    return lacking & Digraph(states, ahead).onward(*first)


def _needs(state: StateSpec, thing: Thing) -> bool:
    match thing:
        case "calls":
            return state.calls in ("all", "first", "memory")
        case "prompt":
            return state.asks_model in ("reply", "task")
        case _:
            return state.needs == thing


def _leaves(state: StateSpec, thing: Thing) -> bool:
    """Whether a state leaves the thing, whatever was there before."""
    action = state.action
    if action is None:
        return thing == "tasks" and state.job == "wait"  # a caller may add them
    if not action.is_builtin:
        return True
    match thing:
        case "reply" | "calls":
            return state.asks_model in ("reply", "task") or "share" in state.args
        case "prompt":
            return state.traits.sets_prompt and "keep" not in state.args
        case "task":
            return not {"task", "conversation"}.isdisjoint(action.supplies)
        case _:
            return thing in action.supplies and action.needs != thing


def _unused(context: CheckContext, thing: Thing) -> list[Path]:
    """The places that leave the thing, and nothing else, for nothing."""
    spec, found = context.spec, list[Path]()
    users = {n for n, s in spec.states.items() if _needs(s, thing) or "share" in s.args}
    listed = spec.tasks if thing == "tasks" and isinstance(spec.tasks, tuple) else ()
    if listed and not users & context.reached:
        found.append(("tasks",))
    for name in context.in_order(context.reached):
        action = spec.states[name].action
        if action is None or not _leaves(spec.states[name], thing):
            continue
        only = len(action.supplies) == 1 and not action.work
        if only and not users & context.successors.behind(name):
            found.append(("states", name, "do"))
    if found and thing == "tasks":
        reads = (r for part, _ in context.parts for r in reads_of(spec, part))
        found = [] if any(r.split(".")[0] == "queue" for r in reads) else found
    return found


def _demanded_calls(context: CheckContext) -> None:
    """Report model calls that must ask for a tool where none is offered."""
    spec = context.spec
    for state in spec.states.values():
        choice = state.args.get("tool_choice")
        offered = spec.offered(state)
        silent = choice is None or choice.value in ("auto", "none")
        if silent or offered or (state.allow is None and context.has_key("tools")):
            continue
        message = f"`{state.name}` demands a tool call, and offers no tools"
        hint = "list tools under `tools`, or leave `tool_choice` out"
        context.say("CL371", ("states", state.name, "with", "tool_choice"), message, hint=hint)
