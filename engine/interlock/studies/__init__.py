"""Questions to many recorded runs: what if a limit had been another, what do they have in common.

Belongs here: values and what is computed from records by `evolve`. Never: reading (that is
`run.recorded`), printing on a terminal, effects of any kind.
"""
