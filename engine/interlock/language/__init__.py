"""From text to spec: what a machine file says, or everything that is wrong with it.

    text ──yaml──▶ document ──file──▶ shapes ──readers──▶ spec        load goes all the way
                                                │
                            expression, template, label: what stands inside values

`dump` writes a spec as canonical text, and as YAML for people. Pure: it reads no file.
"""
