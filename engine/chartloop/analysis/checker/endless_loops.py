"""Endless loops: no guard that could end them reads a fact that changes in them.

Such a loop need not cost anything. Loops of paid actions belong to `checker.loops`: a budget must
cut them. An answer, a failure or a custom action may end a loop at any time, so loops with one are
left out; but a denial is an answer too, and no failure: a loop of denied calls needs a guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.analysis.checker.effects import is_part
from chartloop.analysis.checker.knowledge import groups
from chartloop.core.approvals import ACCEPT, EDIT
from chartloop.core.digraph import Digraph
from chartloop.core.specs import Effect
from chartloop.language.expression import Expression
from chartloop.language.spec import Edge, StateSpec


def check_endless(context: CheckContext) -> None:
    """Find reachable loops that have an exit but never take it."""
    if context.broken:
        return
    states = context.spec.states
    free = [n for n in context.reached if _is_free(states[n])]
    for names in context.own.subgraph(free).loops():
        changed = frozenset(f for n in names for f, _ in context.effects.of(states[n]))
        if any(_may_change(rule.when, changed) for rule in context.spec.rules):
            continue
        steady = ((n, edge.target) for n in names for edge in _steady(states[n], changed))
        # the edges within the loop that are taken each time if they are taken once
        staying: Digraph[str] = Digraph(edges=(edge for edge in steady if edge[1] in names))
        for loop in staying.loops():
            _endless(context, loop)


def _is_free(state: StateSpec) -> bool:
    """Whether a state's effects are known, and it neither costs, waits nor fails by itself."""
    if state.job == "wait" or state.all:
        return False
    action = state.action
    if action is None or not action.is_builtin:
        return action is None
    return action.effect is not Effect.PAID and action.traits.fails != "by_world"


def _may_change(guard: Expression, changed: frozenset[str]) -> bool:
    """Whether a change of these facts may change a guard."""
    return bool(guard.opaque) or any(is_part(r, fact) for r in guard.reads for fact in changed)


def _steady(state: StateSpec, changed: frozenset[str]) -> Iterator[Edge]:
    """Yield the edges of a state before the first whose guard may change."""
    guards = [state.of] if state.of is not None else []
    for group in groups(state):
        if group[0].role in ("failed", "expired"):
            continue
        for edge in group:
            evaluated = [*guards, *([edge.when] if edge.when is not None else [])]
            if any(_may_change(guard, changed) for guard in evaluated):
                break
            yield edge


def _endless(context: CheckContext, loop: list[str]) -> None:
    states = context.spec.states
    exits = [e for n in loop for e in states[n].edges if e.target not in loop]
    acting = [n for n in context.in_order(loop) if states[n].action is not None]
    guards = list(_exit_guards(context, exits)) or [rule.when for rule in context.spec.rules]
    facts = {read for guard in guards for read in guard.reads}
    still = {read for read in facts if not read.startswith("limits.")} or facts
    reads = [f"`{read}`" for read in sorted(still)]
    by_failure = any(e.role in ("failed", "expired") for e in exits)
    if not acting or not reads or by_failure or not context.whole(loop):
        return  # without an exit and a rule, or with one never taken, it has another finding
    why = f"{', '.join(reads[:3])} cannot change in it"
    message = f"nothing ends the loop {context.describe_loop(loop)} once it is entered: {why}"
    hint = "change in it a value that its exit reads, or add a rule with `limits.steps`"
    context.say_of("CL350", states[acting[0]], message, hint=hint)


def _exit_guards(context: CheckContext, exits: Iterable[Edge]) -> Iterator[Expression]:
    """Yield the guards of the states with an exit from the loop."""
    for name in dict.fromkeys(edge.source for edge in exits):
        state = context.spec.states[name]
        yield from (edge.when for edge in state.edges if edge.when is not None)
        yield from () if state.of is None else (state.of,)


# denied calls -------------------------------------------------------------------------------

_FAILURES = ("errors.", "last.ok", "last.error")
"""The facts that a denial does not change."""
_OPEN = (*_FAILURES, "last.", "usage.tool_calls", "usage.calls")
"""The facts that end no loop of denied calls: those, what the model says, and executed calls."""


def check_denied(context: CheckContext) -> None:
    """Find loops of denied calls that only failures were to end. One without an exit is CL316's."""
    spec, gates = context.spec, {*context.spec.gates}
    waits = {n for n, s in spec.states.items() if s.job == "wait"}
    consents = ((e.source, e.target) for e in spec.edges() if e.trigger in (ACCEPT, EDIT))
    denied = context.own.subgraph((context.reached - waits) | gates)
    for loop in denied.without(edge for edge in consents if edge[0] in gates).loops():
        if not gates.isdisjoint(loop) and context.whole(loop) and not context.broken:
            _check_denied(context, loop)


def _check_denied(context: CheckContext, loop: list[str]) -> None:
    spec, states = context.spec, [context.spec.states[name] for name in loop]
    changed = {fact for state in states for fact, _ in context.effects.of(state)}
    ending = frozenset(f for f in changed if f == "last.denied" or not f.startswith(_OPEN))
    out = (e for state in states for e in state.edges if e.target not in loop)
    guards = [*_exit_guards(context, (e for e in out if e.role not in ("failed", "expired", "on")))]
    for rule in spec.rules:
        here = not (rule.at or rule.before) or {*rule.at, *rule.before}.intersection(loop)
        back = rule.kind == "detour" and context.paths.onward(rule.to).intersection(loop)
        guards += [rule.when] if here and not back else []
    if any(_may_change(guard, ending) for guard in guards):
        return
    ends = [f"`{g.text}`" for g in guards if any(r.startswith(_FAILURES) for r in g.reads)]
    for state in states:
        given, own = state.args.get("on_error"), spec.made.get(("states", state.name))
        back = any(e.role == "failed" and e.target in loop for e in state.edges)
        if own and given is not None and given.value == "fail" and not back:
            ends.append(f"`on_error: fail` of `{own[1]}`")
    if ends:
        message = f"{ends[0]} does not end the loop {context.describe_loop(loop)}: "
        hint = "add a rule: `{when: approvals.denied >= 3, stop: no_progress}`"
        context.say(
            "CL368", ("approve",), f"{message}a denied call is no error", hint=hint, key=True
        )
