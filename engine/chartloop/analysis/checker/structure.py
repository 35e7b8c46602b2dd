"""Reachability, dead ends, epilogues, and returns from detours.

Source: docs/language.md, "After a stop: the epilogue" and section 4 (`return`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.core.units import say_some
from chartloop.language.expression.tree import Compare, Fact, Logic, Node, facts_of
from chartloop.language.spec import HIGHEST, RETURN, Edge
from chartloop.machine.abstract.counters import Again, Counting


def check_structure(context: CheckContext) -> None:
    """Check reachability, dead ends, paths to an end, epilogues, returns, ends by reason."""
    _reachability(context)
    _no_end(context)
    _epilogues(context)
    _returns(context)
    _by_reason(context)


# reachability -------------------------------------------------------------------------------


def passing_loops(context: CheckContext) -> list[list[str]]:
    """Return loops of states that only pass or decide, except after a stop."""
    states = context.spec.states
    moving = [n for n, s in states.items() if not s.rests and not s.stop]
    graph = context.own.subgraph(moving)
    again = Counting(context.spec).again
    while again and (ending := [e for p in graph.loops() for e in _ending(context, p, again)]):
        graph = graph.without(ending)
    return graph.loops()


def _ending(
    context: CheckContext, part: list[str], counted: Sequence[Again]
) -> Iterator[tuple[str, str]]:
    """Yield edges of a loop that cannot repeat for ever: each counts up to a fixed value."""
    spec = context.spec
    written = {a.target for n in part for a in spec.states[n].set}
    written |= {a.target for n in part for e in spec.states[n].edges for a in e.set}
    for again in counted:
        if again.resets.keys() & set(part):
            continue
        for edge in (e for n in part for e in spec.states[n].edges if e.id in again.edges):
            alone = sum(e.target == edge.target for e in spec.states[edge.source].edges) == 1
            if edge.when is not None and alone and _stays_below(edge.when.root, again, written):
                yield edge.source, edge.target


def _stays_below(guard: Node, again: Again, written: set[str]) -> bool:
    """Whether a guard requires the variable to be below a value that nothing here writes."""
    if isinstance(guard, Logic) and guard.op == "and":
        return any(_stays_below(part, again, written) for part in guard.parts)
    if not isinstance(guard, Compare) or len(guard.links) != 1 or guard.links[0].op != "<":
        return False
    counts = isinstance(guard.first, Fact) and guard.first.path == again.variable
    return counts and not facts_of(guard.links[0].right).keys() & written


def _islands(context: CheckContext) -> list[list[str]]:
    """The unreachable states in groups, each headed by a state that leads to the others."""
    unreachable = [n for n in context.spec.states if n not in context.reached]
    parts = context.paths.subgraph(unreachable).parts()
    out: list[list[str]] = []
    for part in parts.graph:
        if not parts.graph.predecessors(part):
            behind = parts.graph.onward(part)
            first = context.in_order(parts.members[part])[0]
            rest = {n for p in behind for n in parts.members[p]} - {first}
            out.append([first, *context.in_order(rest)])
    return sorted(out, key=lambda names: context.order[names[0]])


def _reachability(context: CheckContext) -> None:
    """Report dead ends and unreachable states.

    A single dead end and a single unreachable group are one mistake: a missing edge.
    """
    states, islands = context.spec.states.items(), _islands(context)
    dead = [n for n, s in states if s.job != "end" and not s.edges and context.whole([n])]
    stuck = [n for n in dead if n in context.reached]
    looping = [loop for loop in _reported_loops(context) if set(loop) & context.reached]
    lost = len(context.unread.ways) + len(stuck) + len(looping) + len(_lost_returns(context))
    one = lost == 1 and len(islands) == 1
    for name in dead:
        hint = "add `next`, or make it an end with `end: completed`"
        if one and stuck == [name]:
            hint = f"add `next: {islands[0][0]}`, which nothing reaches, or make it an end"
        context.say_of(
            "CL305", context.spec.states[name], f"state `{name}` has no outgoing edge", hint=hint
        )
    for first, *behind in [] if one else islands:
        message = f"state `{first}` is never reached"
        if behind:
            message += f", nor {say_some([f'`{n}`' for n in behind], 3)} after it"
        hint = "lead an edge to it, or remove it"
        context.say_of("CL304", context.spec.states[first], message, hint=hint)


def _no_end(context: CheckContext) -> None:
    """Report parts of the machine that a run never leaves, except those reported otherwise."""
    states = context.spec.states
    leading = {n for n, s in states.items() if s.job == "end" or not s.edges}
    leading |= {n for n in states if not context.whole([n])}
    leading |= {n for loop in _reported_loops(context) for n in loop}
    leading |= {e.source for e in context.spec.edges() if e.target == RETURN}
    # a rule without a target in the file leads to an end of the engine
    leading |= {t.source for t in context.rules if t.dest not in states}
    trapped = context.in_order(context.reached - context.paths.leading_to(*leading))
    if trapped and not context.unread.ways:
        also = f", nor from {', '.join(f'`{n}`' for n in trapped[1:4])}" if trapped[1:] else ""
        message = f"from `{trapped[0]}` no end can be reached{also}"
        hint = "lead a path to an end, or add a stop rule"
        context.say_of("CL319", states[trapped[0]], message, hint=hint)


# epilogues ----------------------------------------------------------------------------------


def openers(context: CheckContext) -> list[str]:
    """Return the states that open an epilogue."""
    spec = context.spec
    names = {n for n, s in spec.states.items() if s.stop}
    names |= context.stopping & spec.states.keys()
    names |= {r.to for r in spec.rules if r.stop and r.to}
    return context.in_order(names | ({spec.on_stop} if spec.on_stop else set()))


def epilogue(context: CheckContext) -> set[str]:
    """Return the states that a run can be in after a stop."""
    return context.behind.onward(*openers(context))


def states_without_stop(context: CheckContext) -> set[str]:
    """Return the states that a run can be in while it has no reason to stop."""
    spec, before = context.spec, context.before
    starts = {spec.start} | {r.to for r in spec.rules if r.kind == "detour"}
    return before.onward(*(start for start in starts if start in before))


def _reported_loops(context: CheckContext) -> list[list[str]]:
    """The loops with a finding of their own: passing ones, and those after a stop."""
    passing = passing_loops(context)
    after = context.behind.subgraph(epilogue(context)).loops()
    return passing + [loop for loop in after if loop not in passing]


def _epilogues(context: CheckContext) -> None:
    passing = passing_loops(context)
    for loop in context.behind.subgraph(epilogue(context)).loops():
        if loop in passing or not context.whole(loop):
            continue
        opener = next(o for o in openers(context) if loop[0] in context.behind.onward(o))
        message = f"after the stop at `{opener}` it loops: {context.describe_loop(loop)}"
        hint = "lead every path after a stop straight to an end"
        context.say_of("CL312", context.spec.states[opener], message, hint=hint)


def _lost_returns(context: CheckContext) -> list[Edge]:
    """The edges with `return` that a run can take without a detour."""
    main = context.chart.main
    detours = {r.to for r in context.spec.rules if r.kind == "detour"}
    behind = context.own.onward(*detours)
    edges = [e for e in context.spec.edges() if e.target == RETURN]
    return [e for e in edges if e.source in main or e.source not in behind]


def _returns(context: CheckContext) -> None:
    for edge in _lost_returns(context):
        why = "can be" if edge.source in context.chart.main else "is only"
        message = f"`{edge.source}` has `next: return` but {why} entered without a detour"
        hint = "use `return` only after a rule with `to` and no `stop`"
        context.say("CL313", (*edge.path, "to"), message, hint=hint)


def _by_reason(context: CheckContext) -> None:
    """Report ends with the status of the reason that can be reached without a signal."""
    spec = context.spec
    for name in context.in_order(states_without_stop(context)):
        if spec.states[name].end == "by_reason":
            text = f"`{name}` can be reached with no reason to stop"
            hint = f"raise one on the way with `stop:` (`{HIGHEST}`: one that is raised already)"
            context.say_of("CL314", spec.states[name], text, hint=f"{hint}, or write another word")
