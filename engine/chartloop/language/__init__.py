"""From text to spec: what a machine file says, or everything that is wrong with it.

    text ──yaml──▶ document ──file──▶ shapes ──readers──▶ spec        load goes all the way
                                                │
                            expression, template, label: what is inside values

`dump` goes back: a spec as plain data, and as the canonical text that its hash is of. Pure: no file
is read here.
"""
