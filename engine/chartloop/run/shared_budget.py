"""A budget shared by the children of one action, checked before each child starts or pays.

Each child has its own limit, a share of its parent's remainder. With these limits alone, every
child could exceed its share by one call. So they share a budget: once it is spent, no further child
starts, and none makes another call that costs. Only calls then in flight, one for each child, can
exceed it.

Belongs here: what is left, and which child may continue. Never: a call, a clock.

Source: docs/language.md, "Child machines".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chartloop.core.facts import Facts
from chartloop.core.fold import lookup
from chartloop.core.specs import ActionSpec, Effect
from chartloop.language.spec import MachineSpec
from chartloop.machine.child_budget import OWN, budgets_of, spent_reason
from chartloop.run.session import PARENT, StopRequest


class Budget(NamedTuple):
    """One shared limit."""

    left: float
    """The amount that the parent had left when its action started."""
    facts: frozenset[str]
    """The facts that count against it."""


class SharedBudget:
    """The remaining budgets that a parent shares with several children."""

    def __init__(self, parent: MachineSpec, facts: Facts) -> None:
        self.parent = parent
        self.facts = facts
        self._budgets: dict[str, dict[str, Budget]] = {}
        self._spent: dict[str, float] = {}
        self._seen: dict[str, Mapping[str, float]] = {}

    def budgets(self, child: MachineSpec) -> Mapping[str, Budget]:
        """The budgets that a child of this machine shares, by name of the limit."""
        known = self._budgets.get(child.name)
        if known is None:
            known = self._budgets[child.name] = {}
            for name, facts in budgets_of(self.parent, child).items():
                limit = self.facts.limits.get(name)
                if limit is not None and not facts & OWN:
                    left = min(limit - (lookup(self.facts, fact) or 0) for fact in facts)
                    known[name] = Budget(left, facts)
        return known

    def count(self, run_id: str, facts: Facts) -> None:
        """Count what a child has spent so far."""
        usage = facts.usage
        if not usage.llm_calls and not usage.tool_calls:
            return
        shared = (b.facts for budgets in self._budgets.values() for b in budgets.values())
        now = {fact: lookup(facts, fact) or 0 for fact in frozenset[str]().union(*shared)}
        before = self._seen.get(run_id, {})
        for fact, value in now.items():
            self._spent[fact] = self._spent.get(fact, 0) + value - before.get(fact, 0)
        self._seen[run_id] = now

    def refuses(self, child: MachineSpec) -> StopRequest | None:
        """Why a child of this machine may not spend more; None while it may."""
        for name, budget in self.budgets(child).items():
            if any(self._spent.get(fact, 0) >= budget.left for fact in budget.facts):
                message = f"`limits.{name}`, which it shares with other children, is spent"
                reason = spent_reason(name, child, self.parent)
                return StopRequest(reason, message, PARENT)
        return None


def pays(action: ActionSpec | None) -> bool:
    """Whether an action may spend: by itself, by a model, or by its own children."""
    if action is None:
        return False
    return (
        action.effect is Effect.PAID
        or action.own_deadline
        or "model" in action.uses | action.may_use
    )


def say_unbegun(count: int, among: int, request: StopRequest) -> str:
    """The parent's note on children that were not started."""
    return f"{count:,} of {among:,} children were not started: {request.message}"
