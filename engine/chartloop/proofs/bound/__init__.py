"""The worst that a run of a machine can cost, before it runs.

    spending   what each action, wait and retry may use at most, and surely uses at least
    budgets    what the guards leave: inequalities that hold in every run
    program    the most that a walk through the graph can use within them
    prove      the whole of it, for one machine with its children
    result     what came of it: figures, reasons, witnesses, assumptions; a certificate

A bound is an inequality that is proven, never an estimate: it holds in every run in which its
assumptions do. Where something cannot be known the bound is `unbounded`, and says why.
"""

from __future__ import annotations

from chartloop.proofs.bound.bound import Bound, Figure, Overshoot, Wrap
from chartloop.proofs.bound.costs import Assume, KnownModel
from chartloop.proofs.bound.prove import EFFORT, bound

__all__ = ["EFFORT", "Assume", "Bound", "Figure", "KnownModel", "Overshoot", "Wrap", "bound"]
