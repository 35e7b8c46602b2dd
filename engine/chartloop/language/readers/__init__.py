"""Readers: from the shapes of a file to a spec, one reader for each part.

    reader                                 the shared part: places, findings, scopes, names
    settings, declarations, quantities     the settings and the declared values of a machine
    states, jobs, edges, cases, rules      the states, and the edges between them
    withs, saves, schemas                  the fields of actions, and the use of their results
    flow                                   the facts that are known when a state is reached

A reader takes shapes, never text.
"""
