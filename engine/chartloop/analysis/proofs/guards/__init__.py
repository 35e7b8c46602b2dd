"""Whether guards can hold, alone or together: questions about typed expression trees.

    tree ──formula──▶ literals ──decide──▶ refuted | not refuted | too much work
    prover: one question, its answer (`possible`) and, for a yes, values that show it
    implication: whether one condition on calls implies another; `boundaries`: arguments to try

Belongs here: expressions and facts. Never: states, rules, findings.
"""
