"""Knowledge of facts at each state: what must hold when it is reached.

A small data-flow analysis over a machine whose guards could be read but not yet trusted. For
every moment (entering a state, and after its action) it computes the facts that have a value
on *every* way there, and whose result is in `last.result`. It lets `errors.last.category`
are behind `errors.consecutive >= 3` without a test. What may come from outside at any time, a
cancel or a pause, counts as a way too: what holds here holds in every run.

Source: design "language", sections 2 (`of`), 3 (None tests) and 6 (`last.result`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from chartloop.core.types import Type, struct
from chartloop.language.expression import Scope
from chartloop.language.spec import RETURN, Edge, MachineSpec, Rule, StateSpec

Moment = Literal["entry", "after"]

STICKY = frozenset({"errors.last", "usage.cost", "progress.magnitude", "last.answer"})
"""Facts that never become None again once they have a value."""

_FAILED = frozenset({"last.error", "errors.last"})


class Known(NamedTuple):
    """The conditions that hold at one moment on every path to it."""

    facts: frozenset[str]
    results: frozenset[str]
    """States whose action may have been the last one; the empty name: none has acted, or it
    failed and left no result."""
    answers: frozenset[str]
    """Edges whose answer may be the newest; the empty name: none was given."""


NOTHING = Known(frozenset(), frozenset({""}), frozenset({""}))


@dataclass(frozen=True, slots=True)
class Flow:
    """The conditions known at each moment of a machine."""

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
        if (found := _one_type(known.results, self.results)) is not None:
            typed["last.result"] = found
        if (found := _one_type(known.answers, self.answers)) is not None:
            typed["last.answer"] = found
        return replace(scope, typed=typed).narrow(known.facts)


def _one_type(names: frozenset[str], types: Mapping[str, Type]) -> Type | None:
    """The type that all of them have; None when they differ, or one has none."""
    found = {types.get(name) for name in names}
    return found.pop() if len(found) == 1 else None


def flow(spec: MachineSpec) -> Flow:
    """Analyse a machine. Cost: a few skips its edges."""
    ways = _Ways(spec)
    entry: dict[str, Known] = {spec.start: NOTHING}
    after: dict[str, Known] = {}
    pending = [spec.start]
    while pending:
        name = pending.pop()
        state = spec.states[name]
        after[name] = _after(state, entry[name])
        for target, known in ways.of(state, entry[name], after[name]):
            joined = _join(entry.get(target), known)
            if joined != entry.get(target):
                entry[target] = joined
                pending.append(target)
    results = {n: s.result for n, s in spec.states.items() if s.action is not None}
    answers = {e.id: struct(dict(e.data), keyed=True) for e in spec.edges() if e.role == "on"}
    return Flow(entry, after, results, answers)


def _after(state: StateSpec, known: Known) -> Known:
    if state.action is None:
        return known
    return Known(known.facts & STICKY, frozenset({state.name}), known.answers)


def _after_failure(known: Known) -> Known:
    """The conditions after a failed action: an error, and no result."""
    return known._replace(facts=known.facts | _FAILED, results=frozenset({""}))


def _after_answer(known: Known, edge: Edge) -> Known:
    return known._replace(facts=known.facts | {"last.answer"}, answers=frozenset({edge.id}))


def _join(a: Known | None, b: Known) -> Known:
    if a is None:
        return b
    return Known(a.facts & b.facts, a.results | b.results, a.answers | b.answers)


class _Ways:
    """The ways on from each state, with what is known on each."""

    def __init__(self, spec: MachineSpec) -> None:
        self.spec = spec
        self.jumps = [(r, r.to) for r in spec.rules if r.to]
        self.stops = [
            n for n, s in spec.states.items() if s.stop or s.end == "by_reason" or n == spec.on_stop
        ]
        """Where a stop without its own target may lead: a rule's, or one from outside."""
        detours = any(r.kind == "detour" for r in spec.rules)
        targets = {e.target for e in spec.edges()} | {spec.start}
        if spec.on_error is not None:
            targets.add(spec.on_error.target)
        self.returns = sorted(targets - {RETURN}) if detours else []

    def of(self, state: StateSpec, entry: Known, after: Known) -> Iterator[tuple[str, Known]]:
        """Where a run can go from a state, and what is known there."""
        yield from self._edges(state, after)
        if state.job == "end":
            return
        if state.action is not None and self.spec.on_error is not None:
            yield self.spec.on_error.target, _after_failure(after)
        if state.attempts:
            yield state.name, _after_failure(after)
        moments = [entry, after] if state.action is not None else [after]
        moments += [_after_answer(after, e) for e in state.edges_of("on")]
        if state.action is not None:
            moments.append(_after_failure(after))
        for known in moments:
            yield from self._outside(state, known)

    def _edges(self, state: StateSpec, after: Known) -> Iterator[tuple[str, Known]]:
        refuted: dict[str, frozenset[str]] = {}
        """For each trigger, what is known because the edges before did not hold."""
        for edge in state.edges:
            known = after
            if edge.role in ("failed", "expired") and state.action is not None:
                known = _after_failure(after)
            if edge.role == "on":
                known = _after_answer(known, edge)
            gained = refuted.get(edge.trigger, frozenset())
            if edge.when is not None:
                refuted[edge.trigger] = gained | edge.when.implies(False)
                gained |= edge.when.implies(True)
            known = known._replace(facts=known.facts | gained)
            for target in self.returns if edge.target == RETURN else [edge.target]:
                yield target, known

    def _outside(self, state: StateSpec, known: Known) -> Iterator[tuple[str, Known]]:
        """Rules, which are looked at wherever the run rests, and signals from outside."""
        if not state.rests and state.name != self.spec.start:
            for rule, to in self.jumps:
                if set(rule.before) & {e.target for e in state.edges}:
                    yield to, known._replace(facts=known.facts | rule.when.implies(True))
            return
        for rule, to in self.jumps:
            if _covers(rule, state):
                yield to, known._replace(facts=known.facts | rule.when.implies(True))
        for name in self.stops:
            yield name, known


def _covers(rule: Rule, state: StateSpec) -> bool:
    return not rule.at or state.name in rule.at
