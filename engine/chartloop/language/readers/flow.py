"""Data-flow analysis: the facts that must have a value when a state is reached.

It runs on a machine that was read once, before its expressions are checked strictly. For every
moment (entering a state, and after its action) it computes the facts that have a value on *every*
path there, and the actions whose result may be in `last.result`. So `errors.last.category` needs
no test after `errors.consecutive >= 3`. A stop from outside is possible at any time and counts as a
path too, so that the result holds in every run.

Source: `docs/language.md`, "States" and "Expressions"; `docs/reference/facts.md`
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from chartloop.core.types import Type, struct
from chartloop.language.expression import Scope
from chartloop.language.expression.narrow import FAILED
from chartloop.language.spec import RETURN, Edge, MachineSpec, StateSpec

Moment = Literal["entry", "after"]

STICKY = frozenset({"errors.last", "usage.cost", "progress.magnitude", "last.answer"})
"""The facts that never become None again once they have a value."""


class Known(NamedTuple):
    """The conditions that hold at one moment on every path to it."""

    facts: frozenset[str]
    results: frozenset[str]
    """The states whose action may be the last one; the empty name stands for no action, or a
    failed one without a result."""
    answers: frozenset[str]
    """The edges whose answer may be the newest; the empty name stands for no answer."""
    failures: frozenset[str] = frozenset()
    """Those of `last.error` and `errors.last` that have a value on *some* path."""


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


def flow(
    spec: MachineSpec, starts: Iterable[str] = (), passing: Collection[str] | None = None, *,
    outside: bool = True,
) -> Flow:  # fmt: skip
    """Analyse a machine. The cost is a few passes over its edges.

    `starts` are the states at which a parent starts it, besides its entries; `passing` those whose
    failures may take the same edges as a success (default: all). Without `outside`, a state is
    only entered by the file's own edges and rules.
    """
    ways = _Ways(spec, outside)
    pending = dict.fromkeys((*spec.entries, *starts))
    entry: dict[str, Known] = dict.fromkeys(pending, NOTHING)
    after: dict[str, Known] = {}
    while pending:
        pending.pop(name := next(iter(pending)))
        state = spec.states[name]
        after[name] = _after(state, entry[name], passing is None or name in passing)
        for target, known in ways.of(state, entry[name], after[name]):
            before = entry.get(target)
            joined = known if before is None else _join(before, known)
            if joined is not before:
                entry[target] = joined
                pending[target] = None
    results = {n: s.result for n, s in spec.states.items() if s.action is not None}
    answers = {e.id: struct(dict(e.data), keyed=True) for e in spec.edges() if e.role == "on"}
    return Flow(entry, after, results, answers)


def _after(state: StateSpec, known: Known, passing: bool) -> Known:
    action = state.action
    if action is None:
        return known
    failures = known.failures - {"last.error"}
    if not action.is_builtin or state.traits.fails == "by_world":
        failures |= {"errors.last"}  # a tool call may fail within an action that succeeds
    if passing and (state.args or state.save or state.within or state.traits.fails != "never"):
        failures |= FAILED
    return Known(known.facts & STICKY, frozenset({state.name}), known.answers, failures)


def _after_failure(known: Known) -> Known:
    """The conditions after a failed action: an error, and no result."""
    return known._replace(facts=known.facts | FAILED, results=frozenset({""}), failures=FAILED)


def _after_answer(known: Known, edge: Edge) -> Known:
    return known._replace(facts=known.facts | {"last.answer"}, answers=frozenset({edge.id}))


def _join(a: Known, b: Known) -> Known:
    """What holds on both; `a` itself if that is all of `a`."""
    if (
        a.facts <= b.facts and b.results <= a.results and b.answers <= a.answers
        and b.failures <= a.failures
    ):  # fmt: skip
        return a
    return Known(
        a.facts & b.facts, a.results | b.results, a.answers | b.answers, a.failures | b.failures
    )


class _Ways:
    """The paths out of each state, with the known facts on each."""

    def __init__(self, spec: MachineSpec, outside: bool) -> None:
        self.spec = spec
        self.jumps = [(r, r.to, r.when.implies(True)) for r in spec.rules if r.to]
        self.stops = [
            n for n, s in spec.states.items()
            if outside and (s.stop or s.end == "by_reason" or n == spec.on_stop)
        ]  # fmt: skip
        """The targets of a stop without its own: of a rule, or from outside."""
        detours = any(r.kind == "detour" for r in spec.rules)
        targets = {e.target for e in spec.edges()} | {*spec.entries}
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
            for rule, to, gained in self.jumps:
                if set(rule.before) & {e.target for e in state.edges}:
                    yield to, known._replace(facts=known.facts | gained)
            return
        for rule, to, gained in self.jumps:
            if not rule.at or state.name in rule.at:
                yield (
                    to,
                    known if gained <= known.facts else known._replace(facts=known.facts | gained),
                )
        stopped = known._replace(failures=FAILED)
        for name in self.stops:
            yield name, stopped
