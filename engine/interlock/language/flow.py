"""What is known when a state is reached: facts that cannot be None, and the type of the last
result.

A small data-flow analysis over a machine whose guards could be read but not yet trusted. For
every moment (entering a state, and after its action) it computes the facts that have a value
on *every* way there, and the one action whose result stands in `last.result`, if it is one.
It lets `errors.last.category` stand behind `errors.consecutive >= 3` without a test.

Source: design "language", sections 2 (`of`), 3 (None tests) and 6 (`last.result`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from interlock.core.types import Type, struct
from interlock.language.expression import Scope
from interlock.language.spec import RETURN, Edge, MachineSpec, StateSpec

Moment = Literal["entry", "after"]

STICKY = frozenset({"errors.last", "usage.cost", "progress.magnitude", "last.answer"})
"""Facts that never become None again once they have a value."""


class Known(NamedTuple):
    """What holds at one moment on every way to it. `None` for `results`: any action."""

    facts: frozenset[str]
    results: frozenset[str]
    """States whose action may have been the last one; the empty name: none has acted."""
    answers: frozenset[str]
    """Edges whose answer may be the newest; the empty name: none was given."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What is known at each moment of a machine."""

    entry: Mapping[str, Known]
    after: Mapping[str, Known]
    results: Mapping[str, Type] = field(default_factory=dict[str, Type])
    answers: Mapping[str, Type] = field(default_factory=dict[str, Type])

    def scope(self, scope: Scope, state: str, moment: Moment) -> Scope:
        """The scope of expressions at that moment."""
        known = (self.entry if moment == "entry" else self.after).get(state)
        if known is None:
            return scope
        typed = dict(scope.typed)
        if len(known.results) == 1 and (type := self.results.get(next(iter(known.results)))):
            typed["last.result"] = type
        if len(known.answers) == 1 and (type := self.answers.get(next(iter(known.answers)))):
            typed["last.answer"] = type
        return replace(scope, typed=typed).narrowed(scope.known | known.facts)


def flow(spec: MachineSpec) -> Flow:
    """Analyse a machine. Cost: a few passes over its edges."""
    ways = _ways(spec)
    nothing = Known(frozenset(), frozenset({""}), frozenset({""}))
    entry: dict[str, Known] = {spec.start: nothing}
    after: dict[str, Known] = {}
    pending = [spec.start]
    while pending:
        name = pending.pop()
        state = spec.states[name]
        left = _after(state, entry[name])
        after[name] = left
        for edge, target, gained in ways(state):
            known = left._replace(facts=left.facts | gained)
            if edge is not None and edge.role == "on":
                known = known._replace(
                    facts=known.facts | {"last.answer"}, answers=frozenset({edge.id})
                )
            joined = _join(entry.get(target), known)
            if joined != entry.get(target):
                entry[target] = joined
                pending.append(target)
    results = {n: s.action.result for n, s in spec.states.items() if s.action is not None}
    answers = {e.id: struct(dict(e.data), keyed=True) for e in spec.edges() if e.role == "on"}
    return Flow(entry, after, results, answers)


def _after(state: StateSpec, known: Known) -> Known:
    if state.action is None:
        return known
    return Known(known.facts & STICKY, frozenset({state.name}), known.answers)


def _join(a: Known | None, b: Known) -> Known:
    if a is None:
        return b
    return Known(a.facts & b.facts, a.results | b.results, a.answers | b.answers)


def _ways(spec: MachineSpec):
    """A function from a state to its ways on: (edge, target, facts known on that way)."""
    detours = [r for r in spec.rules if r.kind == "detour"]
    jumps = [(r, r.to) for r in spec.rules if r.to]
    if spec.on_stop:
        jumps += [(r, spec.on_stop) for r in spec.rules if r.stop and not r.to]
    returns = (
        {
            t
            for s in spec.states.values()
            for e in s.edges
            for t in (e.target,)
            if e.target != RETURN
        }
        if detours
        else set[str]()
    )

    def ways(state: StateSpec) -> list[tuple[Edge | None, str, frozenset[str]]]:
        out: list[tuple[Edge | None, str, frozenset[str]]] = []
        gained: frozenset[str] = frozenset()
        for edge in state.edges:
            here = gained
            if edge.when is not None:
                here, gained = gained | edge.when.implies(True), gained | edge.when.implies(False)
            if edge.role == "failed":
                here = here | {"last.error", "errors.last"}
            if edge.target == RETURN:
                out += [(None, t, frozenset()) for t in sorted(returns)]
            else:
                out.append((edge, edge.target, here))
        if state.action is not None:
            if spec.on_error is not None:
                out.append(
                    (spec.on_error, spec.on_error.target, frozenset({"last.error", "errors.last"}))
                )
        if state.rests and state.job != "end":
            out += [
                (None, to, r.when.implies(True))
                for r, to in jumps
                if not r.at or state.name in r.at
            ]
        return out

    return ways
