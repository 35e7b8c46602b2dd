"""Thousands of runs of a machine on a simulated clock, without effects.

    amounts     how many, how long: numbers that are fixed or drawn
    world       what actions, people and opaque guards come to, with which probability
    world_file  the form of a world file
    assumed     what is taken for granted where no world says it
    learnt      a world from recorded runs
    cases       what may come of something, with its weights
    outcomes    a world and a position to the outcomes that may come
    play        one run: draw an outcome, let `evolve` decide, again
    many        thousands of runs, in one process or several
    result      what came of them
    plots       the same as plots
    saying      its figures in words
    doing       actions without effects are done as they are
    numbers     shares with their confidence, quantiles
    deciding    which facts and texts decide where a run goes
    limits      suggestions for limits

A world says what comes from outside, never which edge is taken: guards are decided by `evolve`, as
in a real run.

Source: design "architecture", section 3 (simulation is `evolve`).
"""
