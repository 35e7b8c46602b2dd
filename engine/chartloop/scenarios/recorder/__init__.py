"""A recorded run as a scenario: what its model said and its tools gave, to be played again.

    made = recording("3kf", journal=journal)     # or a run that is at hand
    made.save("refund.scenario.yaml")

The scenario is made of the records alone, then played, and compared with them decision by decision:
what does not come out as it was recorded is said, with the record where it parts.

    said      what the world said in one record: replies of the model, results of tools
    outside   what came from outside: answers, pauses, cancels, tasks, edits
    scenario  the keys of the scenario
    playing   the scenario played, its requests noted, its decisions compared
    recording puts these together
"""
