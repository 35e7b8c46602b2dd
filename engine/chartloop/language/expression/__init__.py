"""The guard language: a small, typed, total subset of Python expressions.

`parse` checks a text against a `Scope` and gives an `Expression`, or raises an
`ExpressionFault` that says code, place and cure. Nothing is compiled before it is checked, and
nothing that is compiled can do more than read facts.

    text ──syntax──▶ ast ──check──▶ tree ──compile──▶ function
                                      ├──monotone──▶ direction, kind
                                      ├──narrow────▶ what is known not to be None
                                      └──reading───▶ atoms, margins, bounds

Source: design "language", section 3
"""

from chartloop.language.expression.atoms import Bound, Reading
from chartloop.language.expression.expression import (
    Direction,
    Expression,
    GuardFailed,
    fuse,
    parse,
    widen,
)
from chartloop.language.expression.runtime import GUARD_ERRORS, Oracle, no_oracle
from chartloop.language.expression.scope import ExpressionFault, Scope

__all__ = [
    "GUARD_ERRORS",
    "Bound",
    "Direction",
    "Expression",
    "ExpressionFault",
    "GuardFailed",
    "Oracle",
    "Reading",
    "Scope",
    "fuse",
    "no_oracle",
    "parse",
    "widen",
]
