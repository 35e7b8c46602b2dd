"""What can be reached, what ends, and how a run comes to its end.

Source: design "language", sections 2 (the epilogue, `next: return`) and 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chartloop.checker.check_context import Subject, loops
from chartloop.language.expression.tree import Compare, Fact, Logic, Node, facts_of
from chartloop.language.spec import HIGHEST, RETURN, Edge
from chartloop.machine.abstract.counters import Again, Counting


def check_structure(subject: Subject) -> None:
    """Reachability, dead ends, ways to an end, epilogues, returns, ends by reason."""
    _reachability(subject)
    _no_end(subject)
    _epilogues(subject)
    _returns(subject)
    _by_reason(subject)


# reachability -------------------------------------------------------------------------------


def passing_loops(subject: Subject) -> list[list[str]]:
    """Loops of states that only pass or decide; behind a stop they are the epilogue's."""
    states = subject.spec.states
    moving = [n for n, s in states.items() if not s.rests and not s.stop]
    graph = subject.own.subgraph(moving)
    again = Counting(subject.spec).again
    while again and (ending := [e for part in loops(graph) for e in _ending(subject, part, again)]):
        graph = graph.without(ending)
    return loops(graph)


def _ending(
    subject: Subject, part: list[str], counted: Sequence[Again]
) -> Iterator[tuple[str, str]]:
    """Edges of a loop that cannot be taken for ever: each counts up to a value that stays."""
    spec = subject.spec
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
    """Whether a guard asks that the variable is below something that nothing here writes."""
    if isinstance(guard, Logic) and guard.op == "and":
        return any(_stays_below(part, again, written) for part in guard.parts)
    if not isinstance(guard, Compare) or len(guard.links) != 1 or guard.links[0].op != "<":
        return False
    counts = isinstance(guard.first, Fact) and guard.first.path == again.variable
    return counts and not facts_of(guard.links[0].right).keys() & written


def _dead_ends(subject: Subject) -> list[str]:
    """States where a run would be stuck."""
    states = subject.spec.states.items()
    return [n for n, s in states if s.job != "end" and not s.edges and subject.whole([n])]


def _islands(subject: Subject) -> list[list[str]]:
    """What is never reached, in parts; each part begins with a state that would open it."""
    missed = [n for n in subject.spec.states if n not in subject.reached]
    parts = subject.ways.subgraph(missed).parts()
    out: list[list[str]] = []
    for part in parts.graph:
        if not parts.graph.predecessors(part):
            behind = parts.graph.onward(part)
            first = subject.in_order(parts.members[part])[0]
            rest = {n for p in behind for n in parts.members[p]} - {first}
            out.append([first, *subject.in_order(rest)])
    return sorted(out, key=lambda names: subject.order[names[0]])


def _reachability(subject: Subject) -> None:
    """Dead ends and unreachable states.

    A single way that is missing and a single part that is cut off are one mistake.
    """
    dead, islands = _dead_ends(subject), _islands(subject)
    stuck = [n for n in dead if n in subject.reached]
    circling = [c for c in _circles(subject) if set(c) & subject.reached]
    lost = len(subject.unread.ways) + len(stuck) + len(circling) + len(_lost_returns(subject))
    one = lost == 1 and len(islands) == 1
    for name in dead:
        hint = "add `next`, or make it an end with `end: completed`"
        if one and stuck == [name]:
            hint = f"add `next: {islands[0][0]}`, which nothing reaches, or make it an end"
        subject.say_of(
            "CL305", subject.spec.states[name], f"state `{name}` has no way on", hint=hint
        )
    for first, *behind in [] if one else islands:
        said = f"state `{first}` is never reached"
        if behind:
            more = f" and {len(behind) - 3} more" if len(behind) > 3 else ""
            said += f", nor {', '.join(f'`{n}`' for n in behind[:3])}{more} behind it"
        hint = "lead an edge to it, or remove it"
        subject.say_of("CL304", subject.spec.states[first], said, hint=hint)


def _no_end(subject: Subject) -> None:
    """Parts of the machine that a run never leaves. What is stuck anyway is not said again."""
    states = subject.spec.states
    leading = {n for n, s in states.items() if s.job == "end" or not s.edges}
    leading |= {n for n in states if not subject.whole([n])}
    leading |= {n for circle in _circles(subject) for n in circle}
    leading |= {e.source for e in subject.spec.edges() if e.target == RETURN}
    # a rule without a target of the file's own ends at the engine's own end
    leading |= {t.source for t in subject.rules if t.dest not in states}
    for name in list(leading):
        leading |= subject.ways.leading_to(name)
    left = subject.in_order(subject.reached - leading)
    if left and not subject.unread.ways:
        also = f", nor from {', '.join(f'`{n}`' for n in left[1:4])}" if left[1:] else ""
        said = f"from `{left[0]}` no end can be reached{also}"
        hint = "lead a path to an end, or add a stop rule"
        subject.say_of("CL319", states[left[0]], said, hint=hint)


# epilogues ----------------------------------------------------------------------------------


def openers(subject: Subject) -> list[str]:
    """The states that begin an epilogue."""
    spec = subject.spec
    found = {n for n, s in spec.states.items() if s.stop}
    found |= subject.stopping & spec.states.keys()
    found |= {r.to for r in spec.rules if r.stop and r.to}
    return subject.in_order(found | ({spec.on_stop} if spec.on_stop else set()))


def epilogue(subject: Subject) -> set[str]:
    """The states that a run can be in after a stop."""
    return {n for o in openers(subject) for n in subject.behind.onward(o)}


def states_without_stop(subject: Subject) -> set[str]:
    """The states that a run can be in while it has no reason to stop."""
    spec, before = subject.spec, subject.before
    starts = {spec.start} | {r.to for r in spec.rules if r.kind == "detour"}
    return {n for s in starts if s in before for n in before.onward(s)}


def _circles(subject: Subject) -> list[list[str]]:
    """Loops that have a finding of their own: passing ones, and those behind a stop."""
    passing = passing_loops(subject)
    after = loops(subject.behind.subgraph(epilogue(subject)))
    return passing + [c for c in after if c not in passing]


def _epilogues(subject: Subject) -> None:
    passing = passing_loops(subject)
    for circle in loops(subject.behind.subgraph(epilogue(subject))):
        if circle in passing or not subject.whole(circle):
            continue
        opener = next(o for o in openers(subject) if circle[0] in subject.behind.onward(o))
        said = f"after the stop at `{opener}` it goes round in a circle: {subject.circle(circle)}"
        hint = "lead every path behind a stop straight to an end"
        subject.say_of("CL312", subject.spec.states[opener], said, hint=hint)


def _lost_returns(subject: Subject) -> list[Edge]:
    """`return` where no detour comes by."""
    main = subject.chart.main
    detours = {r.to for r in subject.spec.rules if r.kind == "detour"}
    behind = {n for d in detours for n in subject.own.onward(d)}
    edges = [e for e in subject.spec.edges() if e.target == RETURN]
    return [e for e in edges if e.source in main or e.source not in behind]


def _returns(subject: Subject) -> None:
    for edge in _lost_returns(subject):
        why = "other than by a detour" if edge.source in subject.chart.main else "by no detour"
        said = f"`{edge.source}` says `return` and is entered {why}"
        hint = "use `return` only behind a rule with `to` and no `stop`"
        subject.say("CL313", (*edge.path, "to"), said, hint=hint)


def _by_reason(subject: Subject) -> None:
    """Ends that take the reason's status need a signal on every way there."""
    spec = subject.spec
    for name in subject.in_order(states_without_stop(subject)):
        if spec.states[name].end == "by_reason":
            said = f"`{name}` can be reached with no reason to stop"
            hint = f"raise one on the way with `stop:` (`{HIGHEST}`: one that is raised already)"
            subject.say_of("CL314", spec.states[name], said, hint=f"{hint}, or write another word")
