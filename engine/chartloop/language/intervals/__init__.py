"""Interval arithmetic: the values that an expression may have, before any run.

    interval    ranges of numbers, truth values, words; the values of a type
    arithmetic  operators on ranges
    evaluate    an expression, from the known values of its facts

The proofs use it, to show whether guards can hold together and from which value of a counter on a
guard is decided. Pure.
"""
