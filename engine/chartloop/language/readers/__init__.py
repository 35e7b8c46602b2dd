"""From shapes to a spec: one reader for each part of a machine file.

    reader     what all of them share: places, findings, scopes, names
    settings, parts, quantities            what a machine is set up with and counts with
    states, jobs, edges, cases, rules      what it does, and where it goes
    withs, saves, json_schema              what actions are given, and what is kept of them
    flow                                   what is known when a state is reached

A reader takes shapes, never text.
"""
