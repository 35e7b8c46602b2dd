"""A recorded run as a scenario: the replies of its model and results of its tools, for replay.

    made = recording(run, machine, journal=journal)
    made.save("refund.scenario.yaml")

The scenario is made from the records alone, then played and compared with them decision by
decision. The first difference is reported with its record.

    replies        the replies and tool results of one record
    scenario_keys  the keys of the scenario, with the events from outside
    record         the entry point: makes the scenario, plays it, compares
"""
