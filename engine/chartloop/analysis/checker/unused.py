"""Unused declarations: variables, reasons, tools; and reasons with the same priority."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, cast

from chartloop.analysis.checker.check_context import CheckContext, parts_of, reads_of
from chartloop.core.digraph import reachable
from chartloop.core.reasons import REASONS
from chartloop.core.units import say_some
from chartloop.language.expression import Expression
from chartloop.language.expression.tree import Call, Const, Fact, Node, children, walk
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.language.yaml.reading import Path
from chartloop.machine.abstract.signals import OUTSIDE, carried_out, raised_by_states


def check_unused(context: CheckContext) -> None:
    """Find declarations that are unused, or whose use was forgotten.

    Skipped if a part of the file could not be read: the use may be there.
    """
    if context.broken:
        return
    _variables(context)
    _reasons(context)
    _ties(context)
    _tools(context)


# variables ----------------------------------------------------------------------------------


def _variables(context: CheckContext) -> None:
    """Report unused variables. A variable that is read only to compute itself is unused."""
    spec = context.spec
    if context.own_code or spec.registry.own_tools:
        return  # an application's code may read any of them
    used: set[str] = set()
    for part, target in context.parts:
        for fact in reads_of(spec, part):
            used.add(".".join(fact.split(".")[:2]) if fact != target else "")
            if fact == "vars":
                return
    for name in spec.vars:
        path = f"vars.{name}"
        if path not in used:
            written = any(t == path for t in _assigned_variables(spec))
            what = "is written and nothing reads it" if written else "is declared and never used"
            hint = f"read `{path}` in a guard, a template or `output`, or remove it"
            context.say("CL334", ("vars", name), f"variable `{name}` {what}", hint=hint, key=True)


def variables_read(spec: MachineSpec) -> frozenset[str]:
    """Return the variables that expressions read; decisions depend on no others."""
    parts = [part for part, _ in parts_of(spec) if isinstance(part, Expression)]
    reads = {fact for part in parts for fact in reads_of(spec, part)}
    named = {fact.split(".")[1] for fact in reads if fact.startswith("vars.")}
    return frozenset(spec.vars if "vars" in reads else named & spec.vars.keys())


def parameters(spec: MachineSpec) -> list[str]:
    """Return the variables that keep their initial value unless a caller gives another."""
    assigned = {*_assigned_variables(spec)}
    return [name for name in spec.vars if f"vars.{name}" not in assigned]


def _assigned_variables(spec: MachineSpec) -> Iterator[str]:
    """Yield the variables that the file assigns."""
    for state in spec.states.values():
        yield from (a.target for a in state.set)
        yield from (s.target for s in state.save)
        yield from (a.target for e in state.edges for a in e.set)
        yield from (name for name in state.args if name.startswith("vars."))
        if state.traits.adopts:
            adopted = cast("Mapping[str, Any]", state.args[state.traits.adopts].value)
            yield from map(str, adopted.values())


# reasons ------------------------------------------------------------------------------------


def _raised_reasons(spec: MachineSpec) -> set[str]:
    """The reasons that the file raises."""
    reasons = {s.stop for s in spec.states.values()} | {e.stop for e in spec.edges()}
    reasons |= {r.stop for r in spec.rules} | {r.signal for r in spec.rules}
    reasons |= {spec.on_error.stop} if spec.on_error is not None else set()
    return (reasons | {*raised_by_states(spec)}) - {""}


def _reasons(context: CheckContext) -> None:
    spec = context.spec
    own = [name for name in spec.own_reasons if name not in REASONS]
    if not own or context.own_code or spec.registry.own_tools:
        return
    # a reason that an expression compares with may be raised from outside
    parts = (part for part, _ in context.parts if isinstance(part, Expression))
    nodes = (n for part in parts for n in walk(part.root) if isinstance(n, Const))
    compared = {n.value for n in nodes if isinstance(n.value, str)}
    known = _raised_reasons(spec) | compared
    for name in own:
        if name not in known:
            message = f"reason `{name}` is declared, and nothing raises or reads it"
            hint = f"raise it: `stop: {name}` or `signal: {name}`, or remove it"
            context.say("CL335", ("reasons", name), message, hint=hint, key=True)


def _ties(context: CheckContext) -> None:
    """Report two reasons to which the file gives the same priority."""
    spec = context.spec
    raised = _raised_reasons(spec) | set(OUTSIDE)
    prioritised = [n for n in spec.own_reasons if n in raised and _has_priority(spec, n)]
    for first, second in combinations(prioritised, 2):
        priority = spec.reasons[first].priority
        if priority == spec.reasons[second].priority:
            text = f"`{first}` and `{second}` both have priority {priority}: when both are raised, "
            text += "the run ends for the one that came first"
            path = ("reasons", second, "priority")
            context.say("CL336", path, text, hint="give one of them another number")


def _has_priority(spec: MachineSpec, name: str) -> bool:
    if spec.document is None:
        return False
    return bool(spec.document.raw((*spec.base, "reasons", name, "priority")))


# tools --------------------------------------------------------------------------------------


def _tools(context: CheckContext) -> None:
    """Report tools whose calls are never executed, and tools that no state offers."""
    spec = context.spec
    if not spec.tools or context.own_code:
        return
    asking = [s for n, s in spec.states.items() if _may_call_tools(s) and n in context.reached]
    if not _reads_calls(context):
        lost = {state.name: _lost(context, state) for state in asking}
        for tools in dict.fromkeys(filter(None, lost.values())):
            offering = [state for state in asking if lost[state.name] == tools]
            _never_executed(context, offering, tools)
    _never_offered(context, asking)


def _lost(context: CheckContext, state: StateSpec) -> tuple[str, ...]:
    """The tools that a state offers but whose calls are never executed."""
    offered = context.spec.offered(state)
    return tuple(t for t in offered if not _is_executed(context, state, t))


def _never_executed(
    context: CheckContext, offering: Sequence[StateSpec], tools: tuple[str, ...]
) -> None:
    """Add one finding for all states that offer the same tools in vain.

    A state whose finding is accepted gets one of its own.
    """
    accepted = [s for s in offering if context.is_accepted("CL333", _offer(s))]
    rest = [s for s in offering if s not in accepted]
    for states in (*([s] for s in accepted), *([rest] if rest else [])):
        names = ", ".join(f"`{t}`" for t in tools[:3]) + (" and more" if len(tools) > 3 else "")
        if len(states) > 1:
            who = say_some([f"`{s.name}`" for s in states], MOST_NAMED)
            text = f"{who} offer {names}, and no path leads"
            text += " from any of them to a state that executes calls"
        else:
            text = f"`{states[0].name}` offers {names}, and no path leads from it to a state that "
            text += "executes calls"
        hint = "write `allow: []` where the model shall only write, or lead an edge to a state with"
        hint += f" `do: call_tools` that allows {'it' if len(tools) == 1 else 'them'}"
        context.say("CL333", _offer(states[0]), text, hint=hint)


MOST_NAMED = 4
"""The most states that one finding names."""


def _offer(state: StateSpec) -> Path:
    """The path of the tools that a state offers."""
    return ("states", state.name, "allow" if state.allow is not None else "do")


def _may_call_tools(state: StateSpec) -> bool:
    choice = state.args.get("tool_choice")
    silent = choice is not None and choice.value == "none"
    return state.asks_model == "reply" and not silent


def _is_executed(context: CheckContext, state: StateSpec, tool: str) -> bool:
    """Whether a path leads to a state that executes the tool before the next model call."""
    spec, states = context.spec, context.spec.states

    def onward(name: str) -> Iterable[str]:
        return context.own.successors(name) if states[name].asks_model != "reply" else ()

    after = reachable(context.own.successors(state.name), onward)
    executing = (states[n] for n in after if states[n].calls in ("all", "first", "memory"))
    return any(tool in carried_out(spec, executed) for executed in executing)


def _reads_calls(context: CheckContext) -> bool:
    """Whether the file reads the content of tool calls, not only their number."""
    spec = context.spec
    for part, _ in context.parts:
        if isinstance(part, Expression):
            if _looks_into(part.root):
                return True
        elif "last.tool_calls" in reads_of(spec, part):
            return True
    saved = (s.path for state in spec.states.values() for s in state.save)
    return any(path and path[0] == "tool_calls" for path in saved)


def _looks_into(node: Node) -> bool:
    if isinstance(node, Call) and node.name == "len" and isinstance(node.args[0], Fact):
        return False
    if isinstance(node, Fact) and node.path == "last.tool_calls":
        return True
    return any(_looks_into(child) for child in children(node))


def _never_offered(context: CheckContext, asking: Iterable[StateSpec]) -> None:
    spec, states = context.spec, list(asking)
    by_task = any(s.calls == "task" for s in spec.states.values())
    if not states or any(s.allow is None for s in states) or by_task:
        return
    by_name = {s.named_tool for s in spec.states.values()}
    offered = {t for s in states for t in s.allow or ()} | by_name
    for number, tool in enumerate(spec.tools):
        if tool not in offered:
            message = f"no state offers `{tool}` to the model"
            path = ("tools", number)
            context.say("CL333", path, message, hint="add it to `allow` of a state, or remove it")
