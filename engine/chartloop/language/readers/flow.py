"""Data-flow analysis: the facts that must have a value when a state is reached.

It runs on a machine that was read once, before its expressions are checked strictly. For every
moment (entering a state, and after its action) it computes the facts that have a value on *every*
path there, and the actions whose result may be in `last.result`. So `errors.last.category` needs
no test after `errors.consecutive >= 3`. A stop from outside is possible at any time and counts as a
path too, so that the result holds in every run.

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
"""The facts that never become None again once they have a value."""

_FAILED = frozenset({"last.error", "errors.last"})


class Known(NamedTuple):
    """The conditions that hold at one moment on every path to it."""

    facts: frozenset[str]
    results: frozenset[str]
    """The states whose action may be the last one; the empty name stands for no action, or a
    failed one without a result."""
    answers: frozenset[str]
    """The edges whose answer may be the newest; the empty name stands for no answer."""


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
        if (result := _one_type(known.results, self.results)) is not None:
            typed["last.result"] = result
        if (answer := _one_type(known.answers, self.answers)) is not None:
            typed["last.answer"] = answer
        return replace(scope, typed=typed).narrow(known.facts)


def _one_type(names: frozenset[str], types: Mapping[str, Type]) -> Type | None:
    """The common type of all names; None if they differ, or one has no type."""
    distinct = {types.get(name) for name in names}
    return distinct.pop() if len(distinct) == 1 else None


def flow(spec: MachineSpec) -> Flow:
    """Analyse a machine. The cost is a few passes over its edges."""
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
    """The paths out of each state, with the known facts on each."""

    def __init__(self, spec: MachineSpec) -> None:
        self.spec = spec
        self.jumps = [(r, r.to) for r in spec.rules if r.to]
        self.stops = [
            n for n, s in spec.states.items() if s.stop or s.end == "by_reason" or n == spec.on_stop
        ]
        """The targets of a stop without its own: of a rule, or from outside."""
        detours = any(r.kind == "detour" for r in spec.rules)
        targets = {e.target for e in spec.edges()} | {spec.start}
        if spec.on_error is not None:
            targets.add(spec.on_error.target)
        self.returns = sorted(targets - {RETURN}) if detours else []

    def of(self, state: StateSpec, entry: Known, after: Known) -> Iterator[tuple[str, Known]]:
        """The states that a run can reach from a state, with the known facts."""
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
        """For each trigger, the facts that are known because the earlier edges did not hold."""
        for edge in state.edges:
            known = after
            if edge.role in ("failed", "expired") and state.action is not None:
                known = _after_failure(after)
                if edge.role == "expired" and state.traits.runs in ("one", "several"):
                    known = known._replace(results=after.results)  # what the children came to
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
        """The paths of rules, which are evaluated wherever the run rests, and of outside stops."""
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
