"""The budgets that a run leaves for its children: the remainder of each one that both name.

A budget is a limit that a guard compares with a fact that only grows, ``usage.total_tokens >=
limits.tokens``: its remainder is the limit minus the fact. Other limits (an error rate, a number of
repeats) are thresholds, which have no remainder: a child keeps its own.

Source: docs/language.md, "Child machines".
"""

from __future__ import annotations

from typing import Any

from chartloop.core.facts import FACTS, Facts
from chartloop.core.fold import lookup
from chartloop.language.spec import MachineSpec

AT_ONCE = 16
"""The most children of one action that run at the same time."""
OWN = frozenset({"run.elapsed", "run.working", "run.steps"})
"""The facts that children do not add to their parent's: time passes for all at once, and a child
counts as one step."""
SPENT = OWN.union(n for n, fact in FACTS.items() if n.startswith("usage.") and fact.type.grows)
"""The facts whose budgets a child shares with its parent."""


def rest(parent: MachineSpec, child: MachineSpec, facts: Facts, among: int = 1) -> dict[str, Any]:
    """Return the remainder of each budget that both machines name, in the child's unit.

    `among` children run at once: they share what they spend, but each gets all of the time and
    steps.
    """
    out: dict[str, Any] = {}
    for name, read in budgets_of(parent, child).items():
        value = facts.limits.get(name)
        if value is None:
            continue
        left = min(max(value - (lookup(facts, fact) or 0), 0) for fact in read)
        shared = among if not read & OWN else 1
        out[name] = left // shared if isinstance(left, int) else left / shared
    return out


def budgets_of(parent: MachineSpec, child: MachineSpec) -> dict[str, frozenset[str]]:
    """Return the budgets that both machines name, each with the facts compared with it."""
    out: dict[str, frozenset[str]] = {}
    for name in parent.limits.keys() & child.limits.keys():
        kinds = {parent.limits[name].type.kind, child.limits[name].type.kind}
        bounds = [b for spec in (parent, child) for g in spec.guards() for b in g.bounds]
        read = SPENT.intersection(b.fact for b in bounds if b.bound_text == f"limits.{name}")
        if len(kinds) == 1 and read:
            out[name] = read
    return out


def spent_reason(limit: str, *specs: MachineSpec) -> str:
    """Return the reason for which a run stops at that limit, from the first rule about it.

    The specs are the child's, then its parent's. A reason that the child lacks is skipped.
    """
    text = f"limits.{limit}"
    for spec in specs:
        for rule in spec.rules:
            if any(b.bound_text == text for b in rule.when.bounds):
                reason = rule.stop or rule.signal
                if reason and reason in specs[0].reasons:
                    return reason
    return "token_limit"
