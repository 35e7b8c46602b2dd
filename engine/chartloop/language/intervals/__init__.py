"""The values that an expression may have before a run: the one interval arithmetic of the checker.

    values      ranges of numbers, yes-or-no, words; what is known of a type
    arithmetic  operators on ranges: how the ends of a result follow from the ends of its parts
    judging     an expression, from what is known of its facts

Both proofs use it: `proof`, which asks whether guards can hold together, and `paths`, which
asks from which value of a counter on a guard is decided. Pure.
"""
