"""Whether guards can hold, together or at all: questions over the checked tree of expressions.

    tree ──formula──▶ literals ──solve──▶ no way | a way | too many
                          └──solver──▶ z3, where that did not settle it
    ask: one question, its answer (`NO`, `YES`, `UNKNOWN`) and, for a yes, values that show it

Nothing here knows states, rules or findings: `checker.unsatisfiable` and its neighbours ask.
"""
