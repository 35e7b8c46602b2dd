"""Thousands of runs of a machine on a simulated clock, without effects.

    distributions     amounts: numbers that are fixed or drawn
    world             the behaviour of models, tools, people and Python guards, as probabilities
    world_file        the format of world files
    assumptions       the defaults for whatever a world leaves open
    learn             a world from recorded runs
    cases             weighted alternatives, drawn or enumerated
    outcomes          the possible outcomes of an action at a position, in a world
    pure_actions      actions without effects, executed as in a real run
    play              one run: draw an outcome, let `evolve` decide, repeat
    sample            thousands of runs, in one process or several
    simulate          the entry points: a world is read or learnt, then runs are played
    simulation        the result: shares and figures, with their tables
    simulation_plots  the result as plots
    figure_names      names and units of the figures
    statistics        shares with their confidence intervals, quantiles
    dependencies      the facts and texts that decide where a run goes
    limits            suggestions for limits

A world says what comes from outside, never which edge is taken: guards are decided by `evolve`, as
in a real run.

Source: docs/simulation.md; docs/design.md, "A step".
"""
