"""The language of machine files: text to spec, or to all findings at once.

    text ──yaml──▶ document ──file──▶ shapes ──readers──▶ spec        `load` does all of it
                                                │
                            expression, template, label: the contents of values

`dump` converts a spec back to plain data, and to the canonical text that is hashed. Pure: no file
is read here.
"""
