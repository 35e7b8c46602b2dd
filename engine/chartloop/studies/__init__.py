"""Questions to many recorded runs, a folder for each.

    whatif    what they would have done under other limits
    upgrade   which of them may go on with an edited file
    stats     what they have in common

Belongs here: values and what is computed from records by `evolve`. Never: reading (that is
`run.recorded`), printing on a terminal, effects of any kind.
"""
