"""Whether guards can hold, alone or together: questions about typed expression trees.

    tree ──formula──▶ literals ──decide──▶ refuted | not refuted | too much work
                          └──z3_solver──▶ z3, where that did not settle it
    prover: one question, its answer (`possible`) and, for a yes, values that show it

Belongs here: expressions and facts. Never: states, rules, findings.
"""
