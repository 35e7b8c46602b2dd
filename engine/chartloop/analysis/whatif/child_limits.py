"""Children in a what-if: whether one would have been given another rest of a limit, and noticed.

A child gets at most what its parent has left of a limit that both name. Where that limit is
another, so is the child's, and its recorded outcome stands only if it came near neither: what is
held against such a limit only ever grows, so a child that ended below both rests never reached
one on its way.

Belongs here: the rest that a child is given. Never: what a child decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from chartloop.analysis.whatif.changed_inputs import told_otherwise
from chartloop.checker.unused import parts_of, reads_of
from chartloop.core.facts import Facts
from chartloop.core.records import Record
from chartloop.language.expression import Expression
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.machine.child_budget import budgets_of, rest

_TIMES = {"run.steps": "steps", "run.elapsed": "elapsed", "run.working": "elapsed"}
"""Where a child's result says what it used of a fact; of the time at work it says more."""


class Children:
    """The children of one machine, where the limits `names` are others."""

    def __init__(self, spec: MachineSpec, names: frozenset[str]) -> None:
        self.spec = spec
        self.given: dict[str, dict[str, frozenset[str]]] = {}
        """For each child the limits that it shares and that differ, with what they are held to."""
        for name, child in spec.machines.items():
            shared = {n: f for n, f in budgets_of(spec, child).items() if f"limits.{n}" in names}
            if shared:
                self.given[name] = shared

    def changed_allowance(self, record: Record, facts: Facts, limits: Mapping[str, Any]) -> str:
        """Why the children of an action might have done something else; empty if they would not.

        `facts` are those before it, with the limits of the question; `limits` those of then.
        """
        state = self.spec.states.get(record.state)
        if record.kind != "step" or state is None or not self._runs_one(state):
            return ""
        then = facts.replace(limits={**facts.limits, **limits})
        results = list(_results(record))
        for name in self._possible_children(state):
            child = self.spec.machines[name]
            for limit, read in self.given[name].items():
                message = f"its child `{child.name}` is given what is left of `limits.{limit}`"
                if not results or not _only_held(child, limit):
                    return message
                least = min(
                    rest(self.spec, child, one, len(results)).get(limit, 0) for one in (facts, then)
                )
                if any(_used(result, fact) >= least for result in results for fact in read):
                    return message
        return ""

    def _runs_one(self, state: StateSpec) -> bool:
        return bool(self.given) and state.traits.runs != "none"

    def _possible_children(self, state: StateSpec) -> Iterator[str]:
        named = state.args.get("machine")
        only = named.value if named is not None and named.kind == "constant" else None
        yield from (name for name in self.given if only is None or name == only)


def _results(record: Record) -> Iterator[Mapping[str, Any]]:
    """What children came to, as their parent's record has it. None where it does not say."""
    found: Any = record.outcome.result if record.outcome is not None else None
    if not isinstance(found, Mapping):
        return
    data = cast("Mapping[str, Any]", found)
    for one in data.get("children", (data,)):
        if isinstance(one, Mapping) and "usage" in one:
            yield cast("Mapping[str, Any]", one)


def _used(result: Mapping[str, Any], fact: str) -> float:
    """What a child used, at its end."""
    root, _, name = fact.partition(".")
    value = result["usage"].get(name) if root == "usage" else result.get(_TIMES.get(fact, ""))
    return 0 if value is None else value


def _only_held(child: MachineSpec, limit: str) -> bool:
    """Whether a child does nothing with a limit but hold a fact against it, and stop there."""
    name = f"limits.{limit}"
    if told_otherwise(child, frozenset({name})):
        return False
    for part, _ in parts_of(child):
        if isinstance(part, Expression) and name in reads_of(child, part):
            if not any(b.text == part.text and b.bound_text == name for b in part.bounds):
                return False
    return True
