"""Studies of machines and their runs, one folder or module for each question.

    coverage     which parts of a machine its runs went through
    stats        what recorded runs cost, how long they took and how they ended
    whatif       what recorded runs would have done under other limits or another file
    upgrade      which recorded runs can continue under an edited file
    review       comments on the changes of machines between two commits

Belongs here: values, and results that `evolve` computes from machines and records. Never: effects,
reading a journal (that is `run.recorded`), printing on a terminal.
"""
