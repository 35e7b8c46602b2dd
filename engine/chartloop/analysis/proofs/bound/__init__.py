"""The worst that a run of a machine can cost, before it runs.

    costs             the resources of each action, wait and retry: at most, and at least
    budgets           the inequalities that guards impose on every run
    linear_program    the most that a walk through the graph can use within them
    child_bounds      the limits of child machines, and their bounds
    epilogue          what follows a stop
    problem           one machine under proof, with all of the above
    prove             the whole proof: the figure of each resource
    bound             the result: figures, reasons, witnesses, assumptions; a certificate
    unbounded_loops   the loops that no budget cuts, for the checker

A bound is a proven inequality, never an estimate: it holds in every run that meets its assumptions.
Where something cannot be known the bound is `unbounded` and says why.
"""

from __future__ import annotations

from chartloop.analysis.proofs.bound.bound import WORDS, Bound, Certificate, Figure, Overshoot, Wrap
from chartloop.analysis.proofs.bound.costs import Assume, KnownModel
from chartloop.analysis.proofs.bound.prove import EFFORT, bound

__all__ = [
    "EFFORT",
    "WORDS",
    "Assume",
    "Bound",
    "Certificate",
    "Figure",
    "KnownModel",
    "Overshoot",
    "Wrap",
    "bound",
]
