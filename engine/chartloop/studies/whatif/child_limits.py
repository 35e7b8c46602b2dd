"""Child machines in a what-if: whether a changed limit would have changed a child's outcome.

A child gets at most the rest of its parent's limit if both name that limit. A changed limit changes
that rest; the recorded outcome holds only if the child stayed below both rests. Its counters only
grow, so a child that ended below both never reached one before.

Belongs here: the rest that a child gets. Never: a child's decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chartloop.analysis.checker.check_context import parts_of, reads_of
from chartloop.core.facts import Facts
from chartloop.core.outcome import child_results
from chartloop.core.records import Record
from chartloop.language.expression import Expression
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.machine.child_budget import budgets_of, rest
from chartloop.studies.whatif.changed_inputs import changed_inputs

_TIMES = {"run.steps": "steps", "run.elapsed": "elapsed", "run.working": "elapsed"}
"""The keys of a child's result for these facts; for the time at work, an upper bound."""


class Children:
    """The children of one machine; `names` are the facts that the question changes."""

    def __init__(self, spec: MachineSpec, names: frozenset[str]) -> None:
        self.spec = spec
        self.budgets: dict[str, dict[str, frozenset[str]]] = {}
        """For each child the changed limits that it shares, with the facts compared with them."""
        for name, child in spec.machines.items():
            shared = {n: f for n, f in budgets_of(spec, child).items() if f"limits.{n}" in names}
            if shared:
                self.budgets[name] = shared

    def changed_allowance(self, record: Record, facts: Facts, limits: Mapping[str, Any]) -> str:
        """Why the children of an action might have acted differently; empty if they would not.

        `facts` are those before the action, with the question's limits; `limits` the recorded ones.
        """
        state = self.spec.states.get(record.state)
        runs_one = state is not None and state.traits.runs != "none" and bool(self.budgets)
        if record.kind != "step" or state is None or not runs_one:
            return ""
        recorded = facts.replace(limits={**facts.limits, **limits})
        results = [] if record.outcome is None else [*child_results(record.outcome.result)]
        for name in self._possible_children(state):
            child = self.spec.machines[name]
            for limit, counters in self.budgets[name].items():
                message = f"its child `{child.name}` is given what is left of `limits.{limit}`"
                if not results or not _only_compares(child, limit):
                    return message
                least = min(
                    rest(self.spec, child, one, len(results)).get(limit, 0)
                    for one in (facts, recorded)
                )
                if any(_used(result, fact) >= least for result in results for fact in counters):
                    return message
        return ""

    def _possible_children(self, state: StateSpec) -> Iterator[str]:
        yield from (name for name in self.spec.children_of(state) if name in self.budgets)


def _used(result: Mapping[str, Any], fact: str) -> float:
    """The final value of a child's fact."""
    root, _, name = fact.partition(".")
    value = result["usage"].get(name) if root == "usage" else result.get(_TIMES.get(fact, ""))
    return 0 if value is None else value


def _only_compares(child: MachineSpec, limit: str) -> bool:
    """Whether a child only compares facts with a limit."""
    name = f"limits.{limit}"
    if changed_inputs(child, frozenset({name})):
        return False
    for part, _ in parts_of(child):
        if isinstance(part, Expression) and name in reads_of(child, part):
            if not any(b.text == part.text and b.bound_text == name for b in part.bounds):
                return False
    return True
