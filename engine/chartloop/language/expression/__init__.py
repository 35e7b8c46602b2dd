"""The guard language: a small, typed, total subset of Python expressions.

`parse` checks a text against a `Scope` and returns an `Expression`, or raises an
`ExpressionFault` with code, place and cure. Only checked expressions are compiled, and compiled
code can only read facts.

    text ──syntax──▶ ast ──check──▶ tree ──compile──▶ function
                                      ├──monotone──▶ direction, kind
                                      ├──narrow────▶ paths that cannot be None
                                      └──atoms─────▶ atoms, margins, bounds

Source: `docs/language.md`, "Expressions"
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
