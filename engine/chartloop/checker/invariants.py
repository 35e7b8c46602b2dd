"""What holds at a state by whichever way it was come to: steps were taken, no signal waits.

Most of what is known where a guard is evaluated comes by the ways that lead there, and is
`knowledge`. Two things do not: behind an action at least one has finished; and where signals stop
the run at once, none is there when edges are evaluated, but in an epilogue.
"""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.checker.check_context import CheckContext
from chartloop.checker.structure import epilogue
from chartloop.core.facts import FACTS
from chartloop.core.types import BOOL, INT, NONE, STR
from chartloop.language.expression.tree import Compare, Const, Fact, Link, Step
from chartloop.language.spec import Rule, StateSpec
from chartloop.proofs.guards.prover import Claim


def _claim(fact: str, op: str, value: Const) -> Claim:
    root, field = fact.split(".")
    steps = (Step(root, False), Step(field, False))
    node = Fact(FACTS[fact].type, fact, fact, steps)
    return Claim(Compare(BOOL, f"{fact} {op} {value.text}", node, (Link(op, value),)))


BEGUN = _claim("run.steps", ">=", Const(INT, "1", 1))
QUIET = {
    "signals.count": _claim("signals.count", "==", Const(INT, "0", 0)),
    "signals.top": _claim("signals.top", "is", Const(NONE, "None", None)),
    "signals.status": _claim("signals.status", "==", Const(STR, '"completed"', "completed")),
}
"""What signals are while none is raised."""


class Standing:
    """What holds at each state of one machine, and where each rule is evaluated."""

    def __init__(self, context: CheckContext) -> None:
        spec = context.spec
        self._spec, self._acting = spec, context.chart.acting
        self._sources: dict[str, set[str]] = {}
        for t in context.chart.step.transitions():
            self._sources.setdefault(t.dest or "", set()).add(t.source)
        self._begins = {spec.start, *context.starts}
        self._opened = context.opened - self._begins
        self._fresh = self._entered_before_any_action(context)
        stopping = all(rule.kind != "signal" for rule in spec.rules) and context.signals_stop
        forks = any(state.all for state in spec.states.values())
        quiet = stopping and not forks
        self._quiet = spec.states.keys() - epilogue(context) if quiet else set[str]()

    def _entered_before_any_action(self, context: CheckContext) -> set[str]:
        """The states that a run may be in although no action has finished."""
        states, found = self._spec.states, set[str]()
        pending = [n for n in (*self._begins, *context.opened) if n in states]
        while pending:
            name = str(pending.pop())
            if name not in found:
                found.add(name)
                if name not in self._acting:
                    pending += [e.target for e in states[name].edges if e.target in states]
        return found

    def at(self, state: StateSpec) -> Iterator[Claim]:
        """What guards of a state's edges may rest on, if they read it."""
        guards = [e.when for e in state.edges if e.when is not None]
        guards += [state.of] if state.of is not None else []
        reads = {r for g in guards for r in g.reads}
        if "run.steps" in reads and (state.name in self._acting or state.name not in self._fresh):
            yield BEGUN
        if state.name in self._quiet:
            yield from (QUIET[name] for name in sorted(reads & QUIET.keys()))

    def at_rule(self, rule: Rule) -> Iterator[Claim]:
        """The same for the guard of a rule."""
        places = (*rule.at, *rule.before)
        looked_at_late = self._only_after if rule.at else self._only_before_entries_behind
        if places and "run.steps" in rule.when.reads and all(map(looked_at_late, places)):
            yield BEGUN

    def _only_after(self, name: str) -> bool:
        return name not in self._fresh

    def _only_before_entries_behind(self, name: str) -> bool:
        """Whether every edge into a state is taken after some action.

        The start is entered before rules are evaluated; where it acts, they are before it does.
        """
        if name in self._opened or (name in self._fresh and name in self._acting):
            return False
        idle = self._fresh - self._acting
        back = any(e.target == "return" for n in idle for e in self._spec.states[n].edges)
        return not back and not self._sources.get(name, set[str]()) & idle
