"""Tools that compare machines and study their runs: one folder for each question.

    diff         what changed between two machines
    coverage     which parts of a machine its runs went through
    simulation   how often each end is reached, and at what cost, in a made-up world
    stats        what recorded runs have in common
    whatif       what recorded runs would have done under other limits or another file
    upgrade      which recorded runs can continue under an edited file

Belongs here: values, and what is computed from machines and records by `evolve`. Never: effects,
reading a journal (that is `run.recorded`), printing on a terminal.
"""
